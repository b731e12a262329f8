//! Writes a value as commands, in parts between which it must not change.
//!
//! Tests: at the foot.

use pantala_base::UnixMs;
use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_i64, fmt_u64, push_f64};
use pantala_commands::{for_ours, for_some};
use pantala_journal::resp::{push_array, push_bulk, push_bulk_header, push_command};
use pantala_keyspace::snapshot::SnapshotParts;
use pantala_table::{IntText, StrRef, ValueRef, is_expired};
use pantala_values::hash::HashRef;
use pantala_values::packed::Element;
use pantala_values::set::SetRef;
use pantala_values::{Collection, Hash, List, Object, Set, SortedSet};

use super::batch::Batch;
use super::stream;

/// How values are written.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Elements that have expired by this time are left out.
    pub now: UnixMs,
    /// Whether to leave out deadlines of members, which other servers do not know.
    pub is_portable: bool,
}

/// A value that is being written as commands, part by part.
#[derive(Debug)]
pub struct Writing {
    key: Box<[u8]>,
    deadline: Option<UnixMs>,
    flags: u32,
    style: Style,
    /// Where the last part ended; 0 at the start.
    from: usize,
    stream: stream::Writing,
}

/// The part of a value to be written now.
#[derive(Clone, Copy)]
struct Part<'p> {
    key: &'p [u8],
    from: usize,
    style: Style,
    /// The size of `out` at which the part ends.
    end: usize,
}

impl Writing {
    /// Starts a key; its value has not been read yet.
    pub fn new(key: &[u8], deadline: Option<UnixMs>, style: Style) -> Writing {
        let stream = stream::Writing::default();
        Writing { key: key.into(), deadline, flags: 0, style, from: 0, stream }
    }

    /// With these Memcached flags; 0: none.
    pub fn with_flags(self, flags: u32) -> Writing {
        Writing { flags, ..self }
    }

    /// Appends commands of about the requested size; returns whether the value is finished.
    pub fn go_on(
        &mut self,
        value: &ValueRef<'_, Object>,
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let end = out.len().saturating_add(most_bytes);
        let part = Part { key: &self.key, from: self.from, style: self.style, end };
        let next = match value {
            ValueRef::Str(text) => write_string(*text, self.flags, part, out),
            ValueRef::Object(Object::List(list)) => write_list(list, part, out),
            ValueRef::Object(Object::Set(set)) => write_set(set, part, out),
            ValueRef::Object(Object::SortedSet(set)) => write_sorted_set(set, part, out),
            ValueRef::Object(Object::Hash(hash)) => write_hash(hash, part, out),
            ValueRef::Object(Object::Stream(stream)) => {
                let is_last = self.stream.go_on(&self.key, stream, end, out);
                (!is_last).then_some(0)
            }
        };
        if let Some(next) = next {
            self.from = next;
            return false;
        }
        if let Some(deadline) = self.deadline {
            let mut digits = [0; I64_TEXT_MAX_BYTES];
            let moment = fmt_i64(deadline.0, &mut digits);
            push_command(out, &[b"PEXPIREAT", &self.key, moment]);
        }
        true
    }
}

impl SnapshotParts for Writing {
    fn go_on(
        &mut self,
        value: &ValueRef<'_, Object>,
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        Writing::go_on(self, value, most_bytes, out)
    }
}

/// Returns where to continue, `None` at the end; so do all functions here.
fn write_string(text: StrRef<'_>, flags: u32, part: Part<'_>, out: &mut Vec<u8>) -> Option<usize> {
    let mut scratch = IntText::new();
    let bytes = text.bytes(&mut scratch);
    if part.from == 0 {
        push_array(out, 3);
        push_bulk(out, b"SET");
        push_bulk(out, part.key);
        push_bulk_header(out, bytes.len());
    }
    debug_assert!(part.from <= bytes.len(), "the value does not change meanwhile");
    let rest = &bytes[part.from..];
    let taken = rest.len().min(part.end.saturating_sub(out.len()).max(1));
    out.extend_from_slice(&rest[..taken]);
    if taken < rest.len() {
        return Some(part.from + taken);
    }
    out.extend_from_slice(b"\r\n");
    if flags != 0 {
        let digits = &mut [0; I64_TEXT_MAX_BYTES];
        let words: [&[u8]; 3] = [b"mc.flags", part.key, fmt_u64(u64::from(flags), digits)];
        for_ours(&words, |words| push_command(out, words));
    }
    None
}

