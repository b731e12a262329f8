//! The cut: the moment of a snapshot.

use std::sync::Arc;

use pantala_journal::Stamp;

use super::before::Saving;
use super::state::SnapshotState;
use super::target::{SnapshotTarget, Target};
use super::walk::Snapshot;
use crate::Keyspace;
use crate::access::may_wait::Aborted;
use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};

/// Why no snapshot was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSnapshot {
    /// Another one has not ended.
    Running,
    /// A thread inside the gate does not leave it.
    Aborted(Aborted),
}

/// The contents of the keyspace at the cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutInfo {
    /// Steps recorded with a partition held before the cut have a smaller stamp; steps after it
    /// have this or a larger one.
    pub stamp: Stamp,
    /// The databases that have keys.
    pub databases: Vec<CutDatabase>,
}

/// One database at the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutDatabase {
    /// Its number.
    pub db: DbIndex,
    /// Its keys, including expired ones that are not removed yet.
    pub keys: u64,
    /// Of these, keys with a deadline.
    pub with_deadline: u64,
    /// An upper bound of the keys whose elements have deadlines.
    pub with_timed_elements: u64,
}

impl Keyspace {
    /// Begins a snapshot at one moment between two commands. `at_cut` runs at that moment: with the
    /// gate closed and all partitions held, so it must be quick. Only on a thread that may wait,
    /// outside the gate.
    ///
    /// # Errors
    /// See [`NoSnapshot`]; nothing has happened.
    pub fn begin_snapshot(
        &self,
        target: Arc<dyn SnapshotTarget>,
        at_cut: &mut dyn FnMut(&CutInfo),
    ) -> Result<Snapshot, NoSnapshot> {
        if self.snapshot.get().is_some() {
            return Err(NoSnapshot::Running);
        }
        self.alone(|| self.cut(target, at_cut)).map_err(NoSnapshot::Aborted)?
    }

    /// Runs `work` at one moment between two commands, with the stamp that separates earlier steps
    /// from later ones. Only on a thread that may wait, outside the gate.
    ///
    /// # Errors
    /// A thread inside the gate does not leave it.
    pub fn at_one_moment<R>(&self, work: impl FnOnce(Stamp) -> R) -> Result<R, Aborted> {
        self.alone(|| {
            let mut all: Vec<_> = PartitionId::all().map(|id| self.hold_at_last(id)).collect();
            let last = all.iter().map(|held| held.last_step.time()).max().unwrap_or_default();
            let stamp = Stamp::first_of(last + 1);
            debug_assert!(all.iter().all(|held| held.last_step < stamp), "they are before it");
            all.iter_mut().for_each(|held| held.last_step = stamp);
            work(stamp)
        })
    }

    /// Makes the cut, with no thread inside the gate.
    fn cut(
        &self,
        target: Target,
        at_cut: &mut dyn FnMut(&CutInfo),
    ) -> Result<Snapshot, NoSnapshot> {
        let mut all: Vec<_> = PartitionId::all().map(|id| self.hold_at_last(id)).collect();
        debug_assert_eq!(all.len(), PARTITION_COUNT);
        if self.snapshot.get().is_some() {
            return Err(NoSnapshot::Running);
        }
        let last = all.iter().map(|held| held.last_step.time()).max().unwrap_or_default();
        let info = self.cut_info(Stamp::first_of(last + 1));
        at_cut(&info);
        let keys = info.databases.iter().map(|database| database.keys).sum();
        let state = Arc::new(SnapshotState::new(target, keys, self.snapshot.unwritten.clone()));
        self.snapshot.begin(&state, &self.asking);
        for (id, held) in PartitionId::all().zip(&mut all) {
            debug_assert!(held.last_step < info.stamp, "all steps so far are before the cut");
            held.last_step = info.stamp;
            let mut has_keys = false;
            for (number, db) in held.databases.all_mut() {
                has_keys |= db.begin_epoch(number);
            }
            debug_assert!(held.rest.saving.is_none(), "the last snapshot has ended");
            held.rest.saving = has_keys.then(|| Box::new(Saving::new(&state, id)));
        }
        Ok(Snapshot::new(state))
    }

    fn cut_info(&self, stamp: Stamp) -> CutInfo {
        let databases = (0..self.database_count()).map(DbIndex).filter_map(|db| {
            let sizes = self.sizes(db).filter(|sizes| sizes.keys() > 0)?;
            Some(CutDatabase {
                db,
                keys: sizes.keys(),
                with_deadline: sizes.with_deadline(),
                with_timed_elements: sizes.with_timed_elements(),
            })
        });
        CutInfo { stamp, databases: databases.collect() }
    }
}
