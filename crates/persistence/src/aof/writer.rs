//! Writes the append-only file: appends steps in order, syncs by the policy, and rewrites.
//!
//! ```text
//!            append ──> increment N ──sync──> durable
//! rewrite:   begin ──> N synced, increment N+1 named in the manifest; snapshot of that moment
//!            finish ──> manifest: new base, N+1        N and the old base are history
//! fault:     the file is closed, steps are lost; begin ──> an increment that no manifest names
//!            finish ──> manifest: new base, that increment     and all is kept again
//! ```
//!
//! It starts no thread and reads no clock. Its owner appends from one thread, and runs what may
//! take long ([`SyncJob`], [`RemoveJob`]) on any thread.
//!
//! Invariants
//! 1. The disk holds a prefix of the stream of steps at each moment, up to [`AofWriter::durable`]
//!    at least. An increment is durable before the manifest names the next.
//! 2. A file whose append or sync has failed is never written again, and nothing after it is
//!    durable until a new base that covers it is in the manifest.
//! 3. `durable` never grows while something before it is lost.
//! 4. No file number is used twice, even after a manifest that may have reached the disk.
//! 5. After [`AofWriter::begin_rewrite`] the stream selects its database again, so that each
//!    increment can be read by itself. (The producer of the stream ensures this.)
//!
//! What no process can know: after a failed sync and the end of the process, the system may show
//! the next process bytes that the disk does not have. So a fault should be repaired at once.
//!
//! Not here: the snapshot itself (it is written to [`Rewrite::base_path`]), refusing clients'
//! writes after a fault. Tests: `tests`, beside this file; `tests/crashes.rs` on a simulated disk.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::growth::{Growth, GrowthRules};
use super::layout::{AofLayout, BaseKind, LayoutError};
use super::manifest::{Manifest, Part};
use crate::disk::{Disk, DiskFile};
use crate::snapshot::write::push_time;

/// Writes the append-only file: appends, syncs, rewrites.
pub struct AofWriter {
    disk: Arc<dyn Disk>,
    layout: AofLayout,
    manifest: Manifest,
    increment: Option<Increment>,
    closed: Closed,
    /// The number of the rewrite in progress.
    rewrite: Option<u64>,
    rewrites: u64,
    files: u64,
    last_base: u64,
    last_increment: u64,
    written: u64,
    durable: u64,
    annotated_s: Option<i64>,
    growth: Growth,
    keeps_history: bool,
    lengths: LengthsState,
}

/// Whether the file of lengths belongs to the manifest on disk.
enum LengthsState {
    Stored,
    /// It could not be replaced, which nobody was told yet.
    Failed(LayoutError),
    Told,
}

/// How long to wait before a rewrite is tried again that could not even begin, when there is no
/// file.
const MISSING_MS: u64 = 1_000;

/// A file that several threads may sync.
struct SyncedFile {
    file: Arc<dyn DiskFile>,
    has_failed: Mutex<bool>,
}

impl SyncedFile {
    /// Syncs it, one thread at a time. The system reports a failure once; it is remembered here, so
    /// that no thread takes a later success for its own.
    fn sync(&self) -> io::Result<()> {
        let mut has_failed = self.has_failed.lock();
        if *has_failed {
            return Err(io::Error::other("an earlier sync of this file has failed"));
        }
        self.file.sync().inspect_err(|_| *has_failed = true)
    }
}

/// The increment that is being written.
struct Increment {
    file: Arc<SyncedFile>,
    part: Part,
    /// Whether the manifest names it; otherwise it is a temporary file until the rewrite is
    /// finished.
    is_named: bool,
    /// Its length in bytes, of whole steps.
    bytes: u64,
    /// The stream offset up to which it was synced.
    synced: u64,
    /// Its number among all files that this writer has opened.
    number: u64,
    room: Room,
}

/// Disk space that is preallocated for a file, since getting much at once is cheaper. It is
/// proportional to the file, so small files take no more than they need, and is released when the
/// file is closed.
struct Room {
    /// The offset up to which space was preallocated.
    until: u64,
    has_some: bool,
}

/// The least and the most bytes to preallocate, and which part of the file they are.
const ROOM_MIN_BYTES: u64 = 1 << 20;
const ROOM_MAX_BYTES: u64 = 64 << 20;
const ROOM_PART: u64 = 4;
const _: () = assert!(ROOM_MIN_BYTES <= ROOM_MAX_BYTES && ROOM_PART > 0, "some room is right");

