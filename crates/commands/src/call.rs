//! One command being run: what a handler is given, and how it may end.

use std::any::Any;

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_keyspace::{Busy, Key, Keyspace, Locked, WrongType};
use pantala_protocol::Reply;
use pantala_table::StrRef;
use smallvec::SmallVec;

use crate::command::Command;
use crate::error::{self, ClientError};
use crate::registry::Registry;
use crate::session::Session;

/// How a handler ends.
pub type Done = Result<(), Stop>;

/// The ends other than success. In all of them nothing was changed, and what was written to the
/// reply is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The client made a mistake.
    Error(ClientError),
    /// This will take long: run it again on the slow lane.
    Lane,
    /// Something is missing: run it again when it is there.
    Park(Park),
}

/// What a parked command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Park {
    /// A partition that somebody else holds.
    Partition(Busy),
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Self {
        Stop::Error(error)
    }
}

impl From<WrongType> for Stop {
    fn from(_: WrongType) -> Self {
        Stop::Error(error::WRONG_TYPE)
    }
}

impl From<Busy> for Stop {
    fn from(busy: Busy) -> Self {
        Stop::Park(Park::Partition(busy))
    }
}

/// Which thread a command runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A worker: other connections wait for it.
    Worker,
    /// The slow lane: it may take its time, and wait.
    Slow,
}

/// Settings that handlers of data commands need.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest string, in bytes (`proto-max-bulk-len`).
    pub max_string_bytes: usize,
    /// KEYS answers at most so many (`keys_output_limit`); 0: all.
    pub keys_output_limit: usize,
    /// Whether FLUSHDB and FLUSHALL free in the background unless told
    /// (`lazyfree-lazy-user-flush`).
    pub lazy_user_flush: bool,
    /// Whether `maxmemory-policy` is one that counts how often a key is used.
    pub is_lfu: bool,
}

/// The server as commands about the server see it: they know what is behind it.
pub trait Server: Send + Sync {
    /// What is behind it.
    fn any(&self) -> &dyn Any;
    /// The command table.
    fn registry(&self) -> &Registry;
}

/// See the module.
pub struct Call<'c, 'k> {
    /// The arguments; the first is the command's name.
    pub args: &'c [&'c [u8]],
    /// The row.
    pub command: &'static Command,
    /// Where the reply goes.
    pub reply: Reply<'c>,
    /// The partitions of the command's keys.
    pub keys: &'c mut Locked<'k>,
    /// The hashes of the command's keys, in the order of [`crate::key_positions`].
    pub hashes: &'c [u64],
    /// The connection.
    pub session: &'c mut Session,
    /// The server.
    pub server: &'c dyn Server,
    /// Settings.
    pub limits: &'c Limits,
    /// Where it runs.
    pub lane: Lane,
}

impl<'c, 'k> Call<'c, 'k> {
    /// The time at which the command runs; the same for all it does.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.keys.scope().now
    }

    /// The whole keyspace.
    #[inline]
    pub fn space(&self) -> &'k Keyspace {
        self.keys.scope().space
    }

    /// The command's first key, for commands with `only_key` or a range that begins with it.
    #[inline]
    pub fn key(&self) -> Key<'c> {
        self.nth_key(usize::from(self.command.only_key).max(1), 0)
    }

    /// The key at argument `position`, which is the `nth` of the command's keys.
    #[inline]
    pub fn nth_key(&self, position: usize, nth: usize) -> Key<'c> {
        Key { bytes: self.args[position], hash: self.hashes[nth] }
    }

    /// All keys, in order.
    pub fn all_keys(&self) -> SmallVec<[Key<'c>; 4]> {
        let positions = crate::key_positions(self.command, self.args).unwrap_or_default();
        positions
            .iter()
            .zip(self.hashes)
            .map(|(&position, &hash)| Key { bytes: self.args[position], hash })
            .collect()
    }

    /// Argument `position` as an integer.
    #[inline]
    pub fn int(&self, position: usize) -> Result<i64, ClientError> {
        parse_i64(self.args[position]).ok_or(error::NOT_INTEGER)
    }
}

/// Writes a string value as a bulk reply.
#[inline]
pub fn reply_string(reply: &mut Reply<'_>, value: StrRef<'_>) {
    match value {
        StrRef::Bytes(bytes) => reply.bulk(bytes),
        StrRef::Int(number) => reply.bulk_int(number),
    }
}
