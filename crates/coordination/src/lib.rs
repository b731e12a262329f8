//! A node's part in its cluster, over etcd: it registers, watches, keeps its lease, stands for
//! election, and carries out what operators change.
//!
//! ```text
//! etcd --watch--> view --> membership ------------------> CoordinatedNode::adopt
//!                      --> state of the shard --> ShardControl --> lead, follow   (thread "role")
//!      <--lease, proofs, transactions--------------'         '--> CoordinatedNode::permit
//! ```
//!
//! | file | what |
//! |---|---|
//! | `node` | what is asked of the server |
//! | `known` | what is known of the cluster: published to all |
//! | `driver` | the task that watches and controls |
//! | `entry` | how a node enters its cluster, or one of its own |
//! | `requests` | the requests of the control, as etcd's |
//! | `roles` | the thread on which the role changes |
//! | `promises` | what nodes promise each other while etcd is silent |
//! | `changes` | changes of operators: slots, nodes, MEET, RESET, hand-over |
//!
//! Invariants
//! 1. Nothing here is on the way of a command: one thread of its own runs all, and commands read
//!    what it has published.
//! 2. Everything but a clear no of etcd counts as no answer: what follows from silence is that the
//!    permission to write ends by itself.
//! 3. A change is answered after its transaction was done and this node has seen it.
//!
//! Not here: the protocol of etcd (`pantala_etcd`); who may write when, and what follows from the
//! keys (`pantala_cluster`); the server (`pantala_operator::cluster`). Tests:
//! compat/clients/cluster_etcd.py.

#![forbid(unsafe_code)]

mod changes;
mod driver;
mod entry;
mod known;
mod node;
mod promises;
mod requests;
mod roles;

use std::sync::Arc;
use std::thread::Builder;

use pantala_cluster::Membership;
use pantala_etcd::{Etcd, EtcdConfig};
use tokio::sync::{mpsc, watch};

pub use changes::ChangeFailure;
pub use known::{KnownCluster, random_id};
pub use node::{CoordinatedNode, NodeReport, RoleTarget};

use driver::{Driver, DriverRequest};

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct CoordinationOptions {
    /// How etcd is reached.
    pub etcd: EtcdConfig,
    /// The name of the cluster; empty: a node begins as a cluster of its own.
    pub cluster_name: String,
    /// The time to live of the lease, in seconds.
    pub ttl_s: u64,
    /// Whether a primary goes on while etcd is silent and all that may take its place promise not
    /// to.
    pub has_failsafe: bool,
}

/// The coordination of this node, as other threads use it.
pub struct Coordination {
    etcd: Etcd,
    known: watch::Receiver<KnownCluster>,
    requests: mpsc::UnboundedSender<DriverRequest>,
    runtime: tokio::runtime::Handle,
    node: Arc<dyn CoordinatedNode>,
    /// Held while a change is made: of two of this node one waits for the other.
    changing: parking_lot::Mutex<()>,
}

impl Coordination {
    /// Begins to take part, as the node of this membership, which was kept from the last run.
    ///
    /// # Errors
    /// A text for the operator: a certificate cannot be read, or the system has no thread.
    pub fn begin(
        node: Arc<dyn CoordinatedNode>,
        kept: Membership,
        options: CoordinationOptions,
    ) -> Result<Coordination, String> {
        let etcd = Etcd::new(options.etcd.clone()).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the thread of the cluster: {error}"))?;
        let (sender, known) = watch::channel(KnownCluster::kept(kept));
        let (requests, taken) = mpsc::unbounded_channel();
        let handle = runtime.handle().clone();
        let driver = Driver::new(
            Arc::clone(&node),
            etcd.clone(),
            options,
            (sender, taken, requests.clone()),
        )?;
        let life = move || {
            runtime.block_on(driver.run());
            // Requests that block may go on: nobody waits for them.
            runtime.shutdown_background();
        };
        let spawned = Builder::new().name("cluster".into()).spawn(life);
        spawned.map_err(|error| format!("cannot start the thread of the cluster: {error}"))?;
        let changing = parking_lot::Mutex::default();
        Ok(Coordination { etcd, known, requests, runtime: handle, node, changing })
    }

    /// What is known of the cluster now.
    pub fn known(&self) -> KnownCluster {
        self.known.borrow().clone()
    }
}
