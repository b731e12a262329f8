//! Which arguments of a command are keys or channels, and what is done with them.
//!
//! A row states it once, as [`KeySpec`]s and [`ChannelSpec`]s. Locks need the positions
//! (`key_positions`), permissions also what is done with each key (`key_accesses`).
//!
//! Invariants
//! 1. Both find the same keys, in the order of the specifications: no command reaches a key for
//!    which its user's rules were not checked.
//! 2. Malformed arguments have no keys, and the handler reports them: without a key's partition it
//!    cannot reach the key.
//!
//! Not here: keys named by SORT's patterns and by scripts while they run.
//!
//! Tests: at the foot; the server's `tests/reference.rs`, and beside the reference
//! compat/clients/acl_calls.py.

use bitflags::bitflags;
use smallvec::SmallVec;

bitflags! {
    /// What a command does with a key, in the terms of COMMAND INFO's key specifications.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KeyFlags: u16 {
        /// `RO`, as COMMAND INFO shows it.
        const RO = 1 << 0;
        /// `RW`, as COMMAND INFO shows it.
        const RW = 1 << 1;
        /// `OW`, as COMMAND INFO shows it.
        const OW = 1 << 2;
        /// `RM`, as COMMAND INFO shows it.
        const RM = 1 << 3;
        /// `ACCESS`, as COMMAND INFO shows it.
        const ACCESS = 1 << 4;
        /// `UPDATE`, as COMMAND INFO shows it.
        const UPDATE = 1 << 5;
        /// `INSERT`, as COMMAND INFO shows it.
        const INSERT = 1 << 6;
        /// `DELETE`, as COMMAND INFO shows it.
        const DELETE = 1 << 7;
        /// Not a key, though it is routed like one: a shard channel.
        const NOT_KEY = 1 << 8;
        /// `INCOMPLETE`, as COMMAND INFO shows it.
        const INCOMPLETE = 1 << 9;
        /// `VARIABLE`, as COMMAND INFO shows it.
        const VARIABLE = 1 << 10;
    }
}

impl KeyFlags {
    /// Reads the value.
    pub const READ: KeyFlags = KeyFlags::RO.union(KeyFlags::ACCESS);
    /// Reads only the key, not the value.
    pub const LOOK: KeyFlags = KeyFlags::RO;
    /// Overwrites the key.
    pub const OVERWRITE: KeyFlags = KeyFlags::OW.union(KeyFlags::UPDATE);
    /// Reads, then changes.
    pub const CHANGE: KeyFlags = KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE);
    /// Changes without returning the old value.
    pub const MODIFY: KeyFlags = KeyFlags::RW.union(KeyFlags::UPDATE);
    /// Adds to the value.
    pub const ADD: KeyFlags = KeyFlags::RW.union(KeyFlags::INSERT);
    /// Reads, and adds to the value.
    pub const READ_ADD: KeyFlags = KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::INSERT);
    /// Reads, and may store a computed result with the value.
    pub const READ_CACHE: KeyFlags = KeyFlags::RW.union(KeyFlags::ACCESS);
    /// Sets a key that must be absent.
    pub const CREATE: KeyFlags = KeyFlags::OW.union(KeyFlags::INSERT);
    /// Removes.
    pub const REMOVE: KeyFlags = KeyFlags::RM.union(KeyFlags::DELETE);
    /// Reads and removes.
    pub const TAKE: KeyFlags = KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE);
    /// Changes and removes, without returning anything of the value.
    pub const CHANGE_REMOVE: KeyFlags = KeyFlags::RW.union(KeyFlags::DELETE);

    /// Adds `variable_flags`: what is done depends on the arguments.
    pub const fn variable(self) -> KeyFlags {
        self.union(KeyFlags::VARIABLE)
    }

    /// Adds `incomplete`: there may be other keys.
    pub const fn incomplete(self) -> KeyFlags {
        self.union(KeyFlags::INCOMPLETE)
    }

    /// Whether the value is read.
    pub fn reads(self) -> bool {
        self.contains(KeyFlags::ACCESS)
    }

    /// Whether something is changed.
    pub fn writes(self) -> bool {
        self.intersects(KeyFlags::UPDATE | KeyFlags::INSERT | KeyFlags::DELETE)
    }

    /// Whether what is done depends on the arguments.
    pub fn is_variable(self) -> bool {
        self.contains(KeyFlags::VARIABLE)
    }

    /// The names COMMAND INFO shows.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (KeyFlags::OW, "OW"),
            (KeyFlags::RO, "RO"),
            (KeyFlags::RW, "RW"),
            (KeyFlags::RM, "RM"),
            (KeyFlags::ACCESS, "access"),
            (KeyFlags::UPDATE, "update"),
            (KeyFlags::INSERT, "insert"),
            (KeyFlags::DELETE, "delete"),
            (KeyFlags::NOT_KEY, "not_key"),
            (KeyFlags::INCOMPLETE, "incomplete"),
            (KeyFlags::VARIABLE, "variable_flags"),
        ]
        .into_iter()
        .filter(move |(flag, _)| self.contains(*flag))
        .map(|(_, name)| name)
    }
}

