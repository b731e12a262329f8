//! Eviction makes room in all partitions and databases, and is announced and recorded like any
//! change.

mod common;

use std::sync::Arc;

use common::{DB, NOW, OTHER_DB, keyspace, scope, set};
use pantala_base::UnixMs;
use pantala_keyspace::event::EventClass;
use pantala_keyspace::snapshot::{
    SnapshotEntry, SnapshotOutcome, SnapshotParts, SnapshotPiece, SnapshotRoom, SnapshotTarget,
};
use pantala_keyspace::{
    ChangeSink, Choice, Effect, EventMask, EvictionResult, Expiry, First, Garbage,
    GarbageInTransit, Keyspace, LockPlan, PARTITION_COUNT, Reclaimer, Tally, Ticket, Watch,
};
use pantala_table::{MOST_VICTIMS, ValueRef};
use pantala_values::Object;
use parking_lot::Mutex;

const ANY: Choice = Choice { first: First::Any, only_deadlines: false, in_need: false };

fn filled() -> Keyspace {
    let space = keyspace();
    for number in 0..3_000 {
        let expiry = match number % 2 {
            0 => Expiry::Never,
            _ => Expiry::At(UnixMs(NOW.0 + 1_000 + i64::from(number))),
        };
        set(&space, DB, &format!("k{number}"), "value", expiry);
        if number % 10 == 0 {
            set(&space, OTHER_DB, &format!("k{number}"), "value", expiry);
        }
    }
    space
}

fn keys(space: &Keyspace) -> [u64; 2] {
    [DB, OTHER_DB].map(|db| space.sizes(db).map_or(0, |sizes| sizes.keys()))
}

/// Evicts `count` times, each time a lap of all partitions.
fn laps(space: &Keyspace, tally: &Tally, choice: Choice, count: usize) -> EvictionResult {
    let mut all = EvictionResult::default();
    while all.partitions < count * PARTITION_COUNT {
        let freed = space.evict(scope(space, tally, DB, NOW), choice, usize::MAX);
        all.partitions += freed.partitions;
        all.keys += freed.keys;
        all.bytes += freed.bytes;
        all.candidates += freed.candidates;
    }
    all
}

#[test]
fn every_database_gives_its_share() {
    let space = filled();
    let tally = Tally::default();
    let before = keys(&space);
    let freed = laps(&space, &tally, ANY, 6);
    let left = keys(&space);
    assert_eq!(freed.keys as u64, before.iter().sum::<u64>() - left.iter().sum::<u64>());
    assert_eq!((tally.evicted.get(), tally.changes.get()), (freed.keys as u64, freed.keys as u64));
    assert!(freed.bytes > freed.keys * 16);
    for (before, left) in before.into_iter().zip(left) {
        assert!((before / 5..before * 4 / 5).contains(&left), "{left} of {before}");
    }
}

#[test]
fn what_has_no_deadline_stays_if_only_others_may_go() {
    let space = filled();
    let tally = Tally::default();
    for first in
        [First::LeastRecent, First::LeastFrequent, First::Coldest, First::Nearest, First::Any]
    {
        laps(&space, &tally, Choice { first, only_deadlines: true, in_need: false }, 30);
    }
    assert_eq!(keys(&space), [1_500, 300]);
    let none =
        laps(&space, &tally, Choice { first: First::Any, only_deadlines: true, in_need: false }, 1);
    assert_eq!((none.keys, none.candidates), (0, 0), "the end is seen");
}

#[test]
fn where_nothing_may_go_it_is_not_looked_for_again() {
    let space = keyspace();
    let tally = Tally::default();
    for number in 0..3_000 {
        set(&space, DB, &format!("k{number}"), "value", Expiry::Never);
    }
    let choice = Choice { first: First::Any, only_deadlines: true, in_need: false };
    let evict = || space.evict(scope(&space, &tally, DB, NOW), choice, usize::MAX);
    assert!(evict().partitions < PARTITION_COUNT);
    assert_eq!(
        evict(),
        EvictionResult { partitions: PARTITION_COUNT, ..EvictionResult::default() }
    );
    assert!(space.has_nothing_to_evict());
    for number in 1..=3 {
        set(&space, DB, &format!("k{number}"), "value", Expiry::At(UnixMs(NOW.0 + 1_000)));
        assert_eq!(laps(&space, &tally, choice, 1).candidates, 1, "it is found in the next lap");
        laps(&space, &tally, choice, 60);
        assert_eq!(keys(&space)[0], 3_000 - number);
    }
}

