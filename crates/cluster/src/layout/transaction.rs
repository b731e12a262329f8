//! Changes of a cluster as transactions of the store. Each compares what it was decided from, so
//! that of two changes which contradict each other the second one is refused, and decided again.
//!
//! Tests: at the foot.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{
    CLAIMS, ClusterView, alive_key, cluster_prefix, node_key, open_key, place_key, shard_key,
    shard_prefix,
};
use crate::control::LeaseId;
use crate::membership::{Membership, OpenSlot};
use crate::node::NodeId;
use crate::nodes_file;
use crate::slot_set::SlotSet;

/// What a transaction expects of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// It has no value.
    Absent,
    /// It has one.
    Present,
    /// Its value was last changed at this revision.
    Revision(u64),
}

/// What a transaction writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreWrite {
    /// A value, bound to a lease or to none.
    Put(String, String, Option<LeaseId>),
    /// Removes a key.
    Delete(String),
    /// Removes all keys that begin so.
    DeleteBelow(String),
}

/// A change that happens as a whole, if all expectations hold. Keys are whole: with the prefix of
/// their cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What it expects.
    pub expects: Vec<(String, Expectation)>,
    /// What it writes.
    pub writes: Vec<StoreWrite>,
}

impl Transaction {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

/// A transaction on the keys of one cluster, of which a view is known.
struct Draft<'v> {
    view: &'v ClusterView,
    prefix: String,
    made: Transaction,
}

