//! The payload of DUMP and RESTORE: a kind, a value, then the version of the format and a checksum
//! of everything before.
//!
//! The version is the oldest one that has the kind, because servers refuse versions newer than
//! their own, and each should accept everything that it can read. So Redis 7.0 accepts everything
//! except hashes with deadlines and streams whose consumers have two times.
//!
//! Versions 12 to 79 are Redis's own, where kinds from 22 on have other meanings than in Valkey.
//! They are refused, as in Valkey, unless all versions are accepted; then only those kinds are.

use pantala_base::UnixMs;
use pantala_base::crc::crc64;
use pantala_table::ValueRef;
use pantala_values::Object;

use crate::file::OLDEST_WRITTEN;
use crate::input::{Input, Malformed};
use crate::kind::RdbKind;
use crate::{KeyMetadata, RdbLimits, RdbValue, Strings, Style, Writing, write_flags};

const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;
/// Bytes after kind and value.
pub const FOOTER_BYTES: usize = VERSION_BYTES + CHECKSUM_BYTES;
/// The last version that Redis and Valkey share, and the range of Valkey's own.
const LAST_SHARED: u16 = 11;
const VALKEY: std::ops::RangeInclusive<u16> = 80..=80;
/// Redis's own versions, and the first kind with another meaning there.
const FOREIGN: std::ops::Range<u16> = LAST_SHARED + 1..*VALKEY.start();
const FIRST_FOREIGN_KIND: RdbKind = RdbKind::HASH_2;

/// Which versions are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// The versions whose kinds are all known.
    Known,
    /// Also Redis's own and future versions: most kinds keep their meaning.
    All,
    /// Known versions, with any checksum in a payload: for tests of values.
    Unsealed,
}

/// A payload whose version and checksum are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Kind and value.
    pub body: &'a [u8],
    /// What is kept beside the value.
    pub beside: KeyMetadata,
    version: u16,
}

impl Payload<'_> {
    /// Whether Redis 7.0 and Valkey can read it, including what is kept beside it.
    pub fn is_for_all(&self) -> bool {
        self.version <= OLDEST_WRITTEN && self.beside.flags == 0
    }

    /// The kind of the value; `None` where there is none.
    pub fn kind(&self) -> Option<RdbKind> {
        self.body.first().copied().map(RdbKind)
    }

    /// The kind, if it is one of Redis's own.
    pub fn foreign_kind(&self) -> Option<RdbKind> {
        let kind = self.kind()?;
        (FOREIGN.contains(&self.version) && kind.0 >= FIRST_FOREIGN_KIND.0).then_some(kind)
    }
}

/// Appends the payload of a value with these flags. Elements that have expired at `now` are left
/// out.
pub fn write(value: &ValueRef<'_, Object>, flags: u32, now: UnixMs, out: &mut Vec<u8>) {
    let begin = out.len();
    write_flags(flags, out);
    let kind = crate::kind_of(value, now);
    out.push(kind.0);
    crate::write(value, now, Strings::Plain, out);
    let footer = footer(kind, [&out[begin..]]);
    out.extend_from_slice(&footer);
}

/// Appends a payload for Redis 7.0, without features unknown to it (see [`RdbKind::old`]). Returns
/// the value's kind and the kind that was written. Elements stay, whatever their deadlines.
pub fn write_old(value: &ValueRef<'_, Object>, out: &mut Vec<u8>) -> (RdbKind, RdbKind) {
    let (begin, now) = (out.len(), UnixMs(0));
    let style = Style { is_portable: true, is_old: true, ..Style::default() };
    let mut writing = Writing::begin(value, now, style);
    let kind = writing.kind();
    out.push(kind.0);
    while !writing.go_on(value, usize::MAX, out) {}
    let footer = footer(kind, [&out[begin..]]);
    out.extend_from_slice(&footer);
    (crate::kind_of(value, now), kind)
}

/// The footer of a kind and value given in these pieces.
pub fn footer<'p>(kind: RdbKind, pieces: impl IntoIterator<Item = &'p [u8]>) -> [u8; FOOTER_BYTES] {
    let checksum = pieces.into_iter().fold(0, crc64);
    let mut footer = [0; FOOTER_BYTES];
    let (version, seal) = footer.split_at_mut(VERSION_BYTES);
    version.copy_from_slice(&kind.version().unwrap_or(LAST_SHARED).to_le_bytes());
    seal.copy_from_slice(&crc64(checksum, version).to_le_bytes());
    footer
}

