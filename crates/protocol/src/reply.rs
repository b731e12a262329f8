//! Encodes replies and appends them to a connection's output.
//!
//! 1. Every method appends one whole reply, or the header of an aggregate whose elements follow.
//! 2. What RESP2 lacks is sent as RESP2 servers send it: maps as flat arrays, sets and pushes as
//!    arrays, doubles, big numbers and verbatim text as bulk strings, booleans as 0 and 1.
//! 3. A deferred header is moved in front of its elements with at most one move of these.
//!
//! Not here: closing a connection whose output is too long; the server does that. Tests: at the
//! foot.

use pantala_base::number::{self, I64_TEXT_MAX_BYTES};

/// The protocol version a connection chose with HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The version of a new connection.
    #[default]
    Resp2,
    /// RESP3, with types for maps, sets, doubles, booleans, nulls and pushes.
    Resp3,
}

/// The start of an aggregate of unknown length.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ReplyMark(usize);

/// Writes replies in one protocol version.
#[derive(Debug)]
pub struct Reply<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
    /// Strings that would make the output longer than this are left out.
    most_bytes: usize,
    may_be_short: bool,
    is_short: bool,
}

/// Mark, digits and line end, rounded up to whole words.
const HEADER_MAX_BYTES: usize = 24;
const _: () = assert!(1 + I64_TEXT_MAX_BYTES + 2 <= HEADER_MAX_BYTES);

