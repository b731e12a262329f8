//! Is there an order of these commands, one after the other, that explains every answer?
//!
//! The search of Wing and Gong (1993) with the memory of Lowe (2017): commands are put in order one
//! by one; a command may come next if no command that is still to come was answered before it was
//! sent. A point that was reached before (the same commands in order, the same contents) is not
//! looked at again, because what follows depends on nothing else.
//!
//! 1. The order keeps what happened before what: in real time between clients, and as sent for one
//!    client. Since commands work on many keys and are checked over all of them together, such an
//!    order proves strict serialisability of the round.
//! 2. The search ends: at the answer, or after `POINT_LIMIT` points.

use crate::serial::model::{Act, State};
use crate::value::Value;
use std::collections::HashSet;

/// A search that has looked at so many points is given up, undecided.
const POINT_LIMIT: usize = 2_000_000;

/// One command, as its client saw it.
#[derive(Clone, Debug)]
pub struct Done {
    /// The database the client is in.
    pub db: usize,
    /// The command.
    pub act: Act,
    /// The answer.
    pub answer: Value,
    /// When it was sent, in nanoseconds: before its first byte was.
    pub sent: u64,
    /// When it was answered: after the last byte was read.
    pub heard: u64,
}

/// What the search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// There is an order.
    Serial,
    /// There is none. The most commands that could be put in order, by client.
    Broken(Vec<usize>),
    /// Too many orders to try.
    Undecided,
}

/// A set of commands in order, which for clients that send one after the other is a number for
/// each, and the contents after them.
type Point = (Vec<usize>, State);

struct Search<'h> {
    clients: &'h [Vec<Done>],
    seen: HashSet<Point>,
    farthest: Vec<usize>,
}

/// Judges a history: for each client its commands in the order in which it sent them.
pub fn judge(begin: &State, clients: &[Vec<Done>]) -> Judgement {
    let mut search = Search { clients, seen: HashSet::new(), farthest: vec![0; clients.len()] };
    let mut open: Vec<Point> = vec![(vec![0; clients.len()], begin.clone())];
    while let Some(point) = open.pop() {
        if search.is_end(&point.0) {
            return Judgement::Serial;
        }
        if search.seen.len() > POINT_LIMIT {
            return Judgement::Undecided;
        }
        for next in search.after(&point) {
            if search.seen.insert(next.clone()) {
                search.note(&next.0);
                open.push(next);
            }
        }
    }
    Judgement::Broken(search.farthest)
}

