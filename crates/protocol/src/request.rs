//! Parses requests: one command's arguments at a time, from a buffer that grows at its end.
//!
//! ```text
//!   *2\r\n $3\r\nGET\r\n $1\r\nk\r\n    multibulk: count, then length and bytes of each argument
//!   GET k\r\n                           inline: see `inline`
//! ```
//!
//! 1. `at` is 0, or the start of an argument of the multibulk command at the start of the buffer;
//!    `left` arguments begin there, and everything before is well-formed.
//! 2. No line end lies between the start of the line being read and `scanned`.
//! 3. So bytes are read once while a command is incomplete, and once more when it is complete and
//!    its arguments are taken: linear for any chunking.
//! 4. A line is judged when its CR and the byte after it are there, or when it is too long: so the
//!    verdict does not depend on the chunking either.
//! 5. A call takes bounded time, whatever the buffer holds. Of a command with more than
//!    [`MANY_ARGS`] arguments, [`ARGS_A_CALL`] are read per call, and only the first few are
//!    returned: the code that runs it takes the others from its bytes, elsewhere
//!    ([`whole_request`]).
//!
//! Not here: which commands exist, growing and moving the buffer. Tests: foot of the file (each
//! error, every chunking), `fuzz/src/protocol.rs`.

use pantala_base::number::parse_i64;
use pantala_base::simd::find_byte;

use crate::arena::Arena;
use crate::error::ProtocolError;
use crate::inline;

/// The most arguments of a client that has not authenticated.
const UNAUTHENTICATED_MAX_ARGS: usize = 10;
/// The longest argument of a client that has not authenticated.
const UNAUTHENTICATED_MAX_BULK_BYTES: usize = 16 * 1024;
/// The longest argument whose length is parsed by the fast path.
const SHORT_BULK_MAX_BYTES: usize = 9999;
/// The length of a line with such a length.
const SHORT_LINE_MAX_BYTES: usize = 7;
/// The shortest argument, `$0\r\n\r\n`.
const BULK_MIN_BYTES: usize = 6;

/// A command with more arguments is [`ParseStep::Long`].
pub const MANY_ARGS: usize = 2048;
/// How many of its arguments are returned: enough for its name, and for the text of an error.
const HEAD_ARGS: usize = 64;
/// How many arguments one call goes through: about a hundred microseconds.
const ARGS_A_CALL: usize = 16 << 10;

/// The limits of a client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Longest argument in bytes (`proto-max-bulk-len`).
    pub max_bulk_bytes: usize,
    /// Most arguments of a command.
    pub max_args: usize,
    /// Longest inline command, and longest line of a count or length, in bytes.
    pub max_inline_bytes: usize,
    /// False for a client that must authenticate first and is limited to ten arguments of 16 KiB
    /// until then.
    pub authenticated: bool,
}

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits {
            max_bulk_bytes: 512 << 20,
            max_args: i32::MAX as usize,
            max_inline_bytes: 64 << 10,
            authenticated: true,
        }
    }
}

impl RequestLimits {
    /// Whether no length of up to four digits can exceed a limit: true except for odd limits and
    /// for clients that have not authenticated.
    #[inline]
    fn spare_short_numbers(&self) -> bool {
        self.authenticated
            && self.max_bulk_bytes >= SHORT_BULK_MAX_BYTES
            && self.max_args >= MANY_ARGS
            && self.max_inline_bytes >= SHORT_LINE_MAX_BYTES
    }
}

/// The result of parsing the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseStep {
    /// A command; its arguments (at least one) were appended.
    Command {
        /// Bytes to take off the buffer.
        consumed: usize,
    },
    /// A command of more than [`MANY_ARGS`] arguments; the first of them were appended.
    Long {
        /// Bytes to take off the buffer.
        consumed: usize,
        /// How many arguments it has.
        arg_count: usize,
    },
    /// Nothing to do and nothing to answer: `*0`, `*-1`, a blank line.
    Empty {
        /// Bytes to take off the buffer.
        consumed: usize,
    },
    /// Part of a command. Call again with the same start and more bytes after it.
    Incomplete {
        /// Probably this many more bytes are needed; 0 if unknown.
        wanted: usize,
    },
    /// The call has used its share of time. Call again with the same start, with or without more
    /// bytes after it.
    Busy,
    /// The connection must be closed.
    Error(ProtocolError),
}

