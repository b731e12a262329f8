//! Commands of Memcached's protocols: rows like all others, which RESP does not find by name.
//!
//! ```text
//! text    words of a line -->                 --> VALUE, STORED, ...
//! meta    words of a line --> an operation    --> VA, HD, ...
//! binary  a header, bytes -->                 --> a header, bytes
//!                               |
//!     fetch, store, delete, count (`item`) --> the keyspace
//! ```
//!
//! Items are the strings of database 0; values of other types are invisible to `get`s of several
//! keys, and an error for everything else. The client's flags beside a value, and its cas number,
//! are in the record (`pantala_table::records::tail`).
//!
//! | file | what |
//! |---|---|
//! | here | the rows of the text protocol, and how a parser finds them |
//! | `item` | the four operations |
//! | `text` | the handlers of the text protocol: they parse words, act, and write lines |
//! | `meta`, `binary` | those of meta commands and of the binary protocol |
//! | `words` | the arguments of a command for a request |
//! | `refusal` | errors of the engine |
//!
//! Invariants
//! 1. A command has at most one key: a `get` of many becomes as many commands, one after the other,
//!    so they are grouped, prefetched and parked as all commands are.
//! 2. The journal has only commands of RESP, and `mc.flags`; no other of these rows is ever read
//!    from it.
//! 3. No handler allocates for a `get`.
//! 4. Users' rules do not know these rows: each is allowed if the command of RESP with the same
//!    effect is.
//!
//! Not here: parsers (`pantala_memcached`), sockets; `stats`, `flush_all` and other commands about
//! the server (there). Tests: at the foot of each file; the server's `tests/memcached.rs`; compat.

mod binary;
mod item;
mod meta;
mod refusal;
mod text;
mod words;

use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};
use crate::rows::registry::{CommandRef, Registry};

