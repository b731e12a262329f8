//! Replays steps: runs commands through the engine, with no client and no reply.
//!
//! Keys and elements exist until the stream deletes them, whatever their deadlines: otherwise `SET
//! k`, `PEXPIREAT k`, `INCR k` could end with a key that never expires.
//!
//! Invariants
//! 1. Nothing is recorded, refused because of the server's state, or parked.
//! 2. A command that the server does not know, or not with these arguments, ends the replay; a
//!    command that answers an error is counted, and the next runs, as in Redis, unless
//!    `propagation-error-behavior` says otherwise.
//!
//! Not here: threads, and access by clients meanwhile (`States::LOADING`, set by the server).
//! Tests: `tests/replay.rs`.

use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::{Flags, Lane, Locking, Park, Server, Session, meant};
use pantala_engine::condition::states::States;
use pantala_engine::engine::limits::Limited;
use pantala_engine::execute::{Turn, Verdict};
use pantala_engine::waiting::ReplyTarget;
use pantala_engine::{Engine, Mailbox, NoMailbox};
use pantala_keyspace::{DbIndex, HideReason, Keyspace, PREFETCHED};
use pantala_settings::field::PropagationErrors;
use pantala_sync::gate::Role;
use smallvec::SmallVec;

/// A time before every deadline.
const BEFORE_ALL: UnixMs = UnixMs(0);

/// The result of the commands so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// How many commands have run.
    pub commands: u64,
    /// How many of them answered an error.
    pub errors: u64,
    /// The first of these errors, with the command's name.
    pub first_error: Option<String>,
    /// The last of these errors, with the command's name.
    pub last_error: Option<String>,
}

/// Why a command of the file cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The server has no command of its name.
    Unknown,
    /// The file must have another command here.
    Not(&'static str),
}

impl Refused {
    /// What the file must have instead.
    pub fn expected(self) -> &'static str {
        match self {
            Refused::Unknown => "a command that this server knows",
            Refused::Not(expected) => expected,
        }
    }
}

/// Runs the commands of an append-only file through the engine.
pub struct Replay<'r> {
    turn: Turn<'r>,
    slot: usize,
    session: Session,
    inbox: Arc<dyn Mailbox>,
    output: Vec<u8>,
    outcome: ReplayOutcome,
}

/// Collects keys that are needed soon, and prefetches them when dropped.
pub struct PrefetchKeys<'n> {
    space: &'n Keyspace,
    db: DbIndex,
    hashes: SmallVec<[u64; PREFETCHED]>,
}

impl PrefetchKeys<'_> {
    /// Adds a key.
    pub fn add(&mut self, key: &[u8]) {
        let hash = self.space.hash(key);
        self.space.prefetch_bucket(self.db, hash);
        self.hashes.push(hash);
    }
}

impl Drop for PrefetchKeys<'_> {
    fn drop(&mut self) {
        for &hash in &self.hashes {
            self.space.prefetch_record(self.db, hash);
        }
    }
}

/// While this lives, keys stay although their deadlines pass.
struct KeysStay<'e>(&'e Engine);

impl<'e> KeysStay<'e> {
    fn new(engine: &'e Engine) -> Self {
        engine.space.hide_expired(HideReason::Loading, true);
        KeysStay(engine)
    }
}

impl Drop for KeysStay<'_> {
    fn drop(&mut self) {
        self.0.space.hide_expired(HideReason::Loading, false);
    }
}

/// Lets `work` replay steps on a server, as the lane's thread with this slot.
pub fn replay_on<R>(
    server: &dyn Server,
    slot: usize,
    work: impl FnOnce(&mut Replay<'_>) -> R,
) -> R {
    let engine = Engine::of_server(server);
    let (tally, recorder) = (engine.stats.tallies.join(), engine.journal.join());
    let limited = Limited::new(engine.settings.current());
    let now = (unix_ms(), monotonic_us());
    let turn = Turn {
        recorder: None,
        now: BEFORE_ALL,
        states: States::NONE,
        is_timed: false,
        may_wait: false,
        sees_expired: true,
        ..Turn::new(server, (&tally, &recorder), &limited, Lane::Slow, now)
    };
    let _keys_stay = KeysStay::new(engine);
    let mut replay = Replay {
        turn,
        slot,
        session: Session::new(0),
        inbox: Arc::new(NoMailbox),
        output: Vec::new(),
        outcome: ReplayOutcome::default(),
    };
    work(&mut replay)
}

impl Replay<'_> {
    /// Starts a file, in database 0.
    pub fn begin_file(&mut self) {
        self.session = Session::new(0);
    }

    /// The result of the commands so far.
    pub fn outcome(&self) -> &ReplayOutcome {
        &self.outcome
    }

    /// Prefetches keys of commands that will run soon: those added to the returned value, when it
    /// is dropped.
    pub fn bring_near(&self) -> PrefetchKeys<'_> {
        let space = &self.turn.engine.space;
        PrefetchKeys { space, db: self.session.db, hashes: SmallVec::new() }
    }

    /// Runs one command.
    ///
    /// # Errors
    /// The server does not know the command, or cannot run it.
    pub fn run(&mut self, args: &[&[u8]]) -> Result<(), Refused> {
        let (engine, args) = (self.turn.engine, meant(args));
        let found = engine.registry.resolve_recorded(args).ok_or(Refused::Unknown)?;
        if !found.row.accepts(args.len()) {
            return Err(Refused::Not("a command with as many arguments as it takes"));
        }
        let is_outside = found.row.flags.intersects(Flags::OUTSIDE.union(Flags::OPERATOR));
        let gate = engine.space.gate();
        let _inside = (!is_outside).then(|| gate.enter(Role::Lane, self.slot));
        let target = ReplyTarget { inbox: &self.inbox, connection: 0, parking: 0, waited: None };
        let mut turn = self.turn;
        self.output.clear();
        loop {
            match turn.run(&mut self.session, found, args, &mut self.output, &target) {
                Verdict::Finished => break,
                // Another thread holds the partition, or all of them, for a moment.
                Verdict::Parked(Park::Token(locking)) => turn.locking = locking,
                Verdict::Parked(_) => turn.locking = Locking::Upfront,
                Verdict::Lane | Verdict::Blocked(_) => {
                    return Err(Refused::Not("a command that does not wait"));
                }
            }
            std::thread::yield_now();
        }
        self.outcome.commands += 1;
        match self.output.first() {
            Some(b'-') => self.note_error(args),
            _ => Ok(()),
        }
    }

    #[cold]
    fn note_error(&mut self, args: &[&[u8]]) -> Result<(), Refused> {
        self.outcome.errors += 1;
        self.turn.tally.unexpected_errors.add(1);
        let name = args.first().map(|name| name.escape_ascii().to_string());
        let answer = self.output.trim_ascii_end().escape_ascii();
        let told = format!("{}: {answer}", name.unwrap_or_default());
        self.outcome.first_error.get_or_insert_with(|| told.clone());
        self.outcome.last_error = Some(told);
        match self.turn.limited.settings.propagation_error_behavior {
            PropagationErrors::Panic => {
                Err(Refused::Not("a command that succeeds: propagation-error-behavior"))
            }
            PropagationErrors::Ignore | PropagationErrors::PanicOnReplicas => Ok(()),
        }
    }
}
