//! One connection, as its worker keeps it.

use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_commands::Session;
use pantala_engine::clients::mailbox::Mailbox;
use pantala_engine::clients::presence::{Applicant, Presence};
use pantala_engine::waiting::{Blocked, CountedAsBlocked, ReplyTarget, Waited};
use pantala_protocol::{RequestParser, Version};
use pantala_reactor::Token;

use crate::clients::describe::meters;
use crate::process::listening::ListenerKind;
use crate::worker::secured::Secured;
use crate::worker::sending::THROTTLE_BYTES;
use crate::worker::serving::Reader;

/// Shorter replies are copied: the connection's own buffer is used again.
const MOVED_REPLY_BYTES: usize = 16 << 10;

/// Why a connection's pipeline stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// A partition is busy.
    Partition,
    /// The slow lane runs its command.
    Lane,
    /// CLIENT PAUSE.
    Pause,
    /// It has published more than can be delivered at once.
    Room,
    /// Its command waits for something to appear under a key.
    Keys,
    /// Its command, which the lane ran, waited for keys and is to run again; that was heard before
    /// the lane's word that it waits.
    Called,
    /// It is a replica's: its commands are read elsewhere, and not answered.
    Replica,
    /// It has given a wrong password: what it is answered is held back for a while.
    Penalty,
}

/// A state of parking. The number tells late wake-ups apart.
#[derive(Clone, Copy, Debug)]
pub struct Parked {
    /// Why.
    pub waiting: Waiting,
    /// Which parking of this connection.
    pub number: u32,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Serving.
    Open,
    /// The last replies are being sent, then it is closed.
    Ending,
    /// The reactor was asked to close it.
    Closing,
    /// The reactor was asked for its socket, to give it to another worker.
    Leaving,
}

/// Who is to serve a connection that its worker gives up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// The worker with the fewest connections.
    #[default]
    Any,
    /// This worker.
    Worker(u16),
    /// The control plane: it speaks HTTP.
    Http,
}

/// What a client has sent.
#[derive(Default)]
pub struct Input {
    /// Received and not yet executed: the rest of a pipeline, or half a command.
    pub bytes: Vec<u8>,
    /// Bytes at the start that have been executed. Less than half of them.
    pub done: usize,
    /// Where the parser of RESP stands.
    pub parser: RequestParser,
    /// The parser of Memcached's protocols, on connections that speak them.
    pub memcached: Option<Box<Reader>>,
    /// Reading is paused because there is so much.
    pub is_paused: bool,
    /// Some was thrown away: what follows is no command.
    pub is_overrun: bool,
}

/// What a client is to be sent.
#[derive(Default)]
pub struct Output {
    /// Replies not yet given to the reactor.
    pub bytes: Vec<u8>,
    /// Bytes the reactor is sending.
    pub in_flight: usize,
    /// What their buffer takes.
    pub in_flight_room: usize,
    /// Messages that came while its command was on the slow lane; they follow the reply.
    pub kept: Vec<u8>,
    /// So much waits to be sent that commands wait too.
    pub is_throttled: bool,
    /// Since when it has been above the soft limit (monotonic, microseconds).
    pub over_soft_since_us: Option<u64>,
}

/// What a connection waits for.
#[derive(Default)]
pub struct Waits {
    /// Whether the pipeline stands still, and why.
    pub parked: Option<Parked>,
    /// The command that waits for keys, or that has waited and runs again on the lane.
    pub blocked: Option<Box<Blocked>>,
    /// Of the first command of its input, if that has waited for keys before.
    pub waited: Option<Waited>,
    /// While CLIENT PAUSE holds it back: INFO counts it among the blocked.
    pub paused: Option<CountedAsBlocked>,
    /// How often it was parked.
    pub parkings: u32,
    /// How often its next command has met a busy partition, while its count of commands is the
    /// other number.
    tries: (u32, u64),
}

/// The other end.
#[derive(Default)]
pub struct Peer {
    /// It has finished sending.
    pub is_done: bool,
    /// It has hung up, or has finished sending, while reading is paused: what it sent before may
    /// still be unread.
    pub has_hung_up: bool,
    /// What the lane knows of that, once it has run a command.
    pub presence: Option<Arc<Presence>>,
}

/// Where it stands in the lists of its worker.
#[derive(Default)]
pub struct Marks {
    /// Its chunk in the turn at hand.
    pub chunk: Option<u32>,
    /// It stands in the worker's list for the end of the turn.
    pub is_touched: bool,
    /// It goes on with its input in this turn or the next, without anything new arriving; or at
    /// its next worker.
    pub is_resumed: bool,
}

