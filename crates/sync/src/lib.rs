//! The two pieces of synchronisation that commands run under.
//!
//! - [`lock`]: `PartitionLock`, four bytes of state beside the data it protects. Taking it is one
//!   compare-and-swap, and a worker never blocks on it: a worker that finds it taken leaves a
//!   ticket and is called when the lock is free.
//! - [`gate`]: `Gate`, which gives one thread exclusive access to the whole keyspace for a moment,
//!   while all others pay one store on a cache line of their own per turn.
//!
//! Both are modelled with loom, by themselves and together (`models`):
//! `RUSTFLAGS="--cfg loom" cargo test -p pantala-sync --release`.

pub mod gate;
pub mod lock;
#[cfg(all(test, loom))]
mod models;

mod primitives {
    #[cfg(not(loom))]
    pub(crate) use std::{
        cell::UnsafeCell,
        sync::atomic::{AtomicU32, Ordering, fence},
        sync::{Condvar, Mutex, MutexGuard},
    };

    #[cfg(loom)]
    pub(crate) use loom::{
        cell::UnsafeCell,
        sync::atomic::{AtomicU32, Ordering, fence},
        sync::{Condvar, Mutex, MutexGuard},
    };

    /// Locks a mutex even if a thread panicked while holding it: the lists behind these mutexes are
    /// valid between any two statements.
    pub(crate) fn relock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        match mutex.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Tells the processor (or loom) that this thread only waits for another.
    pub(crate) fn relax() {
        #[cfg(not(loom))]
        std::hint::spin_loop();
        #[cfg(loom)]
        loom::thread::yield_now();
    }
}
