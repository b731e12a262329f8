//! Reading a whole value in portions, so that a large one does not hold its partition.
//!
//! ```text
//! lock, open, begin | portion | portion ...              as one go: on a worker, in a transaction
//! lock, open, begin, portion, watch | free | lock, portion | free | ... | lock, last portion
//!                                             ^ changed: once more from its beginning
//! ```
//!
//! SMEMBERS of ten million members copies for most of a second. On the slow lane it lets go of the
//! partition after each portion, and whoever waits there is served. The key is watched meanwhile,
//! as WATCH does it, so that writers pay nothing new. When it has changed, what was written is
//! dropped and the reading begins again; the third reading keeps the partition to its end.
//!
//! Invariants
//! 1. The reply is the value of one moment: that of the last portion, since nothing has changed
//!    the key between the first portion and then.
//! 2. The watch is there before the partition is first free.
//! 3. The reply grows while the partition is free, and so does what is put in front of it at the
//!    end ([`Call::read_whole`]).
//! 4. `now` is the same for all portions: what expires meanwhile is shown, unless it is removed,
//!    which is a change.
//!
//! Not here: transactions and scripts, which hold their partitions to their end; small encodings,
//! which are one portion; commands with several keys. Tests: at the foot.

use std::ops::ControlFlow;
use std::sync::Arc;

use pantala_keyspace::{Key, Locked, Opened, Watch};
use pantala_protocol::{Mark, Reply};
use pantala_values::Collection;

use crate::call::{Call, Lane, Stop};

/// A portion is about so many bytes of the reply: one to three thousand short elements, and 50 to
/// 200 microseconds.
const PORTION_BYTES: usize = 64 << 10;

/// A reading begins again so often at most.
const MOST_RESTARTS: u32 = 2;

/// The reply, while a portion is added to it.
pub struct Portion<'r, 'o> {
    /// The reply.
    pub reply: &'r mut Reply<'o>,
    end: usize,
}

impl<'r, 'o> Portion<'r, 'o> {
    fn new(reply: &'r mut Reply<'o>) -> Self {
        let end = reply.len().saturating_add(PORTION_BYTES);
        Portion { reply, end }
    }

    /// Whether the portion takes one more element.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.reply.len() < self.end && !self.reply.is_over()
    }
}

/// What a reply's elements are together.
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
    /// How many elements there are so far.
    pub count: usize,
    mark: Option<Mark>,
}

impl Header {
    /// Writes it if the length is known, or notes where it belongs.
    #[inline]
    pub fn begin(of: Aggregate, reply: &mut Reply<'_>, length: Option<usize>) -> Header {
        let mark = reply.begin();
        if let Some(length) = length {
            of.header(reply, length);
        }
        Header { count: 0, mark: length.is_none().then_some(mark) }
    }

