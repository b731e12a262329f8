//! Loading a snapshot: this thread finds entries in the file, others insert them.
//!
//! Clients are answered -LOADING meanwhile (`States::LOADING`).
//!
//! Invariants
//! 1. Who reads the file never waits for threads that are gone: they receive to the end, whatever
//!    happens.
//! 2. A file that is damaged is an error for whoever wants it loaded; the data is then that of no
//!    file, and the server is not to go on with it.
//!
//! Tests: compat/bad_days; compat/transcripts/server/save.txt.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope};

use pantala_base::UnixMs;
use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::families::generic::rdb_limits;
use pantala_engine::functions::load_libraries;
use pantala_engine::lane::LANE_SLOTS;
use pantala_engine::states::States;
use pantala_keyspace::Tally;
use pantala_persistence::aof::files::part_files;
use pantala_persistence::aof::load::{self, LoadSnapshot};
use pantala_persistence::aof::replay::replay_on;
use pantala_persistence::aof::{Layout, Manifest};
use pantala_persistence::disk::RealDisk;
use pantala_persistence::loading::{Batch, Fault, Inserted, Inserter, Part, read_file};
use pantala_persistence::snapshot::name;
use pantala_rdb::file::ReadOptions;
use pantala_rdb::payload::Versions;
use pantala_replication::ReplicationId;
use pantala_settings::Settings;
use pantala_settings::field::VersionCheck;

use super::place;
use super::saving::{now_s, rest};
use crate::replication::moment::Place;
use crate::shared::Shared;

/// Batches that wait, for each thread that inserts them.
const BATCHES_PER_THREAD: usize = 2;
/// How often the log tells of the progress.
const TELL_US: u64 = 5_000_000;

/// What `--load` says for the newest one.
const LATEST: &str = "latest";

/// What INFO tells of loading.
#[derive(Default)]
pub struct LoadState {
    began_us: AtomicU64,
    began_s: AtomicU64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    used_bytes: AtomicU64,
    /// Of how many parts one of Dragonfly's says it is.
    parts: AtomicU64,
    /// The database that the primary's stream had selected.
    stream_db: AtomicU32,
    /// Whose history the data is, if the file says it.
    history: Mutex<Option<ReplicationId>>,
    /// The position in it, plus one.
    position: AtomicU64,
    last: Mutex<Inserted>,
}

/// How far loading is.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// When it began (Unix, seconds).
    pub began_s: u64,
    /// Bytes of the file.
    pub total_bytes: u64,
    /// So many of them have been loaded.
    pub loaded_bytes: u64,
    /// The memory that the server which wrote the file had used, if it says so.
    pub used_bytes: u64,
    /// How long it has taken, in microseconds.
    pub took_us: u64,
}

impl LoadState {
    fn begin(&self, total_bytes: u64) {
        self.began_us.store(monotonic_us(), Ordering::Relaxed);
        self.began_s.store(now_s().unsigned_abs(), Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
        self.used_bytes.store(0, Ordering::Relaxed);
        self.parts.store(0, Ordering::Relaxed);
        self.stream_db.store(0, Ordering::Relaxed);
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.position.store(0, Ordering::Relaxed);
    }

    /// How far it is.
    pub fn progress(&self) -> LoadProgress {
        LoadProgress {
            began_s: self.began_s.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            loaded_bytes: self.loaded_bytes.load(Ordering::Relaxed),
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            took_us: monotonic_us().saturating_sub(self.began_us.load(Ordering::Relaxed)),
        }
    }

    /// Where in which history the data is, if the file says it.
    pub fn place(&self) -> Option<Place> {
        let id = (*self.history.lock().unwrap_or_else(PoisonError::into_inner))?;
        let position = self.position.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Place { id, position, db: self.stream_db.load(Ordering::Relaxed) })
    }

