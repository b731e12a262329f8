//! States of the server in which it refuses some commands: one list, in the order of checking.
//!
//! A turn has all of them in one word ([`States`]), so on a server that refuses nothing the check
//! costs a command one comparison.
//!
//! Invariants
//! 1. Each rule selects commands by the flags of their rows; no name is compared.
//! 2. Whether memory is full, and what CLIENT PAUSE holds back, is determined at the beginning of a
//!    turn, in `Engine::states`. Memory is checked again before each further window
//!    (`Turn::look_at_memory`).
//!
//! Tests: at the foot; compat/transcripts (maxmemory, client/pause).

use std::sync::atomic::{AtomicU32, Ordering};

use bitflags::bitflags;
use pantala_commands::{ClientError, Flags, error};

bitflags! {
    /// A set of states.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct States: u32 {
        /// None: nothing is refused.
        const NONE = 0;
        /// Memory is full (`maxmemory`, or the cgroup's limit).
        const FULL = 1 << 0;
        /// Acknowledged writes could not be kept: the journal has failed.
        const UNKEPT = 1 << 1;
        /// Too few replicas follow (`min-replicas-to-write`).
        const TOO_FEW_REPLICAS = 1 << 2;
        /// The server is a read-only replica (`replica-read-only`).
        const READ_ONLY = 1 << 3;
        /// The server is a replica that has lost its primary (`replica-serve-stale-data no`).
        const STALE = 1 << 4;
        /// Data is being loaded.
        const LOADING = 1 << 5;
        /// CLIENT PAUSE WRITE.
        const PAUSED_WRITES = 1 << 6;
        /// CLIENT PAUSE.
        const PAUSED_ALL = 1 << 7;
        /// The last snapshot could not be saved (`stop-writes-on-bgsave-error`).
        const UNSAVED = 1 << 8;
        /// The append-only file could not be written.
        const UNWRITTEN = 1 << 9;
        /// So much waits to be written to the append-only file that writes have to wait.
        const JOURNAL_FULL = 1 << 10;
        /// The server is a replica whose primary cares for memory (`replica-ignore-maxmemory`).
        const UNLIMITED = 1 << 11;
        /// Data is being loaded beside the present data, which it will replace.
        const LOADING_BESIDE = 1 << 12;
        /// A replica that is no Pantala follows (`repl-refuse-unknown`).
        const OTHERS_FOLLOW = 1 << 13;
        /// A replica that is neither Pantala nor Valkey follows (`repl-refuse-unknown`).
        const OLD_FOLLOW = 1 << 14;
    }
}

impl States {
    /// Why a command with these flags is refused, if it is.
    #[cold]
    pub fn refusal(self, concerns: RefusalScope) -> Option<&'static RefusalAnswer> {
        let rules = RULES.iter().filter(|rule| self.intersects(rule.state));
        rules.map(|rule| (rule, rule.whom)).find_map(|(rule, whom)| {
            let is_meant = match whom {
                FlagFilter::With(flags) => concerns.some.intersects(flags),
                FlagFilter::Without(flags) => !concerns.all.intersects(flags),
            };
            is_meant.then_some(&rule.answer)
        })
    }
}

/// The flags of a command, or those of a transaction's commands together.
#[derive(Clone, Copy)]
pub struct RefusalScope {
    /// The flags that at least one of them has.
    pub some: Flags,
    /// The flags that all of them have.
    pub all: Flags,
}

impl RefusalScope {
    /// One command with these flags.
    #[inline]
    pub const fn one(flags: Flags) -> Self {
        RefusalScope { some: flags, all: flags }
    }
}

/// The answer to a refused command.
pub enum RefusalAnswer {
    /// An error.
    Error(ClientError),
    /// None yet: it waits until the state ends.
    Wait,
}

/// Selects commands that have one of these flags, or none of them.
#[derive(Clone, Copy)]
enum FlagFilter {
    With(Flags),
    Without(Flags),
}

struct Rule {
    state: States,
    whom: FlagFilter,
    answer: RefusalAnswer,
}

/// The states of CLIENT PAUSE.
pub const PAUSED: States = States::PAUSED_WRITES.union(States::PAUSED_ALL);

const CHANGES: Flags = Flags::WRITE.union(Flags::MAY_REPLICATE);

