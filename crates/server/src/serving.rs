//! Many commands at once: parsing ahead, and hiding the latency of memory.
//!
//! A turn of the loop brings bytes of many connections. They are cut into commands, up to
//! [`WINDOW`] at a time, and those with one key are run in *groups*: the locks of up to [`GROUP`]
//! commands are tried, the buckets of all their keys are prefetched, then the records, and only
//! then do they run, one after the other, in the order they came. So the cache misses of a group
//! overlap, and still each command costs one lock and one unlock.
//!
//! Invariants
//! 1. Commands of one connection run in the order they arrived; when one parks, those behind it
//!    stay in the connection's input.
//! 2. A group only tries locks. The first that is busy ends the group; it is then asked for with
//!    nothing held.
//! 3. A command is consumed from its chunk when it has run or was handed to the lane, not before.
//! 4. With a partition held nothing is sent, posted or logged: what a group's commands want of
//!    other threads is kept in `later` until the locks are free.

use std::cell::Cell;
use std::mem::{replace, take};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::{ClientError, Flags, Found, Lane, OwnedArgs, Park, Standing, Wander};
use pantala_keyspace::{Busy, DbIndex, Locked, PartitionId, Ticket};
use pantala_protocol::{Arena, ProtocolError, RequestParser, Step, is_cross_protocol};
use pantala_sync::gate::Role;
use smallvec::SmallVec;

use crate::connection::{Connection, Life, Waiting};
use crate::execute::{Refusal, Request, Turn, Verdict, confess};
use crate::lane::Job;
use crate::waiting::{Blocked, CountedAsBlocked, Seat};
use crate::worker::Desk;

/// Commands parsed ahead.
const WINDOW: usize = 64;
/// Commands whose locks are held together: enough misses under way to fill the core's line buffers,
/// few enough not to get in other workers' way.
const GROUP: usize = 12;

/// The input of one connection in this turn.
pub struct Chunk<'t> {
    index: u32,
    bytes: Bytes<'t>,
    /// Bytes at the start that have been executed before.
    done: usize,
}

/// Received bytes that nothing precedes are read where the kernel put them.
enum Bytes<'t> {
    Received(&'t [u8]),
    Kept(Vec<u8>),
}

impl<'t> Chunk<'t> {
    /// Fresh bytes, behind which nothing waits.
    pub fn received(index: u32, bytes: &'t [u8]) -> Self {
        Chunk { index, bytes: Bytes::Received(bytes), done: 0 }
    }

    /// A connection's own input; it loses it.
    pub fn kept(index: u32, connection: &mut Connection) -> Self {
        let bytes = Bytes::Kept(take(&mut connection.input));
        Chunk { index, bytes, done: take(&mut connection.input_done) }
    }

    /// More of the same connection.
    pub fn extend(&mut self, more: &[u8]) {
        match &mut self.bytes {
            Bytes::Received(bytes) => self.bytes = Bytes::Kept([bytes, more].concat()),
            Bytes::Kept(bytes) => bytes.extend_from_slice(more),
        }
    }

    /// Parts the command from `begin` to `end` from what is behind it. Its bytes are not copied.
    fn part(self, begin: usize, end: usize) -> (OwnedArgs, Vec<u8>) {
        let (mut bytes, done) = match self.bytes {
            Bytes::Received(bytes) => (bytes.to_vec(), 0),
            Bytes::Kept(bytes) => (bytes, self.done),
        };
        let rest = bytes[done + end..].to_vec();
        bytes.truncate(done + end);
        (OwnedArgs::received(bytes, done + begin), rest)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Received(bytes) => bytes,
            Bytes::Kept(bytes) => &bytes[self.done..],
        }
    }

    /// What is left behind `done` more bytes, and how much of it is done all the same: a long rest
    /// is moved to the front only when that is paid for by what was done.
    fn rest(self, done: usize) -> (Vec<u8>, usize) {
        let done = self.done + done;
        match self.bytes {
            Bytes::Received(bytes) => (bytes[done..].to_vec(), 0),
            Bytes::Kept(bytes) if done == bytes.len() => (Vec::new(), 0),
            Bytes::Kept(bytes) if done < bytes.len() / 2 => (bytes, done),
            Bytes::Kept(mut bytes) => {
                bytes.drain(..done);
                (bytes, 0)
            }
        }
    }
}

