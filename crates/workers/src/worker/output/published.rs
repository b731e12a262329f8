//! Delivering published messages to the connections of a worker.

use std::sync::Arc;

use pantala_commands::ServicePlace;
use pantala_keyspace::Ticket;
use pantala_protocol::Version;

use crate::worker::Worker;
use crate::worker::admission::limits::Judge;
use crate::worker::admission::users::renew;
use crate::worker::connection::{Connection, ParkReason};
use crate::worker::state::Sharing;
use crate::workers::inbox;
use pantala_engine::pubsub::IN_TRANSIT;
use pantala_engine::pubsub::message::Message;
use pantala_engine::pubsub::name::{Name, SubscriberId};
use pantala_engine::pubsub::subscribers::WorkerSubscribers;

/// About the most bytes a worker delivers in a turn. The rest waits for the next turn, so that the
/// messages are sent before there are more, and other connections are served.
const TURN_BYTES: usize = 16 << 20;

/// The most subscriptions of lost connections that a worker removes in a turn.
const TURN_NAMES: usize = 4096;

impl Worker {
    /// Whether messages wait to be delivered, or subscriptions to be removed.
    pub fn has_published(&self) -> bool {
        self.context.engine.notices.pubsub.has_published(self.index)
            || self.delivery.sharing.is_some()
            || !self.lists.unsubscribing.is_empty()
    }

    /// Delivers the messages that are in the queue by now.
    #[inline]
    pub fn deliver_published(&mut self) {
        let pubsub = &self.context.engine.notices.pubsub;
        if pubsub.has_published(self.index)
            || pubsub.is_crowded()
            || self.delivery.sharing.is_some()
        {
            self.deliver_what_is_there();
        }
    }

    #[cold]
    fn deliver_what_is_there(&mut self) {
        // Messages that arrive meanwhile wait: other connections are to be served, too.
        let count = self.published_count();
        // A client that lost a channel before a message was published there does not get it.
        self.look_at_users();
        self.deliver_messages(count, TURN_BYTES);
    }

    fn published_count(&self) -> usize {
        self.context.engine.notices.pubsub.subscribers_of(self.index).len()
    }

    fn deliver_messages(&mut self, count: usize, most_bytes: usize) {
        let context = Arc::clone(&self.context);
        let subscribers = context.engine.notices.pubsub.subscribers_of(self.index);
        self.share_out(subscribers, most_bytes);
        for _ in 0..count {
            if self.delivery.told_bytes > most_bytes {
                break;
            }
            let Some(message) = subscribers.take() else { break };
            self.deliver_one(subscribers, message, most_bytes);
        }
        if self.delivery.sharing.is_some()
            || self.delivery.told_bytes > most_bytes && !subscribers.is_empty()
        {
            context.engine.notices.pubsub.crowd(subscribers);
        } else if context.engine.notices.pubsub.is_crowded() {
            context.engine.notices.pubsub.relieve(subscribers);
        }
    }

    /// Delivers a message to its subscribers. When that becomes too much for one turn, `sharing`
    /// keeps the message and the subscribers that are left.
    fn deliver_one(
        &mut self,
        subscribers: &WorkerSubscribers,
        message: Message,
        most_bytes: usize,
    ) {
        let mut rest = Vec::new();
        // One message at a time: a thread of the lane that subscribes may wait for this lock with a
        // stripe held.
        let inside = subscribers.lock();
        inside.deliver(&message, |subscriber_id, pattern| {
            if self.delivery.told_bytes > most_bytes {
                return rest.push((subscriber_id, pattern.cloned()));
            }
            self.tell_of(&message, subscriber_id, pattern);
        });
        drop(inside);
        if !rest.is_empty() {
            rest.reverse();
            self.delivery.sharing = Some(Box::new(Sharing { message, rest }));
        }
    }

    /// Goes on with a message that was too much for the previous turn, for the subscribers that
    /// still listen.
    fn share_out(&mut self, subscribers: &WorkerSubscribers, most_bytes: usize) {
        let Some(mut sharing) = self.delivery.sharing.take() else { return };
        while let Some((subscriber_id, pattern)) = sharing.rest.pop() {
            if self.delivery.told_bytes > most_bytes {
                sharing.rest.push((subscriber_id, pattern));
                self.delivery.sharing = Some(sharing);
                return;
            }
            let (message, pattern) = (&sharing.message, pattern.as_ref());
            if subscribers.lock().is_meant(message, subscriber_id, pattern) {
                self.tell_of(message, subscriber_id, pattern);
            }
        }
    }

    #[inline]
    fn tell_of(&mut self, message: &Message, subscriber_id: SubscriberId, pattern: Option<&Name>) {
        if message.is_lost {
            return self.disconnect(subscriber_id);
        }
        self.delivery.told_bytes += message.wire_bytes();
        self.tell(subscriber_id.0, |out, version| message.write(out, version, pattern));
    }

