//! Running the commands of a window: those with one key in groups, the others alone.

use std::mem::take;

use pantala_base::clock::monotonic_us;
use pantala_commands::{CommandRef, Flags, Session};
use pantala_keyspace::{Locked, PartitionId};
use pantala_protocol::{ProtocolError, is_cross_protocol};

use super::deferred::answer_refusal;
use super::window::Deferred;
use super::window::{Item, Window};
use crate::worker::connection::describe::describe;
use crate::worker::connection::{Connection, Life, ParkReason};
use crate::worker::{Chores, Worker};
use pantala_engine::condition::states::States;
use pantala_engine::execute::{CommandRequest, Refusal, Turn, Verdict};

/// The most commands of a group, whose locks are held together: enough cache misses in flight to
/// fill the core's line buffers, few enough not to obstruct other workers.
const GROUP: usize = 12;
/// How long a worker logs nothing more about HTTP after it has logged a line about it.
const HTTP_QUIET_US: u64 = 60_000_000;
/// How many bytes of a broken request are logged.
const SAMPLED_BYTES: usize = 128;
/// Commands that may publish, directly or by what they run.
const PUBLISHING: Flags = Flags::PUBSUB.union(Flags::TRANSACTION).union(Flags::MAY_REPLICATE);

/// Commands that may change users, directly or by what they run.
const CHANGING_USERS: Flags = Flags::ADMIN.union(Flags::TRANSACTION);

/// Commands that may be given a wrong password, directly or by what they run.
const LOGGING_IN: Flags = Flags::NO_AUTH.union(Flags::TRANSACTION);

/// Commands whose locks are held together.
struct Group<'r> {
    locked: Locked<'r>,
    count: usize,
    /// For each command: the index of its partition among those held, and the hash of its key.
    members: [(usize, u64); GROUP],
}

impl<'r> Group<'r> {
    fn new(turn: &Turn<'r>) -> Self {
        let locked = turn.engine.space.lock_none(turn.plain_scope());
        Group { locked, count: 0, members: [(0, 0); GROUP] }
    }

    /// Locks the partitions of the commands from `from` on and prefetches their keys, up to the
    /// first command that cannot join a group or whose partition is busy.
    #[inline]
    fn fill(&mut self, window: &Window<'_>, from: usize) {
        if self.locked.scope().recorder.is_some() {
            self.prefetch_partitions(window, from);
        }
        for parsed in window.parsed[from..].iter().take(GROUP) {
            let Item::Command { group_hash: Some(hash), .. } = parsed.item else { break };
            let Some(at) = self.locked.try_add(PartitionId::of(hash)) else { break };
            self.locked.prefetch_bucket(at, hash);
            self.members[self.count] = (at, hash);
            self.count += 1;
        }
        for &(at, hash) in &self.members[..self.count] {
            self.locked.prefetch_record(at, hash);
        }
    }
}

impl Group<'_> {
    /// Prefetches the partitions of the commands from `from` on. The journal's bytes push them out
    /// of the cache; without a journal most are there.
    fn prefetch_partitions(&self, window: &Window<'_>, from: usize) {
        for parsed in window.parsed[from..].iter().take(GROUP) {
            let Item::Command { group_hash: Some(hash), .. } = parsed.item else { break };
            self.locked.prefetch_partition(PartitionId::of(hash));
        }
    }
}

