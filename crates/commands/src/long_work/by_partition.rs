//! Commands of very many keys, partition by partition, so that each partition is free as early as
//! possible.
//!
//! ```text
//! lock all | one partition's keys | free it | the next one's, first where others wait | ...
//! ```
//!
//! MSET of 100,000 keys works for tens of milliseconds. For all other commands it happens at one
//! moment if it holds all its partitions at one moment: from then on it takes no further partition,
//! and may release each one when the work in it is done (two-phase locking). After each partition,
//! or some [`LOOKED_AFTER`] keys, it checks where others wait, and goes on there: they wait for the
//! keys of few partitions instead of all.
//!
//! Invariants
//! 1. A partition is freed only when all keys of the command in it are done, and all partitions
//!    were held before the first is freed. So a command that sees one change finds all others.
//! 2. The keys of a partition are done in the order of the arguments: for a key named twice, the
//!    last value counts.
//! 3. Its records have their place in the journal before the first partition is freed.
//! 4. Effects of a change are published before its partition is freed
//!    (`keyspace::changes::effects`).
//!
//! Not here: transactions, scripts, clients that track keys, and any command while somebody listens
//! to key events (these are published in the order of the arguments). All these hold everything to
//! their end. A command that must look at all keys before it changes one (MSETNX) holds everything
//! until it has looked. Tests: at the foot.

use pantala_keyspace::{Locked, PARTITION_COUNT, PREFETCHED, PartitionId};

use crate::calls::call::{Call, Stop};

/// After so many keys it checks where others wait: checking all partitions takes as long as these.
const LOOKED_AFTER: usize = 256;

/// The keys of a command in the order of their partitions.
struct Sorted {
    hashes: Vec<u64>,
    /// The positions of the keys in the command.
    nths: Vec<u32>,
    /// The start of each partition's keys, and the end.
    starts: Vec<u32>,
    /// Partitions that are not done yet.
    is_left: Vec<bool>,
}

impl Sorted {
    fn of(hashes: &[u64]) -> Sorted {
        let mut starts = vec![0; PARTITION_COUNT + 1];
        for hash in hashes {
            starts[PartitionId::of(*hash).index() + 1] += 1;
        }
        for at in 0..PARTITION_COUNT {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let (mut sorted, mut nths) = (vec![0; hashes.len()], vec![0; hashes.len()]);
        for (nth, &hash) in (0..).zip(hashes) {
            let at = &mut next[PartitionId::of(hash).index()];
            (sorted[*at as usize], nths[*at as usize]) = (hash, nth);
            *at += 1;
        }
        let is_left = starts.windows(2).map(|ends| ends[0] < ends[1]).collect();
        Sorted { hashes: sorted, nths, starts, is_left }
    }

    /// The keys of a partition; to be called once for each.
    fn take(&mut self, id: PartitionId) -> (&[u64], &[u32]) {
        let at = id.index();
        let mut range = self.starts[at] as usize..self.starts[at + 1] as usize;
        if !std::mem::take(&mut self.is_left[at]) {
            range.end = range.start;
        }
        (&self.hashes[range.clone()], &self.nths[range])
    }
}

/// Prefetches keys while they are gone through.
#[inline]
pub(crate) fn prefetch(keys: &Locked<'_>, hashes: &[u64], at: usize) {
    if at.is_multiple_of(PREFETCHED) {
        keys.prefetch(&hashes[at..]);
    }
}

impl Call<'_, '_> {
    /// Calls `act` with the number of each of the command's keys, in any order. On the lane, where
    /// possible, partitions are freed before the end: what `act` has seen need not hold any more,
    /// and no key may be opened afterwards.
    pub(crate) fn for_each_key(
        &mut self,
        mut act: impl FnMut(&mut Self, usize),
    ) -> Result<(), Stop> {
        let hashes = self.hashes;
        if !self.may_free_early() {
            for nth in 0..hashes.len() {
                if hashes.len() > 1 {
                    prefetch(self.keys, hashes, nth);
                }
                act(self, nth);
            }
            return Ok(());
        }
        let mut sorted = self.meanwhile(|| Sorted::of(hashes))?;
        self.keys.stamp_early();
        // From the last one, so that the held ones move least.
        let mut rest: Vec<PartitionId> = PartitionId::all().collect();
        let mut wanted: Vec<PartitionId> = Vec::new();
        let mut since_look = LOOKED_AFTER;
        loop {
            if wanted.is_empty() && since_look >= LOOKED_AFTER {
                wanted.extend(self.keys.wanted());
                since_look = 0;
            }
            let Some(id) = wanted.pop().or_else(|| rest.pop()) else { return Ok(()) };
            let (hashes, nths) = sorted.take(id);
            for (at, nth) in nths.iter().enumerate() {
                prefetch(self.keys, hashes, at);
                act(self, *nth as usize);
            }
            since_look += nths.len();
            // Clients blocked on changed keys are served while everything left is still held.
            if !self.keys.has_ready() {
                self.keys.free_early(id);
            }
        }
    }

