//! The payload of FUNCTION DUMP and FUNCTION RESTORE: the code of every library, each after an
//! opcode, then the version and checksum that end every payload.
//!
//! Written as version 10, the first with functions: Redis 7.0 and all later servers read it.

use pantala_base::crc::crc64;
use pantala_table::IntText;

use crate::file::opcode::{FUNCTION, FUNCTION_BEFORE_RELEASE};
use crate::input::Input;
use crate::payload::Versions;
use crate::scalars::text;
use crate::{Strings, payload};

const VERSION: u16 = 10;

/// Why a payload is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionFault {
    /// The version is unknown, or the checksum is wrong.
    Seal,
    /// A form that no release has written.
    BeforeRelease,
    /// It holds something other than a library.
    NotAFunction,
    /// A library's code ends too early.
    Code,
}

/// Appends a payload with the code of these libraries.
pub fn write<'a>(codes: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let begin = out.len();
    for code in codes {
        out.push(FUNCTION);
        text::write_bytes(code, Strings::Plain, out);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc64(0, &out[begin..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// The code of the libraries in a payload, each of up to `most_bytes`.
pub fn read(
    payload: &[u8],
    versions: Versions,
    most_bytes: usize,
) -> Result<Vec<Vec<u8>>, FunctionFault> {
    let mut input = Input::new(payload::open(payload, versions).ok_or(FunctionFault::Seal)?.body);
    let mut codes = Vec::new();
    while let Ok(mark) = input.byte() {
        match mark {
            FUNCTION => {}
            FUNCTION_BEFORE_RELEASE => return Err(FunctionFault::BeforeRelease),
            _ => return Err(FunctionFault::NotAFunction),
        }
        let code = text::read(&mut input, most_bytes).map_err(|_| FunctionFault::Code)?;
        codes.push(code.bytes(&mut IntText::new()).to_vec());
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(body: &[u8]) -> Vec<u8> {
        let mut payload = [body, &VERSION.to_le_bytes()].concat();
        let checksum = crc64(0, &payload);
        payload.extend_from_slice(&checksum.to_le_bytes());
        payload
    }

    #[test]
    fn codes_come_back() {
        let long = b"#!lua name=a\n".repeat(100);
        let codes = [&b"#!lua name=b\nfoo"[..], b"12", b"", &long];
        let mut payload = Vec::new();
        write(codes, &mut payload);
        assert_eq!(
            read(&payload, Versions::Known, 1 << 20).as_deref(),
            Ok(&codes.map(<[u8]>::to_vec)[..])
        );
        assert!(read(&payload, Versions::Known, 1000).is_err());
        for cut in 0..payload.len() {
            assert_eq!(read(&payload[..cut], Versions::Known, 1 << 20), Err(FunctionFault::Seal));
        }
    }

    #[test]
    fn payloads_of_the_references_are_read() {
        // Read off Redis 7.0.15 and Valkey 9.1.2: FUNCTION DUMP with no library.
        let redis = b"\x0a\0\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda";
        let valkey = b"\x50\0\x92\xb1\x95\xd1\x91\x2d\xc5\x2e";
        for empty in [redis, valkey] {
            assert_eq!(read(empty, Versions::Known, 1 << 20), Ok(Vec::new()));
        }
        let mut ours = Vec::new();
        write([], &mut ours);
        assert_eq!(ours, redis);
    }

    #[test]
    fn what_is_no_library_is_told_apart() {
        for (body, fault) in [
            (&b"\0\x01a"[..], FunctionFault::NotAFunction),
            (b"\xf6", FunctionFault::BeforeRelease),
            (b"\xf5", FunctionFault::Code),
            (b"\xf5\x02a", FunctionFault::Code),
            (b"\xf5\x01a\0", FunctionFault::NotAFunction),
        ] {
            assert_eq!(read(&sealed(body), Versions::Known, 1 << 20), Err(fault));
        }
    }
}
