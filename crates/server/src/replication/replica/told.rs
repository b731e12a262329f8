//! What INFO and ROLE tell of a replica.

use std::sync::atomic::Ordering;

use pantala_base::clock::monotonic_us;

use super::{LinkPhase, Primary};
use crate::shared::Shared;

/// The figures of a replica's link, for INFO and ROLE.
#[derive(Clone, Debug)]
pub struct Told {
    /// Whom it follows.
    pub primary: Primary,
    /// How far the link is.
    pub phase: LinkPhase,
    /// Seconds since the primary was heard of; -1 without a link.
    pub heard_s: i64,
    /// Seconds without a link; -1 before the first one.
    pub down_s: i64,
    /// All before this position was applied.
    pub position: u64,
    /// The bytes of the snapshot that comes: all, if that is known, and those that are here.
    pub copy: Option<(u64, u64)>,
}

/// What there is to be told, if this is a replica.
pub fn told(shared: &Shared) -> Option<Told> {
    let following = &shared.replication.following;
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
    Some(Told {
        primary,
        phase,
        heard_s: if is_connected { since_s(&following.heard_us) } else { -1 },
        down_s: if is_connected || !had_link { -1 } else { since_s(&following.down_us) },
        position: shared.replication.stream.end(),
        copy,
    })
}
