//! FAILOVER: this primary and one of its replicas exchange roles without losing a write.
//!
//! ```text
//! WaitingForSync   writes wait; a replica has all that was written, or the time is over
//! InProgress       this server follows it, and asks it to take over: PSYNC id position FAILOVER
//! ```
//!
//! Invariants
//! 1. From the first step to the last no client changes data.
//! 2. However the failover ends, writes are no longer held back afterwards: they run here, or are
//!    refused because this server is a replica.
//!
//! Tests: compat/replication, crates/simulator.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use pantala_engine::condition::states::States;
use pantala_keyspace::HideReason;
use pantala_psync::{Phase, Replica};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::primary::address;
use super::replica::{self, Primary};
use crate::Replication;
use pantala_durability::journaling;
use pantala_engine::Message;

/// How often the positions of replicas are checked.
const LOOK: Duration =
    if cfg!(test) { Duration::from_micros(50) } else { Duration::from_millis(5) };
/// How soon taking the role back is tried again after a failure.
const RETRY: Duration = Duration::from_millis(500);
/// How long the replica may take for the last bytes, which the server itself has written.
const MOST_LAST: Duration = Duration::from_secs(3);

/// The stage of a FAILOVER.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailoverStep {
    /// None is under way.
    #[default]
    Nothing,
    /// A replica is to catch up.
    WaitingForSync,
    /// The replica is asked to take over.
    InProgress,
}

impl FailoverStep {
    /// The word in INFO.
    pub fn word(self) -> &'static str {
        match self {
            FailoverStep::Nothing => "no-failover",
            FailoverStep::WaitingForSync => "waiting-for-sync",
            FailoverStep::InProgress => "failover-in-progress",
        }
    }
}

/// The options of a FAILOVER.
#[derive(Clone, Debug, Default)]
pub struct FailoverRequest {
    /// The replica to take over; `None`: the first that has caught up.
    pub target: Option<Primary>,
    /// How long to wait for it; `None`: for ever.
    pub timeout: Option<Duration>,
    /// It takes over even if it lacks something by then.
    pub is_forced: bool,
}

/// The FAILOVER under way, if any.
#[derive(Default)]
pub struct Failover {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    step: FailoverStep,
    is_aborted: bool,
    is_forced: bool,
    /// A link has asked the replica to take over, and may have ended before the answer.
    has_asked: bool,
    /// The answer of the replica: whether it takes over.
    answer: Option<bool>,
    /// How often the positions of replicas were checked.
    looks: u64,
}

impl Failover {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The stage. `Nothing` also once it was aborted before the roles changed.
    pub fn step(&self) -> FailoverStep {
        match &*self.state() {
            State { step: FailoverStep::WaitingForSync, is_aborted: true, .. } => {
                FailoverStep::Nothing
            }
            state => state.step,
        }
    }

    /// Whether one is under way, for which all writes wait.
    pub fn is_under_way(&self) -> bool {
        self.state().step != FailoverStep::Nothing
    }

    /// Aborts it; false if there is none.
    pub fn abort(&self) -> bool {
        let mut state = self.state();
        state.is_aborted = true;
        self.changed.notify_all();
        state.step != FailoverStep::Nothing
    }

    /// Whether it was aborted.
    pub fn is_aborted(&self) -> bool {
        self.state().is_aborted
    }

    /// How often the positions of replicas were checked.
    pub fn looks(&self) -> u64 {
        self.state().looks
    }

    /// Waits until the next check; whether it was aborted.
    fn pause(&self) -> bool {
        let mut state = self.state();
        state.looks += 1;
        let waits = |state: &mut State| !state.is_aborted;
        let _timed_out = self.changed.wait_while_for(&mut state, waits, LOOK);
        state.is_aborted
    }

    /// Notes the answer of the replica that was asked to take over.
    pub fn answered(&self, takes_over: bool) {
        let mut state = self.state();
        if state.step == FailoverStep::InProgress {
            state.answer = Some(takes_over);
            self.changed.notify_all();
        }
    }

