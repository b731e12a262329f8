//! Parts of strings.

use pantala_keyspace::{Expiry, event};
use pantala_table::IntText;

use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::error::{self, ClientError};
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

/// Growing a string by more zero bytes than this is for the slow lane.
const WORKER_FILL_BYTES: usize = 1 << 20;

pub(super) const APPEND: Command = Command::write("APPEND", append, Group::String)
    .arity(3)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::ADD)])
    .since("2.0.0")
    .complexity("O(1) amortised, for short values")
    .syntax("key value")
    .summary("Appends to the string at a key; a missing key is created.");

fn append(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, tail, most_bytes) = (call.key(), call.args[2], call.most_string_bytes());
    let mut opened = call.keys.open(key);
    let length = match opened.string()?.map(|value| value.len()) {
        Some(length) => {
            check_length(most_bytes, length, tail.len())?;
            opened.append(tail)
        }
        None => {
            opened.set_string(tail, Expiry::Never);
            tail.len()
        }
    };
    opened.publish(event::APPEND);
    call.reply.int(length as i64);
    Ok(())
}

pub(super) const GETRANGE: Command = Command::read("GETRANGE", getrange, Group::String)
    .arity(4)
    .flags(Flags::STEADY)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .since("2.4.0")
    .complexity("O(N) for N bytes returned")
    .syntax("key start:int end:int")
    .summary("Returns a part of the string at a key.");

pub(super) const SUBSTR: Command = Command::read("SUBSTR", getrange, Group::String)
    .arity(4)
    .flags(Flags::STEADY)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .complexity("O(N) for N bytes returned")
    .syntax("key start:int end:int")
    .summary("The old name of GETRANGE.");

/// GETRANGE, and SUBSTR.
fn getrange(call: &mut Call<'_, '_>) -> CommandResult {
    let (start, end) = (call.int(2)?, call.int(3)?);
    let key = call.key();
    let opened = call.keys.read(key);
    let value = opened.string()?;
    let mut budget = IntText::new();
    let text = value.as_ref().map_or(&[][..], |value| value.bytes(&mut budget));
    call.reply.bulk(slice(text, start, end));
    Ok(())
}

/// The bytes from `start` to `end`, negative ones counted from the end. As in the reference, an end
/// before the first byte means the first byte.
fn slice(text: &[u8], start: i64, end: i64) -> &[u8] {
    if text.is_empty() || (start < 0 && end < 0 && start > end) {
        return &[];
    }
    let length = text.len() as i64;
    let from_start = |index: i64| if index < 0 { (length + index).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(length - 1));
    if start > end {
        return &[];
    }
    &text[start as usize..=end as usize]
}

pub(super) const SETRANGE: Command = Command::write("SETRANGE", setrange, Group::String)
    .arity(4)
    .flags(Flags::DENYOOM.union(Flags::STEADY))
    .keys(&[KeySpec::one(1, KeyFlags::MODIFY)])
    .since("2.2.0")
    .complexity("O(M) for M bytes written, gap included")
    .syntax("key offset:int value")
    .summary("Overwrites a part of the string at a key; a gap is filled with zero bytes.");

fn setrange(call: &mut Call<'_, '_>) -> CommandResult {
    let offset = usize::try_from(call.int(2)?).map_err(|_| error::OFFSET_OUT_OF_RANGE)?;
    let (key, bytes, most_bytes) = (call.key(), call.args[3], call.most_string_bytes());
    let mut opened = call.keys.open(key);
    let old_length = opened.string()?.map(|value| value.len());
    if bytes.is_empty() {
        call.reply.int(old_length.unwrap_or(0) as i64);
        return Ok(());
    }
    check_length(most_bytes, offset, bytes.len())?;
    let length = old_length.unwrap_or(0);
    if call.lane == Lane::Worker && offset.saturating_sub(length) > WORKER_FILL_BYTES {
        return Err(Stop::Lane);
    }
    if old_length.is_none() {
        opened.set_string(b"", Expiry::Never);
    }
    opened.set_range(offset, bytes);
    opened.publish(event::SETRANGE);
    call.reply.int(length.max(offset + bytes.len()) as i64);
    Ok(())
}

fn check_length(limit: usize, length: usize, more: usize) -> Result<(), ClientError> {
    match length.checked_add(more) {
        Some(sum) if sum <= limit => Ok(()),
        _ => Err(error::STRING_TOO_LONG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_like_the_reference() {
        let check = |start, end, expected: &str| {
            let found = slice(b"abcdef", start, end);
            assert_eq!(found, expected.as_bytes(), "{start} to {end}");
        };
        check(0, -1, "abcdef");
        check(-2, -1, "ef");
        check(-1, -2, "");
        check(4, 100, "ef");
        check(-100, -99, "a");
        check(6, 6, "");
        check(i64::MIN, i64::MAX, "abcdef");
        check(i64::MAX, i64::MIN, "");
        assert_eq!(slice(b"", 0, -1), b"");
    }
}
