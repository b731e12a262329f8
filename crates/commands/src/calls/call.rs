//! One command being run: what a handler is given, and how it may end.

use std::any::Any;

use pantala_base::UnixMs;
use pantala_base::clock::unix_ms;
use pantala_base::number::parse_i64;
use pantala_keyspace::pins::PinWait;
use pantala_keyspace::snapshot::SnapshotWait;
use pantala_keyspace::{Aborted, Awaited, Busy, Key, Keyspace, Locked, WrongType};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Park {
    /// A partition that somebody else holds.
    Partition(Busy),
    /// A partition that is open to visitors, one of whom is inside.
    Visit(Busy),
    /// Something to appear under its keys ([`Call::wait`]).
    Keys(Box<KeyWait>),
    /// That a snapshot has what it is about to change, or has room for it.
    Snapshot(SnapshotWait),
    /// That a key it is about to change is pinned no longer.
    Pin(PinWait),
    /// The errand in its session ([`Session::errand`]). Only on the lane.
    Errand,
    /// A second key's partition, while it is served for its first: run it again by itself.
    Again,
    /// The keyspace's token, to begin like this.
    Token(Locking),
    /// Nothing: a script has had this for too long, and waiting was given up. It is answered so,
    /// or runs again if the script has ended.
    Aborted(Awaited),
}

/// What a command that learns of its keys while it runs begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// The keys it names; others are tried, and if one is busy everything is undone.
    #[default]
    Upfront,
    /// The token: it may wait for the partitions it meets.
    Incremental,
    /// The token and all partitions.
    Everything,
}

/// How a command waits for its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWait {
    /// Until when; `None`: for ever.
    pub until: Option<UnixMs>,
    /// Which of its keys.
    pub keys: WaitedKeys,
    /// What it answers when the time is over.
    pub at_timeout: AtTimeout,
    /// Arguments to run it with later, where those it was sent mean something else by then
    /// (XREAD's `$`).
    pub args: Option<Vec<Vec<u8>>>,
}

/// Which keys of a command are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitedKeys {
    /// All of them.
    All,
    /// The first: the others are where something goes to.
    First,
}

impl AtTimeout {
    /// Writes it.
    pub fn reply(self, reply: &mut Reply<'_>) {
        match self {
            AtTimeout::Null => reply.null(),
            AtTimeout::NullArray => reply.null_array(),
            AtTimeout::Acknowledged(told) => told.reply(reply),
        }
    }
}

/// The reply of a command that has waited in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtTimeout {
    /// Null.
    Null,
    /// Null, as an array in RESP2.
    NullArray,
    /// How many servers have what was written (WAIT, WAITAOF). It waits for the journal and for
    /// replicas, not for keys.
    Acknowledged(Acknowledged),
}

/// How many servers have what a connection wrote, and how many of them it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// In their logs (WAITAOF), not only in memory (WAIT).
    pub on_disk: bool,
    /// Whether this server is waited for, too.
    pub wants_local: bool,
    /// So many replicas are waited for.
    pub wanted: u64,
    /// Whether this server has it.
    pub local: bool,
    /// So many replicas have it.
    pub replicas: u64,
}

impl Acknowledged {
    /// Whether all have it that are waited for.
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

/// Which thread a command runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A worker: other connections wait for it.
    Worker,
    /// The slow lane: it may take its time, and wait.
    Slow,
}

/// The server as commands about the server see it: they know what is behind it.
pub trait Server: Send + Sync {
    /// What is behind it.
    fn any(&self) -> &dyn Any;
    /// The engine that runs the command.
    fn engine(&self) -> &dyn Any;
    /// The command table.
    fn registry(&self) -> &Registry;
}

/// One command being run: all that its handler is given.
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
    /// The settings.
    pub settings: &'c Settings,
    /// Where it runs.
    pub lane: Lane,
    /// For a command that waited: the key that changed, which alone may be looked at. Other keys it
    /// needs are to be taken first, by [`Locked::try_hold`].
    pub ready: Option<Key<'c>>,
    /// Whether it may wait; not inside a transaction or a script.
    pub may_wait: bool,
}

impl<'c, 'k> Call<'c, 'k> {
    /// The end of a command that finds nothing and has to wait: `return call.wait(...)`. Where it
    /// may not wait it answers as if the time were over.
    pub fn wait(&mut self, wait: KeyWait) -> Done {
        if self.may_wait {
            return Err(Stop::Park(Park::Keys(Box::new(wait))));
        }
        wait.at_timeout.reply(&mut self.reply);
        Ok(())
    }

    /// Whether it comes from a primary's stream or from a file: another server has accepted it, by
    /// its own limits, and what that has done is to be done here.
    #[inline]
    pub fn is_repeated(&self) -> bool {
        self.keys.scope().sees_expired && !self.session.is_import_source
    }

    /// The longest string: `proto-max-bulk-len`, as far as the table can follow. What is run again
    /// was taken before, whatever the setting is now.
    #[inline]
    pub fn most_string_bytes(&self) -> usize {
        if self.is_repeated() {
            return MAX_STRING_BYTES;
        }
        let most = usize::try_from(self.settings.proto_max_bulk_len).unwrap_or(usize::MAX);
        most.min(MAX_STRING_BYTES)
    }

    /// A connection with more output than this is closed, so no more need be written.
    #[inline]
    pub fn most_output_bytes(&self) -> usize {
        self.settings.client_output_buffer_limit.normal.most_bytes()
    }

    /// Which versions of payloads are taken; all, where they were before.
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

    /// What the settings say about how a list is packed.
    #[inline]
    pub fn fill(&self) -> Fill {
        list_fill(self.settings)
    }

    /// The time at which the command runs; the same for all it does.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.keys.scope().now
    }

    /// The time of day: what relative times count from, and what a stream remembers. It is
    /// [`Call::now`] but for one who sees the expired and applies a stream of commands, for whom no
    /// deadline has passed, so that `now` is before all.
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

    /// The keys a command that may wait looks at, in order: all. When it is served, those that are
    /// held anyway and hold this type: the one that changed, and others that the same transaction
    /// or script may have changed, for the first of its keys comes first.
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

/// What the settings say about how a list is packed.
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
