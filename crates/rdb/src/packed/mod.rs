//! Elements packed in one string, as small collections lie in files.
//!
//! | file | what |
//! |---|---|
//! | `listpack` | texts and numbers; what is written |
//! | `intset` | numbers, ascending |
//! | `ziplist` | what was before listpacks, only read |
//! | `doubles` | whether packed elements from elsewhere are all different |
//!
//! Not here: which type an element belongs to (`types`).

pub(crate) mod doubles;
pub(crate) mod intset;
pub(crate) mod listpack;
pub(crate) mod ziplist;
