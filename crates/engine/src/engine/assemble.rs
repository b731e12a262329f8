//! Assembling an engine: the one boot sequence, for servers and for tests without threads.

use std::sync::{Arc, OnceLock};

use pantala_acl::{Acl, Users};
use pantala_base::hash::HashSeed;
use pantala_commands::Registry;
use pantala_keyspace::{ChangeSink, Keyspace, KeyspaceConfig};
use pantala_settings::Settings;

use crate::clients::mailbox::{MAX_WORKERS, WorkerSet};
use crate::condition::Condition;
use crate::engine::settings_cell::SettingsCell;
use crate::engine::slots_cell::SlotsCell;
use crate::engine::{Engine, Notices, Stats};
use crate::functions::store::Functions;
use crate::lane::{Compensate, GATE_SLOTS, Lane};
use crate::scripts::Scripts;
use crate::stats::{ErrorCounts, HotKeys, LatencyMonitor, Logs, Tallies, Telemetry};
use crate::tracking::notifier::Notifier;
use crate::waiting::BlockedCount;

/// The parts that an engine is made of.
pub struct Parts {
    /// The settings at the start.
    pub settings: Settings,
    /// The file that the settings were read from.
    pub file: Option<std::path::PathBuf>,
    /// The seed of the key hashes.
    pub seed: HashSeed,
    /// The command table.
    pub registry: Registry,
    /// The threads that own connections.
    pub workers: Arc<dyn WorkerSet>,
    /// The sink that is told of changes of keys; `None`: the clients that ask for it.
    pub change_sink: Option<Box<dyn ChangeSink>>,
}

impl Engine {
    /// An empty engine, ready to run commands.
    pub fn new(parts: Parts) -> Arc<Self> {
        let registry = parts.registry;
        let users = Users::new(Arc::new(registry.catalogue()));
        let config = KeyspaceConfig {
            seed: parts.seed,
            databases: parts.settings.database_count(),
            worker_slots: MAX_WORKERS,
            lane_slots: GATE_SLOTS,
        };
        let engine = Arc::new(Engine {
            space: Keyspace::new(config),
            stats: Stats {
                tallies: Tallies::new(registry.rows().len()),
                errors: ErrorCounts::default(),
                logs: Logs::default(),
                latency_monitor: LatencyMonitor::default(),
                hot_keys: HotKeys::default(),
                telemetry: Telemetry::default(),
            },
            acl: Acl::new(users),
            registry,
            settings: SettingsCell::new(parts.settings, parts.file),
            slots: SlotsCell::default(),
            workers: parts.workers,
            lane: Lane::default(),
            journal: Arc::default(),
            scripts: Scripts::default(),
            functions: Functions::default(),
            notices: Notices::default(),
            blocked: BlockedCount::default(),
            condition: Condition::default(),
            self_ref: OnceLock::new(),
        });
        let _first = engine.self_ref.set(Arc::downgrade(&engine));
        engine.connect(parts.change_sink);
        engine
    }

    /// Connects the keyspace's events with the clients and the slow lane, and applies the settings.
    fn connect(self: &Arc<Self>, sink: Option<Box<dyn ChangeSink>>) {
        self.apply_log_settings();
        let settings = self.settings.current();
        if !settings.requirepass.is_empty() {
            self.apply_password(&settings);
        }
        self.apply_script_settings();
        self.apply_expiry_settings();
        self.space.set_change_sink(sink.unwrap_or_else(|| Box::new(Notifier::new(self))));
        self.space.set_long_wait_observer(Box::new(Compensate(Arc::downgrade(self))));
        self.apply_event_settings();
    }
}
