//! Makes the random commands that the clients are to send.

use crate::differ::random::Random;
use crate::serial::kinds::{KindAct, LISTS, STREAMS, ZSETS};
use crate::serial::large::{How, LARGES, LargeAct, OTHERS};
use crate::serial::model::{Act, KEYS};
use crate::serial::programs::{Declares, Program, fits_script};

/// Makes random commands; every value that it writes is different from all others.
pub struct Maker {
    random: Random,
    written: u64,
    with_scripts: bool,
}

/// Of this many commands, one swaps the databases and one empties them.
const RARELY: usize = 60;
/// Each script exists in this many variants, which a server cannot recognise as the same script.
const EDITIONS: usize = 40;

impl Maker {
    /// A maker that makes the same commands for the same seed.
    pub fn new(seed: u64, with_scripts: bool) -> Maker {
        Maker { random: Random::new(seed), written: 0, with_scripts }
    }

    /// The random numbers, for other random choices of a run.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// A value: a number so far from others that INCR does not reach them, or a text.
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

    /// At least two different keys, in any order.
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

    /// A command on lists: pushes are more frequent than pops.
    fn list_act(&mut self) -> KindAct {
        let list = self.random.below(LISTS);
        let other = (list + self.random.below(LISTS)) % LISTS;
        match self.random.below(12) {
            0..4 => {
                KindAct::Push(list, (0..1 + self.random.below(3)).map(|_| self.value()).collect())
            }
            4 => KindAct::Pop(list),
            5 => KindAct::Range(list),
            6 => KindAct::Move(list, other),
            7 => KindAct::AwaitPop(vec![list]),
            8 | 9 if list != other => KindAct::AwaitPop(vec![list, other]),
            10 | 11 if list != other => KindAct::RenameList(list, other),
            _ => KindAct::AwaitMove(list, other),
        }
    }

    /// A command on sorted sets or streams.
    fn other_act(&mut self) -> KindAct {
        let (zset, stream) = (self.random.below(ZSETS), self.random.below(STREAMS));
        match self.random.below(16) {
            0..4 => {
                let member = |this: &mut Maker| (this.random.below(4) as i64, this.value());
                let count = 1 + self.random.below(3);
                KindAct::ZAdd(zset, (0..count).map(|_| member(self)).collect())
            }
            4 => KindAct::ZPop(zset),
            5 => KindAct::ZRange(zset),
            6 => KindAct::AwaitZPop(vec![zset]),
            7..9 => KindAct::AwaitZPop(vec![zset, (zset + 1) % ZSETS]),
            9 => KindAct::ZDel(zset),
            10..12 => KindAct::XAdd(stream, self.id()),
            12 => KindAct::XRange(stream),
            13 => KindAct::XDel(stream),
            _ => {
                let back = self.random.below(6) as u64;
                KindAct::AwaitRead(stream, self.written.saturating_sub(back))
            }
        }
    }

    /// A command on large sets.
    fn large_act(&mut self) -> LargeAct {
        let set = self.random.below(LARGES);
        let other = self.random.below(OTHERS);
        let how = *self.random.pick(&[How::Union, How::Inter, How::Diff]);
        let of = |this: &mut Maker| {
            let first = this.random.below(LARGES);
            let count = 2 + this.random.below(LARGES - 1);
            (0..count).map(|nth| (first + nth) % LARGES).collect::<Vec<usize>>()
        };
        match self.random.below(16) {
            0 | 1 => LargeAct::Fill(set),
            2 => LargeAct::Empty(set),
            3..7 => LargeAct::Add(set, other),
            7..9 => LargeAct::Remove(set, other),
            9 if self.random.once_in(4) => LargeAct::Del(set),
            9 | 10 => LargeAct::Card(of(self)),
            11 => LargeAct::Diff(set, (set + 1) % LARGES),
            12 | 13 => LargeAct::Store(how, set, of(self)),
            _ => LargeAct::StoreSorted(how, of(self)),
        }
    }

    fn id(&mut self) -> u64 {
        self.written += 1;
        self.written
    }

    /// The next command.
    fn act(&mut self) -> Act {
        if self.random.once_in(RARELY) {
            return if self.random.once_in(2) { Act::SwapDb } else { Act::FlushAll };
        }
        match self.random.below(7) {
            0 | 1 => return Act::On(self.list_act()),
            2 => return Act::On(self.other_act()),
            3 => return Act::On(KindAct::Large(self.large_act())),
            _ => {}
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

    fn declares(&mut self) -> Declares {
        *self.random.pick(&[Declares::Nothing, Declares::First, Declares::All, Declares::All])
    }

    fn script(&mut self) -> Program {
        let (declares, edition) = (self.declares(), self.random.below(EDITIONS));
        if self.random.once_in(3) {
            let (first, from) = (self.key(), self.key());
            let (value, second) = (self.value(), self.value());
            return Program::Undeclared { first, value, from, second, declares, edition };
        }
        let count = 1 + self.random.below(4);
        let acts = (0..count).map(|_| self.act()).filter(fits_script).collect();
        Program::Script { acts, declares, stops: self.random.once_in(2), edition }
    }

    fn together(&mut self) -> Program {
        let count = 1 + self.random.below(4);
        let act = |this: &mut Maker| match this.with_scripts && this.random.once_in(8) {
            true => Act::Program(this.script()),
            false => this.act(),
        };
        Program::Together((0..count).map(|_| act(self)).collect())
    }

    /// The next commands of a client: one, or several that belong together.
    pub fn acts(&mut self) -> Vec<Act> {
        match self.random.below(16) {
            0 | 1 => vec![Act::Program(self.together())],
            2 => {
                let mut acts = vec![Act::Watch(self.keys())];
                acts.extend((0..self.random.below(3)).map(|_| self.act()));
                acts.push(match self.random.once_in(8) {
                    true => Act::Unwatch,
                    false => Act::Program(self.together()),
                });
                acts
            }
            3..6 if self.with_scripts => vec![Act::Program(self.script())],
            _ => vec![self.act()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_never_written_twice() {
        let mut maker = Maker::new(1, true);
        let mut values: Vec<Vec<u8>> = (0..1000).map(|_| maker.value()).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 1000);
    }
}
