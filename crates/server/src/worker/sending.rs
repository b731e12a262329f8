//! The end of a turn: sending what it has written, ending what has ended.
//!
//! What a connection does not read costs at most [`THROTTLE_BYTES`] of output plus one reply: above
//! that its commands wait (their bytes are still received, so a client that writes a long pipeline
//! before it reads is not held up), up to `client-query-buffer-limit`.
//!
//! Where a command waits for something that ends by itself (the lane, a partition, CLIENT PAUSE)
//! further input is left to the kernel above [`PARKED_INPUT_BYTES`], and that of a client which has
//! yet to authenticate above [`UNAUTHENTICATED_INPUT_BYTES`]. Not where it waits for keys, perhaps
//! for ever: a FIN comes after all input, so with a full window it would never arrive, and one who
//! has gone would be served. There all is read, as in Valkey.
//!
//! Nor where a client is held back for a wrong password, and has yet to authenticate or has given
//! several: what it goes on to send is read and thrown away, so that its end is heard of, and that
//! drops it at once.
//!
//! A peer that has gone can not be told from one that has only finished sending: both are a FIN. So
//! that ends whoever waits for keys, in both cases, as Valkey frees a blocked client whose peer
//! half-closes. All others get what they asked for before. While reading is paused a hang-up is
//! heard of if the window had room for it; it counts when the command begins to wait for keys. A
//! reset is heard of at any time and ends everybody at once: from a send that fails, or, where what
//! was received is not answered at once, by watching (`Ops::watch_peer`).

use std::mem::{replace, take};

use pantala_journal::Stamp;
use pantala_keyspace::Garbage;
use pantala_reactor::{Ops, Receipt, Token};

use super::limits::{Judge, UNAUTHENTICATED_INPUT_BYTES};
use super::replicas::{Served, is_replica};
use crate::worker::Worker;
use crate::worker::connection::{Life, Waiting};
use crate::worker::limits::Judgement;

/// Above this much unsent output a connection's commands wait until it is sent.
pub const THROTTLE_BYTES: usize = 1 << 20;
/// Larger buffers are freed in the background.
const LARGE_BUFFER_BYTES: usize = 1 << 20;
/// What was sent of more than this is given back at once: until then it counts as used, and a
/// worker that sleeps would keep it for as long as it sleeps.
const MOST_LAZY_BYTES: usize = 8 << 10;
/// A parked connection's further input is left to the kernel above this; see the module.
const PARKED_INPUT_BYTES: usize = 1 << 20;

impl Worker {
    /// The reactor has sent a buffer.
    pub(crate) fn sent(&mut self, conn: Token, buffer: Vec<u8>) {
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

    /// A buffer that is needed no more.
    pub(crate) fn keep_buffer(&mut self, buffer: Vec<u8>) {
        let left = self.lists.spare.keep(buffer, self.limited.memory.most_bytes);
        if let Some(buffer) = left.filter(|buffer| buffer.capacity() > LARGE_BUFFER_BYTES) {
            // Its pages go back to the system, which takes its time.
            self.shared.engine.space.dispose(Garbage::Bytes(buffer), true, &self.tally.keys);
        }
    }

    /// Goes through the connections this turn has touched.
    pub(crate) fn flush(&mut self, ops: &mut Ops<'_>) {
        let mut touched = take(&mut self.lists.touched);
        if !self.lists.replicas.is_empty() {
            self.expect_replicas_to_grow();
        }
        for index in touched.drain(..) {
            self.flush_one(index, ops);
        }
        self.lists.touched = touched;
        if !self.lists.replicas.is_empty() {
            self.count_replicas();
        }
        if take(&mut self.chores.has_grown) && self.limited.most_client_bytes > 0 {
            self.evict_clients(ops);
        }
    }

    /// Counts what a connection takes now.
    fn recount(&mut self, index: u32) {
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
        if matches!(connection.life, Life::Closing | Life::Leaving) {
            return;
        }
        let token = connection.token;
        let follows = is_replica(connection) && connection.life == Life::Open;
        let served = if follows { self.serve_replica(index) } else { Served::All };
        if served == Served::Lost {
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
        // What it sent in this turn is answered later, or never.
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
                // Who has read its last reply counts on it that nobody is told anything there.
                self.shared.engine.notices.directory.leave(connection.session.id);
            }
            let spare = &mut self.lists.spare;
            let next = if follows { spare.take_large() } else { spare.take() };
            let output = match &mut connection.tls {
                None => replace(&mut connection.output.bytes, next),
                Some(tls) => tls.seal(&mut connection.output.bytes, next),
            };
            let spent = connection.tls.as_mut().map(|tls| tls.take_spent()).unwrap_or_default();
            connection.output.in_flight = output.len();
            connection.output.in_flight_room = output.capacity();
            let is_awaited = is_last
                || connection.output.is_throttled
                || self.is_retiring
                || served == Served::Some
                || connection.output.in_flight > MOST_LAZY_BYTES
                || connection.has_output();
            let receipt = if is_awaited { Receipt::Prompt } else { Receipt::Lazy };
            ops.send(token, output, receipt);
            self.keep_buffer(spent);
            if follows {
                // A large buffer went from what is spare to the connection.
                self.recount(index);
            }
        } else if is_last {
            return self.drop_connection(token, ops);
        }
        self.balance_reading(index, is_unanswered, ops);
    }

