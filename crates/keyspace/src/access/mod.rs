//! Access to keys: which partitions a command needs, how it gets them, and what it finds there.
//!
//! ```text
//! keys --plan--> partitions --held, locked--> Locked --opened--> one key
//!                    | busy: a ticket is left, or the thread waits
//! ```
//!
//! | file | what |
//! |---|---|
//! | `plan`, `lock` | the partitions of a command's keys, in lock order; taking all or none |
//! | `held`, `locked` | the partitions a command holds, and the ways to open a key in them |
//! | `opened` | one key: its value, and the ways to change it |
//! | `ticket`, `may_wait` | waiting for a partition or a key; which threads may wait |
//! | `token`, `reach`, `undoing` | commands that learn their keys while they run |
//! | `visit` | admitting other commands into a partition in the middle of a long one |
//!
//! Not here: the partition itself (`partition`); what a change publishes (`changes`).

pub(crate) mod held;
pub(crate) mod lock;
pub(crate) mod locked;
pub(crate) mod may_wait;
pub(crate) mod opened;
pub(crate) mod plan;
mod reach;
pub(crate) mod scope;
pub(crate) mod ticket;
pub(crate) mod token;
mod undoing;
pub(crate) mod visit;
