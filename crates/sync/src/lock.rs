//! The lock of one partition.
//!
//! ```text
//! state:  bit 0 LOCKED    somebody is inside
//!         bit 1 PARKED    `parked` may hold tickets: the one who leaves must look
//! ```
//!
//! A worker never waits here. It tries, spins a little, and when that fails leaves a *ticket* and
//! goes on with other connections; the ticket is redeemed (its [`Ticket::wake`] called) by whoever
//! unlocks next, and the command is then tried again from its start.
//!
//! Invariants
//! 1. Only the thread that moved LOCKED from 0 to 1 touches `value`, until it moves it back.
//! 2. PARKED is set and cleared only with the mutex `parked` held; when the mutex is free, PARKED
//!    is set if the list is not empty.
//! 3. No lost wake-up: a ticket is kept only if LOCKED was seen set *in the same atomic step* that
//!    set PARKED. The holder's unlock is one atomic step that reads PARKED, so it comes after and
//!    sees it.
//! 4. Tickets are redeemed outside both the lock and the mutex, in the order they were left.
//!
//! Not here: fairness (a newcomer may take the lock before the one that was woken; nobody starves
//! all the same, because a command that has met busy locks `ALL_OR_NONE_TRIES` times goes to the
//! slow lane, where it takes them one by one under the token and keeps what it has:
//! `keyspace::token`, tested in the server's `in_process`), poisoning (values stay valid between
//! two statements of the floors below), blocking (a thread that may wait parks a ticket for
//! itself). Tests: below, and loom models under `--cfg loom`.

use std::ops::{Deref, DerefMut};

use crate::primitives::{AtomicU32, Mutex, Ordering, UnsafeCell, relax, relock};

const LOCKED: u32 = 1;
const PARKED: u32 = 2;

/// How often a contended lock is looked at before the caller gives up: about a microsecond, longer
/// than nearly every command holds it and much shorter than serving another connection.
#[cfg(not(loom))]
pub const SPIN_LIMIT: u32 = 48;
/// Under loom every look is a branch point; two are enough to cover the code.
#[cfg(loom)]
pub const SPIN_LIMIT: u32 = 2;

/// Somebody who waits for a lock to become free.
pub trait Ticket: Send {
    /// Called once, without any lock held, by the thread that freed the lock. Must not block.
    fn wake(self);
}

/// A value, and the right to touch it.
pub struct PartitionLock<T, W> {
    state: AtomicU32,
    parked: Mutex<Vec<W>>,
    value: UnsafeCell<T>,
}

// SAFETY: invariant 1 gives `&mut T` to one thread at a time; the tickets are behind a mutex.
unsafe impl<T: Send, W: Send> Sync for PartitionLock<T, W> {}
// SAFETY: owning the lock is owning the value and the tickets.
unsafe impl<T: Send, W: Send> Send for PartitionLock<T, W> {}

impl<T, W: Ticket> PartitionLock<T, W> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        PartitionLock {
            state: AtomicU32::new(0),
            parked: Mutex::new(Vec::new()),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock if it is free at this moment.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T, W>> {
        let seen = self.state.load(Ordering::Relaxed);
        if seen & LOCKED != 0 {
            return None;
        }
        // Not `then_some(Guard ..)`: a guard made and dropped on failure would unlock for the
        // holder.
        match self.state.compare_exchange(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Some(Guard { lock: self }),
            Err(_) => None,
        }
    }

    /// Takes the lock, looking at most [`SPIN_LIMIT`] times.
    #[inline]
    pub fn spin_lock(&self) -> Option<Guard<'_, T, W>> {
        match self.try_lock() {
            Some(guard) => Some(guard),
            None => self.spin_on(),
        }
    }

    #[cold]
    fn spin_on(&self) -> Option<Guard<'_, T, W>> {
        for _ in 0..SPIN_LIMIT {
            relax();
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
        }
        None
    }

    /// Leaves a ticket. `Ok`: it will be woken. `Err`: the lock is free again, try once more.
    pub fn park(&self, ticket: W) -> Result<(), W> {
        let mut parked = relock(&self.parked);
        let before = self.state.fetch_or(PARKED, Ordering::Relaxed);
        if before & LOCKED != 0 {
            parked.push(ticket);
            return Ok(());
        }
        if parked.is_empty() {
            self.state.fetch_and(!PARKED, Ordering::Relaxed);
        }
        Err(ticket)
    }

    /// How many tickets wait, for reports.
    pub fn parked_count(&self) -> usize {
        relock(&self.parked).len()
    }

    /// Whether somebody waits, as far as is seen at this moment: for a holder that can choose what
    /// it frees first.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) & PARKED != 0
    }

    #[inline]
    fn unlock(&self) {
        let before = self.state.fetch_and(!LOCKED, Ordering::Release);
        if before & PARKED != 0 {
            self.wake_parked();
        }
    }

    #[cold]
    fn wake_parked(&self) {
        let woken = {
            let mut parked = relock(&self.parked);
            self.state.fetch_and(!PARKED, Ordering::Relaxed);
            std::mem::take(&mut *parked)
        };
        for ticket in woken {
            ticket.wake();
        }
    }
}

