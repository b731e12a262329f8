//! The sections of INFO that describe the server, its clients, its memory and its replication.

use std::sync::atomic::Ordering;

use pantala_base::clock::{monotonic_us, unix_us};
use pantala_base::limits::{rss_bytes, total_memory};
use pantala_base::size::human;

use super::Page;
use crate::diagnosis::memory::{Account, ratio};
use crate::{Operator, cluster};
use pantala_commands::REDIS_VERSION;
use pantala_engine::condition::pause::PauseScope;
use pantala_engine::condition::states::States;
use pantala_engine::stats::info_table::InfoValue;

/// The version of Valkey that the compatibility tests compare with.
const VALKEY_VERSION: &str = "9.1.2";

pub(super) fn server(operator: &Operator, page: &mut Page) {
    let settings = operator.engine.settings.current();
    let now_us = unix_us();
    let uptime_s = monotonic_us().saturating_sub(operator.run.started_us) / 1_000_000;
    page.line("redis_version", REDIS_VERSION);
    page.line("server_name", "pantala");
    page.line("pantala_version", env!("CARGO_PKG_VERSION"));
    page.line("valkey_version", VALKEY_VERSION);
    page.line("valkey_release_stage", "ga");
    page.line("redis_git_sha1", "00000000");
    page.line("redis_git_dirty", 0);
    page.line("redis_build_id", "0");
    let mode = if settings.cluster_enabled { "cluster" } else { "standalone" };
    page.each(&["redis_mode", "server_mode"], mode);
    page.line("os", system());
    page.line("arch_bits", usize::BITS);
    page.line("monotonic_clock", "POSIX clock_gettime");
    page.line("multiplexing_api", operator.run.io_engine.get().cloned().unwrap_or_default());
    page.line("gcc_version", "0.0.0");
    page.line("process_id", std::process::id());
    page.line(
        "process_supervised",
        operator.process().map_or("no", |process| process.supervisor_name()),
    );
    page.line("run_id", operator.run.id.clone());
    page.line("tcp_port", if settings.port == 0 { settings.tls_port } else { settings.port });
    page.line("server_time_usec", now_us);
    page.line("uptime_in_seconds", uptime_s);
    page.line("uptime_in_days", uptime_s / 86_400);
    if let Some(until_us) = operator.engine.condition.shutdown.waits_for_replicas() {
        let left_us = until_us.saturating_sub(monotonic_us());
        page.line("shutdown_in_milliseconds", left_us.div_ceil(1_000));
    }
    let hz = setting(operator, "hz");
    page.each(&["hz", "configured_hz", "clients_hz"], hz);
    page.line("lru_clock", (now_us / 1_000_000) & 0xff_ffff);
    let executable = std::env::current_exe().unwrap_or_default();
    page.line("executable", executable.display().to_string());
    let file = operator.engine.settings.file.clone().unwrap_or_default();
    page.line("config_file", file.display().to_string());
    page.line("io_threads_active", 0);
    page.line("availability_zone", settings.availability_zone.clone());
    let addresses: Vec<String> =
        settings.bind.iter().map(|address| format!("bind={address}")).collect();
    let addresses = addresses.join(",");
    let plain = if settings.tls { "tls" } else { "tcp" };
    let ports = [(plain, settings.port), ("tls", settings.tls_port)];
    for (number, (name, port)) in ports.iter().filter(|(_, port)| *port != 0).enumerate() {
        page.line(format!("listener{number}"), format!("name={name},{addresses},port={port}"));
    }
}

/// The value of a setting that is not a field of the settings.
fn setting(operator: &Operator, name: &str) -> String {
    pantala_settings::find(name)
        .map(|row| operator.engine.settings.current().value(row))
        .unwrap_or_default()
}

fn system() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let kernel = read("/proc/sys/kernel/ostype");
    let release = read("/proc/sys/kernel/osrelease");
    format!("{kernel} {release} {}", std::env::consts::ARCH)
}

