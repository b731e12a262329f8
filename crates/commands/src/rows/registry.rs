//! The registry: finding a row by name.
//!
//! All rows, including subcommands, are in one list; a row's position in it is its number in the
//! statistics. Names are found through a small open-addressed table over the name folded to upper
//! case, eight letters at once: a lookup costs one multiplication and, nearly always, one
//! comparison of machine words, which decides a name of up to eight letters.
//!
//! `rename-command` changes only that table: a row keeps its own name for users' rules, statistics,
//! documentation and the journal.
//!
//! Rows of [`Group::Memcached`] are at the end and have no name that RESP finds: the front end of
//! that protocol looks them up once ([`Registry::row_of`]).

use std::borrow::Cow;

use pantala_acl::{Catalogue, CatalogueEntry, Categories, CommandId};
use pantala_settings::Rename;

use crate::calls::call::{Call, CommandResult};
use crate::rows::absent::ABSENT;

use crate::error;
use crate::rows::command::{Command, Flags, Group};

/// A row and its number.
#[derive(Clone, Copy, Debug)]
pub struct CommandRef {
    /// The row.
    pub row: &'static Command,
    /// Its position in [`Registry::rows`].
    pub number: u16,
}

/// Slots for each row, so that most names are found at the first look.
const SLOTS_PER_ROW: usize = 4;
impl CommandRef {
    /// The number, as an id for users' rules.
    #[inline]
    pub fn id(self) -> CommandId {
        CommandId(self.number)
    }
}

const EMPTY: u16 = u16::MAX;
/// The only command in records that clients have no name for.
const FOR_RECORDS: &str = "mc.flags";
/// How many bytes of a name are compared at once.
const HEAD_BYTES: usize = 8;

/// The command table: all rows, and the index that finds them by name.
pub struct Registry {
    rows: Vec<&'static Command>,
    /// For each row: the command whose rules apply to it.
    permissions: Vec<CommandId>,
    /// For each container: the position of its first subcommand in `rows`.
    first_sub: Vec<u16>,
    /// The names that clients use; empty for a command that they cannot call.
    names: Vec<Cow<'static, str>>,
    slots: Vec<Slot>,
    shift: u32,
}

/// A slot in the table of names.
#[derive(Clone, Copy)]
struct Slot {
    /// The result of [`head_of`].
    head: u64,
    /// The length of the name; of an empty slot a length that no name has.
    len: usize,
    number: u16,
}