/// Arguments longer than this get their room at once,
const LONG_ARGUMENT_BYTES: usize = 1 << 20;
/// as soon as the part that is missing is at most so many times what has arrived.
const PROMISED_TIMES: usize = 8;
/// Commands that may have published something, by themselves or by what they run.
const PUBLISHING: Flags = Flags::PUBSUB.and(Flags::TRANSACTION).and(Flags::MAY_REPLICATE);
/// Longer requests run on the slow lane, which gets their bytes as they are: copying a value, or
/// going through some hundred thousand arguments, takes longer than other connections should wait.
const LONG_REQUEST_BYTES: usize = 2 << 20;
/// Places for arguments that are kept from turn to turn.
const KEPT_ARGS: usize = 1 << 14;

/// How far a chunk has got.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Bytes parsed.
    parsed: usize,
    /// Bytes of commands that have run.
    done: usize,
    /// The parser wants more bytes than there are.
    is_half: bool,
    /// At least so many more.
    wanted: usize,
    /// Nothing more is to be parsed this turn.
    is_over: bool,
    /// The last of the commands that have run is to run on the slow lane: where it begins.
    laned: Option<(Found, usize)>,
}

/// What stands at one place of the window.
enum Item {
    Command { found: Option<Found>, group_hash: Option<u64> },
    Nothing,
    Broken(ProtocolError),
}

/// One parsed command.
struct Parsed {
    item: Item,
    chunk: u32,
    first_arg: u32,
    arg_count: u32,
    /// Where the next command begins in the chunk.
    end: usize,
}

/// Memory that is used again each turn.
#[derive(Default)]
pub struct Scratch {
    args: Vec<&'static [u8]>,
    parsed: Vec<Parsed>,
    progress: Vec<Progress>,
}

/// The commands at hand, and how far each chunk has got.
struct Window<'t> {
    chunks: &'t [Chunk<'t>],
    progress: Vec<Progress>,
    args: Vec<&'t [u8]>,
    parsed: Vec<Parsed>,
    /// How many of the commands run scripts.
    scripts: usize,
    /// The chunk being parsed.
    at: usize,
    /// The command being run, and how long its connection's output was before, for the case that
    /// it panics.
    running: usize,
    replied_bytes: Cell<usize>,
    /// The time, as last read; 0 when something that may take long has run since.
    clock_us: Cell<u64>,
    /// What commands of the group at hand want done when no partition is held.
    later: Vec<(usize, Later)>,
}

impl<'t> Window<'t> {
    /// The time, read anew unless the moment of the last look will do: a steady command is charged
    /// with the steady ones before it, which are nothing compared with its own bytes.
    #[inline]
    fn clock_us(&self, is_steady: bool) -> u64 {
        if !is_steady || self.clock_us.get() == 0 {
            self.clock_us.set(monotonic_us());
        }
        self.clock_us.get()
    }

    fn args_of(&self, parsed: &Parsed) -> &[&'t [u8]] {
        &self.args[parsed.first_arg as usize..][..parsed.arg_count as usize]
    }

    /// Has no share in the time of the groups.
    #[cold]
    fn not_in_group(&mut self, position: usize) {
        if let Item::Command { group_hash, .. } = &mut self.parsed[position].item {
            *group_hash = None;
        }
    }
}

/// Commands whose locks are held together.
struct Group<'r> {
    locked: Locked<'r>,
    count: usize,
    /// For each command: where its partition stands among those held, and the hash of its key.
    members: [(usize, u64); GROUP],
}

impl<'r> Group<'r> {
    fn new(turn: &Turn<'r>) -> Self {
        let locked = turn.shared.space.lock_none(turn.plain_scope());
        Group { locked, count: 0, members: [(0, 0); GROUP] }
    }
}

/// Something that a command of a group wants done when no partition is held.
enum Later {
    Lane(Found),
    Park(Park),
    Block(Blocked),
    Pause,
    /// It has run, and may have to be logged: how long it took and the bytes of its reply.
    Log(Found, u64, usize),
}

