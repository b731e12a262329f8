//! What a transaction has gathered: commands between MULTI and EXEC, and the keys WATCH named.

use std::sync::Arc;

use pantala_keyspace::{DbIndex, Watch};

use crate::call::Locking;
use crate::command::Flags;
use crate::owned_args::OwnedArgs;
use crate::registry::CommandRef;

/// A command that waits for EXEC.
#[derive(Clone, Debug)]
pub struct Queued {
    /// The row.
    pub found: CommandRef,
    /// The arguments.
    pub args: OwnedArgs,
}

/// The commands since MULTI.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// In the order they came.
    pub commands: Vec<Queued>,
    /// The flags that one of them has at least.
    pub flags: Flags,
    /// The flags that one of them lacks at least.
    pub lacking: Flags,
    /// How many arguments they have in all.
    pub arg_count: usize,
    /// The memory they take, in bytes.
    pub bytes: usize,
    /// One was refused: EXEC will run none.
    pub is_aborted: bool,
}

impl Queue {
    /// One more, with so many arguments.
    pub fn push(&mut self, found: CommandRef, args: OwnedArgs, arg_count: usize) {
        self.flags = self.flags.and(found.row.flags);
        self.lacking = self.lacking.and(Flags(!found.row.flags.0));
        self.arg_count += arg_count;
        self.bytes += size_of::<Queued>() + args.memory_bytes();
        self.commands.push(Queued { found, args });
    }

    /// What EXEC needs beyond the keys of the commands: everything, if one of them goes through the
    /// whole keyspace; the right to wait for more, if one is a script.
    pub fn locking(&self) -> Locking {
        match self.flags {
            flags if flags.has(Flags::WHOLE) => Locking::Everything,
            flags if flags.has(Flags::SCRIPT) => Locking::Incremental,
            _ => Locking::Upfront,
        }
    }
}

/// The keys of WATCH, and whether one has changed.
#[derive(Clone, Debug, Default)]
pub struct Watching {
    /// Known to the partitions of the keys; they forget it when the last of these is dropped.
    pub watch: Arc<Watch>,
    /// The keys.
    pub keys: Vec<(DbIndex, Box<[u8]>)>,
}
