//! Every change of keys can be undone: the undo log hears of it before it is made.

mod common;

use std::fmt::Write as _;

use common::{DB, NOW, OTHER_DB, keyspace, scope, set};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::{
    DbIndex, Expiry, Key, Keyspace, LockPlan, Locked, OpenKey, Sweeper, Tally, UndoLimits, event,
};
use pantala_table::OwnedRecord;
use pantala_values::Hash;
use pantala_values::hash::{HashLimits, Lifetime};

const LIMITS: UndoLimits = UndoLimits { keys: 100, bytes: 1 << 20 };
const HASH: HashLimits = HashLimits { entries: 4, value_bytes: 16 };
const NAMES: usize = 12;

fn name(number: usize) -> String {
    format!("key{number}")
}

/// All properties of a key as text.
fn describe(opened: &OpenKey<'_, '_>) -> String {
    let mut text = format!("{:?} {:?}", opened.kind(), opened.deadline());
    let Some((table, place)) = opened.record() else { return text };
    let _ = write!(text, " {}", table.sticky(place));
    if let Ok(Some(string)) = opened.string() {
        let _ = write!(text, " {}", String::from_utf8_lossy(&string.to_vec()));
    }
    if let Ok(Some(hash)) = opened.collection::<Hash>() {
        for field in 0..8 {
            let found = hash.view().get(field_name(field).as_bytes(), NOW);
            let found = found.map(|found| (format!("{:?}", found.value), found.deadline));
            let _ = write!(text, " {found:?}");
        }
    }
    text
}

fn state(space: &Keyspace, locked: &mut Locked<'_>) -> Vec<String> {
    let mut state = Vec::new();
    for db in [DB, OTHER_DB] {
        for number in 0..NAMES {
            let name = name(number);
            state.push(describe(&locked.peek_in(db, space.key(name.as_bytes()))));
        }
        let counts = space.sizes(db).map_or((0, 0), |sizes| (sizes.keys(), sizes.with_deadline()));
        state.push(format!("{counts:?}"));
    }
    state
}

fn field_name(number: u64) -> String {
    format!("field{number}")
}

fn expiry(random: &mut Rng) -> Expiry {
    match random.below(3) {
        0 => Expiry::Keep,
        1 => Expiry::Never,
        _ => Expiry::At(UnixMs(NOW.0 + 1 + random.below(1000).cast_signed())),
    }
}

fn change_hash(hash: &mut Hash, random: &mut Rng) {
    let field = field_name(random.below(8));
    match random.below(3) {
        0 => {
            hash.remove(field.as_bytes(), NOW);
        }
        1 => {
            let until = Lifetime::Until(UnixMs(NOW.0 + 10));
            hash.set(field.as_bytes(), b"short-lived", until, HASH, NOW);
        }
        _ => {
            let value = random.below(100).to_string();
            hash.set(field.as_bytes(), value.as_bytes(), Lifetime::Forever, HASH, NOW);
        }
    }
}

/// Changes a key in one of all possible ways.
fn change(opened: &mut OpenKey<'_, '_>, random: &mut Rng) {
    let is_string = matches!(opened.string(), Ok(Some(_)));
    match random.below(14) {
        0 => opened.set_string(b"text", expiry(random)),
        1 => opened.set_string(&[b'x'; 300], expiry(random)),
        2 => opened.set_int(random.below(1000).cast_signed()),
        3 if is_string => {
            opened.append(b"tail");
        }
        4 if is_string => opened.resize(random.below(40) as usize),
        5 if is_string => opened.set_range(random.below(40) as usize, b"range"),
        6 => {
            if let Ok(Some(bytes)) = opened.string_mut() {
                bytes.fill(b'y');
            }
        }
        7 => opened.set_deadline(Some(UnixMs(NOW.0 + 5))),
        8 => opened.set_deadline(None),
        9 => {
            opened.set_sticky(random.below(2) == 0);
        }
        10 => {
            opened.remove();
        }
        11 => {
            opened.remove();
            opened.put(OwnedRecord::new_string(b"other", b"put", None));
        }
        12 => {
            let mut hash = Hash::default();
            change_hash(&mut hash, random);
            hash.set(b"field0", b"v", Lifetime::Forever, HASH, NOW);
            opened.set_collection(hash, expiry(random));
            opened.publish_collection::<Hash>(event::HSET);
        }
        _ => {
            if let Ok(hash) = opened.collection_or_new::<Hash>() {
                change_hash(hash, random);
                opened.publish_collection::<Hash>(event::HSET);
            }
        }
    }
    opened.publish(event::UNNAMED);
}

