//! Reads a file of steps, to its end or to where it breaks.
//!
//! ```text
//! ... step | step | half a step                     torn: what a crash leaves. It can be cut off.
//! ... step | step | half a step, or none | zeros    torn too: the length arrived before the bytes
//! ... step | step | damage | step | step            not to be cut: what follows would be lost
//! ```
//!
//! Invariants
//! 1. Only the end of a file can be torn. A length that reaches beyond the end is damage if
//!    complete steps follow up to the end, or up to a torn last step. If anything else follows
//!    those steps, all of it is bytes of the torn value.
//! 2. The window holds one step, or a bounded part of a broken file.
//!
//! Not here: which files there are (`files`), running the steps (`replay`). Tests: at the foot.

use std::fmt;
use std::io::{self, Read};

use super::steps::{self, AofDamage, AofStep, Item};

/// The initial size of the window.
const WINDOW_BYTES: usize = 256 << 10;
/// How many bytes are searched together after half a step.
const SEARCH_BYTES: usize = 1 << 20;
/// The longest line of a number, including its mark and its end.
const MAX_LINE_BYTES: usize = 22;
/// The longest step that the search recognises as the first.
const SEARCH_OVERLAP_BYTES: usize = 4 << 10;
const _: () = assert!(MAX_LINE_BYTES < SEARCH_OVERLAP_BYTES && SEARCH_OVERLAP_BYTES < SEARCH_BYTES);

/// Reads a file of steps, one step at a time.
pub struct StepReader {
    input: Box<dyn Read + Send>,
    window: Vec<u8>,
    /// Where in the window the next item starts.
    begin: usize,
    /// The file offset of `begin`.
    offset: u64,
    file_bytes: u64,
    step: AofStep,
    step_bytes: usize,
    /// A step read by [`StepReader::look_ahead`].
    ahead: AofStep,
}

/// What the reader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepRead {
    /// A step: [`StepReader::step`].
    Step,
    /// An annotation: [`StepReader::annotation`].
    Annotation,
    /// The file ends where a step ended.
    End,
    /// The file ends inside a step.
    Torn(TornTail),
}

/// An incomplete step at the end of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The end of the last whole step: the file is whole up to here.
    pub offset: u64,
    /// How many bytes follow it.
    pub bytes: u64,
    /// What those bytes are.
    pub what: &'static str,
}

const IN_COMMAND: &str = "the file ends inside a command";
const IN_TRANSACTION: &str = "the file ends inside a transaction";

impl TornTail {
    /// Whether commands of a transaction are whole, and its end is missing.
    pub fn is_in_transaction(&self) -> bool {
        self.what == IN_TRANSACTION
    }
}

impl fmt::Display for TornTail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "offset {}: {} ({} bytes)", self.offset, self.what, self.bytes)
    }
}

/// Why reading stopped.
#[derive(Debug)]
pub enum ReadError {
    /// The operating system reports an error.
    Disk(io::Error),
    /// The file is damaged before its end.
    Damage(AofDamage),
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Disk(error) => write!(out, "{error}"),
            ReadError::Damage(damage) => write!(out, "{damage}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Disk(error)
    }
}

impl StepReader {
    /// A reader for the rest of a file: `ahead`, which begins at `offset`, and then `input`. The
    /// whole file has `file_bytes` bytes.
    pub fn new(input: Box<dyn Read + Send>, ahead: Vec<u8>, offset: u64, file_bytes: u64) -> Self {
        let (step, step_bytes) = (AofStep::default(), 0);
        let window = ahead;
        let ahead = AofStep::default();
        StepReader { input, window, begin: 0, offset, file_bytes, step, step_bytes, ahead }
    }