const RULES: &[Rule] = &[
    Rule {
        state: States::FULL,
        whom: FlagFilter::With(Flags::DENYOOM),
        answer: RefusalAnswer::Error(error::OUT_OF_MEMORY),
    },
    Rule {
        state: States::UNKEPT,
        whom: FlagFilter::With(Flags::WRITE),
        answer: RefusalAnswer::Error(error::NOT_KEPT),
    },
    Rule {
        state: States::UNSAVED,
        whom: FlagFilter::With(Flags::WRITE),
        answer: RefusalAnswer::Error(error::NOT_KEPT),
    },
    Rule {
        state: States::UNWRITTEN,
        whom: FlagFilter::With(Flags::WRITE),
        answer: RefusalAnswer::Error(error::NOT_WRITTEN),
    },
    Rule {
        state: States::TOO_FEW_REPLICAS,
        whom: FlagFilter::With(Flags::WRITE),
        answer: RefusalAnswer::Error(error::TOO_FEW_REPLICAS),
    },
    Rule {
        state: States::OTHERS_FOLLOW,
        whom: FlagFilter::With(Flags::ONLY_OURS),
        answer: RefusalAnswer::Error(error::UNKNOWN_TO_REPLICA),
    },
    Rule {
        state: States::OLD_FOLLOW,
        whom: FlagFilter::With(Flags::NEWER),
        answer: RefusalAnswer::Error(error::UNKNOWN_TO_REPLICA),
    },
    Rule {
        state: States::READ_ONLY,
        whom: FlagFilter::With(Flags::WRITE),
        answer: RefusalAnswer::Error(error::READ_ONLY_REPLICA),
    },
    Rule {
        state: States::STALE,
        whom: FlagFilter::Without(Flags::STALE),
        answer: RefusalAnswer::Error(error::PRIMARY_LOST),
    },
    Rule {
        state: States::LOADING,
        whom: FlagFilter::Without(Flags::LOADING),
        answer: RefusalAnswer::Error(error::LOADING),
    },
    Rule {
        state: States::LOADING_BESIDE,
        whom: FlagFilter::With(Flags::NO_ASYNC_LOADING),
        answer: RefusalAnswer::Error(error::LOADING),
    },
    Rule {
        state: States::JOURNAL_FULL,
        whom: FlagFilter::With(CHANGES),
        answer: RefusalAnswer::Wait,
    },
    Rule {
        state: States::PAUSED_WRITES,
        whom: FlagFilter::With(CHANGES),
        answer: RefusalAnswer::Wait,
    },
    Rule {
        state: States::PAUSED_ALL,
        whom: FlagFilter::Without(Flags::ADMIN.union(Flags::ALLOW_BUSY)),
        answer: RefusalAnswer::Wait,
    },
];

/// The states that begin and end explicitly; those of memory and CLIENT PAUSE are computed.
#[derive(Default)]
pub struct LastingStates(AtomicU32);

impl LastingStates {
    /// Enters a state. A turn under way is not affected.
    pub fn begin(&self, state: States) {
        self.0.fetch_or(state.bits(), Ordering::AcqRel);
    }

    /// Leaves a state.
    pub fn end(&self, state: States) {
        self.0.fetch_and(!state.bits(), Ordering::AcqRel);
    }

    /// The states in force.
    #[inline]
    pub fn now(&self) -> States {
        States::from_bits_retain(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(states: States, flags: Flags, expected: &str) {
        let told = match states.refusal(RefusalScope::one(flags)) {
            None => "runs",
            Some(RefusalAnswer::Wait) => "waits",
            Some(RefusalAnswer::Error(error)) => error.code(),
        };
        assert_eq!(told, expected, "{states:?} {flags:?}");
    }

    #[test]
    fn each_state_concerns_whom_it_should() {
        let get = Flags::READONLY.union(Flags::FAST);
        let set = Flags::WRITE.union(Flags::DENYOOM);
        let delete = Flags::WRITE;
        let info = Flags::LOADING.union(Flags::STALE);
        let config = info.union(Flags::ADMIN);
        for (states, expected) in [
            (States::NONE, ["runs"; 5]),
            (States::FULL, ["runs", "OOM", "runs", "runs", "runs"]),
            (States::UNKEPT, ["runs", "MISCONF", "MISCONF", "runs", "runs"]),
            (States::UNSAVED, ["runs", "MISCONF", "MISCONF", "runs", "runs"]),
            (States::UNWRITTEN, ["runs", "MISCONF", "MISCONF", "runs", "runs"]),
            (States::JOURNAL_FULL, ["runs", "waits", "waits", "runs", "runs"]),
            (States::TOO_FEW_REPLICAS, ["runs", "NOREPLICAS", "NOREPLICAS", "runs", "runs"]),
            (States::READ_ONLY, ["runs", "READONLY", "READONLY", "runs", "runs"]),
            (States::STALE, ["MASTERDOWN", "MASTERDOWN", "MASTERDOWN", "runs", "runs"]),
            (States::LOADING, ["LOADING", "LOADING", "LOADING", "runs", "runs"]),
            (States::LOADING_BESIDE, ["runs"; 5]),
            (States::PAUSED_WRITES, ["runs", "waits", "waits", "runs", "runs"]),
            (States::PAUSED_ALL, ["waits", "waits", "waits", "waits", "runs"]),
        ] {
            for (flags, expected) in [get, set, delete, info, config].into_iter().zip(expected) {
                check(states, flags, expected);
            }
        }
        let replicaof = Flags::ADMIN.union(Flags::STALE).union(Flags::NO_ASYNC_LOADING);
        check(States::LOADING_BESIDE, replicaof, "LOADING");
    }

    #[test]
    fn the_first_rule_of_the_list_answers() {
        let all = States::FULL.union(States::READ_ONLY).union(States::LOADING);
        check(all, Flags::WRITE.union(Flags::DENYOOM), "OOM");
        check(all, Flags::WRITE, "READONLY");
        check(all.difference(States::READ_ONLY), Flags::WRITE, "LOADING");
    }

    #[test]
    fn a_transaction_is_judged_by_all_its_commands() {
        let mixed = RefusalScope { some: Flags::WRITE.union(Flags::LOADING), all: Flags::NONE };
        assert!(States::READ_ONLY.refusal(mixed).is_some());
        assert!(States::LOADING.refusal(mixed).is_some(), "one of them may not run while loading");
    }

    #[test]
    fn states_begin_and_end() {
        let lasting = LastingStates::default();
        lasting.begin(States::LOADING.union(States::READ_ONLY));
        lasting.end(States::LOADING);
        assert_eq!(lasting.now(), States::READ_ONLY);
    }
}