    /// What became of the last file.
    pub fn last(&self) -> Inserted {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file that the settings mean, if there is one.
///
/// # Errors
/// The directory cannot be read.
pub fn find(settings: &Settings) -> Result<Option<PathBuf>, String> {
    let place = place::of(settings)?;
    let found = name::latest(&*place.disk, &place.directory, &settings.dbfilename);
    found.map_err(|error| format!("cannot read {}: {error}", settings.dir))
}

/// What `--load` names, if anything.
pub fn is_named(settings: &Settings) -> bool {
    !matches!(&*settings.load, "" | LATEST)
}

/// The snapshot that the server begins with, if there is one.
///
/// # Errors
/// The directory cannot be read, or has no file of the name that is asked for.
pub fn find_first(settings: &Settings) -> Result<Option<PathBuf>, String> {
    let (dir, load) = (&settings.dir, &settings.load);
    if load.is_empty() {
        return find(settings);
    }
    let place = place::of(settings)?;
    let (disk, directory) = (&*place.disk, &place.directory);
    if load == LATEST {
        let found = name::newest(disk, directory, &settings.dbfilename)
            .map_err(|error| format!("cannot read {dir}: {error}"))?;
        if found.is_none() {
            tracing::warn!("--load latest: there is no snapshot in {dir}; the server begins empty");
        }
        return Ok(found);
    }
    let path = directory.join(load);
    match disk.size(&path) {
        Ok(_) => Ok(Some(path)),
        Err(error) => Err(format!("--load {load}: cannot read it in {dir}: {error}")),
    }
}

/// Loads a file beside what there is. A key that is there already makes way (`replaces`), or is an
/// error. Only on threads that may wait.
///
/// # Errors
/// A text for the operator.
pub fn load(shared: &Shared, path: &Path, replaces: bool) -> Result<(), String> {
    let began_us = monotonic_us();
    let loaded = load_file(shared, path, replaces).map(|(inserted, _)| inserted);
    let inserted = loaded.map_err(|fault| format!("{}: {fault}", path.display()))?;
    *shared.loading.last.lock().unwrap_or_else(PoisonError::into_inner) = inserted;
    shared.saves.loaded(shared.changes());
    let Inserted { loaded, expired, empty, of_modules } = inserted;
    let took_ms = monotonic_us().saturating_sub(began_us) / 1000;
    let path = path.display();
    tracing::info!(keys = loaded, expired, took_ms, "loaded {path}");
    if empty + of_modules > 0 {
        tracing::warn!(empty, of_modules, "some keys of {path} were left out");
    }
    Ok(())
}

/// What all threads that load share.
struct Loading<'l> {
    shared: &'l Shared,
    inserter: Inserter<'l>,
    inserted: Mutex<Inserted>,
    fault: Mutex<Option<Fault>>,
    is_over: AtomicBool,
    /// After each key; for tests.
    rest_us: u64,
}

impl Loading<'_> {
    /// The life of a thread that inserts.
    fn insert(&self, batches: &Mutex<Receiver<Batch>>) {
        let tally = Tally::default();
        let mut inserted = Inserted::default();
        loop {
            // Held while it waits: the others wait behind it, and for the same.
            let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = batch else { break };
            if self.is_over.load(Ordering::Relaxed) {
                continue;
            }
            let insert = AssertUnwindSafe(|| self.inserter.insert(&batch, &tally));
            match catch_unwind(insert) {
                Ok(Ok(more)) => {
                    inserted.add(more);
                    let rest_us = more.loaded * self.rest_us;
                    rest(rest_us, &|| self.shared.engine.condition.shutdown.is_final());
                }
                Ok(Err(fault)) => self.fail(fault),
                // It goes on to receive: who reads the file must not wait for ever.
                Err(_) => self.fail(Fault::Disk(std::io::Error::other("a panic of ours"))),
            }
            let loaded = &self.shared.loading.loaded_bytes;
            loaded.fetch_add(batch.bytes.len() as u64, Ordering::Relaxed);
        }
        self.inserted.lock().unwrap_or_else(PoisonError::into_inner).add(inserted);
        pantala_memory::release_seat();
    }

    /// Nothing more is to be loaded. Of several faults the first in the file counts, as near as
    /// that is known.
    fn fail(&self, fault: Fault) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() || matches!(*first, Some(Fault::CalledOff)) {
            *first = Some(fault);
        }
    }
}

fn load_file(shared: &Shared, path: &Path, replaces: bool) -> Result<(Inserted, u64), Fault> {
    let settings = shared.engine.settings.current();
    let place = place::of(&settings).map_err(|why| Fault::Disk(std::io::Error::other(why)))?;
    let disk = &*place.disk;
    let files = name::files_of(disk, path).map_err(Fault::Disk)?;
    let sizes: Result<Vec<u64>, _> = files.iter().map(|file| disk.size(file)).collect();
    let sizes = sizes.map_err(Fault::Disk)?;
    shared.loading.begin(sizes.iter().sum());
    // A replica's keys go when its primary says so.
    let now = if shared.replication.is_replica() { UnixMs(i64::MIN) } else { unix_ms() };
    let (mut sum, mut bytes) = (Inserted::default(), 0);
    for (path, &file_bytes) in files.iter().zip(&sizes) {
        let mut file = disk.open_to_read(path).map_err(Fault::Disk)?;
        let loaded = load_from(shared, &mut file, Some(file_bytes), (replaces, now));
        let (inserted, read) = loaded.map_err(|fault| in_part(&files, path, fault))?;
        sum.add(inserted);
        bytes += read;
    }
    let parts = shared.loading.parts.load(Ordering::Relaxed);
    if files.len() > 1 && parts > 0 && parts != files.len() as u64 - 1 {
        let what = format!("it says that it has {parts} parts, and {} are there", files.len() - 1);
        return Err(Fault::Disk(std::io::Error::other(what)));
    }
    Ok((sum, bytes))
}

