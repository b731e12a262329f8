//! Finding a row by name.
//!
//! All rows, containers' subcommands included, stand in one list; a row's position in it is its
//! number in the statistics. Names are found through a small open-addressed table over the name
//! folded to upper case, eight letters at once: lookup costs one multiplication and, nearly always,
//! one comparison of words, which is all that a name of up to eight letters needs.
//!
//! Rows of [`Group::Memcached`] stand at the end and have no name that RESP could find: who reads
//! that protocol asks for them once ([`Registry::row_of`]).

use pantala_acl::{Catalogue, CommandId, Entry};

use crate::call::{Call, Done};

use crate::command::{Command, Flags, Group};
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
impl CommandRef {
    /// The number, as the rules of users know it.
    #[inline]
    pub fn id(self) -> CommandId {
        CommandId(self.number)
    }
}

const EMPTY: u16 = u16::MAX;
/// So much of a name is compared at once.
const HEAD_BYTES: usize = 8;

/// See the module.
pub struct Registry {
    rows: Vec<&'static Command>,
    /// For a container: where its subcommands begin in `rows`.
    first_sub: Vec<u16>,
    slots: Vec<Slot>,
    shift: u32,
}

/// A place in the table of names.
#[derive(Clone, Copy)]
struct Slot {
    /// As [`head_of`] says.
    head: u64,
    /// Of the whole name; of an empty slot what no name has.
    len: usize,
    number: u16,
}

impl Registry {
    /// The registry of all these families. Two rows with one name are a mistake of ours.
    pub fn new(families: &[&'static [Command]]) -> Self {
        let all = families.iter().flat_map(|rows| rows.iter());
        let (unnamed, mut rows): (Vec<&'static Command>, Vec<_>) =
            all.partition(|row| row.group == Group::Memcached);
        rows.sort_by_key(|row| row.name);
        let top_count = rows.len();
        let mut first_sub = vec![EMPTY; top_count];
        for (number, first) in first_sub.iter_mut().enumerate() {
            let row = rows[number];
            *first = rows.len() as u16;
            rows.extend(row.subcommands.iter());
        }
        rows.extend(unnamed);
        let slot_count = (top_count * SLOTS_PER_ROW).next_power_of_two().max(2);
        let shift = u64::BITS - slot_count.trailing_zeros();
        let mut slots = vec![Slot { head: 0, len: usize::MAX, number: EMPTY }; slot_count];
        for (number, row) in rows[..top_count].iter().enumerate() {
            let name = row.name.as_bytes();
            let head = head_of(name);
            let mut slot = slot_of(head, name, shift);
            while slots[slot].number != EMPTY {
                slot = (slot + 1) % slot_count;
            }
            slots[slot] = Slot { head, len: name.len(), number: number as u16 };
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

    /// What the rules of users are about: all rows, by their numbers.
    pub fn catalogue(&self) -> Catalogue {
        let entries = self.rows.iter().map(|row| Entry {
            name: row.full_name(),
            categories: row.all_categories(),
            is_open: row.flags.has(Flags::NO_AUTH),
        });
        Catalogue::new(entries.collect())
    }

    /// The row of a command, by its name in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<CommandRef> {
        let head = head_of(name);
        let mut at = slot_of(head, name, self.shift);
        loop {
            let slot = self.slots[at];
            if slot.head == head && slot.len == name.len() {
                let row = self.rows[usize::from(slot.number)];
                let is_whole = name.len() <= HEAD_BYTES;
                if is_whole || row.name.as_bytes().eq_ignore_ascii_case(name) {
                    return Some(CommandRef { row, number: slot.number });
                }
            }
            if slot.number == EMPTY {
                return None;
            }
            at = (at + 1) & (self.slots.len() - 1);
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

    /// A row by the name it has in statistics, also one that RESP does not find.
    pub fn row_of(&self, name: &str) -> Option<CommandRef> {
        let number = self.rows.iter().position(|row| row.full_name() == name)?;
        Some(CommandRef { row: self.rows[number], number: number as u16 })
    }

    /// A row by `name` or `container|name`.
    pub fn find_full(&self, name: &[u8]) -> Option<CommandRef> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.find(name),
            Some(bar) => self.subcommand(self.find(&name[..bar])?, &name[bar + 1..]),
        }
    }
}

/// The slot a name starts its search at: its length, its head and its last letter, in one case.
#[inline]
fn slot_of(head: u64, name: &[u8], shift: u32) -> usize {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let tail = name.last().copied().unwrap_or(0) & 0xdf;
    let word = head ^ (name.len() as u64) << 5 ^ u64::from(tail) << 13;
    (word.wrapping_mul(MULTIPLIER) >> shift) as usize
}

/// The first eight bytes of a name in upper case, zeros behind a shorter one: loads of fixed size
/// that overlap, no loop over bytes.
#[inline]
fn head_of(name: &[u8]) -> u64 {
    if let Some(head) = name.first_chunk::<HEAD_BYTES>() {
        return upper(u64::from_le_bytes(*head));
    }
    if let (Some(low), Some(high)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (name.len() - 4));
        return upper(u64::from(u32::from_le_bytes(*low)) | high);
    }
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return 0 };
    let middle = name.len() / 2;
    let middle = u64::from(name[middle]) << (8 * middle);
    upper(u64::from(*first) | middle | u64::from(*last) << (8 * (name.len() - 1)))
}

/// Eight bytes, those of them that are small letters in upper case.
#[inline]
fn upper(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x80 * EACH;
    // Without their top bits no byte carries into the next.
    let low = word & !TOP;
    let from_a = low + (0x80 - b'a' as u64) * EACH;
    let past_z = low + (0x7f - b'z' as u64) * EACH;
    word ^ (from_a & !past_z & !word & TOP) >> 2
}

/// The handler of a container: reached only when the second word names no subcommand.
pub(crate) fn no_subcommand(call: &mut Call<'_, '_>) -> Done {
    let word = call.args.get(1).copied().unwrap_or_default();
    Err(error::unknown_subcommand(call.command.name, word).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use crate::test_support::fixture;

    #[test]
    fn upper_changes_what_ascii_says() {
        for byte in 0..=u8::MAX {
            let word = [byte, b'z', byte, 0xff, byte, b'A', 0, byte];
            let expected = word.map(|byte| byte.to_ascii_uppercase());
            assert_eq!(upper(u64::from_le_bytes(word)).to_le_bytes(), expected, "{byte}");
        }
    }

    #[test]
    fn every_name_is_found_in_any_case_and_nothing_like_it() {
        let fixture = fixture();
        let registry = Server::registry(&*fixture);
        for (number, row) in registry.commands().iter().enumerate() {
            let found = |name: &[u8]| registry.find(name).map(|found| usize::from(found.number));
            let name = row.name.as_bytes();
            assert_eq!(found(name), Some(number), "{}", row.name);
            assert_eq!(found(&name.to_ascii_lowercase()), Some(number), "{}", row.name);
            for at in 0..name.len() {
                let mut other = name.to_vec();
                other[at] ^= 0x80;
                assert_eq!(found(&other), None, "{}", row.name);
            }
            assert_eq!(found(&[name, b"\0"].concat()), None, "{}", row.name);
        }
        assert!(registry.find(b"").is_none());
        assert!(registry.find(b"\0").is_none());
    }
}
