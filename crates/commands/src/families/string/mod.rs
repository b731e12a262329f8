//! Strings: commands on one value as a whole. Other commands on strings are in files of their own:
//!
//! | file | commands |
//! |---|---|
//! | here | GET GETDEL GETEX GETSET SET SETNX SETEX PSETEX DELIFEQ DELEX DIGEST STRLEN |
//! | `many` | MGET MSET MSETNX MSETEX |
//! | `number` | INCR and its kin, INCRBYFLOAT |
//! | `range` | APPEND GETRANGE SETRANGE SUBSTR |
//! | `lcs` | LCS |
//! | `throttle` | CL.THROTTLE |
//! | `options` | the words after key and value |
//! | `compare` | conditions of SET and DELEX on the present value |
//!
//! SET and GET without options are the hottest code of the whole server: keep their way short.
//! Tests: compat/transcripts/string.

mod compare;
mod lcs;
mod many;
mod number;
mod options;
mod range;
mod throttle;

use pantala_keyspace::{Expiry, Key, OpenKey, event};
use pantala_table::{StrRef, Tail};

use crate::calls::call::{Call, CommandResult, Lane, Stop, reply_string};
use crate::error;
use crate::families::generic::{give_deadline, record_deadline};
use crate::options::{TimeForm, is_word, positive_deadline};
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

use compare::{CompareForm, digest_of, is_text};
use options::{Condition, OptionWords, SetOptions, Time};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    range::APPEND,
    throttle::CL_THROTTLE,
    number::DECR,
    number::DECRBY,
    DELEX,
    DELIFEQ,
    DIGEST,
    GET,
    GETDEL,
    GETEX,
    range::GETRANGE,
    GETSET,
    number::INCR,
    number::INCRBY,
    number::INCRBYFLOAT,
    lcs::LCS,
    many::MGET,
    many::MSET,
    many::MSETEX,
    many::MSETNX,
    PSETEX,
    SET,
    SETEX,
    SETNX,
    range::SETRANGE,
    STRLEN,
    range::SUBSTR,
];

/// SET reads the old value only with GET.
fn set_key_flags(args: &[&[u8]]) -> KeyFlags {
    match args.iter().skip(3).any(|word| is_word(word, "GET")) {
        true => KeyFlags::CHANGE,
        false => KeyFlags::OVERWRITE,
    }
}

/// Copying, comparing or digesting more bytes than this is for the slow lane: it takes some 100
/// microseconds. Reading commands move there by the length of their reply.
const WORKER_BYTES: usize = 1 << 20;

/// Moves a command to the lane if a value is too long for a worker, before anything has changed.
fn check_lane(lane: Lane, value: StrRef<'_>) -> CommandResult {
    if lane == Lane::Worker && value.len() > WORKER_BYTES { Err(Stop::Lane) } else { Ok(()) }
}

const GET: Command = Command::read("GET", get, Group::String)
    .arity(2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .syntax("key")
    .summary("Returns the string at a key.");

fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    match call.keys.read(key).string()? {
        Some(value) => reply_string(&mut call.reply, value),
        None => call.reply.null(),
    }
    Ok(())
}

const SET: Command = Command::write("SET", set, Group::String)
    .replaces()
    .arity(-3)
    .flags(Flags::DENYOOM.union(Flags::STEADY))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE.variable())])
    .flags_of(set_key_flags)
    .syntax(
        "key value [NX | XX | IFEQ comparison-value] [GET] [EX seconds:int | \
         PX milliseconds:int | EXAT unix-time-seconds:time | \
         PXAT unix-time-milliseconds:time | \
         KEEPTTL]",
    )
    .summary("Sets a key to a string, whatever it held before.");

fn set(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args.len() > 3 {
        return set_with_options(call);
    }
    let value = call.args[2];
    let key = call.key();
    let mut opened = call.keys.open(key);
    opened.set_string(value, Expiry::Never);
    opened.publish(event::SET);
    call.reply.ok();
    Ok(())
}

#[inline(never)]
fn set_with_options(call: &mut Call<'_, '_>) -> CommandResult {
    let options = SetOptions::parse(&call.args[3..], OptionWords::SET)?;
    let expiry = options.expiry(call)?;
    let key = call.key();
    let mut opened = match options.answers_old {
        true => call.keys.read(key),
        false => call.keys.open(key),
    };
    opened.make_way_for_writer();
    let looks_at_value = options.answers_old || matches!(options.condition, Condition::Compares(_));
    let old = if looks_at_value { opened.string()? } else { None };
    if let Some(old) = old {
        check_lane(call.lane, old)?;
    }
    let holds = match options.condition {
        Condition::Always => true,
        Condition::Missing => !opened.exists(),
        Condition::Present => opened.exists(),
        Condition::Compares(comparison) => comparison.holds(old),
    };
    match old {
        Some(old) if options.answers_old => reply_string(&mut call.reply, old),
        _ if options.answers_old || !holds => call.reply.null(),
        _ => call.reply.ok(),
    }
    if holds {
        let tail = Tail::of_flags(options.flags);
        let done = put_with_tail(&mut opened, call.args[2], expiry, tail);
        drop(opened);
        // NX and XX alone may be recorded as they came: the result is the same.
        let may_come_again =
            !looks_at_value && !matches!(expiry, Expiry::At(_)) && !options.says_flags;
        if call.is_recorded() && !may_come_again {
            match done {
                Put::Set => {
                    call.record_string_with_flags(key.bytes, call.args[2], expiry, tail.flags);
                }
                _ => record_put(call, key, call.args[2], expiry, done),
            }
        }
    }
    Ok(())
}

