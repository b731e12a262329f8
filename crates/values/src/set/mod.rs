//! Sets of distinct texts, each with an optional deadline.
//!
//! ```text
//! Set -- Ints:   integers, sorted                  few, all of them integers   "intset"
//!     -- Packed: members in the order they came    few and short               "listpack"
//!     -- Large:  a dense table                     the rest                    "hashtable"
//! ```
//!
//! A set changes to the next form when an added member passes a limit or is not an integer, or when
//! a member gets a deadline; it never goes back (a result of SINTERSTORE may: [`Set::to_ints`]).
//! OBJECT ENCODING shows the form, so the conditions are the reference's.
//!
//! | file | what |
//! |---|---|
//! | here | changing, and the forms |
//! | `view` | reading |
//! | `ints` | the sorted integers |
//!
//! Invariants
//! 1. A member occurs once in a set.
//! 2. A member has expired the millisecond after its deadline: readers pass `now` and never see an
//!    expired member. Only [`SetRef::len`] counts those that were not removed yet.
//! 3. Only large sets have deadlines.
//!
//! Not here: commands, events, algorithms over several sets, and when expired members are removed
//! (by the keyspace's sweep, and by commands that change a set). Tests: at the foot of `ints`, and
//! tests/set.rs, a model.

mod ints;
mod view;

use pantala_base::UnixMs;
use pantala_base::number::{digit_count, parse_i64};
use pantala_base::rng::Rng;
use pantala_table::{IntText, Renewal, StrRef, is_expired};

use crate::Collection;
use crate::dense::{self, Dense, Values};
use crate::digest::Digest;
use crate::packed::{self, Element, Packed};
use ints::Ints;

pub use ints::IntsRef;
pub use view::{Member, Members, SetRef};

/// How often a draw is repeated because the member has expired.
const POP_TRIES: usize = 100;
/// The most members of a set of integers, whatever the setting.
const MOST_INTS: usize = 1 << 30;

/// The limits of the small forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// The most members where all are integers.
    pub ints: usize,
    /// The most members of a packed set.
    pub entries: usize,
    /// The longest member of a packed set, in bytes.
    pub value_bytes: usize,
}

impl SetLimits {
    fn most_ints(self) -> usize {
        self.ints.min(MOST_INTS)
    }
}

/// A set. An empty one has the form for integers.
#[derive(Debug)]
pub struct Set {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Ints(Ints),
    Packed(Packed),
    Large(Box<Dense>),
}

impl Default for Set {
    fn default() -> Set {
        Set { form: Form::Ints(Ints::default()) }
    }
}

impl Set {
    /// An empty set in the packed form.
    pub fn packed() -> Set {
        Set { form: Form::Packed(Packed::new()) }
    }

    /// A set of ascending numbers, as a snapshot has it.
    pub fn of_ascending(numbers: &[i64], limits: SetLimits) -> Set {
        if numbers.len() <= limits.most_ints() {
            return Set { form: Form::Ints(Ints::of_ascending(numbers)) };
        }
        let mut set = Set { form: Form::Large(Box::new(Dense::new(Values::None))) };
        for number in numbers {
            set.add_element(Element::Int(*number), limits, UnixMs(0));
        }
        set
    }

    /// A packed set of these distinct members, as a snapshot has it.
    pub fn of_packed(members: Packed) -> Set {
        Set { form: Form::Packed(members) }
    }

    /// An empty set in the form for a member `first` and up to `count` members in all.
    pub fn starting_with(first: &[u8], count: usize, limits: SetLimits) -> Set {
        if count <= limits.ints && parse_i64(first).is_some() {
            Set::default()
        } else if count <= limits.entries {
            Set::packed()
        } else {
            Set { form: Form::Large(Box::new(Dense::new(Values::None))) }
        }
    }

    /// Announces that up to `count` members will be added: a set that would not stay small becomes
    /// large at once.
    #[inline]
    pub fn expect(&mut self, count: usize, limits: SetLimits) {
        let is_small = match &self.form {
            Form::Ints(_) => count <= limits.ints,
            Form::Packed(_) => count <= limits.entries,
            Form::Large(_) => true,
        };
        if !is_small {
            self.grow();
        }
    }

