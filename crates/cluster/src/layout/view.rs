//! The keys of a cluster as a node knows them, at one revision of the store, and what follows from
//! them: the membership, and the state of a shard.
//!
//! Values come from the store, where anybody may have written them: one that cannot be read counts
//! as absent.
//!
//! Tests: at the foot.

use std::collections::BTreeMap;

use pantala_base::crc::SLOT_COUNT;

use super::{alive_key, node_key, shard_key, shard_prefix};
use crate::control::{KnownPrimary, LeaseId, ShardState};
use crate::membership::{Member, Membership, OpenSlot};
use crate::node::{Health, NodeId};
use crate::nodes_file;
use crate::slot_set::SlotSet;

/// A value of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredValue {
    /// The value.
    pub text: String,
    /// The revision of its last change.
    pub revision: u64,
    /// The lease that it is bound to; 0: none.
    pub lease: LeaseId,
}

/// The keys of a cluster, without the prefix of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    revision: u64,
    keys: BTreeMap<String, StoredValue>,
}

impl ClusterView {
    /// These keys at a revision.
    pub fn new(revision: u64, keys: BTreeMap<String, StoredValue>) -> ClusterView {
        ClusterView { revision, keys }
    }

    /// The revision up to which every change is known.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A key has another value, or none any more, since this revision.
    pub fn apply(&mut self, revision: u64, key: String, value: Option<StoredValue>) {
        debug_assert!(revision >= self.revision, "changes come in the order of revisions");
        self.revision = revision;
        match value {
            Some(value) => _ = self.keys.insert(key, value),
            None => _ = self.keys.remove(&key),
        }
    }

