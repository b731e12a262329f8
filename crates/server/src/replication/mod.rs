//! Replication: this server as a primary, and as a replica.
//!
//! ```text
//! primary/  REPLCONF, PSYNC --> a connection becomes a replica's; its worker feeds it
//!           full copies: one snapshot for all replicas that wait
//! feed      the journal's thread appends the journal's steps to the stream
//! replica/  a thread follows the primary: full copy, then the stream, applied and passed on
//! ```
//!
//! Invariants
//! 1. The stream has one writer: the journal's thread on a primary, the link on a replica.
//! 2. A full copy and the stream after it meet at one position: nothing is missing, nothing twice.
//!
//! Not here: the stream itself, and the list of replicas (`pantala_psync`).

pub mod failover;
pub mod primary;
pub mod replica;
#[cfg(test)]
mod simulator;

use std::sync::Arc;
use std::time::Duration;

use pantala_commands::{Call, Lane, Stop};
use pantala_durability::Durability;
use pantala_psync::{Downstream, Phase};

use self::primary::Primary;
use crate::shared::Shared;
use pantala_engine::Message;

/// How long a client that asks for the stream's position waits for it to catch up.
const CATCH_UP_MOST: Duration = Duration::from_millis(100);

/// The state of replication: the stream, this server as a primary, and as a replica.
pub struct Replication {
    /// What the server keeps, and the role it does that in.
    pub durability: Arc<Durability>,
    /// The stream, the replicas, and how far each is.
    pub downstream: Arc<Downstream>,
    /// This server as a primary.
    pub primary: Primary,
    /// This server as a replica.
    pub following: replica::FollowState,
    /// The FAILOVER under way, if any.
    pub failover: failover::Failover,
}

impl Replication {
    /// The state of a server that has just started: a primary without replicas.
    pub fn new(durability: Arc<Durability>) -> Replication {
        Replication {
            downstream: Arc::clone(&durability.downstream),
            primary: Primary::default(),
            following: replica::FollowState::new(Arc::clone(&durability.role)),
            failover: failover::Failover::default(),
            durability,
        }
    }

    /// Whether this server is a replica.
    pub fn is_replica(&self) -> bool {
        self.following.is_replica()
    }

    /// Whether replicas may follow: of a server that is a replica itself, only once it has its
    /// primary's data.
    pub fn may_be_followed(&self) -> bool {
        !self.is_replica() || self.following.is_connected()
    }
}

/// Waits until everything that clients were answered is in the stream, before a client is told its
/// position. Only on a thread that may wait.
///
/// # Errors
/// This is no such thread: the command moves to the lane.
pub fn catch_up(call: &Call<'_, '_>) -> Result<(), Stop> {
    let shared = Shared::of(call);
    // Within a transaction its own changes hold the stream back.
    if !call.may_wait || !shared.durability.appending.is_fed() {
        return Ok(());
    }
    if call.lane == Lane::Worker {
        return Err(Stop::Lane);
    }
    let coming = shared.durability.appending.position(&shared.engine.journal);
    // After that time the reported position is slightly old.
    let _late = coming.recv_timeout(CATCH_UP_MOST);
    Ok(())
}

/// The stream has grown: drops what is not needed, and calls the workers that have replicas.
pub fn stream_grew(shared: &Shared) {
    primary::let_go(shared);
    for replica in shared.replication.downstream.replicas.all() {
        let follows = matches!(replica.phase(), Phase::Copying | Phase::Online);
        if follows && replica.call() {
            // A replica that has moved is called by its new worker itself.
            let _gone = shared.engine.workers.post(replica.worker(), Message::StreamGrew);
        }
    }
}
