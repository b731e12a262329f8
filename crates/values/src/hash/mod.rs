//! Hashes: fields, each with a value and an optional deadline.
//!
//! ```text
//! Hash -- Packed: field, value, field, value ...        small, no deadlines     "listpack"
//!      -- Large:  a dense table                          the rest                "hashtable"
//! ```
//!
//! A packed hash becomes large when an insert passes a limit or a field gets a deadline; it never
//! goes back. A [`Hash`] is changed, a [`HashRef`], which is small and copied, is read: later a
//! small hash may lie elsewhere.
//!
//! Invariants
//! 1. A field occurs once in a hash.
//! 2. A field has expired the millisecond after its deadline: readers pass `now` and never see an
//!    expired field. Only [`HashRef::len`] counts those that were not removed yet.
//! 3. Packed hashes have no deadlines.
//!
//! Not here: commands, events, and when expired fields are removed (by the keyspace's sweep, and by
//! commands that change a hash). Tests: at the foot of `view`, and tests/hash.rs, a model.

mod view;

use crate::Collection;
use crate::dense::{self, Dense, Values};
use crate::digest::Digest;
use crate::packed::{self, Element, Encoded, Packed};
use pantala_base::UnixMs;
use pantala_table::Renewal;

pub use view::{Field, HashRef, Sample};

/// The limits of a packed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashLimits {
    /// The most fields.
    pub entries: usize,
    /// The longest field or value, in bytes.
    pub value_bytes: usize,
}

/// What setting a value does to the field's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Removes the deadline.
    Forever,
    /// Keeps the deadline.
    Keep,
    /// Sets this deadline.
    Until(UnixMs),
}

/// The state of a field before it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldBefore {
    /// It did not exist.
    Missing,
    /// It had a value.
    Present,
    /// It had a value that had expired.
    Expired,
}

/// A hash, packed or large.
#[derive(Debug)]
pub struct Hash {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Packed(Packed),
    Large(Box<Dense>),
}

impl Default for Hash {
    fn default() -> Hash {
        Hash { form: Form::Packed(Packed::new()) }
    }
}

impl Hash {
    /// A packed hash from alternating fields and values without duplicates, as a snapshot has it.
    pub fn of_packed(pairs: Packed) -> Hash {
        debug_assert!(pairs.len().is_multiple_of(2), "a field without a value");
        Hash { form: Form::Packed(pairs) }
    }

    /// Read access.
    #[inline]
    pub fn view(&self) -> HashRef<'_> {
        match &self.form {
            Form::Packed(packed) => HashRef::Packed(packed.view()),
            Form::Large(large) => HashRef::Large(large),
        }
    }

    /// Announces that up to `fields` fields will be set, whose longest text has `longest` bytes: a
    /// hash that would not stay packed becomes large at once.
    #[inline]
    pub fn expect(&mut self, fields: usize, longest: usize, limits: HashLimits) {
        if fields > limits.entries || longest > limits.value_bytes {
            self.grow();
        }
    }

    /// Sets a field.
    pub fn set(
        &mut self,
        field: &[u8],
        value: &[u8],
        lifetime: Lifetime,
        limits: HashLimits,
        now: UnixMs,
    ) -> FieldBefore {
        if let Form::Packed(packed) = &mut self.form {
            let fits = !matches!(lifetime, Lifetime::Until(_))
                && field.len().max(value.len()) <= limits.value_bytes
                && packed.entry_bytes() + field.len() + value.len() < packed::MAX_BYTES / 2;
            if fits {
                let before = set_packed(packed, field, value);
                if packed.len() / 2 > limits.entries {
                    self.grow();
                }
                return before;
            }
        }
        set_large(self.grow(), field, value, lifetime, now)
    }

    /// Removes a field; returns whether it existed. An expired field is left to
    /// [`Collection::expire`].
    pub fn remove(&mut self, field: &[u8], now: UnixMs) -> bool {
        match &mut self.form {
            Form::Packed(packed) => {
                let found = packed.view().find(field, 2, 0);
                if let Some(at) = found {
                    packed.remove(at, 2);
                }
                found.is_some()
            }
            Form::Large(large) => {
                let hash = dense::hash(field);
                if large.next_deadline().is_some()
                    && large.get_hashed(hash, field).is_some_and(|found| found.is_gone(now))
                {
                    return false;
                }
                large.remove_hashed(hash, field)
            }
        }
    }

    /// Sets or removes the deadline of an existing field.
    pub fn set_deadline(&mut self, field: &[u8], deadline: Option<UnixMs>) {
        match (&self.form, deadline) {
            (Form::Packed(_), None) => {}
            _ => {
                self.grow().set_deadline(field, deadline);
            }
        }
    }

    /// Converts the hash to the large form if needed.
    fn grow(&mut self) -> &mut Dense {
        if let Form::Packed(packed) = &self.form {
            let mut large = Dense::new(Values::Any);
            HashRef::Packed(packed.view()).for_each(UnixMs(0), |field, value| {
                let (mut name, mut text) = Default::default();
                let field = field.bytes(&mut name);
                large.insert_missing(dense::hash(field), field, value.bytes(&mut text));
            });
            self.form = Form::Large(Box::new(large));
        }
        match &mut self.form {
            Form::Large(large) => large,
            Form::Packed(_) => unreachable!("it was made large just now"),
        }
    }
}

