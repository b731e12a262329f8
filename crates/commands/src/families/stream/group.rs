//! XGROUP: creating, moving and removing groups and their consumers.

use pantala_keyspace::event;
use pantala_values::Stream;
use pantala_values::stream::{Group, StreamId};

use super::options::{id, int};
use super::{leave_if_long, no_group_of_key};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group as Chapter, Handler, KeyFlags, KeySpec};
use crate::rows::help::help;

pub(super) const XGROUP: Command = Command::container("XGROUP", Chapter::Stream, SUBCOMMANDS)
    .since("5.0.0")
    .summary("Manages the consumer groups of streams.");

const ADDS: &[KeySpec] = &[KeySpec::one(2, KeyFlags::ADD)];
const REMOVES: &[KeySpec] = &[KeySpec::one(2, KeyFlags::CHANGE_REMOVE)];
const CHANGES: &[KeySpec] = &[KeySpec::one(2, KeyFlags::MODIFY)];

const SUBCOMMANDS: &[Command] = &[
    sub("CREATE", create, ADDS)
        .arity(-5)
        .flags(Flags::DENYOOM)
        .syntax(
            "key group (id-selector: id | (new-id: $)) [MKSTREAM] \
             [ENTRIESREAD entriesread:int]",
        )
        .summary("Makes a group that has read up to an id."),
    sub("CREATECONSUMER", create_consumer, ADDS)
        .arity(5)
        .flags(Flags::DENYOOM)
        .since("6.2.0")
        .syntax("key group consumer")
        .summary("Makes a consumer of a group."),
    sub("DELCONSUMER", delete_consumer, REMOVES)
        .arity(5)
        .complexity("O(N log M) for N entries pending for the consumer of M in all")
        .syntax("key group consumer")
        .summary("Removes a consumer and forgets what was pending for it."),
    sub("DESTROY", destroy, REMOVES)
        .arity(4)
        .complexity("O(N) for N pending entries")
        .syntax("key group")
        .summary("Removes a group."),
    sub("SETID", set_id, CHANGES)
        .arity(-5)
        .syntax("key group (id-selector: id | (new-id: $)) [ENTRIESREAD entriesread:int]")
        .summary("Sets up to which id a group has read."),
    Command::new("HELP", help, Chapter::Stream)
        .of("XGROUP")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("5.0.0")
        .summary("Lists the subcommands."),
];

const fn sub(name: &'static str, handler: Handler, keys: &'static [KeySpec]) -> Command {
    Command::write(name, handler, Chapter::Stream).of("XGROUP").keys(keys).since("5.0.0")
}

const NEEDS_KEY: ClientError = ClientError::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
     use the MKSTREAM option to create an empty stream automatically.",
);
const GROUP_EXISTS: ClientError = ClientError::text("BUSYGROUP Consumer Group name already exists");
const ENTRIES_READ: ClientError =
    ClientError::text("ERR value for ENTRIESREAD must be positive or -1");

/// The number of arguments of CREATE and SETID with each word once.
const MOST_OF_CREATE: usize = 8;
const MOST_OF_SETID: usize = 7;

/// The options after key, group and id.
struct Options {
    makes_stream: bool,
    entries_read: Option<i64>,
}

impl Options {
    fn parse(call: &Call<'_, '_>, creates: bool) -> Result<Options, ClientError> {
        let mut options = Options { makes_stream: false, entries_read: None };
        let mut rest = &call.args[5..];
        while !rest.is_empty() {
            match rest {
                [word, behind @ ..] if creates && is_word(word, "MKSTREAM") => {
                    options.makes_stream = true;
                    rest = behind;
                }
                [word, value, behind @ ..] if is_word(word, "ENTRIESREAD") => {
                    options.entries_read = match int(value)? {
                        -1 => None,
                        count if count < 0 => return Err(ENTRIES_READ),
                        count => Some(count),
                    };
                    rest = behind;
                }
                _ => return Err(error::subcommand_syntax("XGROUP", call.args[1])),
            }
        }
        Ok(options)
    }
}

/// No word may be repeated. The reference counts the arguments once it knows the group.
fn check_count(args: &[&[u8]], most: usize) -> Result<(), ClientError> {
    match args.len() <= most {
        true => Ok(()),
        false => Err(error::subcommand_syntax("XGROUP", args[1])),
    }
}

