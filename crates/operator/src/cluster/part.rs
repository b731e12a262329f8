//! This server as coordination sees it: what it reports, and how it changes its role.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_cluster::{Endpoint, Membership, NodeId};
use pantala_coordination::{
    CoordinatedNode, Coordination, CoordinationOptions, NodeReport, RoleTarget,
};
use pantala_etcd::EtcdConfig;
use pantala_psync::{Phase, Replica};
use pantala_replication::commands::change_role;
use pantala_replication::failover::{FailoverRequest, yield_role};
use pantala_replication::primary::address;
use pantala_replication::replica::{self, LinkPhase, Primary};
use pantala_settings::Settings;

use super::{emulated, peers};
use crate::Operator;

/// The shortest and the longest time to live of a lease, in seconds: etcd grants none that is
/// shorter than one and a half elections of its own.
const TTL_S: (u64, u64) = (2, 5);
/// A replica that has acknowledged within this time has almost all of the stream: it does each
/// second.
const FRESH_US: u64 = 3_000_000;

/// How long a node that stops waits for the replica that takes over.
const MOST_HAND_OVER_MS: u64 = 3000;

/// The server, which coordination does not keep alive.
struct ServerPart(Weak<Operator>);

/// Begins to take part in the cluster that etcd keeps, if one is set. Once the data is loaded: a
/// node without its data must not lead.
///
/// # Errors
/// A text for the operator.
pub fn take_part(operator: &Operator) -> Result<(), String> {
    let settings = operator.engine.settings.current();
    let (Some(member), false) = (operator.cluster.get(), settings.cluster_etcd.is_empty()) else {
        return Ok(());
    };
    let part: Arc<dyn CoordinatedNode> = Arc::new(ServerPart(operator.weak()));
    let kept = Membership::clone(&member.membership());
    let coordination = Coordination::begin(part, kept, options(&settings))?;
    // A server begins once.
    let _first = member.coordination.set(coordination);
    Ok(())
}

/// The time to live of leases, in seconds.
fn ttl_s(settings: &Settings) -> u64 {
    settings.cluster_node_timeout_ms.div_ceil(1000).clamp(TTL_S.0, TTL_S.1)
}

fn options(settings: &Settings) -> CoordinationOptions {
    let ttl_s = ttl_s(settings);
    CoordinationOptions {
        etcd: EtcdConfig {
            endpoints: settings.cluster_etcd.split(',').map(|one| one.trim().to_owned()).collect(),
            user: settings.cluster_etcd_user.clone(),
            password: settings.cluster_etcd_password.clone(),
            ca_file: settings.cluster_etcd_ca_file.clone(),
            cert_file: settings.cluster_etcd_cert_file.clone(),
            key_file: settings.cluster_etcd_key_file.clone(),
            // Another member is asked while the lease lives.
            timeout: Duration::from_millis(ttl_s * 1000 / 4),
        },
        cluster_name: settings.cluster_name.clone(),
        ttl_s,
        has_failsafe: settings.cluster_etcd_failsafe,
    }
}

/// The id of a replica as a node, if it has told it.
fn node_of(replica: &Replica) -> Option<NodeId> {
    NodeId::parse(replica.announced().node.as_ref()?.as_bytes())
}

impl ServerPart {
    fn operator(&self) -> Result<Arc<Operator>, String> {
        self.0.upgrade().ok_or_else(|| "the server stops".into())
    }
}

impl CoordinatedNode for ServerPart {
    fn now_us(&self) -> u64 {
        monotonic_us()
    }

    fn report(&self) -> NodeReport {
        let Ok(operator) = self.operator() else { return NodeReport::default() };
        let replication = &operator.replication;
        let now_us = monotonic_us();
        let is_synced = |replica: &&Arc<Replica>| {
            let acknowledged = replica.acknowledged();
            replica.phase() == Phase::Online
                && acknowledged.has_spoken
                && now_us < acknowledged.heard_us + FRESH_US
        };
        let replicas = replication.downstream.replicas.all();
        let link = replica::told(replication);
        NodeReport {
            offset: replication.downstream.stream.end(),
            is_linked: link.is_some_and(|link| link.phase == LinkPhase::Connected),
            synced: replicas.iter().filter(is_synced).filter_map(|one| node_of(one)).collect(),
        }
    }

