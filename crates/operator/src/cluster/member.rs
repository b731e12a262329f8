//! This server as a node of a real cluster (`cluster-enabled`): what it knows of the cluster, the
//! file that keeps it, and the slot table that follows.
//!
//! ```text
//! CLUSTER ADDSLOTS ... --> change: a copy of the membership
//!                          --> the file --> the membership --> the slot table --> all threads
//! ```
//!
//! Invariants
//! 1. A change is in the file before it is in force, and in force before it is answered.
//! 2. A change that is refused, or cannot be written, has changed nothing.
//! 3. Readers, workers among them, never wait for the file: they take the membership in force,
//!    which is replaced as a whole.
//!
//! Not here: the changes themselves (`pantala_cluster::Membership`). Tests: the server's
//! `tests/cluster.rs`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pantala_base::clock::monotonic_us;
use pantala_cluster::{
    DownRules, Endpoint, Health, Membership, MembershipError, Node, NodeId, RedirectTarget,
    SlotTable, Topology, nodes_file,
};
use pantala_commands::ClientError;
use pantala_coordination::{ChangeFailure, Coordination, random_id};
use pantala_durability::whole_file;
use pantala_engine::Message;
use pantala_engine::engine::slots_cell::WritePermit;
use pantala_settings::Settings;
use pantala_settings::field::{ClusterMode, EndpointType};
use parking_lot::{Mutex, RwLock};

use super::emulated;
use crate::Operator;

/// For how long a node that was removed is remembered, as long as Valkey does not add it again.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// This server as a node of a cluster: its membership, and what keeps it.
pub struct ClusterMember {
    file: PathBuf,
    /// Its part in the cluster that etcd keeps; absent: the file keeps the cluster.
    pub(super) coordination: OnceLock<Coordination>,
    /// How much it had as a primary that the next one did not have.
    pub(super) discarded_bytes: AtomicU64,
    /// Nodes that were members, and when they were removed.
    forgotten: Mutex<BTreeMap<NodeId, Instant>>,
    /// Held while the file is written for what etcd says.
    keeping: Mutex<()>,
    /// Held while a change is written.
    changing: Mutex<()>,
    membership: RwLock<Arc<Membership>>,
}

/// Reads the file of the cluster, or begins a new one, and puts the slots in force. Without
/// `cluster-enabled` nothing happens.
///
/// # Errors
/// A text for the operator: the file cannot be read, or not be written.
pub fn begin(operator: &Operator) -> Result<(), String> {
    let settings = operator.engine.settings.current();
    if !settings.cluster_enabled {
        return match settings.cluster_etcd.is_empty() {
            true => Ok(()),
            false => Err("cluster-etcd needs cluster-enabled yes".to_owned()),
        };
    }
    if settings.cluster_mode != ClusterMode::Off {
        return Err("cluster-enabled and cluster_mode exclude each other".to_owned());
    }
    let file = PathBuf::from(&settings.dir).join(&settings.cluster_config_file);
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let membership = match std::fs::read_to_string(&file) {
        Ok(text) if !text.is_empty() => nodes_file::parse(&text).map_err(|why| wrong(&why))?,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(&error)),
        _ => {
            let set = NodeId::parse(settings.cluster_node_id.as_bytes());
            let id = set.unwrap_or_else(random_id);
            tracing::info!("No cluster configuration found, I'm {id}");
            Membership::alone(id, random_id())
        }
    };
    save(&file, &membership, &settings).map_err(|error| wrong(&error))?;
    let primary = primary_place(&membership, &settings);
    take_role(operator, primary).map_err(|why| wrong(&why))?;
    apply(operator, &membership);
    let membership = RwLock::new(Arc::new(membership));
    if !settings.cluster_etcd.is_empty() {
        // Nothing is served before etcd has said that it may be.
        operator.engine.slots.fence.end();
    }
    *operator.replication.node_id.write() = membership.read().my_id().to_string();
    let member = ClusterMember {
        file,
        coordination: OnceLock::new(),
        discarded_bytes: AtomicU64::new(0),
        forgotten: Mutex::default(),
        keeping: Mutex::new(()),
        changing: Mutex::new(()),
        membership,
    };
    // A server begins once.
    let _first = operator.cluster.set(member);
    Ok(())
}

/// The error of a command that has not changed the cluster.
pub(super) fn failure(why: ChangeFailure) -> ClientError {
    ClientError::new(format!("ERR {why}"))
}

/// Makes the server start in the role that the file of the cluster tells, whatever `replicaof`
/// says.
fn take_role(operator: &Operator, primary: Option<(String, u16)>) -> Result<(), String> {
    let told = primary.map_or(String::new(), |(host, port)| format!("{host} {port}"));
    let changed = operator.engine.settings.change(|now| now.clone().with("replicaof", &told));
    changed.map(drop).map_err(|why| why.to_string())
}

/// Where the primary that this node follows is reached.
fn primary_place(membership: &Membership, settings: &Settings) -> Option<(String, u16)> {
    let primary = membership.members().get(&membership.me().primary?)?;
    let place = &primary.endpoint;
    Some((place.ip.clone(), place.port_for(settings.tls_replication)))
}

/// Writes the file. Of this node it has the addresses that the settings tell.
fn save(file: &std::path::Path, membership: &Membership, settings: &Settings) -> io::Result<()> {
    let mut told = membership.clone();
    told.describe_me(emulated::my_endpoint(settings, ""), settings.availability_zone.clone());
    whole_file::replace(file, nodes_file::print(&told).as_bytes())
}

