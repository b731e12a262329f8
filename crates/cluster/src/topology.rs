//! All nodes of a cluster, by shard.
//!
//! Invariants
//! 1. A slot is in the ranges of one shard at most.
//! 2. The first node of a shard is its primary, if it has one.
//! 3. This node is one of the nodes.

use std::collections::BTreeMap;

use pantala_base::crc::SLOT_COUNT;

use crate::membership::{Membership, OpenSlot};
use crate::node::{Health, Node, NodeId, NodeRole};
use crate::slots::SlotRange;

/// Nodes that have the same slots: a primary and its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its id.
    pub id: NodeId,
    /// Its slots, ascending and apart.
    pub slots: Vec<SlotRange>,
    /// Its nodes, the primary first, then by id.
    pub nodes: Vec<Node>,
}

impl Shard {
    /// Its primary, if it has one.
    pub fn primary(&self) -> Option<&Node> {
        self.nodes.first().filter(|node| node.role == NodeRole::Primary)
    }

    /// How many slots it has.
    pub fn slot_count(&self) -> usize {
        self.slots.iter().map(|range| range.count()).sum()
    }
}

/// Whether a cluster serves its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// It does.
    Serving,
    /// A slot has no owner, or an owner that fails.
    Down,
}

impl ClusterState {
    /// The word in CLUSTER INFO.
    pub fn word(self) -> &'static str {
        match self {
            ClusterState::Serving => "ok",
            ClusterState::Down => "fail",
        }
    }
}

/// A cluster as one of its nodes sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The id of this node.
    pub my_id: NodeId,
    /// The number of the last change.
    pub epoch: u64,
    /// All shards.
    pub shards: Vec<Shard>,
    /// The slots that are being moved from or to this node.
    pub open: Vec<(u16, OpenSlot)>,
    /// Whether a slot without an owner means that the cluster is down.
    pub needs_full_coverage: bool,
    /// This node is a primary, and may not serve at present.
    pub is_fenced: bool,
}

impl Topology {
    /// A cluster of these shards, one of which has the node `my_id`.
    pub fn new(my_id: NodeId, epoch: u64, shards: Vec<Shard>) -> Topology {
        let (open, needs_full_coverage) = (Vec::new(), true);
        let is_fenced = false;
        let topology = Topology { my_id, epoch, shards, open, needs_full_coverage, is_fenced };
        debug_assert!(topology.my_shard().is_some(), "this node is one of the nodes");
        debug_assert!(topology.assigned() <= usize::from(SLOT_COUNT), "a slot has one owner");
        topology
    }

    /// The topology of a membership, whose nodes `describe` completes: their addresses, their
    /// health and how much of the stream they have.
    pub fn of(all: &Membership, mut describe: impl FnMut(&mut Node)) -> Topology {
        let mut shards: BTreeMap<NodeId, Shard> = BTreeMap::new();
        for (id, member) in all.members() {
            let role = if member.primary.is_some() { NodeRole::Replica } else { NodeRole::Primary };
            let mut node = Node {
                id: *id,
                role,
                endpoint: member.endpoint.clone(),
                zone: member.zone.clone(),
                health: member.health,
                offset: 0,
                epoch: member.epoch,
            };
            describe(&mut node);
            let none = || Shard { id: member.shard, slots: Vec::new(), nodes: Vec::new() };
            let shard = shards.entry(member.shard).or_insert_with(none);
            shard.slots.extend(member.slots.ranges());
            match role {
                NodeRole::Primary => shard.nodes.insert(0, node),
                NodeRole::Replica => shard.nodes.push(node),
            }
        }
        let shards = shards.into_values().collect();
        let mut topology = Topology::new(all.my_id(), all.epoch(), shards);
        topology.open = all.open_slots().iter().map(|(slot, open)| (*slot, *open)).collect();
        topology
    }

