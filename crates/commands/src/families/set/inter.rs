//! Intersections: SINTER, SINTERSTORE, SINTERCARD.
//!
//! The smallest set is gone through, and each of its members is looked up in the others.

use pantala_base::number::parse_i64;
use pantala_keyspace::{Key, Locked, event};
use pantala_protocol::Reply;
use pantala_values::Set;
use pantala_values::packed::Element;
use pantala_values::set::SetRef;

use super::{
    PresentMembers, check_lane, combines, limits, many, read_all, reads, reply_member, sets_at,
    source_keys, store, stores,
};
use crate::calls::call::{Call, CommandResult, Stop};
use crate::error;
use crate::long_work::incremental::{Aggregate, GatherState, Header};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const COUNTED: &[KeySpec] = &[KeySpec::counted(1, 1, KeyFlags::READ)];

/// The sets from the smallest to the largest; empty if one is missing, so that the result is empty.
fn sorted_at<'l>(keys: &'l Locked<'_>, of: &[Key<'_>]) -> Result<PresentMembers<'l>, Stop> {
    let sets = sets_at(keys, of)?.into_iter().collect::<Option<PresentMembers<'l>>>();
    let mut sets = sets.unwrap_or_default();
    sets.sort_by_key(|set| set.len());
    Ok(sets)
}

/// The intersection of the sets at some keys: `begin` is told whether the smallest holds integers,
/// `each` is called with the members found, in the order of the smallest, until it returns false,
/// and `finish` makes the result.
fn gather_common<'c, S, R>(
    call: &mut Call<'c, '_>,
    keys: &[Key<'_>],
    begin: impl Fn(bool, &mut Reply<'c>) -> S,
    each: impl Fn(&mut S, &mut Reply<'c>, Element<'_>) -> bool,
    finish: impl Fn(&mut Reply<'c>, S) -> R,
) -> Result<R, Stop> {
    if many::has_many(call) {
        return many::gather_common(call, keys, begin, each, finish);
    }
    let now = call.now();
    read_all(call.keys, keys)?;
    call.gather(
        keys,
        |call| {
            let sets = sorted_at(call.keys, keys)?;
            let work = sets.first().map_or(0, |set| set.work().saturating_mul(sets.len()));
            check_lane(call.lane, work)?;
            let are_ints = matches!(sets.first(), Some(SetRef::Ints(_)));
            Ok((0, begin(are_ints, &mut call.reply)))
        },
        |call, (from, found), budget| {
            let sets = sorted_at(call.keys, keys)?;
            let Some((first, others)) = sets.split_first() else { return Ok(GatherState::Whole) };
            let mut goes_on = true;
            let next = first.part_common(others, *from, now, |member| {
                goes_on = goes_on && each(found, &mut call.reply, member);
                goes_on && budget.take(member.len())
            });
            *from = next.unwrap_or_default();
            Ok(GatherState::whole_if(next.is_none() || !goes_on))
        },
        |reply, (_, found)| finish(reply, found),
    )
}

pub(super) const SINTER: Command = combines("SINTER", sinter)
    .complexity("O(N*M) for N members of the smallest of M sets")
    .summary("Returns the members that are in all of the sets.");

fn sinter(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = call.all_keys();
    gather_common(
        call,
        &keys,
        |_, reply| Header::later(reply),
        |header, reply, member| {
            reply_member(reply, member);
            header.count += 1;
            true
        },
        |reply, header| header.end(Aggregate::Set, reply),
    )
}

pub(super) const SINTERSTORE: Command = stores("SINTERSTORE", sinterstore)
    .complexity("O(N*M) for N members of the smallest of M sets")
    .summary("Stores the members that are in all of the sets.");

/// The stored set has the encoding of the reference's.
fn sinterstore(call: &mut Call<'_, '_>) -> CommandResult {
    let (keys, now, limits) = (source_keys(call)?, call.now(), limits(call.settings));
    let result = gather_common(
        call,
        &keys,
        |are_ints, _| match are_ints {
            true => (Set::default(), true),
            false => (Set::packed(), true),
        },
        |(set, is_all_ints), _, member| {
            let member = match member {
                Element::Bytes(text) if *is_all_ints => Element::of(text),
                known => known,
            };
            *is_all_ints &= member.int().is_some();
            set.add_element(member, limits, now);
            true
        },
        |_, (mut set, is_all_ints)| {
            if is_all_ints {
                set.to_ints(limits);
            }
            set
        },
    )?;
    store(call, result, event::SINTERSTORE);
    Ok(())
}

pub(super) const SINTERCARD: Command = reads("SINTERCARD", sintercard)
    .arity(-3)
    .flags(Flags::MOVABLEKEYS)
    .keys(COUNTED)
    .since("7.0.0")
    .complexity("O(N*M) for N members of the smallest of M sets")
    .syntax("numkeys:int key [key ...] [LIMIT limit:int]")
    .summary("Tells how many members are in all of the sets.");

fn sintercard(call: &mut Call<'_, '_>) -> CommandResult {
    let limit = parse_card(call.args)?;
    let keys = call.all_keys();
    gather_common(
        call,
        &keys,
        |_, _| 0,
        |count, _, _| {
            *count += 1;
            *count < limit
        },
        |reply, count| reply.int(count as i64),
    )
}

/// Parses `numkeys key [key ...] [LIMIT limit]`; returns the limit.
fn parse_card(args: &[&[u8]]) -> Result<usize, error::ClientError> {
    let key_count = parse_i64(args[1]).filter(|count| *count > 0);
    let key_count = key_count.ok_or(error::KEYS_NOT_POSITIVE)?;
    let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
    if key_count > args.len() - 2 {
        return Err(error::MORE_KEYS_THAN_ARGS);
    }
    let mut limit = 0;
    let mut words = args[2 + key_count..].iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next().filter(|_| is_word(word, "LIMIT")) else {
            return Err(error::SYNTAX);
        };
        let value = parse_i64(value).and_then(|value| usize::try_from(value).ok());
        limit = value.ok_or(error::LIMIT_NEGATIVE)?;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}
