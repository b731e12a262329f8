//! Is there a sequential order of these commands that explains every answer?
//!
//! This is the search of Wing and Gong (1993) with the cache of Lowe (2017): commands are put in
//! order one by one; a command may come next if no command that is still to come was answered
//! before it was sent. A point that was reached before (the same commands in order, the same
//! contents) is not searched again, because what follows depends on nothing else.
//!
//! 1. The order respects real time between clients, and the order of sending within one client.
//!    Since commands work on many keys and are checked over all of them together, such an order
//!    proves strict serialisability of the round.
//! 2. A command whose answer was lost with its connection may have been executed at any time after
//!    it was sent, or not at all. Of the commands that a client had sent together, no later one was
//!    executed without the earlier ones.
//! 3. The search ends: with a result, or after `POINT_LIMIT` points.

use crate::serial::model::{Act, State};
use crate::serial::programs::Program;
use crate::value::Value;
use std::collections::HashSet;

/// A search that has visited this many points stops undecided.
const POINT_LIMIT: usize = 2_000_000;

/// One command, as its client saw it.
#[derive(Clone, Debug)]
pub struct Done {
    /// The database the client is in.
    pub db: usize,
    /// The command.
    pub act: Act,
    /// The part of the answer that is compared; `None`: the connection was lost before it came.
    pub answer: Option<Value>,
    /// The time of sending, in nanoseconds: before the first byte was sent.
    pub sent: u64,
    /// The time of the answer: after the last byte was read. [`NEVER`] if there was none.
    pub heard: u64,
    /// A transaction that was dropped, while a script ran that may have been undone and run again:
    /// the watched keys may seem to have been changed by a run that was undone.
    pub is_excused: bool,
}

/// The time of an answer that was lost.
pub const NEVER: u64 = u64::MAX;

/// Marks transactions that may have been dropped for a script that was undone.
pub fn excuse(history: &mut [Vec<Done>]) {
    let scripts: Vec<(usize, u64, u64)> = history
        .iter()
        .enumerate()
        .flat_map(|(client, dones)| dones.iter().map(move |done| (client, done)))
        .filter(|(_, done)| done.act.has_script())
        .map(|(client, done)| (client, done.sent, done.heard))
        .collect();
    for (client, dones) in history.iter_mut().enumerate() {
        let mut watched_since = u64::MAX;
        for done in dones {
            match done.act {
                Act::Watch(_) => watched_since = watched_since.min(done.sent),
                Act::Unwatch => watched_since = u64::MAX,
                Act::Program(Program::Together(_)) => {
                    let meets = |(other, sent, heard): &(usize, u64, u64)| {
                        *other != client && *sent <= done.heard && *heard >= watched_since
                    };
                    let is_dropped = done.answer == Some(Value::NilArray);
                    done.is_excused = is_dropped && scripts.iter().any(meets);
                    watched_since = u64::MAX;
                }
                _ => {}
            }
        }
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// There is an order.
    Serial,
    /// There is none. Holds the largest number of commands of each client that could be put in
    /// order.
    Broken(Vec<usize>),
    /// There are too many orders to try.
    Undecided,
}

/// A state of the search: the set of commands put in order so far (as a number for each client,
/// because a client's commands keep their order), and the contents after them.
type Point = (Vec<usize>, State);

struct Search<'h> {
    clients: &'h [Vec<Done>],
    /// The number of answered commands of each client: this many must be put in order.
    answered: Vec<usize>,
    seen: HashSet<Point>,
    farthest: Vec<usize>,
}

