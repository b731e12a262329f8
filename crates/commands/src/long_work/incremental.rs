//! Reading whole values in steps, so that a large one does not hold its partition.
//!
//! ```text
//! lock, open, begin | step | step ...              in one go: on a worker, in a transaction
//! lock, open, begin, step, watch | free | lock, step | free | ... | lock, last step
//!                                             ^ changed: once more from its beginning
//! ```
//!
//! [`Call::read_whole`] reads one value. [`Call::gather`] derives something from several (SUNION,
//! ZINTERSTORE, SORT): one watch is for all their keys, and slow work that needs no value any more
//! (sorting, building the result) is done with the partitions free. Then all are taken again, and
//! if nothing has changed the result is put in its place.
//!
//! SMEMBERS of ten million members copies for most of a second. On the slow lane it frees the
//! partition after each step, and waiting commands are served. The key is watched meanwhile, as by
//! WATCH, so writers pay nothing extra. If it has changed, what was written is dropped and the
//! reading begins again; the third reading holds the partition to its end.
//!
//! Invariants
//! 1. The reply is the value at one moment: that of the last step, since no key has changed between
//!    the first step and then. A stored result is of the moment at which it is stored.
//! 2. The watch is set before the partitions are first freed, and is checked with all of them held.
//! 3. The reply grows while the partition is free, and so does its header, which is inserted at the
//!    end ([`Call::read_whole`]).
//! 4. `now` is the same for all steps: what expires meanwhile is included, unless it is removed,
//!    which is a change.
//!
//! Not here: transactions and scripts, which hold their partitions to their end; small encodings,
//! which are read in one step. Tests: at the foot.

use std::ops::ControlFlow;
use std::sync::Arc;

use pantala_keyspace::{Aborted, Key, Locked, OpenKey, Watch, WatchSet};
use pantala_protocol::{Reply, ReplyMark};
use pantala_values::Collection;

use crate::calls::call::{Call, Lane, Stop};
use crate::rows::command::Flags;

/// About the bytes that a step adds to the reply: one to three thousand short elements, and 50 to
/// 200 microseconds.
const STEP_BYTES: usize = 64 << 10;

/// A step of gathering, in short elements: each may be looked up elsewhere, or put into a table.
const STEP_ELEMENTS: usize = 500;

/// More keys than this are watched together, and may be read as the steps come to them
/// ([`GatherState::PartOf`]).
const MANY_KEYS: usize = 256;

/// A longer element counts as several.
const SHORT_BYTES: usize = 256;

/// How often a reading begins again at most.
const MOST_RESTARTS: u32 = 2;

/// The reply, in one step.
pub struct WorkStep<'r, 'o> {
    /// The reply.
    pub reply: &'r mut Reply<'o>,
    end: usize,
}

impl<'r, 'o> WorkStep<'r, 'o> {
    fn new(reply: &'r mut Reply<'o>) -> Self {
        let end = reply.len().saturating_add(STEP_BYTES);
        WorkStep { reply, end }
    }

    /// Whether the step has room for one more element.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.reply.len() < self.end && !self.reply.is_over()
    }
}

/// The rest of a step that is measured in elements.
pub struct Budget {
    left: usize,
}

impl Budget {
    /// The budget of one step.
    pub(crate) fn of_step() -> Budget {
        Budget { left: STEP_ELEMENTS }
    }

    /// Finding this many keys again takes part of each step, so the step is longer.
    fn beside(keys: usize) -> Budget {
        Budget { left: STEP_ELEMENTS.max(keys) }
    }

    /// An unlimited budget.
    pub(crate) fn for_all() -> Budget {
        Budget { left: usize::MAX }
    }

    /// Whether there is room for an element.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.left > 0
    }

    /// How many short elements may still be looked at.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Charges an element of this many bytes. Whether there is room for one more.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> bool {
        self.left = self.left.saturating_sub(1 + bytes / SHORT_BYTES);
        self.is_left()
    }
}

/// Whether gathering is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherState {
    /// There is more to look at.
    Part,
    /// There is more to look at. Of the keys only the first so many were looked at so far.
    PartOf(usize),
    /// Everything needed of the values is in the reply or in the state.
    Whole,
}

impl GatherState {
    /// `Whole` if `is_whole`, else `Part`.
    pub fn whole_if(is_whole: bool) -> GatherState {
        if is_whole { GatherState::Whole } else { GatherState::Part }
    }
}

/// Reads keys one after the other: each counts as a hit or miss once, even if it is read again
/// because one has changed.
#[derive(Default)]
pub(crate) struct OnceCountedKeys {
    count: usize,
}

impl OnceCountedKeys {
    /// Opens key number `nth`.
    pub fn read<'l, 'k>(
        &mut self,
        keys: &'l mut Locked<'k>,
        key: Key<'l>,
        nth: usize,
    ) -> OpenKey<'l, 'k> {
        if nth < self.count {
            return keys.peek(key);
        }
        self.count = nth + 1;
        keys.read(key)
    }
}

