//! Many threads that lock sets of partitions: none sees half of a change, and no wake-up is lost. A
//! lost wake-up shows as a test that does not end.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use common::{DB, NOW, get, keyspace, scope, set};
use pantala_base::rng::Rng;
use pantala_journal::{Journal, Recorder, Stamp};
use pantala_keyspace::{
    Expiry, Inbox, Key, Keyspace, LockPlan, Locked, PartitionId, Scope, Tally, ThreadWaker, Ticket,
    event,
};
use pantala_table::StrRef;
use parking_lot::Mutex;

const ACCOUNTS: usize = 12;
const OPENING: i64 = 1000;
const TRANSFERS: usize = 4000;

fn account(number: usize) -> String {
    format!("account{number}")
}

/// How a thread gets a plan's partitions.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// As a lane thread does.
    Waiting,
    /// All or none, with a waker left at the partition that was busy.
    ParkedThread,
    /// All or none, called back through an inbox, as a worker is.
    ParkedConnection,
}

struct Post(Mutex<Sender<(u64, u32)>>);

impl Inbox for Post {
    fn unpark(&self, connection: u64, parking: u32) {
        let sender = self.0.lock();
        sender.send((connection, parking)).expect("the thread lives as long as its tickets");
    }

    fn wake(&self) {}
}

/// Runs `work` with the partitions of the plan, `times` times over, as `way` says.
fn run(
    space: &Keyspace,
    way: Way,
    times: usize,
    parked: &AtomicUsize,
    mut plan: impl FnMut(usize) -> LockPlan,
    mut work: impl FnMut(usize, &mut Locked<'_>),
) {
    let tally = Tally::default();
    let scope = scope(space, &tally, DB, NOW);
    let (sender, calls) = channel();
    let inbox: Arc<dyn Inbox> = Arc::new(Post(Mutex::new(sender)));
    let mut parking = 0;
    for time in 0..times {
        let plan = plan(time);
        loop {
            let busy = match (way, space.lock(&plan, scope)) {
                (Way::Waiting, taken) => {
                    drop(taken);
                    break work(time, &mut space.lock_waiting(&plan, scope));
                }
                (_, Ok(mut locked)) => break work(time, &mut locked),
                (_, Err(busy)) => busy,
            };
            parking += 1;
            if let Way::ParkedThread = way {
                let waker = ThreadWaker::for_this_thread();
                if space.park(busy, Ticket::Thread(Arc::clone(&waker))).is_ok() {
                    parked.fetch_add(1, Ordering::Relaxed);
                    waker.wait();
                }
                continue;
            }
            let inbox = Arc::clone(&inbox);
            let ticket = Ticket::Connection { inbox, connection: 9, parking };
            if space.park(busy, ticket).is_ok() {
                parked.fetch_add(1, Ordering::Relaxed);
                let call = calls.recv().expect("this thread keeps a sender");
                assert_eq!(call, (9, parking), "called once for each ticket, and for the last one");
            }
        }
    }
}

fn number(locked: &mut Locked<'_>, key: Key<'_>) -> i64 {
    let opened = locked.read(key);
    match opened.string().expect("a string") {
        Some(StrRef::Int(number)) => number,
        other => panic!("an account holds {other:?}"),
    }
}

fn add(locked: &mut Locked<'_>, key: Key<'_>, more: i64) {
    let balance = number(locked, key) + more;
    let mut opened = locked.open(key);
    opened.set_int(balance);
    opened.publish(event::INCRBY);
}

/// Moves money between two random accounts, most of them always the same two.
fn transfer(space: &Keyspace, way: Way, seed: u64, parked: &AtomicUsize) {
    let names: Vec<String> = (0..ACCOUNTS).map(account).collect();
    let mut rng = Rng::from_seed(seed);
    let pairs: Vec<(usize, usize)> = (0..TRANSFERS)
        .map(|_| {
            let span = if rng.below(4) == 0 { ACCOUNTS as u64 } else { 3 };
            (rng.below(span) as usize, rng.below(span) as usize)
        })
        .collect();
    let key = |number: usize| space.key(names[number].as_bytes());
    let plan = |time: usize| {
        let (from, to) = pairs[time];
        LockPlan::of([key(from).hash, key(to).hash])
    };
    run(space, way, TRANSFERS, parked, plan, |time, locked| {
        let (from, to) = pairs[time];
        add(locked, key(from), -1);
        add(locked, key(to), 1);
    });
}

fn audit(space: &Keyspace, way: Way, parked: &AtomicUsize) {
    let names: Vec<String> = (0..ACCOUNTS).map(account).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|name| space.key(name.as_bytes())).collect();
    let plan = |_| LockPlan::of(keys.iter().map(|key| key.hash));
    run(space, way, 400, parked, plan, |_, locked| {
        let total: i64 = keys.iter().map(|key| number(locked, *key)).sum();
        assert_eq!(total, ACCOUNTS as i64 * OPENING, "half of a transfer was seen");
    });
}