    /// Puts it in front of the elements, if it is not there.
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

/// The end of a portion, if `next` is where to go on.
#[inline]
pub fn step<P>(next: Option<P>, header: Header) -> ControlFlow<Header, (P, Header)> {
    match next {
        Some(next) => ControlFlow::Continue((next, header)),
        None => ControlFlow::Break(header),
    }
}

/// Opens a key to read it, and no more.
pub fn open<'l, 'k>(keys: &'l mut Locked<'k>, key: Key<'l>) -> Result<Opened<'l, 'k>, Stop> {
    Ok(keys.read(key))
}

/// What is known of a value that is read, between its portions.
#[derive(Default)]
struct Reading {
    watch: Option<Arc<Watch>>,
    restarts: u32,
}

impl<'c, 'k> Call<'c, 'k> {
    /// Reads the collection at the command's first key; `None` if there is none, or if the reply is
    /// over its limit ([`Reply::is_over`]), so that what follows does not matter. `begin` looks at
    /// it, writes what stands before the first element, and says where to begin. `go_on` writes
    /// elements while the portion has room, and says where to go on, or how it ended. Both may run
    /// again from the beginning.
    ///
    /// Behind it the key may not be opened any more; what takes long there (turning a header to the
    /// front) holds up nobody.
    pub(crate) fn read_whole<C: Collection, P, R>(
        &mut self,
        open: impl for<'l> FnOnce(&'l mut Locked<'k>, Key<'l>) -> Result<Opened<'l, 'k>, Stop>,
        mut begin: impl FnMut(&C, &mut Reply<'c>) -> Result<P, Stop>,
        mut go_on: impl FnMut(&C, P, &mut Portion<'_, 'c>) -> ControlFlow<R, P>,
    ) -> Result<Option<R>, Stop> {
        let (key, start) = (self.key(), self.reply.len());
        let mut open = Some(open);
        let mut reading = Reading::default();
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
                go_on(value, at, &mut Portion::new(&mut self.reply))
            };
            let end = match step {
                ControlFlow::Continue(next) => {
                    place = Some(next);
                    None
                }
                ControlFlow::Break(end) => Some(end),
            };
            // Nobody reads a reply that is over its limit.
            if end.is_some() || self.reply.is_over() {
                reading.end(self, key);
                return Ok(end);
            }
            if !reading.pause(self, key) {
                self.reply.truncate(start);
                place = None;
            }
        }
    }

    /// Whether nobody minds that others have the partition in the midst of this command.
    pub(crate) fn may_pause(&self) -> bool {
        self.lane == Lane::Slow
            && self.may_wait
            && self.ready.is_none()
            && !self.keys.has_ready()
            && !self.keys.wanders()
    }
}

impl Reading {
    /// Between two portions: lets others have the partition, where that may be. False: the key has
    /// changed.
    #[inline]
    fn pause(&mut self, call: &mut Call<'_, '_>, key: Key<'_>) -> bool {
        self.restarts == MOST_RESTARTS || !call.may_pause() || self.let_others(call, key)
    }

    #[cold]
    fn let_others(&mut self, call: &mut Call<'_, '_>, key: Key<'_>) -> bool {
        let watch = self.watch.get_or_insert_with(|| {
            let watch = Arc::new(Watch::default());
            call.keys.watch(key, &watch);
            watch
        });
        let reply = &mut call.reply;
        call.keys.give_way(|| reply.reserve(2 * PORTION_BYTES));
        let has_changed = watch.is_touched();
        if has_changed {
            self.watch = None;
            self.restarts += 1;
        }
        !has_changed
    }

