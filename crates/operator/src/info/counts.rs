//! The sections of INFO with counters.

use pantala_acl::Reason;
use pantala_base::clock::monotonic_us;
use pantala_base::rng::Rng;
use pantala_keyspace::DbIndex;

use std::sync::atomic::Ordering;

use super::Page;
use crate::Operator;
use crate::parts::rates::RATES;
use pantala_engine::pubsub::Kind;
use pantala_engine::stats::info_table::InfoValue;
use pantala_engine::stats::tallies::ThreadTally;

/// Ticks a second of the times in /proc: the kernel uses the same value on every machine.
const TICKS_PER_S: f64 = 100.0;

pub(super) fn stats(operator: &Operator, page: &mut Page) {
    let sum = |pick: fn(&ThreadTally) -> u64| operator.engine.stats.tallies.sum(pick);
    let rates = rates(operator);
    page.line("total_connections_received", sum(|tally| tally.accepted.get()));
    page.line("total_commands_processed", sum(calls));
    page.line("instantaneous_ops_per_sec", rates[0] as u64);
    page.line("total_net_input_bytes", sum(|tally| tally.received_bytes.get()));
    page.line("total_net_output_bytes", sum(|tally| tally.sent_bytes.get()));
    let replicas = &operator.replication.primary.counts;
    page.line("total_net_repl_input_bytes", 0);
    page.line("total_net_repl_output_bytes", replicas.sent_bytes.get());
    page.line("total_net_cluster_slot_import_bytes", 0);
    page.line("total_net_cluster_slot_export_bytes", 0);
    page.line("instantaneous_input_kbps", InfoValue::Real(rates[1] / 1024.0, 2));
    page.line("instantaneous_output_kbps", InfoValue::Real(rates[2] / 1024.0, 2));
    let none = InfoValue::Real(0.0, 2);
    page.each(&["instantaneous_input_repl_kbps", "instantaneous_output_repl_kbps"], none);
    page.line("rejected_connections", sum(|tally| tally.refused.get()));
    page.line("sync_full", replicas.full.get());
    page.line("sync_partial_ok", replicas.partial.get());
    page.line("sync_partial_err", replicas.refused.get());
    page.line("expired_keys", sum(|tally| tally.keys.expired.get()));
    page.line("expired_fields", sum(|tally| tally.keys.expired_elements.get()));
    let stale = sum(|tally| tally.expired_share_ppm.get()) as f64 / 10_000.0;
    page.line("expired_stale_perc", InfoValue::Real(stale, 2));
    page.line("expired_keys_with_volatile_items_stale_perc", InfoValue::Real(0.0, 2));
    page.line("expired_time_cap_reached_count", 0);
    page.line("expire_cycle_cpu_milliseconds", sum(|tally| tally.expire_cycle_us.get()) / 1000);
    page.line("evicted_keys", sum(|tally| tally.keys.evicted.get()));
    page.line("evicted_clients", sum(|tally| tally.evicted_clients.get()));
    page.line("evicted_scripts", operator.engine.scripts.counts().2);
    let (total, current) = operator.engine.condition.exceeded.total_and_current_ms(monotonic_us());
    page.line("total_eviction_exceeded_time", total);
    page.line("current_eviction_exceeded_time", current);
    page.line("keyspace_hits", sum(|tally| tally.keys.hits.get()));
    page.line("keyspace_misses", sum(|tally| tally.keys.misses.get()));
    page.line("pubsub_channels", operator.engine.notices.pubsub.count(Kind::Channel));
    page.line("pubsub_patterns", operator.engine.notices.pubsub.count(Kind::Pattern));
    page.line("pubsubshard_channels", operator.engine.notices.pubsub.count(Kind::SlotChannel));
    page.each(&["latest_fork_usec", "total_forks"], 0);
    page.line(
        "migrate_cached_sockets",
        operator.process().map_or(0, |process| process.cached_links()),
    );
    page.line("slave_expires_tracked_keys", 0);
    defragmentation(operator, page);
    let tracked = operator.engine.space.tracked();
    page.line("tracking_total_keys", tracked.keys.load(Ordering::Relaxed));
    page.line("tracking_total_items", tracked.readers.load(Ordering::Relaxed));
    page.line("tracking_total_prefixes", operator.engine.notices.trackers.prefix_count());
    page.line("unexpected_error_replies", sum(|tally| tally.unexpected_errors.get()));
    page.line("total_error_replies", sum(|tally| tally.errors.get()));
    page.line("dump_payload_sanitizations", 0);
    connections(operator, page, (rates[3], rates[4]));
}

