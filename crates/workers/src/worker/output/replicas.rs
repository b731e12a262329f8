//! The replicas of one worker: connections that are sent a copy of the data and then the stream.
//!
//! ```text
//! PSYNC --begin_to_follow--> parked for good: its input is read here, its output written here
//! StreamGrew, what was sent, what it says --touch--> flush --serve_replica--> output
//! ```
//!
//! Invariants
//! 1. A replica's output holds the copy and the stream, in order, and nothing else: no reply, no
//!    message.
//! 2. Its output holds at most [`UNSENT_BYTES`] and one piece; the rest is taken from the stream
//!    once that is sent.
//!
//! Not here: who gets a copy and when (`replication/primary`). Tests: compat/replication.

use std::mem::take;
use std::sync::Arc;

use pantala_base::number::parse_i64;
use pantala_commands::Flags;
use pantala_commands::options::is_word;
use pantala_protocol::{Arena, ParseStep};
use pantala_psync::{CopyRead, Phase, Replica};

use crate::worker::Worker;
use crate::worker::connection::{Connection, Life, ParkReason};
use pantala_replication::primary;

/// The most bytes in a replica's output; one piece may be added above that.
const UNSENT_BYTES: usize = 256 << 10;
/// The most bytes that are taken from the stream at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Replicas to which no more was sent within a second need no large buffers.
const IDLE_BYTES: u64 = 64 << 10;
/// Commands that read or change data.
const DATA: Flags = Flags::READONLY.union(Flags::WRITE);

/// The result of serving a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeOutcome {
    /// It has been given all there is.
    All,
    /// There is more for it, once some of its output was sent.
    Some,
    /// Its connection must be closed.
    Lost,
}

impl Worker {
    /// Begins to serve a connection as a replica's, if its last command has made it one.
    pub(crate) fn begin_to_follow(&mut self, index: u32) {
        let Some(connection) = self.at(index).filter(|one| one.session.is_replica()) else {
            return;
        };
        if connection.waits.parked.is_none() {
            self.arrive_as_replica(index);
        }
    }

    /// Begins to serve a replica that has come from another worker.
    pub(crate) fn arrive_as_replica(&mut self, index: u32) {
        let worker = self.index;
        let Some(connection) = self.at(index) else { return };
        let Some(replica) = connection.session.replica.clone() else { return };
        connection.park(ParkReason::Replica);
        replica.set_worker(worker);
        self.lists.replicas.push(index);
        // Earlier messages about it went to its previous worker.
        self.touch(index);
    }

    /// A replica leaves for another worker, or ends.
    pub(crate) fn depart_as_replica(&mut self, index: u32) {
        self.lists.replicas.retain(|one| *one != index);
        if self.lists.replicas.is_empty() {
            let unused = self.lists.spare.take_large();
            self.keep_buffer(unused);
        }
        self.count_replicas();
    }

    /// Looks at all replicas: the stream has grown.
    pub(crate) fn look_at_replicas(&mut self) {
        for at in 0..self.lists.replicas.len() {
            self.touch(self.lists.replicas[at]);
        }
    }

    /// Once a second: sends a newline to the replicas that wait for a copy, so that they do not
    /// time out.
    pub fn keep_replicas_alive(&mut self) {
        for at in 0..self.lists.replicas.len() {
            let index = self.lists.replicas[at];
            let Some(connection) = self.at(index) else { continue };
            let Some(replica) = connection.session.replica.clone() else { continue };
            let waits = match replica.phase() {
                Phase::Waiting => true,
                Phase::Copying => replica.copy().is_none() && !replica.starts_on_word(),
                _ => false,
            };
            if waits && connection.output.bytes.is_empty() {
                connection.output.bytes.push(b'\n');
            }
            self.touch(index);
        }
        self.free_replica_buffers();
    }

    /// Frees the buffers of replicas to which next to nothing was sent since the last call.
    fn free_replica_buffers(&mut self) {
        let mut sent_bytes = 0;
        for at in 0..self.lists.replicas.len() {
            let index = self.lists.replicas[at];
            sent_bytes += self.at(index).map_or(0, |connection| connection.counts.sent_bytes);
        }
        let before = std::mem::replace(&mut self.chores.replica_sent_bytes, sent_bytes);
        if self.lists.replicas.is_empty() || sent_bytes.abs_diff(before) > IDLE_BYTES {
            return;
        }
        for at in 0..self.lists.replicas.len() {
            let index = self.lists.replicas[at];
            let Some(connection) = self.at(index) else { continue };
            if connection.output.bytes.is_empty() {
                let unused = take(&mut connection.output.bytes);
                self.keep_buffer(unused);
            }
        }
        let unused = self.lists.spare.take_large();
        self.keep_buffer(unused);
        self.count_replicas();
    }

