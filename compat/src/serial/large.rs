//! Sets of thousands of members, which are read in steps while others change them.
//!
//! Nearly all members of such a set belong to its *base*, which is the same in all sets and is
//! added and removed as a whole; only a few other members are added and removed one by one. So a
//! set is described by nine bits and most answers are counts, yet a command has to go through
//! thousands of members.

use crate::value::Value;

/// Keys of large sets in each database.
pub const LARGES: usize = 3;
/// Members that are added and removed one by one.
pub const OTHERS: usize = 8;
/// Two sets of this many members are enough for the slow lane, and for many steps.
const BASE: usize = 6000;
/// Bytes of each member. All members of a base are together more than a command of many arguments
/// copies: it works on them with its partition open to others.
const MEMBER_BYTES: usize = 180;
/// The key that sorted sets are stored at.
const STORED: &str = "large:stored";

/// The contents of a large set; without members the key does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members {
    has_base: bool,
    others: u8,
}

/// The large sets of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Large {
    sets: [Members; LARGES],
    stored: Members,
}

/// A way to combine several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Members of any of them.
    Union,
    /// Members of all of them.
    Inter,
    /// Members of only the first.
    Diff,
}

/// A command on them; keys are numbers below [`LARGES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LargeAct {
    /// `SADD` of the whole base
    Fill(usize),
    /// `SREM` of the whole base
    Empty(usize),
    /// `SADD` of one other
    Add(usize, usize),
    /// `SREM` of one other
    Remove(usize, usize),
    /// `DEL`
    Del(usize),
    /// `SINTERCARD`
    Card(Vec<usize>),
    /// `ZDIFF`, whose answer is in order
    Diff(usize, usize),
    /// `SUNIONSTORE` and similar ones
    Store(How, usize, Vec<usize>),
    /// `ZUNIONSTORE` and similar ones, always to the same key
    StoreSorted(How, Vec<usize>),
    /// `SMISMEMBER` of one of the base and of all others
    Read(usize),
    /// `ZMSCORE` of the sorted set that was stored
    ReadStored,
}

impl Members {
    fn with(self, other: Members, how: How) -> Members {
        let of = |one: bool, two: bool| match how {
            How::Union => one | two,
            How::Inter => one & two,
            How::Diff => one & !two,
        };
        let others = match how {
            How::Union => self.others | other.others,
            How::Inter => self.others & other.others,
            How::Diff => self.others & !other.others,
        };
        Members { has_base: of(self.has_base, other.has_base), others }
    }

    fn count(self) -> Value {
        let base = if self.has_base { BASE } else { 0 };
        Value::Int((base + self.others.count_ones() as usize) as i64)
    }

    /// For each possible member whether it is one: those of the base, then the others.
    fn bits(self) -> impl Iterator<Item = bool> {
        let others = (0..OTHERS).map(move |other| self.others >> other & 1 == 1);
        std::iter::once(self.has_base).chain(others)
    }

    fn learn(answer: &Value) -> Members {
        let Value::Array(items) = answer else { return Members::default() };
        let is_there = |item: &Value| !matches!(item, Value::Int(0) | Value::Nil);
        let others = items.iter().skip(1).enumerate();
        Members {
            has_base: items.first().is_some_and(is_there),
            others: others.map(|(other, item)| u8::from(is_there(item)) << other).sum(),
        }
    }

    /// The members, sorted by their texts.
    fn sorted(self) -> Value {
        let base = if self.has_base { base() } else { Vec::new() };
        let others = (0..OTHERS).filter(|other| self.others >> other & 1 == 1).map(other);
        let mut all: Vec<Vec<u8>> = base.into_iter().chain(others).collect();
        all.sort();
        Value::Array(all.into_iter().map(Value::Bulk).collect())
    }
}

fn base() -> Vec<Vec<u8>> {
    (0..BASE).map(|member| format!("b{member:0>MEMBER_BYTES$}").into_bytes()).collect()
}

fn other(number: usize) -> Vec<u8> {
    format!("e{number}").into_bytes()
}

impl Large {
    /// The commands that read everything.
    pub fn reads() -> impl Iterator<Item = LargeAct> {
        (0..LARGES).map(LargeAct::Read).chain([LargeAct::ReadStored])
    }

    /// Sets the contents from the answer to one of these reads.
    pub fn learn(&mut self, read: &LargeAct, answer: &Value) {
        match read {
            LargeAct::Read(set) => self.sets[*set] = Members::learn(answer),
            LargeAct::ReadStored => self.stored = Members::learn(answer),
            _ => {}
        }
    }

    fn combine(&self, how: How, of: &[usize]) -> Members {
        let sets = of.iter().map(|set| self.sets[*set]);
        sets.reduce(|one, other| one.with(other, how)).unwrap_or_default()
    }
}

impl LargeAct {
    /// Whether it only reads.
    pub fn only_reads(&self) -> bool {
        use LargeAct::{Card, Diff, Read, ReadStored};
        matches!(self, Card(_) | Diff(..) | Read(_) | ReadStored)
    }