fn defragmentation(operator: &Operator, page: &mut Page) {
    let sum = |pick: fn(&ThreadTally) -> u64| operator.engine.stats.tallies.sum(pick);
    page.line("active_defrag_hits", sum(|tally| tally.blocks_moved.get()));
    page.line("active_defrag_misses", sum(|tally| tally.blocks_left.get()));
    page.line("active_defrag_key_hits", sum(|tally| tally.keys_moved.get()));
    page.line("active_defrag_key_misses", sum(|tally| tally.keys_left.get()));
    let since_us = sum(|tally| tally.defrag_since_us.get());
    let now_us = if since_us > 0 { monotonic_us().saturating_sub(since_us) } else { 0 };
    let total_us = sum(|tally| tally.defrag_us.get()) + now_us;
    page.line("total_active_defrag_time", total_us / 1000);
    page.line("current_active_defrag_time", now_us / 1000);
}

fn connections(operator: &Operator, page: &mut Page, (turns_per_s, busy_per_s): (f64, f64)) {
    let sum = |pick: fn(&ThreadTally) -> u64| operator.engine.stats.tallies.sum(pick);
    page.line("total_reads_processed", sum(|tally| tally.reads.get()));
    page.line("total_writes_processed", sum(|tally| tally.writes.get()));
    page.each(&["io_threaded_reads_processed", "io_threaded_writes_processed"], 0);
    page.each(&["io_threaded_freed_objects", "io_threaded_accept_processed"], 0);
    page.each(&["io_threaded_poll_processed", "io_threaded_total_prefetch_batches"], 0);
    page.line("io_threaded_total_prefetch_entries", 0);
    let (input, output) =
        (sum(|tally| tally.input_limit.get()), sum(|tally| tally.output_limit.get()));
    page.line("client_query_buffer_limit_disconnections", input);
    page.line("client_output_buffer_limit_disconnections", output);
    page.each(&["reply_buffer_shrinks", "reply_buffer_expands"], 0);
    page.line("eventloop_cycles", sum(|tally| tally.turns.get()));
    let busy_us = sum(nanoseconds) / 1000;
    page.each(&["eventloop_duration_sum", "eventloop_duration_cmd_sum"], busy_us);
    page.line("instantaneous_eventloop_cycles_per_sec", turns_per_s as u64);
    let turn_us = if turns_per_s > 0.0 { (busy_per_s / turns_per_s / 1e3).ceil() } else { 0.0 };
    page.line("instantaneous_eventloop_duration_usec", turn_us as u64);
    for (reason, _, name) in Reason::ALL {
        page.line(format!("acl_access_denied_{name}"), operator.engine.acl.log.count(reason));
    }
}

/// The commands that a thread has run.
pub fn calls(tally: &ThreadTally) -> u64 {
    tally.commands.iter().map(|row| row.calls.get()).fold(0, u64::wrapping_add)
}

fn nanoseconds(tally: &ThreadTally) -> u64 {
    tally.commands.iter().map(|row| row.nanoseconds.get()).fold(0, u64::wrapping_add)
}

/// Figures about turns of the event loops. Workers write no files, and the sweep has its own
/// thread.
pub(super) fn debug(operator: &Operator, page: &mut Page) {
    let tallies = &operator.engine.stats.tallies;
    page.line("eventloop_duration_aof_sum", 0);
    page.line("eventloop_duration_cron_sum", tallies.sum(|tally| tally.expire_cycle_us.get()));
    page.line("eventloop_duration_max", tallies.most(|tally| tally.longest_turn_us.get()));
    page.line("eventloop_cmd_per_cycle_max", tallies.most(|tally| tally.most_in_turn.get()));
    page.each(&["io_threaded_reads_pending", "io_threaded_writes_pending"], 0);
}

/// Commands, bytes in, bytes out, turns, and nanoseconds in commands, per second since the previous
/// INFO.
fn rates(operator: &Operator) -> [f64; RATES] {
    let ever = |pick: fn(&ThreadTally) -> u64| operator.engine.stats.tallies.sum_ever(pick);
    let counts = [
        ever(calls),
        ever(|tally| tally.received_bytes.get()),
        ever(|tally| tally.sent_bytes.get()),
        ever(|tally| tally.turns.get()),
        ever(nanoseconds),
    ];
    let up_us = monotonic_us().saturating_sub(operator.run.started_us);
    operator.rates.lock().sample(up_us, counts)
}

