//! The stream of replicas: what the journal's thread does for it.
//!
//! Tests: compat/replication.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_journal::resp::push_command;
use pantala_journal::{Cut, Stamp};

use super::awaited::Awaited;
use crate::shared::Shared;

/// A run of this length is appended as it lies; shorter ones are gathered.
const DIRECT_BYTES: usize = 8 << 10;
/// So much is gathered before it is appended.
const GATHERED_BYTES: usize = 64 << 10;
/// How often it is looked whether a ping is due, while somebody follows.
const LOOK: Duration = Duration::from_millis(500);

/// What appends the journal's steps to the stream of replicas, and calls the workers to send it.
pub(super) struct Feed {
    shared: Arc<Shared>,
    /// Somebody takes what is recorded.
    is_on: bool,
    out: Vec<u8>,
    /// How much of the stream the workers have been called for.
    called_to: u64,
    /// Replicas are to say how far they are.
    asks: bool,
    /// So far they have been asked, of the stream.
    asked_to: u64,
    /// When the last ping was (monotonic, microseconds).
    pinged_us: u64,
    /// Who waits for the stream's end.
    endings: Awaited<Sender<u64>>,
    /// Who wants to know where the stream is.
    asked: Awaited<Sender<u64>>,
}

impl Feed {
    /// For a stream that nobody follows yet.
    pub fn new(shared: Arc<Shared>) -> Feed {
        Feed {
            shared,
            is_on: false,
            out: Vec::new(),
            called_to: 0,
            asks: false,
            asked_to: 0,
            pinged_us: 0,
            endings: Awaited::default(),
            asked: Awaited::default(),
        }
    }

    /// Whether the stream has all that is recorded.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Some commands.
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

    /// The journal has the same bytes until the round is over: both copies are counted until then.
    fn append(&self, bytes: &[u8]) {
        self.shared.engine.condition.memory.add_unsent(bytes.len() as u64);
        self.shared.replication.stream.append(bytes);
    }

    /// Whether the cut was meant for replicas: what follows goes to them.
    pub fn cut(&mut self, cut: Cut) -> bool {
        let Some(coming) = self.shared.appending.take_position(cut.number) else { return false };
        self.flush();
        self.is_on = true;
        let stream = &self.shared.replication.stream;
        stream.begin_to_keep();
        let position = stream.end();
        // Nobody waits any more where it took too long.
        let _late = coming.send(position);
        true
    }

    /// Somebody wants to know where the stream is when it has all that was handed over by now.
    pub fn ask_position(&mut self, asked: Sender<u64>) {
        self.asked.push(asked);
    }

    /// Everything before `until` has come; `gathered` is the largest stamp that was handed over.
    pub fn end_round(&mut self, until: Stamp, gathered: Stamp) {
        self.flush();
        let replication = &self.shared.replication;
        let end = replication.stream.end();
        if self.is_on {
            replication.checkpoints.note(until, end);
        }
        let endings = self.endings.take_due(until, gathered);
        self.is_on &= endings.is_empty();
        for asked in self.asked.take_due(until, gathered).into_iter().chain(endings) {
            // Who has asked may have gone.
            let _told = asked.send(end);
        }
    }

    /// Replicas are to say how far they are.
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// Nothing goes to replicas after what was recorded before.
    pub fn end(&mut self, ended: Sender<u64>) {
        self.endings.push(ended);
    }

    /// After each round: adds what the server says by itself, calls the workers, lets go of what
    /// nobody needs.
    pub fn go_on(&mut self) {
        let shared = Arc::clone(&self.shared);
        let replication = &shared.replication;
        if self.is_on && !replication.replicas.is_empty() && !self.is_stopping() {
            self.add_own();
        }
        let end = replication.stream.end();
        if end != self.called_to {
            self.called_to = end;
            crate::replication::stream_grew(&shared);
        }
    }

    /// What is added now no replica would get any more, or it would be ahead of what the server
    /// saves before its end, and could not go on there.
    fn is_stopping(&self) -> bool {
        let shutdown = &self.shared.engine.condition.shutdown;
        let is_saving = || shutdown.is_preparing() && shutdown.waits_for_replicas().is_none();
        shutdown.is_final() || is_saving()
    }

    fn add_own(&mut self) {
        let now_us = monotonic_us();
        let period_s = self.shared.engine.settings.current().repl_ping_replica_period_s;
        if now_us.saturating_sub(self.pinged_us) >= u64::from(period_s) * 1_000_000 {
            self.pinged_us = now_us;
            push_command(&mut self.out, &[b"PING"]);
        }
        // Whoever waits may wait for what this round has brought.
        let replication = &self.shared.replication;
        let has_news = replication.waiters.were_there() && replication.stream.end() > self.asked_to;
        if std::mem::take(&mut self.asks) || has_news {
            push_command(&mut self.out, &[b"REPLCONF", b"GETACK", b"*"]);
            self.asked_to = replication.stream.end() + self.out.len() as u64;
        }
        self.flush();
    }

    /// Whether somebody waits for replicas, and so for this thread.
    pub fn is_awaited(&self) -> bool {
        self.is_on && self.shared.replication.waiters.were_there()
    }

    /// When it has to look by itself.
    pub fn look_in(&self) -> Option<Duration> {
        // One that copies goes on to follow without a word.
        (self.is_on && !self.shared.replication.replicas.is_empty()).then_some(LOOK)
    }
}
