//! States of the server in which it refuses some commands: one list, in the order in which they are
//! looked at.
//!
//! A turn has all of them in one word ([`States`]), so that a command on a server that refuses
//! nothing costs one comparison.
//!
//! Invariants
//! 1. Each rule says by flags of the command's row whom it concerns; no name is compared.
//! 2. Whether memory is full, and what CLIENT PAUSE holds back, is asked once a turn, in
//!    `Engine::states`.
//!
//! Tests: at the foot; compat/transcripts (maxmemory, client/pause).

use std::sync::atomic::{AtomicU32, Ordering};

use pantala_commands::{ClientError, Flags, error};

/// Some of the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States(u32);

impl States {
    /// None: nothing is refused.
    pub const NONE: States = States(0);
    /// Memory is full (`maxmemory`, or what the control group has).
    pub const FULL: States = States(1 << 0);
    /// What was acknowledged could not be kept: the journal failed.
    pub const UNKEPT: States = States(1 << 1);
    /// Too few replicas follow (`min-replicas-to-write`).
    pub const TOO_FEW_REPLICAS: States = States(1 << 2);
    /// It follows a primary (`replica-read-only`).
    pub const READ_ONLY: States = States(1 << 3);
    /// It follows a primary that it has lost (`replica-serve-stale-data no`).
    pub const STALE: States = States(1 << 4);
    /// Data is being loaded.
    pub const LOADING: States = States(1 << 5);
    /// CLIENT PAUSE WRITE.
    pub const PAUSED_WRITES: States = States(1 << 6);
    /// CLIENT PAUSE.
    pub const PAUSED_ALL: States = States(1 << 7);
    /// The last snapshot could not be saved (`stop-writes-on-bgsave-error`).
    pub const UNSAVED: States = States(1 << 8);
    /// The append-only file could not be written.
    pub const UNWRITTEN: States = States(1 << 9);
    /// So much is to be written to the append-only file that writes wait for it.
    pub const JOURNAL_FULL: States = States(1 << 10);
    /// It follows a primary, which sees to it that data has room (`replica-ignore-maxmemory`).
    pub const UNLIMITED: States = States(1 << 11);
    /// Data is being loaded beside what there is, which it replaces at once.
    pub const LOADING_BESIDE: States = States(1 << 12);
    /// A replica follows that is no Pantala (`repl-refuse-unknown`).
    pub const OTHERS_FOLLOW: States = States(1 << 13);
    /// A replica follows that is neither a Pantala nor a Valkey (the same).
    pub const OLD_FOLLOW: States = States(1 << 14);

    /// Those of either.
    pub const fn and(self, more: States) -> States {
        States(self.0 | more.0)
    }

    /// Those that are not among `others`.
    pub const fn without(self, others: States) -> States {
        States(self.0 & !others.0)
    }

    /// Whether any of `states` is among them.
    pub const fn has(self, states: States) -> bool {
        self.0 & states.0 != 0
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Why a command is refused, by what its row says, or for a transaction all rows together.
    #[cold]
    pub fn refusal(self, concerns: Concerned) -> Option<&'static Answer> {
        let rules = RULES.iter().filter(|rule| self.has(rule.state));
        rules.map(|rule| (rule, rule.whom)).find_map(|(rule, whom)| {
            let is_meant = match whom {
                Whom::With(flags) => concerns.some.has(flags),
                Whom::Without(flags) => !concerns.all.has(flags),
            };
            is_meant.then_some(&rule.answer)
        })
    }
}

/// Whom a refusal concerns: one command, or those of a transaction together.
#[derive(Clone, Copy)]
pub struct Concerned {
    /// What one of them has at least.
    pub some: Flags,
    /// What all of them have.
    pub all: Flags,
}

impl Concerned {
    /// One command.
    #[inline]
    pub const fn one(flags: Flags) -> Self {
        Concerned { some: flags, all: flags }
    }
}

/// What a refused command is told.
pub enum Answer {
    /// An error.
    Error(ClientError),
    /// It waits until the state is over.
    Wait,
}

/// Commands with one of these flags, or without any of them.
#[derive(Clone, Copy)]
enum Whom {
    With(Flags),
    Without(Flags),
}

struct Rule {
    state: States,
    whom: Whom,
    answer: Answer,
}

/// What CLIENT PAUSE holds back.
pub const PAUSED: States = States::PAUSED_WRITES.and(States::PAUSED_ALL);

const CHANGES: Flags = Flags::WRITE.and(Flags::MAY_REPLICATE);