impl Registry {
    /// The registry of all these families. Two rows with one name are a bug.
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
        let names: Vec<_> = rows[..top_count].iter().map(|row| Cow::Borrowed(row.name)).collect();
        let (slots, shift) = table_of(&names);
        let mut registry =
            Registry { rows, permissions: Vec::new(), first_sub, names, slots, shift };
        let numbered = registry.rows.iter().zip(0..);
        let permissions = numbered.map(|(row, number)| {
            let other = row.allowed_as.and_then(|name| registry.find_full(name.as_bytes()));
            other.map_or(CommandId(number), CommandRef::id)
        });
        registry.permissions = permissions.collect();
        registry
    }

    /// The registry with other names for some commands (`rename-command`).
    ///
    /// # Errors
    /// A text for the operator, without the new names: these may be secrets.
    pub fn renamed(mut self, renames: &[Rename]) -> Result<Self, String> {
        let mut is_renamed = vec![false; self.names.len()];
        for Rename { from, to } in renames {
            let wrong = |why: &str| Err(format!("rename-command {from}: {why}"));
            let own = self.find_own(from.as_bytes()).map(|found| usize::from(found.number));
            // The new name of an earlier line can be changed again.
            let given = || {
                let is_it =
                    |at: &usize| is_renamed[*at] && self.names[*at].eq_ignore_ascii_case(from);
                (0..self.names.len()).find(|at| !from.is_empty() && is_it(at))
            };
            let found = match own {
                Some(own) if is_renamed[own] => return wrong("it is renamed twice"),
                Some(own) => own,
                None => match given() {
                    Some(given) => given,
                    None => return wrong("no such command"),
                },
            };
            is_renamed[found] = true;
            // The rows' own names stay reserved: in the journal they must keep their meaning.
            let is_it = |name: &str| !to.is_empty() && name.eq_ignore_ascii_case(to);
            let mut others = (0..self.names.len()).filter(|other| *other != found);
            if others.any(|other| is_it(&self.names[other]) || is_it(self.rows[other].name)) {
                return wrong("a command has that name");
            }
            self.names[found] = Cow::Owned(to.clone());
        }
        (self.slots, self.shift) = table_of(&self.names);
        Ok(self)
    }

    /// The command whose rules apply to a row.
    #[inline]
    pub fn permission(&self, found: CommandRef) -> CommandId {
        self.permissions.get(usize::from(found.number)).copied().unwrap_or(found.id())
    }

    /// A second command whose rules apply to it, if any.
    pub fn also(&self, found: CommandRef) -> Option<CommandId> {
        found.row.and_as.and_then(|name| self.find_full(name.as_bytes())).map(CommandRef::id)
    }

    /// All rows; subcommands are after the commands.
    pub fn rows(&self) -> &[&'static Command] {
        &self.rows
    }

    /// The commands alone, by name.
    pub fn commands(&self) -> &[&'static Command] {
        &self.rows[..self.first_sub.len()]
    }

    /// The commands that clients can call.
    pub fn callable(&self) -> impl Iterator<Item = &'static Command> + Clone {
        let named = self.rows.iter().zip(&self.names).filter(|(_, name)| !name.is_empty());
        named.map(|(row, _)| *row)
    }

    /// The name by which clients call the command with this own name; `None`: they cannot.
    pub fn called(&self, name: &str) -> Option<&str> {
        let number = usize::from(self.find_own(name.as_bytes())?.number);
        Some(&*self.names[number]).filter(|name| !name.is_empty())
    }

    /// The row of a command, by its own name in any case, even if it was renamed.
    pub fn find_own(&self, name: &[u8]) -> Option<CommandRef> {
        let name = name.to_ascii_uppercase();
        let number = self.commands().binary_search_by(|row| row.name.as_bytes().cmp(&name)).ok()?;
        Some(CommandRef { row: self.rows[number], number: number as u16 })
    }

    /// The catalogue for users' rules: all rows by their numbers, and after them names that only
    /// rules know.
    pub fn catalogue(&self) -> Catalogue {
        let entries = self.rows.iter().map(|row| CatalogueEntry {
            // A row that is allowed as another command has no name or category of its own in rules.
            name: if row.allowed_as.is_some() { String::new() } else { row.full_name() },
            categories: match row.allowed_as {
                None => row.all_categories(),
                Some(_) => Categories::NONE,
            },
            is_open: row.flags.intersects(Flags::NO_AUTH),
        });
        let absent = ABSENT.iter().map(|name| CatalogueEntry {
            name: (*name).to_owned(),
            categories: Categories::NONE,
            is_open: false,
        });
        Catalogue::new(entries.chain(absent).collect())
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
                if is_whole
                    || self.names[usize::from(slot.number)].as_bytes().eq_ignore_ascii_case(name)
                {
                    return Some(CommandRef { row, number: slot.number });
                }
            }
            if slot.number == EMPTY {
                return None;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The row that will run these arguments: the subcommand's, if there is one.
    #[inline]
    pub fn resolve(&self, args: &[&[u8]]) -> Option<CommandRef> {
        self.resolve_in(self.find(args.first()?)?, args)
    }

    /// Like [`Registry::resolve`], for a command from the journal, which may also go by the row's
    /// own name.
    pub fn resolve_recorded(&self, args: &[&[u8]]) -> Option<CommandRef> {
        let name = args.first()?;
        let found = self.find(name).or_else(|| self.find_own(name));
        self.resolve_in(found.or_else(|| self.find_for_records(name))?, args)
    }

    /// The row of a command that exists only in records.
    #[cold]
    fn find_for_records(&self, name: &[u8]) -> Option<CommandRef> {
        if name != FOR_RECORDS.as_bytes() {
            return None;
        }
        let number = self.rows.iter().rposition(|row| row.name == FOR_RECORDS)?;
        Some(CommandRef { row: self.rows[number], number: number as u16 })
    }

    #[inline]
    fn resolve_in(&self, found: CommandRef, args: &[&[u8]]) -> Option<CommandRef> {
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

    /// A row by its name in the statistics, even one that RESP does not find.
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

/// The table for these names, and the shift that turns a hash into a slot.
fn table_of(names: &[Cow<'static, str>]) -> (Vec<Slot>, u32) {
    let slot_count = (names.len() * SLOTS_PER_ROW).next_power_of_two().max(2);
    let shift = u64::BITS - slot_count.trailing_zeros();
    let mut slots = vec![Slot { head: 0, len: usize::MAX, number: EMPTY }; slot_count];
    for (number, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let name = name.as_bytes();
        let head = head_of(name);
        let mut slot = slot_of(head, name, shift);
        while slots[slot].number != EMPTY {
            slot = (slot + 1) % slot_count;
        }
        slots[slot] = Slot { head, len: name.len(), number: number as u16 };
    }
    (slots, shift)
}

/// The slot at which the search for a name begins, from its length, its head and its last letter,
/// ignoring case.
#[inline]
fn slot_of(head: u64, name: &[u8], shift: u32) -> usize {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let tail = name.last().copied().unwrap_or(0) & 0xdf;
    let word = head ^ (name.len() as u64) << 5 ^ u64::from(tail) << 13;
    (word.wrapping_mul(MULTIPLIER) >> shift) as usize
}

/// The first eight bytes of a name in upper case, padded with zeros: overlapping loads of fixed
/// size, without a loop over bytes.
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

/// Eight bytes with lower-case letters turned to upper case.
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

/// The handler of a container: reached only if the second word names no subcommand.
pub(crate) fn no_subcommand(call: &mut Call<'_, '_>) -> CommandResult {
    let word = call.args.get(1).copied().unwrap_or_default();
    Err(error::unknown_subcommand(call.command.name, word).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use crate::families::{generic, string};
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

    fn renamed(pairs: &[(&str, &str)]) -> Result<Registry, String> {
        let rename = |&(from, to): &(&str, &str)| Rename { from: from.into(), to: to.into() };
        let renames: Vec<Rename> = pairs.iter().map(rename).collect();
        Registry::new(&[string::ROWS, generic::ROWS]).renamed(&renames)
    }

    #[test]
    fn a_command_is_called_by_its_new_name_alone() {
        let pairs = [("get", "Fetch-something-long"), ("SET", "put"), ("DEL", "")];
        let registry = renamed(&pairs).expect("nothing is wrong with it");
        let name = |found: Option<CommandRef>| found.map(|found| found.row.name);
        assert_eq!(name(registry.find(b"fetch-SOMETHING-long")), Some("GET"));
        assert_eq!(name(registry.resolve(&[b"PUT", b"k", b"v"])), Some("SET"));
        for gone in [&b"get"[..], b"SET", b"del", b"", b"fetch-something-lonk"] {
            assert_eq!(name(registry.find(gone)), None, "{}", gone.escape_ascii());
        }
        assert_eq!(name(registry.find_own(b"get")), Some("GET"));
        assert_eq!(name(registry.find_own(b"put")), None);
        for recorded in [&b"put"[..], b"SET"] {
            assert_eq!(name(registry.resolve_recorded(&[recorded])), Some("SET"));
        }
        let callable: Vec<&str> = registry.callable().map(|row| row.name).collect();
        assert_eq!(callable.len() + 1, registry.commands().len());
        assert!(!callable.contains(&"DEL") && callable.contains(&"GET"));
    }

    #[test]
    fn a_new_name_can_be_changed_again() {
        let registry = renamed(&[("GET", "fetch"), ("FETCH", "take"), ("SET", "fetch")]);
        let registry = registry.expect("nothing is wrong with it");
        let name = |word: &[u8]| registry.find(word).map(|found| found.row.name);
        assert_eq!(name(b"take"), Some("GET"));
        assert_eq!(name(b"fetch"), Some("SET"));
        assert_eq!(name(b"get"), None);
    }

    #[test]
    fn a_name_that_means_something_else_is_refused() {
        let why = |pairs: &[(&str, &str)]| renamed(pairs).err();
        assert_eq!(why(&[("nope", "x")]).as_deref(), Some("rename-command nope: no such command"));
        for wrong in [
            &[("GET", "SET")][..],
            &[("SET", "x"), ("GET", "SET")],
            &[("SET", "x"), ("GET", "X")],
            &[("SET", "x"), ("set", "y")],
        ] {
            assert!(why(wrong).is_some(), "{wrong:?}");
        }
        assert!(renamed(&[("GET", ""), ("SET", ""), ("DEL", "del")]).is_ok());
    }
}
