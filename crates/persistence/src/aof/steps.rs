//! Parses the bytes of an append-only file into steps, sans-IO.
//!
//! ```text
//! #TS:1700000000\r\n                          an annotation: everything after # is passed over
//! *2\r\n$3\r\nDEL\r\n$1\r\nk\r\n              a step
//! *1\r\n$5\r\nMULTI\r\n ... *1\r\n$4\r\nEXEC\r\n    a step, of the commands in between
//! ```
//!
//! The caller has a window of the file that begins where the last item ended. Each call parses it
//! from its start, so a caller that doubles its window reads each byte a bounded number of times.
//!
//! Invariants
//! 1. For every division of the file into windows, the same items and the same damage are found.
//! 2. Work is linear in the window, and an announced number causes no allocation.
//!
//! Not here: where the file ends, and what half a step there means (`reader`). Tests: at the foot;
//! fuzzed by `fuzz_aof`.

use std::fmt;
use std::ops::Range;

use pantala_base::simd::find_byte;

/// The longest annotation, including `#` and line end; Redis reads no longer one.
const MAX_ANNOTATION_BYTES: usize = 1024;
/// The longest number that can stand after `*` or `$`.
const MAX_DIGITS: usize = 19;
/// More arguments than a command can have.
const MAX_ARGS: u64 = i32::MAX as u64;

/// A step: its commands, as ranges of the window it was read from. Reused for the next step.
#[derive(Clone, Debug, Default)]
pub struct AofStep {
    args: Vec<Range<usize>>,
    /// The end of each command's arguments in `args`.
    ends: Vec<usize>,
    is_transaction: bool,
}

/// The item at the start of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A step.
    Step {
        /// Bytes to take off the window.
        bytes: usize,
    },
    /// An annotation.
    Annotation {
        /// Bytes to take off the window.
        bytes: usize,
    },
    /// An incomplete item; the next window must be longer by at least `bytes`.
    More {
        /// How many bytes more, at least one.
        bytes: u64,
        /// The offset in the window of the incomplete command.
        command_at: usize,
    },
}

/// Invalid bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AofDamage {
    /// Their offset: in the window from `steps`, in the file from `reader`.
    pub offset: u64,
    /// What the format requires there.
    pub expected: &'static str,
    /// What is there, in readable form.
    pub found: String,
}

impl fmt::Display for AofDamage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "offset {}: expected {}, found {}", self.offset, self.expected, self.found)
    }
}

impl std::error::Error for AofDamage {}

