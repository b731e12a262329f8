//! The subscribers at one worker, and the messages for them that wait to be delivered.
//!
//! The queue is lock-free: any thread puts messages in. The rest is behind a mutex for which hardly
//! anybody ever waits: the worker takes it to deliver, and for its connections' SUBSCRIBE and
//! UNSUBSCRIBE; a thread of the lane takes it when such a command stands in a transaction there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_queue::SegQueue;
use pantala_keyspace::Ticket;
use pantala_protocol::Version;

use super::Kind;
use super::name::{Name, Seat};
use super::news::News;
use super::roll::{Key, Roll};

/// A connection between two workers keeps at most so many bytes of messages; with more it is
/// closed when it arrives.
const BAG_BYTES: usize = 64 << 20;

/// With more bytes than this in the queue publishers wait before they go on.
const CROWDED_BYTES: usize = 16 << 20;
/// Until no more than this are left.
const RELIEVED_BYTES: usize = 4 << 20;
/// With more than this, which only scripts and transactions can bring about, for they do not wait,
/// messages are lost, and the connections they were meant for are closed.
const FULL_BYTES: usize = 64 << 20;

/// See the module.
#[derive(Default)]
pub struct Audience {
    news: SegQueue<News>,
    queued_bytes: AtomicUsize,
    waiting: Mutex<Waiting>,
    inside: Mutex<Inside>,
}

/// Publishers that wait for a queue to become short.
#[derive(Default)]
struct Waiting {
    is_crowded: bool,
    tickets: Vec<Ticket>,
}

/// Who listens to what.
#[derive(Default)]
pub struct Inside {
    /// By kind: names, and who has subscribed to them at which moment.
    names: [Roll<Name, Roll<Seat, u64>>; 3],
    /// The subscribers.
    subscribers: Roll<Seat, Box<Subscriber>>,
}

/// One connection with subscriptions.
#[derive(Default)]
pub struct Subscriber {
    /// By kind: what it has subscribed to, in that order.
    pub names: [Roll<Name, ()>; 3],
    /// On the way between two workers: messages for it, in this version of the protocol.
    pub bag: Bag,
}

/// Messages for a connection that no worker serves at the moment.
#[derive(Default)]
pub struct Bag {
    /// As they are sent.
    pub bytes: Vec<u8>,
    /// There were too many.
    pub is_torn: bool,
    /// The connection's.
    pub version: Version,
}

impl Audience {
    /// Puts a message into the queue; whether so much lies there now, and did not before, that
    /// publishers have to wait.
    pub fn leave(&self, news: News) -> bool {
        let is_full = self.queued_bytes.load(Ordering::Relaxed) > FULL_BYTES;
        let news = if is_full { news.lose() } else { news };
        let bytes = news.len();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.news.push(news);
        before <= CROWDED_BYTES && before + bytes > CROWDED_BYTES && self.become_crowded()
    }

    /// The next message.
    pub fn take(&self) -> Option<News> {
        let news = self.news.pop()?;
        self.queued_bytes.fetch_sub(news.len(), Ordering::Relaxed);
        Some(news)
    }

    /// How many messages are in the queue.
    pub fn len(&self) -> usize {
        self.news.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.news.is_empty()
    }

    /// Lets publishers wait; false if they do already.
    #[cold]
    pub fn become_crowded(&self) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        !std::mem::replace(&mut waiting.is_crowded, true)
    }

    /// Lets publishers go on if enough was taken; those who waited are to be woken. `None`: the
    /// queue is still long, or was not.
    pub fn relieve(&self) -> Option<Vec<Ticket>> {
        if self.queued_bytes.load(Ordering::Relaxed) > RELIEVED_BYTES {
            return None;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let was_crowded = std::mem::replace(&mut waiting.is_crowded, false);
        was_crowded.then(|| std::mem::take(&mut waiting.tickets))
    }

    /// A publisher waits until the queue is short. It comes back if that is so.
    pub fn wait(&self, ticket: Ticket) -> Result<(), Ticket> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.is_crowded {
            return Err(ticket);
        }
        waiting.tickets.push(ticket);
        Ok(())
    }

    /// Takes the mutex.
    pub fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber {
    fn is_empty(&self) -> bool {
        self.names.iter().all(Roll::is_empty)
    }
}

impl Inside {
    /// The subscriber at a seat.
    pub fn subscriber(&self, seat: Seat) -> Option<&Subscriber> {
        self.subscribers.get(seat.hash(), |found| *found == seat).map(|(_, found)| &**found)
    }

    /// Whether a connection has subscribed to a name.
    pub fn has(&self, seat: Seat, kind: Kind, hash: u64, name: &[u8]) -> bool {
        let subscriber = self.subscriber(seat);
        subscriber.is_some_and(|one| one.names[kind as usize].get(hash, Name::is(name)).is_some())
    }

