//! Replacing all data by a snapshot of the primary.
//!
//! ```text
//! swapdb   the snapshot --> beside the old data, which is served --> replaces it at one moment
//!          (another history than the old data's: -LOADING until then)
//! else     the old data is removed, then the snapshot is loaded; -LOADING until it is complete
//! ```
//!
//! Invariants
//! 1. No client sees a mix: with `swapdb` everything is replaced with no thread inside the gate,
//!    functions too; otherwise clients are answered -LOADING from before the first key is removed
//!    until after the last one has come.
//! 2. If it fails halfway the old data stays with its history (`swapdb`), or the data is empty and
//!    belongs to no history.
//! 3. None of this is recorded: an append-only file begins anew with the data that is there then.
//!
//! Tests: compat/replication.

use std::time::Duration;

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::Lane;
use pantala_engine::engine::limits::Limited;
use pantala_engine::execute::Turn;
use pantala_keyspace::{Aborted, Keyspace, Locked, Scope, Tally};
use pantala_settings::field::DisklessLoad;

use super::incoming::FullCopy;
use crate::Replication;
use crate::replica::drop_replicas;
use pantala_durability::journaling;
use pantala_durability::loading::{self, AnswersLoading, LoadedCopy, Source};

/// How soon is checked again whether a rewrite or a script has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Another link is in force, or none.
const NOT_IN_FORCE: &str = "another primary is to be followed";

impl FullCopy<'_> {
    /// Replaces all data by the snapshot; returns the database that the stream begins in.
    pub(super) fn replace(&self, source: Source<'_>) -> Result<u32, String> {
        let settings = self.replication.engine.settings.current();
        tracing::info!("PRIMARY <-> REPLICA sync: Loading DB in memory");
        let replaced = match settings.repl_diskless_load {
            DisklessLoad::Swap => self.load_beside(source),
            _ => self.load_in_place(source),
        };
        replaced.map_err(|why| {
            format!(
                "Failed trying to load the PRIMARY synchronization DB, Internal error in RDB: {why}"
            )
        })
    }

    /// Loads the snapshot beside the old data, which stays until the new one is complete.
    fn load_beside(&self, source: Source<'_>) -> Result<u32, String> {
        let replication = self.replication;
        let history = replication.downstream.stream.history();
        let is_the_same = history.is_kept && history.id == self.id;
        let beside = replication.engine.space.beside();
        let others = match is_the_same {
            true => AnswersLoading::begin_beside(&replication.durability),
            false => AnswersLoading::begin(&replication.durability),
        };
        let loaded = load_whole(replication, &beside, source);
        let ended = loaded.and_then(|loaded| self.put_in_place(&beside, loaded));
        // Before the data beside is freed, if it has failed.
        drop(others);
        ended
    }

    fn put_in_place(&self, beside: &Keyspace, loaded: LoadedCopy) -> Result<u32, String> {
        let (replication, engine) = (self.replication, &self.replication.engine);
        let _between_steps = self.following().role.between_steps();
        if !self.is_in_force() {
            return Err(NOT_IN_FORCE.into());
        }
        drop_replicas(replication);
        let file = FileBeginsAnew::close(replication);
        let LoadedCopy { libraries, db } = loaded;
        let mut libraries = Some(libraries);
        self.when_alone(|locked, tally| {
            let old = locked.replace_all(beside, || {
                let changed = libraries.take().map(|new| engine.set_functions(new));
                debug_assert!(changed.is_some(), "it happens once");
            })?;
            engine.space.dispose(old, true, tally);
            Ok(())
        })?;
        self.become_copy();
        drop(file);
        Ok(db)
    }

    fn load_in_place(&self, source: Source<'_>) -> Result<u32, String> {
        let replication = self.replication;
        let _between_steps = self.following().role.between_steps();
        if !self.is_in_force() {
            return Err(NOT_IN_FORCE.into());
        }
        drop_replicas(replication);
        let _others_wait = AnswersLoading::begin(&replication.durability);
        let _file = FileBeginsAnew::close(replication);
        self.forget_everything()?;
        match load_whole(replication, &replication.engine.space, source) {
            Ok(LoadedCopy { libraries, db }) => {
                replication.engine.set_functions(libraries);
                self.become_copy();
                Ok(db)
            }
            Err(why) => {
                replication.downstream.stream.stop_keeping();
                self.forget_everything()?;
                Err(why)
            }
        }
    }

    fn become_copy(&self) {
        let replication = &self.replication;
        replication.downstream.stream.become_copy(self.id, self.position);
        replication.downstream.checkpoints.forget();
    }

    /// Removes all keys and functions.
    fn forget_everything(&self) -> Result<(), String> {
        let engine = &self.replication.engine;
        self.when_alone(|locked, tally| {
            let garbage = locked.flush_for_now()?;
            engine.space.dispose(garbage, false, tally);
            Ok(())
        })?;
        engine.set_functions(Default::default());
        Ok(())
    }

    /// Does something to all data without recording it, once no other thread is inside.
    fn when_alone(
        &self,
        mut work: impl FnMut(&mut Locked<'_>, &Tally) -> Result<(), Aborted>,
    ) -> Result<(), String> {
        let engine = &self.replication.engine;
        let (tally, recorder) = (engine.stats.tallies.join(), engine.journal.join());
        let limited = Limited::new(engine.settings.current());
        let thread = (&*tally, &recorder);
        loop {
            let now = (unix_ms(), monotonic_us());
            let turn = Turn::new(&**engine, thread, &limited, Lane::Slow, now);
            let scope = Scope { recorder: None, ..turn.plain_scope() };
            match work(&mut engine.space.lock_none(scope), &tally.keys) {
                Ok(()) => return Ok(()),
                // A script runs for too long: it ends, or is ended.
                Err(Aborted(_)) if !self.is_in_force() => return Err(NOT_IN_FORCE.into()),
                Err(Aborted(_)) if engine.condition.shutdown.pause_for(LOOK) => {
                    return Err("the server stops".into());
                }
                Err(Aborted(_)) => {}
            }
        }
    }
}