/// The state of one connection's input between calls.
#[derive(Clone, Debug, Default)]
pub struct RequestParser {
    at: usize,
    left: usize,
    scanned: usize,
}

/// Why an argument could not be parsed.
enum ArgumentStop {
    /// At least this many bytes are missing.
    Wanted(usize),
    Fault(ProtocolError),
}

impl From<ProtocolError> for ArgumentStop {
    fn from(error: ProtocolError) -> ArgumentStop {
        ArgumentStop::Fault(error)
    }
}

impl RequestParser {
    /// Parses the command at the start of `buf`. After `Incomplete` the buffer of the next call
    /// must begin with the same bytes. Arguments are appended to `args` only for `Command` and
    /// `Long`.
    #[inline]
    pub fn parse<'a>(
        &mut self,
        buf: &'a [u8],
        limits: &RequestLimits,
        arena: &'a Arena,
        args: &mut Vec<&'a [u8]>,
    ) -> ParseStep {
        match buf.first() {
            Some(b'*') if self.at == 0 => self.multibulk(buf, limits, args),
            Some(b'*') => self.resume(buf, limits, args),
            Some(_) => self.inline(buf, limits, arena, args),
            None => ParseStep::Incomplete { wanted: 0 },
        }
    }

    /// Drops an incomplete command, for a connection that is reused or has skipped its input.
    pub fn reset(&mut self) {
        *self = RequestParser::default();
    }

    #[inline]
    fn multibulk<'a>(
        &mut self,
        buf: &'a [u8],
        limits: &RequestLimits,
        args: &mut Vec<&'a [u8]>,
    ) -> ParseStep {
        if limits.spare_short_numbers() {
            self.take::<true>(buf, limits, args)
        } else {
            self.take::<false>(buf, limits, args)
        }
    }

    /// Parses a multibulk command from its start. With `SHORT`, short numbers use the fast path.
    fn take<'a, const SHORT: bool>(
        &mut self,
        buf: &'a [u8],
        limits: &RequestLimits,
        args: &mut Vec<&'a [u8]>,
    ) -> ParseStep {
        let (count, start) = match short_number(buf, b'*') {
            Some((count, start)) if SHORT && (1..=MANY_ARGS).contains(&count) => (count, start),
            _ => match self.long_count(buf, limits) {
                Ok((0, consumed)) => {
                    self.reset();
                    return ParseStep::Empty { consumed };
                }
                Ok((count, start)) if count > MANY_ARGS => {
                    (self.at, self.left) = (start, count);
                    return self.resume(buf, limits, args);
                }
                Ok(header) => header,
                Err(stop) => return self.stopped(stop),
            },
        };
        let before = args.len();
        args.reserve(count.min((buf.len() - start) / BULK_MIN_BYTES + 1));
        let mut rest = &buf[start..];
        for done in 0..count {
            if SHORT && let Some((arg, behind)) = short_bulk(rest) {
                args.push(arg);
                rest = behind;
                continue;
            }
            let at = buf.len() - rest.len();
            match self.bulk(buf, at, limits) {
                Ok((arg, next)) => {
                    args.push(arg);
                    rest = &buf[next..];
                }
                Err(stop) => {
                    args.truncate(before);
                    (self.at, self.left) = (at, count - done);
                    return self.stopped(stop);
                }
            }
        }
        self.scanned = 0;
        ParseStep::Command { consumed: buf.len() - rest.len() }
    }

    /// Continues where the last call stopped, and takes the arguments when all are there.
    fn resume<'a>(
        &mut self,
        buf: &'a [u8],
        limits: &RequestLimits,
        args: &mut Vec<&'a [u8]>,
    ) -> ParseStep {
        let is_short = limits.spare_short_numbers();
        let left_behind = self.left.saturating_sub(ARGS_A_CALL);
        while self.left > left_behind {
            if is_short && let Some((_, behind)) = short_bulk(&buf[self.at..]) {
                self.at = buf.len() - behind.len();
                self.left -= 1;
                continue;
            }
            match self.bulk(buf, self.at, limits) {
                Ok((_, next)) => {
                    self.at = next;
                    self.left -= 1;
                }
                Err(ArgumentStop::Wanted(wanted)) => {
                    return ParseStep::Incomplete { wanted: wanted.max(self.promised(buf)) };
                }
                Err(stop) => return self.stopped(stop),
            }
        }
        if self.left > 0 {
            return ParseStep::Busy;
        }
        let consumed = self.at;
        self.reset();
        match header(buf) {
            (arg_count, start) if arg_count > MANY_ARGS => {
                args.extend(WellFormedArgs(&buf[start..consumed]).take(HEAD_ARGS));
                ParseStep::Long { consumed, arg_count }
            }
            _ => self.multibulk(buf, limits, args),
        }
    }

    /// How many bytes a command of many arguments still needs, if they continue as they began.
    #[cold]
    fn promised(&self, buf: &[u8]) -> usize {
        let (count, start) = header(buf);
        match count - self.left {
            0 => 0,
            _ if count <= MANY_ARGS => 0,
            done => ((self.at - start) / done).saturating_mul(self.left),
        }
    }

    fn stopped(&mut self, stop: ArgumentStop) -> ParseStep {
        match stop {
            ArgumentStop::Wanted(wanted) => ParseStep::Incomplete { wanted },
            ArgumentStop::Fault(error) => ParseStep::Error(error),
        }
    }

    /// The argument whose `$` should be at `at`, and the start of the next.
    fn bulk<'a>(
        &mut self,
        buf: &'a [u8],
        at: usize,
        limits: &RequestLimits,
    ) -> Result<(&'a [u8], usize), ArgumentStop> {
        let (len, start) = self.length(buf, at, limits)?;
        let body = &buf[start..];
        let end = len.saturating_add(2);
        match body.get(len..end) {
            Some(b"\r\n") => Ok((&body[..len], start + end)),
            Some(_) => Err(ProtocolError::InvalidLineEnd.into()),
            None => Err(ArgumentStop::Wanted(end - body.len())),
        }
    }

    /// The count after `*`, 0 for none or less, and the start of the first argument.
    fn long_count(
        &mut self,
        buf: &[u8],
        limits: &RequestLimits,
    ) -> Result<(usize, usize), ArgumentStop> {
        let (text, next) = self.line(buf, 0, limits, ProtocolError::TooBigCount)?;
        if buf[next - 1] != b'\n' {
            return Err(ProtocolError::InvalidLineEnd.into());
        }
        let count = parse_i64(&text[1..]).ok_or(ProtocolError::InvalidMultibulkLength)?;
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        if count > limits.max_args {
            return Err(ProtocolError::InvalidMultibulkLength.into());
        }
        if count > UNAUTHENTICATED_MAX_ARGS && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength.into());
        }
        Ok((count, next))
    }

    /// The length after the `$` at `at`, and the start of the argument's bytes.
    fn length(
        &mut self,
        buf: &[u8],
        at: usize,
        limits: &RequestLimits,
    ) -> Result<(usize, usize), ArgumentStop> {
        let (text, next) = self.line(buf, at, limits, ProtocolError::TooBigBulkCount)?;
        // The line may be empty: then its CR is where `$` should be.
        if buf[at] != b'$' {
            return Err(ProtocolError::ExpectedDollar(buf[at]).into());
        }
        if buf[next - 1] != b'\n' {
            return Err(ProtocolError::InvalidLineEnd.into());
        }
        let len = parse_i64(&text[1..]).and_then(|len| usize::try_from(len).ok());
        let len = len.filter(|&len| len <= limits.max_bulk_bytes);
        let len = len.ok_or(ProtocolError::InvalidBulkLength)?;
        if len > UNAUTHENTICATED_MAX_BULK_BYTES && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength.into());
        }
        Ok((len, next))
    }

    /// The line at `at` up to its CR, and the two bytes that end it.
    fn line<'b>(
        &mut self,
        buf: &'b [u8],
        at: usize,
        limits: &RequestLimits,
        too_big: ProtocolError,
    ) -> Result<(&'b [u8], usize), ArgumentStop> {
        match self.find(buf, at, b'\r', limits, too_big)? {
            end if end + 1 < buf.len() => Ok((&buf[at..end], end + 2)),
            end => {
                // Look at the CR again: it alone is not a whole line end.
                self.scanned = end;
                Err(ArgumentStop::Wanted(1))
            }
        }
    }

    /// The offset of `needle` in the line that begins at `at`.
    fn find(
        &mut self,
        buf: &[u8],
        at: usize,
        needle: u8,
        limits: &RequestLimits,
        too_big: ProtocolError,
    ) -> Result<usize, ArgumentStop> {
        let end = buf.len().min(at.saturating_add(limits.max_inline_bytes).saturating_add(1));
        let from = self.scanned.max(at).min(end);
        if let Some(offset) = find_byte(&buf[from..end], needle) {
            return Ok(from + offset);
        }
        if end.saturating_sub(at) > limits.max_inline_bytes {
            return Err(too_big.into());
        }
        self.scanned = end;
        Err(ArgumentStop::Wanted(0))
    }

    fn inline<'a>(
        &mut self,
        buf: &'a [u8],
        limits: &RequestLimits,
        arena: &'a Arena,
        args: &mut Vec<&'a [u8]>,
    ) -> ParseStep {
        let end = match self.find(buf, 0, b'\n', limits, ProtocolError::TooBigInline) {
            Ok(end) => end,
            Err(stop) => return self.stopped(stop),
        };
        self.scanned = 0;
        let consumed = end + 1;
        let before = args.len();
        let line = &buf[..end];
        match inline::split(line.strip_suffix(b"\r").unwrap_or(line), arena, args) {
            Ok(()) if args.len() == before => ParseStep::Empty { consumed },
            Ok(()) => ParseStep::Command { consumed },
            Err(error) => {
                args.truncate(before);
                ParseStep::Error(error)
            }
        }
    }
}