    /// Reads the next item. After [`StepRead::End`] a file that has grown can be read on
    /// ([`StepReader::grown`]).
    ///
    /// # Errors
    /// See [`ReadError`]. The reader must not be used afterwards.
    #[expect(clippy::should_implement_trait, reason = "what was found borrows from the reader")]
    pub fn next(&mut self) -> Result<StepRead, ReadError> {
        self.begin += std::mem::take(&mut self.step_bytes);
        debug_assert!(self.begin <= self.window.len(), "what was found was read");
        loop {
            let window = &self.window[self.begin..];
            match steps::next(window, &mut self.step) {
                Ok(Item::Step { bytes }) => return Ok(self.found(StepRead::Step, bytes)),
                Ok(Item::Annotation { bytes }) => {
                    return Ok(self.found(StepRead::Annotation, bytes));
                }
                Ok(Item::More { bytes, command_at }) => {
                    let have = window.len() as u64;
                    let end = self.offset.saturating_add(have).saturating_add(bytes);
                    if end <= self.file_bytes && self.fill(bytes)? {
                        continue;
                    }
                    return match (have, self.file_bytes.saturating_sub(self.offset)) {
                        (0, 0) => Ok(StepRead::End),
                        _ => self.half_a_step(command_at),
                    };
                }
                Err(damage) => return self.damaged(damage),
            }
        }
    }

    fn found(&mut self, found: StepRead, bytes: usize) -> StepRead {
        debug_assert!(self.begin + bytes <= self.window.len(), "it was read");
        self.step_bytes = bytes;
        self.offset += bytes as u64;
        found
    }

    /// The last step found.
    pub fn step(&self) -> &AofStep {
        &self.step
    }

    /// The window that [`AofStep::commands`] needs.
    pub fn window(&self) -> &[u8] {
        &self.window[self.begin..]
    }

    /// Looks at items after the last one found, as far as they are in the window, until about
    /// `commands` commands were seen. `see` gets the first argument of each, which mostly is a key.
    /// Returns the number of items.
    pub fn look_ahead(&mut self, commands: usize, see: &mut dyn FnMut(&[u8])) -> usize {
        let mut at = self.begin + self.step_bytes;
        let (mut items, mut seen) = (0, 0);
        while seen < commands
            && let Ok(Item::Step { bytes } | Item::Annotation { bytes }) =
                steps::next(&self.window[at..], &mut self.ahead)
        {
            let firsts = self.ahead.commands(&self.window[at..]).filter_map(|mut args| args.nth(1));
            firsts.take(commands - seen).for_each(&mut *see);
            seen += self.ahead.len().max(1);
            debug_assert!(at + bytes <= self.window.len(), "it was read");
            (items, at) = (items + 1, at + bytes);
        }
        items
    }

    /// The last annotation found, without `#` and line end.
    pub fn annotation(&self) -> &[u8] {
        let line = &self.window[self.begin..self.begin + self.step_bytes];
        line.strip_prefix(b"#").unwrap_or(line).trim_ascii_end()
    }

    /// The end of the last item found; before the first, where reading began.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The start of the last item found.
    pub fn begin_offset(&self) -> u64 {
        debug_assert!(self.step_bytes as u64 <= self.offset, "the step was counted");
        self.offset - self.step_bytes as u64
    }

    /// Tells the reader that the file has grown to this many bytes.
    pub fn grown(&mut self, file_bytes: u64) {
        self.file_bytes = file_bytes;
    }