    /// Whether the replica is to take over even if it lacks something.
    pub fn is_forced(&self) -> bool {
        self.state().is_forced
    }

    /// Whether to ask the replica to take over.
    pub fn is_asking(&self) -> bool {
        let state = self.state();
        state.step == FailoverStep::InProgress && state.answer.is_none() && !state.is_aborted
    }

    /// Notes that the replica is asked now.
    pub fn asks(&self) {
        self.state().has_asked = true;
    }

    /// Whether it was asked before and has not answered: it may have taken over.
    pub fn has_asked(&self) -> bool {
        let state = self.state();
        state.step == FailoverStep::InProgress && state.has_asked && state.answer.is_none()
    }
}

/// Begins a FAILOVER on a thread of its own; false if one is under way.
///
/// # Errors
/// The system has no thread.
pub fn begin(replication: &Arc<Replication>, wanted: FailoverRequest) -> Result<bool, String> {
    let failover = &replication.failover;
    {
        let mut state = failover.state();
        if state.step != FailoverStep::Nothing {
            return Ok(false);
        }
        let (step, is_forced) = (FailoverStep::WaitingForSync, wanted.is_forced);
        *state = State { step, is_forced, ..State::default() };
    }
    let of_thread = Arc::clone(replication);
    let life = move || {
        run(&of_thread, &wanted);
        pantala_memory::release_seat();
    };
    let spawned = Builder::new().name("failover".into()).spawn(life);
    spawned.map(|_detached| true).map_err(|error| {
        *failover.state() = State::default();
        format!("cannot start a thread: {error}")
    })
}

fn run(replication: &Arc<Replication>, wanted: &FailoverRequest) {
    // Another holder of `writes_wait` ends first.
    let _held = replication.durability.writes_wait.lock();
    debug_assert!(replication.failover.is_under_way(), "it was begun");
    hold_writes(replication);
    match hand_over(replication, wanted) {
        Ok(to) => tracing::info!(to, "FAILOVER: the roles have changed"),
        Err(why) => {
            tracing::warn!("Aborting failover: {why}");
            take_back(replication);
        }
    }
    release_writes(replication);
}

/// Holds writes back until this replica has all of them, commits, and waits until this server is no
/// primary any more. `commit` is given the end of the stream. Only on a thread that may wait,
/// outside the gate.
///
/// # Errors
/// Another failover is under way, the replica has not caught up in time, or the commit has failed:
/// this server goes on as a primary.
pub fn yield_role(
    replication: &Arc<Replication>,
    wanted: &FailoverRequest,
    commit: &mut dyn FnMut(u64) -> Result<(), String>,
) -> Result<(), String> {
    {
        let mut state = replication.failover.state();
        if state.step != FailoverStep::Nothing {
            return Err("another failover is under way".into());
        }
        *state = State { step: FailoverStep::WaitingForSync, ..State::default() };
    }
    // Another holder of `writes_wait` ends first.
    let _held = replication.durability.writes_wait.lock();
    hold_writes(replication);
    let yielded = wait_and_commit(replication, wanted, commit);
    release_writes(replication);
    yielded
}

fn wait_and_commit(
    replication: &Replication,
    wanted: &FailoverRequest,
    commit: &mut dyn FnMut(u64) -> Result<(), String>,
) -> Result<(), String> {
    let end = journaling::begin_to_feed(&replication.durability)?;
    wait_for_replica(replication, wanted, end)?;
    commit(replication.downstream.stream.end())?;
    let following = &replication.following;
    let since = following.now();
    while !replication.is_replica() && following.now().duration_since(since) < MOST_LAST {
        if replication.failover.pause() {
            break;
        }
    }
    Ok(())
}

fn hold_writes(replication: &Replication) {
    debug_assert!(replication.failover.is_under_way(), "it was begun");
    replication.engine.condition.lasting.begin(States::PAUSED_WRITES);
    replication.engine.space.hide_expired(HideReason::Replica, true);
}

