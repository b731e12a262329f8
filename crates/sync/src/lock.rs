//! The lock of one partition.
//!
//! ```text
//! state:  bit 0 LOCKED    a holder is inside
//!         bit 1 PARKED    there are tickets for when nobody is inside: the unlock must look
//!         bit 2 OPENED    an owner has it for long, and lets visitors in one after the other
//! ```
//!
//! A worker never waits here. It tries, spins briefly, and if that fails leaves a *ticket* and
//! continues with other connections; the next unlock redeems the ticket (calls [`Ticket::wake`]),
//! and then the command runs again from its start.
//!
//! A holder that needs the lock for long, but not always the value, *opens* the lock. For others
//! the lock stays taken, but one *visitor* at a time gets in while nobody else is inside. The value
//! itself says what a visitor must not touch. The owner comes back in as a visitor does, and closes
//! the lock.
//!
//! Invariants
//! 1. Only the thread that moved LOCKED from 0 to 1 touches `value`, until it moves it back.
//! 2. PARKED and OPENED are set and cleared only with the mutex `parked` held; when the mutex is
//!    free, PARKED is set if there are tickets for the next unlock, and OPENED if there are some
//!    for the end of that.
//! 3. No lost wake-up: a ticket is kept only if LOCKED was seen set *in the same atomic step* that
//!    set PARKED. The holder's unlock is one atomic step that reads PARKED, so it comes after and
//!    sees it. A ticket for the end is kept only with OPENED seen under the mutex; closing takes
//!    those tickets under the same mutex, to be woken by the owner's unlock.
//! 4. Tickets are redeemed outside both the lock and the mutex, in the order they were left.
//! 5. There is one owner at a time: a thread opens only a lock that it holds and that is not open.
//!
//! Not here: fairness (a newcomer may take the lock before the thread that was woken. No command
//! starves: one that has met busy locks `ALL_OR_NONE_TRIES` times goes to the slow lane, where it
//! takes the locks one by one under the token and keeps them: `keyspace::token`, tested in the
//! server's `in_process`), poisoning (values stay valid between two statements of the layers
//! above), blocking (a thread that may wait parks a ticket for itself). Tests: below, and loom
//! models under `--cfg loom`.

use std::ops::{Deref, DerefMut};

use crate::primitives::{AtomicU32, Mutex, Ordering, UnsafeCell, relax, relock};

const LOCKED: u32 = 1;
const PARKED: u32 = 2;
const OPENED: u32 = 4;

/// How often a contended lock is tried before the caller gives up: about a microsecond, longer than
/// nearly every command holds it and much shorter than serving another connection.
#[cfg(not(loom))]
pub const SPIN_LIMIT: u32 = 48;
/// Under loom every look is a branch point; two are enough to cover the code.
#[cfg(loom)]
pub const SPIN_LIMIT: u32 = 2;

/// A waiter for a lock that becomes free.
pub trait Ticket: Send {
    /// Called once, without any lock held, by the thread that freed the lock. Must not block.
    fn wake(self);
}

/// A value with the lock that protects it. The lock is on the first cache line of its value, and no
/// other's value is on its lines.
#[repr(C, align(64))]
pub struct PartitionLock<T, W> {
    state: AtomicU32,
    value: UnsafeCell<T>,
    parked: Mutex<ParkedTickets<W>>,
}

/// Tickets: those for when nobody is inside, and those for when the lock is closed again.
struct ParkedTickets<W> {
    next: Vec<W>,
    at_end: Vec<W>,
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
            parked: Mutex::new(ParkedTickets { next: Vec::new(), at_end: Vec::new() }),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock if it is free at this moment.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T, W>> {
        let seen = self.state.load(Ordering::Relaxed);
        if seen & (LOCKED | OPENED) != 0 {
            return None;
        }
        self.enter(seen)
    }

