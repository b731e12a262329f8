//! Read access to a set in any form.

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_table::IntText;

use super::ints::IntsRef;
use crate::dense::{Dense, Entry, HashHint};
use crate::packed::{Element, View};

/// How often a random draw is repeated because the member has expired.
const RANDOM_TRIES: usize = 100;

/// Members longer than this count as several in [`SetRef::work`].
const ORDINARY_BYTES: usize = 512;

/// A set to be read, in any form.
#[derive(Clone, Copy, Debug)]
pub enum SetRef<'a> {
    /// Integers, sorted.
    Ints(IntsRef<'a>),
    /// Packed members in the order of insertion.
    Packed(View<'a>),
    /// A dense table.
    Large(&'a Dense),
}

impl<'a> SetRef<'a> {
    /// How many members there are, including expired ones that were not removed yet.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            SetRef::Ints(ints) => ints.len(),
            SetRef::Packed(view) => view.len(),
            SetRef::Large(large) => large.len(),
        }
    }

    /// Whether there is no member at all.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The cost of visiting all members, in members of ordinary length.
    #[inline]
    pub fn work(self) -> usize {
        let bytes = match self {
            SetRef::Ints(_) => 0,
            SetRef::Packed(view) => view.bytes().len(),
            SetRef::Large(large) => large.heap_bytes(),
        };
        self.len().max(bytes / ORDINARY_BYTES)
    }

    /// Whether [`SetRef::len`] is certain to count no expired member.
    #[inline]
    pub fn is_exact(self, now: UnixMs) -> bool {
        match self {
            SetRef::Large(large) => large.next_deadline().is_none_or(|deadline| deadline >= now),
            _ => true,
        }
    }

    /// How many members have not expired; may have to look at every member.
    #[inline]
    pub fn live_len(self, now: UnixMs) -> usize {
        match self {
            SetRef::Large(large) => large.live_len(now),
            _ => self.len(),
        }
    }

    /// Whether a text is a member.
    #[inline]
    pub fn contains(self, text: &[u8], now: UnixMs) -> bool {
        match self {
            SetRef::Large(large) => large.get(text).is_some_and(|found| !found.is_gone(now)),
            SetRef::Packed(view) => view.find(text, 1, 0).is_some(),
            SetRef::Ints(ints) => Element::of(text).int().is_some_and(|int| ints.contains(int)),
        }
    }

    /// Whether an element of another set is a member.
    #[inline]
    pub fn has(self, element: Element<'_>, now: UnixMs) -> bool {
        match (self, element) {
            (SetRef::Ints(ints), Element::Int(int)) => ints.contains(int),
            (SetRef::Ints(_), Element::Bytes(text)) => self.contains(text, now),
            (_, Element::Int(_)) => self.contains(element.text(&mut IntText::new()), now),
            (_, Element::Bytes(text)) => self.contains(text, now),
        }
    }

    /// Whether a member of another set is a member here. Faster than [`SetRef::has`] between two
    /// tables.
    #[inline]
    pub fn has_member(self, member: &Member<'_>, now: UnixMs) -> bool {
        match (self, member.known, member.element) {
            (SetRef::Large(large), Some(known), Element::Bytes(text)) => {
                large.get_known(known, text).is_some_and(|found| !found.is_gone(now))
            }
            _ => self.has(member.element, now),
        }
    }

    /// The deadline of a member; the outer `None`: not a member.
    pub fn member_deadline(self, text: &[u8], now: UnixMs) -> Option<Option<UnixMs>> {
        match self {
            SetRef::Large(large) => {
                large.get(text).filter(|found| !found.is_gone(now)).map(|found| found.deadline)
            }
            _ => self.contains(text, now).then_some(None),
        }
    }

    /// All members that have not expired. A table yields texts, also for numbers.
    #[inline]
    pub fn iter(self, now: UnixMs) -> Members<'a> {
        match self {
            SetRef::Ints(ints) => Members::Ints(ints, 0),
            SetRef::Packed(view) => Members::Packed(view.iter()),
            SetRef::Large(large) => Members::Large(large.iter(), now),
        }
    }

    /// Visits the members that have not expired in parts: shows some, until `each` has no room for
    /// more, and returns where to continue as long as the set does not change; `None` at the end. 0
    /// starts. A small set is one part.
    #[inline]
    pub fn part(
        self,
        from: usize,
        now: UnixMs,
        mut each: impl FnMut(Element<'a>) -> bool,
    ) -> Option<usize> {
        let SetRef::Large(large) = self else {
            self.iter(now).for_each(|member| _ = each(member));
            return None;
        };
        large.part(from, |found| found.is_gone(now) || each(member(found)))
    }

    /// As [`SetRef::part`], for members that will be looked up in other sets.
    #[inline]
    pub fn part_to_look_up(
        self,
        from: usize,
        now: UnixMs,
        mut each: impl FnMut(Member<'a>) -> bool,
    ) -> Option<usize> {
        let SetRef::Large(large) = self else {
            self.iter(now).for_each(|element| _ = each(Member { element, known: None }));
            return None;
        };
        large.part_known(from, |found, known| {
            found.is_gone(now) || each(Member { element: member(found), known: Some(known) })
        })
    }

    /// As [`SetRef::part`], for the members that are also in all `others`.
    #[inline]
    pub fn part_common(
        self,
        others: &[SetRef<'a>],
        from: usize,
        now: UnixMs,
        mut each: impl FnMut(Element<'a>) -> bool,
    ) -> Option<usize> {
        if let (SetRef::Large(first), [SetRef::Large(second), rest @ ..]) = (self, others) {
            return first.part_common(second, from, |one, two| {
                let is_common = !one.is_gone(now)
                    && !two.is_gone(now)
                    && rest.iter().all(|set| set.contains(one.key, now));
                !is_common || each(member(one))
            });
        }
        self.part(from, now, |element| {
            !others.iter().all(|set| set.has(element, now)) || each(element)
        })
    }

    /// Continues a scan: emits about `count` members, without expired ones, and returns where to
    /// continue; 0 starts and ends. A member that exists from the first call to the last is emitted
    /// at least once. A small set is emitted as a whole.
    pub fn scan(
        self,
        cursor: u64,
        count: usize,
        now: UnixMs,
        mut each: impl FnMut(Element<'_>),
    ) -> u64 {
        let SetRef::Large(large) = self else {
            self.iter(now).for_each(each);
            return 0;
        };
        large.scan(cursor, count, &mut |found| {
            if !found.is_gone(now) {
                each(Element::Bytes(found.key));
            }
        })
    }

    /// A random member, uniformly. `None` if there is none, or if too many tries hit expired
    /// members.
    #[inline]
    pub fn random(self, random: &mut Rng, now: UnixMs) -> Option<Element<'a>> {
        match self {
            SetRef::Ints(ints) => {
                ints.get(random.below(ints.len() as u64) as usize).map(Element::Int)
            }
            SetRef::Packed(view) => {
                let index = random.below(view.len() as u64) as usize;
                view.seek(index).map(|at| view.at(at))
            }
            SetRef::Large(large) => (0..RANDOM_TRIES)
                .find_map(|_| large.random(random).filter(|found| !found.is_gone(now)))
                .map(member),
        }
    }

    /// Draws `count` times, with repetition, until `each` has enough.
    pub fn draw_many(
        self,
        count: usize,
        random: &mut Rng,
        now: UnixMs,
        mut each: impl FnMut(Element<'a>) -> bool,
    ) {
        // Reaching a packed member takes a walk: all places are noted first if that pays.
        let places: Vec<Element<'a>> = match self {
            SetRef::Packed(_) if count > 2 => self.iter(now).collect(),
            _ => Vec::new(),
        };
        for _ in 0..count {
            let one = match places.get(random.below(places.len() as u64) as usize) {
                Some(one) => Some(*one),
                None => self.random(random, now),
            };
            if !one.is_some_and(&mut each) {
                return;
            }
        }
    }

    /// `count` distinct members, uniformly; fewer if there are fewer. Visits all members, except
    /// where few are wanted of many.
    pub fn sample(self, count: usize, random: &mut Rng, now: UnixMs) -> Vec<Element<'a>> {
        let is_few = count.saturating_mul(3) <= self.len();
        match self {
            SetRef::Large(large) if is_few => draw_distinct(large, count, random, now)
                .unwrap_or_else(|| self.reservoir(count, random, now)),
            _ => self.reservoir(count, random, now),
        }
    }

    /// Reservoir sampling, algorithm R (Waterman; Knuth, volume 2, 3.4.2).
    fn reservoir(self, count: usize, random: &mut Rng, now: UnixMs) -> Vec<Element<'a>> {
        let mut picked = Vec::with_capacity(count.min(self.len()));
        for (met, one) in self.iter(now).enumerate() {
            if picked.len() < count {
                picked.push(one);
            } else if let Some(place) = picked.get_mut(random.below(met as u64 + 1) as usize) {
                *place = one;
            }
        }
        picked
    }
}

#[inline]
fn member(entry: Entry<'_>) -> Element<'_> {
    Element::Bytes(entry.key)
}

/// Draws until `count` distinct members were found, or too many draws hit expired ones.
fn draw_distinct<'a>(
    large: &'a Dense,
    count: usize,
    random: &mut Rng,
    now: UnixMs,
) -> Option<Vec<Element<'a>>> {
    let mut seen = std::collections::HashSet::with_capacity(count);
    let mut picked = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(10) {
        let found = large.random(random)?;
        if !found.is_gone(now) && seen.insert(found.key) {
            picked.push(member(found));
        }
        if picked.len() == count {
            return Some(picked);
        }
    }
    None
}

/// A member, and the known bits of its hash.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The member.
    pub element: Element<'a>,
    known: Option<HashHint>,
}

/// An iterator over the members, see [`SetRef::iter`].
#[derive(Clone, Debug)]
pub enum Members<'a> {
    /// Of an integer set, with the next index.
    Ints(IntsRef<'a>, usize),
    /// Of a packed set.
    Packed(crate::packed::Entries<'a>),
    /// Of a table, with the current time.
    Large(crate::dense::Iter<'a>, UnixMs),
}

impl<'a> Iterator for Members<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        match self {
            Members::Ints(ints, index) => {
                let number = ints.get(*index)?;
                *index += 1;
                Some(Element::Int(number))
            }
            Members::Packed(entries) => entries.next().map(|(_, element)| element),
            Members::Large(iter, now) => iter.find(|found| !found.is_gone(*now)).map(member),
        }
    }
}