/// A fault with the name of the part, where there are several.
fn in_part(files: &[PathBuf], path: &Path, fault: Fault) -> Fault {
    match fault {
        fault if files.len() == 1 => fault,
        Fault::CalledOff => fault,
        fault => Fault::Disk(std::io::Error::other(format!("{}: {fault}", path.display()))),
    }
}

/// Loads what had not expired at that time; what was inserted, and the snapshot's bytes.
fn load_from(
    shared: &Shared,
    file: &mut dyn Read,
    file_bytes: Option<u64>,
    (replaces, now): (bool, UnixMs),
) -> Result<(Inserted, u64), Fault> {
    let engine = &shared.engine;
    let settings = engine.settings.current();
    let limits = rdb_limits(&settings);
    let inserter = Inserter {
        space: &engine.space,
        limits: &limits,
        now,
        skips_modules: settings.skip_module_values,
        replaces,
    };
    let loading = Loading {
        shared,
        inserter,
        inserted: Mutex::default(),
        fault: Mutex::new(None),
        is_over: AtomicBool::new(false),
        rest_us: settings.key_load_delay_us,
    };
    let versions = match settings.rdb_version_check {
        VersionCheck::Strict => Versions::Known,
        VersionCheck::Relaxed => Versions::All,
    };
    let options = ReadOptions { versions, checks: settings.rdbchecksum, file_bytes };
    let threads = settings.snapshot_thread_count();
    let (batches, receiver) = sync_channel(threads * BATCHES_PER_THREAD);
    let receiver = Mutex::new(receiver);
    let mut functions = Vec::new();
    let read = std::thread::scope(|scope| {
        let started = (0..threads).filter(|_| start(scope, &loading, &receiver)).count();
        if started == 0 {
            return Err(Fault::Disk(std::io::Error::other("cannot start a thread")));
        }
        // Dropped at the end, so that the others end.
        let mut taking = Taking {
            loading: &loading,
            batches,
            functions: &mut functions,
            told_us: monotonic_us(),
        };
        read_file(file, options, &mut |part| taking.take(part))
    });
    let fault = loading.fault.into_inner().unwrap_or_else(PoisonError::into_inner);
    let bytes = match (fault, read) {
        (Some(fault), _) | (None, Err(fault)) => return Err(fault),
        (None, Ok(bytes)) => bytes,
    };
    // Functions of the file take the place of those of the same name only where keys do.
    load_libraries(engine, &functions, replaces).map_err(Fault::Library)?;
    Ok((loading.inserted.into_inner().unwrap_or_else(PoisonError::into_inner), bytes))
}

/// Loads a primary's snapshot into an empty server, keys whose time is over too: the stream says
/// when they are gone. The database that the stream begins in.
///
/// # Errors
/// A text for the operator; then some of it may be there.
pub fn load_copy(shared: &Shared, input: &mut dyn Read, bytes: Option<u64>) -> Result<u32, String> {
    let began_us = monotonic_us();
    shared.loading.begin(bytes.unwrap_or_default());
    let loaded = load_from(shared, input, bytes, (false, UnixMs(i64::MIN)));
    let (inserted, _) = loaded.map_err(|fault| fault.to_string())?;
    *shared.loading.last.lock().unwrap_or_else(PoisonError::into_inner) = inserted;
    shared.saves.loaded(shared.changes());
    let took_ms = monotonic_us().saturating_sub(began_us) / 1000;
    tracing::info!(keys = inserted.loaded, took_ms, "loaded the primary's snapshot");
    Ok(shared.loading.stream_db.load(Ordering::Relaxed))
}

/// Loads the base of an append-only file, with the keys that have expired: steps follow that say
/// when they are gone.
struct Bases<'s>(&'s Shared);

impl LoadSnapshot for Bases<'_> {
    fn load(&mut self, file: &mut dyn Read, file_bytes: u64) -> Result<u64, String> {
        let loaded = load_from(self.0, file, Some(file_bytes), (false, UnixMs(i64::MIN)));
        loaded.map(|(_, bytes)| bytes).map_err(|fault| fault.to_string())
    }
}