pub use refusal::push_binary_refusal;
pub use refusal::push_refusal;
pub use text::VERSION;
pub use words::{LAST, MORE, NO_REPLY, is_answered};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    reads("mc.get", text::get).summary("Returns an item."),
    reads("mc.gets", text::gets).summary("Returns an item and the number that cas compares."),
    changes("mc.gat", text::gat, CHANGE, Flags::FAST)
        .allowed_as("GETEX")
        .summary("Returns an item and gives it another time to live."),
    changes("mc.gats", text::gats, CHANGE, Flags::FAST)
        .allowed_as("GETEX")
        .summary("Returns an item and its number, and gives it another time to live."),
    stores("mc.set", text::set).replaces().summary("Stores an item."),
    stores("mc.add", text::add).replaces().summary("Stores an item where there is none."),
    stores("mc.replace", text::replace).replaces().summary("Stores an item where there is one."),
    stores("mc.append", text::append).allowed_as("APPEND").summary("Appends to an item."),
    stores("mc.prepend", text::prepend)
        .allowed_as("APPEND")
        .replaces()
        .summary("Puts something before an item."),
    stores("mc.cas", text::cas).replaces().summary("Stores an item if the other is as it was."),
    changes("mc.toolarge", text::too_large, REMOVE, Flags::FAST)
        .allowed_as("SET")
        .replaces()
        .summary("Removes an item that was to be replaced by one that is too large."),
    changes("mc.delete", text::delete, REMOVE, Flags::FAST)
        .allowed_as("DEL")
        .replaces()
        .summary("Removes an item."),
    changes("mc.incr", text::incr, CHANGE, Flags::DENYOOM.union(Flags::FAST))
        .allowed_as("INCRBY")
        .summary("Adds to a number."),
    changes("mc.decr", text::decr, CHANGE, Flags::DENYOOM.union(Flags::FAST))
        .allowed_as("DECRBY")
        .summary("Takes from a number, down to zero."),
    changes("mc.touch", text::touch, MODIFY, Flags::FAST)
        .allowed_as("EXPIRE")
        .summary("Gives an item another time to live."),
    reads("mc.mg", meta::get).summary("Returns an item, or what is known of it."),
    changes("mc.mgc", meta::get, CHANGE, Flags::DENYOOM.union(Flags::FAST))
        .allowed_as("SET")
        .and_as("GET")
        .summary("Returns an item, or makes it."),
    changes("mc.mgt", meta::get, CHANGE, Flags::FAST)
        .allowed_as("GETEX")
        .and_as("GET")
        .summary("Returns an item and gives it another time to live."),
    stores("mc.ms", meta::set).summary("Stores an item."),
    stores("mc.msa", meta::set)
        .allowed_as("APPEND")
        .summary("Puts something behind or before an item."),
    changes("mc.mstoolarge", meta::too_large, REMOVE, Flags::FAST)
        .allowed_as("SET")
        .replaces()
        .summary("Removes an item that was to be replaced by one that is too large."),
    changes("mc.md", meta::delete, REMOVE, Flags::FAST)
        .allowed_as("DEL")
        .summary("Removes an item, or marks it as stale."),
    changes("mc.ma", meta::count, CHANGE, Flags::DENYOOM.union(Flags::FAST))
        .allowed_as("INCRBY")
        .summary("Adds to a number."),
    changes("mc.mad", meta::count, CHANGE, Flags::DENYOOM.union(Flags::FAST))
        .allowed_as("DECRBY")
        .summary("Takes from a number, down to zero."),
    reads("mc.me", meta::describe).summary("Returns what is known of an item."),
    reads("mc.b.get", binary::get).summary("Returns an item."),
    changes("mc.b.gat", binary::get, CHANGE, Flags::FAST)
        .allowed_as("GETEX")
        .summary("Returns an item and gives it another time to live."),
    changes("mc.b.touch", binary::touch, MODIFY, Flags::FAST)
        .allowed_as("EXPIRE")
        .summary("Gives an item another time to live."),
    stores("mc.b.set", binary::set).summary("Stores an item."),
    stores("mc.b.append", binary::set)
        .allowed_as("APPEND")
        .summary("Puts something behind or before an item."),
    changes("mc.b.toolarge", binary::too_large, REMOVE, Flags::FAST)
        .allowed_as("SET")
        .replaces()
        .summary("Removes an item that was to be replaced by one that is too large."),
    changes("mc.b.delete", binary::delete, REMOVE, Flags::FAST)
        .allowed_as("DEL")
        .replaces()
        .summary("Removes an item."),
    changes("mc.b.incr", binary::count, CHANGE, Flags::DENYOOM.union(Flags::FAST))
        .allowed_as("INCRBY")
        .summary("Adds to a number."),
    changes("mc.b.decr", binary::count, CHANGE, Flags::DENYOOM.union(Flags::FAST))
        .allowed_as("DECRBY")
        .summary("Takes from a number, down to zero."),
    changes("mc.flags", item::flags, MODIFY, Flags::FAST)
        .arity(3)
        .allowed_as("SET")
        .summary("Gives an item flags: how records tell of them."),
    says("mc.verbosity", text::verbosity).summary("Does nothing, and says so."),
    says("mc.version", text::version).summary("Returns the version."),
    says("mc.mn", text::meta_nothing).summary("Answers, so that a client knows where it is."),
];

type Keys = &'static [KeySpec];

const READ: Keys = &[KeySpec::one(1, KeyFlags::READ)];
const CHANGE: Keys = &[KeySpec::one(1, KeyFlags::CHANGE)];
const MODIFY: Keys = &[KeySpec::one(1, KeyFlags::MODIFY)];
const REMOVE: Keys = &[KeySpec::one(1, KeyFlags::REMOVE)];

const fn says(name: &'static str, handler: Handler) -> Command {
    Command::new(name, handler, Group::Memcached)
        .allowed_as("PING")
        .arity(-1)
        .syntax("[words]")
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE).union(Flags::REVERSIBLE))
}

const fn reads(name: &'static str, handler: Handler) -> Command {
    let row = Command::read(name, handler, Group::Memcached).arity(-2).flags(Flags::FAST);
    row.allowed_as("GET").keys(READ).syntax("key [words]")
}

const fn changes(name: &'static str, handler: Handler, keys: Keys, flags: Flags) -> Command {
    let row = Command::write(name, handler, Group::Memcached).arity(-2).flags(flags);
    row.keys(keys).syntax("key [words]")
}

