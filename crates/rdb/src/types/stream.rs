//! Streams: listpacks of entries, counters, groups.
//!
//! ```text
//! stream:  nodes: id, listpack ... | length | last id | first id, deleted id, added | groups ...
//! group:   name | last id | read | pending: id, time, count ... | consumers ...
//! consumer: name | seen | active | pending: id ...
//! ```
//!
//! | kind | what it lacks |
//! |---|---|
//! | 15 | first id, largest deleted id, entries added, entries read, active |
//! | 19 | active: it is taken to equal seen |
//! | 21 | nothing |
//!
//! The listpacks are in `stream_node`.
//!
//! The result is checked for consistency: ids ascend, the length is right, every pending entry is
//! pending for one consumer.

use std::collections::HashMap;

use pantala_base::UnixMs;
use pantala_table::IntText;
use pantala_values::Stream;
use pantala_values::stream::{Consumer, Counters, Group, MOST_DELIVERIES, PendingEntry, StreamId};

use crate::input::{Input, Malformed};
use crate::kind::RdbKind;
use crate::scalars::{length, text};
use crate::types::stream_node::{self, Nodes};
use crate::{Part, RdbLimits};

/// Bytes of the id of a pending entry.
const ID_BYTES: usize = 16;
/// In place of a time: never.
const NEVER: i64 = -1;
/// In place of the number of read entries: unknown.
const UNKNOWN: u64 = u64::MAX;

/// The kind in which a stream is written.
pub fn kind_of(stream: &Stream) -> RdbKind {
    let mut consumers = stream.groups().flat_map(|(_, group)| group.consumers());
    let has_one_time = |consumer: &Consumer| consumer.active_at == Some(consumer.seen_at);
    if consumers.all(has_one_time) { RdbKind::STREAM_2 } else { RdbKind::STREAM_3 }
}

/// A stream that is written in parts. The number of nodes precedes them and is known after them: so
/// they are kept until then. A group is one part.
#[derive(Debug, Default)]
pub struct Writing {
    nodes: Nodes,
    are_made: bool,
    /// How many groups were written, once the nodes are.
    groups: Option<usize>,
}

impl Writing {
    /// Appends a part; returns whether it was the last.
    pub fn go_on(&mut self, stream: &Stream, part: Part, out: &mut Vec<u8>) -> bool {
        let end = part.end(out);
        if !self.are_made {
            self.are_made = self.nodes.go_on(stream, part);
            if self.are_made {
                length::write(self.nodes.count(), out);
            }
            return false;
        }
        while out.len() < end
            && let Some(piece) = self.nodes.next_piece()
        {
            out.extend_from_slice(&piece);
        }
        if out.len() >= end {
            return false;
        }
        if self.groups.is_none() {
            write_counters(stream, out);
        }
        let mut written = self.groups.unwrap_or_default();
        for (name, group) in stream.groups().skip(written) {
            if out.len() >= end {
                break;
            }
            text::write_bytes(name, part.style.strings, out);
            write_group(group, part, out);
            written += 1;
        }
        self.groups = Some(written);
        written == stream.groups().len()
    }
}

fn write_counters(stream: &Stream, out: &mut Vec<u8>) {
    length::write(stream.len(), out);
    write_id(stream.last_id(), out);
    write_id(stream.first_id(), out);
    write_id(stream.max_deleted_id(), out);
    // A larger number, which XSETID can set, cannot be read back.
    length::write(stream.entries_added().min(i64::MAX as u64), out);
    length::write(stream.groups().len() as u64, out);
}

fn write_id(id: StreamId, out: &mut Vec<u8>) {
    length::write(id.ms, out);
    length::write(id.seq, out);
}

fn write_group(group: &Group, part: Part, out: &mut Vec<u8>) {
    write_id(group.last_id, out);
    length::write(group.entries_read.map_or(UNKNOWN, i64::cast_unsigned), out);
    length::write(group.pending().len() as u64, out);
    for pending in group.pending().iter() {
        out.extend_from_slice(&stream_node::id_bytes(pending.id));
        out.extend_from_slice(&pending.delivered_at.0.to_le_bytes());
        length::write(pending.count, out);
    }
    length::write(group.consumer_count() as u64, out);
    for consumer in group.consumers() {
        text::write_bytes(&consumer.name, part.style.strings, out);
        out.extend_from_slice(&consumer.seen_at.0.to_le_bytes());
        if part.kind == RdbKind::STREAM_3 {
            let active_at = consumer.active_at.map_or(NEVER, |moment| moment.0);
            out.extend_from_slice(&active_at.to_le_bytes());
        }
        length::write(consumer.pending_count() as u64, out);
        for id in consumer.pending_from(StreamId::MIN) {
            out.extend_from_slice(&stream_node::id_bytes(id));
        }
    }
}

