//! What is asked of a user's rules, and how they refuse.

use super::catalogue::CommandId;

/// What is done with a key, as far as rules tell it apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Only whether it is there, or nothing about its value: any pattern will do.
    pub const NONE: Access = Access(0);
    /// Its value is read.
    pub const READ: Access = Access(1);
    /// It is written, or removed.
    pub const WRITE: Access = Access(2);
    /// Both.
    pub const READ_WRITE: Access = Access(3);

    /// Both sets.
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Whether all of `other` is in it.
    pub const fn covers(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a channel is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// By its name: PUBLISH, SUBSCRIBE and those for slots.
    Exact,
    /// By a pattern (PSUBSCRIBE), which has to stand in the rules as it is.
    Pattern,
}

/// Which databases something is done in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// This one.
    One(u32),
    /// Every one (FLUSHALL).
    All,
}

/// One command that somebody wants to run. Positions are those of arguments; the name's is 0.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command; a container's subcommand where there is one.
    pub command: CommandId,
    /// The arguments, with the name.
    pub args: &'a [&'a [u8]],
    /// Which arguments are keys, and what is done with them.
    pub keys: &'a [(usize, Access)],
    /// Which arguments are channels.
    pub channels: &'a [(usize, ChannelKind)],
    /// Databases: at position 0 the selected one, or all; else the one that an argument names.
    pub databases: &'a [(usize, Database)],
}

/// What was refused. The position is that of the argument; of the selected database 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The command, or its first argument.
    Command,
    /// A key.
    Key(usize),
    /// A channel.
    Channel(usize),
    /// A database.
    Database(usize),
}

impl Denied {
    /// Of several refusals the highest is told: what came farthest.
    pub(crate) fn rank(self) -> (u8, usize) {
        match self {
            Denied::Database(position) => (0, position),
            Denied::Command => (1, 0),
            Denied::Key(position) => (2, position),
            Denied::Channel(position) => (3, position),
        }
    }
}
