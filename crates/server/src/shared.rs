//! What all threads of the server share.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use pantala_base::clock::{monotonic_us, unix_us};
use pantala_base::hash::HashSeed;
use pantala_base::rng::Rng;
use pantala_commands::{Command, Registry};
use pantala_keyspace::{Config, Keyspace};
use pantala_settings::Settings;

use crate::balance::Loads;
use crate::commands::Functions;
use crate::commands::debug::Switches;
use crate::directory::Directory;
use crate::events::Events;
use crate::lane::{LANE_SLOTS, Lane};
use crate::latency_monitor::LatencyMonitor;
use crate::logs::{Kind, Logs};
use crate::memory::MemoryGuard;
use crate::monitors::Monitors;
use crate::pause::Pause;
use crate::pubsub::PubSub;
use crate::rates::Rates;
use crate::scripts::Scripts;
use crate::shutdown::Shutdown;
use crate::tallies::Tallies;
use crate::tracking::Trackers;
use crate::waiting::BlockedCount;
use crate::workers::{MAX_WORKERS, Workers};

/// The settings as they are now; readers keep a snapshot and look at the version.
pub struct SettingsCell {
    version: AtomicU64,
    current: RwLock<Arc<Settings>>,
    /// The file the server was started with, for CONFIG REWRITE.
    pub file: Option<std::path::PathBuf>,
}

impl SettingsCell {
    fn new(settings: Settings, file: Option<std::path::PathBuf>) -> Self {
        SettingsCell { version: AtomicU64::new(1), current: RwLock::new(Arc::new(settings)), file }
    }

    /// Changes with every change of a setting.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The snapshot in force.
    pub fn current(&self) -> Arc<Settings> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts what `change` makes of the settings in force. Nothing changes on an error.
    pub fn change<E>(
        &self,
        change: impl FnOnce(&Settings) -> Result<Settings, E>,
    ) -> Result<Arc<Settings>, E> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let changed = Arc::new(change(&current)?);
        *current = Arc::clone(&changed);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(changed)
    }
}

/// How many different error codes are counted; beyond that they share one line.
const ERROR_CODES: usize = 128;

/// Error replies by their first word.
#[derive(Default)]
pub struct ErrorCounts(Mutex<BTreeMap<String, u64>>);

impl ErrorCounts {
    /// One more.
    pub fn count(&self, code: &str) {
        self.add(code.into(), 1);
    }

    /// So many more.
    pub fn add(&self, code: String, more: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one_too_many = counts.len() >= ERROR_CODES && !counts.contains_key(&code);
        let code = if is_one_too_many { "ERRORSTATS_DISABLED".into() } else { code };
        *counts.entry(code).or_default() += more;
    }

