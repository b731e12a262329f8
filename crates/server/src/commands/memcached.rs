//! Commands of Memcached's protocols that are about the server: `stats`, `flush_all`,
//! `cache_memlimit`, and the password.
//!
//! A figure that Memcached has and this server cannot have (slabs, segments of its LRU, its
//! crawler) is left out. What is told is true, though of the whole server: `curr_items` are the
//! keys of database 0 of any type, and memory is that of all databases.
//!
//! Tests: the server's `tests/memcached.rs`.

use std::fmt::Display;
use std::time::Duration;

use pantala_base::clock::{monotonic_us, unix_us};
use pantala_commands::families::memcached::{Operation, VERSION, is_answered, operation_of};
use pantala_commands::{Call, Command, Done, Flags, Group, Handler, Stop};
use pantala_engine::stats::tallies::{CommandTally, ThreadTally};
use pantala_keyspace::{DbIndex, Tally};
use pantala_memcached::binary::reply::Failure;
use pantala_memcached::binary::{self, Parts, Request};
use pantala_memcached::{number, reply, sasl};
use pantala_settings::Caller;

use super::client::authenticate;
use crate::process::flushing;
use crate::shared::Shared;

/// The rows of this family.
pub const ROWS: &[Command] = &[
    of_server("mc.stats", stats)
        .allowed_as("INFO")
        .syntax("what")
        .summary("Returns figures of the server."),
    Command::write("mc.flush_all", flush_all, Group::Memcached)
        .arity(-2)
        .allowed_as("FLUSHDB")
        .flags(Flags::LANE.and(Flags::OUTSIDE).and(Flags::WHOLE))
        .syntax("delay [words]")
        .summary("Removes all keys of database 0, at once or later."),
    of_server("mc.cache_memlimit", cache_memlimit)
        .allowed_as("CONFIG|SET")
        .syntax("megabytes [words]")
        .summary("Sets maxmemory."),
    Command::new("mc.auth", auth, Group::Memcached)
        .arity(-5)
        .secrets(|_, position| position == 2)
        .allowed_as("AUTH")
        .flags(Flags::FAST.and(Flags::NO_AUTH).and(Flags::LOADING).and(Flags::STALE))
        .syntax("key data flags exptime [words]")
        .summary("Authenticates the connection."),
    of_server("mc.b.stats", binary_stats)
        .allowed_as("INFO")
        .syntax("what header")
        .summary("Returns figures of the server."),
    Command::write("mc.b.flush", binary_flush, Group::Memcached)
        .arity(-3)
        .allowed_as("FLUSHDB")
        .flags(Flags::LANE.and(Flags::OUTSIDE).and(Flags::WHOLE))
        .syntax("none header")
        .summary("Removes all keys of database 0, at once or later."),
    Command::new("mc.b.auth", binary_auth, Group::Memcached)
        .arity(-4)
        .secrets(|_, position| position == 3)
        .allowed_as("AUTH")
        .flags(Flags::FAST.and(Flags::NO_AUTH).and(Flags::LOADING).and(Flags::STALE))
        .syntax("mechanism header data")
        .summary("Authenticates the connection."),
];

const fn of_server(name: &'static str, handler: Handler) -> Command {
    Command::new(name, handler, Group::Memcached)
        .arity(-2)
        .flags(Flags::LANE.and(Flags::OPERATOR).and(Flags::LOADING).and(Flags::STALE))
}

/// The least that `cache_memlimit` takes, in megabytes.
const LEAST_MEGABYTES: u64 = 8;
const TOO_SMALL: &[u8] = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
const AUTH_FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";

/// `flush_all delay`: database 0 becomes empty, at once or later.
fn flush_all(call: &mut Call<'_, '_>) -> Done {
    let delay_s = number::signed(call.args[1]).unwrap_or_default();
    let text = if flush(call, delay_s)? { reply::OK } else { reply::OUT_OF_MEMORY };
    answer(call, text);
    Ok(())
}

/// Whether that can be done.
fn flush(call: &mut Call<'_, '_>, delay_s: i64) -> Result<bool, Stop> {
    let shared = Shared::of(call);
    match u64::try_from(delay_s) {
        Ok(delay_s) if delay_s > 0 => {
            return Ok(flushing::flush_in(shared, Duration::from_secs(delay_s)).is_ok());
        }
        _ => {
            shared.delayed_flush.cancel();
            let db = DbIndex(0);
            let keys = call.space().sizes(db).map_or(0, |sizes| sizes.keys());
            let garbage = call.keys.flush(Some(db))?;
            let tally = call.keys.scope().tally;
            tally.more_changes.add(keys);
            call.space().dispose(garbage, true, tally);
        }
    }
    Ok(true)
}

