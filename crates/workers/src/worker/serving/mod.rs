//! Many commands at once: parsing ahead, and hiding the latency of memory.
//!
//! A turn of the loop brings bytes of many connections. They are cut into commands, up to
//! [`WINDOW`] at a time, and those with one key are run in *groups*: the locks of up to `GROUP`
//! commands are tried, the buckets of all their keys are prefetched, then the records, and only
//! then do they run, one after the other, in the order they came. So the cache misses of a group
//! overlap, and still each command costs one lock and one unlock.
//!
//! Invariants
//! 1. Commands of one connection run in the order they arrived; when one parks, those after it
//!    stay in the connection's input.
//! 2. A group only tries locks. The first that is busy ends the group; its command is then tried
//!    again with nothing held.
//! 3. A command is consumed from its chunk when it has run or was handed to the lane, not before.
//! 4. While a partition is held nothing is sent, posted or logged: what a group's commands need of
//!    other threads is kept in `deferred` until the locks are free.
//!
//! | file | what |
//! |---|---|
//! | here | a turn: parsing windows, keeping what is left, surviving a command that panics |
//! | `first_bytes` | the protocol of a new connection |
//! | `front_end` | what differs between protocols: how bytes become commands |
//! | `resp` | the front end of RESP |
//! | `memcached` | the front ends of Memcached's protocols |
//! | `chunk` | the bytes of one connection in a turn |
//! | `window` | parsed commands |
//! | `groups` | running them |
//! | `deferred` | what they need of other threads |

pub mod chunk;
mod deferred;
mod first_bytes;
mod front_end;
mod groups;
pub(crate) mod memcached;
mod resp;
pub(crate) mod window;

use std::cell::Cell;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::Lane;
use pantala_keyspace::DbIndex;
use pantala_protocol::Arena;
use pantala_sync::gate::Role;
use smallvec::SmallVec;

use crate::worker::Worker;
use crate::worker::connection::Life;
use pantala_engine::execute::{Turn, report_panic};

use chunk::make_room;
use front_end::{FrontEnd, ParserView};
use memcached::Memcached;
use resp::Resp;
use window::{Item, Parsed, Progress, Window};

pub use chunk::{Chunk, Chunks};
pub use first_bytes::begins_with_resp;
pub use window::Scratch;

/// The most commands parsed ahead.
const WINDOW: usize = 64;
/// The capacity for arguments that is kept from turn to turn.
const KEPT_ARGS: usize = 1 << 14;

impl Worker {
    /// Runs all commands that have arrived.
    pub fn serve(&mut self, chunks: Chunks<'_>) {
        if !chunks.resp.is_empty() {
            self.serve_all::<Resp>(chunks.resp);
        }
        if !chunks.memcached.is_empty() {
            self.serve_all::<Memcached>(chunks.memcached);
        }
    }