    /// Every change up to this revision is known.
    pub fn advance(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    /// A value.
    pub fn get(&self, key: &str) -> Option<&StoredValue> {
        self.keys.get(key)
    }

    /// All keys that begin so.
    pub fn below<'v>(
        &'v self,
        prefix: &'v str,
    ) -> impl Iterator<Item = (&'v str, &'v StoredValue)> {
        let from = self.keys.range(prefix.to_owned()..);
        from.take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.as_str(), value))
    }

    /// The nodes, by id: their addresses and their shards.
    pub fn nodes(&self) -> BTreeMap<NodeId, Member> {
        let parsed = self.below("nodes/").filter_map(|(key, value)| {
            let id = NodeId::parse(key.strip_prefix("nodes/")?.as_bytes())?;
            Some((id, parse_node(id, value)?))
        });
        parsed.collect()
    }

    /// A node: its address and its shard.
    pub fn node(&self, id: NodeId) -> Option<Member> {
        parse_node(id, self.get(&node_key(id))?)
    }

    /// The shard of a node.
    pub fn shard_of(&self, id: NodeId) -> Option<NodeId> {
        Some(self.node(id)?.shard)
    }

    /// The slots of a shard.
    pub fn slots_of(&self, shard: NodeId) -> SlotSet {
        let text = self.get(&shard_key(shard, "slots")).map_or("", |value| &value.text);
        let ranges = text.split_ascii_whitespace().filter_map(|w| nodes_file::parse_range(w).ok());
        ranges.flat_map(|range| range.first..=range.last).collect()
    }

    /// The last primary of a shard, and how much of the stream it had when it became that.
    pub fn holder_of(&self, shard: NodeId) -> Option<(NodeId, u64)> {
        let text = &self.get(&shard_key(shard, "holder"))?.text;
        let (id, offset) = text.split_once(' ').unwrap_or((text, "0"));
        Some((NodeId::parse(id.as_bytes())?, offset.parse().unwrap_or(0)))
    }

    /// The state of a shard, for its control.
    pub fn shard_state(&self, shard: NodeId) -> ShardState {
        let (prefix, mut state) = (shard_prefix(shard), ShardState::default());
        state.revision = self.revision;
        for (key, value) in self.below(&prefix) {
            let StoredValue { text, revision, lease } = value;
            let parse = |id: &str| NodeId::parse(id.as_bytes());
            match &key[prefix.len()..] {
                "primary" => {
                    let known = |id| KnownPrimary { id, epoch: *revision, lease: *lease };
                    state.primary = parse(text).map(known);
                }
                "insync" => {
                    let mut ids: Vec<NodeId> =
                        text.split_ascii_whitespace().filter_map(parse).collect();
                    ids.sort_unstable();
                    state.in_sync = (ids, *revision);
                }
                "slots" => state.slots_revision = *revision,
                part => {
                    let id = part.strip_prefix("candidates/").and_then(parse);
                    state.candidates.extend(id.zip(text.parse().ok()));
                }
            }
        }
        state
    }

    /// The cluster as this node sees it; `None` if it is not a member.
    pub fn membership(&self, my_id: NodeId) -> Option<Membership> {
        let mut members = self.nodes();
        let mut shards: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (id, member) in &members {
            shards.entry(member.shard).or_default().push(*id);
        }
        let mut owned = SlotSet::default();
        for (shard, ids) in shards {
            let last = self.holder_of(shard).map(|(id, _)| id).filter(|id| ids.contains(id));
            let primary = last.unwrap_or(ids[0]);
            let state = self.shard_state(shard);
            let (has_primary, in_sync) = (state.primary.is_some(), state.in_sync.0);
            let parts = ["slots", "primary"].map(|part| self.get(&shard_key(shard, part)));
            let epoch = parts.into_iter().flatten().map(|value| value.revision).max().unwrap_or(0);
            // A slot of two shards cannot be; if somebody has written that, the first has it.
            let slots = self.slots_of(shard);
            let slots: SlotSet = slots.iter().filter(|slot| owned.insert(*slot)).collect();
            for id in ids {
                let Some(member) = members.get_mut(&id) else { continue };
                member.epoch = epoch;
                let is_alive = self.get(&alive_key(id)).is_some();
                let serves = if id == primary { has_primary } else { in_sync.contains(&id) };
                member.health = match (is_alive, serves) {
                    (true, true) => Health::Online,
                    // It has not the data of its primary yet.
                    (true, false) if id != primary => Health::Loading,
                    _ => Health::Failed,
                };
                match id == primary {
                    true => member.slots = slots.clone(),
                    false => member.primary = Some(primary),
                }
            }
        }
        let mut open = self.open_slots(my_id, &members);
        // A slot that was given away does not leave any more.
        let mine = members.get(&my_id).map(|me| me.slots.clone()).unwrap_or_default();
        open.retain(|slot, open| matches!(open, OpenSlot::LeavingTo(_)) == mine.contains(*slot));
        let epoch = members.values().map(|member| member.epoch).max().unwrap_or(0);
        Membership::new(my_id, epoch, members, open)
    }

    /// The slots that are being moved key by key, as this node sees it.
    fn open_slots(
        &self,
        my_id: NodeId,
        members: &BTreeMap<NodeId, Member>,
    ) -> BTreeMap<u16, OpenSlot> {
        let parsed = self.below("open/").filter_map(|(key, value)| {
            let (slot, id) = key.strip_prefix("open/")?.split_once('/')?;
            let slot = slot.parse().ok().filter(|slot| *slot < SLOT_COUNT)?;
            let (word, partner) = value.text.split_once(' ')?;
            let partner = NodeId::parse(partner.as_bytes())?;
            let is_mine = NodeId::parse(id.as_bytes()) == Some(my_id);
            let open = match word {
                "to" => OpenSlot::LeavingTo(partner),
                _ => OpenSlot::ArrivingFrom(partner),
            };
            (is_mine && members.contains_key(&partner)).then_some((slot, open))
        });
        parsed.collect()
    }
}

