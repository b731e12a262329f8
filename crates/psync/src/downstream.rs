//! The stream of this server, and those that read it.

use crate::checkpoints::Checkpoints;
use crate::replicas::Replicas;
use crate::stream::ChangeStream;
use crate::waiters::Waiters;

/// What a server sends to its replicas, which replicas there are, and how far each is.
#[derive(Default)]
pub struct Downstream {
    /// The stream with its backlog.
    pub stream: ChangeStream,
    /// The replicas of this server.
    pub replicas: Replicas,
    /// The stream positions of the journal's steps.
    pub checkpoints: Checkpoints,
    /// Clients that wait until replicas have their writes (WAIT).
    pub waiters: Waiters,
}