/// The result of setting a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    Set,
    /// Its deadline had passed already.
    Removed,
    /// Its deadline had passed already, and the key was not there.
    Nothing,
}

/// Sets the key and publishes that. A deadline that has passed removes the key instead.
fn put(opened: &mut OpenKey<'_, '_>, value: &[u8], expiry: Expiry) -> Put {
    put_with_tail(opened, value, expiry, Tail::default())
}

fn put_with_tail(opened: &mut OpenKey<'_, '_>, value: &[u8], expiry: Expiry, tail: Tail) -> Put {
    if let Expiry::At(deadline) = expiry
        && opened.scope().has_passed(deadline)
    {
        if !opened.remove_expired() {
            return Put::Nothing;
        }
        opened.publish(event::EXPIRED);
        return Put::Removed;
    }
    opened.set_string_with_tail(value, expiry, tail);
    opened.publish(event::SET);
    if let Expiry::At(_) = expiry {
        opened.announce(event::EXPIRE);
    }
    Put::Set
}

/// Records what [`put`] has done, without conditions and with an absolute deadline.
fn record_put(call: &Call<'_, '_>, key: Key<'_>, value: &[u8], expiry: Expiry, done: Put) {
    match done {
        Put::Set => call.record_string(key.bytes, value, expiry),
        Put::Removed => call.record_end(key.bytes),
        Put::Nothing => {}
    }
}

const SETNX: Command = Command::write("SETNX", setnx, Group::String)
    .replaces()
    .arity(3)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::CREATE)])
    .syntax("key value")
    .summary("Sets a key to a string if the key is not there.");

fn setnx(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, value) = (call.key(), call.args[2]);
    let mut opened = call.keys.open(key);
    let is_new = !opened.exists();
    if is_new {
        put(&mut opened, value, Expiry::Never);
    }
    call.reply.int(i64::from(is_new));
    Ok(())
}

const SETEX: Command = Command::write("SETEX", setex, Group::String)
    .replaces()
    .arity(4)
    .flags(Flags::DENYOOM.union(Flags::STEADY))
    .keys(&[KeySpec::one(1, KeyFlags::OVERWRITE)])
    .since("2.0.0")
    .syntax("key seconds:int value")
    .summary("Sets a key to a string that lives for some seconds.");

fn setex(call: &mut Call<'_, '_>) -> CommandResult {
    set_for(call, TimeForm::Seconds)
}

const PSETEX: Command = Command::write("PSETEX", psetex, Group::String)
    .replaces()
    .arity(4)
    .flags(Flags::DENYOOM.union(Flags::STEADY))
    .keys(&[KeySpec::one(1, KeyFlags::OVERWRITE)])
    .since("2.6.0")
    .syntax("key milliseconds:int value")
    .summary("Sets a key to a string that lives for some milliseconds.");

fn psetex(call: &mut Call<'_, '_>) -> CommandResult {
    set_for(call, TimeForm::Milliseconds)
}

fn set_for(call: &mut Call<'_, '_>, form: TimeForm) -> CommandResult {
    let (key, value) = (call.key(), call.args[3]);
    let deadline = positive_deadline(call.args[2], form, call.clock(), call.command.name)?;
    let done = put(&mut call.keys.open(key), value, Expiry::At(deadline));
    if call.is_recorded() {
        record_put(call, key, value, Expiry::At(deadline), done);
    }
    call.reply.ok();
    Ok(())
}

const GETSET: Command = Command::write("GETSET", getset, Group::String)
    .replaces()
    .arity(3)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .syntax("key value")
    .summary("Sets a key to a string and returns the string it held before.");

fn getset(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, value) = (call.key(), call.args[2]);
    let mut opened = call.keys.read(key);
    match opened.string()? {
        Some(old) => {
            check_lane(call.lane, old)?;
            reply_string(&mut call.reply, old);
        }
        None => call.reply.null(),
    }
    let done = put(&mut opened, value, Expiry::Never);
    drop(opened);
    if call.is_recorded() {
        record_put(call, key, value, Expiry::Never, done);
    }
    Ok(())
}

const GETDEL: Command = Command::write("GETDEL", getdel, Group::String)
    .replaces()
    .arity(2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::TAKE)])
    .since("6.2.0")
    .syntax("key")
    .summary("Returns the string at a key and removes the key.");

