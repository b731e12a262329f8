//! A sorted set: members with scores, in the order of (score, member).
//!
//! | form | when | what |
//! |---|---|---|
//! | packed | few and short members, no deadlines | pairs in one buffer, see `small` |
//! | large | otherwise | a [`tree::Tree`], and the deadlines of members that have one |
//!
//! It becomes large and stays so. Reads go through [`SortedSetRef`], which is the same for both
//! forms.
//!
//! Invariants
//! 1. No score is NaN: callers reject NaN.
//! 2. Only existing members have a deadline. Members whose deadline has passed are members until
//!    [`Collection::expire`] was called; callers call it before they read.
//!
//! Not here: the meaning of ZADD's options, formatting of scores, replies. Tests:
//! `tests/sorted_set.rs` (against a std model), and the foot of the files.

mod deadlines;
mod range;
mod small;
mod tree;
mod view;

use std::ops::Range;

use pantala_base::UnixMs;
use pantala_base::number::push_f64;
use pantala_table::{Renewal, StrRef};

use crate::Collection;
use crate::digest::Digest;
use crate::packed::Packed;

use deadlines::Deadlines;
use tree::Tree;

pub use range::{LexEnd, LexRange, ScoreRange};
pub use tree::SetOutcome;
pub use view::{Entries, EntriesBack, SortedSetRef};

/// The byte limit of the packed form, whatever the settings.
const MOST_PACKED_BYTES: usize = crate::packed::MAX_BYTES / 16;

/// The limits of a packed sorted set.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetLimits {
    /// The most members.
    pub entries: usize,
    /// The longest member, in bytes.
    pub value_bytes: usize,
}

/// A sorted set, packed or large.
#[derive(Clone, Debug)]
pub struct SortedSet(Form);

#[derive(Clone, Debug)]
enum Form {
    Packed(Packed),
    Large(Box<LargeSortedSet>),
}

#[derive(Clone, Debug, Default)]
struct LargeSortedSet {
    tree: Tree,
    deadlines: Option<Box<Deadlines>>,
}

impl Default for SortedSet {
    fn default() -> Self {
        SortedSet(Form::Packed(Packed::new()))
    }
}

impl SortedSet {
    /// An empty set for this many members, the longest of this many bytes.
    pub fn with_room(count: usize, longest_bytes: usize, limits: SortedSetLimits) -> SortedSet {
        if count > limits.entries || longest_bytes > limits.value_bytes {
            return SortedSet(Form::Large(Box::default()));
        }
        SortedSet::default()
    }

    /// A set of entries in order, without duplicates: faster than adding them one by one.
    pub fn of_sorted(entries: &[(&[u8], f64)], limits: SortedSetLimits) -> SortedSet {
        let longest = entries.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
        let mut set = SortedSet::with_room(entries.len(), longest, limits);
        if longest.saturating_mul(entries.len()) > MOST_PACKED_BYTES {
            set = SortedSet(Form::Large(Box::default()));
        }
        match &mut set.0 {
            Form::Packed(packed) => {
                entries.iter().for_each(|(member, score)| small::push(packed, *score, member));
            }
            Form::Large(large) => large.tree = Tree::of_sorted(entries),
        }
        set
    }

    /// Read access.
    #[inline]
    pub fn view(&self) -> SortedSetRef<'_> {
        match &self.0 {
            Form::Packed(packed) => SortedSetRef::Packed(packed.view()),
            Form::Large(large) => SortedSetRef::Tree(&large.tree),
        }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a member's score to the result of `decide` for its present score (`None`: it is new);
    /// if that is `None`, nothing changes. Returns the old score and what was done.
    pub fn update(
        &mut self,
        member: &[u8],
        limits: SortedSetLimits,
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> (Option<f64>, SetOutcome) {
        let packed = match &mut self.0 {
            Form::Large(large) => return large.tree.update(member, decide),
            Form::Packed(packed) => packed,
        };
        if let Some(at) = small::find(packed.view(), member) {
            let old = small::score_at(packed.view(), at);
            return match decide(Some(old)) {
                Some(new) if new != old => {
                    small::shift(packed, at, new, member);
                    (Some(old), SetOutcome::Moved)
                }
                _ => (Some(old), SetOutcome::Not),
            };
        }
        let Some(score) = decide(None) else { return (None, SetOutcome::Not) };
        let bytes = packed.entry_bytes() + member.len();
        if packed.len() / 2 + 1 > limits.entries
            || member.len() > limits.value_bytes
            || bytes > MOST_PACKED_BYTES
        {
            self.large().tree.update(member, |_| Some(score));
        } else {
            small::insert(packed, score, member);
        }
        (None, SetOutcome::Added)
    }

    /// Sets a member's score.
    pub fn set(&mut self, member: &[u8], score: f64, limits: SortedSetLimits) -> SetOutcome {
        self.update(member, limits, |_| Some(score)).1
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Form::Packed(packed) => {
                let at = small::find(packed.view(), member)?;
                let score = small::score_at(packed.view(), at);
                packed.remove(at, 2);
                Some(score)
            }
            Form::Large(large) => {
                let score = large.tree.remove(member)?;
                large.forget(member);
                Some(score)
            }
        }
    }

