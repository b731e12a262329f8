//! What a worker does with messages: it gives them to its connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pantala_commands::{Place, Standing};
use pantala_keyspace::Ticket;
use pantala_protocol::Version;

use super::audience::Audience;
use super::name::{Name, Seat};
use super::news::News;
use super::{AIR, PubSub};
use crate::connection::{Connection, Waiting};
use crate::inbox::Message;
use crate::worker::Desk;

/// A worker delivers about so much a turn; the rest waits for the next, so that what was delivered
/// is sent before there is more, and others are served.
const TURN_BYTES: usize = 16 << 20;

/// A worker ends so many subscriptions of lost connections a turn.
const TURN_NAMES: usize = 4096;

/// A message that was too much for one turn, and those who are still to get it, the next one at the
/// end.
pub struct Sharing {
    news: News,
    rest: Vec<(Seat, Option<Name>)>,
}

impl PubSub {
    /// Whether messages wait for this worker.
    #[inline]
    pub fn has_news(&self, worker: usize) -> bool {
        !self.audiences[worker].is_empty()
    }

    /// Whether publishers have to wait.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed) > 0
    }

    /// Too much lies with a worker: publishers have to wait.
    fn crowd(&self, audience: &Audience) {
        if audience.become_crowded() {
            self.crowded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets publishers go on, if enough of a worker's messages were delivered.
    fn relieve(&self, audience: &Audience) {
        if let Some(tickets) = audience.relieve() {
            self.crowded.fetch_sub(1, Ordering::Relaxed);
            tickets.into_iter().for_each(pantala_sync::lock::Ticket::wake);
        }
    }

    /// A publisher waits until a long queue is shorter. The ticket comes back if none is long.
    fn wait(&self, ticket: Ticket) -> Result<(), Ticket> {
        self.audiences
            .iter()
            .try_fold(ticket, |ticket, audience| match audience.wait(ticket) {
                Ok(()) => Err(()),
                Err(ticket) => Ok(ticket),
            })
            .map_or(Ok(()), Err)
    }
}

impl Desk {
    /// Whether messages wait to be delivered, or subscriptions to be ended.
    pub(crate) fn has_news(&self) -> bool {
        self.shared.pubsub.has_news(self.index)
            || self.sharing.is_some()
            || !self.unsubscribing.is_empty()
    }

    /// Delivers the messages that lie in the queue by now.
    #[inline]
    pub(crate) fn take_news(&mut self) {
        let pubsub = &self.shared.pubsub;
        if pubsub.has_news(self.index) || pubsub.is_crowded() || self.sharing.is_some() {
            self.deliver_news(TURN_BYTES);
        }
    }

    #[cold]
    fn deliver_news(&mut self, most_bytes: usize) {
        let shared = Arc::clone(&self.shared);
        let audience = &shared.pubsub.audiences[self.index];
        // Not those that come meanwhile: other connections want to be served, too.
        let count = audience.len();
        self.share_out(audience, most_bytes);
        for _ in 0..count {
            if self.told_bytes > most_bytes {
                break;
            }
            let Some(news) = audience.take() else { break };
            self.deliver_one(audience, news, most_bytes);
        }
        if self.sharing.is_some() || self.told_bytes > most_bytes && !audience.is_empty() {
            shared.pubsub.crowd(audience);
        } else if shared.pubsub.is_crowded() {
            shared.pubsub.relieve(audience);
        }
    }

    /// Delivers a message to all it is meant for. When that becomes too much for one turn the rest
    /// of them is kept in `sharing`.
    fn deliver_one(&mut self, audience: &Audience, news: News, most_bytes: usize) {
        let mut rest = Vec::new();
        // One message at a time: a thread of the lane that subscribes holds a stripe meanwhile.
        let inside = audience.lock();
        inside.deliver(&news, |seat, pattern| {
            if self.told_bytes > most_bytes {
                return rest.push((seat, pattern.cloned()));
            }
            self.tell_of(&news, seat, pattern);
        });
        drop(inside);
        if !rest.is_empty() {
            rest.reverse();
            self.sharing = Some(Box::new(Sharing { news, rest }));
        }
    }

    /// Goes on delivering a message that was too much for the turn before, to those who still
    /// listen.
    fn share_out(&mut self, audience: &Audience, most_bytes: usize) {
        let Some(mut sharing) = self.sharing.take() else { return };
        while let Some((seat, pattern)) = sharing.rest.pop() {
            if self.told_bytes > most_bytes {
                sharing.rest.push((seat, pattern));
                self.sharing = Some(sharing);
                return;
            }
            let (news, pattern) = (&sharing.news, pattern.as_ref());
            if audience.lock().is_meant(news, seat, pattern) {
                self.tell_of(news, seat, pattern);
            }
        }
    }

    #[inline]
    fn tell_of(&mut self, news: &News, seat: Seat, pattern: Option<&Name>) {
        if news.is_lost {
            return self.break_off_with(seat);
        }
        self.told_bytes += news.len();
        self.tell(seat.0, |out, version| news.write(out, version, pattern));
    }

    /// Closes a connection that would miss a message.
    #[cold]
    fn break_off_with(&mut self, seat: Seat) {
        let Some(connection) = self.find_handle(seat.0).filter(|one| !one.session.closing) else {
            return;
        };
        connection.session.closing = true;
        let index = connection.token.index;
        self.tally.output_limit.add(1);
        self.touch(index);
    }

    /// A connection has published something: delivers what is for this worker. When too much was
    /// delivered in this turn, or waits to be delivered elsewhere, its next commands wait.
    pub(crate) fn has_published(&mut self, index: u32) {
        self.take_news();
        if self.shared.pubsub.is_crowded() {
            self.wait_for_room(index);
        } else if self.told_bytes > TURN_BYTES {
            self.rest(index);
        }
    }

    #[cold]
    fn rest(&mut self, index: u32) {
        let Some(connection) = self.at(index).filter(|one| one.parked.is_none()) else { return };
        let parking = connection.park(Waiting::Room);
        let connection = connection.handle();
        self.inbox.leave(Message::Unpark { connection, parking });
    }

    #[cold]
    fn wait_for_room(&mut self, index: u32) {
        let inbox: Arc<dyn pantala_keyspace::Inbox> = self.inbox.clone();
        let Some(connection) = self.at(index).filter(|one| one.parked.is_none()) else { return };
        let parking = connection.park(Waiting::Room);
        let ticket = Ticket::Connection { inbox, connection: connection.handle(), parking };
        if let Err(ticket) = self.shared.pubsub.wait(ticket) {
            pantala_sync::lock::Ticket::wake(ticket);
        }
    }

    /// Sends a connection what it has not asked for at this moment: a published message, an
    /// invalidated key. One that has too much unread output gets no more, and is closed at the end
    /// of the turn.
    #[inline]
    pub(crate) fn tell(&mut self, handle: u64, write: impl FnOnce(&mut Vec<u8>, Version)) {
        let index = (handle & u64::from(u32::MAX)) as u32;
        let limited = &self.limited;
        let Some(connection) = self.connections.get_mut(index as usize).and_then(Option::as_mut)
        else {
            return;
        };
        if connection.handle() != handle {
            return;
        }
        connection.tell(limited.most_output_bytes(connection), write);
        if !connection.is_touched {
            connection.is_touched = true;
            self.touched.push(index);
        }
    }

    /// A connection has ended: it gets no more messages. Many subscriptions end turn by turn.
    pub(crate) fn end_subscriptions(&mut self, standing: Standing, place: Place) {
        if standing == Standing::Subscribed {
            self.unsubscribing.push(place);
            self.forget_listeners();
        }
    }

    /// Goes on with that.
    #[inline]
    pub(crate) fn forget_listeners(&mut self) {
        if !self.unsubscribing.is_empty() {
            self.forget_some_names();
        }
    }

    #[cold]
    fn forget_some_names(&mut self) {
        let mut left = TURN_NAMES;
        while let Some(&place) = self.unsubscribing.last() {
            left = self.shared.pubsub.forget_some(place, left);
            if left == 0 {
                return;
            }
            self.unsubscribing.pop();
        }
    }

    /// A connection leaves for another worker. What was published before is delivered, what is
    /// published from now on goes with it.
    pub(crate) fn take_off(&mut self, index: u32) {
        let Some(connection) = self.at(index) else { return };
        if connection.session.standing != Standing::Subscribed {
            return;
        }
        let session = &connection.session;
        let (from, version) = (session.place, session.version);
        let air = Place { worker: AIR, connection: session.id };
        let shared = Arc::clone(&self.shared);
        shared.pubsub.travel(from, air, version, || self.deliver_news(usize::MAX));
        if let Some(connection) = self.at(index) {
            connection.session.place = air;
        }
    }

    /// A connection has come from another worker, or is new: this is its place.
    pub(crate) fn land(&self, connection: &mut Connection) {
        let worker = self.index as u16;
        let here = Place { worker, connection: connection.handle() };
        let session = &mut connection.session;
        let from = std::mem::replace(&mut session.place, here);
        if session.standing != Standing::Subscribed {
            return;
        }
        let bag = self.shared.pubsub.travel(from, here, session.version, || {});
        connection.output.extend_from_slice(&bag.bytes);
        session.closing |= bag.is_torn;
    }
}
