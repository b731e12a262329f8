//! One row of the command table.
//!
//! Rows are constants, written with a chain that reads like a sentence:
//!
//! ```text
//! Command::read("GET", get, Group::String)
//!     .arity(2).flags(Flags::FAST).keys(&[KeySpec::one(1, KeyFlags::READ)])
//!     .since("1.0.0").complexity("O(1)")
//!     .syntax("key")
//!     .summary("Returns the string stored at a key.")
//! ```
//!
//! Everything else derives from the row: locks, arity check, memory check, `COMMAND INFO`, `DOCS`
//! and `GETKEYS`, statistics, HELP.

use bitflags::bitflags;
use pantala_acl::Categories;
pub use pantala_acl::Category;

use smallvec::SmallVec;

use crate::calls::call::{Call, CommandResult};
pub use crate::rows::keys::{ChannelSpec, Databases, Find, KeyFlags, KeySpec, KeySpecStart};
use crate::rows::keys::{KeyAccesses, by_spec, collect};

/// Whether the argument at a position is a secret.
pub type IsSecret = fn(&[&[u8]], usize) -> bool;

/// What is done with the keys, given the arguments.
pub type FlagsOf = fn(&[&[u8]]) -> KeyFlags;

/// The function that runs a command.
pub type Handler = fn(&mut Call<'_, '_>) -> CommandResult;

bitflags! {
    /// Properties of a command, as bits. The first ones are shown by COMMAND INFO.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u64 {
        /// Nothing.
        const NONE = 0;
        /// Changes data.
        const WRITE = 1 << 0;
        /// Reads data.
        const READONLY = 1 << 1;
        /// May need memory: refused when memory is full.
        const DENYOOM = 1 << 2;
        /// For operators.
        const ADMIN = 1 << 3;
        /// About publishing and subscribing.
        const PUBSUB = 1 << 4;
        /// Not from scripts.
        const NOSCRIPT = 1 << 5;
        /// May block.
        const BLOCKING = 1 << 6;
        /// Allowed while data is loaded.
        const LOADING = 1 << 7;
        /// Allowed on a replica that lost its primary.
        const STALE = 1 << 8;
        /// Not shown to MONITOR.
        const SKIP_MONITOR = 1 << 9;
        /// Not logged as slow.
        const SKIP_COMMANDLOG = 1 << 10;
        /// Runs in constant or logarithmic time.
        const FAST = 1 << 11;
        /// Allowed before AUTH.
        const NO_AUTH = 1 << 12;
        /// The positions of the keys depend on the arguments.
        const MOVABLEKEYS = 1 << 13;
        /// Allowed while a script runs too long.
        const ALLOW_BUSY = 1 << 14;
        /// Not inside MULTI.
        const NO_MULTI = 1 << 15;
        /// Not while a replica loads in the background.
        const NO_ASYNC_LOADING = 1 << 16;
        /// Goes to replicas although it does not write: refused where writes are. Not shown.
        const MAY_REPLICATE = 1 << 17;
        /// Its keys may be none.
        const NO_MANDATORY_KEYS = 1 << 18;
        /// Ours: what operators need when nothing else works: on the lane it never waits behind
        /// other commands. It takes no partition.
        const OPERATOR = 1 << 19;
        /// Ours: leaves nothing behind except its own session and effects, so a transaction can
        /// begin again after it. Also true of every `READONLY` command.
        const REVERSIBLE = 1 << 20;
        /// Ours: changes a key of another database, too.
        const OTHER_DB = 1 << 22;
        /// Ours: runs a script.
        const SCRIPT = 1 << 21;
        /// Ours: allowed on a RESP2 connection that has subscribed to something.
        const SUBSCRIBED = 1 << 23;
        /// Ours: always runs on the slow lane.
        const LANE = 1 << 24;
        /// Ours: on the lane, but outside the gate, because it closes the gate itself or takes no
        /// partition.
        const OUTSIDE = 1 << 25;
        /// Of a cluster: allowed on a slot that is being imported.
        const ASKING = 1 << 26;
        /// Ours: its subcommands do the work.
        const CONTAINER = 1 << 27;
        /// Ours: takes long only when its request or its reply is large, so it is not timed on its
        /// own. True of every `FAST` command.
        const STEADY = 1 << 28;
        /// Ours: goes through the whole keyspace or changes it as a whole: a transaction or a
        /// script takes all partitions for it.
        const WHOLE = 1 << 29;
        /// Ours: runs at once even between MULTI and EXEC.
        const UNQUEUED = 1 << 30;
        /// Ours: runs what was queued since MULTI.
        const TRANSACTION = 1 << 31;
        /// Its effect does not reach replicas other than Pantala.
        const ONLY_OURS = 1 << 32;
        /// Its effect does not reach replicas of Redis 7.0.
        const NEWER = 1 << 33;
    }
}

