//! The end of a turn: sends the output of its connections, and ends those that are done.
//!
//! What a connection does not read costs at most `THROTTLE_BYTES` of output plus one reply: above
//! that its commands wait. Its bytes are still received, up to `client-query-buffer-limit`, so a
//! client that writes a long pipeline before it reads is not held up.
//!
//! While a command waits for something that ends by itself (the lane, a partition, CLIENT PAUSE),
//! input above [`PARKED_INPUT_BYTES`] stays in the kernel; for a client that has not authenticated
//! yet, input above [`UNAUTHENTICATED_INPUT_BYTES`]. While a client is blocked on keys, perhaps for
//! ever, all its input is read, as in Valkey: a FIN comes after all input, so with a full window it
//! would never arrive, and a client that has gone would be served.
//!
//! Input does not stay in the kernel either while a client is held back for a wrong password and
//! has not authenticated, or has given several wrong ones: its further input is read and discarded.
//! So its FIN is noticed, and the client is dropped at once.
//!
//! A peer that has gone cannot be told from one that has only finished sending: both send a FIN. So
//! a FIN ends a client that is blocked on keys in either case, as Valkey frees a blocked client
//! whose peer half-closes. All others get their replies first. While reading is paused, a hang-up
//! is noticed if the window had room for it; it counts when the command begins to block on keys. A
//! reset is noticed at any time and ends every connection at once: by a send that fails, or, where
//! input is not answered at once, by watching the peer (`Ops::watch_peer`).

use std::mem::{replace, take};

use pantala_engine::engine::slots_cell::WritePermit;
use pantala_journal::Stamp;
use pantala_keyspace::Garbage;
use pantala_reactor::{Ops, Receipt, Token};

use crate::worker::Worker;
use crate::worker::admission::limits::Judgement;
use crate::worker::admission::limits::{Judge, UNAUTHENTICATED_INPUT_BYTES};
use crate::worker::connection::{Connection, Life, ParkReason};
use crate::worker::output::replicas::{ServeOutcome, is_replica};

/// Larger buffers are freed in the background.
const LARGE_BUFFER_BYTES: usize = 1 << 20;
/// A sent buffer above this is given back at once: otherwise it would count as used, for as long as
/// a sleeping worker sleeps.
const MOST_LAZY_BYTES: usize = 8 << 10;
/// Above this, a parked connection's further input stays in the kernel; see the start of this file.
const PARKED_INPUT_BYTES: usize = 1 << 20;

impl Worker {
    /// Takes a buffer back that the reactor has sent.
    pub fn sent(&mut self, conn: Token, buffer: Vec<u8>) {
        self.tally.writes.add(1);
        let follows = self.find(conn).is_some_and(|connection| is_replica(connection));
        let left = if follows { self.lists.spare.keep_large(buffer) } else { Some(buffer) };
        if let Some(buffer) = left {
            self.keep_buffer(buffer);
        }
        let Some(connection) = self.find(conn) else { return };
        let bytes = take(&mut connection.output.in_flight) as u64;
        connection.output.in_flight_room = 0;
        connection.counts.sent_bytes += bytes;
        let is_through = connection.output.bytes.is_empty() && !connection.has_output();
        let was_choked = is_through && take(&mut connection.output.is_throttled);
        self.tally.sent_bytes.add(bytes);
        if was_choked {
            self.resume(conn.index);
        }
        self.touch(conn.index);
    }

    /// Keeps a buffer that is not needed any more, or frees it.
    pub fn keep_buffer(&mut self, buffer: Vec<u8>) {
        let left = self.lists.spare.keep(buffer, self.limited.memory.most_bytes);
        if let Some(buffer) = left.filter(|buffer| buffer.capacity() > LARGE_BUFFER_BYTES) {
            // Freeing it returns pages to the system, which takes time.
            self.context.engine.space.dispose(Garbage::Bytes(buffer), true, &self.tally.keys);
        }
    }

    /// Goes through the connections that this turn has touched.
    pub fn flush(&mut self, ops: &mut Ops<'_>) {
        let mut touched = take(&mut self.lists.touched);
        self.look_at_fence();
        if !self.lists.replicas.is_empty() {
            self.expect_replicas_to_grow();
        }
        for index in touched.drain(..) {
            self.flush_one(index, ops);
        }
        self.lists.touched = touched;
        self.tell_unanswered();
        if !self.lists.replicas.is_empty() {
            self.count_replicas();
        }
        if take(&mut self.chores.has_grown) && self.limited.most_client_bytes > 0 {
            self.evict_clients(ops);
        }
    }

