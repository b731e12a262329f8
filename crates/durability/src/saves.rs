//! The state of snapshots: the one that is being written, and the results of those before.
//!
//! Invariants
//! 1. One snapshot is written at a time. While the server prepares to stop that is the final one:
//!    see [`Saves::keep_for_stop`].
//! 2. Data counts as unsaved ([`States::UNSAVED`]) while the last snapshot in the background has
//!    failed, there are save points, and `stop-writes-on-bgsave-error` is on.
//!
//! Not here: the line for snapshots of all kinds (`snapshots`), writing one (`saving`), when
//! (`pantala_persistence::snapshot::schedule`). Tests: `saving`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pantala_engine::Engine;
use pantala_engine::condition::states::States;
use pantala_keyspace::snapshot::{Snapshot, SnapshotProgress};
use pantala_persistence::snapshot::SavedHistory;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::snapshots::NoTurn;

/// The snapshot that is being written, and the history of those before.
pub struct Saves {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    history: SavedHistory,
    current: Option<Arc<Save>>,
    /// The next one is the final one: no other begins.
    is_for_stop: bool,
}

/// Why no snapshot is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSave {
    /// Another one has not ended.
    Running,
    /// The server is about to stop, and saves itself if that is wanted.
    Stopping,
}

/// A snapshot that is being written.
#[derive(Default)]
pub struct Save {
    /// When it began (monotonic, microseconds).
    pub began_us: u64,
    /// It was begun in the background (BGSAVE, a save point).
    pub is_in_background: bool,
    /// The number of changes at its cut.
    pub changes: AtomicU64,
    snapshot: OnceLock<Snapshot>,
    is_cancelled: AtomicBool,
    turn: Mutex<TurnWait>,
    turn_changed: Condvar,
}

/// How a snapshot stands in the line of [`Snapshots`](crate::snapshots::Snapshots).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TurnWait {
    /// Others are before it.
    #[default]
    Waits,
    /// It is the first.
    Come,
    /// The server stops.
    Closed,
}

impl Save {
    /// Notes that it is in the line.
    pub(crate) fn begin_wait(&self) {
        debug_assert!(!self.is_cut(), "it waits before its moment");
        *self.turn.lock() = TurnWait::Waits;
    }

    /// Ends its wait in the line, if it waits.
    pub(crate) fn end_wait(&self, with: TurnWait) {
        let mut turn = self.turn.lock();
        if *turn == TurnWait::Waits {
            *turn = with;
            self.turn_changed.notify_all();
        }
    }

    /// Waits until it is the first in the line.
    pub(crate) fn wait_for_turn(&self) -> Result<(), NoTurn> {
        let mut turn = self.turn.lock();
        loop {
            match *turn {
                TurnWait::Come => return Ok(()),
                TurnWait::Closed => return Err(NoTurn::Closed),
                TurnWait::Waits if self.is_cancelled() => return Err(NoTurn::Cancelled),
                TurnWait::Waits => self.turn_changed.wait(&mut turn),
            }
        }
    }

    /// Whether it is the first in the line.
    pub(crate) fn has_turn(&self) -> bool {
        *self.turn.lock() == TurnWait::Come
    }

    /// Notes its cut. It may have been cancelled before.
    pub fn cut(&self, snapshot: Snapshot) -> &Snapshot {
        debug_assert!(!self.is_cut(), "a snapshot has one moment");
        let snapshot = self.snapshot.get_or_init(|| snapshot);
        if self.is_cancelled() {
            snapshot.cancel();
        }
        snapshot
    }

    /// The snapshot, once its cut was made.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.get()
    }

    /// Whether its cut was made.
    pub fn is_cut(&self) -> bool {
        self.snapshot.get().is_some()
    }

    /// Cancels it.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        {
            // With the lock, so that a thread that is about to wait hears it.
            let _turn = self.turn.lock();
            self.turn_changed.notify_all();
        }
        if let Some(snapshot) = self.snapshot.get() {
            snapshot.cancel();
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    /// Its progress.
    pub fn progress(&self) -> SnapshotProgress {
        self.snapshot.get().map(Snapshot::progress).unwrap_or_default()
    }
}