impl Flags {
    const NAMES: [(Flags, &'static str); 19] = [
        (Flags::WRITE, "write"),
        (Flags::READONLY, "readonly"),
        (Flags::DENYOOM, "denyoom"),
        (Flags::ADMIN, "admin"),
        (Flags::PUBSUB, "pubsub"),
        (Flags::NOSCRIPT, "noscript"),
        (Flags::BLOCKING, "blocking"),
        (Flags::LOADING, "loading"),
        (Flags::STALE, "stale"),
        (Flags::SKIP_MONITOR, "skip_monitor"),
        (Flags::SKIP_COMMANDLOG, "skip_commandlog"),
        (Flags::FAST, "fast"),
        (Flags::NO_AUTH, "no_auth"),
        (Flags::NO_MULTI, "no_multi"),
        (Flags::MOVABLEKEYS, "movablekeys"),
        (Flags::ALLOW_BUSY, "allow_busy"),
        (Flags::NO_ASYNC_LOADING, "no_async_loading"),
        (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (Flags::ASKING, "asking"),
    ];

    /// The names COMMAND INFO shows.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Flags::NAMES.iter().filter(move |(flag, _)| self.intersects(*flag)).map(|(_, name)| *name)
    }
}

/// The group of a command in the documentation, as COMMAND DOCS names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `string`
    String,
    /// `generic`
    Generic,
    /// `connection`
    Connection,
    /// `server`
    Server,
    /// `list`
    List,
    /// `set`
    Set,
    /// `sorted-set`
    SortedSet,
    /// `hash`
    Hash,
    /// `stream`
    Stream,
    /// `bitmap`
    Bitmap,
    /// `hyperloglog`
    HyperLogLog,
    /// `geo`
    Geo,
    /// `transactions`
    Transactions,
    /// `scripting`
    Scripting,
    /// `pubsub`
    PubSub,
    /// `cluster`
    Cluster,
    /// Commands of Memcached's protocols, which RESP does not have.
    Memcached,
}

impl Group {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Generic => "generic",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Geo => "geo",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::PubSub => "pubsub",
            Group::Cluster => "cluster",
            Group::Memcached => "memcached",
        }
    }
}

/// How the first argument names the program that a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The script with this text.
    Body,
    /// The script with this digest.
    Digest,
    /// The function with this name.
    Function,
}

/// One row of the command table: name, handler, keys, flags and documentation of a command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The name, in upper case; for a subcommand its own word only.
    pub name: &'static str,
    /// The container's name, for a subcommand.
    pub parent: Option<&'static str>,
    /// The function that runs it.
    pub handler: Handler,
    /// How many arguments with the name: exactly, or at least when negative.
    pub arity: i16,
    /// Its properties.
    pub flags: Flags,
    /// The positions of its keys.
    pub keys: &'static [KeySpec],
    /// Which arguments name channels that it publishes to or subscribes to.
    pub channels: Option<ChannelSpec>,
    /// The databases it reaches beside the current one.
    pub databases: Databases,
    /// The position of its only key, or 0: the quick way to the lock.
    pub only_key: u8,
    /// The same, if it may run in a group with other commands: it never blocks, and never belongs
    /// on the slow lane.
    pub group_key: u8,
    /// The chapter of the documentation.
    pub group: Group,
    /// ACL categories beyond those the flags imply.
    pub categories: &'static [Category],
    /// Hints for clients that route commands.
    pub tips: &'static [&'static str],
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// Its complexity, in the usual notation.
    pub complexity: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its arguments in the documentation's syntax: `key [NX | XX] [EX seconds:int]`.
    pub syntax: &'static str,
    /// The subcommands of a container.
    pub subcommands: &'static [Command],
    /// Which arguments MONITOR and COMMANDLOG do not show.
    pub is_secret: Option<IsSecret>,
    /// What is done with keys that have variable flags.
    pub flags_of: Option<FlagsOf>,
    /// For a command that users' rules do not name: it is allowed if this other command is,
    pub allowed_as: Option<&'static str>,
    /// and only if this one is, too.
    pub and_as: Option<&'static str>,
    /// For a command that runs a script or function: how that is named.
    pub program: Option<Program>,
    /// It writes, but changes no value in place: values are replaced, removed, or get another
    /// deadline. So it need not wait until a snapshot has written a large one.
    pub replaces: bool,
    /// Another command replaces it, as COMMAND DOCS says.
    pub is_deprecated: bool,
    /// It is about the client itself, so CLIENT CACHING before it applies to the command after it.
    pub keeps_caching: bool,
}

