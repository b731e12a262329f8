//! Commands of Memcached's protocols: rows like all others, which RESP does not find by name.

mod refusal;
pub mod words;

pub use refusal::push_refusal;