/// Loads the files of an append-only file.
///
/// # Errors
/// A text for the operator.
pub fn load_steps(shared: &Shared, layout: &Layout, manifest: &Manifest) -> Result<(), String> {
    let began_us = monotonic_us();
    let files = part_files(&RealDisk, layout, manifest).map_err(|error| error.to_string())?;
    shared.loading.begin(files.iter().map(|file| file.bytes).sum());
    let cuts = shared.engine.settings.current().aof_load_truncated;
    let mut progress = |bytes| shared.loading.loaded_bytes.store(bytes, Ordering::Relaxed);
    let (loaded, outcome) = replay_on(shared, LANE_SLOTS - 1, |replay| {
        let loaded = load::load(&RealDisk, &files, replay, &mut Bases(shared), cuts, &mut progress);
        (loaded, replay.outcome().clone())
    });
    let loaded = loaded.map_err(|error| error.to_string())?;
    if let Some((path, torn)) = &loaded.cut {
        tracing::warn!("{}: {torn}; it was cut off", path.display());
    }
    if let Some(error) = &outcome.first_error {
        tracing::warn!(errors = outcome.errors, "commands of the append-only file failed: {error}");
    }
    shared.saves.loaded(shared.changes());
    let took_ms = monotonic_us().saturating_sub(began_us) / 1000;
    tracing::info!(
        steps = loaded.steps,
        bytes = loaded.bytes,
        took_ms,
        "loaded the append-only file"
    );
    Ok(())
}

fn start<'s>(
    scope: &'s Scope<'s, '_>,
    loading: &'s Loading<'_>,
    batches: &'s Mutex<Receiver<Batch>>,
) -> bool {
    Builder::new().name("load".into()).spawn_scoped(scope, || loading.insert(batches)).is_ok()
}

/// Takes what is found in the file.
struct Taking<'t, 'l> {
    loading: &'t Loading<'l>,
    batches: SyncSender<Batch>,
    functions: &'t mut Vec<Vec<u8>>,
    told_us: u64,
}

impl Taking<'_, '_> {
    fn take(&mut self, part: Part) -> bool {
        let Loading { shared, inserter, is_over, .. } = self.loading;
        match part {
            Part::Batch(batch) => {
                // Nobody receives any more where a thread has panicked.
                if self.batches.send(batch).is_err() {
                    return false;
                }
                self.tell();
            }
            Part::Function(code) => self.functions.push(code),
            Part::Aux(name, value) => {
                let number = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                let number = number.unwrap_or_default();
                match &*name {
                    b"used-mem" => shared.loading.used_bytes.store(number, Ordering::Relaxed),
                    b"repl-stream-db" => {
                        let db = u32::try_from(number).unwrap_or_default();
                        shared.loading.stream_db.store(db, Ordering::Relaxed);
                    }
                    b"repl-id" => {
                        let history = &shared.loading.history;
                        *history.lock().unwrap_or_else(PoisonError::into_inner) =
                            ReplicationId::parse(&value);
                    }
                    b"repl-offset" => {
                        // Less than there are bytes in the world.
                        let next = u64::checked_add(number, 1).unwrap_or_default();
                        shared.loading.position.store(next, Ordering::Relaxed);
                    }
                    b"shard-count" => shared.loading.parts.store(number, Ordering::Relaxed),
                    _ => {}
                }
            }
            Part::Module(_, module) if inserter.skips_modules => {
                tracing::warn!(%module, "what a module keeps beside its keys is passed over");
            }
            Part::Module(offset, module) => {
                self.loading.fail(Fault::Module(offset, module.to_string()));
            }
        }
        if shared.engine.condition.shutdown.is_final() {
            self.loading.fail(Fault::CalledOff);
        }
        !is_over.load(Ordering::Relaxed)
    }

    /// Tells of the progress, if it is time.
    fn tell(&mut self) {
        let now_us = monotonic_us();
        if now_us.saturating_sub(self.told_us) < TELL_US {
            return;
        }
        self.told_us = now_us;
        let LoadProgress { total_bytes, loaded_bytes, .. } = self.loading.shared.loading.progress();
        let percent = loaded_bytes.saturating_mul(100) / total_bytes.max(1);
        tracing::info!(percent, loaded_bytes, total_bytes, "loading a snapshot");
    }
}

/// Clients are answered -LOADING while it lives.
pub struct AnswersLoading<'s>(&'s Shared);

impl<'s> AnswersLoading<'s> {
    /// From now on.
    pub fn begin(shared: &'s Shared) -> Self {
        shared.engine.condition.lasting.begin(States::LOADING);
        AnswersLoading(shared)
    }
}

impl Drop for AnswersLoading<'_> {
    fn drop(&mut self) {
        self.0.engine.condition.lasting.end(States::LOADING);
    }
}