impl Command {
    /// A row with only a name, a handler and a group.
    pub const fn new(name: &'static str, handler: Handler, group: Group) -> Command {
        Command {
            name,
            parent: None,
            handler,
            arity: 1,
            flags: Flags::NONE,
            keys: &[],
            channels: None,
            databases: Databases::Selected,
            only_key: 0,
            group_key: 0,
            group,
            categories: match group {
                Group::String => &[Category::String],
                Group::Generic => &[Category::Keyspace],
                Group::Connection => &[Category::Connection],
                Group::Server => &[],
                Group::List => &[Category::List],
                Group::Set => &[Category::Set],
                Group::SortedSet => &[Category::SortedSet],
                Group::Hash => &[Category::Hash],
                Group::Stream => &[Category::Stream],
                Group::Bitmap => &[Category::Bitmap],
                Group::HyperLogLog => &[Category::HyperLogLog],
                Group::Geo => &[Category::Geo],
                Group::Transactions => &[Category::Transaction],
                Group::Scripting => &[Category::Scripting],
                Group::PubSub | Group::Cluster | Group::Memcached => &[],
            },
            tips: &[],
            since: "1.0.0",
            complexity: "O(1)",
            summary: "",
            syntax: "",
            subcommands: &[],
            is_secret: None,
            flags_of: None,
            allowed_as: None,
            and_as: None,
            program: None,
            replaces: false,
            is_deprecated: false,
            keeps_caching: false,
        }
    }

    /// Sets [`Command::keeps_caching`].
    pub const fn keeps_caching(mut self) -> Command {
        self.keeps_caching = true;
        self
    }

    /// Marks it as replaced by another command.
    pub const fn deprecated(mut self) -> Command {
        self.is_deprecated = true;
        self
    }

    /// Sets [`Command::replaces`]: it changes no value in place.
    pub const fn replaces(mut self) -> Command {
        self.replaces = true;
        self
    }

    /// A command that reads data.
    pub const fn read(name: &'static str, handler: Handler, group: Group) -> Command {
        Command::new(name, handler, group).flags(Flags::READONLY)
    }

    /// A command that changes data.
    pub const fn write(name: &'static str, handler: Handler, group: Group) -> Command {
        Command::new(name, handler, group).flags(Flags::WRITE)
    }

    /// A command that only groups its subcommands.
    pub const fn container(
        name: &'static str,
        group: Group,
        subcommands: &'static [Command],
    ) -> Command {
        let mut row = Command::new(name, crate::rows::registry::no_subcommand, group);
        row.arity = -2;
        row.subcommands = subcommands;
        row.flags = Flags::CONTAINER;
        row.categories = &[];
        row
    }

    /// A subcommand of `parent`.
    pub const fn of(mut self, parent: &'static str) -> Command {
        self.parent = Some(parent);
        self
    }

    /// Sets the number of arguments including the name (both names for a subcommand); negative: at
    /// least.
    pub const fn arity(mut self, arity: i16) -> Command {
        self.arity = arity;
        self
    }

    /// Adds flags.
    pub const fn flags(mut self, flags: Flags) -> Command {
        self.flags = self.flags.union(flags);
        self.group_key = self.key_in_group();
        self
    }

    const fn key_in_group(&self) -> u8 {
        if self.flags.intersects(Flags::LANE.union(Flags::BLOCKING)) { 0 } else { self.only_key }
    }