#[test]
fn transfers_are_seen_whole_and_everybody_gets_there() {
    let space = keyspace();
    for number in 0..ACCOUNTS {
        set(&space, DB, &account(number), &OPENING.to_string(), Expiry::Never);
    }
    let parked = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        let (space, parked) = (&space, &parked);
        for (seed, way) in [
            Way::Waiting,
            Way::ParkedThread,
            Way::ParkedThread,
            Way::ParkedConnection,
            Way::ParkedConnection,
        ]
        .into_iter()
        .enumerate()
        {
            threads.spawn(move || transfer(space, way, seed as u64, parked));
        }
        threads.spawn(move || audit(space, Way::Waiting, parked));
        threads.spawn(move || audit(space, Way::ParkedConnection, parked));
    });
    let total: i64 = (0..ACCOUNTS)
        .map(|number| get(&space, DB, &account(number), NOW).expect("there"))
        .map(|text| text.parse::<i64>().expect("a number"))
        .sum();
    assert_eq!(total, ACCOUNTS as i64 * OPENING);
}

#[test]
fn a_ticket_left_at_a_held_partition_is_called_when_it_is_free() {
    let space = keyspace();
    let tally = Tally::default();
    let scope = scope(&space, &tally, DB, NOW);
    let plan = LockPlan::one(space.hash(b"k"));
    let held = space.lock(&plan, scope).expect("nobody has it");
    let Err(busy) = space.lock(&plan, scope).map(drop) else { panic!("it is held") };
    let (sender, calls) = channel();
    let inbox: Arc<dyn Inbox> = Arc::new(Post(Mutex::new(sender)));
    for parking in 1..=3 {
        let inbox = Arc::clone(&inbox);
        let ticket = Ticket::Connection { inbox, connection: 5, parking };
        assert!(space.park(busy, ticket).is_ok());
    }
    assert!(calls.try_recv().is_err(), "nobody is called while it is held");
    drop(held);
    assert_eq!(calls.try_recv(), Ok((5, 1)), "the first is called");
    let ticket = Ticket::Connection { inbox, connection: 5, parking: 4 };
    assert!(space.park(busy, ticket).is_err(), "a free partition takes no ticket");
}

/// The records of recorder `thread` for its step with these partitions; one may be freed before its
/// end.
fn record(
    space: &Keyspace,
    recorder: &Recorder,
    ids: &[u64],
    early: &mut dyn FnMut(&mut Locked<'_>),
) {
    let tally = Tally::default();
    let scope = Scope { recorder: Some(recorder), ..scope(space, &tally, DB, NOW) };
    let plan = LockPlan::of(ids.iter().copied());
    let mut locked = space.lock(&plan, scope).unwrap_or_else(|_| panic!("nobody holds {ids:?}"));
    early(&mut locked);
    recorder.record(0, &[b"DEL", b"key"]);
}

#[test]
fn who_takes_what_was_free_early_comes_later_in_the_journal() {
    let space = keyspace();
    let journal = Arc::new(Journal::default());
    // With equal times the smallest number would come first.
    let [first, early, before] = [(); 3].map(|()| journal.join());
    let mut first = Some(first);
    let mut other = Stamp::default();
    record(&space, &before, &[2], &mut |_| ());
    record(&space, &early, &[1, 2], &mut |locked| {
        locked.stamp_early();
        locked.free_early(PartitionId(1));
        let first = first.take().expect("it runs once");
        let space = &space;
        let run = move || {
            record(space, &first, &[1], &mut |_| ());
            first.last()
        };
        other = std::thread::scope(|scope| scope.spawn(run).join()).expect("it is free");
    });
    assert!(early.last() > before.last());
    assert!(other > early.last());
}