/// Checks a history: the commands of each client in the order in which it sent them.
pub fn judge(begin: &State, clients: &[Vec<Done>]) -> Judgement {
    let answered = |client: &Vec<Done>| client.iter().filter(|done| done.answer.is_some()).count();
    let mut search = Search {
        clients,
        answered: clients.iter().map(answered).collect(),
        seen: HashSet::new(),
        farthest: vec![0; clients.len()],
    };
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
        taken.iter().zip(&self.answered).all(|(taken, answered)| taken >= answered)
    }

    fn note(&mut self, taken: &[usize]) {
        if taken.iter().sum::<usize>() > self.farthest.iter().sum() {
            self.farthest = taken.to_vec();
        }
    }

    /// The points reached by one more command.
    fn after(&self, (taken, state): &Point) -> Vec<Point> {
        let heads = || self.clients.iter().zip(taken).map(|(client, taken)| client.get(*taken));
        // Among the commands to come, a client's first one was answered before its others.
        let first_heard = heads().flatten().map(|done| done.heard).min().unwrap_or(u64::MAX);
        let mut points: Vec<(u64, Point)> = Vec::new();
        for (client, head) in heads().enumerate() {
            let Some(done) = head.filter(|done| done.sent <= first_heard) else { continue };
            let mut state = state.clone();
            let act = if done.is_excused { &Act::Unwatch } else { &done.act };
            let answer = done.act.seen(state.apply(client, done.db, act));
            if done.is_excused || done.answer.as_ref().is_none_or(|seen| *seen == answer) {
                let mut taken = taken.clone();
                taken[client] += 1;
                points.push((done.heard, (taken, state)));
            }
        }
        // Commands answered first are tried first, because they are likely to have been executed
        // first.
        points.sort_by_key(|(heard, _)| std::cmp::Reverse(*heard));
        points.into_iter().map(|(_, point)| point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial::kinds::KindAct;
    use crate::serial::programs::Declares;

    fn done(act: Act, answer: Value, sent: u64, heard: u64) -> Done {
        Done { db: 0, act, answer: Some(answer), sent, heard, is_excused: false }
    }

    fn lost(act: Act, sent: u64) -> Done {
        Done { db: 0, act, answer: None, sent, heard: NEVER, is_excused: false }
    }

    fn list(values: &[&str]) -> Value {
        Value::Array(values.iter().map(|value| bulk(value)).collect())
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
        // They were sent together, so only the order of one client's commands excludes it.
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
        begin.values[0] = std::sync::Arc::new(std::array::from_fn(|_| Some(text("zero"))));
        let swap = done(Act::SwapDb, ok(), 0, 10);
        let read = |left, right| done(Act::MGet(vec![0, 1]), Value::Array(vec![left, right]), 2, 8);
        let half = [vec![swap.clone()], vec![read(bulk("zero"), Value::Nil)]];
        assert!(matches!(judge(&begin, &half), Judgement::Broken(_)));
        let whole = [vec![swap], vec![read(Value::Nil, Value::Nil)]];
        assert_eq!(judge(&begin, &whole), Judgement::Serial);
    }

    #[test]
    fn half_of_a_script_is_found() {
        let acts = vec![Act::Set(0, text("a")), Act::Set(1, text("b"))];
        let (declares, stops, edition) = (Declares::Nothing, false, 0);
        let script = Program::Script { acts: acts.clone(), declares, stops, edition };
        for program in [script, Program::Together(acts)] {
            let write = done(Act::Program(program), Value::Array(vec![ok(), ok()]), 0, 100);
            let read = |left, right| vec![get(1, left, 10, 20), get(0, right, 30, 40)];
            check(&[vec![write.clone()], read(Value::Nil, bulk("a"))], true);
            // In between one reader sees the first write and not the second.
            let dirty = vec![get(0, bulk("a"), 10, 20), get(1, Value::Nil, 30, 40)];
            check(&[vec![write], dirty], false);
        }
    }

    #[test]
    fn a_transaction_that_should_have_been_dropped_is_found() {
        let watch = done(Act::Watch(vec![0]), ok(), 0, 1);
        let write = |value: &str| Act::Program(Program::Together(vec![Act::Set(0, text(value))]));
        let kept = done(write("mine"), Value::Array(vec![ok()]), 20, 30);
        let other = set(0, "theirs", 5, 10);
        check(&[vec![watch.clone(), kept.clone()], vec![other.clone()]], false);
        let dropped = done(write("mine"), Value::NilArray, 20, 30);
        check(&[vec![watch.clone(), dropped.clone()], vec![other]], true);
        // The transaction was dropped without a reason.
        check(&[vec![watch.clone(), dropped]], false);
        // The key was changed before it was watched.
        let early = done(Act::Watch(vec![0]), ok(), 11, 12);
        check(&[vec![early, kept], vec![set(0, "theirs", 5, 10)]], true);
    }

    #[test]
    fn a_script_that_was_undone_excuses_a_dropped_transaction() {
        let undeclared = Act::Program(Program::Undeclared {
            first: 1,
            value: text("a"),
            from: 2,
            second: text("b"),
            declares: Declares::Nothing,
            edition: 0,
        });
        let found = |sent, heard| {
            let answer = undeclared.seen(State::default().apply(0, 0, &undeclared));
            let script = done(undeclared.clone(), answer, sent, heard);
            let watch = done(Act::Watch(vec![4]), ok(), 0, 1);
            let together = Act::Program(Program::Together(vec![Act::Get(3)]));
            let dropped = done(together, Value::NilArray, 20, 30);
            let mut history = [vec![script], vec![watch, dropped]];
            excuse(&mut history);
            judge(&State::default(), &history)
        };
        assert_eq!(found(5, 40), Judgement::Serial);
        assert!(matches!(found(31, 40), Judgement::Broken(_)));
    }

    #[test]
    fn what_was_lost_may_have_happened_or_not() {
        let write = || lost(Act::Set(0, text("a")), 0);
        check(&[vec![write()], vec![get(0, Value::Nil, 10, 20)]], true);
        check(&[vec![write()], vec![get(0, bulk("a"), 10, 20)]], true);
        let comes_late = vec![get(0, Value::Nil, 10, 20), get(0, bulk("a"), 30, 40)];
        check(&[vec![write()], comes_late], true);
        let comes_and_goes = vec![get(0, bulk("a"), 10, 20), get(0, Value::Nil, 30, 40)];
        check(&[vec![write()], comes_and_goes], false);
        // The second command of a pipeline without the first.
        let pipeline = vec![lost(Act::Set(0, text("a")), 0), lost(Act::Set(1, text("b")), 0)];
        let reads = vec![get(1, bulk("b"), 10, 20), get(0, Value::Nil, 30, 40)];
        check(&[pipeline, reads], false);
    }

    #[test]
    fn an_element_that_goes_to_nobody_is_found() {
        let on = Act::On;
        let push = done(on(KindAct::Push(0, vec![text("x")])), Value::Int(1), 0, 10);
        let read = done(on(KindAct::Range(0)), list(&[]), 20, 30);
        check(&[vec![push.clone(), read.clone()]], false);
        // A client that waited and lost its connection may have been given the element ...
        let waits = lost(on(KindAct::AwaitPop(vec![0])), 0);
        check(&[vec![push.clone(), read.clone()], vec![waits]], true);
        // ... but not twice, and not one that began to wait when the element was gone.
        let other = lost(on(KindAct::AwaitPop(vec![0])), 31);
        check(&[vec![push.clone(), read.clone()], vec![other]], false);
        let served = done(on(KindAct::AwaitPop(vec![0])), list(&["list:0", "x"]), 0, 11);
        check(&[vec![push.clone()], vec![served.clone()], vec![served.clone()]], false);
        check(&[vec![push, read], vec![served]], true);
    }

    #[test]
    fn tells_how_far_it_came() {
        let clients = [vec![set(0, "a", 0, 1), get(0, Value::Nil, 2, 3), set(0, "b", 4, 5)]];
        assert_eq!(judge(&State::default(), &clients), Judgement::Broken(vec![1]));
    }
}
