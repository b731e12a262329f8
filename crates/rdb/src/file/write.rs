//! Writes a file: sections are appended; entries can be encoded anywhere and by any thread.
//!
//! Invariants
//! 1. The file so far is what a [`RdbWriter`] appended and what it accounted for, in that order.
//! 2. Entries that are encoded separately name no database: the writer names theirs first.

use pantala_base::UnixMs;
use pantala_base::crc::{crc64, crc64_of_two};
use pantala_table::ValueRef;
use pantala_values::Object;

use super::{FIRST_OF_VALKEY, OLDEST_WRITTEN, opcode};
use crate::scalars::length;
use crate::scalars::text::{self, Strings, Style};
use crate::{RdbKind, Writing};

/// Bytes of a head.
pub const HEAD_BYTES: usize = 9;

/// The first bytes of a file.
pub type Head = [u8; HEAD_BYTES];

/// The head for a version.
pub(super) fn head_of(version: u16) -> Head {
    let mut head = if version < FIRST_OF_VALKEY { *b"REDIS0000" } else { *b"VALKEY000" };
    let mut rest = version;
    for digit in head.iter_mut().rev() {
        if rest > 0 {
            *digit = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
    }
    head
}

/// The number of keys in a database: a hint for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeHints {
    /// All keys.
    pub keys: u64,
    /// Keys with a deadline.
    pub with_deadline: u64,
}

/// Writes the sections of a file and tracks checksum, length and version.
#[derive(Debug)]
pub struct RdbWriter {
    /// The version in the head; in `needed` the oldest that has everything in the file.
    version: u16,
    needed: u16,
    /// The checksum of everything after the head, if there will be one.
    checksum: Option<u64>,
    /// Bytes after the head.
    len: u64,
    database: Option<u32>,
}

impl RdbWriter {
    /// Starts a file with this version in its head: [`OLDEST_WRITTEN`], unless something newer is
    /// known to follow.
    pub fn begin(version: u16, has_checksum: bool, out: &mut Vec<u8>) -> RdbWriter {
        let version = version.max(OLDEST_WRITTEN);
        out.extend_from_slice(&head_of(version));
        let checksum = has_checksum.then_some(0);
        RdbWriter { version, needed: version, checksum, len: 0, database: None }
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        HEAD_BYTES as u64 + self.len
    }

    /// Appends a name and value about the file or the server.
    pub fn aux(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.section(out, |out| {
            out.push(opcode::AUX);
            text::write_bytes(name, Strings::Plain, out);
            text::write_bytes(value, Strings::Plain, out);
        });
    }

    /// Appends a library of functions.
    pub fn function(&mut self, code: &[u8], strings: Strings, out: &mut Vec<u8>) {
        self.section(out, |out| {
            out.push(opcode::FUNCTION);
            text::write_bytes(code, strings, out);
        });
    }

    /// Appends the database of the next entries, unless it is the current one.
    pub fn database(&mut self, number: u32, out: &mut Vec<u8>) {
        if self.database != Some(number) {
            self.database = Some(number);
            self.section(out, |out| write_database(number, out));
        }
    }

    /// Appends the number of keys of the current database.
    pub fn sizes(&mut self, sizes: SizeHints, out: &mut Vec<u8>) {
        self.section(out, |out| {
            out.push(opcode::SIZES);
            length::write(sizes.keys, out);
            length::write(sizes.with_deadline, out);
        });
    }

    fn section(&mut self, out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
        let begin = out.len();
        append(out);
        self.count(&out[begin..]);
    }

    fn count(&mut self, bytes: &[u8]) {
        self.checksum = self.checksum.map(|checksum| crc64(checksum, bytes));
        self.len += bytes.len() as u64;
    }

    /// Accounts for whole entries of the current database, which the caller writes after everything
    /// appended so far. They need this version.
    pub fn entries(&mut self, bytes: &[u8], version: u16) {
        self.count(bytes);
        self.needed = self.needed.max(version);
    }

    /// As [`RdbWriter::entries`], for `len` bytes whose checksum is known; takes a microsecond.
    pub fn entries_with_checksum(&mut self, len: u64, checksum: u64, version: u16) {
        self.checksum = self.checksum.map(|before| crc64_of_two(before, checksum, len));
        self.len += len;
        self.needed = self.needed.max(version);
    }

    /// Appends the end. Returns the head that must overwrite the first bytes of the file, if the
    /// version there is too old for the content.
    pub fn end(&mut self, out: &mut Vec<u8>) -> Option<Head> {
        self.section(out, |out| out.push(opcode::END));
        let head = head_of(self.needed);
        let checksum = self.checksum.map(|rest| crc64_of_two(crc64(0, &head), rest, self.len));
        out.extend_from_slice(&checksum.unwrap_or_default().to_le_bytes());
        (self.needed > self.version).then_some(head)
    }
}

