//! The state of the append-only file: whether there is one, its size, and its rewrites.
//!
//! Not here: writing it (`journaling`), rewriting it (`rewriting`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use pantala_journal::{Journal, Rings, Stamp};
use pantala_persistence::aof::{AofWriter, Part, Rewrite};
use pantala_persistence::runs::Runs;
use pantala_persistence::snapshot::Form;
use parking_lot::{Mutex, MutexGuard};

use crate::saves::Save;

/// An order to the journal's thread.
pub enum Order {
    /// The snapshot of a rewrite was written, or has failed.
    Rewritten(Rewritten),
    /// These files were removed.
    Removed(Vec<Part>),
    /// Remove what earlier rewrites have replaced and was kept. Replies when that is done.
    RemoveHistory(Sender<()>),
    /// Reply when everything that was handed over is in the file.
    Flush(Sender<()>),
    /// Append to this file from now on.
    Open(Box<AofWriter>),
    /// Write no more: the file was turned off. Replies when it is closed.
    Close(Sender<()>),
    /// End feeding the stream after what is recorded by now. Replies with the stream's end, once
    /// all of that is in it.
    EndFeed(Sender<u64>),
    /// Reply with the stream's end, once everything that was handed over is in it.
    Position(Sender<u64>),
    /// Ask the replicas for acknowledgements.
    AskReplicas,
    /// Write everything, and end.
    End,
}

/// The end of a rewrite's snapshot.
pub struct Rewritten {
    /// The rewrite.
    pub rewrite: Rewrite,
    /// Whether the base is complete and synced.
    pub is_written: bool,
}

/// The sizes of the files, and the progress of writing.
#[derive(Clone, Copy, Debug)]
pub struct FileSizes {
    /// The size of all files, in bytes.
    pub bytes: u64,
    /// Their size after the last rewrite, in bytes.
    pub base_bytes: u64,
    /// Whether the last write succeeded.
    pub is_good: bool,
    /// Whether a sync is under way on its own thread.
    pub is_syncing: bool,
    /// How often one was due while another one was under way.
    pub delayed_syncs: u64,
    /// The journal offset before which everything is in the file.
    pub written_offset: u64,
    /// The journal offset before which everything is synced.
    pub durable_offset: u64,
}

/// What the log says of a rewrite whose file was turned off, in Valkey's words.
const ENDS: &str = "Killing AOF child: nobody wants the file any more, its rewrite ends";