/// Puts the slots of a membership in force, in all threads.
fn apply(operator: &Operator, membership: &Membership) {
    let settings = operator.engine.settings.current();
    let rules = DownRules {
        needs_full_coverage: settings.cluster_require_full_coverage,
        allows_reads: settings.cluster_allow_reads_when_down,
        allows_channels: settings.cluster_allow_pubsubshard_when_down,
    };
    let target = |id: NodeId| {
        let member = &membership.members()[&id];
        redirect_target(&member.endpoint, settings.cluster_preferred_endpoint_type)
    };
    let table = SlotTable::new(membership, rules, target);
    operator.engine.slots.replace(table, &operator.engine.settings);
    operator.engine.workers.post_all(&|| Message::SlotsChanged);
}

fn redirect_target(place: &Endpoint, named_by: EndpointType) -> RedirectTarget {
    let host = match named_by {
        EndpointType::Ip => place.ip.clone(),
        EndpointType::Hostname if place.hostname.is_empty() => "?".into(),
        EndpointType::Hostname => place.hostname.clone(),
        EndpointType::Unknown => String::new(),
    };
    RedirectTarget { host, port: place.port, tls_port: place.tls_port }
}

impl ClusterMember {
    /// What this node knows of the cluster.
    pub(super) fn membership(&self) -> Arc<Membership> {
        Arc::clone(&self.membership.read())
    }

    /// The part of this node in the cluster that etcd keeps, if it does. For threads that may wait:
    /// it begins a moment after the first clients have come.
    pub(super) fn part(&self, operator: &Operator) -> Option<&Coordination> {
        match operator.engine.settings.current().cluster_etcd.is_empty() {
            true => None,
            false => Some(self.coordination.wait()),
        }
    }

    /// Takes over what etcd says of the cluster.
    pub(super) fn adopt(&self, operator: &Operator, all: &Arc<Membership>) {
        let _no_other_changes = self.changing.lock();
        self.remember_forgotten(all);
        *operator.replication.node_id.write() = all.my_id().to_string();
        apply(operator, all);
        *self.membership.write() = Arc::clone(all);
    }

    /// Remembers the nodes that are gone: each node is told to forget them.
    fn remember_forgotten(&self, all: &Membership) {
        let before = self.membership();
        let gone = before.members().keys().filter(|id| !all.members().contains_key(id));
        let mut forgotten = self.forgotten.lock();
        forgotten.retain(|_, since| since.elapsed() < FORGOTTEN);
        forgotten.extend(gone.map(|id| (*id, Instant::now())));
    }

    /// Whether this node was a member until a short time ago.
    pub(super) fn was_forgotten(&self, id: NodeId) -> bool {
        self.forgotten.lock().get(&id).is_some_and(|since| since.elapsed() < FORGOTTEN)
    }

    /// Writes what etcd says of the cluster to the file, for a start while etcd is silent.
    pub(super) fn keep(&self, operator: &Operator) {
        let settings = operator.engine.settings.current();
        // Of two threads that come with one after the other the second may be the first here.
        let _one_at_a_time = self.keeping.lock();
        let all = self.membership();
        if let Err(error) = whole_file::replace(&self.file, nodes_file::print(&all).as_bytes()) {
            tracing::warn!("cannot write {}: {error}", settings.cluster_config_file);
        }
    }

    /// Changes the cluster. On the slow lane: it writes a file, or waits for etcd.
    ///
    /// # Errors
    /// The change is refused, or cannot be made.
    pub(super) fn change<T>(
        &self,
        operator: &Operator,
        mut change: impl FnMut(&mut Membership) -> Result<T, MembershipError>,
    ) -> Result<T, ClientError> {
        if let Some(coordination) = self.part(operator) {
            let _others_run = operator.engine.lane.compensate();
            return coordination.change(change).map_err(failure);
        }
        let _one_at_a_time = self.changing.lock();
        let mut next = Membership::clone(&self.membership());
        let done =
            change(&mut next).map_err(|refused| ClientError::new(format!("ERR {refused}")))?;
        save(&self.file, &next, &operator.engine.settings.current()).map_err(|error| {
            tracing::warn!("cannot write {}: {error}", self.file.display());
            ClientError::new(format!("ERR error saving the cluster node config: {error}"))
        })?;
        apply(operator, &next);
        *self.membership.write() = Arc::new(next);
        Ok(done)
    }

    /// Puts the slots in force by the settings now, which have changed.
    pub(crate) fn apply_settings(&self, operator: &Operator) {
        let _no_other_changes = self.changing.lock();
        apply(operator, &self.membership());
    }

    /// The topology, told to a client that has connected to the address `local`.
    pub(super) fn topology(&self, operator: &Operator, local: &str) -> Topology {
        let settings = operator.engine.settings.current();
        let all = self.membership();
        let my_id = all.my_id();
        let me = emulated::this_node(operator, &settings, my_id, local);
        let mut topology = Topology::of(&all, |node: &mut Node| {
            if node.id == my_id {
                let epoch = node.epoch;
                let health = match node.health {
                    Health::Online => me.health,
                    // etcd knows better: it does not lead yet, or is not in sync.
                    worse => worse,
                };
                *node = Node { role: node.role, epoch, health, ..me.clone() };
            }
        });
        topology.needs_full_coverage = settings.cluster_require_full_coverage;
        let permit = operator.engine.slots.fence.permit(monotonic_us());
        topology.is_fenced = all.me().primary.is_none() && permit == WritePermit::Ended;
        topology
    }
}