impl<'v> Draft<'v> {
    fn new(name: &str, view: &'v ClusterView) -> Draft<'v> {
        Draft { view, prefix: cluster_prefix(name), made: Transaction::default() }
    }

    /// Expects that a key is as the view has it.
    fn expect(&mut self, key: &str) {
        let known = self.view.get(key).map(|value| Expectation::Revision(value.revision));
        let expected = (format!("{}{key}", self.prefix), known.unwrap_or(Expectation::Absent));
        if !self.made.expects.contains(&expected) {
            self.made.expects.push(expected);
        }
    }

    fn expect_present(&mut self, key: &str) {
        self.made.expects.push((format!("{}{key}", self.prefix), Expectation::Present));
    }

    fn put(&mut self, key: &str, text: String, lease: Option<LeaseId>) {
        self.made.writes.push(StoreWrite::Put(format!("{}{key}", self.prefix), text, lease));
    }

    fn delete(&mut self, key: &str) {
        self.made.writes.push(StoreWrite::Delete(format!("{}{key}", self.prefix)));
    }

    fn delete_below(&mut self, prefix: &str) {
        self.made.writes.push(StoreWrite::DeleteBelow(format!("{}{prefix}", self.prefix)));
    }
}

/// The slots by shard.
fn slots_by_shard(all: &Membership) -> BTreeMap<NodeId, SlotSet> {
    let mut shards: BTreeMap<NodeId, SlotSet> = BTreeMap::new();
    for member in all.members().values() {
        shards.entry(member.shard).or_default().extend(member.slots.iter());
    }
    shards
}

/// The text of a set of slots.
fn slots_text(slots: &SlotSet) -> String {
    let mut text = String::new();
    for range in slots.ranges() {
        // Writing to a string cannot fail.
        _ = write!(text, "{}{range}", if text.is_empty() { "" } else { " " });
    }
    text
}

/// The change of a cluster of this name from one membership, which follows from the view, to
/// another one.
///
/// # Errors
/// It takes this slot from another node, which is up and has not agreed by SETSLOT MIGRATING: that
/// one would go on serving it until it learns of it.
pub fn change(
    name: &str,
    view: &ClusterView,
    old: &Membership,
    new: &Membership,
) -> Result<Transaction, u16> {
    let mut draft = Draft::new(name, view);
    change_nodes(&mut draft, old, new);
    ask_owners(&mut draft, old, new)?;
    change_slots(&mut draft, old, new);
    change_open_slots(&mut draft, old, new);
    Ok(draft.made)
}

/// Expects that the owners of slots that other nodes lose have agreed, or are gone.
fn ask_owners(draft: &mut Draft<'_>, old: &Membership, new: &Membership) -> Result<(), u16> {
    for (id, member) in old.members() {
        if member.shard == old.me().shard || member.slots.is_empty() {
            continue;
        }
        let keeps = new.members().get(id).map(|member| member.slots.clone()).unwrap_or_default();
        let primary = shard_key(member.shard, "primary");
        let is_gone = draft.view.get(&primary).is_none();
        for slot in member.slots.iter().filter(|slot| !keeps.contains(*slot)) {
            let open = open_key(slot, *id);
            match draft.view.get(&open) {
                Some(agreed) if agreed.text.starts_with("to ") => draft.expect_present(&open),
                _ if is_gone => draft.expect(&primary),
                _ => return Err(slot),
            }
        }
    }
    Ok(())
}

fn change_nodes(draft: &mut Draft<'_>, old: &Membership, new: &Membership) {
    for (id, member) in old.members() {
        let key = node_key(*id);
        let Some(next) = new.members().get(id) else {
            draft.expect(&key);
            draft.delete(&key);
            draft.delete(&alive_key(*id));
            draft.made.writes.push(StoreWrite::Delete(place_key(*id)));
            continue;
        };
        let text = nodes_file::print_address(next);
        if text != nodes_file::print_address(member) {
            draft.expect(&key);
            draft.put(&key, text, None);
        }
        if let Some(primary) = next.primary.filter(|_| next.shard != member.shard) {
            // It must still be in that shard, which must not have another primary.
            draft.expect(&node_key(primary));
            draft.expect(&shard_key(next.shard, "holder"));
            // Where no node is named that may win, one without the data could.
            draft.expect_present(&shard_key(next.shard, "primary"));
            draft.expect_present(&shard_key(next.shard, "insync"));
        }
    }
}

fn change_slots(draft: &mut Draft<'_>, old: &Membership, new: &Membership) {
    let (before, after) = (slots_by_shard(old), slots_by_shard(new));
    let (mut owned_before, mut owned_after) = (SlotSet::default(), SlotSet::default());
    before.values().for_each(|slots| owned_before.extend(slots.iter()));
    after.values().for_each(|slots| owned_after.extend(slots.iter()));
    if owned_before != owned_after {
        draft.expect(CLAIMS);
        draft.put(CLAIMS, new.my_id().to_string(), None);
    }
    let mine = new.me().shard;
    let is_bumped = new.me().epoch != old.me().epoch;
    let shards: BTreeSet<NodeId> = before.keys().chain(after.keys()).copied().collect();
    for shard in shards {
        let key = shard_key(shard, "slots");
        let (had, has) = (before.get(&shard), after.get(&shard));
        let is_same = had.cloned().unwrap_or_default() == has.cloned().unwrap_or_default();
        if !is_same || is_bumped && shard == mine {
            draft.expect(&key);
            draft.put(&key, has.map_or(String::new(), slots_text), None);
        }
        if has.is_none() {
            // It must not have got slots meanwhile.
            draft.expect(&key);
            draft.delete_below(&shard_prefix(shard));
        }
    }
    // What is deleted as a whole is not put before.
    let deleted: Vec<String> = draft.made.writes.iter().filter_map(deleted_prefix).collect();
    let is_kept = |write: &StoreWrite| match write {
        StoreWrite::Put(key, ..) => !deleted.iter().any(|prefix| key.starts_with(prefix)),
        _ => true,
    };
    draft.made.writes.retain(is_kept);
}

fn deleted_prefix(write: &StoreWrite) -> Option<String> {
    match write {
        StoreWrite::DeleteBelow(prefix) => Some(prefix.clone()),
        _ => None,
    }
}

fn change_open_slots(draft: &mut Draft<'_>, old: &Membership, new: &Membership) {
    let my_id = old.my_id();
    for slot in old.open_slots().keys().filter(|slot| !new.open_slots().contains_key(slot)) {
        draft.delete(&open_key(*slot, my_id));
    }
    for (slot, open) in new.open_slots() {
        if old.open_slots().get(slot) != Some(open) {
            let text = match open {
                OpenSlot::LeavingTo(id) => format!("to {id}"),
                OpenSlot::ArrivingFrom(id) => format!("from {id}"),
            };
            draft.put(&open_key(*slot, my_id), text, None);
        }
    }
}

/// The move of a node, which is alone in its cluster, into another one, with its slots.
///
/// # Errors
/// It is not alone, or a slot of it has an owner there: that slot.
pub fn join(
    id: NodeId,
    (from, from_view): (&str, &ClusterView),
    (to, to_view): (&str, &ClusterView),
) -> Result<Transaction, Option<u16>> {
    let Some(shard) = from_view.shard_of(id).filter(|_| from_view.nodes().len() == 1) else {
        return Err(None);
    };
    let slots = from_view.slots_of(shard);
    let owners = to_view.nodes();
    // A shard of the same id is there: the node was of it once.
    if to_view.below(&shard_prefix(shard)).next().is_some() {
        return Err(None);
    }
    let mut owned = SlotSet::default();
    owners.values().for_each(|member| owned.extend(to_view.slots_of(member.shard).iter()));
    if let Some(slot) = slots.iter().find(|slot| owned.contains(*slot)) {
        return Err(Some(slot));
    }
    let mut source = Draft::new(from, from_view);
    for key in [node_key(id), shard_key(shard, "slots"), shard_key(shard, "primary")] {
        source.expect(&key);
    }
    // Nobody has joined it meanwhile.
    source.expect(CLAIMS);
    source.delete_below("");
    let mut target = Draft::new(to, to_view);
    target.expect(&node_key(id));
    target.expect(CLAIMS);
    target.put(CLAIMS, id.to_string(), None);
    // What is bound to the lease of the node stays so: its primary's key, too.
    for key in [node_key(id), alive_key(id)] {
        copy(&mut target, from_view, &key);
    }
    for part in ["slots", "primary", "holder", "insync"] {
        target.expect(&shard_key(shard, part));
        copy(&mut target, from_view, &shard_key(shard, part));
    }
    let mut made = source.made;
    made.expects.extend(target.made.expects);
    made.writes.extend(target.made.writes);
    made.writes.push(StoreWrite::Put(place_key(id), to.to_owned(), None));
    Ok(made)
}

fn copy(target: &mut Draft<'_>, from: &ClusterView, key: &str) {
    if let Some(value) = from.get(key) {
        let lease = (value.lease != 0).then_some(value.lease);
        target.put(key, value.text.clone(), lease);
    }
}

/// A node leaves its cluster: CLUSTER RESET. Its shard goes if nobody else is in it.
pub fn leave(name: &str, view: &ClusterView, id: NodeId) -> Transaction {
    let mut draft = Draft::new(name, view);
    let Some(shard) = view.shard_of(id) else { return draft.made };
    draft.expect(&node_key(id));
    draft.delete(&node_key(id));
    draft.delete(&alive_key(id));
    draft.made.writes.push(StoreWrite::Delete(place_key(id)));
    let is_alone = view.nodes().values().filter(|member| member.shard == shard).count() == 1;
    if is_alone {
        draft.expect(&shard_key(shard, "slots"));
        draft.expect(CLAIMS);
        draft.put(CLAIMS, id.to_string(), None);
        draft.delete_below(&shard_prefix(shard));
    } else {
        draft.delete(&super::candidate_key(shard, id));
    }
    let open: Vec<String> = view
        .below("open/")
        .filter(|(key, _)| key.ends_with(&id.to_string()))
        .map(|(key, _)| key.to_owned())
        .collect();
    open.iter().for_each(|key| draft.delete(key));
    draft.made
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{id, node_text, two_shards, view};
    use super::*;

    fn changed(act: impl FnOnce(&mut Membership)) -> Transaction {
        let view = two_shards();
        let old = view.membership(id("a")).expect("it is a member");
        let mut new = old.clone();
        act(&mut new);
        change("c", &view, &old, &new).expect("no owner has to agree")
    }

    fn writes(made: &Transaction, key: &str) -> bool {
        made.writes.iter().any(|write| match write {
            StoreWrite::Put(put, ..) => put == key,
            StoreWrite::Delete(put) | StoreWrite::DeleteBelow(put) => put == key,
        })
    }

    #[test]
    fn no_change_writes_nothing() {
        assert!(changed(|_| {}).is_empty());
    }

    #[test]
    fn slots_without_an_owner_are_claimed() {
        let made = changed(|all| all.add_slots(&[300]).expect("it is free"));
        let slots = format!("/pantala/c/{}", shard_key(id("s"), "slots"));
        assert!(made.expects.contains(&(slots.clone(), Expectation::Revision(6))));
        assert!(made.expects.contains(&("/pantala/c/claims".into(), Expectation::Absent)));
        let put =
            made.writes.iter().find(|w| matches!(w, StoreWrite::Put(key, ..) if *key == slots));
        let Some(StoreWrite::Put(_, text, None)) = put else { panic!("{made:?}") };
        assert!(text.starts_with("0-99") && text.ends_with("300"), "{text}");
    }

    #[test]
    fn a_slot_that_is_given_changes_both_shards_and_ends_the_move() {
        let made = changed(|all| all.give_slot(5, &id("c").to_string(), false).expect("it can"));
        let keys = ["s", "t"].map(|shard| format!("/pantala/c/{}", shard_key(id(shard), "slots")));
        assert!(keys.iter().all(|key| writes(&made, key)), "{made:?}");
        assert_eq!(made.expects.len(), 2, "no slot loses its owner");
        assert!(writes(&made, &format!("/pantala/c/{}", open_key(5, id("a")))));
    }

    #[test]
    fn a_shard_is_joined_only_while_it_has_a_primary() {
        let view = two_shards();
        let old = view.membership(id("c")).expect("it is a member");
        let mut new = old.clone();
        new.flush_slots();
        new.replicate(&id("a").to_string(), true).expect("it can");
        let made = change("c", &view, &old, &new).expect("no owner has to agree");
        for part in ["primary", "insync"] {
            let key = format!("/pantala/c/{}", shard_key(id("s"), part));
            assert!(made.expects.contains(&(key, Expectation::Present)), "{made:?}");
        }
        assert!(writes(&made, &format!("/pantala/c/{}", shard_prefix(id("t")))));
    }

    #[test]
    fn a_slot_is_taken_only_from_one_that_has_agreed_or_is_gone() {
        let view = two_shards();
        let old = view.membership(id("c")).expect("it is a member");
        let taken = |slot| {
            let mut new = old.clone();
            new.give_slot(slot, &id("c").to_string(), false).expect("it can");
            change("c", &view, &old, &new).map(|made| made.expects)
        };
        assert_eq!(taken(7), Err(7), "its owner is up");
        let open = format!("/pantala/c/{}", open_key(5, id("a")));
        assert!(taken(5).expect("it may").contains(&(open, Expectation::Present)));
        // The shard of c has no primary.
        let old = view.membership(id("a")).expect("it is a member");
        let mut new = old.clone();
        new.delete_slots(&[150]).expect("it can");
        let primary = format!("/pantala/c/{}", shard_key(id("t"), "primary"));
        let made = change("c", &view, &old, &new).expect("it may");
        assert!(made.expects.contains(&(primary, Expectation::Absent)));
    }

    #[test]
    fn a_node_that_is_forgotten_goes() {
        let made = changed(|all| all.forget(&id("b").to_string()).expect("it can"));
        assert!(writes(&made, &format!("/pantala/c/{}", node_key(id("b")))));
        assert!(writes(&made, &place_key(id("b"))));
    }

    #[test]
    fn a_node_that_is_alone_joins_with_its_slots() {
        let alone = view(&[
            (node_key(id("z")), node_text("u")),
            (alive_key(id("z")), "1"),
            (shard_key(id("u"), "slots"), "500-600"),
        ]);
        let made = join(id("z"), ("z", &alone), ("c", &two_shards())).expect("it can");
        assert!(writes(&made, "/pantala/z/") && writes(&made, &place_key(id("z"))));
        assert!(writes(&made, &format!("/pantala/c/{}", shard_key(id("u"), "slots"))));
        let busy =
            view(&[(node_key(id("z")), node_text("u")), (shard_key(id("u"), "slots"), "50-600")]);
        assert_eq!(join(id("z"), ("z", &busy), ("c", &two_shards())), Err(Some(50)));
        assert_eq!(join(id("a"), ("c", &two_shards()), ("z", &alone)), Err(None));
    }

    #[test]
    fn a_node_that_leaves_takes_its_shard_along_if_it_is_alone() {
        let made = leave("c", &two_shards(), id("c"));
        assert!(writes(&made, &format!("/pantala/c/{}", shard_prefix(id("t")))));
        assert!(writes(&made, &format!("/pantala/c/{}", open_key(150, id("c")))));
        let made = leave("c", &two_shards(), id("b"));
        assert!(!writes(&made, &format!("/pantala/c/{}", shard_prefix(id("s")))));
    }
}
