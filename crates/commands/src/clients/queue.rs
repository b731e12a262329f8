//! A transaction in the making: the commands between MULTI and EXEC, and the keys of WATCH.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pantala_base::number::parse_i64;
use pantala_keyspace::{DbIndex, Watch};

use crate::calls::call::Locking;
use crate::calls::owned_args::OwnedArgs;
use crate::rows::command::{Databases, Flags};
use crate::rows::registry::CommandRef;

/// A command queued for EXEC.
#[derive(Clone, Debug)]
pub struct QueuedCommand {
    /// The row.
    pub found: CommandRef,
    /// The arguments.
    pub args: OwnedArgs,
}

/// The commands since MULTI.
#[derive(Clone, Debug, Default)]
pub struct TransactionQueue {
    /// The commands, in the order they came.
    pub commands: Vec<QueuedCommand>,
    /// The flags that at least one of them has.
    pub flags: Flags,
    /// The flags that at least one of them lacks.
    pub lacking: Flags,
    /// The total number of their arguments.
    pub arg_count: usize,
    /// The memory they take, in bytes.
    pub bytes: usize,
    /// The database selected by them, if any selects one.
    pub selected: Option<DbIndex>,
    /// A command was refused: EXEC will run none.
    pub is_aborted: bool,
}

impl TransactionQueue {
    /// Adds a command with this many arguments.
    pub fn push(&mut self, found: CommandRef, args: OwnedArgs, arg_count: usize) {
        self.flags = self.flags.union(found.row.flags);
        self.lacking = self.lacking.union(found.row.flags.complement());
        self.arg_count += arg_count;
        self.bytes += size_of::<QueuedCommand>() + args.memory_bytes();
        if matches!(found.row.databases, Databases::Selects) {
            let index = args.slices().get(1).and_then(|text| parse_i64(text));
            let index = index.and_then(|index| u32::try_from(index).ok());
            self.selected = index.map(DbIndex).or(self.selected);
        }
        self.commands.push(QueuedCommand { found, args });
    }

    /// The locks that EXEC needs beyond the commands' keys: everything, if one goes through the
    /// whole keyspace; the token, if one is a script.
    pub fn locking(&self) -> Locking {
        match self.flags {
            flags if flags.intersects(Flags::WHOLE) => Locking::Everything,
            flags if flags.intersects(Flags::SCRIPT) => Locking::Incremental,
            _ => Locking::Upfront,
        }
    }
}

/// The keys of WATCH, and whether one has changed.
#[derive(Clone, Debug, Default)]
pub struct Watching {
    /// Registered in the partitions of the keys, which drop it when its last owner does.
    pub watch: Arc<Watch>,
    /// About the memory that the keys take, in bytes.
    pub bytes: usize,
    keys: HashSet<(DbIndex, Box<[u8]>)>,
    /// Counts the client among those that watch, once for all clones of this.
    _counted: Option<Arc<Counted>>,
}

/// The memory of a watched key beside its name.
const WATCHED_KEY_BYTES: usize = 64;

impl Watching {
    /// Watches nothing yet, and counts one more watching client.
    pub fn begin(clients: &Arc<AtomicUsize>) -> Self {
        Watching { _counted: Some(Arc::new(Counted::new(clients))), ..Watching::default() }
    }

    /// Adds a key; false if it was watched before.
    pub fn add(&mut self, db: DbIndex, key: &[u8]) -> bool {
        let is_new = self.keys.insert((db, key.into()));
        if is_new {
            self.bytes += key.len() + WATCHED_KEY_BYTES;
        }
        is_new
    }

    /// The keys, in any order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = (DbIndex, &[u8])> {
        self.keys.iter().map(|(db, key)| (*db, &**key))
    }
}

/// Counts one client while it lives.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(all))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