/// The aggregate type of a reply's elements.
#[derive(Clone, Copy)]
pub enum Aggregate {
    Array,
    Map,
    Set,
}

impl Aggregate {
    /// The header of `count` elements.
    #[inline]
    pub fn header(self, reply: &mut Reply<'_>, count: usize) {
        match self {
            Aggregate::Array => reply.array(count),
            Aggregate::Map => reply.map(count),
            Aggregate::Set => reply.set(count),
        }
    }
}

/// The header of a reply whose length may be known only at its end.
pub struct Header {
    /// The number of elements so far.
    pub count: usize,
    mark: Option<ReplyMark>,
}

impl Header {
    /// Writes it if the length is known; otherwise notes its place.
    #[inline]
    pub fn begin(of: Aggregate, reply: &mut Reply<'_>, length: Option<usize>) -> Header {
        let mark = reply.begin();
        if let Some(length) = length {
            of.header(reply, length);
        }
        Header { count: 0, mark: length.is_none().then_some(mark) }
    }

    /// Notes its place.
    #[inline]
    pub fn later(reply: &Reply<'_>) -> Header {
        Header { count: 0, mark: Some(reply.begin()) }
    }

    /// Inserts it in front of the elements, unless it is there already.
    #[inline]
    pub fn end(self, of: Aggregate, reply: &mut Reply<'_>) {
        match (self.mark, of) {
            (None, _) => {}
            (Some(mark), Aggregate::Array) => reply.end_array(mark, self.count),
            (Some(mark), Aggregate::Map) => reply.end_map(mark, self.count),
            (Some(mark), Aggregate::Set) => reply.end_set(mark, self.count),
        }
    }
}

/// The result of a step: `next` is where to go on, if anywhere.
#[inline]
pub fn step<P>(next: Option<P>, header: Header) -> ControlFlow<Header, (P, Header)> {
    match next {
        Some(next) => ControlFlow::Continue((next, header)),
        None => ControlFlow::Break(header),
    }
}

/// Opens a key to read it.
pub fn open<'l, 'k>(keys: &'l mut Locked<'k>, key: Key<'l>) -> Result<OpenKey<'l, 'k>, Stop> {
    Ok(keys.read(key))
}

/// What notices changes of the read keys between two steps.
enum Watching {
    Keys(Arc<Watch>),
    Crowd(Arc<WatchSet>),
}

/// The state of a reading between its steps.
#[derive(Default)]
struct ReadState {
    /// For very many keys: built before anything is read, with the partitions free.
    crowd: Option<Arc<WatchSet>>,
    watching: Option<Watching>,
    restarts: u32,
}

impl<'c, 'k> Call<'c, 'k> {
    /// Reads the collection at the command's first key; `None` if there is none, or if the reply is
    /// over its limit ([`Reply::is_over`]), so that what follows does not matter. `begin` looks at
    /// the collection, writes what comes before the first element, and returns where to begin.
    /// `go_on` writes elements while the step has budget, and returns where to go on, or how it
    /// ended. Both may run again from the beginning.
    ///
    /// The key may not be opened afterwards; slow work then (moving a header to the front) holds up
    /// no other command.
    pub(crate) fn read_whole<C: Collection, P, R>(
        &mut self,
        open: impl for<'l> FnOnce(&'l mut Locked<'k>, Key<'l>) -> Result<OpenKey<'l, 'k>, Stop>,
        mut begin: impl FnMut(&C, &mut Reply<'c>) -> Result<P, Stop>,
        mut go_on: impl FnMut(&C, P, &mut WorkStep<'_, 'c>) -> ControlFlow<R, P>,
    ) -> Result<Option<R>, Stop> {
        let (key, start) = (self.key(), self.reply.len());
        let mut open = Some(open);
        let mut reading = ReadState::default();
        let mut place = None;
        loop {
            let step = {
                let opened = match open.take() {
                    Some(open) => open(self.keys, key)?,
                    None => self.keys.peek(key),
                };
                let Some(value) = opened.collection::<C>()? else { return Ok(None) };
                let at = match place.take() {
                    Some(at) => at,
                    None => begin(value, &mut self.reply)?,
                };
                go_on(value, at, &mut WorkStep::new(&mut self.reply))
            };
            let end = match step {
                ControlFlow::Continue(next) => {
                    place = Some(next);
                    None
                }
                ControlFlow::Break(end) => Some(end),
            };
            // A reply over its limit is not sent.
            if end.is_some() || self.reply.is_over() {
                reading.end(self, &[key]);
                return Ok(end);
            }
            if !reading.pause(self, &[key], 1, |reply| reply.reserve(2 * STEP_BYTES))? {
                self.reply.truncate(start);
                place = None;
            }
        }
    }

