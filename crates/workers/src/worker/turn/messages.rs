//! Handling the messages of a worker's inbox.

use std::sync::Arc;

use pantala_cluster::SlotTable;
use pantala_commands::{ClientError, Session, error};
use pantala_reactor::Ops;

use crate::worker::Worker;
use crate::worker::connection::accepted::accepts;
use crate::worker::connection::describe::describe;
use crate::worker::connection::{Connection, Life, ParkReason};
use crate::workers::inbox::Message;
use pantala_engine::clients::filter::ClientFilter;
use pantala_engine::engine::slots_cell::WritePermit;
use pantala_engine::pubsub::commands::leave_slots;

/// The most messages a worker takes at a time, so that a flood of them does not keep it from its
/// connections.
const TURN_MESSAGES: usize = 4096;

impl Worker {
    /// Handles the messages in the inbox, at most `TURN_MESSAGES` of them.
    pub fn take_messages(&mut self, ops: &mut Ops<'_>) {
        for _ in 0..TURN_MESSAGES {
            let Some(message) = self.next_message() else { return };
            self.take_message(message, ops);
        }
    }

    fn next_message(&mut self) -> Option<Message> {
        self.set_aside.take().or_else(|| self.inbox.take())
    }

    /// Tells clients at once which of their keys were evicted: before the replies of the commands
    /// for which room was made. Stops at the first message of another kind, which is set aside for
    /// the end of this turn.
    pub(crate) fn take_invalidations(&mut self) {
        use pantala_engine::Message::Tell;
        while self.set_aside.is_none() {
            match self.inbox.take() {
                Some(Message::Engine(told @ Tell { .. })) => self.take_engine_message(told),
                other => {
                    self.set_aside = other;
                    return;
                }
            }
        }
    }

    /// Handles the messages that need no reactor and drops the others.
    pub fn take_inner_messages(&mut self) {
        while let Some(message) = self.next_message() {
            match message {
                Message::Engine(message) => self.take_engine_message(message),
                Message::Unpark { connection, parking } => self.unpark(connection, parking),
                other => _ = self.take_word(&other),
            }
        }
    }

    /// Handles a message that only says what to look at; false if it is another kind.
    fn take_word(&mut self, message: &Message) -> bool {
        match message {
            Message::EvictClients => self.chores.has_grown = true,
            _ => return false,
        }
        true
    }

    fn take_message(&mut self, message: Message, ops: &mut Ops<'_>) {
        if self.take_word(&message) {
            return;
        }
        match message {
            Message::Engine(message) => self.take_engine_message(message),
            Message::Accepted { socket, session, kind } => {
                self.adopt(socket, *session, kind, ops);
            }
            Message::Moved { socket, connection } => self.take_over(socket, connection, ops),
            Message::Unpark { connection, parking } => self.unpark(connection, parking),
            Message::List { filter, answer } => {
                let lines = self.matching(&filter);
                // Nobody receives any more if the asker gave up.
                let _ = answer.send(lines);
            }
            Message::Kill { filter, answer } => {
                let _ = answer.send(self.kill(&filter, ops));
            }
            Message::Unblock { client, with_error, answer } => {
                let _ = answer.send(self.unblock_client(client, with_error));
            }
            Message::Listen(sockets) => {
                for (id, socket) in sockets {
                    if let Err(error) = ops.listen(socket, id) {
                        tracing::error!(%error, "cannot accept connections at a new port");
                    }
                }
            }
            Message::Unlisten(ids) => ids.into_iter().for_each(|id| ops.unlisten(id)),
            _ => {}
        }
    }

    pub(crate) fn take_engine_message(&mut self, message: pantala_engine::Message) {
        use pantala_engine::Message;
        match message {
            Message::LaneDone { connection, parking, session, reply, permit } => {
                self.lane_jobs -= 1;
                self.lane_done(connection, parking, *session, (reply, permit));
            }
            Message::Served { connection, parking, reply, took_us, step, permit } => {
                self.served(connection, parking, (reply, step, permit), took_us);
            }
            Message::LaneBlocked { connection, parking, blocked } => {
                self.lane_jobs -= 1;
                self.lane_blocked(connection, parking, blocked);
            }
            Message::Tell { connection, client, word } => self.told(connection, client, word),
            Message::ScriptIsBusy => self.try_again(ParkReason::Partition),
            Message::PauseChanged => self.try_again(ParkReason::Pause),
            Message::JournalKept => {
                self.send_kept();
                self.wake_for_journal();
            }
            Message::Sleep { until_us } => self.chores.asleep_until_us = until_us,
            Message::StreamGrew => self.look_at_replicas(),
            Message::RoleChanged => self.end_all_waiting(),
            Message::SlotsChanged => self.take_over_slots(),
            // Every turn checks for these; the message only wakes the worker.
            Message::UsersChanged | Message::LookUp => {}
        }
    }

    fn unpark(&mut self, handle: u64, parking: u32) {
        let Some(connection) = self.find_handle(handle) else { return };
        let index = connection.token.index;
        let Some(parked) =
            connection.waits.parked.as_mut().filter(|parked| parked.number == parking)
        else {
            return;
        };
        match parked.waiting {
            ParkReason::Keys => self.run_again(index),
            ParkReason::Lane => parked.waiting = ParkReason::Called,
            // Only time ends these, or nothing.
            ParkReason::Penalty | ParkReason::Replica => {}
            ParkReason::Partition | ParkReason::Pause | ParkReason::Room | ParkReason::Called => {
                connection.waits.parked = None;
                if connection.peer.is_done {
                    self.end_if_held_up(index);
                }
                self.resume(index);
            }
        }
    }

