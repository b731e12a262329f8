//! Values and deadlines in one command: HSETEX, HGETEX, HGETDEL.

use pantala_base::UnixMs;
use pantala_keyspace::{OpenKey, event};
use pantala_values::Hash;
use pantala_values::hash::{FieldBefore, HashRef, Lifetime};

use super::words::{ExistenceRule, FieldOptions, Time, counted};
use super::{ADD, CHANGE, check_arguments, clean, grows, limits, open, writes};
use crate::calls::call::{Call, CommandResult, Stop, reply_string};
use crate::calls::record;
use crate::error;
use crate::families::deadlines;
use crate::options::is_word;
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const TAKE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE)];

pub(super) const HSETEX: Command = grows("HSETEX", hsetex)
    .arity(-6)
    .flags(Flags::NEWER)
    .keys(ADD)
    .since("9.0.0")
    .complexity("O(N) for N fields")
    .syntax(
        "key [key-condition: NX | XX] [fields-condition: FNX | FXX] [EX seconds:int | \
         PX milliseconds:int | EXAT unix-time-seconds:time | \
         PXAT unix-time-milliseconds:time | KEEPTTL] \
         (FIELDS numfields:int field value [field value ...])",
    )
    .summary("Sets fields of a hash, and their deadlines, if key and fields are as wanted.");

fn hsetex(call: &mut Call<'_, '_>) -> CommandResult {
    let (at, words) = FieldOptions::parse(call, true)?;
    let pairs = counted(call.args, at, 2)?;
    check_arguments(call)?;
    let (key, now, clock) = (call.key(), call.now(), call.clock());
    let tally = call.keys.scope().tally;
    let mut opened = open(call.keys, key, call.lane)?;
    let found = opened.collection::<Hash>()?.map(Hash::view);
    // As in the reference, the key is checked first, then the time, then the fields.
    if !key_holds(words.key, found) {
        call.reply.int(0);
        return Ok(());
    }
    let deadline = words.time.deadline(clock, call.command.name)?;
    if !fields_hold(words.fields, found, pairs, now) {
        call.reply.int(0);
        return Ok(());
    }
    if deadline.is_some_and(|deadline| opened.scope().has_passed(deadline)) {
        let removed = remove_pairs(&mut opened, pairs, now)?;
        tally.expired_elements.add(removed);
        drop(opened);
        if removed > 0 && call.is_recorded() {
            let fields: record::RecordedWords<'_> = pairs.iter().step_by(2).copied().collect();
            call.record_listed(&[b"HDEL", key.bytes], &fields);
        }
        call.reply.int(1);
        return Ok(());
    }
    let lifetime = match (words.time, deadline) {
        (Time::Keep, _) => Lifetime::Keep,
        (_, Some(deadline)) => Lifetime::Until(deadline),
        _ => Lifetime::Forever,
    };
    let is_recorded = opened.scope().recorder.is_some();
    let hash = opened.collection_or_new::<Hash>()?;
    let limits = limits(call.settings);
    let mut expired = 0;
    for pair in pairs.chunks_exact(2) {
        let before = hash.set(pair[0], pair[1], lifetime, limits, now);
        expired += u64::from(before == FieldBefore::Expired);
    }
    let given = match is_recorded {
        true => deadlines_of(hash.view(), pairs, now),
        false => Vec::new(),
    };
    if expired > 0 {
        tally.expired_elements.add(expired);
        opened.announce(event::HEXPIRED);
    }
    opened.counts_as(pairs.len() / 2);
    opened.publish_collection::<Hash>(event::HSET);
    if deadline.is_some() {
        opened.announce(event::HEXPIRE);
    }
    drop(opened);
    if call.is_recorded() {
        record_pairs(call, key.bytes, pairs, &given);
    }
    call.reply.int(1);
    Ok(())
}

