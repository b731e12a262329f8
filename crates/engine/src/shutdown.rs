//! Stopping.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

const RUNNING: u32 = 0;
const STOPPING: u32 = 1;

/// Whether the server runs or stops; `main` waits here.
#[derive(Default)]
pub struct Shutdown {
    state: AtomicU32,
    gone: Condvar,
    lock: Mutex<()>,
}

impl Shutdown {
    /// The server is to stop: nothing new is served.
    pub fn begin(&self) {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.store(STOPPING, Ordering::Release);
        self.gone.notify_all();
    }

    /// Whether the server stops.
    #[inline]
    pub fn is_final(&self) -> bool {
        self.state.load(Ordering::Relaxed) != RUNNING
    }

    /// Waits until the server is to stop.
    pub fn wait(&self) {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.state.load(Ordering::Acquire) == RUNNING {
            held = self.gone.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
