//! Operations on the whole keyspace.
//!
//! | file | what |
//! |---|---|
//! | `walk` | SCAN, KEYS, RANDOMKEY, FLUSHALL, SWAPDB, reports |
//! | `renewal` | active defragmentation |
//! | `beside` | data that is loaded beside the present data, and replaces it |
//!
//! Not here: the walks of a snapshot (`snapshot`), of expiry and of eviction (`lifetime`).

pub(crate) mod beside;
pub(crate) mod renewal;
pub(crate) mod walk;