const fn stores(name: &'static str, handler: Handler) -> Command {
    changes(name, handler, CHANGE, Flags::DENYOOM.union(Flags::STEADY)).allowed_as("SET")
}

macro_rules! verbs {
    ($($verb:ident = $name:literal),+ $(,)?) => {
        /// A request of a client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Verb {
            $(#[doc = concat!("`", $name, "`")] $verb),+
        }

        const VERBS: &[&str] = &[$(concat!("mc.", $name)),+];
    };
}

verbs! {
    Get = "get", Gets = "gets", Gat = "gat", Gats = "gats", Set = "set", Add = "add",
    Replace = "replace", Append = "append", Prepend = "prepend", Cas = "cas",
    TooLarge = "toolarge", Delete = "delete", Incr = "incr", Decr = "decr", Touch = "touch",
    FlushAll = "flush_all", Verbosity = "verbosity", Version = "version", MetaNothing = "mn",
    Stats = "stats", StatsReset = "stats.reset", StatsConns = "stats.conns",
    StatsSettings = "stats.settings", CacheMemlimit = "cache_memlimit", Auth = "auth",
    MetaGet = "mg", MetaGetOrMake = "mgc", MetaGetAndTouch = "mgt", MetaSet = "ms",
    MetaAppend = "msa", MetaTooLarge = "mstoolarge",
    MetaDelete = "md", MetaCount = "ma", MetaCountDown = "mad", MetaDescribe = "me",
    BinaryGet = "b.get", BinaryGat = "b.gat", BinaryTouch = "b.touch", BinarySet = "b.set",
    BinaryTooLarge = "b.toolarge", BinaryDelete = "b.delete", BinaryIncr = "b.incr",
    BinaryDecr = "b.decr", BinaryAppend = "b.append", BinaryFlush = "b.flush",
    BinaryStats = "b.stats",
    BinaryStatsReset = "b.stats.reset", BinaryStatsConns = "b.stats.conns",
    BinaryStatsSettings = "b.stats.settings", BinaryAuth = "b.auth",
}

impl Verb {
    /// The name in the protocol.
    #[inline]
    pub fn name(self) -> &'static str {
        &VERBS[self as usize]["mc.".len()..]
    }
}

/// The rows of all verbs, looked up once.
pub struct Verbs(Vec<CommandRef>);

impl Verbs {
    /// The verbs of a registry, which has all of them.
    pub fn new(registry: &Registry) -> Self {
        let found = |name: &&str| registry.row_of(name).expect("it has them all");
        Verbs(VERBS.iter().map(found).collect())
    }

    /// The row of a verb.
    #[inline]
    pub fn row(&self, verb: Verb) -> CommandRef {
        self.0[verb as usize]
    }
}

/// The operation of a row, for `stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Fetches an item.
    Fetch,
    /// Fetches an item and sets its time to live.
    FetchAndTouch,
    /// Stores an item.
    Store,
    /// Stores an item if its cas number matches.
    Cas,
    /// Removes an item.
    Delete,
    /// Counts up.
    Incr,
    /// Counts down.
    Decr,
    /// Sets the time to live of an item.
    Touch,
    /// Removes all items.
    Flush,
}

/// The operation of the row with this name; `None`: none on items.
pub fn operation_of(row: &str) -> Option<Operation> {
    Some(match row {
        "mc.get" | "mc.gets" | "mc.mg" | "mc.mgc" | "mc.mgt" | "mc.b.get" => Operation::Fetch,
        "mc.gat" | "mc.gats" | "mc.b.gat" => Operation::FetchAndTouch,
        "mc.set" | "mc.add" | "mc.replace" | "mc.append" | "mc.prepend" | "mc.ms" | "mc.msa"
        | "mc.b.set" | "mc.b.append" => Operation::Store,
        "mc.cas" => Operation::Cas,
        "mc.delete" | "mc.md" | "mc.b.delete" => Operation::Delete,
        "mc.incr" | "mc.ma" | "mc.b.incr" => Operation::Incr,
        "mc.decr" | "mc.mad" | "mc.b.decr" => Operation::Decr,
        "mc.touch" | "mc.b.touch" => Operation::Touch,
        "mc.flush_all" | "mc.b.flush" => Operation::Flush,
        _ => return None,
    })
}
