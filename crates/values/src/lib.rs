//! The data types and their encodings.
//!
//! Strings live inside the record (crate `table`), and so does an [`Object`], which owns what is
//! large. Each type has a directory: its encodings, the conditions of their changes, and its
//! operations as plain functions on bytes and numbers. A small collection of any type is one
//! [`packed::Packed`] buffer.
//!
//! Invariants
//! 1. No operation takes long because a structure grows or shrinks: a large structure changes a
//!    bounded part at a time.
//! 2. Content is the same before and after a change of encoding.
//! 3. The code that empties a collection removes it; none is stored empty (streams excepted).
//!
//! Not here: keys, locks, replies, the clock (`now` is an argument), settings (limits are
//! arguments). Tests: at the foot of each file, and models in `tests/`.

pub mod bits;
pub mod dense;
pub mod digest;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod list;
pub mod packed;
pub mod set;
pub mod sorted_set;
pub mod stream;

use pantala_base::UnixMs;
use pantala_table::Renewal;

use digest::Digest;
pub use hash::Hash;
pub use list::List;
pub use set::Set;
pub use sorted_set::SortedSet;
pub use stream::Stream;

/// All value types except the string, each once: its name here, its tag in the table's words (which
/// never changes), its name for TYPE, and that of its line in INFO's section `keysizes`. Everything
/// else that differs by type is a `match` without a wildcard, so the compiler leads to all places
/// that a new type needs.
macro_rules! collections {
    (($d:tt) $($(#[$doc:meta])+ $kind:ident = $tag:literal, $name:literal, $sizes:literal;)+) => {
        /// A collection that a record holds and that moves with the record. Small: each variant is
        /// at most a tag and a pointer.
        #[derive(Debug)]
        pub enum Object {
            $($(#[$doc])+ $kind($kind),)+
        }

        /// The type of a value as TYPE and SCAN name it. The numbers are the tags in the table's
        /// words and never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Type {
            /// A string, with everything that is built on it (bitmaps, HyperLogLog).
            String = 0,
            $($(#[$doc])+ $kind = $tag,)+
        }

        impl Type {
            /// All types.
            pub const ALL: &[Type] = &[Type::String, $(Type::$kind),+];

            /// The name that TYPE answers.
            pub fn name(self) -> &'static str {
                match self {
                    Type::String => "string",
                    $(Type::$kind => $name,)+
                }
            }

            /// The name of its line in INFO's section `keysizes`.
            pub fn sizes_name(self) -> &'static str {
                match self {
                    Type::String => "strings_sizes",
                    $(Type::$kind => $sizes,)+
                }
            }
        }

        impl Object {
            /// The object's type.
            pub fn kind(&self) -> Type {
                match self {
                    $(Object::$kind(_) => Type::$kind,)+
                }
            }
        }

        $(
            impl Variant for $kind {
                const TYPE: Type = Type::$kind;

                #[inline]
                fn of(object: &Object) -> Option<&Self> {
                    if let Object::$kind(this) = object { Some(this) } else { None }
                }

                #[inline]
                fn of_mut(object: &mut Object) -> Option<&mut Self> {
                    if let Object::$kind(this) = object { Some(this) } else { None }
                }

                #[inline]
                fn into_object(self) -> Object {
                    Object::$kind(self)
                }
            }
        )+

        /// Matches on the type of an object and evaluates one expression for whichever it is.
        macro_rules! each {
            ($d object:expr, $d one:ident => $d result:expr) => {
                match $d object {
                    $(Object::$kind($d one) => $d result,)+
                }
            };
        }
    };
}

collections! { ($)
    /// A list.
    List = 1, "list", "lists_items";
    /// A set.
    Set = 2, "set", "sets_items";
    /// A sorted set.
    SortedSet = 3, "zset", "zsets_items";
    /// A hash.
    Hash = 4, "hash", "hashes_items";
    /// A stream.
    Stream = 6, "stream", "streams_items";
}

/// A collection type, one of the variants of [`Object`].
pub trait Variant: Sized {
    /// The type.
    const TYPE: Type;

    /// The collection inside an object, if it has this type.
    fn of(object: &Object) -> Option<&Self>;

    /// Mutable access to the collection inside an object, if it has this type.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;

    /// Wraps the collection as an object.
    fn into_object(self) -> Object;
}

/// What every collection can be asked without knowing its type.
pub trait Collection: Variant + Default {
    /// Whether it must be removed: it has no element. Always false for a stream.
    fn is_empty(&self) -> bool;

    /// Allocated bytes that it owns, without its own size. Quick: a maintained sum, or a good
    /// estimate from counts.
    fn heap_bytes(&self) -> usize;

    /// The name of its encoding for OBJECT ENCODING.
    fn encoding(&self) -> &'static str;

    /// How many elements it has: entries of a stream, fields of a hash.
    fn element_count(&self) -> u64;

    /// Adds its content to a digest (DEBUG DIGEST), without what has expired.
    fn digest(&self, now: UnixMs, digest: &mut Digest);

    /// A copy that shares nothing with the original (COPY).
    fn duplicate(&self) -> Self;

    /// Reallocates parts that lie in sparse pages: see [`pantala_table::Object::renew`].
    fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize>;

    /// No element expires before this time; `None` when none has a deadline. Quick. May be too
    /// early (after that element was removed), never too late.
    fn next_deadline(&self) -> Option<UnixMs>;

    /// Removes expired elements, about `limit` at most, and passes each to `gone` first; returns
    /// how many. All that are due are removed when [`Collection::next_deadline`] is not before
    /// `now` afterwards.
    fn expire(&mut self, _now: UnixMs, _limit: usize, _gone: &mut dyn FnMut(&[u8])) -> usize {
        0
    }
}

impl pantala_table::Object for Object {
    fn type_tag(&self) -> u8 {
        self.kind() as u8
    }

    fn heap_bytes(&self) -> usize {
        each!(self, one => one.heap_bytes())
    }

    fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        each!(self, one => Collection::renew(one, from, most, renewal))
    }
}

impl Object {
    /// The name of its encoding for OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        each!(self, one => one.encoding())
    }

    /// A copy that shares nothing with the original (COPY).
    pub fn duplicate(&self) -> Object {
        each!(self, one => one.duplicate().into_object())
    }

    /// How many elements it has: entries of a stream, fields of a hash.
    pub fn element_count(&self) -> u64 {
        each!(self, one => one.element_count())
    }

    /// Adds its content to a digest, see [`Collection::digest`].
    pub fn digest(&self, now: UnixMs, digest: &mut Digest) {
        each!(self, one => Collection::digest(one, now, digest));
    }

    /// Whether the object must be removed, see [`Collection::is_empty`].
    pub fn is_empty(&self) -> bool {
        // Not the methods of the types: a stream without entries is empty, but stays.
        each!(self, one => Collection::is_empty(one))
    }

    /// Removes elements that have expired, see [`Collection::expire`].
    pub fn expire(&mut self, now: UnixMs, limit: usize, gone: &mut dyn FnMut(&[u8])) -> usize {
        each!(self, one => one.expire(now, limit, gone))
    }

    /// The earliest deadline of an element, see [`Collection::next_deadline`].
    pub fn next_deadline(&self) -> Option<UnixMs> {
        each!(self, one => one.next_deadline())
    }
}

impl Type {
    /// The type with this tag.
    pub fn from_tag(tag: u8) -> Option<Type> {
        Type::ALL.iter().copied().find(|kind| *kind as u8 == tag)
    }

    /// The type with this name, case-insensitively.
    pub fn from_name(name: &[u8]) -> Option<Type> {
        Type::ALL.iter().copied().find(|kind| kind.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use pantala_table::Object as _;

    use super::*;

    #[test]
    fn tags_and_names_stay() {
        let all = [(0, "string"), (1, "list"), (2, "set"), (3, "zset"), (4, "hash"), (6, "stream")];
        for (tag, name) in all {
            let kind = Type::from_tag(tag).expect("there is such a type");
            assert_eq!((kind.name(), Type::from_name(name.as_bytes())), (name, Some(kind)));
        }
        assert_eq!(Type::ALL.len(), all.len());
        assert_eq!((Type::from_tag(5), Type::from_name(b"json")), (None, None));
        assert_eq!(Type::from_name(b"ZSet"), Some(Type::SortedSet));
    }

    /// What is made an object is found again as what it is, and as nothing else.
    #[test]
    fn each_is_what_it_is() {
        fn check<C: Collection>() {
            let mut object = C::default().into_object();
            assert_eq!((object.kind(), object.type_tag()), (C::TYPE, C::TYPE as u8));
            assert!(C::of(&object).is_some() && C::of_mut(&mut object).is_some());
            let found = [
                List::of(&object).is_some(),
                Set::of(&object).is_some(),
                SortedSet::of(&object).is_some(),
                Hash::of(&object).is_some(),
                Stream::of(&object).is_some(),
            ];
            assert_eq!(found.iter().filter(|found| **found).count(), 1);
        }
        check::<List>();
        check::<Set>();
        check::<SortedSet>();
        check::<Hash>();
        check::<Stream>();
    }
}
