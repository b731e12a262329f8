//! Connections whose commands wait for keys: timeouts, CLIENT UNBLOCK, and the end of waiting.
//!
//! What waits and who serves it stands in `pantala_engine::waiting`.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_commands::{Acknowledged, AtTimeout, ClientError, Locking, ReplyMode, error};
use pantala_engine::execute::suppress_reply;
use pantala_engine::lane::Job;
use pantala_engine::waiting::{Blocked, Pending};
use pantala_journal::Stamp;
use pantala_protocol::Reply;

use super::Worker;
use super::connection::{Connection, Life, Waiting};
use crate::replication::primary;

/// When a command is looked at again whose time is over while the lane runs it.
const LOOK_AGAIN_US: u64 = 10_000;

/// For how many servers its command waits, if it is one that does (WAIT, WAITAOF).
fn awaits(connection: Option<&mut Connection>) -> Option<Acknowledged> {
    match connection?.waits.blocked.as_ref()?.at_timeout {
        AtTimeout::Acknowledged(asked) => Some(asked),
        AtTimeout::Null | AtTimeout::NullArray => None,
    }
}

/// The moments at which waiting ends in vain, of one worker: time and connection.
#[derive(Default)]
pub struct Timeouts {
    pub(super) due: BTreeMap<(u64, u64), u32>,
}

impl Timeouts {
    /// When the first of them is.
    pub fn next_us(&self) -> Option<u64> {
        self.due.first_key_value().map(|((until_us, _), _)| *until_us)
    }
}

impl Worker {
    /// A connection's command waits for keys from now on; its parking has begun.
    pub(crate) fn block(&mut self, index: u32, blocked: Blocked) {
        let Some(connection) = self.at(index) else { return };
        let (handle, number) = (connection.handle(), connection.waits.parkings);
        let until_us = blocked.until_us;
        connection.waits.blocked = Some(Box::new(blocked));
        self.shared.engine.blocked.join();
        if let Some(until_us) = until_us {
            self.timeouts.due.insert((until_us, handle), number);
        }
        if let Some(asked) = awaits(self.at(index)) {
            self.lists.awaiting.push(index);
            if asked.wanted > 0 {
                self.shared.replication.waiters.join();
                self.inbox.for_replicas.join();
                self.shared.appending.ask_replicas(&self.shared.engine.journal);
            }
            // What was to call it may have come before.
            self.answer_if_enough(index);
        }
    }

    /// More of the journal is durable, or a replica has more of it: who waits for that looks again.
    pub(super) fn wake_for_journal(&mut self) {
        for index in take(&mut self.lists.awaiting) {
            if awaits(self.at(index)).is_some() {
                self.lists.awaiting.push(index);
                self.answer_if_enough(index);
            }
        }
    }

    /// Answers WAIT or WAITAOF, if all have what they wait for.
    fn answer_if_enough(&mut self, index: u32) {
        let Some(told) = self.count_acknowledged(index) else { return };
        if told.is_enough() {
            self.unblock(index, None);
        } else if told.wants_local && !self.shared.appending.is_running() {
            // CONFIG SET appendonly no: nothing will be kept any more.
            self.unblock(index, Some(&error::NO_LOG_TO_WAIT_FOR));
        }
    }

    /// How many have what WAIT or WAITAOF waits for now; the connection knows it, too.
    fn count_acknowledged(&mut self, index: u32) -> Option<Acknowledged> {
        let shared = Arc::clone(&self.shared);
        let asked = awaits(self.at(index))?;
        let connection = self.at(index)?;
        let told = primary::acknowledged(&shared, connection.session.last_step, asked);
        let blocked = connection.waits.blocked.as_mut()?;
        blocked.at_timeout = AtTimeout::Acknowledged(told);
        Some(told)
    }

    /// The connection's command waits no longer: it is forgotten here.
    pub(super) fn take_blocked(&mut self, index: u32) -> Option<Box<Blocked>> {
        let connection = self.at(index)?;
        let (handle, blocked) = (connection.handle(), connection.waits.blocked.take()?);
        self.shared.engine.blocked.leave();
        if let Some(until_us) = blocked.until_us {
            self.timeouts.due.remove(&(until_us, handle));
        }
        if matches!(blocked.at_timeout, AtTimeout::Acknowledged(asked) if asked.wanted > 0) {
            self.inbox.for_replicas.leave();
            self.shared.replication.waiters.leave();
        }
        Some(blocked)
    }

    /// Takes the connection's command out of the queues, or off the lane. `None` if it does not
    /// wait, or if it was served or called in this moment, or runs: then that message will arrive.
    fn give_up(&mut self, index: u32) -> Option<Box<Blocked>> {
        let connection = self.at(index)?;
        let is_in_queues = connection.waits_for_keys();
        let (handle, parkings) = (connection.handle(), connection.waits.parkings);
        let blocked = connection.waits.blocked.take()?;
        let is_won = if is_in_queues {
            blocked.give_up(&self.shared.engine)
        } else {
            let job = self.shared.engine.lane.withdraw(&self.mailbox, handle, parkings);
            self.lane_jobs -= usize::from(job.is_some());
            job.is_some()
        };
        self.at(index)?.waits.blocked = Some(blocked);
        if is_won { self.take_blocked(index) } else { None }
    }

