//! The topology of an emulated cluster: one shard with every slot, its primary and its replicas.
//!
//! Its node is this server. If it follows another one, that is the primary.

use pantala_cluster::{Endpoint, Health, Node, NodeId, NodeRole, Shard, SlotRange, Topology};
use pantala_psync::Phase;
use pantala_replication::primary::address;
use pantala_replication::replica::{self, LinkPhase, LinkReport};
use pantala_settings::Settings;

use crate::Operator;

/// The bus port that is told is this much above the port, as in Redis and Valkey.
const BUS_DISTANCE: u16 = 10_000;
/// Nothing ever changes who owns the slots.
const EPOCH: u64 = 1;

/// The topology, told to a client that has connected to the address `local`.
pub(super) fn topology(operator: &Operator, local: &str) -> Topology {
    let settings = operator.engine.settings.current();
    let my_id = my_id(operator, &settings);
    let link = replica::told(&operator.replication);
    let me = this_node(operator, &settings, my_id, local);
    let mut nodes = match &link {
        Some(link) => vec![primary(link), me],
        None => vec![me],
    };
    if link.is_none() {
        nodes.extend(replicas(operator));
    }
    let name = format!("shard {}", nodes[0].id);
    let shard = Shard { id: NodeId::of_name(&name), slots: vec![SlotRange::ALL], nodes };
    Topology::new(my_id, EPOCH, vec![shard])
}

/// This server as a node, told to a client that has connected to the address `local`.
pub(super) fn this_node(operator: &Operator, settings: &Settings, id: NodeId, local: &str) -> Node {
    let link = replica::told(&operator.replication);
    Node {
        id,
        role: if link.is_some() { NodeRole::Replica } else { NodeRole::Primary },
        endpoint: my_endpoint(settings, local),
        zone: settings.availability_zone.clone(),
        health: my_health(link.as_ref()),
        offset: operator.replication.downstream.stream.end(),
        epoch: EPOCH,
    }
}

/// By the setting, or the id of this run.
fn my_id(operator: &Operator, settings: &Settings) -> NodeId {
    let set = NodeId::parse(settings.cluster_node_id.as_bytes());
    let of_run = || NodeId::parse(operator.run.id.as_bytes());
    set.or_else(of_run).unwrap_or_else(|| NodeId::of_name(&operator.run.id))
}

/// Where clients reach this server: as the settings tell, else where the asking client has.
pub(super) fn my_endpoint(settings: &Settings, local: &str) -> Endpoint {
    let asked = local.rsplit_once(':').map_or("", |(ip, _)| ip.trim_matches(['[', ']']));
    let announced = settings.cluster_announce_ip.as_str();
    let or = |told: u16, own: u16| if told == 0 { own } else { told };
    let port = or(settings.cluster_announce_port, settings.port);
    let bus_port = match settings.cluster_announce_bus_port {
        0 => port.saturating_add(BUS_DISTANCE),
        told => told,
    };
    Endpoint {
        ip: if announced.is_empty() { asked } else { announced }.into(),
        hostname: settings.cluster_announce_hostname.clone(),
        port,
        tls_port: or(settings.cluster_announce_tls_port, settings.tls_port),
        bus_port,
    }
}

fn my_health(link: Option<&LinkReport>) -> Health {
    match link {
        Some(link) if link.phase != LinkPhase::Connected => Health::Loading,
        _ => Health::Online,
    }
}

/// The primary that this server follows.
fn primary(link: &LinkReport) -> Node {
    let is_up = link.phase == LinkPhase::Connected;
    let health = if is_up { Health::Online } else { Health::Failed };
    let place = (link.primary.host.clone(), link.primary.port);
    Node { role: NodeRole::Primary, health, ..other(place, link.position) }
}

/// The replicas of this server that can be read from.
fn replicas(operator: &Operator) -> Vec<Node> {
    let all = operator.replication.downstream.replicas.all();
    let online = all.iter().filter(|replica| replica.phase() == Phase::Online);
    let mut nodes: Vec<Node> = online
        .map(|replica| other(address(replica), replica.acknowledged().position))
        .filter(|node| node.endpoint.port != 0)
        .collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}

/// A replica at this place. Its id is made from the place, since it tells none.
fn other((ip, port): (String, u16), offset: u64) -> Node {
    let id = NodeId::of_name(&format!("{ip}:{port}"));
    let bus_port = port.saturating_add(BUS_DISTANCE);
    let endpoint = Endpoint { ip, port, bus_port, ..Endpoint::default() };
    let zone = String::new();
    Node {
        id,
        role: NodeRole::Replica,
        endpoint,
        zone,
        health: Health::Online,
        offset,
        epoch: EPOCH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_the_address_that_it_has_asked() {
        let mut settings = Settings::defaults();
        let of = |local: &str| my_endpoint(&settings, local).ip;
        assert_eq!(of("10.0.0.7:6379"), "10.0.0.7");
        assert_eq!(of("[fe80::1]:6379"), "fe80::1");
        assert_eq!(of(""), "");
        settings.cluster_announce_ip = "db.example".into();
        settings.cluster_announce_port = 7000;
        let place = my_endpoint(&settings, "10.0.0.7:6379");
        assert_eq!((place.ip.as_str(), place.port, place.bus_port), ("db.example", 7000, 17_000));
    }
}