    /// Whether partitions may be freed before the command has ended. Not if it is recorded at its
    /// end: later commands in a partition must come after it in the journal, too.
    fn may_free_early(&self) -> bool {
        self.has_many_args()
            && !self.is_recorded()
            && self.may_pause()
            && self.session.tracking.is_none()
            && !self.space().wanted().has_events()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use pantala_keyspace::event::EventClass;
    use pantala_keyspace::{Busy, EventMask, Inbox, Ticket};
    use pantala_protocol::{Reply, Version};
    use pantala_settings::Settings;
    use parking_lot::Mutex;

    use super::*;
    use crate::test_support::{Fixture, fixture};

    /// Keys of a command, about four in each partition.
    const KEYS: usize = 4_096;

    /// A command of these keys, `each` with what follows it.
    fn wide(command: &str, each: impl Fn(usize) -> String) -> String {
        let words: Vec<String> = (0..KEYS).map(|n| format!("k{n}{}", each(n))).collect();
        format!("{command} {}", words.join(" "))
    }

    fn plain(command: &str) -> String {
        wide(command, |_| String::new())
    }

    /// How far the command was when a partition was let go.
    struct LetGo {
        done: Arc<AtomicUsize>,
        seen: Arc<Mutex<Vec<usize>>>,
    }

    impl Inbox for LetGo {
        fn unpark(&self, _connection: u64, _parking: u32) {
            self.seen.lock().push(self.done.load(Ordering::Relaxed));
        }

        fn wake(&self) {}
    }

    /// Keys of partitions that are not among the first to be done.
    fn late_keys(fixture: &Fixture) -> Vec<String> {
        let keys = (0..KEYS).map(|n| format!("k{n}"));
        let is_late = |key: &String| PartitionId::of(fixture.space.hash(key.as_bytes())).0 < 500;
        keys.filter(is_late).take(5).collect()
    }

    /// Goes through the keys of a command; others come after the first one, and wait for late ones.
    /// After how many keys each of those was let go, until the command had ended.
    fn let_go_after(fixture: &Fixture, words: &str, may_wait: bool) -> Vec<usize> {
        let done = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        fixture
            .call(words, |call| {
                call.may_wait = may_wait;
                let went = call.for_each_key(|_, _| {
                    if done.fetch_add(1, Ordering::Relaxed) > 0 {
                        return;
                    }
                    for key in late_keys(fixture) {
                        let (done, seen) = (Arc::clone(&done), Arc::clone(&seen));
                        let inbox = Arc::new(LetGo { done, seen });
                        let ticket = Ticket::Connection { inbox, connection: 0, parking: 0 };
                        let busy = Busy(PartitionId::of(fixture.space.hash(key.as_bytes())));
                        assert!(fixture.space.park(busy, ticket).is_ok(), "{key} is held");
                    }
                });
                assert_eq!((went, done.load(Ordering::Relaxed)), (Ok(()), KEYS));
                seen.lock().clone()
            })
            .0
    }

    /// The most keys that one partition has.
    fn most_in_one(fixture: &Fixture) -> usize {
        let hashes: Vec<u64> =
            (0..KEYS).map(|n| fixture.space.hash(format!("k{n}").as_bytes())).collect();
        let starts = Sorted::of(&hashes).starts;
        starts.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().expect("there are some")
    }

    #[test]
    fn where_others_wait_it_is_done_first() {
        let fixture = fixture();
        let most = LOOKED_AFTER + 6 * most_in_one(&fixture);
        let values = wide("MSET", |n| format!(" v{n}"));
        for words in [values, plain("DEL"), plain("UNLINK"), plain("EXISTS"), plain("MGET")] {
            let seen = let_go_after(&fixture, &words, true);
            assert_eq!(seen.len(), 5, "{}", &words[..8]);
            assert!(seen.iter().all(|after| *after <= most), "{seen:?} of {KEYS}, {}", &words[..8]);
        }
    }

    #[test]
    fn a_transaction_and_who_listens_to_events_keep_all_to_the_end() {
        let fixture = fixture();
        assert_eq!(let_go_after(&fixture, &plain("DEL"), false), []);
        fixture.space.want(EventMask::READ_KEYS);
        assert_eq!(let_go_after(&fixture, &plain("DEL"), true).len(), 5);
        fixture.space.want(EventMask::events(EventClass::GENERIC));
        assert_eq!(let_go_after(&fixture, &plain("DEL"), true), []);
    }

    #[test]
    fn what_is_answered_is_the_same_as_in_one_go() {
        let values = wide("MSET", |n| format!(" v{}", n % 50));
        // Each key a second time, with another value.
        let again: Vec<String> = (0..KEYS).map(|n| format!("k{n} {n}")).collect();
        let twice = format!("{values} {}", again.join(" "));
        let not_all = format!("{} k1 k1 missing", plain("MGET"));
        let steps = [
            plain("EXISTS"),
            values.replacen("MSET", "MSETNX", 1),
            values.replacen("MSET", "MSETNX", 1),
            plain("MGET"),
            twice,
            "LPUSH list a".to_owned(),
            not_all.clone() + " list",
            plain("TOUCH"),
            plain("EXISTS") + " k5 missing",
            format!("MSETEX {KEYS} {} XX PX 5", &values[5..]),
            format!("MSETEX {KEYS} {} NX", &values[5..]),
            "PTTL k9".to_owned(),
            plain("DEL") + " k7 list missing",
            plain("UNLINK"),
            not_all,
        ];
        let (early, held) = (fixture(), fixture());
        for words in steps {
            let (done, reply) = held.call(&words, |call| {
                call.may_wait = false;
                (call.command.handler)(call)
            });
            let answer = done.map(|()| String::from_utf8(reply).expect("text"));
            assert!(early.answer(&words) == answer, "{}", &words[..20.min(words.len())]);
        }
    }

    #[test]
    fn a_reply_over_its_limit_says_so() {
        let fixture = fixture();
        fixture.answer(&wide("MSET", |n| format!(" value{n}"))).expect("it has room");
        let most = Settings::defaults().client_output_buffer_limit;
        assert_eq!(most.normal.most_bytes(), usize::MAX);
        let mut settings = Settings::defaults();
        settings.client_output_buffer_limit.normal.hard_bytes = 1000;
        let (done, reply) = fixture.call(&plain("MGET"), |call| {
            let mut out = Vec::new();
            let reply = Reply::new(&mut out, Version::Resp2).at_most(1000);
            let (keys, session) = (&mut *call.keys, &mut *call.session);
            let mut call = Call { reply, keys, session, settings: &settings, ..*call };
            let done = (call.command.handler)(&mut call);
            let is_short = call.reply.is_short();
            (done, is_short, out.len() > 1000 && out.len() < 4000)
        });
        assert_eq!((done, reply.len()), ((Ok(()), true, true), 0));
    }

    /// Commands that read meanwhile see all of it or nothing, and never less than before.
    #[test]
    fn it_happens_at_one_moment() {
        let fixture = fixture();
        fixture.answer(&wide("MSET", |_| " 0".to_owned())).expect("it has room");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=12 {
                    fixture.answer(&wide("MSET", |_| format!(" {round}"))).expect("it has room");
                }
                is_over.store(true, Ordering::Release);
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let all = fixture.answer(&plain("MGET")).expect("they are there");
                    let mut values = all.lines().skip(2).step_by(2);
                    let first = values.next().expect("there is one");
                    assert!(values.all(|value| value == first), "half of it was seen");
                }
            });
            scope.spawn(|| {
                let (mut before, mut at) = (0, 0);
                while !is_over.load(Ordering::Acquire) {
                    at = (at * 5 + 1) % KEYS;
                    let answer = fixture.answer(&format!("GET k{at}")).expect("it is there");
                    let value = answer.lines().nth(1).expect("it has a value");
                    let value: u64 = value.parse().expect("a number");
                    assert!(value >= before, "k{at} is older than one that was read before");
                    before = value;
                }
            });
        });
    }
}
