//! The lists, sorted sets and streams of a run, and the blocking commands on them.

use crate::serial::large::{Large, LargeAct};
use crate::serial::model::{bulk, error};
use crate::value::Value;

/// Keys of lists in each database.
pub const LISTS: usize = 3;
/// Keys of sorted sets.
pub const ZSETS: usize = 2;
/// Keys of streams.
pub const STREAMS: usize = 2;
/// How long a command waits, in seconds.
const TIMEOUT: &str = "0.005";
/// How long a command waits, in milliseconds.
const PATIENCE_MS: &str = "5";

const NO_SUCH_KEY: &str = "ERR no such key";
const ID_TOO_SMALL: &str =
    "ERR The ID specified in XADD is equal or smaller than the target stream top item";

/// The contents of these keys in a database; an empty collection is a key that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds {
    /// Elements from left to right.
    pub lists: [Vec<Vec<u8>>; LISTS],
    /// Scores and members in order.
    pub zsets: [Vec<(i64, Vec<u8>)>; ZSETS],
    /// The first parts of the ids, ascending. Entries are only removed all at once.
    pub streams: [Vec<u64>; STREAMS],
    /// Large sets.
    pub large: Large,
}

/// A command on these types; a key is a number below the count of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindAct {
    /// `RPUSH`
    Push(usize, Vec<Vec<u8>>),
    /// `LPOP`
    Pop(usize),
    /// `LRANGE 0 -1`
    Range(usize),
    /// `LMOVE LEFT RIGHT`
    Move(usize, usize),
    /// `BLPOP`
    AwaitPop(Vec<usize>),
    /// `BLMOVE LEFT RIGHT`
    AwaitMove(usize, usize),
    /// `RENAME`
    RenameList(usize, usize),
    /// `ZADD`
    ZAdd(usize, Vec<(i64, Vec<u8>)>),
    /// `ZPOPMIN`
    ZPop(usize),
    /// `ZRANGE 0 -1 WITHSCORES`
    ZRange(usize),
    /// `BZPOPMIN`
    AwaitZPop(Vec<usize>),
    /// `XADD` with this id
    XAdd(usize, u64),
    /// `XRANGE - +`
    XRange(usize),
    /// `XREAD BLOCK` for entries after this id
    AwaitRead(usize, u64),
    /// `DEL` of a sorted set
    ZDel(usize),
    /// `DEL` of a stream
    XDel(usize),
    /// A command on large sets.
    Large(LargeAct),
}

fn list_name(list: usize) -> String {
    format!("list:{list}")
}

fn zset_name(zset: usize) -> String {
    format!("zset:{zset}")
}

fn stream_name(stream: usize) -> String {
    format!("stream:{stream}")
}

fn text(text: impl Into<String>) -> Value {
    Value::Bulk(text.into().into_bytes())
}

impl KindAct {
    /// Whether it may block.
    pub fn waits(&self) -> bool {
        use KindAct::{AwaitMove, AwaitPop, AwaitRead, AwaitZPop};
        matches!(self, AwaitMove(..) | AwaitPop(_) | AwaitRead(..) | AwaitZPop(_))
    }

    /// Whether it only reads.
    pub fn only_reads(&self) -> bool {
        use KindAct::{AwaitRead, Large, Range, XRange, ZRange};
        match self {
            Large(act) => act.only_reads(),
            _ => matches!(self, AwaitRead(..) | Range(_) | XRange(_) | ZRange(_)),
        }
    }

    /// Executes the command, and returns the answer that the server should give.
    pub fn apply(&self, kinds: &mut Kinds) -> Value {
        let lists = &mut kinds.lists;
        match self {
            KindAct::Push(list, elements) => {
                lists[*list].extend_from_slice(elements);
                Value::Int(lists[*list].len() as i64)
            }
            KindAct::Pop(list) => bulk(pop(&mut lists[*list])),
            KindAct::Range(list) => {
                Value::Array(lists[*list].iter().cloned().map(Value::Bulk).collect())
            }
            KindAct::Move(from, to) => bulk(shift(lists, *from, *to)),
            KindAct::AwaitMove(from, to) => {
                shift(lists, *from, *to).map_or(Value::NilArray, Value::Bulk)
            }
            KindAct::AwaitPop(of) => {
                let found = of.iter().find(|list| !lists[**list].is_empty());
                let popped = found.and_then(|list| Some((*list, pop(&mut lists[*list])?)));
                popped.map_or(Value::NilArray, |(list, element)| {
                    Value::Array(vec![text(list_name(list)), Value::Bulk(element)])
                })
            }
            KindAct::RenameList(from, _) if lists[*from].is_empty() => error(NO_SUCH_KEY),
            KindAct::RenameList(from, to) => {
                lists[*to] = std::mem::take(&mut lists[*from]);
                Value::Simple(b"OK".to_vec())
            }
            KindAct::Large(act) => act.apply(&mut kinds.large),
            other => other.apply_to_others(kinds),
        }
    }

