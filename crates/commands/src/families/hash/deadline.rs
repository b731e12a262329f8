//! Deadlines of fields: HEXPIRE, HTTL, HPERSIST and their kin.

use pantala_keyspace::event;
use pantala_values::Hash;

use super::words::{counted, find_fields};
use super::{check_arguments, open, reads, writes};
use crate::calls::call::{Call, CommandResult, Stop};
use crate::error;
use crate::families::deadlines::{self, Form};
use crate::options::{Conditions, TimeForm, field_deadline, is_word};
use crate::rows::command::{Command, Flags, Handler};

const fn asks(name: &'static str, handler: Handler) -> Command {
    reads(name, handler)
        .arity(-5)
        .flags(Flags::FAST)
        .since("9.0.0")
        .complexity("O(N) for N fields")
        .syntax("key (FIELDS numfields:int field [field ...])")
}

const fn expires(name: &'static str, handler: Handler) -> Command {
    writes(name, handler)
        .arity(-6)
        .flags(Flags::NEWER)
        .since("9.0.0")
        .complexity("O(N) for N fields")
}

pub(super) const HEXPIRE: Command = expires("HEXPIRE", |call| expire(call, TimeForm::Seconds))
    .syntax("key seconds:int [NX | XX | GT | LT] (FIELDS numfields:int field [field ...])")
    .summary("Gives fields of a hash so many seconds to live.");

pub(super) const HEXPIREAT: Command =
    expires("HEXPIREAT", |call| expire(call, TimeForm::UnixSeconds))
        .syntax(
            "key unix-time-seconds:int [NX | XX | GT | LT] \
         (FIELDS numfields:int field [field ...])",
        )
        .summary("Lets fields of a hash live until a moment, in seconds since 1970.");

pub(super) const HPEXPIRE: Command =
    expires("HPEXPIRE", |call| expire(call, TimeForm::Milliseconds))
        .syntax("key milliseconds:int [NX | XX | GT | LT] (FIELDS numfields:int field [field ...])")
        .summary("Gives fields of a hash so many milliseconds to live.");

pub(super) const HPEXPIREAT: Command =
    expires("HPEXPIREAT", |call| expire(call, TimeForm::UnixMilliseconds))
        .syntax(
            "key unix-time-milliseconds:int [NX | XX | GT | LT] \
         (FIELDS numfields:int field [field ...])",
        )
        .summary("Lets fields of a hash live until a moment, in milliseconds since 1970.");

/// HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT.
pub(super) fn expire(call: &mut Call<'_, '_>, form: TimeForm) -> CommandResult {
    let at = find_fields(call.args, 3)?;
    let conditions = Conditions::parse(&call.args[3..at])?;
    let fields = counted(call.args, at, 1)?;
    let deadline = field_deadline(call.args[2], form, call.clock(), call.command.name)?;
    check_arguments(call)?;
    let key = call.key();
    let opened = open(call.keys, key, call.lane)?;
    let changed = deadlines::set::<Hash>(&mut call.reply, opened, fields, deadline, conditions)?;
    deadlines::record_set::<Hash>(call, key.bytes, &changed, deadline);
    Ok(())
}

/// Parses `FIELDS count field ...` at its only place. HTTL has another error for a wrong count.
fn fields_here<'c>(
    call: &Call<'c, '_>,
    wrong_count: error::ClientError,
) -> Result<&'c [&'c [u8]], Stop> {
    if !is_word(call.args[2], "FIELDS") {
        return Err(error::SYNTAX.into());
    }
    let fields = counted(call.args, 2, 1);
    fields.map_err(|error| if error == error::FIELD_COUNT { wrong_count } else { error }.into())
}

pub(super) const HEXPIRETIME: Command = asks("HEXPIRETIME", |call| ttl(call, Form::Moment))
    .summary("Tells at which second since 1970 fields of a hash will be gone.");

pub(super) const HPEXPIRETIME: Command = asks("HPEXPIRETIME", |call| ttl(call, Form::MomentMs))
    .summary("Tells at which millisecond since 1970 fields of a hash will be gone.");

pub(super) const HPTTL: Command = asks("HPTTL", |call| ttl(call, Form::LeftMs))
    .summary("Tells how many milliseconds fields of a hash have to live.");

pub(super) const HTTL: Command = asks("HTTL", |call| ttl(call, Form::Left))
    .summary("Tells how many seconds fields of a hash have to live.");

/// HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME.
pub(super) fn ttl(call: &mut Call<'_, '_>, form: Form) -> CommandResult {
    let fields = fields_here(call, error::SYNTAX)?;
    check_arguments(call)?;
    let key = call.key();
    let opened = call.keys.read(key);
    Ok(deadlines::reply::<Hash>(&mut call.reply, &opened, fields, form)?)
}

pub(super) const HPERSIST: Command = writes("HPERSIST", persist)
    .arity(-5)
    .flags(Flags::NEWER)
    .since("9.0.0")
    .complexity("O(N) for N fields")
    .syntax("key (FIELDS numfields:int field [field ...])")
    .summary("Takes the deadlines of fields of a hash away.");

pub(super) fn persist(call: &mut Call<'_, '_>) -> CommandResult {
    let fields = fields_here(call, error::FIELD_COUNT)?;
    check_arguments(call)?;
    let key = call.key();
    let opened = open(call.keys, key, call.lane)?;
    let changed = deadlines::persist::<Hash>(&mut call.reply, opened, fields, event::HPERSIST)?;
    deadlines::record_persist::<Hash>(call, b"HPERSIST", key.bytes, &changed);
    Ok(())
}