impl Room {
    fn new(bytes: u64) -> Room {
        Room { until: bytes, has_some: false }
    }

    /// Preallocates if needed, when the file has grown to this many bytes.
    fn grow(&mut self, file: &dyn DiskFile, bytes: u64) {
        if bytes < self.until {
            return;
        }
        let more = (bytes / ROOM_PART).min(ROOM_MAX_BYTES);
        if more < ROOM_MIN_BYTES {
            self.until = ROOM_MIN_BYTES * ROOM_PART;
        } else if file.set_room_aside(bytes, more) {
            (self.until, self.has_some) = (bytes + more, true);
        } else {
            // The disk is full, or does not support it: continue without.
            self.until = u64::MAX;
        }
    }
}

impl Drop for Increment {
    fn drop(&mut self) {
        if self.room.has_some {
            self.file.file.give_room_back(self.bytes);
        }
    }
}

/// Why there is no increment, or only one that does not count yet.
#[derive(Clone, Debug)]
enum Closed {
    /// An increment is being written, or none was requested.
    No,
    Off,
    Fault(String),
}

/// A failure. Returned once, by the operation that met it; see [`AofWriter::fault`].
#[derive(Debug)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub error: io::Error,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for Fault {}

impl From<LayoutError> for Fault {
    fn from(error: LayoutError) -> Self {
        let text = error.to_string();
        match error {
            LayoutError::Disk(path, error) => Fault { path, error },
            LayoutError::Manifest(path, _)
            | LayoutError::Missing(path)
            | LayoutError::Gap(path, ..)
            | LayoutError::Short(path, ..)
            | LayoutError::Orphan(path) => Fault { path, error: io::Error::other(text) },
        }
    }
}

/// A rewrite in progress: its snapshot is of the moment at which the rewrite began.
#[derive(Debug)]
pub struct Rewrite {
    number: u64,
    base: Part,
    /// The first increment that the snapshot does not cover.
    first_kept: u64,
    /// The path to which the snapshot must be written and synced.
    pub base_path: PathBuf,
    /// The stream offset of that moment.
    pub offset: u64,
}

/// A pending sync; run it on any thread, and give the result to [`AofWriter::end_sync`].
pub struct SyncJob {
    file: Arc<SyncedFile>,
    upto: u64,
    number: u64,
}

/// The result of a [`SyncJob`].
#[must_use = "the writer has to be told"]
pub struct SyncDone {
    outcome: io::Result<()>,
    upto: u64,
    number: u64,
}

impl SyncJob {
    /// Syncs. May take long.
    pub fn run(self) -> SyncDone {
        let SyncJob { file, upto, number } = self;
        SyncDone { outcome: file.sync(), upto, number }
    }
}

/// Files to be removed; run it on any thread, and give the result to [`AofWriter::end_removal`].
pub struct RemoveJob {
    disk: Arc<dyn Disk>,
    layout: AofLayout,
    parts: Vec<Part>,
}

impl RemoveJob {
    /// Removes the files, and returns the removed parts. May take long.
    pub fn run(self) -> Vec<Part> {
        let is_gone = |part: &Part| match self.disk.remove(&self.layout.path(&part.name)) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        self.parts.into_iter().filter(is_gone).collect()
    }
}

impl AofWriter {
    /// A writer for the files on disk, with nothing open yet. `offset` is the stream's position.
    pub fn new(
        disk: Arc<dyn Disk>,
        layout: AofLayout,
        manifest: Option<Manifest>,
        offset: u64,
    ) -> Self {
        let manifest = manifest.unwrap_or_default();
        AofWriter {
            disk,
            layout,
            last_base: manifest.next_base() - 1,
            last_increment: manifest.next_increment() - 1,
            manifest,
            increment: None,
            closed: Closed::Off,
            rewrite: None,
            rewrites: 0,
            files: 0,
            written: offset,
            durable: offset,
            annotated_s: None,
            growth: Growth::default(),
            keeps_history: false,
            lengths: LengthsState::Stored,
        }
    }

    /// Sets whether files that a rewrite has replaced stay (`aof-disable-auto-gc`).
    pub fn keep_history(&mut self, keeps: bool) {
        self.keeps_history = keeps;
    }