/// The arguments of a multibulk command at the start of `request`, which a parser has found whole.
pub fn whole_request(request: &[u8]) -> Vec<&[u8]> {
    let (count, start) = header(request);
    let mut args = Vec::with_capacity(count.min(request.len() / BULK_MIN_BYTES));
    args.extend(WellFormedArgs(&request[start..]).take(count));
    args
}

/// Iterates over arguments that are known to be well-formed.
struct WellFormedArgs<'a>(&'a [u8]);

impl<'a> Iterator for WellFormedArgs<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some((arg, behind)) = short_bulk(self.0) {
            self.0 = behind;
            return Some(arg);
        }
        let (len, start) = header(self.0);
        let (arg, behind) = self.0.get(start..)?.split_at_checked(len)?;
        self.0 = behind.strip_prefix(b"\r\n")?;
        Some(arg)
    }
}

/// The number in the line at the start of `text`, which is known to be well-formed, and the length
/// of the line.
fn header(text: &[u8]) -> (usize, usize) {
    let end = find_byte(text, b'\r').unwrap_or(text.len());
    let number = text.get(1..end).and_then(parse_i64).and_then(|number| number.try_into().ok());
    (number.unwrap_or(0), text.len().min(end + 2))
}

/// A whole argument of at most `SHORT_BULK_MAX_BYTES` at the start of `rest`, and the bytes after
/// it. `None` for everything else, well-formed or not: the slow path judges that.
#[inline(always)]
fn short_bulk(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, header) = short_number(rest, b'$')?;
    let (arg, behind) = rest.get(header..)?.split_at_checked(len)?;
    Some((arg, behind.strip_prefix(b"\r\n")?))
}

