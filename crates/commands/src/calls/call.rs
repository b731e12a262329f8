//! One command being run: the input of a handler, and its possible ends.

use std::any::{Any, TypeId};

use pantala_base::UnixMs;
use pantala_base::clock::unix_ms;
use pantala_base::number::parse_i64;
use pantala_keyspace::PinWait;
use pantala_keyspace::snapshot::SnapshotWait;
use pantala_keyspace::{Aborted, Busy, Key, Keyspace, Locked, WaitTarget, WrongType};
use pantala_protocol::Reply;
use pantala_rdb::payload::Versions;
use pantala_settings::Settings;
use pantala_settings::field::VersionCheck;
use pantala_table::{MAX_STRING_BYTES, StrRef};
use pantala_values::Type;
use pantala_values::list::Fill;
use smallvec::SmallVec;

use crate::clients::session::Session;
use crate::error::{self, ClientError};
use crate::rows::command::Command;
use crate::rows::registry::Registry;

/// How a handler ends.
pub type CommandResult = Result<(), Stop>;

/// The ends other than success. In all of them nothing was changed, and what was written to the
/// reply is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The client made a mistake.
    Error(ClientError),
    /// It will take long: run it again on the slow lane.
    Lane,
    /// It has to wait: run it again afterwards.
    Park(Park),
}

/// What a parked command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Park {
    /// A partition that is busy.
    Partition(Busy),
    /// A partition that is open to visitors, with another visitor inside.
    Visit(Busy),
    /// One of its keys to have something for it ([`Call::wait`]).
    Keys(Box<KeyWait>),
    /// A snapshot to write what it is about to change, or to have room for it.
    Snapshot(SnapshotWait),
    /// A key that it is about to change to be unpinned.
    Pin(PinWait),
    /// The errand in its session ([`Session::errand`]). Only on the lane.
    Errand,
    /// The partition of a second key, while it is served for its first: it is to run again by
    /// itself.
    Again,
    /// The keyspace's token, to begin with these locks.
    Token(Locking),
    /// Nothing: this has been held by a script for too long. The command is answered BUSY, or runs
    /// again if the script has ended.
    Aborted(WaitTarget),
}

/// The locks that a command begins with if it learns its keys while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// The keys it names; others are only tried, and if one is busy everything is undone.
    #[default]
    Upfront,
    /// The token: it may wait for the partitions that it meets.
    Incremental,
    /// The token and all partitions.
    Everything,
}

/// How a command blocks on its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWait {
    /// Its deadline; `None`: it blocks for ever.
    pub until: Option<UnixMs>,
    /// Which of its keys it blocks on.
    pub keys: WaitedKeys,
    /// Its reply at the deadline.
    pub at_timeout: TimeoutReply,
    /// The arguments to run it with later, if the original ones would mean something else by then
    /// (XREAD's `$`).
    pub args: Option<Vec<Vec<u8>>>,
}

/// Which keys of a command are blocked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitedKeys {
    /// All of them.
    All,
    /// The first: the others are destinations.
    First,
}

impl TimeoutReply {
    /// Writes the reply.
    pub fn reply(self, reply: &mut Reply<'_>) {
        match self {
            TimeoutReply::Null => reply.null(),
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::Acknowledged(told) => told.reply(reply),
        }
    }
}

/// The reply of a command whose timeout has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReply {
    /// Null.
    Null,
    /// Null, as an array in RESP2.
    NullArray,
    /// The number of servers that have the client's writes (WAIT, WAITAOF). The command waits for
    /// the journal and for replicas, not for keys.
    Acknowledged(Acknowledgements),
}

/// Which servers have a connection's writes, and for which of them it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgements {
    /// Durably (WAITAOF), not only in memory (WAIT).
    pub on_disk: bool,
    /// Whether this server is waited for, too.
    pub wants_local: bool,
    /// For how many replicas it waits.
    pub wanted: u64,
    /// Whether this server has it.
    pub local: bool,
    /// How many replicas have it.
    pub replicas: u64,
}

impl Acknowledgements {
    /// Whether all have it that it waits for.
    pub fn is_enough(self) -> bool {
        self.replicas >= self.wanted && (self.local || !self.wants_local)
    }

    fn reply(self, reply: &mut Reply<'_>) {
        if self.on_disk {
            reply.array(2);
            reply.int(i64::from(self.local));
        }
        reply.int(self.replicas.cast_signed());
    }
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

impl From<Aborted> for Stop {
    fn from(Aborted(awaited): Aborted) -> Self {
        Stop::Park(Park::Aborted(awaited))
    }
}

impl From<Aborted> for Park {
    fn from(Aborted(awaited): Aborted) -> Self {
        Park::Aborted(awaited)
    }
}

impl From<Busy> for Stop {
    fn from(busy: Busy) -> Self {
        Stop::Park(Park::Partition(busy))
    }
}

/// The kind of thread that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A worker: other connections wait for it.
    Worker,
    /// The slow lane: it may take long, and wait.
    Slow,
}

/// The server that runs a command, for commands about the server: these ask for the part they need.
pub trait Server: Send + Sync {
    /// The part of this type, if the server has it.
    fn find_part(&self, id: TypeId) -> Option<&dyn Any>;
    /// The engine that runs the command; its type is known to the engine.
    fn engine(&self) -> &dyn Any;
    /// The command table.
    fn registry(&self) -> &Registry;
}

