//! Scripts that have been running for a while: SCRIPT KILL, FUNCTION STATS.
//!
//! A script is listed at its first clock read that finds it not quick, so quick scripts touch
//! nothing shared.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use pantala_base::clock::monotonic_us;
use pantala_commands::{ClientError, error};
use pantala_keyspace::{PartitionId, WaitTarget};
use parking_lot::{Mutex, MutexGuard};

/// The kind of command that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// EVAL and its kin.
    Script,
    /// FCALL.
    Function,
}

/// A script that is running.
#[derive(Debug)]
pub struct Running {
    /// What it was called by.
    pub kind: Kind,
    /// The name of a function; empty for a script.
    pub name: Vec<u8>,
    /// The command that runs it, as it was sent.
    pub command: Vec<Vec<u8>>,
    /// When it began (monotonic, microseconds).
    pub since_us: u64,
    /// Whether it has written, or was killed.
    pub fate: KillState,
}

/// Decides which came first: a write of the script, or its being killed. A script that has written
/// is not killed, unless the server changes its role, and one that was killed writes no more.
#[derive(Debug)]
pub struct KillState(AtomicU8);

const OPEN: u8 = 0;
const WRITTEN: u8 = 1;
const KILLED: u8 = 2;

impl KillState {
    /// For a script that has written, or not yet.
    pub fn new(has_written: bool) -> KillState {
        KillState(AtomicU8::new(if has_written { WRITTEN } else { OPEN }))
    }

    /// Before the script's first write; false: it was killed.
    pub fn write(&self) -> bool {
        self.decide(WRITTEN)
    }

    /// Kills it; false: it has written.
    fn kill(&self) -> bool {
        self.decide(KILLED)
    }

    /// Kills it even if it has written, which stays. Returns whether it had.
    fn cut(&self) -> bool {
        self.0.swap(KILLED, Ordering::AcqRel) == WRITTEN
    }

    fn decide(&self, fate: u8) -> bool {
        let decided = self.0.compare_exchange(OPEN, fate, Ordering::AcqRel, Ordering::Acquire);
        decided.is_ok() || decided == Err(fate)
    }

    /// Whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.0.load(Ordering::Acquire) == KILLED
    }
}

impl Running {
    /// For how long it has run, in milliseconds.
    pub fn took_ms(&self) -> u64 {
        monotonic_us().saturating_sub(self.since_us) / 1000
    }
}

/// A command that has waited for this long, while a script ran for as long, was held up by it.
const HOLDS_UP_US: u64 = 10_000;

/// Why nothing was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillError {
    /// No script of this kind runs.
    NotBusy,
    /// All that run have written.
    HaveWritten,
}

/// The scripts that run at this moment and have done so for a while.
#[derive(Debug, Default)]
pub struct RunningNow {
    all: Mutex<Vec<Arc<Running>>>,
    /// When the last script ended that had run for [`HOLDS_UP_US`] (monotonic, microseconds).
    long_ended_us: AtomicU64,
}

impl RunningNow {
    /// Adds a script that takes long.
    pub fn enter(&self, one: Arc<Running>) {
        self.all.lock().push(one);
    }

    /// Removes a script that has ended.
    pub fn leave(&self, one: &Arc<Running>) {
        let mut all = self.all.lock();
        all.retain(|other| !Arc::ptr_eq(other, one));
        drop(all);
        let now_us = monotonic_us();
        if now_us.saturating_sub(one.since_us) >= HOLDS_UP_US {
            self.long_ended_us.fetch_max(now_us, Ordering::Release);
        }
    }

    /// Whether a script has held up a command that waits since `since_us`: one that has run for
    /// [`HOLDS_UP_US`] is still running, or has ended since.
    pub fn has_held_up(&self, since_us: u64, now_us: u64) -> bool {
        let is_long = |began_us: u64| now_us.saturating_sub(began_us) >= HOLDS_UP_US;
        is_long(since_us)
            && (self.long_ended_us.load(Ordering::Acquire) >= since_us
                || self.all().iter().any(|one| is_long(one.since_us)))
    }

    /// All of them, the longest running first.
    pub fn all(&self) -> Vec<Arc<Running>> {
        self.all.lock().clone()
    }

    /// Kills all scripts of a kind that have not written.
    ///
    /// # Errors
    /// There is none.
    pub fn kill(&self, kind: Kind) -> Result<(), KillError> {
        let all = self.all();
        let meant = || all.iter().filter(|one| one.kind == kind);
        if meant().next().is_none() {
            return Err(KillError::NotBusy);
        }
        let mut killed = false;
        for one in meant() {
            killed |= one.fate.kill();
        }
        if killed { Ok(()) } else { Err(KillError::HaveWritten) }
    }

