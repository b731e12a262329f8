//! A sorted set compared with a map and a sorted vector: across the change of form, while it grows
//! and shrinks, with equal scores, long members and ranges of every kind.

use std::collections::BTreeMap;

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_values::sorted_set::{LexEnd, LexRange, ScoreRange, SetOutcome, SortedSetLimits};
use pantala_values::{Collection as _, SortedSet};

const LIMITS: SortedSetLimits = SortedSetLimits { entries: 8, value_bytes: 20 };

type Member = Vec<u8>;

#[derive(Default)]
struct Model {
    scores: BTreeMap<Member, f64>,
    deadlines: BTreeMap<Member, UnixMs>,
}

impl Model {
    fn sorted(&self) -> Vec<(f64, Member)> {
        let mut all: Vec<_> = self.scores.iter().map(|(m, s)| (*s, m.clone())).collect();
        all.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
        all
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        self.deadlines.remove(member);
        self.scores.remove(member)
    }
}

struct Dice {
    random: Rng,
    /// The number of different members.
    members: u64,
    /// The number of different scores; 1: all equal.
    scores: u64,
}

impl Dice {
    fn member(&mut self) -> Member {
        let number = self.random.below(self.members);
        match number % 7 {
            0 => number.to_string(),
            1 => format!("a-rather-long-member-{number}-{}", "x".repeat(number as usize % 300)),
            2 => format!("shared-prefix:{number}"),
            _ => format!("m{number}"),
        }
        .into_bytes()
    }

    fn score(&mut self) -> f64 {
        match self.random.below(self.scores) {
            0 => 0.0,
            1 => -0.0,
            2 => f64::INFINITY,
            3 => f64::NEG_INFINITY,
            n if n % 3 == 0 => n as f64,
            n => (n as f64 - 20.0) / 7.0,
        }
    }
}

fn entries(set: &SortedSet) -> Vec<(f64, Member)> {
    set.view().iter().map(|(member, score)| (score, member.to_vec())).collect()
}

fn step(dice: &mut Dice, set: &mut SortedSet, model: &mut Model, adds: bool) {
    let member = dice.member();
    let choice = dice.random.below(if adds { 12 } else { 20 });
    match choice {
        0..=6 => {
            let score = dice.score();
            let old = model.scores.get(&member).copied();
            let (before, changed) = set.update(&member, LIMITS, |_| Some(score));
            assert_eq!(before, old);
            let expected = match old {
                None => SetOutcome::Added,
                Some(old) if old == score => SetOutcome::Not,
                Some(_) => SetOutcome::Moved,
            };
            assert_eq!(changed, expected);
            if changed != SetOutcome::Not {
                model.scores.insert(member, score);
            }
        }
        7 => {
            let (before, changed) = set.update(&member, LIMITS, |_| None);
            assert_eq!((before, changed), (model.scores.get(&member).copied(), SetOutcome::Not));
        }
        8 if model.scores.contains_key(&member) => {
            let deadline = UnixMs(dice.random.below(100) as i64);
            let wanted = (dice.random.below(3) > 0).then_some(deadline);
            match wanted {
                Some(deadline) => {
                    set.set_deadline(&member, deadline);
                    model.deadlines.insert(member, deadline);
                }
                None => {
                    let had_one = model.deadlines.remove(&member).is_some();
                    assert_eq!(set.persist(&member), had_one);
                }
            }
        }
        9 if dice.random.below(40) == 0 => {
            let now = UnixMs(dice.random.below(30) as i64);
            while set.expire(now, 3, &mut |_| {}) > 0 {}
            let due: Vec<_> = model
                .deadlines
                .iter()
                .filter(|(_, at)| **at < now)
                .map(|(m, _)| m.clone())
                .collect();
            due.iter().for_each(|member| assert!(model.remove(member).is_some()));
        }
        10 if !model.scores.is_empty() => {
            let len = model.scores.len() as u64;
            let from = dice.random.below(len) as usize;
            let most = if dice.random.below(10) == 0 { 300 } else { 5 };
            let count = dice.random.below(most);
            let ranks = from..from + count as usize;
            let gone: Vec<Member> = model.sorted().into_iter().map(|(_, m)| m).collect();
            let end = ranks.end.min(gone.len());
            assert_eq!(set.remove_ranks(ranks), end - from);
            gone[from..end].iter().for_each(|member| assert!(model.remove(member).is_some()));
        }
        _ => assert_eq!(set.remove(&member), model.remove(&member)),
    }
}

