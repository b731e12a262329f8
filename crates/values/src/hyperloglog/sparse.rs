//! Registers as runs, while most of them are zero:
//!
//! ```text
//! 00llllll            zeros, 1 to 64
//! 01llllll llllllll   zeros, 1 to 16,384
//! 1vvvvvll            1 to 4 registers of the value v + 1, 1 to 32
//! ```
//!
//! Lengths are stored minus one. A register is set by splitting the run that covers it and joining
//! equal neighbours afterwards; the steps are Redis's, so the bytes are equal.
//!
//! Offsets are those of the whole sketch, header included.

use smallvec::{Array, SmallVec};

use super::estimate::Histogram;
use super::{Corrupt, Draft, HEADER_BYTES, REGISTERS, RegisterMark};

const MOST_VALUE: u8 = 32;
const MOST_VALUE_RUN: usize = 4;
const MOST_SHORT_ZEROS: usize = 64;
/// How many runs are checked for equal neighbours, from the one before the change on.
const JOIN_RUNS: usize = 5;

/// A run of registers with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    value: u8,
    registers: usize,
    /// How many bytes the run's encoding takes.
    bytes: usize,
}

/// The run that begins at `at`; `None` at the end, and where a run is truncated.
#[inline]
fn run_at(text: &[u8], at: usize) -> Option<Run> {
    let first = *text.get(at)?;
    let low = usize::from(first & 0x3f);
    Some(match first >> 6 {
        0 => Run { value: 0, registers: low + 1, bytes: 1 },
        1 => {
            let registers = (low << 8 | usize::from(*text.get(at + 1)?)) + 1;
            Run { value: 0, registers, bytes: 2 }
        }
        _ => {
            let (value, registers) = ((first >> 2 & 31) + 1, usize::from(first & 3) + 1);
            Run { value, registers, bytes: 1 }
        }
    })
}

fn is_value(byte: u8) -> bool {
    byte & 0x80 != 0
}

fn value_run(value: u8, registers: usize) -> u8 {
    0x80 | (value - 1) << 2 | (registers - 1) as u8
}

/// Appends a run of zeros, 1 to 16,384.
pub fn push_zeros<A: Array<Item = u8>>(out: &mut SmallVec<A>, registers: usize) {
    let length = registers - 1;
    if registers > MOST_SHORT_ZEROS {
        out.push(0x40 | (length >> 8) as u8);
    }
    out.push(length as u8);
}

/// Calls `each` with the first register of every run and the run. The runs must make up all
/// registers.
fn for_each(text: &[u8], mut each: impl FnMut(usize, Run)) -> Result<(), Corrupt> {
    let (mut at, mut first) = (HEADER_BYTES, 0);
    while at < text.len() {
        let run = run_at(text, at).ok_or(Corrupt)?;
        if first + run.registers > REGISTERS {
            return Err(Corrupt);
        }
        each(first, run);
        at += run.bytes;
        first += run.registers;
    }
    if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// Registers by value.
pub fn histogram(text: &[u8]) -> Result<Histogram, Corrupt> {
    let mut counts = [0; 64];
    for_each(text, |_, run| counts[usize::from(run.value)] += run.registers as u32)?;
    Ok(counts)
}

/// Raises each element of `max` to its register.
pub fn merge(max: &mut [u8; REGISTERS], text: &[u8]) -> Result<(), Corrupt> {
    for_each(text, |first, run| {
        if run.value > 0 {
            let covered = &mut max[first..first + run.registers];
            covered.iter_mut().for_each(|register| *register = run.value.max(*register));
        }
    })
}

/// The runs as text: `z:` and `Z:` with a length for zeros, `v:` with value and length.
pub fn describe(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = HEADER_BYTES;
    while let Some(run) = run_at(text, at) {
        if !out.is_empty() {
            out.push(b' ');
        }
        let shown = match (run.value, run.bytes) {
            (0, 1) => format!("z:{}", run.registers),
            (0, _) => format!("Z:{}", run.registers),
            (value, _) => format!("v:{value},{}", run.registers),
        };
        out.extend_from_slice(shown.as_bytes());
        at += run.bytes;
    }
    out
}

/// Where a search may start: a run before the wanted register that no later edit has touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    at: usize,
    first: usize,
}

impl Default for Start {
    fn default() -> Self {
        Start { at: HEADER_BYTES, first: 0 }
    }
}

