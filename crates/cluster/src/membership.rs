//! The nodes of a cluster and their slots, as one node knows them, and the changes that operators
//! make: CLUSTER ADDSLOTS, SETSLOT, FORGET and their kin.
//!
//! Invariants
//! 1. A slot has one owner at most, and that is a primary.
//! 2. This node is a member.
//! 3. A change that is refused has changed nothing.
//!
//! Not here: the file (`nodes_file`), what a node does with a slot's commands (`slot_table`).
//! Tests: at the foot.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crate::node::{Endpoint, Health, NodeId};
use crate::slot_set::SlotSet;

/// A node as the cluster knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id of its shard.
    pub shard: NodeId,
    /// The primary that it follows; `None`: it is a primary.
    pub primary: Option<NodeId>,
    /// Where it is reached. Of this node the settings tell that.
    pub endpoint: Endpoint,
    /// Its availability zone; empty if it has none.
    pub zone: String,
    /// The number of the last change of its slots.
    pub epoch: u64,
    /// Its slots; none, if it is a replica.
    pub slots: SlotSet,
    /// Whether it serves, as far as that is known.
    pub health: Health,
}

impl Member {
    /// A primary without slots, in a shard of its own.
    pub fn new(shard: NodeId) -> Member {
        Member {
            shard,
            primary: None,
            endpoint: Endpoint::default(),
            zone: String::new(),
            epoch: 0,
            slots: SlotSet::default(),
            health: Health::Online,
        }
    }
}

/// A slot that is being moved key by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenSlot {
    /// From this node to another one.
    LeavingTo(NodeId),
    /// From another node to this one.
    ArrivingFrom(NodeId),
}

/// Why a change is refused. It prints as the error of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipError {
    /// A slot has an owner.
    SlotBusy(u16),
    /// A slot has none.
    SlotUnassigned(u16),
    /// A slot was named twice.
    SlotTwice(u16),
    /// This node has the slot already.
    SlotMine(u16),
    /// This node does not have the slot.
    SlotNotMine(u16),
    /// The slot still has keys here.
    SlotHasKeys(u16),
    /// The node is this one.
    TargetIsMyself,
    /// SETSLOT names a node that is unknown.
    NodeUnknownToSlot(String),
    /// A node is unknown.
    NodeUnknown(String),
    /// The node is a replica.
    NotPrimary,
    /// This node is a replica.
    Replica,
    /// FORGET names this node.
    ForgetMyself,
    /// FORGET names the primary of this node.
    ForgetPrimary,
    /// FORGET names a node that owns slots, which would have no owner then.
    ForgetOwner,
    /// REPLICATE names this node.
    ReplicateMyself,
    /// REPLICATE names a replica.
    ReplicateReplica,
    /// REPLICATE at a node that has slots or data.
    NotEmpty,
    /// The epoch was set before.
    EpochSet,
    /// The epoch is set while other nodes are known.
    EpochTooLate,
}

impl Display for MembershipError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use MembershipError as E;
        match self {
            E::SlotBusy(slot) => write!(f, "Slot {slot} is already busy"),
            E::SlotUnassigned(slot) => write!(f, "Slot {slot} is already unassigned"),
            E::SlotTwice(slot) => write!(f, "Slot {slot} specified multiple times"),
            E::SlotMine(slot) => write!(f, "I'm already the owner of hash slot {slot}"),
            E::SlotNotMine(slot) => write!(f, "I'm not the owner of hash slot {slot}"),
            E::SlotHasKeys(slot) => write!(
                f,
                "Can't assign hashslot {slot} to a different node while I still hold keys for this \
                 hash slot."
            ),
            E::TargetIsMyself => f.write_str("Target node is myself"),
            E::NodeUnknownToSlot(name) => write!(f, "I don't know about node {name}"),
            E::NodeUnknown(name) => write!(f, "Unknown node {name}"),
            E::NotPrimary => f.write_str("Target node is not a master"),
            E::Replica => f.write_str("You can use SETSLOT only with masters."),
            E::ForgetMyself => f.write_str("I tried hard but I can't forget myself..."),
            E::ForgetOwner => f.write_str("The node owns slots: move them first"),
            E::ForgetPrimary => f.write_str("Can't forget my master!"),
            E::ReplicateMyself => f.write_str("Can't replicate myself"),
            E::ReplicateReplica => f.write_str("I can only replicate a master, not a replica."),
            E::NotEmpty => {
                f.write_str("To set a master the node must be empty and without assigned slots.")
            }
            E::EpochSet => f.write_str("Node config epoch is already non-zero"),
            E::EpochTooLate => f.write_str(
                "The user can assign a config epoch only when the node does not know \
                             any other node.",
            ),
        }
    }
}