fn parse_node(id: NodeId, value: &StoredValue) -> Option<Member> {
    let mut member = Member::new(id);
    nodes_file::parse_address(&value.text, &mut member).ok()?;
    Some(member)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A view of these keys, each of the revision that is its place.
    pub(crate) fn view(keys: &[(String, &str)]) -> ClusterView {
        let stored = |(at, (key, text)): (usize, &(String, &str))| {
            let value = StoredValue { text: (*text).to_owned(), revision: at as u64 + 1, lease: 7 };
            (key.clone(), value)
        };
        ClusterView::new(keys.len() as u64, keys.iter().enumerate().map(stored).collect())
    }

    pub(crate) fn id(name: &str) -> NodeId {
        NodeId::of_name(name)
    }

    /// The value of a node in this shard.
    pub(crate) fn node_text(shard: &str) -> &'static str {
        format!("10.0.0.1:7000@17000,,tls-port=0,shard-id={}", id(shard)).leak()
    }

    pub(crate) fn text_of(text: String) -> &'static str {
        text.leak()
    }

    /// Two shards: `s` of the primary `a` and the replica `b`, `t` of `c`, whose primary is gone.
    pub(crate) fn two_shards() -> ClusterView {
        let (s, t) = (id("s"), id("t"));
        view(&[
            (node_key(id("a")), node_text("s")),
            (node_key(id("b")), node_text("s")),
            (node_key(id("c")), node_text("t")),
            (alive_key(id("a")), "1"),
            (alive_key(id("b")), "1"),
            (shard_key(s, "slots"), "0-99 200"),
            (shard_key(t, "slots"), "100-199 200 junk 99999"),
            (shard_key(s, "primary"), text_of(id("a").to_string())),
            (shard_key(s, "holder"), text_of(format!("{} 55", id("a")))),
            (shard_key(s, "insync"), text_of(format!("{} {}", id("b"), id("a")))),
            (shard_key(t, "holder"), text_of(format!("{} 9", id("c")))),
            (super::super::candidate_key(t, id("c")), "12"),
            (super::super::open_key(5, id("a")), text_of(format!("to {}", id("c")))),
            (super::super::open_key(150, id("c")), text_of(format!("from {}", id("a")))),
        ])
    }

    #[test]
    fn a_membership_follows_from_the_keys() {
        let view = two_shards();
        let all = view.membership(id("a")).expect("it is a member");
        let (a, b, c) =
            (&all.members()[&id("a")], &all.members()[&id("b")], &all.members()[&id("c")]);
        assert_eq!((a.primary, b.primary, c.primary), (None, Some(id("a")), None));
        let health = (a.health, b.health, c.health);
        assert_eq!(health, (Health::Online, Health::Online, Health::Failed));
        let slots = (a.slots.count(), b.slots.count(), c.slots.count());
        // Slot 200 is of one shard, whichever comes first.
        assert_eq!((slots.0 + slots.2, slots.1), (201, 0));
        assert_eq!((a.epoch, c.epoch, all.epoch()), (8, 7, 8));
        assert_eq!(all.open_slots().len(), 1);
        assert_eq!(all.open_slots()[&5], OpenSlot::LeavingTo(id("c")));
        assert!(view.membership(id("stranger")).is_none());
    }

    #[test]
    fn the_state_of_a_shard_follows_from_the_keys() {
        let view = two_shards();
        let state = view.shard_state(id("s"));
        let primary = state.primary.expect("it has one");
        assert_eq!((primary.id, primary.epoch, primary.lease), (id("a"), 8, 7));
        assert_eq!((state.in_sync.0.len(), state.in_sync.1, state.revision), (2, 10, 14));
        let state = view.shard_state(id("t"));
        assert_eq!((state.primary, state.candidates), (None, vec![(id("c"), 12)]));
        assert_eq!(view.holder_of(id("t")), Some((id("c"), 9)));
    }

    #[test]
    fn changes_come_by_revision() {
        let mut view = two_shards();
        view.apply(20, shard_key(id("s"), "primary"), None);
        assert_eq!(view.shard_state(id("s")).primary, None);
        assert!(
            view.membership(id("b")).expect("a member").members()[&id("a")].health
                == Health::Failed
        );
        view.advance(25);
        view.advance(24);
        assert_eq!(view.revision(), 25);
    }
}
