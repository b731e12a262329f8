//! BITFIELD and BITFIELD_RO: integers inside a string, several at a time.

use pantala_base::number::parse_i64;
use pantala_keyspace::event;
use pantala_table::IntText;
use pantala_values::bits::{Field, Overflow};
use smallvec::SmallVec;

use super::{bit_offset, lengthen};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const BITFIELD: Command = Command::write("BITFIELD", bitfield, Group::Bitmap)
    .arity(-2)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE.variable())])
    .flags_of(bitfield_key_flags)
    .since("3.2.0")
    .complexity("O(1) for each operation")
    .syntax(
        "key [(operation: GET (get-block: encoding offset:int) \
         | (write: [OVERFLOW (overflow-block: WRAP | SAT | FAIL)] \
         (write-operation: SET (set-block: encoding offset:int value:int) \
         | INCRBY (incrby-block: encoding offset:int increment:int)))) ...]",
    )
    .summary("Reads, sets and counts up numbers of any width inside a string.");

pub(super) const BITFIELD_RO: Command = Command::read("BITFIELD_RO", bitfield_ro, Group::Bitmap)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .since("6.0.0")
    .complexity("O(1) for each operation")
    .syntax("key [GET (get-block: encoding offset:int) ...]")
    .summary("Reads numbers of any width inside a string.");

/// With only GET operations nothing is changed.
fn bitfield_key_flags(args: &[&[u8]]) -> KeyFlags {
    match parse(args.get(2..).unwrap_or_default(), usize::MAX) {
        Ok(operations) if operations.iter().all(|one| one.act == Act::Get) => KeyFlags::READ,
        _ => KeyFlags::CHANGE,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Get,
    Set(i64),
    Add(i64),
}

#[derive(Clone, Copy)]
struct Operation {
    act: Act,
    field: Field,
    offset: usize,
    overflow: Overflow,
}

impl Operation {
    /// The bytes that a string must have for it.
    fn end_bytes(&self) -> usize {
        (self.offset + self.field.width()).div_ceil(8)
    }
}

type Operations = SmallVec<[Operation; 4]>;

fn parse(args: &[&[u8]], most_bytes: usize) -> Result<Operations, ClientError> {
    let mut operations = Operations::new();
    let mut overflow = Overflow::Wrap;
    let mut rest = args;
    while let [word, more @ ..] = rest {
        let writes = is_word(word, "SET") || is_word(word, "INCRBY");
        match more {
            [kind, left @ ..] if is_word(word, "OVERFLOW") => {
                overflow = parse_overflow(kind)?;
                rest = left;
            }
            [kind, offset, left @ ..] if is_word(word, "GET") => {
                let (field, offset) = place(kind, offset, most_bytes)?;
                operations.push(Operation { act: Act::Get, field, offset, overflow });
                rest = left;
            }
            [kind, offset, value, left @ ..] if writes => {
                let (field, offset) = place(kind, offset, most_bytes)?;
                let value = parse_i64(value).ok_or(error::NOT_INTEGER)?;
                let act = if is_word(word, "SET") { Act::Set(value) } else { Act::Add(value) };
                operations.push(Operation { act, field, offset, overflow });
                rest = left;
            }
            _ => return Err(error::SYNTAX),
        }
    }
    Ok(operations)
}

fn parse_overflow(word: &[u8]) -> Result<Overflow, ClientError> {
    match word {
        _ if is_word(word, "WRAP") => Ok(Overflow::Wrap),
        _ if is_word(word, "SAT") => Ok(Overflow::Saturate),
        _ if is_word(word, "FAIL") => Ok(Overflow::Fail),
        _ => Err(error::BITFIELD_OVERFLOW),
    }
}

/// A field and its offset: in bits, or with `#` in widths of the field.
fn place(kind: &[u8], offset: &[u8], most: usize) -> Result<(Field, usize), ClientError> {
    let field = Field::parse(kind).ok_or(error::BITFIELD_TYPE)?;
    let offset = match offset.strip_prefix(b"#") {
        None => bit_offset(offset, most)?,
        Some(count) => {
            let count = parse_i64(count).and_then(|count| usize::try_from(count).ok());
            let bits = count.and_then(|count| count.checked_mul(field.width()));
            bits.filter(|bits| bits / 8 < most).ok_or(error::BIT_OFFSET)?
        }
    };
    Ok((field, offset))
}

fn bitfield(call: &mut Call<'_, '_>) -> CommandResult {
    let operations = parse(&call.args[2..], call.most_string_bytes())?;
    let writing = operations.iter().filter(|one| one.act != Act::Get);
    match writing.map(Operation::end_bytes).max() {
        Some(bytes) => write(call, &operations, bytes),
        None => read(call, &operations),
    }
}

fn bitfield_ro(call: &mut Call<'_, '_>) -> CommandResult {
    let operations = parse(&call.args[2..], call.most_string_bytes())?;
    if operations.iter().any(|one| one.act != Act::Get) {
        return Err(error::BITFIELD_ONLY_GET.into());
    }
    read(call, &operations)
}

fn read(call: &mut Call<'_, '_>, operations: &[Operation]) -> CommandResult {
    let key = call.key();
    let opened = call.keys.read(key);
    let value = opened.string()?;
    let mut budget = IntText::new();
    let bytes = value.as_ref().map_or(&[][..], |value| value.bytes(&mut budget));
    call.reply.array(operations.len());
    for one in operations {
        call.reply.int(one.field.read(bytes, one.offset));
    }
    Ok(())
}

/// The string grows to the end of the furthest write, even if that write fails.
fn write(call: &mut Call<'_, '_>, operations: &[Operation], bytes: usize) -> CommandResult {
    let key = call.key();
    let mut opened = call.keys.open(key);
    let is_longer = lengthen(&mut opened, bytes, call.lane)?;
    let (mut has_written, mut writes) = (false, 0);
    call.reply.array(operations.len());
    if let Some(bytes) = opened.string_mut()? {
        for one in operations {
            match run(one, bytes) {
                Some((answer, changes)) => {
                    call.reply.int(answer);
                    has_written |= changes || is_longer;
                    writes += usize::from(changes);
                }
                None => call.reply.null(),
            }
        }
    }
    if has_written {
        opened.counts_as(writes.max(1));
        opened.publish(event::SETBIT);
    } else if is_longer {
        opened.publish(event::UNNAMED);
    } else {
        opened.unchanged();
    }
    Ok(())
}

/// The reply, and whether something changed; `None` if the operation fails.
fn run(one: &Operation, bytes: &mut [u8]) -> Option<(i64, bool)> {
    let old = one.field.read(bytes, one.offset);
    let (new, answers_new) = match one.act {
        Act::Get => return Some((old, false)),
        Act::Set(value) => (one.field.fit(value, one.overflow)?, false),
        Act::Add(step) => (one.field.add(old, step, one.overflow)?, true),
    };
    one.field.write(bytes, one.offset, new);
    Some((if answers_new { new } else { old }, old != new))
}
