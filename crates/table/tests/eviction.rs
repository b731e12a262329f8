//! Which records eviction removes, and which it leaves.

mod common;

use std::ops::ControlFlow;

use common::{Hash, Random, Thing, good_hash, one_bucket};
use pantala_base::UnixMs;
use pantala_table::{Choice, EvictionClock, EvictionCount, First, OwnedRecord, Table, TableTurn};

const ALL: [First; 5] =
    [First::LeastRecent, First::LeastFrequent, First::Coldest, First::Any, First::Nearest];
/// More calls in a row that remove nothing than any policy needs.
const PATIENCE: usize = 4_000;

struct Cache {
    table: Table<Thing>,
    hash: Hash,
    lately: EvictionClock,
    /// The number of this table among those that share the same state.
    number: usize,
    random: Random,
}

impl Cache {
    fn new(hash: Hash) -> Cache {
        let table = Table::new();
        Cache { table, hash, lately: EvictionClock::default(), number: 0, random: Random(7) }
    }

    fn insert(&mut self, key: &[u8], deadline: Option<UnixMs>) {
        let (hash, mut rehash) = ((self.hash)(key), self.hash);
        while self.table.insert_string(hash, key, b"value", deadline).is_err() {
            self.table.make_room(hash, UnixMs(0), &mut rehash, &mut drop);
        }
    }

    fn touch(&mut self, key: &[u8]) -> bool {
        let found = self.table.find((self.hash)(key), key);
        found.inspect(|&place| self.table.touch(place)).is_some()
    }

    fn stick(&mut self, key: &[u8]) {
        let place = self.table.find((self.hash)(key), key).expect("it is there");
        self.table.set_sticky(place, true);
    }

    fn evict(&mut self, choice: Choice, gone: &mut Vec<OwnedRecord<Thing>>) -> EvictionCount {
        let (before, mut below) = (gone.len(), |bound| self.random.below(bound));
        let among = TableTurn { lately: &self.lately, number: self.number };
        let evicted = self.table.evict(choice, among, &mut below, &mut |record| {
            gone.push(record);
            ControlFlow::Continue(())
        });
        assert_eq!(gone.len() - before, evicted.taken);
        if let Some(last) = gone[before..].last() {
            self.table.tidy_after_remove((self.hash)(last.key()), &mut self.hash);
        }
        evicted
    }

    /// Evicts until this many keys are left, or nothing can be removed any more.
    fn shrink_to(&mut self, choice: Choice, most: usize) -> Vec<OwnedRecord<Thing>> {
        let (mut gone, mut in_vain) = (Vec::new(), 0);
        while self.table.len() > most && in_vain < PATIENCE {
            let evicted = self.evict(choice, &mut gone);
            in_vain = if evicted.taken == 0 { in_vain + 1 } else { 0 };
        }
        self.table.check(&mut self.hash);
        gone
    }
}