/// The CPU seconds of the process, in user mode and in the kernel.
pub fn cpu_seconds() -> [f64; 2] {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let [user, system, ..] = times(&text);
    [user, system]
}

pub(super) fn cpu(_: &Operator, page: &mut Page) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let [user, system, of_children, system_of_children] = times(&text);
    let pid = std::process::id();
    let first = std::fs::read_to_string(format!("/proc/self/task/{pid}/stat")).unwrap_or_default();
    let [first_user, first_system, ..] = times(&first);
    page.line("used_cpu_sys", InfoValue::Real(system, 6));
    page.line("used_cpu_user", InfoValue::Real(user, 6));
    page.line("used_cpu_sys_children", InfoValue::Real(system_of_children, 6));
    page.line("used_cpu_user_children", InfoValue::Real(of_children, 6));
    page.line("used_cpu_sys_main_thread", InfoValue::Real(first_system, 6));
    page.line("used_cpu_user_main_thread", InfoValue::Real(first_user, 6));
    page.line("used_active_time_main_thread", InfoValue::Real(first_user + first_system, 6));
}

/// Seconds in user mode, in the kernel, and both of ended children.
fn times(stat: &str) -> [f64; 4] {
    // The process name, in parentheses, may contain anything: fields are counted from after it.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_ascii_whitespace().skip(11);
    std::array::from_fn(|_| {
        let ticks: f64 = fields.next().and_then(|field| field.parse().ok()).unwrap_or(0.0);
        ticks / TICKS_PER_S
    })
}

pub(super) fn commands(operator: &Operator, page: &mut Page) {
    for (number, row) in operator.engine.registry.rows().iter().enumerate() {
        let totals = operator.engine.stats.tallies.row(number);
        let (calls, nanoseconds) = (totals.calls.get(), totals.nanoseconds.get());
        let (rejected, failed) = (totals.rejected.get(), totals.failed.get());
        if calls == 0 && rejected == 0 && failed == 0 {
            continue;
        }
        let microseconds = nanoseconds / 1000;
        let per_call = nanoseconds as f64 / 1000.0 / (calls.max(1) as f64);
        page.line(
            format!("cmdstat_{}", row.full_name()),
            InfoValue::parts([
                ("calls", calls.into()),
                ("usec", microseconds.into()),
                ("usec_per_call", InfoValue::Real(per_call, 2)),
                ("rejected_calls", rejected.into()),
                ("failed_calls", failed.into()),
            ]),
        );
    }
}

pub(super) fn errors(operator: &Operator, page: &mut Page) {
    for (code, count) in operator.engine.stats.errors.all() {
        let count = InfoValue::parts([("count", count.into())]);
        page.line(format!("errorstat_{code}"), count);
    }
}

pub(super) fn latencies(operator: &Operator, page: &mut Page) {
    let settings = operator.engine.settings.current();
    if !settings.latency_tracking {
        return;
    }
    for (number, row) in operator.engine.registry.rows().iter().enumerate() {
        let totals = operator.engine.stats.tallies.row(number);
        if totals.times.total() == 0 {
            continue;
        }
        let percentiles = settings.latency_tracking_info_percentiles.0.iter();
        let shown = percentiles
            .map(|&percent| {
                let us = totals.times.percentile_ns(percent) as f64 / 1000.0;
                (format!("p{percent}").into(), InfoValue::Real(us, 3))
            })
            .collect();
        let name = format!("latency_percentiles_usec_{}", row.full_name());
        page.line(name, InfoValue::Parts(shown));
    }
}

pub(super) fn keyspace(operator: &Operator, page: &mut Page) {
    let mut random = Rng::random();
    for db in (0..operator.engine.space.database_count()).map(DbIndex) {
        let Some(sizes) = operator.engine.space.sizes(db) else { continue };
        let (keys, expires) = (sizes.keys(), sizes.with_deadline());
        let timed = sizes.with_timed_elements();
        if keys == 0 {
            continue;
        }
        let ttl_ms = operator.engine.space.mean_ttl_ms(db, page.now, &mut random);
        page.line(
            format!("db{}", db.0),
            InfoValue::parts([
                ("keys", keys.into()),
                ("expires", expires.into()),
                ("avg_ttl", ttl_ms.into()),
                ("keys_with_volatile_items", timed.into()),
            ]),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_name() {
        let stat = "77 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 25 300 4 20 0";
        assert_eq!(times(stat), [1.5, 0.25, 3.0, 0.04]);
        assert_eq!(times(""), [0.0; 4]);
    }
}