/// Writes go on: here, or they are refused.
fn release_writes(replication: &Replication) {
    if !replication.is_replica() {
        replication.engine.space.hide_expired(HideReason::Replica, false);
    }
    debug_assert!(replication.failover.is_under_way(), "it ends once");
    *replication.failover.state() = State::default();
    replica::settings_changed(replication, &replication.engine.settings.current());
    replication.engine.resume_writes();
    replication.engine.workers.post_all(&|| Message::PauseChanged);
}

/// Makes this server a primary again. A script that does not end may delay that, but if this gave
/// up there would be no primary.
fn take_back(replication: &Replication) {
    let shutdown = &replication.engine.condition.shutdown;
    while let Err(why) = replica::promote(replication) {
        tracing::error!("this server is not a primary again yet: {why}");
        // A SHUTDOWN that saves waits for this.
        if shutdown.pause_for(RETRY) || shutdown.is_preparing() {
            return;
        }
    }
}

fn hand_over(replication: &Arc<Replication>, wanted: &FailoverRequest) -> Result<String, String> {
    let end = journaling::begin_to_feed(&replication.durability)?;
    let target = wait_for_replica(replication, wanted, end)?;
    let failover = &replication.failover;
    let (host, port) = address(&target);
    let name = format!("{host}:{port}");
    let had_all = has_all(&target, end);
    replica::hand_over(replication, &Primary { host: host.to_string(), port }, &|| {
        // What the server itself has written meanwhile; without it a full copy would be needed.
        let following = &replication.following;
        let (since, end) = (following.now(), replication.downstream.stream.end());
        let is_late = || following.now().duration_since(since) >= MOST_LAST;
        while had_all && !has_all(&target, end) && !is_late() && !failover.pause() {}
        // Only now, when no client takes this server for a primary any more.
        let mut state = failover.state();
        debug_assert_eq!(state.step, FailoverStep::WaitingForSync, "steps follow each other");
        debug_assert!(state.answer.is_none(), "nobody was asked yet");
        state.step = FailoverStep::InProgress;
    })?;
    let waits = |state: &mut State| state.answer.is_none() && !state.is_aborted;
    let mut state = failover.state();
    failover.changed.wait_while(&mut state, waits);
    match state.answer {
        Some(true) => Ok(name),
        Some(false) => Err(format!("Failover target rejected psync request: {name}")),
        None => Err("Failover manually aborted".into()),
    }
}

fn has_all(replica: &Replica, end: u64) -> bool {
    replica.phase() == Phase::Online && replica.acknowledged().has(end)
}

/// Whether `target` means this replica.
pub fn is_meant(replica: &Replica, target: &Primary) -> bool {
    let (host, port) = address(replica);
    port == target.port && host.to_string().eq_ignore_ascii_case(&target.host)
}

/// Waits for the replica that has everything before `end`, or that takes over by force.
fn wait_for_replica(
    replication: &Replication,
    wanted: &FailoverRequest,
    end: u64,
) -> Result<Arc<Replica>, String> {
    let following = &replication.following;
    let began = following.now();
    replication.durability.appending.ask_replicas(&replication.engine.journal);
    loop {
        let is_wanted =
            |one: &&Arc<Replica>| wanted.target.as_ref().is_none_or(|target| is_meant(one, target));
        let all = replication.downstream.replicas.all();
        if let Some(ready) = all.iter().filter(is_wanted).find(|one| has_all(one, end)) {
            return Ok(Arc::clone(ready));
        }
        let passed = following.now().duration_since(began);
        let is_late = wanted.timeout.is_some_and(|timeout| passed >= timeout);
        if is_late && wanted.is_forced {
            tracing::warn!("FAILOVER time out exceeded, failing over.");
            let target = all.iter().find(is_wanted);
            return target.cloned().ok_or_else(|| "the replica has gone".into());
        }
        if is_late {
            return Err("Replica never caught up before timeout".into());
        }
        if replication.failover.pause() || replication.engine.condition.shutdown.is_final() {
            return Err("Failover manually aborted".into());
        }
    }
}