impl Worker {
    pub(super) fn run_from<'r>(&mut self, window: &mut Window<'_>, turn: &Turn<'r>) {
        let mut from = window.running;
        while from < window.parsed.len() {
            let count = self.run_group(window, turn, from);
            if count == 0 {
                window.running = from;
                window.clock_us.set(0);
                window.not_in_group(from);
                self.run_alone(window, turn, from);
            }
            from += count.max(1);
        }
    }

    /// Runs the commands from `from` on that can run as a group; returns how many.
    #[inline]
    fn run_group(&mut self, window: &mut Window<'_>, turn: &Turn<'_>, from: usize) -> usize {
        let begins = matches!(window.parsed[from].item, Item::Command { group_hash: Some(_), .. });
        if !begins || turn.is_monitored || turn.is_timed {
            return 0;
        }
        // Filled in place: with its list of locks it is too large to be moved.
        let mut group = Group::new(turn);
        group.fill(window, from);
        let count = group.count;
        for member in 0..count {
            window.running = from + member;
            self.run_grouped(window, turn, member, &mut group);
        }
        drop(group);
        if !window.deferred.is_empty() {
            for (position, action) in take(&mut window.deferred) {
                self.perform(window, turn, position, action);
            }
            window.clock_us.set(0);
        }
        count
    }

    /// Runs one command of a group.
    #[inline]
    fn run_grouped<'r>(
        &mut self,
        window: &mut Window<'_>,
        turn: &Turn<'r>,
        member: usize,
        group: &mut Group<'r>,
    ) {
        let position = window.running;
        let parsed = &window.parsed[position];
        let Item::Command { found, .. } = parsed.item else { return };
        let (chunk, end) = (parsed.chunk as usize, parsed.end);
        let (at, hash) = group.members[member];
        let index = window.chunks[chunk].index;
        let args = window.args_of(parsed);
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        if !connection.is_ready() {
            return window.not_in_group(position);
        }
        connection.note_meters(false);
        let before = connection.output.bytes.len();
        window.replied_bytes.set(before);
        let action = match turn.admit_member(&connection.session, found, args) {
            Ok(found) => {
                let is_steady = found.row.flags.intersects(Flags::FAST.union(Flags::STEADY));
                let began_us = window.clock_us();
                let locked = &mut group.locked;
                let Connection { session, output, .. } = &mut *connection;
                locked.turn_to(at, turn.scope(session));
                let frame = turn.recorder.map_or(&[][..], |_| window.frame_of(parsed));
                let request = CommandRequest { found, args, hashes: &[hash], frame };
                match turn.run_member(session, request, locked, &mut output.bytes) {
                    Verdict::Finished => {
                        let progress = &mut window.progress[chunk];
                        let request_bytes = end - progress.done;
                        let reply_bytes = connection.output.bytes.len().saturating_sub(before);
                        connection.finished(found.number);
                        progress.done = end;
                        let limits = &self.limited;
                        let is_large = request_bytes.max(reply_bytes) >= limits.large_bytes;
                        if is_large || !is_steady {
                            let took_us = window.look_at_clock() - began_us;
                            if is_large || took_us >= limits.slow_us {
                                let log = Deferred::Log(found, took_us, reply_bytes);
                                window.deferred.push((position, log));
                            }
                        }
                        return;
                    }
                    Verdict::Lane => Deferred::Lane(found),
                    Verdict::Parked(park) => Deferred::Park(park),
                    Verdict::Blocked(blocked) => Deferred::Block(blocked),
                }
            }
            Err(refusal) => match answer_refusal(turn, connection, refusal, args) {
                Some(action) => action,
                None => {
                    window.progress[chunk].done = end;
                    // It has not run: its time is not counted.
                    window.parsed[position].item = Item::Nothing;
                    return;
                }
            },
        };
        // Whatever it waits for, later commands of the connection wait too.
        connection.park(ParkReason::Partition);
        window.deferred.push((position, action));
        window.not_in_group(position);
    }

    /// Runs one command with no partition held before: it has no key or many, or its partition was
    /// busy a moment ago.
    fn run_alone(&mut self, window: &mut Window<'_>, turn: &Turn<'_>, position: usize) {
        let parsed = &window.parsed[position];
        let chunk = parsed.chunk as usize;
        let index = window.chunks[chunk].index;
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        if !connection.is_ready() {
            return;
        }
        window.replied_bytes.set(connection.output.bytes.len());
        let args = window.args_of(parsed);
        let (found, arg_count) = match &parsed.item {
            Item::Command { found: None, .. } | Item::Long { found: None, .. } if is_http(args) => {
                return reject_http(connection, (&mut self.chores, self.now_us));
            }
            Item::Command { found, .. } => (*found, args.len()),
            Item::Long { found, arg_count } => (*found, *arg_count),
            Item::Nothing => return window.progress[chunk].done = parsed.end,
            Item::Broken(error) => return protocol_error(turn, connection, (error, window, chunk)),
            Item::Answer { text, closes } => {
                answer(connection, text, *closes);
                return window.progress[chunk].done = parsed.end;
            }
        };
        let row_flags = found.map_or(Flags::NONE, |found| found.row.flags);
        if row_flags.intersects(Flags::PUBSUB) || connection.session.is_subscribed() {
            self.deliver_published();
        }
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        connection.note_meters(row_flags.intersects(LOGGING_IN));
        let target = connection.reply_target(&self.mailbox);
        window.replied_bytes.set(connection.output.bytes.len());
        let session = &mut connection.session;
        let was_monitor = session.monitor;
        let is_long = window.is_long(parsed);
        let asked = (found, args, arg_count);
        let action = match admit(turn, session, asked, target.waited.is_some()) {
            Ok(found) if is_long => Deferred::Lane(found),
            Err(Refusal::Queue(found)) if is_long => Deferred::Queue(found, arg_count),
            Ok(found) => {
                match turn.run(session, found, args, &mut connection.output.bytes, &target) {
                    Verdict::Finished => {
                        connection.finished(found.number);
                        if was_monitor && !connection.session.monitor {
                            self.end_monitoring(index);
                        }
                        window.progress[chunk].done = parsed.end;
                        self.follow(index, row_flags);
                        return;
                    }
                    Verdict::Lane => Deferred::Lane(found),
                    Verdict::Parked(park) => Deferred::Park(park),
                    Verdict::Blocked(blocked) => {
                        connection.begun(found.number);
                        Deferred::Block(blocked)
                    }
                }
            }
            Err(refusal) => match answer_refusal(turn, connection, refusal, args) {
                Some(action) => action,
                None => {
                    window.progress[chunk].done = parsed.end;
                    return;
                }
            },
        };
        // It runs again, with its place in the queue and the rest of its timeout.
        connection.waits.waited = target.waited.filter(|_| !matches!(action, Deferred::Block(_)));
        connection.park(ParkReason::Partition);
        self.perform(window, turn, position, action);
    }
}