/// The deadlines of these fields, in order: consecutive fields with the same one are one run.
fn deadlines_of<'f>(
    hash: HashRef<'_>,
    pairs: &[&'f [u8]],
    now: UnixMs,
) -> Vec<(UnixMs, record::RecordedWords<'f>)> {
    let mut given: Vec<(UnixMs, record::RecordedWords<'f>)> = Vec::new();
    for &field in pairs.iter().step_by(2) {
        let Some(deadline) = hash.get(field, now).and_then(|found| found.deadline) else {
            continue;
        };
        match given.last_mut() {
            Some((last, fields)) if *last == deadline => fields.push(field),
            _ => given.push((deadline, record::RecordedWords::from_slice(&[field]))),
        }
    }
    given
}

/// Records fields that were set, and their present deadlines, as HSET removes those.
#[inline(never)]
fn record_pairs(
    call: &Call<'_, '_>,
    key: &[u8],
    pairs: &[&[u8]],
    given: &[(UnixMs, record::RecordedWords<'_>)],
) {
    call.record_listed(&[b"HSET", key], pairs);
    for (deadline, fields) in given {
        deadlines::record_set::<Hash>(call, key, fields, *deadline);
    }
}

/// Whether the key is present or absent, as the words require.
fn key_holds(options: ExistenceRule, found: Option<HashRef<'_>>) -> bool {
    match options {
        ExistenceRule::Any => true,
        ExistenceRule::Missing => found.is_none(),
        ExistenceRule::Present => found.is_some(),
    }
}

/// Whether all fields are present, or none, as the words require.
fn fields_hold(
    options: ExistenceRule,
    found: Option<HashRef<'_>>,
    pairs: &[&[u8]],
    now: UnixMs,
) -> bool {
    let is_there = |field: &[u8]| found.is_some_and(|hash| hash.get(field, now).is_some());
    let mut fields = pairs.iter().step_by(2);
    match options {
        ExistenceRule::Any => true,
        ExistenceRule::Missing => !fields.any(|field| is_there(field)),
        ExistenceRule::Present => fields.all(|field| is_there(field)),
    }
}

/// Removes fields that were set with a deadline that has passed. The reference publishes all steps,
/// even if there was nothing to remove.
fn remove_pairs(opened: &mut OpenKey<'_, '_>, pairs: &[&[u8]], now: UnixMs) -> Result<u64, Stop> {
    let mut removed = 0;
    let was_there = opened.exists();
    if let Some(hash) = opened.collection_mut::<Hash>()? {
        for field in pairs.iter().step_by(2) {
            removed += u64::from(hash.remove(field, now));
        }
    }
    if !was_there {
        opened.announce(event::NEW);
    }
    opened.announce(event::HSET);
    opened.announce(event::HEXPIRE);
    if removed > 0 {
        opened.publish_collection::<Hash>(event::HEXPIRED);
    } else {
        opened.unchanged();
        opened.announce(event::HEXPIRED);
        if !was_there {
            opened.announce(event::DEL);
        }
    }
    Ok(removed)
}

pub(super) const HGETEX: Command = writes("HGETEX", hgetex)
    .arity(-5)
    .flags(Flags::NEWER)
    .keys(CHANGE)
    .since("9.0.0")
    .complexity("O(N) for N fields")
    .syntax(
        "key [EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | \
         PXAT unix-time-milliseconds:time | PERSIST] (FIELDS numfields:int field [field ...])",
    )
    .summary("Returns the values of fields of a hash and sets or clears their deadlines.");

fn hgetex(call: &mut Call<'_, '_>) -> CommandResult {
    let (at, words) = FieldOptions::parse(call, false)?;
    let fields = counted(call.args, at, 1)?;
    check_arguments(call)?;
    let (key, now, clock) = (call.key(), call.now(), call.clock());
    let tally = call.keys.scope().tally;
    let mut opened = call.keys.read(key);
    clean::<Hash>(&mut opened, now, call.lane)?;
    let scope = *opened.scope();
    let is_recorded = scope.recorder.is_some();
    let mut recorded = record::RecordedWords::new();
    let mut hash = opened.collection_mut::<Hash>()?;
    let deadline = words.time.deadline(clock, call.command.name);
    let deadline = match deadline {
        Ok(deadline) => deadline,
        Err(error) => {
            opened.unchanged();
            return Err(error.into());
        }
    };
    let change = match deadline {
        Some(deadline) if scope.has_passed(deadline) => Some(event::HEXPIRED),
        Some(_) => Some(event::HEXPIRE),
        None if words.time == Time::Persist => Some(event::HPERSIST),
        None => None,
    };
    let mut changed = 0;
    call.reply.array(fields.len());
    for field in fields {
        let Some((hash, found)) = hash.as_mut().and_then(|hash| {
            let found = hash.view().get(field, now)?;
            reply_string(&mut call.reply, found.value);
            let had = found.deadline;
            Some((hash, had))
        }) else {
            call.reply.null();
            continue;
        };
        match change {
            None => continue,
            Some(event::HEXPIRED) => {
                hash.remove(field, now);
            }
            Some(event::HPERSIST) if found.is_none() => continue,
            Some(_) => hash.set_deadline(field, deadline),
        }
        changed += 1;
        if is_recorded {
            recorded.push(*field);
        }
    }
    match change {
        Some(event) if changed > 0 => {
            if event == event::HEXPIRED {
                tally.expired_elements.add(changed);
            }
            opened.counts_as(changed as usize);
            opened.publish_collection::<Hash>(event);
        }
        _ => opened.unchanged(),
    }
    drop(opened);
    match deadline {
        Some(deadline) => deadlines::record_set::<Hash>(call, key.bytes, &recorded, deadline),
        None => deadlines::record_persist::<Hash>(call, b"HPERSIST", key.bytes, &recorded),
    }
    Ok(())
}

pub(super) const HGETDEL: Command = writes("HGETDEL", hgetdel)
    .arity(-5)
    .keys(TAKE)
    .since("9.1.0")
    .complexity("O(N) for N fields")
    .syntax("key (FIELDS numfields:int field [field ...])")
    .summary("Returns the values of fields of a hash and removes the fields.");

fn hgetdel(call: &mut Call<'_, '_>) -> CommandResult {
    if !is_word(call.args[2], "FIELDS") {
        return Err(error::SYNTAX.into());
    }
    let fields = counted(call.args, 2, 1)?;
    check_arguments(call)?;
    let (key, now) = (call.key(), call.now());
    let mut opened = open(call.keys, key, call.lane)?;
    let mut hash = opened.collection_mut::<Hash>()?;
    let mut changed = 0;
    call.reply.array(fields.len());
    for field in fields {
        let found = hash.as_ref().and_then(|hash| hash.view().get(field, now));
        match found {
            None => call.reply.null(),
            Some(found) => reply_string(&mut call.reply, found.value),
        }
        if let Some(hash) = &mut hash {
            changed += usize::from(hash.remove(field, now));
        }
    }
    if changed > 0 {
        opened.counts_as(changed);
        opened.publish_collection::<Hash>(event::HDEL);
    } else {
        opened.unchanged();
    }
    drop(opened);
    if changed > 0 && call.is_recorded() {
        call.record_listed(&[b"HDEL", key.bytes], fields);
    }
    Ok(())
}
