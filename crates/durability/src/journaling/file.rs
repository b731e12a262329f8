//! The append-only file: the journal's thread writes, syncs and rewrites it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use pantala_base::clock::{monotonic_us, unix_us};
use pantala_engine::condition::states::States;
use pantala_journal::{ConfirmedBytes, Cut, JournalRun, Rings, Stamp};
use pantala_persistence::aof::{AofWriter, Fault, GrowthRules, Rewrite, SyncDone, SyncJob};
use pantala_settings::Settings;
use pantala_settings::field::AppendSync;

use super::rings::RingFile;
use crate::Durability;
use crate::appending::{FileSizes, Order, Rewritten};
use crate::rewriting;
use crate::snapshots::place::SnapshotPlace;
use pantala_engine::Message;

/// The interval of syncs with `everysec`.
const SYNC_EVERY_US: u64 = 1_000_000;
/// A run of at least this many bytes is written as it is; shorter ones are gathered.
const DIRECT_BYTES: usize = 32 << 10;
/// The size at which gathered bytes are written.
const GATHERED_BYTES: usize = 1 << 20;
const _: () = assert!(DIRECT_BYTES <= GATHERED_BYTES, "what is gathered is flushed");

/// The syncing thread and its job.
struct SyncThread {
    jobs: Sender<SyncJob>,
    done: Receiver<SyncDone>,
    /// The stamp that is durable once the running job has succeeded.
    running: Option<Stamp>,
    last_us: u64,
    /// How often a sync was due while another one ran.
    delayed: u64,
}

impl SyncThread {
    fn start(durability: &Arc<Durability>) -> Result<SyncThread, String> {
        let (jobs, waiting) = channel::<SyncJob>();
        let (finished, done) = channel();
        let journal = Arc::clone(&durability.engine.journal);
        let sync = move || {
            for job in waiting {
                let _keeper_has_gone = finished.send(job.run());
                journal.wake_reader();
            }
            pantala_memory::release_seat();
        };
        let spawned = Builder::new().name("journal-sync".into()).spawn(sync);
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(SyncThread { jobs, done, running: None, last_us: 0, delayed: 0 })
    }
}

/// The append-only file as the journal's thread writes it: the open writer, and the thread that
/// syncs for it.
pub(super) struct File {
    durability: Arc<Durability>,
    writer: AofWriter,
    syncing: SyncThread,
    out: Vec<u8>,
    /// The timestamp to be written into the file in this round, if any (Unix, seconds).
    unix_s: Option<i64>,
    /// Everything before this stamp is in the file.
    written: Stamp,
    /// The file was turned off.
    is_unwanted: bool,
    /// The file has counted as durable storage before.
    was_kept: bool,
    /// A rewrite has ended except for the removal of the files it replaces.
    has_history: bool,
    /// Requests to be told when old files were removed.
    removals: Vec<Sender<()>>,
    rings: Option<(RingFile, Arc<Rings>)>,
}

