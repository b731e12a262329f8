//! Elements packed in one string, the form of small collections in files.
//!
//! | file | what |
//! |---|---|
//! | `listpack` | texts and numbers; read and written |
//! | `intset` | numbers, ascending |
//! | `ziplist` | the forms before listpacks, only read |
//! | `doubles` | checks that packed elements are distinct |
//!
//! Not here: the type that an element belongs to (`types`).

pub(crate) mod doubles;
pub(crate) mod intset;
pub(crate) mod listpack;
pub(crate) mod ziplist;
