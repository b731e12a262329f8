//! The cut of a snapshot, and what is written of it: several threads walk the keyspace, and the
//! caller's thread writes what they bring.
//!
//! ```text
//! Turn::cut(purpose) --> Cut: the walkers go on --> place, facts --> write(target): the pieces
//! ```
//!
//! Invariants
//! 1. Whoever has a [`Cut`] has the turn. It is given up when the walkers have ended, even if the
//!    disk has failed, or if nothing was written.
//!
//! Tests: at the foot; those of `saving`, of rewrites, and of full copies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_base::rests::Rests;
use pantala_commands::REDIS_VERSION;
use pantala_keyspace::snapshot::{CutInfo, NoSnapshot, SnapshotOutcome, SnapshotTarget};
use pantala_persistence::aof::commands::CommandTarget;
use pantala_persistence::disk::Disk;
use pantala_persistence::snapshot::queue::QueueItem;
use pantala_persistence::snapshot::{
    Fault, Form, PieceSource, RdbTarget, SnapshotFacts, SnapshotQueue, write,
};
use pantala_rdb::file::SizeHints;
use pantala_rdb::{Strings, Style};
use pantala_settings::Settings;

use crate::Durability;
use crate::saves::Save;
use crate::saving::{SaveFailure, now_s};
use crate::snapshots::Turn;
use crate::snapshots::moment::Moment;
use crate::snapshots::place::{SnapshotPlace, note};

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
pub struct Purpose<'d> {
    /// Whether it is the base of an append-only file, in the file's own words.
    pub is_base: &'static str,
    /// The form of the file.
    pub form: Form,
    /// The servers that are to read it.
    pub readers: Readers,
    /// What the cut means for the journal and the stream.
    pub moment: Moment<'d>,
}

/// Where a snapshot is written to.
pub trait PieceTarget {
    /// Takes all pieces, or those until something fails; returns the number of bytes. The walkers
    /// go on however long it takes; a command that changes a large value waits for them.
    ///
    /// # Errors
    /// Not all was written.
    fn write(&mut self, facts: &SnapshotFacts, pieces: &dyn PieceSource) -> Result<u64, Fault>;
}

/// A file.
pub struct FileTarget<'d> {
    /// Its disk.
    pub disk: &'d dyn Disk,
    /// Its path and form.
    pub plan: write::Plan,
}

impl PieceTarget for FileTarget<'_> {
    fn write(&mut self, facts: &SnapshotFacts, pieces: &dyn PieceSource) -> Result<u64, Fault> {
        write::write(self.disk, &self.plan, facts, pieces)
    }
}

/// A snapshot whose cut was made: walkers collect its keys. Dropping it unwritten cancels it, and
/// waits for the walkers.
pub struct Cut<'d> {
    /// What it states before its keys.
    pub facts: SnapshotFacts,
    durability: &'d Durability,
    moment: Moment<'d>,
    queue: Arc<SnapshotQueue>,
    version: Box<dyn Fn() -> u16>,
    walkers: Vec<JoinHandle<()>>,
    is_written: bool,
    /// Given up last.
    turn: Turn,
}

impl Turn {
    /// Makes the cut, and starts the walkers.
    ///
    /// # Errors
    /// There is no cut.
    pub fn cut(self, purpose: Purpose<'_>) -> Result<Cut<'_>, SaveFailure> {
        let Purpose { is_base, form, readers, mut moment } = purpose;
        let durability = moment.durability();
        let engine = &*durability.engine;
        let settings = engine.settings.current();
        let queue = Arc::new(SnapshotQueue::default());
        let (target, version) = target(&settings, (form, readers), &queue);
        let mut facts = facts(is_base);
        let mut libraries = None;
        let snapshot = engine.space.begin_snapshot(target, &mut |cut| {
            facts.sizes = sizes(cut);
            let is_dated = form == Form::Commands && settings.aof_timestamp_enabled;
            facts.dated_s = is_dated.then(now_s);
            libraries = Some(engine.functions.current());
            self.save().changes.store(durability.changes(), Ordering::Relaxed);
            moment.is_now(cut.stamp);
        });
        let snapshot = snapshot.map_err(|why| match why {
            NoSnapshot::Running => SaveFailure::Busy,
            NoSnapshot::Aborted(_) => SaveFailure::Held,
        })?;
        let libraries = libraries.iter().flat_map(|libraries| libraries.iter());
        facts.functions = libraries.map(|library| library.code.clone()).collect();
        debug_assert!(self.save().has_turn(), "it is the first in the line");
        let snapshot = self.save().cut(snapshot);
        let walkers = 0..settings.snapshot_thread_count();
        let started = walkers.filter_map(|_| start_walker(durability, &self, &queue));
        let walkers: Vec<_> = started.collect();
        if walkers.is_empty() {
            snapshot.cancel();
            snapshot.work(&engine.space);
            queue.break_off();
        }
        let is_written = false;
        Ok(Cut { facts, durability, moment, queue, version, walkers, is_written, turn: self })
    }
}

impl Cut<'_> {
    /// The pieces on their way.
    pub fn queue(&self) -> &Arc<SnapshotQueue> {
        &self.queue
    }

    /// Its place in the stream, which the facts state from now on; `None`: there is no history.
    /// Waits for the journal's thread.
    ///
    /// # Errors
    /// The server stops.
    pub fn note_place(&mut self) -> Result<Option<SnapshotPlace>, SaveFailure> {
        let place = self.moment.place().map_err(SaveFailure::Failed)?;
        if let Some(place) = place {
            note(&mut self.facts, place);
        }
        Ok(place)
    }