    /// Reads what a replica has sent, and writes what it must get, as far as there is room.
    pub fn serve_replica(&mut self, index: u32) -> ServeOutcome {
        let Some(replica) = self.at(index).and_then(|one| one.session.replica.clone()) else {
            return ServeOutcome::Lost;
        };
        replica.hear();
        let is_heard = self.hear_replica(index, &replica);
        let Some(connection) = self.at(index) else { return ServeOutcome::Lost };
        if !is_heard || connection.peer.is_done || connection.peer.has_hung_up {
            return ServeOutcome::Lost;
        }
        let served = self.feed_replica(index, &replica);
        if served != ServeOutcome::Lost && self.is_too_far(index, &replica) {
            let name = primary::name(&replica);
            tracing::warn!(
                replica = name,
                "disconnecting a replica that is behind by more than its output buffer limit"
            );
            self.tally.output_limit.add(1);
            return ServeOutcome::Lost;
        }
        served
    }

    /// Reads a replica's acknowledgements; false if it has sent something else.
    fn hear_replica(&mut self, index: u32, replica: &Arc<Replica>) -> bool {
        let (context, now_us) = (Arc::clone(&self.context), self.now_us);
        let limited = Arc::clone(&self.limited);
        let Some(connection) = self.at(index) else { return false };
        if connection.input.bytes.is_empty() {
            return true;
        }
        let Connection { session, input, .. } = connection;
        let (bytes, mut at) = (take(&mut input.bytes), take(&mut input.done));
        let limits = limited.parser.of(session);
        let arena = Arena::default();
        let (mut is_known, mut has_acked, mut command) = (true, false, String::new());
        while is_known && at < bytes.len() {
            let mut args = Vec::new();
            match input.parser.parse(&bytes[at..], &limits, &arena, &mut args) {
                ParseStep::Command { consumed } => {
                    at += consumed;
                    let word = word(&args, replica, now_us);
                    has_acked |= word == Some(true);
                    is_known = word.is_some();
                    if !is_known {
                        let found = context.engine.registry.resolve(&args);
                        let full_name = found.map(|found| found.row.full_name());
                        command = full_name.unwrap_or_else(|| name_of(&args));
                        if found.is_some_and(|found| found.row.flags.intersects(DATA)) {
                            tell_data_refused(&command);
                        }
                    }
                }
                // A newline: the replica is busy with its copy.
                ParseStep::Empty { consumed } => {
                    at += consumed;
                    replica.is_heard(now_us);
                }
                ParseStep::Busy => {}
                ParseStep::Incomplete { .. } => break,
                ParseStep::Long { .. } | ParseStep::Error(_) => is_known = false,
            }
        }
        input.bytes = bytes[at..].to_vec();
        self.keep_buffer(bytes);
        if has_acked {
            if replica.has_copy() {
                replica.set_phase(Phase::Online);
                tracing::info!(replica = primary::name(replica), "a replica is online");
                primary::count_good(&context.replication);
            }
            primary::heard(&context.replication);
        }
        if !is_known {
            let name = primary::name(replica);
            tracing::warn!(
                "Replica generated a reply to command '{command}', disconnecting it: {name}"
            );
        }
        is_known
    }

