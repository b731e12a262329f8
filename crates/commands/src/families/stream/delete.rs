//! Deleting entries by id, with or without the references of groups.
//!
//! XDELEX and XACKDEL are Redis 8.2's. They reply with one number for each id: -1, there is no such
//! entry (XACKDEL: none pending in the group); 1, deleted; 2, not deleted, because some group has
//! yet to read or to acknowledge it.

use pantala_base::number::parse_i64;
use pantala_keyspace::event;
use pantala_values::Stream;
use pantala_values::stream::{References, StreamId};
use smallvec::SmallVec;

use super::options::{id, references};
use super::{fast, record_ids};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, KeyFlags, KeySpec};

const KEY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];

pub(super) const XDEL: Command = fast("XDEL", xdel)
    .arity(-3)
    .keys(KEY)
    .complexity("O(log N) for each id")
    .syntax("key id [id ...]")
    .summary("Deletes entries by their ids.");

pub(super) const XDELEX: Command = fast("XDELEX", xdelex)
    .arity(-5)
    .keys(KEY)
    .since("8.2.0")
    .complexity("O(log N) for each id and group")
    .syntax("key [references: KEEPREF | DELREF | ACKED] IDS numids:int id [id ...]")
    .summary("Deletes entries by their ids, minding what groups have still to do with them.");

pub(super) const XACKDEL: Command = fast("XACKDEL", xackdel)
    .arity(-6)
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)])
    .since("8.2.0")
    .complexity("O(log N) for each id and group")
    .syntax("key group [references: KEEPREF | DELREF | ACKED] IDS numids:int id [id ...]")
    .summary("Acknowledges entries and deletes them.");

const ID_COUNT: ClientError = ClientError::text("ERR Number of IDs must be a positive integer");
const TOO_FEW_IDS: ClientError =
    ClientError::text("ERR The `numids` parameter must match the number of arguments");
const NO_IDS: ClientError = ClientError::text("ERR IDS option is required");

const NO_SUCH_ENTRY: i64 = -1;
const DELETED: i64 = 1;
const STILL_NEEDED: i64 = 2;

fn xdel(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    let mut opened = call.keys.open(key);
    if opened.collection::<Stream>()?.is_none() {
        call.reply.int(0);
        return Ok(());
    }
    for text in &call.args[2..] {
        id(text)?;
    }
    let mut count = 0;
    if let Some(stream) = opened.collection_mut::<Stream>()? {
        for text in &call.args[2..] {
            let id = StreamId::parse_strict(text, 0);
            count += i64::from(id.is_some_and(|id| stream.delete(id)));
        }
    }
    match count {
        0 => opened.unchanged(),
        _ => opened.publish(event::XDEL),
    }
    call.reply.int(count);
    Ok(())
}

struct Options {
    references: References,
    ids: SmallVec<[StreamId; 8]>,
}

impl Options {
    fn parse(words: &[&[u8]]) -> Result<Options, ClientError> {
        let (mut kind, mut texts) = (None, None);
        let mut rest = words;
        while let [word, behind @ ..] = rest {
            if kind.is_none() && references(word).is_some() {
                kind = references(word);
                rest = behind;
                continue;
            }
            let [count, behind @ ..] = behind else { return Err(error::SYNTAX) };
            if !is_word(word, "IDS") {
                return Err(error::SYNTAX);
            }
            let count = parse_i64(count).and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| *count > 0).ok_or(ID_COUNT)?;
            let (ids, left) = behind.split_at_checked(count).ok_or(TOO_FEW_IDS)?;
            texts = Some(ids);
            rest = left;
        }
        let ids = texts.ok_or(NO_IDS)?.iter().map(|text| id(text)).collect::<Result<_, _>>()?;
        Ok(Options { references: kind.unwrap_or_default(), ids })
    }
}

