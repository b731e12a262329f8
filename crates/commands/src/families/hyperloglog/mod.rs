//! HyperLogLog: estimates of the number of different elements. A sketch is a string, with the same
//! bytes as in Redis.
//!
//! | file | commands |
//! |---|---|
//! | `add` | PFADD |
//! | `count` | PFCOUNT, PFMERGE |
//! | `debug` | PFDEBUG, PFSELFTEST |
//!
//! Tests: compat/transcripts/hyperloglog.

mod add;
mod count;
mod debug;

use pantala_keyspace::OpenKey;
use pantala_table::StrRef;
use pantala_values::hyperloglog::{Corrupt, SketchEncoding, encoding};

use crate::calls::call::Stop;
use crate::error;
use crate::rows::command::Command;

/// The rows of this family.
pub const ROWS: &[Command] =
    &[add::PFADD, count::PFCOUNT, count::PFMERGE, debug::PFDEBUG, debug::PFSELFTEST];

/// The sketch at a key, if there is one; anything else is an error.
fn sketch<'o>(opened: &'o OpenKey<'_, '_>) -> Result<Option<(SketchEncoding, &'o [u8])>, Stop> {
    match opened.string()? {
        None => Ok(None),
        // An integer is no sketch.
        Some(StrRef::Int(_)) => Err(error::HLL_NOT_ONE.into()),
        Some(StrRef::Bytes(text)) => {
            let encoding = encoding(text).ok_or(error::HLL_NOT_ONE)?;
            Ok(Some((encoding, text)))
        }
    }
}

impl From<Corrupt> for Stop {
    fn from(_: Corrupt) -> Self {
        error::HLL_CORRUPT.into()
    }
}