pub(super) fn tls(operator: &Operator, page: &mut Page) {
    let acceptor = operator.context.tls.acceptor();
    let own = acceptor.as_ref().map(|acceptor| &acceptor.own);
    let authority = acceptor.as_ref().and_then(|acceptor| acceptor.authority.as_ref());
    let now_s = unix_us() / 1_000_000;
    for (kind, brief) in [("server", own), ("client", None), ("ca", authority)] {
        let serial = brief.map_or_else(|| "none".to_owned(), |brief| brief.serial.clone());
        let left_s = brief.map_or(0, |brief| (brief.expires_unix_s as i64 - now_s).max(0));
        page.line(format!("tls_{kind}_cert_serial"), serial);
        page.line(format!("tls_{kind}_cert_expires_in_seconds"), left_s);
    }
    let counts = &operator.context.tls.counts;
    page.line("tls_handshakes", counts.done.get());
    page.line("tls_handshakes_failed", counts.failed.get());
    page.line("tls_handshakes_late", counts.late.get());
}

pub(super) fn clients(operator: &Operator, page: &mut Page) {
    let replicas = operator.replication.downstream.replicas.all().len();
    page.line(
        "connected_clients",
        operator.workers.room.connection_count().saturating_sub(replicas),
    );
    page.line("cluster_connections", 0);
    page.line("maxclients", operator.engine.settings.current().maxclients);
    page.each(&["client_recent_max_input_buffer", "client_recent_max_output_buffer"], 0);
    page.line("blocked_clients", operator.engine.blocked.get());
    page.line("tracking_clients", operator.engine.notices.trackers.count());
    page.line("pubsub_clients", operator.engine.notices.pubsub.client_count());
    let space = &operator.engine.space;
    page.line("watching_clients", space.watching_clients().load(Ordering::Relaxed));
    page.line("clients_in_timeout_table", 0);
    page.line("total_watched_keys", space.watched_keys());
    page.line("total_blocking_keys", operator.engine.space.waited_keys());
    let by_consumers = operator.engine.keys_waited_for_by_consumers();
    page.line("total_blocking_keys_on_nokey", by_consumers);
    let (reason, actions) = match operator.engine.condition.pause.state(monotonic_us()) {
        PauseScope::Nothing => ("none", "none"),
        PauseScope::Writes => ("client_pause", "write"),
        PauseScope::All => ("client_pause", "all"),
    };
    page.line("paused_reason", reason);
    page.line("paused_actions", actions);
    let left = operator.engine.condition.pause.ends_in(monotonic_us).unwrap_or_default();
    page.line("paused_timeout_milliseconds", left.as_millis() as u64);
}

