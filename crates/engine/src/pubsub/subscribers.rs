//! The subscribers at one worker, and the queue of messages for them.
//!
//! The queue is lock-free: any thread adds messages. The rest is behind a mutex with little
//! contention: the worker takes it to deliver, and for its connections' SUBSCRIBE and UNSUBSCRIBE;
//! a thread of the lane takes it when such a command is in a transaction there.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::SegQueue;
use pantala_keyspace::Ticket;
use pantala_protocol::Version;
use parking_lot::{Mutex, MutexGuard};

use super::Kind;
use super::indexed_list::{IndexedList, Key};
use super::message::Message;
use super::name::{Name, SubscriberId};

/// The most bytes of messages kept for a connection in transit; with more it is closed on arrival.
const BAG_BYTES: usize = 64 << 20;

/// With more bytes than this in the queue publishers wait,
const CROWDED_BYTES: usize = 16 << 20;
/// until no more than this are left.
const RELIEVED_BYTES: usize = 4 << 20;
/// With more than this, messages are lost, and the connections that should get them are closed.
/// Only scripts and transactions, which do not wait, can cause that.
const FULL_BYTES: usize = 64 << 20;

/// The subscribers at one worker, and the queue of messages for them.
#[derive(Default)]
pub struct WorkerSubscribers {
    message: SegQueue<Message>,
    queued_bytes: AtomicUsize,
    waiting: Mutex<WaitingPublishers>,
    inside: Mutex<SubscriberTables>,
}

/// Publishers that wait for the queue to become short.
#[derive(Default)]
struct WaitingPublishers {
    is_crowded: bool,
    tickets: Vec<Ticket>,
}

/// The subscriptions of this worker's connections.
#[derive(Default)]
pub struct SubscriberTables {
    /// By kind: each name with its subscribers, and the moment at which each subscribed.
    names: [IndexedList<Name, IndexedList<SubscriberId, u64>>; 3],
    /// The subscribers.
    subscribers: IndexedList<SubscriberId, Box<Subscriber>>,
}

/// One connection with subscriptions.
#[derive(Default)]
pub struct Subscriber {
    /// By kind: the names it has subscribed to, in that order.
    pub names: [IndexedList<Name, ()>; 3],
    /// Messages kept for it while it is in transit, in its protocol version.
    pub transit: Transit,
}

/// Messages for a connection in transit.
#[derive(Default)]
pub struct Transit {
    /// The messages as they are sent.
    pub bytes: Vec<u8>,
    /// There were too many.
    pub is_torn: bool,
    /// The protocol version of the connection.
    pub version: Version,
}

impl WorkerSubscribers {
    /// Adds a message to the queue; whether the queue has just become so long that publishers have
    /// to wait.
    pub fn leave(&self, message: Message) -> bool {
        let is_full = self.queued_bytes.load(Ordering::Relaxed) > FULL_BYTES;
        let message = if is_full { message.lose() } else { message };
        let bytes = message.wire_bytes();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.message.push(message);
        before <= CROWDED_BYTES && before + bytes > CROWDED_BYTES && self.become_crowded()
    }

    /// The next message.
    pub fn take(&self) -> Option<Message> {
        let message = self.message.pop()?;
        self.queued_bytes.fetch_sub(message.wire_bytes(), Ordering::Relaxed);
        Some(message)
    }

    /// How many messages are in the queue.
    pub fn len(&self) -> usize {
        self.message.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.message.is_empty()
    }

    /// Makes publishers wait; false if they do already.
    #[cold]
    pub fn become_crowded(&self) -> bool {
        let mut waiting = self.waiting.lock();
        !std::mem::replace(&mut waiting.is_crowded, true)
    }

    /// Lets publishers go on if enough was taken; returns the tickets of those that wait. `None`:
    /// the queue is still long, or was not.
    pub fn relieve(&self) -> Option<Vec<Ticket>> {
        if self.queued_bytes.load(Ordering::Relaxed) > RELIEVED_BYTES {
            return None;
        }
        let mut waiting = self.waiting.lock();
        let was_crowded = std::mem::replace(&mut waiting.is_crowded, false);
        was_crowded.then(|| std::mem::take(&mut waiting.tickets))
    }

    /// Parks a publisher until the queue is short; the ticket is returned if it is.
    pub fn wait(&self, ticket: Ticket) -> Result<(), Ticket> {
        let mut waiting = self.waiting.lock();
        if !waiting.is_crowded {
            return Err(ticket);
        }
        waiting.tickets.push(ticket);
        Ok(())
    }

    /// Locks the subscriptions.
    pub fn lock(&self) -> MutexGuard<'_, SubscriberTables> {
        self.inside.lock()
    }
}

impl Subscriber {
    fn is_empty(&self) -> bool {
        self.names.iter().all(IndexedList::is_empty)
    }
}

impl SubscriberTables {
    /// The subscriber at a subscriber_id.
    pub fn subscriber(&self, subscriber_id: SubscriberId) -> Option<&Subscriber> {
        self.subscribers
            .get(subscriber_id.hash(), |found| *found == subscriber_id)
            .map(|(_, found)| &**found)
    }