    /// The shard of this node.
    pub fn my_shard(&self) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.nodes.iter().any(|node| node.id == self.my_id))
    }

    /// The shard that owns this slot.
    pub fn owner_of(&self, slot: u16) -> Option<&Shard> {
        let has = |shard: &&Shard| shard.slots.iter().any(|range| range.contains(slot));
        self.shards.iter().find(has)
    }

    /// The shard of this node, and the node.
    pub fn find(&self, id: NodeId) -> Option<(&Shard, &Node)> {
        let nodes =
            self.shards.iter().flat_map(|shard| shard.nodes.iter().map(move |n| (shard, n)));
        nodes.into_iter().find(|(_, node)| node.id == id)
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.nodes.len()).sum()
    }

    /// How many shards have slots.
    pub fn size(&self) -> usize {
        self.shards.iter().filter(|shard| !shard.slots.is_empty()).count()
    }

    /// How many slots have an owner.
    pub fn assigned(&self) -> usize {
        self.shards.iter().map(Shard::slot_count).sum()
    }

    /// How many slots have an owner that fails.
    pub fn failing(&self) -> usize {
        let fails =
            |shard: &&Shard| shard.primary().is_none_or(|node| node.health == Health::Failed);
        self.shards.iter().filter(fails).map(Shard::slot_count).sum()
    }

    /// Whether it serves.
    pub fn state(&self) -> ClusterState {
        let is_covered = match self.needs_full_coverage {
            true => self.assigned() == usize::from(SLOT_COUNT),
            false => self.assigned() > 0,
        };
        match is_covered && self.failing() == 0 && !self.is_fenced {
            true => ClusterState::Serving,
            false => ClusterState::Down,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::node::Endpoint;

    /// A node at port 7000 + `number`.
    pub(crate) fn node(number: u16, role: NodeRole) -> Node {
        let endpoint = Endpoint {
            ip: "10.0.0.1".into(),
            port: 7000 + number,
            bus_port: 17_000 + number,
            ..Endpoint::default()
        };
        let id = NodeId::of_name(&number.to_string());
        let zone = String::new();
        Node { id, role, endpoint, zone, health: Health::Online, offset: 5, epoch: 7 }
    }

    /// Two shards; the second one has a replica and no slot above `last`.
    pub(crate) fn two_shards(last: u16) -> Topology {
        let range = |first, last| SlotRange::new(first, last).expect("it is one");
        let shard = |name: &str, slots, nodes| Shard { id: NodeId::of_name(name), slots, nodes };
        let first = shard("a", vec![range(0, 99)], vec![node(1, NodeRole::Primary)]);
        let nodes = vec![node(2, NodeRole::Primary), node(3, NodeRole::Replica)];
        let second = shard("b", vec![range(100, 100), range(101, last)], nodes);
        Topology::new(NodeId::of_name("1"), 7, vec![first, second])
    }

    #[test]
    fn a_membership_is_told_by_shard() {
        let mut all = crate::membership::tests::three();
        let b = NodeId::of_name("b");
        all.begin_to_move_out(5, &b.to_string()).expect("it can");
        let topology = Topology::of(&all, |node| {
            node.offset = 9;
            node.endpoint.port = 7;
        });
        let shard = topology.find(b).expect("it is there").0;
        let roles: Vec<NodeRole> = shard.nodes.iter().map(|node| node.role).collect();
        assert_eq!(roles, [NodeRole::Primary, NodeRole::Replica]);
        assert_eq!((shard.slot_count(), topology.node_count()), (100, 3));
        assert!(shard.nodes.iter().all(|node| (node.offset, node.endpoint.port) == (9, 7)));
        assert_eq!(topology.open, [(5, OpenSlot::LeavingTo(b))]);
        let partial = Topology { needs_full_coverage: false, ..topology.clone() };
        assert_eq!(
            (topology.state(), partial.state()),
            (ClusterState::Down, ClusterState::Serving)
        );
    }

    #[test]
    fn every_slot_has_an_owner_or_the_cluster_is_down() {
        let whole = two_shards(SLOT_COUNT - 1);
        assert_eq!(
            (whole.state(), whole.size(), whole.node_count()),
            (ClusterState::Serving, 2, 3)
        );
        assert_eq!(whole.owner_of(99).map(|shard| shard.id), Some(NodeId::of_name("a")));
        assert_eq!(whole.owner_of(100).map(|shard| shard.id), Some(NodeId::of_name("b")));
        let (shard, found) = whole.find(NodeId::of_name("3")).expect("it is there");
        assert_eq!((shard.slot_count(), found.role), (16_284, NodeRole::Replica));
        let partial = two_shards(300);
        assert_eq!((partial.state(), partial.assigned()), (ClusterState::Down, 301));
        assert!(partial.owner_of(301).is_none());
        let mut failing = whole.clone();
        failing.shards[1].nodes[0].health = Health::Failed;
        assert_eq!((failing.state(), failing.failing()), (ClusterState::Down, 16_284));
    }
}
