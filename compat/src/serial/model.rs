//! A model of the commands of a run, each executed alone: its effect on the keys, and its answer.

use crate::serial::kinds::{KindAct, Kinds};
use crate::serial::programs::Program;
use crate::value::Value;
use std::sync::Arc;

/// Keys in each database.
pub const KEYS: usize = 5;
/// Databases, 0 and 1.
pub const DATABASES: usize = 2;
/// The most clients a history has.
pub const CLIENTS: usize = 16;

const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const OVERFLOW: &str = "ERR increment or decrement would overflow";
const NO_SUCH_KEY: &str = "ERR no such key";

/// The contents of the keys of all databases. States share equal parts, because a search keeps
/// many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// By database and key.
    pub values: [Arc<Keys>; DATABASES],
    /// Keys of other types, by database.
    pub kinds: [Arc<Kinds>; DATABASES],
    /// The watched keys of each client.
    pub watches: [Watch; CLIENTS],
}

/// The keys that a client watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Watch {
    /// A bit for each key of each database.
    pub keys: u32,
    /// One of them has been changed since.
    pub is_touched: bool,
}

/// One command; keys are numbers below [`KEYS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// `GET`
    Get(usize),
    /// `SET`
    Set(usize, Vec<u8>),
    /// `SETNX`
    SetNx(usize, Vec<u8>),
    /// `GETSET`
    GetSet(usize, Vec<u8>),
    /// `APPEND`
    Append(usize, Vec<u8>),
    /// `INCR`
    Incr(usize),
    /// `MGET`
    MGet(Vec<usize>),
    /// `MSET`
    MSet(Vec<(usize, Vec<u8>)>),
    /// `MSETNX`
    MSetNx(Vec<(usize, Vec<u8>)>),
    /// `DEL`
    Del(Vec<usize>),
    /// `EXISTS`
    Exists(Vec<usize>),
    /// `RENAME`
    Rename(usize, usize),
    /// `RENAMENX`
    RenameNx(usize, usize),
    /// `COPY`, with `REPLACE` or without
    Copy(usize, usize, bool),
    /// A command on another type.
    On(KindAct),
    /// `WATCH`
    Watch(Vec<usize>),
    /// `UNWATCH`
    Unwatch,
    /// Several commands as one.
    Program(Program),
    /// `SWAPDB 0 1`
    SwapDb,
    /// `FLUSHALL`
    FlushAll,
}

/// The name of a key. Long enough that a value and its key do not always share a size class.
pub fn name(key: usize) -> String {
    format!("key:{key}")
}

/// The answer OK.
pub fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

/// The bulk string, or nil.
pub fn bulk(value: Option<Vec<u8>>) -> Value {
    value.map_or(Value::Nil, Value::Bulk)
}

/// An error of this text.
pub fn error(text: &str) -> Value {
    Value::Error(text.as_bytes().to_vec())
}

impl State {
    /// Executes a command of `client` in database `db`, and returns the answer that the server
    /// should give.
    pub fn apply(&mut self, client: usize, db: usize, act: &Act) -> Value {
        match act {
            Act::Watch(keys) => {
                let bits = keys.iter().map(|key| 1 << (db * KEYS + key)).sum::<u32>();
                self.watches[client].keys |= bits;
                ok()
            }
            Act::Unwatch => {
                self.watches[client] = Watch::default();
                ok()
            }
            Act::Program(program) => program.apply(self, client, db),
            _ if self.watches.iter().all(|watch| watch.keys == 0) => self.apply_alone(db, act),
            _ => {
                let before = self.values.clone();
                let answer = self.apply_alone(db, act);
                self.touch(&before, db, act);
                answer
            }
        }
    }

    /// Marks the clients that watch a key which this command has changed.
    fn touch(&mut self, before: &[Arc<Keys>; DATABASES], db: usize, act: &Act) {
        let mut touched = 0;
        for (each, keys) in self.values.iter().enumerate() {
            for (key, value) in keys.iter().enumerate() {
                // A copy of an equal text over the key counts as a change.
                let is_copy = matches!(act, Act::Copy(from, to, true) if (each, key) == (db, *to)
                    && before[db][*from].is_some());
                if is_copy || before[each][key] != *value {
                    touched |= 1u32 << (each * KEYS + key);
                }
            }
        }
        for watch in &mut self.watches {
            watch.is_touched |= watch.keys & touched != 0;
        }
    }