    /// Ends the waiting of those whose time is over.
    pub(crate) fn end_waiting(&mut self) {
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

    /// A client that gave a wrong password is answered now, and goes on; one that sent too much
    /// meanwhile does not.
    #[cold]
    fn end_penalty(&mut self, index: u32) {
        let Some(connection) = self.at(index) else { return };
        connection.waits.parked = None;
        if connection.input.is_overrun {
            connection.life = Life::Ending;
        }
        self.resume(index);
    }

    /// The time of a command is over that runs again on the lane at this moment. It may be laid
    /// aside there once more.
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

    /// Ends the waiting of a connection with the reply of a timeout or with an error; false if it
    /// does not wait, or is being served.
    pub(crate) fn unblock(&mut self, index: u32, error: Option<&ClientError>) -> bool {
        // What is answered at the end of the time is true then.
        self.count_acknowledged(index);
        let Some(blocked) = self.give_up(index) else { return false };
        let began_us = monotonic_us();
        let (engine, tally) = (Arc::clone(&self.shared.engine), Arc::clone(&self.tally));
        let has_histogram = self.limited.has_histograms;
        let Some(connection) = self.at(index) else { return false };
        connection.waits.parked = None;
        connection.counts.commands += 1;
        let mut text = Vec::new();
        let mut reply = Reply::new(&mut text, connection.session.version);
        match error {
            Some(error) => {
                tally.errors.add(1);
                engine.stats.errors.count(error.code());
                reply.error(&*error.0);
            }
            None => blocked.at_timeout.reply(&mut reply),
        }
        if let Some(found) = blocked.note(&engine, &connection.session, 0, text.len()) {
            let row = &tally.commands[usize::from(found.number)];
            row.calls.add(1);
            // As in Valkey: it was called, and what ended it refused it.
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

    /// The connection ends: nothing is to be served to it any more.
    pub(crate) fn stop_waiting(&mut self, index: u32) {
        if let Some(blocked) = self.take_blocked(index) {
            blocked.give_up(&self.shared.engine);
        }
    }

    /// Somebody has served this connection's command.
    pub(crate) fn served(
        &mut self,
        handle: u64,
        parking: u32,
        (reply, step): (Vec<u8>, Stamp),
        took_us: u64,
    ) {
        let engine = Arc::clone(&self.shared.engine);
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
        // The lane ran it, and its word that it waits is still on the way.
        connection.tell_kept();
        if let Some(blocked) = self.take_blocked(index) {
            // It still stands in the queues of its other keys.
            blocked.forget(&self.shared.engine, 2);
        }
        self.resume(index);
    }

    /// A command that waited is to run again from its start: on the lane, which may wait for the
    /// partitions it needs. Its time goes on meanwhile, and CLIENT UNBLOCK ends it there.
    pub(crate) fn run_again(&mut self, index: u32) {
        let inbox = Arc::clone(&self.mailbox);
        let Some(connection) = self.at(index) else { return };
        let Some(blocked) = connection.waits.blocked.take() else { return };
        let parking = connection.park(Waiting::Lane);
        let (applicant, handle) = (connection.applicant(), connection.handle());
        if let Some(until_us) = blocked.until_us {
            self.timeouts.due.insert((until_us, handle), parking);
        }
        blocked.forget(&self.shared.engine, 2);
        if let Some(pending) = blocked.waiter.request.downcast_ref::<Pending>() {
            self.lane_jobs += 1;
            self.shared.engine.lane.submit(Job {
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
                answer: None,
            });
        }
        if let Some(connection) = self.at(index) {
            connection.waits.blocked = Some(blocked);
        }
    }

    /// A command on the lane found nothing and waits.
    pub(crate) fn lane_blocked(&mut self, handle: u64, parking: u32, blocked: Blocked) {
        let found = self.find_handle(handle).filter(|connection| connection.life == Life::Open);
        let parked = found.and_then(|connection| {
            let index = connection.token.index;
            connection.waits.parked.as_mut().map(|parked| (index, parked))
        });
        let Some((index, parked)) = parked.filter(|(_, parked)| parked.number == parking) else {
            // Served already, or nobody is there to be served.
            if !blocked.give_up(&self.shared.engine) {
                blocked.forget(&self.shared.engine, 2);
            }
            return;
        };
        let is_called = parked.waiting == Waiting::Called;
        parked.waiting = Waiting::Keys;
        if let Some(connection) = self.at(index) {
            connection.tell_kept();
        }
        // What it was when it waited before.
        self.take_blocked(index);
        self.block(index, blocked);
        if is_called {
            self.run_again(index);
        }
        self.touch(index);
    }

    /// Puts the command of a waiting connection back into its input, to be run at another worker,
    /// where its time goes on, and its place in the queues is the same.
    pub(crate) fn take_back(&mut self, index: u32) {
        let Some(blocked) = self.give_up(index) else { return };
        let Some(pending) = blocked.waiter.request.downcast_ref::<Pending>() else { return };
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

/// Writes the reply of a command that waited, if the client wants one.
fn answer(connection: &mut Connection, reply: Vec<u8>) {
    let (mode, before) = (connection.session.reply_mode, connection.output.bytes.len());
    connection.push_reply(reply);
    if mode != ReplyMode::On {
        suppress_reply(&mut connection.session, mode, before, &mut connection.output.bytes);
    }
}
