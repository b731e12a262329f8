//! The threads that load: one finds entries in the file, and one in each part; others insert them.
//!
//! ```text
//! file  --read_file--> batches --channel--> threads that insert --> keyspace
//! parts --read_part-->
//! ```
//!
//! Invariants
//! 1. The reading threads never wait for threads that are gone: inserting threads receive to the
//!    end, whatever happens.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};

use pantala_base::UnixMs;
use pantala_base::clock::monotonic_us;
use pantala_commands::families::generic::rdb_limits;
use pantala_keyspace::{Keyspace, Tally};
use pantala_persistence::loading::{Batch, Fault, InsertOutcome, Inserter, Part, read_file};
use pantala_rdb::file::ReadOptions;
use pantala_rdb::payload::Versions;
use pantala_settings::field::VersionCheck;
use parking_lot::Mutex;

use super::Source;
use super::state::LoadProgress;
use crate::Durability;
use crate::snapshots::cut::rest;

/// How many batches may wait for each inserting thread.
const BATCHES_PER_THREAD: usize = 2;
/// How many empty collections are logged by name, as many as by Redis.
const EMPTY_TOLD_MOST: usize = 10;
/// The interval of log lines about the progress.
const TELL_US: u64 = 5_000_000;

/// The state that all loading threads share.
struct SharedLoad<'l> {
    durability: &'l Durability,
    inserter: Inserter<'l>,
    inserted: Mutex<InsertOutcome>,
    fault: Mutex<Option<Fault>>,
    is_over: AtomicBool,
    /// The pause after each key, for tests.
    rest_us: u64,
}

impl SharedLoad<'_> {
    /// The main loop of an inserting thread.
    fn insert(&self, batches: &Mutex<Receiver<Batch>>) {
        let tally = Tally::default();
        let mut inserted = InsertOutcome::default();
        loop {
            // Held while it waits: the other threads wait for the same anyway.
            let batch = batches.lock().recv();
            let Ok(batch) = batch else { break };
            if self.is_over.load(Ordering::Relaxed) {
                continue;
            }
            let insert = AssertUnwindSafe(|| self.inserter.insert(&batch, &tally));
            match catch_unwind(insert) {
                Ok(Ok(more)) => {
                    inserted.add(more);
                    let rest_us = more.loaded * self.rest_us;
                    rest(rest_us, &|| self.durability.engine.condition.shutdown.is_final());
                }
                Ok(Err(fault)) => self.fail(fault),
                // It goes on receiving, so that the reading threads do not wait for ever.
                Err(_) => self.fail(Fault::Disk(std::io::Error::other("a panic of ours"))),
            }
            self.durability.loading.add_loaded(batch.bytes.len());
        }
        self.inserted.lock().add(inserted);
        pantala_memory::release_seat();
    }

    /// Ends loading with a fault. Of several faults the first in the file counts, as far as that is
    /// known.
    fn fail(&self, fault: Fault) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut first = self.fault.lock();
        if first.is_none() || matches!(*first, Some(Fault::CalledOff)) {
            *first = Some(fault);
        }
    }
}

/// The contents of a snapshot.
pub(super) struct LoadedSnapshot {
    /// The keys.
    pub inserted: InsertOutcome,
    /// Its length in bytes.
    pub bytes: u64,
    /// The codes of its libraries, which are not in force yet.
    pub functions: Vec<Vec<u8>>,
}