    /// Counts again what a connection takes.
    pub fn recount(&mut self, index: u32) {
        let Some(connection) = self.at(index) else { return };
        let (before, bytes) = (connection.counts.counted_bytes, connection.memory_bytes() as u64);
        if before != bytes {
            connection.counts.counted_bytes = bytes;
            self.count_bytes(before, bytes);
        }
    }

    fn flush_one(&mut self, index: u32, ops: &mut Ops<'_>) {
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        connection.marks.is_touched = false;
        let (token, life) = (connection.token, connection.life);
        if self.fence.concerns(&connection.output) && !self.may_answer(index) {
            return self.drop_connection(token, ops);
        }
        if matches!(life, Life::Closing | Life::Leaving) {
            return;
        }
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        let follows = is_replica(connection) && connection.life == Life::Open;
        let served = if follows { self.serve_replica(index) } else { ServeOutcome::All };
        if served == ServeOutcome::Lost {
            return self.drop_connection(token, ops);
        }
        self.recount(index);
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        match self.limited.judge(connection, self.now_us) {
            Judgement::Fine => {
                self.chores.is_over_soft |= connection.output.over_soft_since_us.is_some()
            }
            over => return self.drop_for(over, token, ops),
        }
        if self.has_given_up_guessing(index) {
            return self.drop_connection(token, ops);
        }
        self.end_if_through(index);
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        let is_last = connection.life == Life::Ending;
        // Its input of this turn is answered later, or never.
        let is_unanswered =
            connection.output.bytes.is_empty() && connection.counts.active_us == self.now_us;
        if let Some(tls) = connection.tls.as_mut().filter(|_| is_last) {
            tls.is_last = true;
        }
        if connection.output.in_flight > 0 {
            if is_last || connection.has_output() {
                ops.hasten();
            }
        } else if connection.is_held_back() {
            // Time ends that, or the peer.
        } else if connection.has_output() && !self.is_kept(index) {
            self.lists.unkept.push(index);
        } else if let Some(connection) = self.connections[index as usize].as_deref_mut()
            && connection.has_output()
        {
            if is_last {
                // Once a client has read its last reply, it may rely on getting no more messages.
                self.context.engine.notices.directory.leave(connection.session.id);
            }
            let spare = &mut self.lists.spare;
            let next = if follows { spare.take_large() } else { spare.take() };
            let output = match &mut connection.tls {
                None => replace(&mut connection.output.bytes, next),
                Some(tls) => tls.seal(&mut connection.output.bytes, next),
            };
            let spent = connection.tls.as_mut().map(|tls| tls.take_spent()).unwrap_or_default();
            connection.output.permit = WritePermit::Unfenced;
            connection.output.in_flight = output.len();
            connection.output.in_flight_room = output.capacity();
            let is_awaited = is_last || self.is_retiring || served == ServeOutcome::Some;
            let receipt = receipt_of(connection, is_awaited);
            ops.send(token, output, receipt);
            self.keep_buffer(spent);
        } else if is_last {
            return self.drop_connection(token, ops);
        }
        self.balance_reading(index, is_unanswered, ops);
    }

    /// Whether a connection's replies may be sent: with `appendfsync always` its last step must be
    /// durable. Other connections are not held up.
    #[inline]
    fn is_kept(&self, index: u32) -> bool {
        let journal = &self.context.engine.journal;
        if !journal.holds_replies() {
            return true;
        }
        let Some(connection) = self.connections[index as usize].as_deref() else { return true };
        let step = connection.session.last_step;
        step == Stamp::default() || journal.is_durable(step)
    }

    /// Sends replies that waited: more of the journal is durable.
    pub(crate) fn send_kept(&mut self) {
        for index in take(&mut self.lists.unkept) {
            self.touch(index);
        }
    }

