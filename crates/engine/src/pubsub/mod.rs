//! Publish and subscribe, across workers.
//!
//! ```text
//! PUBLISH --> index: which workers have subscribers of this channel, and how many
//!         --> one message into the queue of each such worker's subscribers   (leave)
//!         --> wakes those that sleep                                       (wake)
//! worker  --> subscribers: which of its connections have subscribed --> their outputs
//! ```
//!
//! So a publisher's work grows with the number of workers, not of subscribers, and it never waits
//! for a subscriber.
//!
//! Invariants
//! 1. A subscription is in the index and in the subscribers of its worker, or in neither: both
//!    change while the name's stripe of the index is locked for writing.
//! 2. A message is in the queues of all workers concerned before its stripe, which a publisher
//!    locks for reading, is released. So it is published at one moment, and reaches the connections
//!    that PUBLISH counts: all except those that unsubscribe or end at this very moment.
//! 3. A worker delivers its queue before it runs a command that subscribes, unsubscribes or
//!    publishes, and after it. So a connection gets no message before the confirmation of SUBSCRIBE
//!    or after that of UNSUBSCRIBE, and messages of one publisher in order.
//! 4. A worker delivers a limited amount a turn. While its queue is long, publishers wait after
//!    their reply: so the queue is bounded by what each can send with one command. They wait for
//!    the worker only, never for a slow subscriber, which is dropped. Scripts and transactions do
//!    not wait; if they fill the queue, connections that would miss a message are dropped.
//! 5. Locks are taken in this order: partitions, stripes, subscribers. Nothing else is waited for
//!    while one of the latter two is held.
//! 6. A connection that moves between two workers is *in transit*: it is a subscriber at a place of
//!    its own, where publishers leave its messages.
//!
//! Keyspace events are published on channels too (`events`).
//!
//! Not here: the commands (`commands`), delivery to connections (the server). Tests: `tests`,
//! compat/transcripts/pubsub, compat/bad_days.

mod backpressure;
mod channel_index;
pub mod commands;
pub mod events;
mod indexed_list;
pub mod message;
pub mod name;
pub mod subscribers;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};

use pantala_base::glob;
use pantala_base::hash::HashSeed;
use pantala_commands::ServicePlace;
use pantala_protocol::Version;

use crate::clients::mailbox::{MAX_WORKERS, WorkerSet};
use channel_index::{ChannelIndex, SubscribersByWorker, total};
use message::Message;
use name::{Name, SubscriberId};
use subscribers::{Transit, WorkerSubscribers};

/// Stripes of a index: enough that publishers seldom touch the same cache line.
const STRIPES: usize = 64;
/// Where connections are that are on their way between two workers.
pub const IN_TRANSIT: u16 = MAX_WORKERS as u16;

/// What one subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel.
    Channel,
    /// All channels that fit a pattern.
    Pattern,
    /// A channel that belongs to a slot of the cluster: a shard channel.
    SlotChannel,
}

/// Workers that have messages and may sleep.
#[derive(Default)]
pub struct WakeSet([u64; MAX_WORKERS / 64]);

impl WakeSet {
    /// Notes that a worker has messages and may sleep.
    pub fn add(&mut self, worker: u16) {
        self.0[usize::from(worker) / 64] |= 1 << (worker % 64);
    }

    /// Takes one off: it is awake.
    pub fn remove(&mut self, worker: usize) {
        self.0[worker / 64] &= !(1 << (worker % 64));
    }

    /// All of them.
    pub fn workers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(word, &bits)| {
            let rest = std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)));
            let rest = rest.take_while(|bits| *bits != 0);
            rest.map(move |bits| word * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// Wakes them. To be called with no partition held.
    pub fn wake(&mut self, workers: &dyn WorkerSet) {
        self.workers().for_each(|worker| workers.wake(worker));
        *self = WakeSet::default();
    }
}

/// All subscriptions of the server: the indexes of channels, patterns and shard channels, and the
/// subscribers at each worker.
pub struct PubSub {
    seed: HashSeed,
    indexes: [ChannelIndex; 3],
    subscribers: Box<[WorkerSubscribers]>,
    clients: AtomicUsize,
    /// Workers with so much in their queues that publishers wait.
    crowded: AtomicUsize,
}

impl Default for PubSub {
    fn default() -> Self {
        PubSub {
            seed: HashSeed::random(),
            indexes: [ChannelIndex::new(STRIPES), ChannelIndex::new(1), ChannelIndex::new(STRIPES)],
            subscribers: (0..=MAX_WORKERS).map(|_| WorkerSubscribers::default()).collect(),
            clients: AtomicUsize::new(0),
            crowded: AtomicUsize::new(0),
        }
    }
}

