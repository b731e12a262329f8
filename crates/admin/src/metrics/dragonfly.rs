//! Metrics under Dragonfly's names, for dashboards made for it. Those without a counterpart here
//! (fibers, hops, tiering) are left out.

use super::samples::Kind::{self, Counter, Gauge};
use super::samples::Samples;
use super::table::{Metric, Sample};

const fn each(name: &'static str, kind: Kind, each: fn(&Sample<'_>, &mut Samples<'_>)) -> Metric {
    Metric::each(name, kind, "As Dragonfly's.", each)
}

const fn field(name: &'static str, kind: Kind, field: &'static str) -> Metric {
    Metric::field(name, kind, "", field)
}

/// The table of these metrics.
pub(super) const METRICS: &[Metric] = &[
    each("dragonfly_version", Gauge, |sample, samples| {
        samples.labelled(&[("version", sample.facts.version)], 1u64);
    }),
    each("dragonfly_master", Gauge, |sample, samples| {
        samples.value(u8::from(sample.figures.link_is_up.is_none()));
    }),
    field("dragonfly_master_link_status", Gauge, "master_link_status"),
    field("dragonfly_master_last_io_seconds_ago", Gauge, "master_last_io_seconds_ago"),
    field("dragonfly_master_sync_in_progress", Gauge, "master_sync_in_progress"),
    field("dragonfly_slave_repl_offset", Gauge, "slave_repl_offset"),
    each("dragonfly_uptime_in_seconds", Counter, |sample, samples| {
        samples.value(sample.facts.uptime_s);
    }),
    each("dragonfly_max_clients", Gauge, |sample, samples| {
        samples.value(sample.engine.settings.current().maxclients);
    }),
    each("dragonfly_connected_clients", Gauge, |sample, samples| {
        samples.labelled(&[("listener", "main")], sample.figures.clients);
    }),
    field("dragonfly_blocked_clients", Gauge, "blocked_clients"),
    each("dragonfly_connection_memory_bytes", Gauge, |sample, samples| {
        samples.value(sample.sum(|tally| tally.client_bytes.get()));
    }),
    each("dragonfly_connections_received_total", Counter, |sample, samples| {
        samples.value(sample.sum(|tally| tally.accepted.get()));
    }),
    each("dragonfly_listener_accept_error_total", Counter, |sample, samples| {
        let refused = sample.sum(|tally| tally.refused.get());
        samples.labelled(&[("reason", "limit_reached")], refused);
    }),
    each("dragonfly_memory_used_bytes", Gauge, |sample, samples| {
        samples.value(sample.figures.memory.used);
    }),
    each("dragonfly_memory_used_peak_bytes", Gauge, |sample, samples| {
        samples.value(sample.figures.memory.peak);
    }),
    each("dragonfly_memory_max_bytes", Gauge, |sample, samples| {
        samples.value(sample.figures.memory.most);
    }),
    each("dragonfly_used_memory_rss_bytes", Gauge, |sample, samples| {
        samples.value(sample.figures.memory.rss);
    }),
    field("dragonfly_used_memory_lua", Gauge, "used_memory_lua"),
    each("dragonfly_net_input_bytes_total", Counter, |sample, samples| {
        samples.value(sample.sum(|tally| tally.received_bytes.get()));
    }),
    each("dragonfly_net_input_recv_total", Counter, |sample, samples| {
        samples.value(sample.sum(|tally| tally.reads.get()));
    }),
    each("dragonfly_net_output_bytes_total", Counter, |sample, samples| {
        samples.value(sample.sum(|tally| tally.sent_bytes.get()));
    }),
    each("dragonfly_reply_total", Counter, |sample, samples| {
        samples.value(sample.sum(|tally| tally.writes.get()));
    }),
    each("dragonfly_commands_processed_total", Counter, |sample, samples| {
        let calls = sample.number("total_commands_processed").unwrap_or(0.0);
        samples.labelled(&[("listener", "main")], calls);
    }),
    each("dragonfly_commands_total", Counter, |sample, samples| {
        commands(sample, samples, |calls, _| calls);
    }),
    each("dragonfly_commands_duration_seconds", Counter, |sample, samples| {
        commands(sample, samples, |_, seconds| seconds);
    }),
    each("dragonfly_keyspace_hits_total", Counter, |sample, samples| {
        samples.labelled(&[("db", "db0")], sample.sum(|tally| tally.keys.hits.get()));
    }),
    each("dragonfly_keyspace_misses_total", Counter, |sample, samples| {
        samples.labelled(&[("db", "db0")], sample.sum(|tally| tally.keys.misses.get()));
    }),
    each("dragonfly_expired_keys_total", Counter, |sample, samples| {
        samples.labelled(&[("db", "db0")], sample.sum(|tally| tally.keys.expired.get()));
    }),
    each("dragonfly_evicted_keys_total", Counter, |sample, samples| {
        samples.labelled(&[("db", "db0")], sample.sum(|tally| tally.keys.evicted.get()));
    }),
    each("dragonfly_db_keys", Gauge, |sample, samples| databases(sample, samples, false)),
    each("dragonfly_db_keys_expiring", Gauge, |sample, samples| databases(sample, samples, true)),
    field("dragonfly_swap_memory_bytes", Gauge, "used_memory_swap"),
];

fn databases(sample: &Sample<'_>, samples: &mut Samples<'_>, with_deadline: bool) {
    super::ours::each_database(sample, with_deadline, |db, count| {
        samples.labelled(&[("db", &format!("db{db}"))], count);
    });
}

fn commands(
    sample: &Sample<'_>,
    samples: &mut Samples<'_>,
    pick: fn(calls: f64, seconds: f64) -> f64,
) {
    super::ours::each_command(sample, |name, calls, nanoseconds, _, _| {
        let value = pick(calls as f64, nanoseconds as f64 / 1e9);
        samples.labelled(&[("cmd", &name.to_uppercase())], value);
    });
}
