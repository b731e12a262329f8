//! What a worker keeps between turns, for the parts of a turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pantala_commands::Server;
use pantala_engine::Engine;
use pantala_engine::pubsub::message::Message;
use pantala_engine::pubsub::name::{Name, SubscriberId};
use pantala_reactor::Token;

use crate::WorkerContext;
use crate::worker::connection::Connection;
use crate::worker::turn::load::Sample;

/// What each turn borrows while the worker changes. It is an allocation of this worker's own, so
/// that counting its references writes to no cache line that other workers use.
pub struct TurnParts {
    /// The data, and what runs commands.
    pub(crate) engine: Arc<Engine>,
    /// The server that the commands are given.
    pub(crate) server: Arc<dyn Server>,
}

impl TurnParts {
    /// The parts of this server.
    pub fn of(context: &WorkerContext) -> TurnParts {
        TurnParts { engine: Arc::clone(&context.engine), server: context.server() }
    }
}

/// A message that was too much for one turn, and the subscribers that have yet to get it, in
/// reverse order.
pub struct Sharing {
    pub(crate) message: Message,
    pub(crate) rest: Vec<(SubscriberId, Option<Name>)>,
}

/// The handshakes of one worker.
#[derive(Default)]
pub struct Handshakes {
    /// When handshakes began, the oldest first; many of them are complete.
    pub(crate) begun: VecDeque<(u64, Token)>,
    /// The connections that queue for a step.
    pub(crate) line: VecDeque<Token>,
    /// Steps that may still be computed in this turn.
    pub(crate) left: u32,
}

impl Handshakes {
    /// Adds a connection of this worker whose handshake is not complete.
    pub fn joined(&mut self, connection: &Connection) {
        let Some(tls) = connection.tls.as_ref().filter(|tls| tls.is_handshaking()) else { return };
        self.begun.push_back((tls.since_us, connection.token));
        if tls.waits_for_turn() {
            self.line.push_back(connection.token);
        }
    }

    /// Whether connections queue for a step.
    pub fn are_waiting(&self) -> bool {
        !self.line.is_empty()
    }
}

/// The timeouts of one worker's blocked connections, in order of time.
#[derive(Default)]
pub struct Timeouts {
    pub(crate) due: BTreeMap<(u64, u64), u32>,
}

impl Timeouts {
    /// When the earliest of them is due.
    pub fn next_us(&self) -> Option<u64> {
        self.due.first_key_value().map(|((until_us, _), _)| *until_us)
    }
}

/// What a worker remembers between two looks.
#[derive(Default)]
pub struct Balance {
    pub(crate) next_look_us: u64,
    /// This worker at the last look.
    pub(crate) last: Option<Sample>,
    /// How many looks in a row have found it busy.
    pub(crate) busy_looks: usize,
    /// All workers at the first of these looks.
    pub(crate) first: Vec<(usize, Sample)>,
    /// The connections that leave as soon as nothing of them is under way, and their new worker.
    pub(crate) leaving: Vec<(Token, u16)>,
}

impl Balance {
    /// Forgets the looks so far.
    pub fn begin_anew(&mut self) {
        self.busy_looks = 0;
        self.first.clear();
    }
}
