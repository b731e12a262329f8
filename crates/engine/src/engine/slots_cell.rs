//! The slot tables in force, for all threads, and the fence: until when this node may write.
//!
//! ```text
//! a turn begins   the fence holds --> the table in force        it has ended --> the fenced one
//! a turn ends     does it still hold? else nothing leaves that the turn has written    (workers)
//! ```
//!
//! Invariants
//! 1. What begins after the end of the permission is refused: each turn asks, at its own time.
//! 2. A reply to what ran under a permission leaves only if that same permission still lasts when
//!    it leaves. A thread may have stood still for long between the two.
//! 3. Permissions are told apart by terms: one that ends by its time and is then extended was never
//!    anybody else's in between, or whoever extends it has called [`WriteFence::end`] first.
//!
//! Not here: how a node gets its permission (`pantala_cluster::control::fence`); what leaves the
//! workers (their `output/fence.rs`). Tests: the server's `tests/fence.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_cluster::SlotTable;
use parking_lot::RwLock;

use super::settings_cell::SettingsCell;

/// Without an end: nothing is fenced.
const NEVER: u64 = u64::MAX;

/// Until when this node of a cluster may write, and serve reads, as a primary.
pub struct WriteFence {
    /// Monotonic, in microseconds; [`NEVER`]: not fenced.
    until_us: AtomicU64,
    /// How many permissions have been ended before their time.
    term: AtomicU64,
}

/// The permission under which something runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePermit {
    /// None is needed: there is no fence, or no slot is served here.
    #[default]
    Unfenced,
    /// It has ended: writes are refused, and most reads.
    Ended,
    /// The one of this term.
    Held(u64),
}

impl WritePermit {
    /// The permission that two things need which leave together.
    pub fn and(self, other: WritePermit) -> WritePermit {
        match (self, other) {
            (WritePermit::Held(one), WritePermit::Held(another)) => {
                WritePermit::Held(one.min(another))
            }
            (held @ WritePermit::Held(_), _) | (_, held) => held,
        }
    }
}

impl Default for WriteFence {
    fn default() -> Self {
        WriteFence { until_us: AtomicU64::new(NEVER), term: AtomicU64::new(0) }
    }
}

impl WriteFence {
    /// Permits until this time (monotonic, microseconds); an earlier time than before shortens the
    /// permission, and `u64::MAX` takes the fence away.
    pub fn set_until(&self, until_us: u64) {
        self.until_us.store(until_us, Ordering::Release);
    }

    /// The end of the permission (monotonic, microseconds); `u64::MAX`: there is no fence.
    pub fn until(&self) -> u64 {
        self.until_us.load(Ordering::Acquire)
    }

    /// Ends the permission. To be called before the first [`WriteFence::set_until`] after another
    /// node may have been the primary: what still runs under the permission before is then not
    /// answered under the next one.
    pub fn end(&self) {
        self.until_us.store(0, Ordering::Release);
        self.term.fetch_add(1, Ordering::AcqRel);
    }

    /// The permission at this time (monotonic, microseconds).
    #[inline]
    pub fn permit(&self, now_us: u64) -> WritePermit {
        // The term first: a permission that begins in between then seems to be of the term before,
        // and what runs under it is not answered.
        let term = self.term.load(Ordering::Acquire);
        match self.until() {
            NEVER => WritePermit::Unfenced,
            until_us if now_us < until_us => WritePermit::Held(term),
            _ => WritePermit::Ended,
        }
    }
}

/// The slot tables as a thread keeps them.
#[derive(Clone)]
pub struct SlotTables {
    open: Arc<SlotTable>,
    /// In force once the permission has ended; `None`: no slot is served here.
    fenced: Option<Arc<SlotTable>>,
}

impl SlotTables {
    /// The permission at this time (monotonic, microseconds), and the table that is in force then.
    #[cold]
    #[inline(never)]
    pub(crate) fn at(&self, fence: &WriteFence, now_us: u64) -> (WritePermit, &SlotTable) {
        let permit = self.permit(fence, now_us);
        match &self.fenced {
            Some(fenced) if permit == WritePermit::Ended => (permit, fenced),
            _ => (permit, &self.open),
        }
    }

    fn permit(&self, fence: &WriteFence, now_us: u64) -> WritePermit {
        match self.fenced {
            Some(_) => fence.permit(now_us),
            None => WritePermit::Unfenced,
        }
    }
}

/// What this node of a cluster does with each slot. Threads that run commands keep the tables with
/// their limits (`Limited`), and take over others where they take over changed settings.
#[derive(Default)]
pub struct SlotsCell {
    tables: RwLock<Option<SlotTables>>,
    /// Until when this node may write.
    pub fence: WriteFence,
}

impl SlotsCell {
    /// The table in force while writes are permitted; `None`: no cluster is served.
    pub fn current(&self) -> Option<Arc<SlotTable>> {
        self.tables.read().as_ref().map(|tables| Arc::clone(&tables.open))
    }

    /// The tables for a thread; `None`: no cluster is served.
    pub(crate) fn tables(&self) -> Option<SlotTables> {
        self.tables.read().clone()
    }

    /// Replaces the table. Turns that run go on with the one before; whoever needs all threads to
    /// have taken over this one passes the gate afterwards.
    pub fn replace(&self, table: SlotTable, settings: &SettingsCell) {
        let fenced = table.fenced().map(Arc::new);
        *self.tables.write() = Some(SlotTables { open: Arc::new(table), fenced });
        settings.bump_version();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_under_permissions_needs_the_oldest() {
        use WritePermit::{Ended, Held, Unfenced};
        assert_eq!(Held(3).and(Held(2)), Held(2));
        assert_eq!((Unfenced.and(Held(2)), Held(2).and(Ended)), (Held(2), Held(2)));
        assert_eq!(Unfenced.and(Ended), Ended);
    }

    #[test]
    fn a_permission_ends_by_its_time_or_before() {
        let fence = WriteFence::default();
        assert_eq!(fence.permit(5), WritePermit::Unfenced);
        fence.set_until(10);
        assert_eq!((fence.permit(9), fence.permit(10)), (WritePermit::Held(0), WritePermit::Ended));
        fence.set_until(20);
        assert_eq!(fence.permit(10), WritePermit::Held(0), "it goes on");
        fence.end();
        assert_eq!((fence.until(), fence.permit(10)), (0, WritePermit::Ended));
        fence.set_until(20);
        assert_eq!(fence.permit(10), WritePermit::Held(1), "it is another one");
    }
}