    /// Continues where the files end: their content has been loaded, and nothing has changed since.
    /// Without files it starts with an empty increment, so nothing may have been loaded.
    ///
    /// # Errors
    /// Nothing is written.
    pub fn resume(&mut self) -> Result<(), LayoutError> {
        self.layout.make_directory(&*self.disk)?;
        let kept = self.keeps_history.then(|| std::mem::take(&mut self.manifest.history));
        let cleaned = self.layout.clean(&*self.disk, &mut self.manifest);
        self.manifest.history.extend(kept.unwrap_or_default());
        cleaned?;
        let (base_bytes, bytes) = self.sizes()?;
        self.reopen()?;
        if self.increment.is_none() {
            let part = self.new_increment();
            let begun = self.begin_named(part);
            begun.map_err(|Fault { path, error }| LayoutError::Disk(path, error))?;
        }
        self.closed = Closed::No;
        self.growth.loaded(base_bytes, base_bytes + bytes);
        Ok(())
    }

    /// Opens the last increment and syncs it, as its last writer may not have.
    fn reopen(&mut self) -> Result<(), LayoutError> {
        for part in self.manifest.increments.clone() {
            let path = self.layout.path(&part.name);
            let told = |error| LayoutError::Disk(path.clone(), error);
            let file = self.disk.open_to_append(&path).map_err(told)?;
            let bytes = self.disk.size(&path).map_err(told)?;
            file.sync().map_err(told)?;
            self.set_increment(file, part, bytes, true);
        }
        let directory = self.layout.directory();
        let kept = self.disk.sync_directory(directory);
        kept.map_err(|error| LayoutError::Disk(directory.to_owned(), error))
    }

    /// Bytes of the base, and of all files.
    fn sizes(&self) -> Result<(u64, u64), LayoutError> {
        let size = |part: &Part| {
            let path = self.layout.path(&part.name);
            self.disk.size(&path).map_err(|error| LayoutError::Disk(path, error))
        };
        let base = self.manifest.base.iter().map(size).sum::<Result<u64, _>>()?;
        let increments = self.manifest.increments.iter().map(size).sum::<Result<u64, _>>()?;
        Ok((base, increments))
    }

    /// Appends whole steps, preceded by a time stamp if one is given and its second is new
    /// (`aof-timestamp-enabled`). Without a file they are dropped.
    ///
    /// # Errors
    /// The file is closed; these steps and later ones are lost until a rewrite is finished.
    pub fn append(&mut self, steps: &[u8], unix_s: Option<i64>) -> Result<(), Fault> {
        self.written += steps.len() as u64;
        debug_assert!(self.durable <= self.written, "what is durable was written");
        if steps.is_empty() {
            return Ok(());
        }
        if let Some(second) = unix_s.filter(|_| unix_s != self.annotated_s) {
            self.annotated_s = unix_s;
            let mut line = Vec::new();
            push_time(&mut line, second);
            self.push(&line)?;
        }
        self.push(steps)
    }

