//! Every change is announced, and a change that was not is noticed.

mod common;

use std::sync::Arc;

use common::{DB, NOW, OTHER_DB, keyspace, scope, set};
use pantala_base::UnixMs;
use pantala_keyspace::event::{DEL, EventClass, HSET, RENAME_FROM, RENAME_TO, SET, XSETID};
use pantala_keyspace::{
    ChangeSink, DbIndex, Effect, EventMask, Expiry, Key, Keyspace, LockPlan, Locked, OpenKey,
    PartitionId, Sweeper, Tally, Ticket, Watch,
};
use pantala_values::Hash;
use pantala_values::hash::{HashLimits, Lifetime};
use parking_lot::Mutex;

const HASH: HashLimits = HashLimits { entries: 4, value_bytes: 16 };

/// A change sink that writes down what it hears.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl Ear {
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl ChangeSink for Ear {
    fn hear(&self, happened: Vec<Effect>, _tickets: &mut Vec<Ticket>) {
        let mut heard = self.0.lock();
        heard.extend(happened.into_iter().map(|effect| match effect {
            Effect::Happened { key, event, .. } => {
                format!("{} {}", event.name, String::from_utf8_lossy(&key))
            }
            Effect::Invalidate { key, .. } => format!("changed {}", String::from_utf8_lossy(&key)),
            Effect::Publish { .. } => "publish".to_owned(),
        }));
    }

    fn forget_all(&self, _tickets: &mut Vec<Ticket>) {
        self.0.lock().push("all".into());
    }
}

fn heard_space() -> (Keyspace, Ear) {
    let (space, ear) = (keyspace(), Ear::default());
    space.set_change_sink(Box::new(ear.clone()));
    space.want(EventMask::ALL_KEYS.and(EventMask::events(EventClass(!0))));
    (space, ear)
}

