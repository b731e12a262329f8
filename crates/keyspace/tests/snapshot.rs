//! A snapshot has each key as it was at the cut, once, whatever happens meanwhile.

mod common;

use std::sync::Arc;

use common::recording::{Contents, Recording, contents, recording};
use common::{DB, NOW, OTHER_DB, keyspace, remove, scope, set, swap, with};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::snapshot::{
    IntendedChange, NoSnapshot, Snapshot, SnapshotEntry, SnapshotOutcome, SnapshotParts,
    SnapshotPiece, SnapshotRoom, SnapshotTarget, SnapshotWait, WalkOutcome,
};
use pantala_keyspace::{
    Busy, DbIndex, Expiry, Key, Keyspace, LockPlan, Locked, OpenKey, PartitionId, Sweeper, Tally,
    ThreadWaker, Ticket, UndoLimits, event,
};
use pantala_table::{OwnedRecord, ValueRef};
use pantala_values::hash::{HashLimits, Lifetime};
use pantala_values::{Hash, Object};
use parking_lot::Mutex;

const HASH: HashLimits = HashLimits { entries: 4, value_bytes: 16 };
const LIMITS: UndoLimits = UndoLimits { keys: 100, bytes: 4 << 20 };
/// Keys that are changed over and over.
const NAMES: u64 = 60;
/// Approximate sizes of values: small, copied, large, and sent in pieces.
const SIZES: [usize; 5] = [3, 300, 6_000, 90_000, 1_200_000];

fn text(random: &mut Rng) -> Vec<u8> {
    // Larger ones are rarer.
    let size = SIZES[(0..4).take_while(|_| random.below(3) == 0).count()];
    vec![b'a' + random.below(26) as u8; size + random.below(10) as usize]
}

fn expiry(random: &mut Rng, now: UnixMs) -> Expiry {
    match random.below(4) {
        0 => Expiry::Keep,
        1 => Expiry::At(UnixMs(now.0 + random.below(40).cast_signed())),
        _ => Expiry::Never,
    }
}

/// Changes some fields of a hash, sometimes very many.
fn change_hash(hash: &mut Hash, random: &mut Rng, now: UnixMs) {
    let most = if random.below(40) == 0 { 13_000 } else { [1, 3, 90][random.below(3) as usize] };
    let fields = 1 + random.below(most);
    let wide = random.below(2) * 80;
    for _ in 0..fields {
        let field = format!("field{}", random.below(fields * 2));
        let value = "v".repeat(1 + wide as usize);
        let lifetime = match random.below(20) {
            0 => Lifetime::Until(UnixMs(now.0 + random.below(40).cast_signed())),
            _ => Lifetime::Forever,
        };
        match random.below(6) {
            0 => _ = hash.remove(field.as_bytes(), now),
            _ => _ = hash.set(field.as_bytes(), value.as_bytes(), lifetime, HASH, now),
        }
    }
    hash.set(b"last", b"v", Lifetime::Forever, HASH, now);
}

