//! The manifest of an append-only file: the list of its files, as text.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b      at most one base
//! file appendonly.aof.1.incr.aof seq 1 type h      history: to be removed
//! file appendonly.aof.3.incr.aof seq 3 type i      increments, numbers ascending
//! file appendonly.aof.4.incr.aof seq 4 type i
//! ```
//!
//! A line is a list of pairs. Unknown pairs are skipped, as are lines that begin with `#`. A name
//! with spaces, quotes, or bytes outside printable ASCII is in double quotes.
//!
//! What Pantala knows about the files beyond what Redis and Valkey write here is in a separate file
//! (`lengths`), in the same form: `bytes` and `next` of a file that is closed, its length and the
//! number of the increment after it; `base` of an increment, the base before it; and `head` of a
//! base, a checksum of its beginning. With them, a shortened file and a lost line are distinguished
//! from a crash ([`Manifest::gap`]), and a base from another one of its number. The first versions
//! of Pantala wrote the first three into the manifest, so they are read there, too.
//!
//! 1. [`Manifest::text`] reproduces what [`Manifest::parse`] read, except for comments, unknown
//!    pairs, those four, and the order of kinds.
//!
//! Not here: the location of the file (`layout`). Tests: at the foot, with texts written by
//! redis-server 7.0.15 and valkey-server 9.1.2.

use std::fmt::{self, Write};

use pantala_base::number::parse_i64;
use pantala_protocol::{Arena, split_words};

/// The longest line that Redis reads, including its end.
const MAX_LINE_BYTES: usize = 1024;
/// An error of a line's form: the words of Redis and Valkey, then the reason.
macro_rules! wrong {
    ($how:literal) => {
        concat!("Invalid AOF manifest file format: ", $how)
    };
}

const EMPTY: &str = "Found an empty AOF manifest";
/// Redis uses the same words for a line that is too long and for one without an end.
const TOO_LONG: &str = "The AOF manifest file contains too long line: it has more than 1022 bytes";
const CUT_OFF: &str =
    "The AOF manifest file contains too long line: it does not end, the manifest is cut off";
const SHAPE: &str = wrong!("expected 'file NAME seq NUMBER type b|h|i'");
const BAD_SEQ: &str = wrong!("'seq' must be followed by a number above 0");
const BAD_BASE: &str = wrong!("'base' must be followed by a number above 0");
const BAD_BYTES: &str = wrong!("'bytes' must be followed by a length");
const BAD_NEXT: &str = wrong!("'next' must be followed by a number above 0");

/// The largest manifest that is read, in bytes.
pub const MAX_BYTES: u64 = 64 << 20;

/// How many bytes of a base tell it from others: in a snapshot they say when it was written.
pub const HEAD_BYTES: u64 = 4 << 10;

/// The files of an append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The base, which is read first.
    pub base: Option<Part>,
    /// Files that are not needed any more and may still exist.
    pub history: Vec<Part>,
    /// The increments, in reading order.
    pub increments: Vec<Part>,
    /// A file that belongs to these, as the file of lengths says, and has no line.
    pub missing: Option<Gap>,
}

/// A file of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name, without a directory.
    pub name: String,
    /// Its number, at least 1.
    pub seq: u64,
    /// For an increment: the number of the base before it, if known.
    pub base: Option<u64>,
    /// What is known of a file that is closed.
    pub closed: Option<Closed>,
    /// For a base: the checksum of its first [`HEAD_BYTES`], or of all if it has fewer, if known.
    pub head: Option<u64>,
}

/// A file that should be named and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The base of this number.
    Base(u64),
    /// The increment of this number.
    Increment(u64),
}

impl fmt::Display for Gap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::Base(number) => write!(out, "the base of number {number}"),
            Gap::Increment(number) => write!(out, "the increment of number {number}"),
        }
    }
}

/// What is known of a closed file, to which nothing is added any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its length in bytes.
    pub bytes: u64,
    /// The number of the increment after it.
    pub next: u64,
}

impl Part {
    /// An open file with this name and number.
    pub fn new(name: impl Into<String>, seq: u64) -> Part {
        Part { name: name.into(), seq, base: None, closed: None, head: None }
    }
}