/// Loads the keys that had not expired at this time.
///
/// # Errors
/// The file cannot be read or is damaged, or a key is there already.
pub(super) fn load_from(
    durability: &Durability,
    space: &Keyspace,
    source: Source<'_>,
    (replaces, now): (bool, UnixMs),
) -> Result<LoadedSnapshot, Fault> {
    let settings = durability.engine.settings.current();
    let limits = rdb_limits(&settings);
    // More than replicas could be sent is of no use.
    let most_bytes = settings.repl_backlog_bytes;
    let on_expired = |db, name: &[u8]| durability.loading.has_expired(db, name, most_bytes);
    let empty = AtomicUsize::new(0);
    let on_empty = |name: &[u8]| {
        if empty.fetch_add(1, Ordering::Relaxed) < EMPTY_TOLD_MOST {
            tracing::warn!("rdbLoadObject skipping empty key: {}", name.escape_ascii());
        }
    };
    let inserter = Inserter {
        space,
        limits: &limits,
        now,
        skips_modules: settings.skip_module_values,
        replaces,
        on_expired: &on_expired,
        on_empty: &on_empty,
    };
    let loading = SharedLoad {
        durability,
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
    let Source { first, bytes: file_bytes, parts, .. } = source;
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
        let options_of_part = ReadOptions { file_bytes: None, ..options };
        for part in parts {
            let taking = ItemReceiver::new(&loading, batches.clone());
            let read = move || read_part(part, options_of_part, taking);
            let started = Builder::new().name("load-read".into()).spawn_scoped(scope, read);
            started.map_err(Fault::Disk).inspect_err(|_| loading.fail(Fault::CalledOff))?;
        }
        // Dropped at the end, so that the other threads end.
        let mut taking = ItemReceiver::new(&loading, batches);
        let read = read_file(first, options, &mut |part| taking.take(part));
        functions = taking.functions;
        read.inspect_err(|_| loading.is_over.store(true, Ordering::Relaxed))
    });
    let fault = loading.fault.into_inner();
    let bytes = match (fault, read) {
        (Some(fault), _) | (None, Err(fault)) => return Err(fault),
        (None, Ok(bytes)) => bytes,
    };
    let inserted = loading.inserted.into_inner();
    Ok(LoadedSnapshot { inserted, bytes, functions })
}

fn start<'s>(
    scope: &'s Scope<'s, '_>,
    loading: &'s SharedLoad<'_>,
    batches: &'s Mutex<Receiver<Batch>>,
) -> bool {
    Builder::new().name("load".into()).spawn_scoped(scope, || loading.insert(batches)).is_ok()
}

/// The main loop of a thread that reads a part, in which nothing may follow.
fn read_part(
    mut part: Box<dyn Read + Send + '_>,
    options: ReadOptions,
    mut taking: ItemReceiver<'_, '_>,
) {
    let loading = taking.loading;
    let read = AssertUnwindSafe(|| {
        read_file(&mut part, options, &mut |found| taking.take(found))?;
        match part.read(&mut [0]).map_err(Fault::Disk)? {
            0 => Ok(()),
            _ => Err(Fault::Disk(std::io::Error::other("something follows the end of a part"))),
        }
    });
    match catch_unwind(read) {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => loading.fail(fault),
        Err(_) => loading.fail(Fault::Disk(std::io::Error::other("a panic of ours"))),
    }
    pantala_memory::release_seat();
}

/// Collects the entries of a file into batches.
struct ItemReceiver<'t, 'l> {
    loading: &'t SharedLoad<'l>,
    batches: SyncSender<Batch>,
    functions: Vec<Vec<u8>>,
    told_us: u64,
}

impl<'t, 'l> ItemReceiver<'t, 'l> {
    fn new(loading: &'t SharedLoad<'l>, batches: SyncSender<Batch>) -> ItemReceiver<'t, 'l> {
        ItemReceiver { loading, batches, functions: Vec::new(), told_us: monotonic_us() }
    }

    fn take(&mut self, part: Part) -> bool {
        let SharedLoad { durability, inserter, is_over, .. } = self.loading;
        match part {
            Part::Batch(batch) => {
                // The receiver is gone if a thread has panicked.
                if self.batches.send(batch).is_err() {
                    return false;
                }
                self.tell();
            }
            Part::Function(code) => self.functions.push(code),
            Part::Aux(name, value) => durability.loading.take_aux(&name, &value),
            Part::Module(_, module) if inserter.skips_modules => {
                tracing::warn!(%module, "data of a module that belongs to no key is skipped");
            }
            Part::Module(offset, module) => {
                self.loading.fail(Fault::Module(offset, module.to_string()));
            }
        }
        if durability.engine.condition.shutdown.is_final() {
            self.loading.fail(Fault::CalledOff);
        }
        !is_over.load(Ordering::Relaxed)
    }

    /// Logs the progress, if it is time.
    fn tell(&mut self) {
        let now_us = monotonic_us();
        if now_us.saturating_sub(self.told_us) < TELL_US {
            return;
        }
        self.told_us = now_us;
        let LoadProgress { total_bytes, loaded_bytes, .. } =
            self.loading.durability.loading.progress();
        let percent = loaded_bytes.saturating_mul(100) / total_bytes.max(1);
        tracing::info!(percent, loaded_bytes, total_bytes, "loading a snapshot");
    }
}
