//! Connections blocked on keys: timeouts, CLIENT UNBLOCK, and the end of blocking.
//!
//! What they wait for and who serves them: `pantala_engine::waiting`.

use std::mem::take;
use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_commands::{Acknowledgements, ClientError, Locking, ReplyMode, TimeoutReply, error};
use pantala_engine::engine::slots_cell::WritePermit;
use pantala_engine::execute::suppress_reply;
use pantala_engine::lane::Job;
use pantala_engine::stats::ErrorCode;
use pantala_engine::waiting::{BlockedCommand, PendingServe};
use pantala_journal::Stamp;
use pantala_protocol::Reply;

use crate::worker::Worker;
use crate::worker::connection::{Connection, Life, ParkReason};
use pantala_replication::primary;

/// How soon a timed-out command that the lane is running is checked again.
const LOOK_AGAIN_US: u64 = 10_000;

/// The acknowledgements that a connection's command waits for, if it is WAIT or WAITAOF.
fn awaits(connection: Option<&mut Connection>) -> Option<Acknowledgements> {
    match connection?.waits.blocked.as_ref()?.at_timeout {
        TimeoutReply::Acknowledged(asked) => Some(asked),
        TimeoutReply::Null | TimeoutReply::NullArray => None,
    }
}

impl Worker {
    /// Begins to block a connection's command; the connection is already parked.
    pub fn block(&mut self, index: u32, blocked: BlockedCommand) {
        let Some(connection) = self.at(index) else { return };
        let (handle, number) = (connection.handle(), connection.waits.parkings);
        let until_us = blocked.until_us;
        connection.waits.blocked = Some(Box::new(blocked));
        self.context.engine.blocked.join();
        if let Some(until_us) = until_us {
            self.timeouts.due.insert((until_us, handle), number);
        }
        if let Some(asked) = awaits(self.at(index)) {
            self.lists.awaiting.push(index);
            if asked.wanted > 0 {
                self.context.replication.downstream.waiters.join();
                self.inbox.for_replicas.join();
                self.context.durability.appending.ask_replicas(&self.context.engine.journal);
            }
            // The message that would wake it may have come before.
            self.answer_if_enough(index);
        }
    }

    /// Checks the commands that wait for the journal: more of it is durable, or has reached a
    /// replica.
    pub(crate) fn wake_for_journal(&mut self) {
        for index in take(&mut self.lists.awaiting) {
            if awaits(self.at(index)).is_some() {
                self.lists.awaiting.push(index);
                self.answer_if_enough(index);
            }
        }
    }

    /// Answers WAIT or WAITAOF if enough servers have acknowledged.
    fn answer_if_enough(&mut self, index: u32) {
        let Some(told) = self.count_acknowledged(index) else { return };
        if told.is_enough() {
            self.unblock(index, None);
        } else if told.wants_local && !self.context.durability.appending.is_running() {
            // CONFIG SET appendonly no: nothing becomes durable any more.
            self.unblock(index, Some(&error::NO_LOG_TO_WAIT_FOR));
        }
    }

    /// Counts the servers that have acknowledged, and stores the count in the connection.
    fn count_acknowledged(&mut self, index: u32) -> Option<Acknowledgements> {
        let context = Arc::clone(&self.context);
        let asked = awaits(self.at(index))?;
        let connection = self.at(index)?;
        let told = primary::acknowledged(&context.replication, connection.session.last_step, asked);
        let blocked = connection.waits.blocked.as_mut()?;
        blocked.at_timeout = TimeoutReply::Acknowledged(told);
        Some(told)
    }

    /// Removes and returns the blocked command of a connection.
    pub(crate) fn take_blocked(&mut self, index: u32) -> Option<Box<BlockedCommand>> {
        let connection = self.at(index)?;
        let (handle, blocked) = (connection.handle(), connection.waits.blocked.take()?);
        self.context.engine.blocked.leave();
        if let Some(until_us) = blocked.until_us {
            self.timeouts.due.remove(&(until_us, handle));
        }
        if matches!(blocked.at_timeout, TimeoutReply::Acknowledged(asked) if asked.wanted > 0) {
            self.inbox.for_replicas.leave();
            self.context.replication.downstream.waiters.leave();
        }
        Some(blocked)
    }

