//! Unions and differences: SUNION, SUNIONSTORE, SDIFF, SDIFFSTORE.
//!
//! A difference is made in one of two ways, as the reference does it, because the encoding of what
//! SDIFFSTORE stores depends on the way: each member of the first set is looked up in the others,
//! or all members of the others are taken out of a copy of the first. A reply needs no copy where
//! looking up is quick.

use pantala_base::UnixMs;
use pantala_keyspace::{Key, event};
use pantala_protocol::Reply;
use pantala_values::Set;
use pantala_values::packed::Element;
use pantala_values::set::{SetLimits, SetRef};

use super::{Sets, check_lane, limits, read_all, reply_member, sets_at, source_keys, store};
use crate::call::{Call, Done, Lane, Stop};

/// A union of more sets than this is collected before it is sent: a member is looked up in all the
/// sets before its own otherwise.
const MOST_LOOKUPS: usize = 3;

/// How long it takes to go through all.
fn total(sets: &Sets<'_>) -> usize {
    sets.iter().flatten().map(|set| set.work()).sum()
}

/// What is in any of them. Integers stay a sorted array as long as they may.
fn union(sets: &Sets<'_>, limits: SetLimits, now: UnixMs) -> Set {
    let mut all = Set::default();
    for set in sets.iter().flatten() {
        for member in set.iter(now) {
            all.add_element(member, limits, now);
        }
    }
    all
}

fn reply_set(reply: &mut Reply<'_>, set: &Set, now: UnixMs) {
    reply.set(set.view().len());
    set.view().iter(now).for_each(|member| reply_member(reply, member));
}

pub(super) fn sunion(call: &mut Call<'_, '_>) -> Done {
    let (keys, now, limits) = (call.all_keys(), call.now(), limits(call.limits));
    read_all(call.keys, &keys)?;
    let sets = sets_at(call.keys, &keys)?;
    check_lane(call.lane, total(&sets))?;
    let is_quick = |set: &Option<SetRef<'_>>| set.is_none_or(|set| matches!(set, SetRef::Large(_)));
    let before_last = &sets[..sets.len() - 1];
    if before_last.len() > MOST_LOOKUPS || !before_last.iter().all(is_quick) {
        let all = union(&sets, limits, now);
        reply_set(&mut call.reply, &all, now);
        return Ok(());
    }
    let reply = &mut call.reply;
    let (mark, mut count) = (reply.begin(), 0);
    for (index, set) in sets.iter().enumerate() {
        for member in set.iter().flat_map(|set| set.members(now)) {
            if !sets[..index].iter().flatten().any(|before| before.has_member(&member, now)) {
                reply_member(reply, member.element);
                count += 1;
            }
        }
    }
    reply.end_set(mark, count);
    Ok(())
}

pub(super) fn sunionstore(call: &mut Call<'_, '_>) -> Done {
    let (keys, now, limits) = (source_keys(call), call.now(), limits(call.limits));
    read_all(call.keys, &keys)?;
    let result = {
        let sets = sets_at(call.keys, &keys)?;
        check_lane(call.lane, total(&sets))?;
        union(&sets, limits, now)
    };
    store(call, result, event::SUNIONSTORE);
    Ok(())
}

/// A difference, and the way to it.
enum Difference<'s> {
    Nothing,
    /// Look each member up in the others, the largest first.
    LookUp(SetRef<'s>, Vec<SetRef<'s>>),
    /// Take the others out of a copy.
    TakeOut(SetRef<'s>, Vec<SetRef<'s>>),
}

impl<'s> Difference<'s> {
    fn of(keys: &[Key<'_>], sets: Sets<'s>, lane: Lane) -> Result<Difference<'s>, Stop> {
        check_lane(lane, total(&sets))?;
        let is_same = keys.iter().skip(1).any(|key| key.bytes == keys[0].bytes);
        let mut sets = sets.into_iter();
        let (Some(Some(first)), false) = (sets.next(), is_same) else {
            return Ok(Difference::Nothing);
        };
        let mut others: Vec<_> = sets.flatten().collect();
        // The first way does less where members are found; it may cost twice as much.
        let look_up = first.len().saturating_mul(others.len() + 1) / 2;
        let take_out = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
        if look_up > take_out {
            return Ok(Difference::TakeOut(first, others));
        }
        check_lane(lane, first.len().saturating_mul(others.len() + 1))?;
        others.sort_by_key(|set| std::cmp::Reverse(set.len()));
        Ok(Difference::LookUp(first, others))
    }

    fn to_set(&self, limits: SetLimits, now: UnixMs) -> Set {
        let mut set = Set::default();
        match self {
            Difference::Nothing => {}
            Difference::LookUp(first, others) => {
                for member in looked_up(*first, others, now) {
                    set.add_element(member, limits, now);
                }
            }
            Difference::TakeOut(first, others) => {
                for member in first.iter(now) {
                    set.add_element(member, limits, now);
                }
                for other in others {
                    for member in other.iter(now) {
                        set.remove_element(member, now);
                    }
                    if set.view().is_empty() {
                        break;
                    }
                }
            }
        }
        set
    }
}

fn looked_up<'s>(
    first: SetRef<'s>,
    others: &[SetRef<'s>],
    now: UnixMs,
) -> impl Iterator<Item = Element<'s>> {
    first
        .members(now)
        .filter(move |member| !others.iter().any(|other| other.has_member(member, now)))
        .map(|member| member.element)
}

pub(super) fn sdiff(call: &mut Call<'_, '_>) -> Done {
    let (keys, now, limits) = (call.all_keys(), call.now(), limits(call.limits));
    read_all(call.keys, &keys)?;
    let difference = Difference::of(&keys, sets_at(call.keys, &keys)?, call.lane)?;
    let Difference::LookUp(first, others) = &difference else {
        let set = difference.to_set(limits, now);
        reply_set(&mut call.reply, &set, now);
        return Ok(());
    };
    let reply = &mut call.reply;
    let (mark, mut count) = (reply.begin(), 0);
    for member in looked_up(*first, others, now) {
        reply_member(reply, member);
        count += 1;
    }
    reply.end_set(mark, count);
    Ok(())
}

pub(super) fn sdiffstore(call: &mut Call<'_, '_>) -> Done {
    let (keys, now, limits) = (source_keys(call), call.now(), limits(call.limits));
    read_all(call.keys, &keys)?;
    let difference = Difference::of(&keys, sets_at(call.keys, &keys)?, call.lane)?;
    let result = difference.to_set(limits, now);
    store(call, result, event::SDIFFSTORE);
    Ok(())
}