impl Desk {
    /// Runs everything that has arrived, inside the gate.
    pub(crate) fn serve(&mut self, chunks: Vec<Chunk<'_>>) {
        let shared = Arc::clone(&self.shared);
        let tally = Arc::clone(&self.tally);
        let limits = self.limited.for_handlers;
        let inside = shared.space.gate().enter(Role::Worker, self.index);
        let turn = Turn {
            shared: &shared,
            tally: &tally,
            limits: &limits,
            lane: Lane::Worker,
            now: unix_ms(),
            is_full: shared.memory.is_full(self.settings.maxmemory),
            is_monitored: shared.monitors.is_used(),
            is_timed: self.limited.is_timed,
            paused: shared.pause.state(self.now_us),
            may_wait: true,
            wander: Wander::No,
        };
        let arena = Arena::default();
        let mut scratch = take(&mut self.scratch);
        scratch.progress.resize(chunks.len(), Progress::default());
        let mut window = Window {
            chunks: &chunks,
            progress: scratch.progress,
            args: scratch.args,
            parsed: scratch.parsed,
            scripts: 0,
            at: 0,
            running: 0,
            replied_bytes: Cell::new(0),
            clock_us: Cell::new(0),
            later: Vec::new(),
        };
        while self.fill(&mut window, &turn, &arena) {
            self.run_window(&mut window, &turn);
        }
        turn.shrink_tracked();
        drop(inside);
        let Window { mut progress, mut args, parsed, .. } = window;
        args.clear();
        args.shrink_to(KEPT_ARGS);
        // An empty list has no lifetimes in it: this keeps the allocation.
        let args = args.into_iter().map(|_| -> &'static [u8] { &[] }).collect();
        for (chunk, progress) in chunks.into_iter().zip(progress.drain(..)) {
            self.keep_rest(chunk, progress);
        }
        self.scratch = Scratch { args, parsed, progress };
    }

    /// Parses up to a window of commands; whether there are any.
    fn fill<'t>(&mut self, window: &mut Window<'t>, turn: &Turn<'_>, arena: &'t Arena) -> bool {
        window.args.clear();
        window.parsed.clear();
        window.scripts = 0;
        while window.at < window.chunks.len() && window.parsed.len() < WINDOW {
            if !self.parse_next(window, turn, arena) {
                window.at += 1;
            }
        }
        !window.parsed.is_empty()
    }