const RULES: &[Rule] = &[
    Rule {
        state: States::FULL,
        whom: Whom::With(Flags::DENYOOM),
        answer: Answer::Error(error::OUT_OF_MEMORY),
    },
    Rule {
        state: States::UNKEPT,
        whom: Whom::With(Flags::WRITE),
        answer: Answer::Error(error::NOT_KEPT),
    },
    Rule {
        state: States::UNSAVED,
        whom: Whom::With(Flags::WRITE),
        answer: Answer::Error(error::NOT_KEPT),
    },
    Rule {
        state: States::UNWRITTEN,
        whom: Whom::With(Flags::WRITE),
        answer: Answer::Error(error::NOT_WRITTEN),
    },
    Rule {
        state: States::TOO_FEW_REPLICAS,
        whom: Whom::With(Flags::WRITE),
        answer: Answer::Error(error::TOO_FEW_REPLICAS),
    },
    Rule {
        state: States::OTHERS_FOLLOW,
        whom: Whom::With(Flags::ONLY_OURS),
        answer: Answer::Error(error::UNKNOWN_TO_REPLICA),
    },
    Rule {
        state: States::OLD_FOLLOW,
        whom: Whom::With(Flags::NEWER),
        answer: Answer::Error(error::UNKNOWN_TO_REPLICA),
    },
    Rule {
        state: States::READ_ONLY,
        whom: Whom::With(Flags::WRITE),
        answer: Answer::Error(error::READ_ONLY_REPLICA),
    },
    Rule {
        state: States::STALE,
        whom: Whom::Without(Flags::STALE),
        answer: Answer::Error(error::PRIMARY_LOST),
    },
    Rule {
        state: States::LOADING,
        whom: Whom::Without(Flags::LOADING),
        answer: Answer::Error(error::LOADING),
    },
    Rule {
        state: States::LOADING_BESIDE,
        whom: Whom::With(Flags::NO_ASYNC_LOADING),
        answer: Answer::Error(error::LOADING),
    },
    Rule { state: States::JOURNAL_FULL, whom: Whom::With(CHANGES), answer: Answer::Wait },
    Rule { state: States::PAUSED_WRITES, whom: Whom::With(CHANGES), answer: Answer::Wait },
    Rule {
        state: States::PAUSED_ALL,
        whom: Whom::Without(Flags::ADMIN.and(Flags::ALLOW_BUSY)),
        answer: Answer::Wait,
    },
];

/// The states that begin and end by themselves; those of memory and CLIENT PAUSE are asked for.
#[derive(Default)]
pub struct LastingStates(AtomicU32);

impl LastingStates {
    /// The server is in this state from now on. A turn under way ends as it began.
    pub fn begin(&self, state: States) {
        self.0.fetch_or(state.0, Ordering::AcqRel);
    }

    /// It is no more.
    pub fn end(&self, state: States) {
        self.0.fetch_and(!state.0, Ordering::AcqRel);
    }

    /// Those of this moment.
    #[inline]
    pub fn now(&self) -> States {
        States(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(states: States, flags: Flags, expected: &str) {
        let told = match states.refusal(Concerned::one(flags)) {
            None => "runs",
            Some(Answer::Wait) => "waits",
            Some(Answer::Error(error)) => error.code(),
        };
        assert_eq!(told, expected, "{states:?} {flags:?}");
    }

    #[test]
    fn each_state_concerns_whom_it_should() {
        let get = Flags::READONLY.and(Flags::FAST);
        let set = Flags::WRITE.and(Flags::DENYOOM);
        let delete = Flags::WRITE;
        let info = Flags::LOADING.and(Flags::STALE);
        let config = info.and(Flags::ADMIN);
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
        let replicaof = Flags::ADMIN.and(Flags::STALE).and(Flags::NO_ASYNC_LOADING);
        check(States::LOADING_BESIDE, replicaof, "LOADING");
    }

    #[test]
    fn the_first_rule_of_the_list_answers() {
        let all = States::FULL.and(States::READ_ONLY).and(States::LOADING);
        check(all, Flags::WRITE.and(Flags::DENYOOM), "OOM");
        check(all, Flags::WRITE, "READONLY");
        check(all.without(States::READ_ONLY), Flags::WRITE, "LOADING");
    }

    #[test]
    fn a_transaction_is_judged_by_all_its_commands() {
        let mixed = Concerned { some: Flags::WRITE.and(Flags::LOADING), all: Flags::NONE };
        assert!(States::READ_ONLY.refusal(mixed).is_some());
        assert!(States::LOADING.refusal(mixed).is_some(), "one of them may not run while loading");
    }

    #[test]
    fn states_begin_and_end() {
        let lasting = LastingStates::default();
        lasting.begin(States::LOADING.and(States::READ_ONLY));
        lasting.end(States::LOADING);
        assert_eq!(lasting.now(), States::READ_ONLY);
    }
}
