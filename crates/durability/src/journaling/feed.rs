//! The feed: the journal's thread appends to the stream of replicas.
//!
//! Tests: compat/replication.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_journal::resp::push_command;
use pantala_journal::{Cut, Stamp};

use super::awaited::WaiterList;
use crate::Durability;

/// A run of at least this many bytes is appended as it is; shorter ones are gathered.
const DIRECT_BYTES: usize = 8 << 10;
/// The size at which gathered bytes are appended.
const GATHERED_BYTES: usize = 64 << 10;
const _: () = assert!(DIRECT_BYTES <= GATHERED_BYTES, "what is gathered is flushed");
/// How often is checked whether a ping is due, while replicas follow.
const LOOK: Duration = Duration::from_millis(500);

/// What appends the journal's steps to the stream of replicas, and calls the workers to send it.
pub(super) struct Feed {
    durability: Arc<Durability>,
    /// The stream takes what is recorded.
    is_on: bool,
    out: Vec<u8>,
    /// The position up to which the workers have been called.
    called_to: u64,
    /// Replicas must be asked for acknowledgements.
    asks: bool,
    /// The position up to which they have been asked.
    asked_to: u64,
    /// When the last ping was (monotonic, microseconds).
    pinged_us: u64,
    /// Requests for the stream's end, by which feeding ends.
    endings: WaiterList<Sender<u64>>,
    /// Requests for the stream's position.
    asked: WaiterList<Sender<u64>>,
}

impl Feed {
    /// A feed that is off.
    pub fn new(durability: Arc<Durability>) -> Feed {
        Feed {
            durability,
            is_on: false,
            out: Vec::new(),
            called_to: 0,
            asks: false,
            asked_to: 0,
            pinged_us: 0,
            endings: WaiterList::default(),
            asked: WaiterList::default(),
        }
    }

    /// Whether everything recorded is fed to the stream.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Takes a run of commands.
    pub fn run(&mut self, bytes: &[u8]) {
        if !self.is_on {
            return;
        }
        if bytes.len() >= DIRECT_BYTES {
            self.flush();
            self.append(bytes);
            return;
        }
        self.out.extend_from_slice(bytes);
        if self.out.len() >= GATHERED_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.out.is_empty() {
            self.append(&self.out);
            self.out.clear();
        }
    }

    /// The journal holds the same bytes until the round ends: both copies count until then.
    fn append(&self, bytes: &[u8]) {
        self.durability.engine.condition.memory.add_unsent(bytes.len() as u64);
        let stream = &self.durability.downstream.stream;
        let (before, end) = (stream.end(), stream.append(bytes));
        debug_assert_eq!(end, before + bytes.len() as u64, "nobody else appends");
    }

    /// Handles a cut, if it was made for replicas: feeding is on from here.
    pub fn cut(&mut self, cut: Cut) -> bool {
        let Some(coming) = self.durability.appending.take_position(cut.number) else {
            return false;
        };
        self.flush();
        self.is_on = true;
        let stream = &self.durability.downstream.stream;
        stream.begin_to_keep();
        let position = stream.end();
        debug_assert!(self.out.is_empty(), "all before the cut is in the stream");
        // The receiver has gone if this took too long.
        let _late = coming.send(position);
        true
    }

    /// Asks for the stream's position once it has everything handed over by now.
    pub fn ask_position(&mut self, asked: Sender<u64>) {
        self.asked.push(asked);
    }

    /// Ends a round. Everything before `until` has arrived; `gathered` is the largest stamp that
    /// was handed over.
    pub fn end_round(&mut self, until: Stamp, gathered: Stamp) {
        self.flush();
        let downstream = &self.durability.downstream;
        let end = downstream.stream.end();
        if self.is_on {
            downstream.checkpoints.note(until, end);
        }
        let endings = self.endings.take_due(until, gathered);
        self.is_on &= endings.is_empty();
        for asked in self.asked.take_due(until, gathered).into_iter().chain(endings) {
            // The receiver may have gone.
            let _told = asked.send(end);
        }
    }

    /// Asks replicas for acknowledgements.
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// Ends feeding after everything recorded before.
    pub fn end(&mut self, ended: Sender<u64>) {
        self.endings.push(ended);
    }

    /// After each round: adds what the server itself sends (pings, requests for acknowledgements),
    /// calls the workers, drops what no replica needs.
    pub fn go_on(&mut self) {
        let durability = Arc::clone(&self.durability);
        let downstream = &durability.downstream;
        if self.is_on && !downstream.replicas.is_empty() && !self.is_stopping() {
            self.add_own();
        }
        let end = downstream.stream.end();
        if end != self.called_to {
            self.called_to = end;
            durability.tell_stream_grew();
        }
    }

    /// Nothing may be added now: replicas would not get it, or would be ahead of what the server
    /// saves at its end, and could not go on there.
    fn is_stopping(&self) -> bool {
        let shutdown = &self.durability.engine.condition.shutdown;
        let is_saving = || shutdown.is_preparing() && shutdown.waits_for_replicas().is_none();
        shutdown.is_final() || is_saving()
    }

    fn add_own(&mut self) {
        let now_us = monotonic_us();
        let period_s = self.durability.engine.settings.current().repl_ping_replica_period_s;
        if now_us.saturating_sub(self.pinged_us) >= u64::from(period_s) * 1_000_000 {
            self.pinged_us = now_us;
            push_command(&mut self.out, &[b"PING"]);
        }
        // Clients may wait for what this round has brought.
        let downstream = &self.durability.downstream;
        let has_news = downstream.waiters.were_there() && downstream.stream.end() > self.asked_to;
        if std::mem::take(&mut self.asks) || has_news {
            push_command(&mut self.out, &[b"REPLCONF", b"GETACK", b"*"]);
            self.asked_to = downstream.stream.end() + self.out.len() as u64;
        }
        self.flush();
    }

    /// Whether clients wait for replicas, and so for this thread.
    pub fn is_awaited(&self) -> bool {
        self.is_on && self.durability.downstream.waiters.were_there()
    }

    /// How soon it has to check by itself.
    pub fn look_in(&self) -> Option<Duration> {
        // A replica that gets a copy begins to follow without an event.
        (self.is_on && !self.durability.downstream.replicas.is_empty()).then_some(LOOK)
    }
}
