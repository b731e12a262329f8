//! The data types and their encodings.
//!
//! Strings live inside the record (crate `table`); everything larger is an [`Object`] that a record
//! points to. So far there is none: the collections arrive with their own files here, one a type,
//! and one variant each in `Object`.

#![forbid(unsafe_code)]

/// A value that a record points to. No variant yet: no such value can exist.
#[derive(Debug)]
pub enum Object {}

impl pantala_table::Object for Object {
    fn type_tag(&self) -> u8 {
        match *self {}
    }

    fn heap_bytes(&self) -> usize {
        match *self {}
    }
}

impl Object {
    /// The name of its encoding, as OBJECT ENCODING answers it.
    pub fn encoding(&self) -> &'static str {
        match *self {}
    }

    /// A copy that shares nothing with the original (COPY).
    pub fn duplicate(&self) -> Object {
        match *self {}
    }
}

/// The type of a value as TYPE and SCAN name it. The numbers are the tags in the table's words and
/// stay what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// A string, with all that is built on it (bitmaps, HyperLogLog).
    String = 0,
    /// A list.
    List = 1,
    /// A set.
    Set = 2,
    /// A sorted set.
    SortedSet = 3,
    /// A hash.
    Hash = 4,
    /// A stream.
    Stream = 6,
}

impl Type {
    const ALL: [Type; 6] =
        [Type::String, Type::List, Type::Set, Type::SortedSet, Type::Hash, Type::Stream];

    /// The type with this tag.
    pub fn from_tag(tag: u8) -> Option<Type> {
        Type::ALL.into_iter().find(|kind| *kind as u8 == tag)
    }

    /// The name that TYPE answers.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::SortedSet => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
        }
    }

    /// The type with this name, in any case.
    pub fn from_name(name: &[u8]) -> Option<Type> {
        Type::ALL.into_iter().find(|kind| kind.name().as_bytes().eq_ignore_ascii_case(name))
    }
}