impl Worker {
    /// What to do after a command with these flags has run alone.
    #[inline]
    fn follow(&mut self, index: u32, flags: Flags) {
        if flags.intersects(PUBLISHING) {
            self.after_publishing(index);
        }
        if flags.intersects(CHANGING_USERS) {
            self.look_at_users();
            self.begin_to_follow(index);
        }
        if flags.intersects(LOGGING_IN) {
            // Later commands of the pipeline wait too after a wrong password.
            self.hold_back(index);
        }
    }
}

/// Admits a command as [`Turn::admit`] does, but holds one back that was admitted before, at
/// another worker, and runs again while data is loaded.
fn admit(
    turn: &Turn<'_>,
    session: &Session,
    (found, args, arg_count): (Option<CommandRef>, &[&[u8]], usize),
    has_waited: bool,
) -> Result<CommandRef, Refusal> {
    match turn.admit(session, found, args, arg_count) {
        Err(Refusal::Error(..)) if has_waited && turn.states.intersects(States::LOADING) => {
            Err(Refusal::Pause)
        }
        admitted => admitted,
    }
}

/// Writes an answer that needs no command to run.
#[cold]
fn answer(connection: &mut Connection, text: &[u8], closes: bool) {
    connection.output.bytes.extend_from_slice(text);
    connection.throttle_output();
    if closes {
        connection.life = Life::Ending;
    }
}

/// Drops a connection that a browser was tricked into opening: no further input is meant for this
/// server, and it gets no replies, not even to earlier lines.
#[cold]
fn reject_http(connection: &mut Connection, (chores, now_us): (&mut Chores, u64)) {
    connection.output.bytes.clear();
    connection.life = Life::Ending;
    if now_us < chores.http_told_until_us {
        return;
    }
    chores.http_told_until_us = now_us + HTTP_QUIET_US;
    // The first words are Valkey's: log monitors look for them.
    tracing::warn!(
        "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: \
         commands to Pantala, from {}: a web page may be trying to reach this server. The \
         connection is closed.",
        connection.session.peer
    );
}

/// Answers a protocol error, and ends the connection.
#[cold]
fn protocol_error(
    turn: &Turn<'_>,
    connection: &mut Connection,
    (error, window, chunk): (&ProtocolError, &Window<'_>, usize),
) {
    let rest = &window.chunks[chunk].bytes()[window.progress[chunk].done..];
    tell_protocol_error(turn, connection, (error, rest));
    turn.tally.count_error(&turn.engine.stats.errors, "ERR");
    error.push_reply(&mut connection.output.bytes);
    connection.life = Life::Ending;
}

/// Logs a protocol error as Valkey does: the client, and some of the bytes from the command on.
#[cold]
fn tell_protocol_error(
    turn: &Turn<'_>,
    connection: &Connection,
    (error, bytes): (&ProtocolError, &[u8]),
) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let error = error.to_string();
    let what = error.strip_prefix("ERR Protocol error: ").unwrap_or(&error);
    let client = describe(connection, turn.engine.registry.rows(), monotonic_us());
    let sample = match turn.limited.settings.hide_user_data_from_log {
        true => "*redacted*".into(),
        false => sample_of(bytes),
    };
    tracing::debug!("Protocol error ({what}) from client: {client}. Query buffer: {sample}");
}

/// The first bytes of a broken request, and the last ones if it is long.
fn sample_of(bytes: &[u8]) -> String {
    match bytes.len().checked_sub(SAMPLED_BYTES) {
        None | Some(0) => format!("'{}'", bytes.escape_ascii()),
        Some(more) => {
            let (head, tail) = (SAMPLED_BYTES / 2, bytes.len() - SAMPLED_BYTES / 2);
            let (head, tail) = (bytes[..head].escape_ascii(), bytes[tail..].escape_ascii());
            format!("'{head}' (... more {more} bytes ...) '{tail}'")
        }
    }
}

fn is_http(args: &[&[u8]]) -> bool {
    args.first().is_some_and(|name| is_cross_protocol(name))
}

#[cfg(test)]
mod tests {
    use super::sample_of;

    #[test]
    fn a_long_request_is_logged_in_part() {
        assert_eq!(sample_of(b"$blabla\r\n"), "'$blabla\\r\\n'");
        let long = [[b'a'; 100], [b'b'; 100]].concat();
        let (head, tail) = ("a".repeat(64), "b".repeat(64));
        assert_eq!(sample_of(&long), format!("'{head}' (... more 72 bytes ...) '{tail}'"));
        assert_eq!(sample_of(&long[..128]), format!("'{}{}'", "a".repeat(100), "b".repeat(28)));
    }
}
