//! The append-only file as the server knows it: whether there is one, how large, how its rewrites
//! ended.
//!
//! Not here: writing it (`process/journaling`), rewriting it (`process/rewriting`).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use pantala_journal::{Journal, Rings, Stamp};
use pantala_persistence::aof::{Part, Rewrite, Writer};
use pantala_persistence::snapshot::Form;

/// What the journal's thread is asked to do.
pub enum Order {
    /// The snapshot of a rewrite was written, or has failed.
    Rewritten(Rewritten),
    /// These files are gone.
    Removed(Vec<Part>),
    /// Tell when everything is in the file that was handed over.
    Flush(Sender<()>),
    /// Append to this file from now on.
    Open(Box<Writer>),
    /// Write no more: the file is not wanted. Tells when it is closed.
    Close(Sender<()>),
    /// Tell the stream's replicas no more of what is recorded after this; its end, when all that
    /// was recorded before is in it.
    EndFeed(Sender<u64>),
    /// Tell the stream's end, when all that was handed over before is in it.
    Position(Sender<u64>),
    /// Ask the stream's replicas how far they are.
    AskReplicas,
    /// Write what there is, and end.
    End,
}

/// The end of a rewrite's snapshot.
pub struct Rewritten {
    /// Which.
    pub rewrite: Rewrite,
    /// Whether it is there, and synced.
    pub is_written: bool,
}

/// How large the files are, and how far the writing is.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// All of them, in bytes.
    pub bytes: u64,
    /// After the last rewrite.
    pub base_bytes: u64,
    /// Whether the last write succeeded.
    pub is_good: bool,
    /// Whether a sync is under way on its own thread.
    pub is_syncing: bool,
    /// How often one was due while another one was under way.
    pub delayed_syncs: u64,
    /// So far of the journal is in the file ...
    pub written_offset: u64,
    /// ... and so far is synced.
    pub durable_offset: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            bytes: 0,
            base_bytes: 0,
            is_good: true,
            is_syncing: false,
            delayed_syncs: 0,
            written_offset: 0,
            durable_offset: 0,
        }
    }
}

/// Why no rewrite begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRewrite {
    /// One is under way.
    Running,
    /// The server is about to stop.
    Stopping,
}

impl fmt::Display for NoRewrite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NoRewrite::Running => "a rewrite is under way: try again when it has ended",
            NoRewrite::Stopping => "the server is being stopped",
        })
    }
}

/// What INFO tells of rewrites.
#[derive(Clone, Copy, Debug)]
pub struct Rewrites {
    /// When the one that is under way began (monotonic, microseconds).
    pub began_us: Option<u64>,
    /// One is to begin as soon as a snapshot that is being written is there.
    pub is_scheduled: bool,
    /// How long the last one took.
    pub last_took_s: Option<u64>,
    /// Whether it succeeded.
    pub is_last_good: bool,
    /// How many there were.
    pub count: u64,
    /// How many of the last ones have failed.
    pub failures: u64,
    /// When it ended (monotonic, microseconds).
    ended_us: u64,
}

/// The state of the append-only file and its rewrites, shared by all threads.
#[derive(Default)]
pub struct Appending {
    state: Mutex<State>,
    numbers: AtomicU64,
    is_kept: AtomicBool,
}

#[derive(Default)]
struct State {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    /// There is a file.
    is_open: bool,
    /// What is recorded goes to replicas.
    is_fed: bool,
    sizes: Sizes,
    rewrites: Rewrites,
    /// The server is about to stop: none begins.
    has_no_more: bool,
    /// Who waits for a rewrite to begin, and at which cut.
    expected: Option<Expected>,
    /// Where what is not in the file yet outlives the process.
    rings: Option<Arc<Rings>>,
    /// Who waits for the stream's position at which cut.
    positions: Vec<(u64, Sender<u64>)>,
}

impl State {
    /// Changes are recorded if somebody takes them.
    fn turn(&self, journal: &Journal) {
        journal.turn(self.is_open || self.is_fed);
    }
}

/// A rewrite that is to begin.
struct Expected {
    /// The cut's.
    number: u64,
    /// What its base is made of.
    form: Form,
    waiting: Sender<Option<Rewrite>>,
}

impl Default for Rewrites {
    fn default() -> Self {
        Rewrites {
            began_us: None,
            is_scheduled: false,
            last_took_s: None,
            is_last_good: true,
            count: 0,
            failures: 0,
            ended_us: 0,
        }
    }
}

