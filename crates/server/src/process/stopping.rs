//! Stopping on demand: by SHUTDOWN, or by a signal. Replicas get what they lack, for as long as
//! `shutdown-timeout` allows, and what is to be saved is saved first.
//!
//! While that lasts changes of data wait, so that what was acknowledged is in the file; reads go
//! on. If saving fails the server runs on, unless it was told to end all the same.
//!
//! Invariants
//! 1. A save that makes progress is waited for, however long it takes; that its moment comes, for
//!    so long as `CUT_MOST`.
//!
//! Tests: compat/bad_days (`persistence`); compat/transcripts/server/shutdown.txt.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_engine::condition::shutdown::Preparing;
use pantala_engine::condition::states::States;
use pantala_replication::Replica;

use super::files::journaling;
use super::files::saving::{self, Unsaved};
use super::system::supervision::News;
use crate::replication::primary::name;
use crate::shared::Shared;
use crate::workers::inbox::Message;

/// So long at most it may take until nobody is in the midst of something: a script that does not
/// end and cannot be undone.
const CUT_MOST: Duration = Duration::from_secs(5);
/// How often it is looked whether to give up.
const LOOK: Duration = Duration::from_millis(20);

/// How to stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Whether to save; `None`: if there are save points.
    pub saves: Option<bool>,
    /// Whether to end also where saving fails.
    pub is_forced: bool,
    /// Whether replicas are not waited for.
    pub is_now: bool,
}

/// Why the server runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// It could not save.
    Unsaved,
    /// Somebody is in the midst of something that does not end.
    Held,
    /// ABORT.
    Aborted,
}

impl How {
    /// Whether something is to be saved first.
    pub fn saves(self, shared: &Shared) -> bool {
        let is_loading = shared.engine.condition.lasting.now().has(States::LOADING);
        let has_points = || !shared.engine.settings.current().save.0.is_empty();
        !is_loading && self.saves.unwrap_or_else(has_points)
    }

    /// Whether something is to be done before the end.
    pub fn prepares(self, shared: &Shared) -> bool {
        let awaits_file = !self.is_forced && How::awaits_file(shared);
        self.saves(shared) || awaits_file || self.awaits_replicas(shared)
    }

    /// Whether replicas are waited for.
    fn awaits_replicas(self, shared: &Shared) -> bool {
        let timeout_s = shared.engine.settings.current().shutdown_timeout_s;
        !self.is_now && timeout_s > 0 && !shared.replication.replicas.is_empty()
    }

    /// Whether the first append-only file is being written.
    fn awaits_file(shared: &Shared) -> bool {
        let is_loading = shared.engine.condition.lasting.now().has(States::LOADING);
        !is_loading && shared.appending.begins_file()
    }
}

/// Saves if that is wanted, and tells the server to stop. Only on threads that may wait, outside
/// the gate.
///
/// # Errors
/// The server runs on.
pub fn stop(shared: &Shared, how: How) -> Result<(), RunsOn> {
    let shutdown = &shared.engine.condition.shutdown;
    if !how.prepares(shared) {
        shutdown.begin();
        return Ok(());
    }
    let Some(preparing) = shutdown.prepare() else {
        return if shutdown.wait_for_preparing() { Ok(()) } else { Err(RunsOn::Unsaved) };
    };
    let holds_writes = how.awaits_replicas(shared);
    if holds_writes {
        wait_for_replicas(shared, &preparing);
    }
    let prepared = prepare(shared, how, &preparing);
    if prepared.is_err() && holds_writes {
        let_writes_go_on(shared);
    }
    prepared?;
    // Before `preparing` ends: who waits for it must not take this for a failure.
    shutdown.begin();
    Ok(())
}

/// Sees to it that nothing is lost that is to be kept.
fn prepare(shared: &Shared, how: How, preparing: &Preparing<'_>) -> Result<(), RunsOn> {
    if preparing.is_aborted() {
        return Err(RunsOn::Aborted);
    }
    if how.saves(shared) {
        match save(shared, preparing) {
            Err(why) if !how.is_forced || why == RunsOn::Aborted => return Err(why),
            Err(_) => tracing::error!("the server stops all the same: what is not saved is lost"),
            Ok(()) => {}
        }
    } else if !how.is_forced && How::awaits_file(shared) {
        tracing::info!("the append-only file is being begun: the server stops when it is there");
        while How::awaits_file(shared) && !preparing.is_aborted() {
            shared.engine.condition.shutdown.pause_for(LOOK);
        }
    }
    if preparing.is_aborted() { Err(RunsOn::Aborted) } else { Ok(()) }
}