    /// Begins to end a connection that has no more commands to run.
    fn end_if_through(&mut self, index: u32) {
        let Some(connection) = self.at(index).filter(|one| one.life == Life::Open) else { return };
        // A peer that has sent a FIN still gets the replies to earlier commands.
        let is_through =
            connection.is_ready() && connection.peer.is_done && !connection.marks.is_resumed;
        // One that is blocked on keys gets none: it might wait for ever.
        let is_gone =
            connection.waits_for_keys() && (connection.peer.is_done || connection.peer.has_hung_up);
        if is_through || is_gone || connection.session.closing {
            connection.life = Life::Ending;
            // An element that it was served would be lost.
            self.stop_waiting(index);
        }
    }

    /// Pauses reading while a parked connection has enough input, so that its peer feels
    /// back-pressure; resumes it afterwards.
    fn balance_reading(&mut self, index: u32, is_unanswered: bool, ops: &mut Ops<'_>) {
        let Some(connection) = self.at(index) else { return };
        // A FIN arrives after all that was sent, so the input of a client that is blocked on keys
        // is read to its end.
        let ends_by_itself =
            connection.waits.parked.is_some_and(|parked| parked.waiting != ParkReason::Keys);
        if is_unanswered || connection.waits_for_keys() {
            ops.watch_peer(connection.token);
        }
        let most_bytes = match connection.session.is_authenticated() {
            false => UNAUTHENTICATED_INPUT_BYTES,
            true if ends_by_itself => PARKED_INPUT_BYTES,
            true => usize::MAX,
        };
        let is_full = connection.input.bytes.len() > most_bytes
            || connection.tls.as_ref().is_some_and(|tls| tls.waits_for_turn());
        let is_worthless = connection.is_guessing()
            || connection.is_held_back() && !connection.session.is_authenticated();
        if is_full && is_worthless {
            connection.input.bytes = Vec::new();
            (connection.input.done, connection.input.is_overrun) = (0, true);
        } else if is_full && !connection.input.is_paused {
            connection.input.is_paused = true;
            ops.pause_reading(connection.token);
        } else if !is_full && connection.input.is_paused {
            (connection.input.is_paused, connection.peer.has_hung_up) = (false, false);
            ops.resume_reading(connection.token);
        }
    }

    /// Closes a connection that has exceeded a limit.
    #[cold]
    fn drop_for(&mut self, over: Judgement, conn: Token, ops: &mut Ops<'_>) {
        match over {
            Judgement::Fine => return,
            Judgement::TooMuchInput => self.tally.input_limit.add(1),
            Judgement::TooMuchOutput => self.tally.output_limit.add(1),
        }
        self.drop_connection(conn, ops);
    }

    /// Asks the reactor to close the connection; unsent output is lost.
    pub fn drop_connection(&mut self, conn: Token, ops: &mut Ops<'_>) {
        let Some(connection) = self.find(conn) else { return };
        if connection.life == Life::Closing {
            return;
        }
        connection.life = Life::Closing;
        if let Some(presence) = &connection.peer.presence {
            presence.is_gone();
        }
        let counted = take(&mut connection.counts.counted_bytes);
        let (is_subscribed, place) = (connection.session.is_subscribed(), connection.session.place);
        let client = connection.session.id;
        let is_idle = connection.output.in_flight == 0;
        let goodbye = connection.tls.as_mut().filter(|_| is_idle).map(|tls| tls.goodbye());
        let (watched, is_replica) = (connection.session.monitor, connection.session.is_replica());
        if watched {
            self.end_monitoring(conn.index);
        }
        if is_replica {
            self.end_following(conn.index);
        }
        self.count_bytes(counted, 0);
        self.end_subscriptions(is_subscribed, place);
        self.context.engine.notices.directory.leave(client);
        self.context.engine.end_tracking(client);
        self.stop_waiting(conn.index);
        if let Some(goodbye) = goodbye.filter(|goodbye| !goodbye.is_empty()) {
            ops.send(conn, goodbye, Receipt::Lazy);
        }
        ops.close(conn);
    }
}

/// How soon the connection must learn that its output has been sent.
fn receipt_of(connection: &Connection, is_awaited: bool) -> Receipt {
    let output = &connection.output;
    let is_much = output.is_throttled || output.in_flight > MOST_LAZY_BYTES;
    match is_awaited || is_much || connection.has_output() {
        true => Receipt::Prompt,
        false => Receipt::Lazy,
    }
}