    /// Takes the connection's command out of the queues, or off the lane. `None` if it is not
    /// blocked, or was served or called at this moment, or runs: then that message will arrive.
    fn give_up(&mut self, index: u32) -> Option<Box<BlockedCommand>> {
        let connection = self.at(index)?;
        let is_in_queues = connection.waits_for_keys();
        let (handle, parkings) = (connection.handle(), connection.waits.parkings);
        let blocked = connection.waits.blocked.take()?;
        let is_won = if is_in_queues {
            blocked.give_up(&self.context.engine)
        } else {
            let job = self.context.engine.lane.withdraw(&self.mailbox, handle, parkings);
            self.lane_jobs -= usize::from(job.is_some());
            job.is_some()
        };
        self.at(index)?.waits.blocked = Some(blocked);
        if is_won { self.take_blocked(index) } else { None }
    }

    /// Ends the commands whose timeout has passed.
    pub fn end_waiting(&mut self) {
        while let Some((&(until_us, handle), &number)) = self.timeouts.due.first_key_value()
            && until_us <= self.now_us
        {
            self.timeouts.due.remove(&(until_us, handle));
            let Some(connection) = self.find_handle(handle) else { continue };
            if connection.waits.parked.is_some_and(|parked| parked.number == number) {
                let index = connection.token.index;
                if connection.is_held_back() {
                    self.end_penalty(index);
                } else if !self.unblock(index, None) {
                    self.look_again(index);
                }
            }
        }
    }

    /// Sends the delayed reply to a wrong password. The client goes on, unless it has sent too much
    /// meanwhile.
    #[cold]
    fn end_penalty(&mut self, index: u32) {
        let Some(connection) = self.at(index) else { return };
        connection.waits.parked = None;
        if connection.input.is_overrun {
            connection.life = Life::Ending;
        }
        self.resume(index);
    }

    /// Checks again later: the command has timed out while it runs on the lane, and may block there
    /// once more.
    #[cold]
    fn look_again(&mut self, index: u32) {
        let again_us = self.now_us + LOOK_AGAIN_US;
        let Some(connection) = self.at(index) else { return };
        let is_on_lane = connection.waits.blocked.is_some() && !connection.waits_for_keys();
        let (handle, number) = (connection.handle(), connection.waits.parkings);
        if is_on_lane {
            self.timeouts.due.insert((again_us, handle), number);
        }
    }

    /// Unblocks a connection with the reply of a timeout or with an error; false if it is not
    /// blocked, or is being served.
    pub fn unblock(&mut self, index: u32, error: Option<&ClientError>) -> bool {
        // The count in the reply is current then.
        self.count_acknowledged(index);
        // Behind the fence nobody knows any more that nothing has come, or who has acknowledged.
        let (is_fenced, down) = (self.fence.ran == WritePermit::Ended, error::CLUSTER_DOWN);
        let error = error.or(is_fenced.then_some(&down));
        let Some(blocked) = self.give_up(index) else { return false };
        let began_us = monotonic_us();
        let (engine, tally) = (Arc::clone(&self.context.engine), Arc::clone(&self.tally));
        let has_histogram = self.limited.has_histograms;
        let Some(connection) = self.at(index) else { return false };
        connection.waits.parked = None;
        connection.counts.commands += 1;
        let mut text = Vec::new();
        let mut reply = Reply::new(&mut text, connection.session.version);
        match error {
            Some(error) => {
                tally.errors.add(1);
                engine.stats.errors.add(ErrorCode::Own(error.code().into()), 1);
                reply.error(&*error.0);
            }
            None => blocked.at_timeout.reply(&mut reply),
        }
        if let Some(found) = blocked.note(&engine, &connection.session, 0, text.len()) {
            let row = &tally.commands[usize::from(found.number)];
            row.calls.add(1);
            // As in Valkey: the command counts as called, and an error as a rejection.
            row.rejected.add(u64::from(error.is_some()));
            let took_us = (monotonic_us() - began_us).max(1);
            row.took(took_us * 1_000, has_histogram);
        }
        answer(connection, text);
        // It may have been on the lane.
        connection.tell_kept();
        self.resume(index);
        true
    }

    /// Stops blocking for a connection that ends: it is not to be served any more.
    pub fn stop_waiting(&mut self, index: u32) {
        if let Some(blocked) = self.take_blocked(index) {
            blocked.give_up(&self.context.engine);
        }
    }

