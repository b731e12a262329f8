//! Random elements: SRANDMEMBER, HRANDFIELD and ZRANDMEMBER with a count.
//!
//! All are read in steps (`incremental.rs`), so that a large count does not hold the partition. A
//! negative count may draw an element more than once, without an end of its own: such a reply has a
//! limit, and one that is sure to exceed it is refused before it begins.
//!
//! Tests: at the foot, and in `incremental.rs`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use pantala_base::rng::Rng;
use pantala_keyspace::{Key, Locked, OpenKey};
use pantala_values::Collection;

use crate::calls::call::{Call, CommandResult, Stop};
use crate::error;
use crate::long_work::incremental::{Aggregate, Header, WorkStep};

/// The longest reply, however many elements are asked for.
const MOST_REPLY_BYTES: usize = 512 << 20;
/// The bytes of the shortest element of a reply: the empty text.
const LEAST_ELEMENT_BYTES: usize = "$0\r\n\r\n".len();
/// The most different elements drawn at once, if that is quicker than looking at all.
const MOST_AT_ONCE: usize = 1000;

/// Whether `count` different elements of `all` are drawn one by one.
#[inline]
pub fn are_few(count: usize, all: usize) -> bool {
    count <= MOST_AT_ONCE && count.saturating_mul(3) <= all
}

impl<'c, 'k> Call<'c, 'k> {
    /// Draws `count` times from the collection at the command's first key. `check` looks at it
    /// first. `draw` writes at most the given number of draws, while the step has room, and returns
    /// how many it wrote; if fewer while there is room, there is nothing to draw. `each` is how
    /// many elements of the reply a draw has.
    pub(crate) fn draw_repeatedly<C: Collection>(
        &mut self,
        open: impl for<'l> FnOnce(&'l mut Locked<'k>, Key<'l>) -> Result<OpenKey<'l, 'k>, Stop>,
        (count, each): (usize, usize),
        check: impl Fn() -> Result<(), Stop>,
        mut draw: impl FnMut(&C, usize, &mut WorkStep<'_, 'c>) -> usize,
    ) -> CommandResult {
        let most_bytes = self.reply.len() + MOST_REPLY_BYTES;
        let most_bytes = most_bytes.min(self.most_output_bytes());
        let is_too_long = count.saturating_mul(LEAST_ELEMENT_BYTES) > most_bytes;
        let read = self.read_whole(
            open,
            |_, reply| {
                if is_too_long {
                    return Err(error::OUT_OF_RANGE.into());
                }
                check()?;
                Ok((count, Header::later(reply)))
            },
            |value, (left, mut header), step| {
                let drawn = draw(value, left, step);
                header.count += drawn * each;
                if step.reply.len() > most_bytes {
                    return ControlFlow::Break(Err(error::OUT_OF_RANGE));
                }
                match left - drawn {
                    left if left > 0 && !step.has_room() => ControlFlow::Continue((left, header)),
                    _ => ControlFlow::Break(Ok(header)),
                }
            },
        )?;
        match read {
            Some(header) => header?.end(Aggregate::Array, &mut self.reply),
            None => self.reply.array(0),
        }
        Ok(())
    }
}

/// Picks some of a number of elements met one after the other, each selection equally likely:
/// selection sampling (Knuth, volume 2, 3.4.2, algorithm S).
pub struct Selection {
    to_pick: usize,
    to_meet: usize,
    in_step: usize,
}

impl Selection {
    /// The most elements met in a step.
    const STEP: usize = 4000;

    pub fn new(to_pick: usize, all: usize) -> Selection {
        Selection { to_pick: to_pick.min(all), to_meet: all, in_step: 0 }
    }

    /// Whether the next element is picked.
    #[inline]
    pub fn picks(&mut self, chance: &mut Rng) -> bool {
        let picks = chance.below(self.to_meet.max(1) as u64) < self.to_pick as u64;
        self.to_meet = self.to_meet.saturating_sub(1);
        self.to_pick -= usize::from(picks);
        self.in_step += 1;
        picks
    }