    /// Reads at least `bytes` bytes after the window; false if the file ends before.
    fn fill(&mut self, bytes: u64) -> io::Result<bool> {
        if self.begin > 0 {
            self.window.drain(..self.begin);
            self.begin = 0;
        }
        // Twice as many as last time, so that a long step is not parsed again and again.
        let have = self.window.len();
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX).max(have).max(WINDOW_BYTES);
        let mut input = (&mut self.input).take(wanted as u64);
        let got = input.read_to_end(&mut self.window)?;
        Ok(got as u64 >= bytes)
    }

    /// Handles an incomplete step at the end of the file.
    #[cold]
    fn half_a_step(&mut self, command_at: usize) -> Result<StepRead, ReadError> {
        let offset = self.offset;
        let command = offset + command_at as u64;
        self.begin += command_at;
        if let Some(found) = self.find_steps(command)? {
            let damage = AofDamage {
                offset: command,
                expected: "a command that ends before the next one begins",
                found: format!("a length that reaches behind the command at offset {found}"),
            };
            return Err(ReadError::Damage(damage));
        }
        let bytes = self.file_bytes.saturating_sub(offset);
        let what = match command_at {
            0 => IN_COMMAND,
            _ => IN_TRANSACTION,
        };
        Ok(StepRead::Torn(TornTail { offset, bytes, what }))
    }

    /// Handles invalid bytes. If only zeros follow, a crash has left them.
    #[cold]
    fn damaged(&mut self, mut damage: AofDamage) -> Result<StepRead, ReadError> {
        if self.pass_zeros(damage.offset as usize)?.ends_file {
            let bytes = self.file_bytes.saturating_sub(self.offset);
            let what = "the file ends with zeros";
            return Ok(StepRead::Torn(TornTail { offset: self.offset, bytes, what }));
        }
        damage.offset += self.offset;
        Err(ReadError::Damage(damage))
    }

    /// Skips zeros that begin at this place in the window, or inside the number or line end there.
    /// Zeros that may belong to a value of a later step stay.
    fn pass_zeros(&mut self, at: usize) -> io::Result<SkippedBytes> {
        let none = SkippedBytes { bytes: 0, ends_file: false };
        let line = self.window().iter().skip(at).take(MAX_LINE_BYTES);
        let Some(first) = line.copied().position(|byte| byte == 0) else { return Ok(none) };
        let first = at + first;
        let missing = (first + SEARCH_OVERLAP_BYTES).saturating_sub(self.window().len());
        if missing > 0 {
            self.fill(missing as u64)?;
        }
        let is_zero = |&byte: &u8| byte == 0;
        if !self.window()[first..].iter().take(SEARCH_OVERLAP_BYTES).all(is_zero) {
            return Ok(none);
        }
        self.begin += first;
        let mut bytes = first as u64;
        loop {
            let rest = self.window();
            let (zeros, have) = (rest.iter().take_while(|byte| is_zero(byte)).count(), rest.len());
            self.begin += zeros;
            bytes += zeros as u64;
            if zeros < have || !self.fill(1)? {
                return Ok(SkippedBytes { bytes, ends_file: zeros == have });
            }
        }
    }

    /// The offset of the first of the steps with which the file ends, whole or torn, after the
    /// start of the window, which is at `offset`.
    fn find_steps(&mut self, mut offset: u64) -> io::Result<Option<u64>> {
        loop {
            let wanted = SEARCH_BYTES + SEARCH_OVERLAP_BYTES;
            let missing = wanted.saturating_sub(self.window().len());
            let is_last = missing > 0 && !self.fill(missing as u64)?;
            let window = &self.window[self.begin..];
            match step_behind(window, &mut self.step) {
                Some(at) => {
                    self.begin += at;
                    offset += at as u64;
                    let Some(passed) = self.pass_steps(offset)? else { return Ok(Some(offset)) };
                    offset += passed;
                }
                None if is_last => return Ok(None),
                None => {
                    let passed = window.len() - SEARCH_OVERLAP_BYTES;
                    self.begin += passed;
                    offset += passed as u64;
                }
            }
        }
    }

    /// Skips steps from the start of the window, which is at `offset`; returns how many bytes, or
    /// `None` if the file ends with them.
    fn pass_steps(&mut self, offset: u64) -> io::Result<Option<u64>> {
        let mut passed = 0;
        loop {
            let window = &self.window[self.begin..];
            match steps::next(window, &mut self.step) {
                Ok(Item::Step { bytes } | Item::Annotation { bytes }) => {
                    self.begin += bytes;
                    passed += bytes as u64;
                }
                Ok(Item::More { bytes, .. }) => {
                    let end = (offset + passed + window.len() as u64).saturating_add(bytes);
                    if end > self.file_bytes || !self.fill(bytes)? {
                        return Ok(None);
                    }
                }
                Err(damage) => {
                    let zeros = self.pass_zeros(damage.offset as usize)?;
                    return Ok((!zeros.ends_file).then_some(passed + zeros.bytes));
                }
            }
        }
    }
}

/// Bytes that were skipped.
struct SkippedBytes {
    bytes: u64,
    /// Whether the file ends there.
    ends_file: bool,
}

