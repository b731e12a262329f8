//! What INFO and ROLE report of a replica.

use std::sync::atomic::Ordering;

use pantala_base::clock::monotonic_us;

use super::{LinkPhase, Primary};
use crate::Replication;

/// The figures of a replica's link, for INFO and ROLE.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// The server that it follows.
    pub primary: Primary,
    /// The phase of the link.
    pub phase: LinkPhase,
    /// Seconds since bytes came from the primary; -1 without a link.
    pub heard_s: i64,
    /// Seconds without a link; -1 before the first one.
    pub down_s: i64,
    /// Everything before this position was applied.
    pub position: u64,
    /// Bytes received behind it that a pause holds back.
    pub unapplied_bytes: u64,
    /// The bytes of the snapshot that is being received: the total, if known, and those that are
    /// here.
    pub copy: Option<(u64, u64)>,
}

/// The figures, if this is a replica.
pub fn told(replication: &Replication) -> Option<LinkReport> {
    let following = &replication.following;
    let state = following.state();
    let (primary, phase) = (state.primary.clone()?, state.phase);
    drop(state);
    let since_s = |us: &std::sync::atomic::AtomicU64| {
        (monotonic_us().saturating_sub(us.load(Ordering::Relaxed)) / 1_000_000).cast_signed()
    };
    let copying = &following.copying;
    let copy = (phase == LinkPhase::Sync)
        .then(|| (copying.total.load(Ordering::Relaxed), copying.bytes.load(Ordering::Relaxed)));
    let had_link = following.down_us.load(Ordering::Relaxed) > 0;
    let is_connected = phase == LinkPhase::Connected;
    Some(LinkReport {
        primary,
        phase,
        heard_s: if is_connected { since_s(&following.heard_us) } else { -1 },
        down_s: if is_connected || !had_link { -1 } else { since_s(&following.down_us) },
        position: replication.downstream.stream.end(),
        unapplied_bytes: following.unapplied_bytes.load(Ordering::Relaxed),
        copy,
    })
}
