//! Saving: a snapshot in a file, or in object storage.
//!
//! ```text
//! SAVE           on a thread of the lane      --+
//! BGSAVE         on a thread of its own       --+--> the turn --> the cut --> the file
//! the schedule   checked each second, if any  --+
//! SHUTDOWN       on the lane; signals: `stopping`
//! ```
//!
//! Not here: whose turn it is (`snapshots`), the cut and the threads that walk (`snapshots/cut`).
//!
//! Tests: compat/transcripts/server/save.txt; compat/bad_days.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Builder;

use pantala_base::clock::{monotonic_us, unix_ms, unix_us};
use pantala_persistence::disk::Disk;
use pantala_persistence::runs::{Run, RunKind};
use pantala_persistence::snapshot::{Fault, Form, name, write};
use pantala_settings::Settings;

use super::place;
use crate::Durability;
use crate::saves::{NoSave, Save, SaveEnd};
use crate::snapshots::cut::{self, FileTarget, Purpose, Readers};
use crate::snapshots::moment::Moment;
use crate::snapshots::{NoTurn, Place, Turn};

/// The present time (Unix, seconds).
pub fn now_s() -> i64 {
    unix_us().div_euclid(1_000_000)
}

/// Why no file was written.
#[derive(Debug)]
pub enum SaveFailure {
    /// Another one is being written.
    Busy,
    /// The server is about to stop, and saves by itself if that is wanted.
    Stopping,
    /// A script does not end.
    Held,
    /// It failed, or was cancelled.
    Failed(String),
}

impl From<NoSave> for SaveFailure {
    fn from(why: NoSave) -> Self {
        match why {
            NoSave::Running => SaveFailure::Busy,
            NoSave::Stopping => SaveFailure::Stopping,
        }
    }
}

impl From<NoTurn> for SaveFailure {
    fn from(why: NoTurn) -> Self {
        match why {
            NoTurn::Closed => SaveFailure::Busy,
            NoTurn::Cancelled => SaveFailure::Failed(Fault::CalledOff.to_string()),
        }
    }
}

impl fmt::Display for SaveFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveFailure::Busy => f.write_str("another one has not ended"),
            SaveFailure::Stopping => f.write_str("the server is being stopped"),
            SaveFailure::Held => f.write_str("a script does not end, and has written"),
            SaveFailure::Failed(why) => f.write_str(why),
        }
    }
}

/// Writes a snapshot, on this thread and others; returns once the file is complete. Only on threads
/// that may wait, outside the gate. `why` it begins is kept with the run.
///
/// # Errors
/// See [`SaveFailure`]; the old file is unchanged.
pub fn save(durability: &Durability, why: &str) -> Result<(), SaveFailure> {
    let save = durability.saves.begin(monotonic_us(), false)?;
    run(durability, durability.snapshots.line_up(&save), &save, why)
}

/// Writes the snapshot of a server that stops, once no other snapshot can begin. Otherwise like
/// [`save`].
///
/// # Errors
/// See [`save`].
pub fn save_before_stop(durability: &Durability) -> Result<(), SaveFailure> {
    let save = durability.saves.begin_last(monotonic_us()).map_err(SaveFailure::from);
    let save = save.inspect_err(|why| tracing::error!("a snapshot could not be begun: {why}"))?;
    run(durability, durability.snapshots.line_up(&save), &save, "the server stops")
}

/// Writes a snapshot on a thread of its own, as BGSAVE does; returns once the thread has started.
/// `why` it begins is kept with the run.
///
/// # Errors
/// Another one is being written, or the system has no thread.
pub fn save_in_background(durability: &Arc<Durability>, why: &str) -> Result<(), SaveFailure> {
    let save = durability.saves.begin(monotonic_us(), true)?;
    // Before the request is answered, so that a later one comes later.
    let place = durability.snapshots.line_up(&save);
    let (of_thread, saved, why) = (Arc::clone(durability), Arc::clone(&save), why.to_owned());
    let life = move || {
        pantala_base::os::yield_to_others();
        // The result is in the log and in INFO.
        let _told = run(&of_thread, place, &saved, &why);
        pantala_memory::release_seat();
    };
    tracing::info!("Background saving started by pid {}", std::process::id());
    let spawned = Builder::new().name("save".into()).spawn(life);
    spawned.map(drop).map_err(|error| {
        end(durability, &save, SaveEnd::Failed);
        SaveFailure::Failed(format!("cannot start a thread: {error}"))
    })
}