pub(super) fn memory(operator: &Operator, page: &mut Page) {
    let mut account = Account::take(operator);
    // Memory limits were applied before this text was begun, so the table is left out.
    account.used = account.used.saturating_sub(page.table.bytes() as u64);
    let Account { used, peak, overhead, startup, .. } = account;
    let dataset = account.dataset();
    let allocator = account.allocator;
    let rss = rss_bytes();
    with_human(page, "used_memory", used);
    with_human(page, "used_memory_rss", rss);
    with_human(page, "used_memory_peak", peak);
    page.line("used_memory_peak_perc", InfoValue::Percent(ratio(used, peak) * 100.0));
    page.line("used_memory_overhead", overhead);
    page.line("used_memory_startup", startup);
    page.line("used_memory_dataset", dataset);
    page.line("used_memory_dataset_perc", InfoValue::Percent(account.dataset_share() * 100.0));
    page.line("allocator_allocated", allocator.allocated);
    page.line("allocator_active", allocator.active);
    page.line("allocator_resident", allocator.resident);
    page.line("allocator_muzzy", 0);
    with_human(page, "total_system_memory", total_memory());
    let of_scripts = account.scripts;
    with_human(page, "used_memory_lua", of_scripts.vm_eval);
    page.line("used_memory_vm_eval", of_scripts.vm_eval);
    page.line("used_memory_scripts_eval", of_scripts.texts);
    page.line("number_of_cached_scripts", operator.engine.scripts.counts().0);
    let libraries = operator.engine.functions.current();
    page.line("number_of_functions", libraries.function_count());
    page.line("number_of_libraries", libraries.library_count());
    page.line("used_memory_vm_functions", of_scripts.vm_functions);
    with_human(page, "used_memory_vm_total", of_scripts.vm());
    page.line("used_memory_functions", of_scripts.libraries);
    with_human(page, "used_memory_scripts", of_scripts.texts + of_scripts.libraries);
    let settings = operator.engine.settings.current();
    with_human(page, "maxmemory", settings.memory_limit());
    page.line("maxmemory_policy", settings.eviction_policy().word());
    fragmentation(page, "allocator_frag", allocator.active, allocator.allocated);
    fragmentation(page, "allocator_rss", allocator.resident, allocator.active);
    fragmentation(page, "rss_overhead", rss, allocator.resident);
    fragmentation(page, "mem_fragmentation", rss, used);
    page.line("mem_not_counted_for_evict", operator.engine.unwritten_bytes());
    page.line("mem_replication_backlog", account.backlog);
    page.line("mem_total_replication_buffers", account.backlog + account.unsent);
    page.line("mem_replicas_repl_buffer", 0);
    page.line("mem_clients_slaves", account.of_replicas());
    page.line("mem_clients_normal", account.clients);
    page.each(&["mem_cluster_links", "mem_cluster_slot_import", "mem_cluster_slot_export"], 0);
    page.line("mem_aof_buffer", operator.engine.journal.waiting_bytes());
    page.line("mem_allocator", "jemalloc-5");
    page.line("mem_overhead_db_hashtable_rehashing", 0);
    let running = operator.engine.stats.tallies.sum(|tally| tally.defrag_percent.get());
    page.line("active_defrag_running", running);
    page.line("lazyfree_pending_objects", operator.engine.space.pending_pieces());
    page.line(
        "lazyfreed_objects",
        operator.engine.stats.tallies.sum(|tally| tally.keys.reclaimed.get()),
    );
}

fn with_human(page: &mut Page, name: &'static str, bytes: u64) {
    page.line(name, bytes);
    page.line(format!("{name}_human"), human(bytes));
}

fn fragmentation(page: &mut Page, name: &str, larger: u64, smaller: u64) {
    let difference = larger.cast_signed().wrapping_sub(smaller.cast_signed());
    page.line(format!("{name}_ratio"), InfoValue::Real(ratio(larger, smaller), 2));
    page.line(format!("{name}_bytes"), difference);
}

pub(super) fn persistence(operator: &Operator, page: &mut Page) {
    let (history, current) =
        (operator.durability.saves.history(), operator.durability.saves.current());
    let progress = current.as_ref().map(|save| save.progress()).unwrap_or_default();
    let in_background = current.as_ref().filter(|save| save.is_in_background);
    let since_s = |save: &std::sync::Arc<pantala_durability::saves::Save>| {
        monotonic_us().saturating_sub(save.began_us) / 1_000_000
    };
    let seconds = |took_s: Option<u64>| took_s.map_or(-1, u64::cast_signed);
    let states = operator.engine.condition.lasting.now();
    page.line("loading", u8::from(states.intersects(States::LOADING)));
    page.line("async_loading", u8::from(states.intersects(States::LOADING_BESIDE)));
    page.each(&["current_cow_peak", "current_cow_size"], 0);
    page.line("current_cow_size_age", 0);
    let done = ratio(progress.written, progress.keys.max(1)) * 100.0;
    page.line("current_fork_perc", InfoValue::Real(done, 2));
    page.line("current_save_keys_processed", progress.written);
    page.line("current_save_keys_total", progress.keys);
    let changes = operator.durability.changes().wrapping_sub(history.changes);
    page.line("rdb_changes_since_last_save", changes);
    let is_saving = in_background.is_some() || operator.replication.primary.is_copying();
    page.line("rdb_bgsave_in_progress", u8::from(is_saving));
    page.line("rdb_last_save_time", history.last_good_s);
    page.line("rdb_last_bgsave_status", if history.is_last_good { "ok" } else { "err" });
    page.line("rdb_last_bgsave_time_sec", seconds(history.last_took_s));
    page.line("rdb_current_bgsave_time_sec", seconds(in_background.map(since_s)));
    page.line("rdb_saves", history.count);
    page.line("rdb_last_cow_size", 0);
    page.line("current_save_handed_bytes", progress.handed_bytes);
    page.line("current_save_flushed_keys", progress.flushed_keys);
    page.line("current_save_large_values_unasked", progress.unasked);
    let last = operator.durability.loading.last();
    page.line("rdb_last_load_keys_expired", last.expired);
    page.line("rdb_last_load_keys_loaded", last.loaded);
    append_only(operator, page);
    page.each(&["aof_last_cow_size", "module_fork_in_progress"], 0);
    page.each(&["module_fork_last_cow_size", "slot_migration_fork_in_progress"], 0);
    if states.intersects(States::LOADING.union(States::LOADING_BESIDE)) {
        loading(operator, page);
    }
}