fn name(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// A third of the keys have a deadline, some are sticky.
fn filled(hash: Hash, count: usize) -> Cache {
    let mut cache = Cache::new(hash);
    for number in 0..count {
        let deadline = (number.is_multiple_of(3)).then_some(UnixMs(1_000_000 + number as i64));
        cache.insert(&name(number), deadline);
        if number.is_multiple_of(7) {
            cache.stick(&name(number));
        }
    }
    cache
}

#[test]
fn every_choice_takes_all_that_may_go_and_nothing_else() {
    for (first, only_deadlines) in ALL.into_iter().flat_map(|first| [(first, true), (first, false)])
    {
        if first == First::Nearest && !only_deadlines {
            continue;
        }
        for (hash, count) in
            [(good_hash as Hash, 1), (good_hash, 40), (good_hash, 5_000), (one_bucket, 900)]
        {
            let mut cache = filled(hash, count);
            let stays = |number: &usize| {
                number.is_multiple_of(7) || only_deadlines && !number.is_multiple_of(3)
            };
            let staying = (0..count).filter(stays).count();
            let gone = cache.shrink_to(Choice { first, only_deadlines, in_need: false }, 0);
            assert_eq!(cache.table.len(), staying, "{first:?} {only_deadlines} {count}");
            assert_eq!(gone.len(), count - staying);
            assert!((0..count).filter(stays).all(|number| cache.touch(&name(number))));
            assert!(gone.iter().all(|record| !record.is_sticky()));
        }
    }
}

#[test]
fn a_caller_that_has_enough_is_given_no_more() {
    let mut cache = filled(good_hash, 3_000);
    let choice = Choice { first: First::Any, only_deadlines: false, in_need: false };
    let mut below = |bound| cache.random.below(bound);
    let mut given = 0;
    let among = TableTurn { lately: &cache.lately, number: 0 };
    let evicted = cache.table.evict(choice, among, &mut below, &mut |_| {
        given += 1;
        ControlFlow::Break(())
    });
    assert_eq!((evicted.taken, given, cache.table.len()), (1, 1, 2_999));
}

#[test]
fn what_is_used_outlives_a_scan() {
    let mut cache = Cache::new(good_hash);
    let choice = Choice { first: First::LeastFrequent, only_deadlines: false, in_need: false };
    (0..2_000).for_each(|number| cache.insert(&name(number), None));
    (0..1_000).for_each(|number| _ = cache.touch(&name(number)));
    for scanned in 0..20_000 {
        let used = cache.random.below(1_000) as usize;
        cache.touch(&name(used));
        cache.insert(&name(10_000 + scanned), None);
        while cache.table.len() > 2_000 {
            cache.evict(choice, &mut Vec::new());
        }
    }
    let left = (0..1_000).filter(|&number| cache.touch(&name(number))).count();
    let unused = (1_000..2_000).filter(|&number| cache.touch(&name(number))).count();
    assert!(left > 980, "{left} of 1,000 that are used are left");
    assert!(unused < 20, "{unused} of 1,000 that are not used are left");
}

#[test]
fn by_recency_what_was_used_once_outlives_what_was_used_often_long_ago() {
    let mut cache = Cache::new(good_hash);
    let choice = Choice { first: First::LeastRecent, only_deadlines: false, in_need: false };
    (0..4_000).for_each(|number| cache.insert(&name(number), None));
    (0..9).for_each(|_| (0..2_000).for_each(|number| _ = cache.touch(&name(number))));
    for number in 4_000..16_000 {
        cache.insert(&name(number), None);
        while cache.table.len() > 4_000 {
            cache.evict(choice, &mut Vec::new());
        }
    }
    let old = (0..2_000).filter(|&number| cache.touch(&name(number))).count();
    let young = (14_500..16_000).filter(|&number| cache.touch(&name(number))).count();
    assert!(old < 20 && young > 1_480, "{old} of 2,000, {young} of 1,500");
}

/// The hotness of a key.
fn hotness(cache: &Cache, key: &[u8]) -> u8 {
    let place = cache.table.find((cache.hash)(key), key).expect("it is there");
    cache.table.hotness(place)
}

/// Fills a table beyond its limit; returns the removed keys, in the order of removal.
fn overfilled(first: First, count: usize) -> (Cache, Vec<Vec<u8>>) {
    let mut cache = Cache::new(good_hash);
    let choice = Choice { first, only_deadlines: false, in_need: false };
    let mut gone = Vec::new();
    for number in 0..count {
        cache.insert(&name(number), None);
        while cache.table.len() > count * 3 / 4 {
            cache.evict(choice, &mut gone);
        }
    }
    (cache, gone.iter().map(|record| record.key().to_vec()).collect())
}

#[test]
fn what_comes_back_soon_is_known() {
    let (mut cache, gone) = overfilled(First::LeastFrequent, 4_000);
    let known = |cache: &mut Cache, key: &[u8]| {
        cache.insert(key, None);
        hotness(cache, key) == 1
    };
    let others = (0..1_000).filter(|&number| known(&mut cache, &name(90_000 + number))).count();
    assert!(others < 40, "{others} of 1,000 that never were here");
    let (mut cache, _) = overfilled(First::LeastFrequent, 4_000);
    let latest = &gone[gone.len() - 200..];
    let back = latest.iter().filter(|key| known(&mut cache, key)).count();
    assert!(back > 60, "{back} of the last 200");
    let before = cache.table.len();
    cache.table.check(&mut cache.hash);
    assert_eq!(cache.table.len(), before);
}

#[test]
fn what_was_deleted_or_chosen_by_chance_is_not_remembered() {
    for first in [First::Any, First::LeastRecent] {
        let (mut cache, gone) = overfilled(first, 2_000);
        let fresh = if first == First::Any { 0 } else { 2 };
        for key in &gone {
            cache.insert(key, None);
            assert_eq!(hotness(&cache, key), fresh, "{first:?}");
        }
        assert_eq!(cache.table.fresh_hotness(), fresh);
    }
}

#[test]
fn eviction_among_other_changes_loses_nothing() {
    for (seed, first) in (0..).zip([First::LeastFrequent, First::LeastRecent, First::Coldest]) {
        let mut cache = Cache::new(good_hash);
        cache.random = Random(seed);
        let choice = Choice { first, only_deadlines: false, in_need: false };
        let mut model = std::collections::HashSet::new();
        for step in 0..60_000 {
            // The number of keys there may be goes up and down: segments grow, split and merge.
            let most = 200 + 2_800 * (step / 10_000 % 2);
            let key = name(cache.random.below(6_000) as usize);
            let place = cache.table.find((cache.hash)(&key), &key);
            assert_eq!(place.is_some(), model.contains(&key));
            match (place, cache.random.below(10)) {
                (Some(place), 0..3) => {
                    cache.table.remove(place);
                    cache.table.tidy_after_remove((cache.hash)(&key), &mut cache.hash);
                    model.remove(&key);
                }
                (Some(place), _) => cache.table.touch(place),
                (None, _) => {
                    cache.insert(&key, None);
                    model.insert(key);
                }
            }
            let mut gone = Vec::new();
            if cache.table.len() > most {
                cache.evict(choice, &mut gone);
            }
            assert!(gone.iter().all(|record| model.remove(record.key())));
        }
        cache.table.check(&mut cache.hash);
        assert_eq!(cache.table.len(), model.len());
    }
}

/// Hits per thousand requests in 64 tables that may together hold `most` keys.
fn hits(first: First, most: usize, keys: impl Iterator<Item = usize>) -> usize {
    const TABLES: usize = 64;
    let mut caches: Vec<Cache> = (0..TABLES).map(|_| Cache::new(good_hash)).collect();
    let (lately, mut random) = (EvictionClock::default(), Random(3));
    let choice = Choice { first, only_deadlines: false, in_need: false };
    let (mut held, mut turn, mut hits, mut all) = (0, 0, 0, 0);
    for (at, number) in keys.enumerate() {
        let key = name(number);
        let cache = &mut caches[Random(number as u64).below(TABLES as u64) as usize];
        let is_hit = cache.touch(&key);
        if at % 4 >= 2 {
            (hits, all) = (hits + usize::from(is_hit), all + 1);
        }
        if is_hit {
            continue;
        }
        cache.insert(&key, None);
        held += 1;
        while held > most {
            turn = (turn + 1) % TABLES;
            let among = TableTurn { lately: &lately, number: turn };
            let (cache, mut below) = (&mut caches[turn], |bound| random.below(bound));
            let mut last = None;
            let evicted = cache.table.evict(choice, among, &mut below, &mut |record| {
                last = Some(record.key().to_vec());
                ControlFlow::Continue(())
            });
            held -= evicted.taken;
            last.inspect(|key| cache.table.tidy_after_remove((cache.hash)(key), &mut cache.hash));
        }
    }
    1_000 * hits / all
}

#[test]
fn the_better_way_is_found() {
    const ALL_WAYS: [First; 3] = [First::LeastRecent, First::LeastFrequent, First::Coldest];
    // A loop larger than the caches; and keys that are used for a while, and then never again.
    let looped = |first| hits(first, 6_400, (0..200_000).map(|at| at % 8_000));
    let passing = |first| {
        let mut random = Random(5);
        let near = move |at: usize| at / 10 + random.below(8_000) as usize;
        hits(first, 6_400, (0..400_000).map(near))
    };
    let [recent, frequent, better] = ALL_WAYS.map(looped);
    assert!(frequent > recent + 100 && better + 50 > frequent, "{recent} {frequent} {better}");
    let [recent, frequent, better] = ALL_WAYS.map(passing);
    assert!(recent > frequent + 50 && better + 30 > recent, "{recent} {frequent} {better}");
    // A scan between keys that are used again and again, some more often than others.
    let scanned = |first| {
        let mut random = Random(6);
        let used = move |at: usize| match at % 5 {
            0 => 100_000 + at,
            _ => 60_000_f64.powf(random.below(1 << 30) as f64 / f64::from(1 << 30)) as usize,
        };
        hits(first, 6_400, (0..500_000).map(used))
    };
    let [recent, frequent, better] = ALL_WAYS.map(scanned);
    assert!(frequent > recent + 20 && better + 20 > frequent, "{recent} {frequent} {better}");
}

#[test]
fn the_nearest_deadlines_go_first() {
    let mut cache = Cache::new(good_hash);
    for number in 0..4_000 {
        cache.insert(&name(number), Some(UnixMs(number as i64)));
    }
    let choice = Choice { first: First::Nearest, only_deadlines: true, in_need: false };
    let gone = cache.shrink_to(choice, 3_000);
    let early = gone.iter().filter(|one| one.deadline() < Some(UnixMs(1_200))).count();
    assert!(early * 100 > gone.len() * 95, "{early} of {}", gone.len());
}

#[test]
fn chance_favours_nobody() {
    let mut cache = Cache::new(good_hash);
    for number in 0..4_000 {
        cache.insert(&name(number), None);
        if number < 2_000 {
            (0..3).for_each(|_| _ = cache.touch(&name(number)));
        }
    }
    let gone =
        cache.shrink_to(Choice { first: First::Any, only_deadlines: false, in_need: false }, 2_000);
    let early = (0..2_000).filter(|&number| cache.touch(&name(number))).count();
    assert!((900..1_100).contains(&early), "{early} of the hot are left, of {} gone", gone.len());
}
