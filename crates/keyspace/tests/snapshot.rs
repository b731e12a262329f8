//! A snapshot has each key as it was at the cut, once, whatever happens meanwhile.

mod common;

use std::sync::Arc;

use common::recording::{Contents, Recording, contents, recording};
use common::{DB, NOW, OTHER_DB, keyspace, remove, scope, set, swap, with};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::snapshot::{Asked, Outcome, Snapshot, Walked};
use pantala_keyspace::{
    DbIndex, Expiry, Key, Keyspace, LockPlan, Locked, Opened, Sweeper, Tally, Ticket, UndoLimits,
    Waker, event,
};
use pantala_table::OwnedRecord;
use pantala_values::Hash;
use pantala_values::hash::{HashLimits, Lifetime};

const HASH: HashLimits = HashLimits { entries: 4, value_bytes: 16 };
const LIMITS: UndoLimits = UndoLimits { keys: 100, bytes: 4 << 20 };
/// Keys that are changed over and over.
const NAMES: u64 = 60;
/// Values of about these sizes: small, copied, large, and sent in pieces.
const SIZES: [usize; 5] = [3, 300, 6_000, 90_000, 1_200_000];

fn text(random: &mut Rng) -> Vec<u8> {
    // The larger, the rarer.
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

/// One change of a hash that is about `size` bytes larger after.
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

    /// Some steps of the walk; with `None` all of them.
    fn walk(&mut self, steps: Option<u64>) {
        let Some((snapshot, target, expected)) = self.running.take() else { return };
        for _ in 0..steps.unwrap_or(u64::MAX) {
            match snapshot.walk(&self.space) {
                Walked::More | Walked::Idle => {}
                Walked::Done(outcome) => {
                    assert_eq!(outcome, Outcome::Complete);
                    same(&target.contents(), &expected);
                    assert_eq!(snapshot.progress().written, expected.len() as u64);
                    assert_eq!(snapshot.progress().handed_bytes, 0);
                    self.streamed += target.streamed();
                    self.finished += 1;
                    assert!(!self.space.has_snapshot());
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

    /// Asks before a command that changes this key, as the engine does, and waits if it has to.
    fn ask(&mut self, name: &str, db: DbIndex) {
        loop {
            let key = self.space.key(name.as_bytes());
            let plan = LockPlan::one(key.hash);
            let scope = scope(&self.space, &self.tally, db, self.now);
            let mut locked = self.space.lock_waiting(&plan, scope);
            let asked = Asked { in_place: true, everywhere: true };
            let Some(wait) = locked.awaits_snapshot(&[key], asked) else { return };
            drop(locked);
            self.waited += 1;
            let waker = Waker::for_this_thread();
            let mut is_parked =
                self.space.park_for_snapshot(wait, Ticket::Thread(waker.clone())).is_ok();
            while is_parked {
                self.walk(Some(1));
                is_parked = !waker.wait_at_most(std::time::Duration::ZERO);
                assert!(!is_parked || self.running.is_some(), "nobody is left to call it");
            }
        }
    }

    /// A command that changes one or two keys.
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

    /// Many keys come or go, so that segments split or merge.
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
            24..60 => {
                let steps = self.random.below(400);
                self.walk(Some(steps));
            }
            _ => self.command(),
        }
    }
}

/// One command on a key, and one more to which it may go.
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

/// One change of one key, by one of all the ways there are.
fn change(opened: &mut Opened<'_, '_>, random: &mut Rng, now: UnixMs) {
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

/// Shows the first difference, not megabytes.
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
    for seed in 0..12 {
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
    assert!(finished > 50 && streamed > 5 && waited > 20, "{finished} {streamed} {waited}");
}