/// FLUSH of the binary protocol.
fn binary_flush(call: &mut Call<'_, '_>) -> Done {
    let Some(request) = Parts::request(call.args[2], b"", b"") else { return Ok(()) };
    let Request { asked, is_quiet, command: binary::Command::Flush { delay_s } } = request else {
        return Ok(());
    };
    if !flush(call, delay_s)? {
        binary::reply::failure(call.reply.output(), asked, Failure::OutOfMemory);
    } else if !is_quiet {
        binary::reply::done(call.reply.output(), asked, 0);
    }
    Ok(())
}

/// SASL AUTH and SASL STEP: PLAIN, with the name of the user and the password.
fn binary_auth(call: &mut Call<'_, '_>) -> Done {
    let Some(asked) = Parts::asked(call.args[2]) else { return Ok(()) };
    let (mechanism, data) = (call.args[1], call.args[3]);
    let is_plain = mechanism == sasl::MECHANISMS.as_bytes();
    if is_plain && data.is_empty() {
        binary::reply::more_wanted(call.reply.output(), asked);
        return Ok(());
    }
    let said = sasl::plain(data).filter(|_| is_plain);
    let fits = said.is_some_and(|said| authenticate(call, said.user, said.password).is_ok());
    let out = call.reply.output();
    match fits {
        true => binary::reply::text(out, asked, sasl::AUTHENTICATED),
        false => binary::reply::failure(out, asked, Failure::Unauthenticated),
    }
    Ok(())
}

/// STAT: the figures of `stats`, each in a reply of its own.
fn binary_stats(call: &mut Call<'_, '_>) -> Done {
    let Some(asked) = Parts::asked(call.args[2]) else { return Ok(()) };
    let mut lines = Vec::new();
    let is_known = write_stats(Shared::of(call), call.args[1], &mut lines);
    let out = call.reply.output();
    if !is_known {
        binary::reply::failure(out, asked, Failure::NotFound);
        return Ok(());
    }
    for line in String::from_utf8_lossy(&lines).lines() {
        let figure = line.strip_prefix("STAT ").and_then(|line| line.split_once(' '));
        if let Some((name, value)) = figure {
            binary::reply::figure(out, asked, name, value);
        }
    }
    binary::reply::figure(out, asked, "", "");
    Ok(())
}

/// `cache_memlimit megabytes`: what `CONFIG SET maxmemory` does.
fn cache_memlimit(call: &mut Call<'_, '_>) -> Done {
    let megabytes = number::unsigned(call.args[1]).unwrap_or_default();
    if megabytes < LEAST_MEGABYTES {
        answer(call, TOO_SMALL);
        return Ok(());
    }
    let bytes = megabytes.saturating_mul(1 << 20).to_string();
    super::config::apply(Shared::of(call), &[(b"maxmemory", bytes.as_bytes())], Caller::Remote)?;
    answer(call, reply::OK);
    Ok(())
}

/// `set any 0 0 12` and `default password`: the name of the user and the password, as memcached's
/// option `-Y` has it.
fn auth(call: &mut Call<'_, '_>) -> Done {
    let data = call.args[2];
    let blank = data.iter().position(|byte| *byte == b' ').unwrap_or(data.len());
    let (user, password) = (&data[..blank], data.get(blank + 1..).unwrap_or_default());
    let fits = authenticate(call, user, password).is_ok();
    call.reply.raw(if fits { reply::STORED } else { AUTH_FAILED });
    Ok(())
}

fn stats(call: &mut Call<'_, '_>) -> Done {
    let shared = Shared::of(call);
    let out = call.reply.output();
    if !write_stats(shared, call.args[1], out) {
        out.extend_from_slice(b"ERROR\r\n");
    }
    Ok(())
}