    /// All counts, which begin again.
    pub fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All counts, by code.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts again.
    pub fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// See the module.
pub struct Shared {
    /// The data.
    pub space: Keyspace,
    /// The command table.
    pub registry: Registry,
    /// The settings.
    pub settings: SettingsCell,
    /// The workers.
    pub workers: Workers,
    /// The slow lane.
    pub lane: Lane,
    /// The scripts it has been shown, and those that run.
    pub scripts: Scripts,
    /// The libraries of functions.
    pub functions: Functions,
    /// Counters of all threads.
    pub tallies: Tallies,
    /// Error replies by code.
    pub errors: ErrorCounts,
    /// Slow, large and late things.
    pub logs: Logs,
    /// Where each client is.
    pub directory: Directory,
    /// Keyspace notifications.
    pub events: Events,
    /// Clients that are told when keys change.
    pub trackers: Trackers,
    /// Clients that watch all commands.
    pub monitors: Monitors,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// Clients that wait for keys.
    pub blocked: BlockedCount,
    /// Channels and their subscribers.
    pub pubsub: PubSub,
    /// How much memory is used, and how much may be.
    pub memory: MemoryGuard,
    /// Whether the server stops.
    pub shutdown: Shutdown,
    /// Forty hexadecimal digits that name this run.
    pub run_id: String,
    /// When it began (monotonic, microseconds).
    pub started_us: u64,
    /// When it began (Unix, seconds).
    pub started_unix_s: i64,
    /// The event loop in use and what it found in the kernel.
    pub engine: std::sync::OnceLock<String>,
    /// What DEBUG has turned off or on.
    pub switches: Switches,
    /// Commands that took very long: LATENCY.
    pub latency_monitor: LatencyMonitor,
    /// What INFO tells per second.
    pub rates: Mutex<Rates>,
    /// How busy the workers are, for INFO.
    pub loads: Mutex<Loads>,
    me: OnceLock<Weak<Shared>>,
    clients: AtomicU64,
}

impl Shared {
    /// Everything, at the start. `more` are commands beside our own.
    pub fn new(
        settings: Settings,
        file: Option<std::path::PathBuf>,
        seed: HashSeed,
        more: &'static [Command],
    ) -> Self {
        let mut families = crate::commands::families();
        families.push(more);
        let registry = Registry::new(&families);
        let mut random = Rng::random();
        let mut run_id = [0; 20];
        random.bytes(&mut run_id);
        Shared {
            space: Keyspace::new(Config {
                seed,
                databases: settings.databases,
                worker_slots: MAX_WORKERS,
                lane_slots: LANE_SLOTS,
            }),
            tallies: Tallies::new(registry.rows().len()),
            registry,
            workers: Workers::default(),
            lane: Lane::default(),
            scripts: Scripts::default(),
            functions: Functions::default(),
            errors: ErrorCounts::default(),
            logs: Logs::default(),
            directory: Directory::default(),
            events: Events::default(),
            trackers: Trackers::default(),
            monitors: Monitors::default(),
            pause: Pause::default(),
            blocked: BlockedCount::default(),
            pubsub: PubSub::default(),
            memory: MemoryGuard::new(),
            shutdown: Shutdown::default(),
            run_id: run_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            started_us: monotonic_us(),
            started_unix_s: unix_us() / 1_000_000,
            engine: std::sync::OnceLock::new(),
            switches: Switches::default(),
            latency_monitor: LatencyMonitor::default(),
            rates: Mutex::new(Rates::default()),
            loads: Mutex::new(Loads::default()),
            me: OnceLock::new(),
            clients: AtomicU64::new(0),
            settings: SettingsCell::new(settings, file),
        }
    }

    /// Lets [`Shared::arc`] work; once, at the start.
    pub fn set_self_ref(self: &Arc<Self>) {
        let _already = self.me.set(Arc::downgrade(self));
    }

    /// Itself, for threads that are to be started.
    pub fn arc(&self) -> Option<Arc<Shared>> {
        self.me.get()?.upgrade()
    }

    /// The number of the next client.
    pub fn next_client_id(&self) -> u64 {
        self.clients.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Who is told of what happens to keys, at the start and after CONFIG SET.
    pub fn apply_event_settings(&self) {
        self.events.configure(&self.settings.current());
        self.trackers.settings_changed(self);
    }

    /// Hands the logs their thresholds, at the start and after CONFIG SET.
    pub fn apply_log_settings(&self) {
        let now = self.settings.current();
        let logs = &self.logs;
        self.latency_monitor.configure(now.latency_monitor_threshold_ms);
        logs.of(Kind::Slow).configure(
            now.commandlog_execution_slower_than_us,
            now.commandlog_slow_execution_max_len,
        );
        logs.of(Kind::LargeRequest).configure(
            now.commandlog_request_larger_than_bytes,
            now.commandlog_large_request_max_len,
        );
        logs.of(Kind::LargeReply)
            .configure(now.commandlog_reply_larger_than_bytes, now.commandlog_large_reply_max_len);
    }

    /// Tells interpreters their limit, at the start and after CONFIG SET.
    pub fn apply_script_settings(&self) {
        let bytes = self.settings.current().lua_memory_limit_bytes;
        self.scripts.limit_memory(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// What a handler is given, as what it is.
    pub fn of<'c>(call: &pantala_commands::Call<'c, '_>) -> &'c Shared {
        call.server.any().downcast_ref().expect("the only Server there is")
    }
}

impl pantala_commands::Server for Shared {
    fn any(&self) -> &dyn Any {
        self
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }
}
