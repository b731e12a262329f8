//! Running one command: the same for workers and for the slow lane.
//!
//! ```text
//! admit: known? arity? password? memory? paused? too long for a worker?
//! lock:  all partitions of its keys, or none
//! run:   the handler ; its reply or its error ; the counts
//! ```
//!
//! Invariants
//! 1. A command that ends with an error, parks or moves to the lane leaves no byte in the output.
//! 2. Nothing here blocks on a worker; `Lane::Slow` may.

use pantala_base::UnixMs;
use pantala_base::clock::monotonic_us;
use pantala_commands::{
    Call, ClientError, Done, Flags, Found, Lane, Limits, Park, ReplyMode, Session, Stop, error,
    key_positions,
};
use pantala_keyspace::{DbIndex, LockPlan, Locked, Scope};
use pantala_protocol::Reply;
use smallvec::SmallVec;

use crate::shared::Shared;
use crate::tallies::{LATENCY_BUCKETS, ThreadTally};

/// A command with more arguments than this runs on the slow lane: it would hold up other
/// connections for a good part of a millisecond.
const WORKER_ARGUMENTS: usize = 2048;

/// What holds for all commands of one turn.
#[derive(Clone, Copy)]
pub struct Turn<'r> {
    /// The server.
    pub shared: &'r Shared,
    /// The counters of this thread.
    pub tally: &'r ThreadTally,
    /// Settings for handlers.
    pub limits: &'r Limits,
    /// Where this is.
    pub lane: Lane,
    /// The time.
    pub now: UnixMs,
    /// Commands that need memory are refused.
    pub is_full: bool,
    /// Somebody uses MONITOR.
    pub is_monitored: bool,
    /// CLIENT PAUSE: commands with one of these flags wait.
    pub paused: Paused,
}

/// What CLIENT PAUSE holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Nothing.
    Nothing,
    /// Commands that change data.
    Writes,
    /// All commands.
    All,
}

/// Why a command does not run now.
pub enum Refusal {
    /// An error for the client.
    Error(Option<Found>, ClientError),
    /// It runs on the slow lane.
    Lane(Found),
    /// CLIENT PAUSE.
    Pause,
}

/// What is to be run.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The row.
    pub found: Found,
    /// The arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// The hashes of its keys.
    pub hashes: &'a [u64],
}

/// How running ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is a reply (or none is wanted).
    Finished,
    /// To the slow lane with it.
    Lane,
    /// Later.
    Parked(Park),
}

impl<'r> Turn<'r> {
    /// Everything that is decided before locks are taken.
    #[inline]
    pub fn admit(
        &self,
        session: &Session,
        found: Option<Found>,
        args: &[&[u8]],
    ) -> Result<Found, Refusal> {
        // Who has not given the password learns nothing, not even which commands there are.
        let is_open = found.is_some_and(|found| found.row.flags.has(Flags::NO_AUTH));
        if !session.authenticated && !is_open {
            return Err(Refusal::Error(found, error::NO_AUTH));
        }
        let Some(found) = found else {
            return Err(Refusal::Error(None, error::unknown_command(args)));
        };
        let row = found.row;
        if !row.accepts(args.len()) {
            return Err(Refusal::Error(Some(found), error::wrong_arity(&row.full_name())));
        }
        if self.is_full && row.flags.has(Flags::DENYOOM) {
            return Err(Refusal::Error(Some(found), error::OUT_OF_MEMORY));
        }
        if self.paused != Paused::Nothing && self.holds_back(found) {
            return Err(Refusal::Pause);
        }
        if self.lane == Lane::Worker
            && (row.flags.has(Flags::LANE) || args.len() > WORKER_ARGUMENTS)
        {
            return Err(Refusal::Lane(found));
        }
        Ok(found)
    }

    fn holds_back(&self, found: Found) -> bool {
        let flags = found.row.flags;
        match self.paused {
            Paused::Nothing => false,
            Paused::Writes => flags.has(Flags::WRITE.and(Flags::MAY_REPLICATE)),
            Paused::All => !flags.has(Flags::ADMIN.and(Flags::ALLOW_BUSY)),
        }
    }