fn look(dice: &mut Dice, set: &SortedSet, model: &Model) {
    set.check();
    let (view, sorted) = (set.view(), model.sorted());
    assert_eq!(entries(set), sorted);
    assert_eq!(view.len(), sorted.len());
    assert_eq!(set.next_deadline(), model.deadlines.values().min().copied());
    for _ in 0..20 {
        let member = dice.member();
        assert_eq!(set.deadline(&member), model.deadlines.get(&member).copied());
        let rank = sorted.iter().position(|(_, other)| *other == member);
        assert_eq!(view.rank(&member), rank.map(|rank| (rank, sorted[rank].0)));
        assert_eq!(view.score(&member), rank.map(|rank| sorted[rank].0));

        let range = ScoreRange {
            min: dice.score(),
            after_min: dice.random.below(2) == 0,
            max: dice.score(),
            before_max: dice.random.below(2) == 0,
        };
        let ranks = view.ranks_by_score(&range);
        let expected: Vec<_> =
            sorted.iter().filter(|(score, _)| range.holds(*score)).cloned().collect();
        assert_eq!(sorted[ranks.clone()], expected, "{range:?}");
        let by_score: Vec<_> =
            view.by_score(range).map(|(member, score)| (score, member.to_vec())).collect();
        assert_eq!(by_score, expected);

        let from = dice.random.below(sorted.len() as u64 + 1) as usize;
        let count = dice.random.below(100) as usize;
        let up: Vec<_> = view.entries(from, count).map(|(m, s)| (s, m.to_vec())).collect();
        assert_eq!(up, sorted[from..(from + count).min(sorted.len())]);
        let mut down: Vec<_> =
            view.entries_back(from, count).map(|(m, s)| (s, m.to_vec())).collect();
        down.reverse();
        let end = if from < sorted.len() { from + 1 } else { 0 };
        assert_eq!(down, sorted[end.saturating_sub(count).min(end)..end]);
    }
    if dice.scores == 1 {
        look_by_lex(dice, set, &sorted);
    }
    let mut scanned = Vec::new();
    let mut at = 0;
    loop {
        at = view.scan(at, 10, &mut |member, score| scanned.push((score, member.to_vec())));
        if at == 0 {
            break;
        }
    }
    scanned.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    assert_eq!(scanned, sorted);
}

fn look_by_lex(dice: &mut Dice, set: &SortedSet, sorted: &[(f64, Member)]) {
    for _ in 0..20 {
        let (low, high) = (dice.member(), dice.member());
        let end = |member, kind| match kind {
            0 => LexEnd::First,
            1 => LexEnd::Last,
            2..6 => LexEnd::Including(member),
            _ => LexEnd::Excluding(member),
        };
        let range = LexRange {
            min: end(&low, dice.random.below(9)),
            max: end(&high, dice.random.below(9)),
        };
        let holds = |member: &Member| {
            let behind_min = match range.min {
                LexEnd::First => true,
                LexEnd::Last => false,
                LexEnd::Including(limit) => &member[..] >= limit,
                LexEnd::Excluding(limit) => &member[..] > limit,
            };
            let before_max = match range.max {
                LexEnd::First => false,
                LexEnd::Last => true,
                LexEnd::Including(limit) => &member[..] <= limit,
                LexEnd::Excluding(limit) => &member[..] < limit,
            };
            behind_min && before_max
        };
        let expected: Vec<_> = sorted.iter().filter(|(_, m)| holds(m)).cloned().collect();
        for reverse in [false, true] {
            let ranks = set.view().ranks_by_lex(&range, reverse);
            assert_eq!(sorted[ranks], expected, "{range:?}");
        }
    }
}