fn append_only(operator: &Operator, page: &mut Page) {
    let settings = operator.engine.settings.current();
    let (sizes, rewrites) =
        (operator.durability.appending.sizes(), operator.durability.appending.rewrites());
    let seconds = |took_s: Option<u64>| took_s.map_or(-1, u64::cast_signed);
    let word = |is_good: bool| if is_good { "ok" } else { "err" };
    let since_s = |began_us: u64| monotonic_us().saturating_sub(began_us) / 1_000_000;
    page.line("aof_enabled", u8::from(settings.appendonly));
    page.line("aof_rewrite_in_progress", u8::from(rewrites.began_us.is_some()));
    page.line("aof_rewrite_scheduled", u8::from(rewrites.is_scheduled));
    page.line("aof_last_rewrite_time_sec", seconds(rewrites.last_took_s));
    page.line("aof_current_rewrite_time_sec", seconds(rewrites.began_us.map(since_s)));
    page.line("aof_last_bgrewrite_status", word(rewrites.is_last_good));
    page.line("aof_rewrites", rewrites.count);
    page.line("aof_rewrites_consecutive_failures", rewrites.failures);
    page.line("aof_last_write_status", word(sizes.is_good));
    if settings.appendonly {
        page.line("aof_current_size", sizes.bytes);
        page.line("aof_base_size", sizes.base_bytes);
        page.line("aof_pending_rewrite", u8::from(rewrites.is_scheduled));
        page.line("aof_pending_base", u8::from(!operator.durability.appending.is_kept()));
        page.line("aof_buffer_length", operator.engine.journal.waiting_bytes());
        page.line("aof_pending_bio_fsync", u8::from(sizes.is_syncing));
        page.line("aof_delayed_fsync", sizes.delayed_syncs);
    }
}

fn loading(operator: &Operator, page: &mut Page) {
    let progress = operator.durability.loading.progress();
    let done = ratio(progress.loaded_bytes, progress.total_bytes.max(1));
    let left = progress.total_bytes.saturating_sub(progress.loaded_bytes);
    let eta_us = u128::from(progress.took_us) * u128::from(left);
    page.line("loading_start_time", progress.began_s);
    page.line("loading_total_bytes", progress.total_bytes);
    page.line("loading_rdb_used_mem", progress.used_bytes);
    page.line("loading_loaded_bytes", progress.loaded_bytes);
    page.line("loading_loaded_perc", InfoValue::Real(done * 100.0, 2));
    let eta_s = eta_us / u128::from(progress.loaded_bytes.max(1)) / 1_000_000;
    let eta_s = u64::try_from(eta_s).unwrap_or(u64::MAX);
    page.line("loading_eta_seconds", eta_s);
}