/// The cluster as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    my_id: NodeId,
    epoch: u64,
    members: BTreeMap<NodeId, Member>,
    open: BTreeMap<u16, OpenSlot>,
}

impl Membership {
    /// A cluster of this node alone, without slots.
    pub fn alone(my_id: NodeId, my_shard: NodeId) -> Membership {
        let members = BTreeMap::from([(my_id, Member::new(my_shard))]);
        Membership { my_id, epoch: 0, members, open: BTreeMap::new() }
    }

    /// A cluster of these members; `None` if `my_id` is none of them, or a slot has two owners.
    pub fn new(
        my_id: NodeId,
        epoch: u64,
        members: BTreeMap<NodeId, Member>,
        open: BTreeMap<u16, OpenSlot>,
    ) -> Option<Membership> {
        let mut owned = SlotSet::default();
        let has_one_owner = |member: &Member| member.slots.iter().all(|slot| owned.insert(slot));
        let is_whole = members.contains_key(&my_id) && members.values().all(has_one_owner);
        is_whole.then_some(Membership { my_id, epoch, members, open })
    }

    /// The id of this node.
    pub fn my_id(&self) -> NodeId {
        self.my_id
    }

    /// The number of the last change.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All nodes, by id.
    pub fn members(&self) -> &BTreeMap<NodeId, Member> {
        &self.members
    }

    /// The slots that are being moved from or to this node.
    pub fn open_slots(&self) -> &BTreeMap<u16, OpenSlot> {
        &self.open
    }

    /// This node.
    pub fn me(&self) -> &Member {
        &self.members[&self.my_id]
    }

    /// Sets where this node is reached, and its availability zone.
    pub fn describe_me(&mut self, endpoint: Endpoint, zone: String) {
        if let Some(me) = self.me_mut() {
            (me.endpoint, me.zone) = (endpoint, zone);
        }
    }

    fn me_mut(&mut self) -> Option<&mut Member> {
        self.members.get_mut(&self.my_id)
    }

    /// The owner of a slot.
    pub fn owner_of(&self, slot: u16) -> Option<NodeId> {
        let mut members = self.members.iter();
        members.find(|(_, member)| member.slots.contains(slot)).map(|(id, _)| *id)
    }

    /// Gives free slots to this node.
    ///
    /// # Errors
    /// A slot has an owner, or is named twice.
    pub fn add_slots(&mut self, slots: &[u16]) -> Result<(), MembershipError> {
        self.check_each(slots, |all, slot| match all.owner_of(slot) {
            Some(_) => Err(MembershipError::SlotBusy(slot)),
            None => Ok(()),
        })?;
        for slot in slots {
            // Keys that have been moved here are served now.
            self.open.remove(slot);
        }
        if let Some(me) = self.me_mut() {
            me.slots.extend(slots.iter().copied());
        }
        Ok(())
    }

    /// Takes slots from their owners.
    ///
    /// # Errors
    /// A slot has no owner, or is named twice.
    pub fn delete_slots(&mut self, slots: &[u16]) -> Result<(), MembershipError> {
        self.check_each(slots, |all, slot| match all.owner_of(slot) {
            Some(_) => Ok(()),
            None => Err(MembershipError::SlotUnassigned(slot)),
        })?;
        for slot in slots {
            self.disown(*slot);
        }
        Ok(())
    }

    fn check_each(
        &self,
        slots: &[u16],
        check: impl Fn(&Membership, u16) -> Result<(), MembershipError>,
    ) -> Result<(), MembershipError> {
        let mut seen = SlotSet::default();
        for &slot in slots {
            check(self, slot)?;
            if !seen.insert(slot) {
                return Err(MembershipError::SlotTwice(slot));
            }
        }
        Ok(())
    }

