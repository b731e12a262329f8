//! Streams: entries with ascending ids, and groups of consumers that read them.
//!
//! | file | commands |
//! |---|---|
//! | `add` | XADD, XTRIM, XSETID |
//! | `delete` | XDEL, XDELEX, XACKDEL |
//! | `range` | XLEN, XRANGE, XREVRANGE |
//! | `read` | XREAD, XREADGROUP, with BLOCK too |
//! | `group` | XGROUP |
//! | `pending` | XACK, XPENDING |
//! | `claim` | XCLAIM, XAUTOCLAIM |
//! | `info` | XINFO |
//! | `options` | parsing that several of them share |
//! | `trimmed`, `recorded` | the forms in which trimming and reading by groups are recorded |
//!
//! What consumers have read is published silently: readers block on entries, not on that, and the
//! reference has no event for it either.
//!
//! Tests: compat/transcripts/stream.

mod add;
mod claim;
mod delete;
mod group;
mod info;
mod options;
mod pending;
mod range;
mod read;
mod recorded;
mod trimmed;

use pantala_protocol::Reply;
use pantala_settings::Settings;
use pantala_values::packed::Element;
use pantala_values::stream::{BlockLimits, Entry, ID_TEXT_MAX_BYTES, StreamId};

use crate::calls::call::{Lane, Stop};
use crate::error::{ClientError, up_to_nul};
use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};

use recorded::record_ids;

/// The rows of this family.
pub const ROWS: &[Command] = &[
    pending::XACK,
    delete::XACKDEL,
    add::XADD,
    claim::XAUTOCLAIM,
    claim::XCLAIM,
    delete::XDEL,
    delete::XDELEX,
    group::XGROUP,
    info::XINFO,
    range::XLEN,
    pending::XPENDING,
    range::XRANGE,
    read::XREAD,
    read::XREADGROUP,
    range::XREVRANGE,
    add::XSETID,
    add::XTRIM,
];

/// The size to which a block is filled.
pub(in crate::families) fn limits(settings: &Settings) -> BlockLimits {
    BlockLimits { bytes: settings.stream_node_max_bytes, entries: settings.stream_node_max_entries }
}

/// Working on more entries than this is for the slow lane.
const WORKER_ENTRIES: u64 = 10_000;

const KEY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::MODIFY)];

/// A row for a command that changes the stream at its first argument, quickly.
const fn fast(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::Stream).flags(Flags::FAST).keys(KEY).since("5.0.0")
}

/// Moves a command that will look at this many entries to the slow lane.
fn leave_if_long(lane: Lane, entries: u64) -> Result<(), Stop> {
    match lane {
        Lane::Worker if entries > WORKER_ENTRIES => Err(Stop::Lane),
        _ => Ok(()),
    }
}

/// Writes an id, as a bulk reply.
#[inline]
fn reply_id(reply: &mut Reply<'_>, id: StreamId) {
    reply.bulk(id.write(&mut [0; ID_TEXT_MAX_BYTES]));
}

#[inline]
fn reply_text(reply: &mut Reply<'_>, text: Element<'_>) {
    match text {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Int(number) => reply.bulk_int(number),
    }
}

/// Writes an entry: its id, and an array of names and values in turn.
#[inline]
fn reply_entry(reply: &mut Reply<'_>, entry: &Entry<'_>) {
    reply.array(2);
    reply_id(reply, entry.id);
    let fields = entry.fields();
    reply.array(2 * fields.len());
    for (name, value) in fields {
        reply_text(reply, name);
        reply_text(reply, value);
    }
}

/// Writes an array of entries.
fn reply_entries<'a>(reply: &mut Reply<'_>, entries: impl Iterator<Item = Entry<'a>>) {
    let mark = reply.begin();
    let mut count = 0;
    for entry in entries {
        reply_entry(reply, &entry);
        count += 1;
    }
    reply.end_array(mark, count);
}

/// `NOGROUP ...`: pieces of text and arguments of the client, which are read as C strings.
fn no_group(pieces: &[&[u8]]) -> ClientError {
    let mut text = b"NOGROUP ".to_vec();
    pieces.iter().for_each(|piece| text.extend_from_slice(up_to_nul(piece)));
    ClientError::bytes(text)
}

/// `NOGROUP No such key 'x' or consumer group 'y'`.
fn no_key_or_group(key: &[u8], group: &[u8]) -> ClientError {
    no_group(&[b"No such key '", key, b"' or consumer group '", group, b"'"])
}

/// `NOGROUP No such consumer group 'y' for key name 'x'`.
fn no_group_of_key(key: &[u8], group: &[u8]) -> ClientError {
    no_group(&[b"No such consumer group '", group, b"' for key name '", key, b"'"])
}