/// How a snapshot has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveEnd {
    /// The file is complete.
    Well,
    /// There is no file.
    Failed,
    /// It was cancelled.
    CalledOff,
}

impl State {
    fn begin(&mut self, now_us: u64, is_in_background: bool) -> Result<Arc<Save>, NoSave> {
        if self.current.is_some() {
            return Err(NoSave::Running);
        }
        let save = Arc::new(Save { began_us: now_us, is_in_background, ..Save::default() });
        self.current = Some(Arc::clone(&save));
        Ok(save)
    }
}

impl Saves {
    /// No snapshot yet; the server has started at this time (Unix, seconds).
    pub fn new(now_s: i64) -> Saves {
        let history = SavedHistory::begin(now_s);
        let state = State { history, current: None, is_for_stop: false };
        Saves { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Begins a snapshot.
    ///
    /// # Errors
    /// It is not possible now.
    pub fn begin(&self, now_us: u64, is_in_background: bool) -> Result<Arc<Save>, NoSave> {
        let mut state = self.state();
        match state.is_for_stop {
            true => Err(NoSave::Stopping),
            false => state.begin(now_us, is_in_background),
        }
    }

    /// Begins the final snapshot of a server that stops, after [`Saves::keep_for_stop`].
    ///
    /// # Errors
    /// One that was cancelled has not ended.
    pub fn begin_last(&self, now_us: u64) -> Result<Arc<Save>, NoSave> {
        self.state().begin(now_us, false)
    }

    /// Sets whether only the final snapshot of a server that stops may begin.
    pub fn keep_for_stop(&self, keeps: bool) {
        self.state().is_for_stop = keeps;
    }

    /// Notes the end of a snapshot, at this time (Unix, seconds; monotonic, microseconds).
    pub fn end(&self, save: &Save, ended: SaveEnd, now_s: i64, now_us: u64) {
        let took_s = now_us.saturating_sub(save.began_us) / 1_000_000;
        let mut state = self.state();
        match ended {
            SaveEnd::Well => {
                state.history.succeeded(now_s, took_s, save.changes.load(Ordering::Relaxed));
            }
            SaveEnd::Failed if save.is_in_background => state.history.failed(now_s, took_s),
            SaveEnd::Failed | SaveEnd::CalledOff => {}
        }
        let is_current = state.current.take().is_some_and(|one| std::ptr::eq(&*one, save));
        debug_assert!(is_current, "the one that ends is the one that has begun");
        drop(state);
        self.changed.notify_all();
    }

    /// Notes that the data is that of a file as of now.
    pub fn loaded(&self, changes: u64) {
        self.state().history.changes = changes;
    }

    /// The snapshot that is being written.
    pub fn current(&self) -> Option<Arc<Save>> {
        self.state().current.clone()
    }

    /// The results of those before.
    pub fn history(&self) -> SavedHistory {
        self.state().history
    }

    /// Cancels the one that is being written and waits for its end; whether there was one.
    pub fn cancel_and_wait(&self) -> bool {
        let mut state = self.state();
        let Some(current) = state.current.clone() else { return false };
        current.cancel();
        while state.current.as_ref().is_some_and(|other| Arc::ptr_eq(other, &current)) {
            self.changed.wait(&mut state);
        }
        true
    }

    /// Sets whether writes are refused because of the last one.
    pub fn apply(&self, engine: &Engine) {
        let settings = engine.settings.current();
        let is_meant = settings.stop_writes_on_bgsave_error && !settings.save.0.is_empty();
        let lasting = &engine.condition.lasting;
        match is_meant && !self.history().is_last_good {
            true => lasting.begin(States::UNSAVED),
            false => lasting.end(States::UNSAVED),
        }
    }
}
