//! Cuts the stream of a primary into steps: single commands, and MULTI ... EXEC as a whole.
//!
//! ```text
//! window   | whole step | whole step | half a step      | room
//!          0                         whole        `at`  filled
//! ```
//!
//! Bytes are read into the free room, so only an incomplete step is copied, to the start of the
//! window. An incomplete step is not parsed again when more of it arrives: the work is linear.
//!
//! Tests: at the foot.

use std::fmt;
use std::ops::Range;

/// The longest line of a number, including its mark and its end.
const MOST_NUMBER_BYTES: usize = 22;
/// More arguments than a command can have.
const MOST_ARGS: u64 = i32::MAX as u64;
/// The longest argument; servers take no longer ones from clients.
const MOST_ARG_BYTES: u64 = 4 << 30;
const _: () = assert!(MOST_ARG_BYTES < usize::MAX as u64 / 2, "no sum of lengths overflows");

/// A window above this size is not kept for the next steps.
const KEPT_BYTES: usize = 1 << 20;

/// Invalid bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedStream {
    /// Their offset, counted from the first byte given to the cutter.
    pub offset: u64,
    /// What the protocol requires there.
    pub expected: &'static str,
}

impl fmt::Display for MalformedStream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "byte {} of the stream: expected {}", self.offset, self.expected)
    }
}

impl std::error::Error for MalformedStream {}

/// Splits the received stream into whole steps.
#[derive(Debug, Default)]
pub struct Cutter {
    /// Received bytes, and room for more.
    window: Vec<u8>,
    /// How many bytes of the window are filled.
    filled: usize,
    /// How many bytes were removed before the window.
    before: u64,
    /// Everything before this was parsed.
    at: usize,
    /// The end of the whole steps.
    whole: usize,
    /// The arguments of all commands since the start of the window.
    args: Vec<Range<usize>>,
    /// The end of each command in `args`.
    ends: Vec<usize>,
    /// The whole steps.
    steps: Vec<Part>,
    /// How many arguments the current command still lacks.
    missing: usize,
    /// The index in `ends` of a MULTI without its EXEC.
    multi: Option<usize>,
}

#[derive(Clone, Debug)]
struct Part {
    commands: Range<usize>,
    is_transaction: bool,
}

/// A step of the stream.
#[derive(Clone, Copy, Debug)]
pub struct CutStep<'c> {
    cutter: &'c Cutter,
    part: &'c Part,
}

impl<'c> CutStep<'c> {
    /// Whether it is enclosed in MULTI and EXEC.
    pub fn is_transaction(&self) -> bool {
        self.part.is_transaction
    }

    /// Its commands, without MULTI and EXEC: each a list of at least one argument.
    pub fn commands(
        &self,
    ) -> impl ExactSizeIterator<Item = impl Iterator<Item = &'c [u8]> + use<'c>> + use<'c> {
        let cutter = self.cutter;
        self.part.commands.clone().map(move |command| {
            let from = command.checked_sub(1).map_or(0, |before| cutter.ends[before]);
            let args = &cutter.args[from..cutter.ends[command]];
            args.iter().map(move |arg| &cutter.window[arg.clone()])
        })
    }
}

impl Cutter {
    /// Adds bytes of the stream.
    pub fn add(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.added(bytes.len());
    }

    /// Free room for at least `least` bytes of the stream; [`Cutter::added`] reports how many came.
    pub fn room(&mut self, least: usize) -> &mut [u8] {
        if self.window.len() - self.filled < least {
            self.window.resize(self.filled + least, 0);
        }
        &mut self.window[self.filled..]
    }

    /// Reports that this many bytes were written into the room.
    pub fn added(&mut self, bytes: usize) {
        self.filled += bytes;
        debug_assert!(self.filled <= self.window.len(), "they had room");
    }

    /// Cuts the received bytes into steps.
    ///
    /// # Errors
    /// The bytes are not commands; none of them must be used.
    pub fn cut(&mut self) -> Result<(), MalformedStream> {
        while self.command()? {
            self.take_command()?;
        }
        self.check();
        Ok(())
    }

    /// Asserts in debug builds that all offsets are in order.
    fn check(&self) {
        debug_assert!(self.whole <= self.at, "whole steps were parsed");
        debug_assert!(self.at <= self.filled && self.filled <= self.window.len(), "bytes came");
        debug_assert!(self.ends.is_sorted(), "a command is after the one before");
        debug_assert!(self.ends.last().is_none_or(|end| *end <= self.args.len()), "of arguments");
        debug_assert!(self.args.last().is_none_or(|arg| arg.end <= self.at), "they were parsed");
        debug_assert!(self.multi.is_none_or(|multi| multi < self.ends.len()), "it is a command");
        let last = self.steps.last();
        debug_assert!(last.is_none_or(|step| step.commands.end <= self.ends.len()), "whole");
        debug_assert!(last.is_some() || self.whole == 0, "whole bytes are of steps");
    }