    /// Whether a connection has subscribed to a name.
    pub fn has(&self, subscriber_id: SubscriberId, kind: Kind, hash: u64, name: &[u8]) -> bool {
        let subscriber = self.subscriber(subscriber_id);
        subscriber.is_some_and(|one| one.names[kind as usize].get(hash, Name::is(name)).is_some())
    }

    /// Adds a subscription; whether it is the connection's first.
    pub fn join(
        &mut self,
        subscriber_id: SubscriberId,
        kind: Kind,
        name: &Name,
        moment: u64,
    ) -> bool {
        let names = &mut self.names[kind as usize];
        let fits = Name::is(name.bytes());
        match names.get_mut(name.hash(), &fits) {
            Some(crowd) => crowd,
            None => names.insert(name.clone(), IndexedList::default()),
        }
        .insert(subscriber_id, moment);
        let is_first = self.subscriber(subscriber_id).is_none();
        if is_first {
            self.subscribers.insert(subscriber_id, Box::default());
        }
        if let Some(one) =
            self.subscribers.get_mut(subscriber_id.hash(), |found| *found == subscriber_id)
        {
            one.names[kind as usize].insert(name.clone(), ());
        }
        is_first
    }

    /// Removes a subscription; whether it was the connection's last.
    pub fn leave(
        &mut self,
        subscriber_id: SubscriberId,
        kind: Kind,
        hash: u64,
        name: &[u8],
    ) -> bool {
        let fits = Name::is(name);
        let names = &mut self.names[kind as usize];
        if let Some(crowd) = names.get_mut(hash, &fits) {
            crowd.remove(subscriber_id.hash(), |found| *found == subscriber_id);
            if crowd.is_empty() {
                names.remove(hash, &fits);
            }
        }
        let is_it = |found: &SubscriberId| *found == subscriber_id;
        let Some(one) = self.subscribers.get_mut(subscriber_id.hash(), is_it) else { return false };
        one.names[kind as usize].remove(hash, fits);
        let is_last = one.is_empty();
        if is_last {
            self.subscribers.remove(subscriber_id.hash(), is_it);
        }
        is_last
    }

    /// Removes a subscriber, but not its entries under its names.
    pub fn take(&mut self, subscriber_id: SubscriberId) -> Option<Box<Subscriber>> {
        self.subscribers
            .remove(subscriber_id.hash(), |found| *found == subscriber_id)
            .map(|(_, one)| one)
    }

    /// Sets the transit of a subscriber that has no names yet.
    pub fn give_transit(&mut self, subscriber_id: SubscriberId, transit: Transit) {
        if let Some(one) =
            self.subscribers.get_mut(subscriber_id.hash(), |found| *found == subscriber_id)
        {
            one.transit = transit;
        }
    }

    /// Calls `to` for every subscriber that should get a message: those of the channel, then those
    /// of each pattern.
    pub fn deliver(&self, message: &Message, mut to: impl FnMut(SubscriberId, Option<&Name>)) {
        let channels = &self.names[message.kind as usize];
        if let Some((_, crowd)) = channels.get(message.hash, Name::is(message.channel())) {
            for &(subscriber_id, joined) in crowd.rows() {
                if joined <= message.moment {
                    to(subscriber_id, None);
                }
            }
        }
        for (pattern, moment) in message.patterns.iter().flatten() {
            let patterns = &self.names[Kind::Pattern as usize];
            let found = patterns.get(pattern.hash(), |name| name == pattern);
            for &(subscriber_id, joined) in found.map_or(&[][..], |(_, crowd)| crowd.rows()) {
                if joined <= *moment {
                    to(subscriber_id, Some(pattern));
                }
            }
        }
    }

    /// Whether this subscriber, of the channel or of a pattern, should still get a message.
    pub fn is_meant(
        &self,
        message: &Message,
        subscriber_id: SubscriberId,
        pattern: Option<&Name>,
    ) -> bool {
        let (names, moment) = match pattern {
            None => {
                let channels = &self.names[message.kind as usize];
                (channels.get(message.hash, Name::is(message.channel())), Some(message.moment))
            }
            Some(pattern) => {
                let patterns = &self.names[Kind::Pattern as usize];
                let mut fitting = message.patterns.iter().flatten();
                let moment = fitting.find(|(name, _)| name == pattern).map(|(_, moment)| *moment);
                (patterns.get(pattern.hash(), |name| name == pattern), moment)
            }
        };
        let crowd = names.and_then(|(_, crowd)| {
            crowd.get(subscriber_id.hash(), |found| *found == subscriber_id)
        });
        crowd.zip(moment).is_some_and(|((_, joined), moment)| *joined <= moment)
    }

    /// Adds a message to the transits of subscribers in transit.
    pub fn transit(&mut self, message: &Message) {
        let mut meant = Vec::new();
        self.deliver(message, |subscriber_id, pattern| {
            meant.push((subscriber_id, pattern.cloned()))
        });
        for (subscriber_id, pattern) in meant {
            let found = self.subscribers.get_mut(subscriber_id.hash(), |one| *one == subscriber_id);
            let Some(transit) = found.map(|one| &mut one.transit) else { continue };
            if transit.bytes.len() > BAG_BYTES {
                transit.is_torn = true;
                continue;
            }
            message.write(&mut transit.bytes, transit.version, pattern.as_ref());
        }
    }
}