fn set_packed(packed: &mut Packed, field: &[u8], value: &[u8]) -> FieldBefore {
    let mut encoded = Encoded::new();
    packed::entry::encode(Element::of(field), &mut encoded);
    let view = packed.view();
    if let Some(at) = view.find_encoded(&encoded, 2, 0) {
        packed.replace(view.next(at), Element::of(value));
        return FieldBefore::Present;
    }
    packed::entry::encode(Element::of(value), &mut encoded);
    packed.splice(packed.entry_bytes(), 0, &encoded, 2);
    FieldBefore::Missing
}

fn set_large(
    large: &mut Dense,
    field: &[u8],
    value: &[u8],
    lifetime: Lifetime,
    now: UnixMs,
) -> FieldBefore {
    let mut before = FieldBefore::Missing;
    large.set_hashed(dense::hash(field), field, value, |old| {
        before = match old {
            None => FieldBefore::Missing,
            Some(old) if old.is_gone(now) => FieldBefore::Expired,
            Some(_) => FieldBefore::Present,
        };
        match lifetime {
            Lifetime::Until(deadline) => Some(deadline),
            Lifetime::Keep if before == FieldBefore::Present => old.and_then(|old| old.deadline),
            Lifetime::Keep | Lifetime::Forever => None,
        }
    });
    before
}

impl Collection for Hash {
    fn is_empty(&self) -> bool {
        self.view().len() == 0
    }

    fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Large(large) => size_of::<Dense>() + large.heap_bytes(),
        }
    }

    fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        match &mut self.form {
            Form::Packed(small) => small.renew(renewal),
            Form::Large(large) => return large.renew(from, most, renewal),
        }
        None
    }

    fn encoding(&self) -> &'static str {
        match &self.form {
            Form::Packed(_) => "listpack",
            Form::Large(_) => "hashtable",
        }
    }

    fn element_count(&self) -> u64 {
        self.view().len() as u64
    }

    fn digest(&self, now: UnixMs, digest: &mut Digest) {
        self.view().for_each(now, |field, value| digest.add_pair(field, value));
    }

    fn duplicate(&self) -> Self {
        let form = match &self.form {
            Form::Packed(packed) => Form::Packed(packed.clone()),
            Form::Large(large) => Form::Large(large.clone()),
        };
        Hash { form }
    }

    fn next_deadline(&self) -> Option<UnixMs> {
        match &self.form {
            Form::Packed(_) => None,
            Form::Large(large) => large.next_deadline(),
        }
    }

    fn expire(&mut self, now: UnixMs, limit: usize, gone: &mut dyn FnMut(&[u8])) -> usize {
        match &mut self.form {
            Form::Packed(_) => 0,
            Form::Large(large) => large.expire(now, limit, &mut |entry| gone(entry.key)),
        }
    }
}
