//! Read access to a hash in either form.

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_table::StrRef;
use smallvec::SmallVec;

use crate::dense::{Dense, Entry};
use crate::packed::{Element, View};

/// How often a random draw is repeated because the field has expired.
const RANDOM_TRIES: usize = 100;

/// The value of a field, and its deadline.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The value.
    pub value: StrRef<'a>,
    /// The deadline, if it has one.
    pub deadline: Option<UnixMs>,
}

/// Randomly picked fields with their values.
pub type Sample<'a> = Vec<(StrRef<'a>, StrRef<'a>)>;

/// A hash to be read, in either form.
#[derive(Clone, Copy, Debug)]
pub enum HashRef<'a> {
    /// Packed pairs: field, value, field, value.
    Packed(View<'a>),
    /// A dense table.
    Large(&'a Dense),
}

impl<'a> HashRef<'a> {
    /// How many fields there are, including expired ones that were not removed yet.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            HashRef::Packed(view) => view.len() / 2,
            HashRef::Large(large) => large.len(),
        }
    }

    /// Whether there is no field at all.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether [`HashRef::len`] is certain to count no expired field.
    #[inline]
    pub fn is_exact(self, now: UnixMs) -> bool {
        match self {
            HashRef::Packed(_) => true,
            HashRef::Large(large) => large.next_deadline().is_none_or(|deadline| deadline >= now),
        }
    }

    /// How many fields have not expired; may have to look at every field.
    pub fn live_len(self, now: UnixMs) -> usize {
        match self {
            HashRef::Packed(view) => view.len() / 2,
            HashRef::Large(large) => large.live_len(now),
        }
    }

    /// A field that has not expired.
    #[inline]
    pub fn get(self, field: &[u8], now: UnixMs) -> Option<Field<'a>> {
        match self {
            HashRef::Packed(view) => {
                let at = view.find(field, 2, 0)?;
                let value = StrRef::from(view.at(view.next(at)));
                Some(Field { value, deadline: None })
            }
            HashRef::Large(large) => {
                let found = large.get(field).filter(|found| !found.is_gone(now))?;
                Some(Field { value: StrRef::Bytes(found.value), deadline: found.deadline })
            }
        }
    }

    /// Calls `each` with every field and value that has not expired.
    #[inline]
    pub fn for_each(self, now: UnixMs, mut each: impl FnMut(StrRef<'a>, StrRef<'a>)) {
        match self {
            HashRef::Packed(view) => {
                for_each_pair(view, |field, value| each(field.into(), value.into()));
            }
            HashRef::Large(large) => {
                for found in large.iter().filter(|found| !found.is_gone(now)) {
                    each(StrRef::Bytes(found.key), StrRef::Bytes(found.value));
                }
            }
        }
    }

    /// Visits the fields that have not expired in parts: shows some, until `each` has no room for
    /// more, and returns where to continue as long as the hash does not change; `None` at the end.
    /// 0 starts. A packed hash is one part.
    #[inline]
    pub fn part(
        self,
        from: usize,
        now: UnixMs,
        mut each: impl FnMut(StrRef<'a>, StrRef<'a>) -> bool,
    ) -> Option<usize> {
        let HashRef::Large(large) = self else {
            self.for_each(now, |field, value| _ = each(field, value));
            return None;
        };
        large.part(from, |found| {
            found.is_gone(now) || each(StrRef::Bytes(found.key), StrRef::Bytes(found.value))
        })
    }

    /// Continues a scan: emits about `count` fields, without expired ones, and returns where to
    /// continue; 0 starts and ends. A field that exists from the first call to the last is emitted
    /// at least once. A packed hash is emitted as a whole.
    pub fn scan(
        self,
        cursor: u64,
        count: usize,
        now: UnixMs,
        mut each: impl FnMut(StrRef<'_>, StrRef<'_>),
    ) -> u64 {
        let HashRef::Large(large) = self else {
            self.for_each(now, each);
            return 0;
        };
        large.scan(cursor, count, &mut |found| {
            if !found.is_gone(now) {
                each(StrRef::Bytes(found.key), StrRef::Bytes(found.value));
            }
        })
    }

    /// A random field with its value, uniformly. `None` if there is none, or if too many tries hit
    /// expired fields.
    pub fn random(self, random: &mut Rng, now: UnixMs) -> Option<(StrRef<'a>, StrRef<'a>)> {
        match self {
            HashRef::Packed(view) => {
                let index = random.below(view.len() as u64 / 2) as usize;
                let at = view.seek(2 * index)?;
                Some((view.at(at).into(), view.at(view.next(at)).into()))
            }
            HashRef::Large(large) => (0..RANDOM_TRIES)
                .find_map(|_| large.random(random).filter(|found| !found.is_gone(now)))
                .map(pair),
        }
    }

    /// Draws `count` times, with repetition, until `each` has enough.
    pub fn draw_many(
        self,
        count: usize,
        random: &mut Rng,
        now: UnixMs,
        mut each: impl FnMut(StrRef<'a>, StrRef<'a>) -> bool,
    ) {
        let HashRef::Packed(view) = self else {
            for _ in 0..count {
                let Some((field, value)) = self.random(random, now) else { return };
                if !each(field, value) {
                    return;
                }
            }
            return;
        };
        let mut places: SmallVec<[u32; 128]> = SmallVec::new();
        view.iter().step_by(2).for_each(|(at, _)| places.push(at as u32));
        for _ in 0..count {
            let draw = random.below(places.len() as u64) as usize;
            let Some(&at) = places.get(draw) else { return };
            let at = at as usize;
            if !each(view.at(at).into(), view.at(view.next(at)).into()) {
                return;
            }
        }
    }

    /// `count` distinct fields, uniformly; fewer if there are fewer. Visits all fields, except
    /// where few are wanted of many.
    pub fn sample(self, count: usize, random: &mut Rng, now: UnixMs) -> Sample<'a> {
        let is_few = count.saturating_mul(3) <= self.len();
        match self {
            HashRef::Large(large) if is_few => {
                draw_distinct(large, count, random, now).unwrap_or_else(|| {
                    // The draws did not find enough: most fields have expired.
                    self.reservoir(count, random, now)
                })
            }
            _ => self.reservoir(count, random, now),
        }
    }

    /// Reservoir sampling, algorithm R (Waterman; Knuth, volume 2, 3.4.2).
    fn reservoir(self, count: usize, random: &mut Rng, now: UnixMs) -> Sample<'a> {
        let mut picked = Vec::with_capacity(count.min(self.len()));
        let mut met = 0;
        self.for_each(now, |field, value| {
            met += 1;
            if picked.len() < count {
                return picked.push((field, value));
            }
            let place = random.below(met) as usize;
            if let Some(one) = picked.get_mut(place) {
                *one = (field, value);
            }
        });
        picked
    }
}

fn pair<'a>(entry: Entry<'a>) -> (StrRef<'a>, StrRef<'a>) {
    (StrRef::Bytes(entry.key), StrRef::Bytes(entry.value))
}

/// Draws until `count` distinct fields were found, or too many draws failed.
fn draw_distinct<'a>(
    large: &'a Dense,
    count: usize,
    random: &mut Rng,
    now: UnixMs,
) -> Option<Sample<'a>> {
    let mut seen = std::collections::HashSet::with_capacity(count);
    let mut picked = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(10) {
        let found = large.random(random)?;
        if !found.is_gone(now) && seen.insert(found.key) {
            picked.push(pair(found));
        }
        if picked.len() == count {
            return Some(picked);
        }
    }
    None
}

fn for_each_pair<'a>(view: View<'a>, mut each: impl FnMut(Element<'a>, Element<'a>)) {
    let mut entries = view.iter();
    while let (Some((_, field)), Some((_, value))) = (entries.next(), entries.next()) {
        each(field, value);
    }
}
