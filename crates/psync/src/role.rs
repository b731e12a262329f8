//! The role of this server: a primary, or a replica between two steps of its primary's stream.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// The role of this server, and the lock under which it is at one position of the stream.
#[derive(Default)]
pub struct RoleState {
    /// Held while steps are applied, the data is replaced, or the role changes.
    applying: Mutex<()>,
    is_replica: AtomicBool,
    /// The database selected in the stream.
    db: AtomicU32,
}

impl RoleState {
    /// Whether this server is a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Acquire)
    }

    /// Sets whether this server is a replica. With no step being applied.
    pub fn set_replica(&self, is_replica: bool) {
        self.is_replica.store(is_replica, Ordering::Release);
    }

    /// The database selected in the stream that this server follows.
    pub fn stream_db(&self) -> u32 {
        self.db.load(Ordering::Acquire)
    }

    /// Sets the database selected in the stream that this server follows.
    pub fn select(&self, db: u32) {
        self.db.store(db, Ordering::Release);
    }

    /// Waits until no step is being applied, and lets none begin while the guard lives: data and
    /// stream are then at one position, and the role stays.
    pub fn between_steps(&self) -> MutexGuard<'_, ()> {
        self.applying.lock()
    }
}