    /// Appends an annotation: a line that servers without support for it skip.
    ///
    /// # Errors
    /// See [`AofWriter::append`].
    pub fn annotate(&mut self, text: &str) -> Result<(), Fault> {
        self.push(format!("#{text}\r\n").as_bytes())
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let Some(increment) = &mut self.increment else { return Ok(()) };
        match increment.file.file.append(bytes) {
            Ok(()) => {
                increment.bytes += bytes.len() as u64;
                debug_assert!(increment.synced <= self.written, "only what was written is synced");
                increment.room.grow(&*increment.file.file, increment.bytes);
                self.growth.grew(bytes.len() as u64);
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// The sync that would make everything appended so far durable; `None` if it is durable.
    pub fn begin_sync(&self) -> Option<SyncJob> {
        let increment = self.increment.as_ref()?;
        (increment.synced < self.written).then(|| SyncJob {
            file: Arc::clone(&increment.file),
            upto: self.written,
            number: increment.number,
        })
    }

    /// Takes the result of a sync.
    ///
    /// # Errors
    /// The disk has failed: the file is closed, as after a failed append.
    pub fn end_sync(&mut self, done: SyncDone) -> Result<(), Fault> {
        let Some(increment) = &mut self.increment else { return Ok(()) };
        if increment.number != done.number {
            // That file was synced when the next was begun, or has failed and was closed.
            return Ok(());
        }
        debug_assert!(done.upto <= self.written, "only what was written is synced");
        match done.outcome {
            Ok(()) => {
                debug_assert!(increment.synced <= self.written, "only what was written is synced");
                increment.synced = increment.synced.max(done.upto);
                if increment.is_named {
                    self.durable = self.durable.max(done.upto);
                }
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Syncs immediately, on this thread.
    ///
    /// # Errors
    /// See [`AofWriter::end_sync`].
    pub fn sync(&mut self) -> Result<(), Fault> {
        match self.begin_sync() {
            Some(job) => self.end_sync(job.run()),
            None => Ok(()),
        }
    }

    /// Closes the file after a fault.
    #[cold]
    fn fail(&mut self, error: io::Error) -> Fault {
        let Some(increment) = self.increment.take() else {
            return Fault { path: self.layout.directory().to_owned(), error };
        };
        let fault = Fault { path: self.path_of(&increment), error };
        self.closed = Closed::Fault(fault.to_string());
        if increment.is_named {
            // Half a step at its end would have to be cut at the next start.
            let _may_fail_too = self.disk.truncate(&fault.path, increment.bytes);
        } else {
            self.give_up_rewrite(&fault.path);
        }
        fault
    }

    /// Gives up the rewrite in progress: no increment follows its base.
    fn give_up_rewrite(&mut self, increment: &Path) {
        let _stays_until_the_next_start = self.disk.remove(increment);
        self.rewrite = None;
        self.growth.failed();
    }

    fn path_of(&self, increment: &Increment) -> PathBuf {
        match increment.is_named {
            true => self.layout.path(&increment.part.name),
            false => self.layout.temporary_path(&increment.part),
        }
    }

    /// Begins a rewrite: later steps go to a new increment, and the snapshot must be of this very
    /// moment. Waits for the disk, to sync the old increment.
    ///
    /// # Errors
    /// There is no rewrite. [`AofWriter::fault`] tells whether the increment failed; otherwise it
    /// continues.
    pub fn begin_rewrite(&mut self, kind: BaseKind) -> Result<Rewrite, Fault> {
        let begun = self.begin_increment();
        begun.inspect_err(|_| self.growth.failed())?;
        Ok(self.begin_base_before(self.last_increment, kind))
    }

    /// Begins a rewrite with a base alone, which stands for all files: for a writer to which
    /// nothing is appended.
    ///
    /// # Errors
    /// There is no directory.
    pub fn begin_base(&mut self, kind: BaseKind) -> Result<Rewrite, Fault> {
        self.layout.make_directory(&*self.disk)?;
        Ok(self.begin_base_before(self.last_increment + 1, kind))
    }

    fn begin_base_before(&mut self, first_kept: u64, kind: BaseKind) -> Rewrite {
        debug_assert!(first_kept > 0, "increments are numbered from 1");
        self.rewrites += 1;
        self.rewrite = Some(self.rewrites);
        self.last_base += 1;
        debug_assert!(
            self.manifest.base.as_ref().is_none_or(|base| base.seq < self.last_base),
            "numbers of bases ascend"
        );
        let base = self.layout.base(self.last_base, kind);
        let (base_path, offset) = (self.layout.temporary_path(&base), self.written);
        Rewrite { number: self.rewrites, base_path, base, first_kept, offset }
    }

    fn begin_increment(&mut self) -> Result<(), Fault> {
        if self.increment.as_ref().is_some_and(|increment| increment.is_named) {
            self.sync()?;
            let part = self.new_increment();
            return self.begin_named(part);
        }
        self.drop_unnamed();
        let part = self.new_increment();
        let path = self.layout.temporary_path(&part);
        self.layout.make_directory(&*self.disk)?;
        match self.disk.create(&path) {
            Ok(file) => self.set_increment(file, part, 0, false),
            Err(error) => return Err(Fault { path, error }),
        }
        Ok(())
    }

    /// Starts an increment that counts at once. On an error nothing has changed.
    fn begin_named(&mut self, part: Part) -> Result<(), Fault> {
        debug_assert!(
            self.manifest.increments.last().is_none_or(|last| last.seq < part.seq),
            "numbers of increments ascend"
        );
        let path = self.layout.path(&part.name);
        let file = self.disk.create(&path).map_err(|error| Fault { path, error })?;
        let mut manifest = self.manifest.clone();
        if let Some(increment) = self.increment.as_ref().filter(|increment| increment.is_named) {
            manifest.close_last(increment.bytes, part.seq);
        }
        let part = Part { base: manifest.base.as_ref().map(|base| base.seq), ..part };
        manifest.increments.push(part.clone());
        // After an error the disk may have either manifest: the new one names one empty file more.
        self.store(&manifest)?;
        self.manifest = manifest;
        self.set_increment(file, part, 0, true);
        Ok(())
    }

    /// Replaces the manifest on disk.
    fn store(&mut self, manifest: &Manifest) -> Result<(), LayoutError> {
        let failed = self.layout.store(&*self.disk, manifest)?;
        match (failed, &self.lengths) {
            (None, _) => self.lengths = LengthsState::Stored,
            (Some(_), LengthsState::Told) => {}
            (Some(error), _) => self.lengths = LengthsState::Failed(error),
        }
        Ok(())
    }

    /// Why the file of lengths could not be replaced: once, until it could be again.
    pub fn take_lengths_failure(&mut self) -> Option<LayoutError> {
        if !matches!(self.lengths, LengthsState::Failed(_)) {
            return None;
        }
        match std::mem::replace(&mut self.lengths, LengthsState::Told) {
            LengthsState::Failed(error) => Some(error),
            LengthsState::Stored | LengthsState::Told => None,
        }
    }

    fn new_increment(&mut self) -> Part {
        self.last_increment += 1;
        self.layout.increment(self.last_increment)
    }

    fn set_increment(&mut self, file: Arc<dyn DiskFile>, part: Part, bytes: u64, is_named: bool) {
        self.files += 1;
        let (number, synced) = (self.files, self.written);
        self.annotated_s = None;
        let file = Arc::new(SyncedFile { file, has_failed: Mutex::new(false) });
        let room = Room::new(bytes);
        self.increment = Some(Increment { file, part, is_named, bytes, synced, number, room });
    }

    /// Finishes a rewrite whose snapshot is complete and synced at [`Rewrite::base_path`]: it
    /// becomes the base, and what it replaces becomes history.
    ///
    /// # Errors
    /// The rewrite has failed. The old files stay current.
    pub fn finish_rewrite(&mut self, rewrite: Rewrite) -> Result<(), Fault> {
        if self.rewrite != Some(rewrite.number) {
            self.abandon_rewrite(&rewrite);
            let error = io::Error::other("given up, because the increment after it has failed");
            return Err(Fault { path: rewrite.base_path, error });
        }
        self.put_in_place(&rewrite).inspect_err(|_| self.abandon_rewrite(&rewrite))?;
        debug_assert!(rewrite.offset <= self.written, "it was begun before");
        self.rewrite = None;
        self.durable = self.durable.max(rewrite.offset);
        if let Some(increment) = &mut self.increment {
            increment.is_named = true;
            self.durable = self.durable.max(increment.synced);
            self.closed = Closed::No;
        }
        debug_assert!(self.durable <= self.written, "what is durable was written");
        if let Ok((base_bytes, bytes)) = self.sizes() {
            self.growth.rewritten(base_bytes + bytes);
        }
        Ok(())
    }

    fn put_in_place(&mut self, rewrite: &Rewrite) -> Result<(), Fault> {
        let disk = Arc::clone(&self.disk);
        let rename = |from: &Path, to: PathBuf| {
            let told = |error| Fault { path: from.to_owned(), error };
            disk.rename(from, &to).map_err(told)
        };
        if self.manifest == Manifest::default() {
            // So that a crash leaves no files that look as if their manifest had been lost.
            self.store(&Manifest::default())?;
        }
        let path = self.layout.path(&rewrite.base.name);
        rename(&rewrite.base_path, path.clone())?;
        let bytes = self.disk.size(&path).map_err(|error| Fault { path, error })?;
        let mut manifest = self.manifest.clone();
        manifest.replace_base(rewrite.base.clone(), rewrite.first_kept);
        debug_assert!(
            manifest.increments.iter().all(|part| part.seq >= rewrite.first_kept),
            "only what is after the base stays"
        );
        if let Some(increment) = self.increment.as_ref().filter(|increment| !increment.is_named) {
            let part = &increment.part;
            rename(&self.layout.temporary_path(part), self.layout.path(&part.name))?;
            manifest.increments.push(Part { base: Some(rewrite.base.seq), ..part.clone() });
        }
        manifest.close_base(bytes, self.layout.head_of(&*disk, &rewrite.base, bytes));
        let directory = self.layout.directory();
        let kept = self.disk.sync_directory(directory);
        kept.map_err(|error| Fault { path: directory.to_owned(), error })?;
        self.store(&manifest)?;
        self.manifest = manifest;
        Ok(())
    }

    /// Gives up a rewrite whose snapshot has failed or is not needed. The old files stay current.
    pub fn abandon_rewrite(&mut self, rewrite: &Rewrite) {
        let _was_never_written = self.disk.remove(&rewrite.base_path);
        if self.rewrite == Some(rewrite.number) {
            self.rewrite = None;
            self.growth.failed();
            self.drop_unnamed();
        }
    }

    /// Drops an increment that no manifest names: it is useless without its base.
    fn drop_unnamed(&mut self) {
        if let Some(increment) = self.increment.take_if(|increment| !increment.is_named) {
            let _is_gone = self.disk.remove(&self.layout.temporary_path(&increment.part));
        }
    }

    /// The job to remove files that are history, if there are any and they do not stay.
    pub fn begin_removal(&self) -> Option<RemoveJob> {
        if self.keeps_history {
            return None;
        }
        let parts = self.manifest.history.clone();
        let (disk, layout) = (Arc::clone(&self.disk), self.layout.clone());
        (!parts.is_empty()).then_some(RemoveJob { disk, layout, parts })
    }

    /// Removes deleted files from the manifest.
    ///
    /// # Errors
    /// The manifest still names them, which does no harm.
    pub fn end_removal(&mut self, gone: &[Part]) -> Result<(), Fault> {
        let mut manifest = self.manifest.clone();
        manifest.history.retain(|part| !gone.contains(part));
        debug_assert!(
            gone.iter().all(|part| self.manifest.parts().all(|other| other.name != part.name)),
            "nothing that counts is removed"
        );
        self.store(&manifest)?;
        self.manifest = manifest;
        Ok(())
    }

    /// Stops writing (`appendonly no`). The files stay; a rewrite starts again.
    ///
    /// # Errors
    /// The last sync failed.
    pub fn stop(&mut self) -> Result<(), Fault> {
        let synced = self.sync();
        self.rewrite = None;
        self.drop_unnamed();
        self.increment = None;
        self.closed = Closed::Off;
        synced
    }

    /// The position of the stream: bytes given to [`AofWriter::append`].
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Everything before this offset survives a crash.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether appended steps are kept: after a fault they are not, until a rewrite is finished.
    pub fn is_kept(&self) -> bool {
        self.increment.as_ref().is_some_and(|increment| increment.is_named)
    }

    /// The number of the current increment, and its length.
    pub fn position(&self) -> Option<(u64, u64)> {
        let increment = self.increment.as_ref().filter(|increment| increment.is_named);
        increment.map(|increment| (increment.part.seq, increment.bytes))
    }

    /// The failure that is not repaired yet: clients' writes must be refused.
    pub fn fault(&self) -> Option<&str> {
        match &self.closed {
            Closed::Fault(what) => Some(what),
            Closed::No | Closed::Off => None,
        }
    }

    /// Whether a rewrite is in progress.
    pub fn is_rewriting(&self) -> bool {
        self.rewrite.is_some()
    }

    /// Whether an automatic rewrite is due: after a fault, by growth, or because the first one has
    /// failed. `idle_ms`: time since the last one ended.
    pub fn is_rewrite_due(&self, rules: GrowthRules, idle_ms: u64) -> bool {
        if self.rewrite.is_some() || self.growth.retry_after_ms() > idle_ms {
            return false;
        }
        let is_missing = self.increment.is_none() && idle_ms >= MISSING_MS;
        self.fault().is_some() || is_missing || (self.is_kept() && self.growth.is_due(rules))
    }

    /// The current and past sizes of the files.
    pub fn growth(&self) -> &Growth {
        &self.growth
    }

    /// The current files.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

#[cfg(test)]
mod tests;
