//! Load balancing: busy connections move from an overloaded worker to a mostly idle one.
//!
//! ```text
//! every 100 ms:         was this worker busy since the last look?   no: start over
//! busy looks in a row:  which other worker was idle meanwhile?      none: start over
//! the idlest:           gets connections worth half of the difference
//! ```
//!
//! A worker checks the time that its turn has read anyway, and ten times a second, while it is
//! awake, asks the kernel for its own CPU time. It asks the kernel for that of the other workers
//! too, so they need not answer and write nothing. A connection's weight is the commands it has run
//! and the messages it was sent since the first look.
//!
//! Invariants
//! 1. A connection moves only if that brings the loads of the two workers closer: one that alone is
//!    the load stays. So nothing moves back and forth.
//! 2. A worker that has given connections away observes another [`BUSY_LOOKS`] looks before it
//!    gives more.
//! 3. A connection moves between two commands, with input, output, session and subscriptions. One
//!    that is blocked on a key takes its command back and blocks again at its new worker, at its
//!    old place in the queue, with the rest of its timeout. A connection stays while the slow lane
//!    works for it, and if it has more than [`MOST_SUBSCRIPTIONS`].
//!
//! Not here: how a connection moves (`admission/accept`). Tests: foot of the file; the bad days
//! `a_crowded_worker` and `one_busy_client`.

use std::mem::take;

use pantala_commands::{Session, Subscriptions};
use pantala_reactor::{Ops, Token};

use crate::worker::Worker;
use crate::worker::connection::{Connection, NextServer};
use crate::worker::turn::load::{LOOK_US, Sample, loads};

/// Looks in a row that must find the worker busy.
const BUSY_LOOKS: usize = 3;
/// A worker that is awake for at least this share of the time is busy.
const BUSY_PERCENT: u64 = 80;
/// A worker that is awake for at most this share of the time is mostly idle.
const IDLE_PERCENT: u64 = 30;
/// The most connections that move at a time: each takes some microseconds.
const MOST_MOVES: usize = 256;
/// The most subscriptions that a moving connection may have: nobody publishes while they move.
const MOST_SUBSCRIPTIONS: u32 = 256;

impl Worker {
    /// Checks from time to time whether this worker is too busy, and moves the connections that
    /// were chosen.
    #[inline]
    pub fn balance(&mut self, ops: &mut Ops<'_>) {
        if self.now_us >= self.balance.next_look_us {
            self.look_at_load();
        }
        if !self.balance.leaving.is_empty() {
            self.let_all_go(ops);
        }
    }

    #[cold]
    fn look_at_load(&mut self) {
        let context = std::sync::Arc::clone(&self.context);
        self.balance.next_look_us = self.now_us + LOOK_US;
        // Connections that could not leave until now have much under way.
        self.balance.leaving.clear();
        let workers = context.workers.serving();
        let now = match workers.len() {
            0 | 1 => None,
            _ => Sample::of(&context, self.index, self.now_us),
        };
        let last = std::mem::replace(&mut self.balance.last, now);
        let (Some(now), Some(last)) = (now, last) else { return self.balance.begin_anew() };
        if now.percent_since(last) < BUSY_PERCENT || self.is_retiring {
            return self.balance.begin_anew();
        }
        self.balance.busy_looks += 1;
        let sample = |&worker: &usize| Some((worker, Sample::of(&context, worker, self.now_us)?));
        if self.balance.busy_looks == 1 {
            self.balance.first = workers.iter().filter_map(sample).collect();
            self.weigh(|_, _| {});
        } else if self.balance.busy_looks > BUSY_LOOKS {
            let samples: Vec<_> = workers.iter().filter_map(sample).collect();
            let loads = loads(&take(&mut self.balance.first), &samples);
            self.balance.begin_anew();
            if let Some((own, other, worker)) = sleepiest(&loads, self.index) {
                self.choose(own, other, worker);
            }
        }
    }

    /// Calls `see` with each connection and what it has done since the last call.
    fn weigh(&mut self, mut see: impl FnMut(&Connection, u64)) {
        for connection in self.connections.iter_mut().flatten() {
            let done = connection.counts.commands + connection.counts.told;
            let weight = done.saturating_sub(connection.counts.done_seen);
            connection.counts.done_seen = done;
            if weight > 0 {
                see(connection, weight);
            }
        }
    }

    /// Chooses the connections that move to `worker`.
    fn choose(&mut self, own: u64, other: u64, worker: usize) {
        let (mut total, mut movable) = (0, Vec::new());
        self.weigh(|connection, weight| {
            total += weight;
            if is_movable(&connection.session) {
                movable.push((connection.token, weight));
            }
        });
        let chosen = worth(&movable, total, own, other);
        self.balance.leaving.extend(chosen.map(|token| (token, worker as u16)));
    }