/// Appends the database of the next entries.
pub fn write_database(number: u32, out: &mut Vec<u8>) {
    out.push(opcode::DATABASE);
    length::write(u64::from(number), out);
}

/// An entry that is written in parts, between which its value must not change.
#[derive(Debug)]
pub struct EntryWriting {
    value: Writing,
}

impl EntryWriting {
    /// Appends everything before the value. Elements that have expired at `now` are left out.
    pub fn begin(
        key: &[u8],
        deadline: Option<UnixMs>,
        value: &ValueRef<'_, Object>,
        now: UnixMs,
        style: impl Into<Style>,
        out: &mut Vec<u8>,
    ) -> EntryWriting {
        let style = style.into();
        let value = Writing::begin(value, now, style);
        if let Some(deadline) = deadline {
            out.push(opcode::DEADLINE_MS);
            out.extend_from_slice(&deadline.0.to_le_bytes());
        }
        out.push(value.kind().0);
        text::write_bytes(key, style.strings, out);
        EntryWriting { value }
    }

    /// Appends about this many bytes of the value; returns whether the value is finished.
    pub fn go_on(
        &mut self,
        value: &ValueRef<'_, Object>,
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        self.value.go_on(value, most_bytes, out)
    }

    /// The kind in which the value is written.
    pub fn kind(&self) -> RdbKind {
        self.value.kind()
    }

    /// The version that a file with this entry needs.
    pub fn version(&self) -> u16 {
        self.kind().version().unwrap_or(OLDEST_WRITTEN).max(OLDEST_WRITTEN)
    }
}

/// Appends an entry; returns the version that a file with it needs.
pub fn write_entry(
    key: &[u8],
    deadline: Option<UnixMs>,
    value: &ValueRef<'_, Object>,
    now: UnixMs,
    style: impl Into<Style>,
    out: &mut Vec<u8>,
) -> u16 {
    let mut writing = EntryWriting::begin(key, deadline, value, now, style, out);
    while !writing.go_on(value, usize::MAX, out) {}
    writing.version()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_table::StrRef;

    const A_STRING: ValueRef<'_, Object> = ValueRef::Str(StrRef::Bytes(b"b"));

    #[test]
    fn heads_are_nine_bytes() {
        assert_eq!(&head_of(10), b"REDIS0010");
        assert_eq!(&head_of(9), b"REDIS0009");
        assert_eq!(&head_of(79), b"REDIS0079");
        assert_eq!(&head_of(80), b"VALKEY080");
        assert_eq!(&head_of(123), b"VALKEY123");
    }

    #[test]
    fn a_file() {
        let mut out = Vec::new();
        let mut writer = RdbWriter::begin(0, false, &mut out);
        writer.aux(b"redis-ver", b"7.0.15", &mut out);
        writer.function(b"code", Strings::Plain, &mut out);
        writer.database(3, &mut out);
        writer.sizes(SizeHints { keys: 100, with_deadline: 1 }, &mut out);
        let mut entries = Vec::new();
        let version = write_entry(
            b"a",
            Some(UnixMs(0x1234)),
            &A_STRING,
            UnixMs(0),
            Strings::Plain,
            &mut entries,
        );
        assert_eq!(version, 10);
        writer.entries(&entries, version);
        out.extend_from_slice(&entries);
        writer.database(3, &mut out);
        assert_eq!(writer.bytes(), out.len() as u64);
        assert_eq!(writer.end(&mut out), None);
        let expected = [
            &b"REDIS0010"[..],
            b"\xfa\x09redis-ver\x067.0.15",
            b"\xf5\x04code",
            b"\xfe\x03\xfb\x40\x64\x01",
            b"\xfc\x34\x12\0\0\0\0\0\0\0\x01a\x01b",
            b"\xff\0\0\0\0\0\0\0\0",
        ];
        assert_eq!(out.escape_ascii().to_string(), expected.concat().escape_ascii().to_string());
    }

    #[test]
    fn the_checksum_is_that_of_the_file_with_its_last_head() {
        for needed in [10, 11, 80] {
            for is_known in [false, true] {
                let mut out = Vec::new();
                let mut writer = RdbWriter::begin(10, true, &mut out);
                writer.database(0, &mut out);
                let mut entries = Vec::new();
                let value = A_STRING;
                write_entry(b"a", None, &value, UnixMs(0), Strings::Plain, &mut entries);
                match is_known {
                    true => {
                        let len = entries.len() as u64;
                        writer.entries_with_checksum(len, crc64(0, &entries), needed);
                    }
                    false => writer.entries(&entries, needed),
                }
                out.extend_from_slice(&entries);
                let head = writer.end(&mut out);
                assert_eq!(head.is_some(), needed > 10);
                if let Some(head) = head {
                    out[..HEAD_BYTES].copy_from_slice(&head);
                }
                let (covered, checksum) = out.split_last_chunk::<8>().expect("it is longer");
                assert_eq!(crc64(0, covered), u64::from_le_bytes(*checksum), "{needed}");
            }
        }
    }
}