struct Found {
    at: usize,
    /// The first register that the run covers.
    first: usize,
    run: Run,
    /// The run before it.
    before: Option<Start>,
    /// The run before that, or an earlier one.
    earlier: Start,
}

fn find(text: &[u8], register: usize, start: Start) -> Result<Found, Corrupt> {
    let Start { mut at, mut first } = start;
    let (mut before, mut earlier) = (None, start);
    loop {
        let run = run_at(text, at).ok_or(Corrupt)?;
        if register < first + run.registers {
            // A joined run may reach to here, and what is before it is unknown.
            let is_lost = before.is_none() && start != Start::default();
            return match is_lost {
                true => find(text, register, Start::default()),
                false => Ok(Found { at, first, run, before, earlier }),
            };
        }
        earlier = before.unwrap_or(start);
        before = Some(Start { at, first });
        at += run.bytes;
        first += run.registers;
    }
}

/// The value of one register.
pub fn get(text: &[u8], register: usize) -> Result<u8, Corrupt> {
    let (mut at, mut end) = (HEADER_BYTES, 0);
    loop {
        let run = run_at(text, at).ok_or(Corrupt)?;
        end += run.registers;
        if register < end {
            return Ok(run.value);
        }
        at += run.bytes;
    }
}

/// The outcome of setting a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterOutcome {
    /// It was at least as high already.
    Same,
    /// It was raised.
    Changed,
    /// Nothing was done: the sketch would have to become dense.
    TooLarge,
}

/// Raises one register. For registers in ascending order `start` may be passed from call to call.
pub fn set(
    draft: &mut Draft,
    mark: RegisterMark,
    most_bytes: usize,
    start: &mut Start,
) -> Result<RegisterOutcome, Corrupt> {
    let RegisterMark { register, rank } = mark;
    if rank > MOST_VALUE {
        return Ok(RegisterOutcome::TooLarge);
    }
    let found = find(draft, register, *start)?;
    *start = found.earlier;
    let Found { at, run, .. } = found;
    if run.value >= rank {
        return Ok(RegisterOutcome::Same);
    }
    if run.registers == 1 && run.bytes == 1 {
        draft[at] = value_run(rank, 1);
    } else {
        let split = split(&found, register, rank);
        let grows = split.len() > run.bytes;
        if grows && draft.len() + split.len() - run.bytes > most_bytes {
            return Ok(RegisterOutcome::TooLarge);
        }
        replace(draft, at, run.bytes, &split);
    }
    join(draft, found.before.map_or(HEADER_BYTES, |before| before.at));
    Ok(RegisterOutcome::Changed)
}

/// The run divided into the part before the register, the register, and the part after.
fn split(found: &Found, register: usize, rank: u8) -> SmallVec<[u8; 8]> {
    let Run { value, registers, .. } = found.run;
    let before = register - found.first;
    let mut runs = SmallVec::new();
    push_run(&mut runs, value, before);
    push_run(&mut runs, rank, 1);
    push_run(&mut runs, value, registers - before - 1);
    runs
}

fn push_run(runs: &mut SmallVec<[u8; 8]>, value: u8, registers: usize) {
    match (registers, value) {
        (0, _) => {}
        (_, 0) => push_zeros(runs, registers),
        _ => runs.push(value_run(value, registers)),
    }
}

/// Replaces `old` bytes at `at` by `new`.
fn replace(draft: &mut Draft, at: usize, old: usize, new: &[u8]) {
    let end = draft.len();
    let new_end = end + new.len() - old;
    draft.resize(end.max(new_end), 0);
    draft.copy_within(at + old..end, at + new.len());
    draft.truncate(new_end);
    draft[at..at + new.len()].copy_from_slice(new);
}

