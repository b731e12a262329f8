//! Bitmaps: strings as arrays of bits, changed in place.
//!
//! | file | commands |
//! |---|---|
//! | `bit` | GETBIT, SETBIT |
//! | `range` | BITCOUNT, BITPOS |
//! | `combine` | BITOP |
//! | `field` | BITFIELD, BITFIELD_RO |
//!
//! Here is what they share: offsets, and making a string long enough. Tests:
//! compat/transcripts/bitmap.

mod bit;
mod combine;
mod field;
mod range;

use pantala_base::number::parse_i64;
use pantala_keyspace::{Expiry, OpenKey};
use pantala_table::MAX_STRING_BYTES;

use crate::calls::call::{CommandResult, Lane, Stop};
use crate::error::{self, ClientError};
use crate::rows::command::Command;

/// The rows of this family.
pub const ROWS: &[Command] = &[
    bit::GETBIT,
    bit::SETBIT,
    range::BITCOUNT,
    range::BITPOS,
    combine::BITOP,
    field::BITFIELD,
    field::BITFIELD_RO,
];

/// Growing a string by more zero bytes than this is for the slow lane.
const WORKER_FILL_BYTES: usize = 1 << 20;

/// Counting or searching more bytes than this is for the slow lane: it takes some 100 microseconds.
const WORKER_READ_BYTES: usize = 4 << 20;

/// The initial contents of a new string, so that short ones are allocated once.
const ZEROS: [u8; 64] = [0; 64];

/// The offset of a bit, below `most_bytes` bytes.
fn bit_offset(text: &[u8], most_bytes: usize) -> Result<usize, ClientError> {
    let offset = parse_i64(text).and_then(|offset| usize::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < most_bytes).ok_or(error::BIT_OFFSET)
}

/// Makes a string at least this many bytes long, creating it if need be; whether that changed it.
/// Ends the command instead if it is to run on the slow lane.
fn lengthen(opened: &mut OpenKey<'_, '_>, bytes: usize, lane: Lane) -> Result<bool, Stop> {
    let length = opened.string()?.map(|value| value.len());
    let fill = bytes.saturating_sub(length.unwrap_or(0));
    if fill == 0 {
        return Ok(false);
    }
    if bytes > MAX_STRING_BYTES {
        return Err(error::BIT_OFFSET.into());
    }
    if lane == Lane::Worker && fill > WORKER_FILL_BYTES {
        return Err(Stop::Lane);
    }
    if length.is_none() {
        opened.set_string(&ZEROS[..bytes.min(ZEROS.len())], Expiry::Never);
    }
    if bytes > ZEROS.len() || length.is_some() {
        opened.resize(bytes);
    }
    Ok(true)
}

/// How many bytes of a long string are looked at in one step: some 20 to 50 microseconds.
const STEP_BYTES: usize = 256 << 10;

/// Moves the command to the slow lane if this many bytes are too much for a worker.
fn check_lane(lane: Lane, bytes: usize) -> CommandResult {
    match lane {
        Lane::Worker if bytes > WORKER_READ_BYTES => Err(Stop::Lane),
        Lane::Worker | Lane::Slow => Ok(()),
    }
}
