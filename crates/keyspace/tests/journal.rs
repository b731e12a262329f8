//! Records of what only the keyspace sees: expiry, eviction, whole databases. A step leaves its
//! stamp in all partitions it holds, also in those it frees early.

mod common;

use std::sync::Arc;

use common::{DB, NOW, OTHER_DB, keyspace, set};
use pantala_base::UnixMs;
use pantala_journal::{Item, Journal, JournalReader, Recorder};
use pantala_keyspace::{
    DbIndex, Expiry, Keyspace, LockPlan, Locked, PartitionId, Scope, Sweeper, Tally, UndoLimits,
    event,
};
use pantala_values::hash::{HashLimits, Lifetime};
use pantala_values::{Hash, Set};

struct Fixture {
    space: Keyspace,
    journal: Arc<Journal>,
    recorder: Recorder,
    reader: JournalReader,
    tally: Tally,
}

impl Fixture {
    fn new() -> Fixture {
        let journal = Arc::new(Journal::default());
        journal.turn(true);
        let (recorder, reader) = (journal.join(), JournalReader::new(Arc::clone(&journal), 0));
        Fixture { space: keyspace(), journal, recorder, reader, tally: Tally::default() }
    }

    fn scope<'k>(&'k self, recorder: &'k Recorder, db: DbIndex, later_ms: i64) -> Scope<'k> {
        let now = UnixMs(NOW.0 + later_ms);
        Scope { recorder: Some(recorder), ..common::scope(&self.space, &self.tally, db, now) }
    }

