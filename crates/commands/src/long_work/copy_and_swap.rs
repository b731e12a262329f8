//! Changing a copy of a value and swapping it in, so that a command of many arguments does not hold
//! its partition.
//!
//! ```text
//! lock, copy, watch | free: change the copy | lock, put it in the place of the value
//!                                            ^ changed: once more
//! ```
//!
//! SADD of a million members takes a good part of a second. On the slow lane it builds a new value,
//! or changes a copy of a small one, while its partition is free, and puts it in place if the key
//! has not changed. The key is watched meanwhile, as by WATCH, so writers pay nothing extra. If the
//! key has changed the work begins again; the third time the partition is held.
//!
//! Invariants
//! 1. The watch is set before the partition is freed, and is untouched when the caller gets the
//!    changed value; the partition is held from that check to the end of the command. So the change
//!    happens at that moment.
//! 2. A value that was built in vain is dropped while the partition is free.
//!
//! Copying a large value would take as long as changing it. It is changed itself, taken out of its
//! record, with its partition open to commands on other keys (`keyspace::access::visit`).
//!
//! Not here: transactions and scripts, which hold their partitions to their end; clients with
//! CLIENT TRACKING NOLOOP, whose identity would be lost on the way. Tests: at the foot.

use std::sync::Arc;

use pantala_keyspace::event::KeyEvent;
use pantala_keyspace::{Expiry, Watch};
use pantala_protocol::MANY_ARGS;
use pantala_values::Collection;

use crate::calls::call::{Call, CommandResult, Stop};

/// A larger value is not copied: that takes about a millisecond.
const COPIED_BYTES: usize = 1 << 20;
/// The most attempts with a copy.
const MOST_ATTEMPTS: u32 = 2;

impl Call<'_, '_> {
    /// Whether there are so many arguments that the work may be done in a copy. Always false on a
    /// worker, except in scripts and transactions.
    #[inline]
    pub(crate) fn has_many_args(&self) -> bool {
        self.args.len() > MANY_ARGS
    }

