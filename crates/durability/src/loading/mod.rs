//! Loading: a snapshot, or the files of an append-only file.
//!
//! Clients are answered -LOADING meanwhile (`States::LOADING`).
//!
//! | file | what |
//! |---|---|
//! | here | a file beside the present data, a primary's snapshot, answering -LOADING |
//! | `find` | which file the settings mean |
//! | `threads` | this thread finds entries in the file, others insert them |
//! | `append_only` | the base of an append-only file, and its steps |
//! | `state` | the progress, and what the file states of itself |
//!
//! Invariants
//! 1. If a file is damaged the caller gets an error. The data is then incomplete, and the server
//!    must not go on with it.
//!
//! Tests: compat/bad_days; compat/transcripts/server/save.txt.

mod append_only;
mod find;
mod state;
mod threads;

use std::io::Read;
use std::path::{Path, PathBuf};

use pantala_base::UnixMs;
use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_engine::condition::states::States;
use pantala_engine::functions::{Kept, libraries_of, load_libraries};
use pantala_keyspace::Keyspace;
use pantala_persistence::disk::Disk;
use pantala_persistence::loading::{Fault, InsertOutcome};
use pantala_persistence::snapshot::name;
use pantala_scripting::Libraries;

use super::place;
use crate::Durability;
use pantala_engine::Message;
use threads::{LoadedSnapshot, load_from};

pub use append_only::load_steps;
pub use find::{find, find_first, is_named};
pub use state::{Expired, LoadProgress, LoadState};

/// Where a snapshot is read from.
pub struct Source<'s> {
    /// The snapshot, or what is not in its parts.
    pub first: &'s mut dyn Read,
    /// Its bytes, if known.
    pub bytes: Option<u64>,
    /// Its parts: files of keys, which are read in parallel.
    pub parts: Vec<Box<dyn Read + Send + 's>>,
    /// The bytes of the parts, if known; else 0.
    pub bytes_of_parts: u64,
}

impl<'s> Source<'s> {
    /// A snapshot in one file.
    fn file(first: &'s mut dyn Read, bytes: u64) -> Source<'s> {
        Source { first, bytes: Some(bytes), parts: Vec::new(), bytes_of_parts: 0 }
    }
}

/// Loads a file beside the present data. A key that is present already is replaced (`replaces`), or
/// is an error. Only on threads that may wait.
///
/// # Errors
/// A text for the operator.
pub fn load(durability: &Durability, path: &Path, replaces: bool) -> Result<(), String> {
    let place = place::of(&durability.engine.settings.current())?;
    load_at(durability, &*place.disk, path, replaces)
}

/// Like [`load`], from this disk.
///
/// # Errors
/// A text for the operator.
pub fn load_at(
    durability: &Durability,
    disk: &dyn Disk,
    path: &Path,
    replaces: bool,
) -> Result<(), String> {
    let began_us = monotonic_us();
    let loaded = load_file(durability, disk, path, replaces).map(|(inserted, _)| inserted);
    let inserted = loaded.map_err(|fault| format!("{}: {fault}", path.display()))?;
    durability.loading.set_last(inserted);
    durability.saves.loaded(durability.changes());
    let InsertOutcome { loaded, expired, of_modules, .. } = inserted;
    let took = seconds(monotonic_us().saturating_sub(began_us));
    let file = path.display();
    tracing::info!(%file, keys = loaded, expired, "DB loaded from disk: {took} seconds");
    if of_modules > 0 {
        tracing::warn!(of_modules, "{file}: keys of modules were left out");
    }
    Ok(())
}

/// As Redis and Valkey tell how long something took.
fn seconds(took_us: u64) -> String {
    format!("{}.{:03}", took_us / 1_000_000, took_us / 1_000 % 1_000)
}

fn load_file(
    durability: &Durability,
    disk: &dyn Disk,
    path: &Path,
    replaces: bool,
) -> Result<(InsertOutcome, u64), Fault> {
    let files = name::files_of(disk, path).map_err(Fault::Disk)?;
    let sizes: Result<Vec<u64>, _> = files.iter().map(|file| disk.size(file)).collect();
    let sizes = sizes.map_err(Fault::Disk)?;
    durability.loading.begin(sizes.iter().sum());
    // A replica's keys expire when its primary says so.
    let now = if durability.role.is_replica() { UnixMs(i64::MIN) } else { unix_ms() };
    let (mut sum, mut bytes) = (InsertOutcome::default(), 0);
    for (path, &file_bytes) in files.iter().zip(&sizes) {
        let mut file = disk.open_to_read(path).map_err(Fault::Disk)?;
        let source = Source::file(&mut file, file_bytes);
        let loaded = load_here(durability, source, (replaces, now));
        let (inserted, read) = loaded.map_err(|fault| in_part(&files, path, fault))?;
        sum.add(inserted);
        bytes += read;
    }
    let parts = durability.loading.parts();
    if files.len() > 1 && parts > 0 && parts != files.len() as u64 - 1 {
        let what = format!("it says that it has {parts} parts, and {} are there", files.len() - 1);
        return Err(Fault::Disk(std::io::Error::other(what)));
    }
    Ok((sum, bytes))
}

/// A fault with the name of the part, if there are several.
fn in_part(files: &[PathBuf], path: &Path, fault: Fault) -> Fault {
    match fault {
        fault if files.len() == 1 => fault,
        Fault::CalledOff => fault,
        fault => Fault::Disk(std::io::Error::other(format!("{}: {fault}", path.display()))),
    }
}

/// Loads keys and functions; returns what was inserted, and the snapshot's bytes.
fn load_here(
    durability: &Durability,
    source: Source<'_>,
    (replaces, now): (bool, UnixMs),
) -> Result<(InsertOutcome, u64), Fault> {
    let engine = &durability.engine;
    let loaded = load_from(durability, &engine.space, source, (replaces, now))?;
    tell_done(&loaded.inserted);
    // Functions of the file replace those of the same name only if keys do.
    load_libraries(engine, &loaded.functions, replaces).map_err(Fault::Library)?;
    Ok((loaded.inserted, loaded.bytes))
}

/// A snapshot is loaded: Redis's words, with which its tests and tools count keys.
fn tell_done(inserted: &InsertOutcome) {
    let InsertOutcome { loaded, expired, empty, .. } = inserted;
    if *empty > 0 {
        return tracing::warn!(
            "Done loading RDB, keys loaded: {loaded}, keys expired: {expired}, empty keys skipped: \
             {empty}."
        );
    }
    tracing::info!("Done loading RDB, keys loaded: {loaded}, keys expired: {expired}.");
}

/// What a primary's snapshot has beside its keys.
pub struct LoadedCopy {
    /// Its functions, which are not in force yet.
    pub libraries: Libraries<Kept>,
    /// The database that the stream begins in.
    pub db: u32,
}

/// Loads a primary's snapshot into an empty keyspace, including expired keys: the stream says when
/// they are gone.
///
/// # Errors
/// A text for the operator; then some of it may be there.
pub fn load_copy(
    durability: &Durability,
    space: &Keyspace,
    source: Source<'_>,
) -> Result<LoadedCopy, String> {
    let began_us = monotonic_us();
    durability.loading.begin(source.bytes.unwrap_or_default() + source.bytes_of_parts);
    let loaded = load_from(durability, space, source, (false, UnixMs(i64::MIN)));
    let LoadedSnapshot { inserted, functions, .. } = loaded.map_err(|fault| fault.to_string())?;
    let libraries = libraries_of(&functions).map_err(|why| Fault::Library(why).to_string())?;
    durability.loading.set_last(inserted);
    durability.saves.loaded(durability.changes());
    let took_ms = monotonic_us().saturating_sub(began_us) / 1000;
    tell_done(&inserted);
    tracing::info!(keys = inserted.loaded, took_ms, "DB loaded from the primary");
    let (db, count) = (durability.loading.stream_db(), space.database_count());
    if db >= count {
        return Err(format!(
            "the stream of the primary goes on in database {db}, and --databases says {count}"
        ));
    }
    Ok(LoadedCopy { libraries, db })
}

/// While this lives clients are answered -LOADING.
pub struct AnswersLoading<'s>(&'s Durability, States);