    /// Runs a step that holds the partitions of these keys.
    fn step(&self, keys: &[&str], later_ms: i64, work: impl FnOnce(&mut Locked<'_>)) {
        let hashes = keys.iter().map(|key| self.space.hash(key.as_bytes()));
        let scope = self.scope(&self.recorder, DB, later_ms);
        work(&mut self.space.lock_waiting(&LockPlan::of(hashes), scope));
    }

    /// The records since the last call, as text.
    fn recorded(&mut self) -> String {
        self.recorder.hand_over();
        let mut text = String::new();
        self.reader.take_all(&mut |item| {
            if let Item::Run(run) = item {
                text += &String::from_utf8_lossy(run.bytes);
            }
        });
        let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn who_finds_that_a_key_has_expired_records_it() {
    let mut all = Fixture::new();
    set(&all.space, DB, "k", "v", Expiry::At(UnixMs(NOW.0 + 5)));
    all.step(&["k"], 5, |locked| assert!(locked.peek(locked.scope().space.key(b"k")).exists()));
    assert_eq!(all.recorded(), "");
    all.step(&["k"], 6, |locked| assert!(!locked.peek(locked.scope().space.key(b"k")).exists()));
    assert_eq!(all.recorded(), "SELECT 0 UNLINK k");
}

#[test]
fn what_the_sweep_removes_is_recorded_with_its_elements_names() {
    let mut all = Fixture::new();
    let deadline = UnixMs(NOW.0 + 5);
    set(&all.space, OTHER_DB, "k", "v", Expiry::At(deadline));
    let (lifetime, limits) =
        (Lifetime::Until(deadline), HashLimits { entries: 8, value_bytes: 64 });
    all.step(&["h"], 0, |locked| {
        let key = locked.scope().space.key(b"h");
        let mut opened = locked.open(key);
        let hash = opened.collection_or_new::<Hash>().expect("a hash");
        hash.set(b"goes", b"v", lifetime, limits, NOW);
        hash.set(b"stays", b"v", Lifetime::Forever, limits, NOW);
        opened.publish_collection::<Hash>(event::HSET);
    });
    assert_eq!(all.recorded(), "");
    let mut sweeper = Sweeper::new(&all.space);
    let now = UnixMs(NOW.0 + 10);
    sweeper.round_recorded(&all.space, now, &all.tally, Some(&all.recorder));
    let recorded = all.recorded();
    assert!(recorded.contains("SELECT 1 UNLINK k"), "{recorded}");
    assert!(recorded.contains("SELECT 0 HDEL h goes"), "{recorded}");
    assert!(!recorded.contains("stays"), "{recorded}");
}

#[test]
fn what_was_evicted_is_recorded() {
    let mut all = Fixture::new();
    set(&all.space, DB, "k", "v", Expiry::Never);
    all.step(&["k"], 0, |locked| assert!(locked.peek(locked.scope().space.key(b"k")).evict()));
    assert_eq!(all.recorded(), "SELECT 0 UNLINK k");
}

#[test]
fn whole_databases_are_recorded_once() {
    let mut all = Fixture::new();
    set(&all.space, DB, "k", "v", Expiry::Never);
    let flush = |all: &Fixture, only| {
        let scope = all.scope(&all.recorder, DB, 0);
        drop(all.space.lock_none(scope).flush(only).expect("nobody stays inside"));
    };
    flush(&all, Some(OTHER_DB));
    flush(&all, None);
    let scope = all.scope(&all.recorder, DB, 0);
    all.space.lock_none(scope).swap_databases(DB, OTHER_DB).expect("nobody stays inside");
    assert_eq!(all.recorded(), "SELECT 1 FLUSHDB SELECT 0 FLUSHALL SWAPDB 0 1");
}

#[test]
fn what_is_undone_is_not_recorded() {
    let mut all = Fixture::new();
    set(&all.space, DB, "old", "v", Expiry::At(UnixMs(NOW.0 + 5)));
    all.step(&["k", "old"], 6, |locked| {
        let space = locked.scope().space;
        let recorder = locked.scope().recorder.expect("it is there");
        let keys = [space.key(b"k"), space.key(b"old")];
        assert!(locked.can_undo(&keys, UndoLimits { keys: 9, bytes: 999 }));
        for key in keys {
            let mut opened = locked.open(key);
            opened.collection_or_new::<Set>().expect("it is new");
            opened.publish(event::SADD);
            recorder.record(0, &[b"SADD", key.bytes]);
        }
        locked.undo();
    });
    assert_eq!(all.recorded(), "SELECT 0 UNLINK old");
}

#[test]
fn a_step_that_frees_a_partition_early_stands_before_who_takes_it() {
    let mut all = Fixture::new();
    let journal = Arc::clone(&all.journal);
    all.step(&["a", "b"], 0, |locked| {
        let (space, scope) = (locked.scope().space, *locked.scope());
        let recorder = scope.recorder.expect("it is there");
        recorder.record(0, &[b"first"]);
        locked.stamp_early();
        locked.free_early(PartitionId::of(space.hash(b"a")));
        // A thread holds partitions for one command at a time.
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let (tally, key) = (Tally::default(), space.key(b"a"));
                let other = journal.join();
                let scope = common::scope(space, &tally, DB, NOW);
                let scope = Scope { recorder: Some(&other), ..scope };
                let locked = space.lock_waiting(&LockPlan::one(key.hash), scope);
                other.record(0, &[b"third"]);
                drop(locked);
            });
        });
        recorder.record(0, &[b"second"]);
    });
    assert_eq!(all.recorded(), "MULTI SELECT 0 first second EXEC third");
}

#[test]
fn a_step_takes_what_others_have_changed_until_it_has_its_stamp() {
    let mut all = Fixture::new();
    let journal = Arc::clone(&all.journal);
    all.step(&["a"], 0, |locked| {
        let (space, scope) = (locked.scope().space, *locked.scope());
        let (recorder, hash) = (scope.recorder.expect("it is there"), space.hash(b"b"));
        let change = |word: &'static [u8]| {
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let (tally, other) = (Tally::default(), journal.join());
                    let scope = common::scope(space, &tally, DB, NOW);
                    let scope = Scope { recorder: Some(&other), ..scope };
                    let locked = space.lock_waiting(&LockPlan::one(hash), scope);
                    other.record(0, &[word]);
                    drop(locked);
                });
            });
        };
        recorder.record(0, &[b"second"]);
        change(b"first");
        assert!(locked.try_hold(hash));
        locked.end_step();
        locked.free_early(PartitionId::of(hash));
        recorder.record(0, &[b"third"]);
        locked.stamp_early();
        change(b"fourth");
        assert!(!locked.try_hold(hash));
    });
    assert_eq!(all.recorded(), "SELECT 0 first second third fourth");
}