    /// Whether enough was picked.
    pub fn is_done(&self) -> bool {
        self.to_pick == 0
    }

    /// Whether the step has room for one more element.
    #[inline]
    pub fn goes_on(&self, step: &WorkStep<'_, '_>) -> bool {
        !self.is_done() && self.in_step < Self::STEP && step.has_room()
    }

    /// Begins a step.
    pub fn begin_step(&mut self) {
        self.in_step = 0;
    }
}

/// Some of the numbers below `all` in random order, each order of each selection equally likely:
/// the shuffle of Fisher and Yates (Knuth, volume 2, 3.4.2, algorithm P), which stores only numbers
/// that have moved.
pub struct Shuffle {
    at: usize,
    count: usize,
    all: usize,
    moved: HashMap<usize, usize>,
}

impl Shuffle {
    pub fn new(count: usize, all: usize) -> Shuffle {
        let count = count.min(all);
        // At most about a fifth of all numbers has moved, so the map never grows.
        let moved = HashMap::with_capacity(count.min(all / 4 + 64));
        Shuffle { at: 0, count, all, moved }
    }

    /// The next number; `None` at the end.
    pub fn next(&mut self, chance: &mut Rng) -> Option<usize> {
        let at = (self.at < self.count).then_some(self.at)?;
        self.at += 1;
        let drawn = at + chance.below((self.all - at) as u64) as usize;
        let here = self.moved.remove(&at).unwrap_or(at);
        if drawn == at {
            return Some(here);
        }
        Some(self.moved.insert(drawn, here).unwrap_or(drawn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::fixture;

    #[test]
    fn what_is_too_long_is_refused_before_it_begins() {
        let fixture = fixture();
        for fill in ["SADD s a b", "HSET h a b", "ZADD z 1 a"] {
            fixture.answer(fill).expect("it has room");
        }
        for command in [
            "SRANDMEMBER s -4611686018427387000",
            "HRANDFIELD h -4611686018427387000",
            "ZRANDMEMBER z -4611686018427387000",
            "ZRANDMEMBER z -4611686018427387000 WITHSCORES",
        ] {
            let (done, written) = fixture.call(command, |call| (call.command.handler)(call));
            assert_eq!(done, Err(Stop::Error(error::OUT_OF_RANGE)), "{command}");
            assert!(written.is_empty(), "{command}");
            let absent = command.replacen(" s ", " t ", 1);
            let absent = absent.replacen(" h ", " t ", 1).replacen(" z ", " t ", 1);
            assert_eq!(fixture.answer(&absent), Ok("*0\r\n".to_owned()));
        }
    }

    #[test]
    fn a_selection_is_as_large_as_it_is_wished_and_fair() {
        let mut chance = Rng::from_seed(1);
        let mut picked = [0; 10];
        for _ in 0..10_000 {
            let mut selection = Selection::new(3, picked.len());
            let mut count = 0;
            for times in &mut picked {
                if selection.picks(&mut chance) {
                    *times += 1;
                    count += 1;
                }
            }
            assert_eq!(count, 3);
        }
        assert!(picked.iter().all(|times| (2_800..3_200).contains(times)), "{picked:?}");
    }

    #[test]
    fn a_shuffle_shows_each_number_once_and_is_fair() {
        let mut chance = Rng::from_seed(1);
        let mut at_place = [[0; 4]; 4];
        for count in [0, 1, 4, 9] {
            for _ in 0..10_000 {
                let mut shuffle = Shuffle::new(count, 4);
                let mut shown = Vec::new();
                while let Some(one) = shuffle.next(&mut chance) {
                    at_place[shown.len()][one] += usize::from(count == 9);
                    shown.push(one);
                }
                assert_eq!(shown.len(), count.min(4));
                shown.sort_unstable();
                shown.dedup();
                assert_eq!(shown.len(), count.min(4));
            }
        }
        let is_fair = |times: &usize| (2_300..2_700).contains(times);
        assert!(at_place.as_flattened().iter().all(is_fair), "{at_place:?}");
    }
}
