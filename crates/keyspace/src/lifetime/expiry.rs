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
//! expired. So does whoever loads a file, or fills a server from another one (`import-mode`), which
//! hides too; but there who is no source may write, and what has expired gives way to a command
//! that opens it to change it. CLIENT PAUSE hides, so that data stays as it is while it lasts.
//!
//! A replica and a server that is filled are told when a key goes: a deadline that has passed
//! already is kept like any other ([`Scope::has_passed`]); elsewhere such a key goes at once.
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
use crate::access::locked::Scope;

/// Why keys whose deadline has passed are hidden and not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HideReason {
    /// This is a replica.
    Replica = 1,
    /// Clients are paused.
    Paused = 2,
    /// The server is filled from another one.
    Import = 4,
    /// A journal is loaded, which says itself what is gone.
    Loading = 8,
    /// The server starts, and who has followed is to hear of what goes.
    Starting = 16,
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

    /// Whether what is hidden goes when a command opens it to change it.
    #[inline]
    pub(crate) fn gives_way_to_writers(&self) -> bool {
        self.hidden.0.load(Ordering::Relaxed) == HideReason::Import as u8
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

    /// Whether a key may be given a deadline that has passed, instead of going at once.
    pub(crate) fn keeps_passed(&self) -> bool {
        let told = HideReason::Replica as u8 | HideReason::Import as u8;
        self.sees_expired || self.space.hidden.0.load(Ordering::Relaxed) & told != 0
    }

    /// Whether what is given this deadline is gone at once.
    #[inline]
    pub fn has_passed(&self, deadline: UnixMs) -> bool {
        deadline <= self.now && !self.keeps_passed()
    }

    /// A key whose deadline is before this is removed.
    pub fn removed_at(&self) -> UnixMs {
        if self.sees_expired || self.space.hides_expired() { BEFORE_ALL } else { self.now }
    }
}
