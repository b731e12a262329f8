//! Expiry: what happens to a key whose deadline has passed.
//!
//! | who looks | by default | while there is a reason to hide |
//! |---|---|---|
//! | a command, a walk | removes the key, sees none | sees none, leaves the key |
//! | a scope with [`Scope::sees_expired`] | sees the key | sees the key |
//! | the sweep, a full segment | remove the key | leave the key |
//!
//! A replica hides: a key stays until its primary says that it is gone, so that both have the same
//! data at the same position of the stream. It removes by itself only keys with deadlines that its
//! own clients have set (`own`). The stream itself is applied in a scope that sees expired keys. So
//! are a file that is loaded and the input of a server that is filled from another one
//! (`import-mode`). That server hides expired keys, too; but its other clients may write, and if
//! their command opens an expired key to change it, the key is removed. CLIENT PAUSE hides expired
//! keys, so the data stays as it is during the pause.
//!
//! A replica and a server in import mode receive the removal of each key. So if a command sets a
//! deadline that has passed already, they keep it like any other ([`Scope::has_passed`]); elsewhere
//! the key is removed at once.
//!
//! A command that creates a key in the place of a hidden one removes the hidden one first, with the
//! usual event.
//!
//! Invariant
//! 1. Whether a deadline has passed is decided with [`Scope::seen_at`] by readers and with
//!    [`Scope::removed_at`] by code that removes, and nowhere else.
//!
//! Tests: `tests/expiry.rs`.

use std::sync::atomic::{AtomicU8, Ordering};

use pantala_base::UnixMs;

use crate::Keyspace;
use crate::access::scope::Scope;

/// A reason to hide expired keys instead of removing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HideReason {
    /// This is a replica.
    Replica = 1,
    /// CLIENT PAUSE is in force.
    Paused = 2,
    /// The server is filled from another one (`import-mode`).
    Import = 4,
    /// A journal is loaded, which itself says which keys are gone.
    Loading = 8,
    /// The server starts: removals are to reach the replicas that have followed before.
    Starting = 16,
}

/// The reasons in force, one bit each.
#[derive(Debug, Default)]
pub(crate) struct HideReasons(AtomicU8);

impl Keyspace {
    /// Sets or clears a reason to hide expired keys.
    pub fn hide_expired(&self, reason: HideReason, on: bool) {
        let bit = reason as u8;
        if on {
            self.hidden.0.fetch_or(bit, Ordering::SeqCst);
        } else if self.hidden.0.fetch_and(!bit, Ordering::SeqCst) == bit {
            self.sweep.wake();
        }
        if !on && reason == HideReason::Replica {
            self.own_deadlines.forget();
        }
    }

    /// Whether a hidden key is removed when a command opens it to change it.
    #[inline]
    pub(crate) fn gives_way_to_writers(&self) -> bool {
        self.hidden.0.load(Ordering::Relaxed) == HideReason::Import as u8
    }

    /// Whether nothing but being a replica hides expired keys.
    pub(crate) fn is_only_replica(&self) -> bool {
        self.hidden.0.load(Ordering::Relaxed) == HideReason::Replica as u8
    }

    /// Whether expired keys are hidden instead of removed.
    #[inline]
    pub fn hides_expired(&self) -> bool {
        self.hidden.0.load(Ordering::Relaxed) != 0
    }
}

/// A time at which no deadline has passed.
const BEFORE_ALL: UnixMs = UnixMs(i64::MIN);

impl Scope<'_> {
    /// Readers do not see keys whose deadline is before this.
    #[inline]
    pub(crate) fn seen_at(&self) -> UnixMs {
        if self.sees_expired { BEFORE_ALL } else { self.now }
    }

    /// Whether a key may be given a deadline that has passed, instead of being removed at once.
    pub(crate) fn keeps_passed(&self) -> bool {
        let told = HideReason::Replica as u8 | HideReason::Import as u8;
        self.sees_expired || self.space.hidden.0.load(Ordering::Relaxed) & told != 0
    }

    /// Whether a key that is given this deadline is removed at once.
    #[inline]
    pub fn has_passed(&self, deadline: UnixMs) -> bool {
        deadline <= self.now && !self.keeps_passed()
    }

    /// Whether a deadline that is set now is a client's of a replica, and the replica's to obey.
    #[inline]
    pub(crate) fn sets_own_deadlines(&self) -> bool {
        self.space.hidden.0.load(Ordering::Relaxed) & HideReason::Replica as u8 != 0
            && !self.sees_expired
    }

    /// Keys whose deadline is before this are removed.
    pub fn removed_at(&self) -> UnixMs {
        if self.sees_expired || self.space.hides_expired() { BEFORE_ALL } else { self.now }
    }
}