/// Holds changes of data back from now on, and waits until replicas have those before, or for
/// `shutdown-timeout`.
fn wait_for_replicas(shared: &Shared, preparing: &Preparing<'_>) {
    let timeout_s = shared.engine.settings.current().shutdown_timeout_s;
    let until_us = monotonic_us() + u64::from(timeout_s) * 1_000_000;
    preparing.wait_for_replicas(until_us);
    tracing::info!("waiting for replicas before the server stops");
    shared.engine.condition.lasting.begin(States::PAUSED_WRITES);
    let replication = &shared.replication;
    // Who has begun before that ends first.
    let end = match replication.is_replica() {
        true => Ok(replication.stream.end()),
        false => journaling::begin_to_feed(shared),
    };
    let Ok(end) = end else { return preparing.wait_for_replicas(0) };
    let is_behind = |replica: &Arc<Replica>| replica.acknowledged().position < end;
    let has_lagging = || replication.replicas.all().iter().any(is_behind);
    // The question is in the stream itself: without need there is none.
    if has_lagging() {
        replication.waiters.join();
        shared.appending.ask_replicas(&shared.engine.journal);
        while !preparing.is_aborted() && monotonic_us() < until_us && has_lagging() {
            shared.engine.condition.shutdown.pause_for(LOOK);
        }
        replication.waiters.leave();
    }
    preparing.wait_for_replicas(0);
    let all = replication.replicas.all();
    let behind = all.iter().filter(|replica| is_behind(replica));
    let count = behind
        .inspect(|replica| {
            let (replica, offset) = (name(replica), replica.acknowledged().position);
            tracing::warn!(replica, offset, "a replica has not got everything");
        })
        .count();
    tracing::info!("{} of {} replicas have everything", all.len() - count, all.len());
}

fn let_writes_go_on(shared: &Shared) {
    shared.engine.resume_writes();
    shared.workers.post_all(|| Message::PauseChanged);
    shared.supervisor.runs_on();
}

/// Saves with all changes of data held back; on an error they go on.
fn save(shared: &Shared, preparing: &Preparing<'_>) -> Result<(), RunsOn> {
    tracing::info!("saving a snapshot before the server stops");
    shared.supervisor.tell(News::Saving);
    let lasting = &shared.engine.condition.lasting;
    // A DEBUG RELOAD ends first: after it writes would go on.
    let held = shared.writes_wait.lock().unwrap_or_else(PoisonError::into_inner);
    lasting.begin(States::PAUSED_WRITES);
    if shared.saves.cancel_and_wait() {
        tracing::info!("the snapshot that was being written is written anew");
    }
    shared.replication.primary.cancel_and_wait();
    let saved = keep_from_rewriting(shared, preparing).and_then(|()| {
        save_watched(shared, preparing).inspect_err(|_| shared.appending.forgo_rewrite())
    });
    if saved.is_err() {
        let_writes_go_on(shared);
    }
    drop(held);
    saved
}

/// Waits for the end of a rewrite of the append-only file, and has no other begin: there is one
/// snapshot at a time.
fn keep_from_rewriting(shared: &Shared, preparing: &Preparing<'_>) -> Result<(), RunsOn> {
    while shared.appending.begin_rewrite(monotonic_us()).is_none() {
        if preparing.is_aborted() {
            return Err(RunsOn::Aborted);
        }
        shared.engine.condition.shutdown.pause_for(LOOK);
    }
    Ok(())
}

/// Saves, and looks meanwhile whether to give up.
fn save_watched(shared: &Shared, preparing: &Preparing<'_>) -> Result<(), RunsOn> {
    let Some(of_thread) = shared.arc() else { return Err(RunsOn::Unsaved) };
    let (ended, until_ended) = channel();
    let life = move || {
        // Nobody waits any more for one that came too late.
        let _late = ended.send(saving::save(&of_thread));
        pantala_memory::release_seat();
    };
    if let Err(error) = Builder::new().name("save".into()).spawn(life) {
        tracing::error!("cannot start a thread: {error}");
        return Err(RunsOn::Unsaved);
    }
    let began_us = monotonic_us();
    loop {
        match until_ended.recv_timeout(LOOK) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(Unsaved::Held)) => return Err(RunsOn::Held),
            Ok(Err(_)) if preparing.is_aborted() => return Err(RunsOn::Aborted),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(RunsOn::Unsaved),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(save) = shared.saves.current() else { continue };
        let waited = Duration::from_micros(monotonic_us().saturating_sub(began_us));
        let is_held = !save.is_cut() && waited > CUT_MOST;
        if is_held || preparing.is_aborted() {
            save.cancel();
        }
        if is_held {
            return Err(RunsOn::Held);
        }
    }
}
