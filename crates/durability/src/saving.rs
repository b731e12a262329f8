//! Writing a snapshot: several threads walk the keyspace, and one writes what they bring.
//!
//! ```text
//! SAVE           on a thread of the lane      --+
//! BGSAVE         on a thread of its own       --+--> save: cut, walkers, this thread writes
//! the schedule   checked each second, if any  --+
//! SHUTDOWN       on the lane; signals: `stopping`
//! ```
//!
//! Invariants
//! 1. The writing thread waits for its walkers, even if the disk has failed.
//!
//! Tests: at the foot; compat/transcripts/server/save.txt; compat/bad_days.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, Scope};
use std::time::Duration;

use pantala_base::clock::{monotonic_us, unix_ms, unix_us};
use pantala_base::rests::Rests;
use pantala_keyspace::snapshot::{CutInfo, NoSnapshot, Snapshot, SnapshotOutcome, SnapshotTarget};
use pantala_persistence::aof::commands::CommandTarget;
use pantala_persistence::disk::Disk;
use pantala_persistence::snapshot::{
    Fault, Form, RdbTarget, SnapshotFacts, SnapshotQueue, name, write,
};
use pantala_rdb::file::SizeHints;
use pantala_rdb::{Strings, Style};
use pantala_settings::Settings;

use super::place;
use crate::Durability;
use crate::moment::Moment;
use crate::saves::{NoSave, Save, SaveEnd};
use crate::snapshot_place::note;
use crate::snapshots::{NoTurn, Turn};
use pantala_commands::REDIS_VERSION;

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
/// that may wait, outside the gate.
///
/// # Errors
/// See [`SaveFailure`]; the old file is unchanged.
pub fn save(durability: &Durability) -> Result<(), SaveFailure> {
    let save = durability.saves.begin(monotonic_us(), false)?;
    run(durability, &save)
}

/// Writes the snapshot of a server that stops, once no other snapshot can begin. Otherwise like
/// [`save`].
///
/// # Errors
/// See [`save`].
pub fn save_before_stop(durability: &Durability) -> Result<(), SaveFailure> {
    let save = durability.saves.begin_last(monotonic_us()).map_err(SaveFailure::from);
    let save = save.inspect_err(|why| tracing::error!("a snapshot could not be begun: {why}"))?;
    run(durability, &save)
}

/// Writes a snapshot on a thread of its own, as BGSAVE does; returns once the thread has started.
///
/// # Errors
/// Another one is being written, or the system has no thread.
pub fn save_in_background(durability: &Arc<Durability>) -> Result<(), SaveFailure> {
    let save = durability.saves.begin(monotonic_us(), true)?;
    let (of_thread, saved) = (Arc::clone(durability), Arc::clone(&save));
    let life = move || {
        pantala_base::os::yield_to_others();
        // The result is in the log and in INFO.
        let _told = run(&of_thread, &saved);
        pantala_memory::release_seat();
    };
    tracing::info!("Background saving started by pid {}", std::process::id());
    let spawned = Builder::new().name("save".into()).spawn(life);
    spawned.map(drop).map_err(|error| {
        end(durability, &save, SaveEnd::Failed);
        SaveFailure::Failed(format!("cannot start a thread: {error}"))
    })
}