impl AofStep {
    /// The commands, given the window: each a list of at least one argument.
    pub fn commands<'s, 'w>(
        &'s self,
        window: &'w [u8],
    ) -> impl Iterator<Item = impl Iterator<Item = &'w [u8]> + use<'s, 'w>> + use<'s, 'w> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(move |(from, &to)| self.args[from..to].iter().map(move |arg| &window[arg.clone()]))
    }

    /// How many commands it has, without MULTI and EXEC.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no command: `MULTI`, `EXEC`.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether it is enclosed in MULTI and EXEC.
    pub fn is_transaction(&self) -> bool {
        self.is_transaction
    }

    fn clear(&mut self) {
        self.args.clear();
        self.ends.clear();
        self.is_transaction = false;
    }

    fn last_command<'w>(&self, window: &'w [u8]) -> Option<(&'w [u8], usize)> {
        let to = *self.ends.last()?;
        let from = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before]);
        Some((&window[self.args[from].clone()], to - from))
    }

    fn drop_last_command(&mut self) {
        debug_assert!(self.ends.is_sorted(), "a command is after the one before");
        self.ends.pop();
        self.args.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

/// Why a window yields no item.
enum StepStop {
    More(u64),
    Damage(usize, &'static str),
}

/// Parses the item at the start of the window.
///
/// # Errors
/// The first invalid bytes; offsets count from the start of the window.
pub fn next(window: &[u8], step: &mut AofStep) -> Result<Item, AofDamage> {
    step.clear();
    let mut at = 0;
    let stop = loop {
        let outcome = match window.get(at) {
            None => Err(StepStop::More(1)),
            Some(b'#') => annotation(window, at),
            Some(_) => command(window, at, step),
        };
        let next = match outcome {
            Ok(next) => next,
            Err(stop) => break stop,
        };
        if window[at] == b'#' {
            if !step.is_transaction {
                return Ok(Item::Annotation { bytes: next });
            }
        } else if let Some(end) = take_command(window, at, next, step)? {
            return Ok(Item::Step { bytes: end });
        }
        at = next;
    };
    match stop {
        StepStop::More(bytes) => Ok(Item::More { bytes, command_at: at }),
        StepStop::Damage(offset, expected) => Err(damage(window, offset, expected)),
    }
}

/// Checks whether a command ends the step, and returns the end.
fn take_command(
    window: &[u8],
    at: usize,
    next: usize,
    step: &mut AofStep,
) -> Result<Option<usize>, AofDamage> {
    let Some((name, arg_count)) = step.last_command(window) else { return Ok(None) };
    let is = |word: &[u8]| arg_count == 1 && name.eq_ignore_ascii_case(word);
    match (step.is_transaction, is(b"MULTI"), is(b"EXEC")) {
        (false, true, _) => {
            step.drop_last_command();
            step.is_transaction = true;
            Ok(None)
        }
        (true, true, _) => Err(damage(window, at, "EXEC before the next MULTI")),
        (false, _, true) => Err(damage(window, at, "MULTI before EXEC")),
        (true, _, true) => {
            step.drop_last_command();
            Ok(Some(next))
        }
        (true, false, false) => Ok(None),
        (false, false, false) => Ok(Some(next)),
    }
}

/// Skips the annotation at this place; returns its end.
fn annotation(window: &[u8], at: usize) -> Result<usize, StepStop> {
    let line = &window[at..window.len().min(at + MAX_ANNOTATION_BYTES)];
    match find_byte(line, b'\n') {
        Some(end) => Ok(at + end + 1),
        None if line.len() < MAX_ANNOTATION_BYTES => Err(StepStop::More(1)),
        None => Err(StepStop::Damage(at, "an annotation of at most 1024 bytes")),
    }
}

/// Parses the command at this place and appends its arguments; returns its end.
fn command(window: &[u8], at: usize, step: &mut AofStep) -> Result<usize, StepStop> {
    let begin = at;
    let (count, mut at) = number(window, at, b'*', "a command: '*' and a number of arguments")?;
    if count == 0 || count > MAX_ARGS {
        return Err(StepStop::Damage(begin, "a command of one argument at least"));
    }
    for _ in 0..count {
        let (len, begin) = number(window, at, b'$', "an argument: '$' and a length")?;
        let wanted = len.saturating_add(2);
        let body = &window[begin..];
        if wanted > body.len() as u64 {
            return Err(StepStop::More(wanted - body.len() as u64));
        }
        let len = len as usize;
        if &body[len..len + 2] != b"\r\n" {
            return Err(StepStop::Damage(begin + len, "CR and LF after an argument"));
        }
        step.args.push(begin..begin + len);
        at = begin + len + 2;
    }
    step.ends.push(step.args.len());
    Ok(at)
}

/// Parses a mark, a number, CR and LF; returns the number and the offset after it.
fn number(
    window: &[u8],
    at: usize,
    mark: u8,
    expected: &'static str,
) -> Result<(u64, usize), StepStop> {
    match window.get(at) {
        None => return Err(StepStop::More(1)),
        Some(&byte) if byte != mark => return Err(StepStop::Damage(at, expected)),
        Some(_) => {}
    }
    let (mut value, mut end) = (0u64, at + 1);
    while let Some(&byte) = window.get(end) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 || end - at > MAX_DIGITS {
            break;
        }
        value = value.saturating_mul(10).saturating_add(u64::from(digit));
        end += 1;
    }
    match &window[end..] {
        _ if end == at + 1 && end < window.len() => Err(StepStop::Damage(at, expected)),
        [b'\r', b'\n', ..] => Ok((value, end + 2)),
        [] | [b'\r'] => Err(StepStop::More(1)),
        _ => Err(StepStop::Damage(end, "CR and LF after a number")),
    }
}

#[cold]
fn damage(window: &[u8], offset: usize, expected: &'static str) -> AofDamage {
    /// How many bytes are shown.
    const SHOWN_BYTES: usize = 24;
    let rest = &window[offset.min(window.len())..];
    let shown = &rest[..rest.len().min(SHOWN_BYTES)];
    let dots = if rest.len() > SHOWN_BYTES { "..." } else { "" };
    let found = format!("\"{}\"{dots}", shown.escape_ascii());
    AofDamage { offset: offset as u64, expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All items of a file, in readable form.
    fn read(file: &[u8]) -> String {
        let (mut text, mut at, mut step) = (String::new(), 0, AofStep::default());
        while at < file.len() {
            let window = &file[at..];
            match next(window, &mut step) {
                Ok(Item::Step { bytes }) => {
                    let commands: Vec<String> = step
                        .commands(window)
                        .map(|args| {
                            let args: Vec<_> =
                                args.map(|arg| arg.escape_ascii().to_string()).collect();
                            args.join(" ")
                        })
                        .collect();
                    let commands = commands.join("; ");
                    let is_transaction = step.is_transaction();
                    text +=
                        &if is_transaction { format!("[{commands}]\n") } else { commands + "\n" };
                    at += bytes;
                }
                Ok(Item::Annotation { bytes }) => {
                    text += &format!("{}\n", window[..bytes].escape_ascii());
                    at += bytes;
                }
                Ok(Item::More { bytes, command_at }) => {
                    text += &format!("more: {bytes} at {}", at + command_at);
                    break;
                }
                Err(mut damage) => {
                    damage.offset += at as u64;
                    text += &damage.to_string();
                    break;
                }
            }
        }
        text
    }

    #[track_caller]
    fn check(file: &str, expected: &str) {
        assert_eq!(read(file.as_bytes()), expected, "{file:?}");
    }

    const MULTI: &str = "*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &str = "*1\r\n$4\r\nEXEC\r\n";
    const DEL: &str = "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";

    #[test]
    fn commands_annotations_and_transactions_are_items() {
        check(DEL, "DEL k\n");
        check(&format!("#TS:7\r\n{DEL}#\n{DEL}"), "#TS:7\\r\\n\nDEL k\n#\\n\nDEL k\n");
        check(&format!("{MULTI}{DEL}#x\r\n{DEL}{EXEC}{DEL}"), "[DEL k; DEL k]\nDEL k\n");
        check(&format!("*1\r\n$5\r\nmulti\r\n{EXEC}"), "[]\n");
        check("*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n", "SET  \\r\\n\n");
        check("*2\r\n$5\r\nMULTI\r\n$1\r\nx\r\n", "MULTI x\n");
    }

    #[test]
    fn what_can_not_be_is_told_with_its_place() {
        let command = "expected a command: '*' and a number of arguments, found";
        let argument = "expected an argument: '$' and a length, found";
        check(&format!("{DEL}x"), &format!("DEL k\noffset 20: {command} \"x\""));
        check("*x\r\n", &format!("offset 0: {command} \"*x\\r\\n\""));
        check("*\r\n", &format!("offset 0: {command} \"*\\r\\n\""));
        check("*-1\r\n", &format!("offset 0: {command} \"*-1\\r\\n\""));
        check(
            "*0\r\n",
            "offset 0: expected a command of one argument at least, found \"*0\\r\\n\"",
        );
        check("*1\n", "offset 2: expected CR and LF after a number, found \"\\n\"");
        check("*1\r\n+3\r\n", &format!("offset 4: {argument} \"+3\\r\\n\""));
        check("*1\r\n$-1\r\n", &format!("offset 4: {argument} \"$-1\\r\\n\""));
        check(
            "*1\r\n$1\r\nabc\r\n*1\r\n$30\r\nxxxxxxxxxxxxxxxxxxxx",
            "offset 9: expected CR and LF after an argument, \
             found \"bc\\r\\n*1\\r\\n$30\\r\\nxxxxxxxxxxx\"...",
        );
        let multi = "expected EXEC before the next MULTI, found \"*1\\r\\n$5\\r\\nMULTI\\r\\n\"";
        check(&format!("{MULTI}{MULTI}"), &format!("offset 15: {multi}"));
        let exec = "expected MULTI before EXEC, found \"*1\\r\\n$4\\r\\nEXEC\\r\\n\"";
        check(EXEC, &format!("offset 0: {exec}"));
        let long = format!("#{}\n", "x".repeat(1024));
        let found = format!("#{}", "x".repeat(23));
        let annotation = "expected an annotation of at most 1024 bytes";
        check(&long, &format!("offset 0: {annotation}, found \"{found}\"..."));
        check(
            "*1\r\n$99999999999999999999\r\n",
            "offset 24: expected CR and LF after a number, found \"9\\r\\n\"",
        );
    }

    #[test]
    fn what_is_missing_is_asked_for() {
        check("*", "more: 1 at 0");
        check("*2\r\n$3\r\nDEL\r\n$9\r\nk", "more: 10 at 0");
        check("*1\r\n$5\r\nMULTI\r\n", "more: 1 at 15");
        check(&format!("{DEL}{MULTI}{DEL}*1"), "DEL k\nmore: 1 at 55");
        check("*2147483647\r\n", "more: 1 at 0");
        check("*1\r\n$9223372036854775807\r\n", "more: 9223372036854775809 at 0");
    }

    #[test]
    fn however_a_file_is_cut_the_same_is_found() {
        let files = [
            format!("#TS:7\r\n{DEL}{MULTI}{DEL}#x\r\n{DEL}{EXEC}{DEL}"),
            format!("{DEL}{MULTI}{DEL}{MULTI}"),
            format!("{DEL}*1\r\n$3\r\nabcd\r\n"),
        ];
        for file in files {
            let whole = read(file.as_bytes());
            for cut in 0..file.len() {
                let part = read(&file.as_bytes()[..cut]);
                let known = part.split("more: ").next().unwrap_or_default();
                // Damage may show less of what follows it.
                let known = known.split("found").next().unwrap_or_default();
                assert!(whole.starts_with(known), "{cut}: {part:?} {whole:?}");
            }
        }
    }
}