#[test]
fn what_never_goes_is_passed_over_once_and_then_a_part_each_time() {
    let space = keyspace();
    let tally = Tally::default();
    let stick = |name: &str, sticks: bool| {
        let key = space.key(name.as_bytes());
        let plan = LockPlan::one(key.hash);
        let mut locked = space.lock(&plan, scope(&space, &tally, DB, NOW)).expect("free");
        let mut opened = locked.open(key);
        opened.set_sticky(sticks);
        opened.unchanged();
    };
    for number in 0..3_000 {
        set(&space, DB, &format!("k{number}"), "value", Expiry::Never);
        stick(&format!("k{number}"), true);
    }
    let evict = || space.evict(scope(&space, &tally, DB, NOW), ANY, usize::MAX);
    assert_eq!(laps(&space, &tally, ANY, 2).candidates, 0);
    assert!(space.has_nothing_to_evict());
    assert!(evict().partitions < PARTITION_COUNT && space.has_nothing_to_evict());
    set(&space, DB, "other", "value", Expiry::Never);
    evict();
    assert!(!space.has_nothing_to_evict(), "there is one more");
    laps(&space, &tally, ANY, 60);
    assert_eq!(keys(&space)[0], 3_000);
}

#[test]
fn who_comes_when_all_have_gone_is_not_taken_for_who_was_there() {
    let space = keyspace();
    let tally = Tally::default();
    let evict = || space.evict(scope(&space, &tally, DB, NOW), ANY, usize::MAX);
    for name in ["one", "two", "three"] {
        set(&space, DB, name, "value", Expiry::Never);
        evict();
        assert!(!space.has_nothing_to_evict(), "{name} is looked for");
        laps(&space, &tally, ANY, 3);
        assert_eq!(keys(&space)[0], 0, "{name} goes");
        evict();
        assert!(space.has_nothing_to_evict());
    }
}

#[test]
fn no_more_is_freed_than_is_wanted() {
    let space = filled();
    let tally = Tally::default();
    let freed = space.evict(scope(&space, &tally, DB, NOW), ANY, 100);
    assert!((100..200).contains(&freed.bytes), "{freed:?}");
}

#[test]
fn a_partition_that_is_held_is_passed_over() {
    let space = keyspace();
    let tally = Tally::default();
    set(&space, DB, "k", "v", Expiry::Never);
    let plan = LockPlan::one(space.hash(b"k"));
    let locked = space.lock_waiting(&plan, scope(&space, &tally, DB, NOW));
    let (mut busy, mut partitions) = (0, 0);
    while partitions < PARTITION_COUNT {
        let freed = space.evict(scope(&space, &tally, DB, NOW), ANY, 1);
        (busy, partitions) = (busy + freed.busy, partitions + freed.partitions);
    }
    drop(locked);
    assert_eq!((busy, keys(&space)[0]), (1, 1));
}

#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl ChangeSink for Ear {
    fn hear(&self, happened: Vec<Effect>, _tickets: &mut Vec<Ticket>) {
        let mut heard = self.0.lock();
        heard.extend(happened.into_iter().filter_map(|effect| match effect {
            Effect::Happened { event, .. } => Some(event.name.to_owned()),
            _ => None,
        }));
    }

    fn forget_all(&self, _tickets: &mut Vec<Ticket>) {}
}

#[test]
fn those_concerned_are_told() {
    let (space, ear) = (keyspace(), Ear::default());
    space.set_change_sink(Box::new(ear.clone()));
    space.want(EventMask::events(EventClass(!0)));
    set(&space, DB, "k", "v", Expiry::Never);
    let (tally, watch) = (Tally::default(), Arc::new(Watch::default()));
    let key = space.key(b"k");
    let plan = LockPlan::one(key.hash);
    space.lock_waiting(&plan, scope(&space, &tally, DB, NOW)).watch(key, &watch);
    ear.0.lock().clear();
    while keys(&space)[0] > 0 {
        space.evict(scope(&space, &tally, DB, NOW), ANY, 1);
    }
    assert!(watch.is_touched());
    assert_eq!(*ear.0.lock(), ["evicted"]);
}

/// Keeps what it is given.
#[derive(Default)]
struct Keeping(Mutex<Vec<SnapshotPiece>>);

impl SnapshotTarget for Keeping {
    fn write(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(entry.key);
    }

    fn begin(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) -> Box<dyn SnapshotParts> {
        out.extend_from_slice(entry.key);
        Box::new(NoMore)
    }

