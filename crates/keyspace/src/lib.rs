//! The keyspace: 1,024 partitions, and the one way into them.
//!
//! ```text
//! key --hash--> partition (low 10 bits) --lock--> Db (one a logical database) --> Dash table
//! ```
//!
//! A command names its keys, [`LockPlan`] says which partitions these are, and [`Keyspace::lock`]
//! takes all of them or none. Everything inside is single-threaded code. Operations during which no
//! other thread may be inside (FLUSHALL, SWAPDB) close the gate ([`Keyspace::gate`]).
//!
//! Invariants
//! 1. In every database a key is only in the partition that its hash names (debug builds check that
//!    a key comes with its own hash).
//! 2. A command gets all its locks or none. Only the holder of the [`WaitToken`] waits for one
//!    partition while holding others: see `access/token`. No worker ever waits (checked in debug
//!    builds): see `access/may_wait`.
//! 3. A thread holds partitions for one command at a time (checked in debug builds): `access/held`.
//! 4. Every change of data is announced before it is made and published after: `changes/change`.
//!
//! Not here: commands, replies, connections; threads; the time of day, which is an argument
//! (waiting and the sweep measure durations with clocks of their own).
//! Tests: at the foot of each file, and `tests/` (the debug checks of 1 and 4: `funnel`; strict
//! serialisability is checked from outside, in compat).

#![forbid(unsafe_code)]

mod access;
mod changes;
mod key;
mod lifetime;
mod partition;
pub mod pins;
mod sizes;
pub mod snapshot;
mod space;
mod tally;
mod watch;
mod whole;

pub use access::lock::ALL_OR_NONE_TRIES;
pub use access::locked::{Locked, PREFETCHED};
pub use access::may_wait::{Aborted, LONG_WAIT, LongWaitObserver, PinWait, WaitTarget, WorkerMark};
pub use access::opened::{Expiry, OpenKey, SuspendedChange, WrongType};
pub use access::plan::{Busy, LockPlan};
pub use access::scope::Scope;
pub use access::ticket::{Inbox, ThreadWaker, Ticket, Waiter};
pub use access::token::WaitToken;
pub use access::visit::VisitFailure;
pub use changes::databases::Db;
pub use changes::effects::{
    ChangeSink, ClientId, Effect, Effects, EventMask, Readers, TrackedCounts,
};
pub use changes::event;
pub use changes::follow_ups::ReadyKey;
pub use changes::key_change::{ChangeAudience, ChangeObserver, KeyChange};
pub use changes::undo::UndoLimits;
pub use key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
pub use lifetime::evict::GarbageInTransit;
pub use lifetime::eviction_result::EvictionResult;
pub use lifetime::expiry::HideReason;
pub use lifetime::garbage::{Garbage, Reclaimer};
pub use lifetime::sweep::{Sweep, SweepResult, Sweeper};
pub use partition::{Partition, Waiters};
pub use sizes::DatabaseSizes;
pub use space::{Keyspace, KeyspaceConfig};
pub use tally::{Count, CountClass, Tally};
pub use watch::{Watch, WatchSet};
pub use whole::renewal::{RenewalResult, RenewalWalk};
pub use whole::walk::{ScanCursor, WalkedKey};

pub use pantala_table::{Choice, First};
