//! Single members: adding, testing, removing.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_keyspace::{Expiry, OpenKey, event};
use pantala_values::Set;
use pantala_values::set::SetLimits;

use super::{check_lane, limits, open, reads, writes};
use crate::calls::call::{Call, CommandResult};
use crate::calls::record::RecordedWords;
use crate::error;
use crate::families::deadlines;
use crate::options::{Conditions, TimeForm, field_deadline, is_word};
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const MOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE), KeySpec::one(2, KeyFlags::ADD)];
const CHANGE_REMOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];
const ADD: &[KeySpec] = &[KeySpec::one(1, KeyFlags::ADD)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, KeyFlags::LOOK)];

/// The longest time to live of a member, in seconds: Dragonfly's limit.
const MOST_SECONDS: i64 = (1 << 28) - 1;

/// A new set of some members.
fn set_of(members: &[&[u8]], limits: SetLimits, now: UnixMs) -> Set {
    let mut set = Set::starting_with(members[0], members.len(), limits);
    for member in members {
        set.add(member, limits, now);
    }
    set
}

pub(super) const SADD: Command = writes("SADD", sadd)
    .arity(-3)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(ADD)
    .complexity("O(N) for N members")
    .syntax("key member [member ...]")
    .summary("Adds members to a set, creating it when missing.");

fn sadd(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now, limits) = (call.key(), call.now(), limits(call.settings));
    let members = &call.args[2..];
    if call.has_many_args() {
        return add_many(call, members);
    }
    let mut opened = open(call.keys, key, call.lane)?;
    if !opened.exists() {
        let set = set_of(members, limits, now);
        let added = set.view().len();
        call.reply.int(added as i64);
        opened.set_collection(set, Expiry::Never);
        opened.counts_as(added);
        opened.publish(event::SADD);
        return Ok(());
    }
    let mut added = 0;
    if let Some(set) = opened.collection_mut::<Set>()? {
        set.expect(members.len(), limits);
        for member in members {
            added += usize::from(set.add(member, limits, now));
        }
    }
    publish_added(&mut opened, added);
    call.reply.int(added as i64);
    Ok(())
}

/// SADD of many members: a small or new set is changed in a copy.
#[cold]
fn add_many(call: &mut Call<'_, '_>, members: &[&[u8]]) -> CommandResult {
    let (key, now, limits) = (call.key(), call.now(), limits(call.settings));
    check_lane(call.lane, members.len())?;
    let add = |set: &mut Set| {
        if set.view().is_empty() {
            *set = set_of(members, limits, now);
            return set.view().len();
        }
        set.expect(members.len(), limits);
        members.iter().filter(|member| set.add(member, limits, now)).count()
    };
    open(call.keys, key, call.lane)?;
    let swapped = call.copy_and_swap(add)?;
    let mut opened = call.keys.peek(key);
    let added = match swapped {
        Some((set, added)) => {
            // Even if nothing was added: its encoding may have changed.
            set.into_iter().for_each(|set| opened.set_collection(set, Expiry::Keep));
            added
        }
        None => add(opened.collection_or_new::<Set>()?),
    };
    publish_added(&mut opened, added);
    call.reply.int(added as i64);
    Ok(())
}

/// Ends SADD, which has added this many members.
fn publish_added(opened: &mut OpenKey<'_, '_>, added: usize) {
    if added == 0 {
        return opened.unchanged();
    }
    opened.counts_as(added);
    opened.publish(event::SADD);
}

pub(super) const SADDEX: Command = writes("SADDEX", saddex)
    .arity(-4)
    .flags(Flags::DENYOOM.union(Flags::FAST).union(Flags::ONLY_OURS))
    .keys(ADD)
    .complexity("O(N) for N members")
    .syntax("key [KEEPTTL] seconds:int member [member ...]")
    .summary("Adds members to a set, each for so many seconds (Dragonfly).");

/// Dragonfly's SADD with a time to live for each member: `key [KEEPTTL] seconds member ...`.
fn saddex(call: &mut Call<'_, '_>) -> CommandResult {
    let keeps_old = is_word(call.args[2], "KEEPTTL");
    let rest = &call.args[2 + usize::from(keeps_old)..];
    let [seconds, members @ ..] = rest else { return Err(error::SYNTAX.into()) };
    let seconds = parse_i64(seconds).filter(|seconds| (1..=MOST_SECONDS).contains(seconds));
    let seconds = seconds.ok_or(error::NOT_INTEGER)?;
    if members.is_empty() {
        return Err(error::wrong_arity(call.command.name).into());
    }
    check_lane(call.lane, members.len())?;
    let (key, now) = (call.key(), call.now());
    let deadline = UnixMs(call.clock().0.saturating_add(seconds * 1000));
    let mut opened = open(call.keys, key, call.lane)?;
    let is_recorded = opened.scope().recorder.is_some();
    let mut new = RecordedWords::new();
    let set = opened.collection_or_new::<Set>()?;
    let mut added = 0;
    for member in members {
        let is_new = set.add_until(member, deadline, keeps_old, now);
        added += i64::from(is_new);
        if is_new && is_recorded {
            new.push(*member);
        }
    }
    if added == 0 && keeps_old {
        opened.unchanged();
    } else {
        opened.publish_collection::<Set>(event::SADD);
        drop(opened);
        if call.is_recorded() {
            call.record_listed(&[b"SADD", key.bytes], members);
            let given: &[&[u8]] = if keeps_old { &new } else { members };
            deadlines::record_set::<Set>(call, key.bytes, given, deadline);
        }
    }
    call.reply.int(added);
    Ok(())
}