/// Joins neighbours of equal value, looking at a few runs from `at` on.
fn join(draft: &mut Draft, mut at: usize) {
    for _ in 0..JOIN_RUNS {
        let Some(run) = run_at(draft, at) else { return };
        let next = run_at(draft, at + 1).filter(|_| run.value > 0 && is_value(draft[at + 1]));
        match next {
            Some(next)
                if next.value == run.value && run.registers + next.registers <= MOST_VALUE_RUN =>
            {
                draft[at + 1] = value_run(run.value, run.registers + next.registers);
                replace(draft, at, 1, &[]);
            }
            _ => at += run.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::super::empty;
    use super::*;

    fn check(sets: &[(usize, u8)], expected: &str) {
        let mut draft = empty();
        for &(register, rank) in sets {
            let mark = RegisterMark { register, rank };
            let outcome = set(&mut draft, mark, usize::MAX, &mut Start::default());
            assert_eq!(outcome, Ok(RegisterOutcome::Changed), "{register} {rank}");
        }
        assert_eq!(String::from_utf8_lossy(&describe(&draft)), expected);
    }

    #[test]
    fn splits_and_joins() {
        check(&[], "Z:16384");
        check(&[(0, 5)], "v:5,1 Z:16383");
        check(&[(16383, 32)], "Z:16383 v:32,1");
        check(&[(64, 1)], "z:64 v:1,1 Z:16319");
        check(&[(65, 1)], "Z:65 v:1,1 Z:16318");
        check(&[(10, 3), (11, 3)], "z:10 v:3,2 Z:16372");
        check(&[(10, 3), (12, 3), (11, 3)], "z:10 v:3,3 Z:16371");
        check(&[(1, 2), (2, 2), (3, 2), (4, 2), (5, 2)], "z:1 v:2,4 v:2,1 Z:16378");
        check(&[(1, 2), (2, 2), (3, 2), (2, 9)], "z:1 v:2,1 v:9,1 v:2,1 Z:16380");
        check(&[(1, 2), (2, 2), (1, 7)], "z:1 v:7,1 v:2,1 Z:16381");
        check(&[(0, 1), (2, 1), (1, 4)], "v:1,1 v:4,1 v:1,1 Z:16381");
    }

    #[test]
    fn same_and_too_large() {
        let mut draft = empty();
        let mut try_set = |register, rank, most| {
            let found =
                set(&mut draft, RegisterMark { register, rank }, most, &mut Start::default());
            (found, draft.len())
        };
        assert_eq!(try_set(5, 33, 1000), (Ok(RegisterOutcome::TooLarge), 18));
        assert_eq!(try_set(5, 2, 19), (Ok(RegisterOutcome::TooLarge), 18));
        assert_eq!(try_set(5, 2, 20), (Ok(RegisterOutcome::Changed), 20));
        assert_eq!(try_set(5, 2, 20), (Ok(RegisterOutcome::Same), 20));
        assert_eq!(try_set(5, 9, 0), (Ok(RegisterOutcome::Changed), 20));
    }

    #[test]
    fn broken_runs_are_found() {
        let mut draft = empty();
        draft.pop();
        let (mut max, mut start) = ([0; REGISTERS], Start::default());
        let mark = RegisterMark { register: 9, rank: 1 };
        assert_eq!(get(&draft, 5), Err(Corrupt));
        assert_eq!(set(&mut draft, mark, 100, &mut start), Err(Corrupt));
        for broken in [&[][..], &[0x7f], &[0x7f, 0xfe], &[0x7f, 0xff, 0], &[0x7f, 0xff, 0x80]] {
            let text = [&draft[..HEADER_BYTES], broken].concat();
            assert_eq!(merge(&mut max, &text), Err(Corrupt), "{broken:?}");
            assert_eq!(histogram(&text), Err(Corrupt), "{broken:?}");
        }
    }

    /// In ascending order a search may begin where the last one was: the bytes stay the same.
    #[test]
    fn starting_late_changes_nothing() {
        let mut rng = Rng::from_seed(11);
        for round in 0..300 {
            let (mut quick, mut slow) = (empty(), empty());
            let range = if round % 2 == 0 { 60 } else { REGISTERS as u64 };
            for _pass in 0..3 {
                let mut marks: Vec<RegisterMark> = (0..40)
                    .map(|_| {
                        let rank = rng.below(4) as u8 + 1;
                        RegisterMark { register: rng.below(range) as usize, rank }
                    })
                    .collect();
                marks.sort_by_key(|mark| mark.register);
                marks.dedup_by_key(|mark| mark.register);
                let mut start = Start::default();
                for mark in marks {
                    let one = set(&mut quick, mark, usize::MAX, &mut start);
                    let other = set(&mut slow, mark, usize::MAX, &mut Start::default());
                    assert_eq!((one, &quick), (other, &slow));
                }
            }
        }
    }
}