impl PubSub {
    /// The subscribers of one worker, and the messages that wait for them.
    pub fn subscribers_of(&self, worker: usize) -> &WorkerSubscribers {
        &self.subscribers[worker]
    }

    /// Publishes a message; how many get it. Any thread, also with partitions held: takes none,
    /// makes no system call. The workers that must be woken are added to `wakes`.
    pub fn leave(&self, kind: Kind, channel: &[u8], message: &[u8], wakes: &mut WakeSet) -> usize {
        if self.is_deserted(kind) {
            return 0;
        }
        let hash = self.seed.hash(channel);
        let stripe = self.indexes[kind as usize].read(hash);
        let spread = stripe.names.get(hash, Name::is(channel)).map(|(_, spread)| spread);
        let new = || Message::new(kind, hash, channel, message, stripe.changes);
        if !self.has_patterns(kind) {
            return spread.map_or(0, |spread| self.spread(&new(), spread, wakes));
        }
        self.leave_with_patterns(channel, spread, new, wakes)
    }

    /// Publishes and wakes.
    pub fn publish(
        &self,
        kind: Kind,
        channel: &[u8],
        message: &[u8],
        workers: &dyn WorkerSet,
    ) -> usize {
        let mut wakes = WakeSet::default();
        let count = self.leave(kind, channel, message, &mut wakes);
        wakes.wake(workers);
        count
    }

