//! Steps of the stream, run by one thread on this server's data: as commands of a client to whom
//! nothing is refused.
//!
//! Keys are there until the stream says that they are gone, whatever their deadlines. Events,
//! messages and invalidations reach this server's clients, and its own append-only file has all.
//!
//! Invariants
//! 1. A transaction is one step for all who read.
//! 2. A command that fails, or that this server does not know, is counted and told, as Redis does;
//!    the next one runs. So it is with what is about no data: a primary has no say in the rest.
//! 3. Who waits for a partition waits outside the gate.
//!
//! Tests: compat/replication.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pantala_base::UnixMs;
use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::{
    CommandRef, Databases, Flags, Lane, Locking, OwnedArgs, Park, Queue, Session, options::is_word,
};
use pantala_engine::execute::{Turn, Verdict};
use pantala_engine::lane::LANE_SLOTS;
use pantala_engine::limits::Limited;
use pantala_engine::states::States;
use pantala_engine::stats::tallies::ThreadTally;
use pantala_engine::waiting::ReplyTarget;
use pantala_engine::{Mailbox, Message};
use pantala_journal::{Recorder, Stamp};
use pantala_keyspace::{DbIndex, Inbox};
use pantala_replication::link::Step;
use pantala_sync::gate::Role;

use crate::shared::Shared;

/// Every deadline is behind this.
const BEFORE_ALL: UnixMs = UnixMs(0);
/// So many steps run before whoever waits to be alone has a chance.
const TURN_STEPS: usize = 128;
/// So often a busy partition is looked at before the thread sleeps between two looks.
const QUICK_LOOKS: u32 = 32;
const SLOW_LOOK: Duration = Duration::from_micros(100);
/// So many failures of a link are told one by one.
const TOLD_ERRORS: u64 = 10;

/// Nobody is called here: what is applied never waits.
struct NoMailbox;

impl Inbox for NoMailbox {
    fn unpark(&self, _connection: u64, _parking: u32) {}

    fn wake(&self) {}
}

impl Mailbox for NoMailbox {
    fn leave(&self, _message: Message) {}
}

/// See the module.
pub struct Runner {
    shared: Arc<Shared>,
    /// Its slot of the gate.
    slot: usize,
    tally: Arc<ThreadTally>,
    recorder: Recorder,
    limited: Limited,
    settings_version: u64,
    session: Session,
    inbox: Arc<dyn Mailbox>,
    output: Vec<u8>,
    /// The primary wants to know how far this is.
    asks: bool,
}

/// How running a step ended.
enum Ran {
    Done,
    /// It has done nothing: somebody holds what it needs.
    Again(Locking),
}

impl Runner {
    /// The one of this number: one thread at a time uses it.
    pub fn new(shared: Arc<Shared>, number: usize) -> Runner {
        let engine = &shared.engine;
        Runner {
            slot: LANE_SLOTS + number,
            tally: engine.stats.tallies.join(),
            recorder: engine.journal.join(),
            limited: Limited::new(engine.settings.current()),
            settings_version: engine.settings.version(),
            session: Session::new(0),
            inbox: Arc::new(NoMailbox),
            output: Vec::new(),
            asks: false,
            shared,
        }
    }

    /// What runs next is meant for this database.
    pub fn select(&mut self, db: u32) {
        self.session.db = DbIndex(db);
    }

    /// The database that is selected.
    pub fn db(&self) -> u32 {
        self.session.db.0
    }

    /// The last step that was recorded here.
    pub fn last_step(&self) -> Stamp {
        self.recorder.last()
    }