/// What is counted of a connection.
#[derive(Default)]
pub struct Counts {
    /// Its part of the worker's `client_bytes`.
    pub counted_bytes: u64,
    /// What it was told without asking: published messages, stale keys.
    pub told: u64,
    /// The sum of `commands` and `told` at the last look at who is busy.
    pub done_seen: u64,
    /// When it last did something (monotonic, microseconds).
    pub active_us: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Commands executed.
    pub commands: u64,
    /// The row of its last command, by number.
    pub last_command: Option<u16>,
}

/// One connection: its socket's token, session, input, output and what it waits for. Owned by its
/// worker.
pub struct Connection {
    /// Its name in the reactor.
    pub token: Token,
    /// What commands know of it.
    pub session: Session,
    /// Where it is in its life.
    pub life: Life,
    /// Where it was accepted.
    pub kind: ListenerKind,
    /// Who is to serve it next, should it leave.
    pub next: Next,
    /// What it has sent.
    pub input: Input,
    /// What it is to be sent.
    pub output: Output,
    /// Between it and the socket, where it is encrypted: what `input` and `output` hold is plain.
    pub tls: Option<Box<Secured>>,
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
    /// A connection as it begins.
    pub fn new(token: Token, session: Session, kind: ListenerKind, now_us: u64) -> Self {
        Connection {
            token,
            session,
            life: Life::Open,
            kind,
            next: Next::Any,
            input: Input::default(),
            output: Output::default(),
            tls: kind.is_tls().then(|| Box::new(Secured::new(now_us))),
            waits: Waits::default(),
            peer: Peer::default(),
            marks: Marks::default(),
            counts: Counts { active_us: now_us, ..Counts::default() },
        }
    }

    /// The number under which other threads speak of it.
    pub fn handle(&self) -> u64 {
        handle_of(self.token)
    }

