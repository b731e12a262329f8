//! Keeping the journal: one thread takes steps in their order and appends them to the file, one
//! syncs it.
//!
//! ```text
//! Reader --runs--> Writer --append--> increment
//!                     |--sync--> each second by a thread of its own (everysec), or here (always)
//!        --cut--> the rewrite begins: a new increment; the snapshot of that moment is its base
//! ```
//!
//! Invariants
//! 1. A step is told to be durable (`Journal::set_durable`) only after the sync that covers it.
//! 2. After a fault nothing is told to be durable, and writes are refused (`States::UNKEPT`), until
//!    a rewrite that began after it has ended.
//! 3. What waits is bounded: while too much has not been written, changes wait
//!    (`Journal::is_full`).
//!
//! Not here: the snapshot (`saving`), what is loaded at the start (`loading`). Tests:
//! `tests/append_only.rs`.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use pantala_base::clock::{monotonic_us, unix_us};
use pantala_engine::states::States;
use pantala_journal::{Audience, Cut, Item, Reader, Stamp};
use pantala_persistence::aof::{
    Fault, GrowthRules, Layout, Manifest, Rewrite, SyncDone, SyncJob, Writer,
};
use pantala_persistence::disk::RealDisk;
use pantala_settings::Settings;
use pantala_settings::field::AppendSync;

use super::rewriting;
use crate::appending::{Order, Rewritten, Sizes};
use crate::shared::Shared;
use crate::workers::inbox::Message;

/// Between two rounds that had something to write: what comes meanwhile is written together, and
/// nobody has to wake the thread.
const NAP: Duration = Duration::from_millis(2);
/// How often a second's sync is.
const SYNC_EVERY_US: u64 = 1_000_000;
/// How often it is looked whether the first file is there.
const LOOK: Duration = Duration::from_millis(5);
/// A run of this length is written as it lies; shorter ones are gathered.
const DIRECT_BYTES: usize = 32 << 10;
/// So much is gathered before it is written.
const GATHERED_BYTES: usize = 1 << 20;

/// The thread that syncs, and what it is doing.
struct Syncing {
    jobs: Sender<SyncJob>,
    done: Receiver<SyncDone>,
    /// What is durable when the job that runs has succeeded.
    running: Option<Stamp>,
    last_us: u64,
    /// How often one was due while another one ran.
    delayed: u64,
}

/// What the journal's thread has.
struct Keeper {
    shared: Arc<Shared>,
    reader: Reader,
    writer: Writer,
    orders: Receiver<Order>,
    /// Who waits until everything is written.
    flushes: Vec<Sender<()>>,
    syncing: Syncing,
    out: Vec<u8>,
    /// Everything before it is in the file.
    written: Stamp,
    /// The file is not wanted any more.
    is_stopped: bool,
    is_ending: bool,
    /// There was a file.
    was_kept: bool,
    /// A rewrite has ended but for the removal of what it stands for.
    has_history: bool,
}

/// Starts the threads. The writer's file is open, or a rewrite will begin one.
///
/// # Errors
/// The system has no threads.
fn start(shared: &Arc<Shared>, writer: Writer) -> Result<(), String> {
    let orders = shared.appending.begin();
    let (jobs, waiting) = channel::<SyncJob>();
    let (finished, done) = channel();
    let journal = Arc::clone(&shared.engine.journal);
    let sync = move || {
        for job in waiting {
            let _keeper_has_gone = finished.send(job.run());
            journal.wake_reader();
        }
        pantala_memory::release_seat();
    };
    let cannot = |error| format!("cannot start a thread: {error}");
    Builder::new().name("journal-sync".into()).spawn(sync).map_err(cannot)?;
    let reader = Reader::new(Arc::clone(&shared.engine.journal), writer.written());
    let keeper = Keeper {
        shared: Arc::clone(shared),
        reader,
        writer,
        orders,
        flushes: Vec::new(),
        syncing: Syncing { jobs, done, running: None, last_us: 0, delayed: 0 },
        out: Vec::new(),
        written: Stamp::default(),
        is_stopped: false,
        is_ending: false,
        was_kept: false,
        has_history: false,
    };
    let thread = Builder::new().name("journal".into()).spawn(move || keeper.run());
    shared.appending.started(thread.map_err(cannot)?);
    Ok(())
}

/// Where the files are, by the settings.
pub fn layout(settings: &Settings) -> Layout {
    Layout::new(Path::new(&settings.dir), &settings.appenddirname, &settings.appendfilename)
}