fn xdelex(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(&call.args[2..])?;
    let key = call.key();
    let mut opened = call.keys.open(key);
    call.reply.array(options.ids.len());
    if opened.collection::<Stream>()?.is_none() {
        options.ids.iter().for_each(|_| call.reply.int(NO_SUCH_ENTRY));
        return Ok(());
    }
    let (mut deleted, mut dropped) = (false, false);
    let mut changes = Changes::default();
    if let Some(stream) = opened.collection_mut::<Stream>()? {
        changes.groups.extend(stream.groups().map(|(name, _)| Box::from(name)));
        for id in options.ids {
            let answer = match options.references {
                References::Acknowledged if stream.get(id).is_none() => NO_SUCH_ENTRY,
                References::Acknowledged if stream.is_referenced(id) => STILL_NEEDED,
                _ if stream.delete(id) => DELETED,
                _ => NO_SUCH_ENTRY,
            };
            if options.references == References::Drop && stream.drop_references(id) {
                dropped = true;
                changes.dropped.push(id);
            }
            if answer == DELETED {
                deleted = true;
                changes.deleted.push(id);
            }
            call.reply.int(answer);
        }
    }
    settle(&mut opened, deleted, dropped);
    drop(opened);
    if call.is_recorded() {
        changes.record(call);
    }
    Ok(())
}

fn xackdel(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(&call.args[3..])?;
    let (key, name) = (call.key(), call.args[2]);
    let mut opened = call.keys.open(key);
    call.reply.array(options.ids.len());
    if opened.collection::<Stream>()?.is_none_or(|stream| stream.group(name).is_none()) {
        options.ids.iter().for_each(|_| call.reply.int(NO_SUCH_ENTRY));
        return Ok(());
    }
    let (mut deleted, mut acknowledged) = (false, false);
    let mut changes = Changes::default();
    if let Some(stream) = opened.collection_mut::<Stream>()? {
        changes.groups.extend(match options.references {
            References::Drop => stream.groups().map(|(name, _)| Box::from(name)).collect(),
            References::Keep | References::Acknowledged => vec![Box::from(name)],
        });
        for id in options.ids {
            let mut is_deleted = false;
            let answer = acknowledge(stream, name, id, options.references, &mut is_deleted);
            acknowledged |= answer != NO_SUCH_ENTRY;
            deleted |= is_deleted;
            if answer != NO_SUCH_ENTRY {
                changes.dropped.push(id);
            }
            if is_deleted {
                changes.deleted.push(id);
            }
            call.reply.int(answer);
        }
    }
    settle(&mut opened, deleted, acknowledged);
    drop(opened);
    if call.is_recorded() {
        changes.record(call);
    }
    Ok(())
}

/// The effect of XDELEX and XACKDEL, recorded in commands that every server knows.
#[derive(Default)]
struct Changes {
    /// Deleted entries.
    deleted: Vec<StreamId>,
    /// Entries that are no longer pending in these groups.
    dropped: Vec<StreamId>,
    groups: Vec<Box<[u8]>>,
}

impl Changes {
    fn record(&self, call: &Call<'_, '_>) {
        for group in &self.groups {
            record_ids(call, &[b"XACK", call.args[1], group], &self.dropped);
        }
        record_ids(call, &[b"XDEL", call.args[1]], &self.deleted);
    }
}

fn acknowledge(
    stream: &mut Stream,
    group: &[u8],
    id: StreamId,
    references: References,
    deleted: &mut bool,
) -> i64 {
    if !stream.group_mut(group).is_some_and(|group| group.acknowledge(id)) {
        return NO_SUCH_ENTRY;
    }
    match references {
        References::Acknowledged if stream.is_referenced(id) => return STILL_NEEDED,
        References::Drop => _ = stream.drop_references(id),
        References::Keep | References::Acknowledged => {}
    }
    *deleted |= stream.delete(id);
    DELETED
}

/// Ends a change that has deleted entries, or only references of groups, or nothing.
fn settle(opened: &mut pantala_keyspace::OpenKey<'_, '_>, deleted: bool, forgotten: bool) {
    if deleted {
        opened.publish(event::XDEL);
    } else if forgotten {
        opened.publish_silently();
    } else {
        opened.unchanged();
    }
}