/// Opens a payload, if version and checksum are valid.
pub fn open(payload: &[u8], versions: Versions) -> Option<Payload<'_>> {
    let (sealed, checksum) = payload.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (body, version) = sealed.split_last_chunk::<VERSION_BYTES>()?;
    let version = u16::from_le_bytes(*version);
    let is_taken = match versions {
        Versions::Known | Versions::Unsealed => {
            (1..=LAST_SHARED).contains(&version) || VALKEY.contains(&version)
        }
        Versions::All => version > 0,
    };
    let is_sealed =
        || versions == Versions::Unsealed || crc64(0, sealed) == u64::from_le_bytes(*checksum);
    if !is_taken || !is_sealed() {
        return None;
    }
    let mut input = Input::new(body);
    let beside = KeyMetadata::read_if_there(&mut input).ok()?;
    Some(Payload { body: input.rest(), beside, version })
}

/// Decodes the value of an opened payload.
pub fn read<'a>(payload: &Payload<'a>, limits: &RdbLimits) -> Result<RdbValue<'a>, Malformed> {
    let mut input = Input::new(payload.body);
    let kind = RdbKind(input.byte()?);
    if payload.foreign_kind().is_some() || kind.is_only_in_files() {
        return Err(Malformed("a kind of other servers' own"));
    }
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
        write(&ValueRef::Str(StrRef::Bytes(b"abc")), 0, UnixMs(0), &mut out);
        assert_eq!(&out[..6], b"\0\x03abc\x06");
        let open = |bytes: &[u8]| open(bytes, Versions::All).map(|payload| payload.body.to_vec());
        assert_eq!(open(&out), Some(b"\0\x03abc".to_vec()));
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
        assert_eq!(open(valkey), Some(b"\0\x03abc".to_vec()));
    }

    #[test]
    fn flags_stand_before_the_kind() {
        let mut out = Vec::new();
        write(&ValueRef::Str(StrRef::Bytes(b"abc")), 7, UnixMs(0), &mut out);
        assert_eq!(&out[..14], b"\xdc\x02\0\0\0\x07\0\0\0\0\x03abc");
        let payload = open(&out, Versions::Known).expect("it is sealed");
        assert_eq!((payload.body, payload.beside.flags), (&b"\0\x03abc"[..], 7));
        assert_eq!(open(&sealed(b"\xdc\x02\0\0\0\x07\0", 80), Versions::Known), None);
    }

    fn sealed(body: &[u8], version: u16) -> Vec<u8> {
        let mut payload = [body, &version.to_le_bytes()].concat();
        let checksum = crc64(0, &payload);
        payload.extend_from_slice(&checksum.to_le_bytes());
        payload
    }

    #[test]
    fn unknown_versions_are_refused_unless_all_are_taken() {
        for (version, is_known) in
            [(0, false), (1, true), (11, true), (12, false), (79, false), (80, true), (81, false)]
        {
            let payload = sealed(b"\0\x01a", version);
            assert_eq!(open(&payload, Versions::Known).is_some(), is_known, "{version}");
            assert_eq!(open(&payload, Versions::All).is_some(), version > 0, "{version}");
        }
    }

    #[test]
    fn kinds_that_only_files_have_are_refused() {
        let limits = crate::RdbLimits {
            text_bytes: 100,
            hash: pantala_values::hash::HashLimits { entries: 8, value_bytes: 20 },
            list: pantala_values::list::Fill::new(5),
            set: pantala_values::set::SetLimits { ints: 8, entries: 8, value_bytes: 20 },
            sorted_set: pantala_values::sorted_set::SortedSetLimits { entries: 8, value_bytes: 20 },
            stream: pantala_values::stream::BlockLimits { bytes: 100, entries: 5 },
        };
        let first = b"\0\0\0\0\0\0\0\0";
        for (value, is_taken) in [
            (&b"\x16\x01\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff"[..], true),
            (&[b"\x18", &first[..], b"\x01\0\x01a\x01b"].concat(), false),
            (b"\xde\x01\0\x01a\x01b", false),
            (b"\x1f\x01\x01a\x01b\xc0\xff", false),
        ] {
            let payload = sealed(value, 80);
            let payload = open(&payload, Versions::Known).expect("it is sealed");
            assert_eq!(read(&payload, &limits).is_ok(), is_taken, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn kinds_of_redis_alone_are_told() {
        for (version, kind, is_foreign) in [
            (12, 21, false),
            (12, 22, true),
            (79, 250, true),
            (11, 22, false),
            (80, 22, false),
            (81, 22, false),
        ] {
            let payload = sealed(&[kind, 1], version);
            let payload = open(&payload, Versions::All).expect("it is sealed");
            assert_eq!(payload.foreign_kind().is_some(), is_foreign, "{version} {kind}");
        }
    }
}
