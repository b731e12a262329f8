//! A set behaves like a map from members to deadlines, across the limits of its forms.

use std::collections::{BTreeMap, BTreeSet};

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_values::packed::Element;
use pantala_values::set::{SetLimits, SetRef};
use pantala_values::{Collection, Set};

type Model = BTreeMap<Vec<u8>, Option<UnixMs>>;

const LOW: SetLimits = SetLimits { ints: 12, entries: 8, value_bytes: 10 };

fn member(random: &mut Rng) -> Vec<u8> {
    match random.below(8) {
        0 => vec![b'x'; random.below(14) as usize],
        1 => format!("m{}", random.below(20)).into_bytes(),
        2 => (random.next_u64() as i64 >> random.below(60)).to_string().into_bytes(),
        _ => random.below(20).to_string().into_bytes(),
    }
}

fn live(model: &Model, now: UnixMs) -> BTreeSet<Vec<u8>> {
    let is_live = |deadline: &Option<UnixMs>| deadline.is_none_or(|at| at >= now);
    model.iter().filter(|(_, at)| is_live(at)).map(|(member, _)| member.clone()).collect()
}

fn texts(set: SetRef<'_>, now: UnixMs) -> Vec<Vec<u8>> {
    set.iter(now).map(|element| element.to_vec()).collect()
}

struct Pair {
    set: Set,
    model: Model,
    now: UnixMs,
    /// Whether members get deadlines.
    timed: bool,
}

impl Pair {
    fn step(&mut self, random: &mut Rng) {
        let (now, one) = (self.now, member(random));
        let is_live = live(&self.model, now).contains(&one);
        match random.below(12) {
            0..=3 => {
                assert_eq!(self.set.add(&one, LOW, now), !is_live);
                if !is_live {
                    self.model.insert(one, None);
                }
            }
            4 => {
                assert_eq!(self.set.add_element(Element::of(&one), LOW, now), !is_live);
                if !is_live {
                    self.model.insert(one, None);
                }
            }
            5 | 6 => {
                assert_eq!(self.set.remove(&one, now), is_live);
                if is_live {
                    self.model.remove(&one);
                }
            }
            7 => {
                let mut popped = None;
                let found =
                    self.set.pop(random, now, |element| popped = Some(element.to_vec())).is_some();
                assert_eq!(found, !live(&self.model, now).is_empty());
                if let Some(popped) = popped {
                    assert!(live(&self.model, now).contains(&popped));
                    self.model.remove(&popped);
                }
                // A pop may have removed expired members, also when there was nothing else.
                let left = live(&self.model, now);
                if self.set.view().len() == left.len() {
                    self.model.retain(|member, _| left.contains(member));
                }
            }
            8 if self.timed => {
                let deadline = UnixMs(now.0 + random.below(100) as i64);
                let keeps = random.below(2) == 0;
                assert_eq!(self.set.add_until(&one, deadline, keeps, now), !is_live);
                if !is_live || !keeps {
                    self.model.insert(one, Some(deadline));
                }
            }
            9 if self.timed => {
                let deadline = Some(UnixMs(now.0 + random.below(50) as i64));
                let deadline = deadline.filter(|_| random.below(2) == 0);
                assert_eq!(self.set.set_member_deadline(&one, deadline, now), is_live);
                if is_live {
                    self.model.insert(one, deadline);
                }
            }
            10 if self.timed => self.now.0 += random.below(20) as i64,
            11 if self.timed && random.below(5) == 0 => {
                self.set.expire(now, usize::MAX, &mut |_| {});
                let left = live(&self.model, now);
                self.model.retain(|member, _| left.contains(member));
                assert_eq!(self.set.view().len(), left.len());
            }
            _ => {}
        }
    }

