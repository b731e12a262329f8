//! The index of channels: which workers have subscribers of a name, and how many.
//!
//! Every PUBLISH reads it, so it is cut into stripes: a publisher locks one of them for reading
//! until its message is in the queues of all workers with subscribers. So a message is published at
//! one moment: connections that subscribed before are counted and get it, and no others.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;

use super::indexed_list::IndexedList;
use super::name::Name;

/// The number of subscribers of one name at each worker that has some.
pub type SubscribersByWorker = SmallVec<[(u16, u32); 2]>;

/// One stripe: a part of the names.
#[derive(Default)]
pub struct Stripe {
    /// The names with their subscribers.
    pub names: IndexedList<Name, SubscribersByWorker>,
    /// Counts changes. A message carries the count, and reaches subscribers that came no later.
    pub changes: u64,
}

#[derive(Default)]
#[repr(align(64))]
struct Cell(RwLock<Stripe>);

/// For each channel or pattern, the workers that have subscribers and how many; cut into stripes
/// with a lock each.
pub struct ChannelIndex {
    stripes: Box<[Cell]>,
    count: AtomicUsize,
}

impl ChannelIndex {
    /// An index with this many stripes, a power of two.
    pub fn new(stripe_count: usize) -> Self {
        let stripes = (0..stripe_count).map(|_| Cell::default()).collect();
        ChannelIndex { stripes, count: AtomicUsize::new(0) }
    }

    /// How many names have subscribers.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The stripe of a hash, to be read.
    #[inline]
    pub fn read(&self, hash: u64) -> RwLockReadGuard<'_, Stripe> {
        self.cell(hash).0.read()
    }

    /// The stripe of a hash, to be changed.
    pub fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Stripe> {
        self.cell(hash).0.write()
    }

    /// All stripes, in order; nothing is published while they are held.
    pub fn write_all(&self) -> Vec<RwLockWriteGuard<'_, Stripe>> {
        let cells = self.stripes.iter();
        cells.map(|cell| cell.0.write()).collect()
    }

    /// Calls `each` for every name with subscribers, stripe by stripe.
    pub fn each(&self, mut each: impl FnMut(&Name)) {
        for cell in &self.stripes {
            let stripe = cell.0.read();
            stripe.names.rows().iter().for_each(|(name, _)| each(name));
        }
    }

    /// The index of the stripe of a hash.
    pub fn stripe_of(&self, hash: u64) -> usize {
        // The low bits choose the slot inside the stripe.
        (hash >> 48) as usize & (self.stripes.len() - 1)
    }

    /// Adds a subscriber of a name at a worker; returns the shared name and the count of changes.
    pub fn join(&self, stripe: &mut Stripe, hash: u64, name: &[u8], worker: u16) -> (Name, u64) {
        stripe.changes += 1;
        let changes = stripe.changes;
        let kept = stripe.names.get(hash, Name::is(name)).map(|(name, _)| name.clone());
        let kept = kept.unwrap_or_else(|| {
            let new = Name::new(hash, name);
            stripe.names.insert(new.clone(), SubscribersByWorker::new());
            self.count.fetch_add(1, Ordering::Relaxed);
            new
        });
        if let Some(spread) = stripe.names.get_mut(hash, Name::is(name)) {
            match spread.iter_mut().find(|(at, _)| *at == worker) {
                Some((_, count)) => *count += 1,
                None => spread.push((worker, 1)),
            }
        }
        (kept, changes)
    }

    /// Removes a subscriber of a name at a worker.
    pub fn leave(&self, stripe: &mut Stripe, hash: u64, name: &[u8], worker: u16) {
        stripe.changes += 1;
        let Some(spread) = stripe.names.get_mut(hash, Name::is(name)) else { return };
        if let Some(at) = spread.iter().position(|(at, _)| *at == worker) {
            spread[at].1 -= 1;
            if spread[at].1 == 0 {
                spread.swap_remove(at);
            }
        }
        if spread.is_empty() {
            stripe.names.remove(hash, Name::is(name));
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn cell(&self, hash: u64) -> &Cell {
        &self.stripes[self.stripe_of(hash)]
    }
}

/// The total number of subscribers of a name.
pub fn total(spread: &SubscribersByWorker) -> usize {
    spread.iter().map(|(_, count)| *count as usize).sum()
}