    /// What `act` makes of the collection at the command's first key, or of an empty one if there
    /// is none, and its answer. The caller, for whom the partition is held, puts the collection in
    /// place or drops it; there is none if a large one was changed already, and is back in its
    /// place. `None`: the value is to be changed in place. `act` may run again.
    pub(crate) fn copy_and_swap<C: Collection, R>(
        &mut self,
        mut act: impl FnMut(&mut C) -> R,
    ) -> Result<Option<(Option<C>, R)>, Stop> {
        let key = self.key();
        if self.works_apart::<C>()? {
            return Ok(self.keys.work_apart(key, act).map(|answer| (None, answer)));
        }
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
                return Ok(answer.map(|answer| (Some(value), answer)));
            }
            self.keys.give_way(|| drop(value))?;
        }
        Ok(None)
    }

    /// Whether the value at the command's first key is changed outside its record, with its
    /// partition open to others: the collection is large enough, and the command allows it.
    fn works_apart<C: Collection>(&mut self) -> Result<bool, Stop> {
        let may = self.may_pause() && self.session.tracking.is_none() && self.keys.may_work_apart();
        let key = self.key();
        let is_large =
            |value: Option<&C>| value.is_some_and(|value| value.heap_bytes() > COPIED_BYTES);
        Ok(may && is_large(self.keys.peek(key).collection::<C>()?))
    }

    /// Ends a command of few arguments on the slow lane that may remove many elements from the
    /// collection at its first key, which it has opened before. Returns how many were removed.
    pub(crate) fn remove_long<C: Collection>(
        &mut self,
        event: KeyEvent,
        remove: impl FnOnce(&mut C) -> usize,
    ) -> Result<usize, Stop> {
        let key = self.key();
        let (mut opened, removed);
        if self.works_apart::<C>()? {
            removed = self.keys.work_apart(key, remove).unwrap_or(0);
            opened = self.keys.peek(key);
        } else {
            opened = self.keys.peek(key);
            removed = opened.collection_mut::<C>()?.map_or(0, remove);
        }
        if removed > 0 {
            opened.counts_as(removed);
            opened.publish_collection::<C>(event);
        } else {
            opened.unchanged();
        }
        Ok(removed)
    }

    /// Ends a command that removes many elements from the collection at its first key, which it has
    /// opened before: `remove` does it, and returns how many there were. It may run again.
    pub(crate) fn remove_many<C: Collection>(
        &mut self,
        event: KeyEvent,
        mut remove: impl FnMut(&mut C) -> usize,
    ) -> CommandResult {
        let swapped = self.copy_and_swap(&mut remove)?;
        let mut opened = self.keys.peek(self.key());
        let removed = match swapped {
            Some((Some(value), removed)) if removed > 0 => {
                opened.set_collection(value, Expiry::Keep);
                removed
            }
            Some((_, removed)) => removed,
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

    use pantala_keyspace::{Busy, Inbox, PartitionId, Ticket};
    use pantala_values::Set;
    use parking_lot::Mutex;

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

    /// A name that lies in the same partition as `key`.
    fn neighbour(fixture: &Fixture) -> String {
        let partition_of = |name: &str| PartitionId::of(fixture.space.key(name.as_bytes()).hash);
        let mut names = (0..).map(|number| format!("n{number}"));
        names.find(|name| partition_of(name) == partition_of("key")).expect("there is one")
    }

    /// A command that changes a large value, one that makes it, and how it is read.
    fn large_changes() -> Vec<(String, String, &'static str)> {
        let wide = |command: &str, from: usize, element: &dyn Fn(usize) -> String| {
            let words: Vec<String> = (from..from + 2 * ELEMENTS).map(element).collect();
            format!("{command} {}", words.join(" "))
        };
        let text = |n: usize| format!("m{n:0>400}");
        let pair = |n: usize| format!("f{n} {n:0>400}");
        let scored = |n: usize| format!("{n} m{n:0>400}");
        let field = |n: usize| format!("f{n}");
        let twice = |n: usize| format!("m{:0>400}", n % 2);
        vec![
            (wide("SREM key", 100, &text), wide("SADD key", 0, &text), "SMEMBERS key"),
            (wide("SADD key", 100, &text), wide("SADD key", 0, &text), "SMEMBERS key"),
            (wide("HDEL key", 100, &field), wide("HSET key", 0, &pair), "HGETALL key"),
            (wide("HSET key", 100, &pair), wide("HSET key", 0, &pair), "HGETALL key"),
            (wide("ZREM key", 100, &|n| text(n)), wide("ZADD key", 0, &scored), "ZRANGE key 0 -1"),
            (wide("ZADD key", 100, &scored), wide("ZADD key", 0, &scored), "ZRANGE key 0 -1"),
            ("ZREMRANGEBYRANK key 5 4000".into(), wide("ZADD key", 0, &scored), "ZRANGE key 0 -1"),
            (wide("RPUSH key", 100, &text), wide("RPUSH key", 0, &text), "LRANGE key 0 -1"),
            (format!("LREM key 0 {}", twice(1)), wide("RPUSH key", 0, &twice), "LRANGE key 0 -1"),
        ]
    }

    /// Tries to read the key and to write its neighbour when it is called, which is when the
    /// partition is open, and notes whether it was refused and whether it was let in.
    struct Visits {
        fixture: Arc<Fixture>,
        near: String,
        seen: Mutex<Vec<(bool, bool)>>,
    }

    impl Inbox for Visits {
        fn unpark(&self, _connection: u64, _parking: u32) {
            let is_barred = self.fixture.visit("TYPE key").is_err();
            let is_in = self.fixture.visit(&format!("SET {} value", self.near)) == Ok(Ok(()));
            self.seen.lock().push((is_barred, is_in));
        }

        fn wake(&self) {}
    }

    #[test]
    fn neighbours_run_in_the_midst_of_a_change_of_a_large_value() {
        for (command, first, reading) in large_changes() {
            let (found, expected) = (fixture(), fixture());
            for fixture in [&found, &expected] {
                fixture.answer(&first).expect("it has room");
            }
            let near = neighbour(&found);
            let visits =
                Arc::new(Visits { fixture: Arc::clone(&found), near, seen: Mutex::default() });
            let (done, reply) = found.call(&command, |call| {
                let busy = Busy(PartitionId::of(call.key().hash));
                let inbox = Arc::clone(&visits) as Arc<dyn Inbox>;
                let ticket = Ticket::Connection { inbox, connection: 0, parking: 0 };
                assert!(found.space.park(busy, ticket).is_ok());
                (call.command.handler)(call)
            });
            let seen = std::mem::take(&mut *visits.seen.lock());
            assert_eq!((done, seen), (Ok(()), vec![(true, true)]), "{}", &command[..20]);
            let (held, expected_reply) = expected.call(&command, |call| {
                call.may_wait = false;
                (call.command.handler)(call)
            });
            assert_eq!((held, reply == expected_reply), (Ok(()), true));
            assert_eq!(show(&found, reading), show(&expected, reading));
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