pub(super) const SPEXPIREAT: Command = writes("SPEXPIREAT", spexpireat)
    .arity(-6)
    .flags(Flags::FAST.union(Flags::ONLY_OURS))
    .keys(CHANGE_REMOVE)
    .complexity("O(N) for N members")
    .syntax("key unix-time-milliseconds:unix-time (MEMBERS nummembers:int member [member ...])")
    .summary("Lets members of a set live until a moment: how SADDEX is kept in files (Pantala).");

/// What SADDEX and FIELDEXPIRE are recorded as: their times are relative, which a record must not
/// be.
fn spexpireat(call: &mut Call<'_, '_>) -> CommandResult {
    if !is_word(call.args[3], "MEMBERS") {
        return Err(error::SYNTAX.into());
    }
    let members = &call.args[5..];
    let count = parse_i64(call.args[4]).ok_or(error::NOT_INTEGER)?;
    if usize::try_from(count).ok() != Some(members.len()) {
        return Err(error::SYNTAX.into());
    }
    check_lane(call.lane, members.len())?;
    let form = TimeForm::UnixMilliseconds;
    let deadline = field_deadline(call.args[2], form, call.clock(), call.command.name)?;
    let key = call.key();
    let opened = open(call.keys, key, call.lane)?;
    let always = Conditions::default();
    let changed = deadlines::set::<Set>(&mut call.reply, opened, members, deadline, always)?;
    deadlines::record_set::<Set>(call, key.bytes, &changed, deadline);
    Ok(())
}

pub(super) const SREM: Command = writes("SREM", srem)
    .arity(-3)
    .flags(Flags::FAST)
    .keys(CHANGE_REMOVE)
    .complexity("O(N) for N members")
    .syntax("key member [member ...]")
    .summary("Removes members of a set.");

fn srem(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now) = (call.key(), call.now());
    check_lane(call.lane, call.args.len())?;
    if call.has_many_args() {
        drop(open(call.keys, key, call.lane)?);
        let members = &call.args[2..];
        return call.remove_many(event::SREM, |set: &mut Set| {
            members.iter().filter(|member| set.remove(member, now)).count()
        });
    }
    let mut opened = open(call.keys, key, call.lane)?;
    let mut removed = 0;
    if let Some(set) = opened.collection_mut::<Set>()? {
        for member in &call.args[2..] {
            removed += usize::from(set.remove(member, now));
        }
        match removed {
            0 => opened.unchanged(),
            _ => {
                opened.counts_as(removed);
                opened.publish_collection::<Set>(event::SREM);
            }
        }
    }
    call.reply.int(removed as i64);
    Ok(())
}

pub(super) const SISMEMBER: Command = reads("SISMEMBER", sismember)
    .arity(3)
    .flags(Flags::FAST)
    .keys(LOOK)
    .syntax("key member")
    .summary("Tells whether a set has a member.");

fn sismember(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now) = (call.key(), call.now());
    let opened = call.keys.read(key);
    let set = opened.collection::<Set>()?;
    let found = set.is_some_and(|set| set.view().contains(call.args[2], now));
    call.reply.int(i64::from(found));
    Ok(())
}

pub(super) const SMISMEMBER: Command = reads("SMISMEMBER", smismember)
    .arity(-3)
    .flags(Flags::FAST)
    .since("6.2.0")
    .complexity("O(N) for N members asked for")
    .syntax("key member [member ...]")
    .summary("Tells for each text whether it is a member of a set.");

fn smismember(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now) = (call.key(), call.now());
    check_lane(call.lane, call.args.len())?;
    let opened = call.keys.read(key);
    let set = opened.collection::<Set>()?.map(Set::view);
    call.reply.array(call.args.len() - 2);
    for member in &call.args[2..] {
        call.reply.int(i64::from(set.is_some_and(|set| set.contains(member, now))));
    }
    Ok(())
}

pub(super) const SCARD: Command = reads("SCARD", scard)
    .arity(2)
    .flags(Flags::FAST)
    .keys(LOOK)
    .syntax("key")
    .summary("Tells how many members a set has.");

fn scard(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now) = (call.key(), call.now());
    let opened = call.keys.read(key);
    let set = opened.collection::<Set>()?.map(Set::view);
    if let Some(set) = set.filter(|set| !set.is_exact(now)) {
        check_lane(call.lane, set.len())?;
    }
    call.reply.int(set.map_or(0, |set| set.live_len(now)) as i64);
    Ok(())
}

pub(super) const SMOVE: Command = writes("SMOVE", smove)
    .arity(4)
    .flags(Flags::FAST)
    .keys(MOVE)
    .syntax("source:key destination:key member")
    .summary("Moves a member from one set to another.");

fn smove(call: &mut Call<'_, '_>) -> CommandResult {
    let (from, to, member) = (call.nth_key(1, 0), call.nth_key(2, 1), call.args[3]);
    let (now, limits) = (call.now(), limits(call.settings));
    let source = open(call.keys, from, call.lane)?;
    let Some(set) = source.collection::<Set>()? else {
        call.reply.int(0);
        return Ok(());
    };
    let is_member = set.view().contains(member, now);
    drop(source);
    open(call.keys, to, call.lane)?;
    if !is_member || from.bytes == to.bytes {
        call.reply.int(i64::from(is_member));
        return Ok(());
    }
    let mut source = call.keys.open(from);
    if let Some(set) = source.collection_mut::<Set>()? {
        set.remove(member, now);
        source.publish_collection::<Set>(event::SREM);
    }
    drop(source);
    let mut target = call.keys.open(to);
    if !target.exists() {
        target.set_collection(set_of(&[member], limits, now), Expiry::Never);
        target.publish(event::SADD);
    } else if let Some(set) = target.collection_mut::<Set>()? {
        match set.add(member, limits, now) {
            true => target.publish(event::SADD),
            false => target.unchanged(),
        }
    }
    call.reply.int(1);
    Ok(())
}
