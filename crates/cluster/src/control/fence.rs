//! The fence: until when this node may write as the primary of its shard.
//!
//! ```text
//! t0 --- keepalive is answered, in term T --- the primary's key is read, in term T: it is mine
//!  `--> writes are permitted until t0 + TTL less what clocks may differ by
//! ```
//!
//! The store deletes the key of a primary when its lease ends, and that is a whole TTL after the
//! leader of the store took the last keepalive. So nobody else can be the primary before this
//! node's permission has ended, if
//!
//! 1. the time counts from before the keepalive was sent, and clocks run alike within one percent;
//! 2. the keepalive was taken by the leader that counts: a leader that was voted out answers
//!    keepalives, too, until it learns of it. Reading the key needs a majority, and an answer of
//!    the same term proves that the leader was the same.
//!
//! While the store is silent, all other nodes that may win can promise not to: that permits writes
//! until the promises end. Such a permission counts only for the nodes that were asked, so it ends
//! when another one is allowed to win.
//!
//! No wall clock is used. Tests: at the foot; `simulation`.

/// The longest and the shortest clock differ by this part of the time, at most: one percent each.
const CLOCK_PARTS: u64 = 50;
/// What is left before the end, for what happens between the check and the effect.
const MARGIN_US: u64 = 150_000;

/// The permission to write of a primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritePermission {
    proven_us: u64,
    promised_us: u64,
}

/// The first half of a proof: a keepalive that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptAlive {
    /// When it was sent (monotonic, microseconds).
    pub sent_us: u64,
    /// The time to live of the lease, as the store answered.
    pub ttl_us: u64,
    /// The term in which it was answered.
    pub term: u64,
}

impl WritePermission {
    /// Whether writes are permitted at this time (monotonic, microseconds).
    pub fn holds(self, now_us: u64) -> bool {
        now_us < self.until_us()
    }

    /// Its end (monotonic, microseconds).
    pub fn until_us(self) -> u64 {
        self.proven_us.max(self.promised_us)
    }

    /// Extends it: the key of the primary was read after the keepalive, in this term, and is this
    /// node's. False if that proves nothing.
    pub fn extend(&mut self, kept: KeptAlive, read_term: u64) -> bool {
        if kept.term != read_term {
            return false;
        }
        self.proven_us = self.proven_us.max(end_of(kept.sent_us, kept.ttl_us));
        true
    }

    /// Extends it: all other nodes that may win were asked at this time (monotonic, microseconds),
    /// and have promised not to for so many microseconds.
    pub fn extend_by_promises(&mut self, asked_us: u64, lasts_us: u64) {
        self.promised_us = self.promised_us.max(end_of(asked_us, lasts_us));
    }

    /// Ends what follows from promises: a node may win that has promised nothing.
    pub fn forget_promises(&mut self) {
        self.promised_us = 0;
    }

    /// Ends it at once.
    pub fn end(&mut self) {
        *self = WritePermission::default();
    }
}

/// The end of a time that others count from later, less what clocks may differ by.
fn end_of(from_us: u64, lasts_us: u64) -> u64 {
    let lasts_us = (lasts_us - lasts_us / CLOCK_PARTS).saturating_sub(MARGIN_US);
    from_us.saturating_add(lasts_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL_US: u64 = 5_000_000;

    #[test]
    fn it_ends_before_the_lease_can() {
        let mut permission = WritePermission::default();
        assert!(!permission.holds(0));
        let kept = KeptAlive { sent_us: 1_000_000, ttl_us: TTL_US, term: 3 };
        assert!(permission.extend(kept, 3));
        let last_us = 1_000_000 + TTL_US - TTL_US / 50 - MARGIN_US;
        assert_eq!((permission.holds(last_us - 1), permission.holds(last_us)), (true, false));
        assert!(permission.extend(KeptAlive { sent_us: 500_000, ..kept }, 3));
        assert_eq!(permission.until_us(), last_us, "it never shrinks");
        permission.extend_by_promises(2_000_000, TTL_US);
        assert_eq!(permission.until_us(), last_us + 1_000_000);
        permission.forget_promises();
        assert_eq!(permission.until_us(), last_us, "what is proven stays");
        permission.end();
        assert!(!permission.holds(1_000_001));
    }

    #[test]
    fn a_keepalive_of_another_term_proves_nothing() {
        let mut permission = WritePermission::default();
        let kept = KeptAlive { sent_us: 1_000_000, ttl_us: TTL_US, term: 3 };
        assert!(!permission.extend(kept, 4));
        assert!(!permission.holds(1_000_000));
    }
}
