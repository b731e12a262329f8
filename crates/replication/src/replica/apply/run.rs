//! Runs steps of the stream on one thread, as commands of a client that is refused nothing.
//!
//! ```text
//! run --> turn: inside the gate, many steps --> group: partitions held together, keys prefetched
//!         |                                 --> one step alone
//!         outside it, one step
//! ```
//!
//! Keys stay until the stream removes them, whatever their deadlines. Events, messages and
//! invalidations reach this server's clients, and its own append-only file records everything.
//!
//! Invariants
//! 1. For all readers a transaction is one step.
//! 2. A command that fails, or that this server does not know, is counted and logged, as Redis
//!    does; the next one runs. A command that is not about data is treated in the same way: a
//!    primary decides only about data.
//! 3. The thread waits for partitions only outside the gate.
//!
//! Not here: what runs within a turn (`step`). Tests: compat/replication.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pantala_base::UnixMs;
use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::{Flags, Lane, Locking, Server, Session};
use pantala_engine::condition::states::States;
use pantala_engine::engine::limits::Limited;
use pantala_engine::execute::Turn;
use pantala_engine::lane::LANE_SLOTS;
use pantala_engine::stats::tallies::ThreadTally;
use pantala_engine::{Mailbox, NoMailbox};
use pantala_journal::{Recorder, Stamp};
use pantala_keyspace::DbIndex;
use pantala_sync::gate::Role;

use super::batch::{Batch, StepKind, StepSummary};
use super::share::{Share, Work};
use super::step::{ApplyContext, StepOutcome};
use crate::Replication;

/// A time before all deadlines.
const BEFORE_ALL: UnixMs = UnixMs(0);
/// The most steps in one turn, after which threads that want the gate closed have a chance.
const TURN_STEPS: usize = 128;
/// How often a busy partition is tried before the thread sleeps between two tries.
const QUICK_LOOKS: u32 = 32;
const SLOW_LOOK: Duration = Duration::from_micros(100);

/// What one thread needs to run steps of the stream: slot of the gate, tally, recorder, limits,
/// sessions.
pub struct Runner {
    replication: Arc<Replication>,
    /// Runs the commands of the stream.
    server: Arc<dyn Server>,
    /// Its slot of the gate.
    slot: usize,
    tally: Arc<ThreadTally>,
    recorder: Recorder,
    limited: Limited,
    settings_version: u64,
    session: Session,
    inbox: Arc<dyn Mailbox>,
    output: Vec<u8>,
    /// The primary has asked for an acknowledgement.
    asks: bool,
}

impl Runner {
    /// The runner with this number. One thread at a time uses it.
    pub fn new(replication: Arc<Replication>, number: usize) -> Runner {
        let engine = &replication.engine;
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
            server: replication.server(),
            replication,
        }
    }

    /// Selects the database for what runs next.
    pub fn select(&mut self, db: u32) {
        debug_assert!(db < self.replication.engine.space.database_count(), "there is such one");
        self.session.db = DbIndex(db);
    }

    /// The selected database.
    pub fn db(&self) -> u32 {
        self.session.db.0
    }

    /// The last step that was recorded here.
    pub fn last_step(&self) -> Stamp {
        self.recorder.last()
    }

    /// Whether the primary has asked for an acknowledgement since the last call.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asks)
    }

    /// Runs these steps of a batch that belong to its share, in order.
    pub fn run(&mut self, batch: &Batch, range: Range<usize>, share: Share) {
        let engine = Arc::clone(&self.replication.engine);
        if self.settings_version != engine.settings.version() {
            self.settings_version = engine.settings.version();
            self.limited = Limited::new(engine.settings.current());
        }
        let mut work = Work::new(batch, range, share);
        let (mut locking, mut looks) = (Locking::Upfront, 0);
        let following = &Arc::clone(&self.replication).following;
        while let Some((_, look)) = work.peek() {
            // An earlier step has failed, or its script was ended: the data will be copied anew.
            if following.is_cut_short() {
                return;
            }
            let ran = match is_outside(look) {
                true => self.turn_outside(&mut work, locking),
                false => self.turn(&mut work, locking),
            };
            match ran {
                StepOutcome::Done => (locking, looks) = (Locking::Upfront, 0),
                // What is not done now is requested again after the start.
                StepOutcome::Again(_)
                    if engine.condition.shutdown.is_final() || following.gives_up() =>
                {
                    return following.cut_short();
                }
                StepOutcome::Again(wanted) => {
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

    /// Runs some steps inside the gate.
    fn turn(&mut self, work: &mut Work<'_>, locking: Locking) -> StepOutcome {
        let replication = Arc::clone(&self.replication);
        let inside = replication.engine.space.gate().enter(Role::Lane, self.slot);
        let mut means = self.means(&replication, false);
        means.turn.locking = locking;
        let (mut count, mut ran) = (0, StepOutcome::Done);
        while count < TURN_STEPS
            && matches!(ran, StepOutcome::Done)
            && let Some((number, look)) = work.peek()
            && !is_outside(look)
        {
            let grouped = if look.kind == StepKind::Grouped { means.run_group(work) } else { 0 };
            if grouped == 0 {
                ran = means.run_step(work.batch, number, work.share);
                if matches!(ran, StepOutcome::Done) {
                    work.has_run(number);
                }
                means.turn.locking = Locking::Upfront;
            }
            count += grouped.max(1);
        }
        // Before the gate is left.
        self.recorder.hand_over();
        drop(inside);
        ran
    }

    /// Runs a step that has to be outside the gate.
    fn turn_outside(&mut self, work: &mut Work<'_>, locking: Locking) -> StepOutcome {
        let Some((number, _)) = work.peek() else { return StepOutcome::Done };
        let replication = Arc::clone(&self.replication);
        let mut means = self.means(&replication, true);
        means.turn.locking = locking;
        let ran = means.run_step(work.batch, number, work.share);
        if matches!(ran, StepOutcome::Done) {
            work.has_run(number);
        }
        self.recorder.hand_over();
        ran
    }

    /// What the steps of one turn are run with.
    fn means<'t>(&'t mut self, replication: &'t Replication, is_outside: bool) -> ApplyContext<'t> {
        let Runner { server, tally, recorder, limited, session, inbox, output, asks, .. } = self;
        let (recorder, now_us) = (&*recorder, monotonic_us());
        let turn =
            Turn::new(&**server, (tally, recorder), limited, Lane::Slow, (unix_ms(), now_us));
        let turn = Turn {
            // Outside the gate the journal may be turned on at any moment.
            recorder: if is_outside { Some(recorder) } else { turn.recorder },
            now: BEFORE_ALL,
            states: States::NONE,
            is_timed: false,
            may_wait: false,
            sees_expired: true,
            ..turn
        };
        let runs_alone = turn.is_monitored || turn.is_traced || turn.hot_keys.is_on();
        ApplyContext {
            replication,
            turn,
            runs_alone,
            clock_us: now_us,
            session,
            inbox,
            output,
            asks,
        }
    }
}

fn is_outside(look: &StepSummary) -> bool {
    look.found
        .is_some_and(|found| found.row.flags.intersects(Flags::OUTSIDE.union(Flags::OPERATOR)))
}