    /// Whether the primary has asked how far this is, since the last time.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asks)
    }

    /// Runs the steps, in their order.
    pub fn run_all<'c>(&mut self, steps: impl Iterator<Item = Step<'c>>) {
        let engine = Arc::clone(&self.shared.engine);
        if self.settings_version != engine.settings.version() {
            self.settings_version = engine.settings.version();
            self.limited = Limited::new(engine.settings.current());
        }
        let mut steps = steps.peekable();
        let (mut locking, mut looks) = (Locking::Upfront, 0);
        while steps.peek().is_some() {
            match self.turn(&mut steps, locking) {
                Ran::Done => (locking, looks) = (Locking::Upfront, 0),
                // What is not done now is asked for again after the start.
                Ran::Again(_) if engine.condition.shutdown.is_final() => return,
                Ran::Again(wanted) => {
                    locking = wanted;
                    looks += 1;
                    match looks < QUICK_LOOKS {
                        true => std::thread::yield_now(),
                        false => std::thread::sleep(SLOW_LOOK),
                    }
                }
            }
        }
    }

    /// Runs some steps inside the gate, or one that has to be outside.
    fn turn<'c>(
        &mut self,
        steps: &mut std::iter::Peekable<impl Iterator<Item = Step<'c>>>,
        mut locking: Locking,
    ) -> Ran {
        let shared = Arc::clone(&self.shared);
        let gate = shared.engine.space.gate();
        let mut inside = None;
        for _ in 0..TURN_STEPS {
            let Some(step) = steps.peek() else { break };
            let is_outside = self.is_outside(step);
            if is_outside && inside.is_some() {
                break;
            }
            if !is_outside && inside.is_none() {
                inside = Some(gate.enter(Role::Lane, self.slot));
            }
            let ran = self.run_step(&shared, step, is_outside, locking);
            if let Ran::Again(_) = ran {
                self.recorder.hand_over();
                return ran;
            }
            locking = Locking::Upfront;
            steps.next();
            if is_outside {
                break;
            }
        }
        // Before the gate is left.
        self.recorder.hand_over();
        drop(inside);
        Ran::Done
    }

    fn is_outside(&self, step: &Step<'_>) -> bool {
        if step.is_transaction() {
            return false;
        }
        step.commands().next().is_some_and(|args| {
            let args: Vec<&[u8]> = args.take(2).collect();
            let found = self.shared.engine.registry.resolve_recorded(&args);
            found.is_some_and(|found| found.row.flags.has(Flags::OUTSIDE.and(Flags::OPERATOR)))
        })
    }

    fn run_step(
        &mut self,
        shared: &Shared,
        step: &Step<'_>,
        is_outside: bool,
        locking: Locking,
    ) -> Ran {
        if step.is_transaction() {
            return self.run_together(shared, step, locking);
        }
        let Some(args) = step.commands().next() else { return Ran::Done };
        let args: smallvec::SmallVec<[&[u8]; 8]> = args.collect();
        match &*args {
            [name] if is_word(name, "PING") => Ran::Done,
            [name, what, ..] if is_word(name, "REPLCONF") => {
                self.asks |= is_word(what, "GETACK");
                Ran::Done
            }
            args => match self.known(shared, args) {
                Some(found) => self.run(shared, found, args, is_outside, locking),
                None => Ran::Done,
            },
        }
    }

    /// The command, if it is one; else that is told.
    fn known(&mut self, shared: &Shared, args: &[&[u8]]) -> Option<CommandRef> {
        let found = shared.engine.registry.resolve_recorded(args);
        let found = found.filter(|found| found.row.accepts(args.len()));
        match found {
            None => self.note_error(args, b"this server knows no such command"),
            Some(found) if !is_about_data(found) => {
                self.note_error(args, b"no command for a stream");
                return None;
            }
            Some(_) => {}
        }
        found
    }

    /// A transaction: nothing of it runs where one of its commands is unknown, as in Redis.
    fn run_together(&mut self, shared: &Shared, step: &Step<'_>, locking: Locking) -> Ran {
        let mut queue = Queue::default();
        for args in step.commands() {
            let args: Vec<&[u8]> = args.collect();
            let Some(found) = self.known(shared, &args) else { return Ran::Done };
            queue.push(found, OwnedArgs::of(&args), args.len());
        }
        if queue.commands.is_empty() {
            return Ran::Done;
        }
        let Some(exec) = shared.engine.registry.resolve_recorded(&[b"EXEC"]) else {
            return Ran::Done;
        };
        self.session.multi = Some(Arc::new(queue));
        self.run(shared, exec, &[b"EXEC"], false, locking)
    }

    fn run(
        &mut self,
        shared: &Shared,
        found: CommandRef,
        args: &[&[u8]],
        is_outside: bool,
        locking: Locking,
    ) -> Ran {
        let now = (unix_ms(), monotonic_us());
        let thread = (&*self.tally, &self.recorder);
        let turn = Turn::new(shared, thread, &self.limited, Lane::Slow, now);
        let turn = Turn {
            // Outside the gate the journal may be turned on at any moment.
            recorder: if is_outside { Some(&self.recorder) } else { turn.recorder },
            now: BEFORE_ALL,
            states: States::NONE,
            is_timed: false,
            may_wait: false,
            sees_expired: true,
            locking,
            ..turn
        };
        let target = ReplyTarget { inbox: &self.inbox, connection: 0, parking: 0, waited: None };
        self.output.clear();
        let verdict = turn.run(&mut self.session, found, args, &mut self.output, &target);
        match verdict {
            Verdict::Finished => {}
            Verdict::Parked(Park::Token(wanted)) => return Ran::Again(wanted),
            Verdict::Lane | Verdict::Blocked(_) | Verdict::Parked(Park::Errand | Park::Keys(_)) => {
                self.session.errand = None;
                self.note_error(args, b"it would wait");
                return Ran::Done;
            }
            Verdict::Parked(_) => return Ran::Again(Locking::Upfront),
        }
        if self.output.first() == Some(&b'-') {
            let answer = std::mem::take(&mut self.output);
            self.note_error(args, answer.trim_ascii_end());
            self.output = answer;
        }
        // What it answers is for nobody, however long it is.
        (self.session.closing, self.session.multi) = (false, None);
        Ran::Done
    }

    #[cold]
    fn note_error(&mut self, args: &[&[u8]], why: &[u8]) {
        let errors = &self.shared.replication.following.errors;
        if errors.fetch_add(1, Ordering::Relaxed) < TOLD_ERRORS {
            let name = args.first().map(|name| name[..name.len().min(64)].escape_ascii());
            let (name, why) = (name.map(|name| name.to_string()), why.escape_ascii());
            let command = name.unwrap_or_default();
            tracing::error!(command, "a command of the primary has failed here: {why}");
        }
    }
}

/// Whether a primary may tell a replica to do this: what changes data or is told to others, and the
/// choice of a database.
fn is_about_data(found: CommandRef) -> bool {
    let flags = found.row.flags;
    let is_meant = flags.has(Flags::WRITE.and(Flags::MAY_REPLICATE).and(Flags::SCRIPT))
        || matches!(found.row.databases, Databases::Selects);
    is_meant && !flags.has(Flags::ADMIN)
}