#[test]
fn it_does_what_a_map_and_a_vec_do() {
    for (seed, members, scores) in
        [(1, 12, 30), (2, 300, 40), (3, 300, 1), (4, 6000, 5000), (5, 6000, 1), (6, 4000, 6)]
    {
        let mut dice = Dice { random: Rng::from_seed(seed), members, scores };
        let (mut set, mut model) = (SortedSet::default(), Model::default());
        let rounds = if members > 1000 { 40 } else { 150 };
        for round in 0..rounds {
            // Grows for a while, then shrinks.
            let adds = round % 20 < 12;
            for _ in 0..members / 8 + 1 {
                step(&mut dice, &mut set, &mut model, adds);
            }
            look(&mut dice, &set, &model);
        }
    }
}

#[test]
fn it_grows_at_both_ends_and_goes_away_from_both() {
    let mut set = SortedSet::default();
    for n in 0..20_000_i32 {
        set.set(format!("up{n:06}").as_bytes(), f64::from(n), LIMITS);
        set.set(format!("down{n:06}").as_bytes(), f64::from(-n - 1), LIMITS);
    }
    set.check();
    let ranks: Vec<usize> = (0..40_000).step_by(997).collect();
    for rank in ranks {
        let (member, score) = set.view().entries(rank, 1).next().expect("it is there");
        assert_eq!(score, rank as f64 - 20_000.0);
        assert_eq!(set.view().rank(&member.to_vec()), Some((rank, score)));
    }
    for n in (0..20_000_i32).rev() {
        assert_eq!(set.remove(format!("down{n:06}").as_bytes()), Some(f64::from(-n - 1)));
        assert_eq!(set.remove_ranks(set.len() - 1..set.len()), 1);
    }
    set.check();
    assert!(set.is_empty());
}

#[test]
fn what_is_built_at_once_is_as_what_grew() {
    for count in [0, 1, 8, 9, 57, 1000, 30_000] {
        let names: Vec<String> = (0..count).map(|n| format!("{n:08}")).collect();
        let sorted: Vec<(&[u8], f64)> =
            names.iter().map(|name| (name.as_bytes(), (name.len() / 3) as f64)).collect();
        let mut set = SortedSet::of_sorted(&sorted, LIMITS);
        set.check();
        assert_eq!(set.len(), count);
        assert_eq!(set.encoding(), if count <= 8 { "listpack" } else { "skiplist" });
        let same =
            set.view().iter().zip(&sorted).all(|((m, s), (n, t))| m.to_vec() == *n && s == *t);
        assert!(same);
        // It goes on as any other.
        for name in &names {
            set.set(format!("{name}b").as_bytes(), 2.0, LIMITS);
            set.remove(name.as_bytes());
        }
        set.check();
        assert_eq!(set.len(), count);
        let copy = set.duplicate();
        copy.check();
        assert_eq!(entries(&copy), entries(&set));
    }
}

#[test]
fn huge_members_stand_beside_small_ones() {
    let mut set = SortedSet::default();
    let huge: Vec<Vec<u8>> = (0..20).map(|n| vec![b'a' + n; 70_000 + usize::from(n)]).collect();
    for (n, member) in huge.iter().enumerate() {
        set.set(member, 1.0, LIMITS);
        for m in 0..20 {
            set.set(format!("{}{m}", char::from(b'a' + n as u8)).as_bytes(), 1.0, LIMITS);
        }
    }
    set.check();
    assert_eq!(set.len(), 420);
    for member in &huge {
        assert_eq!(set.remove(member), Some(1.0));
    }
    set.check();
    assert_eq!(set.len(), 400);
}

#[test]
fn a_member_costs_little_beside_its_bytes() {
    let mut random = Rng::from_seed(9);
    let mut set = SortedSet::default();
    let count = 200_000;
    for _ in 0..count {
        let mut member = [0; 16];
        random.bytes(&mut member);
        set.set(&member, random.unit_f64(), LIMITS);
    }
    let each = set.heap_bytes() as f64 / f64::from(count) - 16.0;
    assert!(each < 32.0, "{each} bytes over the member itself");
}