fn getdel(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    let mut opened = call.keys.read(key);
    opened.make_way_for_writer();
    match opened.string()? {
        Some(value) => {
            check_lane(call.lane, value)?;
            reply_string(&mut call.reply, value);
        }
        None => call.reply.null(),
    }
    let is_removed = opened.remove();
    if is_removed {
        opened.publish(event::DEL);
    }
    drop(opened);
    if is_removed && call.is_recorded() {
        call.record_removal(key.bytes);
    }
    Ok(())
}

const GETEX: Command = Command::write("GETEX", getex, Group::String)
    .replaces()
    .arity(-2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .since("6.2.0")
    .syntax(
        "key [EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | \
         PXAT unix-time-milliseconds:time | PERSIST]",
    )
    .summary("Returns the string at a key and sets or clears the key's deadline.");

fn getex(call: &mut Call<'_, '_>) -> CommandResult {
    let options = SetOptions::parse(&call.args[2..], OptionWords::GETEX)?;
    let expiry = options.expiry(call)?;
    let key = call.key();
    let mut opened = call.keys.read(key);
    let Some(value) = opened.string()? else {
        call.reply.null();
        return Ok(());
    };
    check_lane(call.lane, value)?;
    reply_string(&mut call.reply, value);
    match expiry {
        Expiry::At(deadline) => {
            let stays = give_deadline(&mut opened, deadline);
            drop(opened);
            record_deadline(call, key, deadline, stays);
        }
        Expiry::Never if options.time == Time::Persist && opened.deadline().is_some() => {
            opened.set_deadline(None);
            opened.publish(event::PERSIST);
            drop(opened);
            if call.is_recorded() {
                call.record_as(&[b"PERSIST", key.bytes]);
            }
        }
        Expiry::Never | Expiry::Keep => {}
    }
    Ok(())
}

const STRLEN: Command = Command::read("STRLEN", strlen, Group::String)
    .arity(2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::LOOK)])
    .since("2.2.0")
    .syntax("key")
    .summary("Returns the length of the string at a key in bytes.");

fn strlen(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    let length = call.keys.read(key).string()?.map_or(0, |value| value.len());
    call.reply.int(length as i64);
    Ok(())
}

const DELIFEQ: Command = Command::write("DELIFEQ", delifeq, Group::String)
    .replaces()
    .arity(3)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::REMOVE)])
    .since("9.0.0")
    .syntax("key value")
    .summary("Removes a key if its value is the given one.");

fn delifeq(call: &mut Call<'_, '_>) -> CommandResult {
    let wanted = call.args[2];
    delete_if(call, |value| is_text(value, wanted))
}

const DELEX: Command = Command::write("DELEX", delex, Group::String)
    .replaces()
    .arity(-2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::REMOVE)])
    .since("8.4.0")
    .complexity("O(1) for IFEQ and IFNE, O(N) for digests of N bytes")
    .syntax("key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]")
    .summary("Removes a key if its value, or the value's digest, is or is not the given one.");

/// Redis 8's DELEX: without a condition it takes any type.
fn delex(call: &mut Call<'_, '_>) -> CommandResult {
    let &[_, _, condition, wanted] = call.args else {
        if call.args.len() > 2 {
            return Err(error::wrong_arity(call.command.name).into());
        }
        let key = call.key();
        let mut opened = call.keys.open(key);
        let removed = opened.remove();
        if removed {
            opened.publish(event::DEL);
        }
        drop(opened);
        if removed && call.is_recorded() {
            call.record_removal(key.bytes);
        }
        call.reply.int(i64::from(removed));
        return Ok(());
    };
    let Some(form) = CompareForm::of_word(condition) else {
        return Err(error::DELEX_CONDITION.into());
    };
    let comparison = form.with(wanted)?;
    delete_if(call, |value| comparison.holds(Some(value)))
}

/// Removes a string that fits; replies with the number of removed keys.
fn delete_if(call: &mut Call<'_, '_>, fits: impl FnOnce(StrRef<'_>) -> bool) -> CommandResult {
    let key = call.key();
    let mut opened = call.keys.open(key);
    let value = opened.string()?;
    if let Some(value) = value {
        check_lane(call.lane, value)?;
    }
    let removed = value.is_some_and(fits);
    if removed {
        opened.remove();
        opened.publish(event::DEL);
    }
    drop(opened);
    if removed && call.is_recorded() {
        call.record_removal(key.bytes);
    }
    call.reply.int(i64::from(removed));
    Ok(())
}

const DIGEST: Command = Command::read("DIGEST", digest, Group::String)
    .arity(2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .since("8.4.0")
    .complexity("O(N) for a value of N bytes")
    .syntax("key")
    .summary("Returns the XXH3 hash of the string at a key, as 16 hexadecimal digits.");

/// Redis 8's DIGEST.
fn digest(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    match call.keys.read(key).string()? {
        Some(value) => {
            check_lane(call.lane, value)?;
            call.reply.bulk(format!("{:016x}", digest_of(value)).as_bytes());
        }
        None => call.reply.null(),
    }
    Ok(())
}