    /// Whether what a connection was answered may be seen: with `appendfsync always` its last step
    /// is durable. Others are not held up.
    #[inline]
    fn is_kept(&self, index: u32) -> bool {
        let journal = &self.shared.engine.journal;
        if !journal.holds_replies() {
            return true;
        }
        let Some(connection) = self.connections[index as usize].as_deref() else { return true };
        let step = connection.session.last_step;
        step == Stamp::default() || journal.is_durable(step)
    }

    /// More of the journal is durable.
    pub(super) fn send_kept(&mut self) {
        for index in take(&mut self.lists.unkept) {
            self.touch(index);
        }
    }

    /// Sends its last replies from now on, if no more commands are to run.
    fn end_if_through(&mut self, index: u32) {
        let Some(connection) = self.at(index).filter(|one| one.life == Life::Open) else { return };
        // A peer that finished sending still gets what it asked for before.
        let is_through =
            connection.is_ready() && connection.peer.is_done && !connection.marks.is_resumed;
        // One that waits for keys gets nothing any more: it might wait for ever.
        let is_gone =
            connection.waits_for_keys() && (connection.peer.is_done || connection.peer.has_hung_up);
        if is_through || is_gone || connection.session.closing {
            connection.life = Life::Ending;
            // What it would be served with would be lost.
            self.stop_waiting(index);
        }
    }

    /// Leaves input in the kernel while a connection that is parked for a while has enough of it,
    /// so that its peer feels it; takes it up again after.
    fn balance_reading(&mut self, index: u32, is_unanswered: bool, ops: &mut Ops<'_>) {
        let Some(connection) = self.at(index) else { return };
        // A FIN arrives after all that was sent, so who waits for keys is read from to the end.
        let ends_by_itself =
            connection.waits.parked.is_some_and(|parked| parked.waiting != Waiting::Keys);
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

    /// Closes one that has gone beyond a limit.
    #[cold]
    fn drop_for(&mut self, over: Judgement, conn: Token, ops: &mut Ops<'_>) {
        match over {
            Judgement::Fine => return,
            Judgement::TooMuchInput => self.tally.input_limit.add(1),
            Judgement::TooMuchOutput => self.tally.output_limit.add(1),
        }
        self.drop_connection(conn, ops);
    }

    /// Asks the reactor to close; what is unsent is lost.
    pub(crate) fn drop_connection(&mut self, conn: Token, ops: &mut Ops<'_>) {
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
        self.shared.engine.notices.directory.leave(client);
        self.shared.engine.end_tracking(client);
        self.stop_waiting(conn.index);
        if let Some(goodbye) = goodbye.filter(|goodbye| !goodbye.is_empty()) {
            ops.send(conn, goodbye, Receipt::Lazy);
        }
        ops.close(conn);
    }
}