/// A keyspace, its time, and a snapshot of it that is walked now and then.
struct Model {
    space: Keyspace,
    tally: Tally,
    random: Rng,
    now: UnixMs,
    sweeper: Option<Sweeper>,
    running: Option<(Snapshot, Arc<Recording>, Contents)>,
    is_cancelled: bool,
    finished: u64,
    streamed: usize,
    waited: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        Model {
            space: keyspace(),
            tally: Tally::default(),
            random: Rng::from_seed(seed),
            now: NOW,
            sweeper: None,
            running: None,
            is_cancelled: false,
            finished: 0,
            streamed: 0,
            waited: 0,
        }
    }

    fn begin(&mut self) {
        let (target, expected) = (recording(), contents(&self.space));
        let mut counted = 0;
        let snapshot = self.space.begin_snapshot(target.clone(), &mut |info| {
            counted = info.databases.iter().map(|database| database.keys).sum();
        });
        assert_eq!(counted, expected.len() as u64);
        assert!(self.space.has_snapshot());
        let snapshot = snapshot.expect("none runs");
        assert_eq!(snapshot.progress().keys, counted);
        self.running = Some((snapshot, target, expected));
    }

    /// Runs some steps of the walk; with `None` all of them.
    fn walk(&mut self, steps: Option<u64>) {
        let Some((snapshot, target, expected)) = self.running.take() else { return };
        for _ in 0..steps.unwrap_or(u64::MAX) {
            match snapshot.walk(&self.space) {
                WalkOutcome::More | WalkOutcome::Idle | WalkOutcome::GivesWay => {}
                WalkOutcome::Done(outcome) => {
                    assert!(!self.space.has_snapshot());
                    if std::mem::take(&mut self.is_cancelled) {
                        return assert_ne!(outcome, SnapshotOutcome::Failed);
                    }
                    assert_eq!(outcome, SnapshotOutcome::Complete);
                    same(&target.contents(), &expected);
                    assert_eq!(snapshot.progress().written, expected.len() as u64);
                    assert_eq!(snapshot.progress().handed_bytes, 0);
                    self.streamed += target.streamed();
                    self.finished += 1;
                    return;
                }
                other => panic!("{other:?} with one thread and room"),
            }
        }
        self.running = Some((snapshot, target, expected));
    }

    fn name(&mut self) -> String {
        format!("key{}", self.random.below(NAMES))
    }

    fn db(&mut self) -> DbIndex {
        if self.random.below(4) == 0 { OTHER_DB } else { DB }
    }

    /// Asks before a command that changes this key, as the engine does, and waits if needed.
    fn ask(&mut self, name: &str, db: DbIndex) {
        loop {
            let key = self.space.key(name.as_bytes());
            let plan = LockPlan::one(key.hash);
            let scope = scope(&self.space, &self.tally, db, self.now);
            let mut locked = self.space.lock_waiting(&plan, scope);
            let asked = IntendedChange { in_place: true, everywhere: true };
            let Some(wait) = locked.awaits_snapshot(&[key], asked) else { return };
            drop(locked);
            self.waited += 1;
            let waker = ThreadWaker::for_this_thread();
            let mut is_parked =
                self.space.park_for_snapshot(wait, Ticket::Thread(waker.clone())).is_ok();
            while is_parked {
                self.walk(Some(1));
                is_parked = !waker.wait_at_most(std::time::Duration::ZERO);
                assert!(!is_parked || self.running.is_some(), "nobody is left to call it");
            }
        }
    }

    /// Runs a command that changes one or two keys.
    fn command(&mut self) {
        let (name, other) = (self.name(), self.name());
        let (db, to) = (self.db(), self.db());
        if self.random.below(2) == 0 {
            self.ask(&name, db);
            self.ask(&other, to);
        }
        let Model { space, tally, random, now, .. } = self;
        let (key, other) = (space.key(name.as_bytes()), space.key(other.as_bytes()));
        let plan = LockPlan::of([key.hash, other.hash]);
        let mut locked = space.lock_waiting(&plan, scope(space, tally, db, *now));
        if random.below(5) != 0 {
            return command(&mut locked, (key, other, to), random);
        }
        // A script, which may be undone.
        assert!(locked.can_undo(&[key, other], LIMITS));
        for _ in 0..random.below(4) {
            command(&mut locked, (key, other, db), random);
        }
        if random.below(2) == 0 { locked.undo() } else { locked.end_undo() }
    }

    /// Adds or removes many keys, so that segments split or merge.
    fn flood(&mut self, comes: bool) {
        for number in 0..4_000 {
            let name = format!("flood{number}");
            if comes {
                let until = Expiry::At(UnixMs(self.now.0 + 5));
                let expiry = if number % 7 == 0 { until } else { Expiry::Never };
                set(&self.space, DB, &name, "short", expiry);
            } else {
                remove(&self.space, DB, &name);
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(200) {
            0 => self.flood(true),
            1 => self.flood(false),
            2 => {
                let only = [None, Some(DB), Some(OTHER_DB)][self.random.below(3) as usize];
                let flushed = with(&self.space, DB, |locked| locked.flush(only));
                drop(flushed.expect("nobody stays inside"));
            }
            3..6 => swap(&self.space),
            6..20 => {
                self.now.0 += 7;
                let sweeper = self.sweeper.get_or_insert_with(|| Sweeper::new(&self.space));
                sweeper.round(&self.space, self.now, &self.tally);
            }
            20..24 if self.running.is_none() => self.begin(),
            24 => {
                if let Some((snapshot, ..)) = &self.running {
                    snapshot.cancel();
                    self.is_cancelled = true;
                }
            }
            25..60 => {
                let steps = self.random.below(400);
                self.walk(Some(steps));
            }
            _ => self.command(),
        }
    }
}

/// A command on a key, and another key it may move or be copied to.
fn command(locked: &mut Locked<'_>, (key, other, to): (Key<'_>, Key<'_>, DbIndex), rng: &mut Rng) {
    let db = locked.scope().db;
    match rng.below(12) {
        // RENAME and MOVE.
        0 | 1 if (db, key.bytes) != (to, other.bytes) => {
            let mut source = locked.peek(key);
            let Some(record) = source.take() else { return };
            source.publish(event::UNNAMED);
            drop(source);
            let mut target = locked.peek_in(to, other);
            target.remove();
            target.put(record);
            target.publish(event::UNNAMED);
        }
        // COPY.
        2 if (db, key.bytes) != (to, other.bytes) => {
            let Some(copy) = locked.peek(key).copy(other.bytes) else { return };
            let mut target = locked.peek_in(to, other);
            target.remove();
            target.put(copy);
            target.publish(event::UNNAMED);
        }
        3 => _ = locked.peek(key).evict(),
        4 => _ = locked.peek(key).expire_elements(rng.below(50) as usize),
        _ => {
            let now = locked.scope().now;
            change(&mut locked.open(key), rng, now);
        }
    }
}

/// Changes a key in one of all possible ways.
fn change(opened: &mut OpenKey<'_, '_>, random: &mut Rng, now: UnixMs) {
    let is_string = matches!(opened.string(), Ok(Some(_)));
    match random.below(16) {
        0..3 => opened.set_string(&text(random), expiry(random, now)),
        3 => opened.set_int(random.below(1000).cast_signed()),
        4 if is_string => _ = opened.append(b"tail"),
        5 if is_string => opened.resize(1 + random.below(40) as usize),
        6 if is_string => opened.set_range(random.below(40) as usize, b"range"),
        7 => {
            if let Ok(Some(bytes)) = opened.string_mut() {
                bytes.fill(b'y');
            }
        }
        8 => opened.set_deadline(Some(UnixMs(now.0 + random.below(60).cast_signed()))),
        9 => opened.set_deadline(None),
        10 => _ = opened.set_sticky(random.below(2) == 0),
        11 => _ = opened.remove(),
        12 => {
            opened.remove();
            opened.put(OwnedRecord::new_string(b"other", b"put", None));
        }
        13 => {
            let mut hash = Hash::default();
            change_hash(&mut hash, random, now);
            opened.set_collection(hash, expiry(random, now));
            opened.publish_collection::<Hash>(event::HSET);
        }
        _ => {
            if let Ok(hash) = opened.collection_or_new::<Hash>() {
                change_hash(hash, random, now);
                opened.publish_collection::<Hash>(event::HSET);
            }
        }
    }
    opened.publish(event::UNNAMED);
}

/// Compares, and on failure shows the first difference only, not megabytes.
fn same(found: &Contents, expected: &Contents) {
    let short = |text: Option<&String>| {
        text.map(|text| (text.len(), text.chars().take(60).collect::<String>()))
    };
    for key in found.keys().chain(expected.keys()) {
        let (found, expected) = (found.get(key), expected.get(key));
        assert!(found == expected, "{key:?}: {:?} for {:?}", short(found), short(expected));
    }
}

#[test]
fn each_key_is_written_as_it_was_at_the_cut() {
    let (mut finished, mut streamed, mut waited) = (0, 0, 0);
    for seed in 0..8 {
        let mut model = Model::new(seed);
        for _ in 0..2_500 {
            model.step();
        }
        model.walk(None);
        model.begin();
        model.walk(None);
        finished += model.finished;
        streamed += model.streamed;
        waited += model.waited;
    }
    assert!(finished > 40 && streamed > 5 && waited > 20, "{finished} {streamed} {waited}");
}

fn begin(space: &Keyspace, target: Arc<dyn SnapshotTarget>) -> Snapshot {
    space.begin_snapshot(target, &mut |_| {}).expect("none runs")
}

fn asks(space: &Keyspace, name: &str, in_place: bool) -> Option<SnapshotWait> {
    let (key, tally) = (space.key(name.as_bytes()), Tally::default());
    let mut locked = space.lock_waiting(&LockPlan::one(key.hash), scope(space, &tally, DB, NOW));
    locked.awaits_snapshot(&[key], IntendedChange { in_place, everywhere: false })
}

fn walk_while(
    snapshot: &Snapshot,
    space: &Keyspace,
    goes_on: impl Fn(WalkOutcome) -> bool,
) -> WalkOutcome {
    loop {
        let walked = snapshot.walk(space);
        if !goes_on(walked) {
            return walked;
        }
    }
}

#[test]
fn there_is_one_at_a_time() {
    let space = keyspace();
    set(&space, DB, "key", "value", Expiry::Never);
    let first = begin(&space, recording());
    let mut has_cut = false;
    let second = space.begin_snapshot(recording(), &mut |_| has_cut = true);
    assert_eq!((second.err(), has_cut), (Some(NoSnapshot::Running), false));
    drop(first);
    assert!(space.begin_snapshot(recording(), &mut |_| {}).is_err(), "it has not been walked");
}

#[test]
fn walkers_pause_and_commands_wait_where_there_is_no_room() {
    let (space, target) = (keyspace(), recording());
    for name in ["one", "two", "three"] {
        set(&space, DB, name, "value", Expiry::Never);
    }
    let snapshot = begin(&space, target.clone());
    assert_eq!(asks(&space, "one", true), None);
    target.set_room(SnapshotRoom::Full);
    assert_eq!(snapshot.walk(&space), WalkOutcome::Full);
    assert_eq!(asks(&space, "one", true), None, "commands go on");
    set(&space, DB, "one", "changed", Expiry::Never);
    target.set_room(SnapshotRoom::Overfull);
    assert_eq!(asks(&space, "one", true), None, "it is saved");
    assert_eq!(asks(&space, "new", true), None, "it is new");
    let wait = asks(&space, "two", false).expect("it is not saved");
    let waker = ThreadWaker::for_this_thread();
    let park = |wait| space.park_for_snapshot(wait, Ticket::Thread(waker.clone()));
    assert!(park(wait).is_ok());
    assert!(!waker.wait_at_most(std::time::Duration::ZERO));
    target.set_room(SnapshotRoom::Free);
    snapshot.has_room();
    assert!(waker.wait_at_most(std::time::Duration::ZERO));
    assert!(park(wait).is_err(), "there was news since it looked");
    assert_eq!(asks(&space, "two", false), None);
    assert_eq!(snapshot.work(&space), SnapshotOutcome::Complete);
    assert!(park(wait).is_err(), "there is no snapshot");
    assert_eq!(target.contents().len(), 3);
}

/// Makes two values that are sent in pieces.
fn two_long(space: &Keyspace) {
    for name in ["long1", "long2"] {
        set(space, DB, name, &name.repeat(400_000), Expiry::Never);
    }
}

#[test]
fn one_value_at_a_time_is_sent_in_pieces() {
    let (space, target) = (keyspace(), recording());
    two_long(&space);
    set(&space, DB, "short", "value", Expiry::Never);
    let expected = contents(&space);
    let snapshot = begin(&space, target.clone());
    // Both are begun before a piece of either is sent.
    assert!(asks(&space, "long1", true).is_some() && asks(&space, "long2", true).is_some());
    while target.streamed() == 0 {
        assert_eq!(snapshot.walk(&space), WalkOutcome::More);
    }
    // Whole keys may delay each other, but not the keys that commands wait for.
    target.set_room(SnapshotRoom::Overfull);
    target.set_room_for_parts(false);
    assert_eq!(snapshot.walk(&space), WalkOutcome::Full);
    target.set_room_for_parts(true);
    assert_eq!(
        walk_while(&snapshot, &space, |walked| walked == WalkOutcome::More),
        WalkOutcome::Full
    );
    assert_eq!(target.streamed(), 1);
    target.set_room(SnapshotRoom::Free);
    // The walker, which does not ask, writes it to its end with the other's pieces under way.
    while target.streamed() == 1 {
        assert_eq!(snapshot.walk(&space), WalkOutcome::More);
    }
    set(&space, DB, "long1", "", Expiry::Never);
    let key = space.key(b"long2");
    let tally = Tally::default();
    let mut locked = space.lock_waiting(&LockPlan::one(key.hash), scope(&space, &tally, DB, NOW));
    let mut opened = locked.open(key);
    opened.append(b"tail");
    opened.publish(event::APPEND);
    drop(opened);
    drop(locked);
    assert_eq!(snapshot.work(&space), SnapshotOutcome::Complete);
    same(&target.contents(), &expected);
}

#[test]
fn others_go_on_while_a_value_is_written() {
    let (space, target) = (keyspace(), recording());
    two_long(&space);
    let expected = contents(&space);
    let snapshot = begin(&space, target.clone());
    let wait = asks(&space, "long1", true).expect("it is large");
    assert_eq!(asks(&space, "long1", false), None, "it may be replaced");
    while target.streamed() == 0 {
        snapshot.walk(&space);
    }
    set(&space, DB, "long1", "new", Expiry::Never);
    assert_eq!(asks(&space, "long1", true), None, "what is there now is new");
    let waker = ThreadWaker::for_this_thread();
    assert!(space.park_for_snapshot(wait, Ticket::Thread(waker)).is_err());
    remove(&space, DB, "long2");
    drop(with(&space, DB, |locked| locked.flush(None)).expect("nobody stays inside"));
    assert!(snapshot.progress().handed_bytes > 1_000_000);
    assert_eq!(snapshot.work(&space), SnapshotOutcome::Complete);
    assert_eq!(snapshot.progress().handed_bytes, 0);
    same(&target.contents(), &expected);
}

/// Panics when it meets a key.
struct Panicking(&'static [u8]);

impl SnapshotTarget for Panicking {
    fn write(&self, entry: &SnapshotEntry<'_>, _out: &mut Vec<u8>) {
        assert_ne!(entry.key, self.0, "for the test");
    }

    fn begin(&self, entry: &SnapshotEntry<'_>, _out: &mut Vec<u8>) -> Box<dyn SnapshotParts> {
        panic!("for the test, at {:?}", entry.key);
    }

    fn take(&self, _piece: SnapshotPiece) {}

    fn room(&self) -> SnapshotRoom {
        SnapshotRoom::Free
    }

    fn has_room_for_parts(&self) -> bool {
        true
    }
}

#[test]
fn a_target_that_panics_ends_the_snapshot_and_nothing_else() {
    for walks_first in [true, false] {
        for name in ["key", "long1"] {
            let space = keyspace();
            two_long(&space);
            set(&space, DB, "key", "value", Expiry::Never);
            let snapshot = begin(&space, Arc::new(Panicking(b"key")));
            if walks_first {
                assert_eq!(snapshot.work(&space), SnapshotOutcome::Failed);
            }
            assert_eq!(asks(&space, name, true).is_some(), !walks_first && name == "long1");
            set(&space, DB, name, "changed", Expiry::Never);
            assert_eq!(snapshot.work(&space), SnapshotOutcome::Failed);
            let target = recording();
            let expected = contents(&space);
            assert_eq!(begin(&space, target.clone()).work(&space), SnapshotOutcome::Complete);
            same(&target.contents(), &expected);
        }
    }
}

/// Notes the partition of each part it writes, and leaves a ticket with the first ones.
struct Waiting(Arc<Noted>);

struct Noted {
    space: Keyspace,
    partitions: Mutex<Vec<PartitionId>>,
}

/// A source of some parts of a value of this partition.
struct SomeParts(Arc<Noted>, PartitionId, u32);

impl SnapshotParts for SomeParts {
    fn go_on(&mut self, _: &ValueRef<'_, Object>, _: usize, _: &mut Vec<u8>) -> bool {
        let SomeParts(noted, id, left) = self;
        let mut partitions = noted.partitions.lock();
        if partitions.len() < 4 {
            let ticket = Ticket::Thread(ThreadWaker::for_this_thread());
            assert!(noted.space.park(Busy(*id), ticket).is_ok(), "it is held");
        }
        partitions.push(*id);
        *left -= 1;
        *left == 0
    }
}

impl SnapshotTarget for Waiting {
    fn write(&self, _: &SnapshotEntry<'_>, _: &mut Vec<u8>) {
        unreachable!("all are large")
    }

    fn begin(&self, entry: &SnapshotEntry<'_>, _: &mut Vec<u8>) -> Box<dyn SnapshotParts> {
        let id = PartitionId::of(self.0.space.hash(entry.key));
        Box::new(SomeParts(Arc::clone(&self.0), id, 10))
    }

    fn take(&self, _piece: SnapshotPiece) {}

    fn room(&self) -> SnapshotRoom {
        SnapshotRoom::Free
    }

    fn has_room_for_parts(&self) -> bool {
        true
    }
}

#[test]
fn a_partition_that_somebody_waits_for_rests() {
    let noted = Arc::new(Noted { space: keyspace(), partitions: Mutex::default() });
    let space = &noted.space;
    let value = "v".repeat(100_000);
    for number in 0..40 {
        set(space, DB, &format!("key{number}"), &value, Expiry::Never);
    }
    assert_eq!(
        begin(space, Arc::new(Waiting(Arc::clone(&noted)))).work(space),
        SnapshotOutcome::Complete
    );
    let partitions = noted.partitions.lock().clone();
    assert_eq!(partitions.len(), 400);
    assert_ne!(partitions[0], partitions[1], "it was left at once");
    let last = partitions.iter().rposition(|id| *id == partitions[0]);
    assert!(last >= Some(9), "and gone on with");
}

/// Walks until no command would have to wait for a key; returns whether most others are still to be
/// written.
fn comes_first(space: &Keyspace, snapshot: &Snapshot, name: &str) -> bool {
    while asks(space, name, true).is_some() {
        assert_eq!(snapshot.walk(space), WalkOutcome::More);
    }
    snapshot.progress().written < snapshot.progress().keys / 2
}

#[test]
fn what_somebody_waits_for_comes_first() {
    let (space, tally) = (keyspace(), Tally::default());
    two_long(&space);
    for number in 0..20_000 {
        set(&space, DB, &format!("key{number}"), "value", Expiry::Never);
    }
    for is_held in [false, true] {
        let snapshot = begin(&space, recording());
        // Only one of them can be sent at a time.
        assert!(asks(&space, "long1", true).is_some());
        assert!(asks(&space, "long2", true).is_some());
        if is_held {
            let plan = LockPlan::of(["long1", "long2"].map(|name| space.hash(name.as_bytes())));
            let locked = space.lock_waiting(&plan, scope(&space, &tally, DB, NOW));
            (0..20).for_each(|_| assert_eq!(snapshot.walk(&space), WalkOutcome::More));
            drop(locked);
        }
        assert!(comes_first(&space, &snapshot, "long2"), "held: {is_held}");
        assert!(comes_first(&space, &snapshot, "long1"), "held: {is_held}");
        assert_eq!(snapshot.work(&space), SnapshotOutcome::Complete);
    }
}

#[test]
fn one_that_is_called_off_in_the_midst_of_large_values_ends() {
    let (space, target) = (keyspace(), recording());
    two_long(&space);
    let snapshot = begin(&space, target.clone());
    assert!(asks(&space, "long1", true).is_some() && asks(&space, "long2", true).is_some());
    while target.streamed() == 0 {
        snapshot.walk(&space);
    }
    // Another lap, so that the other value has met the stream.
    (0..4).for_each(|_| _ = snapshot.walk(&space));
    snapshot.cancel();
    remove(&space, DB, "long1");
    assert_eq!(asks(&space, "long2", true), None);
    assert_eq!(snapshot.work(&space), SnapshotOutcome::Cancelled);
    let (expected, target) = (contents(&space), recording());
    assert_eq!(begin(&space, target.clone()).work(&space), SnapshotOutcome::Complete);
    same(&target.contents(), &expected);
}
