//! The condition of the server: whether it loads, is paused, full or about to stop.
//!
//! ```text
//! lasting states --+
//! memory  full? ---+--> States of a turn --> rules (`states`): may this command run now?
//! pause   until? --+
//!
//! redirection  where a replica sends clients with CLIENT CAPA REDIRECT
//! eviction     makes room, so that memory is not full
//! shutdown     asked by loops: whether to go on at all
//! switches     asked by background work: whether DEBUG has stopped it
//! activity     wakes the watcher that sleeps while the server is idle
//! ```
//!
//! Invariants
//! 1. Every part is changed through `&self` by any thread and read without a lock. A turn reads
//!    them once, at its beginning, and keeps what it has read.
//! 2. Nothing here knows a key or a client; the caller that changes a part does what has to follow
//!    (unparking paused connections, hiding expired keys).
//!
//! Not here: which commands a state refuses (`states`). Tests: each part's own.

pub mod activity;
pub mod eviction;
pub mod memory;
pub mod on_the_way;
pub mod pause;
pub mod redirection;
pub mod shutdown;
pub mod states;
pub mod switches;

use activity::Activity;
use eviction::ExcessTime;
use memory::MemoryGuard;
use on_the_way::BytesInTransit;
use pause::{Pause, PauseScope};
use redirection::Redirection;
use shutdown::Shutdown;
use states::{LastingStates, States};
use switches::Switches;

/// The condition of the server: loading, paused, full, stopping. Read by every turn without a lock.
#[derive(Default)]
pub struct Condition {
    /// The states that begin and end explicitly.
    pub lasting: LastingStates,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// Memory use and its limits.
    pub memory: MemoryGuard,
    /// Bytes that clients are just being told.
    pub told: BytesInTransit,
    /// The times above the memory limit.
    pub exceeded: ExcessTime,
    /// Where a replica sends redirected clients.
    pub redirection: Redirection,
    /// Whether the server stops.
    pub shutdown: Shutdown,
    /// What DEBUG has switched off or on.
    pub switches: Switches,
    /// Whether the server has done anything lately.
    pub activity: Activity,
}

impl Condition {
    /// The states at the time `now_us` (monotonic, microseconds), with this memory limit, against
    /// which `not_counted` bytes do not count.
    #[inline]
    pub fn states(&self, most_bytes: u64, not_counted: impl Fn() -> u64, now_us: u64) -> States {
        let mut states = self.lasting.now();
        if !states.intersects(States::UNLIMITED) && self.memory.is_full(most_bytes, not_counted) {
            states = states.union(States::FULL);
        }
        match self.pause.state(now_us) {
            PauseScope::Nothing => states,
            PauseScope::Writes => states.union(States::PAUSED_WRITES),
            PauseScope::All => states.union(States::PAUSED_ALL),
        }
    }
}
