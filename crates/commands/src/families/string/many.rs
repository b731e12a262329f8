//! Several keys in one command.

use pantala_keyspace::{Expiry, Key, OpenKey};
use pantala_protocol::Reply;

use super::options::{Condition, OptionWords, SetOptions};
use super::{Put, put, record_put};
use crate::calls::call::{Call, CommandResult, Stop, reply_string};
use crate::error;
use crate::long_work::by_partition::prefetch;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const MGET: Command = Command::read("MGET", mget, Group::String)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::READ)])
    .tips(&["request_policy:multi_shard"])
    .complexity("O(N) for N keys")
    .syntax("key [key ...]")
    .summary("Returns the strings at several keys.");

fn mget(call: &mut Call<'_, '_>) -> CommandResult {
    let count = call.args.len() - 1;
    if call.has_many_args() {
        return mget_many(call, count);
    }
    call.reply.array(count);
    for nth in 0..count {
        prefetch(call.keys, call.hashes, nth);
        let key = call.nth_key(1 + nth, nth);
        reply_value(&mut call.reply, call.keys.read(key));
    }
    Ok(())
}

/// MGET of many keys: they are read in any order, and put into order with the partitions free.
#[cold]
fn mget_many(call: &mut Call<'_, '_>, count: usize) -> CommandResult {
    let (version, most) = (call.reply.version(), call.most_output_bytes());
    let (mut values, mut ranges) = (Vec::new(), vec![(0, 0); count]);
    let mut is_over = false;
    call.for_each_key(|call, nth| {
        // A reply over its limit is not sent.
        if is_over {
            return;
        }
        let (key, start) = (call.nth_key(1 + nth, nth), values.len());
        let mut reply = Reply::new(&mut values, version).at_most(most);
        reply_value(&mut reply, call.keys.read(key));
        is_over = reply.is_over();
        ranges[nth] = (start, values.len());
    })?;
    call.reply.array(count);
    ranges.iter().for_each(|(start, end)| call.reply.raw(&values[*start..*end]));
    if is_over {
        // A string that exceeds the limit makes the caller see that.
        call.reply.bulk(&values);
    }
    Ok(())
}

/// Writes the value; one of another type counts as missing.
#[inline]
fn reply_value(reply: &mut Reply<'_>, opened: OpenKey<'_, '_>) {
    match opened.string() {
        Ok(Some(value)) => reply_string(reply, value),
        Ok(None) | Err(_) => reply.null(),
    }
}

pub(super) const MSET: Command = Command::write("MSET", mset, Group::String)
    .replaces()
    .arity(-3)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OVERWRITE)])
    .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
    .since("1.0.1")
    .complexity("O(N) for N keys")
    .syntax("key value [key value ...]")
    .summary("Sets several keys to strings, all at once.");

fn mset(call: &mut Call<'_, '_>) -> CommandResult {
    pair_count(call)?;
    set_pairs(call, 1, Expiry::Never, |_, _, _, _| {})?;
    call.reply.ok();
    Ok(())
}

pub(super) const MSETNX: Command = Command::write("MSETNX", msetnx, Group::String)
    .replaces()
    .arity(-3)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::range(1, -1, 2, KeyFlags::CREATE)])
    .since("1.0.1")
    .complexity("O(N) for N keys")
    .syntax("key value [key value ...]")
    .summary("Sets several keys to strings if none of them is there.");

fn msetnx(call: &mut Call<'_, '_>) -> CommandResult {
    let count = pair_count(call)?;
    let is_set = holds(call, 1, count, Condition::Missing);
    if is_set {
        set_pairs(call, 1, Expiry::Never, |_, _, _, _| {})?;
    }
    call.reply.int(i64::from(is_set));
    Ok(())
}

pub(super) const MSETEX: Command = Command::write("MSETEX", msetex, Group::String)
    .replaces()
    .arity(-4)
    .flags(Flags::DENYOOM.union(Flags::MOVABLEKEYS))
    .keys(&[KeySpec::counted(1, 2, KeyFlags::OVERWRITE)])
    .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
    .since("9.1.0")
    .complexity("O(N) for N keys")
    .syntax(
        "numkeys:int key value [key value ...] [NX | XX] [EX seconds:int | \
         PX milliseconds:int | EXAT unix-time-seconds:time | \
         PXAT unix-time-milliseconds:time | \
         KEEPTTL]",
    )
    .summary("Sets several keys to strings with one deadline, all at once or not at all.");

fn msetex(call: &mut Call<'_, '_>) -> CommandResult {
    let count = call.int(1).ok().filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or(error::KEY_COUNT)? as usize;
    let words = call.args.get(2 + 2 * count..).ok_or(error::SYNTAX)?;
    let options = SetOptions::parse(words, OptionWords::MSETEX)?;
    let expiry = options.expiry(call)?;
    let is_set = holds(call, 2, count, options.condition);
    if is_set {
        set_pairs(call, 2, expiry, |call, key, value, done| {
            // One by one: few servers know MSETEX.
            if call.is_recorded() {
                record_put(call, key, value, expiry, done);
            }
        })?;
    }
    call.reply.int(i64::from(is_set));
    Ok(())
}

fn pair_count(call: &Call<'_, '_>) -> Result<usize, error::ClientError> {
    let behind_name = call.args.len() - 1;
    match behind_name % 2 {
        0 => Ok(behind_name / 2),
        _ => Err(error::wrong_arity(call.command.name)),
    }
}

/// Whether the condition holds for all keys of the pairs from argument `first` on.
fn holds(call: &mut Call<'_, '_>, first: usize, count: usize, condition: Condition<'_>) -> bool {
    let wanted = match condition {
        Condition::Missing => false,
        Condition::Present => true,
        Condition::Always | Condition::Compares(_) => return true,
    };
    (0..count).all(|nth| {
        prefetch(call.keys, call.hashes, nth);
        let key = call.nth_key(first + 2 * nth, nth);
        call.keys.peek(key).exists() == wanted
    })
}

/// Sets the keys of the pairs from argument `first` on; `each` gets key, value and result. No key
/// may be opened afterwards.
#[inline]
fn set_pairs(
    call: &mut Call<'_, '_>,
    first: usize,
    expiry: Expiry,
    each: impl Fn(&Call<'_, '_>, Key<'_>, &[u8], Put),
) -> Result<(), Stop> {
    call.for_each_key(|call, nth| {
        let position = first + 2 * nth;
        let key = call.nth_key(position, nth);
        let done = put(&mut call.keys.open(key), call.args[position + 1], expiry);
        each(call, key, call.args[position + 1], done);
    })
}
