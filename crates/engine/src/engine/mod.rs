//! The engine: the state that is shared by all threads that run commands.
//!
//! Code that works with several of its parts (`execute`, `lane`, `scripts::run`,
//! `tracking::notifier`) is given the whole engine. `assemble` puts the engine together. The
//! settings in force are in `settings_cell`, the limits derived from them in `limits`.

pub mod assemble;
pub mod limits;
pub mod settings_cell;
pub mod slots_cell;

use std::any::{Any, TypeId};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use pantala_acl::{Acl, AclRefusal};
use pantala_base::clock::unix_ms;
use pantala_commands::{Call, ClientError, Registry, Server, Tracking};
use pantala_journal::Journal;
use pantala_keyspace::{ClientId, HideReason, Keyspace};
use pantala_scripting::Libraries;
use pantala_settings::Settings;

use crate::clients::directory::Directory;
use crate::clients::mailbox::WorkerSet;
use crate::clients::monitors::Monitors;
use crate::condition::Condition;
use crate::condition::states::States;
use crate::functions::store::{Functions, Kept};
use crate::lane::queue::Lane;
use crate::pubsub::PubSub;
use crate::pubsub::events::Events;
use crate::scripts::store::Scripts;
use crate::stats::errors::ErrorCounts;
use crate::stats::hot_keys::HotKeys;
use crate::stats::latency_monitor::LatencyMonitor;
use crate::stats::logs::{Kind, Logs};
use crate::stats::tallies::Tallies;
use crate::stats::telemetry::Telemetry;
use crate::tracking::trackers::{Trackers, most_keys};
use crate::waiting::blocked::BlockedCount;
use settings_cell::SettingsCell;
use slots_cell::SlotsCell;

/// Everything that runs commands, without threads and sockets: data, command table, settings,
/// users, journal, scripts, statistics.
pub struct Engine {
    /// The data.
    pub space: Keyspace,
    /// The command table.
    pub registry: Registry,
    /// The settings.
    pub settings: SettingsCell,
    /// What is done with each slot, where a cluster is served.
    pub slots: SlotsCell,
    /// The users and their rules.
    pub acl: Acl,
    /// The threads that own connections.
    pub workers: Arc<dyn WorkerSet>,
    /// The slow lane.
    pub lane: Lane,
    /// Records all changes, if they are recorded.
    pub journal: Arc<Journal>,
    /// The scripts that were loaded or called, and those that run.
    pub scripts: Scripts,
    /// The libraries of functions.
    pub functions: Functions,
    /// Statistics and logs for operators.
    pub stats: Stats,
    /// Everything that is pushed to clients.
    pub notices: Notices,
    /// How many clients are blocked on keys.
    pub blocked: BlockedCount,
    /// Whether the server loads, is paused, is full, or stops.
    pub condition: Condition,
    pub(crate) self_ref: OnceLock<Weak<Engine>>,
}

/// Statistics and logs for operators.
pub struct Stats {
    /// Counters of all threads.
    pub tallies: Tallies,
    /// Error replies by code.
    pub errors: ErrorCounts,
    /// Slow commands, large requests and large replies.
    pub logs: Logs,
    /// Latency spikes, for LATENCY.
    pub latency_monitor: LatencyMonitor,
    /// The keys that cost most, for HOTKEYS.
    pub hot_keys: HotKeys,
    /// Commands kept for traces.
    pub telemetry: Telemetry,
}

/// Everything that is pushed to clients: messages, events, invalidated keys, monitored commands.
#[derive(Default)]
pub struct Notices {
    /// Channels and their subscribers.
    pub pubsub: PubSub,
    /// Keyspace notifications.
    pub events: Events,
    /// Clients that track keys.
    pub trackers: Trackers,
    /// Clients that use MONITOR.
    pub monitors: Monitors,
    /// Where each client is.
    pub directory: Directory,
}

impl Engine {
    /// The engine itself, for threads that will be started.
    pub fn arc(&self) -> Option<Arc<Engine>> {
        self.self_ref.get()?.upgrade()
    }

    /// The engine itself, for objects that may outlive it.
    pub fn weak(&self) -> Weak<Engine> {
        self.self_ref.get().cloned().unwrap_or_default()
    }

    /// The client tracks keys from now on, in this mode.
    pub fn track(&self, client: ClientId, tracking: &Tracking) {
        self.notices.trackers.join(&self.space, &self.settings, client, tracking);
    }