    fn apply_alone(&mut self, db: usize, act: &Act) -> Value {
        if let Act::On(act) = act {
            return act.apply(Arc::make_mut(&mut self.kinds[db]));
        }
        let keys = Arc::make_mut(&mut self.values[db]);
        match act {
            Act::Get(key) => bulk(keys[*key].clone()),
            Act::Set(key, value) => {
                keys[*key] = Some(value.clone());
                ok()
            }
            Act::SetNx(key, value) => set_all_new(keys, &[(*key, value.clone())]),
            Act::GetSet(key, value) => bulk(keys[*key].replace(value.clone())),
            Act::Append(key, tail) => {
                let value = keys[*key].get_or_insert_default();
                value.extend_from_slice(tail);
                Value::Int(value.len() as i64)
            }
            Act::Incr(key) => increment(&mut keys[*key]),
            Act::MGet(of) => Value::Array(of.iter().map(|key| bulk(keys[*key].clone())).collect()),
            Act::MSet(pairs) => {
                set_all(keys, pairs);
                ok()
            }
            Act::MSetNx(pairs) => set_all_new(keys, pairs),
            Act::Del(of) => {
                Value::Int(of.iter().filter(|key| keys[**key].take().is_some()).count() as i64)
            }
            Act::Exists(of) => {
                Value::Int(of.iter().filter(|key| keys[**key].is_some()).count() as i64)
            }
            Act::Rename(from, to) => match rename(keys, *from, *to, true) {
                Some(_) => ok(),
                None => error(NO_SUCH_KEY),
            },
            Act::RenameNx(from, to) => match rename(keys, *from, *to, false) {
                Some(moved) => Value::Int(i64::from(moved)),
                None => error(NO_SUCH_KEY),
            },
            Act::Copy(from, to, replaces) => copy(keys, *from, *to, *replaces),
            Act::SwapDb => {
                self.values.swap(0, 1);
                self.kinds.swap(0, 1);
                ok()
            }
            Act::FlushAll => {
                (self.values, self.kinds) = Default::default();
                ok()
            }
            Act::On(_) | Act::Watch(_) | Act::Unwatch | Act::Program(_) => Value::Nil,
        }
    }
}

/// Texts by key.
pub type Keys = [Option<Vec<u8>>; KEYS];

fn set_all(keys: &mut Keys, pairs: &[(usize, Vec<u8>)]) {
    for (key, value) in pairs {
        keys[*key] = Some(value.clone());
    }
}

fn set_all_new(keys: &mut Keys, pairs: &[(usize, Vec<u8>)]) -> Value {
    let all_new = pairs.iter().all(|(key, _)| keys[*key].is_none());
    if all_new {
        set_all(keys, pairs);
    }
    Value::Int(i64::from(all_new))
}

fn increment(value: &mut Option<Vec<u8>>) -> Value {
    let Some(number) = value.as_deref().map_or(Some(0), integer) else {
        return error(NOT_INTEGER);
    };
    let Some(number) = number.checked_add(1) else {
        return error(OVERFLOW);
    };
    *value = Some(number.to_string().into_bytes());
    Value::Int(number)
}

/// The number whose canonical text this is.
fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// Renames a key. Returns whether it did; `None` if there is nothing to rename.
fn rename(keys: &mut Keys, from: usize, to: usize, overwrites: bool) -> Option<bool> {
    keys[from].as_ref()?;
    if keys[to].is_some() && !overwrites {
        return Some(false);
    }
    let value = keys[from].take();
    keys[to] = value;
    Some(true)
}

fn copy(keys: &mut Keys, from: usize, to: usize, replaces: bool) -> Value {
    let copies = keys[from].is_some() && (replaces || keys[to].is_none());
    if copies {
        keys[to] = keys[from].clone();
    }
    Value::Int(i64::from(copies))
}

impl Act {
    /// Whether it changes nothing, not even which keys are watched.
    pub fn only_reads(&self) -> bool {
        match self {
            Act::Get(_) | Act::MGet(_) | Act::Exists(_) => true,
            Act::On(act) => act.only_reads(),
            _ => false,
        }
    }

    /// Whether it is a script or contains one.
    pub fn has_script(&self) -> bool {
        match self {
            Act::Program(Program::Together(acts)) => acts.iter().any(Act::has_script),
            Act::Program(_) => true,
            _ => false,
        }
    }

    /// The commands to send, each of which gets a reply; the last reply is the answer.
    pub fn requests(&self) -> Vec<Vec<Vec<u8>>> {
        match self {
            Act::Program(program) => program.requests(),
            _ => vec![self.words()],
        }
    }

    /// The part of an answer that is compared.
    pub fn seen(&self, answer: Value) -> Value {
        match self {
            Act::Program(program) => program.seen(answer),
            _ => answer,
        }
    }

