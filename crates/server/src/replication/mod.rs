//! Replication: this server as a primary, and as a replica.
//!
//! ```text
//! primary/  REPLCONF, PSYNC --> a connection becomes a replica's; its worker feeds it
//!           full copies: one snapshot for all who wait
//! feed      the journal's thread appends to the stream what the journal says
//! replica/  a thread follows the primary: full copy, then the stream, applied and passed on
//! ```
//!
//! Invariants
//! 1. One at a time appends to the stream: the journal's thread at a primary, the link at a
//!    replica.
//! 2. A full copy and the stream after it meet at one position: nothing is missing, nothing twice.
//!
//! Not here: the stream itself, and who is a replica (`pantala_replication`).

pub mod failover;
pub mod failures;
pub mod moment;
pub mod primary;
pub mod replica;
#[cfg(test)]
mod simulator;

use std::time::Duration;

use pantala_commands::{Call, Lane, Stop};
use pantala_replication::{Checkpoints, Phase, Replicas, Stream, Waiters};

use self::primary::Primary;
use crate::shared::Shared;
use crate::workers::inbox::Message;

/// So long a client that asks where the stream is waits for it at most.
const CATCH_UP_MOST: Duration = Duration::from_millis(100);

/// The state of replication: the stream, this server as a primary, and as a replica.
#[derive(Default)]
pub struct Replication {
    /// The last bytes of the stream.
    pub stream: Stream,
    /// Who follows.
    pub replicas: Replicas,
    /// Positions of the journal's steps.
    pub checkpoints: Checkpoints,
    /// This server as their primary.
    pub primary: Primary,
    /// Whom this server follows, if anybody.
    pub following: replica::Following,
    /// Commands of others that have failed here.
    pub failures: failures::Failures,
    /// The roles of this server and a replica are being swapped.
    pub failover: failover::Failover,
    /// Who waits until replicas have what was written.
    pub waiters: Waiters,
}

impl Replication {
    /// Whether this server follows another one.
    pub fn is_replica(&self) -> bool {
        self.following.is_replica()
    }

    /// Whether others may follow: one that follows another one must have its data.
    pub fn may_be_followed(&self) -> bool {
        !self.is_replica() || self.following.is_connected()
    }
}

/// Before a client is told where the stream is: all that clients were answered is in it. Only on a
/// thread that may wait.
///
/// # Errors
/// This is no such thread: the command goes to the lane.
pub fn catch_up(call: &Call<'_, '_>) -> Result<(), Stop> {
    let shared = Shared::of(call);
    // Within a transaction its own changes hold the stream back.
    if !call.may_wait || !shared.appending.is_fed() {
        return Ok(());
    }
    if call.lane == Lane::Worker {
        return Err(Stop::Lane);
    }
    let coming = shared.appending.position(&shared.engine.journal);
    // What is told then is a little old.
    let _late = coming.recv_timeout(CATCH_UP_MOST);
    Ok(())
}

/// There is more of the stream: what nobody needs goes, and the workers that have replicas are
/// called.
pub fn stream_grew(shared: &Shared) {
    primary::let_go(shared);
    for replica in shared.replication.replicas.all() {
        let follows = matches!(replica.phase(), Phase::Copying | Phase::Online);
        if follows && replica.call() {
            // One that has moved on is called by its new worker itself.
            let _gone = shared.workers.post(replica.worker(), Message::StreamGrew);
        }
    }
}