/// Why a text is not a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The line number, from 1.
    pub line: usize,
    /// The offset of the line.
    pub offset: usize,
    /// The problem.
    pub what: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ManifestError { line, offset, what } = self;
        write!(out, "Reading the manifest file, at line {line} (offset {offset}): {what}")
    }
}

impl std::error::Error for ManifestError {}

#[derive(Clone, Copy)]
enum Kind {
    Base,
    History,
    Increment,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let mut manifest = Manifest::default();
        let mut offset = 0;
        let lines = text.split_inclusive(|&byte| byte == b'\n');
        for (index, line) in lines.enumerate() {
            let taken = manifest.take_line(line);
            taken.map_err(|what| ManifestError { line: index + 1, offset, what })?;
            offset += line.len();
        }
        match text.is_empty() {
            true => Err(ManifestError { line: 1, offset: 0, what: EMPTY }),
            false => Ok(manifest),
        }
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        if line.first() == Some(&b'#') {
            return Ok(());
        }
        if line.len() >= MAX_LINE_BYTES {
            return Err(TOO_LONG);
        }
        if line.last() != Some(&b'\n') {
            return Err(CUT_OFF);
        }
        let (kind, part) = parse_part(line.trim_ascii())?;
        match kind {
            Kind::Base if self.base.is_some() => Err("Found duplicate base file information"),
            Kind::Base => {
                self.base = Some(part);
                Ok(())
            }
            Kind::History => {
                self.history.push(part);
                Ok(())
            }
            Kind::Increment if self.increments.last().is_some_and(|last| last.seq >= part.seq) => {
                Err("Found a non-monotonic sequence number: those of increments ascend")
            }
            Kind::Increment => {
                self.increments.push(part);
                Ok(())
            }
        }
    }

    /// The text to be stored in the file.
    pub fn text(&self) -> String {
        debug_assert!(
            self.increments.is_sorted_by(|one, next| one.seq < next.seq),
            "numbers of increments ascend"
        );
        let mut text = String::new();
        let bases = self.base.iter().map(|part| (part, 'b'));
        let history = self.history.iter().map(|part| (part, 'h'));
        let increments = self.increments.iter().map(|part| (part, 'i'));
        for (part, kind) in bases.chain(history).chain(increments) {
            push_line(&mut text, part, kind, "");
        }
        if text.is_empty() {
            // Other servers, too, take a manifest without a line for damaged.
            text.push_str("# the first file is being written\n");
        }
        text
    }

    /// The files to be read, with all that is known of them, in the form of a manifest.
    pub fn text_of_lengths(&self) -> String {
        let mut text = String::new();
        let bases = self.base.iter().map(|part| (part, 'b'));
        for (part, kind) in bases.chain(self.increments.iter().map(|part| (part, 'i'))) {
            let closed =
                part.closed.map(|Closed { bytes, next }| format!(" bytes {bytes} next {next}"));
            let base = part.base.map(|base| format!(" base {base}")).unwrap_or_default();
            let head = part.head.map(|head| format!(" head {head:016x}")).unwrap_or_default();
            push_line(&mut text, part, kind, &(base + &closed.unwrap_or_default() + &head));
        }
        text
    }

    /// The files to be read, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.base.iter().chain(&self.increments)
    }

    /// A file that should be named and is not. A manifest of another server does not name the
    /// successor of a file: see [`Manifest::skipped`].
    pub fn gap(&self) -> Option<Gap> {
        if self.missing.is_some() {
            return self.missing;
        }
        let number = self.base.as_ref().map(|base| base.seq);
        let mut wanted = self.increments.iter().filter_map(|part| part.base);
        let base = wanted.find(|wanted| number != Some(*wanted)).map(Gap::Base);
        base.or_else(|| self.missing_increment().map(Gap::Increment))
    }

    fn missing_increment(&self) -> Option<u64> {
        let mut expected = self.parts().map(|part| part.closed.map(|closed| closed.next));
        let skipped = usize::from(self.base.is_none());
        let mut found = self.increments.iter().skip(skipped).map(|part| part.seq);
        expected.find_map(|number| {
            let seq = found.next();
            number.filter(|number| seq != Some(*number))
        })
    }

    /// The first number that the increments of another server's manifest leave out. Redis and
    /// Valkey load such a manifest; a line may be lost.
    pub fn skipped(&self) -> Option<u64> {
        let pairs = self.increments.windows(2).filter(|pair| pair[0].closed.is_none());
        pairs
            .map(|pair| (pair[0].seq + 1, pair[1].seq))
            .find_map(|(next, seq)| (next != seq).then_some(next))
    }

    /// Closes the last increment, which has `bytes` bytes; `next` follows it.
    pub fn close_last(&mut self, bytes: u64, next: u64) {
        if let Some(last) = self.increments.last_mut() {
            debug_assert!(last.seq < next, "numbers of increments ascend");
            last.closed = Some(Closed { bytes, next });
        }
    }

    /// Notes the length of a new base, if increments follow it, and the checksum of its beginning.
    pub fn close_base(&mut self, bytes: u64, head: Option<u64>) {
        let next = self.increments.first().map(|part| part.seq);
        if let Some(base) = &mut self.base {
            base.closed = next.map(|next| Closed { bytes, next });
            base.head = head;
        }
    }

    /// A number that no base has had.
    pub fn next_base(&self) -> u64 {
        let history = self.history.iter().chain(&self.base).map(|part| part.seq);
        history.max().unwrap_or(0) + 1
    }

    /// A number that no increment has had.
    pub fn next_increment(&self) -> u64 {
        let history = self.history.iter().chain(&self.increments).map(|part| part.seq);
        history.max().unwrap_or(0) + 1
    }

    /// Replaces the base and all increments with numbers below `first_kept` by a new base.
    pub fn replace_base(&mut self, base: Part, first_kept: u64) {
        let old_base = self.base.replace(base);
        let (mut old, kept): (Vec<Part>, _) =
            std::mem::take(&mut self.increments).into_iter().partition(|p| p.seq < first_kept);
        debug_assert!(old.iter().all(|part| part.seq < first_kept), "they are in the base");
        self.increments = kept;
        self.missing = None;
        let number = self.base.as_ref().map(|base| base.seq);
        self.increments.iter_mut().for_each(|part| part.base = number);
        // The newest first, as in Redis.
        old.extend(old_base);
        old.append(&mut self.history);
        self.history = old;
    }
}