    /// Removes the members with these ranks; returns how many.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) -> usize {
        let before = self.len();
        let ranks = ranks.start.min(before)..ranks.end.min(before);
        if ranks.len() == before {
            *self = SortedSet::default();
            return before;
        }
        match &mut self.0 {
            Form::Packed(packed) => {
                if let Some(at) = packed.view().seek(2 * ranks.start) {
                    packed.remove(at, 2 * ranks.len());
                }
            }
            Form::Large(large) => {
                let LargeSortedSet { tree, deadlines } = &mut **large;
                tree.remove_ranks(ranks, &mut |member| {
                    if let Some(deadlines) = deadlines {
                        deadlines.set(member, None);
                    }
                });
            }
        }
        before - self.len()
    }

    /// A member's deadline, if it has one.
    pub fn deadline(&self, member: &[u8]) -> Option<UnixMs> {
        match &self.0 {
            Form::Packed(_) => None,
            Form::Large(large) => large.deadlines.as_ref()?.get(member),
        }
    }

    /// Sets the deadline of an existing member.
    pub fn set_deadline(&mut self, member: &[u8], deadline: UnixMs) {
        debug_assert!(self.view().score(member).is_some(), "only members have deadlines");
        self.large().deadlines.get_or_insert_default().set(member, Some(deadline));
    }

    /// Removes a member's deadline; returns whether it had one.
    pub fn persist(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Form::Packed(_) => false,
            Form::Large(large) => large.forget(member),
        }
    }

    /// Converts the set to the large form if needed.
    fn large(&mut self) -> &mut LargeSortedSet {
        if let Form::Packed(packed) = &self.0 {
            let mut large = Box::<LargeSortedSet>::default();
            let walk = small::Walk::new(packed.view(), 0, usize::MAX);
            let mut scratch = pantala_table::IntText::new();
            for (member, score) in walk {
                large.tree.update(member.bytes(&mut scratch), |_| Some(score));
            }
            self.0 = Form::Large(large);
        }
        match &mut self.0 {
            Form::Large(large) => large,
            Form::Packed(_) => unreachable!("it was turned into the large form"),
        }
    }

    /// Panics where an invariant does not hold: for tests.
    pub fn check(&self) {
        match &self.0 {
            Form::Packed(_) => {
                let entries: Vec<_> =
                    self.view().iter().map(|(member, score)| (score, member.to_vec())).collect();
                assert!(entries.is_sorted_by(|a, b| a < b), "the order of entries");
            }
            Form::Large(large) => large.tree.check(),
        }
    }
}

impl LargeSortedSet {
    /// Removes a member's deadline; returns whether it had one.
    #[inline]
    fn forget(&mut self, member: &[u8]) -> bool {
        let Some(deadlines) = &mut self.deadlines else { return false };
        let had_one = deadlines.set(member, None);
        if deadlines.is_empty() {
            self.deadlines = None;
        }
        had_one
    }
}

impl Collection for SortedSet {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Large(large) => {
                let deadlines = large.deadlines.as_ref().map_or(0, |found| found.heap_bytes());
                size_of::<LargeSortedSet>() + large.tree.heap_bytes() + deadlines
            }
        }
    }

    fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        match &mut self.0 {
            Form::Packed(small) => small.renew(renewal),
            Form::Large(large) => return large.tree.renew(from, most, renewal),
        }
        None
    }

    fn encoding(&self) -> &'static str {
        match self.0 {
            Form::Packed(_) => "listpack",
            Form::Large(_) => "skiplist",
        }
    }

    fn element_count(&self) -> u64 {
        self.len() as u64
    }

    fn digest(&self, _now: UnixMs, digest: &mut Digest) {
        // In the fewest digits, as in Valkey; Redis writes seventeen.
        let mut text = Vec::new();
        for (member, score) in self.view().iter() {
            text.clear();
            push_f64(&mut text, score);
            digest.add_pair(member, StrRef::Bytes(&text));
        }
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn next_deadline(&self) -> Option<UnixMs> {
        match &self.0 {
            Form::Packed(_) => None,
            Form::Large(large) => large.deadlines.as_ref()?.first(),
        }
    }

    fn expire(&mut self, now: UnixMs, limit: usize, gone: &mut dyn FnMut(&[u8])) -> usize {
        let Form::Large(large) = &mut self.0 else { return 0 };
        let LargeSortedSet { tree, deadlines: Some(deadlines) } = &mut **large else { return 0 };
        let mut removed = 0;
        while removed < limit
            && let Some(member) = deadlines.pop_due(now)
        {
            gone(&member);
            tree.remove(&member);
            removed += 1;
        }
        if deadlines.is_empty() {
            large.deadlines = None;
        }
        removed
    }
}
