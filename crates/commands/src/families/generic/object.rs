//! OBJECT: the representation of a value.
//!
//! A string's encoding is reported as Valkey would have chosen it: see docs/differences.md for
//! where a difference shows.

use pantala_keyspace::OpenKey;
use pantala_table::{Encoding, ValueRef};

use crate::calls::call::{Call, CommandResult};
use crate::error;
use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};
use crate::rows::help::help;

pub(super) const OBJECT: Command = Command::container("OBJECT", Group::Generic, SUBCOMMANDS)
    .since("2.2.3")
    .summary("Tells how values are kept.");

const SUBCOMMANDS: &[Command] = &[
    sub("ENCODING", encoding).summary("Names the encoding of a value."),
    sub("FREQ", frequency).since("4.0.0").summary("Tells how often a key is used, roughly."),
    sub("IDLETIME", idle_time).summary("Tells for how many seconds a key was not used."),
    sub("REFCOUNT", reference_count).summary("Counts the references to a value: one."),
    Command::new("HELP", help, Group::Generic)
        .of("OBJECT")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("6.2.0")
        .summary("Lists the subcommands."),
];

const KEY: &[KeySpec] = &[KeySpec::one(2, KeyFlags::LOOK)];
const TIPS: &[&str] = &["nondeterministic_output"];

const fn sub(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::Generic)
        .of("OBJECT")
        .arity(3)
        .keys(KEY)
        .tips(TIPS)
        .since("2.2.3")
        .syntax("key")
}

/// Up to this many bytes, including all headers, Valkey keeps key and string in one allocation.
const EMBEDDED_BYTES: usize = 128;
/// The bytes of those headers for keys shorter than [`LONG_KEY_BYTES`] ...
const SHORT_KEY_HEADERS: usize = 15;
/// ... and for longer ones.
const LONG_KEY_HEADERS: usize = 17;
const LONG_KEY_BYTES: usize = 32;

fn encoding(call: &mut Call<'_, '_>) -> CommandResult {
    match name_of_encoding(&call.keys.look_unheard(call.key())) {
        Some(name) => call.reply.bulk(name.as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

fn name_of_encoding(opened: &OpenKey<'_, '_>) -> Option<&'static str> {
    let (table, place) = opened.record()?;
    let value = match table.value(place) {
        ValueRef::Str(value) => value,
        ValueRef::Object(object) => return Some(object.encoding()),
    };
    if table.encoding(place) == Encoding::Int {
        return Some("int");
    }
    let key = opened.key().bytes.len();
    let headers = if key < LONG_KEY_BYTES { SHORT_KEY_HEADERS } else { LONG_KEY_HEADERS };
    let is_raw = table.is_edited(place) || headers + key + value.len() > EMBEDDED_BYTES;
    Some(if is_raw { "raw" } else { "embstr" })
}

fn reference_count(call: &mut Call<'_, '_>) -> CommandResult {
    match call.keys.look_unheard(call.key()).exists() {
        true => call.reply.int(1),
        false => call.reply.null(),
    }
    Ok(())
}

fn frequency(call: &mut Call<'_, '_>) -> CommandResult {
    let opened = call.keys.look_unheard(call.key());
    match opened.record() {
        None => call.reply.null(),
        Some(_) if !call.settings.counts_uses() => return Err(error::NOT_LFU.into()),
        Some((table, place)) => call.reply.int(i64::from(table.hotness(place))),
    }
    Ok(())
}

/// A lower bound: no clock is kept with a key.
fn idle_time(call: &mut Call<'_, '_>) -> CommandResult {
    let opened = call.keys.look_unheard(call.key());
    match opened.record() {
        None => call.reply.null(),
        Some(_) if call.settings.counts_uses() => return Err(error::NOT_LRU.into()),
        Some((table, _)) if !table.tells_idleness() => call.reply.int(0),
        Some((table, place)) => {
            let scope = opened.scope();
            let idle_ms = scope.space.idle_ms(table.hotness(place), scope.now);
            call.reply.int(idle_ms / 1_000);
        }
    }
    Ok(())
}