    fn check(&self, random: &mut Rng) {
        let (view, now) = (self.set.view(), self.now);
        let live = live(&self.model, now);
        assert_eq!(view.live_len(now), live.len());
        assert_eq!(self.set.is_empty(), view.is_empty());
        let mut members = texts(view, now);
        members.sort();
        assert!(members.iter().eq(&live));
        for one in &live {
            assert!(view.contains(one, now) && view.has(Element::of(one), now));
            assert_eq!(view.member_deadline(one, now), Some(self.model[one]));
        }
        let one = member(random);
        assert_eq!(view.contains(&one, now), live.contains(&one));
        let count = random.below(10) as usize;
        let mut picked: Vec<_> =
            view.sample(count, random, now).iter().map(|element| element.to_vec()).collect();
        assert_eq!(picked.len(), count.min(live.len()));
        picked.sort();
        picked.dedup();
        assert_eq!(picked.len(), count.min(live.len()));
        assert!(picked.iter().all(|one| live.contains(one)));
        assert!(!view.is_exact(now) || live.len() == view.len());
        let mut met = BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = view.scan(cursor, 3, now, |element| {
                met.insert(element.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(met, live);
        let bound = self.set.next_deadline();
        let earliest = self.model.values().flatten().min();
        assert!(
            earliest.is_none_or(|earliest| bound.is_some_and(|bound| bound <= *earliest)),
            "no deadline before {bound:?}, but {earliest:?} is one"
        );
    }
}

#[test]
fn it_does_what_a_map_does() {
    for seed in 0..60 {
        let mut random = Rng::from_seed(seed);
        let timed = seed % 3 == 0;
        let mut pair = Pair { set: Set::default(), model: Model::new(), now: UnixMs(1000), timed };
        for step in 0..300 {
            pair.step(&mut random);
            pair.check(&mut random);
            if step % 50 == 49 {
                let copy = pair.set.duplicate();
                assert_eq!(copy.encoding(), pair.set.encoding());
                pair.set = copy;
            }
            if pair.set.is_empty() || step % 100 == 99 {
                let first = member(&mut random);
                let count = 1 + random.below(20) as usize;
                pair.set = Set::starting_with(&first, count, LOW);
                pair.model.clear();
            }
        }
    }
}

fn of(members: &[&str]) -> Set {
    let mut set = Set::default();
    members.iter().for_each(|member| assert!(set.add(member.as_bytes(), LOW, UnixMs(0))));
    set
}

#[test]
fn forms_change_as_the_reference_changes_them() {
    assert_eq!(of(&["1", "-2"]).encoding(), "intset");
    assert_eq!(of(&["1", "x"]).encoding(), "listpack");
    assert_eq!(of(&["1", "12345678901", "x"]).encoding(), "hashtable");
    assert_eq!(of(&["1", "long enough"]).encoding(), "hashtable");
    let many: Vec<String> = (0..13).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(of(&many[..12]).encoding(), "intset");
    assert_eq!(of(&many).encoding(), "hashtable");
    let mut set = of(&many);
    set.to_ints(LOW);
    assert_eq!(set.encoding(), "hashtable");
    assert!(set.remove(b"7", UnixMs(0)));
    set.to_ints(LOW);
    assert_eq!(set.encoding(), "intset");
    let mut set = of(&["1", "x"]);
    set.to_ints(LOW);
    assert_eq!(set.encoding(), "listpack");
    set.expect(9, LOW);
    assert_eq!(set.encoding(), "hashtable");
}

#[test]
fn what_is_left_of_a_split_is_small_again() {
    for seed in 0..20 {
        let mut random = Rng::from_seed(seed);
        let now = UnixMs(5);
        let mut set = Set::default();
        (0..40).for_each(|n| assert!(set.add(format!("m{n}").as_bytes(), LOW, now)));
        assert!(set.set_member_deadline(b"m3", Some(UnixMs(9)), now));
        let rest = set.split_rest(5, LOW, &mut random, now);
        assert_eq!((rest.view().len(), set.view().len()), (5, 35));
        let is_timed = rest.view().contains(b"m3", now);
        assert_eq!(rest.encoding(), if is_timed { "hashtable" } else { "listpack" });
        if is_timed {
            assert_eq!(rest.member_deadline(b"m3", now), Some(Some(UnixMs(9))));
        }
        assert!(texts(rest.view(), now).iter().all(|one| !set.view().contains(one, now)));
    }
}

#[test]
fn chance_is_fair_in_every_form() {
    for (count, prefix) in [(8, ""), (8, "m"), (30, "m")] {
        let mut random = Rng::from_seed(4);
        let mut set = Set::default();
        for n in 0..count {
            assert!(set.add(format!("{prefix}{n}").as_bytes(), LOW, UnixMs(0)));
        }
        let mut times = BTreeMap::new();
        let mut count_one = |element: Element<'_>| *times.entry(element.to_vec()).or_insert(0) += 1;
        for _ in 0..count * 200 {
            set.view().random(&mut random, UnixMs(0)).into_iter().for_each(&mut count_one);
            set.view().sample(2, &mut random, UnixMs(0)).into_iter().for_each(&mut count_one);
        }
        set.view().draw_many(count * 200, &mut random, UnixMs(0), |element| {
            count_one(element);
            true
        });
        // 800 draws each are expected, with a standard deviation of 28.
        assert_eq!(times.len(), count);
        assert!(times.values().all(|times| (660..940).contains(times)), "{times:?}");
    }
}

#[test]
fn a_set_is_two_words() {
    assert!(size_of::<Set>() <= 16);
}