    /// Executes the command, and returns the answer that the server should give.
    pub fn apply(&self, large: &mut Large) -> Value {
        match self {
            LargeAct::Fill(set) => {
                let was_there = std::mem::replace(&mut large.sets[*set].has_base, true);
                Value::Int(if was_there { 0 } else { BASE as i64 })
            }
            LargeAct::Empty(set) => {
                let was_there = std::mem::take(&mut large.sets[*set].has_base);
                Value::Int(if was_there { BASE as i64 } else { 0 })
            }
            LargeAct::Add(set, other) => {
                let others = &mut large.sets[*set].others;
                let before = std::mem::replace(others, *others | 1 << other);
                Value::Int(i64::from(before != *others))
            }
            LargeAct::Remove(set, other) => {
                let others = &mut large.sets[*set].others;
                let before = std::mem::replace(others, *others & !(1 << other));
                Value::Int(i64::from(before != *others))
            }
            LargeAct::Del(set) => {
                let before = std::mem::take(&mut large.sets[*set]);
                Value::Int(i64::from(before != Members::default()))
            }
            LargeAct::Card(of) => large.combine(How::Inter, of).count(),
            LargeAct::Diff(one, two) => large.combine(How::Diff, &[*one, *two]).sorted(),
            LargeAct::Store(how, to, of) => {
                large.sets[*to] = large.combine(*how, of);
                large.sets[*to].count()
            }
            LargeAct::StoreSorted(how, of) => {
                large.stored = large.combine(*how, of);
                large.stored.count()
            }
            LargeAct::Read(set) => {
                let bits = large.sets[*set].bits();
                Value::Array(bits.map(|bit| Value::Int(i64::from(bit))).collect())
            }
            LargeAct::ReadStored => {
                let score = |bit: bool| if bit { Value::Bulk(b"1".to_vec()) } else { Value::Nil };
                Value::Array(large.stored.bits().map(score).collect())
            }
        }
    }

    /// The command as a client sends it.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let name = |set: usize| format!("large:{set}").into_bytes();
        let names = |of: &[usize]| of.iter().map(|set| name(*set)).collect::<Vec<_>>();
        let count = |of: &[usize]| of.len().to_string().into_bytes();
        let word = |text: &str| text.as_bytes().to_vec();
        let all = || [base()[..1].to_vec(), (0..OTHERS).map(other).collect()].concat();
        match self {
            LargeAct::Fill(set) => [vec![word("SADD"), name(*set)], base()].concat(),
            LargeAct::Empty(set) => [vec![word("SREM"), name(*set)], base()].concat(),
            LargeAct::Add(set, one) => vec![word("SADD"), name(*set), other(*one)],
            LargeAct::Remove(set, one) => vec![word("SREM"), name(*set), other(*one)],
            LargeAct::Del(set) => vec![word("DEL"), name(*set)],
            LargeAct::Card(of) => [vec![word("SINTERCARD"), count(of)], names(of)].concat(),
            LargeAct::Diff(one, two) => vec![word("ZDIFF"), word("2"), name(*one), name(*two)],
            LargeAct::Store(how, to, of) => {
                let command = match how {
                    How::Union => "SUNIONSTORE",
                    How::Inter => "SINTERSTORE",
                    How::Diff => "SDIFFSTORE",
                };
                [vec![word(command), name(*to)], names(of)].concat()
            }
            LargeAct::StoreSorted(how, of) => {
                let (command, tail) = match how {
                    How::Union => ("ZUNIONSTORE", vec![word("AGGREGATE"), word("MAX")]),
                    How::Inter => ("ZINTERSTORE", vec![word("AGGREGATE"), word("MAX")]),
                    How::Diff => ("ZDIFFSTORE", Vec::new()),
                };
                [vec![word(command), word(STORED), count(of)], names(of), tail].concat()
            }
            LargeAct::Read(set) => [vec![word("SMISMEMBER"), name(*set)], all()].concat(),
            LargeAct::ReadStored => [vec![word("ZMSCORE"), word(STORED)], all()].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_become_one() {
        let mut large = Large::default();
        let mut check =
            |act: LargeAct, answer| assert_eq!(act.apply(&mut large), answer, "{act:?}");
        let count = |count: usize| Value::Int(count as i64);
        check(LargeAct::Fill(0), count(BASE));
        check(LargeAct::Fill(0), count(0));
        check(LargeAct::Fill(1), count(BASE));
        check(LargeAct::Add(0, 3), count(1));
        check(LargeAct::Add(0, 3), count(0));
        check(LargeAct::Add(1, 5), count(1));
        check(LargeAct::Card(vec![0, 1]), count(BASE));
        check(LargeAct::Diff(0, 1), Value::Array(vec![Value::Bulk(b"e3".to_vec())]));
        check(LargeAct::Store(How::Union, 2, vec![0, 1]), count(BASE + 2));
        check(LargeAct::Remove(2, 3), count(1));
        check(LargeAct::StoreSorted(How::Diff, vec![2, 0]), count(1));
        check(LargeAct::Empty(2), count(BASE));
        check(LargeAct::Empty(2), count(0));
        check(LargeAct::Del(2), count(1));
        check(LargeAct::Del(2), count(0));
        check(LargeAct::StoreSorted(How::Inter, vec![0, 2]), count(0));
    }

    #[test]
    fn what_is_read_is_learnt() {
        let mut large = Large::default();
        for act in [
            LargeAct::Fill(0),
            LargeAct::Add(0, 7),
            LargeAct::Add(2, 0),
            LargeAct::StoreSorted(How::Union, vec![2, 1]),
        ] {
            act.apply(&mut large);
        }
        let mut learnt = Large::default();
        for read in Large::reads() {
            let answer = read.apply(&mut large);
            learnt.learn(&read, &answer);
        }
        assert_eq!(learnt, large);
    }
}