    /// The command as a client sends it; a transaction as text for people.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let word = |text: &str| text.as_bytes().to_vec();
        let key = |number: &usize| name(*number).into_bytes();
        let one = |verb, number, value: &Vec<u8>| vec![word(verb), key(number), value.clone()];
        let many =
            |verb, of: &[usize]| [word(verb)].into_iter().chain(of.iter().map(key)).collect();
        let pairs = |verb, pairs: &[(usize, Vec<u8>)]| {
            let flat = pairs.iter().flat_map(|(number, value)| [key(number), value.clone()]);
            [word(verb)].into_iter().chain(flat).collect()
        };
        match self {
            Act::Get(number) => many("GET", &[*number]),
            Act::Set(number, value) => one("SET", number, value),
            Act::SetNx(number, value) => one("SETNX", number, value),
            Act::GetSet(number, value) => one("GETSET", number, value),
            Act::Append(number, value) => one("APPEND", number, value),
            Act::Incr(number) => many("INCR", &[*number]),
            Act::MGet(of) => many("MGET", of),
            Act::MSet(of) => pairs("MSET", of),
            Act::MSetNx(of) => pairs("MSETNX", of),
            Act::Del(of) => many("DEL", of),
            Act::Exists(of) => many("EXISTS", of),
            Act::Rename(from, to) => many("RENAME", &[*from, *to]),
            Act::RenameNx(from, to) => many("RENAMENX", &[*from, *to]),
            Act::Copy(from, to, replaces) => {
                let mut words: Vec<Vec<u8>> = many("COPY", &[*from, *to]);
                words.extend(replaces.then(|| word("REPLACE")));
                words
            }
            Act::On(act) => act.words(),
            Act::Watch(of) => many("WATCH", of),
            Act::Unwatch => vec![word("UNWATCH")],
            Act::Program(program) => program.words(),
            Act::SwapDb => vec![word("SWAPDB"), word("0"), word("1")],
            Act::FlushAll => vec![word("FLUSHALL")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Vec<u8> {
        value.as_bytes().to_vec()
    }

    #[test]
    fn commands_do_what_they_do_alone() {
        let mut state = State::default();
        let mut check =
            |act: Act, answer: Value| assert_eq!(state.apply(0, 0, &act), answer, "{act:?}");
        check(Act::Get(0), Value::Nil);
        check(Act::Set(0, text("9")), ok());
        check(Act::Incr(0), Value::Int(10));
        check(Act::Append(0, text("x")), Value::Int(3));
        check(Act::Incr(0), error(NOT_INTEGER));
        check(Act::MSetNx(vec![(1, text("a")), (0, text("b"))]), Value::Int(0));
        check(Act::Rename(0, 1), ok());
        check(Act::Rename(0, 1), error(NO_SUCH_KEY));
        check(Act::Copy(1, 2, false), Value::Int(1));
        check(Act::Copy(1, 2, false), Value::Int(0));
        check(Act::MGet(vec![0, 2]), Value::Array(vec![Value::Nil, Value::Bulk(text("10x"))]));
        check(Act::Exists(vec![0, 1, 2]), Value::Int(2));
        check(Act::SwapDb, ok());
        check(Act::Get(1), Value::Nil);
        assert_eq!(state.apply(0, 1, &Act::Del(vec![1, 2, 3])), Value::Int(2));
    }

    #[test]
    fn a_watch_is_touched_by_changes_only() {
        let mut state = State::default();
        state.apply(1, 0, &Act::Watch(vec![0, 2]));
        let unchanged =
            [Act::Get(0), Act::Set(1, text("x")), Act::Del(vec![2]), Act::SetNx(1, text("y"))];
        for act in unchanged {
            state.apply(0, 0, &act);
            assert!(!state.watches[1].is_touched, "{act:?}");
        }
        state.apply(0, 1, &Act::Set(0, text("x")));
        assert!(!state.watches[1].is_touched, "another database");
        state.apply(0, 0, &Act::Copy(1, 2, false));
        assert!(state.watches[1].is_touched && !state.watches[0].is_touched);
        state.apply(1, 0, &Act::Unwatch);
        state.apply(1, 0, &Act::Watch(vec![2]));
        state.apply(0, 0, &Act::Copy(1, 2, true));
        assert!(state.watches[1].is_touched, "the same text over itself");
    }

    #[test]
    fn commands_are_written_as_clients_write_them() {
        let words = |act: Act| {
            let words = act.words();
            words
                .iter()
                .map(|w| String::from_utf8(w.clone()).unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(words(Act::MSet(vec![(1, text("a")), (0, text("b"))])), "MSET key:1 a key:0 b");
        assert_eq!(words(Act::Copy(1, 2, true)), "COPY key:1 key:2 REPLACE");
        assert_eq!(words(Act::SwapDb), "SWAPDB 0 1");
    }
}