    fn disown(&mut self, slot: u16) {
        for member in self.members.values_mut() {
            member.slots.remove(slot);
        }
        self.open.remove(&slot);
    }

    /// Takes all slots from this node.
    pub fn flush_slots(&mut self) {
        let mine: Vec<u16> = self.me().slots.iter().collect();
        mine.into_iter().for_each(|slot| self.disown(slot));
    }

    /// A primary other than this node, to or from which a slot may be moved.
    fn partner(&self, name: &str) -> Result<NodeId, MembershipError> {
        let unknown = || MembershipError::NodeUnknownToSlot(name.to_owned());
        let id = NodeId::parse(name.as_bytes()).ok_or_else(unknown)?;
        if id == self.my_id {
            return Err(MembershipError::TargetIsMyself);
        }
        match self.members.get(&id) {
            None => Err(unknown()),
            Some(member) if member.primary.is_some() => Err(MembershipError::NotPrimary),
            Some(_) => Ok(id),
        }
    }

    fn require_primary(&self) -> Result<(), MembershipError> {
        match self.me().primary {
            Some(_) => Err(MembershipError::Replica),
            None => Ok(()),
        }
    }

    /// SETSLOT MIGRATING: begins to move a slot from this node.
    ///
    /// # Errors
    /// This node does not have it, or the other one cannot.
    pub fn begin_to_move_out(&mut self, slot: u16, to: &str) -> Result<(), MembershipError> {
        self.require_primary()?;
        if !self.me().slots.contains(slot) {
            return Err(MembershipError::SlotNotMine(slot));
        }
        let to = self.partner(to)?;
        self.open.insert(slot, OpenSlot::LeavingTo(to));
        Ok(())
    }

    /// SETSLOT IMPORTING: begins to move a slot to this node.
    ///
    /// # Errors
    /// This node has it, or the other one cannot.
    pub fn begin_to_move_in(&mut self, slot: u16, from: &str) -> Result<(), MembershipError> {
        self.require_primary()?;
        if self.me().slots.contains(slot) {
            return Err(MembershipError::SlotMine(slot));
        }
        let from = self.partner(from)?;
        self.open.insert(slot, OpenSlot::ArrivingFrom(from));
        Ok(())
    }

    /// SETSLOT STABLE: ends a move that has not come to its end.
    ///
    /// # Errors
    /// This node is a replica.
    pub fn settle_slot(&mut self, slot: u16) -> Result<(), MembershipError> {
        self.require_primary()?;
        self.open.remove(&slot);
        Ok(())
    }

    /// SETSLOT NODE: gives a slot to a node. `has_keys`: this node has keys of the slot.
    ///
    /// # Errors
    /// The node is unknown or a replica; or it is another one, and there are keys here.
    pub fn give_slot(
        &mut self,
        slot: u16,
        to: &str,
        has_keys: bool,
    ) -> Result<(), MembershipError> {
        self.require_primary()?;
        let to = self.known(to)?;
        if self.members[&to].primary.is_some() {
            return Err(MembershipError::NotPrimary);
        }
        let was_mine = self.me().slots.contains(slot);
        if was_mine && to != self.my_id && has_keys {
            return Err(MembershipError::SlotHasKeys(slot));
        }
        let has_arrived =
            to == self.my_id && matches!(self.open.get(&slot), Some(OpenSlot::ArrivingFrom(_)));
        self.disown(slot);
        if let Some(owner) = self.members.get_mut(&to) {
            owner.slots.insert(slot);
        }
        if has_arrived {
            self.bump_epoch();
        }
        Ok(())
    }

    /// The id of a node that is a member.
    ///
    /// # Errors
    /// There is none.
    pub fn known(&self, name: &str) -> Result<NodeId, MembershipError> {
        let id = NodeId::parse(name.as_bytes()).filter(|id| self.members.contains_key(id));
        id.ok_or_else(|| MembershipError::NodeUnknown(name.to_owned()))
    }

    /// SET-CONFIG-EPOCH: sets the epoch of a new node.
    ///
    /// # Errors
    /// It has one, or knows other nodes.
    pub fn set_epoch(&mut self, epoch: u64) -> Result<(), MembershipError> {
        if self.members.len() > 1 {
            return Err(MembershipError::EpochTooLate);
        }
        if self.me().epoch != 0 {
            return Err(MembershipError::EpochSet);
        }
        self.epoch = self.epoch.max(epoch);
        if let Some(me) = self.me_mut() {
            me.epoch = epoch;
        }
        Ok(())
    }