    /// The last portion is written. A client that tracks keys is remembered with the partition
    /// held; otherwise nobody needs it any more.
    fn end(self, call: &mut Call<'_, '_>, key: Key<'_>) {
        let Some(watch) = self.watch else { return };
        call.keys.unwatch(key, &watch);
        if call.session.tracking.is_none() && !call.keys.has_ready() {
            call.keys.let_go();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pantala_protocol::Version;
    use pantala_values::{List, Set};

    use super::*;
    use crate::neighbours::{NOW, World, wait, world};

    /// Several portions of the shortest elements.
    const ELEMENTS: usize = 20_000;

    /// A value of [`ELEMENTS`] elements at `key`.
    fn fill(world: &World, command: &str, element: impl Fn(usize) -> String) {
        for from in (0..ELEMENTS).step_by(5_000) {
            let words: Vec<String> = (from..from + 5_000).map(&element).collect();
            world.answer(&format!("{command} key {}", words.join(" "))).expect("it has room");
        }
    }

    fn filled(kind: &str) -> Arc<World> {
        let world = world();
        match kind {
            "set" => fill(&world, "SADD", |n| format!("m{n}")),
            "hash" => fill(&world, "HSET", |n| format!("f{n} v{n}")),
            "list" => fill(&world, "RPUSH", |n| n.to_string()),
            "zset" => fill(&world, "ZADD", |n| format!("{n} m{n}")),
            _ => (1..ELEMENTS).for_each(|n| {
                world.answer(&format!("XADD key {n} f v")).expect("ids ascend");
            }),
        }
        world
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
            let world = filled(kind);
            world.answer("ZADD other 5 five").expect("it has room");
            let ran = Arc::new(AtomicUsize::new(0));
            let (done, reply) = world.call(reading, |call| {
                wait(&world, call.key(), change, &ran);
                (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
            });
            assert_eq!(done, Ok(1), "{change} did not run in the midst of {reading}");
            let after = world.answer(reading).expect("it is readable");
            assert!(reply == after.as_bytes(), "{change} in the midst of {reading}");
        }
    }

    #[test]
    fn others_run_between_portions_and_change_nothing() {
        for (kind, reading, _) in READINGS {
            let world = filled(kind);
            let before = world.answer(reading).expect("it is readable");
            let ran = Arc::new(AtomicUsize::new(0));
            let (done, reply) = world.call(reading, |call| {
                wait(&world, call.key(), "TYPE key", &ran);
                (call.command.handler)(call).map(|()| ran.load(Ordering::Relaxed))
            });
            assert_eq!(done, Ok(1), "nobody ran in the midst of {reading}");
            assert!(reply == before.as_bytes(), "{reading} in portions is not {reading}");
        }
    }

    #[test]
    fn a_value_of_another_type_by_then_is_an_error() {
        let world = filled("set");
        let ran = Arc::new(AtomicUsize::new(0));
        let (done, _) = world.call("SMEMBERS key", |call| {
            wait(&world, call.key(), "SET key text", &ran);
            (call.command.handler)(call)
        });
        assert_eq!(done, Err(Stop::Error(crate::error::WRONG_TYPE)));
    }

    /// Reads the set at `key`, with a neighbour that changes it at each beginning; how often it
    /// began, and how often the set was changed until it ended.
    fn read_in_vain(world: &Arc<World>, call: &mut Call<'_, '_>) -> (usize, usize, usize) {
        let (key, ran) = (call.key(), Arc::new(AtomicUsize::new(0)));
        let (mut begun, mut length) = (0, 0);
        call.read_whole(
            open,
            |set: &Set, _| {
                begun += 1;
                length = set.view().len();
                wait(world, key, &format!("SADD key new{begun}"), &ran);
                Ok(0)
            },
            |set, from, portion| {
                let next = set.view().part(from, NOW, |_| {
                    portion.reply.null();
                    portion.has_room()
                });
                next.map_or(ControlFlow::Break(()), ControlFlow::Continue)
            },
        )
        .expect("it is a set");
        (begun, ran.load(Ordering::Relaxed), length)
    }

    #[test]
    fn the_last_reading_keeps_the_partition() {
        let world = filled("set");
        let (found, reply) = world.call("SMEMBERS key", |call| read_in_vain(&world, call));
        let restarts = MOST_RESTARTS as usize;
        assert_eq!(found, (restarts + 1, restarts, ELEMENTS + restarts));
        assert_eq!(reply.len(), (ELEMENTS + restarts) * "$-1\r\n".len());
    }

    #[test]
    fn a_transaction_keeps_its_partitions() {
        let world = filled("set");
        let (found, _) = world.call("SMEMBERS key", |call| {
            call.may_wait = false;
            read_in_vain(&world, call)
        });
        assert_eq!(found, (1, 0, ELEMENTS));
    }

    #[test]
    fn a_reply_over_its_limit_ends_early() {
        let world = filled("list");
        let (shown, _) = world.call("LRANGE key 0 -1", |call| {
            let (mut out, mut shown) = (Vec::new(), 0);
            let reply = Reply::new(&mut out, Version::Resp2).at_most(100);
            let mut call =
                Call { reply, keys: &mut *call.keys, session: &mut *call.session, ..*call };
            let read = call.read_whole(
                open,
                |_: &List, _| Ok(()),
                |_, (), portion| {
                    portion.reply.bulk(b"0123456789");
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
        let world = filled("set");
        let ran = Arc::new(AtomicUsize::new(0));
        let (done, _) = world.call("SMEMBERS key", |call| {
            wait(&world, call.key(), "TYPE key", &ran);
            (call.command.handler)(call)
        });
        assert_eq!((done, ran.load(Ordering::Relaxed)), (Ok(()), 1));
        let (is_empty, _) = world.call("TYPE key", |call| {
            let key = call.key();
            call.keys.waiters(key.hash).is_empty()
        });
        assert!(is_empty);
    }
}