/// Loads the snapshot to its end.
fn load_whole(
    replication: &Replication,
    space: &Keyspace,
    source: Source<'_>,
) -> Result<LoadedCopy, String> {
    let Source { first, bytes, parts, bytes_of_parts } = source;
    let source = Source { first: &mut *first, bytes, parts, bytes_of_parts };
    let loaded = loading::load_copy(&replication.durability, space, source)?;
    // Nothing but the end may follow.
    let ended = std::io::copy(first, &mut std::io::sink());
    ended.map(|_| loaded).map_err(|error| error.to_string())
}

/// The append-only file, if there is one, belongs to another history: it is closed, and begins anew
/// with the present data when this is dropped. So does one that was turned on meanwhile: it may
/// lack later changes.
struct FileBeginsAnew<'s> {
    replication: &'s Replication,
    is_kept: bool,
}

impl<'s> FileBeginsAnew<'s> {
    fn close(replication: &'s Replication) -> Self {
        FileBeginsAnew { replication, is_kept: close_file(replication) }
    }
}

impl Drop for FileBeginsAnew<'_> {
    fn drop(&mut self) {
        let is_kept = close_file(self.replication) || self.is_kept;
        if let Some(replication) = self.replication.arc().filter(|_| is_kept) {
            begin_file(&replication);
        }
    }
}

/// Closes the append-only file; whether there was one.
fn close_file(replication: &Replication) -> bool {
    let is_there = replication.durability.appending.is_running();
    if is_there {
        replication.durability.appending.close(&replication.engine.journal);
    }
    is_there
}

fn begin_file(replication: &std::sync::Arc<Replication>) {
    loop {
        match journaling::begin_anew(&replication.durability) {
            Ok(()) => return,
            Err(why) if replication.engine.condition.shutdown.pause_for(LOOK) => {
                return tracing::warn!("the append-only file was not begun: {why}");
            }
            // Wait until the rewrite under way has ended.
            Err(_) if replication.durability.appending.rewrites().began_us.is_some() => {}
            Err(why) => return tracing::error!("the append-only file was not begun: {why}"),
        }
    }
}
