//! Unions and differences: SUNION, SUNIONSTORE, SDIFF, SDIFFSTORE.
//!
//! A difference is computed in one of two ways, as in the reference, because the encoding of
//! SDIFFSTORE's result depends on it: each member of the first set is looked up in the others, or
//! all members of the others are removed from a copy of the first. A reply needs no copy if lookups
//! are quick.

use pantala_base::UnixMs;
use pantala_keyspace::{Key, event};
use pantala_protocol::Reply;
use pantala_values::Set;
use pantala_values::set::{SetLimits, SetRef};

use super::{
    Destination, Place, PresentMembers, Sets, check_lane, combines, limits, many, read_all,
    sets_at, source_keys, store, stores,
};
use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::long_work::incremental::{Budget, GatherState};
use crate::rows::command::Command;

/// A union of more sets than this is collected before it is sent: otherwise each member is looked
/// up in all sets before its own.
const MOST_LOOKUPS: usize = 3;

/// The work of going through all sets.
fn total(sets: &[SetRef<'_>]) -> usize {
    sets.iter().map(|set| set.work()).sum()
}

/// A union in progress. Integers stay a sorted array for as long as possible.
struct Union {
    place: Place,
    found: Destination,
}

impl Union {
    fn begin(found: Destination) -> Union {
        Union { place: Place::default(), found }
    }

    fn go_on(
        &mut self,
        sets: &[SetRef<'_>],
        reply: &mut Reply<'_>,
        budget: &mut Budget,
        (limits, now): (SetLimits, UnixMs),
    ) -> GatherState {
        let Union { place, found } = self;
        let is_shown = matches!(found, Destination::Reply(_));
        place.go_on(sets, now, budget, |nth, member| {
            let is_known = is_shown && sets[..nth].iter().any(|set| set.has_member(member, now));
            if !is_known {
                found.add(member.element, reply, limits, now);
            }
        })
    }
}

/// The union of the sets at some keys; `begin` decides where it goes.
fn gather_union<'c, R>(
    call: &mut Call<'c, '_>,
    keys: &[Key<'_>],
    begin: impl Fn(&[SetRef<'_>], &mut Reply<'c>) -> Destination,
    finish: impl Fn(&mut Reply<'c>, Destination) -> R,
) -> Result<R, Stop> {
    if many::has_many(call) {
        return many::gather_union(call, keys, finish);
    }
    let work = (limits(call.settings), call.now());
    read_all(call.keys, keys)?;
    call.gather(
        keys,
        |call| {
            let sets: PresentMembers<'_> =
                sets_at(call.keys, keys)?.into_iter().flatten().collect();
            check_lane(call.lane, total(&sets))?;
            Ok(Union::begin(begin(&sets, &mut call.reply)))
        },
        |call, union, budget| {
            let sets: PresentMembers<'_> =
                sets_at(call.keys, keys)?.into_iter().flatten().collect();
            Ok(union.go_on(&sets, &mut call.reply, budget, work))
        },
        |reply, union| finish(reply, union.found),
    )
}

pub(super) const SUNION: Command = combines("SUNION", sunion)
    .complexity("O(N) for N members of all sets")
    .summary("Returns the members of all of the sets.");

fn sunion(call: &mut Call<'_, '_>) -> CommandResult {
    let (keys, now) = (call.all_keys(), call.now());
    let begin = |sets: &[SetRef<'_>], reply: &mut Reply<'_>| {
        let before_last = sets.split_last().map_or(sets, |(_, before)| before);
        let is_quick = before_last.iter().all(|set| matches!(set, SetRef::Large(_)));
        match is_quick && before_last.len() <= MOST_LOOKUPS {
            true => Destination::reply(reply),
            false => Destination::Set(Set::default()),
        }
    };
    gather_union(call, &keys, begin, |reply, found| found.answer(reply, now))
}

pub(super) const SUNIONSTORE: Command = stores("SUNIONSTORE", sunionstore)
    .complexity("O(N) for N members of all sets")
    .summary("Stores the members of all of the sets.");

fn sunionstore(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = source_keys(call)?;
    let begin = |_: &[SetRef<'_>], _: &mut Reply<'_>| Destination::Set(Set::default());
    let result = gather_union(call, &keys, begin, |_, found| found.into_set())?;
    store(call, result, event::SUNIONSTORE);
    Ok(())
}

/// A difference, and the way it is computed.
struct Difference<'s> {
    /// The set that members are taken from, if any, and then those they may not be in.
    sets: PresentMembers<'s>,
    way: CombineMethod,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CombineMethod {
    /// Looks each member up in the others, the largest first.
    LookUp,
    /// Removes the others from a copy.
    TakeOut,
}

impl<'s> Difference<'s> {
    fn of(keys: &[Key<'_>], sets: Sets<'s>, lane: Lane) -> Result<Difference<'s>, Stop> {
        check_lane(lane, sets.iter().flatten().map(|set| set.work()).sum())?;
        let is_same = keys.iter().skip(1).any(|key| key.bytes == keys[0].bytes);
        if is_same || sets[0].is_none() {
            return Ok(Difference { sets: PresentMembers::new(), way: CombineMethod::LookUp });
        }
        let mut sets: PresentMembers<'s> = sets.into_iter().flatten().collect();
        // The first way does less work if members are found; it may cost twice as much.
        let look_up = sets[0].len().saturating_mul(sets.len()) / 2;
        let take_out = sets.iter().map(|set| set.len()).sum::<usize>();
        if look_up > take_out {
            return Ok(Difference { sets, way: CombineMethod::TakeOut });
        }
        check_lane(lane, sets[0].len().saturating_mul(sets.len()))?;
        sets[1..].sort_by_key(|set| std::cmp::Reverse(set.len()));
        Ok(Difference { sets, way: CombineMethod::LookUp })
    }

    fn look_up(
        &self,
        (place, found): &mut (Place, Destination),
        reply: &mut Reply<'_>,
        budget: &mut Budget,
        (limits, now): (SetLimits, UnixMs),
    ) -> GatherState {
        let Some((first, others)) = self.sets.split_first() else { return GatherState::Whole };
        place.go_on(&[*first], now, budget, |_, member| {
            if !others.iter().any(|other| other.has_member(member, now)) {
                found.add(member.element, reply, limits, now);
            }
        })
    }

    fn take_out(
        &self,
        (place, found): &mut (Place, Destination),
        budget: &mut Budget,
        (limits, now): (SetLimits, UnixMs),
    ) -> GatherState {
        let Destination::Set(set) = found else { return GatherState::Whole };
        let gathered = place.go_on(&self.sets, now, budget, |nth, member| match nth {
            0 => _ = set.add_element(member.element, limits, now),
            _ => _ = set.remove_element(member.element, now),
        });
        match place.set > 0 && set.view().is_empty() {
            true => GatherState::Whole,
            false => gathered,
        }
    }
}

/// The difference of the sets at some keys; it goes to the reply if allowed, and no copy is needed.
fn gather_difference<'c, R>(
    call: &mut Call<'c, '_>,
    keys: &[Key<'_>],
    is_shown: bool,
    finish: impl Fn(&mut Reply<'c>, Destination) -> R,
) -> Result<R, Stop> {
    if many::has_many(call) {
        return many::gather_difference(call, keys, is_shown, finish);
    }
    let work = (limits(call.settings), call.now());
    read_all(call.keys, keys)?;
    call.gather(
        keys,
        |call| {
            let difference = Difference::of(keys, sets_at(call.keys, keys)?, call.lane)?;
            let found = match is_shown && difference.way == CombineMethod::LookUp {
                true => Destination::reply(&mut call.reply),
                false => Destination::Set(Set::default()),
            };
            Ok((Place::default(), found))
        },
        |call, gathered, budget| {
            let difference = Difference::of(keys, sets_at(call.keys, keys)?, call.lane)?;
            Ok(match difference.way {
                CombineMethod::LookUp => {
                    difference.look_up(gathered, &mut call.reply, budget, work)
                }
                CombineMethod::TakeOut => difference.take_out(gathered, budget, work),
            })
        },
        |reply, (_, found)| finish(reply, found),
    )
}

pub(super) const SDIFF: Command = combines("SDIFF", sdiff)
    .complexity("O(N) for N members of all sets")
    .summary("Returns the members of the first set that are in none of the others.");

fn sdiff(call: &mut Call<'_, '_>) -> CommandResult {
    let (keys, now) = (call.all_keys(), call.now());
    gather_difference(call, &keys, true, |reply, found| found.answer(reply, now))
}

pub(super) const SDIFFSTORE: Command = stores("SDIFFSTORE", sdiffstore)
    .complexity("O(N) for N members of all sets")
    .summary("Stores the members of the first set that are in none of the others.");

fn sdiffstore(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = source_keys(call)?;
    let result = gather_difference(call, &keys, false, |_, found| found.into_set())?;
    store(call, result, event::SDIFFSTORE);
    Ok(())
}
