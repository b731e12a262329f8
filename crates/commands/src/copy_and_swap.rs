//! Changing a copy of a value and swapping it in, so that a command of many arguments does not hold
//! its partition.
//!
//! ```text
//! lock, copy, watch | free: change the copy | lock, put it in the place of the value
//!                                            ^ changed: once more
//! ```
//!
//! SADD of a million members works for a good part of a second. On the slow lane it makes a new
//! value, or changes a copy of a small one, while its partition is free, and puts it there if the
//! key is still as it was: it is watched meanwhile, as WATCH does it, so that writers pay nothing
//! extra. When it has changed the work begins again; the third time the partition is held.
//!
//! Invariants
//! 1. The watch is there before the partition is free, and nothing has touched it when the caller
//!    gets the changed value; the partition is held from that look to the end of the command. So
//!    the change is one of that moment.
//! 2. What is made in vain is freed with the partition free.
//!
//! Not here: transactions and scripts, which hold their partitions to their end; clients that track
//! keys without being told of their own changes, whose name would be lost on the way; large values,
//! which would take as long to copy. Tests: at the foot.

use std::sync::Arc;

use pantala_keyspace::event::Event;
use pantala_keyspace::{Expiry, Watch};
use pantala_protocol::MANY_ARGS;
use pantala_values::Collection;

use crate::call::{Call, Done, Stop};

/// A larger value is changed where it is: copying so much takes about a millisecond.
const COPIED_BYTES: usize = 1 << 20;
/// How often a value is changed in a copy, at most.
const MOST_ATTEMPTS: u32 = 2;

impl Call<'_, '_> {
    /// Whether there are so many arguments that the work may be done in a copy. Always false on a
    /// worker, but in scripts and transactions.
    #[inline]
    pub(crate) fn has_many_args(&self) -> bool {
        self.args.len() > MANY_ARGS
    }

    /// What `act` makes of the collection at the command's first key, of an empty one where there
    /// is none, and what it answers. The caller, for whom the partition is held, puts it there or
    /// leaves it. `None`: it is to be changed where it is. `act` may run again.
    pub(crate) fn copy_and_swap<C: Collection, R>(
        &mut self,
        mut act: impl FnMut(&mut C) -> R,
    ) -> Result<Option<(C, R)>, Stop> {
        let key = self.key();
        for _ in 0..MOST_ATTEMPTS {
            if self.session.tracking.is_some() || !self.may_pause() {
                return Ok(None);
            }
            let mut value = match self.keys.peek(key).collection::<C>()? {
                Some(value) if value.heap_bytes() > COPIED_BYTES => return Ok(None),
                Some(value) => value.duplicate(),
                None => C::default(),
            };
            let watch = Arc::new(Watch::default());
            self.keys.watch(key, &watch);
            let mut answer = None;
            self.keys.give_way(|| answer = Some(act(&mut value)))?;
            if !watch.is_touched() {
                self.keys.unwatch(key, &watch);
                return Ok(answer.map(|answer| (value, answer)));
            }
            self.keys.give_way(|| drop(value))?;
        }
        Ok(None)
    }