impl<'s> dyn Server + 's {
    /// The part of this type. Commands about a part are only in the tables of servers that have it.
    pub fn part<T: Any>(&self) -> &T {
        let part = self.find_part(TypeId::of::<T>()).and_then(<dyn Any>::downcast_ref);
        part.expect("the server has the parts that its commands are about")
    }
}

/// One command being run: all that its handler is given.
pub struct Call<'c, 'k> {
    /// The arguments; the first is the command's name.
    pub args: &'c [&'c [u8]],
    /// The row.
    pub command: &'static Command,
    /// The reply under construction.
    pub reply: Reply<'c>,
    /// The partitions of the command's keys.
    pub keys: &'c mut Locked<'k>,
    /// The hashes of the command's keys, in the order of [`crate::key_positions`].
    pub hashes: &'c [u64],
    /// The connection.
    pub session: &'c mut Session,
    /// The server.
    pub server: &'c dyn Server,
    /// The settings.
    pub settings: &'c Settings,
    /// The kind of thread that it runs on.
    pub lane: Lane,
    /// For a blocked command that is served: the key that changed, the only one that may be looked
    /// at. Other keys have to be taken first, by [`Locked::try_hold`].
    pub ready: Option<Key<'c>>,
    /// Whether it may block; not inside a transaction or a script.
    pub may_wait: bool,
}

impl<'c, 'k> Call<'c, 'k> {
    /// Ends a command that finds nothing and has to block: `return call.wait(...)`. Where it may
    /// not block it replies as at its timeout.
    pub fn wait(&mut self, wait: KeyWait) -> CommandResult {
        if self.may_wait {
            return Err(Stop::Park(Park::Keys(Box::new(wait))));
        }
        wait.at_timeout.reply(&mut self.reply);
        Ok(())
    }

    /// Whether it comes from a primary's stream or from a file: another server has accepted it, by
    /// its own limits, and its effect has to be repeated here.
    #[inline]
    pub fn is_repeated(&self) -> bool {
        self.keys.scope().sees_expired && !self.session.is_import_source
    }

    /// The longest string: `proto-max-bulk-len`, as far as the table allows. A repeated command was
    /// accepted before, so the setting does not limit it.
    #[inline]
    pub fn most_string_bytes(&self) -> usize {
        if self.is_repeated() {
            return MAX_STRING_BYTES;
        }
        let most = usize::try_from(self.settings.proto_max_bulk_len).unwrap_or(usize::MAX);
        most.min(MAX_STRING_BYTES)
    }

    /// A connection with more output than this, in bytes, is closed, so no more need be written.
    #[inline]
    pub fn most_output_bytes(&self) -> usize {
        self.settings.client_output_buffer_limit.normal.most_bytes()
    }

    /// Which versions of payloads are accepted: for a repeated command, all.
    pub fn rdb_versions(&self) -> Versions {
        if self.is_repeated() {
            return Versions::All;
        }
        match self.settings.rdb_version_check {
            _ if self.settings.skip_checksum_validation => Versions::Unsealed,
            VersionCheck::Strict => Versions::Known,
            VersionCheck::Relaxed => Versions::All,
        }
    }

    /// How lists are packed, by the settings.
    #[inline]
    pub fn fill(&self) -> Fill {
        list_fill(self.settings)
    }

    /// The time at which the command runs; the same for everything it does.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.keys.scope().now
    }

    /// The time of day, from which relative times count, and which streams store. It is
    /// [`Call::now`], except when a stream of commands is applied, for which no deadline has passed
    /// and `now` is before all deadlines.
    pub fn clock(&self) -> UnixMs {
        if self.keys.scope().sees_expired { unix_ms() } else { self.now() }
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

    /// The keys that a command that may block looks at, in order: all of them. When it is served,
    /// those that are held anyway and have this type: the one that changed, and others that the
    /// same transaction or script may have changed, because the first of its keys takes precedence.
    pub fn keys_of_type(&mut self, kind: Type) -> SmallVec<[Key<'c>; 4]> {
        let Some(ready) = self.ready else { return self.all_keys() };
        let positions = crate::key_positions(self.command, self.args).unwrap_or_default();
        let mut keys: SmallVec<[Key<'c>; 4]> = SmallVec::new();
        for position in positions {
            let bytes = self.args[position];
            let hash = if bytes == ready.bytes { ready.hash } else { self.space().hash(bytes) };
            let key = Key { bytes, hash };
            if self.keys.is_held(hash) && self.keys.peek(key).kind() == Some(kind) {
                keys.push(key);
            }
        }
        keys
    }

    /// Argument `position` as an integer.
    #[inline]
    pub fn int(&self, position: usize) -> Result<i64, ClientError> {
        parse_i64(self.args[position]).ok_or(error::NOT_INTEGER)
    }
}

/// How lists are packed, by the settings.
#[inline]
pub(crate) fn list_fill(settings: &Settings) -> Fill {
    Fill::new(settings.list_max_listpack_size).compressing(settings.list_compress_depth)
}

/// Writes a string value as a bulk reply.
#[inline]
pub fn reply_string(reply: &mut Reply<'_>, value: StrRef<'_>) {
    match value {
        StrRef::Bytes(bytes) => reply.bulk(bytes),
        StrRef::Int(number) => reply.bulk_int(number),
    }
}