    /// BUMPEPOCH: makes the epoch of this node the latest one. Returns it, and whether it changed.
    pub fn bump_epoch(&mut self) -> (u64, bool) {
        let latest = self.members.values().map(|member| member.epoch).max().unwrap_or(0);
        let latest = latest.max(self.epoch);
        let mine = self.me().epoch;
        if mine != 0 && mine == latest {
            return (mine, false);
        }
        self.epoch = latest + 1;
        let epoch = self.epoch;
        if let Some(me) = self.me_mut() {
            me.epoch = epoch;
        }
        (epoch, true)
    }

    /// FORGET: removes a node, which owns its slots no more.
    ///
    /// # Errors
    /// It is this node, its primary, or unknown.
    pub fn forget(&mut self, name: &str) -> Result<(), MembershipError> {
        let id = self.known(name)?;
        if id == self.my_id {
            return Err(MembershipError::ForgetMyself);
        }
        if self.me().primary == Some(id) {
            return Err(MembershipError::ForgetPrimary);
        }
        self.members.remove(&id);
        self.open.retain(|_, open| {
            let (OpenSlot::LeavingTo(partner) | OpenSlot::ArrivingFrom(partner)) = open;
            *partner != id
        });
        Ok(())
    }

    /// REPLICATE: makes this node follow another one. `is_empty`: it has no keys.
    ///
    /// # Errors
    /// The node is unknown, this one, or a replica; or this one has slots or keys.
    pub fn replicate(&mut self, name: &str, is_empty: bool) -> Result<NodeId, MembershipError> {
        let id = self.known(name)?;
        if id == self.my_id {
            return Err(MembershipError::ReplicateMyself);
        }
        let (shard, primary) = (self.members[&id].shard, self.members[&id].primary);
        if primary.is_some() {
            return Err(MembershipError::ReplicateReplica);
        }
        let me = self.me();
        if me.primary.is_none() && !(me.slots.is_empty() && is_empty) {
            return Err(MembershipError::NotEmpty);
        }
        self.open.clear();
        if let Some(me) = self.me_mut() {
            (me.primary, me.shard) = (Some(id), shard);
        }
        Ok(id)
    }

    /// REPLICATE NO ONE: makes this node a primary in a shard of its own.
    pub fn stand_alone(&mut self, shard: NodeId) {
        if let Some(me) = self.me_mut()
            && me.primary.take().is_some()
        {
            me.shard = shard;
        }
    }