impl<'s> AnswersLoading<'s> {
    /// Begins: all clients are answered so.
    pub fn begin(durability: &'s Durability) -> Self {
        AnswersLoading::in_state(durability, States::LOADING)
    }

    /// Begins for commands only that change where data is kept or comes from: others go on with the
    /// present data.
    pub fn begin_beside(durability: &'s Durability) -> Self {
        AnswersLoading::in_state(durability, States::LOADING_BESIDE)
    }

    fn in_state(durability: &'s Durability, state: States) -> Self {
        durability.engine.condition.lasting.begin(state);
        AnswersLoading(durability, state)
    }
}

impl Drop for AnswersLoading<'_> {
    fn drop(&mut self) {
        self.0.engine.condition.lasting.end(self.1);
        // Those that waited before, and came to another worker meanwhile, wait again.
        self.0.engine.workers.post_all(&|| Message::PauseChanged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::durability;

    /// An empty snapshot of a primary whose stream goes on in this database.
    fn copy(db: &str) -> Vec<u8> {
        let (name, length) = ("repl-stream-db", db.len() as u8);
        let mut file = b"REDIS0009\xfa".to_vec();
        file.push(name.len() as u8);
        file.extend_from_slice(name.as_bytes());
        file.push(length);
        file.extend_from_slice(db.as_bytes());
        file.push(0xff);
        // Of a checksum that is not checked.
        file.extend_from_slice(&[0; 8]);
        file
    }

    #[test]
    fn a_copy_whose_stream_goes_on_in_no_database_of_this_server_is_refused() {
        let durability = &*durability();
        for (db, is_there) in [("0", true), ("15", true), ("16", false), ("4000000000", false)] {
            let file = copy(db);
            let (first, bytes) = (&mut &file[..], Some(file.len() as u64));
            let source = Source { first, bytes, parts: Vec::new(), bytes_of_parts: 0 };
            let loaded = load_copy(durability, &durability.engine.space, source);
            assert_eq!(loaded.is_ok_and(|copy| copy.db.to_string() == db), is_there, "{db}");
        }
    }
}
