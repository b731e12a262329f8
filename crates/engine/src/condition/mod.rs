//! In which condition the server is: whether it loads, is paused, full or about to stop.
//!
//! ```text
//! lasting states --+
//! memory  full? ---+--> States of a turn --> rules (`states`): may this command run now?
//! pause   until? --+
//!
//! redirection  asked for the few who follow: where a replica sends them
//! eviction   makes room, so that memory is not full
//! shutdown   asked by loops: whether to go on at all
//! switches   asked by what works unasked: whether DEBUG has told it to rest
//! ```
//!
//! Invariants
//! 1. Every part is changed through `&self` by any thread and read without a lock. A turn looks
//!    once, at its beginning, and ends as it began.
//! 2. Nothing here knows a key or a client; what has to happen when a part changes (the paused are
//!    woken, expired keys hidden) is done by who changes it.
//!
//! Not here: what a state refuses to whom (`states`). Tests: each part's own.

pub mod eviction;
pub mod memory;
pub mod on_the_way;
pub mod pause;
pub mod redirection;
pub mod shutdown;
pub mod states;
pub mod switches;

use eviction::Exceeded;
use memory::MemoryGuard;
use on_the_way::OnTheWay;
use pause::{Pause, Paused};
use redirection::Redirection;
use shutdown::Shutdown;
use states::{LastingStates, States};
use switches::Switches;

/// The condition of the server: loading, paused, full, stopping. Read by every turn without a lock.
#[derive(Default)]
pub struct Condition {
    /// States that begin and end by themselves.
    pub lasting: LastingStates,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// How much memory is used, and how much may be.
    pub memory: MemoryGuard,
    /// Of that, what clients are just being told.
    pub told: OnTheWay,
    /// For how long it was more.
    pub exceeded: Exceeded,
    /// Where clients of a replica are sent.
    pub redirection: Redirection,
    /// Whether the server stops.
    pub shutdown: Shutdown,
    /// What DEBUG has turned off or on.
    pub switches: Switches,
}

impl Condition {
    /// The states of this moment (monotonic, microseconds), with this limit of memory, for which
    /// so much does not count.
    #[inline]
    pub fn states(&self, most_bytes: u64, not_counted: impl Fn() -> u64, now_us: u64) -> States {
        let mut states = self.lasting.now();
        if !states.has(States::UNLIMITED) && self.memory.is_full(most_bytes, not_counted) {
            states = states.and(States::FULL);
        }
        match self.pause.state(now_us) {
            Paused::Nothing => states,
            Paused::Writes => states.and(States::PAUSED_WRITES),
            Paused::All => states.and(States::PAUSED_ALL),
        }
    }
}
