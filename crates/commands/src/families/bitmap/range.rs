//! BITCOUNT and BITPOS: over the whole string, or from one byte or bit to another.

use std::ops::Range;

use pantala_base::number::parse_i64;
use pantala_table::IntText;
use pantala_values::bits;

use super::check_lane;
use crate::calls::call::{Call, CommandResult, Stop};
use crate::error::{self, ClientError};
use crate::long_work::incremental::GatherState;
use crate::options::is_word;
use crate::rows::command::{Command, Group, KeyFlags, KeySpec};

pub(super) const BITCOUNT: Command = Command::read("BITCOUNT", bitcount, Group::Bitmap)
    .arity(-2)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .since("2.6.0")
    .complexity("O(N) for N bytes")
    .syntax("key [range: start:int [end-unit-block: end:int [unit: BYTE | BIT]]]")
    .summary("Counts the bits that are set in a string, or in a part of it.");

pub(super) const BITPOS: Command = Command::read("BITPOS", bitpos, Group::Bitmap)
    .arity(-3)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .since("2.8.7")
    .complexity("O(N) for N bytes")
    .syntax("key bit:int [range: start:int [end-unit-block: end:int [unit: BYTE | BIT]]]")
    .summary("Returns the offset of the first bit that is set, or clear, in a string.");

/// How many bits of a string are looked at in one step.
const STEP_BITS: usize = 8 * super::STEP_BYTES;

/// A part of a string; negative bounds count from the end.
#[derive(Clone, Copy)]
struct Part {
    start: i64,
    end: Option<i64>,
    in_bits: bool,
}

impl Part {
    fn parse(args: &[&[u8]]) -> Result<Part, ClientError> {
        let int = |text: &[u8]| parse_i64(text).ok_or(error::NOT_INTEGER);
        if args.len() > 3 {
            return Err(error::SYNTAX);
        }
        let start = args.first().map_or(Ok(0), |text| int(text))?;
        // The unit is checked before the end, but after the start.
        let unit = args.get(2);
        let in_bits = unit.is_some_and(|word| is_word(word, "BIT"));
        if !in_bits && unit.is_some_and(|word| !is_word(word, "BYTE")) {
            return Err(error::SYNTAX);
        }
        let end = args.get(1).map(|text| int(text)).transpose()?;
        Ok(Part { start, end, in_bits })
    }

    /// The range of bits in a string of this many bytes; empty if the start is beyond the end.
    fn bits(self, bytes: usize) -> Range<usize> {
        let unit_bits = if self.in_bits { 1 } else { 8 };
        let total = (bytes * 8 / unit_bits) as i64;
        let from_start =
            |bound: i64| if bound < 0 { total.saturating_add(bound).max(0) } else { bound };
        let start = from_start(self.start);
        let end = from_start(self.end.unwrap_or(-1)).min(total - 1);
        if start > end {
            return 0..0;
        }
        start as usize * unit_bits..(end as usize + 1) * unit_bits
    }
}

fn bitcount(call: &mut Call<'_, '_>) -> CommandResult {
    let part = Part::parse(&call.args[2..])?;
    let is_backwards = part.start < 0 && part.end.is_some_and(|end| end < 0 && part.start > end);
    let walked = walk(call, part, |count: &mut u64, bytes, range| {
        *count += if is_backwards { 0 } else { bits::count(bytes, range) };
        false
    })?;
    call.reply.int(walked.map_or(0, |(count, _)| count.cast_signed()));
    Ok(())
}

/// Goes through the selected bits of the string at the command's first key, and frees the partition
/// after each step. `look` gets some of them, and may end the walk with an answer; otherwise the
/// result is the state it has built, and where the bits end. `None` if there is no string.
fn walk<S: Default>(
    call: &mut Call<'_, '_>,
    part: Part,
    mut look: impl FnMut(&mut S, &[u8], Range<usize>) -> bool,
) -> Result<Option<(S, usize)>, Stop> {
    let key = call.key();
    let Some(length) = call.keys.read(key).string()?.map(|value| value.len()) else {
        return Ok(None);
    };
    check_lane(call.lane, length)?;
    call.gather(
        &[key],
        |_| Ok((S::default(), 0, 0)),
        |call, (state, at, end), _| {
            let opened = call.keys.peek(key);
            let (mut scratch, value) = (IntText::new(), opened.string()?);
            let bytes = value.as_ref().map_or(&[][..], |value| value.bytes(&mut scratch));
            let range = part.bits(bytes.len());
            let from = range.start.max(*at);
            (*at, *end) = (range.end.min(from.saturating_add(STEP_BITS)), range.end);
            let is_over = look(state, bytes, from.min(*at)..*at);
            Ok(GatherState::whole_if(is_over || *at >= range.end))
        },
        |_, (state, _, end)| Some((state, end)),
    )
}

/// If no bit is clear and no end was given, the first bit beyond the string is the answer: missing
/// bits count as zeros.
fn bitpos(call: &mut Call<'_, '_>) -> CommandResult {
    let wanted = match call.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(error::BIT_WANTED.into()),
    };
    let part = Part::parse(&call.args[3..])?;
    let walked = walk(call, part, |found: &mut Option<usize>, bytes, range| {
        *found = bits::find(bytes, range, wanted);
        found.is_some()
    })?;
    let found = match walked {
        None => i64::from(wanted).wrapping_neg(),
        Some((Some(offset), _)) => offset as i64,
        Some((None, end)) if !wanted && part.end.is_none() && end > 0 => end as i64,
        Some((None, _)) => -1,
    };
    call.reply.int(found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_string() {
        let check = |start, end, in_bits, expected: Range<usize>| {
            let part = Part { start, end, in_bits };
            assert_eq!(part.bits(3), expected, "{start} {end:?} {in_bits}");
        };
        check(0, None, false, 0..24);
        check(1, None, false, 8..24);
        check(-2, Some(-2), false, 8..16);
        check(-2, Some(-2), true, 22..23);
        check(-200, Some(200), true, 0..24);
        check(3, None, false, 0..0);
        check(i64::MIN, Some(i64::MIN), false, 0..8);
        check(i64::MAX, Some(i64::MAX), true, 0..0);
        assert_eq!(Part { start: 0, end: None, in_bits: true }.bits(0), 0..0);
    }
}