fn push_line(text: &mut String, part: &Part, kind: char, more: &str) {
    let Part { name, seq, .. } = part;
    writeln!(text, "file {} seq {seq} type {kind}{more}", quoted(name))
        .expect("a String takes everything");
}

fn parse_part(line: &[u8]) -> Result<(Kind, Part), &'static str> {
    let (arena, mut words) = (Arena::default(), Vec::new());
    split_words(line, &arena, &mut words).map_err(|_| wrong!("a quote is not closed"))?;
    // At least six words, so that a later version can add pairs.
    if words.len() < 6 || words.len() % 2 != 0 {
        return Err(SHAPE);
    }
    let (mut name, mut seq, mut kind) = (None, None, None);
    let (mut base, mut bytes, mut next, mut head) = (None, None, None, None);
    for pair in words.chunks_exact(2) {
        let value = pair[1];
        if pair[0].eq_ignore_ascii_case(b"file") {
            name = Some(file_name(value)?);
        } else if pair[0].eq_ignore_ascii_case(b"seq") {
            seq = Some(file_number(value).ok_or(BAD_SEQ)?);
        } else if pair[0].eq_ignore_ascii_case(b"base") {
            base = Some(file_number(value).ok_or(BAD_BASE)?);
        } else if pair[0].eq_ignore_ascii_case(b"bytes") {
            let length = parse_i64(value).and_then(|length| u64::try_from(length).ok());
            bytes = Some(length.ok_or(BAD_BYTES)?);
        } else if pair[0].eq_ignore_ascii_case(b"next") {
            next = Some(file_number(value).ok_or(BAD_NEXT)?);
        } else if pair[0].eq_ignore_ascii_case(b"head") {
            let digits = std::str::from_utf8(value).ok();
            head = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        } else if pair[0].eq_ignore_ascii_case(b"type") {
            kind = Some(match value {
                b"b" => Kind::Base,
                b"h" => Kind::History,
                b"i" => Kind::Increment,
                _ => return Err("Unknown AOF file type: it must be b, h or i"),
            });
        }
    }
    let closed = bytes.zip(next).map(|(bytes, next)| Closed { bytes, next });
    match (name, seq, kind) {
        (Some(name), Some(seq), Some(kind)) => Ok((kind, Part { name, seq, base, closed, head })),
        _ => Err(SHAPE),
    }
}