    /// Derives something from the values at some keys, which the command has read before. `begin`
    /// makes the state, `go_on` adds to it or to the reply while there is budget, and `finish`
    /// makes the result. All may run again from the beginning.
    ///
    /// Afterwards a command that writes holds all its partitions, and nothing that it has read has
    /// changed. One that reads may open no key any more: on the lane the partitions are free from
    /// `finish` on.
    pub(crate) fn gather<S, R>(
        &mut self,
        keys: &[Key<'_>],
        mut begin: impl FnMut(&mut Self) -> Result<S, Stop>,
        mut go_on: impl FnMut(&mut Self, &mut S, &mut Budget) -> Result<GatherState, Stop>,
        mut finish: impl FnMut(&mut Reply<'c>, S) -> R,
    ) -> Result<R, Stop> {
        let start = self.reply.len();
        let mut reading = ReadState::default();
        'anew: loop {
            reading.prepare(self, keys)?;
            let mut gathered = begin(self)?;
            loop {
                let seen = match go_on(self, &mut gathered, &mut Budget::beside(keys.len()))? {
                    GatherState::Part => keys.len(),
                    GatherState::PartOf(seen) => seen,
                    GatherState::Whole => break,
                };
                // A reply over its limit is not sent.
                if self.reply.is_over() {
                    break;
                }
                if !reading.pause(self, keys, seen, |_| ())? {
                    self.forget(gathered, start)?;
                    continue 'anew;
                }
            }
            if self.may_let_go() {
                reading.forget(self, keys);
                self.has_read();
                return Ok(finish(&mut self.reply, gathered));
            }
            let (result, is_of_now) =
                reading.finish(self, keys, |reply| finish(reply, gathered))?;
            if is_of_now {
                return Ok(result);
            }
            self.forget(result, start)?;
        }
    }

    /// Declares that the command needs its values no longer, only time: where possible its
    /// partitions are free from here on.
    pub(crate) fn has_read(&mut self) {
        if self.may_let_go() {
            self.keys.let_go();
        }
    }

    /// Runs slow work that needs no key, with the partitions free where possible. Values read
    /// before may have changed.
    pub fn meanwhile<R>(&mut self, run: impl FnOnce() -> R) -> Result<R, Aborted> {
        if self.may_pause() { self.keys.give_way(run) } else { Ok(run()) }
    }

    /// Drops a state that is of no use. Freeing a large one takes long.
    #[cold]
    fn forget<S>(&mut self, gathered: S, start: usize) -> Result<(), Aborted> {
        self.reply.truncate(start);
        self.keys.give_way(|| drop(gathered))
    }

    /// Whether the partitions may be freed in the middle of this command.
    pub fn may_pause(&self) -> bool {
        self.lane == Lane::Slow
            && self.may_wait
            && self.ready.is_none()
            && !self.keys.has_ready()
            && !self.keys.has_token()
    }

    /// Whether the partitions are not needed once everything is read: nothing is written, and no
    /// client is registered with a key.
    fn may_let_go(&self) -> bool {
        self.may_pause()
            && self.session.tracking.is_none()
            && !self.command.flags.intersects(Flags::WRITE)
    }
}

impl ReadState {
    /// Before the first look at any key: prepares the slow part of watching many keys.
    fn prepare(&mut self, call: &mut Call<'_, '_>, keys: &[Key<'_>]) -> Result<(), Aborted> {
        if keys.len() > MANY_KEYS && self.restarts < MOST_RESTARTS && call.may_pause() {
            let db = call.keys.scope().db;
            let crowd = call.meanwhile(|| WatchSet::of(db, keys.iter().map(|key| key.hash)))?;
            self.crowd = Some(Arc::new(crowd));
        }
        Ok(())
    }

    /// Begins to watch keys that are held.
    fn watch(&mut self, locked: &mut Locked<'_>, keys: &[Key<'_>]) -> Watching {
        if let Some(crowd) = self.crowd.take() {
            locked.watch_crowd(&crowd);
            return Watching::Crowd(crowd);
        }
        let watch = Arc::new(Watch::default());
        keys.iter().for_each(|key| locked.watch(*key, &watch));
        Watching::Keys(watch)
    }

