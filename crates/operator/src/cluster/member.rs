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
//!
//! Not here: the changes themselves (`pantala_cluster::Membership`). Tests: the server's
//! `tests/cluster.rs`.

use std::io;
use std::path::PathBuf;

use pantala_base::rng::Rng;
use pantala_cluster::{
    DownRules, Endpoint, Membership, MembershipError, Node, NodeId, RedirectTarget, SlotTable,
    Topology, nodes_file,
};
use pantala_commands::ClientError;
use pantala_durability::whole_file;
use pantala_engine::Message;
use pantala_settings::Settings;
use pantala_settings::field::EndpointType;
use parking_lot::Mutex;

use super::emulated;
use crate::Operator;

/// A node of a cluster.
pub struct ClusterMember {
    file: PathBuf,
    membership: Mutex<Membership>,
}

/// A random id.
pub(super) fn random_id() -> NodeId {
    let mut bytes = [0; 20];
    Rng::random().bytes(&mut bytes);
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    NodeId::parse(text.as_bytes()).unwrap_or_else(|| NodeId::of_name(&text))
}

/// Reads the file of the cluster, or begins a new one, and puts the slots in force. Without
/// `cluster-enabled` nothing happens.
///
/// # Errors
/// A text for the operator: the file cannot be read, or not be written.
pub fn begin(operator: &Operator) -> Result<(), String> {
    let settings = operator.engine.settings.current();
    if !settings.cluster_enabled {
        return Ok(());
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
    if let Some(place) = primary_place(&membership, &settings) {
        let (host, port) = place;
        let now = operator
            .engine
            .settings
            .change(|now| now.clone().with("replicaof", &format!("{host} {port}")));
        now.map_err(|why| wrong(&why))?;
    }
    apply(operator, &membership);
    let member = ClusterMember { file, membership: Mutex::new(membership) };
    // A server begins once.
    let _first = operator.cluster.set(member);
    Ok(())
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
    pub(super) fn membership(&self) -> Membership {
        self.membership.lock().clone()
    }

    /// Changes what this node knows of the cluster. On the slow lane: it writes a file.
    ///
    /// # Errors
    /// The change is refused, or cannot be written.
    pub(super) fn change<T>(
        &self,
        operator: &Operator,
        change: impl FnOnce(&mut Membership) -> Result<T, MembershipError>,
    ) -> Result<T, ClientError> {
        let mut current = self.membership.lock();
        let mut next = current.clone();
        let done =
            change(&mut next).map_err(|refused| ClientError::new(format!("ERR {refused}")))?;
        save(&self.file, &next, &operator.engine.settings.current()).map_err(|error| {
            tracing::warn!("cannot write {}: {error}", self.file.display());
            ClientError::new(format!("ERR error saving the cluster node config: {error}"))
        })?;
        apply(operator, &next);
        *current = next;
        Ok(done)
    }

    /// Puts the slots in force by the settings now, which have changed.
    pub(crate) fn apply_settings(&self, operator: &Operator) {
        apply(operator, &self.membership.lock());
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
                *node = Node { role: node.role, epoch, ..me.clone() };
            }
        });
        topology.needs_full_coverage = settings.cluster_require_full_coverage;
        topology
    }
}