/// The right to touch the value; ends when dropped.
pub struct Guard<'l, T, W: Ticket> {
    lock: &'l PartitionLock<T, W>,
}

impl<T, W: Ticket> Drop for Guard<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock();
    }
}

#[cfg(not(loom))]
impl<T, W: Ticket> Deref for Guard<'_, T, W> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: invariant 1: this guard exists only while LOCKED is ours.
        unsafe { &*self.lock.value.get() }
    }
}

#[cfg(not(loom))]
impl<T, W: Ticket> DerefMut for Guard<'_, T, W> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: invariant 1, and `&mut self` keeps other borrows through this guard away.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(loom)]
impl<T, W: Ticket> Deref for Guard<'_, T, W> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: invariant 1; loom checks the access itself.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

#[cfg(loom)]
impl<T, W: Ticket> DerefMut for Guard<'_, T, W> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: invariant 1; loom checks the access itself.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};
    use std::thread;

    struct Waker(mpsc::Sender<u32>, u32);

    impl Ticket for Waker {
        fn wake(self) {
            self.0.send(self.1).expect("the test listens");
        }
    }

    #[test]
    fn tickets_are_woken_in_order_and_once() {
        let (sender, woken) = mpsc::channel();
        let lock = PartitionLock::new(0);
        let guard = lock.try_lock().expect("free");
        assert!(lock.try_lock().is_none());
        for number in 0..3 {
            assert!(lock.park(Waker(sender.clone(), number)).is_ok());
        }
        assert_eq!((lock.parked_count(), lock.is_wanted()), (3, true));
        drop(guard);
        assert!(!lock.is_wanted());
        assert_eq!(woken.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
        drop(lock.try_lock().expect("free again"));
        assert_eq!(woken.try_iter().count(), 0);
    }

    #[test]
    fn parking_on_a_free_lock_is_refused() {
        let (sender, woken) = mpsc::channel();
        let lock = PartitionLock::new(0);
        assert!(lock.park(Waker(sender, 7)).is_err());
        drop(lock.try_lock().expect("free"));
        assert_eq!(woken.try_iter().count(), 0);
    }

    #[test]
    fn counts_exactly_under_contention() {
        const THREADS: u32 = 4;
        const ROUNDS: u32 = 20_000;
        let lock: Arc<PartitionLock<u32, Waker>> = Arc::new(PartitionLock::new(0));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    let (sender, woken) = mpsc::channel();
                    for _ in 0..ROUNDS {
                        loop {
                            if let Some(mut guard) = lock.spin_lock() {
                                *guard += 1;
                                break;
                            }
                            if lock.park(Waker(sender.clone(), 0)).is_ok() {
                                woken.recv().expect("woken");
                            }
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(*lock.try_lock().expect("free"), THREADS * ROUNDS);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    #[derive(Clone)]
    struct Flag(Arc<(Mutex<bool>, Condvar)>);

    impl Flag {
        fn new() -> Self {
            Flag(Arc::new((Mutex::new(false), Condvar::new())))
        }

        fn wait(&self) {
            let mut set = self.0.0.lock().unwrap();
            while !*set {
                set = self.0.1.wait(set).unwrap();
            }
        }
    }

    impl Ticket for Flag {
        fn wake(self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_one();
        }
    }

    fn add_one(lock: &PartitionLock<u32, Flag>) {
        loop {
            if let Some(mut guard) = lock.try_lock() {
                *guard += 1;
                return;
            }
            let flag = Flag::new();
            if lock.park(flag.clone()).is_ok() {
                flag.wait();
            }
        }
    }

    /// Every waiter gets in, whatever the order: a lost wake-up would leave a thread in `wait`
    /// for ever, which loom reports as a deadlock.
    #[test]
    fn two_threads_both_get_in() {
        loom::model(|| {
            let lock = Arc::new(PartitionLock::new(0));
            let other = Arc::clone(&lock);
            let thread = thread::spawn(move || add_one(&other));
            add_one(&lock);
            thread.join().unwrap();
            assert_eq!(*lock.try_lock().unwrap(), 2);
        });
    }

    #[test]
    fn three_threads_with_bounded_preemption() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let lock = Arc::new(PartitionLock::new(0));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let other = Arc::clone(&lock);
                    thread::spawn(move || add_one(&other))
                })
                .collect();
            add_one(&lock);
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(*lock.try_lock().unwrap(), 3);
        });
    }
}