    /// Ends a connection whose client has closed its side while its command waited for a script:
    /// the command does not begin. See `pantala_engine::clients::presence`.
    fn end_if_held_up(&mut self, index: u32) {
        let engine = std::sync::Arc::clone(&self.context.engine);
        let now_us = self.now_us;
        let Some(connection) = self.at(index) else { return };
        if engine.scripts.running.has_held_up(connection.counts.active_us, now_us) {
            connection.life = Life::Ending;
        }
    }

    fn unblock_client(&mut self, client: u64, with_error: bool) -> bool {
        let is_meant = |one: &Connection| one.session.id == client;
        let found = self.connections.iter().flatten().find(|one| is_meant(one));
        let Some(index) = found.map(|connection| connection.token.index) else { return false };
        self.unblock(index, with_error.then_some(&error::UNBLOCKED))
    }

    /// Unblocks all clients that are blocked on keys: this server has become a replica.
    fn end_all_waiting(&mut self) {
        let blocked = self.connections.iter().flatten();
        let indexes: Vec<u32> = blocked.map(|connection| connection.token.index).collect();
        for index in indexes {
            self.unblock(index, Some(&error::ROLE_CHANGED));
        }
    }

    /// Tells clients that wait for keys, or listen to shard channels, which are not at this node
    /// any more.
    #[cold]
    fn take_over_slots(&mut self) {
        if let Some(slots) = self.context.engine.slots.current() {
            self.redirect_blocked(&slots);
            self.leave_slots(&slots);
        }
    }

    /// Ends subscriptions to shard channels that are not at this node any more. A client whose
    /// command is on the slow lane keeps them, as its session is there.
    fn leave_slots(&mut self, slots: &SlotTable) {
        let engine = Arc::clone(&self.context.engine);
        let listens = |one: &&Connection| {
            one.session.subscriptions.slot_channels > 0 && one.waits.parked.is_none()
        };
        let open = self.connections.iter().flatten().map(|one| &**one);
        let handles: Vec<u64> = open.filter(listens).map(Connection::handle).collect();
        for handle in handles {
            let Some(connection) = self.find_handle(handle) else { continue };
            let told = leave_slots(&engine, &mut connection.session, slots);
            if !told.is_empty() {
                self.tell(handle, |out, _| out.extend_from_slice(&told));
            }
        }
    }

    /// Unblocks the clients that are blocked on keys which are not at this node any more.
    fn redirect_blocked(&mut self, slots: &SlotTable) {
        let tls_port = self.settings.tls_port;
        let judge = |one: &Connection| {
            let blocked = one.waits.blocked.as_ref()?;
            Some((one.token.index, blocked.redirection(slots, &one.session, tls_port)?))
        };
        let redirected: Vec<(u32, ClientError)> =
            self.connections.iter().flatten().filter_map(|one| judge(one)).collect();
        for (index, error) in redirected {
            self.unblock(index, Some(&error));
        }
    }

    fn lane_done(
        &mut self,
        handle: u64,
        parking: u32,
        session: Session,
        (reply, permit): (Vec<u8>, WritePermit),
    ) {
        let found = self.find_handle(handle).filter(|one| one.life != Life::Closing);
        let Some(connection) = found else {
            // Its command may have subscribed to something after the connection ended, or begun to
            // track keys.
            return self.end_session(&session);
        };
        if !connection.unpark(parking) {
            return;
        }
        let is_new_monitor = session.monitor && !connection.session.monitor;
        let was_closing = connection.session.closing;
        connection.session = session;
        // It was killed while the lane ran its command.
        connection.session.closing |= was_closing;
        connection.counts.commands += 1;
        connection.push_reply(reply);
        connection.output.needs(permit);
        connection.tell_kept();
        if connection.session.closing {
            // Later commands of its pipeline do not run.
            connection.life = Life::Ending;
        }
        let index = connection.token.index;
        // Its command had been blocked before it ran there.
        self.take_blocked(index);
        if is_new_monitor {
            self.begin_to_monitor(index);
        }
        self.begin_to_follow(index);
        // The users may have changed while the lane ran its command.
        self.renew_login(index);
        self.resume(index);
    }

    fn matching(&self, filter: &ClientFilter) -> Vec<(u64, String)> {
        let rows = self.context.engine.registry.rows();
        self.connections
            .iter()
            .flatten()
            .filter(|connection| accepts(filter, connection, self.now_us))
            .map(|connection| (connection.session.id, describe(connection, rows, self.now_us)))
            .collect()
    }

    fn kill(&mut self, filter: &ClientFilter, ops: &mut Ops<'_>) -> Vec<u64> {
        let mut killed = Vec::new();
        for index in 0..self.connections.len() as u32 {
            let now_us = self.now_us;
            let Some(connection) = self.at(index) else { continue };
            if !accepts(filter, connection, now_us) {
                continue;
            }
            let (id, token) = (connection.session.id, connection.token);
            killed.push(id);
            // The client that asked gets its reply first.
            if id != filter.asker {
                self.drop_connection(token, ops);
            }
        }
        killed
    }

    /// Unparks all connections that are parked for this reason.
    pub fn try_again(&mut self, waiting: ParkReason) {
        for index in 0..self.connections.len() as u32 {
            let Some(connection) = self.at(index) else { continue };
            if connection.waits.parked.is_some_and(|parked| parked.waiting == waiting) {
                (connection.waits.parked, connection.waits.paused) = (None, None);
                self.resume(index);
            }
        }
    }
}