/// The number in the line `mark digits CR LF` at the start of `rest`, and the length of the line;
/// `None` unless it is such a line, with one to four digits. One load, then one compare for each
/// number of digits: no loop over bytes.
#[inline(always)]
fn short_number(rest: &[u8], mark: u8) -> Option<(usize, usize)> {
    const CRLF: u64 = 0x0a0d;
    let mark = u64::from(mark);
    let word = match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => short_tail(rest),
    };
    let digit = |i: u32| usize::from(((word >> (8 * i)) as u8).wrapping_sub(b'0'));
    let leads = |digit: usize| digit.wrapping_sub(1) < 9;
    // The masks keep the mark and the line end.
    if word & 0xffff_00ff == mark | CRLF << 16 {
        let ones = digit(1);
        return (ones < 10).then_some((ones, 4));
    }
    if word & 0x00ff_ff00_00ff == mark | CRLF << 24 {
        let (tens, ones) = (digit(1), digit(2));
        return (leads(tens) && ones < 10).then_some((10 * tens + ones, 5));
    }
    if word & 0xffff_0000_00ff == mark | CRLF << 32 {
        let (hundreds, tens, ones) = (digit(1), digit(2), digit(3));
        let number = 100 * hundreds + 10 * tens + ones;
        return (leads(hundreds) && tens < 10 && ones < 10).then_some((number, 6));
    }
    if word & 0x00ff_ff00_0000_00ff == mark | CRLF << 40 {
        let (thousands, hundreds, tens, ones) = (digit(1), digit(2), digit(3), digit(4));
        let number = 1000 * thousands + 100 * hundreds + 10 * tens + ones;
        return (leads(thousands) && hundreds.max(tens).max(ones) < 10).then_some((number, 7));
    }
    None
}