/// Where the keys of a specification begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpecStart {
    /// At this argument.
    Index(usize),
    /// After this word, searched from this argument on (from the end when negative).
    Keyword(&'static str, isize),
    /// Not known in advance: [`Find`] decides, or it depends on data.
    Unknown,
}

/// Which of the arguments from there on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Up to `last` (relative to the begin; negative: from the end of the arguments), every `step`.
    Range {
        /// The last key.
        last: isize,
        /// The distance between keys.
        step: usize,
    },
    /// The argument at `at` is the number of keys, which follow from `first` on, every `step`.
    Count {
        /// The position of the number, relative to the begin.
        at: usize,
        /// The position of the first key, relative to the begin.
        first: usize,
        /// The distance between keys.
        step: usize,
    },
    /// XREAD's: the first half of the arguments after STREAMS; the other half are ids. The words
    /// before are parsed as the options they are.
    Streams,
    /// None that the arguments show: SORT's patterns name keys by the sorted elements.
    Unknown,
    /// SORT's destination, after the last STORE.
    SortStore,
    /// MIGRATE's: the arguments after the word KEYS, if it is there, in place of the key before it.
    Listed,
    /// GEORADIUS's destination, after this word, unless another such word follows.
    GeoStore(&'static str),
}

/// One key specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Where it begins.
    pub begin: KeySpecStart,
    /// Which arguments are keys.
    pub find: Find,
    /// What is done with them.
    pub flags: KeyFlags,
}

impl KeySpec {
    /// One key at this argument.
    pub const fn one(index: usize, flags: KeyFlags) -> KeySpec {
        KeySpec::range(index, 0, 1, flags)
    }

    /// Keys from `first` to `last`, every `step`.
    pub const fn range(first: usize, last: isize, step: usize, flags: KeyFlags) -> KeySpec {
        KeySpec { begin: KeySpecStart::Index(first), find: Find::Range { last, step }, flags }
    }

    /// The number of keys at `at`, and as many keys after it, every `step`.
    pub const fn counted(at: usize, step: usize, flags: KeyFlags) -> KeySpec {
        let find = Find::Count { at: 0, first: 1, step };
        KeySpec { begin: KeySpecStart::Index(at), find, flags }
    }
}

/// Which arguments name channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Only the first argument; otherwise all of them.
    pub only_one: bool,
    /// They are patterns.
    pub are_patterns: bool,
}

impl ChannelSpec {
    /// Their positions.
    pub fn positions(self, arg_count: usize) -> std::ops::Range<usize> {
        1..if self.only_one { arg_count.min(2) } else { arg_count }
    }
}

/// Which databases a command reaches beside the current one.
#[derive(Clone, Copy, Debug)]
pub enum Databases {
    /// None.
    Selected,
    /// The one that the first argument names, which is the current one from then on.
    Selects,
    /// Those named by the arguments at these positions.
    Named(fn(&[&[u8]]) -> SmallVec<[usize; 2]>),
    /// Only the two that its arguments name, and not the current one.
    OnlyTwo,
    /// All databases.
    All,
}

/// A key of a command, and what is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// Its position among the arguments.
    pub position: usize,
    /// What is done with it.
    pub flags: KeyFlags,
}

/// The keys of one command.
pub type KeyAccesses = SmallVec<[KeyAccess; 4]>;

/// What a walk over the specifications collects.
pub(super) trait KeyCollector: Sized {
    fn new(position: usize, flags: KeyFlags) -> Self;
    fn position(&self) -> usize;
}

impl KeyCollector for usize {
    #[inline]
    fn new(position: usize, _flags: KeyFlags) -> Self {
        position
    }

    fn position(&self) -> usize {
        *self
    }
}

impl KeyCollector for KeyAccess {
    fn new(position: usize, flags: KeyFlags) -> Self {
        KeyAccess { position, flags }
    }

