//! Metrics under our names: base units, `_total` on counters, one name for each thing.
//! docs/metrics.md is this table.

use std::sync::atomic::Ordering;

use pantala_acl::Reason;
use pantala_engine::pubsub;
use pantala_engine::stats::info_table::InfoValue;
use pantala_keyspace::DbIndex;

use super::samples::Kind::{Counter, Gauge, Histogram};
use super::samples::Samples;
use super::table::{Metric, Sample};
use crate::host::WorkerFigures;

/// The table of these metrics.
pub(super) const METRICS: &[Metric] = &[
    Metric::each(
        "pantala_build_info",
        Gauge,
        "1; its labels tell what runs.",
        |sample, samples| {
            let labels =
                [("version", sample.facts.version), ("event_loop", &sample.facts.event_loop)];
            samples.labelled(&labels, 1u64);
        },
    ),
    Metric::each(
        "pantala_start_time_seconds",
        Gauge,
        "When the server started, Unix time.",
        |sample, samples| samples.value(sample.facts.started_unix_ms as f64 / 1e3),
    ),
    Metric::each("pantala_uptime_seconds", Gauge, "Time since the start.", |sample, samples| {
        samples.value(sample.facts.uptime_s);
    }),
    // Memory.
    Metric::each(
        "pantala_memory_used_bytes",
        Gauge,
        "Memory given out by the allocator; maxmemory is compared with it.",
        |sample, samples| samples.value(sample.figures.memory.used),
    ),
    Metric::each("pantala_memory_rss_bytes", Gauge, "Resident memory.", |sample, samples| {
        samples.value(sample.figures.memory.rss);
    }),
    Metric::each(
        "pantala_memory_max_bytes",
        Gauge,
        "The limit in force; 0: there is none.",
        |sample, samples| samples.value(sample.figures.memory.most),
    ),
    Metric::each(
        "pantala_memory_peak_bytes",
        Gauge,
        "The most that was in use since the start.",
        |sample, samples| samples.value(sample.figures.memory.peak),
    ),
    Metric::each(
        "pantala_memory_not_counted_bytes",
        Gauge,
        "What is not compared with maxmemory: on its way to files.",
        |sample, samples| samples.value(sample.figures.memory.not_counted),
    ),
    // Keys.
    Metric::each("pantala_keys", Gauge, "Keys of a database.", |sample, samples| {
        databases(sample, samples, false);
    }),
    Metric::each("pantala_keys_with_deadline", Gauge, "Keys that expire.", |sample, samples| {
        databases(sample, samples, true);
    }),
    Metric::each(
        "pantala_key_hits_total",
        Counter,
        "Reads that found their key.",
        |sample, samples| {
            samples.value(sample.sum(|tally| tally.keys.hits.get()));
        },
    ),
    Metric::each(
        "pantala_key_misses_total",
        Counter,
        "Reads that found none.",
        |sample, samples| {
            samples.value(sample.sum(|tally| tally.keys.misses.get()));
        },
    ),
    Metric::each(
        "pantala_expired_keys_total",
        Counter,
        "Keys that have expired.",
        |sample, samples| {
            samples.value(sample.sum(|tally| tally.keys.expired.get()));
        },
    ),
    Metric::each(
        "pantala_expired_elements_total",
        Counter,
        "Fields and members that have expired.",
        |sample, samples| samples.value(sample.sum(|tally| tally.keys.expired_elements.get())),
    ),
    Metric::each("pantala_evicted_keys_total", Counter, "Keys evicted.", |sample, samples| {
        samples.value(sample.sum(|tally| tally.keys.evicted.get()));
    }),
    // Commands.
    Metric::each("pantala_commands_total", Counter, "Calls of a command.", |sample, samples| {
        each_command(sample, |name, calls, _, _, _| samples.labelled(&[("command", name)], calls));
    }),
    Metric::each(
        "pantala_command_seconds_total",
        Counter,
        "Time in a command.",
        |sample, samples| {
            each_command(sample, |name, _, nanoseconds, _, _| {
                samples.labelled(&[("command", name)], nanoseconds as f64 / 1e9);
            });
        },
    ),
    Metric::each(
        "pantala_command_errors_total",
        Counter,
        "Calls of a command that were refused before they ran, or failed.",
        |sample, samples| {
            each_command(sample, |name, _, _, rejected, failed| {
                for (how, count) in [("rejected", rejected), ("failed", failed)] {
                    if count > 0 {
                        samples.labelled(&[("command", name), ("how", how)], count);
                    }
                }
            });
        },
    ),
    Metric::each(
        "pantala_command_duration_seconds",
        Histogram,
        "Duration of the commands of a family, without waiting.",
        |sample, samples| {
            let families = sample.engine.stats.tallies.families(&sample.engine.registry);
            for family in families.iter().filter(|family| family.calls > 0) {
                let buckets = family.times.counts().map(|(us, count)| (us / 1e6, count));
                let labels = [("family", family.group.name())];
                samples.histogram(&labels, buckets, family.nanoseconds as f64 / 1e9);
            }
        },
    ),
    Metric::each(
        "pantala_errors_total",
        Counter,
        "Error replies by their code.",
        |sample, samples| {
            for (code, count) in sample.engine.stats.errors.all() {
                samples.labelled(&[("code", &code)], count);
            }
        },
    ),
    Metric::each(
        "pantala_unexpected_errors_total",
        Counter,
        "Commands of a primary or an append-only file that have failed here, and faults of ours.",
        |sample, samples| samples.value(sample.sum(|tally| tally.unexpected_errors.get())),
    ),
    Metric::each(
        "pantala_otlp_exports_total",
        Counter,
        "Requests to the collector of `otlp_endpoint`, by outcome.",
        |sample, samples| {
            let telemetry = &sample.engine.stats.telemetry;
            for (outcome, count) in [("ok", &telemetry.exported), ("failed", &telemetry.failed)] {
                samples.labelled(&[("outcome", outcome)], count.load(Ordering::Relaxed));
            }
        },
    ),
    Metric::each(
        "pantala_otlp_spans_dropped_total",
        Counter,
        "Spans that were not exported: too many, or not taken.",
        |sample, samples| {
            samples.value(sample.engine.stats.telemetry.dropped.load(Ordering::Relaxed));
        },
    ),
    Metric::each(
        "pantala_acl_denied_total",
        Counter,
        "What users were not allowed, by reason.",
        |sample, samples| {
            for (reason, _, name) in Reason::ALL {
                samples.labelled(&[("reason", name)], sample.engine.acl.log.count(reason));
            }
        },
    ),
    // Clients and the network.
    Metric::each("pantala_clients", Gauge, "Connections.", |sample, samples| {
        samples.value(sample.figures.clients);
    }),
    Metric::each(
        "pantala_clients_blocked",
        Gauge,
        "Clients that wait for keys.",
        |sample, samples| {
            samples.value(sample.engine.blocked.get());
        },
    ),
    Metric::field("pantala_clients_max", Gauge, "The most connections there may be.", "maxclients"),
    Metric::each(
        "pantala_client_buffer_bytes",
        Gauge,
        "What connections and their buffers take.",
        |sample, samples| samples.value(sample.sum(|tally| tally.client_bytes.get())),
    ),
    Metric::each(
        "pantala_connections_accepted_total",
        Counter,
        "Connections accepted.",
        |sample, samples| samples.value(sample.sum(|tally| tally.accepted.get())),
    ),
    Metric::each(
        "pantala_connections_refused_total",
        Counter,
        "Connections refused.",
        |sample, samples| samples.value(sample.sum(|tally| tally.refused.get())),
    ),
    Metric::each(
        "pantala_connections_closed_total",
        Counter,
        "Connections closed by a limit.",
        |sample, samples| {
            let counts = [
                ("output", sample.sum(|tally| tally.output_limit.get())),
                ("input", sample.sum(|tally| tally.input_limit.get())),
                ("login", sample.sum(|tally| tally.late_logins.get())),
                ("memory", sample.sum(|tally| tally.evicted_clients.get())),
            ];
            counts.iter().for_each(|(limit, n)| samples.labelled(&[("limit", limit)], n));
        },
    ),
    Metric::each(
        "pantala_received_bytes_total",
        Counter,
        "Bytes from clients.",
        |sample, samples| {
            samples.value(sample.sum(|tally| tally.received_bytes.get()));
        },
    ),
    Metric::each("pantala_sent_bytes_total", Counter, "Bytes to clients.", |sample, samples| {
        samples.value(sample.sum(|tally| tally.sent_bytes.get()));
    }),
    Metric::each("pantala_pubsub_channels", Gauge, "What is subscribed to.", |sample, samples| {
        let pubsub = &sample.engine.notices.pubsub;
        for (kind, name) in [
            (pubsub::Kind::Channel, "channel"),
            (pubsub::Kind::Pattern, "pattern"),
            (pubsub::Kind::SlotChannel, "slot"),
        ] {
            samples.labelled(&[("kind", name)], pubsub.count(kind));
        }
    }),
    // Threads.
    Metric::each(
        "pantala_worker_connections",
        Gauge,
        "Connections of a worker.",
        |sample, samples| {
            each_worker(sample, samples, |worker| Some(worker.connections as f64));
        },
    ),
    Metric::each(
        "pantala_worker_commands_total",
        Counter,
        "Calls on a worker.",
        |sample, samples| {
            each_worker(sample, samples, |worker| Some(worker.commands as f64));
        },
    ),
    Metric::each(
        "pantala_worker_busy_seconds_total",
        Counter,
        "Time for which a worker was awake.",
        |sample, samples| {
            each_worker(sample, samples, |worker| worker.busy_us.map(|us| us as f64 / 1e6));
        },
    ),
    Metric::each(
        "pantala_worker_parks_total",
        Counter,
        "Commands of a worker that had to wait for a partition.",
        |sample, samples| each_worker(sample, samples, |worker| Some(worker.lock_parks as f64)),
    ),
    Metric::each("pantala_lane_threads", Gauge, "Threads of the slow lane.", |sample, samples| {
        samples.value(sample.figures.lane.threads);
    }),
    Metric::each(
        "pantala_lane_waiting",
        Gauge,
        "Jobs that wait for the lane.",
        |sample, samples| {
            samples.value(sample.figures.lane.waiting);
        },
    ),
    Metric::each(
        "pantala_lane_jobs_total",
        Counter,
        "Jobs given to the lane.",
        |sample, samples| {
            samples.value(sample.figures.lane.jobs);
        },
    ),
    Metric::each("pantala_cpu_seconds_total", Counter, "Time on cores.", |sample, samples| {
        let [user, system] = sample.figures.cpu_s;
        samples.labelled(&[("mode", "user")], user);
        samples.labelled(&[("mode", "system")], system);
    }),
    // Files.
    Metric::field("pantala_loading", Gauge, "1 while data is loaded.", "loading"),
    Metric::field(
        "pantala_snapshot_running",
        Gauge,
        "1 while one is written.",
        "rdb_bgsave_in_progress",
    ),
    Metric::field(
        "pantala_snapshot_last_time_seconds",
        Gauge,
        "When the last snapshot was written, Unix time.",
        "rdb_last_save_time",
    ),
    Metric::field(
        "pantala_snapshot_last_ok",
        Gauge,
        "Whether it succeeded.",
        "rdb_last_bgsave_status",
    ),
    Metric::field(
        "pantala_snapshot_last_duration_seconds",
        Gauge,
        "How long the last one took; -1: there was none.",
        "rdb_last_bgsave_time_sec",
    ),
    Metric::field(
        "pantala_changes_since_snapshot",
        Gauge,
        "Changes that no snapshot has.",
        "rdb_changes_since_last_save",
    ),
    Metric::field(
        "pantala_aof_enabled",
        Gauge,
        "Whether there is an append-only file.",
        "aof_enabled",
    ),
    Metric::field(
        "pantala_aof_size_bytes",
        Gauge,
        "Size of the append-only file.",
        "aof_current_size",
    ),
    Metric::field(
        "pantala_aof_base_size_bytes",
        Gauge,
        "Its size after a rewrite.",
        "aof_base_size",
    ),
    Metric::field(
        "pantala_aof_rewrite_running",
        Gauge,
        "1 in a rewrite.",
        "aof_rewrite_in_progress",
    ),
    Metric::field(
        "pantala_aof_write_ok",
        Gauge,
        "Whether it was written.",
        "aof_last_write_status",
    ),
    Metric::field(
        "pantala_aof_delayed_syncs_total",
        Counter,
        "Syncs that took longer than a second.",
        "aof_delayed_fsync",
    ),
    // Replication.
    Metric::each("pantala_replicas", Gauge, "Replicas that follow.", |sample, samples| {
        samples.value(sample.figures.replicas);
    }),
    Metric::field(
        "pantala_psync_offset_bytes",
        Gauge,
        "Where the stream of changes is.",
        "master_repl_offset",
    ),
    Metric::field(
        "pantala_primary_link_up",
        Gauge,
        "Whether the link with the primary stands; of a replica only.",
        "master_link_status",
    ),
    Metric::each(
        "pantala_replica_behind_bytes",
        Gauge,
        "What a replica has not confirmed of the stream.",
        |sample, samples| {
            let end = sample.info.get("master_repl_offset").map_or(0, InfoValue::count);
            each_replica(sample, |replica| {
                let behind = end.saturating_sub(replica.offset);
                samples.labelled(&[("replica", &replica.name)], behind);
            });
        },
    ),
    Metric::each(
        "pantala_replica_silent_seconds",
        Gauge,
        "How long nothing was heard of a replica that follows.",
        |sample, samples| {
            each_replica(sample, |replica| {
                samples.labelled(&[("replica", &replica.name)], replica.lag_s);
            });
        },
    ),
];

