//! What everything that runs commands shares.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use pantala_base::hash::HashSeed;
use pantala_commands::{Call, Command, Registry, Server};
use pantala_keyspace::{ChangeSink, Config, Keyspace};
use pantala_settings::Settings;

use crate::directory::Directory;
use crate::events::Events;
use crate::execute::states::LastingStates;
use crate::functions::Functions;
use crate::lane::{Compensate, LANE_SLOTS, Lane};
use crate::mailbox::{MAX_WORKERS, WorkerSet};
use crate::memory::MemoryGuard;
use crate::monitors::Monitors;
use crate::pause::Pause;
use crate::pubsub::PubSub;
use crate::scripts::Scripts;
use crate::settings_cell::SettingsCell;
use crate::shutdown::Shutdown;
use crate::stats::logs::Kind;
use crate::stats::{ErrorCounts, LatencyMonitor, Logs, Tallies};
use crate::switches::Switches;
use crate::tracking::Trackers;
use crate::tracking::notifier::Notifier;
use crate::waiting::BlockedCount;

/// Starts a thread of the slow lane for a slot of the gate; whether it could.
pub type StartLaneThread = Box<dyn Fn(usize) -> bool + Send + Sync>;

/// See the module.
pub struct Engine {
    /// The data.
    pub space: Keyspace,
    /// The command table.
    pub registry: Registry,
    /// The settings.
    pub settings: SettingsCell,
    /// The threads that own connections.
    pub workers: Arc<dyn WorkerSet>,
    /// The slow lane.
    pub lane: Lane,
    /// The scripts it has been shown, and those that run.
    pub scripts: Scripts,
    /// The libraries of functions.
    pub functions: Functions,
    /// What is counted and kept for operators.
    pub stats: Stats,
    /// What is told to clients without being asked for.
    pub notices: Notices,
    /// States in which commands are refused, of those that last.
    pub lasting: LastingStates,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// Clients that wait for keys.
    pub blocked: BlockedCount,
    /// How much memory is used, and how much may be.
    pub memory: MemoryGuard,
    /// Whether the server stops.
    pub shutdown: Shutdown,
    /// What DEBUG has turned off or on.
    pub switches: Switches,
    start_lane_thread: OnceLock<StartLaneThread>,
    self_ref: OnceLock<Weak<Engine>>,
}

/// What is counted and kept for operators.
pub struct Stats {
    /// Counters of all threads.
    pub tallies: Tallies,
    /// Error replies by code.
    pub errors: ErrorCounts,
    /// Slow, large and late things.
    pub logs: Logs,
    /// Commands that took very long: LATENCY.
    pub latency_monitor: LatencyMonitor,
}

/// What is told to clients without being asked for: messages, events, changed keys, commands.
#[derive(Default)]
pub struct Notices {
    /// Channels and their subscribers.
    pub pubsub: PubSub,
    /// Keyspace notifications.
    pub events: Events,
    /// Clients that are told when keys change.
    pub trackers: Trackers,
    /// Clients that watch all commands.
    pub monitors: Monitors,
    /// Where each client is.
    pub directory: Directory,
}

/// What an engine is made of.
pub struct Parts<'p> {
    /// The settings at the start.
    pub settings: Settings,
    /// The file they were read from.
    pub file: Option<std::path::PathBuf>,
    /// For the hashes of keys.
    pub seed: HashSeed,
    /// The rows of the command table.
    pub families: &'p [&'static [Command]],
    /// The threads that own connections.
    pub workers: Arc<dyn WorkerSet>,
    /// Who is told of what happens to keys; `None`: the clients that ask for it.
    pub change_sink: Option<Box<dyn ChangeSink>>,
}

impl Engine {
    /// An empty one, ready to run commands.
    pub fn new(parts: Parts<'_>) -> Arc<Self> {
        let registry = Registry::new(parts.families);
        let config = Config {
            seed: parts.seed,
            databases: parts.settings.databases,
            worker_slots: MAX_WORKERS,
            lane_slots: LANE_SLOTS,
        };
        let engine = Arc::new(Engine {
            space: Keyspace::new(config),
            stats: Stats {
                tallies: Tallies::new(registry.rows().len()),
                errors: ErrorCounts::default(),
                logs: Logs::default(),
                latency_monitor: LatencyMonitor::default(),
            },
            registry,
            settings: SettingsCell::new(parts.settings, parts.file),
            workers: parts.workers,
            lane: Lane::default(),
            scripts: Scripts::default(),
            functions: Functions::default(),
            notices: Notices::default(),
            lasting: LastingStates::default(),
            pause: Pause::default(),
            blocked: BlockedCount::default(),
            memory: MemoryGuard::default(),
            shutdown: Shutdown::default(),
            switches: Switches::default(),
            start_lane_thread: OnceLock::new(),
            self_ref: OnceLock::new(),
        });
        let _first = engine.self_ref.set(Arc::downgrade(&engine));
        engine.connect(parts.change_sink);
        engine
    }

    /// What the keyspace tells goes to clients and to the slow lane; what reads settings has them.
    fn connect(self: &Arc<Self>, sink: Option<Box<dyn ChangeSink>>) {
        self.apply_log_settings();
        self.apply_script_settings();
        self.space.set_change_sink(sink.unwrap_or_else(|| Box::new(Notifier::new(self))));
        self.space.set_long_wait_observer(Box::new(Compensate(Arc::downgrade(self))));
        self.apply_event_settings();
    }

    /// Itself, for threads that are to be started.
    pub fn arc(&self) -> Option<Arc<Engine>> {
        self.self_ref.get()?.upgrade()
    }

    /// Itself, for what may outlive it.
    pub fn weak(&self) -> Weak<Engine> {
        self.self_ref.get().cloned().unwrap_or_default()
    }

    /// How the slow lane gets one more thread; once, at the start. Without it gets none.
    pub fn set_thread_starter(&self, start: StartLaneThread) {
        let _already = self.start_lane_thread.set(start);
    }

    /// One more thread for the slow lane; whether it was started.
    pub(crate) fn start_lane_thread(&self, slot: usize) -> bool {
        self.start_lane_thread.get().is_some_and(|start| start(slot))
    }

    /// Who is told of what happens to keys, at the start and after CONFIG SET.
    pub fn apply_event_settings(&self) {
        self.notices.events.configure(&self.settings.current());
        self.notices.trackers.settings_changed(self);
    }

    /// Hands the logs their thresholds, at the start and after CONFIG SET.
    pub fn apply_log_settings(&self) {
        let now = self.settings.current();
        let logs = &self.stats.logs;
        self.stats.latency_monitor.configure(now.latency_monitor_threshold_ms);
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
    pub fn of<'c>(call: &Call<'c, '_>) -> &'c Engine {
        Engine::behind(call.server)
    }

    /// The engine of a server.
    pub fn behind(server: &dyn Server) -> &Engine {
        server.engine().downcast_ref().expect("the only engine there is")
    }
}

/// An engine that nothing stands around: for tests, and for what replays a journal.
impl Server for Engine {
    fn any(&self) -> &dyn Any {
        self
    }

    fn engine(&self) -> &dyn Any {
        self
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }
}