    /// Whether commands may run now.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.waits.parked.is_none() && !self.output.is_throttled && self.life == Life::Open
    }

    /// Whether it can be given to another worker at this moment, with what it has still to run and
    /// to send.
    pub fn can_leave(&self) -> bool {
        let is_still = match self.waits.parked.map(|parked| parked.waiting) {
            // It would only try again.
            None | Some(Waiting::Partition | Waiting::Pause | Waiting::Room | Waiting::Replica) => {
                true
            }
            Some(Waiting::Lane | Waiting::Keys | Waiting::Called | Waiting::Penalty) => false,
        };
        is_still && self.is_between()
    }

    /// Whether its command stands in the queues of its keys, and does not run again on the lane.
    pub fn waits_for_keys(&self) -> bool {
        let waiting = self.waits.parked.map(|parked| parked.waiting);
        waiting == Some(Waiting::Keys) && self.waits.blocked.is_some()
    }

    /// Whether it waits for a wrong password.
    #[inline]
    pub fn is_held_back(&self) -> bool {
        self.waits.parked.is_some_and(|parked| parked.waiting == Waiting::Penalty)
    }

    /// Whether it waits for a wrong password that was not its first, or with more behind it than
    /// may wait: its going is its end.
    #[inline]
    pub fn is_guessing(&self) -> bool {
        self.is_held_back() && (self.session.wrong_passwords > 1 || self.input.is_overrun)
    }

    /// Whether it waits so and its peer has closed its side.
    #[inline]
    pub fn has_given_up_guessing(&self) -> bool {
        self.is_guessing() && (self.peer.is_done || self.peer.has_hung_up)
    }

    /// Whether nothing of it is under way but what it waits for.
    pub fn is_between(&self) -> bool {
        self.life == Life::Open && self.output.in_flight == 0 && self.marks.chunk.is_none()
    }

    /// A command has run: counts it, and looks whether others may follow.
    #[inline]
    pub fn finished(&mut self, row_number: u16) {
        self.counts.commands += 1;
        self.begun(row_number);
    }

    /// A command waits, for EXEC, its keys or the slow lane: it counts when it has run.
    #[inline]
    pub fn begun(&mut self, row_number: u16) {
        self.counts.last_command = Some(row_number);
        self.throttle_output();
        if self.session.closing {
            self.life = Life::Ending;
        }
    }

    /// Lets its session know what only its worker does, if the command at hand may be refused: a
    /// client that something restricts, or one that logs in.
    #[inline]
    pub fn note_meters(&mut self, logs_in: bool) {
        if logs_in || !self.session.is_unrestricted() {
            let now = meters(self);
            **self.session.meters.get_or_insert_default() = now;
        }
    }

    /// The memory it takes in bytes: itself, its buffers, what it has subscribed to, watches and
    /// tracks, and the commands since MULTI.
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

    /// Lets commands wait if much output does. To be called after every reply.
    #[inline]
    pub fn throttle_output(&mut self) {
        if self.output.bytes.len() > THROTTLE_BYTES {
            self.output.is_throttled = true;
        }
    }

    /// Begins to serve at another worker.
    pub fn become_open(&mut self, token: Token) {
        self.token = token;
        self.life = Life::Open;
        self.marks.is_touched = false;
        self.marks.is_resumed = false;
        self.input.is_paused = false;
        self.peer.has_hung_up = false;
        self.marks.chunk = None;
    }

    /// Appends a reply that was written elsewhere: whole, without copying it, where nothing waits
    /// to be sent before it.
    pub fn push_reply(&mut self, reply: Vec<u8>) {
        if self.output.bytes.is_empty() && reply.len() > MOVED_REPLY_BYTES {
            self.output.bytes = reply;
        } else {
            self.output.bytes.extend_from_slice(&reply);
        }
    }

    /// Bytes that wait to be sent, or are being sent.
    pub fn unsent_bytes(&self) -> usize {
        let unsealed = self.tls.as_ref().map_or(0, |tls| tls.unsealed_bytes());
        self.output.bytes.len() + self.output.in_flight + self.output.kept.len() + unsealed
    }

    /// Whether there is something to be sent that is not being sent.
    #[inline]
    pub fn has_output(&self) -> bool {
        match &self.tls {
            None => !self.output.bytes.is_empty(),
            Some(tls) => tls.has_output(!self.output.bytes.is_empty()),
        }
    }

    /// When its handshake with TLS has begun (monotonic, microseconds), if that is under way.
    pub fn handshaking_since_us(&self) -> Option<u64> {
        self.tls.as_ref().filter(|tls| tls.is_handshaking()).map(|tls| tls.since_us)
    }

    /// Appends what is not the reply to a command, unless so much is unsent that it will be closed.
    /// Never into the midst of a reply: these are written whole, or come from the lane.
    #[inline]
    pub fn tell(&mut self, most_bytes: usize, write: impl FnOnce(&mut Vec<u8>, Version)) {
        // One that leaves for another worker may be closing, too.
        let is_over = self.session.closing || matches!(self.life, Life::Ending | Life::Closing);
        if is_over || self.unsent_bytes() > most_bytes {
            return;
        }
        self.counts.told += 1;
        let waiting = self.waits.parked.map(|parked| parked.waiting);
        let out = match waiting {
            // The stream goes on unbroken.
            Some(Waiting::Replica) => return,
            Some(Waiting::Lane | Waiting::Called) => &mut self.output.kept,
            _ => &mut self.output.bytes,
        };
        write(out, self.session.version);
    }

    /// The command on the lane has its reply: what was kept may follow.
    pub fn tell_kept(&mut self) {
        let kept = std::mem::take(&mut self.output.kept);
        self.push_reply(kept);
    }

    /// Where its next command is called should it wait, and what it keeps if it has waited before.
    pub fn reply_target<'m>(&mut self, inbox: &'m Arc<dyn Mailbox>) -> ReplyTarget<'m> {
        let (connection, parking) = (self.handle(), self.next_parking());
        ReplyTarget { inbox, connection, parking, waited: self.waits.waited.take() }
    }

    /// Who asks for the command that is given to the lane now.
    pub fn applicant(&mut self) -> Applicant {
        let presence = Arc::clone(self.peer.presence.get_or_insert_default());
        if self.peer.is_done {
            presence.sends_no_more();
        }
        Applicant { presence, since_us: monotonic_us() }
    }

    /// The peer sends no more; it may still wait for answers.
    pub fn sends_no_more(&mut self) {
        if let Some(presence) = &self.peer.presence {
            presence.sends_no_more();
        }
    }

    /// How often its next command has met a busy partition.
    pub fn tries(&self) -> u32 {
        if self.waits.tries.1 == self.counts.commands { self.waits.tries.0 } else { 0 }
    }

    /// That has happened once more.
    pub fn count_try(&mut self) {
        self.waits.tries = (self.tries().saturating_add(1), self.counts.commands);
    }

    /// The number that the next parking will have.
    pub fn next_parking(&self) -> u32 {
        self.waits.parkings.wrapping_add(1)
    }

    /// Stands still from now on; the number of this parking.
    pub fn park(&mut self, waiting: Waiting) -> u32 {
        self.waits.parkings = self.waits.parkings.wrapping_add(1);
        self.waits.parked = Some(Parked { waiting, number: self.waits.parkings });
        self.waits.parkings
    }

    /// Goes on, if it is this parking that ended.
    pub fn unpark(&mut self, number: u32) -> bool {
        let ended = self.waits.parked.is_some_and(|parked| parked.number == number);
        if ended {
            self.waits.parked = None;
        }
        ended
    }
}

/// A token as one number.
pub fn handle_of(token: Token) -> u64 {
    u64::from(token.generation) << 32 | u64::from(token.index)
}