    fn position(&self) -> usize {
        self.position
    }
}

/// What the specifications of keys say of the arguments. `None`: the arguments are malformed.
#[inline]
pub(super) fn by_spec<T: KeyCollector, const N: usize>(
    keys: &[KeySpec],
    args: &[&[u8]],
) -> Option<SmallVec<[T; N]>>
where
    [T; N]: smallvec::Array<Item = T>,
{
    collect(keys, args, |flags| !flags.contains(KeyFlags::NOT_KEY))
}

/// What the specifications that `is_meant` accepts say of the arguments. `None`: the arguments are
/// malformed.
#[inline]
pub(super) fn collect<T: KeyCollector, const N: usize>(
    keys: &[KeySpec],
    args: &[&[u8]],
    is_meant: impl Fn(KeyFlags) -> bool,
) -> Option<SmallVec<[T; N]>>
where
    [T; N]: smallvec::Array<Item = T>,
{
    let mut found: SmallVec<[T; N]> = SmallVec::new();
    for KeySpec { begin, find, flags } in keys.iter().copied() {
        if !is_meant(flags) {
            continue;
        }
        let Some(begin) = begin_of(begin, args) else { continue };
        let one = |position| T::new(position, flags);
        match find {
            Find::Range { last, step } => {
                let last = if last >= 0 {
                    begin.checked_add(last.unsigned_abs())?
                } else {
                    args.len().checked_sub(last.unsigned_abs())?
                };
                let last = last.min(args.len().saturating_sub(1));
                found.extend((begin..=last).step_by(step).map(one));
            }
            Find::Count { at, first, step } => {
                let count = pantala_base::number::parse_i64(args.get(begin + at)?)?;
                // Zero is invalid for most; for scripts it means no keys.
                let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
                let end = count.checked_mul(step)?.checked_add(begin + first)?;
                if end > args.len() {
                    return None;
                }
                found.extend((begin + first..end).step_by(step).map(one));
            }
            Find::Unknown => {}
            Find::GeoStore(word) => found.extend(geo_store(args, word).map(one)),
            Find::SortStore => found.extend(sort_store(args).map(one)),
            Find::Listed => {
                if let Some(begin) = listed_begin(args) {
                    // Otherwise the key named there is one too many.
                    let is_empty = |one: &T| args[one.position()].is_empty();
                    found.iter().all(is_empty).then_some(())?;
                    found.clear();
                    found.extend((begin..args.len()).map(one));
                }
            }
            Find::Streams => {
                let begin = streams_begin(args)?;
                found.extend((begin..begin + (args.len() - begin) / 2).map(one));
            }
        }
    }
    Some(found)
}

/// The position of the first key of XREAD or XREADGROUP. Options are parsed one by one, because a
/// group may be called `streams`.
pub fn streams_begin(args: &[&[u8]]) -> Option<usize> {
    let mut at = 1;
    loop {
        let is = |word: &str| args.get(at).is_some_and(|arg| crate::options::is_word(arg, word));
        at += match args.get(at)? {
            _ if is("STREAMS") => return Some(at + 1),
            _ if is("GROUP") => 3,
            _ if is("BLOCK") || is("COUNT") => 2,
            _ => 1,
        };
    }
}

/// The position of the first key in MIGRATE's list. Options are parsed one by one, because a
/// password may be `keys`.
pub fn listed_begin(args: &[&[u8]]) -> Option<usize> {
    let mut at = 6;
    loop {
        let is = |word: &str| args.get(at).is_some_and(|arg| crate::options::is_word(arg, word));
        at += match args.get(at)? {
            _ if is("KEYS") => return Some(at + 1),
            _ if is("AUTH2") => 3,
            _ if is("AUTH") => 2,
            _ => 1,
        };
    }
}

/// The position of GEORADIUS's destination, if it follows this word: the last of STORE and
/// STOREDIST counts.
fn geo_store(args: &[&[u8]], word: &str) -> Option<usize> {
    let (mut at, mut found) = (5, None);
    while let Some(arg) = args.get(at) {
        let is = |name: &str| crate::options::is_word(arg, name);
        at += match arg {
            _ if (is("STORE") || is("STOREDIST")) && at + 1 < args.len() => {
                found = Some((at + 1, is(word)));
                2
            }
            _ if is("COUNT") => 2,
            _ => 1,
        };
    }
    found.filter(|(_, is_it)| *is_it).map(|(position, _)| position)
}

