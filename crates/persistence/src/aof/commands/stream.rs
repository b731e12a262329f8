//! Writes a stream as commands: entries, counters, groups with their pending entries.

use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_i64, fmt_u64};
use pantala_journal::resp::{push_array, push_bulk, push_command};
use pantala_table::IntText;
use pantala_values::Stream;
use pantala_values::stream::{Consumer, Entry, Group, ID_TEXT_MAX_BYTES, StreamId};

/// A stream that is being written in parts.
#[derive(Debug, Default)]
pub struct Writing {
    stage: Stage,
}

/// What is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The entries from this id on.
    Entries(StreamId),
    /// Everything beside entries and groups.
    Counters,
    Groups(Place),
    End,
}

/// A position among the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    group: usize,
    /// The consumer; `None`: the group itself is next.
    consumer: Option<usize>,
    /// Its pending entries from this id on; the smallest id: the consumer itself is next.
    id: StreamId,
}

impl Place {
    fn group(group: usize) -> Place {
        Place { group, consumer: None, id: StreamId::MIN }
    }
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::Entries(StreamId::MIN)
    }
}

impl Writing {
    /// Appends commands until `out` has `end` bytes; returns whether the stream is finished.
    pub fn go_on(&mut self, key: &[u8], stream: &Stream, end: usize, out: &mut Vec<u8>) -> bool {
        loop {
            self.stage = match self.stage {
                Stage::Entries(from) => entries(key, stream, from, (end, out)),
                Stage::Counters => {
                    write_counters(key, stream, out);
                    Stage::Groups(Place::group(0))
                }
                Stage::Groups(place) => groups(key, stream, place, (end, out)),
                Stage::End => return true,
            };
            if out.len() >= end {
                return self.stage == Stage::End;
            }
        }
    }
}

/// Appends entries until `out` has enough bytes; returns the next stage.
fn entries(
    key: &[u8],
    stream: &Stream,
    from: StreamId,
    (end, out): (usize, &mut Vec<u8>),
) -> Stage {
    if stream.is_empty() {
        // This pair of commands creates a stream without entries.
        push_command(out, &[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
        return Stage::Counters;
    }
    for entry in stream.range(from, StreamId::MAX) {
        debug_assert!(entry.id >= from, "entries come in order");
        write_entry(key, &entry, out);
        if out.len() >= end {
            return entry.id.next().map_or(Stage::Counters, Stage::Entries);
        }
    }
    Stage::Counters
}

fn write_entry(key: &[u8], entry: &Entry<'_>, out: &mut Vec<u8>) {
    let fields = entry.fields();
    push_array(out, 3 + 2 * fields.len());
    push_bulk(out, b"XADD");
    push_bulk(out, key);
    push_bulk(out, entry.id.write(&mut [0; ID_TEXT_MAX_BYTES]));
    for (name, value) in fields {
        push_bulk(out, name.text(&mut IntText::new()));
        push_bulk(out, value.text(&mut IntText::new()));
    }
}

fn write_counters(key: &[u8], stream: &Stream, out: &mut Vec<u8>) {
    let (mut last, mut deleted) = ([0; ID_TEXT_MAX_BYTES], [0; ID_TEXT_MAX_BYTES]);
    let mut digits = [0; I64_TEXT_MAX_BYTES];
    // A larger number cannot be read back.
    let added = fmt_u64(stream.entries_added().min(i64::MAX as u64), &mut digits);
    let last = stream.last_id().write(&mut last);
    let deleted = stream.max_deleted_id().write(&mut deleted);
    push_command(out, &[b"XSETID", key, last, b"ENTRIESADDED", added, b"MAXDELETEDID", deleted]);
}

/// Appends groups with their consumers until `out` has enough bytes; returns the next stage.
fn groups(
    key: &[u8],
    stream: &Stream,
    mut place: Place,
    (end, out): (usize, &mut Vec<u8>),
) -> Stage {
    for (name, group) in stream.groups().skip(place.group) {
        let first = place.consumer.unwrap_or_else(|| {
            write_group(key, name, group, out);
            0
        });
        for (nth, consumer) in group.consumers().enumerate().skip(first) {
            place.consumer = Some(nth);
            if out.len() >= end {
                return Stage::Groups(place);
            }
            let ahead = write_consumer((key, name), (group, consumer), place.id, (end, out));
            if let Some(id) = ahead {
                return Stage::Groups(Place { id, ..place });
            }
            place.id = StreamId::MIN;
        }
        place = Place::group(place.group + 1);
        if out.len() >= end {
            return Stage::Groups(place);
        }
    }
    Stage::End
}

fn write_group(key: &[u8], name: &[u8], group: &Group, out: &mut Vec<u8>) {
    /// The number of read entries when it is unknown.
    const UNKNOWN: i64 = -1;
    let (mut last, mut digits) = ([0; ID_TEXT_MAX_BYTES], [0; I64_TEXT_MAX_BYTES]);
    let last = group.last_id.write(&mut last);
    let read = fmt_i64(group.entries_read.unwrap_or(UNKNOWN), &mut digits);
    push_command(out, &[b"XGROUP", b"CREATE", key, name, last, b"ENTRIESREAD", read]);
}

/// Appends a consumer and its pending entries from an id on, until `out` has enough bytes; returns
/// where to continue.
fn write_consumer(
    (key, name): (&[u8], &[u8]),
    (group, consumer): (&Group, &Consumer),
    from: StreamId,
    (end, out): (usize, &mut Vec<u8>),
) -> Option<StreamId> {
    if from == StreamId::MIN {
        push_command(out, &[b"XGROUP", b"CREATECONSUMER", key, name, &consumer.name]);
    }
    for id in consumer.pending_from(from) {
        let Some(pending) = group.pending().get(id) else { continue };
        let mut text = [0; ID_TEXT_MAX_BYTES];
        let (mut time, mut count) = ([0; I64_TEXT_MAX_BYTES], [0; I64_TEXT_MAX_BYTES]);
        let args: [&[u8]; 12] = [
            b"XCLAIM",
            key,
            name,
            &consumer.name,
            b"0",
            id.write(&mut text),
            b"TIME",
            fmt_i64(pending.delivered_at.0, &mut time),
            b"RETRYCOUNT",
            fmt_u64(pending.count, &mut count),
            b"JUSTID",
            b"FORCE",
        ];
        push_command(out, &args);
        if out.len() >= end {
            return id.next();
        }
    }
    None
}