    /// Parses one command of the chunk at hand; false when the chunk has no more for now.
    #[inline]
    fn parse_next<'t>(
        &mut self,
        window: &mut Window<'t>,
        turn: &Turn<'_>,
        arena: &'t Arena,
    ) -> bool {
        let chunk = &window.chunks[window.at];
        let progress = &mut window.progress[window.at];
        let rest = &chunk.bytes()[progress.parsed..];
        let limits = self.limited.parser;
        let Some(connection) = self.connections[chunk.index as usize].as_deref_mut() else {
            return false;
        };
        if rest.is_empty() || progress.is_over || !connection.is_ready() {
            return false;
        }
        let first_arg = window.args.len();
        let limits = limits.of(&connection.session);
        let (item, consumed) = match connection.parser.parse(rest, &limits, arena, &mut window.args)
        {
            Step::Command { consumed } => {
                let args = &window.args[first_arg..];
                let found = turn.shared.registry.resolve(args);
                let is_long = consumed > LONG_REQUEST_BYTES;
                let group_hash = if is_long { None } else { group_hash(found, args, turn) };
                if group_hash.is_none() && found.is_some_and(|found| found.row.program.is_some()) {
                    window.scripts += 1;
                }
                // What may follow, and how long it may be, depends on whether this is AUTH.
                progress.is_over = !connection.session.is_authenticated();
                (Item::Command { found, group_hash }, consumed)
            }
            Step::Empty { consumed } => (Item::Nothing, consumed),
            Step::Error(error) => {
                progress.is_over = true;
                (Item::Broken(error), rest.len())
            }
            Step::Incomplete { wanted } => {
                progress.wanted = wanted;
                progress.is_half = true;
                progress.is_over = true;
                return false;
            }
        };
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

    /// Runs a window. A command that panics costs its connection and nothing else.
    fn run_window<'r>(&mut self, window: &mut Window<'_>, turn: &Turn<'r>) {
        let began_us = monotonic_us();
        window.clock_us.set(began_us);
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
        self.count_times(window, turn, monotonic_us() - began_us);
    }

    /// Scripts run one by one, but the first keys they name are brought near together, as those of
    /// a group are.
    #[cold]
    fn prefetch_for_scripts(&self, window: &Window<'_>, turn: &Turn<'_>) {
        let key_of = |parsed: &Parsed| {
            let Item::Command { found: Some(found), .. } = parsed.item else { return None };
            found.row.program?;
            let key = window.args_of(parsed).get(3)?;
            let index = window.chunks[parsed.chunk as usize].index;
            let db = self.connections[index as usize].as_ref()?.session.db;
            Some((db, turn.shared.space.hash(key)))
        };
        let keys: SmallVec<[(DbIndex, u64); WINDOW]> =
            window.parsed.iter().filter_map(key_of).collect();
        keys.iter().for_each(|&(db, hash)| turn.shared.space.prefetch_bucket(db, hash));
        keys.iter().for_each(|&(db, hash)| turn.shared.space.prefetch_record(db, hash));
    }

    /// The time of a window, spread over its grouped commands: what each took alone would cost a
    /// look at the clock each. Who ran alone has been timed alone; who waits will be.
    fn count_times(&self, window: &Window<'_>, turn: &Turn<'_>, took_us: u64) {
        let share = took_us * 1000 / window.parsed.len() as u64;
        for parsed in &window.parsed {
            if let Item::Command { found: Some(found), group_hash: Some(_) } = parsed.item {
                turn.count_time(found, share);
            }
        }
    }

    fn run_from<'r>(&mut self, window: &mut Window<'_>, turn: &Turn<'r>) {
        let mut from = window.running;
        while from < window.parsed.len() {
            let group = self.group_at(window, turn, from);
            match group {
                Some(mut group) => {
                    let count = group.count;
                    for member in 0..count {
                        window.running = from + member;
                        self.run_grouped(window, turn, member, &mut group);
                    }
                    drop(group);
                    for (position, wish) in take(&mut window.later) {
                        self.grant(window, turn, position, wish);
                    }
                    from += count;
                }
                None => {
                    window.running = from;
                    window.clock_us.set(0);
                    window.not_in_group(from);
                    self.run_alone(window, turn, from);
                    from += 1;
                }
            }
        }
    }

    /// The locks of the commands from `from` on that can run as a group, and how many they are.
    #[inline]
    fn group_at<'r>(
        &mut self,
        window: &Window<'_>,
        turn: &Turn<'r>,
        from: usize,
    ) -> Option<Group<'r>> {
        if turn.is_monitored || turn.is_timed {
            return None;
        }
        let mut group: Option<Group<'r>> = None;
        for parsed in window.parsed[from..].iter().take(GROUP) {
            let Item::Command { group_hash: Some(hash), .. } = parsed.item else { break };
            let group = group.get_or_insert_with(|| Group::new(turn));
            let Some(at) = group.locked.try_add(PartitionId::of(hash)) else { break };
            group.locked.prefetch_bucket(at, hash);
            group.members[group.count] = (at, hash);
            group.count += 1;
        }
        let group = group.filter(|group| group.count > 0)?;
        for &(at, hash) in &group.members[..group.count] {
            group.locked.prefetch_record(at, hash);
        }
        Some(group)
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
        let index = window.chunks[parsed.chunk as usize].index;
        let args = window.args_of(parsed);
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        if !connection.is_ready() {
            return window.not_in_group(position);
        }
        let before = connection.output.len();
        window.replied_bytes.set(before);
        let session = &mut connection.session;
        let wish = match turn.admit(session, found, args) {
            Ok(found) => {
                let is_steady = found.row.flags.has(Flags::FAST.and(Flags::STEADY));
                let began_us = window.clock_us(is_steady);
                let locked = &mut group.locked;
                locked.turn_to(at, turn.scope(session));
                let output = &mut connection.output;
                let request = Request { found, args, hashes: &[hash] };
                let verdict = turn.run_locked(session, request, locked, output);
                if locked.has_ready() {
                    turn.serve_ready(locked);
                }
                match verdict {
                    Verdict::Finished => {
                        let progress = &mut window.progress[parsed.chunk as usize];
                        let request_bytes = parsed.end - progress.done;
                        let reply_bytes = connection.output.len().saturating_sub(before);
                        connection.finished(found.number);
                        progress.done = parsed.end;
                        let is_large = request_bytes.max(reply_bytes) >= self.limited.large_bytes;
                        if is_large || !is_steady {
                            let took_us = window.clock_us(false) - began_us;
                            if is_large || took_us >= self.limited.slow_us {
                                let wish = Later::Log(found, took_us, reply_bytes);
                                window.later.push((position, wish));
                            }
                        }
                        return;
                    }
                    Verdict::Lane => Later::Lane(found),
                    Verdict::Parked(park) => Later::Park(park),
                    Verdict::Blocked(blocked) => Later::Block(blocked),
                }
            }
            Err(refusal) => match answer_refusal(turn, connection, refusal, args) {
                Some(wish) => wish,
                None => {
                    window.progress[chunk].done = end;
                    // It has not run: it took no time.
                    window.parsed[position].item = Item::Nothing;
                    return;
                }
            },
        };
        // Whatever it waits for, those behind it wait too.
        connection.park(Waiting::Partition);
        window.later.push((position, wish));
        window.not_in_group(position);
    }

    /// Runs one command with nothing else held: without a key, with many, or because its partition
    /// was busy a moment ago.
    fn run_alone(&mut self, window: &mut Window<'_>, turn: &Turn<'_>, position: usize) {
        let parsed = &window.parsed[position];
        let chunk = parsed.chunk as usize;
        let index = window.chunks[chunk].index;
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        if !connection.is_ready() {
            return;
        }
        window.replied_bytes.set(connection.output.len());
        let args = window.args_of(parsed);
        let found = match &parsed.item {
            Item::Command { found: None, .. } if is_http(args) => {
                // A browser was made to send this: whatever follows is not meant for us.
                tracing::warn!("a client spoke HTTP; its connection is closed");
                connection.life = Life::Ending;
                return;
            }
            Item::Command { found, .. } => *found,
            Item::Nothing => {
                window.progress[chunk].done = parsed.end;
                return;
            }
            Item::Broken(error) => return break_off(turn, connection, error),
        };
        let row_flags = found.map_or(Flags::NONE, |found| found.row.flags);
        if row_flags.has(Flags::PUBSUB) || connection.session.standing == Standing::Subscribed {
            self.take_news();
        }
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        let seat = Seat {
            inbox: &self.inbox,
            connection: connection.handle(),
            parking: connection.next_parking(),
        };
        window.replied_bytes.set(connection.output.len());
        let session = &mut connection.session;
        let was_monitor = session.monitor;
        let is_long = parsed.end - window.progress[chunk].done > LONG_REQUEST_BYTES;
        let wish = match turn.admit(session, found, args) {
            Ok(found) if is_long => Later::Lane(found),
            Ok(found) => match turn.run(session, found, args, &mut connection.output, &seat) {
                Verdict::Finished => {
                    connection.finished(found.number);
                    if was_monitor && !connection.session.monitor {
                        turn.shared.monitors.leave(self.index);
                    }
                    window.progress[chunk].done = parsed.end;
                    if row_flags.has(PUBLISHING) {
                        self.has_published(index);
                    }
                    return;
                }
                Verdict::Lane => Later::Lane(found),
                Verdict::Parked(park) => Later::Park(park),
                Verdict::Blocked(blocked) => {
                    connection.finished(found.number);
                    Later::Block(blocked)
                }
            },
            Err(refusal) => match answer_refusal(turn, connection, refusal, args) {
                Some(wish) => wish,
                None => {
                    window.progress[chunk].done = parsed.end;
                    return;
                }
            },
        };
        connection.park(Waiting::Partition);
        self.grant(window, turn, position, wish);
    }

    /// Does what a command wants of other threads, now that no partition is held.
    #[cold]
    fn grant(&mut self, window: &mut Window<'_>, turn: &Turn<'_>, position: usize, wish: Later) {
        let parsed = &window.parsed[position];
        let index = window.chunks[parsed.chunk as usize].index;
        match wish {
            Later::Lane(found) => {
                let progress = &mut window.progress[parsed.chunk as usize];
                let begin = replace(&mut progress.done, parsed.end);
                if parsed.end - begin > LONG_REQUEST_BYTES {
                    // As soon as nothing of the window refers to its bytes.
                    progress.laned = Some((found, begin));
                } else {
                    self.give_to_lane(index, found, OwnedArgs::of(window.args_of(parsed)));
                }
            }
            Later::Park(Park::Partition(busy)) => match self.shared.scripts.busy.error(busy.0) {
                None => self.park_on(index, busy),
                Some(error) => {
                    window.progress[parsed.chunk as usize].done = parsed.end;
                    self.refuse_waiting(index, turn, &parsed.item, error);
                }
            },
            // Only commands that are served ask for this, only blocking ones, alone, for keys, and
            // only those on the lane for the token.
            Later::Park(Park::Again | Park::Keys(_) | Park::Token(_)) => {}
            Later::Block(blocked) => {
                window.progress[parsed.chunk as usize].done = parsed.end;
                if let Some(parked) = self.at(index).and_then(|one| one.parked.as_mut()) {
                    parked.waiting = Waiting::Keys;
                }
                self.block(index, blocked);
            }
            Later::Log(found, took_us, reply_bytes) => {
                let shared = Arc::clone(&self.shared);
                let Some(connection) = self.at(index) else { return };
                let args = window.args_of(parsed);
                shared.logs.note(&connection.session, found, args, took_us, reply_bytes);
            }
            Later::Pause => {
                let counted = CountedAsBlocked::new(&self.shared);
                if let Some(connection) = self.at(index) {
                    connection.park(Waiting::Pause);
                    connection.paused = Some(counted);
                }
            }
        }
    }

    /// Parks a connection on a busy partition. If that is free again the connection calls itself:
    /// it must stay parked to the end of this turn, or the commands behind this one, which stand in
    /// the window too, would run before it.
    fn park_on(&mut self, index: u32, busy: Busy) {
        self.tally.parked.add(1);
        let inbox: Arc<dyn pantala_keyspace::Inbox> = self.inbox.clone();
        let Some(connection) = self.at(index) else { return };
        let parking = connection.park(Waiting::Partition);
        let ticket = Ticket::Connection { inbox, connection: connection.handle(), parking };
        if let Err(ticket) = self.shared.space.park(busy, ticket) {
            pantala_sync::lock::Ticket::wake(ticket);
        }
    }

    /// Answers a command that would have to wait, instead. The connection calls itself: as in
    /// `park_on` it stays parked to the end of the turn.
    #[cold]
    fn refuse_waiting(&mut self, index: u32, turn: &Turn<'_>, item: &Item, error: &ClientError) {
        let Item::Command { found, .. } = *item else { return };
        let inbox = Arc::clone(&self.inbox);
        let Some(connection) = self.at(index) else { return };
        turn.refuse(&mut connection.session, found, error, &mut connection.output);
        connection.choke();
        let parking = connection.park(Waiting::Partition);
        pantala_keyspace::Inbox::unpark(&*inbox, connection.handle(), parking);
    }

    /// Gives a connection's command to the slow lane.
    fn give_to_lane(&mut self, index: u32, found: Found, args: OwnedArgs) {
        self.tally.laned.add(1);
        let inbox = Arc::clone(&self.inbox);
        let Some(connection) = self.at(index) else { return };
        let parking = connection.park(Waiting::Lane);
        let job = Job {
            args,
            found,
            session: Box::new(connection.session.clone()),
            inbox,
            connection: connection.handle(),
            parking,
            wander: Wander::No,
        };
        if found.row.flags.has(Flags::TRANSACTION) {
            // Watching ends with EXEC; the lane knows of what.
            connection.session.watching = None;
        }
        connection.finished(found.number);
        self.shared.lane.submit(job);
    }

    /// A command panicked: its connection is told and closed, the others go on. Those of its group
    /// that ran before it get what they wanted.
    #[cold]
    fn survive(&mut self, window: &mut Window<'_>, turn: &Turn<'_>) {
        let parsed = &window.parsed[window.running];
        let index = window.chunks[parsed.chunk as usize].index;
        let found = match parsed.item {
            Item::Command { found, .. } => found,
            Item::Nothing | Item::Broken(_) => None,
        };
        if let Some(connection) = self.at(index) {
            // Half a reply would only confuse.
            connection.output.truncate(window.replied_bytes.get());
            confess(turn.shared, turn.tally, &connection.session, found, &mut connection.output);
            connection.life = Life::Ending;
        }
        for (position, wish) in take(&mut window.later) {
            self.grant(window, turn, position, wish);
        }
    }

    /// What was not executed stays with the connection.
    fn keep_rest(&mut self, chunk: Chunk<'_>, progress: Progress) {
        let Some(connection) = self.at(chunk.index) else { return };
        connection.chunk = None;
        if connection.life == Life::Ending {
            (connection.input, connection.input_done) = (Vec::new(), 0);
            return;
        }
        let index = chunk.index;
        if let Some((found, begin)) = progress.laned {
            let (args, rest) = chunk.part(begin, progress.done);
            (connection.input, connection.input_done) = (rest, 0);
            connection.parser = RequestParser::default();
            return self.give_to_lane(index, found, args);
        }
        (connection.input, connection.input_done) = chunk.rest(progress.done);
        // Half a command is parsed on from where the parser stands; anything else from its start.
        let is_half = progress.is_half && progress.done == progress.parsed;
        if is_half {
            make_room(&mut connection.input, progress.wanted);
        } else {
            connection.parser = RequestParser::default();
        }
        if !is_half && connection.is_ready() && !connection.input.is_empty() {
            self.resume(index);
        }
    }
}