    /// Takes the reply of a command that another client's change has served.
    pub fn served(
        &mut self,
        handle: u64,
        parking: u32,
        (reply, step, permit): (Vec<u8>, Stamp, WritePermit),
        took_us: u64,
    ) {
        let engine = Arc::clone(&self.context.engine);
        let Some(connection) = self.find_handle(handle) else { return };
        let index = connection.token.index;
        if !connection.unpark(parking) || connection.life != Life::Open {
            return;
        }
        connection.counts.commands += 1;
        if let Some(blocked) = &connection.waits.blocked {
            blocked.note(&engine, &connection.session, took_us, reply.len());
        }
        answer(connection, reply);
        connection.session.last_step = step;
        connection.output.needs(permit);
        // The lane ran it, and its message that the command blocks is still on the way.
        connection.tell_kept();
        if let Some(blocked) = self.take_blocked(index) {
            // It is still in the queues of its other keys.
            blocked.forget(&self.context.engine, 2);
        }
        self.resume(index);
    }

    /// Runs a blocked command again from its start, on the lane, where it may wait for its
    /// partitions. Its timeout goes on meanwhile, and CLIENT UNBLOCK ends it there.
    pub fn run_again(&mut self, index: u32) {
        let inbox = Arc::clone(&self.mailbox);
        let Some(connection) = self.at(index) else { return };
        let Some(blocked) = connection.waits.blocked.take() else { return };
        let parking = connection.park(ParkReason::Lane);
        let (applicant, handle) = (connection.applicant(), connection.handle());
        if let Some(until_us) = blocked.until_us {
            self.timeouts.due.insert((until_us, handle), parking);
        }
        blocked.forget(&self.context.engine, 2);
        if let Some(pending) = blocked.waiter.request.downcast_ref::<PendingServe>() {
            self.lane_jobs += 1;
            self.context.engine.lane.submit(Job {
                args: pending.args.clone(),
                found: pending.found,
                session: Box::new(pending.session.clone()),
                inbox,
                connection: handle,
                parking,
                locking: Locking::Upfront,
                tries: 0,
                waited: Some(blocked.waited()),
                applicant,
                has_begun: false,
                permit: WritePermit::default(),
                answer: None,
            });
        }
        if let Some(connection) = self.at(index) {
            connection.waits.blocked = Some(blocked);
        }
    }

    /// A command on the lane has found nothing and blocks.
    pub fn lane_blocked(&mut self, handle: u64, parking: u32, blocked: BlockedCommand) {
        let found = self.find_handle(handle).filter(|connection| connection.life == Life::Open);
        let parked = found.and_then(|connection| {
            let index = connection.token.index;
            connection.waits.parked.as_mut().map(|parked| (index, parked))
        });
        let Some((index, parked)) = parked.filter(|(_, parked)| parked.number == parking) else {
            // It was served already, or its connection has gone.
            if !blocked.give_up(&self.context.engine) {
                blocked.forget(&self.context.engine, 2);
            }
            return;
        };
        let is_called = parked.waiting == ParkReason::Called;
        parked.waiting = ParkReason::Keys;
        if let Some(connection) = self.at(index) {
            connection.tell_kept();
        }
        // The one from when it was blocked before.
        self.take_blocked(index);
        self.block(index, blocked);
        if is_called {
            self.run_again(index);
        }
        self.touch(index);
    }

    /// Puts the blocked command of a connection back into its input, to be run at another worker
    /// with the rest of its timeout and its place in the queues.
    pub fn take_back(&mut self, index: u32) {
        let Some(blocked) = self.give_up(index) else { return };
        let Some(pending) = blocked.waiter.request.downcast_ref::<PendingServe>() else { return };
        let Some(connection) = self.at(index) else { return };
        let mut input = pending.args.to_request();
        input.extend_from_slice(&connection.input.bytes[connection.input.done..]);
        connection.input.bytes = input;
        connection.input.done = 0;
        connection.input.parser = pantala_protocol::RequestParser::default();
        connection.waits.waited = Some(blocked.waited());
        connection.waits.parked = None;
    }
}

/// Writes the reply of a blocked command, unless the client has turned replies off.
fn answer(connection: &mut Connection, reply: Vec<u8>) {
    let (mode, before) = (connection.session.reply_mode, connection.output.bytes.len());
    connection.push_reply(reply);
    if mode != ReplyMode::On {
        suppress_reply(&mut connection.session, mode, before, &mut connection.output.bytes);
    }
}