    #[cold]
    fn let_all_go(&mut self, ops: &mut Ops<'_>) {
        for (token, worker) in take(&mut self.balance.leaving) {
            let Some(connection) = self.find(token) else { continue };
            if connection.waits_for_keys() && connection.is_between() {
                self.take_back(token.index);
            }
            let Some(connection) = self.find(token) else { continue };
            if !connection.can_leave() {
                self.balance.leaving.push((token, worker));
                continue;
            }
            connection.next = NextServer::Worker(worker);
            self.let_go(token.index, ops);
        }
    }
}

/// Whether the connection is quick to move with all of its state.
fn is_movable(session: &Session) -> bool {
    let Subscriptions { channels, patterns, slot_channels, .. } = session.subscriptions;
    channels + patterns + slot_channels <= MOST_SUBSCRIPTIONS
}

/// The load of this worker, the lowest load of another that is mostly idle, and that worker's
/// number.
fn sleepiest(loads: &[(usize, u64)], own: usize) -> Option<(u64, u64, usize)> {
    let own_load = loads.iter().find(|(worker, _)| *worker == own)?.1;
    let others = loads.iter().filter(|(worker, load)| *worker != own && *load <= IDLE_PERCENT);
    let &(worker, load) = others.min_by_key(|(_, load)| *load)?;
    (own_load >= BUSY_PERCENT).then_some((own_load, load, worker))
}

/// The connections to move: together they weigh at most half of the difference between two workers,
/// where a weight of `total` is what loads the busy one with `own` percent.
fn worth(
    movable: &[(Token, u64)],
    total: u64,
    own: u64,
    other: u64,
) -> impl Iterator<Item = Token> + '_ {
    let mut room = total * (own - other) / (2 * own);
    let fits = move |&&(_, weight): &&(Token, u64)| {
        let fits = weight <= room;
        if fits {
            room -= weight;
        }
        fits
    };
    movable.iter().filter(fits).take(MOST_MOVES).map(|(token, _)| *token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_us: u64, awake_us: u64) -> Sample {
        Sample { at_us, awake_us }
    }

    #[test]
    fn loads_are_of_those_who_were_there_all_the_time() {
        let before = [(0, sample(0, 500)), (2, sample(0, 0))];
        let after = [(0, sample(1000, 1400)), (1, sample(1000, 9)), (2, sample(1000, 2000))];
        assert_eq!(loads(&before, &after), [(0, 90), (2, 100)]);
    }

    #[test]
    fn only_a_busy_worker_gives_and_only_an_idle_one_gets() {
        assert_eq!(sleepiest(&[(0, 90), (1, 30), (4, 2)], 0), Some((90, 2, 4)));
        assert_eq!(sleepiest(&[(0, 90), (1, 31)], 0), None, "both are busy");
        assert_eq!(sleepiest(&[(0, 79), (1, 0)], 0), None, "it has time left");
        assert_eq!(sleepiest(&[(1, 0)], 0), None, "it is not known how busy it is");
        assert_eq!(sleepiest(&[(0, 100)], 0), None, "nobody else is there");
    }

    fn chosen(weights: &[u64], own: u64, other: u64) -> Vec<u32> {
        let token = |index: usize| Token { index: index as u32, generation: 0 };
        let movable: Vec<_> =
            weights.iter().enumerate().map(|(index, weight)| (token(index), *weight)).collect();
        let total = weights.iter().sum();
        worth(&movable, total, own, other).map(|token| token.index).collect()
    }

    #[test]
    fn who_tracks_or_watches_or_has_not_too_many_subscriptions_goes() {
        let mut session = Session::new(1);
        assert!(is_movable(&session));
        session.tracking = Some(Box::default());
        session.subscriptions.channels = MOST_SUBSCRIPTIONS;
        assert!(is_movable(&session));
        session.subscriptions.patterns = 1;
        assert!(!is_movable(&session));
        session = Session::new(1);
        session.monitor = true;
        assert!(is_movable(&session));
    }

    #[test]
    fn half_of_the_difference_goes() {
        assert_eq!(chosen(&[10; 8], 100, 0).len(), 4);
        assert_eq!(chosen(&[10; 8], 100, 30).len(), 2);
        assert_eq!(chosen(&[10; 3], 100, 0), [0]);
        assert_eq!(chosen(&[1; 10_000], 100, 0).len(), MOST_MOVES);
    }

    #[test]
    fn who_alone_is_the_load_stays_and_the_others_go() {
        assert_eq!(chosen(&[100], 100, 0), [0; 0]);
        assert_eq!(chosen(&[3, 900, 7], 100, 0), [0, 2]);
        assert_eq!(chosen(&[50, 51], 100, 0), [0], "the two come nearer to each other");
        assert_eq!(chosen(&[50, 51], 100, 30), [0; 0]);
    }
}
