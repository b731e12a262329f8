//! Rewriting the append-only file: a snapshot replaces what was written before its moment.
//!
//! ```text
//! this thread      cut -- snapshot to a file of its own -- waits -- to the base's path -- order
//! journal's thread       the cut: a new increment begins   /           the manifest names both
//! ```
//!
//! The snapshot does not wait for the sync with which the increment begins: otherwise a command
//! that changes a large value would wait for it, too.
//!
//! Turning the append-only file on at run time works the same way: recording begins at the cut.
//! While it is off, BGREWRITEAOF writes a base with the data of its moment, and no increment, as
//! Redis and Valkey do.

use std::fmt::Display;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_persistence::aof::{AofWriter, BaseKind, Fault, Manifest, Rewrite};
use pantala_persistence::disk::{Disk, RealDisk};
use pantala_persistence::snapshot::Form;

use super::saving::{self, SaveFailure};
use crate::Durability;
use crate::appending::{NoRewrite, Order, Rewritten};
use crate::place::layout;
use crate::snapshots::cut::{FileTarget, Purpose, Readers};
use crate::snapshots::moment::Moment;
use crate::snapshots::{NoTurn, Place, Turn};

/// How long the writer may take to come to the cut: its disk may be slow.
const BEGIN_MOST: Duration = Duration::from_secs(60);

/// Begins a rewrite on a thread of its own. `why` it begins is kept with the run.
///
/// # Errors
/// It is not possible now.
pub fn begin(durability: &Arc<Durability>, why: &str) -> Result<(), NoRewrite> {
    durability.appending.begin_rewrite(monotonic_us())?;
    go_on(durability, why);
    Ok(())
}

/// Starts the thread of a rewrite that
/// [`begin_rewrite`](crate::appending::AppendOnlyState::begin_rewrite) has admitted; whether it
/// started. If not, the rewrite has failed.
pub fn go_on(durability: &Arc<Durability>, why: &str) -> bool {
    durability.runs.begin_rewrite(why, (unix_ms().0, monotonic_us()));
    let of_thread = Arc::clone(durability);
    // Asked here, not by the thread: a file that is turned off before the thread runs ends its
    // rewrite, which must not become one of a server without a file.
    let is_beside = durability.appending.is_running();
    let save = if is_beside { durability.appending.begin_base() } else { Arc::default() };
    // Before the request is answered, so that a later one comes later.
    let place = durability.snapshots.line_up(&save);
    durability.appending.set_scheduled(!place.has_turn());
    let life = move || {
        pantala_base::os::yield_to_others();
        match is_beside {
            true => run_beside(&of_thread, place),
            false => run_alone(&of_thread, place),
        }
        pantala_memory::release_seat();
    };
    tracing::info!("Background append only file rewriting started by pid {}", std::process::id());
    let spawned = Builder::new().name("rewrite".into()).spawn(life);
    if let Err(error) = &spawned {
        tracing::error!("the append-only file is not rewritten: cannot start a thread: {error}");
        durability.runs.note_failure(error);
        durability.appending.end_base();
        durability.appending.rewrite_ended(false, monotonic_us());
    }
    spawned.is_ok()
}

/// Waits for the turn of a base's snapshot.
fn take_turn(durability: &Durability, place: Place) -> Result<Turn, NoTurn> {
    let turn = place.wait();
    durability.appending.set_scheduled(false);
    turn
}

/// The form of a base, by the settings.
fn form_of_base(durability: &Durability) -> Form {
    match durability.engine.settings.current().aof_use_rdb_preamble {
        true => Form::Rdb,
        false => Form::Commands,
    }
}

/// The kind of such a base in the manifest.
pub fn kind_of(form: Form) -> BaseKind {
    match form {
        Form::Rdb => BaseKind::Rdb,
        Form::Commands => BaseKind::Commands,
    }
}

/// Runs a rewrite while nothing is appended.
fn run_alone(durability: &Durability, place: Place) {
    let written = write_alone(durability, place);
    match &written {
        Ok(bytes) => {
            tracing::info!(bytes, "Background AOF rewrite terminated with success");
            tracing::info!("Background AOF rewrite finished successfully");
        }
        Err(why) => tell_failed(durability, why),
    }
    durability.appending.rewrite_ended(written.is_ok(), monotonic_us());
}

/// Notes why a rewrite has failed, and logs it in the words of Redis and Valkey.
pub(super) fn tell_failed(durability: &Durability, why: &dyn Display) {
    durability.runs.note_failure(why);
    tracing::error!("Background AOF rewrite terminated with error: {why}");
}

fn write_alone(durability: &Durability, place: Place) -> Result<u64, SaveFailure> {
    let turn = take_turn(durability, place)?;
    let layout = layout(&durability.engine.settings.current());
    let manifest = layout.open(&RealDisk).map_err(|why| SaveFailure::Failed(why.to_string()))?;
    let mut writer = AofWriter::new(Arc::new(RealDisk), layout, manifest, 0);
    writer.keep_history(durability.engine.settings.current().aof_disable_auto_gc);
    // No increment: nothing is appended.
    write_base(durability, turn, &mut writer, AofWriter::begin_base)
}

