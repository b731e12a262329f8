//! Metrics under the names of redis_exporter, which most dashboards use: fields of INFO under other
//! names. Fields that INFO does not have here are left out.

use pantala_engine::stats::info_table::InfoValue;

use super::ours::part_text;
use super::samples::Kind::{Counter, Gauge};
use super::samples::{Kind, Samples};
use super::table::{Metric, Sample};

const fn field(name: &'static str, kind: Kind, field: &'static str) -> Metric {
    Metric::field(name, kind, "", field)
}

/// The table of these metrics.
pub(super) const METRICS: &[Metric] = &[
    Metric::each("redis_up", Gauge, "Whether the server answers.", |_, samples| {
        samples.value(1u64)
    }),
    Metric::each("redis_instance_info", Gauge, "What this server is.", instance),
    Metric::each(
        "redis_start_time_seconds",
        Gauge,
        "When it started, Unix time.",
        |sample, samples| {
            samples.value(sample.facts.started_unix_ms / 1000);
        },
    ),
    field("redis_uptime_in_seconds", Gauge, "uptime_in_seconds"),
    field("redis_process_id", Gauge, "process_id"),
    field("redis_connected_clients", Gauge, "connected_clients"),
    field("redis_blocked_clients", Gauge, "blocked_clients"),
    field("redis_tracking_clients", Gauge, "tracking_clients"),
    field("redis_max_clients", Gauge, "maxclients"),
    field("redis_client_recent_max_input_buffer_bytes", Gauge, "client_recent_max_input_buffer"),
    field("redis_client_recent_max_output_buffer_bytes", Gauge, "client_recent_max_output_buffer"),
    field("redis_allocator_active_bytes", Gauge, "allocator_active"),
    field("redis_allocator_allocated_bytes", Gauge, "allocator_allocated"),
    field("redis_allocator_resident_bytes", Gauge, "allocator_resident"),
    field("redis_allocator_frag_ratio", Gauge, "allocator_frag_ratio"),
    field("redis_allocator_frag_bytes", Gauge, "allocator_frag_bytes"),
    field("redis_allocator_rss_ratio", Gauge, "allocator_rss_ratio"),
    field("redis_allocator_rss_bytes", Gauge, "allocator_rss_bytes"),
    field("redis_memory_used_bytes", Gauge, "used_memory"),
    field("redis_memory_used_rss_bytes", Gauge, "used_memory_rss"),
    field("redis_memory_used_peak_bytes", Gauge, "used_memory_peak"),
    field("redis_memory_used_lua_bytes", Gauge, "used_memory_lua"),
    field("redis_memory_used_overhead_bytes", Gauge, "used_memory_overhead"),
    field("redis_memory_used_startup_bytes", Gauge, "used_memory_startup"),
    field("redis_memory_used_dataset_bytes", Gauge, "used_memory_dataset"),
    field("redis_memory_used_scripts_bytes", Gauge, "used_memory_scripts"),
    field("redis_memory_max_bytes", Gauge, "maxmemory"),
    field("redis_mem_fragmentation_ratio", Gauge, "mem_fragmentation_ratio"),
    field("redis_mem_fragmentation_bytes", Gauge, "mem_fragmentation_bytes"),
    field("redis_mem_clients_slaves", Gauge, "mem_clients_slaves"),
    field("redis_mem_clients_normal", Gauge, "mem_clients_normal"),
    field("redis_mem_not_counted_for_eviction_bytes", Gauge, "mem_not_counted_for_evict"),
    field("redis_expired_stale_percentage", Gauge, "expired_stale_perc"),
    field("redis_expired_time_cap_reached_total", Gauge, "expired_time_cap_reached_count"),
    field("redis_lazyfree_pending_objects", Gauge, "lazyfree_pending_objects"),
    field("redis_active_defrag_running", Gauge, "active_defrag_running"),
    field("redis_defrag_hits", Gauge, "active_defrag_hits"),
    field("redis_defrag_misses", Gauge, "active_defrag_misses"),
    field("redis_defrag_key_hits", Gauge, "active_defrag_key_hits"),
    field("redis_defrag_key_misses", Gauge, "active_defrag_key_misses"),
    field("redis_migrate_cached_sockets_total", Gauge, "migrate_cached_sockets"),
    field("redis_loading_dump_file", Gauge, "loading"),
    field("redis_rdb_changes_since_last_save", Gauge, "rdb_changes_since_last_save"),
    field("redis_rdb_bgsave_in_progress", Gauge, "rdb_bgsave_in_progress"),
    field("redis_rdb_last_save_timestamp_seconds", Gauge, "rdb_last_save_time"),
    field("redis_rdb_last_bgsave_status", Gauge, "rdb_last_bgsave_status"),
    field("redis_rdb_last_bgsave_duration_sec", Gauge, "rdb_last_bgsave_time_sec"),
    field("redis_rdb_current_bgsave_duration_sec", Gauge, "rdb_current_bgsave_time_sec"),
    field("redis_rdb_last_cow_size_bytes", Gauge, "rdb_last_cow_size"),
    field("redis_aof_enabled", Gauge, "aof_enabled"),
    field("redis_aof_rewrite_in_progress", Gauge, "aof_rewrite_in_progress"),
    field("redis_aof_rewrite_scheduled", Gauge, "aof_rewrite_scheduled"),
    field("redis_aof_last_rewrite_duration_sec", Gauge, "aof_last_rewrite_time_sec"),
    field("redis_aof_current_rewrite_duration_sec", Gauge, "aof_current_rewrite_time_sec"),
    field("redis_aof_last_cow_size_bytes", Gauge, "aof_last_cow_size"),
    field("redis_aof_current_size_bytes", Gauge, "aof_current_size"),
    field("redis_aof_base_size_bytes", Gauge, "aof_base_size"),
    field("redis_aof_pending_rewrite", Gauge, "aof_pending_rewrite"),
    field("redis_aof_buffer_length", Gauge, "aof_buffer_length"),
    field("redis_aof_pending_bio_fsync", Gauge, "aof_pending_bio_fsync"),
    field("redis_aof_delayed_fsync", Gauge, "aof_delayed_fsync"),
    field("redis_aof_last_bgrewrite_status", Gauge, "aof_last_bgrewrite_status"),
    field("redis_aof_last_write_status", Gauge, "aof_last_write_status"),
    field("redis_pubsub_channels", Gauge, "pubsub_channels"),
    field("redis_pubsub_patterns", Gauge, "pubsub_patterns"),
    field("redis_latest_fork_usec", Gauge, "latest_fork_usec"),
    field("redis_connected_slaves", Gauge, "connected_slaves"),
    field("redis_replication_backlog_bytes", Gauge, "repl_backlog_size"),
    field("redis_repl_backlog_is_active", Gauge, "repl_backlog_active"),
    field("redis_repl_backlog_first_byte_offset", Gauge, "repl_backlog_first_byte_offset"),
    field("redis_repl_backlog_history_bytes", Gauge, "repl_backlog_histlen"),
    field("redis_master_repl_offset", Gauge, "master_repl_offset"),
    field("redis_second_repl_offset", Gauge, "second_repl_offset"),
    field("redis_replica_resyncs_full", Gauge, "sync_full"),
    field("redis_replica_partial_resync_accepted", Gauge, "sync_partial_ok"),
    field("redis_replica_partial_resync_denied", Gauge, "sync_partial_err"),
    Metric::each("redis_slave_info", Gauge, "Whom this replica follows.", |sample, samples| {
        if let Some([host, port]) = primary(sample) {
            let is_read_only = sample.text("slave_read_only");
            let labels =
                [("master_host", &*host), ("master_port", &*port), ("read_only", &*is_read_only)];
            samples.labelled(&labels, 1u64);
        }
    }),
    Metric::each("redis_master_link_up", Gauge, "Whether the link stands.", |sample, samples| {
        of_primary(sample, samples, "master_link_status");
    }),
    Metric::each(
        "redis_master_last_io_seconds_ago",
        Gauge,
        "How long nothing was heard of the primary.",
        |sample, samples| of_primary(sample, samples, "master_last_io_seconds_ago"),
    ),
    Metric::each(
        "redis_master_sync_in_progress",
        Gauge,
        "Whether it copies all data.",
        |sample, samples| of_primary(sample, samples, "master_sync_in_progress"),
    ),
    Metric::each(
        "redis_slave_repl_offset",
        Gauge,
        "How far this replica is.",
        |sample, samples| of_primary(sample, samples, "slave_repl_offset"),
    ),
    Metric::each(
        "redis_connected_slave_offset_bytes",
        Gauge,
        "How far a replica is.",
        |sample, samples| replicas(sample, samples, "offset"),
    ),
    Metric::each(
        "redis_connected_slave_lag_seconds",
        Gauge,
        "How long nothing was heard of a replica.",
        |sample, samples| replicas(sample, samples, "lag"),
    ),
    field("redis_connections_received_total", Counter, "total_connections_received"),
    field("redis_commands_processed_total", Counter, "total_commands_processed"),
    field("redis_rejected_connections_total", Counter, "rejected_connections"),
    field("redis_net_input_bytes_total", Counter, "total_net_input_bytes"),
    field("redis_net_output_bytes_total", Counter, "total_net_output_bytes"),
    field("redis_expired_keys_total", Counter, "expired_keys"),
    field("redis_evicted_keys_total", Counter, "evicted_keys"),
    field("redis_keyspace_hits_total", Counter, "keyspace_hits"),
    field("redis_keyspace_misses_total", Counter, "keyspace_misses"),
    field("redis_cpu_sys_seconds_total", Counter, "used_cpu_sys"),
    field("redis_cpu_user_seconds_total", Counter, "used_cpu_user"),
    field("redis_cpu_sys_children_seconds_total", Counter, "used_cpu_sys_children"),
    field("redis_cpu_user_children_seconds_total", Counter, "used_cpu_user_children"),
    Metric::each("redis_db_keys", Gauge, "Keys of a database.", |sample, samples| {
        databases(sample, samples, "keys", 1.0);
    }),
    Metric::each("redis_db_keys_expiring", Gauge, "Keys with a deadline.", |sample, samples| {
        databases(sample, samples, "expires", 1.0);
    }),
    Metric::each(
        "redis_db_avg_ttl_seconds",
        Gauge,
        "Mean time to the deadline.",
        |sample, samples| {
            databases(sample, samples, "avg_ttl", 1e-3);
        },
    ),
    Metric::each("redis_commands_total", Counter, "Calls of a command.", |sample, samples| {
        commands(sample, samples, "calls", 1.0);
    }),
    Metric::each(
        "redis_commands_duration_seconds_total",
        Counter,
        "Time in a command.",
        |sample, samples| commands(sample, samples, "usec", 1e-6),
    ),
    Metric::each(
        "redis_commands_rejected_calls_total",
        Counter,
        "Calls of a command refused before they ran.",
        |sample, samples| commands(sample, samples, "rejected_calls", 1.0),
    ),
    Metric::each(
        "redis_commands_failed_calls_total",
        Counter,
        "Calls of a command that ended with an error.",
        |sample, samples| commands(sample, samples, "failed_calls", 1.0),
    ),
    Metric::each(
        "redis_errors_total",
        Counter,
        "Error replies by their code.",
        |sample, samples| {
            for (code, value) in sample.info.with_prefix("errorstat_") {
                if let Some(count) = part(value, "count") {
                    samples.labelled(&[("err", code)], count);
                }
            }
        },
    ),
];

