//! Single fields: setting, reading, removing.

use pantala_keyspace::{Expiry, event};
use pantala_values::Hash;
use pantala_values::hash::{FieldBefore, Lifetime};

use super::{ADD, check_arguments, check_lane, grows, limits, open, reads, writes};
use crate::calls::call::{Call, CommandResult, reply_string};
use crate::error;
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const CHANGE_REMOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, KeyFlags::LOOK)];

pub(super) const HSET: Command = grows("HSET", hset)
    .arity(-4)
    .complexity("O(N) for N fields")
    .syntax("key field value [field value ...]")
    .summary("Sets fields of a hash, which is made if it is missing.");

fn hset(call: &mut Call<'_, '_>) -> CommandResult {
    let created = set_pairs(call)?;
    call.reply.int(created);
    Ok(())
}

pub(super) const HMSET: Command = grows("HMSET", hmset)
    .arity(-4)
    .complexity("O(N) for N fields")
    .syntax("key field value [field value ...]")
    .summary("The old form of HSET, which answers OK.");

fn hmset(call: &mut Call<'_, '_>) -> CommandResult {
    set_pairs(call)?;
    call.reply.ok();
    Ok(())
}

/// Sets fields; returns how many are new.
fn set_pairs(call: &mut Call<'_, '_>) -> Result<i64, crate::Stop> {
    let pairs = &call.args[2..];
    if pairs.len() % 2 == 1 {
        return Err(error::wrong_arity(call.command.name).into());
    }
    check_arguments(call)?;
    let (key, now, limits) = (call.key(), call.now(), limits(call.settings));
    let tally = call.keys.scope().tally;
    let longest = pairs.iter().map(|text| text.len()).max().unwrap_or(0);
    let set = |hash: &mut Hash| {
        hash.expect(pairs.len() / 2, longest, limits);
        let (mut created, mut expired) = (0, 0);
        for pair in pairs.chunks_exact(2) {
            match hash.set(pair[0], pair[1], Lifetime::Forever, limits, now) {
                FieldBefore::Present => {}
                FieldBefore::Missing => created += 1,
                FieldBefore::Expired => {
                    created += 1;
                    expired += 1;
                }
            }
        }
        (created, expired)
    };
    let swapped = if call.has_many_args() {
        open(call.keys, key, call.lane)?;
        call.copy_and_swap(set)?
    } else {
        None
    };
    let mut opened;
    let (created, expired) = if let Some((hash, counts)) = swapped {
        opened = call.keys.peek(key);
        hash.into_iter().for_each(|hash| opened.set_collection(hash, Expiry::Keep));
        counts
    } else {
        opened = open(call.keys, key, call.lane)?;
        set(opened.collection_or_new::<Hash>()?)
    };
    if expired > 0 {
        tally.expired_elements.add(expired);
        opened.announce(event::HEXPIRED);
    }
    opened.counts_as((call.args.len() - 2) / 2);
    opened.publish_collection::<Hash>(event::HSET);
    Ok(created)
}

pub(super) const HSETNX: Command = grows("HSETNX", hsetnx)
    .arity(4)
    .keys(ADD)
    .syntax("key field value")
    .summary("Sets a field of a hash if it is not there.");

fn hsetnx(call: &mut Call<'_, '_>) -> CommandResult {
    let (field, value) = (call.args[2], call.args[3]);
    let (key, now, limits) = (call.key(), call.now(), limits(call.settings));
    let tally = call.keys.scope().tally;
    let mut opened = open(call.keys, key, call.lane)?;
    let found = opened.collection::<Hash>()?.and_then(|hash| hash.view().get(field, now));
    if found.is_some() {
        call.reply.int(0);
        return Ok(());
    }
    let hash = opened.collection_or_new::<Hash>()?;
    hash.expect(1, field.len().max(value.len()), limits);
    if hash.set(field, value, Lifetime::Forever, limits, now) == FieldBefore::Expired {
        tally.expired_elements.add(1);
        opened.announce(event::HEXPIRED);
    }
    opened.publish_collection::<Hash>(event::HSET);
    call.reply.int(1);
    Ok(())
}