    /// RESET: this node forgets all others and its slots; with a new id, if one is given.
    pub fn reset(&mut self, id: Option<NodeId>, shard: NodeId) {
        let mut me = Member::new(shard);
        if id.is_none() {
            me.epoch = self.me().epoch;
            me.endpoint = self.me().endpoint.clone();
        } else {
            self.epoch = 0;
        }
        self.my_id = id.unwrap_or(self.my_id);
        self.members = BTreeMap::from([(self.my_id, me)]);
        self.open.clear();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn id(name: &str) -> NodeId {
        NodeId::of_name(name)
    }

    /// Two primaries, `a` (this node, slots 0 to 99) and `b` (100 to 199), and `c` that follows
    /// `b`.
    pub(crate) fn three() -> Membership {
        let mut members = BTreeMap::new();
        let names = [("a", 0..100, None), ("b", 100..200, None), ("c", 0..0, Some(id("b")))];
        for (name, slots, primary) in names {
            let shard = primary.map_or(id(&format!("shard {name}")), |_| id("shard b"));
            let slots = slots.collect();
            let member = Member { primary, slots, ..Member::new(shard) };
            members.insert(id(name), member);
        }
        Membership::new(id("a"), 0, members, BTreeMap::new()).expect("it is whole")
    }

    #[test]
    fn a_slot_has_one_owner() {
        let mut all = three();
        assert_eq!(all.add_slots(&[300, 50]), Err(MembershipError::SlotBusy(50)));
        assert_eq!(all.add_slots(&[300, 300]), Err(MembershipError::SlotTwice(300)));
        assert_eq!(all.owner_of(300), None, "a refused change changes nothing");
        assert_eq!(all.add_slots(&[300, 301]), Ok(()));
        assert_eq!(all.owner_of(301), Some(id("a")));
        assert_eq!(all.delete_slots(&[300, 400]), Err(MembershipError::SlotUnassigned(400)));
        assert_eq!(all.delete_slots(&[300, 150]), Ok(()));
        assert_eq!((all.owner_of(300), all.owner_of(150)), (None, None));
        all.flush_slots();
        assert!(all.me().slots.is_empty() && all.owner_of(160) == Some(id("b")));
        let twice = BTreeMap::from([
            (id("a"), Member { slots: [1].into_iter().collect(), ..Member::new(id("x")) }),
            (id("b"), Member { slots: [1].into_iter().collect(), ..Member::new(id("y")) }),
        ]);
        assert_eq!(Membership::new(id("a"), 0, twice, BTreeMap::new()), None);
    }

    #[test]
    fn a_slot_is_moved_by_three_words() {
        let mut all = three();
        let (a, b, c) = (id("a").to_string(), id("b").to_string(), id("c").to_string());
        assert_eq!(all.begin_to_move_in(5, &b), Err(MembershipError::SlotMine(5)));
        assert_eq!(all.begin_to_move_out(105, &b), Err(MembershipError::SlotNotMine(105)));
        assert_eq!(all.begin_to_move_out(5, &a), Err(MembershipError::TargetIsMyself));
        assert_eq!(all.begin_to_move_out(5, &c), Err(MembershipError::NotPrimary));
        assert_eq!(all.begin_to_move_out(5, &b), Ok(()));
        assert_eq!(all.begin_to_move_in(105, &b), Ok(()));
        assert_eq!(all.open_slots()[&5], OpenSlot::LeavingTo(id("b")));
        assert_eq!(all.give_slot(5, &b, true), Err(MembershipError::SlotHasKeys(5)));
        assert_eq!((all.give_slot(5, &b, false), all.owner_of(5)), (Ok(()), Some(id("b"))));
        assert_eq!((all.give_slot(105, &a, true), all.owner_of(105)), (Ok(()), Some(id("a"))));
        assert!(all.open_slots().is_empty());
        assert_eq!(all.me().epoch, 1, "the taker has the latest word");
    }

    #[test]
    fn epochs_are_set_once_and_then_only_grow() {
        let mut alone = Membership::alone(id("a"), id("s"));
        assert_eq!((alone.set_epoch(5), alone.epoch()), (Ok(()), 5));
        assert_eq!(alone.set_epoch(6), Err(MembershipError::EpochSet));
        assert_eq!(alone.bump_epoch(), (5, false));
        let mut all = three();
        assert_eq!(all.set_epoch(5), Err(MembershipError::EpochTooLate));
        assert_eq!((all.bump_epoch(), all.bump_epoch()), ((1, true), (1, false)));
    }

    #[test]
    fn nodes_are_forgotten_and_followed() {
        let mut all = three();
        let (a, b, c) = (id("a").to_string(), id("b").to_string(), id("c").to_string());
        assert_eq!(all.forget(&a), Err(MembershipError::ForgetMyself));
        assert_eq!(all.replicate(&b, true), Err(MembershipError::NotEmpty));
        all.flush_slots();
        assert_eq!(all.replicate(&b, false), Err(MembershipError::NotEmpty));
        assert_eq!(all.replicate(&c, true), Err(MembershipError::ReplicateReplica));
        assert_eq!(all.replicate(&a, true), Err(MembershipError::ReplicateMyself));
        assert_eq!(all.replicate(&b, true), Ok(id("b")));
        assert_eq!((all.me().primary, all.me().shard), (Some(id("b")), id("shard b")));
        assert_eq!(all.forget(&b), Err(MembershipError::ForgetPrimary));
        assert_eq!(all.settle_slot(1), Err(MembershipError::Replica));
        assert_eq!((all.forget(&c), all.members().len()), (Ok(()), 2));
        all.stand_alone(id("new"));
        assert_eq!((all.me().primary, all.me().shard), (None, id("new")));
        all.reset(Some(id("z")), id("y"));
        assert_eq!((all.my_id(), all.members().len(), all.epoch()), (id("z"), 1, 0));
    }
}