    /// Writes the copy and the stream to a replica, as far as there is room.
    fn feed_replica(&mut self, index: u32, replica: &Arc<Replica>) -> ServeOutcome {
        let (context, now_us) = (Arc::clone(&self.context), self.now_us);
        let counts = &context.replication.primary.counts;
        let Some(connection) = self.at(index) else { return ServeOutcome::Lost };
        while connection.unsent_bytes() < UNSENT_BYTES {
            let out = &mut connection.output.bytes;
            let bytes = match (replica.phase(), replica.copy()) {
                (Phase::Gone | Phase::Greeting, _) => return ServeOutcome::Lost,
                (Phase::Copying, Some(copy)) => match copy.take(PIECE_BYTES, out) {
                    CopyRead::Broken => return ServeOutcome::Lost,
                    CopyRead::Bytes(bytes) => bytes,
                    CopyRead::End(bytes) => {
                        end_copy(replica, now_us);
                        counts.sent_bytes.add(bytes as u64);
                        continue;
                    }
                },
                (Phase::Online, _) => {
                    let position = replica.position();
                    let read =
                        context.replication.downstream.stream.read(position, PIECE_BYTES, out);
                    let Ok(bytes) = read else { return ServeOutcome::Lost };
                    replica.set_position(position + bytes as u64);
                    bytes
                }
                (Phase::Waiting | Phase::Copying, _) => return ServeOutcome::All,
            };
            counts.sent_bytes.add(bytes as u64);
            if bytes == 0 {
                return ServeOutcome::All;
            }
        }
        ServeOutcome::Some
    }

    /// Whether a replica lags behind by more than `client-output-buffer-limit replica`. As in Redis
    /// the limit is at least the size of the backlog.
    fn is_too_far(&mut self, index: u32, replica: &Replica) -> bool {
        let (settings, now_us) = (Arc::clone(&self.settings), self.now_us);
        let end = self.context.replication.downstream.stream.end();
        let Some(connection) = self.at(index) else { return true };
        let follows = matches!(replica.phase(), Phase::Copying | Phase::Online);
        let left = if follows { replica.left_bytes(end) } else { 0 };
        let bytes = connection.unsent_bytes() as u64 + left;
        let limit = settings.client_output_buffer_limit.replica;
        let least = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        if bytes > least(limit.hard_bytes).max(settings.repl_backlog_bytes) {
            return true;
        }
        if bytes <= least(limit.soft_bytes).max(settings.repl_backlog_bytes) {
            connection.output.over_soft_since_us = None;
            return false;
        }
        let since_us = *connection.output.over_soft_since_us.get_or_insert(now_us);
        now_us - since_us > u64::from(limit.soft_s) * 1_000_000
    }

    /// Ends a replica with its connection.
    pub fn end_following(&mut self, index: u32) {
        let replica = self.at(index).filter(|one| one.session.is_replica());
        let Some(replica) = replica.and_then(|one| one.session.replica.clone()) else { return };
        self.depart_as_replica(index);
        primary::leave(&self.context.replication, &replica);
    }
}

/// Ends the copy of a replica that was given all of it.
fn end_copy(replica: &Replica, now_us: u64) {
    // Redis sends nothing while it loads a copy: its silence counts from now on.
    replica.is_heard(now_us);
    replica.set_copy(None);
    if replica.announced().only_copy {
        // No stream follows.
        replica.start_on_word(true);
    } else if !replica.starts_on_word() {
        replica.set_phase(Phase::Online);
        tracing::info!(replica = primary::name(replica), "a replica is online");
    }
}

/// Whether a replica's command acknowledges a position; `None`: it is no command of a replica's.
fn word(args: &[&[u8]], replica: &Replica, now_us: u64) -> Option<bool> {
    match args {
        [name, rest @ ..] if is_word(name, "REPLCONF") => match rest {
            [ack, position, rest @ ..] if is_word(ack, "ACK") => {
                let position = parse_i64(position).and_then(|it| u64::try_from(it).ok());
                let synced = match rest {
                    [fack, synced, ..] if is_word(fack, "FACK") => parse_i64(synced),
                    _ => None,
                };
                let synced = synced.and_then(|it| u64::try_from(it).ok());
                replica.acknowledge(position?, synced, now_us);
                Some(true)
            }
            _ => Some(false),
        },
        _ => None,
    }
}

/// Logs, as Valkey does, that a replica wants to read or change data.
#[cold]
fn tell_data_refused(command: &str) {
    tracing::error!(
        "== CRITICAL == This primary is sending an error to its replica: 'Replica can't interact \
         with the keyspace' after processing the command '{command}'"
    );
}

/// A command as the log calls it.
fn name_of(args: &[&[u8]]) -> String {
    let name = args.first().map(|name| name[..name.len().min(64)].escape_ascii().to_string());
    name.unwrap_or_default()
}

/// Whether a connection is a replica's.
pub(crate) fn is_replica(connection: &Connection) -> bool {
    let waiting = connection.waits.parked.map(|parked| parked.waiting);
    waiting == Some(ParkReason::Replica) && connection.life != Life::Closing
}