    /// Closes a connection that would miss a message.
    #[cold]
    fn disconnect(&mut self, subscriber_id: SubscriberId) {
        let Some(connection) = self.find_handle(subscriber_id.0).filter(|one| !one.session.closing)
        else {
            return;
        };
        connection.session.closing = true;
        let index = connection.token.index;
        self.tally.output_limit.add(1);
        self.touch(index);
    }

    /// Delivers what a connection has just published to this worker's subscribers. When too much
    /// was delivered in this turn, or waits to be delivered elsewhere, the connection's next
    /// commands wait.
    pub fn after_publishing(&mut self, index: u32) {
        self.deliver_published();
        if self.context.engine.notices.pubsub.is_crowded() {
            self.wait_for_room(index);
        } else if self.delivery.told_bytes > TURN_BYTES {
            self.rest(index);
        }
    }

    #[cold]
    fn rest(&mut self, index: u32) {
        let Some(connection) = self.at(index).filter(|one| one.waits.parked.is_none()) else {
            return;
        };
        let parking = connection.park(ParkReason::Room);
        let connection = connection.handle();
        self.inbox.leave(inbox::Message::Unpark { connection, parking });
    }

    #[cold]
    fn wait_for_room(&mut self, index: u32) {
        let inbox: Arc<dyn pantala_keyspace::Inbox> = self.inbox.clone();
        let Some(connection) = self.at(index).filter(|one| one.waits.parked.is_none()) else {
            return;
        };
        let parking = connection.park(ParkReason::Room);
        let ticket = Ticket::Connection { inbox, connection: connection.handle(), parking };
        if let Err(ticket) = self.context.engine.notices.pubsub.wait(ticket) {
            pantala_sync::lock::Ticket::wake(ticket);
        }
    }

    /// Pushes a message to a connection: a published message or an invalidated key. A connection
    /// with too much unread output gets none, and is closed when the turn ends.
    #[inline]
    pub fn tell(&mut self, handle: u64, write: impl FnOnce(&mut Vec<u8>, Version)) {
        let index = (handle & u64::from(u32::MAX)) as u32;
        let limited = &self.limited;
        let Some(connection) = self.connections.get_mut(index as usize).and_then(Option::as_mut)
        else {
            return;
        };
        if connection.handle() != handle {
            return;
        }
        connection.tell(limited.most_unsent_bytes(connection), write);
        if !connection.marks.is_touched {
            connection.marks.is_touched = true;
            self.lists.touched.push(index);
        }
    }

    /// Ends the subscriptions of a lost connection. Many of them are removed over several turns.
    pub fn end_subscriptions(&mut self, is_subscribed: bool, place: ServicePlace) {
        if is_subscribed {
            self.lists.unsubscribing.push(place);
            self.forget_listeners();
        }
    }

    /// Goes on removing subscriptions of lost connections.
    #[inline]
    pub fn forget_listeners(&mut self) {
        if !self.lists.unsubscribing.is_empty() {
            self.forget_some_names();
        }
    }

    #[cold]
    fn forget_some_names(&mut self) {
        let mut left = TURN_NAMES;
        while let Some(&place) = self.lists.unsubscribing.last() {
            left = self.context.engine.notices.pubsub.forget_some(place, left);
            if left == 0 {
                return;
            }
            self.lists.unsubscribing.pop();
        }
    }

    /// Moves the subscriptions of a connection that leaves for another worker into transit.
    /// Messages published before are delivered first; later ones are kept for its arrival.
    pub fn take_off(&mut self, index: u32) {
        self.look_at_users();
        let Some(connection) = self.at(index) else { return };
        if !connection.session.is_subscribed() {
            return;
        }
        let session = &connection.session;
        let (from, version) = (session.place, session.version);
        let in_transit = ServicePlace { worker: IN_TRANSIT, connection: session.id };
        let context = Arc::clone(&self.context);
        context.engine.notices.pubsub.travel(from, in_transit, version, || {
            self.deliver_messages(self.published_count(), usize::MAX)
        });
        if let Some(connection) = self.at(index) {
            connection.session.place = in_transit;
        }
    }

    /// Gives a new connection its place, or one that has arrived from another worker with what was
    /// kept for it.
    pub fn land(&self, connection: &mut Connection) {
        let worker = self.index as u16;
        let here = ServicePlace { worker, connection: connection.handle() };
        let session = &mut connection.session;
        let from = std::mem::replace(&mut session.place, here);
        if !session.is_subscribed() {
            return;
        }
        let engine = &self.context.engine;
        let transit = engine.notices.pubsub.travel(from, here, session.version, || {});
        // A message kept in transit may be of a channel that the user has lost meanwhile.
        renew(&mut connection.session, &engine.acl.in_force(), &engine.notices.pubsub);
        if !connection.session.closing {
            connection.output.bytes.extend_from_slice(&transit.bytes);
        }
        connection.session.closing |= transit.is_torn;
    }
}