/// Parses an id, or the stream's last one for `$`.
fn id_or_last(text: &[u8], stream: Option<&Stream>) -> Result<StreamId, ClientError> {
    match text {
        b"$" => Ok(stream.map_or(StreamId::MIN, Stream::last_id)),
        text => id(text),
    }
}

fn create(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(call, true)?;
    let (key, name) = (call.key(), call.args[3]);
    let mut opened = call.keys.open(key);
    let stream = opened.collection::<Stream>()?;
    if stream.is_none() && !options.makes_stream {
        return Err(NEEDS_KEY.into());
    }
    check_count(call.args, MOST_OF_CREATE)?;
    let last_id = id_or_last(call.args[4], stream)?;
    if stream.is_some_and(|stream| stream.group(name).is_some()) {
        return Err(GROUP_EXISTS.into());
    }
    let is_new = stream.is_none();
    let stream = opened.collection_or_new::<Stream>()?;
    stream.add_group(name, Group::new(last_id, options.entries_read));
    match is_new {
        true => opened.publish(event::XGROUP_CREATE),
        false => opened.publish_unwatched(event::XGROUP_CREATE),
    }
    call.reply.ok();
    Ok(())
}

fn set_id(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(call, false)?;
    let (key, name) = (call.key(), call.args[3]);
    let mut opened = call.keys.open(key);
    let stream = opened.collection::<Stream>()?.ok_or(NEEDS_KEY)?;
    stream.group(name).ok_or_else(|| no_group_of_key(key.bytes, name))?;
    check_count(call.args, MOST_OF_SETID)?;
    let last_id = match call.args[4] {
        // Only here are the ends of an interval ids.
        b"-" => StreamId::MIN,
        b"+" => StreamId::MAX,
        text => id_or_last(text, Some(stream))?,
    };
    if let Some(group) = opened.collection_mut::<Stream>()?.and_then(|s| s.group_mut(name)) {
        group.last_id = last_id;
        group.entries_read = options.entries_read;
    }
    opened.publish_unwatched(event::XGROUP_SETID);
    call.reply.ok();
    Ok(())
}

fn destroy(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, name) = (call.key(), call.args[3]);
    let mut opened = call.keys.open(key);
    let stream = opened.collection::<Stream>()?.ok_or(NEEDS_KEY)?;
    let pending = stream.group(name).map_or(0, |group| group.pending().len());
    leave_if_long(call.lane, pending as u64)?;
    let found = opened.collection_mut::<Stream>()?.is_some_and(|s| s.remove_group(name));
    match found {
        true => opened.publish_unwatched(event::XGROUP_DESTROY),
        false => opened.unchanged(),
    }
    call.reply.int(i64::from(found));
    Ok(())
}

fn create_consumer(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, name, now) = (call.key(), call.args[3], call.clock());
    let mut opened = call.keys.open(key);
    let stream = opened.collection_mut::<Stream>();
    let group = stream.map(|stream| stream.map(|stream| stream.group_mut(name)));
    let is_new = match group {
        Ok(Some(Some(group))) => Ok(group.consumer_or_new(call.args[4], now).1),
        Ok(Some(None)) => Err(no_group_of_key(key.bytes, name)),
        Ok(None) => Err(NEEDS_KEY),
        Err(wrong) => Err(wrong.into()),
    };
    match is_new {
        Ok(true) => super::read::settle(&mut opened, true),
        _ => opened.unchanged(),
    }
    call.reply.int(i64::from(is_new?));
    Ok(())
}

fn delete_consumer(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, name) = (call.key(), call.args[3]);
    let mut opened = call.keys.open(key);
    let stream = opened.collection::<Stream>()?.ok_or(NEEDS_KEY)?;
    let group = stream.group(name).ok_or_else(|| no_group_of_key(key.bytes, name))?;
    let consumer = group.find_consumer(call.args[4]).and_then(|number| group.consumer(number));
    let Some(pending) = consumer.map(|consumer| consumer.pending_count()) else {
        call.reply.int(0);
        return Ok(());
    };
    leave_if_long(call.lane, pending as u64)?;
    if let Some(group) = opened.collection_mut::<Stream>()?.and_then(|s| s.group_mut(name)) {
        group.remove_consumer(call.args[4]);
    }
    opened.publish_silently();
    opened.announce(event::XGROUP_DELCONSUMER);
    call.reply.int(pending as i64);
    Ok(())
}