    /// Ends tracking for the client.
    pub fn end_tracking(&self, client: ClientId) {
        self.notices.trackers.leave(&self.space, &self.settings, client);
    }

    /// Evicts tracked keys beyond `tracking-table-max-keys`, as far as their partitions are free.
    /// Inside the gate.
    #[cold]
    pub fn shrink_tracked(&self) {
        self.space.shrink_tracked(most_keys(&self.settings.current()));
    }

    /// Whether tracked keys must be evicted: there are more than the limit allows, and DEBUG has
    /// not stopped housekeeping.
    #[inline]
    pub fn has_too_many_tracked(&self, settings: &Settings) -> bool {
        self.notices.trackers.is_used()
            && self.space.tracked().keys.load(Ordering::Relaxed) > most_keys(settings)
            && !self.condition.switches.no_housekeeping.is_on()
    }

    /// Selects the events that are published, at the start and after CONFIG SET.
    pub fn apply_event_settings(&self) {
        self.notices.events.configure(&self.settings.current());
        self.notices.trackers.settings_changed(&self.space, &self.settings);
    }

    /// Has expired keys removed or, with `import-mode`, hidden, at the start and after CONFIG SET.
    pub fn apply_expiry_settings(&self) {
        self.space.hide_expired(HideReason::Import, self.settings.current().import_mode);
    }

    /// Counts a refusal by a user's rules, and keeps it for ACL LOG.
    #[cold]
    pub fn log_refusal(&self, refusal: AclRefusal) {
        let most = self.settings.current().acllog_max_len;
        self.acl.log.add(refusal, unix_ms().0, most);
    }

    /// Applies the thresholds of the logs, at the start and after CONFIG SET.
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

    /// Gives the default user the password of `requirepass`, or none, at the start and after CONFIG
    /// SET.
    pub fn apply_password(&self, now: &Settings) {
        let password = now.requirepass.as_bytes();
        let changed = self.change_users(|users| Ok::<_, ()>(users.with_default_password(password)));
        debug_assert_eq!(changed, Ok(()), "any password will do");
    }

    /// Applies the memory limit of the interpreters, at the start and after CONFIG SET.
    pub fn apply_script_settings(&self) {
        let bytes = self.settings.current().lua_memory_limit_bytes;
        self.scripts.limit_memory(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Whether more memory is used than `most_bytes`, where a limit applies.
    #[inline]
    pub fn is_full(&self, most_bytes: u64) -> bool {
        !self.condition.lasting.now().intersects(States::UNLIMITED)
            && self.condition.memory.is_full(most_bytes, || self.not_counted_bytes())
    }

    /// The states of the server at the time `now_us` (monotonic, microseconds), with this memory
    /// limit.
    #[inline]
    pub fn states(&self, most_bytes: u64, now_us: u64) -> States {
        let states = self.condition.states(most_bytes, || self.not_counted_bytes(), now_us);
        if self.journal.is_full() { states.union(States::JOURNAL_FULL) } else { states }
    }

    /// The function of this name, for FCALL.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn function(&self, name: &[u8]) -> Result<Kept, ClientError> {
        self.functions.find(name)
    }

    /// Replaces all libraries by what `change` makes of the current ones. Nothing changes on an
    /// error.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn change_functions<E>(
        &self,
        change: impl FnOnce(&Libraries<Kept>) -> Result<Libraries<Kept>, E>,
    ) -> Result<(), E> {
        let had_some = self.functions.current().library_count() > 0;
        self.functions.change(change)?;
        if had_some {
            // Every interpreter frees the memory of a library that is gone.
            self.scripts.forget_compiled();
        }
        Ok(())
    }

    /// Replaces all libraries of functions by these.
    pub fn set_functions(&self, libraries: Libraries<Kept>) {
        let Ok(()) = self.change_functions(|_| Ok::<_, std::convert::Infallible>(libraries));
    }

    /// The engine that runs this call.
    pub fn of<'c>(call: &Call<'c, '_>) -> &'c Engine {
        Engine::of_server(call.server)
    }

    /// The engine of a server.
    pub fn of_server(server: &dyn Server) -> &Engine {
        server.engine().downcast_ref().expect("the only engine there is")
    }
}

/// An engine without a server: for tests, and for replaying a journal.
impl Server for Engine {
    fn find_part(&self, _id: TypeId) -> Option<&dyn Any> {
        None
    }

    fn engine(&self) -> &dyn Any {
        self
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }
}