    fn apply_to_others(&self, kinds: &mut Kinds) -> Value {
        let zsets = &mut kinds.zsets;
        match self {
            KindAct::ZAdd(zset, members) => {
                zsets[*zset].extend_from_slice(members);
                zsets[*zset].sort();
                Value::Int(members.len() as i64)
            }
            KindAct::ZPop(zset) => {
                let lowest = pop(&mut zsets[*zset]);
                Value::Array(lowest.map_or_else(Vec::new, |(score, member)| {
                    vec![Value::Bulk(member), text(score.to_string())]
                }))
            }
            KindAct::AwaitZPop(of) => {
                let found = of.iter().find(|zset| !zsets[**zset].is_empty());
                let lowest = found.and_then(|zset| Some((*zset, pop(&mut zsets[*zset])?)));
                lowest.map_or(Value::NilArray, |(zset, (score, member))| {
                    let name = text(zset_name(zset));
                    Value::Array(vec![name, Value::Bulk(member), text(score.to_string())])
                })
            }
            KindAct::ZRange(zset) => {
                let flat = zsets[*zset].iter().flat_map(|(score, member)| {
                    [Value::Bulk(member.clone()), text(score.to_string())]
                });
                Value::Array(flat.collect())
            }
            KindAct::ZDel(zset) => {
                Value::Int(i64::from(!std::mem::take(&mut zsets[*zset]).is_empty()))
            }
            other => other.apply_to_streams(&mut kinds.streams),
        }
    }

    fn apply_to_streams(&self, streams: &mut [Vec<u64>; STREAMS]) -> Value {
        match self {
            KindAct::XAdd(stream, id) => {
                if streams[*stream].last().is_some_and(|last| last >= id) {
                    return error(ID_TOO_SMALL);
                }
                streams[*stream].push(*id);
                text(format!("{id}-0"))
            }
            KindAct::XRange(stream) => entries(&streams[*stream]),
            KindAct::AwaitRead(stream, behind) => {
                let at = streams[*stream].partition_point(|id| id <= behind);
                match &streams[*stream][at..] {
                    [] => Value::NilArray,
                    new => Value::Array(vec![Value::Array(vec![
                        text(stream_name(*stream)),
                        entries(new),
                    ])]),
                }
            }
            KindAct::XDel(stream) => {
                Value::Int(i64::from(!std::mem::take(&mut streams[*stream]).is_empty()))
            }
            _ => Value::Nil,
        }
    }

    /// The command as a client sends it.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let words = |head: &[&str], names: Vec<String>, tail: &[&str]| -> Vec<Vec<u8>> {
            let word = |text: &&str| text.as_bytes().to_vec();
            let names = names.into_iter().map(String::into_bytes);
            head.iter().map(word).chain(names).chain(tail.iter().map(word)).collect()
        };
        let lists = |of: &[usize]| of.iter().map(|list| list_name(*list)).collect();
        let zsets = |of: &[usize]| of.iter().map(|zset| zset_name(*zset)).collect();
        match self {
            KindAct::Push(list, elements) => {
                [words(&["RPUSH"], lists(&[*list]), &[]), elements.clone()].concat()
            }
            KindAct::Pop(list) => words(&["LPOP"], lists(&[*list]), &[]),
            KindAct::Range(list) => words(&["LRANGE"], lists(&[*list]), &["0", "-1"]),
            KindAct::Move(from, to) => words(&["LMOVE"], lists(&[*from, *to]), &["LEFT", "RIGHT"]),
            KindAct::AwaitPop(of) => words(&["BLPOP"], lists(of), &[TIMEOUT]),
            KindAct::AwaitMove(from, to) => {
                words(&["BLMOVE"], lists(&[*from, *to]), &["LEFT", "RIGHT", TIMEOUT])
            }
            KindAct::RenameList(from, to) => words(&["RENAME"], lists(&[*from, *to]), &[]),
            KindAct::ZAdd(zset, members) => {
                let pairs = members
                    .iter()
                    .flat_map(|(score, member)| [score.to_string().into_bytes(), member.clone()]);
                [words(&["ZADD"], zsets(&[*zset]), &[]), pairs.collect()].concat()
            }
            KindAct::ZPop(zset) => words(&["ZPOPMIN"], zsets(&[*zset]), &[]),
            KindAct::ZRange(zset) => {
                words(&["ZRANGE"], zsets(&[*zset]), &["0", "-1", "WITHSCORES"])
            }
            KindAct::AwaitZPop(of) => words(&["BZPOPMIN"], zsets(of), &[TIMEOUT]),
            KindAct::ZDel(zset) => words(&["DEL"], zsets(&[*zset]), &[]),
            KindAct::XAdd(stream, id) => {
                words(&["XADD"], vec![stream_name(*stream)], &[&format!("{id}-0"), "f", "v"])
            }
            KindAct::XRange(stream) => words(&["XRANGE"], vec![stream_name(*stream)], &["-", "+"]),
            KindAct::AwaitRead(stream, behind) => words(
                &["XREAD", "BLOCK", PATIENCE_MS, "STREAMS"],
                vec![stream_name(*stream)],
                &[&format!("{behind}-0")],
            ),
            KindAct::XDel(stream) => words(&["DEL"], vec![stream_name(*stream)], &[]),
            KindAct::Large(act) => act.words(),
        }
    }
}

