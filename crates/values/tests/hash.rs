//! A hash behaves like a map, in both forms and across the change from one to the other, with
//! fields that expire.

use std::collections::BTreeMap;

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_values::hash::{FieldBefore, HashLimits, Lifetime};
use pantala_values::{Collection as _, Hash};

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<UnixMs>)>;

const BEGIN: UnixMs = UnixMs(1_000_000);

fn text(random: &mut Rng) -> Vec<u8> {
    match random.below(6) {
        0 => (random.next_u64() as i64).to_string().into_bytes(),
        1 => b"x".repeat(random.below(30) as usize),
        2 => b"y".repeat(random.below(1500) as usize),
        _ => random.below(40).to_string().into_bytes(),
    }
}

fn live<'m>(model: &'m Model, field: &[u8], now: UnixMs) -> Option<&'m (Vec<u8>, Option<UnixMs>)> {
    model.get(field).filter(|(_, deadline)| deadline.is_none_or(|deadline| deadline >= now))
}

struct Pair {
    hash: Hash,
    model: Model,
    limits: HashLimits,
    now: UnixMs,
}

impl Pair {
    fn set(&mut self, random: &mut Rng) {
        let (field, value) = (text(random), text(random));
        let soon = UnixMs(self.now.0 + random.below(20) as i64);
        let lifetime = match random.below(6) {
            0 => Lifetime::Keep,
            1 => Lifetime::Until(soon),
            2 if random.below(4) == 0 => Lifetime::Until(UnixMs(i64::MAX)),
            _ => Lifetime::Forever,
        };
        let old = live(&self.model, &field, self.now).cloned();
        let before = self.hash.set(&field, &value, lifetime, self.limits, self.now);
        let expected = match (&old, self.model.contains_key(&field)) {
            (Some(_), _) => FieldBefore::Present,
            (None, true) => FieldBefore::Expired,
            (None, false) => FieldBefore::Missing,
        };
        assert_eq!(before, expected);
        let deadline = match lifetime {
            Lifetime::Forever => None,
            Lifetime::Keep => old.and_then(|(_, deadline)| deadline),
            Lifetime::Until(deadline) => Some(deadline),
        };
        self.model.insert(field, (value, deadline));
    }

    fn remove(&mut self, random: &mut Rng) {
        let field = text(random);
        let is_there = live(&self.model, &field, self.now).is_some();
        assert_eq!(self.hash.remove(&field, self.now), is_there);
        if is_there {
            self.model.remove(&field);
        }
    }

    fn set_deadline(&mut self, random: &mut Rng) {
        let field = text(random);
        let until = UnixMs(self.now.0 + 1 + random.below(20) as i64);
        let deadline = (random.below(3) > 0).then_some(until);
        if live(&self.model, &field, self.now).is_some() {
            self.hash.set_deadline(&field, deadline);
            self.model.get_mut(&field).expect("it is there").1 = deadline;
        }
    }

    fn expire(&mut self, random: &mut Rng) {
        let limit = 1 + random.below(50) as usize;
        let due =
            |model: &Model, now| model.keys().filter(|f| live(model, f, now).is_none()).count();
        let before = due(&self.model, self.now);
        let removed = self.hash.expire(self.now, limit, &mut |_| {});
        assert!(removed >= limit.min(before) && removed <= before, "{removed} of {before}");
        if removed < before {
            // Only the hash knows which of them were removed.
            while self.hash.expire(self.now, usize::MAX, &mut |_| {}) > 0 {}
        }
        let now = self.now;
        self.model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline >= now));
        if let Some(next) = self.hash.next_deadline() {
            assert!(next >= self.now, "all that is due was looked at");
        }
    }

    fn check_some(&self, random: &mut Rng) {
        let field = text(random);
        let found = self.hash.view().get(&field, self.now);
        let expected = live(&self.model, &field, self.now);
        assert_eq!(
            found.map(|found| found.value.to_vec()),
            expected.map(|(value, _)| value.clone())
        );
        assert_eq!(found.and_then(|found| found.deadline), expected.and_then(|(_, at)| *at));
        assert_eq!(self.hash.view().len(), self.model.len());
        assert_eq!(self.hash.is_empty(), self.model.is_empty());
    }

    fn check_all(&self, random: &mut Rng) {
        let alive: BTreeMap<Vec<u8>, Vec<u8>> = self
            .model
            .iter()
            .filter(|(field, _)| live(&self.model, field, self.now).is_some())
            .map(|(field, (value, _))| (field.clone(), value.clone()))
            .collect();
        let view = self.hash.view();
        let mut seen = BTreeMap::new();
        view.for_each(self.now, |field, value| {
            assert!(seen.insert(field.to_vec(), value.to_vec()).is_none(), "a field came twice");
        });
        assert_eq!(seen, alive);
        assert_eq!(view.live_len(self.now), alive.len());
        assert!(!view.is_exact(self.now) || view.len() == alive.len());
        let deadlines = self.model.values().filter_map(|(_, deadline)| *deadline);
        let earliest = deadlines.filter(|deadline| *deadline < UnixMs(i64::MAX)).min();
        assert!(earliest.is_none_or(|at| self.hash.next_deadline().is_some_and(|next| next <= at)));
        let count = random.below(alive.len() as u64 + 3) as usize;
        let sample: BTreeMap<_, _> = view
            .sample(count, random, self.now)
            .into_iter()
            .map(|(field, value)| (field.to_vec(), value.to_vec()))
            .collect();
        assert_eq!(sample.len(), count.min(alive.len()));
        assert!(sample.iter().all(|(field, value)| alive.get(field) == Some(value)));
        let copy = self.hash.duplicate();
        assert_eq!(copy.view().live_len(self.now), alive.len());
        assert_eq!(copy.encoding(), self.hash.encoding());
    }
}

