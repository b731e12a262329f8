//! The input of a check against a user's rules, and its refusal.

use super::catalogue::CommandId;

/// The kinds of access to a key that rules distinguish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Only its existence, or nothing about its value: any pattern suffices.
    pub const NONE: Access = Access(0);
    /// Its value is read.
    pub const READ: Access = Access(1);
    /// It is written, or removed.
    pub const WRITE: Access = Access(2);
    /// Its value is read, and it is written.
    pub const READ_WRITE: Access = Access(3);

    /// The union of both sets.
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Whether all of `other` is included.
    pub const fn covers(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a channel is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// By its name: PUBLISH, SUBSCRIBE and the variants for slots.
    Exact,
    /// By a pattern (PSUBSCRIBE), which must occur literally in the rules.
    Pattern,
}

/// The databases that a command touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// A single database.
    One(u32),
    /// Every database (FLUSHALL).
    All,
}

/// A command to be checked. Positions are those of arguments; the name's is 0.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// The command; the subcommand of a container where there is one.
    pub command: CommandId,
    /// The arguments, including the name.
    pub args: &'a [&'a [u8]],
    /// Positions of keys, and the access to them.
    pub keys: &'a [(usize, Access)],
    /// Positions of channels.
    pub channels: &'a [(usize, ChannelKind)],
    /// Databases: at position 0 the selected one, or all; otherwise the one that an argument names.
    pub databases: &'a [(usize, Database)],
}

/// What was denied. The position is that of the argument; 0 for the selected database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The command, or its first argument.
    Command,
    /// A key.
    Key(usize),
    /// A channel.
    Channel(usize),
    /// A database.
    Database(usize),
}

impl Denial {
    /// Of several refusals the highest is reported: the one that came furthest.
    pub(crate) fn rank(self) -> (u8, usize) {
        match self {
            Denial::Database(position) => (0, position),
            Denial::Command => (1, 0),
            Denial::Key(position) => (2, position),
            Denial::Channel(position) => (3, position),
        }
    }
}
