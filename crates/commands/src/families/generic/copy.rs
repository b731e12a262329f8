//! COPY and MOVE: a key in two places, or in another database.

use pantala_keyspace::{DbIndex, OpenKey, event};
use smallvec::{SmallVec, smallvec};

use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::error::{self, ClientError};
use crate::options::{database, is_word};
use crate::rows::command::{Command, Databases, Flags, Group, KeyFlags, KeySpec};

/// Copying a value of more bytes than this is for the slow lane: it takes some 100 microseconds.
const WORKER_COPY_BYTES: usize = 1 << 20;

pub(super) const COPY: Command = Command::write("COPY", copy, Group::Generic)
    .replaces()
    .arity(-3)
    .flags(Flags::DENYOOM.union(Flags::OTHER_DB))
    .keys(&[KeySpec::one(1, KeyFlags::READ), KeySpec::one(2, KeyFlags::OVERWRITE)])
    .databases(Databases::Named(copy_databases))
    .since("6.2.0")
    .complexity("O(N) for N elements of a collection, O(1) for strings")
    .syntax("source:key destination:key [DB destination-db:int] [REPLACE]")
    .summary("Copies a key's value and deadline to another key.");

pub(super) const MOVE: Command = Command::write("MOVE", shift, Group::Generic)
    .arity(3)
    .flags(Flags::FAST.union(Flags::OTHER_DB))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .databases(Databases::Named(|_| smallvec![2]))
    .syntax("key db:int")
    .summary("Moves a key to another database that has no such key.");

/// The positions after the words DB.
fn copy_databases(args: &[&[u8]]) -> SmallVec<[usize; 2]> {
    let mut found = SmallVec::new();
    let mut at = 3;
    while at < args.len() {
        if is_word(args[at], "DB") {
            found.push(at + 1);
            at += 1;
        }
        at += 1;
    }
    found.retain(|at| *at < args.len());
    found
}

struct Target {
    db: DbIndex,
    replaces: bool,
}

fn parse_target(call: &Call<'_, '_>) -> Result<Target, ClientError> {
    let mut target = Target { db: call.session.db, replaces: false };
    let mut rest = call.args[3..].iter();
    while let Some(word) = rest.next() {
        if is_word(word, "REPLACE") {
            target.replaces = true;
        } else if is_word(word, "DB") {
            let index = rest.next().ok_or(error::SYNTAX)?;
            target.db = database(index, call.space())?;
        } else {
            return Err(error::SYNTAX);
        }
    }
    Ok(target)
}

fn copy(call: &mut Call<'_, '_>) -> CommandResult {
    let target = parse_target(call)?;
    let (from, to) = (call.nth_key(1, 0), call.nth_key(2, 1));
    if target.db == call.session.db && from.bytes == to.bytes {
        return Err(error::SAME_OBJECT.into());
    }
    if call.lane == Lane::Worker && is_large(&call.keys.peek(from)) {
        return Err(Stop::Lane);
    }
    let is_there = call.keys.read(from).exists();
    // Looking makes an expired destination publish its expiry first.
    let is_free = is_there && !call.keys.peek_in(target.db, to).exists();
    let copies = is_there && (is_free || target.replaces);
    let record = if copies { call.keys.peek(from).copy(to.bytes) } else { None };
    if let Some(record) = record {
        let mut opened = call.keys.peek_in(target.db, to);
        opened.remove();
        opened.put(record);
        opened.publish(event::COPY_TO);
    }
    call.reply.int(i64::from(copies));
    Ok(())
}

fn is_large(opened: &OpenKey<'_, '_>) -> bool {
    opened.record().is_some_and(|(table, place)| table.record_bytes(place) > WORKER_COPY_BYTES)
}

fn shift(call: &mut Call<'_, '_>) -> CommandResult {
    let db = database(call.args[2], call.space())?;
    if db == call.session.db {
        return Err(error::SAME_OBJECT.into());
    }
    let key = call.key();
    let is_there = call.keys.open(key).exists();
    let moves = is_there && !call.keys.peek_in(db, key).exists();
    let mut source = call.keys.peek(key);
    if moves && let Some(record) = source.take() {
        // Published below: first that there is a new key, then that the old one is gone.
        let source = source.suspend();
        let mut target = call.keys.peek_in(db, key);
        target.put(record);
        let target = target.suspend();
        call.keys.resume(source, key).publish(event::MOVE_FROM);
        let mut target = call.keys.resume(target, key);
        // Both together count as one change.
        target.counts_as(0);
        target.publish(event::MOVE_TO);
    }
    call.reply.int(i64::from(moves));
    Ok(())
}