    /// The end of a command that removes many elements from the collection at its first key, which
    /// it has opened before: `remove` does it, and says how many there were. It may run again.
    pub(crate) fn remove_many<C: Collection>(
        &mut self,
        event: Event,
        mut remove: impl FnMut(&mut C) -> usize,
    ) -> Done {
        let swapped = self.copy_and_swap(&mut remove)?;
        let mut opened = self.keys.peek(self.key());
        let removed = match swapped {
            Some((_, 0)) => 0,
            Some((value, removed)) => {
                opened.set_collection(value, Expiry::Keep);
                removed
            }
            None => opened.collection_mut::<C>()?.map_or(0, remove),
        };
        match removed {
            0 => opened.unchanged(),
            _ => _ = opened.publish_collection::<C>(event),
        }
        self.reply.int(removed as i64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pantala_values::Set;

    use super::*;
    use crate::test_support::{Fixture, fixture, wait};

    /// More arguments than are sent to the commands that read what was made.
    const ELEMENTS: usize = 3_000;

    /// A command of many arguments, one that makes a small value for it to change, and how the
    /// value is read.
    fn changes() -> Vec<(String, &'static str, &'static str)> {
        let wide = |command: &str, element: &dyn Fn(usize) -> String| {
            let words: Vec<String> = (0..ELEMENTS).map(element).collect();
            format!("{command} {}", words.join(" "))
        };
        let text = |n: usize| format!("m{n}");
        let pair = |n: usize| format!("f{n} v{n}");
        let scored = |n: usize| format!("{} m{n}", n * 7919 % ELEMENTS);
        vec![
            (wide("SADD key", &text), "SADD key m5 old", "SMEMBERS key"),
            (wide("SADD key", &|n| n.to_string()), "SADD key 5 7000", "SMEMBERS key"),
            (wide("SADD key", &|_| "old".to_owned()), "SADD key old", "SMEMBERS key"),
            (wide("RPUSH key", &text), "RPUSH key old", "LRANGE key 0 -1"),
            (wide("LPUSH key", &text), "RPUSH key old", "LRANGE key 0 -1"),
            (wide("HSET key", &pair), "HSET key f7 x old y", "HGETALL key"),
            (wide("HMSET key", &pair), "HSET key f7 x old y", "HGETALL key"),
            (wide("ZADD key", &scored), "ZADD key 77 m7 3 old", "ZRANGE key 0 -1 WITHSCORES"),
            (wide("SREM key", &text), "SADD key m5 m6 old", "SMEMBERS key"),
            (wide("SREM key", &text), "SADD key m5 m6", "SMEMBERS key"),
            (wide("HDEL key", &|n| format!("f{n}")), "HSET key f7 x old y", "HGETALL key"),
            (wide("ZREM key", &text), "ZADD key 77 m7 3 old", "ZRANGE key 0 -1 WITHSCORES"),
            (wide("ZADD key XX CH", &scored), "ZADD key 77 m7 3 old", "ZRANGE key 0 -1"),
        ]
    }

    fn show(fixture: &Fixture, reading: &str) -> Vec<String> {
        let shown = fixture.answer(reading).map(|shown| shown.lines().map(str::to_owned).collect());
        let mut shown: Vec<String> = shown.unwrap_or_else(|stop| vec![format!("{stop:?}")]);
        if !reading.starts_with("LRANGE") {
            shown.sort_unstable();
        }
        shown
    }

    /// What `command` answers, with a neighbour that runs `other` as soon as it may, and whether
    /// that was in its middle.
    fn beside(fixture: &Arc<Fixture>, command: &str, other: &str) -> (Result<String, Stop>, bool) {
        let ran = Arc::new(AtomicUsize::new(0));
        let (done, reply) = fixture.call(command, |call| {
            wait(fixture, call.key(), other, &ran);
            (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed) == 1)
        });
        let in_the_midst = done == Ok(true);
        (done.map(|_| String::from_utf8(reply).expect("text")), in_the_midst)
    }

    #[test]
    fn others_run_meanwhile_and_what_is_made_is_the_same() {
        for (command, small, reading) in changes() {
            for first in [small, "TYPE key"] {
                if command.contains("XX") && first != small {
                    continue;
                }
                let (found, expected) = (fixture(), fixture());
                for fixture in [&found, &expected] {
                    fixture.answer(first).expect("it has room");
                }
                let (answer, in_the_midst) = beside(&found, &command, "TYPE key");
                assert!(in_the_midst, "nobody ran in the midst of {}", &command[..20]);
                let (held, _) = expected.call(&command, |call| {
                    call.may_wait = false;
                    (call.command.handler)(call)
                });
                assert_eq!(held, Ok(()));
                assert_eq!(show(&found, reading), show(&expected, reading));
                let encoding = "OBJECT ENCODING key";
                assert_eq!(found.answer(encoding), expected.answer(encoding));
                assert!(answer.is_ok());
            }
        }
    }

    #[test]
    fn a_key_that_changes_meanwhile_is_changed_as_it_is_then() {
        for (command, small, reading) in changes() {
            for (first, change) in [
                (small, "DEL key"),
                (small, "SET key text"),
                ("TYPE key", small),
                ("TYPE key", "SET key text"),
                (small, small),
            ] {
                let (found, expected) = (fixture(), fixture());
                for fixture in [&found, &expected] {
                    fixture.answer(first).expect("it has room");
                }
                let (answer, _) = beside(&found, &command, change);
                expected.answer(change).expect("it is none that fails");
                assert_eq!(answer, expected.answer(&command), "{first}, {change}");
                assert_eq!(show(&found, reading), show(&expected, reading), "{first}, {change}");
            }
        }
    }

    #[test]
    fn what_always_changes_is_changed_where_it_is() {
        let fixture = fixture();
        let mut begun = 0;
        let (made, _) = fixture.call("SADD key member", |call| {
            call.copy_and_swap(|set: &mut Set| {
                begun += 1;
                assert_eq!(set.view().len(), begun - 1);
                fixture.answer(&format!("SADD key new{begun}")).expect("it has room");
            })
            .map(|made| made.is_some())
        });
        assert_eq!((made, begun), (Ok(false), MOST_ATTEMPTS as usize));
    }

    #[test]
    fn a_transaction_keeps_its_partitions() {
        for (command, ..) in changes() {
            let (fixture, ran) = (fixture(), Arc::new(AtomicUsize::new(0)));
            let (ran, _) = fixture.call(&command, |call| {
                call.may_wait = false;
                wait(&fixture, call.key(), "TYPE key", &ran);
                (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
            });
            assert_eq!(ran, Ok(0));
        }
    }

    #[test]
    fn nobody_watches_the_key_behind_it() {
        let fixture = fixture();
        for (command, ..) in changes() {
            fixture.answer("DEL key").expect("it is none that fails");
            let (answer, _) = beside(&fixture, &command, "TYPE key");
            assert!(answer.is_ok());
            let (is_empty, _) = fixture.call("TYPE key", |call| {
                let key = call.key();
                call.keys.waiters(key.hash).is_empty()
            });
            assert!(is_empty, "{}", &command[..20]);
        }
    }
}
