//! What coordination asks of the server.

use std::sync::Arc;

use pantala_cluster::{Endpoint, Membership, NodeId};

/// What a node knows of its replication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// The end of its stream, or of what it has of its primary's.
    pub offset: u64,
    /// Whether the link to its primary is up.
    pub is_linked: bool,
    /// The replicas that have almost all of the stream.
    pub synced: Vec<NodeId>,
}

/// What a node is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleTarget {
    /// The primary, since this epoch.
    Lead(u64),
    /// A replica of the node at this place, which had so much of the stream when it became the
    /// primary.
    Follow(NodeId, Endpoint, u64),
}

/// The server that takes part.
pub trait CoordinatedNode: Send + Sync + 'static {
    /// The monotonic time, in microseconds: that of turns.
    fn now_us(&self) -> u64;

    /// What the node knows of its replication.
    fn report(&self) -> NodeReport;

    /// The address of this node as others reach it, and its availability zone. `seen`: the address
    /// of this machine on the way to etcd.
    fn describe(&self, seen: &str) -> (Endpoint, String);

    /// The node may serve until this time (monotonic, microseconds).
    fn permit(&self, until_us: u64);

    /// The cluster has changed. Not to wait for anything.
    fn adopt(&self, all: &Arc<Membership>);

    /// Keeps what is known for the next run. May write a file.
    fn keep(&self);

    /// Changes the role. May wait.
    ///
    /// # Errors
    /// It has not changed; it is tried again.
    fn take_role(&self, role: &RoleTarget) -> Result<(), String>;

    /// Asks another node: a command of these words. May wait, for as long as a connection takes.
    ///
    /// # Errors
    /// It does not answer, or with an error.
    fn ask(&self, place: &Endpoint, words: &[&str]) -> Result<String, String>;

    /// Holds writes back, waits until this replica has everything, and commits. May wait for
    /// `most_ms`. What was held back goes on when the role has changed, or the commit has failed.
    ///
    /// # Errors
    /// The replica has not caught up, or the commit has failed.
    fn hand_over(
        &self,
        to: NodeId,
        most_ms: u64,
        commit: &mut dyn FnMut(u64) -> Result<(), String>,
    ) -> Result<(), String>;
}