    /// How many would get a message.
    pub fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        if self.is_deserted(kind) {
            return 0;
        }
        let mut count = self.subscribers(kind, channel);
        if self.has_patterns(kind) {
            let patterns = self.indexes[Kind::Pattern as usize].read(0);
            let all = patterns.names.rows().iter();
            let fitting = all.filter(|(pattern, _)| glob::matches(pattern.bytes(), channel));
            count += fitting.map(|(_, spread)| total(spread)).sum::<usize>();
        }
        count
    }

    /// Nobody listens at all, so nothing need be looked at.
    #[inline]
    pub fn is_deserted(&self, kind: Kind) -> bool {
        self.indexes[kind as usize].count() == 0 && !self.has_patterns(kind)
    }

    /// Whether patterns have to be looked at for a message of this kind.
    #[inline]
    fn has_patterns(&self, kind: Kind) -> bool {
        kind == Kind::Channel && self.indexes[Kind::Pattern as usize].count() > 0
    }

    fn spread(
        &self,
        message: &Message,
        spread: &SubscribersByWorker,
        wakes: &mut WakeSet,
    ) -> usize {
        for (worker, _) in spread {
            self.leave_at(*worker, message.with(None), wakes);
        }
        total(spread)
    }

    #[cold]
    fn leave_with_patterns(
        &self,
        channel: &[u8],
        spread: Option<&SubscribersByWorker>,
        new: impl Fn() -> Message,
        wakes: &mut WakeSet,
    ) -> usize {
        let patterns = self.indexes[Kind::Pattern as usize].read(0);
        let all = patterns.names.rows().iter();
        let fitting: Vec<&(Name, SubscribersByWorker)> =
            all.filter(|(pattern, _)| glob::matches(pattern.bytes(), channel)).collect();
        let message = new();
        if fitting.is_empty() {
            return spread.map_or(0, |spread| self.spread(&message, spread, wakes));
        }
        let all = spread.into_iter().chain(fitting.iter().map(|(_, spread)| spread));
        let count = all.clone().map(total).sum();
        let mut workers: Vec<u16> = all.flatten().map(|(worker, _)| *worker).collect();
        workers.sort_unstable();
        workers.dedup();
        for worker in workers {
            let here = fitting.iter().filter(|(_, at)| at.iter().any(|(one, _)| *one == worker));
            let here: Box<[_]> = here.map(|(name, _)| (name.clone(), patterns.changes)).collect();
            self.leave_at(worker, message.with(Some(here)), wakes);
        }
        count
    }

    fn leave_at(&self, worker: u16, message: Message, wakes: &mut WakeSet) {
        let subscribers = &self.subscribers[usize::from(worker)];
        if worker == IN_TRANSIT {
            return subscribers.lock().transit(&message);
        }
        if subscribers.leave(message) {
            self.crowded.fetch_add(1, Ordering::Relaxed);
        }
        wakes.add(worker);
    }

    /// Subscribes a connection; false if it has subscribed already.
    pub fn subscribe(&self, place: ServicePlace, kind: Kind, name: &[u8]) -> bool {
        let hash = self.seed.hash(name);
        let (worker, subscriber_id) = (place.worker, SubscriberId(place.connection));
        let index = &self.indexes[kind as usize];
        let mut stripe = index.write(hash);
        let mut subscribers = self.subscribers[usize::from(worker)].lock();
        if subscribers.has(subscriber_id, kind, hash, name) {
            return false;
        }
        let (name, moment) = index.join(&mut stripe, hash, name, worker);
        if subscribers.join(subscriber_id, kind, &name, moment) {
            self.clients.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Ends a subscription; false if there is none.
    pub fn unsubscribe(&self, place: ServicePlace, kind: Kind, name: &[u8]) -> bool {
        let hash = self.seed.hash(name);
        let (worker, subscriber_id) = (place.worker, SubscriberId(place.connection));
        let index = &self.indexes[kind as usize];
        let mut stripe = index.write(hash);
        let mut subscribers = self.subscribers[usize::from(worker)].lock();
        if !subscribers.has(subscriber_id, kind, hash, name) {
            return false;
        }
        index.leave(&mut stripe, hash, name, worker);
        if subscribers.leave(subscriber_id, kind, hash, name) {
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// What a connection has subscribed to.
    pub fn names(&self, place: ServicePlace, kind: Kind) -> Vec<Name> {
        self.last_names(place, kind, usize::MAX)
    }

    fn last_names(&self, place: ServicePlace, kind: Kind, most: usize) -> Vec<Name> {
        let subscribers = self.subscribers[usize::from(place.worker)].lock();
        let subscriber = subscribers.subscriber(SubscriberId(place.connection));
        let names = subscriber.map_or(&[][..], |one| one.names[kind as usize].rows());
        let first = names.len().saturating_sub(most);
        names[first..].iter().map(|(name, ())| name.clone()).collect()
    }

    /// Ends all subscriptions of a connection.
    pub fn forget(&self, place: ServicePlace) {
        self.forget_some(place, usize::MAX);
    }

    /// Ends up to so many subscriptions of a connection; how many more it might have ended.
    pub fn forget_some(&self, place: ServicePlace, most: usize) -> usize {
        let mut left = most;
        for kind in [Kind::Channel, Kind::Pattern, Kind::SlotChannel] {
            let names = self.last_names(place, kind, left);
            left -= names.len();
            for name in names {
                self.unsubscribe(place, kind, name.bytes());
            }
        }
        left
    }

    /// Moves all subscriptions of a connection to another place. `before` runs at the last moment
    /// at which messages come to the old one. What was published while it was in transit.
    pub fn travel(
        &self,
        from: ServicePlace,
        to: ServicePlace,
        version: Version,
        before: impl FnOnce(),
    ) -> Transit {
        let mut stripes: Vec<Vec<_>> = self.indexes.iter().map(ChannelIndex::write_all).collect();
        before();
        let taken =
            self.subscribers[usize::from(from.worker)].lock().take(SubscriberId(from.connection));
        let Some(mut subscriber) = taken else { return Transit::default() };
        let transit =
            std::mem::replace(&mut subscriber.transit, Transit { version, ..Transit::default() });
        for kind in [Kind::Channel, Kind::Pattern, Kind::SlotChannel] {
            let index = &self.indexes[kind as usize];
            for (name, ()) in subscriber.names[kind as usize].rows() {
                let hash = indexed_list::Key::hash(name);
                let stripe = &mut stripes[kind as usize][index.stripe_of(hash)];
                let left = &self.subscribers[usize::from(from.worker)];
                left.lock().leave(SubscriberId(from.connection), kind, hash, name.bytes());
                // First in, then out: the name is to stay.
                let (_, moment) = index.join(stripe, hash, name.bytes(), to.worker);
                index.leave(stripe, hash, name.bytes(), from.worker);
                let joined = &self.subscribers[usize::from(to.worker)];
                joined.lock().join(SubscriberId(to.connection), kind, name, moment);
            }
        }
        let transit_of_new = subscriber.transit;
        self.subscribers[usize::from(to.worker)]
            .lock()
            .give_transit(SubscriberId(to.connection), transit_of_new);
        transit
    }

    /// How many connections have subscriptions.
    pub fn client_count(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// How many names of a kind have subscribers.
    pub fn count(&self, kind: Kind) -> usize {
        self.indexes[kind as usize].count()
    }

    /// How many have subscribed to a name.
    pub fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        let hash = self.seed.hash(name);
        let stripe = self.indexes[kind as usize].read(hash);
        stripe.names.get(hash, Name::is(name)).map_or(0, |(_, spread)| total(spread))
    }

    /// Calls `each` for every name of a kind that has subscribers.
    pub fn each(&self, kind: Kind, mut each: impl FnMut(&[u8])) {
        self.indexes[kind as usize].each(|name| each(name.bytes()));
    }
}