    /// Enters a subscription that is not there yet; whether it is the connection's first.
    pub fn join(&mut self, seat: Seat, kind: Kind, name: &Name, moment: u64) -> bool {
        let names = &mut self.names[kind as usize];
        let fits = Name::is(name.bytes());
        match names.get_mut(name.hash(), &fits) {
            Some(crowd) => crowd,
            None => names.insert(name.clone(), Roll::default()),
        }
        .insert(seat, moment);
        let is_first = self.subscriber(seat).is_none();
        if is_first {
            self.subscribers.insert(seat, Box::default());
        }
        if let Some(one) = self.subscribers.get_mut(seat.hash(), |found| *found == seat) {
            one.names[kind as usize].insert(name.clone(), ());
        }
        is_first
    }

    /// Removes a subscription; whether it was the connection's last.
    pub fn leave(&mut self, seat: Seat, kind: Kind, hash: u64, name: &[u8]) -> bool {
        let fits = Name::is(name);
        let names = &mut self.names[kind as usize];
        if let Some(crowd) = names.get_mut(hash, &fits) {
            crowd.remove(seat.hash(), |found| *found == seat);
            if crowd.is_empty() {
                names.remove(hash, &fits);
            }
        }
        let is_seat = |found: &Seat| *found == seat;
        let Some(one) = self.subscribers.get_mut(seat.hash(), is_seat) else { return false };
        one.names[kind as usize].remove(hash, fits);
        let is_last = one.is_empty();
        if is_last {
            self.subscribers.remove(seat.hash(), is_seat);
        }
        is_last
    }

    /// Takes a subscriber out of the list of subscribers, but not out of those of its names.
    pub fn take(&mut self, seat: Seat) -> Option<Box<Subscriber>> {
        self.subscribers.remove(seat.hash(), |found| *found == seat).map(|(_, one)| one)
    }

    /// Gives a subscriber with no names yet its bag.
    pub fn give_bag(&mut self, seat: Seat, bag: Bag) {
        if let Some(one) = self.subscribers.get_mut(seat.hash(), |found| *found == seat) {
            one.bag = bag;
        }
    }

    /// Calls `to` for every subscriber that a message is meant for: those of the channel, then
    /// those of the patterns, each pattern by itself.
    pub fn deliver(&self, news: &News, mut to: impl FnMut(Seat, Option<&Name>)) {
        let channels = &self.names[news.kind as usize];
        if let Some((_, crowd)) = channels.get(news.hash, Name::is(news.channel())) {
            for &(seat, joined) in crowd.rows() {
                if joined <= news.moment {
                    to(seat, None);
                }
            }
        }
        for (pattern, moment) in news.patterns.iter().flatten() {
            let patterns = &self.names[Kind::Pattern as usize];
            let found = patterns.get(pattern.hash(), |name| name == pattern);
            for &(seat, joined) in found.map_or(&[][..], |(_, crowd)| crowd.rows()) {
                if joined <= *moment {
                    to(seat, Some(pattern));
                }
            }
        }
    }

    /// Whether a message is meant for this subscriber, of the channel or of a pattern, still.
    pub fn is_meant(&self, news: &News, seat: Seat, pattern: Option<&Name>) -> bool {
        let (names, moment) = match pattern {
            None => {
                let channels = &self.names[news.kind as usize];
                (channels.get(news.hash, Name::is(news.channel())), Some(news.moment))
            }
            Some(pattern) => {
                let patterns = &self.names[Kind::Pattern as usize];
                let mut fitting = news.patterns.iter().flatten();
                let moment = fitting.find(|(name, _)| name == pattern).map(|(_, moment)| *moment);
                (patterns.get(pattern.hash(), |name| name == pattern), moment)
            }
        };
        let crowd = names.and_then(|(_, crowd)| crowd.get(seat.hash(), |found| *found == seat));
        crowd.zip(moment).is_some_and(|((_, joined), moment)| *joined <= moment)
    }

    /// Puts a message into the bags of those who are on their way.
    pub fn bag(&mut self, news: &News) {
        let mut meant = Vec::new();
        self.deliver(news, |seat, pattern| meant.push((seat, pattern.cloned())));
        for (seat, pattern) in meant {
            let found = self.subscribers.get_mut(seat.hash(), |one| *one == seat);
            let Some(bag) = found.map(|one| &mut one.bag) else { continue };
            if bag.bytes.len() > BAG_BYTES {
                bag.is_torn = true;
                continue;
            }
            news.write(&mut bag.bytes, bag.version, pattern.as_ref());
        }
    }
}