/// Begins to keep the journal after what `manifest` names was loaded; recording is on already.
///
/// # Errors
/// A text for the operator.
pub fn begin(shared: &Arc<Shared>, manifest: Option<Manifest>) -> Result<(), String> {
    let layout = layout(&shared.engine.settings.current());
    let mut writer = Writer::new(Arc::new(RealDisk), layout, manifest, 0);
    writer.resume().map_err(|error| error.to_string())?;
    let is_always = shared.engine.settings.current().appendfsync == AppendSync::Always;
    shared.engine.journal.hold_replies(is_always);
    start(shared, writer)
}

/// CONFIG SET appendonly: a file is begun, by a rewrite, or written no more.
///
/// # Errors
/// A text for the operator.
pub fn settings_changed(shared: &Shared, now: &Settings) -> Result<(), String> {
    let journal = &shared.engine.journal;
    if now.appendonly == shared.appending.is_running() {
        // Another policy.
        journal.wake_reader();
        return Ok(());
    }
    if !now.appendonly {
        shared.appending.stop(journal, Order::Stop);
        journal.hold_replies(false);
        shared.workers.post_all(|| Message::JournalKept);
        return Ok(());
    }
    begin_anew(&shared.arc().ok_or("the server stops")?)
}

/// Begins an append-only file with what is there.
///
/// # Errors
/// A text for the operator.
pub fn begin_anew(shared: &Arc<Shared>) -> Result<(), String> {
    // Asked first: one that an earlier file has begun must not end in this one.
    let asked = shared.appending.begin_rewrite(monotonic_us());
    asked.ok_or("a rewrite is under way: try again when it has ended")?;
    let layout = layout(&shared.engine.settings.current());
    let manifest = layout.try_to_write(&RealDisk).and_then(|()| layout.open(&RealDisk));
    let started = manifest
        .map_err(|error| error.to_string())
        .and_then(|manifest| start(shared, Writer::new(Arc::new(RealDisk), layout, manifest, 0)));
    if started.is_err() {
        shared.appending.rewrite_ended(false, monotonic_us());
    }
    started?;
    if rewriting::go_on(shared) { Ok(()) } else { Err("there is no thread for it".into()) }
}

/// Waits until what [`begin_anew`] has begun is there, or the server stops.
///
/// # Errors
/// It could not be written.
pub fn wait_for_first(shared: &Shared) -> Result<(), String> {
    while shared.appending.begins_file() {
        if shared.engine.condition.shutdown.pause_for(LOOK) {
            return Ok(());
        }
    }
    match shared.appending.is_kept() {
        true => Ok(()),
        false => Err("the append-only file could not be begun: the log says why".into()),
    }
}

impl Keeper {
    fn run(mut self) {
        self.reader.begin_here();
        loop {
            self.take_orders();
            self.take_sync();
            let had_some = self.round();
            if !had_some && !self.reader.has_more() {
                self.flushes.drain(..).for_each(|flushed| _ = flushed.send(()));
            }
            self.hold_replies();
            self.sync_if_due();
            self.rewrite_if_due();
            self.tell();
            if self.is_ending && !had_some && !self.reader.has_more() {
                break;
            }
            if !self.is_ending {
                self.rest(had_some);
            }
        }
        self.stop();
        pantala_memory::release_seat();
    }

    fn settings(&self) -> Arc<Settings> {
        self.shared.engine.settings.current()
    }