    /// The whole steps.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = CutStep<'_>> {
        self.steps.iter().map(|part| CutStep { cutter: self, part })
    }

    /// The whole step with this index.
    pub fn step(&self, number: usize) -> CutStep<'_> {
        CutStep { cutter: self, part: &self.steps[number] }
    }

    /// The bytes of the whole steps, as received.
    pub fn whole(&self) -> &[u8] {
        &self.window[..self.whole]
    }

    /// Bytes of the incomplete step.
    pub fn rest_bytes(&self) -> usize {
        self.filled - self.whole
    }

    /// Drops the whole steps.
    pub fn forget_whole(&mut self) {
        if self.whole == 0 {
            return;
        }
        let commands = self.steps.last().map_or(0, |_| self.multi.unwrap_or(self.ends.len()));
        let args = commands.checked_sub(1).map_or(0, |last| self.ends[last]);
        let bytes = self.whole;
        debug_assert!(
            self.args[args..].iter().all(|arg| arg.start >= bytes),
            "what is left is of the rest"
        );
        self.window.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        if self.window.len() > KEPT_BYTES && self.filled < KEPT_BYTES {
            // A long step was there.
            self.window.truncate(KEPT_BYTES);
            self.window.shrink_to(KEPT_BYTES);
        }
        self.args.drain(..args);
        self.args.iter_mut().for_each(|arg| *arg = arg.start - bytes..arg.end - bytes);
        self.ends.drain(..commands);
        self.ends.iter_mut().for_each(|end| *end -= args);
        self.multi = self.multi.map(|multi| multi - commands);
        self.before += bytes as u64;
        self.at -= bytes;
        self.whole = 0;
        self.steps.clear();
        self.check();
    }

    /// Continues the current command; returns whether it is whole.
    fn command(&mut self) -> Result<bool, MalformedStream> {
        if self.missing == 0 {
            let Some((count, next)) = self.number(b'*', "'*' and a number of arguments")? else {
                return Ok(false);
            };
            if count == 0 || count > MOST_ARGS {
                return Err(self.broken("a command of one argument at least"));
            }
            (self.missing, self.at) = (count as usize, next);
        }
        while self.missing > 0 {
            let Some((len, begin)) = self.number(b'$', "'$' and the length of an argument")? else {
                return Ok(false);
            };
            if len > MOST_ARG_BYTES {
                return Err(self.broken("an argument of a length that can be"));
            }
            let end = begin + len as usize;
            match self.window[..self.filled].get(end..end + 2) {
                None => return Ok(false),
                Some(b"\r\n") => {}
                Some(_) => return Err(self.broken("CR and LF after an argument")),
            }
            self.args.push(begin..end);
            (self.missing, self.at) = (self.missing - 1, end + 2);
        }
        self.ends.push(self.args.len());
        Ok(true)
    }

    /// Adds a command that has become whole to its step.
    fn take_command(&mut self) -> Result<(), MalformedStream> {
        let number = self.ends.len() - 1;
        let from = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let is_single = self.args.len() == from + 1;
        let name = &self.window[self.args[from].clone()];
        let is = |word: &[u8]| is_single && name.eq_ignore_ascii_case(word);
        let part = match (self.multi, is(b"MULTI"), is(b"EXEC")) {
            (None, true, _) => {
                self.multi = Some(number);
                return Ok(());
            }
            (Some(_), true, _) => return Err(self.broken("EXEC before the next MULTI")),
            (None, _, true) => return Err(self.broken("MULTI before EXEC")),
            (Some(_), _, false) => return Ok(()),
            (Some(multi), _, true) => Part { commands: multi + 1..number, is_transaction: true },
            (None, _, _) => Part { commands: number..number + 1, is_transaction: false },
        };
        self.multi = None;
        self.steps.push(part);
        self.whole = self.at;
        Ok(())
    }

    /// Parses a mark, a number, CR and LF at `at`; returns the number and the offset after it.
    #[inline]
    fn number(
        &self,
        mark: u8,
        what: &'static str,
    ) -> Result<Option<(u64, usize)>, MalformedStream> {
        let rest = &self.window[self.at..self.filled];
        match short_number(rest, mark) {
            Some((number, bytes)) => Ok(Some((number, self.at + bytes))),
            None => self.any_number(rest, mark, what),
        }
    }

    /// As `number`, for a number that is long, incomplete or invalid.
    #[cold]
    fn any_number(
        &self,
        rest: &[u8],
        mark: u8,
        what: &'static str,
    ) -> Result<Option<(u64, usize)>, MalformedStream> {
        let looked = &rest[..rest.len().min(MOST_NUMBER_BYTES)];
        if looked.first().is_some_and(|first| *first != mark) {
            return Err(self.broken(what));
        }
        let Some(end) = looked.iter().position(|byte| *byte == b'\n') else {
            return match looked.len() < MOST_NUMBER_BYTES {
                true => Ok(None),
                false => Err(self.broken(what)),
            };
        };
        let digits = looked[1..end].strip_suffix(b"\r").filter(|digits| !digits.is_empty());
        let is_number = |digits: &&[u8]| digits.iter().all(u8::is_ascii_digit);
        let digits = digits.filter(is_number).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| digits.parse().ok());
        number.map(|number| Some((number, self.at + end + 1))).ok_or_else(|| self.broken(what))
    }

    #[cold]
    fn broken(&self, expected: &'static str) -> MalformedStream {
        MalformedStream { offset: self.before + self.at as u64, expected }
    }
}

