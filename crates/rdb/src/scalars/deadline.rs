//! Deadlines of elements: milliseconds, or -1 for none. Dragonfly writes them as texts, in seconds
//! since February 2023.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_table::IntText;

use crate::input::{Input, Malformed};
use crate::kind::RdbKind;
use crate::scalars::text;

const NONE: i64 = -1;
/// The start of Dragonfly's times, in Unix seconds, and the bytes of its longest text.
const DRAGONFLY_BEGINS: i64 = 1_675_209_600;
const DRAGONFLY_TEXT_BYTES: usize = 20;

/// The fewest bytes of a deadline.
pub fn least_bytes(kind: RdbKind) -> usize {
    if is_of_dragonfly(kind) { 1 } else { size_of::<i64>() }
}

fn is_of_dragonfly(kind: RdbKind) -> bool {
    matches!(kind, RdbKind::HASH_OF_DRAGONFLY | RdbKind::SET_OF_DRAGONFLY)
}

/// Appends a deadline.
pub fn write(deadline: Option<UnixMs>, out: &mut Vec<u8>) {
    let number = deadline.map_or(NONE, |deadline| deadline.0);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Reads a deadline in a value of this kind.
pub fn read(kind: RdbKind, input: &mut Input<'_>) -> Result<Option<UnixMs>, Malformed> {
    let moment = if is_of_dragonfly(kind) { read_seconds(input)? } else { input.i64()? };
    match moment {
        NONE => Ok(None),
        moment @ 0.. => Ok(Some(UnixMs(moment))),
        _ => Err(NO_TIME),
    }
}

const NO_TIME: Malformed = Malformed("a deadline that is no time");

/// Reads a deadline of Dragonfly; returns milliseconds.
fn read_seconds(input: &mut Input<'_>) -> Result<i64, Malformed> {
    let text = text::read(input, DRAGONFLY_TEXT_BYTES)?;
    match parse_i64(text.bytes(&mut IntText::new())).ok_or(NO_TIME)? {
        NONE => Ok(NONE),
        seconds => {
            let seconds = seconds.checked_add(DRAGONFLY_BEGINS);
            seconds.and_then(|seconds| seconds.checked_mul(1000)).ok_or(NO_TIME)
        }
    }
}
