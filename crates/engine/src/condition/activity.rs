//! Activity: whether the server has done anything since a watcher asked.
//!
//! ```text
//! watcher: arm ----> is_armed ----> is_quiet? ----> next_activity().await
//! worker:  each turn: report --is_armed?--> disarm, wake the watcher
//! ```
//!
//! An idle server wakes no thread, so a watcher that works by the clock must stop its clock while
//! nothing happens, and be woken when something does.
//!
//! Invariants
//! 1. `report` costs a load of a line that is written only when the server falls asleep or wakes.
//! 2. A watcher that waits is woken by the first report after it armed.
//!
//! Not here: the one watcher there is (the history of figures in `pantala-admin`). Tests: at the
//! foot.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Tells one watcher when the server does something.
#[derive(Default)]
pub struct Activity {
    /// The watcher wants to know of the next activity.
    is_armed: AtomicBool,
    watcher: Mutex<Option<Waker>>,
}

impl Activity {
    /// Reports that a thread begins to work.
    #[inline]
    pub fn report(&self) {
        if self.is_armed.load(Ordering::Relaxed) {
            self.disarm();
        }
    }

    #[cold]
    fn disarm(&self) {
        let mut watcher = self.watcher.lock();
        self.is_armed.store(false, Ordering::Relaxed);
        if let Some(watcher) = watcher.take() {
            watcher.wake();
        }
    }

    /// Asks to be told of the next activity.
    pub fn arm(&self) {
        self.is_armed.store(true, Ordering::Relaxed);
    }

    /// Whether nothing was reported since `arm`.
    pub fn is_quiet(&self) -> bool {
        self.is_armed.load(Ordering::Relaxed)
    }

    /// Waits for the first report after `arm`.
    pub async fn next_activity(&self) {
        poll_fn(|context| {
            let mut watcher = self.watcher.lock();
            if !self.is_quiet() {
                return Poll::Ready(());
            }
            *watcher = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_first_report_wakes_the_watcher_once() {
        let (activity, wakes) = (Activity::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        activity.arm();
        assert!(activity.is_quiet());
        {
            let mut waiting = pin!(activity.next_activity());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            activity.report();
            activity.report();
            assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
            assert!(waiting.as_mut().poll(&mut context).is_ready());
        }
        assert!(!activity.is_quiet());
    }

    #[test]
    fn a_report_before_the_wait_ends_it() {
        let activity = Activity::default();
        activity.arm();
        activity.report();
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(activity.next_activity()).poll(&mut context).is_ready());
    }
}
