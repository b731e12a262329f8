//! What CLUSTER tells of nodes, shards and slots.

use pantala_cluster::{Health, Node, NodeId, NodeRole, SlotRange, Topology, node_lines};
use pantala_commands::{Call, ClientError, CommandResult};
use pantala_protocol::Reply;
use pantala_settings::field::EndpointType;

use super::topology_for;
use crate::Operator;

/// How nodes are told to the client that asks.
struct Audience {
    /// It uses TLS.
    uses_tls: bool,
    /// How a node is named.
    endpoint_type: EndpointType,
}

impl Audience {
    fn of(call: &Call<'_, '_>) -> Audience {
        let settings = Operator::of(call).engine.settings.current();
        let port = call.session.local.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let uses_tls = settings.tls_port != 0 && port == Some(settings.tls_port);
        Audience { uses_tls, endpoint_type: settings.cluster_preferred_endpoint_type }
    }

    /// The name of a node; `None`: the client goes on with the one that it has.
    fn endpoint<'n>(&self, node: &'n Node) -> Option<&'n str> {
        let place = &node.endpoint;
        match self.endpoint_type {
            EndpointType::Ip => Some(&place.ip),
            EndpointType::Hostname if place.hostname.is_empty() => Some("?"),
            EndpointType::Hostname => Some(&place.hostname),
            EndpointType::Unknown => None,
        }
    }
}

pub(super) fn my_id(call: &mut Call<'_, '_>) -> CommandResult {
    let topology = topology_for(call)?;
    call.reply.bulk(topology.my_id.bytes());
    Ok(())
}

pub(super) fn my_shard_id(call: &mut Call<'_, '_>) -> CommandResult {
    let topology = topology_for(call)?;
    let id = topology.my_shard().map_or(topology.my_id, |shard| shard.id);
    call.reply.bulk(id.bytes());
    Ok(())
}