fn write_list(list: &List, part: Part<'_>, out: &mut Vec<u8>) -> Option<usize> {
    let head: [&[u8]; 2] = [b"RPUSH", part.key];
    let mut batch = Batch::new(&head, out);
    let mut written = part.from;
    list.visit_chunks(part.from, |chunk| {
        for (_, element) in chunk.iter() {
            batch.push(&[element.text(&mut IntText::new())]);
        }
        written += 1;
        batch.bytes() < part.end
    });
    debug_assert!(written <= list.chunk_count(), "the value does not change meanwhile");
    (written < list.chunk_count()).then_some(written)
}

fn write_set(set: &Set, part: Part<'_>, out: &mut Vec<u8>) -> Option<usize> {
    let head: [&[u8]; 2] = [b"SADD", part.key];
    let mut batch = Batch::new(&head, out);
    let SetRef::Large(large) = set.view() else {
        set.view().iter(part.style.now).for_each(|member| {
            batch.push(&[member.text(&mut IntText::new())]);
        });
        return None;
    };
    large.part(part.from, |found| {
        let deadline = found.deadline.filter(|_| !part.style.is_portable);
        match deadline {
            _ if found.is_gone(part.style.now) => {}
            Some(deadline) => {
                let mut digits = [0; I64_TEXT_MAX_BYTES];
                let moment = fmt_i64(deadline.0, &mut digits);
                let after: [&[u8]; 6] =
                    [b"SPEXPIREAT", part.key, moment, b"MEMBERS", b"1", found.key];
                for_ours(&after, |after| batch.push_with(&[found.key], after));
            }
            None => batch.push(&[found.key]),
        }
        batch.bytes() < part.end
    })
}

fn write_sorted_set(set: &SortedSet, part: Part<'_>, out: &mut Vec<u8>) -> Option<usize> {
    let head: [&[u8]; 2] = [b"ZADD", part.key];
    let mut batch = Batch::new(&head, out);
    let has_deadlines = set.next_deadline().is_some();
    debug_assert!(part.from <= set.len(), "the value does not change meanwhile");
    let left = set.len().saturating_sub(part.from);
    let mut text = Vec::new();
    for (nth, (member, score)) in set.view().entries(part.from, left).enumerate() {
        let mut scratch = IntText::new();
        let member = member.bytes(&mut scratch);
        let deadline = if has_deadlines { set.deadline(member) } else { None };
        text.clear();
        push_f64(&mut text, score);
        let element: [&[u8]; 2] = [&text, member];
        match deadline {
            Some(deadline) if is_expired(deadline, part.style.now) => {}
            Some(deadline) if !part.style.is_portable => {
                let mut digits = [0; I64_TEXT_MAX_BYTES];
                let moment = fmt_i64(deadline.0, &mut digits);
                let after: [&[u8]; 6] = [b"ZPEXPIREAT", part.key, moment, b"MEMBERS", b"1", member];
                for_ours(&after, |after| batch.push_with(&element, after));
            }
            _ => batch.push(&element),
        }
        if batch.bytes() >= part.end && nth + 1 < left {
            return Some(part.from + nth + 1);
        }
    }
    None
}

fn write_hash(hash: &Hash, part: Part<'_>, out: &mut Vec<u8>) -> Option<usize> {
    let head: [&[u8]; 2] = [b"HMSET", part.key];
    let mut batch = Batch::new(&head, out);
    match hash.view() {
        HashRef::Packed(view) => {
            let mut elements = view.iter().map(|(_, element)| element);
            while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
                push_pair(&mut batch, field, value);
            }
            None
        }
        HashRef::Large(large) => large.part(part.from, |found| {
            match found.deadline {
                _ if found.is_gone(part.style.now) => {}
                Some(deadline) => {
                    let mut digits = [0; I64_TEXT_MAX_BYTES];
                    let moment = fmt_i64(deadline.0, &mut digits);
                    let after: [&[u8]; 6] =
                        [b"HPEXPIREAT", part.key, moment, b"FIELDS", b"1", found.key];
                    for_some(part.key, &after, |after| {
                        batch.push_with(&[found.key, found.value], after)
                    });
                }
                None => batch.push(&[found.key, found.value]),
            }
            batch.bytes() < part.end
        }),
    }
}