impl Default for FileSizes {
    fn default() -> Self {
        FileSizes {
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

/// The figures about rewrites, for INFO.
#[derive(Clone, Copy, Debug)]
pub struct Rewrites {
    /// When the running one began (monotonic, microseconds).
    pub began_us: Option<u64>,
    /// One is to begin once the snapshot that is being written is complete.
    pub is_scheduled: bool,
    /// The duration of the last one, in seconds.
    pub last_took_s: Option<u64>,
    /// Whether it succeeded.
    pub is_last_good: bool,
    /// How many there were so far.
    pub count: u64,
    /// How many have failed in a row, up to the last one.
    pub failures: u64,
    /// When the last one ended (monotonic, microseconds).
    ended_us: u64,
}

/// The state of the append-only file and its rewrites, shared by all threads.
#[derive(Default)]
pub struct AppendOnlyState {
    state: Mutex<State>,
    numbers: AtomicU64,
    is_kept: AtomicBool,
    runs: Arc<Runs>,
}

#[derive(Default)]
struct State {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    /// There is a file.
    is_open: bool,
    /// Records are fed to replicas.
    is_fed: bool,
    sizes: FileSizes,
    rewrites: Rewrites,
    /// The server is about to stop: no rewrite begins.
    has_no_more: bool,
    /// The rewrite that waits for its cut.
    expected: Option<ScheduledRewrite>,
    /// The rings in which records outlive the process until they are in the file.
    rings: Option<Arc<Rings>>,
    /// Requests for the stream's position at a cut, by the cut's number.
    positions: Vec<(u64, Sender<u64>)>,
    /// The snapshot of a rewrite that is being written.
    base: Option<Arc<Save>>,
    /// The file of the running rewrite was turned off: it ends soon.
    is_called_off: bool,
}

impl State {
    /// Turns recording on if there is a file or a stream, else off.
    fn turn(&self, journal: &Journal) {
        journal.turn(self.is_open || self.is_fed);
    }
}

/// A rewrite that waits for its cut.
struct ScheduledRewrite {
    /// The number of the cut.
    number: u64,
    /// The form of its base.
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

impl AppendOnlyState {
    /// No file yet; the ends of rewrites are noted among these runs.
    pub fn new(runs: Arc<Runs>) -> Self {
        AppendOnlyState { runs, ..AppendOnlyState::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
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

    /// Hands a file to the journal's thread, which has been started: it appends to it from now on.
    pub fn open(&self, journal: &Journal, writer: AofWriter) {
        let mut state = self.state();
        debug_assert!(state.orders.is_some() || state.thread.is_none(), "the thread takes orders");
        // Until its first base is there, what is acknowledged is in no file.
        self.set_kept(writer.is_kept());
        state.is_open = true;
        if let Some(orders) = &state.orders {
            let _thread_is_there = orders.send(Order::Open(Box::new(writer)));
        }
        drop(state);
        journal.wake_reader();
    }

    /// Sets the rings in which records outlive the process until they are in the file; `None`:
    /// there are none.
    pub fn set_rings(&self, rings: Option<Arc<Rings>>) {
        self.state().rings = rings;
    }

    /// The rings of [`AppendOnlyState::set_rings`].
    pub fn rings(&self) -> Option<Arc<Rings>> {
        self.state().rings.clone()
    }

    /// Whether there is an append-only file.
    pub fn is_running(&self) -> bool {
        self.state().is_open
    }

    /// Notes whether what is written now is in a file that counts. Called before the end of the
    /// rewrite is noted.
    pub fn set_kept(&self, is_kept: bool) {
        self.is_kept.store(is_kept, Ordering::Relaxed);
    }

    /// What [`AppendOnlyState::set_kept`] has noted.
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Whether the first file is being written: what is acknowledged meanwhile is in none.
    pub fn begins_file(&self) -> bool {
        let state = self.state();
        state.is_open && state.rewrites.began_us.is_some() && !self.is_kept()
    }

    /// The snapshot of a rewrite, which is to be written now; called off, if the file is not
    /// wanted any more.
    pub fn begin_base(&self) -> Arc<Save> {
        let mut state = self.state();
        let save = Arc::<Save>::default();
        if !state.is_open {
            tracing::info!("{ENDS}");
            save.cancel();
        }
        debug_assert!(state.base.is_none(), "one base is written at a time");
        debug_assert!(state.rewrites.began_us.is_some(), "of a rewrite");
        state.base = Some(Arc::clone(&save));
        save
    }

    /// It is there, or has failed.
    pub fn end_base(&self) {
        self.state().base = None;
    }

    /// Closes the file, which was turned off: waits until everything has been written, and ends a
    /// rewrite.
    pub fn close(&self, journal: &Journal) {
        let mut state = self.state();
        state.is_open = false;
        state.is_called_off = state.rewrites.began_us.is_some();
        if let Some(base) = state.base.take() {
            tracing::info!("{ENDS}");
            base.cancel();
        }
        // Turns that have begun still record to their end; that is dropped.
        state.turn(journal);
        // A rewrite that waits for its cut will not begin.
        state.expected = None;
        let (closed, until_closed) = channel();
        let asked = state.orders.as_ref().is_some_and(|to| to.send(Order::Close(closed)).is_ok());
        drop(state);
        journal.wake_reader();
        if asked {
            // A panic was logged already.
            let _ended = until_closed.recv();
        }
    }

    /// Tells the journal's thread to write everything and to end, and waits for that. Earlier
    /// orders are carried out; later ones are not taken.
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
            // A panic was logged already.
            let _ended = thread.join();
        }
    }

    /// Sends an order to the journal's thread, if there is a file; false otherwise.
    #[must_use]
    pub fn order(&self, journal: &Journal, order: Order) -> bool {
        let state = self.state();
        let orders = state.orders.as_ref().filter(|_| state.is_open);
        let is_taken = orders.is_some_and(|to| to.send(order).is_ok());
        drop(state);
        journal.wake_reader();
        is_taken
    }

    /// Feeds the stream with what is recorded from this cut on; the receiver gets the stream's
    /// position at the cut once the journal's thread, which has been started, has come to it. With
    /// no thread inside the gate.
    pub fn feed_from(&self, journal: &Journal, stamp: Stamp) -> Receiver<u64> {
        let (position, coming) = channel();
        let mut state = self.state();
        if state.orders.is_some() {
            state.is_fed = true;
            state.turn(journal);
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            debug_assert!(
                state.positions.last().is_none_or(|last| last.0 < number),
                "numbers ascend"
            );
            state.positions.push((number, position));
            journal.cut(stamp, number);
        }
        coming
    }

    /// Takes the request for the stream's position at this cut.
    pub fn take_position(&self, number: u64) -> Option<Sender<u64>> {
        let positions = &mut self.state().positions;
        let at = positions.iter().position(|one| one.0 == number)?;
        Some(positions.swap_remove(at).1)
    }

    /// Whether the stream's position at a cut was requested.
    pub fn awaits_cut(&self) -> bool {
        !self.state().positions.is_empty()
    }

    /// Ends feeding the stream; the receiver gets the stream's end, once everything recorded before
    /// is in it.
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

    /// The receiver gets the stream's end, once everything handed over before is in it. Only on a
    /// thread that may wait, with no step of its own open.
    pub fn position(&self, journal: &Journal) -> Receiver<u64> {
        let (position, coming) = channel();
        if let Some(orders) = &self.state().orders {
            let _thread_is_there = orders.send(Order::Position(position));
        }
        journal.wake_reader();
        coming
    }

    /// Whether records are fed to replicas.
    pub fn is_fed(&self) -> bool {
        self.state().is_fed
    }

    /// Makes the journal's thread ask all replicas for acknowledgements.
    pub fn ask_replicas(&self, journal: &Journal) {
        if let Some(orders) = &self.state().orders {
            let _thread_is_there = orders.send(Order::AskReplicas);
        }
        journal.wake_reader();
    }

    /// Reserves a rewrite, which the caller is to begin.
    ///
    /// # Errors
    /// It is not possible now.
    pub fn begin_rewrite(&self, now_us: u64) -> Result<(), NoRewrite> {
        let mut state = self.state();
        if state.has_no_more {
            return Err(NoRewrite::Stopping);
        }
        if state.rewrites.began_us.is_some() {
            return Err(NoRewrite::Running);
        }
        state.rewrites.began_us = Some(now_us);
        state.is_called_off = false;
        Ok(())
    }

    /// Sets whether no rewrite may begin, because the server is about to stop.
    pub fn begin_no_more(&self, is_stopping: bool) {
        self.state().has_no_more = is_stopping;
    }

    /// Whether a rewrite is under way.
    pub fn is_rewriting(&self) -> bool {
        self.state().rewrites.began_us.is_some()
    }

    /// Whether the running rewrite is of a file that was turned off, so that it ends soon.
    pub fn is_called_off(&self) -> bool {
        let state = self.state();
        state.rewrites.began_us.is_some() && state.is_called_off
    }

    /// Gives up a reserved rewrite that does not begin.
    pub fn forgo_rewrite(&self) {
        let reserved = self.state().rewrites.began_us.take();
        debug_assert!(reserved.is_some(), "it was reserved");
    }

    /// Waits until everything handed over is in the file, if there is one, and the file is synced.
    pub fn flush(&self, journal: &Journal) {
        let (flushed, until_flushed) = channel();
        if self.order(journal, Order::Flush(flushed)) {
            // Otherwise the thread has ended, which writes everything first.
            let _ended = until_flushed.recv();
        }
    }

    /// Notes whether a rewrite waits for a snapshot that is being written.
    pub fn set_scheduled(&self, is_scheduled: bool) {
        self.state().rewrites.is_scheduled = is_scheduled;
    }

    /// Announces a rewrite with a base of this form; returns the number for its cut. The receiver
    /// gets the rewrite that begins there, or `None` if it cannot begin.
    pub fn expect_rewrite(&self, form: Form) -> (u64, Receiver<Option<Rewrite>>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (waiting, coming) = channel();
        self.state().expected = Some(ScheduledRewrite { number, form, waiting });
        (number, coming)
    }

    /// Makes the cut with this number, with the gate closed: changes are recorded from here on. If
    /// the journal's thread has ended meanwhile they are not, and the rewrite will not begin.
    pub fn cut(&self, journal: &Journal, stamp: Stamp, number: u64) {
        let mut state = self.state();
        if !state.is_open {
            state.expected = None;
            return;
        }
        debug_assert!(
            state.expected.as_ref().is_none_or(|expected| expected.number == number),
            "the rewrite that waits is this one"
        );
        journal.turn(true);
        journal.cut(stamp, number);
    }

    /// The form of the base of the rewrite with this cut.
    pub fn expected_form(&self, number: u64) -> Form {
        let state = self.state();
        let expected = state.expected.as_ref().filter(|expected| expected.number == number);
        expected.map(|expected| expected.form).unwrap_or_default()
    }

    /// Hands the rewrite that has begun at this cut to the waiting thread; returns it if there is
    /// none.
    pub fn begun(&self, number: u64, rewrite: Option<Rewrite>) -> Option<Rewrite> {
        let expected = self.state().expected.take_if(|expected| expected.number == number);
        match expected {
            Some(expected) => expected.waiting.send(rewrite).err().and_then(|back| back.0),
            None => rewrite,
        }
    }

    /// Notes the end of the running rewrite.
    pub fn rewrite_ended(&self, is_good: bool, now_us: u64) {
        self.runs.end_rewrite(is_good, now_us);
        let rewrites = &mut self.state().rewrites;
        debug_assert!(rewrites.began_us.is_some(), "a rewrite ends once");
        let began_us = rewrites.began_us.take().unwrap_or(now_us);
        rewrites.is_scheduled = false;
        rewrites.last_took_s = Some(now_us.saturating_sub(began_us) / 1_000_000);
        (rewrites.is_last_good, rewrites.ended_us) = (is_good, now_us);
        rewrites.count += 1;
        rewrites.failures = if is_good { 0 } else { rewrites.failures + 1 };
    }

    /// The milliseconds since the last rewrite ended.
    pub fn idle_ms(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.state().rewrites.ended_us) / 1000
    }

    /// Sets the sizes of the files.
    pub fn tell(&self, sizes: FileSizes) {
        debug_assert!(sizes.durable_offset <= sizes.written_offset, "what is durable was written");
        debug_assert!(sizes.base_bytes <= sizes.bytes, "the base is one of the files");
        self.state().sizes = sizes;
    }

    /// The sizes of the files.
    pub fn sizes(&self) -> FileSizes {
        self.state().sizes
    }

    /// The figures about rewrites.
    pub fn rewrites(&self) -> Rewrites {
        self.state().rewrites
    }
}