    /// Writes what is complete; whether there was anything.
    fn round(&mut self) -> bool {
        let until = self.reader.gather();
        let unix_s = self.settings().aof_timestamp_enabled.then(|| unix_us().div_euclid(1_000_000));
        let Keeper { shared, reader, writer, out, .. } = self;
        let mut writing = Writing { shared, writer, out, unix_s, had_some: false };
        reader.take(until, &mut |item| match item {
            Item::Run(run) if run.audience == Audience::All => writing.run(run.bytes),
            Item::Run(_) => {}
            Item::Cut(cut) => writing.cut(cut),
        });
        writing.flush();
        let had_some = writing.had_some;
        self.reader.done();
        self.written = until;
        if self.shared.engine.journal.calls_held_back() {
            self.shared.workers.post_all(|| Message::PauseChanged);
        }
        had_some
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Rewritten(Rewritten { rewrite, is_written }) => {
                    self.end_rewrite(rewrite, is_written);
                }
                Order::Removed(parts) => {
                    if let Err(fault) = self.writer.end_removal(&parts) {
                        tracing::warn!("old append-only files stay in the manifest: {fault}");
                    }
                    if std::mem::take(&mut self.has_history) {
                        self.shared.appending.rewrite_ended(true, monotonic_us());
                    }
                }
                Order::Flush(flushed) => self.flushes.push(flushed),
                Order::Stop => (self.is_stopped, self.is_ending) = (true, true),
                Order::End => self.is_ending = true,
            }
        }
    }

    /// The base is there, or will never be.
    fn end_rewrite(&mut self, rewrite: Rewrite, is_written: bool) {
        if !is_written {
            self.writer.abandon_rewrite(&rewrite);
            return self.shared.appending.rewrite_ended(false, monotonic_us());
        }
        let finished = self.writer.finish_rewrite(rewrite);
        match &finished {
            Ok(()) => tracing::info!("the append-only file was rewritten"),
            Err(fault) => tracing::error!("the append-only file could not be rewritten: {fault}"),
        }
        self.shared.appending.set_kept(self.writer.is_kept());
        // Told as soon as the manifest names no history: who waits for it may look at the files.
        self.has_history = finished.is_ok() && self.remove_history();
        if !self.has_history {
            self.shared.appending.rewrite_ended(finished.is_ok(), monotonic_us());
        }
        self.apply_fault();
    }

    /// Removes old files on a thread of its own; whether [`Order::Removed`] will follow.
    fn remove_history(&mut self) -> bool {
        let Some(job) = self.writer.begin_removal() else { return false };
        let shared = Arc::clone(&self.shared);
        let remove = move || {
            // Without a thread they are removed at the next start.
            let _taken = shared.appending.order(&shared.engine.journal, Order::Removed(job.run()));
            pantala_memory::release_seat();
        };
        let spawned = Builder::new().name("journal-remove".into()).spawn(remove);
        if let Err(error) = &spawned {
            tracing::warn!("old append-only files stay: cannot start a thread: {error}");
        }
        spawned.is_ok()
    }

    /// Whether writes are refused is what the writer says.
    fn apply_fault(&self) {
        let lasting = &self.shared.engine.condition.lasting;
        match self.writer.fault() {
            Some(_) => lasting.begin(States::UNWRITTEN),
            None => lasting.end(States::UNWRITTEN),
        }
    }

    fn take_sync(&mut self) {
        while let Ok(done) = self.syncing.done.try_recv() {
            let covered = self.syncing.running.take();
            match self.writer.end_sync(done) {
                Ok(()) if self.writer.is_kept() => covered.into_iter().for_each(|upto| {
                    self.set_durable(upto);
                }),
                Ok(()) => {}
                Err(fault) => report(&self.shared, &fault),
            }
        }
    }

    /// Whether nothing is synced for the moment, by `no-appendfsync-on-rewrite`.
    fn rests(&self) -> bool {
        self.settings().no_appendfsync_on_rewrite
            && (self.shared.appending.rewrites().began_us.is_some()
                || self.shared.saves.current().is_some())
    }

    /// With `always` replies wait, once there is a file: a rewrite may have to make it first.
    fn hold_replies(&mut self) {
        self.was_kept |= self.writer.is_kept();
        let is_always = self.settings().appendfsync == AppendSync::Always;
        let holds = self.was_kept && is_always && !self.rests();
        if self.shared.engine.journal.hold_replies(holds) {
            self.shared.workers.post_all(|| Message::JournalKept);
        }
    }

    fn set_durable(&self, upto: Stamp) {
        if self.shared.engine.journal.set_durable(upto) {
            self.shared.workers.post_all(|| Message::JournalKept);
        }
    }

    fn sync_if_due(&mut self) {
        let now_us = monotonic_us();
        let is_unsynced = self.writer.written() > self.writer.durable();
        match self.settings().appendfsync {
            _ if !self.writer.is_kept() => {}
            _ if !is_unsynced => self.set_durable(self.written),
            _ if self.rests() => {}
            AppendSync::Always if self.syncing.running.is_none() => match self.writer.sync() {
                Ok(()) => self.set_durable(self.written),
                Err(fault) => report(&self.shared, &fault),
            },
            AppendSync::EverySecond if now_us < self.syncing.last_us + SYNC_EVERY_US => {}
            AppendSync::EverySecond if self.syncing.running.is_some() => {
                // The disk takes longer than a second.
                self.syncing.last_us = now_us;
                self.syncing.delayed += 1;
            }
            AppendSync::EverySecond => {
                if let Some(job) = self.writer.begin_sync() {
                    self.syncing.last_us = now_us;
                    self.syncing.running = Some(self.written);
                    let _thread_is_there = self.syncing.jobs.send(job);
                }
            }
            AppendSync::Always | AppendSync::Never => {}
        }
    }

    /// Begins a rewrite that is due by growth, or after a fault.
    fn rewrite_if_due(&mut self) {
        let settings = self.settings();
        let rules = GrowthRules {
            percentage: u64::from(settings.auto_aof_rewrite_percentage),
            min_bytes: settings.auto_aof_rewrite_min_bytes,
        };
        let idle_ms = self.shared.appending.idle_ms(monotonic_us());
        if !self.is_ending
            && self.writer.is_rewrite_due(rules, idle_ms)
            && rewriting::begin(&self.shared)
        {
            tracing::info!("the append-only file is rewritten by itself");
        }
    }

    /// What INFO tells.
    fn tell(&self) {
        let growth = self.writer.growth();
        self.shared.appending.set_kept(self.writer.is_kept());
        self.shared.appending.tell(Sizes {
            bytes: growth.bytes(),
            base_bytes: growth.base_bytes(),
            is_good: self.writer.fault().is_none(),
            is_syncing: self.syncing.running.is_some(),
            delayed_syncs: self.syncing.delayed,
            written_offset: self.writer.written(),
            durable_offset: self.writer.durable(),
        });
    }

    fn rest(&self, had_some: bool) {
        if self.settings().appendfsync != AppendSync::Always && had_some {
            return std::thread::sleep(NAP);
        }
        let is_unsynced = self.writer.written() > self.writer.durable();
        let has_to_look = is_unsynced || self.writer.fault().is_some();
        let at_most = match self.reader.has_more() {
            true => Some(NAP),
            false => has_to_look.then_some(Duration::from_millis(100)),
        };
        self.reader.wait(at_most);
    }

    fn stop(&mut self) {
        while self.syncing.running.is_some()
            && let Ok(done) = self.syncing.done.recv()
        {
            self.syncing.running = None;
            if let Err(fault) = self.writer.end_sync(done) {
                report(&self.shared, &fault);
            }
        }
        let stopped = if self.is_stopped { self.writer.stop() } else { self.writer.sync() };
        match stopped {
            Ok(()) => self.set_durable(self.written),
            Err(fault) => report(&self.shared, &fault),
        }
        if std::mem::take(&mut self.has_history) {
            self.shared.appending.rewrite_ended(true, monotonic_us());
        }
    }
}