/// Answers what is no command, and ends the connection.
#[cold]
fn break_off(turn: &Turn<'_>, connection: &mut Connection, error: &ProtocolError) {
    turn.tally.errors.add(1);
    turn.shared.errors.count("ERR");
    error.push_reply(&mut connection.output);
    connection.life = Life::Ending;
}

fn is_http(args: &[&[u8]]) -> bool {
    args.first().is_some_and(|name| is_cross_protocol(name))
}

/// Answers a command that was not admitted, or says what it waits for.
#[cold]
fn answer_refusal(
    turn: &Turn<'_>,
    connection: &mut Connection,
    refusal: Refusal,
    args: &[&[u8]],
) -> Option<Later> {
    let Connection { session, output, .. } = connection;
    match refusal {
        Refusal::Error(found, error) => {
            turn.refuse(session, found, &error, output);
            connection.choke();
            None
        }
        Refusal::Queue(found) => {
            turn.queue(session, found, args, output);
            connection.finished(found.number);
            None
        }
        Refusal::Lane(found) => Some(Later::Lane(found)),
        Refusal::Pause => Some(Later::Pause),
    }
}

/// Room for the rest of a long argument, at once: growing by doubling would copy it again and
/// again. Only when a good part of it is there, so that nobody takes memory by a promise.
fn make_room(input: &mut Vec<u8>, wanted: usize) {
    if wanted > LONG_ARGUMENT_BYTES && input.len() >= wanted / PROMISED_TIMES {
        input.reserve_exact(wanted);
    }
}