fn all_held<'k>(space: &'k Keyspace, tally: &'k Tally, db: DbIndex) -> Locked<'k> {
    let plan = LockPlan::of((0..NAMES).map(|number| space.hash(name(number).as_bytes())));
    space.lock_waiting(&plan, scope(space, tally, db, NOW))
}

#[test]
fn everything_is_as_it_was() {
    let (space, tally, mut random) = (keyspace(), Tally::default(), Rng::from_seed(9));
    let mut differed = 0;
    for _ in 0..400 {
        let mut locked = all_held(&space, &tally, DB);
        let before = state(&space, &mut locked);
        let names: Vec<String> = (0..NAMES).map(name).collect();
        let keys: Vec<Key<'_>> = names.iter().map(|name| space.key(name.as_bytes())).collect();
        for _ in 0..random.below(30) {
            let key = keys[random.below(NAMES as u64) as usize];
            assert!(locked.can_undo(&[key], LIMITS));
            let db = if random.below(4) == 0 { OTHER_DB } else { DB };
            change(&mut locked.peek_in(db, key), &mut random);
        }
        differed += usize::from(state(&space, &mut locked) != before);
        locked.undo();
        assert_eq!(state(&space, &mut locked), before);
        // Rounds without an undo make the next one begin with other keys.
        for key in keys {
            change(&mut locked.peek(key), &mut random);
        }
    }
    assert!(differed > 300);
    // The sweep knows every field that was restored.
    Sweeper::new(&space).round(&space, UnixMs(NOW.0 + 11), &tally);
    let left = state(&space, &mut all_held(&space, &tally, DB)).concat();
    assert!(left.contains("Hash"));
    assert!(!left.contains("1000010"), "{left}");
}

#[test]
fn what_is_too_large_or_too_much_is_not_kept() {
    let (space, tally) = (keyspace(), Tally::default());
    set(&space, DB, "key0", &"x".repeat(10_000), Expiry::Never);
    let names: Vec<String> = (0..NAMES).map(name).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|name| space.key(name.as_bytes())).collect();
    let mut locked = all_held(&space, &tally, DB);
    let limits = UndoLimits { keys: 3, bytes: 4096 };
    assert!(!locked.can_undo(&keys[..1], limits), "too large");
    assert!(locked.can_undo(&keys[1..4], limits));
    for key in &keys[1..4] {
        let mut opened = locked.open(*key);
        opened.set_string(&[0; 8000], Expiry::Never);
        opened.publish(event::SET);
    }
    assert!(locked.can_undo(&keys[1..4], limits), "they are kept as they were");
    assert!(!locked.can_undo(&keys[4..5], limits), "too many");
    locked.end_undo();
    locked.undo();
    assert!(locked.peek(keys[1]).exists(), "it has been given up");
}

#[test]
fn what_expired_stays_expired() {
    let (space, tally) = (keyspace(), Tally::default());
    set(&space, DB, "key0", "v", Expiry::At(UnixMs(NOW.0 - 1)));
    let key = space.key(b"key0");
    let mut locked = all_held(&space, &tally, DB);
    assert!(locked.can_undo(&[], LIMITS));
    assert!(!locked.peek(key).exists());
    locked.undo();
    assert!(!locked.peek(key).exists());
    assert_eq!(space.sizes(DB).expect("it was used").keys(), 0);
}

/// A collection whose last element has expired does not come back empty.
#[test]
fn what_lost_its_last_element_stays_away() {
    let (space, tally) = (keyspace(), Tally::default());
    let key = space.key(b"key0");
    let mut locked = all_held(&space, &tally, DB);
    let mut opened = locked.open(key);
    let hash = opened.collection_or_new::<Hash>().expect("nothing else is there");
    hash.set(b"field", b"v", Lifetime::Until(UnixMs(NOW.0 + 1)), HASH, NOW);
    opened.publish_collection::<Hash>(event::HSET);
    drop(opened);
    locked.set_scope(scope(&space, &tally, DB, UnixMs(NOW.0 + 2)));
    assert!(locked.can_undo(&[key], LIMITS));
    assert_eq!(locked.open(key).expire_elements(10), 1);
    locked.undo();
    assert!(!locked.peek(key).exists());
}
