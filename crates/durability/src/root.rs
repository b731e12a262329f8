//! The state of durability that all threads share.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock, Weak};

use pantala_base::clock::unix_us;
use pantala_commands::Call;
use pantala_engine::Engine;
use pantala_journal::Stamp;
use pantala_persistence::runs::Runs;
use pantala_psync::{Downstream, RoleState};
use parking_lot::Mutex;

use crate::appending::AppendOnlyState;
use crate::failures::Failures;
use crate::loading::LoadState;
use crate::saves::Saves;
use crate::snapshots::Snapshots;

/// Snapshots, the append-only file and loading: their state, and what they need of the server.
pub struct Durability {
    /// Runs commands.
    pub engine: Arc<Engine>,
    /// The stream of replicas, which the journal's thread feeds.
    pub downstream: Arc<Downstream>,
    /// Primary or replica.
    pub role: Arc<RoleState>,
    /// The line for snapshots of all kinds.
    pub snapshots: Snapshots,
    /// The state of those in `dir`.
    pub saves: Saves,
    /// The last runs of snapshots and of rewrites.
    pub runs: Arc<Runs>,
    /// The append-only file.
    pub appending: AppendOnlyState,
    /// The state of loading.
    pub loading: LoadState,
    /// Commands of other servers that have failed here.
    pub failures: Failures,
    /// Held by a thread that holds writes back.
    pub writes_wait: Mutex<()>,
    stream_grew: Box<dyn Fn() + Send + Sync>,
    self_ref: OnceLock<Weak<Durability>>,
}

impl Durability {
    /// The state of a server that has just started. `stream_grew` is called by the journal's thread
    /// when it has appended to the stream of replicas.
    pub fn new(engine: Arc<Engine>, stream_grew: Box<dyn Fn() + Send + Sync>) -> Arc<Durability> {
        let runs = Arc::<Runs>::default();
        let durability = Arc::new(Durability {
            engine,
            downstream: Arc::default(),
            role: Arc::default(),
            snapshots: Snapshots::default(),
            saves: Saves::new(unix_us().div_euclid(1_000_000)),
            appending: AppendOnlyState::new(Arc::clone(&runs)),
            runs,
            loading: LoadState::default(),
            failures: Failures::default(),
            writes_wait: Mutex::default(),
            stream_grew,
            self_ref: OnceLock::new(),
        });
        let _first = durability.self_ref.set(Arc::downgrade(&durability));
        durability
    }

    /// The state of the server that runs this call.
    pub fn of<'c>(call: &Call<'c, '_>) -> &'c Durability {
        call.server.part()
    }

    /// The state itself, for threads that are to be started.
    pub fn arc(&self) -> Option<Arc<Durability>> {
        self.self_ref.get()?.upgrade()
    }

    /// Feeds the stream of replicas with what is recorded from the cut of `stamp` on; the receiver
    /// gets the stream's position there once the journal's thread has come to it. With no thread
    /// inside the gate, after [`prepare_to_feed`](crate::journaling::prepare_to_feed).
    pub fn feed_from(&self, stamp: Stamp) -> Receiver<u64> {
        self.appending.feed_from(&self.engine.journal, stamp)
    }

    /// Says that the stream of replicas has grown.
    pub(crate) fn tell_stream_grew(&self) {
        (self.stream_grew)();
    }

    /// The number of changes since the start, as save points count them.
    pub fn changes(&self) -> u64 {
        self.engine.stats.tallies.sum_ever(|tally| {
            let keys = &tally.keys;
            keys.changes.get().wrapping_add(keys.more_changes.get())
        })
    }
}