    fn describe(&self, seen: &str) -> (Endpoint, String) {
        let Ok(operator) = self.operator() else { return Default::default() };
        let settings = operator.engine.settings.current();
        let is_everywhere = |ip: &str| matches!(ip, "" | "*" | "0.0.0.0" | "::" | "::*");
        let bound = settings.bind.iter().map(|ip| ip.trim_start_matches('-'));
        let bound = bound
            .clone()
            .find(|ip| !is_everywhere(ip))
            .filter(|_| settings.bind.iter().all(|ip| !is_everywhere(ip.trim_start_matches('-'))));
        let mut endpoint = emulated::my_endpoint(&settings, "");
        if endpoint.ip.is_empty() {
            endpoint.ip = bound.unwrap_or(seen).to_owned();
        }
        (endpoint, settings.availability_zone.clone())
    }

    fn permit(&self, until_us: u64) {
        let Ok(operator) = self.operator() else { return };
        let fence = &operator.engine.slots.fence;
        match until_us {
            // Another one may lead before this node does again.
            0 if fence.until() != 0 => fence.end(),
            0 => {}
            until_us => fence.set_until(until_us),
        }
    }

    fn adopt(&self, all: &Arc<Membership>) {
        if let Ok(operator) = self.operator()
            && let Some(member) = operator.cluster.get()
        {
            member.adopt(&operator, all);
        }
    }

    fn keep(&self) {
        if let Ok(operator) = self.operator()
            && let Some(member) = operator.cluster.get()
        {
            member.keep(&operator);
        }
    }

    fn take_role(&self, role: &RoleTarget) -> Result<(), String> {
        let operator = self.operator()?;
        let replication = &operator.replication;
        match role {
            RoleTarget::Lead(_) => change_role(replication, None),
            RoleTarget::Follow(id, place, forked_at) => {
                let tls = operator.engine.settings.current().tls_replication;
                let primary = Primary { host: place.ip.clone(), port: place.port_for(tls) };
                if replication.following.follows(&primary) {
                    return Ok(());
                }
                if !replication.is_replica() {
                    tell_discarded(&operator, *id, *forked_at);
                }
                change_role(replication, Some(&primary))
            }
        }
    }

    fn ask(&self, place: &Endpoint, words: &[&str]) -> Result<String, String> {
        let operator = self.operator()?;
        let settings = operator.engine.settings.current();
        let most = match words {
            [_, "YIELD", ..] => settings.cluster_manual_failover_timeout_ms + 1000,
            _ => ttl_s(&settings) * 1000 / 4,
        };
        peers::ask(&settings, place, words, Duration::from_millis(most))
    }

    fn hand_over(
        &self,
        to: NodeId,
        most_ms: u64,
        commit: &mut dyn FnMut(u64) -> Result<(), String>,
    ) -> Result<(), String> {
        let operator = self.operator()?;
        let replicas = operator.replication.downstream.replicas.all();
        let replica = replicas.iter().find(|one| node_of(one) == Some(to));
        let (host, port) = address(replica.ok_or("the replica is not connected")?);
        let wanted = FailoverRequest {
            target: Some(Primary { host, port }),
            timeout: Some(Duration::from_millis(most_ms)),
            is_forced: false,
        };
        let _others_run = operator.engine.lane.compensate();
        yield_role(&operator.replication, &wanted, commit)
    }
}

/// Says how much this server had as a primary that the next one does not have.
fn tell_discarded(operator: &Operator, primary: NodeId, forked_at: u64) {
    let had = operator.replication.downstream.stream.end();
    let bytes = had.saturating_sub(forked_at);
    if bytes == 0 {
        return;
    }
    tracing::warn!(
        bytes,
        primary = %primary,
        "what this server has written as the primary and the new one does not have is discarded"
    );
    if let Some(member) = operator.cluster.get() {
        member.discarded_bytes.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Whether this server takes part in a cluster that etcd keeps.
pub fn takes_part(operator: &Operator) -> bool {
    operator.cluster.get().is_some_and(|member| member.coordination.get().is_some())
}

/// Hands the role of primary over before this node stops, within the time that a stop may take.
pub fn hand_over_role(operator: &Operator) {
    let settings = operator.engine.settings.current();
    if let Some(coordination) = operator.cluster.get().and_then(|one| one.coordination.get()) {
        let most_ms = u64::from(settings.shutdown_timeout_s) * 1000;
        coordination.hand_over_to_any(most_ms.min(MOST_HAND_OVER_MS));
    }
}

/// Gives the lease back: this node stops.
pub fn leave(operator: &Operator) {
    if let Some(coordination) = operator.cluster.get().and_then(|one| one.coordination.get()) {
        coordination.stop();
    }
}