    /// Frees the partitions between two steps, where possible. False: a key has changed.
    #[inline]
    fn pause<'c>(
        &mut self,
        call: &mut Call<'c, '_>,
        keys: &[Key<'_>],
        seen: usize,
        meanwhile: impl FnOnce(&mut Reply<'c>),
    ) -> Result<bool, Aborted> {
        if self.restarts == MOST_RESTARTS || !call.may_pause() {
            return Ok(true);
        }
        Ok(self.let_others(call, keys, seen, meanwhile)?.1)
    }

    /// Runs something with the partitions free. False: a key has changed.
    #[cold]
    fn let_others<'c, R>(
        &mut self,
        call: &mut Call<'c, '_>,
        keys: &[Key<'_>],
        seen: usize,
        meanwhile: impl FnOnce(&mut Reply<'c>) -> R,
    ) -> Result<(R, bool), Aborted> {
        self.see(call, keys, seen);
        let reply = &mut call.reply;
        let result = call.keys.give_way(|| meanwhile(reply))?;
        Ok((result, self.is_as_seen(call, keys)))
    }

    /// Watches the keys; the first `seen` of them were read as they are now.
    #[inline(never)]
    fn see(&mut self, call: &mut Call<'_, '_>, keys: &[Key<'_>], seen: usize) {
        let watching = match self.watching.take() {
            Some(watching) => watching,
            None => self.watch(call.keys, keys),
        };
        if let Watching::Crowd(crowd) = self.watching.insert(watching) {
            crowd.has_seen(seen);
        }
    }

    /// Whether no key has changed. If one has, the reading begins again.
    #[inline(never)]
    fn is_as_seen(&mut self, call: &mut Call<'_, '_>, keys: &[Key<'_>]) -> bool {
        let has_changed = match &self.watching {
            Some(Watching::Keys(watch)) => watch.is_touched(),
            Some(Watching::Crowd(crowd)) => crowd.is_touched(),
            None => false,
        };
        if has_changed {
            self.forget(call, keys);
            self.restarts += 1;
        }
        !has_changed
    }

    /// Runs the final work, which takes as long as the gathering: with the partitions free if they
    /// were free in between. False: a key has changed.
    fn finish<'c, R>(
        &mut self,
        call: &mut Call<'c, '_>,
        keys: &[Key<'_>],
        finish: impl FnOnce(&mut Reply<'c>) -> R,
    ) -> Result<(R, bool), Aborted> {
        if self.watching.is_none() {
            return Ok((finish(&mut call.reply), true));
        }
        let ended = self.let_others(call, keys, keys.len(), finish)?;
        self.forget(call, keys);
        Ok(ended)
    }

    /// Drops the watch.
    #[inline(never)]
    fn forget(&mut self, call: &mut Call<'_, '_>, keys: &[Key<'_>]) {
        match self.watching.take() {
            None => {}
            Some(Watching::Keys(watch)) => {
                keys.iter().for_each(|key| call.keys.unwatch(*key, &watch));
            }
            Some(Watching::Crowd(crowd)) => call.keys.unwatch_crowd(&crowd),
        }
    }

    /// Ends after the last step. A client that tracks keys is registered with the partition held;
    /// otherwise the partition is not needed any more.
    fn end(&mut self, call: &mut Call<'_, '_>, keys: &[Key<'_>]) {
        if self.watching.is_some() {
            self.forget(call, keys);
            call.has_read();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pantala_protocol::Version;
    use pantala_values::{List, Set};

    use super::*;
    use crate::error::BUSY_KEY;
    use crate::test_support::{Fixture, NOW, fixture, wait};

    /// Several steps of the shortest elements.
    const ELEMENTS: usize = 20_000;

    /// A value of [`ELEMENTS`] elements at `key`.
    fn fill(fixture: &Fixture, command: &str, element: impl Fn(usize) -> String) {
        for from in (0..ELEMENTS).step_by(5_000) {
            let words: Vec<String> = (from..from + 5_000).map(&element).collect();
            fixture.answer(&format!("{command} key {}", words.join(" "))).expect("it has room");
        }
    }

    fn filled(kind: &str) -> Arc<Fixture> {
        let fixture = fixture();
        match kind {
            "set" => fill(&fixture, "SADD", |n| format!("m{n}")),
            "hash" => fill(&fixture, "HSET", |n| format!("f{n} v{n}")),
            "list" => fill(&fixture, "RPUSH", |n| n.to_string()),
            "zset" => fill(&fixture, "ZADD", |n| format!("{n} m{n}")),
            _ => (1..ELEMENTS).for_each(|n| {
                fixture.answer(&format!("XADD key {n} f v")).expect("ids ascend");
            }),
        }
        fixture
    }

    /// Each kind of reading, and a change of what it reads.
    const READINGS: [(&str, &str, &str); 11] = [
        ("set", "SMEMBERS key", "SADD key one-more"),
        ("set", "SMEMBERS key", "SREM key m7"),
        ("hash", "HGETALL key", "HSET key f5 other"),
        ("hash", "HKEYS key", "HDEL key f5 f6 f7"),
        ("hash", "HVALS key", "DEL key"),
        ("list", "LRANGE key 0 -1", "LPUSH key first"),
        ("zset", "ZRANGE key 0 -1 WITHSCORES", "ZADD key 1000000 m0"),
        ("zset", "ZREVRANGE key 0 -1", "ZREM key m3"),
        ("zset", "ZRANGEBYSCORE key -inf +inf", "RENAME other key"),
        ("stream", "XRANGE key - +", "XDEL key 5-0"),
        ("stream", "XREVRANGE key + -", "XADD key 1000000 f v"),
    ];

    #[test]
    fn a_value_that_changes_meanwhile_is_read_as_it_is_then() {
        for (kind, reading, change) in READINGS {
            let fixture = filled(kind);
            fixture.answer("ZADD other 5 five").expect("it has room");
            let ran = Arc::new(AtomicUsize::new(0));
            let (done, reply) = fixture.call(reading, |call| {
                wait(&fixture, call.key(), change, &ran);
                (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
            });
            assert_eq!(done, Ok(1), "{change} did not run in the midst of {reading}");
            let after = fixture.answer(reading).expect("it is readable");
            assert!(reply == after.as_bytes(), "{change} in the midst of {reading}");
        }
    }

    #[test]
    fn others_run_between_portions_and_change_nothing() {
        for (kind, reading, _) in READINGS {
            let fixture = filled(kind);
            let before = fixture.answer(reading).expect("it is readable");
            let ran = Arc::new(AtomicUsize::new(0));
            let (done, reply) = fixture.call(reading, |call| {
                wait(&fixture, call.key(), "TYPE key", &ran);
                (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
            });
            assert_eq!(done, Ok(1), "nobody ran in the midst of {reading}");
            assert!(reply == before.as_bytes(), "{reading} in steps is not {reading}");
        }
    }

    #[test]
    fn elements_by_chance_are_shown_in_steps() {
        // With numbers, the words of the reply that are members.
        for (kind, count, shown, stride) in [
            ("set", "SRANDMEMBER key -30000", 30_000, 1),
            ("set", "SRANDMEMBER key 19000", 19_000, 1),
            ("set", "SRANDMEMBER key 5000", 5_000, 1),
            ("set", "SRANDMEMBER key 30000", ELEMENTS, 1),
            ("hash", "HRANDFIELD key -30000 WITHVALUES", 30_000, 2),
            ("hash", "HRANDFIELD key 19000", 19_000, 1),
            ("hash", "HRANDFIELD key 30000 WITHVALUES", ELEMENTS, 2),
            ("zset", "ZRANDMEMBER key -30000", 30_000, 1),
            ("zset", "ZRANDMEMBER key 19000 WITHSCORES", 19_000, 2),
            ("zset", "ZRANDMEMBER key 30000", ELEMENTS, 1),
        ] {
            let fixture = filled(kind);
            let ran = Arc::new(AtomicUsize::new(0));
            let (done, reply) = fixture.call(count, |call| {
                wait(&fixture, call.key(), "TYPE key", &ran);
                (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
            });
            assert_eq!(done, Ok(1), "nobody ran in the midst of {count}");
            let reply = String::from_utf8(reply).expect("text");
            assert!(reply.starts_with(&format!("*{}\r\n", shown * stride)), "{count}");
            let words = reply.lines().skip(2).step_by(2).step_by(stride);
            let mut members: Vec<&str> = words.collect();
            assert_eq!(members.len(), shown, "{count}");
            assert!(members.iter().all(|word| word.starts_with(['m', 'f'])), "{count}");
            members.sort_unstable();
            members.dedup();
            assert_eq!(members.len() == shown, !count.contains('-'), "{count}");
        }
    }

    #[test]
    fn a_value_of_another_type_by_then_is_an_error() {
        let fixture = filled("set");
        let ran = Arc::new(AtomicUsize::new(0));
        let (done, _) = fixture.call("SMEMBERS key", |call| {
            wait(&fixture, call.key(), "SET key text", &ran);
            (call.command.handler)(call)
        });
        assert_eq!(done, Err(Stop::Error(crate::error::WRONG_TYPE)));
    }

    /// Reads the set at `key`, with a neighbour that changes it at each beginning; how often it
    /// began, and how often the set was changed until it ended.
    fn read_in_vain(fixture: &Arc<Fixture>, call: &mut Call<'_, '_>) -> (usize, usize, usize) {
        let (key, ran) = (call.key(), Arc::new(AtomicUsize::new(0)));
        let (mut begun, mut length) = (0, 0);
        call.read_whole(
            open,
            |set: &Set, _| {
                begun += 1;
                length = set.view().len();
                wait(fixture, key, &format!("SADD key new{begun}"), &ran);
                Ok(0)
            },
            |set, from, step| {
                let next = set.view().part(from, NOW, |_| {
                    step.reply.null();
                    step.has_room()
                });
                next.map_or(ControlFlow::Break(()), ControlFlow::Continue)
            },
        )
        .expect("it is a set");
        (begun, ran.load(Ordering::Relaxed), length)
    }

    #[test]
    fn the_last_reading_keeps_the_partition() {
        let fixture = filled("set");
        let (found, reply) = fixture.call("SMEMBERS key", |call| read_in_vain(&fixture, call));
        let restarts = MOST_RESTARTS as usize;
        assert_eq!(found, (restarts + 1, restarts, ELEMENTS + restarts));
        assert_eq!(reply.len(), (ELEMENTS + restarts) * "$-1\r\n".len());
    }

    #[test]
    fn a_transaction_keeps_its_partitions() {
        let fixture = filled("set");
        let (found, _) = fixture.call("SMEMBERS key", |call| {
            call.may_wait = false;
            read_in_vain(&fixture, call)
        });
        assert_eq!(found, (1, 0, ELEMENTS));
    }

    #[test]
    fn a_reply_over_its_limit_ends_early() {
        let fixture = filled("list");
        let (shown, _) = fixture.call("LRANGE key 0 -1", |call| {
            let (mut out, mut shown) = (Vec::new(), 0);
            let reply = Reply::new(&mut out, Version::Resp2).at_most(100);
            let mut call =
                Call { reply, keys: &mut *call.keys, session: &mut *call.session, ..*call };
            let read = call.read_whole(
                open,
                |_: &List, _| Ok(()),
                |_, (), step| {
                    step.reply.bulk(b"0123456789");
                    shown += 1;
                    ControlFlow::<(), ()>::Continue(())
                },
            );
            (read, shown)
        });
        assert_eq!(shown, (Ok(None), 6));
    }

    #[test]
    fn nobody_watches_the_key_behind_it() {
        let fixture = filled("set");
        let ran = Arc::new(AtomicUsize::new(0));
        let (done, _) = fixture.call("SMEMBERS key", |call| {
            wait(&fixture, call.key(), "TYPE key", &ran);
            (call.command.handler)(call)
        });
        assert_eq!((done, ran.load(Ordering::Relaxed)), (Ok(()), 1));
        let (is_empty, _) = fixture.call("TYPE key", |call| {
            let key = call.key();
            call.keys.waiters(key.hash).is_empty()
        });
        assert!(is_empty);
    }

    /// Several steps of what is gathered.
    const FEWER: usize = 4 * STEP_ELEMENTS;

    /// Two values of [`FEWER`] elements each, half of which both have, at `one` and `two`.
    fn pair(kind: &str) -> Arc<Fixture> {
        let fixture = fixture();
        let (command, element): (_, fn(usize) -> String) = match kind {
            "set" => ("SADD", |n| format!("m{n}")),
            "list" => ("RPUSH", |n| (n * 7 % FEWER).to_string()),
            "geo" => ("GEOADD", |n| format!("{} {} m{n}", n % 170, n % 80)),
            _ => ("ZADD", |n| format!("{n} m{n}")),
        };
        for (key, from) in [("one", 0), ("two", FEWER / 2)] {
            let words: Vec<String> = (from..from + FEWER).map(element).collect();
            fixture.answer(&format!("{command} {key} {}", words.join(" "))).expect("it has room");
        }
        fixture
    }

    /// What gathers, a change of what it gathers from, and what shows what it has stored.
    const GATHERINGS: [(&str, &str, &str, &str); 24] = [
        ("set", "SUNION one two", "SADD two one-more", ""),
        ("set", "SUNION one two small", "SADD small one-more", ""),
        ("set", "SUNIONSTORE to one two", "DEL one", "SMEMBERS to"),
        ("set", "SUNIONSTORE one one two", "SADD one again", "SMEMBERS one"),
        ("set", "SINTER one two", "SREM one m1500", ""),
        ("set", "SINTERSTORE to two one", "SREM one m1500", "SMEMBERS to"),
        ("set", "SINTERCARD 2 one two", "RENAME small one", ""),
        ("set", "SDIFF one two", "SADD two m3", ""),
        ("set", "SDIFF one small two small small small", "SADD small m3", ""),
        ("set", "SDIFFSTORE to one two", "SREM two m1500", "SMEMBERS to"),
        ("set", "SORT one ALPHA", "SADD one again", ""),
        ("zset", "ZUNION 2 one two WITHSCORES", "ZADD two 7 m0", ""),
        ("zset", "ZUNIONSTORE to 2 one two WEIGHTS 2 3", "ZADD one 7 m0", "ZRANGE to 0 -1"),
        ("zset", "ZINTER 2 one two", "ZREM two m1500", ""),
        ("zset", "ZINTERSTORE to 2 one two", "DEL two", "EXISTS to"),
        ("zset", "ZINTERCARD 2 one two", "ZREM two m1500", ""),
        ("zset", "ZDIFF 2 one two", "ZADD two 1 m0", ""),
        ("zset", "ZDIFFSTORE to 2 one two", "ZADD two 1 m0", "ZRANGE to 0 -1 WITHSCORES"),
        ("zset", "ZRANGESTORE to one 0 -1", "ZADD one -1 first", "ZRANGE to 0 -1"),
        ("list", "SORT one DESC STORE to", "RPUSH one 8", "LRANGE to 0 -1"),
        ("list", "LPOS one 8 RANK -2 COUNT 0", "RPUSH one 8", ""),
        ("geo", "GEORADIUS one 10 10 20000 km COUNT 700", "ZREM one m10", ""),
        ("geo", "GEOSEARCH one FROMLONLAT 0 0 BYRADIUS 20000 km ASC", "GEOADD one 1 1 new", ""),
        (
            "geo",
            "GEOSEARCHSTORE to one FROMMEMBER m10 BYRADIUS 20000 km",
            "GEOADD one 1 1 m10",
            "ZRANGE to 0 -1 WITHSCORES",
        ),
    ];

    #[test]
    fn what_is_gathered_is_of_one_moment() {
        for (kind, gathering, change, shown) in GATHERINGS {
            let fixture = pair(kind);
            fixture.answer("SADD small s").expect("it has room");
            let ran = Arc::new(AtomicUsize::new(0));
            let changed = fixture.space.key(b"one");
            let (done, reply) = fixture.call(gathering, |call| {
                wait(&fixture, changed, change, &ran);
                (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
            });
            assert_eq!(done, Ok(1), "{change} did not run in the midst of {gathering}");
            let show = || shown.is_empty().then(String::new).or_else(|| fixture.answer(shown).ok());
            let stored = show();
            let after = fixture.answer(gathering).expect("it is possible");
            assert!(reply == after.as_bytes(), "{change} in the midst of {gathering}");
            assert!(stored == show(), "{change} in the midst of {gathering}: {shown}");
        }
    }

    /// Gathers from the key `one`, which changes whenever that is possible when the result is made.
    /// How often it was made, and from how many members.
    fn finish_in_vain(fixture: &Fixture, call: &mut Call<'_, '_>) -> (usize, usize) {
        let (key, mut finished) = (fixture.space.key(b"one"), 0);
        let members = call.gather(
            &[key],
            |_| Ok((Some(0), 0)),
            |call, (from, members), budget| {
                let opened = call.keys.peek(key);
                let set = opened.collection::<Set>()?.expect("it is there").view();
                *from = set.part(from.unwrap_or_default(), NOW, |_| {
                    *members += 1;
                    budget.take(0)
                });
                Ok(GatherState::whole_if(from.is_none()))
            },
            |_, (_, members)| {
                finished += 1;
                if fixture.is_free(key) {
                    fixture.answer(&format!("SADD one new{finished}")).expect("it has room");
                }
                members
            },
        );
        (finished, members.expect("it is a set"))
    }

    #[test]
    fn what_is_stored_is_made_with_the_partitions_free_but_the_last_time() {
        let fixture = pair("set");
        let (found, _) = fixture.call("SUNIONSTORE to one two", |call| {
            let found = finish_in_vain(&fixture, call);
            assert!(!fixture.is_free(fixture.space.key(b"one")), "it is to be stored yet");
            found
        });
        let restarts = MOST_RESTARTS as usize;
        assert_eq!(found, (restarts + 1, FEWER + restarts));
    }

    #[test]
    fn what_is_answered_is_made_once_with_the_partitions_free() {
        let fixture = pair("set");
        let (found, _) = fixture.call("SUNION one two", |call| finish_in_vain(&fixture, call));
        assert_eq!(found, (1, FEWER));
        assert_eq!(fixture.answer("SCARD one"), Ok(format!(":{}\r\n", FEWER + 1)));
    }

    #[test]
    fn a_transaction_gathers_in_one_go() {
        let fixture = pair("set");
        let (found, _) = fixture.call("SUNION one two", |call| {
            call.may_wait = false;
            finish_in_vain(&fixture, call)
        });
        assert_eq!(found, (1, FEWER));
        assert_eq!(fixture.answer("SCARD one"), Ok(format!(":{FEWER}\r\n")));
    }

    #[test]
    fn nobody_watches_what_was_gathered_from() {
        let fixture = pair("set");
        for gathering in ["SUNION one two one", "SUNIONSTORE to one two one"] {
            fixture.call(gathering, |call| (call.command.handler)(call)).0.expect("it is possible");
            let (are_empty, _) = fixture.call("SUNION one two", |call| {
                call.all_keys().iter().all(|key| call.keys.waiters(key.hash).is_empty())
            });
            assert!(are_empty, "{gathering}");
        }
    }

    #[test]
    fn many_sketches_are_counted_at_one_moment() {
        let fixture = fixture();
        let keys: Vec<String> = (0..MANY_KEYS).map(|n| format!("p{n}")).collect();
        for key in &keys {
            fixture.answer(&format!("PFADD {key} {key}")).expect("it has room");
        }
        let counting = format!("PFCOUNT {}", keys.join(" "));
        let ran = Arc::new(AtomicUsize::new(0));
        let (done, reply) = fixture.call(&counting, |call| {
            wait(&fixture, call.nth_key(1, 0), "PFADD p0 x1 x2 x3 x4 x5 x6 x7 x8 x9", &ran);
            (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
        });
        assert_eq!(done, Ok(1), "nobody ran in the midst of it");
        assert_eq!(fixture.answer(&counting).map(String::into_bytes), Ok(reply));
    }

    /// What DUMP writes of values of several parts, and a change of each.
    const DUMPS: [(&str, &str); 6] = [
        ("set", "SADD key one-more"),
        ("hash", "HSET key f5 other"),
        ("list", "LPUSH key first"),
        ("zset", "ZADD key 99 m"),
        ("stream", "XDEL key 5-0"),
        ("string", "SETRANGE key 5 x"),
    ];

    /// Values of more than a megabyte, which DUMP writes in parts.
    fn large(kind: &str) -> Arc<Fixture> {
        let fixture = fixture();
        // Of many letters: a list keeps others in few bits.
        let text: String = (0..2000).map(|n| char::from(b'!' + (n * 31 % 90) as u8)).collect();
        let each = |from: usize, element: &dyn Fn(usize) -> String| {
            (from..from + 100).map(element).collect::<Vec<_>>().join(" ")
        };
        for from in (0..1000).step_by(100) {
            let fill = match kind {
                "set" => format!("SADD key {}", each(from, &|n| format!("m{n}{text}"))),
                "hash" => format!("HSET key {}", each(from, &|n| format!("f{n} {text}"))),
                "list" => format!("RPUSH key {}", each(from, &|n| format!("{n}{text}"))),
                "zset" => format!("ZADD key {}", each(from, &|n| format!("{n} m{n}{text}"))),
                _ => break,
            };
            fixture.answer(&fill).expect("it has room");
        }
        if kind == "string" {
            fixture.answer(&format!("SETRANGE key {} x", (1 << 20) - 1)).expect("it has room");
        }
        if kind == "stream" {
            (1..1000).for_each(|n| {
                fixture.answer(&format!("XADD key {n} f {n}{text}")).expect("ids ascend");
            });
        }
        fixture
    }

    #[test]
    fn dump_lets_others_run_between_its_parts() {
        for (kind, change) in DUMPS {
            let fixture = large(kind);
            let (_, held) = fixture.call("DUMP key", |call| {
                call.may_wait = false;
                (call.command.handler)(call)
            });
            for (other, is_change) in [("TYPE key", false), (change, true)] {
                let ran = Arc::new(AtomicUsize::new(0));
                let (done, reply) = fixture.call("DUMP key", |call| {
                    wait(&fixture, call.key(), other, &ran);
                    (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
                });
                assert_eq!(done, Ok(1), "{other} did not run in the midst of DUMP");
                let (_, now) = fixture.call("DUMP key", |call| (call.command.handler)(call));
                assert!(reply == now, "{other} in the midst of DUMP");
                assert_eq!(reply != held, is_change, "{other}");
            }
        }
    }

    /// Commands on long strings, a change in the middle of each, and how the result is read.
    const BITS: [(&str, &str, &str); 7] = [
        ("BITCOUNT one", "SETRANGE one 5 x", ""),
        ("BITCOUNT one 7 8000000 BIT", "SETRANGE one 5 x", ""),
        ("BITPOS nil 1", "SETRANGE nil 900000 x", ""),
        ("BITPOS nil 1 5", "SETRANGE nil 5 x", ""),
        ("BITOP XOR to one two", "SETRANGE two 5 x", "BITCOUNT to"),
        ("BITOP DIFF1 one one two", "SETRANGE one 5 x", "GETRANGE one 0 100"),
        ("BITOP NOT to one", "DEL one", "STRLEN to"),
    ];

    #[test]
    fn bits_of_long_strings_are_of_one_moment() {
        for (command, change, shown) in BITS {
            let key = change.split(' ').nth(1).expect("it has a key");
            for other in [&format!("TYPE {key}"), change] {
                let (found, expected) = (fixture(), fixture());
                for fixture in [&found, &expected] {
                    for (key, byte) in [("one", "\u{7f}"), ("two", "a"), ("nil", "\0")] {
                        let set = format!("SET {key} {}", byte.repeat(1 << 20));
                        fixture.answer(&set).expect("it has room");
                    }
                }
                let ran = Arc::new(AtomicUsize::new(0));
                let (done, reply) = found.call(command, |call| {
                    wait(&found, found.space.key(key.as_bytes()), other, &ran);
                    (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
                });
                assert_eq!(done, Ok(1), "{other} did not run in the midst of {command}");
                expected.answer(other).expect("it is possible");
                let (_, held) = expected.call(command, |call| {
                    call.may_wait = false;
                    (call.command.handler)(call)
                });
                assert_eq!(reply, held, "{other} in the midst of {command}");
                if !shown.is_empty() {
                    assert_eq!(found.answer(shown), expected.answer(shown), "{other}, {command}");
                }
            }
        }
    }

    #[test]
    fn a_key_that_appears_while_a_payload_is_read_is_not_overwritten() {
        let fixture = pair("set");
        let (_, dumped) = fixture.call("DUMP one", |call| (call.command.handler)(call));
        let start = dumped.iter().position(|byte| *byte == b'\n').expect("it has a length") + 1;
        let args: [&[u8]; 4] = [b"RESTORE", b"key", b"0", &dumped[start..dumped.len() - 2]];
        let ran = Arc::new(AtomicUsize::new(0));
        let (done, _) = fixture.call_with(&args, |call| {
            wait(&fixture, call.key(), "SET key text", &ran);
            (call.command.handler)(call)
        });
        assert_eq!((done, ran.load(Ordering::Relaxed)), (Err(Stop::Error(BUSY_KEY)), 1));
        fixture.answer("DEL key").expect("it is there");
        fixture.call_with(&args, |call| (call.command.handler)(call)).0.expect("it is free");
        assert_eq!(fixture.answer("SMEMBERS key"), fixture.answer("SMEMBERS one"));
    }
}
