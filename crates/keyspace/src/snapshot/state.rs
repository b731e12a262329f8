//! The state of a snapshot that its walkers and the commands share: the output, and the jobs.
//!
//! Invariant
//! 1. A job is in one place: in a queue, or in the hands of one thread (`in_flight`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::jobs::{Job, Jobs};
use super::output::Output;
use super::target::Target;
use super::unwritten::UnwrittenBytes;
use crate::pins::WaitReasons;

/// One snapshot: what it writes, and what is left to do.
pub(crate) struct SnapshotState {
    pub output: Output,
    jobs: Mutex<Jobs>,
    /// How many partitions are not done.
    open_partitions: AtomicUsize,
}

impl SnapshotState {
    pub fn new(target: Target, keys: u64, unwritten: UnwrittenBytes) -> SnapshotState {
        SnapshotState {
            output: Output::new(target, keys, unwritten),
            jobs: Mutex::default(),
            open_partitions: AtomicUsize::new(0),
        }
    }

    pub fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock()
    }

    fn add(&self, add: impl FnOnce(&mut Jobs)) {
        add(&mut self.jobs());
        self.output.news.tell_one();
    }

    /// Hands a job over to the walkers; the partition it comes from is held.
    pub fn hand_over(&self, job: Job) {
        debug_assert!(
            self.open_partitions.load(Ordering::Relaxed) > 0,
            "nothing is handed over once all partitions are done"
        );
        self.output.note_handed(job.handed_bytes(), job.flushed_keys());
        self.add(|jobs| jobs.handed.push_back(job));
    }

    /// Adds a job that a command waits for.
    pub fn push_urgent(&self, job: Job) {
        self.add(|jobs| jobs.urgent.push_back(job));
    }

    pub fn open_partition(&self) {
        let before = self.open_partitions.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before < crate::key::PARTITION_COUNT, "each is opened once");
    }

    /// Notes that a partition is done; it is held.
    pub fn close_partition(&self) {
        let before = self.open_partitions.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "each is closed once");
    }

    /// Whether [`Snapshot::walk`](super::Snapshot::walk) has nothing left to do.
    pub fn is_walked_to_its_end(&self) -> bool {
        self.is_done(&self.jobs())
    }

    /// Whether everything is done. Nothing is handed over any more once all partitions are done.
    pub fn is_done(&self, jobs: &Jobs) -> bool {
        self.open_partitions.load(Ordering::Acquire) == 0 && jobs.in_flight == 0 && jobs.is_empty()
    }

    /// Puts a job back, or notes that it has ended; whether everything is done now.
    pub fn settle(&self, back: impl FnOnce(&mut Jobs)) -> bool {
        let mut jobs = self.jobs();
        debug_assert!(jobs.in_flight > 0, "a job is in one place");
        jobs.in_flight -= 1;
        back(&mut jobs);
        let is_done = self.is_done(&jobs);
        drop(jobs);
        if is_done {
            self.output.news.tell_all();
        }
        is_done
    }
}

/// The running snapshot, if any.
#[derive(Default)]
pub(crate) struct Current {
    /// The bytes not written of all snapshots: those that an ended one has copied may still be in
    /// use.
    pub unwritten: UnwrittenBytes,
    state: Mutex<Option<Arc<SnapshotState>>>,
    is_running: AtomicBool,
}

impl Current {
    /// Whether a snapshot runs. Reliable within a turn, or with a partition held.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    pub fn get(&self) -> Option<Arc<SnapshotState>> {
        self.state.lock().clone()
    }

    /// Begins a snapshot. With the gate closed, and none running.
    pub fn begin(&self, state: &Arc<SnapshotState>, asking: &WaitReasons) {
        let before = self.state.lock().replace(Arc::clone(state));
        debug_assert!(before.is_none(), "one at a time");
        self.is_running.store(true, Ordering::Relaxed);
        asking.begin(WaitReasons::SNAPSHOT);
    }

    /// Ends this snapshot.
    pub fn end(&self, state: &Arc<SnapshotState>, asking: &WaitReasons) {
        let mut current = self.state.lock();
        if current.as_ref().is_some_and(|one| Arc::ptr_eq(one, state)) {
            debug_assert!(state.is_walked_to_its_end(), "nothing is left");
            *current = None;
            self.is_running.store(false, Ordering::Relaxed);
            asking.end(WaitReasons::SNAPSHOT);
        }
    }
}
