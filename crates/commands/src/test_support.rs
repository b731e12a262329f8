//! For tests: a keyspace with its commands, and threads that wait for a partition while a command
//! holds it.

use std::any::{Any, TypeId};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use pantala_base::UnixMs;
use pantala_base::hash::HashSeed;
use pantala_keyspace::{
    Busy, DbIndex, Inbox, Key, Keyspace, KeyspaceConfig, LockPlan, Locked, PartitionId, Scope,
    Tally, Ticket, VisitFailure,
};
use pantala_protocol::{Reply, Version};
use pantala_settings::Settings;

use crate::calls::call::{Call, Lane, Stop};
use crate::families::{
    bitmap, generic, geo, hash, hyperloglog, list, set, sort, stream, string, zset,
};
use crate::{Registry, Server, Session};

/// Settings under which small collections are already stored as large ones.
static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let mut settings = Settings::defaults();
    settings.proto_max_bulk_len = 1 << 20;
    settings.hash_max_listpack_entries = 8;
    settings.set_max_intset_entries = 8;
    settings.set_max_listpack_entries = 8;
    settings.zset_max_listpack_entries = 8;
    settings
});
/// The time of all commands.
pub const NOW: UnixMs = UnixMs(1_000_000);

/// A keyspace and its commands.
pub struct Fixture {
    pub space: Keyspace,
    registry: Registry,
}

impl Server for Fixture {
    fn find_part(&self, _id: TypeId) -> Option<&dyn Any> {
        None
    }

    fn engine(&self) -> &dyn Any {
        self
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// An empty one.
pub fn fixture() -> Arc<Fixture> {
    let families = [
        bitmap::ROWS,
        generic::ROWS,
        geo::ROWS,
        hash::ROWS,
        hyperloglog::ROWS,
        list::ROWS,
        set::ROWS,
        sort::ROWS,
        stream::ROWS,
        string::ROWS,
        zset::ROWS,
    ];
    let (databases, worker_slots, lane_slots) = (1, 1, 1);
    let seed = HashSeed::from_words(3, 4);
    Arc::new(Fixture {
        space: Keyspace::new(KeyspaceConfig { seed, databases, worker_slots, lane_slots }),
        registry: Registry::new(&families),
    })
}

impl Fixture {
    /// Runs something with a call of these words, whose partitions are held.
    pub fn call<R>(&self, words: &str, run: impl FnOnce(&mut Call<'_, '_>) -> R) -> (R, Vec<u8>) {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.call_with(&args, run)
    }

    /// Like [`Fixture::call`], for words of any bytes.
    pub fn call_with<R>(
        &self,
        args: &[&[u8]],
        run: impl FnOnce(&mut Call<'_, '_>) -> R,
    ) -> (R, Vec<u8>) {
        let hashes = self.hashes(args);
        let tally = Tally::default();
        let plan = LockPlan::of(hashes.iter().copied());
        let mut locked = self.space.lock_waiting(&plan, self.scope(&tally));
        self.call_locked(args, &hashes, &mut locked, run)
    }

    fn hashes(&self, args: &[&[u8]]) -> Vec<u64> {
        let command = self.registry.resolve(args).expect("it is there").row;
        let positions = crate::key_positions(command, args).expect("it has keys");
        positions.iter().map(|&at| self.space.hash(args[at])).collect()
    }

    fn scope<'k>(&'k self, tally: &'k Tally) -> Scope<'k> {
        Scope {
            space: &self.space,
            db: DbIndex(0),
            now: NOW,
            tally,
            touch: true,
            sees_expired: false,
            recorder: None,
        }
    }

    fn call_locked<'k, R>(
        &'k self,
        args: &[&[u8]],
        hashes: &[u64],
        locked: &mut Locked<'k>,
        run: impl FnOnce(&mut Call<'_, 'k>) -> R,
    ) -> (R, Vec<u8>) {
        let mut reply = Vec::new();
        let mut call = Call {
            args,
            command: self.registry.resolve(args).expect("it is there").row,
            reply: Reply::new(&mut reply, Version::Resp2),
            keys: locked,
            hashes,
            session: &mut Session::new(1),
            server: self,
            settings: &SETTINGS,
            lane: Lane::Slow,
            ready: None,
            may_wait: true,
        };
        let result = run(&mut call);
        (result, reply)
    }

    /// Whether the partition of a key is free.
    pub fn is_free(&self, key: Key<'_>) -> bool {
        let tally = Tally::default();
        self.space.lock(&LockPlan::of([key.hash]), self.scope(&tally)).is_ok()
    }

    /// The result of a command that runs as a visitor: the partitions of its keys may be open.
    pub fn visit(&self, words: &str) -> Result<Result<(), Stop>, VisitFailure> {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let (hashes, tally) = (self.hashes(&args), Tally::default());
        let mut locked = self.space.lock_none(self.scope(&tally));
        locked.visit(&LockPlan::of(hashes.iter().copied()), &hashes)?;
        let run = |call: &mut Call<'_, '_>| (call.command.handler)(call);
        Ok(self.call_locked(&args, &hashes, &mut locked, run).0)
    }

    /// The reply of a command.
    pub fn answer(&self, words: &str) -> Result<String, Stop> {
        let (done, reply) = self.call(words, |call| (call.command.handler)(call));
        done.map(|()| String::from_utf8(reply).expect("text"))
    }
}

/// A waiter for a partition that runs a command there once it is free: on the thread that has freed
/// it, before that goes on.
struct Beside {
    fixture: Arc<Fixture>,
    command: String,
    ran: Arc<AtomicUsize>,
}

impl Inbox for Beside {
    fn unpark(&self, _connection: u64, _parking: u32) {
        self.fixture.answer(&self.command).expect("it is none that fails");
        self.ran.fetch_add(1, Ordering::Relaxed);
    }

    fn wake(&self) {}
}

/// Makes a waiter wait for the partition of `key`, which is held.
pub fn wait(fixture: &Arc<Fixture>, key: Key<'_>, command: &str, ran: &Arc<AtomicUsize>) {
    let (fixture, command, ran) = (Arc::clone(fixture), command.to_owned(), Arc::clone(ran));
    let space = Arc::clone(&fixture);
    let inbox = Arc::new(Beside { fixture, command, ran });
    let ticket = Ticket::Connection { inbox, connection: 0, parking: 0 };
    assert!(space.space.park(Busy(PartitionId::of(key.hash)), ticket).is_ok());
}
