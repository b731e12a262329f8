//! The commands of a run, each as it would work alone: what becomes of the keys, what is answered.

use crate::differ::random::Random;
use crate::value::Value;

/// Keys in each database.
pub const KEYS: usize = 5;
/// Databases, 0 and 1.
pub const DATABASES: usize = 2;

const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const OVERFLOW: &str = "ERR increment or decrement would overflow";
const NO_SUCH_KEY: &str = "ERR no such key";

/// What the keys of all databases hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// By database and key.
    pub values: [[Option<Vec<u8>>; KEYS]; DATABASES],
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
    /// `SWAPDB 0 1`
    SwapDb,
    /// `FLUSHALL`
    FlushAll,
}

/// The name of a key. Long enough that a value and its key do not always share a size class.
pub fn name(key: usize) -> String {
    format!("key:{key}")
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn bulk(value: Option<Vec<u8>>) -> Value {
    value.map_or(Value::Nil, Value::Bulk)
}

fn error(text: &str) -> Value {
    Value::Error(text.as_bytes().to_vec())
}

impl State {
    /// Does `act` in database `db`, and answers as the server should.
    pub fn apply(&mut self, db: usize, act: &Act) -> Value {
        let keys = &mut self.values[db];
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
                ok()
            }
            Act::FlushAll => {
                *self = State::default();
                ok()
            }
        }
    }
}

type Keys = [Option<Vec<u8>>; KEYS];

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

/// The number whose own text this is.
fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// Whether it moved; `None` when there is nothing to move.
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
    /// The command as a client sends it.
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
            Act::SwapDb => vec![word("SWAPDB"), word("0"), word("1")],
            Act::FlushAll => vec![word("FLUSHALL")],
        }
    }
}

/// Makes commands; every value it writes is unlike all others.
pub struct Maker {
    random: Random,
    written: u64,
}

/// Of so many commands, one swaps the databases and one empties them.
const RARELY: usize = 60;

impl Maker {
    /// Makes the same commands again for the same seed.
    pub fn new(seed: u64) -> Maker {
        Maker { random: Random::new(seed), written: 0 }
    }

    /// The source of chance, for what else a run leaves to it.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// A number far enough from others that INCR does not reach them, or a text.
    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let text = match self.random.below(3) {
            0 => format!("v{}", self.written),
            1 => format!("v{}{}", self.written, "-".repeat(70)),
            _ => (self.written * 100_000).to_string(),
        };
        text.into_bytes()
    }

    fn key(&mut self) -> usize {
        self.random.below(KEYS)
    }

    /// Different keys, two at least, in any order.
    fn keys(&mut self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..KEYS).collect();
        let count = 2 + self.random.below(KEYS - 1);
        for at in 0..count {
            let other = at + self.random.below(KEYS - at);
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }

    fn two(&mut self) -> (usize, usize) {
        let keys = self.keys();
        (keys[0], keys[1])
    }

    fn pairs(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.keys().into_iter().map(|key| (key, self.value())).collect()
    }

    /// The next command.
    pub fn act(&mut self) -> Act {
        if self.random.once_in(RARELY) {
            return if self.random.once_in(2) { Act::SwapDb } else { Act::FlushAll };
        }
        let key = self.key();
        match self.random.below(16) {
            0 | 1 => Act::Get(key),
            2 => Act::Set(key, self.value()),
            3 => Act::SetNx(key, self.value()),
            4 => Act::GetSet(key, self.value()),
            5 => Act::Append(key, format!("+{}", self.random.below(100)).into_bytes()),
            6 | 7 => Act::Incr(key),
            8 | 9 => Act::MGet(self.keys()),
            10 => Act::MSet(self.pairs()),
            11 => Act::MSetNx(self.pairs()),
            12 => Act::Del(self.keys()),
            13 => Act::Exists(self.keys()),
            14 => {
                let (from, to) = self.two();
                if self.random.once_in(3) { Act::RenameNx(from, to) } else { Act::Rename(from, to) }
            }
            _ => {
                let (from, to) = self.two();
                Act::Copy(from, to, self.random.once_in(2))
            }
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
            |act: Act, answer: Value| assert_eq!(state.apply(0, &act), answer, "{act:?}");
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
        assert_eq!(state.apply(1, &Act::Del(vec![1, 2, 3])), Value::Int(2));
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

    #[test]
    fn values_are_never_written_twice() {
        let mut maker = Maker::new(1);
        let mut values: Vec<Vec<u8>> = (0..1000).map(|_| maker.value()).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 1000);
    }
}
