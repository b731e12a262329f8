//! Unions, differences and intersections of very many sets, where a step looks at a few keys.
//!
//! ```text
//! union          the members of each set, one after the other
//! difference     the sizes of all ─┬─ a copy of the first, out of which the others are taken
//!                                  └─ those of the first that are in none of the others
//! intersection   the sizes of all ─── those of the smallest that are in all others
//! ```
//!
//! `combine` and `inter` find all sets again at each step, and look a member up in all of them:
//! with a hundred thousand keys that takes long. Here a step is bounded whatever their number. The
//! results are the same, and so are their encodings.
//!
//! Tests: at the foot.

use std::cmp::Reverse;

use pantala_base::UnixMs;
use pantala_keyspace::{Key, Locked};
use pantala_protocol::Reply;
use pantala_values::Set;
use pantala_values::packed::Element;
use pantala_values::set::{SetLimits, SetRef};

use super::{Destination, Place, limits};
use crate::calls::call::{Call, Lane, Stop};
use crate::long_work::incremental::{Budget, GatherState, OnceCountedKeys};

/// Whether a command has very many keys and runs on the lane.
#[inline]
pub(super) fn has_many(call: &Call<'_, '_>) -> bool {
    call.has_many_args() && call.lane == Lane::Slow
}

/// The union of the sets at some keys.
pub(super) fn gather_union<'c, R>(
    call: &mut Call<'c, '_>,
    keys: &[Key<'_>],
    finish: impl Fn(&mut Reply<'c>, Destination) -> R,
) -> Result<R, Stop> {
    let work = (limits(call.settings), call.now());
    let mut looks = OnceCountedKeys::default();
    call.gather(
        keys,
        |_| Ok(CombineWalk::default()),
        |call, through, _| through.go_on(call.keys, keys, &mut looks, work, |_| true),
        |reply, through| finish(reply, Destination::Set(through.found)),
    )
}

/// A set that is built by going through others.
#[derive(Default)]
struct CombineWalk {
    place: Place,
    found: Set,
}

impl CombineWalk {
    /// Adds the members of the sets for which `adds` is true by number, and removes those of the
    /// others.
    fn go_on(
        &mut self,
        locked: &mut Locked<'_>,
        keys: &[Key<'_>],
        looks: &mut OnceCountedKeys,
        (limits, now): (SetLimits, UnixMs),
        adds: impl Fn(usize) -> bool,
    ) -> Result<GatherState, Stop> {
        let (CombineWalk { place, found }, mut budget) = (self, Budget::of_step());
        while let Some(key) = keys.get(place.set) {
            if !budget.take(0) {
                return Ok(GatherState::PartOf(place.set + usize::from(place.from > 0)));
            }
            let opened = looks.read(locked, *key, place.set);
            let adds = adds(place.set);
            let next = opened.collection::<Set>()?.and_then(|set| {
                set.view().part(place.from, now, |member| {
                    match adds {
                        true => _ = found.add_element(member, limits, now),
                        false => _ = found.remove_element(member, now),
                    }
                    budget.take(member.len())
                })
            });
            match next {
                Some(next) => place.from = next,
                None => *place = Place { set: place.set + 1, from: 0 },
            }
        }
        Ok(GatherState::Whole)
    }
}

/// An element that outlives its set.
enum Owned {
    Int(i64),
    Bytes(Box<[u8]>),
}

impl Owned {
    fn of(element: Element<'_>) -> Owned {
        match element {
            Element::Int(number) => Owned::Int(number),
            Element::Bytes(text) => Owned::Bytes(text.into()),
        }
    }

    fn element(&self) -> Element<'_> {
        match self {
            Owned::Int(number) => Element::Int(*number),
            Owned::Bytes(text) => Element::Bytes(text),
        }
    }
}

/// The members of one set that are in all, or in none, of others.
struct FilteredMembers {
    members: Vec<Owned>,
    /// The number of the set whose members they are.
    source: usize,
    /// Where to go on in it, until all are read.
    from: Option<usize>,
    /// The other sets, in the order in which they are asked.
    others: Vec<usize>,
    /// How many of these are done.
    at: usize,
    /// How many members, from the first, have passed so far; the rest is freed at the end.
    left: usize,
    /// How many of them were asked for in the next set, and how many of these are kept.
    asked: usize,
    kept: usize,
}

impl FilteredMembers {
    fn of(source: usize, others: Vec<usize>) -> FilteredMembers {
        let (members, from) = (Vec::new(), Some(0));
        FilteredMembers { members, source, from, others, at: 0, left: 0, asked: 0, kept: 0 }
    }

    /// Goes on; whether it is complete.
    fn go_on(
        &mut self,
        locked: &Locked<'_>,
        keys: &[Key<'_>],
        are_in: bool,
        now: UnixMs,
    ) -> Result<GatherState, Stop> {
        let mut budget = Budget::of_step();
        while let Some(from) = self.from {
            if !budget.is_left() {
                return Ok(GatherState::Part);
            }
            let source = locked.collection::<Set>(keys[self.source])?;
            self.from = source.and_then(|set| {
                set.view().part(from, now, |member| {
                    self.members.push(Owned::of(member));
                    self.left += 1;
                    budget.take(member.len())
                })
            });
        }
        while self.left > 0
            && let Some(other) = self.others.get(self.at)
        {
            if !budget.take(0) {
                return Ok(GatherState::Part);
            }
            if let Some(set) = locked.collection::<Set>(keys[*other])?.map(Set::view) {
                if !self.ask(set, are_in, now, &mut budget) {
                    return Ok(GatherState::Part);
                }
                self.left = self.kept;
            }
            (self.at, self.asked, self.kept) = (self.at + 1, 0, 0);
        }
        Ok(GatherState::Whole)
    }

    /// The members that have passed all sets.
    fn result(&self) -> impl Iterator<Item = Element<'_>> {
        self.members[..self.left].iter().map(Owned::element)
    }

    /// Asks one set for the members; whether for all of them.
    fn ask(&mut self, set: SetRef<'_>, are_in: bool, now: UnixMs, budget: &mut Budget) -> bool {
        while let Some(member) = self.members[..self.left].get(self.asked) {
            let element = member.element();
            if !budget.take(element.len()) {
                return false;
            }
            if set.has(element, now) == are_in {
                self.members.swap(self.kept, self.asked);
                self.kept += 1;
            }
            self.asked += 1;
        }
        true
    }
}

/// The sizes of sets that are there, and whether they hold integers.
type Sizes = Vec<Option<(usize, bool)>>;

/// Reads further sizes.
fn ask_sizes(
    locked: &mut Locked<'_>,
    keys: &[Key<'_>],
    looks: &mut OnceCountedKeys,
    sizes: &mut Sizes,
) -> Result<GatherState, Stop> {
    let mut budget = Budget::of_step();
    while let Some(key) = keys.get(sizes.len()) {
        if !budget.take(0) {
            return Ok(GatherState::PartOf(sizes.len()));
        }
        let opened = looks.read(locked, *key, sizes.len());
        let set = opened.collection::<Set>()?.map(Set::view);
        sizes.push(set.map(|set| (set.len(), matches!(set, SetRef::Ints(_)))));
    }
    Ok(GatherState::Whole)
}

/// The stage of a difference or an intersection.
enum Stage {
    Sizes(Sizes),
    Kept(FilteredMembers, bool),
    Through(CombineWalk),
}

/// The difference of the sets at some keys; it may go to the reply if `is_shown`.
pub(super) fn gather_difference<'c, R>(
    call: &mut Call<'c, '_>,
    keys: &[Key<'_>],
    is_shown: bool,
    finish: impl Fn(&mut Reply<'c>, Destination) -> R,
) -> Result<R, Stop> {
    let work @ (limits, now) = (limits(call.settings), call.now());
    let mut looks = OnceCountedKeys::default();
    call.gather(
        keys,
        |_| Ok(Stage::Sizes(Sizes::new())),
        |call, stage, _| match stage {
            Stage::Sizes(sizes) => match ask_sizes(call.keys, keys, &mut looks, sizes)? {
                GatherState::Whole => {
                    *stage = way_of(keys, sizes);
                    Ok(GatherState::Part)
                }
                part => Ok(part),
            },
            Stage::Kept(kept, _) => kept.go_on(call.keys, keys, false, now),
            Stage::Through(through) => {
                match through.place.set > 0 && through.found.view().is_empty() {
                    true => Ok(GatherState::Whole),
                    false => all_of(through.go_on(call.keys, keys, &mut looks, work, is_first)?),
                }
            }
        },
        |reply, stage| {
            let found = match stage {
                Stage::Through(through) => Destination::Set(through.found),
                Stage::Sizes(_) => Destination::Set(Set::default()),
                Stage::Kept(kept, _) => {
                    let mut found = match is_shown {
                        true => Destination::reply(reply),
                        false => Destination::Set(Set::default()),
                    };
                    kept.result().for_each(|member| found.add(member, reply, limits, now));
                    found
                }
            };
            finish(reply, found)
        },
    )
}

fn is_first(nth: usize) -> bool {
    nth == 0
}

/// All keys have been looked at before.
fn all_of(gathered: GatherState) -> Result<GatherState, Stop> {
    Ok(GatherState::whole_if(gathered == GatherState::Whole))
}

/// How a difference is computed: see `combine`.
fn way_of(keys: &[Key<'_>], sizes: &Sizes) -> Stage {
    let is_first = |key: &Key<'_>| key.hash == keys[0].hash && key.bytes == keys[0].bytes;
    let first = sizes.first().copied().flatten();
    let Some((first, _)) = first.filter(|_| !keys[1..].iter().any(is_first)) else {
        // The result is empty.
        return Stage::Through(CombineWalk {
            place: Place { set: keys.len(), from: 0 },
            ..CombineWalk::default()
        });
    };
    let present = sizes.iter().flatten();
    let look_up = first.saturating_mul(present.clone().count()) / 2;
    if look_up > present.map(|(size, _)| size).sum() {
        return Stage::Through(CombineWalk::default());
    }
    let size = |nth: &usize| sizes[*nth].map_or(0, |(size, _)| size);
    let mut others: Vec<usize> = (1..sizes.len()).filter(|nth| sizes[*nth].is_some()).collect();
    others.sort_by_key(|nth| Reverse(size(nth)));
    Stage::Kept(FilteredMembers::of(0, others), false)
}

/// The intersection of the sets at some keys, as `inter` makes it.
pub(super) fn gather_common<'c, S, R>(
    call: &mut Call<'c, '_>,
    keys: &[Key<'_>],
    begin: impl Fn(bool, &mut Reply<'c>) -> S,
    each: impl Fn(&mut S, &mut Reply<'c>, Element<'_>) -> bool,
    finish: impl Fn(&mut Reply<'c>, S) -> R,
) -> Result<R, Stop> {
    let now = call.now();
    let mut looks = OnceCountedKeys::default();
    call.gather(
        keys,
        |_| Ok(Stage::Sizes(Sizes::new())),
        |call, stage, _| match stage {
            Stage::Sizes(sizes) => match ask_sizes(call.keys, keys, &mut looks, sizes)? {
                GatherState::Whole => {
                    *stage = smallest_of(sizes);
                    Ok(GatherState::Part)
                }
                part => Ok(part),
            },
            Stage::Kept(kept, _) => kept.go_on(call.keys, keys, true, now),
            Stage::Through(_) => Ok(GatherState::Whole),
        },
        |reply, stage| {
            let Stage::Kept(kept, are_ints) = stage else {
                let found = begin(false, reply);
                return finish(reply, found);
            };
            let mut found = begin(are_ints, reply);
            let mut members = kept.result();
            while members.next().is_some_and(|member| each(&mut found, reply, member)) {}
            finish(reply, found)
        },
    )
}

/// How an intersection is computed.
fn smallest_of(sizes: &Sizes) -> Stage {
    let present: Option<Vec<(usize, bool)>> = sizes.iter().copied().collect();
    let mut order: Vec<usize> = (0..present.as_ref().map_or(0, Vec::len)).collect();
    order.sort_by_key(|nth| sizes[*nth].map_or(0, |(size, _)| size));
    if order.is_empty() {
        return Stage::Through(CombineWalk::default());
    }
    let smallest = order.remove(0);
    let are_ints = sizes[smallest].is_some_and(|(_, are_ints)| are_ints);
    Stage::Kept(FilteredMembers::of(smallest, order), are_ints)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::test_support::{Fixture, fixture};

    /// More than one step, and more arguments than are seen as few.
    const KEYS: usize = 2_500;

    fn names(from: usize, to: usize) -> String {
        (from..to).map(|n| format!("k{n}")).collect::<Vec<_>>().join(" ")
    }

    /// Each third is missing, each fifth holds integers, and one is large.
    fn filled() -> std::sync::Arc<Fixture> {
        let fixture = fixture();
        for n in (0..KEYS).filter(|n| n % 3 != 2) {
            let words = match n {
                n if n % 5 == 0 => format!("SADD k{n} {n} 7 1"),
                _ => format!("SADD k{n} m{} common 7", n % 40),
            };
            fixture.answer(&words).expect("it has room");
        }
        let large: Vec<String> = (0..1200).map(|n| format!("m{n}")).collect();
        for key in ["k0", "large"] {
            fixture.answer(&format!("SADD {key} common 7 {}", large.join(" "))).expect("room");
        }
        fixture
    }

    /// The reply of a command, its elements in order, on this lane; and what it has stored.
    fn shown(fixture: &Fixture, words: &str, lane: Lane) -> (Result<Vec<String>, Stop>, String) {
        let (done, reply) = fixture.call(words, |call| {
            call.lane = lane;
            (call.command.handler)(call)
        });
        let text = String::from_utf8(reply).expect("text");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        let encoding = fixture.answer("OBJECT ENCODING to").expect("it is none that fails");
        (done.map(|()| lines), encoding + &fixture.answer("SORT to ALPHA").expect("it is a set"))
    }

    #[test]
    fn the_results_are_those_of_few_sets() {
        let fixture = filled();
        let all = names(0, KEYS);
        let one_again = "k1 ".repeat(KEYS);
        let commons: Vec<String> =
            (0..KEYS).filter(|n| n % 3 == 1).map(|n| format!("k{n}")).collect();
        let commons = commons.join(" ").repeat(3).replace("k2499k", "k2499 k");
        let text = fixture.answer("SET text x");
        assert!(text.is_ok());
        for words in [
            format!("SUNION {all}"),
            format!("SUNION {one_again}"),
            format!("SUNION {all} text"),
            format!("SUNIONSTORE to {all}"),
            format!("SDIFF {all}"),
            format!("SDIFF large {all}"),
            format!("SDIFF k4 {all}"),
            format!("SDIFF k4 k7 k8 {one_again}"),
            format!("SDIFF missing {all} text"),
            format!("SDIFFSTORE to k7 {one_again}"),
            format!("SDIFFSTORE to large {one_again}"),
            format!("SDIFFSTORE to k5 {one_again}"),
            format!("SINTER {all}"),
            format!("SINTER {all} text"),
            format!("SINTER {commons}"),
            format!("SINTERSTORE to k5 k10 {}", "k20 ".repeat(KEYS).trim_end()),
            format!("SINTERSTORE to {one_again}"),
            format!("SINTERSTORE to large {one_again}"),
            format!("SINTERCARD {KEYS} {}LIMIT 1", "k1 k4 ".repeat(KEYS / 2)),
            format!("SINTERCARD {KEYS} {}", "k1 k4 ".repeat(KEYS / 2)),
        ] {
            let words = words.trim_end();
            let few = shown(&fixture, words, Lane::Worker);
            assert!(few.0 != Err(Stop::Lane), "{} cannot be compared", &words[..30]);
            let many = shown(&fixture, words, Lane::Slow);
            assert!(few == many, "{}: {:?}", &words[..30], (few.0.map(|all| all.len()), many));
        }
    }

    /// A member that moves from one set to another is in their union at each moment, and never in
    /// all of them.
    #[test]
    fn they_are_of_one_moment() {
        let fixture = filled();
        let all = names(1, KEYS);
        fixture.answer("SADD k1 wanders").expect("it has room");
        let is_over = AtomicBool::new(false);
        let both = format!("k1 {}k2498", "k1 k2498 ".repeat(KEYS));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    let union = fixture.answer(&format!("SUNION {all}")).expect("they are sets");
                    assert!(union.contains("wanders"), "it was missed");
                    let common = fixture.answer(&format!("SINTER {both}")).expect("they are sets");
                    assert!(!common.contains("wanders"), "it was seen twice");
                }
                is_over.store(true, Ordering::Release);
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    for words in ["SMOVE k1 k2498 wanders", "SMOVE k2498 k1 wanders"] {
                        fixture.answer(words).expect("they are sets");
                    }
                }
            });
        });
    }
}