/// Reads a stream of some kind.
pub fn read(kind: RdbKind, input: &mut Input<'_>, limits: &RdbLimits) -> Result<Stream, Malformed> {
    let mut stream = Stream::default();
    for _ in 0..length::read_count(input, 2)? {
        stream_node::read(input, &mut stream, limits)?;
    }
    if length::read(input)? != stream.len() {
        return Err(Malformed("a stream of another length than it says"));
    }
    let counters = read_counters(kind, input, &stream)?;
    stream.set_counters(counters);
    for _ in 0..length::read_count(input, 2)? {
        let name = text::read(input, limits.text_bytes)?;
        let group = read_group(kind, input, &stream, limits)?;
        if !stream.add_group(name.bytes(&mut IntText::new()), group) {
            return Err(Malformed("a stream with a group twice"));
        }
    }
    Ok(stream)
}

fn read_counters(
    kind: RdbKind,
    input: &mut Input<'_>,
    stream: &Stream,
) -> Result<Counters, Malformed> {
    let last_id = read_id(input)?;
    if last_id < stream.last_id() {
        return Err(Malformed("a stream with an entry after its last id"));
    }
    let (mut max_deleted_id, mut entries_added) = (StreamId::MIN, stream.len());
    if kind != RdbKind::STREAM {
        // The id of the first entry, which is recomputed.
        read_id(input)?;
        max_deleted_id = read_id(input)?;
        entries_added = length::read(input)?;
    }
    if i64::try_from(entries_added).is_err() {
        return Err(Malformed("a stream to which more was added than can be counted"));
    }
    Ok(Counters {
        last_id,
        entries_added: Some(entries_added),
        max_deleted_id: Some(max_deleted_id),
    })
}

fn read_id(input: &mut Input<'_>) -> Result<StreamId, Malformed> {
    let ms = length::read(input)?;
    Ok(StreamId { ms, seq: length::read(input)? })
}

/// Reads a time; one before 1970 was written by no server, but is no reason to lose a stream.
fn read_time(input: &mut Input<'_>) -> Result<UnixMs, Malformed> {
    input.i64().map(|moment| UnixMs(moment.max(0)))
}

fn read_group(
    kind: RdbKind,
    input: &mut Input<'_>,
    stream: &Stream,
    limits: &RdbLimits,
) -> Result<Group, Malformed> {
    let last_id = read_id(input)?;
    let entries_read = match kind {
        // The oldest kind lacks it.
        RdbKind::STREAM => stream.entries_up_to(last_id),
        _ => i64::try_from(length::read(input)?).ok(),
    };
    let mut group = Group::new(last_id, entries_read);
    let mut pending = HashMap::new();
    for _ in 0..length::read_count(input, ID_BYTES + size_of::<i64>() + 1)? {
        let id = stream_node::id_of(input.array()?);
        let delivered_at = read_time(input)?;
        let count = length::read(input)?.min(MOST_DELIVERIES);
        if pending.insert(id, (delivered_at, count)).is_some() {
            return Err(Malformed("a group with an entry pending twice"));
        }
    }
    for _ in 0..length::read_count(input, 1 + size_of::<i64>() + 1)? {
        read_consumer(kind, input, limits, &mut group, &mut pending)?;
    }
    if pending.is_empty() {
        Ok(group)
    } else {
        Err(Malformed("a group with an entry that is pending for nobody"))
    }
}

fn read_consumer(
    kind: RdbKind,
    input: &mut Input<'_>,
    limits: &RdbLimits,
    group: &mut Group,
    pending: &mut HashMap<StreamId, (UnixMs, u64)>,
) -> Result<(), Malformed> {
    let name = text::read(input, limits.text_bytes)?;
    let seen_at = read_time(input)?;
    let active_at = match kind {
        RdbKind::STREAM_3 => Some(input.i64()?).filter(|moment| *moment >= 0).map(UnixMs),
        _ => Some(seen_at),
    };
    let (consumer, is_new) = group.consumer_or_new(name.bytes(&mut IntText::new()), seen_at);
    if !is_new {
        return Err(Malformed("Duplicate stream consumer detected"));
    }
    if let Some(found) = group.consumer_mut(consumer) {
        found.active_at = active_at;
    }
    for _ in 0..length::read_count(input, ID_BYTES)? {
        let id = stream_node::id_of(input.array()?);
        let Some((delivered_at, count)) = pending.remove(&id) else {
            return Err(Malformed("an entry that is pending for a consumer and not for the group"));
        };
        group.hold(PendingEntry { id, consumer, delivered_at, count });
    }
    Ok(())
}