fn run(durability: &Durability, save: &Arc<Save>) -> Result<(), SaveFailure> {
    let (result, ended) = match write_file(durability, save) {
        Ok(bytes) => {
            let keys = save.progress().written;
            let took_ms = monotonic_us().saturating_sub(save.began_us) / 1000;
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
    end(durability, save, ended);
    result
}

fn end(durability: &Durability, save: &Save, ended: SaveEnd) {
    durability.saves.end(save, ended, now_s(), monotonic_us());
    durability.saves.apply(&durability.engine);
}

/// What the file states before the keys, except for what is known only at the cut.
pub fn facts(is_base: &str) -> SnapshotFacts {
    let used = pantala_memory::allocated();
    let aux = vec![
        ("redis-ver", REDIS_VERSION.to_owned()),
        ("redis-bits", usize::BITS.to_string()),
        ("ctime", now_s().to_string()),
        ("used-mem", used.to_string()),
        ("aof-base", is_base.to_owned()),
        ("pantala-ver", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    SnapshotFacts { aux, ..SnapshotFacts::default() }
}

fn strings(settings: &Settings) -> Strings {
    if settings.rdbcompression { Strings::Compressed } else { Strings::Plain }
}

fn plan(settings: &Settings, directory: &Path, name: &str) -> write::Plan {
    write::Plan {
        path: directory.join(name),
        temporary: directory.join(name::temporary(std::process::id())),
        form: Form::Rdb,
        strings: strings(settings),
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

/// Writes the file when it has the turn; returns its bytes, or what went wrong.
fn write_file(durability: &Durability, save: &Arc<Save>) -> Result<u64, SaveFailure> {
    let turn = durability.snapshots.reserve(save)?;
    let settings = durability.engine.settings.current();
    let name = name::at(&settings.dbfilename, now_s());
    let place = place::for_file(&settings, &name).map_err(SaveFailure::Failed)?;
    write_to(durability, &turn, place.disk, plan(&settings, &place.directory, &name))
}

/// Writes the file on this disk, as planned; returns its size in bytes.
pub fn write_to(
    durability: &Durability,
    turn: &Turn<'_>,
    disk: Box<dyn Disk>,
    plan: write::Plan,
) -> Result<u64, SaveFailure> {
    let moment = RefCell::new(Moment::for_file(durability));
    let mut at_cut = |cut: &CutInfo| {
        turn.save().changes.store(durability.changes(), Ordering::Relaxed);
        moment.borrow_mut().is_now(cut.stamp);
    };
    let (form, readers) = (Form::Rdb, Readers::Pantala);
    let of_file = Purpose { is_base: "0", form, readers, at_cut: &mut at_cut };
    write_snapshot(durability, turn, of_file, |facts, _| {
        if let Some(place) = moment.borrow().place()? {
            note(facts, place);
        }
        Ok((disk, plan))
    })
}

/// The servers that are to read a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Pantala, and the servers that `snapshot_portable` names.
    Pantala,
    /// A Pantala that gets it in parts: these are compressed as a whole, if at all.
    InParts,
    /// Valkey 9, too.
    Valkey,
    /// Redis 7.0, too.
    Redis,
}

/// The purpose of a snapshot.
pub struct Purpose<'p> {
    /// Whether it is the base of an append-only file, in the file's own words.
    pub is_base: &'static str,
    /// The form of the file.
    pub form: Form,
    /// The servers that are to read it.
    pub readers: Readers,
    /// Runs at the cut.
    pub at_cut: &'p mut dyn FnMut(&CutInfo),
}

/// Writes a snapshot by the plan that `plan` returns. That runs after the cut, and may add to what
/// the file states before the keys. Returns the file's bytes.
///
/// # Errors
/// There is no file.
pub fn write_snapshot(
    durability: &Durability,
    turn: &Turn<'_>,
    purpose: Purpose<'_>,
    plan: impl FnOnce(
        &mut SnapshotFacts,
        &Arc<SnapshotQueue>,
    ) -> Result<(Box<dyn Disk>, write::Plan), String>,
) -> Result<u64, SaveFailure> {
    write_snapshot_by(
        durability,
        turn,
        purpose,
        plan,
        |(disk, plan), facts, queue, version, taken| {
            write::write(&**disk, plan, facts, queue, version, taken)
        },
    )
}

/// Like [`write_snapshot`], with a `write` of the caller's. It takes the pieces out of the queue,
/// all of them or until something fails, and is given what `begin` has prepared after the cut. The
/// walkers go on however long it takes; a command that changes a large value waits for them.
///
/// # Errors
/// Not all was written.
pub fn write_snapshot_by<T>(
    durability: &Durability,
    turn: &Turn<'_>,
    purpose: Purpose<'_>,
    begin: impl FnOnce(&mut SnapshotFacts, &Arc<SnapshotQueue>) -> Result<T, String>,
    write: impl FnOnce(
        &T,
        &SnapshotFacts,
        &SnapshotQueue,
        &dyn Fn() -> u16,
        &dyn Fn(u64, bool) -> bool,
    ) -> Result<u64, Fault>,
) -> Result<u64, SaveFailure> {
    let (engine, save) = (&*durability.engine, turn.save());
    let settings = engine.settings.current();
    let Purpose { is_base, form, readers, at_cut } = purpose;
    let queue = Arc::new(SnapshotQueue::default());
    let (target, version) = target(&settings, (form, readers), &queue);
    let mut facts = facts(is_base);
    let mut libraries = None;
    let snapshot = engine.space.begin_snapshot(target, &mut |cut| {
        facts.sizes = sizes(cut);
        let is_dated = form == Form::Commands && settings.aof_timestamp_enabled;
        facts.dated_s = is_dated.then(now_s);
        libraries = Some(engine.functions.current());
        at_cut(cut);
    });
    let snapshot = snapshot.map_err(|why| match why {
        NoSnapshot::Running => SaveFailure::Busy,
        NoSnapshot::Aborted(_) => SaveFailure::Held,
    })?;
    let libraries = libraries.iter().flat_map(|libraries| libraries.iter());
    facts.functions = libraries.map(|library| library.code.clone()).collect();
    let snapshot = save.cut(snapshot);
    let written = std::thread::scope(|scope| {
        let walkers = 0..settings.snapshot_thread_count();
        let started = walkers.filter(|_| start_walker(scope, durability, snapshot, &queue)).count();
        let prepared = begin(&mut facts, &queue);
        if started == 0 {
            snapshot.cancel();
            snapshot.work(&engine.space);
            queue.break_off();
        }
        let Ok(prepared) = prepared.as_ref().inspect_err(|_| {
            snapshot.cancel();
            queue.break_off();
        }) else {
            return Err(Fault::CalledOff);
        };
        // Asked each time: to set it to zero sets free what already rests.
        let delay_us = || engine.settings.current().rdb_key_save_delay_us;
        let taken = |keys: u64, has_more_room: bool| {
            if has_more_room {
                snapshot.has_room();
            }
            rest(keys * delay_us(), &|| save.is_cancelled() || delay_us() == 0);
            !save.is_cancelled()
        };
        let written = write(prepared, &facts, &queue, &version, &taken);
        if written.is_err() {
            snapshot.cancel();
            queue.break_off();
        }
        written
    });
    written.map_err(|fault: Fault| SaveFailure::Failed(fault.to_string()))
}

/// Waits for so many microseconds, or until it is over: a test slows down what would otherwise be
/// over before the test could look.
pub fn rest(us: u64, is_over: &dyn Fn() -> bool) {
    const LONGEST_US: u64 = 10_000;
    let end_us = monotonic_us().saturating_add(us);
    while let Some(left_us) = end_us.checked_sub(monotonic_us()).filter(|left_us| *left_us > 0) {
        if is_over() {
            break;
        }
        std::thread::sleep(Duration::from_micros(left_us.min(LONGEST_US)));
    }
}

/// The target that encodes keys in this form, and the RDB version that they need.
fn target(
    settings: &Settings,
    (form, readers): (Form, Readers),
    queue: &Arc<SnapshotQueue>,
) -> (Arc<dyn SnapshotTarget>, Box<dyn Fn() -> u16>) {
    let (queue, now) = (Arc::clone(queue), unix_ms());
    let is_foreign = matches!(readers, Readers::Valkey | Readers::Redis);
    let is_old = readers == Readers::Redis;
    let is_portable = is_foreign || settings.snapshot_portable;
    match form {
        Form::Rdb => {
            let strings =
                if readers == Readers::InParts { Strings::Plain } else { strings(settings) };
            let style = Style { strings, is_portable, is_old };
            let target = Arc::new(RdbTarget::new(queue, style, now));
            (target.clone(), Box::new(move || target.version()))
        }
        Form::Commands => (Arc::new(CommandTarget::new(queue, now, is_portable)), Box::new(|| 0)),
    }
}

fn sizes(cut: &CutInfo) -> Vec<(pantala_keyspace::DbIndex, SizeHints)> {
    let sizes = cut.databases.iter().map(|database| {
        let sizes = SizeHints { keys: database.keys, with_deadline: database.with_deadline };
        (database.db, sizes)
    });
    sizes.collect()
}

/// Starts a walking thread; whether it could be started.
fn start_walker<'s>(
    scope: &'s Scope<'s, '_>,
    durability: &'s Durability,
    snapshot: &'s Snapshot,
    queue: &'s SnapshotQueue,
) -> bool {
    let life = move || {
        pantala_base::os::yield_to_others();
        let breaking = WalkerPanicGuard(queue, snapshot);
        let mut rests = Rests::default();
        let outcome = snapshot.work_and_rest(&durability.engine.space, &mut || rests.when_due());
        std::mem::forget(breaking);
        match outcome {
            SnapshotOutcome::Complete => queue.complete(),
            SnapshotOutcome::Cancelled | SnapshotOutcome::Failed => queue.break_off(),
        }
        pantala_memory::release_seat();
    };
    Builder::new().name("save-walk".into()).spawn_scoped(scope, life).is_ok()
}

/// Dropped when a walker panics, so that nothing waits for what it had.
struct WalkerPanicGuard<'q>(&'q SnapshotQueue, &'q Snapshot);

impl Drop for WalkerPanicGuard<'_> {
    fn drop(&mut self) {
        self.1.cancel();
        self.0.break_off();
    }
}