pub(super) fn info(call: &mut Call<'_, '_>) -> CommandResult {
    let mut text = String::new();
    for (name, value) in pantala_cluster::info(&topology_for(call)?) {
        text.push_str(name);
        text.push(':');
        text.push_str(&value);
        text.push_str("\r\n");
    }
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn nodes(call: &mut Call<'_, '_>) -> CommandResult {
    let topology = topology_for(call)?;
    let lines = node_lines(&topology, Audience::of(call).uses_tls, |_, _| true);
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn replicas(call: &mut Call<'_, '_>) -> CommandResult {
    let topology = topology_for(call)?;
    let id = known_id(&topology, call.args[2])?;
    let is_primary = |node: &Node| node.role == NodeRole::Primary;
    if !topology.find(id).is_some_and(|(_, node)| is_primary(node)) {
        return Err(ClientError::text("ERR The specified node is not a master").into());
    }
    let lines = node_lines(&topology, Audience::of(call).uses_tls, |shard, node| {
        node.role == NodeRole::Replica && shard.primary().is_some_and(|primary| primary.id == id)
    });
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.bulk(line.as_bytes()));
    Ok(())
}

pub(super) fn failure_reports(call: &mut Call<'_, '_>) -> CommandResult {
    let topology = topology_for(call)?;
    known_id(&topology, call.args[2])?;
    call.reply.int(0);
    Ok(())
}

/// The id of a node that there is.
fn known_id(topology: &Topology, text: &[u8]) -> Result<NodeId, ClientError> {
    let id = NodeId::parse(text).filter(|id| topology.find(*id).is_some());
    let unknown = || format!("ERR Unknown node {}", String::from_utf8_lossy(text));
    id.ok_or_else(|| ClientError::new(unknown()))
}

pub(super) fn links(call: &mut Call<'_, '_>) -> CommandResult {
    topology_for(call)?;
    call.reply.array(0);
    Ok(())
}

pub(super) fn migrations(call: &mut Call<'_, '_>) -> CommandResult {
    topology_for(call)?;
    call.reply.array(0);
    Ok(())
}

pub(super) fn slots(call: &mut Call<'_, '_>) -> CommandResult {
    let (topology, audience) = (topology_for(call)?, Audience::of(call));
    let mut ranges: Vec<(SlotRange, Vec<&Node>)> = Vec::new();
    for shard in &topology.shards {
        let serves = |node: &&Node| node.role == NodeRole::Primary || node.health == Health::Online;
        let nodes: Vec<&Node> = shard.nodes.iter().filter(serves).collect();
        ranges.extend(shard.slots.iter().map(|range| (*range, nodes.clone())));
    }
    ranges.sort_by_key(|(range, _)| *range);
    let reply = &mut call.reply;
    reply.array(ranges.len());
    for (range, nodes) in ranges {
        reply.array(2 + nodes.len());
        reply.int(range.first.into());
        reply.int(range.last.into());
        nodes.into_iter().for_each(|node| reply_slot_node(reply, node, &audience));
    }
    Ok(())
}

/// A node as SLOTS tells it: name, port, id, and what else is known.
fn reply_slot_node(reply: &mut Reply<'_>, node: &Node, audience: &Audience) {
    let place = &node.endpoint;
    reply.array(4);
    match audience.endpoint(node) {
        Some(name) => reply.bulk(name.as_bytes()),
        None => reply.null(),
    }
    reply.int(place.port_for(audience.uses_tls).into());
    reply.bulk(node.id.bytes());
    let mut more = Vec::new();
    if audience.endpoint_type != EndpointType::Ip {
        more.push(("ip", place.ip.as_str()));
    }
    if audience.endpoint_type != EndpointType::Hostname && !place.hostname.is_empty() {
        more.push(("hostname", place.hostname.as_str()));
    }
    if !node.zone.is_empty() {
        more.push(("availability-zone", node.zone.as_str()));
    }
    reply.map(more.len());
    for (name, value) in more {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

pub(super) fn shards(call: &mut Call<'_, '_>) -> CommandResult {
    let (topology, audience) = (topology_for(call)?, Audience::of(call));
    let reply = &mut call.reply;
    reply.array(topology.shards.len());
    for shard in &topology.shards {
        reply.map(3);
        reply.bulk(b"slots");
        reply.array(2 * shard.slots.len());
        for range in &shard.slots {
            reply.int(range.first.into());
            reply.int(range.last.into());
        }
        reply.bulk(b"nodes");
        reply.array(shard.nodes.len());
        shard.nodes.iter().for_each(|node| reply_shard_node(reply, node, &audience));
        reply.bulk(b"id");
        reply.bulk(shard.id.bytes());
    }
    Ok(())
}

/// A node as SHARDS tells it.
fn reply_shard_node(reply: &mut Reply<'_>, node: &Node, audience: &Audience) {
    let place = &node.endpoint;
    let ports = [("port", place.port), ("tls-port", place.tls_port)];
    let ports = ports.into_iter().filter(|(_, port)| *port != 0);
    let (has_name, has_zone) = (!place.hostname.is_empty(), !node.zone.is_empty());
    let fields = 6 + ports.clone().count() + usize::from(has_name) + usize::from(has_zone);
    reply.map(fields);
    reply.bulk(b"id");
    reply.bulk(node.id.bytes());
    for (name, port) in ports {
        reply.bulk(name.as_bytes());
        reply.int(port.into());
    }
    reply.bulk(b"ip");
    reply.bulk(place.ip.as_bytes());
    reply.bulk(b"endpoint");
    match audience.endpoint(node) {
        Some(name) => reply.bulk(name.as_bytes()),
        None => reply.null(),
    }
    if has_name {
        reply.bulk(b"hostname");
        reply.bulk(place.hostname.as_bytes());
    }
    reply.bulk(b"role");
    reply.bulk(if node.role == NodeRole::Primary { b"master" } else { b"replica" });
    reply.bulk(b"replication-offset");
    reply.int(node.offset.cast_signed());
    reply.bulk(b"health");
    reply.bulk(node.health.word().as_bytes());
    if has_zone {
        reply.bulk(b"availability-zone");
        reply.bulk(node.zone.as_bytes());
    }
}
