//! What goes through the whole keyspace, or takes the place of all of it.
//!
//! | file | what |
//! |---|---|
//! | `walk` | SCAN, KEYS, RANDOMKEY, FLUSHALL, SWAPDB, reports |
//! | `renewal` | what lies in sparse pages is allocated anew |
//! | `beside` | data that is loaded beside what there is, and replaces it |
//!
//! Not here: the walks of a snapshot (`snapshot`), of expiry and of eviction (`lifetime`).

pub(crate) mod beside;
pub(crate) mod renewal;
pub(crate) mod walk;