/// The figures of a replica.
struct ReplicaLine {
    name: String,
    offset: u64,
    lag_s: u64,
}

/// A part of a field as text; empty if there is none.
pub(super) fn part_text(value: &InfoValue, name: &str) -> String {
    value.part(name).map(ToString::to_string).unwrap_or_default()
}

fn each_replica(sample: &Sample<'_>, mut each: impl FnMut(ReplicaLine)) {
    for at in 0..sample.figures.replicas {
        let Some(replica) = sample.info.get(&format!("slave{at}")) else { break };
        let name = format!("{}:{}", part_text(replica, "ip"), part_text(replica, "port"));
        let count = |name: &str| replica.part(name).map_or(0, InfoValue::count);
        each(ReplicaLine { name, offset: count("offset"), lag_s: count("lag") });
    }
}

/// The keys of each non-empty database, by its number.
pub(super) fn each_database(
    sample: &Sample<'_>,
    with_deadline: bool,
    mut each: impl FnMut(u32, u64),
) {
    let space = &sample.engine.space;
    for db in (0..space.database_count()).map(DbIndex) {
        if let Some(sizes) = space.sizes(db).filter(|sizes| sizes.keys() > 0) {
            each(db.0, if with_deadline { sizes.with_deadline() } else { sizes.keys() });
        }
    }
}

fn databases(sample: &Sample<'_>, samples: &mut Samples<'_>, with_deadline: bool) {
    each_database(sample, with_deadline, |db, count| {
        samples.labelled(&[("db", &db.to_string())], count);
    });
}

/// Name, calls, nanoseconds, refused and failed calls of each command that was called.
pub(super) fn each_command(sample: &Sample<'_>, mut each: impl FnMut(&str, u64, u64, u64, u64)) {
    for (number, row) in sample.engine.registry.rows().iter().enumerate() {
        let counts = sample.engine.stats.tallies.row(number);
        let (calls, refused, failed) =
            (counts.calls.get(), counts.rejected.get(), counts.failed.get());
        if calls + refused + failed > 0 {
            each(&row.full_name(), calls, counts.nanoseconds.get(), refused, failed);
        }
    }
}

fn each_worker(
    sample: &Sample<'_>,
    samples: &mut Samples<'_>,
    pick: fn(&WorkerFigures) -> Option<f64>,
) {
    for worker in &sample.figures.workers {
        if let Some(value) = pick(worker) {
            samples.labelled(&[("worker", &worker.id.to_string())], value);
        }
    }
}
