//! Scripts that run at this moment and have done so for a while: SCRIPT KILL, FUNCTION STATS.
//!
//! A script enters the list at its first look at the clock that says it is not a quick one, so
//! quick ones touch nothing engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pantala_base::clock::monotonic_us;
use pantala_commands::{ClientError, error};
use pantala_keyspace::{Awaited, PartitionId};

/// What it was called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// EVAL and its kin.
    Script,
    /// FCALL.
    Function,
}

/// One that runs.
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
    /// What became of it.
    pub fate: Fate,
}

/// Who was first: the script, by changing something, or somebody who killed it. What has written is
/// not killed, unless the server changes its role, and what is killed writes no more.
#[derive(Debug)]
pub struct Fate(AtomicU8);

const OPEN: u8 = 0;
const WRITTEN: u8 = 1;
const KILLED: u8 = 2;

impl Fate {
    /// Of a script that has changed something, or not yet.
    pub fn new(has_written: bool) -> Fate {
        Fate(AtomicU8::new(if has_written { WRITTEN } else { OPEN }))
    }

    /// The script is about to change something; false: it was killed.
    pub fn write(&self) -> bool {
        self.decide(WRITTEN)
    }

    /// It is to end; false: it has changed something.
    fn kill(&self) -> bool {
        self.decide(KILLED)
    }

    /// It is to end, whatever it has changed: that stays. Whether it had changed something.
    fn cut(&self) -> bool {
        self.0.swap(KILLED, Ordering::AcqRel) == WRITTEN
    }

    fn decide(&self, fate: u8) -> bool {
        let decided = self.0.compare_exchange(OPEN, fate, Ordering::AcqRel, Ordering::Acquire);
        decided.is_ok() || decided == Err(fate)
    }

    /// Whether it is to end.
    pub fn is_killed(&self) -> bool {
        self.0.load(Ordering::Acquire) == KILLED
    }
}

impl Running {
    /// How long it has run, in milliseconds.
    pub fn took_ms(&self) -> u64 {
        monotonic_us().saturating_sub(self.since_us) / 1000
    }
}

/// Who has waited for as long as this, while a script has run for as long, was held up by it.
const HOLDS_UP_US: u64 = 10_000;

/// Why nothing was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillError {
    /// Nothing of this kind runs.
    NotBusy,
    /// All that run have changed something.
    HaveWritten,
}

/// The scripts that run at this moment and have done so for a while.
#[derive(Debug, Default)]
pub struct RunningNow {
    all: Mutex<Vec<Arc<Running>>>,
    /// When the last ended that had run for [`HOLDS_UP_US`].
    long_ended_us: AtomicU64,
}

impl RunningNow {
    /// One that takes long.
    pub fn enter(&self, one: Arc<Running>) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }

    /// It has ended.
    pub fn leave(&self, one: &Arc<Running>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| !Arc::ptr_eq(other, one));
        drop(all);
        let now_us = monotonic_us();
        if now_us.saturating_sub(one.since_us) >= HOLDS_UP_US {
            self.long_ended_us.fetch_max(now_us, Ordering::Release);
        }
    }

    /// Whether a script has held up who waits since that moment: one that has run for
    /// [`HOLDS_UP_US`] runs still, or has ended since.
    pub fn has_held_up(&self, since_us: u64, now_us: u64) -> bool {
        let is_long = |began_us: u64| now_us.saturating_sub(began_us) >= HOLDS_UP_US;
        is_long(since_us)
            && (self.long_ended_us.load(Ordering::Acquire) >= since_us
                || self.all().iter().any(|one| is_long(one.since_us)))
    }

    /// All of them, the longest running first.
    pub fn all(&self) -> Vec<Arc<Running>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all of a kind that have changed nothing.
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

    /// Ends all that run for longer than so many milliseconds, whatever they have changed. Those
    /// that were not killed before, and whether each had changed something.
    pub fn cut_long(&self, most_ms: u64) -> Vec<(Arc<Running>, bool)> {
        let all = self.all().into_iter();
        let long = all.filter(|one| one.took_ms() >= most_ms && !one.fate.is_killed());
        long.map(|one| (Arc::clone(&one), one.fate.cut())).collect()
    }
}

/// What scripts have that have run for longer than `busy-reply-threshold`: who waits for any of it
/// is told so.
#[derive(Debug, Default)]
pub struct BusyScripts {
    /// How many scripts.
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
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many scripts.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// One more script.
    pub fn enter(&self, kind: Kind) {
        let mut held = self.held();
        held.scripts.push(kind);
        self.count.store(held.scripts.len(), Ordering::Release);
    }

    /// It has these now.
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

    /// It ends.
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

    /// What is told to who waits for this; `None`: no busy script has it.
    pub fn error(&self, awaited: Awaited) -> Option<&'static ClientError> {
        if self.count() == 0 {
            return None;
        }
        let held = self.held();
        let kind = match awaited {
            Awaited::Partition(id) => held.partitions.get(&id).copied(),
            Awaited::Token => held.token,
            Awaited::Snapshot(_) | Awaited::Pin(_) => None,
            // All of them are inside.
            Awaited::Gate => held.scripts.first().copied(),
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
            fate: Fate::new(has_written),
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