/// Begins an append-only file before any client changes data: a base with the present data, and an
/// increment, to which the writer appends.
///
/// # Errors
/// There is no file.
pub fn write_first(durability: &Durability) -> Result<AofWriter, SaveFailure> {
    let turn = durability.snapshots.reserve(&Arc::default())?;
    let layout = layout(&durability.engine.settings.current());
    let cleaned = layout.make_directory(&RealDisk).and_then(|()| {
        // Removes what a server has left that was killed at this point.
        layout.clean(&RealDisk, &mut Manifest::default())
    });
    cleaned.map_err(|why| SaveFailure::Failed(why.to_string()))?;
    let mut writer = AofWriter::new(Arc::new(RealDisk), layout, None, 0);
    write_base(durability, turn, &mut writer, AofWriter::begin_rewrite)?;
    for part in writer.manifest().parts() {
        let is_base = writer.manifest().base.as_ref() == Some(part);
        let kind = if is_base { "base" } else { "incr" };
        tracing::info!("Creating AOF {kind} file {} on server start", part.name);
    }
    Ok(writer)
}

fn failed(fault: Fault) -> SaveFailure {
    SaveFailure::Failed(fault.to_string())
}

/// Writes a base of this moment, for a writer that appends nothing yet. `begin` decides whether an
/// increment begins after it. Returns the base's bytes.
fn write_base(
    durability: &Durability,
    turn: Turn,
    writer: &mut AofWriter,
    begin: fn(&mut AofWriter, BaseKind) -> Result<Rewrite, Fault>,
) -> Result<u64, SaveFailure> {
    let form = form_of_base(durability);
    let rewrite = begin(writer, kind_of(form)).map_err(failed)?;
    let path = rewrite.base_path.clone();
    let plan = saving::plan_at(&durability.engine.settings.current(), path, form);
    let (moment, save) = (Moment::unmarked(durability), Arc::clone(turn.save()));
    let purpose = Purpose { is_base: "1", form, readers: Readers::Pantala, moment };
    let written =
        turn.cut(purpose).and_then(|cut| cut.write(&mut FileTarget { disk: &RealDisk, plan }));
    let bytes = written.inspect_err(|_| writer.abandon_rewrite(&rewrite))?;
    durability.runs.note_base(&rewrite.base_path, bytes, save.progress().written);
    writer.finish_rewrite(rewrite).map_err(failed)?;
    if let Some(job) = writer.begin_removal() {
        writer.end_removal(&job.run()).map_err(failed)?;
    }
    Ok(bytes)
}

/// Runs a rewrite while changes are appended.
fn run_beside(durability: &Durability, place: Place) {
    let mut begun = None;
    let written = write(durability, place, &mut begun);
    durability.appending.end_base();
    if let Err(why) = &written {
        tell_failed(durability, why);
    }
    match begun {
        Some(rewrite) => {
            let ended = Order::Rewritten(Rewritten { rewrite, is_written: written.is_ok() });
            if !durability.appending.order(&durability.engine.journal, ended) {
                tracing::warn!("the append-only file is not wanted any more: nor is its new base");
                durability.appending.rewrite_ended(false, monotonic_us());
            }
        }
        None => durability.appending.rewrite_ended(false, monotonic_us()),
    }
}

/// Writes the base. `begun` becomes the rewrite, once the writer has come to the cut.
fn write(
    durability: &Durability,
    place: Place,
    begun: &mut Option<Rewrite>,
) -> Result<u64, SaveFailure> {
    let turn = take_turn(durability, place)?;
    let form = form_of_base(durability);
    let (number, coming) = durability.appending.expect_rewrite(form);
    let settings = durability.engine.settings.current();
    let path = layout(&settings).temporary(&format!("rewrite.{number}"));
    let plan = saving::plan_at(&settings, path.clone(), form);
    let (moment, save) = (Moment::of_rewrite(durability, number), Arc::clone(turn.save()));
    let cut = turn.cut(Purpose { is_base: "1", form, readers: Readers::Pantala, moment });
    let is_cut = cut.is_ok();
    let written = cut.and_then(|cut| cut.write(&mut FileTarget { disk: &RealDisk, plan }));
    if is_cut {
        // Even if the snapshot has failed: the writer has to be told.
        *begun = coming.recv_timeout(BEGIN_MOST).ok().flatten();
    }
    let placed = written.and_then(|bytes| {
        let no_increment = || SaveFailure::Failed("the file after it could not be begun".into());
        let rewrite = begun.as_ref().ok_or_else(no_increment)?;
        let moved = RealDisk.rename(&path, &rewrite.base_path);
        moved.map_err(|error| SaveFailure::Failed(format!("{}: {error}", path.display())))?;
        durability.runs.note_base(&rewrite.base_path, bytes, save.progress().written);
        Ok(bytes)
    });
    if placed.is_err() {
        // Usually there is none.
        let _absent = RealDisk.remove(&path);
    }
    placed
}