    /// Kills all scripts that have run for longer than `most_ms`, even if they have written.
    /// Returns those that were not killed before, and whether each had written.
    pub fn cut_long(&self, most_ms: u64) -> Vec<(Arc<Running>, bool)> {
        let all = self.all().into_iter();
        let long = all.filter(|one| one.took_ms() >= most_ms && !one.fate.is_killed());
        long.map(|one| (Arc::clone(&one), one.fate.cut())).collect()
    }
}

/// What scripts hold that have run for longer than `busy-reply-threshold`: commands that wait for
/// any of it are answered BUSY.
#[derive(Debug, Default)]
pub struct BusyScripts {
    /// The number of such scripts.
    count: AtomicUsize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    scripts: Vec<Kind>,
    partitions: HashMap<PartitionId, Kind>,
    token: Option<Kind>,
}

impl BusyScripts {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }

    /// The number of such scripts.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a script.
    pub fn enter(&self, kind: Kind) {
        let mut held = self.held();
        held.scripts.push(kind);
        self.count.store(held.scripts.len(), Ordering::Release);
    }

    /// Declares what it holds now.
    pub fn holds(
        &self,
        partitions: impl Iterator<Item = PartitionId>,
        has_token: bool,
        kind: Kind,
    ) {
        let mut held = self.held();
        held.partitions.extend(partitions.map(|id| (id, kind)));
        if has_token {
            held.token = Some(kind);
        }
    }

    /// Removes a script that ends.
    pub fn leave(
        &self,
        partitions: impl Iterator<Item = PartitionId>,
        has_token: bool,
        kind: Kind,
    ) {
        let mut held = self.held();
        for id in partitions {
            held.partitions.remove(&id);
        }
        if has_token {
            held.token = None;
        }
        if let Some(at) = held.scripts.iter().position(|one| *one == kind) {
            held.scripts.swap_remove(at);
        }
        self.count.store(held.scripts.len(), Ordering::Release);
    }

    /// The error for a command that waits for this; `None`: no such script holds it.
    pub fn error(&self, awaited: WaitTarget) -> Option<&'static ClientError> {
        if self.count() == 0 {
            return None;
        }
        let held = self.held();
        let kind = match awaited {
            WaitTarget::Partition(id) => held.partitions.get(&id).copied(),
            WaitTarget::Token => held.token,
            WaitTarget::Snapshot(_) | WaitTarget::Pin(_) => None,
            // All of them are inside the gate.
            WaitTarget::Gate => held.scripts.first().copied(),
        };
        Some(match kind? {
            Kind::Script => &BUSY_SCRIPT,
            Kind::Function => &BUSY_FUNCTION,
        })
    }
}

static BUSY_SCRIPT: ClientError = error::BUSY_SCRIPT;
static BUSY_FUNCTION: ClientError = ClientError::text(
    "BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn running(kind: Kind, has_written: bool) -> Arc<Running> {
        Arc::new(Running {
            kind,
            name: Vec::new(),
            command: Vec::new(),
            since_us: 0,
            fate: KillState::new(has_written),
        })
    }

    #[test]
    fn only_what_has_written_nothing_is_killed() {
        let now = RunningNow::default();
        assert_eq!(now.kill(Kind::Script), Err(KillError::NotBusy));
        let writer = running(Kind::Script, true);
        now.enter(Arc::clone(&writer));
        now.enter(running(Kind::Function, false));
        assert_eq!(now.kill(Kind::Script), Err(KillError::HaveWritten));
        let reader = running(Kind::Script, false);
        now.enter(Arc::clone(&reader));
        assert_eq!(now.kill(Kind::Script), Ok(()));
        assert!(reader.fate.is_killed() && !writer.fate.is_killed());
        assert!(!reader.fate.write(), "too late");
        assert!(writer.fate.write() && !writer.fate.kill());
        let cut: Vec<bool> = now.cut_long(0).iter().map(|(_, had_written)| *had_written).collect();
        assert_eq!(cut, [true, false], "the writer and the function: the reader is killed already");
        assert!(writer.fate.is_killed() && !writer.fate.write());
        assert!(now.has_held_up(0, HOLDS_UP_US) && !now.has_held_up(1, HOLDS_UP_US));
        now.leave(&writer);
        now.leave(&reader);
        assert!(!RunningNow::default().has_held_up(1, HOLDS_UP_US + 1));
        assert_eq!(now.kill(Kind::Script), Err(KillError::NotBusy));
    }
}