    /// Writes it; returns the number of bytes.
    ///
    /// # Errors
    /// Not all was written.
    pub fn write(mut self, target: &mut dyn PieceTarget) -> Result<u64, SaveFailure> {
        let written = target.write(&self.facts, &self);
        self.is_written = written.is_ok();
        written.map_err(|fault| SaveFailure::Failed(fault.to_string()))
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            if let Some(snapshot) = self.turn.save().snapshot() {
                snapshot.cancel();
            }
            self.queue.break_off();
        }
        let mut all_well = true;
        for walker in self.walkers.drain(..) {
            // A panic was logged, and has cancelled the snapshot.
            all_well &= walker.join().is_ok();
        }
        let has_ended = !self.durability.engine.space.has_snapshot();
        debug_assert!(has_ended || !all_well, "the walkers end the snapshot");
    }
}

impl PieceSource for Cut<'_> {
    fn next(&self) -> QueueItem {
        let save = self.turn.save();
        let (next, has_more_room) = self.queue.next();
        let QueueItem::Piece(piece) = &next else { return next };
        if let Some(snapshot) = save.snapshot().filter(|_| has_more_room) {
            snapshot.has_room();
        }
        // Asked each time: to set it to zero sets free what already rests.
        let delay_us = || self.durability.engine.settings.current().rdb_key_save_delay_us;
        rest(piece.keys * delay_us(), &|| save.is_cancelled() || delay_us() == 0);
        if save.is_cancelled() { QueueItem::Broken } else { next }
    }

    fn version(&self) -> u16 {
        (self.version)()
    }

    fn break_off(&self) {
        self.queue.break_off();
    }
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

/// The encoding of strings in files.
pub(crate) fn strings(settings: &Settings) -> Strings {
    if settings.rdbcompression { Strings::Compressed } else { Strings::Plain }
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

/// Starts a walking thread, if the system has one.
fn start_walker(
    durability: &Durability,
    turn: &Turn,
    queue: &Arc<SnapshotQueue>,
) -> Option<JoinHandle<()>> {
    let (engine, save) = (Arc::clone(&durability.engine), Arc::clone(turn.save()));
    let queue = Arc::clone(queue);
    let life = move || {
        pantala_base::os::yield_to_others();
        let breaking = WalkerPanicGuard(&queue, &save);
        let mut rests = Rests::default();
        let rest = &mut || rests.when_due();
        let outcome = save.snapshot().map(|one| one.work_and_rest(&engine.space, rest));
        std::mem::forget(breaking);
        match outcome {
            Some(SnapshotOutcome::Complete) => queue.complete(),
            Some(SnapshotOutcome::Cancelled | SnapshotOutcome::Failed) | None => queue.break_off(),
        }
        pantala_memory::release_seat();
    };
    Builder::new().name("save-walk".into()).spawn(life).ok()
}

/// Dropped when a walker panics, so that nothing waits for what it had.
struct WalkerPanicGuard<'q>(&'q SnapshotQueue, &'q Save);

impl Drop for WalkerPanicGuard<'_> {
    fn drop(&mut self) {
        self.1.cancel();
        self.0.break_off();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pantala_persistence::disk::simulated::SimulatedDisk;

    use super::*;
    use crate::saving::plan_at;
    use crate::test_support::durability;

    fn purpose(durability: &Durability) -> Purpose<'_> {
        let moment = Moment::unmarked(durability);
        Purpose { is_base: "0", form: Form::Rdb, readers: Readers::Pantala, moment }
    }

    fn cut(durability: &Durability) -> Cut<'_> {
        let turn = durability.snapshots.reserve(&Arc::default()).expect("nobody has it");
        turn.cut(purpose(durability)).expect("no script runs")
    }

    #[test]
    fn a_cut_has_the_turn_until_it_is_written() {
        let durability = &*durability();
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/data/dump.rdb"));
        disk.create_directory(Path::new("/data")).expect("made");
        let cut = cut(durability);
        assert!(!durability.snapshots.line_up(&Arc::default()).has_turn());
        let plan = plan_at(&Settings::defaults(), path.into(), Form::Rdb);
        let bytes = cut.write(&mut FileTarget { disk: &disk, plan }).expect("there is room");
        assert_eq!(disk.size(path).expect("it is there"), bytes);
        assert!(!durability.engine.space.has_snapshot());
        assert!(durability.snapshots.line_up(&Arc::default()).has_turn());
    }

    #[test]
    fn a_cut_that_is_dropped_leaves_nothing_behind() {
        let durability = &*durability();
        let cut = cut(durability);
        let queue = Arc::clone(cut.queue());
        drop(cut);
        assert!(queue.is_broken() && !durability.engine.space.has_snapshot());
        assert!(durability.snapshots.line_up(&Arc::default()).has_turn());
    }

    #[test]
    fn a_cancelled_one_is_not_written() {
        let durability = &*durability();
        let save = Arc::<Save>::default();
        let turn = durability.snapshots.reserve(&save).expect("nobody has it");
        save.cancel();
        let disk = SimulatedDisk::new(1);
        let plan = plan_at(&Settings::defaults(), "/data/dump.rdb".into(), Form::Rdb);
        let cut = turn.cut(purpose(durability)).expect("no script runs");
        assert!(cut.write(&mut FileTarget { disk: &disk, plan }).is_err());
        assert!(durability.snapshots.line_up(&Arc::default()).has_turn());
    }
}