fn instance(sample: &Sample<'_>, samples: &mut Samples<'_>) {
    const FIELDS: [&str; 9] = [
        "role",
        "redis_version",
        "redis_build_id",
        "redis_mode",
        "os",
        "maxmemory_policy",
        "tcp_port",
        "run_id",
        "process_id",
    ];
    let texts = FIELDS.map(|name| (name, sample.text(name)));
    let labels: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, &**text)).collect();
    samples.labelled(&labels, 1u64);
}

/// Host and port of the primary of this replica.
fn primary(sample: &Sample<'_>) -> Option<[String; 2]> {
    let field = |name: &str| sample.info.get(name).map(ToString::to_string);
    Some([field("master_host")?, field("master_port")?])
}

/// A field of a replica's link to its primary.
fn of_primary(sample: &Sample<'_>, samples: &mut Samples<'_>, field: &str) {
    if let (Some([host, port]), Some(value)) = (primary(sample), sample.number(field)) {
        samples.labelled(&[("master_host", &*host), ("master_port", &*port)], value);
    }
}

/// One number of each replica.
fn replicas(sample: &Sample<'_>, samples: &mut Samples<'_>, name: &str) {
    for at in 0..sample.figures.replicas {
        let Some(replica) = sample.info.get(&format!("slave{at}")) else { break };
        let [ip, port, state] = ["ip", "port", "state"].map(|part| part_text(replica, part));
        if let Some(value) = part(replica, name) {
            let labels = [("slave_ip", &*ip), ("slave_port", &*port), ("slave_state", &*state)];
            samples.labelled(&labels, value);
        }
    }
}

/// One number of each database.
fn databases(sample: &Sample<'_>, samples: &mut Samples<'_>, name: &str, scale: f64) {
    for (number, value) in sample.info.with_prefix("db") {
        if let (Ok(_), Some(value)) = (number.parse::<u32>(), part(value, name)) {
            samples.labelled(&[("db", &format!("db{number}"))], value * scale);
        }
    }
}

/// One number of each command.
fn commands(sample: &Sample<'_>, samples: &mut Samples<'_>, name: &str, scale: f64) {
    for (command, value) in sample.info.with_prefix("cmdstat_") {
        if let Some(value) = part(value, name) {
            samples.labelled(&[("cmd", command)], value * scale);
        }
    }
}

/// A part of a field as a number.
fn part(value: &InfoValue, name: &str) -> Option<f64> {
    value.part(name).and_then(InfoValue::number)
}
