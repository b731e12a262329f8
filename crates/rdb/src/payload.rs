//! What DUMP answers and RESTORE takes: a kind, a value, and behind them the version of the format
//! and a checksum of all that.
//!
//! The version is the oldest that has the kind, not one number for all: servers refuse what is
//! newer than they are, and what they could read they should get. So Redis 7.0 takes everything
//! from here but hashes with deadlines and streams whose consumers have two times.
//!
//! Versions 12 to 79 are Redis's own, where kinds from 22 on mean something else than in Valkey;
//! they are refused, as Valkey does.

use pantala_base::UnixMs;
use pantala_base::crc::crc64;
use pantala_table::ValueRef;
use pantala_values::Object;

use crate::input::{Input, Malformed};
use crate::kind::Kind;
use crate::{Limits, Value};

const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;
/// The last version that Redis and Valkey share, and the first and last of Valkey's own.
const LAST_SHARED: u16 = 11;
const VALKEY: std::ops::RangeInclusive<u16> = 80..=80;

/// Appends the payload of a value. What has expired at `now` is left out.
pub fn write(value: &ValueRef<'_, Object>, now: UnixMs, out: &mut Vec<u8>) {
    let begin = out.len();
    let kind = crate::kind_of(value, now);
    out.push(kind.0);
    crate::write(value, now, out);
    out.extend_from_slice(&kind.version().unwrap_or(LAST_SHARED).to_le_bytes());
    let checksum = crc64(0, &out[begin..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Kind and value of a payload, if version and checksum are right.
pub fn open(payload: &[u8]) -> Option<&[u8]> {
    let (sealed, checksum) = payload.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (body, version) = sealed.split_last_chunk::<VERSION_BYTES>()?;
    let version = u16::from_le_bytes(*version);
    let is_known = (1..=LAST_SHARED).contains(&version) || VALKEY.contains(&version);
    (is_known && crc64(0, sealed) == u64::from_le_bytes(*checksum)).then_some(body)
}

/// The value of an opened payload.
pub fn read<'a>(body: &'a [u8], limits: &Limits) -> Result<Value<'a>, Malformed> {
    let mut input = Input::new(body);
    let kind = Kind(input.byte()?);
    let value = crate::read(kind, &mut input, limits)?;
    if input.is_empty() { Ok(value) } else { Err(Malformed("more bytes than the value has")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_table::StrRef;

    #[test]
    fn a_payload_is_that_of_redis_but_for_its_version() {
        let mut out = Vec::new();
        write(&ValueRef::Str(StrRef::Bytes(b"abc")), UnixMs(0), &mut out);
        assert_eq!(&out[..6], b"\0\x03abc\x06");
        assert_eq!(open(&out), Some(&b"\0\x03abc"[..]));
        for at in 0..out.len() {
            let mut wrong = out.clone();
            wrong[at] ^= 1;
            assert_eq!(open(&wrong), None);
            assert_eq!(open(&out[..at]), None);
        }
        // Read off Valkey 9.1.2 and Redis 7.0.15.
        let valkey = b"\0\x03abc\x50\0\x16\x86\xf9\xac\xdf\x20\xc5\x16";
        let redis = b"\0\x03abc\x0a\0\xd9\xac\x30\x3d\x41\x72\xa2\xe2";
        assert_eq!(open(valkey), open(redis));
        assert_eq!(open(valkey), Some(&b"\0\x03abc"[..]));
    }

    #[test]
    fn unknown_versions_are_refused() {
        for (version, is_known) in
            [(0, false), (1, true), (11, true), (12, false), (79, false), (80, true), (81, false)]
        {
            let mut payload = b"\0\x01a".to_vec();
            payload.extend_from_slice(&u16::to_le_bytes(version));
            let checksum = crc64(0, &payload);
            payload.extend_from_slice(&checksum.to_le_bytes());
            assert_eq!(open(&payload).is_some(), is_known, "{version}");
        }
    }
}
