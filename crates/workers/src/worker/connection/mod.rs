//! One connection: its session, its buffers, and what it waits for. Owned by one worker.

pub mod accepted;
pub mod describe;
pub mod tls_state;

use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_commands::Session;
use pantala_engine::clients::mailbox::Mailbox;
use pantala_engine::clients::presence::{ClientPresence, WaitingCommand};
use pantala_engine::engine::slots_cell::WritePermit;
use pantala_engine::waiting::{BlockedCommand, CountedAsBlocked, ReplyTarget, WaitedState};
use pantala_protocol::{RequestParser, Version};
use pantala_reactor::Token;

use crate::listener_kind::ListenerKind;
use crate::worker::connection::describe::meters;
use crate::worker::connection::tls_state::TlsState;
use crate::worker::serving::memcached::reader::Reader;

/// Above this much unsent output a connection's commands wait.
pub const THROTTLE_BYTES: usize = 1 << 20;

/// Shorter replies are copied, so that the connection's own buffer is reused.
const MOVED_REPLY_BYTES: usize = 16 << 10;

/// Why a connection is parked: its pipeline stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkReason {
    /// A partition is busy.
    Partition,
    /// The slow lane runs its command.
    Lane,
    /// CLIENT PAUSE.
    Pause,
    /// It has published faster than the messages can be delivered.
    Room,
    /// Its command is blocked on a key (BLPOP and the like).
    Keys,
    /// Its command, which ran on the lane, was blocked on keys and is to run again; the wake-up
    /// arrived before the lane's message that it blocks.
    Called,
    /// It is a replica's connection: `replicas` reads its input, which gets no reply.
    Replica,
    /// It has given a wrong password: the reply is held back for a while.
    Penalty,
}

/// One parking. Its number tells late wake-ups from current ones.
#[derive(Clone, Copy, Debug)]
pub struct ParkState {
    /// What the connection waits for.
    pub waiting: ParkReason,
    /// The number of this parking, counted per connection.
    pub number: u32,
}

/// The stages of a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Serving.
    Open,
    /// The last replies are being sent, then it is closed.
    Ending,
    /// The reactor was asked to close it.
    Closing,
    /// The reactor was asked to release its socket, to hand it over.
    Leaving,
}

/// Who serves a connection next, once its worker has given it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextServer {
    /// The worker with the fewest connections.
    #[default]
    Any,
    /// This worker.
    Worker(u16),
    /// The control plane: it speaks HTTP.
    Http,
}

/// The input of a client.
#[derive(Default)]
pub struct Input {
    /// Received and not yet executed: the rest of a pipeline, or half a command.
    pub bytes: Vec<u8>,
    /// Bytes at the start that have been executed: less than half of them.
    pub done: usize,
    /// The state of the RESP parser.
    pub parser: RequestParser,
    /// The parser of Memcached's protocols, on connections that speak them.
    pub memcached: Option<Box<Reader>>,
    /// Reading is paused because too much input waits.
    pub is_paused: bool,
    /// Some input was thrown away: what follows cannot be parsed.
    pub is_overrun: bool,
}

/// The output to a client.
#[derive(Default)]
pub struct Output {
    /// Replies not yet given to the reactor.
    pub bytes: Vec<u8>,
    /// Bytes the reactor is sending.
    pub in_flight: usize,
    /// The capacity of the buffer that is being sent.
    pub in_flight_room: usize,
    /// Pushed messages that came while its command was on the slow lane; they follow the reply.
    pub kept: Vec<u8>,
    /// The permission without which `bytes` may not leave: see `output/fence.rs`.
    pub permit: WritePermit,
    /// So much output waits that its commands wait too.
    pub is_throttled: bool,
    /// Since when its output is above the soft limit (monotonic, microseconds).
    pub over_soft_since_us: Option<u64>,
}

impl Output {
    /// What waits to be sent has a reply that ran under this permission.
    #[inline]
    pub fn needs(&mut self, permit: WritePermit) {
        self.permit = self.permit.and(permit);
    }
}

