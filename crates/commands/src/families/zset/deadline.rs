//! Deadlines of members, as in Garnet: ZEXPIRE, ZTTL, ZPERSIST and their kin. They have the syntax
//! of HEXPIRE and its kin with MEMBERS for FIELDS.

use pantala_base::number::parse_i64;
use pantala_keyspace::event;
use pantala_values::SortedSet;

use super::{MODIFY, READ, check_lane, open, read, reads, writes};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::families::deadlines::{self, Form};
use crate::options::{Conditions, TimeForm, field_deadline, is_word};
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const MEMBER_COUNT: ClientError = ClientError::text(
    "ERR nummembers should be greater than 0 and match the provided number of members",
);

/// The members after MEMBERS at argument `at`.
fn members<'c>(args: &'c [&'c [u8]], at: usize) -> Result<&'c [&'c [u8]], ClientError> {
    let count = args.get(at + 1).and_then(|text| parse_i64(text)).ok_or(error::NOT_INTEGER)?;
    let rest = args.get(at + 2..).unwrap_or_default();
    let fits = count > 0 && i64::try_from(rest.len()).ok() == Some(count);
    if fits { Ok(rest) } else { Err(MEMBER_COUNT) }
}

pub(super) const ZEXPIRE: Command = writes("ZEXPIRE", |call| expire(call, TimeForm::Seconds))
    .arity(-6)
    .flags(Flags::DENYOOM.union(Flags::FAST).union(Flags::ONLY_OURS))
    .keys(MODIFY)
    .since("8.0.0")
    .complexity("O(log(N)) for each member")
    .syntax("key seconds:int [NX | XX | GT | LT] MEMBERS nummembers:int member [member ...]")
    .summary("Gives members of a sorted set so many seconds to live.");

pub(super) const ZEXPIREAT: Command =
    writes("ZEXPIREAT", |call| expire(call, TimeForm::UnixSeconds))
        .arity(-6)
        .flags(Flags::DENYOOM.union(Flags::FAST).union(Flags::ONLY_OURS))
        .keys(MODIFY)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax(
            "key unix-time-seconds:unix-time [NX | XX | GT | LT] MEMBERS nummembers:int \
            member [member ...]",
        )
        .summary("Lets members of a sorted set live until a moment, in seconds since 1970.");

pub(super) const ZPEXPIRE: Command =
    writes("ZPEXPIRE", |call| expire(call, TimeForm::Milliseconds))
        .arity(-6)
        .flags(Flags::DENYOOM.union(Flags::FAST).union(Flags::ONLY_OURS))
        .keys(MODIFY)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax(
            "key milliseconds:int [NX | XX | GT | LT] MEMBERS nummembers:int member [member \
            ...]",
        )
        .summary("Gives members of a sorted set so many milliseconds to live.");

pub(super) const ZPEXPIREAT: Command =
    writes("ZPEXPIREAT", |call| expire(call, TimeForm::UnixMilliseconds))
        .arity(-6)
        .flags(Flags::DENYOOM.union(Flags::FAST).union(Flags::ONLY_OURS))
        .keys(MODIFY)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax(
            "key unix-time-milliseconds:unix-time [NX | XX | GT | LT] MEMBERS \
            nummembers:int member [member ...]",
        )
        .summary("Lets members of a sorted set live until a moment, in milliseconds since 1970.");

/// ZEXPIRE, ZPEXPIRE, ZEXPIREAT, ZPEXPIREAT.
fn expire(call: &mut Call<'_, '_>, form: TimeForm) -> CommandResult {
    let words = call.args.get(3..).unwrap_or_default();
    let at = words.iter().position(|word| is_word(word, "MEMBERS")).ok_or(error::SYNTAX)? + 3;
    let conditions = Conditions::parse(&call.args[3..at])?;
    let members = members(call.args, at)?;
    let deadline = field_deadline(call.args[2], form, call.clock(), call.command.name)?;
    check_lane(call.lane, members.len())?;
    let key = call.key();
    let opened = open(call.keys, key, call.lane)?;
    let changed =
        deadlines::set::<SortedSet>(&mut call.reply, opened, members, deadline, conditions)?;
    deadlines::record_set::<SortedSet>(call, key.bytes, &changed, deadline);
    Ok(())
}

/// Parses `MEMBERS count member ...` at its only place.
fn members_here<'c>(call: &Call<'c, '_>) -> Result<&'c [&'c [u8]], ClientError> {
    if !is_word(call.args[2], "MEMBERS") {
        return Err(error::SYNTAX);
    }
    members(call.args, 2)
}

pub(super) const ZEXPIRETIME: Command = reads("ZEXPIRETIME", |call| ttl(call, Form::Moment))
    .arity(-5)
    .flags(Flags::FAST)
    .keys(READ)
    .since("8.0.0")
    .complexity("O(log(N)) for each member")
    .syntax("key MEMBERS nummembers:int member [member ...]")
    .summary("Tells until when members of a sorted set live, in seconds since 1970.");

pub(super) const ZPEXPIRETIME: Command = reads("ZPEXPIRETIME", |call| ttl(call, Form::MomentMs))
    .arity(-5)
    .flags(Flags::FAST)
    .keys(READ)
    .since("8.0.0")
    .complexity("O(log(N)) for each member")
    .syntax("key MEMBERS nummembers:int member [member ...]")
    .summary("Tells until when members of a sorted set live, in milliseconds since 1970.");

pub(super) const ZPTTL: Command = reads("ZPTTL", |call| ttl(call, Form::LeftMs))
    .arity(-5)
    .flags(Flags::FAST)
    .keys(READ)
    .since("8.0.0")
    .complexity("O(log(N)) for each member")
    .syntax("key MEMBERS nummembers:int member [member ...]")
    .summary("Tells how many milliseconds members of a sorted set have left.");

pub(super) const ZTTL: Command = reads("ZTTL", |call| ttl(call, Form::Left))
    .arity(-5)
    .flags(Flags::FAST)
    .keys(READ)
    .since("8.0.0")
    .complexity("O(log(N)) for each member")
    .syntax("key MEMBERS nummembers:int member [member ...]")
    .summary("Tells how many seconds members of a sorted set have left.");

/// ZTTL, ZPTTL, ZEXPIRETIME, ZPEXPIRETIME.
fn ttl(call: &mut Call<'_, '_>, form: Form) -> CommandResult {
    let members = members_here(call)?;
    check_lane(call.lane, members.len())?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    Ok(deadlines::reply::<SortedSet>(&mut call.reply, &opened, members, form)?)
}

pub(super) const ZPERSIST: Command = writes("ZPERSIST", persist)
    .arity(-5)
    .flags(Flags::FAST.union(Flags::ONLY_OURS))
    .keys(MODIFY)
    .since("8.0.0")
    .complexity("O(log(N)) for each member")
    .syntax("key MEMBERS nummembers:int member [member ...]")
    .summary("Takes the deadlines of members of a sorted set away.");

fn persist(call: &mut Call<'_, '_>) -> CommandResult {
    let members = members_here(call)?;
    check_lane(call.lane, members.len())?;
    let key = call.key();
    let opened = open(call.keys, key, call.lane)?;
    let changed =
        deadlines::persist::<SortedSet>(&mut call.reply, opened, members, event::ZPERSIST)?;
    deadlines::record_persist::<SortedSet>(call, b"ZPERSIST", key.bytes, &changed);
    Ok(())
}

pub(super) const ZCOLLECT: Command = writes("ZCOLLECT", collect)
    .arity(-2)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::CHANGE_REMOVE)])
    .since("8.0.0")
    .complexity("O(M*log(N)) for M members that have expired")
    .syntax("key [key ...]")
    .summary(
        "Removes the members of sorted sets that have expired, which happens by itself, \
            too.",
    );

/// Removes expired members, which no command sees anyway. In Garnet `*` means every key; here the
/// sweep does that by itself.
fn collect(call: &mut Call<'_, '_>) -> CommandResult {
    for key in call.all_keys() {
        if key.bytes != b"*" {
            open(call.keys, key, call.lane)?;
        }
    }
    call.reply.ok();
    Ok(())
}