fn entries(ids: &[u64]) -> Value {
    let entry = |id: &u64| {
        Value::Array(vec![text(format!("{id}-0")), Value::Array(vec![text("f"), text("v")])])
    };
    Value::Array(ids.iter().map(entry).collect())
}

fn pop<T>(items: &mut Vec<T>) -> Option<T> {
    (!items.is_empty()).then(|| items.remove(0))
}

fn shift(lists: &mut [Vec<Vec<u8>>; LISTS], from: usize, to: usize) -> Option<Vec<u8>> {
    let element = pop(&mut lists[from])?;
    lists[to].push(element.clone());
    Some(element)
}

impl Kinds {
    /// The commands that read everything, in the order of `learn`.
    pub fn reads() -> Vec<KindAct> {
        let lists = (0..LISTS).map(KindAct::Range);
        let zsets = (0..ZSETS).map(KindAct::ZRange);
        let streams = (0..STREAMS).map(KindAct::XRange);
        lists.chain(zsets).chain(streams).chain(Large::reads().map(KindAct::Large)).collect()
    }

    /// Sets the contents from the answer to one of these reads.
    pub fn learn(&mut self, read: &KindAct, answer: &Value) {
        if let KindAct::Large(read) = read {
            return self.large.learn(read, answer);
        }
        let Value::Array(items) = answer else { return };
        let plain = |value: &Value| match value {
            Value::Bulk(text) => text.clone(),
            _ => Vec::new(),
        };
        let number = |text: &[u8]| -> u64 {
            let digits = text.split(|byte| *byte == b'-').next().unwrap_or_default();
            std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        match read {
            KindAct::Range(list) => self.lists[*list] = items.iter().map(plain).collect(),
            KindAct::ZRange(zset) => {
                let pair = |two: &[Value]| (number(&plain(&two[1])) as i64, plain(&two[0]));
                self.zsets[*zset] = items.chunks_exact(2).map(pair).collect();
            }
            KindAct::XRange(stream) => {
                let id = |entry: &Value| match entry {
                    Value::Array(fields) => fields.first().map_or(0, |id| number(&plain(id))),
                    _ => 0,
                };
                self.streams[*stream] = items.iter().map(id).collect();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_learnt() {
        let mut kinds = Kinds::default();
        KindAct::Push(1, vec![b"a".to_vec(), b"b".to_vec()]).apply(&mut kinds);
        KindAct::ZAdd(0, vec![(3, b"x".to_vec()), (1, b"y".to_vec())]).apply(&mut kinds);
        KindAct::XAdd(1, 7).apply(&mut kinds);
        KindAct::XAdd(1, 9).apply(&mut kinds);
        let mut learnt = Kinds::default();
        for read in Kinds::reads() {
            let answer = read.apply(&mut kinds);
            learnt.learn(&read, &answer);
        }
        assert_eq!(learnt, kinds);
    }

    #[test]
    fn what_waits_takes_what_is_there() {
        let mut kinds = Kinds::default();
        let mut check = |act: KindAct, answer| assert_eq!(act.apply(&mut kinds), answer, "{act:?}");
        check(KindAct::AwaitZPop(vec![0, 1]), Value::NilArray);
        check(KindAct::ZAdd(1, vec![(2, b"m".to_vec())]), Value::Int(1));
        let lowest = vec![text("zset:1"), text("m"), text("2")];
        check(KindAct::AwaitZPop(vec![0, 1]), Value::Array(lowest));
        check(KindAct::ZPop(1), Value::Array(Vec::new()));
        check(KindAct::AwaitRead(0, 3), Value::NilArray);
        check(KindAct::XAdd(0, 5), text("5-0"));
        check(KindAct::XAdd(0, 5), error(ID_TOO_SMALL));
        check(KindAct::AwaitRead(0, 5), Value::NilArray);
        let read = Value::Array(vec![text("stream:0"), entries(&[5])]);
        check(KindAct::AwaitRead(0, 4), Value::Array(vec![read]));
        check(KindAct::XDel(0), Value::Int(1));
        check(KindAct::XAdd(0, 5), text("5-0"));
    }
}