impl Appending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the journal's thread, if there is none.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start_thread(
        &self,
        spawn: impl FnOnce(Receiver<Order>) -> Result<JoinHandle<()>, String>,
    ) -> Result<(), String> {
        let mut state = self.state();
        if state.orders.is_none() {
            let (orders, taken) = channel();
            state.thread = Some(spawn(taken)?);
            state.orders = Some(orders);
        }
        Ok(())
    }

    /// There is a file: the journal's thread, which was started, appends to it.
    pub fn open(&self, journal: &Journal, writer: Writer) {
        let mut state = self.state();
        state.is_open = true;
        if let Some(orders) = &state.orders {
            let _thread_is_there = orders.send(Order::Open(Box::new(writer)));
        }
        drop(state);
        journal.wake_reader();
    }

    /// What is not in the file yet outlives the process in these rings, or in none.
    pub fn set_rings(&self, rings: Option<Arc<Rings>>) {
        self.state().rings = rings;
    }

    /// See [`Appending::set_rings`].
    pub fn rings(&self) -> Option<Arc<Rings>> {
        self.state().rings.clone()
    }

    /// Whether there is an append-only file.
    pub fn is_running(&self) -> bool {
        self.state().is_open
    }

    /// Whether what is written now is in a file that counts. Told before its rewrite has ended.
    pub fn set_kept(&self, is_kept: bool) {
        self.is_kept.store(is_kept, Ordering::Relaxed);
    }

    /// See [`Appending::set_kept`].
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Whether the first file is being written: what is acknowledged meanwhile is in none.
    pub fn begins_file(&self) -> bool {
        let state = self.state();
        state.is_open && state.rewrites.began_us.is_some() && !self.is_kept()
    }

    /// The file is not wanted any more: waits until what there is has been written.
    pub fn close(&self, journal: &Journal) {
        let mut state = self.state();
        state.is_open = false;
        // Turns that have begun record to their end; it is not kept.
        state.turn(journal);
        // A rewrite that waits for its cut waits no longer.
        state.expected = None;
        let (closed, until_closed) = channel();
        let asked = state.orders.as_ref().is_some_and(|to| to.send(Order::Close(closed)).is_ok());
        drop(state);
        journal.wake_reader();
        if asked {
            // One that panicked has said so.
            let _ended = until_closed.recv();
        }
    }

    /// Tells the journal's thread to write what there is and to end, and waits for that. It does
    /// what it was asked before; after this nothing is taken.
    pub fn end(&self, journal: &Journal) {
        let mut state = self.state();
        state.is_open = false;
        if let Some(orders) = state.orders.take() {
            let _it_has_ended = orders.send(Order::End);
        }
        (state.expected, state.positions) = (None, Vec::new());
        let thread = state.thread.take();
        drop(state);
        journal.wake_reader();
        if let Some(thread) = thread {
            // One that panicked has said so.
            let _ended = thread.join();
        }
    }

    /// Asks the journal's thread to do something with the file; false: there is none.
    #[must_use]
    pub fn order(&self, journal: &Journal, order: Order) -> bool {
        let state = self.state();
        let orders = state.orders.as_ref().filter(|_| state.is_open);
        let is_taken = orders.is_some_and(|to| to.send(order).is_ok());
        drop(state);
        journal.wake_reader();
        is_taken
    }

    /// From this cut on what is recorded goes to replicas; where the stream is at the cut, once the
    /// journal's thread, which was started, has come to it. With nobody inside the gate.
    pub fn feed_from(&self, journal: &Journal, stamp: Stamp) -> Receiver<u64> {
        let (position, coming) = channel();
        let mut state = self.state();
        if state.orders.is_some() {
            state.is_fed = true;
            state.turn(journal);
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            state.positions.push((number, position));
            journal.cut(stamp, number);
        }
        coming
    }

    /// Who waits for the stream's position at this cut.
    pub fn take_position(&self, number: u64) -> Option<Sender<u64>> {
        let positions = &mut self.state().positions;
        let at = positions.iter().position(|one| one.0 == number)?;
        Some(positions.swap_remove(at).1)
    }

    /// Whether somebody waits for the stream's position at a cut.
    #[cfg(test)]
    pub fn awaits_cut(&self) -> bool {
        !self.state().positions.is_empty()
    }

    /// What is recorded from now on does not go to replicas; the stream's end, once all that was
    /// recorded before is in it.
    pub fn end_feed(&self, journal: &Journal) -> Receiver<u64> {
        let (end, coming) = channel();
        let mut state = self.state();
        state.is_fed = false;
        state.turn(journal);
        if let Some(orders) = &state.orders {
            let _thread_is_there = orders.send(Order::EndFeed(end));
        }
        drop(state);
        journal.wake_reader();
        coming
    }

    /// Where the stream is when all that was handed over before is in it. Only on a thread that may
    /// wait, with no step of its own open.
    pub fn position(&self, journal: &Journal) -> Receiver<u64> {
        let (position, coming) = channel();
        if let Some(orders) = &self.state().orders {
            let _thread_is_there = orders.send(Order::Position(position));
        }
        journal.wake_reader();
        coming
    }

    /// Whether what is recorded goes to replicas.
    pub fn is_fed(&self) -> bool {
        self.state().is_fed
    }

    /// Has the journal's thread ask all replicas how far they are.
    pub fn ask_replicas(&self, journal: &Journal) {
        if let Some(orders) = &self.state().orders {
            let _thread_is_there = orders.send(Order::AskReplicas);
        }
        journal.wake_reader();
    }

    /// Somebody is to begin a rewrite.
    ///
    /// # Errors
    /// Not now.
    pub fn begin_rewrite(&self, now_us: u64) -> Result<(), NoRewrite> {
        let mut state = self.state();
        if state.has_no_more {
            return Err(NoRewrite::Stopping);
        }
        if state.rewrites.began_us.is_some() {
            return Err(NoRewrite::Running);
        }
        state.rewrites.began_us = Some(now_us);
        Ok(())
    }

    /// Whether from now on none begins: the server is about to stop.
    pub fn begin_no_more(&self, is_stopping: bool) {
        self.state().has_no_more = is_stopping;
    }

    /// Whether one is under way.
    pub fn is_rewriting(&self) -> bool {
        self.state().rewrites.began_us.is_some()
    }

    /// The one that was to begin does not.
    pub fn forgo_rewrite(&self) {
        self.state().rewrites.began_us = None;
    }

    /// Waits until everything is in the file that was handed over, if there is one, and the file is
    /// synced.
    pub fn flush(&self, journal: &Journal) {
        let (flushed, until_flushed) = channel();
        if self.order(journal, Order::Flush(flushed)) {
            // Else the thread has ended, which writes everything first.
            let _ended = until_flushed.recv();
        }
    }

    /// It waits for a snapshot that is being written, or no longer.
    pub fn set_scheduled(&self, is_scheduled: bool) {
        self.state().rewrites.is_scheduled = is_scheduled;
    }

    /// A number for a cut; the rewrite that begins there, with a base of this form, comes this way,
    /// or `None` if it can not.
    pub fn expect_rewrite(&self, form: Form) -> (u64, Receiver<Option<Rewrite>>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (waiting, coming) = channel();
        self.state().expected = Some(Expected { number, form, waiting });
        (number, coming)
    }

    /// The cut of this number, with the gate closed: changes are recorded from here on. If the
    /// journal's thread has ended meanwhile nothing is, and the rewrite will not begin.
    pub fn cut(&self, journal: &Journal, stamp: Stamp, number: u64) {
        let mut state = self.state();
        if !state.is_open {
            state.expected = None;
            return;
        }
        journal.turn(true);
        journal.cut(stamp, number);
    }

    /// What the base of the rewrite that begins at the cut of this number is made of.
    pub fn expected_form(&self, number: u64) -> Form {
        let state = self.state();
        let expected = state.expected.as_ref().filter(|expected| expected.number == number);
        expected.map(|expected| expected.form).unwrap_or_default()
    }

    /// A rewrite has begun at the cut of this number; it comes back if nobody waits for it.
    pub fn begun(&self, number: u64, rewrite: Option<Rewrite>) -> Option<Rewrite> {
        let expected = self.state().expected.take();
        match expected {
            Some(expected) if expected.number == number => {
                expected.waiting.send(rewrite).err().and_then(|back| back.0)
            }
            _ => rewrite,
        }
    }

    /// The rewrite that was under way has ended.
    pub fn rewrite_ended(&self, is_good: bool, now_us: u64) {
        let rewrites = &mut self.state().rewrites;
        let began_us = rewrites.began_us.take().unwrap_or(now_us);
        rewrites.is_scheduled = false;
        rewrites.last_took_s = Some(now_us.saturating_sub(began_us) / 1_000_000);
        (rewrites.is_last_good, rewrites.ended_us) = (is_good, now_us);
        rewrites.count += 1;
        rewrites.failures = if is_good { 0 } else { rewrites.failures + 1 };
    }

    /// How long ago the last rewrite ended.
    pub fn idle_ms(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.state().rewrites.ended_us) / 1000
    }

    /// The files are so large now.
    pub fn tell(&self, sizes: Sizes) {
        self.state().sizes = sizes;
    }

    /// How large the files are.
    pub fn sizes(&self) -> Sizes {
        self.state().sizes
    }

    /// What INFO tells of rewrites.
    pub fn rewrites(&self) -> Rewrites {
        self.state().rewrites
    }
}