fn run(durability: &Durability, place: Place, save: &Save, why: &str) -> Result<(), SaveFailure> {
    let mut noted = Run::begin(RunKind::Snapshot, why, unix_ms().0);
    let written = write_file(durability, place, &mut noted.file);
    noted.keys = save.progress().written;
    noted.took_ms = monotonic_us().saturating_sub(save.began_us) / 1000;
    let (result, ended) = match written {
        Ok(bytes) => {
            noted.bytes = bytes;
            let Run { keys, took_ms, .. } = noted;
            tracing::info!(keys, bytes, took_ms, "DB saved on disk");
            if save.is_in_background {
                tracing::info!("Background saving terminated with success");
            }
            (Ok(()), SaveEnd::Well)
        }
        Err(_) if save.is_cancelled() => {
            match save.is_in_background {
                true => tracing::warn!("Background saving cancelled"),
                false => tracing::warn!("saving a snapshot was called off"),
            }
            (Err(SaveFailure::Failed("it was called off".into())), SaveEnd::CalledOff)
        }
        Err(unsaved) => {
            tracing::error!("Write error saving DB on disk: {unsaved}");
            if save.is_in_background {
                tracing::error!("Background saving error");
            }
            (Err(unsaved), SaveEnd::Failed)
        }
    };
    noted.error = result.as_ref().err().map(ToString::to_string);
    durability.runs.note(noted);
    end(durability, save, ended);
    result
}

fn end(durability: &Durability, save: &Save, ended: SaveEnd) {
    durability.saves.end(save, ended, now_s(), monotonic_us());
    durability.saves.apply(&durability.engine);
}

fn plan(settings: &Settings, directory: &Path, name: &str) -> write::Plan {
    write::Plan {
        path: directory.join(name),
        temporary: directory.join(name::temporary(std::process::id())),
        form: Form::Rdb,
        strings: cut::strings(settings),
        has_checksum: settings.rdbchecksum,
        fixed_version: None,
        syncs_in_steps: settings.rdb_save_incremental_fsync,
    }
}

/// Removes an unfinished file.
pub fn remove_temporary(settings: &Settings) {
    let temporary = Path::new(&settings.dir).join(name::temporary(std::process::id()));
    // Usually there is none.
    let _absent = std::fs::remove_file(temporary);
}

/// The plan for a file of this form that the caller moves to its place.
pub fn plan_at(settings: &Settings, path: PathBuf, form: Form) -> write::Plan {
    let mut temporary = path.clone().into_os_string();
    temporary.push(".part");
    write::Plan { path, temporary: temporary.into(), form, ..plan(settings, Path::new(""), "") }
}

/// Writes the file when it has the turn; returns its bytes, or what went wrong. `name` becomes the
/// file's name.
fn write_file(
    durability: &Durability,
    in_line: Place,
    name: &mut String,
) -> Result<u64, SaveFailure> {
    let turn = in_line.wait()?;
    let settings = durability.engine.settings.current();
    *name = name::at(&settings.dbfilename, now_s());
    let place = place::for_file(&settings, name).map_err(SaveFailure::Failed)?;
    write_to(durability, turn, &*place.disk, plan(&settings, &place.directory, name))
}

/// Writes the file on this disk, as planned; returns its size in bytes.
///
/// # Errors
/// See [`SaveFailure`].
pub fn write_to(
    durability: &Durability,
    turn: Turn,
    disk: &dyn Disk,
    plan: write::Plan,
) -> Result<u64, SaveFailure> {
    let moment = Moment::for_file(durability);
    let purpose = Purpose { is_base: "0", form: Form::Rdb, readers: Readers::Pantala, moment };
    let mut cut = turn.cut(purpose)?;
    cut.note_place()?;
    cut.write(&mut FileTarget { disk, plan })
}