/// Parses a mark, up to four digits, CR and LF; returns the number and how many bytes that are.
#[inline]
fn short_number(rest: &[u8], mark: u8) -> Option<(u64, usize)> {
    let (first, digits) = rest.split_first()?;
    if *first != mark {
        return None;
    }
    let mut number = 0;
    for (at, byte) in digits.iter().enumerate().take(5) {
        match byte {
            b'0'..=b'9' => number = number * 10 + u64::from(byte - b'0'),
            b'\r' if at > 0 && digits.get(at + 1) == Some(&b'\n') => return Some((number, at + 3)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps as text: commands separated by `|`, transactions in braces.
    fn shown(cutter: &Cutter) -> Vec<String> {
        let show = |step: CutStep<'_>| {
            let commands = step.commands().map(|args| {
                let args: Vec<_> = args.map(|arg| String::from_utf8_lossy(arg)).collect();
                args.join(" ")
            });
            let text = commands.collect::<Vec<_>>().join("|");
            if step.is_transaction() { format!("{{{text}}}") } else { text }
        };
        cutter.steps().map(show).collect()
    }

    const STREAM: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\
        \r\n\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n*2\r\n$4\r\nINCR\r\n$1\r\nc\r\n\
        *1\r\n$4\r\nexec\r\n*1\r\n$4\r\nPING\r\n";
    const STEPS: [&str; 4] = ["SELECT 3", "SET a \r\n", "{DEL b|INCR c}", "PING"];

    #[test]
    fn any_pieces_give_the_same_steps_and_the_same_bytes() {
        for size in 1..=STREAM.len() {
            for forgets in [false, true] {
                let (mut cutter, mut steps, mut bytes) = (Cutter::default(), vec![], vec![]);
                for piece in STREAM.chunks(size) {
                    // More room than is used.
                    cutter.room(size + 100)[..piece.len()].copy_from_slice(piece);
                    cutter.added(piece.len());
                    cutter.cut().expect("a stream");
                    if forgets {
                        steps.extend(shown(&cutter));
                        bytes.extend_from_slice(cutter.whole());
                        cutter.forget_whole();
                    }
                }
                steps.extend(shown(&cutter));
                bytes.extend_from_slice(cutter.whole());
                assert_eq!(steps, STEPS, "{size} {forgets}");
                assert_eq!(bytes, STREAM, "{size} {forgets}");
                assert_eq!(cutter.rest_bytes(), 0);
            }
        }
    }

    #[track_caller]
    fn check(bytes: &[u8], offset: u64, expected: &str) {
        for size in 1..=bytes.len() {
            let mut cutter = Cutter::default();
            let mut pieces = bytes.chunks(size);
            let broken = pieces.find_map(|piece| {
                cutter.add(piece);
                let broken = cutter.cut().err();
                cutter.forget_whole();
                broken
            });
            let broken = broken.expect("an error");
            assert_eq!((broken.offset, broken.expected), (offset, expected), "{size}");
        }
    }

    #[test]
    fn what_is_no_stream_is_told_with_its_place() {
        check(b"hello\r\n", 0, "'*' and a number of arguments");
        check(b"*1\r\n$4\r\nPING\r\n\n", 14, "'*' and a number of arguments");
        check(b"*0\r\n", 0, "a command of one argument at least");
        check(b"*-1\r\n", 0, "'*' and a number of arguments");
        check(b"*99999999999\r\n", 0, "a command of one argument at least");
        check(b"*1111111111111111111111111", 0, "'*' and a number of arguments");
        check(b"*1\r\n:1\r\n", 4, "'$' and the length of an argument");
        check(b"*1\r\n$99999999999\r\n", 4, "an argument of a length that can be");
        check(b"*1\r\n$1\r\nabc", 4, "CR and LF after an argument");
        check(b"*1\r\n$4\r\nEXEC\r\n", 14, "MULTI before EXEC");
        let twice = b"*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n";
        check(twice, 30, "EXEC before the next MULTI");
    }

    #[test]
    fn a_promise_takes_no_memory() {
        let mut cutter = Cutter::default();
        cutter.add(b"*2147483647\r\n$4294967296\r\nx");
        cutter.cut().expect("it may come");
        assert_eq!(shown(&cutter), [""; 0]);
        assert!(cutter.args.capacity() < 16 && cutter.window.capacity() < 1024);
    }
}