impl Search<'_> {
    fn is_end(&self, taken: &[usize]) -> bool {
        taken.iter().zip(self.clients).all(|(taken, client)| *taken == client.len())
    }

    fn note(&mut self, taken: &[usize]) {
        if taken.iter().sum::<usize>() > self.farthest.iter().sum() {
            self.farthest = taken.to_vec();
        }
    }

    /// The points one command further on.
    fn after(&self, (taken, state): &Point) -> Vec<Point> {
        let heads = || self.clients.iter().zip(taken).map(|(client, taken)| client.get(*taken));
        // Of the commands to come, each client's first was answered first.
        let first_heard = heads().flatten().map(|done| done.heard).min().unwrap_or(u64::MAX);
        let mut points: Vec<(u64, Point)> = Vec::new();
        for (client, head) in heads().enumerate() {
            let Some(done) = head.filter(|done| done.sent <= first_heard) else { continue };
            let mut state = state.clone();
            if state.apply(done.db, &done.act) == done.answer {
                let mut taken = taken.clone();
                taken[client] += 1;
                points.push((done.heard, (taken, state)));
            }
        }
        // What was answered first is tried first, for it is likely to have come first.
        points.sort_by_key(|(heard, _)| std::cmp::Reverse(*heard));
        points.into_iter().map(|(_, point)| point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(act: Act, answer: Value, sent: u64, heard: u64) -> Done {
        Done { db: 0, act, answer, sent, heard }
    }

    fn text(value: &str) -> Vec<u8> {
        value.as_bytes().to_vec()
    }

    fn ok() -> Value {
        Value::Simple(text("OK"))
    }

    fn bulk(value: &str) -> Value {
        Value::Bulk(text(value))
    }

    fn set(key: usize, value: &str, sent: u64, heard: u64) -> Done {
        done(Act::Set(key, text(value)), ok(), sent, heard)
    }

    fn get(key: usize, value: Value, sent: u64, heard: u64) -> Done {
        done(Act::Get(key), value, sent, heard)
    }

    #[track_caller]
    fn check(clients: &[Vec<Done>], is_serial: bool) {
        let found = judge(&State::default(), clients);
        assert_eq!(found == Judgement::Serial, is_serial, "{found:?}");
        assert_ne!(found, Judgement::Undecided);
    }

    #[test]
    fn what_overlaps_may_come_in_any_order() {
        check(&[vec![set(0, "a", 0, 10)], vec![get(0, bulk("a"), 5, 15)]], true);
        check(&[vec![set(0, "a", 0, 10)], vec![get(0, Value::Nil, 5, 15)]], true);
    }

    #[test]
    fn what_was_answered_before_comes_before() {
        check(&[vec![set(0, "a", 0, 10)], vec![get(0, Value::Nil, 11, 15)]], false);
        check(&[vec![set(0, "a", 0, 10)], vec![get(0, bulk("a"), 11, 15)]], true);
        let goes_back = vec![get(0, bulk("a"), 1, 2), get(0, Value::Nil, 3, 4)];
        check(&[vec![set(0, "a", 0, 10)], goes_back], false);
    }

    #[test]
    fn a_pipeline_keeps_its_order() {
        // Sent together, so only the order of one client's commands speaks against it.
        let pipeline = vec![set(0, "a", 0, 10), get(0, Value::Nil, 0, 11)];
        check(&[pipeline], false);
    }

    #[test]
    fn a_lost_update_is_found() {
        let incr = |answer| done(Act::Incr(0), Value::Int(answer), 0, 10);
        check(&[vec![incr(1)], vec![incr(1)]], false);
        check(&[vec![incr(2)], vec![incr(1)]], true);
    }

    #[test]
    fn half_of_a_command_on_many_keys_is_found() {
        let write = done(Act::MSet(vec![(0, text("a")), (1, text("b"))]), ok(), 0, 10);
        let read = |left, right| done(Act::MGet(vec![0, 1]), Value::Array(vec![left, right]), 2, 8);
        check(&[vec![write.clone()], vec![read(bulk("a"), bulk("b"))]], true);
        check(&[vec![write.clone()], vec![read(Value::Nil, Value::Nil)]], true);
        check(&[vec![write.clone()], vec![read(bulk("a"), Value::Nil)]], false);
        check(&[vec![write], vec![read(Value::Nil, bulk("b"))]], false);
    }

    #[test]
    fn a_key_in_two_places_is_found() {
        let rename = done(Act::Rename(0, 1), ok(), 20, 30);
        let both = |count| done(Act::Exists(vec![0, 1]), Value::Int(count), 20, 30);
        check(&[vec![set(0, "a", 0, 10), rename.clone()], vec![both(1)]], true);
        check(&[vec![set(0, "a", 0, 10), rename.clone()], vec![both(2)]], false);
        check(&[vec![set(0, "a", 0, 10), rename], vec![both(0)]], false);
    }

    #[test]
    fn two_readers_that_disagree_about_an_order_are_found() {
        let writers = [vec![set(0, "a", 0, 100)], vec![set(1, "b", 0, 100)]];
        let reader = |first: usize, second: usize, value: &str| {
            vec![get(first, bulk(value), 10, 20), get(second, Value::Nil, 30, 40)]
        };
        let mut clients = writers.to_vec();
        clients.extend([reader(0, 1, "a"), reader(1, 0, "b")]);
        check(&clients, false);
        clients.pop();
        check(&clients, true);
    }

    #[test]
    fn half_of_a_swap_is_found() {
        let mut begin = State::default();
        begin.values[0] = std::array::from_fn(|_| Some(text("zero")));
        let swap = done(Act::SwapDb, ok(), 0, 10);
        let read = |left, right| done(Act::MGet(vec![0, 1]), Value::Array(vec![left, right]), 2, 8);
        let half = [vec![swap.clone()], vec![read(bulk("zero"), Value::Nil)]];
        assert!(matches!(judge(&begin, &half), Judgement::Broken(_)));
        let whole = [vec![swap], vec![read(Value::Nil, Value::Nil)]];
        assert_eq!(judge(&begin, &whole), Judgement::Serial);
    }

    #[test]
    fn tells_how_far_it_came() {
        let clients = [vec![set(0, "a", 0, 1), get(0, Value::Nil, 2, 3), set(0, "b", 4, 5)]];
        assert_eq!(judge(&State::default(), &clients), Judgement::Broken(vec![1]));
    }
}
