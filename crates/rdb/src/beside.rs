//! What precedes a key, or the kind of a payload, when something is kept beside the value.
//!
//! ```text
//! 220 | u32 bits | u32 Memcached's flags, if bit 1 is set       bit 0: not to be evicted
//! ```
//!
//! Dragonfly writes and reads this in its files. Redis and Valkey do not know it, and refuse a file
//! or a payload that contains it; so it is written only if the flags are not 0.
//!
//! Tests: at the foot; `tests/file.rs`, `tests/values.rs`.

use crate::file::opcode::KEY_BITS;
use crate::input::{Input, Malformed};

const STICKY: u32 = 1;
const HAS_FLAGS: u32 = 1 << 1;

/// What is kept beside a value: Memcached's flags and the mark against eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyMetadata {
    /// Memcached's flags.
    pub flags: u32,
    /// Whether eviction skips the key. Read, not written.
    pub sticky: bool,
}

impl KeyMetadata {
    /// Reads the bytes that follow the mark.
    pub(crate) fn read(input: &mut Input<'_>) -> Result<KeyMetadata, Malformed> {
        let bits = u32::from_le_bytes(input.array()?);
        let flags = match bits & HAS_FLAGS {
            0 => 0,
            _ => u32::from_le_bytes(input.array()?),
        };
        Ok(KeyMetadata { flags, sticky: bits & STICKY != 0 })
    }

    /// Reads it with its mark, if the mark is there.
    pub(crate) fn read_if_there(input: &mut Input<'_>) -> Result<KeyMetadata, Malformed> {
        match input.rest().first() {
            Some(&KEY_BITS) => {
                input.byte()?;
                KeyMetadata::read(input)
            }
            _ => Ok(KeyMetadata::default()),
        }
    }
}

/// Appends it with its mark, if the flags are not 0.
#[inline]
pub fn write_flags(flags: u32, out: &mut Vec<u8>) {
    if flags != 0 {
        out.push(KEY_BITS);
        out.extend_from_slice(&HAS_FLAGS.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_written_as_dragonfly_does() {
        let mut out = Vec::new();
        write_flags(0, &mut out);
        assert!(out.is_empty());
        write_flags(0x1234, &mut out);
        assert_eq!(out, b"\xdc\x02\0\0\0\x34\x12\0\0");
        let read = |bytes: &[u8]| KeyMetadata::read_if_there(&mut Input::new(bytes));
        assert_eq!(read(&out), Ok(KeyMetadata { flags: 0x1234, sticky: false }));
        assert_eq!(read(b"\xdc\x01\0\0\0"), Ok(KeyMetadata { flags: 0, sticky: true }));
        assert_eq!(read(b"\0\x01a"), Ok(KeyMetadata::default()));
        for cut in 1..out.len() {
            assert!(read(&out[..cut]).is_err());
        }
    }
}