    /// Moves LOCKED from 0 to 1 if the state is what was seen, which was without it.
    #[inline]
    fn enter(&self, seen: u32) -> Option<Guard<'_, T, W>> {
        // Not `then_some(Guard ..)`: a guard made and dropped on failure would unlock for the
        // holder.
        match self.state.compare_exchange(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Some(Guard { lock: self }),
            Err(_) => None,
        }
    }

    /// Takes the lock, trying at most [`SPIN_LIMIT`] times.
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

    /// Takes the lock if nobody is inside, also while it is open to visitors, trying at most
    /// [`SPIN_LIMIT`] times.
    #[cold]
    pub fn visit(&self) -> Option<Guard<'_, T, W>> {
        for _ in 0..SPIN_LIMIT {
            let seen = self.state.load(Ordering::Relaxed);
            if seen & LOCKED == 0
                && let Some(guard) = self.enter(seen)
            {
                return Some(guard);
            }
            relax();
        }
        None
    }

    /// Whether it is open to visitors; a racy look.
    pub fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) & OPENED != 0
    }

    /// Leaves a ticket. `Ok`: it will be woken; if the lock is open, once it is closed. `Err`: the
    /// lock is free again, try once more.
    pub fn park(&self, ticket: W) -> Result<(), W> {
        let mut parked = relock(&self.parked);
        if self.state.load(Ordering::Relaxed) & OPENED != 0 {
            parked.at_end.push(ticket);
            return Ok(());
        }
        self.park_in(&mut parked, ticket)
    }

    /// Parks a visitor's ticket: it is woken when nobody is inside.
    pub fn park_visitor(&self, ticket: W) -> Result<(), W> {
        self.park_in(&mut relock(&self.parked), ticket)
    }

    fn park_in(&self, parked: &mut ParkedTickets<W>, ticket: W) -> Result<(), W> {
        let before = self.state.fetch_or(PARKED, Ordering::Relaxed);
        if before & LOCKED != 0 {
            parked.next.push(ticket);
            return Ok(());
        }
        if parked.next.is_empty() {
            self.state.fetch_and(!PARKED, Ordering::Relaxed);
        }
        Err(ticket)
    }

    /// How many tickets wait, for reports.
    pub fn parked_count(&self) -> usize {
        let parked = relock(&self.parked);
        parked.next.len() + parked.at_end.len()
    }

    /// Whether a ticket waits; a racy look, for a holder that can choose what it frees first.
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
            std::mem::take(&mut parked.next)
        };
        for ticket in woken {
            ticket.wake();
        }
    }
}

/// Exclusive access to the value; ends when dropped.
pub struct Guard<'l, T, W: Ticket> {
    lock: &'l PartitionLock<T, W>,
}

impl<'l, T, W: Ticket> Guard<'l, T, W> {
    /// Lets visitors in from now on. Only where it is not open yet (5). Waiting tickets are woken
    /// to try again; those that are not visitors then wait for the close.
    pub fn open(self) -> Open<'l, T, W> {
        let lock = self.lock;
        {
            let _parked = relock(&lock.parked);
            let before = lock.state.fetch_or(OPENED, Ordering::Relaxed);
            debug_assert!(before & OPENED == 0, "a visitor opens what is open");
        }
        drop(self);
        Open { lock: Some(lock) }
    }
}

/// A lock that its owner has opened to visitors; closed when dropped.
pub struct Open<'l, T, W: Ticket> {
    lock: Option<&'l PartitionLock<T, W>>,
}

impl<'l, T, W: Ticket> Open<'l, T, W> {
    /// Comes back and closes it. While a visitor is inside, `wait` is called with the lock.
    pub fn close(mut self, mut wait: impl FnMut(&PartitionLock<T, W>)) -> Guard<'l, T, W> {
        let lock = self.lock.take().expect("it is closed once");
        loop {
            match lock.visit() {
                Some(guard) => break closed(guard),
                None => wait(lock),
            }
        }
    }
}

impl<T, W: Ticket> Drop for Open<'_, T, W> {
    fn drop(&mut self) {
        while let Some(lock) = self.lock {
            if let Some(guard) = lock.visit() {
                self.lock = None;
                drop(closed(guard));
            }
        }
    }
}