impl File {
    /// The file of this writer, which is open, or will be begun by a rewrite.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn open(durability: Arc<Durability>, writer: AofWriter) -> Result<File, String> {
        let syncing = SyncThread::start(&durability)?;
        let rings = begin_rings(&durability);
        let file = File {
            durability,
            writer,
            syncing,
            out: Vec::new(),
            unix_s: None,
            written: Stamp::default(),
            is_unwanted: false,
            was_kept: false,
            has_history: false,
            removals: Vec::new(),
            rings,
        };
        // What the rings have comes after what is in the file already.
        file.confirm(Stamp::default());
        Ok(file)
    }

    fn settings(&self) -> Arc<Settings> {
        self.durability.engine.settings.current()
    }

    /// Begins a round of writing.
    pub fn begin_round(&mut self) {
        let is_dated = self.settings().aof_timestamp_enabled;
        self.unix_s = is_dated.then(|| unix_us().div_euclid(1_000_000));
    }

    /// Takes a run of commands.
    pub fn run(&mut self, run: JournalRun<'_>) {
        if !run.audience.has_files() {
            return;
        }
        if run.bytes.len() >= DIRECT_BYTES {
            self.flush();
            return self.append(run.bytes);
        }
        self.out.extend_from_slice(run.bytes);
        if self.out.len() >= GATHERED_BYTES {
            self.flush();
        }
    }

    /// Ends a round: everything before `until` has arrived.
    pub fn end_round(&mut self, until: Stamp) {
        self.flush();
        debug_assert!(self.out.is_empty(), "all of the round is in the file");
        self.written = until;
        self.confirm(until);
    }

    /// Whether what the file does not have yet outlives the process.
    pub fn has_rings(&self) -> bool {
        self.rings.is_some()
    }

    /// Notes in the rings that everything before this stamp is in the file.
    fn confirm(&self, upto: Stamp) {
        if let Some((_, rings)) = &self.rings
            && let Some((increment, bytes)) = self.writer.position()
        {
            rings.confirm(ConfirmedBytes { increment, bytes, upto });
        }
    }

    fn flush(&mut self) {
        let out = std::mem::take(&mut self.out);
        self.append(&out);
        self.out = out;
        self.out.clear();
    }

    fn append(&mut self, bytes: &[u8]) {
        let wait = self.durability.engine.condition.switches.file_wait();
        if !wait.is_zero() && !bytes.is_empty() {
            std::thread::sleep(wait);
        }
        if let Err(fault) = self.writer.append(bytes, self.unix_s) {
            report(&self.durability, &fault);
        }
    }

    /// Handles the cut of a rewrite: what follows goes to a new file.
    pub fn cut(&mut self, cut: Cut) {
        self.flush();
        debug_assert!(self.out.is_empty(), "all before the cut is in the file");
        self.confirm(cut.stamp);
        let kind = rewriting::kind_of(self.durability.appending.expected_form(cut.number));
        let begun = self.writer.begin_rewrite(kind);
        self.confirm(cut.stamp);
        if let Err(fault) = &begun {
            tracing::error!("the append-only file can not be rewritten: {fault}");
            if self.writer.fault().is_some() {
                self.durability.engine.condition.lasting.begin(States::UNWRITTEN);
            }
        }
        if let Some(rewrite) = self.durability.appending.begun(cut.number, begun.ok()) {
            // The rewrite was given up meanwhile.
            self.writer.abandon_rewrite(&rewrite);
        }
    }

    /// Handles an order.
    pub fn take(&mut self, order: Order) {
        match order {
            Order::Rewritten(Rewritten { rewrite, is_written }) => {
                self.end_rewrite(rewrite, is_written);
            }
            Order::Removed(parts) => {
                if let Err(fault) = self.writer.end_removal(&parts) {
                    tracing::warn!("old append-only files stay in the manifest: {fault}");
                }
                if std::mem::take(&mut self.has_history) {
                    self.durability.appending.rewrite_ended(true, monotonic_us());
                }
                self.removals.drain(..).for_each(|removed| _ = removed.send(()));
            }
            Order::RemoveHistory(removed) => {
                // A removal that is under way answers it, too; without history there is none.
                let is_removing = self.has_history || self.remove_history();
                if is_removing {
                    self.removals.push(removed);
                }
            }
            _ => {}
        }
    }

    /// After each round: syncs and rewrites what is due, and updates the state.
    pub fn go_on(&mut self, is_ending: bool) {
        self.take_sync();
        self.hold_replies();
        self.sync_if_due();
        if !is_ending {
            self.rewrite_if_due();
        }
        if let Some(error) = self.writer.take_lengths_failure() {
            tracing::warn!(
                "{error}: not written: the next start does not notice a line that the manifest has \
                 lost, or the lost end of a file"
            );
        }
        self.tell();
    }

    /// Whether it has work without anything being recorded.
    pub fn has_to_look(&self) -> bool {
        self.writer.written() > self.writer.durable() || !self.writer.is_kept()
    }

    /// Notes that the file was turned off.
    pub fn is_unwanted(&mut self) {
        self.is_unwanted = true;
    }

    /// Writes the final place: the server stops, and everything recorded is in the file.
    pub fn end_at(&mut self, place: SnapshotPlace) {
        if let Err(fault) = self.writer.annotate(&place.annotation()) {
            report(&self.durability, &fault);
        }
    }

    /// Closes the file: nothing more comes.
    pub fn close(&mut self) {
        while self.syncing.running.is_some()
            && let Ok(done) = self.syncing.done.recv()
        {
            self.syncing.running = None;
            if let Err(fault) = self.writer.end_sync(done) {
                report(&self.durability, &fault);
            }
        }
        let stopped = if self.is_unwanted { self.writer.stop() } else { self.writer.sync() };
        match stopped {
            Ok(()) if self.is_unwanted || self.writer.fault().is_none() => {
                self.set_durable(self.written);
            }
            Ok(()) => {}
            Err(fault) => report(&self.durability, &fault),
        }
        self.end_rings();
        if std::mem::take(&mut self.has_history) {
            self.durability.appending.rewrite_ended(true, monotonic_us());
        }
    }

    /// Ends the rings: nothing more is recorded for this file.
    fn end_rings(&mut self) {
        self.durability.engine.journal.keep_in(None);
        self.durability.appending.set_rings(None);
        let Some((file, _)) = self.rings.take() else { return };
        if !self.is_unwanted && self.writer.fault().is_some() {
            // The file lacks something that the rings have.
            file.leave();
        }
    }

    /// Ends a rewrite, with its base written or not.
    fn end_rewrite(&mut self, rewrite: Rewrite, is_written: bool) {
        if !is_written {
            self.writer.abandon_rewrite(&rewrite);
            return self.durability.appending.rewrite_ended(false, monotonic_us());
        }
        tracing::info!("Background AOF rewrite terminated with success");
        let finished = self.writer.finish_rewrite(rewrite);
        match &finished {
            Ok(()) => {
                // Before writes are answered again: what the rings have said until now is of
                // files that the manifest may not name any more.
                self.confirm(self.written);
                tracing::info!("Background AOF rewrite finished successfully");
            }
            Err(fault) => rewriting::tell_failed(&self.durability, fault),
        }
        self.durability.appending.set_kept(self.writer.is_kept());
        // The end is reported once the manifest names no history: a client that waits for it may
        // look at the files.
        self.has_history = finished.is_ok() && self.remove_history();
        if !self.has_history {
            self.durability.appending.rewrite_ended(finished.is_ok(), monotonic_us());
        }
        self.apply_fault();
    }

    /// Removes old files on a thread of its own; whether [`Order::Removed`] will follow.
    fn remove_history(&mut self) -> bool {
        self.writer.keep_history(self.settings().aof_disable_auto_gc);
        let Some(job) = self.writer.begin_removal() else { return false };
        let durability = Arc::clone(&self.durability);
        let remove = move || {
            // Without a thread they are removed at the next start.
            let _taken =
                durability.appending.order(&durability.engine.journal, Order::Removed(job.run()));
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
        let lasting = &self.durability.engine.condition.lasting;
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
                Err(fault) => report(&self.durability, &fault),
            }
        }
    }

    /// Whether nothing is synced for the moment, by `no-appendfsync-on-rewrite`.
    fn rests(&self) -> bool {
        self.settings().no_appendfsync_on_rewrite
            && (self.durability.appending.rewrites().began_us.is_some()
                || self.durability.saves.current().is_some())
    }

    /// With `always` replies wait, once there is a file: a rewrite may have to create it first.
    fn hold_replies(&mut self) {
        self.was_kept |= self.writer.is_kept();
        let is_always = self.settings().appendfsync == AppendSync::Always;
        let holds = self.was_kept && is_always && !self.rests();
        if self.durability.engine.journal.hold_replies(holds) {
            self.durability.engine.workers.post_all(&|| Message::JournalKept);
        }
    }

    fn set_durable(&self, upto: Stamp) {
        if self.durability.engine.journal.set_durable(upto) {
            self.durability.engine.workers.post_all(&|| Message::JournalKept);
        }
    }

    /// Syncs what was written, on this thread.
    pub fn sync(&mut self) {
        match self.writer.sync() {
            Ok(()) if self.writer.is_kept() => self.set_durable(self.written),
            Ok(()) => {}
            Err(fault) => report(&self.durability, &fault),
        }
    }

    fn sync_if_due(&mut self) {
        let now_us = monotonic_us();
        let is_unsynced = self.writer.written() > self.writer.durable();
        match self.settings().appendfsync {
            _ if !self.writer.is_kept() => {}
            _ if !is_unsynced => self.set_durable(self.written),
            _ if self.rests() => {}
            AppendSync::Always if self.syncing.running.is_none() => self.sync(),
            AppendSync::EverySecond if now_us < self.syncing.last_us + SYNC_EVERY_US => {}
            AppendSync::EverySecond if self.syncing.running.is_some() => {
                // The last sync has taken longer than a second.
                self.syncing.last_us = now_us;
                self.syncing.delayed += 1;
            }
            AppendSync::EverySecond => {
                if let Some(job) = self.writer.begin_sync() {
                    self.syncing.last_us = now_us;
                    debug_assert!(self.syncing.running.is_none(), "one at a time");
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
        let idle_ms = self.durability.appending.idle_ms(monotonic_us());
        if !self.writer.is_rewrite_due(rules, idle_ms) {
            return;
        }
        let (growth, is_good) = (self.writer.growth(), self.writer.fault().is_none());
        let (bytes, base) = (growth.bytes(), growth.base_bytes().max(1));
        let why = match bytes.saturating_sub(base).saturating_mul(100) / base {
            percent if is_good => format!("on {percent}% growth"),
            _ => String::from("after a fault"),
        };
        if rewriting::begin(&self.durability, &why).is_ok() {
            tracing::info!("Starting automatic rewriting of AOF {why}");
        }
    }

    /// Updates what INFO shows.
    fn tell(&self) {
        let growth = self.writer.growth();
        self.durability.appending.set_kept(self.writer.is_kept());
        self.durability.appending.tell(FileSizes {
            bytes: growth.bytes(),
            base_bytes: growth.base_bytes(),
            is_good: self.writer.fault().is_none(),
            is_syncing: self.syncing.running.is_some(),
            delayed_syncs: self.syncing.delayed,
            written_offset: self.writer.written(),
            durable_offset: self.writer.durable(),
        });
    }
}

/// Creates the rings, in which records outlive the process, if there is a place for them.
fn begin_rings(durability: &Durability) -> Option<(RingFile, Arc<Rings>)> {
    let settings = durability.engine.settings.current();
    let begun = RingFile::create(&settings, &super::layout(&settings)).and_then(|file| {
        let with_rings = |file: RingFile| {
            let rings = file.rings().map_err(|error| error.to_string())?;
            Ok((file, Arc::new(rings)))
        };
        file.map(with_rings).transpose()
    });
    let rings = begun.unwrap_or_else(|error| {
        tracing::warn!(
            "what is acknowledged and not yet written is lost if the process is killed: {error} \
             (journal-ring-dir)"
        );
        None
    });
    durability.engine.journal.keep_in(rings.as_ref().map(|(_, rings)| Arc::clone(rings)));
    durability.appending.set_rings(rings.as_ref().map(|(_, rings)| Arc::clone(rings)));
    rings
}

/// Reports a fault of the disk.
#[cold]
fn report(durability: &Durability, fault: &Fault) {
    tracing::error!("Error writing to the AOF file: {fault}");
    durability.engine.condition.lasting.begin(States::UNWRITTEN);
}