/// The offset of a whole step whose name is letters, at the start of a line that is not the first.
fn step_behind(window: &[u8], step: &mut AofStep) -> Option<usize> {
    /// A number of arguments may stand wherever a value contains one; this many are tried.
    const MAX_TRIES: usize = 10_000;
    let ends = window.windows(3).enumerate().filter(|(_, bytes)| bytes == b"\r\n*");
    for (at, _) in ends.take(MAX_TRIES) {
        let rest = &window[at + 2..];
        let rest = &rest[..rest.len().min(SEARCH_OVERLAP_BYTES)];
        if matches!(steps::next(rest, step), Ok(Item::Step { .. })) {
            let name = step.commands(rest).next().and_then(|mut args| args.next());
            let is_name = |name: &[u8]| !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
            if name.is_none_or(is_name) {
                return Some(at + 2);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that gives a few bytes at a time.
    struct Slow(Vec<u8>, usize);

    impl Read for Slow {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let len = out.len().min(3).min(self.0.len() - self.1);
            out[..len].copy_from_slice(&self.0[self.1..self.1 + len]);
            self.1 += len;
            Ok(len)
        }
    }

    fn read(file: &[u8]) -> String {
        let input = Box::new(Slow(file.to_vec(), 0));
        let mut reader = StepReader::new(input, Vec::new(), 0, file.len() as u64);
        let mut text = String::new();
        loop {
            match reader.next() {
                Ok(StepRead::Step) => text += &format!("{}-", reader.begin_offset()),
                Ok(StepRead::Annotation) => {
                    text += &format!("#{}-", String::from_utf8_lossy(reader.annotation()));
                }
                Ok(StepRead::End) => return format!("{text}{} end", reader.offset()),
                Ok(StepRead::Torn(torn)) => return format!("{text}{torn}"),
                Err(error) => return format!("{text}{error}"),
            }
        }
    }

    #[track_caller]
    fn check(file: &str, expected: &str) {
        assert_eq!(read(file.as_bytes()), expected, "{file:?}");
    }

    const MULTI: &str = "*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &str = "*1\r\n$4\r\nEXEC\r\n";
    const DEL: &str = "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";

    #[test]
    fn a_whole_file_is_read_to_its_end() {
        check("", "0 end");
        check(&format!("{DEL}#TS:12\r\n{MULTI}{DEL}{EXEC}"), "0-#TS:12-28-77 end");
    }

    #[test]
    fn what_comes_is_seen_as_far_as_it_is_in_the_window() {
        let file = format!("{DEL}#TS:12\r\n{MULTI}{DEL}{DEL}{EXEC}{DEL}{MULTI}{DEL}");
        let input = Box::new(io::empty());
        let mut reader = StepReader::new(input, file.clone().into_bytes(), 0, file.len() as u64);
        let look = |reader: &mut StepReader, most| {
            let mut keys = 0;
            let items = reader.look_ahead(most, &mut |key| {
                assert_eq!(key, b"k");
                keys += 1;
            });
            (items, keys)
        };
        assert_eq!(look(&mut reader, 9), (4, 4), "half a step is none");
        assert_eq!(look(&mut reader, 3), (3, 2), "an annotation counts as a command");
        assert_eq!(look(&mut reader, 1), (1, 1));
        assert!(matches!(reader.next(), Ok(StepRead::Step)));
        assert_eq!(look(&mut reader, 9), (3, 3));
        assert!(matches!(reader.next(), Ok(StepRead::Annotation)));
        assert!(matches!(reader.next(), Ok(StepRead::Step)));
        assert_eq!((reader.step().len(), look(&mut reader, 9)), (2, (1, 1)));
    }

    #[test]
    fn half_a_step_at_the_end_is_torn() {
        let file = format!("{DEL}{MULTI}{DEL}{DEL}{EXEC}");
        for cut in 0..file.len() {
            let found = read(&file.as_bytes()[..cut]);
            let inside = match cut {
                0 => "0 end".to_owned(),
                1..20 => format!("offset 0: the file ends inside a command ({cut} bytes)"),
                20 => "0-20 end".to_owned(),
                21..35 => {
                    format!("0-offset 20: the file ends inside a command ({} bytes)", cut - 20)
                }
                _ => {
                    format!("0-offset 20: the file ends inside a transaction ({} bytes)", cut - 20)
                }
            };
            assert_eq!(found, inside, "{cut}");
        }
    }

    #[test]
    fn zeros_at_the_end_are_torn() {
        let zeros = "\0".repeat(1000);
        check(&format!("{DEL}{zeros}"), "0-offset 20: the file ends with zeros (1000 bytes)");
        let value = format!("{DEL}*2\r\n$3\r\nDEL\r\n$9\r\nab{zeros}");
        check(&value, "0-offset 20: the file ends with zeros (1019 bytes)");
        let number = format!("{DEL}*2\r\n$3{zeros}");
        check(&number, "0-offset 20: the file ends with zeros (1006 bytes)");
        let not_all = format!("{DEL}{zeros}x");
        assert!(read(not_all.as_bytes()).starts_with("0-offset 20: expected a command"));
    }

    #[test]
    fn a_length_that_hides_what_follows_is_damage() {
        let expected = "0-offset 20: expected a command that ends before the next one begins, \
                        found a length that reaches behind the command at offset 43";
        let wrong = "*2\r\n$3\r\nDEL\r\n$9000000\r\n";
        check(&format!("{DEL}{wrong}{DEL}{DEL}"), expected);
        let long = read(format!("{DEL}{MULTI}{wrong}{}\r\n{DEL}", "x".repeat(3 << 20)).as_bytes());
        let place = |offset: usize| format!("the command at offset {offset}");
        assert!(long.ends_with(&place(20 + 15 + 23 + (3 << 20) + 2)), "{long}");
    }

    #[test]
    fn commands_inside_a_torn_value_are_no_damage() {
        let ping = "\r\n*1\r\n$4\r\nPING\r\n";
        let begin = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000000\r\nab";
        let check_torn = |value: &str| {
            let torn = format!("{begin}{value}");
            let what = "the file ends inside a command";
            let expected = format!("0-offset 20: {what} ({} bytes)", torn.len());
            check(&format!("{DEL}{torn}"), &expected);
        };
        check_torn(&format!("{ping}text"));
        check_torn(&format!("{ping}{DEL}text{ping}{ping}text"));
        check_torn(&format!("{}text", ping.repeat(99)));
        let long = "x".repeat(3 << 20);
        check_torn(&format!("{ping}{long}{ping}{long}"));
        check_torn(&format!("{ping}*1\r\n$5000000\r\n{long}{ping}{long}"));
        check_torn(&format!("{ping}\0text"));
        check_torn(&format!("{ping}{}text", "\0".repeat(1 << 20)));
    }

    #[test]
    fn steps_behind_a_wrong_length_up_to_the_torn_end_are_damage() {
        let wrong = "*2\r\n$3\r\nDEL\r\n$9000000\r\nk\r\n";
        let text = "*1\r\n$4\r\nPING\r\ntext\r\n";
        let zeros = "\0".repeat(1 << 20);
        for end in ["", "*2\r\n$3\r\nDE", "*2\r\n$9000000\r\nDE", "#TS:1", &zeros] {
            for damage in ["", text, "\0\r\n", &format!("{}\r\n", &zeros)] {
                let step = "*2\r\n$3\r\nDEL\r\n$2\r\n\0\0\r\n";
                let found = read(format!("{DEL}{wrong}{damage}{step}{DEL}{end}").as_bytes());
                let place = 20 + wrong.len() + damage.len();
                let expected = format!("the command at offset {place}");
                assert!(found.ends_with(&expected), "{found}: {place}, {} bytes", damage.len());
            }
        }
    }

    #[test]
    fn a_file_that_grows_is_read_on() {
        struct Growing(std::sync::Arc<parking_lot::Mutex<Vec<u8>>>);
        impl Read for Growing {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let mut bytes = self.0.lock();
                let len = bytes.len().min(out.len());
                out[..len].copy_from_slice(&bytes[..len]);
                bytes.drain(..len);
                Ok(len)
            }
        }
        let bytes = std::sync::Arc::default();
        let mut reader =
            StepReader::new(Box::new(Growing(std::sync::Arc::clone(&bytes))), Vec::new(), 0, 0);
        assert_eq!(reader.next().expect("read"), StepRead::End);
        bytes.lock().extend_from_slice(DEL.as_bytes());
        reader.grown(20);
        assert_eq!(reader.next().expect("read"), StepRead::Step);
        assert_eq!(reader.next().expect("read"), StepRead::End);
    }
}