    /// Read access.
    #[inline]
    pub fn view(&self) -> SetRef<'_> {
        match &self.form {
            Form::Ints(ints) => SetRef::Ints(ints.view()),
            Form::Packed(packed) => SetRef::Packed(packed.view()),
            Form::Large(large) => SetRef::Large(large),
        }
    }

    /// Adds a text; returns whether it is new. An existing deadline stays.
    #[inline]
    pub fn add(&mut self, text: &[u8], limits: SetLimits, now: UnixMs) -> bool {
        match &mut self.form {
            Form::Large(large) => add_large(large, text, None, now),
            _ => self.add_small(Element::of(text), limits, now),
        }
    }

    /// Adds a member of another set; returns whether it is new.
    #[inline]
    pub fn add_element(&mut self, element: Element<'_>, limits: SetLimits, now: UnixMs) -> bool {
        match (&mut self.form, element) {
            (Form::Large(large), _) => {
                add_large(large, element.text(&mut IntText::new()), None, now)
            }
            (_, Element::Bytes(text)) => self.add(text, limits, now),
            (_, Element::Int(_)) => self.add_small(element, limits, now),
        }
    }

    fn add_small(&mut self, element: Element<'_>, limits: SetLimits, now: UnixMs) -> bool {
        match (&mut self.form, element) {
            (Form::Ints(ints), Element::Int(int)) => {
                let is_new = ints.add(int);
                if is_new && ints.view().len() > limits.most_ints() {
                    self.grow();
                }
                is_new
            }
            (Form::Ints(ints), Element::Bytes(text)) => {
                let len = ints.view().len();
                let longest = text.len().max(longest_text(ints.view()));
                if len < limits.entries && longest <= limits.value_bytes {
                    self.pack();
                } else {
                    self.grow();
                }
                self.add(text, limits, now)
            }
            (Form::Packed(packed), _) => {
                let mut encoded = packed::Encoded::new();
                packed::entry::encode(element, &mut encoded);
                let view = packed.view();
                if view.find_encoded(&encoded, 1, 0).is_some() {
                    return false;
                }
                let fits = view.len() < limits.entries
                    && element.len() <= limits.value_bytes
                    && packed.entry_bytes() + encoded.len() < packed::MAX_BYTES;
                if fits {
                    packed.splice(packed.entry_bytes(), 0, &encoded, 1);
                } else {
                    add_large(self.grow(), element.text(&mut IntText::new()), None, now);
                }
                true
            }
            (Form::Large(large), _) => {
                add_large(large, element.text(&mut IntText::new()), None, now)
            }
        }
    }

    /// Adds a text with a deadline. An existing member gets the deadline, too, unless it is to keep
    /// its own. Returns whether it is new.
    pub fn add_until(
        &mut self,
        text: &[u8],
        deadline: UnixMs,
        keeps_old: bool,
        now: UnixMs,
    ) -> bool {
        let large = self.grow();
        let is_new = add_large(large, text, Some(deadline), now);
        if !is_new && !keeps_old {
            large.set_deadline(text, Some(deadline));
        }
        is_new
    }

    /// The deadline of a member; the outer `None`: not a member.
    pub fn member_deadline(&self, text: &[u8], now: UnixMs) -> Option<Option<UnixMs>> {
        self.view().member_deadline(text, now)
    }

    /// Sets or removes the deadline of a member; returns whether it exists.
    pub fn set_member_deadline(
        &mut self,
        text: &[u8],
        deadline: Option<UnixMs>,
        now: UnixMs,
    ) -> bool {
        let is_member = self.view().contains(text, now);
        let is_large = matches!(self.form, Form::Large(_));
        if is_member && (is_large || deadline.is_some()) {
            self.grow().set_deadline(text, deadline);
        }
        is_member
    }

    /// Removes a text; returns whether it was a member. An expired member is left to
    /// [`Collection::expire`].
    #[inline]
    pub fn remove(&mut self, text: &[u8], now: UnixMs) -> bool {
        match &mut self.form {
            Form::Large(large) => remove_large(large, text, now),
            _ => self.remove_element(Element::of(text), now),
        }
    }

    /// Removes a member of another set; returns whether it was a member here.
    pub fn remove_element(&mut self, element: Element<'_>, now: UnixMs) -> bool {
        match (&mut self.form, element) {
            (Form::Ints(ints), Element::Int(int)) => ints.remove(int),
            (Form::Ints(ints), Element::Bytes(text)) => {
                parse_i64(text).is_some_and(|int| ints.remove(int))
            }
            (Form::Packed(packed), _) => {
                let found = packed.view().find(element.text(&mut IntText::new()), 1, 0);
                if let Some(at) = found {
                    packed.remove(at, 1);
                }
                found.is_some()
            }
            (Form::Large(large), _) => remove_large(large, element.text(&mut IntText::new()), now),
        }
    }

    /// Removes a random member, uniformly, and shows it first. `None` if all have expired or there
    /// is none.
    pub fn pop(
        &mut self,
        random: &mut Rng,
        now: UnixMs,
        show: impl FnOnce(Element<'_>),
    ) -> Option<()> {
        match &mut self.form {
            Form::Ints(ints) => {
                let index = random.below(ints.view().len() as u64) as usize;
                show(Element::Int(ints.view().get(index)?));
                ints.remove_at(index);
            }
            Form::Packed(packed) => {
                let index = random.below(packed.len() as u64) as usize;
                let at = packed.view().seek(index)?;
                show(packed.view().at(at));
                packed.remove(at, 1);
            }
            Form::Large(large) => {
                if large.next_deadline().is_some_and(|deadline| is_expired(deadline, now)) {
                    return pop_live(large, random, now, show);
                }
                large.take_random(random, |found| show(Element::Bytes(found.key)))?;
            }
        }
        Some(())
    }

    /// Removes all but `left` random members: takes out the remaining ones as a set of their own,
    /// in the form it would have had from its beginning. What is left here are the removed ones.
    /// The caller has removed expired members.
    pub fn split_rest(
        &mut self,
        left: usize,
        limits: SetLimits,
        random: &mut Rng,
        now: UnixMs,
    ) -> Set {
        let mut rest = match self.form {
            Form::Ints(_) => Set::default(),
            _ => Set::packed(),
        };
        for _ in 0..left {
            let mut kept = None;
            self.pop_entry(random, now, |element, deadline| match deadline {
                Some(deadline) => {
                    kept = Some(rest.add_until(
                        element.text(&mut IntText::new()),
                        deadline,
                        false,
                        now,
                    ));
                }
                None => kept = Some(rest.add_element(element, limits, now)),
            });
            if kept.is_none() {
                break;
            }
        }
        rest
    }

    /// As [`Set::pop`], with the member's deadline.
    fn pop_entry(
        &mut self,
        random: &mut Rng,
        now: UnixMs,
        show: impl FnOnce(Element<'_>, Option<UnixMs>),
    ) {
        match &mut self.form {
            Form::Large(large) => {
                large.take_random(random, |found| {
                    show(Element::Bytes(found.key), found.deadline);
                });
            }
            _ => {
                self.pop(random, now, |element| show(element, None));
            }
        }
    }

    /// Converts a set of integers only to the sorted array, if it is short enough.
    pub fn to_ints(&mut self, limits: SetLimits) {
        if matches!(self.form, Form::Ints(_)) || self.view().len() > limits.most_ints() {
            return;
        }
        let mut ints = Ints::default();
        for element in self.view().iter(UnixMs(i64::MIN)) {
            let number = match element {
                Element::Int(number) => Some(number),
                Element::Bytes(text) => parse_i64(text),
            };
            let Some(number) = number else { return };
            ints.add(number);
        }
        self.form = Form::Ints(ints);
    }

    fn pack(&mut self) {
        let mut packed = Packed::new();
        self.view().iter(UnixMs(i64::MIN)).for_each(|element| packed.push(element));
        self.form = Form::Packed(packed);
    }

    /// Converts the set to a dense table if needed.
    fn grow(&mut self) -> &mut Dense {
        if !matches!(self.form, Form::Large(_)) {
            let mut large = Box::new(Dense::new(Values::None));
            let mut scratch = IntText::new();
            for element in self.view().iter(UnixMs(i64::MIN)) {
                let text = element.text(&mut scratch);
                large.insert_missing(dense::hash(text), text, b"");
            }
            self.form = Form::Large(large);
        }
        match &mut self.form {
            Form::Large(large) => large,
            _ => unreachable!("it was made large above"),
        }
    }
}

/// Takes a random member out of a table in which some have expired. If the draws find no live one,
/// the expired ones are removed first.
fn pop_live(
    large: &mut Dense,
    random: &mut Rng,
    now: UnixMs,
    show: impl FnOnce(Element<'_>),
) -> Option<()> {
    for _ in 0..POP_TRIES {
        let found = large.random(random)?;
        if !found.is_gone(now) {
            let text = found.key.to_vec();
            show(Element::Bytes(&text));
            large.remove(&text);
            return Some(());
        }
    }
    large.expire(now, usize::MAX, &mut |_| {});
    large.take_random(random, |found| show(Element::Bytes(found.key)))
}

/// Bytes of the longest text of these integers.
fn longest_text(ints: IntsRef<'_>) -> usize {
    let ends = [ints.get(0), ints.len().checked_sub(1).and_then(|last| ints.get(last))];
    let len = |int: i64| usize::from(int < 0) + digit_count(int.unsigned_abs());
    ends.into_iter().flatten().map(len).max().unwrap_or(0)
}

#[inline]
fn add_large(large: &mut Dense, text: &[u8], deadline: Option<UnixMs>, now: UnixMs) -> bool {
    if deadline.is_none() && large.next_deadline().is_none() {
        return large.insert(text, b"");
    }
    match large.get(text) {
        Some(found) if !found.is_gone(now) => false,
        _ => {
            large.insert_until(text, b"", deadline);
            true
        }
    }
}

#[inline]
fn remove_large(large: &mut Dense, text: &[u8], now: UnixMs) -> bool {
    let hash = dense::hash(text);
    if large.next_deadline().is_some()
        && large.get_hashed(hash, text).is_some_and(|found| found.is_gone(now))
    {
        return false;
    }
    large.remove_hashed(hash, text)
}

impl Collection for Set {
    fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Ints(ints) => ints.heap_bytes(),
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Large(large) => size_of::<Dense>() + large.heap_bytes(),
        }
    }

    fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        match &mut self.form {
            Form::Ints(small) => small.renew(renewal),
            Form::Packed(small) => small.renew(renewal),
            Form::Large(large) => return large.renew(from, most, renewal),
        }
        None
    }

    fn encoding(&self) -> &'static str {
        match &self.form {
            Form::Ints(_) => "intset",
            Form::Packed(_) => "listpack",
            Form::Large(_) => "hashtable",
        }
    }

    fn element_count(&self) -> u64 {
        self.view().len() as u64
    }

    fn digest(&self, now: UnixMs, digest: &mut Digest) {
        let mut scratch = IntText::new();
        for member in self.view().iter(now) {
            digest.add(StrRef::from(member).bytes(&mut scratch));
        }
    }

    fn duplicate(&self) -> Self {
        let form = match &self.form {
            Form::Ints(ints) => Form::Ints(ints.clone()),
            Form::Packed(packed) => Form::Packed(packed.clone()),
            Form::Large(large) => Form::Large(large.clone()),
        };
        Set { form }
    }

    fn next_deadline(&self) -> Option<UnixMs> {
        match &self.form {
            Form::Large(large) => large.next_deadline(),
            _ => None,
        }
    }

    fn expire(&mut self, now: UnixMs, limit: usize, gone: &mut dyn FnMut(&[u8])) -> usize {
        match &mut self.form {
            Form::Large(large) => large.expire(now, limit, &mut |entry| gone(entry.key)),
            _ => 0,
        }
    }
}
