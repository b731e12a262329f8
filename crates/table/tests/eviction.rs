//! What eviction takes, and what it leaves.

mod common;

use std::ops::ControlFlow;

use common::{Hash, Random, Thing, good_hash, one_bucket};
use pantala_base::UnixMs;
use pantala_table::{Choice, Evicted, First, OwnedRecord, Reserve, Table};

const ALL: [First; 3] = [First::Coldest, First::Any, First::Nearest];
/// More calls in a row that take nothing than any policy needs.
const PATIENCE: usize = 4_000;

struct Cache {
    table: Table<Thing>,
    hash: Hash,
    reserve: Reserve,
    random: Random,
}

impl Cache {
    fn new(hash: Hash) -> Cache {
        Cache { table: Table::new(), hash, reserve: Reserve::default(), random: Random(7) }
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

    fn evict(&mut self, choice: Choice, gone: &mut Vec<OwnedRecord<Thing>>) -> Evicted {
        let (before, mut below) = (gone.len(), |bound| self.random.below(bound));
        let evicted = self.table.evict(choice, &self.reserve, &mut below, &mut |record| {
            gone.push(record);
            ControlFlow::Continue(())
        });
        assert_eq!(gone.len() - before, evicted.taken);
        if let Some(last) = gone[before..].last() {
            self.table.tidy_after_remove((self.hash)(last.key()), &mut self.hash);
        }
        evicted
    }

    /// Evicts until so many are left, or nothing goes any more.
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

/// A third has a deadline, some are sticky.
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
    let evicted = cache.table.evict(choice, &cache.reserve, &mut below, &mut |_| {
        given += 1;
        ControlFlow::Break(())
    });
    assert_eq!((evicted.taken, given, cache.table.len()), (1, 1, 2_999));
}

#[test]
fn what_is_used_outlives_a_scan() {
    let mut cache = Cache::new(good_hash);
    let choice = Choice { first: First::Coldest, only_deadlines: false, in_need: false };
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
