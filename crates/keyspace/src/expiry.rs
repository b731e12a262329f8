//! What becomes of a key whose deadline has passed.
//!
//! | who asks | keys are removed | there is a reason to hide them |
//! |---|---|---|
//! | a command, a walk | removes the key on the way, sees none | sees none, leaves it |
//! | one who sees the expired ([`Scope::sees_expired`]) | sees the key | sees the key |
//! | the sweep, a segment that is full | remove it | leave it |
//!
//! A replica hides: a key is there until its primary says that it is gone, so that both have the
//! same data at the same place of the stream. The stream itself is applied by one who sees the
//! expired. So does whoever loads a file, or fills a server from another one. CLIENT PAUSE hides,
//! so that data stays as it is while it lasts.
//!
//! A command that makes a key in the place of a hidden one removes that first, and this is
//! announced as always.
//!
//! Invariant
//! 1. Whether a deadline has passed is asked with [`Scope::seen_at`] by those who read, with
//!    [`Scope::removed_at`] by those who remove, and nowhere else.
//!
//! Tests: `tests/expiry.rs`.

use std::sync::atomic::{AtomicU8, Ordering};

use pantala_base::UnixMs;

use crate::Keyspace;
use crate::locked::Scope;

/// Why keys whose deadline has passed are hidden and not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HideReason {
    /// This is a replica.
    Replica = 1,
    /// Clients are paused.
    Paused = 2,
}

/// The reasons there are, a bit each.
#[derive(Debug, Default)]
pub(crate) struct HideReasons(AtomicU8);

impl Keyspace {
    /// From now on there is this reason to hide keys that have expired, or there is not.
    pub fn hide_expired(&self, reason: HideReason, on: bool) {
        let bit = reason as u8;
        if on {
            self.hidden.0.fetch_or(bit, Ordering::SeqCst);
        } else if self.hidden.0.fetch_and(!bit, Ordering::SeqCst) == bit {
            self.sweep.wake();
        }
    }

    /// Whether keys that have expired are hidden and not removed.
    #[inline]
    pub fn hides_expired(&self) -> bool {
        self.hidden.0.load(Ordering::Relaxed) != 0
    }
}

/// No deadline has passed at this time.
const BEFORE_ALL: UnixMs = UnixMs(i64::MIN);

impl Scope<'_> {
    /// Who reads sees no key whose deadline is before this.
    #[inline]
    pub(crate) fn seen_at(&self) -> UnixMs {
        if self.sees_expired { BEFORE_ALL } else { self.now }
    }

    /// A key whose deadline is before this is removed.
    pub(crate) fn removed_at(&self) -> UnixMs {
        if self.sees_expired || self.space.hides_expired() { BEFORE_ALL } else { self.now }
    }
}
