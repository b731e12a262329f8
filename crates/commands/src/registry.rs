//! Finding a row by name.
//!
//! All rows, containers' subcommands included, stand in one list; a row's position in it is its
//! number in the statistics. Names are found through a small open-addressed table over the name
//! folded to upper case. Lookup costs one multiplication and, nearly always, one comparison.

use crate::call::{Call, Done};
use crate::command::Command;
use crate::error;

/// A row and its number.
#[derive(Clone, Copy, Debug)]
pub struct CommandRef {
    /// The row.
    pub row: &'static Command,
    /// Its position in [`Registry::rows`].
    pub number: u16,
}

/// Slots a row, so that most names are found at the first look.
const SLOTS_PER_ROW: usize = 4;
const EMPTY: u16 = u16::MAX;

/// See the module.
pub struct Registry {
    rows: Vec<&'static Command>,
    /// For a container: where its subcommands begin in `rows`.
    first_sub: Vec<u16>,
    slots: Vec<u16>,
    shift: u32,
}

impl Registry {
    /// The registry of all these families. Two rows with one name are a mistake of ours.
    pub fn new(families: &[&'static [Command]]) -> Self {
        let mut rows: Vec<&'static Command> =
            families.iter().flat_map(|rows| rows.iter()).collect();
        rows.sort_by_key(|row| row.name);
        let top_count = rows.len();
        let mut first_sub = vec![EMPTY; top_count];
        for (number, first) in first_sub.iter_mut().enumerate() {
            let row = rows[number];
            *first = rows.len() as u16;
            rows.extend(row.subcommands.iter());
        }
        let slot_count = (top_count * SLOTS_PER_ROW).next_power_of_two().max(2);
        let shift = u64::BITS - slot_count.trailing_zeros();
        let mut slots = vec![EMPTY; slot_count];
        for (number, row) in rows[..top_count].iter().enumerate() {
            let mut slot = slot_of(row.name.as_bytes(), shift);
            while slots[slot] != EMPTY {
                slot = (slot + 1) % slot_count;
            }
            slots[slot] = number as u16;
        }
        Registry { rows, first_sub, slots, shift }
    }

    /// Every row; subcommands stand after the commands.
    pub fn rows(&self) -> &[&'static Command] {
        &self.rows
    }

    /// The commands alone, by name.
    pub fn commands(&self) -> &[&'static Command] {
        &self.rows[..self.first_sub.len()]
    }

    /// The row of a command, by its name in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<CommandRef> {
        let mut slot = slot_of(name, self.shift);
        loop {
            let number = self.slots[slot];
            if number == EMPTY {
                return None;
            }
            let row = self.rows[usize::from(number)];
            if row.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(CommandRef { row, number });
            }
            slot = (slot + 1) % self.slots.len();
        }
    }

    /// The row that will run these arguments: the subcommand's, where there is one.
    #[inline]
    pub fn resolve(&self, args: &[&[u8]]) -> Option<CommandRef> {
        let found = self.find(args.first()?)?;
        if found.row.subcommands.is_empty() {
            return Some(found);
        }
        Some(args.get(1).and_then(|word| self.subcommand(found, word)).unwrap_or(found))
    }

    /// A container's subcommand.
    pub fn subcommand(&self, container: CommandRef, word: &[u8]) -> Option<CommandRef> {
        let first = usize::from(*self.first_sub.get(usize::from(container.number))?);
        let rows = container.row.subcommands;
        let at = rows.iter().position(|row| row.name.as_bytes().eq_ignore_ascii_case(word))?;
        Some(CommandRef { row: &rows[at], number: (first + at) as u16 })
    }

    /// A row by `name` or `container|name`.
    pub fn find_full(&self, name: &[u8]) -> Option<CommandRef> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.find(name),
            Some(bar) => self.subcommand(self.find(&name[..bar])?, &name[bar + 1..]),
        }
    }
}

/// The slot a name starts its search at: its length and first eight letters, in one case.
#[inline]
fn slot_of(name: &[u8], shift: u32) -> usize {
    // Clearing bit 5 folds letters and leaves different names different enough.
    const UPPER: u64 = 0xdfdf_dfdf_dfdf_dfdf;
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut head = [0_u8; 8];
    let shown = name.len().min(8);
    head[..shown].copy_from_slice(&name[..shown]);
    let tail = name.last().copied().unwrap_or(0) & 0xdf;
    let word =
        (u64::from_le_bytes(head) & UPPER) ^ (name.len() as u64) << 5 ^ u64::from(tail) << 13;
    (word.wrapping_mul(MULTIPLIER) >> shift) as usize
}

/// The handler of a container: reached only when the second word names no subcommand.
pub(crate) fn no_subcommand(call: &mut Call<'_, '_>) -> Done {
    let word = call.args.get(1).copied().unwrap_or_default();
    Err(error::unknown_subcommand(call.command.name, word).into())
}