fn with(space: &Keyspace, now: UnixMs, names: &[&str], work: impl FnOnce(&mut Locked<'_>)) -> u64 {
    let tally = Tally::default();
    let plan = LockPlan::of(names.iter().map(|name| space.hash(name.as_bytes())));
    work(&mut space.lock_waiting(&plan, scope(space, &tally, DB, now)));
    tally.changes.get()
}

fn later(ms: i64) -> UnixMs {
    UnixMs(NOW.0 + ms)
}

#[test]
fn expiry_on_access() {
    let (space, ear) = heard_space();
    set(&space, DB, "k", "v", Expiry::At(later(5)));
    ear.heard();
    let changes = with(&space, later(6), &["k"], |locked| {
        assert!(!locked.read(space.key(b"k")).exists());
    });
    assert_eq!(
        (changes, ear.heard()),
        (1, ["changed k", "expired k", "keymiss k"].map(str::to_owned).to_vec())
    );
}

#[test]
fn expiry_by_the_sweep() {
    let (space, ear) = heard_space();
    set(&space, DB, "k", "v", Expiry::At(later(5)));
    ear.heard();
    let tally = Tally::default();
    Sweeper::new(&space).round(&space, later(6), &tally);
    assert_eq!(ear.heard(), ["changed k", "expired k"]);
    assert_eq!((tally.changes.get(), tally.expired.get()), (1, 1));
}

/// Expired keys in a full segment are removed, each with all effects of that.
#[test]
fn expiry_where_a_segment_is_full() {
    let (space, ear) = heard_space();
    let id = PartitionId(3);
    let names: Vec<String> = (0..)
        .map(|number| format!("k{number}"))
        .filter(|name| PartitionId::of(space.hash(name.as_bytes())) == id)
        .take(400)
        .collect();
    let (old, new) = names.split_at(200);
    for name in old {
        set(&space, DB, name, "v", Expiry::At(later(5)));
    }
    ear.heard();
    let tally = Tally::default();
    for name in new {
        let key = space.key(name.as_bytes());
        let mut locked = space.lock_one(id, scope(&space, &tally, DB, later(6))).expect("free");
        let mut opened = locked.open(key);
        opened.set_string(b"v", Expiry::Never);
        opened.publish(SET);
    }
    let heard = ear.heard();
    let expired = heard.iter().filter(|line| line.starts_with("expired ")).count() as u64;
    assert!(expired > 0, "no segment was full");
    assert_eq!(tally.expired.get(), expired);
    assert_eq!(tally.changes.get(), expired + new.len() as u64);
    let changed = heard.iter().filter(|line| line.starts_with("changed ")).count() as u64;
    assert_eq!(changed, expired + new.len() as u64);
}

fn set_field(opened: &mut OpenKey<'_, '_>, field: &str, until: UnixMs) {
    let hash = opened.collection_or_new::<Hash>().expect("it is a hash");
    hash.set(field.as_bytes(), b"v", Lifetime::Until(until), HASH, NOW);
    opened.publish_collection::<Hash>(HSET);
}

#[test]
fn expiry_of_elements() {
    let (space, ear) = heard_space();
    with(&space, NOW, &["h"], |locked| {
        set_field(&mut locked.open(space.key(b"h")), "a", later(5));
        set_field(&mut locked.open(space.key(b"h")), "b", later(10));
    });
    ear.heard();
    let watch = Arc::new(Watch::default());
    let changes = with(&space, later(6), &["h"], |locked| {
        locked.watch(space.key(b"h"), &watch);
        assert_eq!(locked.open(space.key(b"h")).expire_elements(10), 1);
        assert!(watch.is_touched());
        assert_eq!(locked.open(space.key(b"h")).expire_elements(10), 0);
    });
    assert_eq!((changes, ear.heard()), (1, vec!["changed h".into(), "hexpired h".into()]));
    let tally = Tally::default();
    Sweeper::new(&space).round(&space, later(11), &tally);
    assert_eq!(ear.heard(), ["changed h", "hexpired h", "del h"]);
    assert_eq!(tally.changes.get(), 1);
}

#[test]
fn eviction() {
    let (space, ear) = heard_space();
    set(&space, DB, "k", "v", Expiry::Never);
    ear.heard();
    let changes = with(&space, NOW, &["k"], |locked| {
        assert!(locked.peek(space.key(b"k")).evict());
        assert!(!locked.peek(space.key(b"k")).evict());
    });
    assert_eq!((changes, ear.heard()), (1, vec!["changed k".into(), "evicted k".into()]));
    assert_eq!(space.sizes(DB).expect("it was used").keys(), 0);
}

/// The two keys of a RENAME are announced when both have changed.
#[test]
fn a_suspended_change() {
    let (space, ear) = heard_space();
    set(&space, DB, "a", "v", Expiry::Never);
    ear.heard();
    let (a, b) = (space.key(b"a"), space.key(b"b"));
    with(&space, NOW, &["a", "b"], |locked| {
        let mut source = locked.peek(a);
        let record = source.take().expect("it is there");
        let source = source.suspend();
        let mut target = locked.peek(b);
        target.put(record);
        let target = target.suspend();
        locked.resume(source, a).publish(RENAME_FROM);
        locked.resume(target, b).publish(RENAME_TO);
    });
    let told = ["new b", "changed a", "rename_from a", "changed b", "rename_to b"];
    assert_eq!(ear.heard(), told);
}

#[test]
fn who_hears_of_quiet_changes() {
    let (space, ear) = heard_space();
    set(&space, DB, "k", "v", Expiry::Never);
    ear.heard();
    let watch = Arc::new(Watch::default());
    let key = space.key(b"k");
    let changes = with(&space, NOW, &["k"], |locked| {
        locked.watch(key, &watch);
        let mut opened = locked.open(key);
        opened.set_int(1);
        opened.publish_silently();
        opened.set_int(2);
        opened.publish_unwatched(XSETID);
        assert!(!watch.is_touched());
    });
    assert_eq!((changes, ear.heard()), (2, vec!["xsetid k".into()]));
}

#[test]
fn whole_databases() {
    let (space, ear) = heard_space();
    set(&space, DB, "k", "v", Expiry::Never);
    let flush = |only: Option<DbIndex>| {
        with(&space, NOW, &[], |locked| drop(locked.flush(only).expect("nobody stays inside")));
    };
    let watch = Arc::new(Watch::default());
    with(&space, NOW, &["k"], |locked| locked.watch(space.key(b"k"), &watch));
    ear.heard();
    flush(Some(OTHER_DB));
    assert_eq!((ear.heard(), watch.is_touched()), (vec!["all".into()], false));
    flush(Some(DB));
    assert_eq!((ear.heard(), watch.is_touched()), (vec!["all".into()], true));
    with(&space, NOW, &[], |locked| {
        locked.swap_databases(DB, OTHER_DB).expect("nobody stays inside");
    });
    assert_eq!(ear.heard(), ["all"]);
    flush(None);
    assert_eq!(ear.heard(), ["all"]);
}

/// Checks of debug builds: that a change ends in `publish` or `unchanged`, and that a key comes
/// with its own hash.
#[cfg(debug_assertions)]
mod forgotten {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use pantala_table::OwnedRecord;

    use super::*;

    fn panics(work: impl FnOnce(&mut OpenKey<'_, '_>)) -> bool {
        let space = keyspace();
        set(&space, DB, "k", "v", Expiry::Never);
        let work = || {
            with(&space, NOW, &["k"], |locked| work(&mut locked.open(space.key(b"k"))));
        };
        catch_unwind(AssertUnwindSafe(work)).is_err()
    }

    #[test]
    fn a_key_with_the_hash_of_another_is_noticed() {
        let space = keyspace();
        let open = |bytes: &'static [u8], hash: &[u8]| {
            let key = Key { bytes, hash: space.hash(hash) };
            let work = || with(&space, NOW, &["k"], |locked| drop(locked.open(key)));
            catch_unwind(AssertUnwindSafe(work)).is_err()
        };
        assert!(!open(b"k", b"k"));
        assert!(open(b"other", b"k"));
    }

    #[test]
    fn every_change_is_missed() {
        assert!(!panics(|_| {}));
        assert!(panics(|opened| opened.set_string(b"v", Expiry::Keep)));
        assert!(panics(|opened| opened.set_int(1)));
        assert!(panics(|opened| opened.set_deadline(Some(later(1)))));
        assert!(panics(|opened| opened.resize(5)));
        assert!(panics(|opened| opened.set_range(1, b"x")));
        assert!(panics(|opened| assert_eq!(opened.append(b"x"), 2)));
        assert!(panics(|opened| assert!(opened.set_sticky(true))));
        assert!(panics(|opened| drop(opened.string_mut())));
        assert!(panics(|opened| drop(opened.take())));
        assert!(panics(|opened| {
            opened.remove();
            opened.publish(DEL);
            opened.put(OwnedRecord::new_string(b"k", b"v", None));
        }));
        assert!(panics(|opened| opened.set_collection(Hash::default(), Expiry::Keep)));
        assert!(panics(|opened| {
            opened.set_collection(Hash::default(), Expiry::Keep);
            opened.publish(HSET);
            drop(opened.collection_mut::<Hash>());
        }));
    }

    #[test]
    fn what_is_no_change_is_not() {
        assert!(!panics(|opened| assert!(opened.collection_mut::<Hash>().is_err())));
        assert!(!panics(|opened| assert!(!opened.set_sticky(false))));
        assert!(!panics(|opened| opened.set_deadline(None)));
        assert!(!panics(|opened| {
            opened.append(b"x");
            opened.unchanged();
        }));
    }

    #[test]
    fn a_suspended_change_is_missed() {
        let space = keyspace();
        let work = || {
            with(&space, NOW, &["k"], |locked| {
                let mut opened = locked.open(space.key(b"k"));
                opened.set_string(b"v", Expiry::Never);
                let _suspended = opened.suspend();
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        let resumed = || {
            with(&space, NOW, &["k"], |locked| {
                let mut opened = locked.open(space.key(b"k"));
                opened.set_string(b"v", Expiry::Never);
                let suspended = opened.suspend();
                locked.resume(suspended, space.key(b"k"));
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(resumed)).is_err());
    }
}