    /// What lookups need before it is known whose they are.
    #[inline]
    pub fn plain_scope(&self) -> Scope<'r> {
        let (space, tally) = (&self.shared.space, &self.tally.keys);
        Scope { space, db: DbIndex(0), now: self.now, tally, touch: true }
    }

    /// What lookups of this session need.
    #[inline]
    pub fn scope(&self, session: &Session) -> Scope<'r> {
        Scope {
            space: &self.shared.space,
            db: session.db,
            now: self.now,
            tally: &self.tally.keys,
            touch: !session.no_touch,
        }
    }

    /// Locks what the command needs and runs it.
    pub fn run(
        &self,
        session: &mut Session,
        found: Found,
        args: &[&[u8]],
        output: &mut Vec<u8>,
    ) -> Verdict {
        let scope = self.scope(session);
        let positions = key_positions(found.row, args).unwrap_or_default();
        let hashes: SmallVec<[u64; 4]> =
            positions.iter().map(|&position| scope.space.hash(args[position])).collect();
        let plan = LockPlan::of(hashes.iter().copied());
        let began_us = monotonic_us();
        let locked = match self.lane {
            Lane::Worker => scope.space.lock(&plan, scope),
            Lane::Slow => Ok(scope.space.lock_waiting(&plan, scope)),
        };
        let mut locked = match locked {
            Ok(locked) => locked,
            Err(busy) => return Verdict::Parked(Park::Partition(busy)),
        };
        let before = output.len();
        let request = Request { found, args, hashes: &hashes };
        let verdict = self.run_locked(session, request, &mut locked, output);
        drop(locked);
        if verdict == Verdict::Finished {
            let took_us = monotonic_us() - began_us;
            self.count_time(found, took_us * 1000);
            let reply_bytes = output.len().saturating_sub(before);
            self.shared.logs.note(session, found, args, took_us, reply_bytes);
            self.shared.spikes.note(found.row, took_us);
            if self.is_monitored {
                self.shared.monitors.feed(&self.shared.workers, session, found, args);
            }
        }
        verdict
    }

    /// Runs a command whose partitions are held.
    #[inline]
    pub fn run_locked(
        &self,
        session: &mut Session,
        request: Request<'_>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let Request { found, args, hashes } = request;
        let before = output.len();
        let mode = session.reply_mode;
        let mut call = Call {
            args,
            command: found.row,
            reply: Reply::new(output, session.version),
            keys: locked,
            hashes,
            session,
            server: self.shared,
            limits: self.limits,
            lane: self.lane,
        };
        let done = (found.row.handler)(&mut call);
        let verdict = self.settle(session, found, done, before, output);
        if mode != ReplyMode::On && verdict == Verdict::Finished {
            hush(session, mode, before, output);
        }
        verdict
    }

    #[inline]
    fn settle(
        &self,
        session: &Session,
        found: Found,
        done: Done,
        before: usize,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let tally = &self.tally.commands[usize::from(found.number)];
        let stop = match done {
            Ok(()) => {
                tally.calls.add(1);
                return Verdict::Finished;
            }
            Err(stop) => stop,
        };
        output.truncate(before);
        match stop {
            Stop::Error(error) => {
                tally.calls.add(1);
                tally.failed.add(1);
                self.reply_error(session, &error, output);
                Verdict::Finished
            }
            Stop::Lane => Verdict::Lane,
            Stop::Park(park) => Verdict::Parked(park),
        }
    }

    /// Refuses a command that did not run.
    #[cold]
    pub fn refuse(
        &self,
        session: &mut Session,
        found: Option<Found>,
        error: &ClientError,
        output: &mut Vec<u8>,
    ) {
        if let Some(found) = found {
            self.tally.commands[usize::from(found.number)].rejected.add(1);
        }
        let before = output.len();
        self.reply_error(session, error, output);
        let mode = session.reply_mode;
        if mode != ReplyMode::On {
            hush(session, mode, before, output);
        }
    }

    /// Writes and counts an error reply.
    #[cold]
    pub fn reply_error(&self, session: &Session, error: &ClientError, output: &mut Vec<u8>) {
        self.tally.errors.add(1);
        self.shared.errors.count(error.code());
        Reply::new(output, session.version).error(&*error.0);
    }

    /// Adds to the time and the histogram of a row.
    #[inline]
    pub fn count_time(&self, found: Found, nanoseconds: u64) {
        let tally = &self.tally.commands[usize::from(found.number)];
        tally.nanoseconds.add(nanoseconds);
        let microseconds = nanoseconds / 1000;
        let bucket = (u64::BITS - microseconds.leading_zeros()) as usize;
        tally.latency[bucket.min(LATENCY_BUCKETS - 1)].add(1);
    }
}

/// Takes a reply back that CLIENT REPLY does not want.
#[cold]
fn hush(session: &mut Session, mode_before: ReplyMode, before: usize, output: &mut Vec<u8>) {
    if mode_before == ReplyMode::SkipNext || session.reply_mode != ReplyMode::On {
        output.truncate(before);
    }
    if mode_before == ReplyMode::SkipNext && session.reply_mode == ReplyMode::SkipNext {
        session.reply_mode = ReplyMode::On;
    }
}
