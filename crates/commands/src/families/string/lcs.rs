//! LCS: the longest common subsequence of two values.
//!
//! The textbook's table: the cell at (i, j) is the length for the first i bytes of one value and
//! the first j of the other. The length alone needs two rows of it; the text and the matches are
//! found by walking the whole table back from its last cell.
//!
//! Time and table grow with the product of the lengths, so long values go to the slow lane, and a
//! table larger than the longest string allowed is refused, as the reference does.
//!
//! Tests: at the foot of this file; compat/transcripts/string/lcs.txt.

use pantala_table::IntText;

use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, Group, KeyFlags, KeySpec};

/// A larger table (some hundred microseconds of work) is for the slow lane.
const WORKER_CELLS: usize = 1 << 16;

/// The options of LCS.
#[derive(Default)]
struct Options {
    /// LEN.
    length: bool,
    /// IDX.
    matches: bool,
    /// MINMATCHLEN.
    min_length: i64,
    /// WITHMATCHLEN.
    with_length: bool,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Options, ClientError> {
        let mut options = Options::default();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            if is_word(word, "LEN") {
                options.length = true;
            } else if is_word(word, "IDX") {
                options.matches = true;
            } else if is_word(word, "WITHMATCHLEN") {
                options.with_length = true;
            } else if is_word(word, "MINMATCHLEN") {
                let text = rest.next().ok_or(error::SYNTAX)?;
                options.min_length =
                    pantala_base::number::parse_i64(text).ok_or(error::NOT_INTEGER)?;
            } else {
                return Err(error::SYNTAX);
            }
        }
        match options.length && options.matches {
            true => Err(error::LCS_LENGTH_AND_MATCHES),
            false => Ok(options),
        }
    }
}

pub(super) const LCS: Command = Command::read("LCS", lcs, Group::String)
    .arity(-3)
    .keys(&[KeySpec::range(1, 1, 1, KeyFlags::READ)])
    .since("7.0.0")
    .complexity("O(N*M) for values of N and M bytes")
    .syntax("key1:key key2:key [LEN] [IDX] [MINMATCHLEN min-match-len:int] [WITHMATCHLEN]")
    .summary("Finds the longest common subsequence of two strings.");

fn lcs(call: &mut Call<'_, '_>) -> CommandResult {
    let cells = cells(call)?;
    let options = Options::parse(&call.args[3..])?;
    check_size(call, cells)?;
    let left = value(call, 0)?;
    let right = value(call, 1)?;
    call.has_read();
    if options.length {
        call.reply.int(i64::from(length(&left, &right)));
        return Ok(());
    }
    let table = Table::new(&left, &right);
    let runs = table.runs(&left, &right);
    if options.matches {
        reply_matches(call, &options, &runs, table.length());
        return Ok(());
    }
    let mut text = Vec::with_capacity(table.length() as usize);
    for run in runs.iter().rev() {
        text.extend_from_slice(&left[run.left..run.left + run.length]);
    }
    call.reply.bulk(&text);
    Ok(())
}

/// The number of cells in the table of two strings: types and lengths are checked before anything
/// is copied.
fn cells(call: &mut Call<'_, '_>) -> Result<usize, ClientError> {
    let mut cells = 1_usize;
    for nth in 0..2 {
        let key = call.nth_key(1 + nth, nth);
        let opened = call.keys.peek(key);
        let value = opened.string().map_err(|_| error::LCS_NOT_STRINGS)?;
        cells = cells.saturating_mul(value.map_or(0, |value| value.len()) + 1);
    }
    Ok(cells)
}

fn check_size(call: &Call<'_, '_>, cells: usize) -> Result<(), Stop> {
    if cells.saturating_mul(size_of::<u32>()) > call.most_string_bytes() {
        return Err(error::LCS_TOO_LARGE.into());
    }
    if call.lane == Lane::Worker && cells > WORKER_CELLS {
        return Err(Stop::Lane);
    }
    Ok(())
}

