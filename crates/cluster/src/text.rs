//! The text forms: the lines of CLUSTER NODES, CLUSTER REPLICAS and CLUSTER INFO.

use std::fmt::Write as _;

use crate::node::{Health, Node, NodeRole};
use crate::nodes_file;
use crate::topology::{Shard, Topology};

/// The line of one node, without its end: `id ip:port@bus[,hostname] flags primary ping pong epoch
/// link slots`. `uses_tls` is whether the asking client does.
fn line(topology: &Topology, shard: &Shard, node: &Node, uses_tls: bool) -> String {
    let place = &node.endpoint;
    let port = place.port_for(uses_tls);
    let mut line = format!("{} {}:{port}@{}", node.id, place.ip, place.bus_port);
    if !place.hostname.is_empty() {
        _ = write!(line, ",{}", place.hostname);
    }
    let myself = if node.id == topology.my_id { "myself," } else { "" };
    let failed = if node.health == Health::Failed { ",fail" } else { "" };
    let primary = match (node.role, shard.primary()) {
        (NodeRole::Replica, Some(primary)) => primary.id.to_string(),
        _ => "-".into(),
    };
    let link = if node.health == Health::Failed { "disconnected" } else { "connected" };
    // Nothing is pinged here.
    let epoch = node.epoch;
    _ = write!(line, " {myself}{}{failed} {primary} 0 0 {epoch} {link}", node.role.word());
    if node.role == NodeRole::Primary {
        shard.slots.iter().for_each(|range| _ = write!(line, " {range}"));
    }
    if node.id == topology.my_id {
        let open = topology.open.iter();
        open.for_each(|(slot, open)| _ = write!(line, " {}", nodes_file::open_slot(*slot, open)));
    }
    line
}

/// The lines of the nodes that `is_meant` accepts.
pub fn node_lines(
    topology: &Topology,
    uses_tls: bool,
    is_meant: impl Fn(&Shard, &Node) -> bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    for shard in &topology.shards {
        let meant = shard.nodes.iter().filter(|node| is_meant(shard, node));
        lines.extend(meant.map(|node| line(topology, shard, node, uses_tls)));
    }
    lines
}

/// The fields of CLUSTER INFO, in Valkey's order. There is no traffic of a bus to be counted.
pub fn info(topology: &Topology) -> Vec<(&'static str, String)> {
    let failing = topology.failing();
    let my_epoch = topology.find(topology.my_id).map_or(0, |(_, node)| node.epoch);
    let assigned = topology.assigned();
    let failed = topology.shards.iter().flat_map(|shard| &shard.nodes);
    let failed = failed.filter(|node| node.health == Health::Failed).count();
    let mut fields = vec![
        ("cluster_state", topology.state().word().into()),
        ("cluster_slots_assigned", assigned.to_string()),
        ("cluster_slots_ok", (assigned - failing).to_string()),
        ("cluster_slots_pfail", "0".into()),
        ("cluster_slots_fail", failing.to_string()),
        ("cluster_nodes_pfail", "0".into()),
        ("cluster_nodes_fail", failed.to_string()),
        ("cluster_voting_nodes_pfail", "0".into()),
        ("cluster_voting_nodes_fail", "0".into()),
        ("cluster_known_nodes", topology.node_count().to_string()),
        ("cluster_size", topology.size().to_string()),
        ("cluster_current_epoch", topology.epoch.to_string()),
        ("cluster_my_epoch", my_epoch.to_string()),
    ];
    fields.extend(COUNTERS.iter().map(|&name| (name, "0".into())));
    fields
}

/// What Valkey counts of its nodes' traffic.
const COUNTERS: [&str; 9] = [
    "cluster_stats_messages_sent",
    "cluster_stats_messages_received",
    "cluster_stats_bytes_sent",
    "cluster_stats_bytes_received",
    "cluster_stats_pubsub_bytes_sent",
    "cluster_stats_pubsub_bytes_received",
    "cluster_stats_module_bytes_sent",
    "cluster_stats_module_bytes_received",
    "total_cluster_links_buffer_limit_exceeded",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeId;
    use crate::topology::tests::two_shards;

    #[test]
    fn lines_are_as_clients_parse_them() {
        let mut topology = two_shards(300);
        topology.shards[1].nodes[1].endpoint.hostname = "c.example".into();
        topology.shards[1].nodes[1].health = Health::Failed;
        let [a, b, c] = ["1", "2", "3"].map(NodeId::of_name);
        assert_eq!(
            node_lines(&topology, false, |_, _| true),
            [
                format!("{a} 10.0.0.1:7001@17001 myself,master - 0 0 7 connected 0-99"),
                format!("{b} 10.0.0.1:7002@17002 master - 0 0 7 connected 100 101-300"),
                format!("{c} 10.0.0.1:7003@17003,c.example slave,fail {b} 0 0 7 disconnected"),
            ]
        );
        let replicas = node_lines(&topology, true, |_, node| node.role == NodeRole::Replica);
        assert_eq!(replicas.len(), 1);
    }

    #[test]
    fn info_counts_slots_and_nodes() {
        let fields = info(&two_shards(300));
        let of = |name: &str| &fields.iter().find(|(field, _)| *field == name).expect("a field").1;
        assert_eq!((of("cluster_state"), of("cluster_slots_ok")), (&"fail".into(), &"301".into()));
        assert_eq!((of("cluster_size"), of("cluster_known_nodes")), (&"2".into(), &"3".into()));
        assert_eq!(fields.len(), 22);
    }
}