/// Fewer than eight bytes as a word, padded with zeros.
#[inline(always)]
fn short_tail(rest: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

/// Whether a command's name shows that a browser was made to talk to this port ("POST", "Host:"):
/// the reference logs a possible attack and closes the connection without an answer.
pub fn is_cross_protocol(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Commands as owned arguments, and the error that ended the stream.
    type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

    /// Feeds `stream`, split into chunks of the given sizes in rotation.
    fn feed(stream: &[u8], limits: &RequestLimits, chunk_sizes: &[usize]) -> Outcome {
        let mut parser = RequestParser::default();
        let (mut commands, mut start, mut end) = (Vec::new(), 0, 0);
        let mut sizes = chunk_sizes.iter().cycle();
        loop {
            let arena = Arena::new();
            let mut args = Vec::new();
            match parser.parse(&stream[start..end], limits, &arena, &mut args) {
                ParseStep::Command { consumed } => {
                    assert!(!args.is_empty() && consumed > 0);
                    commands.push(args.iter().map(|arg| arg.to_vec()).collect());
                    start += consumed;
                }
                ParseStep::Long { consumed, arg_count } => {
                    let whole = whole_request(&stream[start..start + consumed]);
                    assert!(whole.len() == arg_count && arg_count > MANY_ARGS);
                    assert_eq!(args, whole[..HEAD_ARGS]);
                    commands.push(whole.iter().map(|arg| arg.to_vec()).collect());
                    start += consumed;
                }
                ParseStep::Busy => assert!(args.is_empty()),
                ParseStep::Empty { consumed } => {
                    assert!(args.is_empty() && consumed > 0);
                    start += consumed;
                }
                ParseStep::Error(error) => {
                    assert!(args.is_empty());
                    return (commands, Some(error));
                }
                ParseStep::Incomplete { .. } if end == stream.len() => return (commands, None),
                ParseStep::Incomplete { .. } => {
                    assert!(args.is_empty());
                    end = stream.len().min(end + (*sizes.next().unwrap_or(&1)).max(1));
                }
            }
        }
    }

    /// Feeding the whole at once and byte by byte must agree.
    fn outcome(stream: &[u8], limits: &RequestLimits) -> Outcome {
        let whole = feed(stream, limits, &[usize::MAX / 2]);
        assert_eq!(whole, feed(stream, limits, &[1]), "{}", stream.escape_ascii());
        whole
    }

    fn check(stream: &[u8], expected: &[&[&[u8]]]) {
        let (commands, error) = outcome(stream, &RequestLimits::default());
        assert_eq!((commands.as_slice(), error), (to_owned(expected).as_slice(), None));
    }

    fn to_owned(commands: &[&[&[u8]]]) -> Vec<Vec<Vec<u8>>> {
        commands.iter().map(|args| args.iter().map(|arg| arg.to_vec()).collect()).collect()
    }

    fn check_error(stream: &[u8], error: ProtocolError) {
        let (_, found) = outcome(stream, &RequestLimits::default());
        assert_eq!(found, Some(error), "{}", stream[..stream.len().min(80)].escape_ascii());
    }

    fn encode(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut stream = Vec::new();
        for args in commands {
            stream.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
            for arg in args {
                stream.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
                stream.extend_from_slice(arg);
                stream.extend_from_slice(b"\r\n");
            }
        }
        stream
    }

    #[test]
    fn multibulk() {
        check(b"*1\r\n$4\r\nPING\r\n", &[&[b"PING"]]);
        check(b"*1\r\n$0\r\n\r\n", &[&[b""]]);
        check(b"*2\r\n$1\r\na\r\n$12\r\nabcdefghijkl\r\n", &[&[b"a", b"abcdefghijkl"]]);
        check(b"*0\r\n*-1\r\n*-5\r\n*-2147483649\r\nPING\r\n", &[&[b"PING"]]);
        for len in [0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10_000, 70_000] {
            let command = vec![b"SET".to_vec(), b"k".to_vec(), vec![b'v'; len]];
            let commands = vec![command.clone(), vec![b"x".to_vec(); 12], command];
            assert_eq!(outcome(&encode(&commands), &RequestLimits::default()), (commands, None));
        }
    }

    #[test]
    fn short_numbers_are_the_ones_parse_i64_takes() {
        for text in (0..10_200)
            .map(|n: i32| n.to_string())
            .chain(["01", "001", "1a", "a1", "1/1"].map(String::from))
        {
            for behind in ["", "x", "xxxxxxxx"] {
                let line = format!("${text}\r\n{behind}");
                let expected = parse_i64(text.as_bytes()).filter(|&n| n < 10_000);
                let found = short_number(line.as_bytes(), b'$');
                assert_eq!(
                    found.map(|(n, len)| (n as i64, len)),
                    expected.map(|n| (n, text.len() + 3))
                );
            }
        }
        assert_eq!(short_number(b"*1\r\n", b'$'), None);
        assert_eq!(short_number(b"$1\r", b'$'), None);
    }

    #[test]
    fn inline_commands() {
        check(b"PING\r\n\r\n \n ECHO \"a b\" c\nX", &[&[b"PING"], &[b"ECHO", b"a b", b"c"]]);
        check(b"$4\r\n", &[&[b"$4"]]);
        check(b"ECHO \"a\\\"\r\n", &[&[b"ECHO", b"a\\"]]);
        check_error(b"ECHO \"a\r\n", ProtocolError::UnbalancedQuotes);
    }

    /// Quadratic work would take hours here.
    #[test]
    fn a_byte_at_a_time_is_linear() {
        let long = vec![vec![b"SET".to_vec(), b"k".to_vec(), vec![b'v'; 1 << 20]]];
        let wide = vec![vec![b"x".to_vec(); 100_000]];
        for commands in [long, wide] {
            let found = feed(&encode(&commands), &RequestLimits::default(), &[1]);
            assert!(found == (commands, None));
        }
        let line = [b"ECHO ".as_slice(), &b"a".repeat(60_000), b"\r\n"].concat();
        assert_eq!(feed(&line, &RequestLimits::default(), &[1]).0[0][1].len(), 60_000);
    }

    #[test]
    fn many_arguments_are_gone_through_some_at_a_time() {
        let steps = |count: usize| {
            let stream = encode(&[vec![b"word".to_vec(); count], vec![b"PING".to_vec()]]);
            let (mut parser, mut calls) = (RequestParser::default(), 0);
            loop {
                calls += 1;
                let (arena, mut args) = (Arena::new(), Vec::new());
                match parser.parse(&stream, &RequestLimits::default(), &arena, &mut args) {
                    ParseStep::Busy => assert!(args.is_empty()),
                    ParseStep::Long { consumed, arg_count } => {
                        assert_eq!((consumed + 14, arg_count), (stream.len(), count));
                        assert_eq!(args, vec![b"word"; HEAD_ARGS]);
                        return (calls, true);
                    }
                    ParseStep::Command { .. } => {
                        assert_eq!(args.len(), count);
                        return (calls, false);
                    }
                    other => panic!("{other:?}"),
                }
            }
        };
        assert_eq!(steps(MANY_ARGS), (1, false));
        assert_eq!(steps(MANY_ARGS + 1), (1, true));
        assert_eq!(steps(ARGS_A_CALL), (1, true));
        assert_eq!(steps(ARGS_A_CALL + 1), (2, true));
        assert_eq!(steps(10 * ARGS_A_CALL), (10, true));
    }

    #[test]
    fn long_commands_do_not_depend_on_the_chunks() {
        let mut long = vec![b"SADD".to_vec(); MANY_ARGS + 1];
        long[7] = vec![b'v'; 12_345];
        long[MANY_ARGS] = Vec::new();
        let commands = vec![long.clone(), vec![b"PING".to_vec()], long];
        assert_eq!(
            outcome(&encode(&commands), &RequestLimits::default()),
            (commands.clone(), None)
        );
        // Where short numbers do not use the fast path.
        let limits = RequestLimits { max_inline_bytes: 6, ..RequestLimits::default() };
        let short = vec![vec![b"x".to_vec(); MANY_ARGS + 1]];
        let found = feed(&encode(&short), &limits, &[1000]);
        assert_eq!(found, (short, None));
        let mut broken = encode(&commands[..1]);
        let at = broken.len() - 4;
        broken[at] = b'x';
        check_error(&broken, ProtocolError::InvalidBulkLength);
    }

    #[test]
    fn a_long_command_says_what_it_is_likely_to_bring() {
        let stream = encode(&[vec![b"0123456789".to_vec(); 10_000]]);
        let mut parser = RequestParser::default();
        let half = stream.len() / 2;
        let step = parser.parse(
            &stream[..half],
            &RequestLimits::default(),
            &Arena::new(),
            &mut Vec::new(),
        );
        let ParseStep::Incomplete { wanted } = step else { panic!("{step:?}") };
        assert!(wanted.abs_diff(half) < 100, "{wanted} of {half}");
    }

    #[test]
    fn incomplete_says_how_much_is_wanted() {
        let wanted = |buf: &[u8]| {
            let step = RequestParser::default().parse(
                buf,
                &RequestLimits::default(),
                &Arena::new(),
                &mut Vec::new(),
            );
            match step {
                ParseStep::Incomplete { wanted } => wanted,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(wanted(b""), 0);
        assert_eq!(wanted(b"*1\r"), 1);
        assert_eq!(wanted(b"*1\r\n$10\r\nabc"), 9);
        assert_eq!(wanted(b"*1\r\n$1\r\na\r"), 1);
        assert_eq!(wanted(b"*1\r\n$536870912\r\n"), 536_870_914);
    }

    // Each result was read off valkey-server 9.1.2.
    #[test]
    fn bad_counts() {
        for text in
            ["", "+1", "01", " 1", "1 ", "a", "1a", "-0", "2147483648", "-99999999999999999999"]
        {
            let stream = format!("*{text}\r\n$4\r\nPING\r\n");
            check_error(stream.as_bytes(), ProtocolError::InvalidMultibulkLength);
        }
        check(b"*2147483647\r\n", &[]);
        for text in ["", "-1", "+4", "04", "a", "-0", "536870913", "99999999999999999999"] {
            let stream = format!("*1\r\n${text}\r\nPING\r\n");
            check_error(stream.as_bytes(), ProtocolError::InvalidBulkLength);
        }
    }

    #[test]
    fn bad_bytes() {
        for stream in [
            b"*1\r$4\r\nPING\r\n".as_slice(),
            b"*a\rx",
            b"*0\rx",
            b"*1\r\n$4\rxPING\r\n",
            b"*1\r\n$1000000000\rx",
            b"*1\r\n$4\r\nPINGxx",
            b"*1\r\n$4\r\nPING\rx",
        ] {
            check_error(stream, ProtocolError::InvalidLineEnd);
        }
        check(b"*1\n$4\nPING\n", &[]);
        check(b"*1\r\nxxxxx", &[]);
        check_error(b"*1\r\nx4\r\n", ProtocolError::ExpectedDollar(b'x'));
        check_error(b"*1\r\nx4\rx", ProtocolError::ExpectedDollar(b'x'));
        check_error(b"*1\r\n\r\n4\r\n", ProtocolError::ExpectedDollar(b'\r'));
        check_error(b"*1\r\n4\r\n", ProtocolError::ExpectedDollar(b'4'));
    }

    #[test]
    fn lines_too_long() {
        let ones = |before: &[u8], count: usize| [before, &b"1".repeat(count)].concat();
        check(&ones(b"*", 65_535), &[]);
        check_error(&ones(b"*", 65_536), ProtocolError::TooBigCount);
        check(&ones(b"*1\r\n$", 65_535), &[]);
        check_error(&ones(b"*1\r\n$", 65_536), ProtocolError::TooBigBulkCount);
        check(&ones(b"", 65_536), &[]);
        check_error(&ones(b"", 65_537), ProtocolError::TooBigInline);
        check_error(&[ones(b"", 65_537), b"\n".to_vec()].concat(), ProtocolError::TooBigInline);
        check(&[ones(b"", 65_536), b"\n".to_vec()].concat(), &[&[&ones(b"", 65_536)]]);
    }

    #[test]
    fn before_authentication() {
        let limits = RequestLimits { authenticated: false, ..RequestLimits::default() };
        let error = |stream: &[u8]| outcome(stream, &limits).1;
        assert_eq!(error(b"*10\r\n"), None);
        assert_eq!(error(b"*11\r\n"), Some(ProtocolError::UnauthenticatedMultibulkLength));
        assert_eq!(error(b"*2147483648\r\n"), Some(ProtocolError::InvalidMultibulkLength));
        assert_eq!(error(b"*1\r\n$16384\r\n"), None);
        assert_eq!(error(b"*1\r\n$16385\r\n"), Some(ProtocolError::UnauthenticatedBulkLength));
        assert_eq!(error(b"*1\r\n$536870913\r\n"), Some(ProtocolError::InvalidBulkLength));
        assert_eq!(outcome(b"*1\r\n$4\r\nPING\r\n", &limits).0, to_owned(&[&[b"PING"]]));
    }

    #[test]
    fn error_replies() {
        let reply = |error: ProtocolError| {
            let mut out = Vec::new();
            error.push_reply(&mut out);
            out
        };
        let text = b"-ERR Protocol error: invalid CRLF in request\r\n";
        assert_eq!(reply(ProtocolError::InvalidLineEnd), text);
        let text = b"-ERR Protocol error: expected '$', got ' '\r\n";
        assert_eq!(reply(ProtocolError::ExpectedDollar(b'\r')), text);
        let text = b"-ERR Protocol error: expected '$', got '\xff'\r\n";
        assert_eq!(reply(ProtocolError::ExpectedDollar(0xff)), text);
    }

    #[test]
    fn browsers() {
        assert!(is_cross_protocol(b"POST") && is_cross_protocol(b"host:"));
        assert!(!is_cross_protocol(b"GET"));
    }

    #[test]
    fn the_state_of_a_connection_is_small() {
        assert!(size_of::<RequestParser>() <= 24);
    }

    proptest! {
        #[test]
        fn any_commands_in_any_chunks(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..130), 1..14), 0..6),
            chunks in prop::collection::vec(1usize..40, 1..8),
        ) {
            let found = feed(&encode(&commands), &RequestLimits::default(), &chunks);
            prop_assert_eq!(found, (commands, None));
        }

        #[test]
        fn any_bytes_in_any_chunks(
            stream in "([*$][0-9]{0,2}|\r\n|\r|\n|[a-c \"'\\\\x]|\\*2\r\n\\$1\r\nz\r\n){0,40}",
            chunks in prop::collection::vec(1usize..9, 1..8),
        ) {
            let limits = RequestLimits { max_inline_bytes: 12, ..RequestLimits::default() };
            let whole = feed(stream.as_bytes(), &limits, &[usize::MAX / 2]);
            prop_assert_eq!(whole, feed(stream.as_bytes(), &limits, &chunks));
        }
    }
}