/// The hash of the only key, for commands that may run in a group.
#[inline]
fn group_hash(found: Option<Found>, args: &[&[u8]], turn: &Turn<'_>) -> Option<u64> {
    let row = found?.row;
    let position = usize::from(row.only_key);
    if position == 0 || row.flags.has(Flags::LANE.and(Flags::BLOCKING)) {
        return None;
    }
    args.get(position).map(|key| turn.shared.space.hash(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(length: usize, done: usize) -> Chunk<'static> {
        let mut connection = Connection::new(
            pantala_reactor::Token { index: 0, generation: 0 },
            pantala_commands::Session::new(1, true),
            0,
        );
        connection.input = (0..length).map(|position| position as u8).collect();
        connection.input_done = done;
        Chunk::kept(0, &mut connection)
    }

    #[test]
    fn a_long_rest_stays_where_it_is_until_half_is_done() {
        assert_eq!(kept(100, 10).bytes()[0], 10);
        assert_eq!(kept(100, 10).rest(39).1, 49);
        let (rest, done) = kept(100, 10).rest(40);
        assert_eq!((rest[0], rest.len(), done), (50, 50, 0));
        assert_eq!(kept(100, 10).rest(90), (Vec::new(), 0));
        assert_eq!(kept(100, 0).rest(0).1, 0);
    }

    #[test]
    fn more_of_a_connection_goes_behind_what_is_left() {
        let mut chunk = kept(10, 3);
        chunk.extend(b"ab");
        assert_eq!(chunk.bytes(), [3, 4, 5, 6, 7, 8, 9, b'a', b'b']);
        assert_eq!(Chunk::received(0, b"abc").rest(1), (b"bc".to_vec(), 0));
    }
}
