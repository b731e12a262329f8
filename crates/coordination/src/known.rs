//! What is known of the cluster at one moment.

use std::sync::Arc;

use pantala_base::rng::Rng;
use pantala_cluster::layout::ClusterView;
use pantala_cluster::{Membership, NodeId};

/// What is known of the cluster.
#[derive(Clone, Debug)]
pub struct KnownCluster {
    /// Its name in etcd; empty: etcd has not been reached yet.
    pub name: String,
    /// Its keys.
    pub view: Arc<ClusterView>,
    /// Its nodes and slots.
    pub membership: Arc<Membership>,
    /// The lease of this node.
    pub lease: Option<u64>,
    /// Since which epoch this node leads its shard.
    pub leads_since: Option<u64>,
    /// Whether etcd has answered within the last seconds.
    pub is_heard: bool,
}

impl KnownCluster {
    /// What was kept from the last run.
    pub(crate) fn kept(membership: Membership) -> KnownCluster {
        KnownCluster {
            name: String::new(),
            view: Arc::default(),
            membership: Arc::new(membership),
            lease: None,
            leads_since: None,
            is_heard: false,
        }
    }

    /// The id of this node.
    pub fn my_id(&self) -> NodeId {
        self.membership.my_id()
    }
}

/// A random id, of a node or a shard.
pub fn random_id() -> NodeId {
    let mut bytes = [0; 20];
    Rng::random().bytes(&mut bytes);
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    NodeId::parse(text.as_bytes()).unwrap_or_else(|| NodeId::of_name(&text))
}