    fn take(&self, piece: SnapshotPiece) {
        self.0.lock().push(piece);
    }

    fn room(&self) -> SnapshotRoom {
        SnapshotRoom::Free
    }

    fn has_room_for_parts(&self) -> bool {
        true
    }
}

struct NoMore;

impl SnapshotParts for NoMore {
    fn go_on(&mut self, _: &ValueRef<'_, Object>, _: usize, _: &mut Vec<u8>) -> bool {
        true
    }
}

/// Otherwise each key evicted while a snapshot runs would cause the next to be evicted.
#[test]
fn what_a_snapshot_has_not_written_is_counted() {
    let (space, target) = (keyspace(), Arc::new(Keeping::default()));
    let tally = Tally::default();
    for number in 0..3_000 {
        set(&space, DB, &format!("a key of some length {number}"), "value", Expiry::Never);
    }
    set(&space, DB, "large", &"v".repeat(100_000), Expiry::Never);
    let snapshot = space.begin_snapshot(target.clone(), &mut |_| {}).expect("none runs");
    let at_cut = space.unwritten_bytes();
    assert!(at_cut > 0, "what is kept for each partition");
    while keys(&space)[0] > 0 {
        space.evict(scope(&space, &tally, DB, NOW), ANY, usize::MAX);
    }
    let handed = snapshot.progress().handed_bytes as u64;
    assert!(handed > 100_000);
    let most = at_cut + handed + 3_000 * 200;
    let least = at_cut + handed + 3_000 * 24;
    let copied = space.unwritten_bytes();
    assert!((least..most).contains(&copied), "{least} to {most}: {copied}");
    assert_eq!(snapshot.work(&space), SnapshotOutcome::Complete);
    drop(snapshot);
    let left: usize = target.0.lock().iter().map(|piece| piece.bytes.capacity()).sum();
    assert_eq!(space.unwritten_bytes(), left as u64, "what the target has");
    target.0.lock().clear();
    assert_eq!(space.unwritten_bytes(), 0);
}

#[test]
fn what_a_snapshot_was_handed_is_forgotten_with_it() {
    let space = keyspace();
    let tally = Tally::default();
    set(&space, DB, "large", &"v".repeat(100_000), Expiry::Never);
    let target = Arc::new(Keeping::default());
    let snapshot = space.begin_snapshot(target, &mut |_| {}).expect("none runs");
    while keys(&space)[0] > 0 {
        space.evict(scope(&space, &tally, DB, NOW), ANY, usize::MAX);
    }
    assert!(space.unwritten_bytes() > 100_000);
    snapshot.cancel();
    assert_eq!(snapshot.work(&space), SnapshotOutcome::Cancelled);
    drop(snapshot);
    assert_eq!(space.unwritten_bytes(), 0);
}

/// A call takes a limited time, however much room is wanted.
#[test]
fn one_call_goes_through_some_partitions_and_takes_few_keys_of_each() {
    let space = keyspace();
    let tally = Tally::default();
    for number in 0..100_000 {
        set(&space, DB, &number.to_string(), "value", Expiry::Never);
    }
    for _ in 0..50 {
        let freed = space.evict(scope(&space, &tally, DB, NOW), ANY, usize::MAX);
        assert!(freed.partitions <= 64 && freed.keys <= 64 * MOST_VICTIMS, "{freed:?}");
        assert!(freed.keys > 0);
    }
}

/// Frees only when told to.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Vec<GarbageInTransit>>>);

impl Reclaimer for Slow {
    fn reclaim(&self, garbage: GarbageInTransit) {
        self.0.lock().push(garbage);
    }
}

#[test]
fn what_is_about_to_be_freed_is_counted() {
    let (space, slow) = (keyspace(), Slow::default());
    space.set_reclaimer(Box::new(slow.clone()));
    let tally = Tally::default();
    set(&space, DB, "k", &"v".repeat(200_000), Expiry::Never);
    while keys(&space)[0] > 0 {
        space.evict(scope(&space, &tally, DB, NOW), ANY, 1);
    }
    let (bytes, pieces) = (space.pending_bytes(), space.pending_pieces());
    assert!((200_000..300_000).contains(&bytes) && pieces == 1, "{bytes} in {pieces}");
    space.dispose(Garbage::Bytes(Vec::with_capacity(1_000)), true, &tally);
    assert_eq!(space.pending_bytes(), bytes + 1_000);
    slow.0.lock().clear();
    assert_eq!((space.pending_bytes(), space.pending_pieces()), (0, 0));
}
