//! Records: what the words of the index point to, and values that leave the table.
//!
//! | file | what |
//! |---|---|
//! | `record` | one allocation with a key and, for a short string, its value |
//! | `text`, `number` | a string in it; integers as text |
//! | `tail` | memcached's flags and cas number, beside a string |
//! | `owned` | whole records and values that belong to the caller |
//!
//! Not here: where a record is found (`table`, `segment`, `word`).

pub(crate) mod number;
pub(crate) mod owned;
pub(crate) mod record;
pub(crate) mod tail;
pub(crate) mod text;
