//! Deadlines compared with a model, on a clock that jumps forwards and backwards: no key is read
//! after its deadline, none goes before it, and keys past theirs go with the next sweep.

mod common;

use std::collections::BTreeMap;

use common::{DB, NOW, keyspace, names, scope};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::event::{EXPIRE, HSET, SET};
use pantala_keyspace::{Expiry, Keyspace, LockPlan, OpenKey, Sweeper, Tally};
use pantala_values::Hash;
use pantala_values::hash::{HashLimits, Lifetime};

const LIMITS: HashLimits = HashLimits { entries: 8, value_bytes: 64 };
const NAMES: u64 = 300;
const STEPS: usize = 20_000;

struct Clock {
    now: UnixMs,
    chance: Rng,
}

impl Clock {
    fn new(seed: u64) -> Clock {
        Clock { now: NOW, chance: Rng::from_seed(seed) }
    }

    fn below(&mut self, bound: u64) -> i64 {
        self.chance.below(bound).cast_signed()
    }

    /// Advances the clock, mostly by little; sometimes sets it to another time.
    fn go_on(&mut self) {
        let by = match self.chance.below(200) {
            0 => -self.below(3_000),
            1 => self.below(3_000),
            2 => -1,
            _ => self.below(4),
        };
        self.now = UnixMs(self.now.0 + by);
    }

    fn deadline(&mut self) -> UnixMs {
        UnixMs(self.now.0 + 1 + self.below(1_500))
    }
}

/// Runs `act` on a key at this time, as a command would.
fn on<R>(
    space: &Keyspace,
    name: &str,
    now: UnixMs,
    act: impl FnOnce(&mut OpenKey<'_, '_>) -> R,
) -> R {
    let tally = Tally::default();
    let key = space.key(name.as_bytes());
    let plan = LockPlan::one(key.hash);
    act(&mut space.lock_waiting(&plan, scope(space, &tally, DB, now)).open(key))
}

fn count(space: &Keyspace) -> usize {
    space.sizes(DB).map_or(0, |sizes| sizes.keys()) as usize
}

/// The keys that exist, with their values and deadlines.
type Model = BTreeMap<String, (String, Option<UnixMs>)>;

fn has_passed(deadline: Option<UnixMs>, now: UnixMs) -> bool {
    deadline.is_some_and(|deadline| deadline < now)
}

/// Runs one command on one key.
fn step(space: &Keyspace, model: &mut Model, clock: &mut Clock) {
    let (now, name) = (clock.now, format!("k{}", clock.below(NAMES)));
    if model.get(&name).is_some_and(|(_, deadline)| has_passed(*deadline, now)) {
        // Opening an expired key removes it.
        model.remove(&name);
    }
    match clock.below(5) {
        0 | 1 => {
            let value = clock.below(1_000_000).to_string();
            let deadline = (clock.below(4) > 0).then(|| clock.deadline());
            on(space, &name, now, |opened| {
                opened.set_string(value.as_bytes(), deadline.map_or(Expiry::Never, Expiry::At));
                opened.publish(SET);
            });
            model.insert(name, (value, deadline));
        }
        2 => {
            let deadline = (clock.below(4) > 0).then(|| clock.deadline());
            let is_there = on(space, &name, now, |opened| {
                let is_there = opened.exists();
                if is_there {
                    opened.set_deadline(deadline);
                    opened.publish(EXPIRE);
                }
                is_there
            });
            assert_eq!(is_there, model.contains_key(&name), "{name} at {now:?}");
            model.entry(name).and_modify(|(_, kept)| *kept = deadline);
        }
        _ => {
            let found = on(space, &name, now, |opened| {
                let value = opened.string().expect("all values here are strings");
                value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
            });
            assert_eq!(found.as_ref(), model.get(&name).map(|(value, _)| value), "{name} {now:?}");
        }
    }
}

#[test]
fn keys_live_as_long_as_they_may() {
    for seed in 0..4 {
        let (space, tally, mut clock) = (keyspace(), Tally::default(), Clock::new(seed));
        let mut model = Model::new();
        for number in 0..STEPS {
            clock.go_on();
            step(&space, &mut model, &mut clock);
            assert_eq!(count(&space), model.len(), "seed {seed}, step {number}");
            if number % 50 == 0 {
                let before = model.len();
                model.retain(|_, (_, deadline)| !has_passed(*deadline, clock.now));
                let swept = Sweeper::new(&space).round(&space, clock.now, &tally);
                assert_eq!(swept, (before - model.len()) as u64, "seed {seed}, step {number}");
            }
        }
        Sweeper::new(&space).round(&space, UnixMs(i64::MAX), &tally);
        let lasting = model.iter().filter(|(_, (_, deadline))| deadline.is_none());
        let mut lasting: Vec<&String> = lasting.map(|(name, _)| name).collect();
        lasting.sort();
        assert_eq!(names(&space, DB).iter().collect::<Vec<_>>(), lasting, "none is immortal");
        assert!(tally.expired.get() > 500, "{} were swept", tally.expired.get());
    }
}

#[test]
fn fields_live_as_long_as_they_may() {
    for seed in 0..4 {
        let (space, tally, mut clock) = (keyspace(), Tally::default(), Clock::new(seed));
        let mut model: BTreeMap<(String, String), Option<UnixMs>> = BTreeMap::new();
        for number in 0..STEPS {
            clock.go_on();
            let now = clock.now;
            let (name, field) = (format!("h{}", clock.below(6)), format!("f{}", clock.below(40)));
            if clock.below(2) == 0 {
                let deadline = (clock.below(5) > 0).then(|| clock.deadline());
                let lifetime = deadline.map_or(Lifetime::Forever, Lifetime::Until);
                on(&space, &name, now, |opened| {
                    let hash = opened.collection_or_new::<Hash>().expect("it is a hash");
                    hash.set(field.as_bytes(), b"v", lifetime, LIMITS, now);
                    opened.publish_collection::<Hash>(HSET);
                });
                model.insert((name, field), deadline);
            } else {
                let is_there = on(&space, &name, now, |opened| {
                    let hash = opened.collection::<Hash>().expect("it is a hash");
                    hash.is_some_and(|hash| hash.view().get(field.as_bytes(), now).is_some())
                });
                let deadline = model.get(&(name.clone(), field.clone()));
                let expected = deadline.is_some_and(|deadline| !has_passed(*deadline, now));
                assert_eq!(is_there, expected, "seed {seed}, step {number}: {name} {field}");
            }
            if number % 50 == 0 {
                Sweeper::new(&space).round(&space, now, &tally);
                model.retain(|_, deadline| !has_passed(*deadline, now));
                let mut keys: Vec<&String> = model.keys().map(|(name, _)| name).collect();
                keys.dedup();
                assert_eq!(count(&space), keys.len(), "seed {seed}, step {number}");
            }
        }
        Sweeper::new(&space).round(&space, UnixMs(i64::MAX), &tally);
        model.retain(|_, deadline| deadline.is_none());
        let left: usize = (0..6)
            .map(|number| {
                on(&space, &format!("h{number}"), UnixMs(i64::MAX), |opened| {
                    opened.collection::<Hash>().expect("a hash").map_or(0, |hash| hash.view().len())
                })
            })
            .sum();
        assert_eq!(left, model.len(), "none is immortal");
        assert!(tally.expired_elements.get() > 500, "{}", tally.expired_elements.get());
    }
}