fn push_pair(batch: &mut Batch<'_>, field: Element<'_>, value: Element<'_>) {
    let (mut first, mut second) = (IntText::new(), IntText::new());
    batch.push(&[field.text(&mut first), value.text(&mut second)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_values::hash::Lifetime;
    use pantala_values::list::End;
    use pantala_values::set::SetLimits;
    use pantala_values::sorted_set::SortedSetLimits;
    use pantala_values::stream::{Counters, Group, StreamId};
    use pantala_values::{Stream, Variant};

    use crate::aof::steps::{self, AofStep, Item};
    use crate::loading::tests::limits;

    const STYLE: Style = Style { now: UnixMs(100), is_portable: false };

    /// A value as commands, in parts of this size, one per line.
    fn text(
        value: ValueRef<'_, Object>,
        deadline: Option<i64>,
        style: Style,
        most: usize,
    ) -> String {
        let (mut out, mut lines) = (Vec::new(), String::new());
        let mut writing = Writing::new(b"k", deadline.map(UnixMs), style);
        while !writing.go_on(&value, most, &mut out) {}
        let (mut at, mut step) = (0, AofStep::default());
        while at < out.len() {
            let Ok(Item::Step { bytes }) = steps::next(&out[at..], &mut step) else {
                panic!("no step: {}", out[at..].escape_ascii());
            };
            for args in step.commands(&out[at..]) {
                let args: Vec<_> = args.map(|arg| arg.escape_ascii().to_string()).collect();
                lines += &(args.join(" ") + "\n");
            }
            at += bytes;
        }
        lines
    }

    /// For every part size, elements and their order are the same.
    fn check(object: &Object, style: Style, expected: &str) {
        assert_eq!(text(ValueRef::Object(object), None, style, usize::MAX), expected);
        let elements = |text: &str| text.split_ascii_whitespace().count();
        for most in [1, 7, 40] {
            let parts = text(ValueRef::Object(object), Some(500), style, most);
            assert!(parts.ends_with("PEXPIREAT k 500\n"), "{parts}");
            assert!(elements(&parts) >= elements(expected), "{parts}");
        }
    }

    #[test]
    fn a_string_is_one_command_in_any_parts() {
        let long = vec![b'x'; 1000];
        for most in [1, 10, usize::MAX] {
            let value = ValueRef::Str(StrRef::Bytes(&long));
            let expected = format!("SET k {}\nPEXPIREAT k 7\n", "x".repeat(1000));
            assert_eq!(text(value, Some(7), STYLE, most), expected);
        }
        assert_eq!(text(ValueRef::Str(StrRef::Int(-5)), None, STYLE, 1), "SET k -5\n");
        let (value, mut out) = (ValueRef::Str(StrRef::Bytes(b"v")), Vec::new());
        let mut writing = Writing::new(b"k", None, STYLE).with_flags(7);
        while !writing.go_on(&value, 1, &mut out) {}
        let mut expected = Vec::new();
        push_command(&mut expected, &[b"SET", b"k", b"v"]);
        push_command(
            &mut expected,
            &[b"REPLCONF", b"ACK", b"PANTALA", b"", b"mc.flags", b"k", b"7"],
        );
        assert_eq!(out, expected);
        assert_eq!(text(ValueRef::Str(StrRef::Bytes(b"")), None, STYLE, 1), "SET k \n");
    }

    #[test]
    fn a_command_has_64_elements_at_most() {
        let mut list = List::large(limits().list);
        (0..130).for_each(|number| list.push(End::Tail, Element::Int(number)));
        let line = |range: std::ops::Range<i32>| {
            let numbers: Vec<_> = range.map(|number| number.to_string()).collect();
            format!("RPUSH k {}\n", numbers.join(" "))
        };
        let expected = [line(0..64), line(64..128), line(128..130)].concat();
        check(&list.into_object(), STYLE, &expected);
    }

    #[test]
    fn members_with_deadlines_have_commands_of_their_own() {
        let of_set = SetLimits { ints: 0, entries: 0, ..limits().set };
        let mut set = Set::starting_with(b"a", 9, of_set);
        set.add(b"a", of_set, UnixMs(0));
        set.add_until(b"gone", UnixMs(50), false, UnixMs(0));
        let set = set.into_object();
        check(&set, STYLE, "SADD k a\n");
        let mut set = Set::starting_with(b"a", 9, of_set);
        set.add_until(b"b", UnixMs(200), false, UnixMs(0));
        let set = set.into_object();
        check(&set, STYLE, "SADD k b\nREPLCONF ACK PANTALA SPEXPIREAT k 200 MEMBERS 1 b\n");
        check(&set, Style { is_portable: true, ..STYLE }, "SADD k b\n");
        let mut hash = Hash::default();
        let of_hash = limits().hash;
        hash.set(b"f", b"v", Lifetime::Until(UnixMs(300)), of_hash, UnixMs(0));
        let expected = "HMSET k f v\n\
            EVAL redis.pcall(unpack(ARGV)) 1 k HPEXPIREAT k 300 FIELDS 1 f\n";
        check(&hash.into_object(), Style { is_portable: true, ..STYLE }, expected);
        let of_sorted: SortedSetLimits = limits().sorted_set;
        let mut sorted = SortedSet::of_sorted(&[(b"m", 1.5), (b"n", f64::INFINITY)], of_sorted);
        check(&sorted.clone().into_object(), STYLE, "ZADD k 1.5 m inf n\n");
        sorted.set_deadline(b"m", UnixMs(400));
        let expected = "ZADD k 1.5 m inf n\nREPLCONF ACK PANTALA ZPEXPIREAT k 400 MEMBERS 1 m\n";
        check(&sorted.into_object(), STYLE, expected);
    }

    #[test]
    fn a_stream_comes_with_its_groups() {
        let id = |ms| StreamId { ms, seq: 0 };
        let mut stream = Stream::default();
        check(
            &Stream::default().into_object(),
            STYLE,
            "XADD k MAXLEN 0 0-1 x y\nXSETID k 0-0 ENTRIESADDED 0 MAXDELETEDID 0-0\n",
        );
        stream.append(id(1), &[b"f", b"v"], limits().stream);
        stream.append(id(3), &[b"g", b"w", b"h", b"7"], limits().stream);
        stream.set_counters(Counters {
            last_id: id(9),
            max_deleted_id: Some(id(2)),
            entries_added: Some(5),
        });
        let mut group = Group::new(id(1), None);
        group.consumer_or_new(b"idle", UnixMs(6));
        let (number, _) = group.consumer_or_new(b"c", UnixMs(7));
        group.deliver(id(1), number, UnixMs(8));
        group.deliver(id(3), number, UnixMs(9));
        stream.add_group(b"a", group);
        stream.add_group(b"b", Group::new(id(0), Some(4)));
        let expected = "XADD k 1-0 f v\nXADD k 3-0 g w h 7\n\
            XSETID k 9-0 ENTRIESADDED 5 MAXDELETEDID 2-0\n\
            XGROUP CREATE k a 1-0 ENTRIESREAD -1\n\
            XGROUP CREATECONSUMER k a c\n\
            XCLAIM k a c 0 1-0 TIME 8 RETRYCOUNT 1 JUSTID FORCE\n\
            XCLAIM k a c 0 3-0 TIME 9 RETRYCOUNT 1 JUSTID FORCE\n\
            XGROUP CREATECONSUMER k a idle\n\
            XGROUP CREATE k b 0-0 ENTRIESREAD 4\n";
        let stream = stream.into_object();
        check(&stream, STYLE, expected);
        for most in [1, 30, 100, 300] {
            assert_eq!(text(ValueRef::Object(&stream), None, STYLE, most), expected, "{most}");
        }
    }
}