/// Closes the lock; tickets that wait for the close are woken when the guard is dropped.
fn closed<T, W: Ticket>(guard: Guard<'_, T, W>) -> Guard<'_, T, W> {
    let mut parked = relock(&guard.lock.parked);
    guard.lock.state.fetch_and(!OPENED, Ordering::Relaxed);
    let mut at_end = std::mem::take(&mut parked.at_end);
    if !at_end.is_empty() {
        parked.next.append(&mut at_end);
        guard.lock.state.fetch_or(PARKED, Ordering::Relaxed);
    }
    drop(parked);
    guard
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
    fn visitors_come_in_while_it_is_open_and_others_at_its_end() {
        let (sender, woken) = mpsc::channel();
        let lock = PartitionLock::new(0);
        let guard = lock.try_lock().expect("free");
        assert!(!lock.is_open() && lock.visit().is_none());
        assert!(lock.park(Waker(sender.clone(), 0)).is_ok());
        let open = guard.open();
        assert_eq!(woken.try_iter().collect::<Vec<_>>(), [0], "it may be a visitor");
        assert!(lock.is_open() && lock.try_lock().is_none());
        assert!(lock.park(Waker(sender.clone(), 1)).is_ok());
        assert!(lock.park_visitor(Waker(sender.clone(), 2)).is_err(), "nobody is inside");
        let mut visitor = lock.visit().expect("nobody is inside");
        *visitor += 1;
        assert!(lock.visit().is_none());
        assert!(lock.park_visitor(Waker(sender.clone(), 3)).is_ok());
        drop(visitor);
        assert_eq!(woken.try_iter().collect::<Vec<_>>(), [3]);
        let visitor = std::cell::Cell::new(lock.visit());
        let mut waited = 0;
        let mut guard = open.close(|_| {
            waited += 1;
            drop(visitor.take());
        });
        *guard += 1;
        assert_eq!((waited, lock.is_open(), lock.parked_count()), (1, false, 1));
        assert!(lock.visit().is_none() && lock.try_lock().is_none());
        drop(guard);
        assert_eq!(woken.try_iter().collect::<Vec<_>>(), [1]);
        assert_eq!(*lock.try_lock().expect("free"), 2);
        drop(lock.try_lock().expect("free").open());
        assert!(lock.try_lock().is_some(), "what is dropped is closed");
    }

    #[test]
    fn counts_exactly_with_visitors() {
        const ROUNDS: u32 = 3_000;
        let lock: Arc<PartitionLock<u32, Waker>> = Arc::new(PartitionLock::new(0));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    let (sender, woken) = mpsc::channel();
                    for round in 0..ROUNDS {
                        loop {
                            let guard = match number {
                                0 | 1 => lock.spin_lock(),
                                _ => lock.visit(),
                            };
                            if let Some(mut guard) = guard {
                                *guard += 1;
                                if number == 0 && round % 3 == 0 {
                                    thread::yield_now();
                                    let open = guard.open();
                                    thread::yield_now();
                                    *open.close(|_| thread::yield_now()) += 1;
                                }
                                break;
                            }
                            let ticket = Waker(sender.clone(), 0);
                            let parked = match number {
                                0 | 1 => lock.park(ticket),
                                _ => lock.park_visitor(ticket),
                            };
                            if parked.is_ok() {
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
        assert_eq!(*lock.try_lock().expect("free"), 4 * ROUNDS + ROUNDS / 3);
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

    /// Every waiter gets in, in any order: a lost wake-up would leave a thread in `wait` forever,
    /// which loom reports as a deadlock.
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

    /// An owner that opens and closes, a visitor, and another thread: all get in, one at a time.
    #[test]
    fn an_owner_a_visitor_and_another() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let lock = Arc::new(PartitionLock::new(0));
            let (first, second) = (Arc::clone(&lock), Arc::clone(&lock));
            let visitor = thread::spawn(move || {
                loop {
                    if let Some(mut guard) = first.visit() {
                        *guard += 1;
                        return;
                    }
                    let flag = Flag::new();
                    if first.park_visitor(flag.clone()).is_ok() {
                        flag.wait();
                    }
                }
            });
            let other = thread::spawn(move || add_one(&second));
            if let Some(mut guard) = lock.try_lock() {
                *guard += 1;
                let open = guard.open();
                let mut guard = open.close(|lock| {
                    let flag = Flag::new();
                    if lock.park_visitor(flag.clone()).is_ok() {
                        flag.wait();
                    }
                });
                *guard -= 1;
            }
            visitor.join().unwrap();
            other.join().unwrap();
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