/// The disk has failed.
#[cold]
fn report(shared: &Shared, fault: &Fault) {
    tracing::error!("the append-only file can not be written: {fault}");
    shared.engine.condition.lasting.begin(States::UNWRITTEN);
}

/// Where runs go.
struct Writing<'w> {
    shared: &'w Shared,
    writer: &'w mut Writer,
    out: &'w mut Vec<u8>,
    unix_s: Option<i64>,
    had_some: bool,
}

impl Writing<'_> {
    fn run(&mut self, bytes: &[u8]) {
        self.had_some = true;
        if bytes.len() >= DIRECT_BYTES {
            self.flush();
            return self.append(bytes);
        }
        self.out.extend_from_slice(bytes);
        if self.out.len() >= GATHERED_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let out = std::mem::take(self.out);
        self.append(&out);
        *self.out = out;
        self.out.clear();
    }

    fn append(&mut self, bytes: &[u8]) {
        if let Err(fault) = self.writer.append(bytes, self.unix_s) {
            report(self.shared, &fault);
        }
    }

    /// Here a rewrite begins: what follows goes to a new file.
    fn cut(&mut self, cut: Cut) {
        self.had_some = true;
        self.flush();
        let kind = rewriting::kind_of(self.shared.appending.expected_form(cut.number));
        let begun = self.writer.begin_rewrite(kind);
        if let Err(fault) = &begun {
            tracing::error!("the append-only file can not be rewritten: {fault}");
            if self.writer.fault().is_some() {
                self.shared.engine.condition.lasting.begin(States::UNWRITTEN);
            }
        }
        if let Some(rewrite) = self.shared.appending.begun(cut.number, begun.ok()) {
            // Nobody waits for it any more.
            self.writer.abandon_rewrite(&rewrite);
        }
    }
}