#[test]
fn it_does_what_a_map_does() {
    for seed in 0..40 {
        let mut random = Rng::from_seed(seed);
        let limits = HashLimits {
            entries: random.below(60) as usize,
            value_bytes: random.below(2000) as usize,
        };
        let mut pair = Pair { hash: Hash::default(), model: Model::new(), limits, now: BEGIN };
        for _ in 0..1500 {
            match random.below(20) {
                0..=9 => pair.set(&mut random),
                10..=12 => pair.remove(&mut random),
                13 | 14 => pair.set_deadline(&mut random),
                15 => pair.now.0 += random.below(5) as i64,
                16 => pair.expire(&mut random),
                17 => pair.check_all(&mut random),
                _ => pair.check_some(&mut random),
            }
        }
        pair.check_all(&mut random);
    }
}

/// A scan visits the fields that are there all the time, while others come and go and the hash
/// changes its form and size.
#[test]
fn a_scan_meets_what_stays() {
    let limits = HashLimits { entries: 16, value_bytes: 64 };
    for seed in 0..20 {
        let mut random = Rng::from_seed(seed);
        let mut hash = Hash::default();
        let stays = random.below(400);
        for number in 0..stays {
            hash.set(format!("s{number}").as_bytes(), b"v", Lifetime::Forever, limits, BEGIN);
        }
        let (mut met, mut at) = (std::collections::BTreeSet::new(), 0);
        let mut calls = 0;
        loop {
            at = hash.view().scan(at, 1 + random.below(20) as usize, BEGIN, |field, _| {
                met.insert(field.to_vec());
            });
            calls += 1;
            assert!(calls < 10_000, "a scan comes to an end");
            if at == 0 {
                break;
            }
            for _ in 0..random.below(60) {
                let other = format!("o{}", random.below(1000));
                if random.below(2) == 0 {
                    hash.set(other.as_bytes(), b"v", Lifetime::Forever, limits, BEGIN);
                } else {
                    hash.remove(other.as_bytes(), BEGIN);
                }
            }
        }
        for number in 0..stays {
            assert!(met.contains(format!("s{number}").as_bytes()), "s{number}, seed {seed}");
        }
    }
}

#[test]
fn draws_are_fair() {
    for entries in [0, 100] {
        let limits = HashLimits { entries, value_bytes: 64 };
        let mut hash = Hash::default();
        for number in 0..10 {
            hash.set(&[b'a' + number], b"v", Lifetime::Forever, limits, BEGIN);
        }
        let mut random = Rng::from_seed(7);
        let mut counts = BTreeMap::new();
        for _ in 0..2000 {
            let (field, _) = hash.view().random(&mut random, BEGIN).expect("there are fields");
            *counts.entry(field.to_vec()).or_insert(0) += 1;
        }
        hash.view().draw_many(2000, &mut random, BEGIN, |field, _| {
            *counts.entry(field.to_vec()).or_insert(0) += 1;
            true
        });
        for count in [1, 2, 5, 9] {
            for _ in 0..2000 / count {
                for (field, _) in hash.view().sample(count, &mut random, BEGIN) {
                    *counts.entry(field.to_vec()).or_insert(0) += 1;
                }
            }
        }
        // About 1,200 draws each are expected; the standard deviation is about 33.
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|count| (1000..1400).contains(count)), "{counts:?}");
    }
}