    /// Runs the commands of one protocol that have arrived, inside the gate.
    fn serve_all<F: FrontEnd>(&mut self, chunks: Vec<Chunk<'_>>) {
        let parts = Arc::clone(&self.parts);
        let tally = Arc::clone(&self.tally);
        let limited = Arc::clone(&self.limited);
        let recorder = take(&mut self.recorder).expect("only this takes it");
        let inside = parts.engine.space.gate().enter(Role::Worker, self.index);
        let now = (unix_ms(), self.now_us);
        let mut turn = Turn::new(&*parts.server, (&tally, &recorder), &limited, Lane::Worker, now);
        self.fence.ran = self.fence.ran.and(turn.permit);
        let arena = Arena::default();
        let mut scratch = take(&mut self.scratch);
        scratch.progress.resize(chunks.len(), Progress::default());
        let mut window = Window {
            chunks: &chunks,
            takes_bytes: F::TAKES_BYTES,
            progress: scratch.progress,
            args: scratch.args,
            parsed: scratch.parsed,
            scripts: 0,
            at: 0,
            running: 0,
            replied_bytes: Cell::new(0),
            clock_us: Cell::new(0),
            deferred: Vec::new(),
        };
        let mut has_run = false;
        while self.fill::<F>(&mut window, &turn, &arena) {
            if turn.look_at_memory(has_run) && self.context.engine.notices.trackers.is_used() {
                self.take_invalidations();
            }
            has_run = true;
            self.run_window(&mut window, &turn);
            self.feed_monitors();
        }
        turn.shrink_tracked();
        recorder.hand_over();
        drop(inside);
        self.recorder = Some(recorder);
        let Window { mut progress, mut args, parsed, .. } = window;
        args.clear();
        args.shrink_to(KEPT_ARGS);
        // An empty vector holds no lifetimes: this keeps its allocation.
        let args = args.into_iter().map(|_| -> &'static [u8] { &[] }).collect();
        for (chunk, progress) in chunks.into_iter().zip(progress.drain(..)) {
            self.keep_rest::<F>(chunk, progress);
        }
        self.scratch = Scratch { args, parsed, progress };
    }

    /// Parses up to a window of commands; false if there are none.
    fn fill<'t, F: FrontEnd>(
        &mut self,
        window: &mut Window<'t>,
        turn: &Turn<'_>,
        arena: &'t Arena,
    ) -> bool {
        window.args.clear();
        window.parsed.clear();
        window.scripts = 0;
        while window.at < window.chunks.len() && window.parsed.len() < WINDOW {
            if !self.parse_next::<F>(window, turn, arena) {
                window.at += 1;
            }
        }
        !window.parsed.is_empty()
    }

