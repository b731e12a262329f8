//! The pages of `stats`.
//!
//! Statistics of Memcached that this server cannot have (segments of its LRU, its crawler) are left
//! out; of the slab classes there is one, as `me` says, too. The values are true, but of the whole
//! server: `curr_items` are the keys of database 0 of any type, and memory is that of all
//! databases.
//!
//! Tests: the server's `tests/memcached.rs`.

use std::fmt::Display;

use pantala_base::clock::{monotonic_us, unix_us};
use pantala_commands::families::memcached::Operation::{self, *};
use pantala_commands::families::memcached::{VERSION, operation_of};
use pantala_engine::stats::tallies::{CommandTally, ThreadTally};
use pantala_keyspace::{DbIndex, Tally};
use pantala_memcached::reply;
use pantala_settings::field::EvictionPolicy;

use crate::Operator;
use crate::client::all_lines;
use crate::info;

/// Writes a page with its end; false: there is no such page.
pub(super) fn write_stats(operator: &Operator, what: &[u8], out: &mut Vec<u8>) -> bool {
    let page = &mut Page(out);
    match what {
        b"" => general(operator, page),
        b"settings" => settings(operator, page),
        b"reset" => {
            operator.engine.stats.tallies.reset();
            page.0.extend_from_slice(b"RESET\r\n");
            return true;
        }
        b"sizes" => page.line("sizes_status", "disabled"),
        b"items" => items(operator, page),
        b"slabs" => slabs(operator, page),
        b"conns" => connections(operator, page),
        _ => return false,
    }
    page.0.extend_from_slice(reply::END);
    true
}

struct Page<'o>(&'o mut Vec<u8>);

impl Page<'_> {
    fn line(&mut self, name: &str, value: impl Display) {
        reply::figure(self.0, name, value);
    }
}

/// The counts of what clients of these protocols have asked for.
struct ProtocolCounts<'s>(&'s Operator);

impl ProtocolCounts<'_> {
    /// How often one of these operations ran, except those that met another type.
    fn ran(&self, wanted: &[Operation]) -> u64 {
        let rows = self.0.engine.registry.rows();
        let is_meant = |name: &str| operation_of(name).is_some_and(|one| wanted.contains(&one));
        let meant = rows.iter().enumerate().filter(|(_, row)| is_meant(row.name));
        let ran = |tally: CommandTally| tally.calls.get().saturating_sub(tally.failed.get());
        meant.map(|(number, _)| ran(self.0.engine.stats.tallies.row(number))).sum()
    }

    fn missed(&self, pick: fn(&Tally) -> u64) -> u64 {
        self.0.engine.stats.tallies.sum(|tally| pick(&tally.keys))
    }

    fn hits(&self, kind: &Kind) -> u64 {
        self.ran(kind.operations).saturating_sub(self.missed(kind.misses))
    }

    fn cas_hits(&self) -> u64 {
        let others = self.missed(|tally| tally.item_cas_badval.get());
        let misses = self.missed(|tally| tally.item_cas_misses.get());
        self.ran(&[Cas]).saturating_sub(misses + others)
    }
}

/// A kind of request that hits or misses.
struct Kind {
    name: &'static str,
    operations: &'static [Operation],
    misses: fn(&Tally) -> u64,
}

const KINDS: [Kind; 5] = [
    Kind { name: "get", operations: &[Fetch], misses: |tally| tally.item_fetch_misses.get() },
    Kind { name: "delete", operations: &[Delete], misses: |tally| tally.item_delete_misses.get() },
    Kind { name: "incr", operations: &[Incr], misses: |tally| tally.item_incr_misses.get() },
    Kind { name: "decr", operations: &[Decr], misses: |tally| tally.item_decr_misses.get() },
    Kind {
        name: "touch",
        operations: &[Touch, FetchAndTouch],
        misses: |tally| tally.item_touch_misses.get(),
    },
];

fn general(operator: &Operator, page: &mut Page<'_>) {
    let sum = |pick: fn(&ThreadTally) -> u64| operator.engine.stats.tallies.sum(pick);
    let now = operator.engine.settings.current();
    let up_us = monotonic_us().saturating_sub(operator.run.started_us);
    let [user_s, system_s] = info::cpu_seconds();
    page.line("pid", std::process::id());
    page.line("uptime", up_us / 1_000_000);
    page.line("time", unix_us() / 1_000_000);
    page.line("version", VERSION);
    page.line("pantala_version", env!("CARGO_PKG_VERSION"));
    page.line("pointer_size", usize::BITS);
    page.line("rusage_user", format!("{user_s:.6}"));
    page.line("rusage_system", format!("{system_s:.6}"));
    page.line("max_connections", now.maxclients);
    page.line("curr_connections", operator.workers.room.connection_count());
    page.line("total_connections", sum(|tally| tally.accepted.get()));
    page.line("rejected_connections", sum(|tally| tally.refused.get()));
    operations(&ProtocolCounts(operator), page);
    page.line("bytes_read", sum(|tally| tally.received_bytes.get()));
    page.line("bytes_written", sum(|tally| tally.sent_bytes.get()));
    page.line("limit_maxbytes", now.maxmemory);
    page.line("accepting_conns", 1);
    page.line("threads", now.worker_count());
    page.line("bytes", pantala_memory::allocated());
    page.line("curr_items", item_count(operator));
    page.line("evictions", sum(|tally| tally.keys.evicted.get()));
    page.line("reclaimed", sum(|tally| tally.keys.expired.get()));
}