    /// Sets the positions of the keys.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Command {
        self.keys = keys;
        self.only_key = match keys {
            [
                KeySpec {
                    begin: KeySpecStart::Index(index),
                    find: Find::Range { last: 0, .. },
                    flags,
                },
            ] if !flags.contains(KeyFlags::NOT_KEY) => *index as u8,
            _ => 0,
        };
        self.group_key = self.key_in_group();
        self
    }

    /// Sets which arguments name channels.
    pub const fn channels(mut self, channels: ChannelSpec) -> Command {
        self.channels = Some(channels);
        self
    }

    /// Sets the databases it reaches beside the current one.
    pub const fn databases(mut self, databases: Databases) -> Command {
        self.databases = databases;
        self
    }

    /// Replaces the categories that the group implies.
    pub const fn categories(mut self, categories: &'static [Category]) -> Command {
        self.categories = categories;
        self
    }

    /// Sets which arguments are secrets.
    pub const fn secrets(mut self, is_secret: IsSecret) -> Command {
        self.is_secret = Some(is_secret);
        self
    }

    /// Sets what is done with keys whose flags are variable.
    pub const fn flags_of(mut self, flags_of: FlagsOf) -> Command {
        self.flags_of = Some(flags_of);
        self
    }

    /// Allows it to users that may run the command of this name (`name` or `container|name`),
    pub const fn allowed_as(mut self, name: &'static str) -> Command {
        self.allowed_as = Some(name);
        self
    }

    /// and requires permission for this one, too.
    pub const fn and_as(mut self, name: &'static str) -> Command {
        self.and_as = Some(name);
        self
    }

    /// Whether it concerns the contents of a database: then its user must be allowed there.
    pub fn is_about_data(&self) -> bool {
        self.flags.intersects(Flags::WRITE.union(Flags::READONLY))
            || self.keys.iter().any(|spec| !spec.flags.contains(KeyFlags::NOT_KEY))
            || self.categories.contains(&Category::Keyspace)
    }

    /// Makes it run a script or a function; the handler is not used.
    pub const fn runs(mut self, program: Program) -> Command {
        self.program = Some(program);
        self
    }

    /// Sets hints for routing clients.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Command {
        self.tips = tips;
        self
    }

    /// Sets the version that introduced it.
    pub const fn since(mut self, since: &'static str) -> Command {
        self.since = since;
        self
    }

    /// Sets its complexity.
    pub const fn complexity(mut self, complexity: &'static str) -> Command {
        self.complexity = complexity;
        self
    }

    /// Sets its summary, one sentence.
    pub const fn summary(mut self, summary: &'static str) -> Command {
        self.summary = summary;
        self
    }

    /// Sets the syntax of its arguments.
    pub const fn syntax(mut self, syntax: &'static str) -> Command {
        self.syntax = syntax;
        self
    }

    /// `name` or `parent|name`, in lower case, as statistics and errors write it.
    pub fn full_name(&self) -> String {
        let name = self.name.to_ascii_lowercase();
        match self.parent {
            Some(parent) => format!("{}|{name}", parent.to_ascii_lowercase()),
            None => name,
        }
    }

    /// Whether this many arguments (including the name) are allowed.
    #[inline]
    pub fn accepts(&self, count: usize) -> bool {
        let wanted = usize::from(self.arity.unsigned_abs());
        if self.arity >= 0 { count == wanted } else { count >= wanted }
    }

    /// All its ACL categories: those it names, and those that its flags imply.
    pub fn all_categories(&self) -> Categories {
        let implied = [
            (Flags::WRITE, Category::Write),
            (Flags::READONLY, Category::Read),
            (Flags::ADMIN, Category::Admin),
            (Flags::ADMIN, Category::Dangerous),
            (Flags::PUBSUB, Category::PubSub),
            (Flags::FAST, Category::Fast),
            (Flags::BLOCKING, Category::Blocking),
        ];
        let named = self.categories.iter().fold(Categories::NONE, |set, one| set.with(*one));
        let with = |set: Categories, (flag, one)| set.with_if(self.flags.intersects(flag), one);
        let all = implied.into_iter().fold(named, with);
        let all = all.with_if(!self.flags.intersects(Flags::FAST), Category::Slow);
        // A script's effects are not known from its row.
        if named.has(Category::Scripting) { all.without(Category::Read) } else { all }
    }

    /// First key, last key, step, as in COMMAND INFO's older form: the range that covers all plain
    /// range specifications, or zeros.
    pub fn key_range(&self) -> (isize, isize, isize) {
        let mut whole: Option<(isize, isize, isize)> = None;
        for spec in self.keys {
            let KeySpec {
                begin: KeySpecStart::Index(first), find: Find::Range { last, step }, ..
            } = spec
            else {
                continue;
            };
            let first = first.cast_signed();
            let last = if *last >= 0 { first + last } else { *last };
            whole = Some(match whole {
                None => (first, last, step.cast_signed()),
                Some((from, to, _)) => {
                    let to = if to < 0 || last < 0 { to.min(last) } else { to.max(last) };
                    (from.min(first), to, 1)
                }
            });
        }
        whole.unwrap_or((0, 0, 0))
    }
}
/// The positions of the arguments that are keys. `None`: the arguments are malformed (a number of
/// keys that is invalid or too large); the handler reports that.
#[inline]
pub fn key_positions(command: &Command, args: &[&[u8]]) -> Option<SmallVec<[usize; 8]>> {
    let only = usize::from(command.only_key);
    if only != 0 && only < args.len() {
        return Some(SmallVec::from_slice(&[only]));
    }
    by_spec(command.keys, args)
}

/// The positions of the arguments that decide which node of a cluster runs the command: its keys,
/// or the shard channels that it is about. `None`: the arguments are malformed.
pub fn slot_positions(command: &Command, args: &[&[u8]]) -> Option<SmallVec<[usize; 8]>> {
    collect(command.keys, args, |_| true)
}

/// Like [`key_positions`], with what the command does with each key.
pub fn key_accesses(command: &Command, args: &[&[u8]]) -> Option<KeyAccesses> {
    let mut accesses: KeyAccesses = by_spec(command.keys, args)?;
    if let Some(flags_of) = command.flags_of {
        let variable = accesses.iter_mut().filter(|access| access.flags.is_variable());
        variable.for_each(|access| access.flags = flags_of(args));
    }
    Some(accesses)
}