pub(super) fn engines(_: &Operator, page: &mut Page) {
    page.each(&["engines_count", "engines_total_used_memory", "engines_total_memory_overhead"], 0);
}

/// The section about the journal and its readers.
pub(super) fn journal(operator: &Operator, page: &mut Page) {
    let (journal, sizes) = (&operator.engine.journal, operator.durability.appending.sizes());
    let buffers = journal.buffers();
    page.line("journal_enabled", u8::from(journal.is_on()));
    page.line("journal_threads", buffers.threads);
    page.line("journal_buffers_in_use", buffers.in_use);
    page.line("journal_waiting_bytes", journal.waiting_bytes());
    page.line("journal_waiting_bytes_limit", buffers.most_waiting_bytes);
    page.line("journal_holds_back_writes", u8::from(buffers.holds_back));
    page.line("journal_holds_replies", u8::from(journal.holds_replies()));
    let rings = operator.durability.appending.rings();
    let outlives = rings.as_ref().is_some_and(|rings| rings.is_complete());
    page.line("journal_outlives_process", u8::from(outlives));
    page.line("journal_rings_missed", rings.as_ref().map_or(0, |rings| rings.missed()));
    page.line("journal_rings_bytes", rings.as_ref().map_or(0, |rings| rings.bytes()));
    let readers = u8::from(operator.durability.appending.is_running());
    page.line("journal_readers", readers);
    if readers > 0 {
        let (at, durable) = (sizes.written_offset, sizes.durable_offset);
        let (lag, unsynced) = (journal.waiting_bytes(), at.saturating_sub(durable));
        let reader = InfoValue::parts([
            ("name", "file".into()),
            ("offset", at.into()),
            ("lag_bytes", lag.into()),
            ("unsynced_bytes", unsynced.into()),
        ]);
        page.line("journal_reader_0", reader);
    }
}

pub(super) fn pantala(operator: &Operator, page: &mut Page) {
    let sum = |pick: fn(&pantala_engine::stats::tallies::ThreadTally) -> u64| {
        operator.engine.stats.tallies.sum(pick)
    };
    let mut loads = operator.context.loads.lock();
    let loads = loads.sample(&operator.context, monotonic_us());
    page.line("workers", loads.len());
    for (worker, percent) in loads {
        let connections = operator.workers.connections_of(worker);
        let load = InfoValue::parts([
            ("connections", connections.into()),
            ("load_percent", percent.into()),
        ]);
        page.line(format!("worker_{worker}"), load);
    }
    page.line("moved_connections", sum(|tally| tally.moved.get()));
    page.line("engine", operator.run.io_engine.get().cloned().unwrap_or_default());
    page.line("lane_threads", operator.engine.settings.current().slow_lane_threads);
    page.line("lane_waiting", operator.engine.lane.waiting());
    page.line("lane_running", operator.engine.lane.running());
    page.line("lane_commands", sum(|tally| tally.laned.get()));
    page.line("parked_commands", sum(|tally| tally.parked.get()));
    page.line("partitions", pantala_keyspace::PARTITION_COUNT);
    page.line("monitors", operator.engine.notices.monitors.count());
    page.line("auth_timeout_disconnections", sum(|tally| tally.late_logins.get()));
    page.line("memory_limit", operator.engine.condition.memory.cgroup_limit().unwrap_or(0));
    page.line("keyspace_changes", sum(|tally| tally.keys.changes.get()));
    let failures = &operator.replication.durability.failures;
    page.line("propagation_errors", failures.count());
    page.line("propagation_last_error", failures.last());
}

/// Whether cluster clients are served.
pub(super) fn cluster(operator: &Operator, page: &mut Page) {
    page.line("cluster_enabled", u8::from(cluster::is_on(operator)));
}

/// What CLUSTER INFO answers.
pub(super) fn cluster_info(operator: &Operator, page: &mut Page) {
    if let Some(topology) = cluster::topology(operator, "") {
        for (name, value) in pantala_cluster::info(&topology) {
            page.line(name, value);
        }
    }
}
