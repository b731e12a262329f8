//! The scalars of the format.
//!
//! | file | what |
//! |---|---|
//! | `length` | lengths and counts, and the encodings in their place |
//! | `text`, `lzf` | strings: plain, as numbers, compressed |
//! | `deadline` | deadlines of elements |
//!
//! Not here: several of them packed in one string (`packed`).

pub(crate) mod deadline;
pub(crate) mod length;
pub(crate) mod lzf;
pub(crate) mod text;