/// Writes a page of figures with its end; false: there is no such page.
fn write_stats(shared: &Shared, what: &[u8], out: &mut Vec<u8>) -> bool {
    let page = &mut Page(out);
    match what {
        b"" => general(shared, page),
        b"settings" => settings(shared, page),
        b"reset" => {
            shared.engine.stats.tallies.reset();
            page.0.extend_from_slice(b"RESET\r\n");
            return true;
        }
        b"sizes" => page.line("sizes_status", "disabled"),
        // There are none.
        b"items" | b"slabs" | b"conns" => {}
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

fn general(shared: &Shared, page: &mut Page<'_>) {
    let sum = |pick: fn(&ThreadTally) -> u64| shared.engine.stats.tallies.sum(pick);
    let now = shared.engine.settings.current();
    let up_us = monotonic_us().saturating_sub(shared.run.started_us);
    let [user_s, system_s] = super::info::cpu_seconds();
    page.line("pid", std::process::id());
    page.line("uptime", up_us / 1_000_000);
    page.line("time", unix_us() / 1_000_000);
    page.line("version", VERSION);
    page.line("pantala_version", env!("CARGO_PKG_VERSION"));
    page.line("pointer_size", usize::BITS);
    page.line("rusage_user", format!("{user_s:.6}"));
    page.line("rusage_system", format!("{system_s:.6}"));
    page.line("max_connections", now.maxclients);
    page.line("curr_connections", shared.workers.connection_count());
    page.line("total_connections", sum(|tally| tally.accepted.get()));
    page.line("rejected_connections", sum(|tally| tally.refused.get()));
    operations(shared, page);
    page.line("bytes_read", sum(|tally| tally.received_bytes.get()));
    page.line("bytes_written", sum(|tally| tally.sent_bytes.get()));
    page.line("limit_maxbytes", now.maxmemory);
    page.line("accepting_conns", 1);
    page.line("threads", now.worker_count());
    page.line("bytes", pantala_memory::allocated());
    let items = shared.engine.space.sizes(DbIndex(0)).map_or(0, |sizes| sizes.keys());
    page.line("curr_items", items);
    page.line("evictions", sum(|tally| tally.keys.evicted.get()));
    page.line("reclaimed", sum(|tally| tally.keys.expired.get()));
}

/// What clients of these protocols have asked for.
fn operations(shared: &Shared, page: &mut Page<'_>) {
    let tallies = &shared.engine.stats.tallies;
    let rows = shared.engine.registry.rows();
    // How often one of these ran, but for those that met another type.
    let count = |wanted: &[Operation]| {
        let is_meant = |name: &str| operation_of(name).is_some_and(|one| wanted.contains(&one));
        let meant = rows.iter().enumerate().filter(|(_, row)| is_meant(row.name));
        let ran = |tally: CommandTally| tally.calls.get().saturating_sub(tally.failed.get());
        meant.map(|(number, _)| ran(tallies.row(number))).sum::<u64>()
    };
    let missed = |pick: fn(&Tally) -> u64| tallies.sum(|tally| pick(&tally.keys));
    use Operation::{Cas, Decr, Delete, Fetch, FetchAndTouch, Flush, Incr, Store, Touch};
    page.line("cmd_get", count(&[Fetch, FetchAndTouch]));
    page.line("cmd_set", count(&[Store, Cas]));
    page.line("cmd_flush", count(&[Flush]));
    page.line("cmd_touch", count(&[Touch, FetchAndTouch]));
    let mut line = |name: &str, operations: &[Operation], misses: fn(&Tally) -> u64| {
        let misses = missed(misses);
        page.line(&format!("{name}_hits"), count(operations).saturating_sub(misses));
        page.line(&format!("{name}_misses"), misses);
    };
    line("get", &[Fetch], |tally| tally.item_fetch_misses.get());
    line("delete", &[Delete], |tally| tally.item_delete_misses.get());
    line("incr", &[Incr], |tally| tally.item_incr_misses.get());
    line("decr", &[Decr], |tally| tally.item_decr_misses.get());
    line("touch", &[Touch, FetchAndTouch], |tally| tally.item_touch_misses.get());
    let misses = missed(|tally| tally.item_cas_misses.get());
    let others = missed(|tally| tally.item_cas_badval.get());
    page.line("cas_misses", misses);
    page.line("cas_hits", count(&[Cas]).saturating_sub(misses + others));
    page.line("cas_badval", others);
}

fn settings(shared: &Shared, page: &mut Page<'_>) {
    let now = shared.engine.settings.current();
    let asks_for_password = !shared.engine.acl.users().default_user().is_open();
    let yes_no = |is_so: bool| if is_so { "yes" } else { "no" };
    page.line("maxbytes", now.maxmemory);
    page.line("maxconns", now.maxclients);
    page.line("tcpport", now.memcached_port);
    page.line("udpport", 0);
    page.line("inter", now.bind.join(","));
    page.line("num_threads", now.worker_count());
    page.line("cas_enabled", "yes");
    page.line("tcp_backlog", now.tcp_backlog);
    page.line("auth_enabled_ascii", yes_no(asks_for_password));
    page.line("item_size_max", now.memcached_item_size_max);
    page.line("flush_enabled", "yes");
}

fn answer(call: &mut Call<'_, '_>, text: &[u8]) {
    if is_answered(call.args) {
        call.reply.raw(text);
    }
}
