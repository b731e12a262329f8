//! The way to a key: which partitions a command needs, who takes them, and what it finds there.
//!
//! ```text
//! keys --plan--> partitions --held, locked--> Locked --opened--> one key
//!                    | busy: a ticket is left, or the thread waits
//! ```
//!
//! | file | what |
//! |---|---|
//! | `plan` | the partitions of a command's keys, in their order |
//! | `held`, `locked` | partitions in a command's hands, and the ways to open a key in them |
//! | `opened` | one key: its value as it is, and the ways to change it |
//! | `ticket`, `may_wait` | who waits for a partition or a key; which threads may |
//! | `token` | a command that learns its keys while it runs |
//! | `visit` | others in a partition in the midst of one command |
//!
//! Not here: the partition itself (`partition`); what a change has to tell (`changes`).

pub(crate) mod held;
pub(crate) mod locked;
pub(crate) mod may_wait;
pub(crate) mod opened;
pub(crate) mod plan;
pub(crate) mod ticket;
pub(crate) mod token;
pub(crate) mod visit;