pub(super) const HGET: Command = reads("HGET", hget)
    .arity(3)
    .flags(Flags::FAST)
    .syntax("key field")
    .summary("Returns the value of a field of a hash.");

fn hget(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now, field) = (call.key(), call.now(), call.args[2]);
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?;
    match hash.and_then(|hash| hash.view().get(field, now)) {
        Some(found) => reply_string(&mut call.reply, found.value),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) const HMGET: Command = reads("HMGET", hmget)
    .arity(-3)
    .flags(Flags::FAST)
    .complexity("O(N) for N fields")
    .syntax("key field [field ...]")
    .summary("Returns the values of several fields of a hash.");

fn hmget(call: &mut Call<'_, '_>) -> CommandResult {
    check_arguments(call)?;
    let (key, now, fields) = (call.key(), call.now(), &call.args[2..]);
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?.map(Hash::view);
    call.reply.array(fields.len());
    for field in fields {
        match hash.and_then(|hash| hash.get(field, now)) {
            Some(found) => reply_string(&mut call.reply, found.value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) const HSTRLEN: Command = reads("HSTRLEN", hstrlen)
    .arity(3)
    .flags(Flags::FAST)
    .keys(LOOK)
    .since("3.2.0")
    .syntax("key field")
    .summary("Returns the length of a field's value in bytes.");

fn hstrlen(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now, field) = (call.key(), call.now(), call.args[2]);
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?;
    let found = hash.and_then(|hash| hash.view().get(field, now));
    call.reply.int(found.map_or(0, |found| found.value.len()) as i64);
    Ok(())
}

pub(super) const HEXISTS: Command = reads("HEXISTS", hexists)
    .arity(3)
    .flags(Flags::FAST)
    .keys(LOOK)
    .syntax("key field")
    .summary("Tells whether a hash has a field.");

fn hexists(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now, field) = (call.key(), call.now(), call.args[2]);
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?;
    let found = hash.and_then(|hash| hash.view().get(field, now));
    call.reply.int(i64::from(found.is_some()));
    Ok(())
}

pub(super) const HLEN: Command = reads("HLEN", hlen)
    .arity(2)
    .flags(Flags::FAST)
    .keys(LOOK)
    .syntax("key")
    .summary("Counts the fields of a hash.");

/// Expired fields are not counted, so the hash may have to be searched for them.
fn hlen(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now) = (call.key(), call.now());
    let opened = call.keys.read(key);
    let length = match opened.collection::<Hash>()?.map(Hash::view) {
        None => 0,
        Some(hash) if hash.is_exact(now) => hash.len(),
        Some(hash) => {
            check_lane(call.lane, hash.len())?;
            hash.live_len(now)
        }
    };
    call.reply.int(length as i64);
    Ok(())
}

pub(super) const HDEL: Command = writes("HDEL", hdel)
    .arity(-3)
    .keys(CHANGE_REMOVE)
    .complexity("O(N) for N fields")
    .syntax("key field [field ...]")
    .summary("Removes fields of a hash.");

fn hdel(call: &mut Call<'_, '_>) -> CommandResult {
    check_arguments(call)?;
    let (key, now) = (call.key(), call.now());
    if call.has_many_args() {
        drop(open(call.keys, key, call.lane)?);
        let fields = &call.args[2..];
        return call.remove_many(event::HDEL, |hash: &mut Hash| {
            fields.iter().filter(|field| hash.remove(field, now)).count()
        });
    }
    let mut opened = open(call.keys, key, call.lane)?;
    let mut removed = 0;
    if let Some(hash) = opened.collection_mut::<Hash>()? {
        for field in &call.args[2..] {
            removed += usize::from(hash.remove(field, now));
        }
    }
    if removed > 0 {
        opened.counts_as(removed);
        opened.publish_collection::<Hash>(event::HDEL);
    } else {
        opened.unchanged();
    }
    call.reply.int(removed as i64);
    Ok(())
}
