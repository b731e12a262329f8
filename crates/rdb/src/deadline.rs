//! Deadlines of elements: a time in milliseconds, or -1 for none.

use pantala_base::UnixMs;

use crate::input::{Input, Malformed};

/// What one takes.
pub const BYTES: usize = size_of::<i64>();

const NONE: i64 = -1;

/// Appends a deadline.
pub fn write(deadline: Option<UnixMs>, out: &mut Vec<u8>) {
    let number = deadline.map_or(NONE, |deadline| deadline.0);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Reads a deadline.
pub fn read(input: &mut Input<'_>) -> Result<Option<UnixMs>, Malformed> {
    match input.i64()? {
        NONE => Ok(None),
        moment @ 0.. => Ok(Some(UnixMs(moment))),
        _ => Err(Malformed("a deadline that is no time")),
    }
}