fn file_number(text: &[u8]) -> Option<u64> {
    let number = parse_i64(text).and_then(|number| u64::try_from(number).ok());
    number.filter(|&number| number > 0 && number < i64::MAX as u64)
}

fn file_name(name: &[u8]) -> Result<String, &'static str> {
    if name.contains(&b'/') || matches!(name, b"" | b"." | b"..") {
        return Err("File can't be a path, just a filename");
    }
    if name.contains(&0) {
        return Err(wrong!("a name of a file has no zero byte"));
    }
    String::from_utf8(name.to_vec()).map_err(|_| wrong!("the name of the file is not UTF-8"))
}

/// A name as written in the text.
fn quoted(name: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if name.bytes().all(|byte| is_plain(&byte)) {
        return name.to_owned();
    }
    let mut text = String::from("\"");
    for byte in name.bytes() {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => write!(text, "\\x{byte:02x}").expect("a String takes everything"),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, seq: u64) -> Part {
        Part::new(name, seq)
    }

    #[track_caller]
    fn refused(text: &str, line: usize, what: &str) {
        let error = Manifest::parse(text.as_bytes()).expect_err("it is wrong");
        assert_eq!(error.line, line, "{text:?}");
        assert!(error.what.starts_with(what), "{text:?}: {error}");
    }

    #[test]
    fn what_redis_and_valkey_write_is_read_and_written_alike() {
        for text in [
            "file appendonly.aof.1.base.rdb seq 1 type b\n\
             file appendonly.aof.1.incr.aof seq 1 type i\n",
            "file \"my \\\"odd\\\" n\\xc3\\xa9v.aof.1.base.rdb\" seq 1 type b\n\
             file \"my \\\"odd\\\" n\\xc3\\xa9v.aof.1.incr.aof\" seq 1 type i\n",
            "file a.2.base.aof seq 2 type b\nfile a.1.base.aof seq 1 type h\n\
             file a.3.incr.aof seq 3 type h\nfile a.4.incr.aof seq 4 type i\n\
             file a.7.incr.aof seq 7 type i\n",
            "file \"\\\\ \\n\\r\\t\\a\\b\\x01'\" seq 9 type i\n",
        ] {
            let manifest = Manifest::parse(text.as_bytes()).expect("it is one");
            assert_eq!(manifest.text(), text);
        }
        let odd = "file \"my \\\"odd\\\" n\\xc3\\xa9v.aof.1.base.rdb\" seq 1 type b\n";
        let manifest = Manifest::parse(odd.as_bytes()).expect("it is one");
        assert_eq!(manifest.base, Some(part("my \"odd\" név.aof.1.base.rdb", 1)));
    }

    #[test]
    fn unknown_pairs_and_comments_are_passed_over() {
        let text = "# a comment\n  FILE a.1.incr.aof startoffset 77 Seq 1 type i endoffset 80 \r\n";
        let manifest = Manifest::parse(text.as_bytes()).expect("it is one");
        assert_eq!(manifest.text(), "file a.1.incr.aof seq 1 type i\n");
        assert_eq!(Manifest::parse(b"# nothing\n").expect("it is one"), Manifest::default());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        const SHAPE: &str = "Invalid AOF manifest file format: expected 'file NAME seq";
        let wrong = |how: &str| format!("Invalid AOF manifest file format: {how}");
        refused("", 1, "Found an empty AOF manifest");
        refused("\n", 1, SHAPE);
        refused("file a seq 1\n", 1, SHAPE);
        refused("file a seq 1 type\n", 1, SHAPE);
        refused("file a seq 1 x y\n", 1, SHAPE);
        let too_long = "The AOF manifest file contains too long line";
        refused("#\nfile a seq 1 type i", 2, too_long);
        refused("file \"a seq 1 type i\n", 1, &wrong("a quote is not closed"));
        refused("file a/b seq 1 type i\n", 1, "File can't be a path, just a filename");
        refused("file .. seq 1 type i\n", 1, "File can't be a path, just a filename");
        refused("file \"\\xff\" seq 1 type i\n", 1, &wrong("the name of the file is not UTF-8"));
        for seq in ["0", "-1", "x", "9223372036854775807", "99999999999999999999"] {
            let text = format!("file a seq {seq} type i\n");
            refused(&text, 1, &wrong("'seq' must be followed by a number above 0"));
        }
        refused("file a seq 1 type x\n", 1, "Unknown AOF file type");
        let text = "file a seq 1 type i bytes -1 next 2\n";
        refused(text, 1, &wrong("'bytes' must be followed by a length"));
        let text = "file a seq 1 type i bytes 1 next 0\n";
        refused(text, 1, &wrong("'next' must be followed by a number above 0"));
        refused(
            "file a seq 1 type b\nfile b seq 2 type b\n",
            2,
            "Found duplicate base file information",
        );
        let not_ascending = "file a seq 2 type i\nfile b seq 1 type i\n";
        refused(not_ascending, 2, "Found a non-monotonic sequence number");
        let long = format!("file {} seq 1 type i\n", "a".repeat(1_010));
        refused(&long, 1, too_long);
        let offset = Manifest::parse(not_ascending.as_bytes()).expect_err("it is wrong").offset;
        assert_eq!(offset, 20);
    }

    #[test]
    fn a_line_that_is_lost_leaves_a_gap() {
        let lines = [
            "file b seq 2 type b bytes 7 next 4\n",
            "file i.4 seq 4 type i base 2 bytes 0 next 6\n",
            "file i.6 seq 6 type i base 2 bytes 12 next 7\n",
            "file i.7 seq 7 type i base 2\n",
        ];
        let manifest = |lines: &[&str]| Manifest::parse(lines.concat().as_bytes());
        let all = manifest(&lines).expect("it is one");
        assert_eq!((all.text_of_lengths(), all.gap()), (lines.concat(), None));
        let plain = "file b seq 2 type b\nfile i.4 seq 4 type i\nfile i.6 seq 6 type i\n\
                     file i.7 seq 7 type i\n";
        assert_eq!(all.text(), plain, "what others write, and nothing else");
        let increment = Gap::Increment;
        for (lost, gap) in
            [(0, Gap::Base(2)), (1, increment(4)), (2, increment(6)), (3, increment(7))]
        {
            let mut rest = lines.to_vec();
            rest.remove(lost);
            assert_eq!(manifest(&rest).expect("it is one").gap(), Some(gap), "{lost}");
        }
        // Manifests of other servers, which count on and load whatever follows.
        for (text, skipped) in [
            ("file b seq 2 type b\nfile i seq 4 type i\nfile j seq 5 type i\n", None),
            ("file i seq 4 type i\nfile j seq 6 type i\n", Some(5)),
            ("file b seq 2 type b\n", None),
            ("# nothing\n", None),
        ] {
            let manifest = manifest(&[text]).expect("it is one");
            assert_eq!((manifest.gap(), manifest.skipped()), (None, skipped), "{text}");
        }
    }

    #[test]
    fn a_new_base_makes_history_of_what_it_stands_for() {
        let text = "file a.1 seq 1 type b\nfile i.1 seq 1 type i\nfile i.2 seq 2 type i\n";
        let mut manifest = Manifest::parse(text.as_bytes()).expect("it is one");
        assert_eq!((manifest.next_base(), manifest.next_increment()), (2, 3));
        manifest.replace_base(part("a.2", 2), 2);
        let expected = "file a.2 seq 2 type b\nfile i.1 seq 1 type h\nfile a.1 seq 1 type h\n\
                        file i.2 seq 2 type i\n";
        assert_eq!(manifest.text(), expected);
        let expected = "file a.2 seq 2 type b\nfile i.2 seq 2 type i base 2\n";
        assert_eq!(manifest.text_of_lengths(), expected);
        assert_eq!((manifest.next_base(), manifest.next_increment()), (3, 3));
        let names: Vec<_> = manifest.parts().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["a.2", "i.2"]);
    }
}