fn item_count(operator: &Operator) -> u64 {
    operator.engine.space.sizes(DbIndex(0)).map_or(0, |sizes| sizes.keys())
}

fn operations(asked: &ProtocolCounts<'_>, page: &mut Page<'_>) {
    page.line("cmd_get", asked.ran(&[Fetch, FetchAndTouch]));
    page.line("cmd_set", asked.ran(&[Store, Cas]));
    page.line("cmd_flush", asked.ran(&[Flush]));
    page.line("cmd_touch", asked.ran(&[Touch, FetchAndTouch]));
    for kind in &KINDS {
        page.line(&format!("{}_hits", kind.name), asked.hits(kind));
        page.line(&format!("{}_misses", kind.name), asked.missed(kind.misses));
    }
    page.line("cas_misses", asked.missed(|tally| tally.item_cas_misses.get()));
    page.line("cas_hits", asked.cas_hits());
    page.line("cas_badval", asked.missed(|tally| tally.item_cas_badval.get()));
}

/// The page `items`: all items are of one class.
fn items(operator: &Operator, page: &mut Page<'_>) {
    let sum = |pick: fn(&ThreadTally) -> u64| operator.engine.stats.tallies.sum(pick);
    let count = item_count(operator);
    if count > 0 {
        page.line("items:1:number", count);
        page.line("items:1:evicted", sum(|tally| tally.keys.evicted.get()));
        page.line("items:1:reclaimed", sum(|tally| tally.keys.expired.get()));
    }
}

fn slabs(operator: &Operator, page: &mut Page<'_>) {
    let (asked, count) = (ProtocolCounts(operator), item_count(operator));
    if count > 0 {
        page.line("1:used_chunks", count);
        page.line("1:cmd_set", asked.ran(&[Store, Cas]));
        for kind in &KINDS {
            page.line(&format!("1:{}_hits", kind.name), asked.hits(kind));
        }
        page.line("1:cas_hits", asked.cas_hits());
        page.line("1:cas_badval", asked.missed(|tally| tally.item_cas_badval.get()));
    }
    page.line("active_slabs", u64::from(count > 0));
    page.line("total_malloced", pantala_memory::allocated());
}

/// All connections, also of RESP, each under its id in CLIENT LIST.
fn connections(operator: &Operator, page: &mut Page<'_>) {
    for line in all_lines(operator).values() {
        let field = |name: &str| {
            line.split(' ').find_map(|word| word.strip_prefix(name)).unwrap_or_default()
        };
        let id = field("id=");
        let place = |name: &str| {
            let address = field(name);
            if address.starts_with('/') {
                format!("unix:{address}")
            } else {
                format!("tcp:{address}")
            }
        };
        page.line(&format!("{id}:addr"), place("addr="));
        page.line(&format!("{id}:listen_addr"), place("laddr="));
        page.line(&format!("{id}:state"), "conn_read");
        page.line(&format!("{id}:secs_since_last_cmd"), field("idle="));
    }
}

fn settings(operator: &Operator, page: &mut Page<'_>) {
    let now = operator.engine.settings.current();
    let asks_for_password = !operator.engine.acl.users().default_user().is_open();
    let yes_no = |is_so: bool| if is_so { "yes" } else { "no" };
    let evicts = now.maxmemory_policy != EvictionPolicy::NoEviction;
    page.line("maxbytes", now.maxmemory);
    page.line("maxconns", now.maxclients);
    page.line("tcpport", now.memcached_port);
    page.line("udpport", 0);
    page.line("inter", now.bind.join(","));
    page.line("evictions", if evicts { "on" } else { "off" });
    page.line("num_threads", now.worker_count());
    page.line("detail_enabled", "no");
    page.line("cas_enabled", "yes");
    page.line("tcp_backlog", now.tcp_backlog);
    page.line("binding_protocol", "auto-negotiate");
    page.line("auth_enabled_sasl", yes_no(asks_for_password));
    page.line("auth_enabled_ascii", yes_no(asks_for_password));
    page.line("item_size_max", now.memcached_item_size_max);
    page.line("flush_enabled", "yes");
}