/// The position of SORT's destination. Options are parsed one by one, because an argument may be
/// `store`.
fn sort_store(args: &[&[u8]]) -> Option<usize> {
    let (mut at, mut found) = (2, None);
    while let Some(word) = args.get(at) {
        let is = |name: &str| crate::options::is_word(word, name);
        at += match word {
            _ if is("STORE") && at + 1 < args.len() => {
                found = Some(at + 1);
                2
            }
            _ if is("BY") || is("GET") => 2,
            _ if is("LIMIT") => 3,
            _ => 1,
        };
    }
    found
}

fn begin_of(begin: KeySpecStart, args: &[&[u8]]) -> Option<usize> {
    match begin {
        KeySpecStart::Index(index) => (index < args.len()).then_some(index),
        KeySpecStart::Unknown => Some(0),
        KeySpecStart::Keyword(word, from) => {
            let matches = |arg: &&[u8]| arg.eq_ignore_ascii_case(word.as_bytes());
            if from >= 0 {
                let from = from.unsigned_abs();
                let found = args.get(from..)?.iter().position(matches)?;
                Some(from + found + 1)
            } else {
                let until = args.len().checked_sub(from.unsigned_abs() - 1)?;
                Some(args[..until].iter().rposition(matches)? + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{
        bitmap, connection, databases, generic, geo, hyperloglog, list, sort, stream, string, zset,
    };
    use crate::rows::command::{key_accesses, key_positions};
    use crate::rows::registry::Registry;

    fn registry() -> Registry {
        Registry::new(&[
            bitmap::ROWS,
            connection::ROWS,
            databases::ROWS,
            generic::ROWS,
            geo::ROWS,
            hyperloglog::ROWS,
            list::ROWS,
            sort::ROWS,
            stream::ROWS,
            string::ROWS,
            zset::ROWS,
        ])
    }

    /// Each key and what is done with it, as valkey-server's COMMAND GETKEYSANDFLAGS tells it.
    #[test]
    fn what_is_done_with_a_key_is_what_the_reference_says() {
        let check = |line: &str, expected: &str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let found = registry().resolve(&args).expect("there is one");
            let told: Vec<String> = key_accesses(found.row, &args)
                .unwrap_or_default()
                .iter()
                .map(|access| {
                    let key = String::from_utf8_lossy(args[access.position]);
                    let flags: Vec<_> = access.flags.names().collect();
                    format!("{key} {}", flags.join(" "))
                })
                .collect();
            assert_eq!(told.join(", "), expected, "{line}");
            let positions = key_positions(found.row, &args).unwrap_or_default();
            let accesses = key_accesses(found.row, &args).unwrap_or_default();
            assert!(accesses.iter().map(|access| access.position).eq(positions), "{line}");
        };
        check("SET k v", "k OW update");
        check("SET k v EX 5 GET", "k RW access update");
        check("BITFIELD k GET u8 0", "k RO access");
        check("BITFIELD k GET u8 0 INCRBY u8 0 1", "k RW access update");
        check("SORT k BY w_* GET # STORE d STORE e", "k RO access, e OW update");
        check("GEORADIUS k 1 2 3 m STORE d STOREDIST e", "k RO access, e OW update");
        check("XREADGROUP GROUP g c STREAMS a b 0 0", "a RO access, b RO access");
        check("ZUNIONSTORE d 2 a b", "d OW update, a RO access, b RO access");
        check("ZUNIONSTORE d 3 a b", "");
        check("ZUNIONSTORE d 0 a", "");
        check("LMPOP 2 a b LEFT", "a RW access delete, b RW access delete");
        check("COPY a b DB 3", "a RO access, b OW update");
        check("RENAME a b", "a RW access delete, b OW update");
        check("MSET a 1 b 2", "a OW update, b OW update");
        check("PFMERGE d a", "d RW access insert, a RO access");
        check("OBJECT ENCODING k", "k RO");
        check("PING", "");
    }

    #[test]
    fn databases_that_arguments_name() {
        let check = |line: &str, expected: &[usize]| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let found = registry().resolve(&args).expect("there is one");
            let Databases::Named(positions) = found.row.databases else { panic!("{line}") };
            assert_eq!(positions(&args).as_slice(), expected, "{line}");
        };
        check("MOVE k 1", &[2]);
        check("COPY DB b", &[]);
        check("COPY a DB REPLACE db 1", &[5]);
        check("COPY a b DB DB DB 4", &[4, 6]);
        check("COPY a b DB", &[]);
    }
}