impl<'o> Reply<'o> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, version: Version) -> Reply<'o> {
        Reply { out, version, most_bytes: usize::MAX, may_be_short: false, is_short: false }
    }

    /// Cuts the string that makes the output longer than this and leaves out later ones: for a
    /// connection that is then closed, so that one command cannot fill the memory before.
    #[inline]
    pub fn at_most(self, most_bytes: usize) -> Reply<'o> {
        Reply { most_bytes, ..self }
    }

    /// Leaves out strings that would make the output longer than the limit: for a command that then
    /// runs again elsewhere ([`Reply::is_short`]), so that nobody waits for the copy.
    #[inline]
    pub fn or_short(self, may_be_short: bool) -> Reply<'o> {
        Reply { may_be_short, ..self }
    }

    /// Whether something was left out: the command must run again, or the connection is closed.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Whether the command can run again if something was left out.
    pub fn may_be_short(&self) -> bool {
        self.may_be_short
    }

    /// The protocol version it writes.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Switches to another protocol version.
    pub fn speak(&mut self, version: Version) {
        self.version = version;
    }

    /// Bytes in the output so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether the output is empty.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Reserves room for this many more bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Whether strings are left out from here on.
    #[inline]
    pub fn is_over(&self) -> bool {
        if self.may_be_short { self.is_short } else { self.out.len() > self.most_bytes }
    }

    /// Removes everything appended since the output had `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// Whether a string of `bytes` bytes may be appended in the form of another protocol; if not,
    /// it is left out or cut, as [`Reply::bulk`] does.
    #[inline]
    pub fn has_room_for(&mut self, bytes: usize) -> bool {
        let has_room = self.out.len().saturating_add(bytes) <= self.most_bytes;
        if !has_room {
            self.is_short = true;
            if !self.may_be_short && self.out.len() <= self.most_bytes {
                // The connection is closed because of this.
                self.out.resize(self.most_bytes + 1, b' ');
            }
        }
        has_room
    }

    /// The output, for other protocols to append to.
    #[inline]
    pub fn output(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Appends bytes that are already encoded replies.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A simple string: a short text of the server's own, without line ends.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']), "a simple string is one line");
        self.out.reserve(text.len() + 3);
        self.out.push(b'+');
        self.raw(text.as_bytes());
        self.raw(b"\r\n");
    }

    /// An error: the full line without `-` and line end. Trailing line ends are dropped, others
    /// become spaces.
    pub fn error(&mut self, line: impl AsRef<[u8]>) {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let line = line.as_ref();
        let len = line.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1);
        self.out.reserve(len + 3);
        self.out.push(b'-');
        self.out.extend(line[..len].iter().map(|byte| if is_end(byte) { b' ' } else { *byte }));
        self.raw(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        if (0..10).contains(&value) {
            return self.raw(&[b':', b'0' + value as u8, b'\r', b'\n']);
        }
        self.header(b':', value);
    }

    /// A string of bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        let len = bytes.len();
        if self.out.len().saturating_add(len) > self.most_bytes {
            return self.cut(len, std::iter::once(bytes));
        }
        self.out.reserve(len + HEADER_MAX_BYTES + 2);
        self.length(b'$', len);
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// A string of bytes, given in pieces.
    pub fn bulk_of<'p>(&mut self, pieces: impl Iterator<Item = &'p [u8]> + Clone) {
        let len = pieces.clone().map(<[u8]>::len).sum::<usize>();
        if self.out.len().saturating_add(len) > self.most_bytes {
            return self.cut(len, pieces);
        }
        self.out.reserve(len + HEADER_MAX_BYTES + 2);
        self.length(b'$', len);
        pieces.for_each(|piece| self.raw(piece));
        self.raw(b"\r\n");
    }

    /// Handles a string that would make the output too long. For a connection with a limit, it
    /// appends just enough of the string to cross the limit.
    #[cold]
    fn cut<'p>(&mut self, len: usize, pieces: impl Iterator<Item = &'p [u8]>) {
        self.is_short = true;
        if !self.may_be_short && self.out.len() <= self.most_bytes {
            self.length(b'$', len);
            for piece in pieces {
                let room = (self.most_bytes + 1).saturating_sub(self.out.len());
                self.raw(&piece[..room.min(piece.len())]);
            }
        }
    }

    /// An integer as a string.
    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(number::fmt_i64(value, &mut [0; I64_TEXT_MAX_BYTES]));
    }

    /// The null reply.
    #[inline]
    pub fn null(&mut self) {
        self.raw(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The null reply in place of an array, which RESP2 distinguishes.
    pub fn null_array(&mut self) {
        self.raw(match self.version {
            Version::Resp2 => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The header of `count` elements.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.length(b'*', count);
    }

    /// The header of `count` pairs.
    #[inline]
    pub fn map(&mut self, count: usize) {
        match self.version {
            Version::Resp2 => self.length(b'*', 2 * count),
            Version::Resp3 => self.length(b'%', count),
        }
    }

    /// The header of `count` elements without order.
    pub fn set(&mut self, count: usize) {
        self.length(if self.version == Version::Resp3 { b'~' } else { b'*' }, count);
    }

    /// The header of a message of `count` elements that answers no command.
    pub fn push(&mut self, count: usize) {
        self.length(if self.version == Version::Resp3 { b'>' } else { b'*' }, count);
    }

    /// The header of `count` pairs of attributes of the reply that follows. Returns false under
    /// RESP2, which has no attributes: then nothing was written, and the pairs must not be either.
    #[must_use]
    pub fn attribute(&mut self, count: usize) -> bool {
        if self.version == Version::Resp3 {
            self.length(b'|', count);
        }
        self.version == Version::Resp3
    }

    /// A double.
    pub fn double(&mut self, value: f64) {
        match self.version {
            // Whole numbers, as most scores are; but not negative zero.
            Version::Resp2 if value as i32 != 0 && f64::from(value as i32) == value => {
                self.bulk_int(value as i64);
            }
            Version::Resp2 => {
                let mark = self.begin();
                number::push_f64(self.out, value);
                let len = self.out.len() - mark.0;
                self.end(mark, |reply| reply.length(b'$', len));
                self.raw(b"\r\n");
            }
            Version::Resp3 => {
                self.out.push(b',');
                number::push_f64(self.out, value);
                self.raw(b"\r\n");
            }
        }
    }

    /// A double that is already formatted.
    pub fn double_text(&mut self, text: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => {
                self.out.push(b',');
                self.raw(text);
                self.raw(b"\r\n");
            }
        }
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        self.raw(match (self.version, value) {
            (Version::Resp2, false) => b":0\r\n",
            (Version::Resp2, true) => b":1\r\n",
            (Version::Resp3, false) => b"#f\r\n",
            (Version::Resp3, true) => b"#t\r\n",
        });
    }

    /// A text for people with its format, three letters such as "txt".
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if self.version == Version::Resp2 {
            return self.bulk(text);
        }
        self.out.reserve(text.len() + HEADER_MAX_BYTES + 6);
        self.length(b'=', text.len() + 4);
        self.raw(format);
        self.out.push(b':');
        self.raw(text);
        self.raw(b"\r\n");
    }

    /// An integer of any size, as its decimal digits.
    pub fn big_number(&mut self, digits: &[u8]) {
        if self.version == Version::Resp2 {
            return self.bulk(digits);
        }
        self.out.push(b'(');
        self.raw(digits);
        self.raw(b"\r\n");
    }

    /// Begins an aggregate whose length is known only at its end.
    pub fn begin(&self) -> ReplyMark {
        ReplyMark(self.out.len())
    }

    /// Ends an array of `count` elements.
    pub fn end_array(&mut self, mark: ReplyMark, count: usize) {
        self.end(mark, |reply| reply.array(count));
    }

    /// Corrects the header of an array, `header_bytes` long at `start`, to `count` elements, all of
    /// which are written.
    pub fn shorten_array(&mut self, start: usize, header_bytes: usize, count: usize) {
        self.out.copy_within(start + header_bytes.., start);
        self.out.truncate(self.out.len() - header_bytes);
        self.end(ReplyMark(start), |reply| reply.array(count));
    }

    /// Ends a map of `count` pairs.
    pub fn end_map(&mut self, mark: ReplyMark, count: usize) {
        self.end(mark, |reply| reply.map(count));
    }

    /// Ends a set of `count` elements.
    pub fn end_set(&mut self, mark: ReplyMark, count: usize) {
        self.end(mark, |reply| reply.set(count));
    }

    /// Writes the header at the end, then rotates it to the front of the elements.
    fn end(&mut self, mark: ReplyMark, header: impl FnOnce(&mut Reply<'o>)) {
        let end = self.out.len();
        header(self);
        let written = self.out.len() - end;
        let mut bytes = [0; HEADER_MAX_BYTES];
        bytes[..written].copy_from_slice(&self.out[end..]);
        self.out.copy_within(mark.0..end, mark.0 + written);
        self.out[mark.0..mark.0 + written].copy_from_slice(&bytes[..written]);
    }

    /// A header that is mostly short: fixed-size copies for up to three digits.
    #[inline(always)]
    fn length(&mut self, mark: u8, value: usize) {
        let [ones, tens, hundreds] =
            [value % 10, value / 10 % 10, value / 100].map(|n| b'0'.wrapping_add(n as u8));
        if value < 10 {
            self.raw(&[mark, ones, b'\r', b'\n']);
        } else if value < 100 {
            self.raw(&[mark, tens, ones, b'\r', b'\n']);
        } else if value < 1000 {
            self.raw(&[mark, hundreds, tens, ones, b'\r', b'\n']);
        } else {
            self.header(mark, i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    /// Any header. One copy of fixed size, truncated to what is used: cheaper than a copy of exact
    /// size.
    #[inline]
    fn header(&mut self, mark: u8, value: i64) {
        let mut bytes = [0; HEADER_MAX_BYTES];
        let end = 1 + number::i64_text_len(value);
        number::write_digits(value.unsigned_abs(), &mut bytes[..end], end);
        if value < 0 {
            bytes[1] = b'-';
        }
        bytes[0] = mark;
        bytes[end] = b'\r';
        bytes[end + 1] = b'\n';
        let before = self.out.len();
        self.raw(&bytes);
        self.out.truncate(before + end + 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what `write` sends under both versions.
    fn check(write: impl Fn(&mut Reply<'_>), resp2: &[u8], resp3: &[u8]) {
        for (version, expected) in [(Version::Resp2, resp2), (Version::Resp3, resp3)] {
            let mut out = b"before".to_vec();
            write(&mut Reply::new(&mut out, version));
            assert_eq!(out[6..].escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
    }

    fn check_both(write: impl Fn(&mut Reply<'_>), expected: &[u8]) {
        check(write, expected, expected);
    }

    #[test]
    fn the_same_in_both() {
        check_both(|r| r.ok(), b"+OK\r\n");
        check_both(|r| r.simple("PONG"), b"+PONG\r\n");
        check_both(|r| r.error("ERR a\r\nb\n\n"), b"-ERR a  b\r\n");
        check_both(|r| r.error(b"ERR \xff"), b"-ERR \xff\r\n");
        check_both(|r| r.bulk(b""), b"$0\r\n\r\n");
        check_both(|r| r.bulk_int(-12), b"$3\r\n-12\r\n");
        check_both(|r| r.array(0), b"*0\r\n");
        for n in [0, 1, 9, 10, 99, 100, 999, 1000, 123_456, i64::MAX, i64::MIN, -1, -10] {
            check_both(|r| r.int(n), format!(":{n}\r\n").as_bytes());
        }
        for len in [1, 9, 10, 11, 99, 100, 101, 999, 1000, 70_000] {
            let expected = format!("${len}\r\n{}\r\n", "x".repeat(len));
            check_both(|r| r.bulk(&b"x".repeat(len)), expected.as_bytes());
        }
    }

    // Compared with DEBUG PROTOCOL of valkey-server 9.1.2.
    #[test]
    fn each_in_its_own() {
        check(|r| r.null(), b"$-1\r\n", b"_\r\n");
        check(|r| r.null_array(), b"*-1\r\n", b"_\r\n");
        check(|r| r.map(12), b"*24\r\n", b"%12\r\n");
        check(|r| r.set(3), b"*3\r\n", b"~3\r\n");
        check(|r| r.push(2), b"*2\r\n", b">2\r\n");
        check(|r| r.double(2.5), b"$3\r\n2.5\r\n", b",2.5\r\n");
        check(|r| r.double(-17.0), b"$3\r\n-17\r\n", b",-17\r\n");
        check(|r| r.double(0.0), b"$1\r\n0\r\n", b",0\r\n");
        check(|r| r.double(-0.0), b"$2\r\n-0\r\n", b",-0\r\n");
        check(|r| r.double(1e15), b"$16\r\n1000000000000000\r\n", b",1000000000000000\r\n");
        check(|r| r.double(f64::INFINITY), b"$3\r\ninf\r\n", b",inf\r\n");
        check(|r| r.bool(true), b":1\r\n", b"#t\r\n");
        check(|r| r.bool(false), b":0\r\n", b"#f\r\n");
        check(|r| r.verbatim(b"txt", b"a\nb"), b"$3\r\na\nb\r\n", b"=7\r\ntxt:a\nb\r\n");
        check(|r| r.big_number(b"123"), b"$3\r\n123\r\n", b"(123\r\n");
        check(|r| assert_eq!(r.attribute(1), r.version() == Version::Resp3), b"", b"|1\r\n");
    }

    #[test]
    fn lengths_known_at_the_end() {
        let nested = |r: &mut Reply<'_>| {
            let outer = r.begin();
            r.int(1);
            let inner = r.begin();
            r.ok();
            r.end_map(inner, 1000);
            let empty = r.begin();
            r.end_set(empty, 0);
            r.end_array(outer, 3);
        };
        let resp2 = b"*3\r\n:1\r\n*2000\r\n+OK\r\n*0\r\n";
        let resp3 = b"*3\r\n:1\r\n%1000\r\n+OK\r\n~0\r\n";
        check(nested, resp2, resp3);
    }

    #[test]
    fn a_short_reply_leaves_out_what_would_be_too_long() {
        let mut out = vec![b'x'; 10];
        let mut reply = Reply::new(&mut out, Version::Resp2).at_most(20).or_short(true);
        reply.bulk(b"0123456789");
        // Longer, but complete.
        assert!(!reply.is_short() && !reply.is_over());
        reply.bulk(b"0");
        assert!(reply.is_short() && reply.is_over());
        assert_eq!(out, b"xxxxxxxxxx$10\r\n0123456789\r\n");
        let mut out = vec![b'x'; 10];
        let mut reply = Reply::new(&mut out, Version::Resp2).at_most(20);
        reply.bulk(b"01234567890");
        assert!(reply.is_short() && !reply.may_be_short());
        reply.bulk(b"0");
        assert_eq!(out, b"xxxxxxxxxx$11\r\n012345", "one byte more than there may be");
    }
}