    /// Parses one command of the current chunk; false when the chunk has no more for now.
    #[inline]
    fn parse_next<'t, F: FrontEnd>(
        &mut self,
        window: &mut Window<'t>,
        turn: &Turn<'_>,
        arena: &'t Arena,
    ) -> bool {
        let chunk = &window.chunks[window.at];
        let progress = &mut window.progress[window.at];
        let Some(connection) = self.connections[chunk.index as usize].as_deref_mut() else {
            return false;
        };
        let is_through = progress.parsed == chunk.bytes().len();
        if is_through || progress.is_over || !connection.is_ready() {
            return false;
        }
        let first_arg = window.args.len();
        let verbs = &self.context.verbs;
        let (limited, users) = (&*self.limited, &self.users);
        let ahead = ParserView { connection, limited, users, turn, arena, verbs };
        let step = F::parse(ahead, (chunk.bytes(), progress), &mut window.args);
        let Some((item, consumed)) = step else { return false };
        if let Item::Command { found: Some(found), group_hash: None } = item
            && found.row.program.is_some()
        {
            window.scripts += 1;
        }
        progress.parsed += consumed;
        window.parsed.push(Parsed {
            item,
            chunk: window.at as u32,
            first_arg: first_arg as u32,
            arg_count: (window.args.len() - first_arg) as u32,
            end: progress.parsed,
        });
        true
    }

    /// Runs a window. A command that panics ends its connection and nothing else.
    fn run_window<'r>(&mut self, window: &mut Window<'_>, turn: &Turn<'r>) {
        let began_us = monotonic_us();
        window.clock_us.set(began_us);
        let sampled = turn.sampled(began_us);
        let turn = sampled.as_ref().unwrap_or(turn);
        if window.scripts > 1 {
            self.prefetch_for_scripts(window, turn);
        }
        let mut from = 0;
        while from < window.parsed.len() {
            window.running = from;
            let run = catch_unwind(AssertUnwindSafe(|| self.run_from(window, turn)));
            if run.is_err() {
                self.survive(window, turn);
            }
            from = window.running + 1;
        }
        let took_us = monotonic_us() - began_us;
        self.count_times(window, turn, took_us);
        let (commands, us) = &mut self.chores.ran;
        (*commands, *us) = (*commands + window.parsed.len() as u64, *us + took_us);
        turn.tally.note_turn(*commands, *us);
    }

    /// Prefetches the first keys of scripts, as those of a group are; the scripts then run one by
    /// one.
    #[cold]
    fn prefetch_for_scripts(&self, window: &Window<'_>, turn: &Turn<'_>) {
        let key_of = |parsed: &Parsed| {
            let Item::Command { found: Some(found), .. } = parsed.item else { return None };
            found.row.program?;
            let key = window.args_of(parsed).get(3)?;
            let index = window.chunks[parsed.chunk as usize].index;
            let db = self.connections[index as usize].as_ref()?.session.db;
            Some((db, turn.engine.space.hash(key)))
        };
        let keys: SmallVec<[(DbIndex, u64); WINDOW]> =
            window.parsed.iter().filter_map(key_of).collect();
        keys.iter().for_each(|&(db, hash)| turn.engine.space.prefetch_bucket(db, hash));
        keys.iter().for_each(|&(db, hash)| turn.engine.space.prefetch_record(db, hash));
    }

    /// Spreads the time of a window over its grouped commands, since timing each would take a clock
    /// read each. Commands that ran alone were timed alone; those that wait are timed later.
    fn count_times(&self, window: &Window<'_>, turn: &Turn<'_>, took_us: u64) {
        let share = took_us * 1000 / window.parsed.len() as u64;
        for parsed in &window.parsed {
            if let Item::Command { found: Some(found), group_hash: Some(_) } = parsed.item {
                turn.count_time(found, share);
            }
        }
    }

    /// Handles a command that panicked: its connection is told and closed, the others go on.
    /// Commands of its group that ran before it get their deferred work done.
    #[cold]
    fn survive(&mut self, window: &mut Window<'_>, turn: &Turn<'_>) {
        let parsed = &window.parsed[window.running];
        let index = window.chunks[parsed.chunk as usize].index;
        let found = match parsed.item {
            Item::Command { found, .. } | Item::Long { found, .. } => found,
            Item::Nothing | Item::Broken(_) | Item::Answer { .. } => None,
        };
        if let Some(connection) = self.at(index) {
            // Half a reply would only confuse the client.
            connection.output.bytes.truncate(window.replied_bytes.get());
            report_panic(
                turn.engine,
                turn.tally,
                &connection.session,
                (found, window.args_of(parsed)),
                &mut connection.output.bytes,
            );
            connection.life = Life::Ending;
        }
        for (position, action) in take(&mut window.deferred) {
            self.perform(window, turn, position, action);
        }
    }

    /// Keeps the input that was not executed with its connection.
    fn keep_rest<F: FrontEnd>(&mut self, chunk: Chunk<'_>, progress: Progress) {
        let Some(connection) = self.at(chunk.index) else { return };
        connection.marks.chunk = None;
        if connection.life == Life::Ending {
            (connection.input.bytes, connection.input.done) = (Vec::new(), 0);
            return;
        }
        let index = chunk.index;
        if let Some(taken) = progress.taken {
            let (args, rest) = chunk.part(taken.begin, progress.done);
            (connection.input.bytes, connection.input.done) = rest;
            F::begin_anew(connection);
            return self.give(index, taken, args);
        }
        (connection.input.bytes, connection.input.done) = F::rest(connection, chunk, &progress);
        // An incomplete command is parsed on from where the parser is; other input from its start.
        let is_half = progress.is_half && progress.done == progress.parsed;
        if is_half {
            make_room(&mut connection.input.bytes, progress.wanted);
        } else {
            F::begin_anew(connection);
        }
        if connection.input.bytes.is_empty() {
            let spent = take(&mut connection.input.bytes);
            self.keep_buffer(spent);
        } else if (!is_half || progress.is_busy) && connection.is_ready() {
            self.resume(index);
        }
    }
}