/// What a connection waits for.
#[derive(Default)]
pub struct Waits {
    /// Whether and why the pipeline stands still.
    pub parked: Option<ParkState>,
    /// The command that is blocked on keys, or that was and runs again on the lane.
    pub blocked: Option<Box<BlockedCommand>>,
    /// The timeout and place in the queue of the first command in its input, if that was blocked on
    /// keys before.
    pub waited: Option<WaitedState>,
    /// Held while CLIENT PAUSE parks it: INFO counts it among the blocked clients.
    pub paused: Option<CountedAsBlocked>,
    /// The number of its last parking.
    pub parkings: u32,
    /// How often its next command has met a busy partition. Valid only while `counts.commands`
    /// equals the second number.
    tries: (u32, u64),
}

/// The state of the other end.
#[derive(Default)]
pub struct Peer {
    /// It has sent a FIN.
    pub is_done: bool,
    /// It has hung up, or sent a FIN, while reading was paused: earlier bytes may still be unread.
    pub has_hung_up: bool,
    /// Whether the peer is there, shared with the lane once it has run a command of it.
    pub presence: Option<Arc<ClientPresence>>,
}

/// Whether it is in its worker's lists.
#[derive(Default)]
pub struct Marks {
    /// The index of its chunk in this turn.
    pub chunk: Option<u32>,
    /// It is in the list of connections to look at when the turn ends.
    pub is_touched: bool,
    /// It goes on with its input in this turn or the next without anything new arriving, or at its
    /// next worker.
    pub is_resumed: bool,
}

/// The counters of a connection.
#[derive(Default)]
pub struct Counts {
    /// The bytes of it that are counted in its worker's `client_bytes`.
    pub counted_bytes: u64,
    /// Messages pushed to it: published messages, stale keys.
    pub told: u64,
    /// `commands` plus `told` at the last look of `balance`.
    pub done_seen: u64,
    /// When it was last active (monotonic, microseconds).
    pub active_us: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Commands executed.
    pub commands: u64,
    /// The row number of its last command.
    pub last_command: Option<u16>,
}

/// One connection: its socket's token, session, input, output and what it waits for. Owned by its
/// worker.
pub struct Connection {
    /// Its token in the reactor.
    pub token: Token,
    /// What commands know of it.
    pub session: Session,
    /// The stage of its life.
    pub life: Life,
    /// The kind of listener that accepted it.
    pub kind: ListenerKind,
    /// Who serves it next, should it leave.
    pub next: NextServer,
    /// What it has sent.
    pub input: Input,
    /// What it is to be sent.
    pub output: Output,
    /// The TLS session, if it is encrypted. `input` and `output` hold plain bytes in either case.
    pub tls: Option<Box<TlsState>>,
    /// What it waits for.
    pub waits: Waits,
    /// The other end.
    pub peer: Peer,
    /// Where it stands in the lists of its worker.
    pub marks: Marks,
    /// What is counted of it.
    pub counts: Counts,
}

impl Connection {
    /// A new connection.
    pub fn new(token: Token, session: Session, kind: ListenerKind, now_us: u64) -> Self {
        Connection {
            token,
            session,
            life: Life::Open,
            kind,
            next: NextServer::Any,
            input: Input::default(),
            output: Output::default(),
            tls: kind.is_tls().then(|| Box::new(TlsState::new(now_us))),
            waits: Waits::default(),
            peer: Peer::default(),
            marks: Marks::default(),
            counts: Counts { active_us: now_us, ..Counts::default() },
        }
    }

    /// The number by which other threads name it.
    pub fn handle(&self) -> u64 {
        handle_of(self.token)
    }

