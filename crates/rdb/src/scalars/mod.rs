//! The single things of which all else is made.
//!
//! | file | what |
//! |---|---|
//! | `length` | lengths and counts, and the marks in their place |
//! | `text`, `lzf` | strings: as they are, as numbers, compressed |
//! | `deadline` | the time of an element |
//!
//! Not here: several of them packed in one string (`packed`).

pub(crate) mod deadline;
pub(crate) mod length;
pub(crate) mod lzf;
pub(crate) mod text;