/// A copy of one key's value; empty if there is none.
fn value(call: &mut Call<'_, '_>, nth: usize) -> Result<Vec<u8>, ClientError> {
    let key = call.nth_key(1 + nth, nth);
    let opened = call.keys.read(key);
    let value = opened.string().map_err(|_| error::LCS_NOT_STRINGS)?;
    Ok(value.map_or_else(Vec::new, |value| value.bytes(&mut IntText::new()).to_vec()))
}

fn reply_matches(call: &mut Call<'_, '_>, options: &Options, runs: &[Run], length: u32) {
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"matches");
    let mark = reply.begin();
    let mut count = 0;
    for run in runs.iter().filter(|run| run.length as i64 >= options.min_length) {
        count += 1;
        reply.array(if options.with_length { 3 } else { 2 });
        for start in [run.left, run.right] {
            reply.array(2);
            reply.int(start as i64);
            reply.int((start + run.length - 1) as i64);
        }
        if options.with_length {
            reply.int(run.length as i64);
        }
    }
    reply.end_array(mark, count);
    reply.bulk(b"len");
    reply.int(i64::from(length));
}

/// Consecutive bytes that both values share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    left: usize,
    right: usize,
    length: usize,
}

/// Fills one row, for one byte of the left value, from the row above it.
fn fill(byte: u8, right: &[u8], above: &[u32], row: &mut [u32]) {
    let mut before = 0;
    for (column, &other) in right.iter().enumerate() {
        before = match byte == other {
            true => above[column] + 1,
            false => above[column + 1].max(before),
        };
        row[column + 1] = before;
    }
}

/// Only the length.
fn length(left: &[u8], right: &[u8]) -> u32 {
    let mut above = vec![0; right.len() + 1];
    let mut row = above.clone();
    for &byte in left {
        fill(byte, right, &above, &mut row);
        std::mem::swap(&mut above, &mut row);
    }
    above[right.len()]
}

/// The table of lengths, row by row. Lengths fit 32 bits: strings are shorter than 4 GiB.
struct Table {
    columns: usize,
    cells: Vec<u32>,
}

impl Table {
    fn new(left: &[u8], right: &[u8]) -> Table {
        let columns = right.len() + 1;
        let mut cells = vec![0; (left.len() + 1) * columns];
        for (number, &byte) in left.iter().enumerate() {
            let (filled, rest) = cells.split_at_mut((number + 1) * columns);
            fill(byte, right, &filled[number * columns..], &mut rest[..columns]);
        }
        Table { columns, cells }
    }

    fn length(&self) -> u32 {
        self.cells.last().copied().unwrap_or(0)
    }

    fn cell(&self, row: usize, column: usize) -> u32 {
        self.cells[row * self.columns + column]
    }

    /// The runs of the common text, the last first. Of equal ways it takes the one that drops bytes
    /// of the right value, as the reference does.
    fn runs(&self, left: &[u8], right: &[u8]) -> Vec<Run> {
        let (mut row, mut column, mut length) = (left.len(), right.len(), 0);
        let mut runs = Vec::new();
        while row > 0 && column > 0 {
            if left[row - 1] == right[column - 1] {
                (row, column, length) = (row - 1, column - 1, length + 1);
                continue;
            }
            if length > 0 {
                runs.push(Run { left: row, right: column, length });
                length = 0;
            }
            if self.cell(row - 1, column) > self.cell(row, column - 1) {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        if length > 0 {
            runs.push(Run { left: row, right: column, length });
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_and_table_agree() {
        let texts: [&[u8]; 6] = [b"", b"a", b"ohmytext", b"mynewtext", b"abcbdab", b"bdcaba"];
        for left in texts {
            for right in texts {
                let table = Table::new(left, right);
                let sum: usize = table.runs(left, right).iter().map(|run| run.length).sum();
                assert_eq!(table.length(), length(left, right));
                assert_eq!(table.length() as usize, sum);
            }
        }
    }

    #[test]
    fn finds_the_last_run_first() {
        let (left, right) = (b"ohmytext", b"mynewtext");
        let runs = Table::new(left, right).runs(left, right);
        let expected = [Run { left: 4, right: 5, length: 4 }, Run { left: 2, right: 0, length: 2 }];
        assert_eq!(runs, expected);
    }
}