    /// Whether commands may run now.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.waits.parked.is_none() && !self.output.is_throttled && self.life == Life::Open
    }

    /// Whether it can be handed over to another worker now, with its unexecuted input and unsent
    /// output.
    pub fn can_leave(&self) -> bool {
        let is_still = match self.waits.parked.map(|parked| parked.waiting) {
            // The next worker tries again.
            None
            | Some(
                ParkReason::Partition | ParkReason::Pause | ParkReason::Room | ParkReason::Replica,
            ) => true,
            Some(
                ParkReason::Lane | ParkReason::Keys | ParkReason::Called | ParkReason::Penalty,
            ) => false,
        };
        is_still && self.is_between()
    }

    /// Whether its command is blocked on keys and does not run again on the lane.
    pub fn waits_for_keys(&self) -> bool {
        let waiting = self.waits.parked.map(|parked| parked.waiting);
        waiting == Some(ParkReason::Keys) && self.waits.blocked.is_some()
    }

    /// Whether its reply to a wrong password is held back.
    #[inline]
    pub fn is_held_back(&self) -> bool {
        self.waits.parked.is_some_and(|parked| parked.waiting == ParkReason::Penalty)
    }

    /// Whether it is held back for a wrong password that was not its first, or has sent more
    /// meanwhile than may wait: its connection then ends when its peer's side does.
    #[inline]
    pub fn is_guessing(&self) -> bool {
        self.is_held_back() && (self.session.wrong_passwords > 1 || self.input.is_overrun)
    }

    /// Whether it is guessing passwords and its peer has closed its side.
    #[inline]
    pub fn has_given_up_guessing(&self) -> bool {
        self.is_guessing() && (self.peer.is_done || self.peer.has_hung_up)
    }

    /// Whether nothing of it is under way except what it waits for.
    pub fn is_between(&self) -> bool {
        self.life == Life::Open && self.output.in_flight == 0 && self.marks.chunk.is_none()
    }

    /// Counts a command that has run; whether further ones may follow.
    #[inline]
    pub fn finished(&mut self, row_number: u16) {
        self.counts.commands += 1;
        self.begun(row_number);
    }

    /// Notes a command that waits (for EXEC, for its keys, for the slow lane): it is counted when
    /// it has run.
    #[inline]
    pub fn begun(&mut self, row_number: u16) {
        self.counts.last_command = Some(row_number);
        self.throttle_output();
        if self.session.closing {
            self.life = Life::Ending;
        }
    }

    /// Tells its session what only the worker knows, if the command at hand may be refused: for a
    /// restricted client, or one that logs in.
    #[inline]
    pub fn note_meters(&mut self, logs_in: bool) {
        if logs_in || !self.session.is_unrestricted() {
            let now = meters(self);
            **self.session.meters.get_or_insert_default() = now;
        }
    }

    /// The memory it takes in bytes: itself, its buffers, subscriptions, watched and tracked keys,
    /// and the commands since MULTI.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        let buffers = self.input.bytes.capacity()
            + self.output.bytes.capacity()
            + self.output.kept.capacity();
        let session = &self.session;
        let watched = session.watching.as_ref().map_or(0, |watching| watching.bytes);
        let tracked = session.tracking.as_ref().map_or(0, |tracking| tracking.prefix_bytes);
        let kept = session.subscriptions.bytes + self.queue_bytes() + watched + tracked;
        let tls = self.tls.as_ref().map_or(0, |tls| tls.memory_bytes());
        size_of::<Connection>() + buffers + self.output.in_flight_room + kept + tls
    }

    /// The memory that the commands since MULTI take, in bytes.
    #[inline]
    pub fn queue_bytes(&self) -> usize {
        self.session.multi.as_ref().map_or(0, |queue| queue.bytes)
    }

    /// Throttles its commands if much output waits. To be called after every reply.
    #[inline]
    pub fn throttle_output(&mut self) {
        if self.output.bytes.len() > THROTTLE_BYTES {
            self.output.is_throttled = true;
        }
    }

    /// Begins to be served by its new worker.
    pub fn become_open(&mut self, token: Token) {
        self.token = token;
        self.life = Life::Open;
        self.marks.is_touched = false;
        self.marks.is_resumed = false;
        self.input.is_paused = false;
        self.peer.has_hung_up = false;
        self.marks.chunk = None;
    }

    /// Appends a reply that was written elsewhere; a long one is moved instead of copied if no
    /// output waits before it.
    pub fn push_reply(&mut self, reply: Vec<u8>) {
        if self.output.bytes.is_empty() && reply.len() > MOVED_REPLY_BYTES {
            self.output.bytes = reply;
        } else {
            self.output.bytes.extend_from_slice(&reply);
        }
    }

    /// The bytes that wait to be sent or are being sent.
    pub fn unsent_bytes(&self) -> usize {
        let unsealed = self.tls.as_ref().map_or(0, |tls| tls.unsealed_bytes());
        self.output.bytes.len() + self.output.in_flight + self.output.kept.len() + unsealed
    }

    /// Whether there is output that is not being sent yet.
    #[inline]
    pub fn has_output(&self) -> bool {
        match &self.tls {
            None => !self.output.bytes.is_empty(),
            Some(tls) => tls.has_output(!self.output.bytes.is_empty()),
        }
    }

    /// When its TLS handshake began (monotonic, microseconds), while that is under way.
    pub fn handshaking_since_us(&self) -> Option<u64> {
        self.tls.as_ref().filter(|tls| tls.is_handshaking()).map(|tls| tls.since_us)
    }

    /// Appends a message that is no reply, unless so much is unsent that the connection will be
    /// closed. It never lands inside a reply: replies are written whole, or come from the lane.
    #[inline]
    pub fn tell(&mut self, most_bytes: usize, write: impl FnOnce(&mut Vec<u8>, Version)) {
        // A connection that leaves for another worker may be closing, too.
        let is_over = self.session.closing || matches!(self.life, Life::Ending | Life::Closing);
        if is_over || self.unsent_bytes() > most_bytes {
            return;
        }
        self.counts.told += 1;
        let waiting = self.waits.parked.map(|parked| parked.waiting);
        let out = match waiting {
            // A replica's stream is not to be interrupted.
            Some(ParkReason::Replica) => return,
            Some(ParkReason::Lane | ParkReason::Called) => &mut self.output.kept,
            _ => &mut self.output.bytes,
        };
        write(out, self.session.version);
    }

    /// Appends the messages that were kept while the lane ran the command: its reply is there.
    pub fn tell_kept(&mut self) {
        let kept = std::mem::take(&mut self.output.kept);
        self.push_reply(kept);
    }

    /// Where its next command reports to should it wait, and its timeout and place if it has waited
    /// before.
    pub fn reply_target<'m>(&mut self, inbox: &'m Arc<dyn Mailbox>) -> ReplyTarget<'m> {
        let (connection, parking) = (self.handle(), self.next_parking());
        ReplyTarget { inbox, connection, parking, waited: self.waits.waited.take() }
    }

    /// The applicant for the command that is given to the lane now.
    pub fn applicant(&mut self) -> WaitingCommand {
        let presence = Arc::clone(self.peer.presence.get_or_insert_default());
        if self.peer.is_done {
            presence.sends_no_more();
        }
        WaitingCommand { presence, since_us: monotonic_us() }
    }

    /// The peer has sent a FIN; it may still read replies.
    pub fn sends_no_more(&mut self) {
        if let Some(presence) = &self.peer.presence {
            presence.sends_no_more();
        }
    }

    /// How often its next command has met a busy partition.
    pub fn tries(&self) -> u32 {
        if self.waits.tries.1 == self.counts.commands { self.waits.tries.0 } else { 0 }
    }

    /// Counts another attempt of its next command that met a busy partition.
    pub fn count_try(&mut self) {
        self.waits.tries = (self.tries().saturating_add(1), self.counts.commands);
    }

    /// The number that the next parking will have.
    pub fn next_parking(&self) -> u32 {
        self.waits.parkings.wrapping_add(1)
    }

    /// Parks the connection; returns the number of this parking.
    pub fn park(&mut self, waiting: ParkReason) -> u32 {
        self.waits.parkings = self.waits.parkings.wrapping_add(1);
        self.waits.parked = Some(ParkState { waiting, number: self.waits.parkings });
        self.waits.parkings
    }

    /// Ends the parking with this number; false if it is not the current one.
    pub fn unpark(&mut self, number: u32) -> bool {
        let ended = self.waits.parked.is_some_and(|parked| parked.number == number);
        if ended {
            self.waits.parked = None;
        }
        ended
    }
}

/// A token as one number, by which other threads name the connection.
pub fn handle_of(token: Token) -> u64 {
    u64::from(token.generation) << 32 | u64::from(token.index)
}
