//! Stopping on demand: by SHUTDOWN, or by a signal. Before the server ends, replicas get what they
//! lack, for as long as `shutdown-timeout` allows, a snapshot is written if that is wanted, and the
//! append-only file gets what was acknowledged.
//!
//! Meanwhile writes wait, so that what was acknowledged is in the file; reads go on. If saving
//! fails the server runs on, unless it was told to end in any case.
//!
//! Invariants
//! 1. A save that makes progress is waited for, however long it takes; its cut for at most
//!    `CUT_MOST`.
//! 2. While the server is being stopped no other snapshot or rewrite begins. If it runs on, both
//!    may begin again and writes go on: see [`StopReservations`].
//! 3. The reason for running on is in the log. The log tells of a stop in the words of Redis and
//!    Valkey, which operators and tools search for.
//!
//! Tests: at the foot; compat/bad_days (`persistence`); compat/transcripts/server/shutdown.txt.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_engine::condition::shutdown::ShutdownPermit;
use pantala_engine::condition::states::States;
use pantala_psync::Replica;
use parking_lot::MutexGuard;

use super::system::supervision::SupervisorNotice;
use crate::shared::Shared;
use pantala_durability::journaling;
use pantala_durability::saving::{self, SaveFailure};
use pantala_engine::Message;
use pantala_operator::parts::stop_mode::StopMode;
use pantala_replication::primary::name;

/// How long the cut may take: a script that does not end and cannot be undone may be in the way.
const CUT_MOST: Duration = Duration::from_secs(5);
/// How long the append-only file waits for turns that have begun. A worker's takes less; what takes
/// longer, on the lane, is not acknowledged before its end.
const TURNS_MOST: Duration = Duration::from_secs(1);
/// How often is checked whether to give up.
const LOOK: Duration = Duration::from_millis(20);

/// Why the server runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// It could not save.
    Unsaved,
    /// A command inside the gate does not end.
    Held,
    /// ABORT.
    Aborted,
}

impl fmt::Display for RunsOn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            RunsOn::Unsaved => "its data could not be saved",
            RunsOn::Held => "a script does not end, and has written",
            RunsOn::Aborted => "SHUTDOWN ABORT has called the stop off",
        })
    }
}

/// What was taken for the preparations. Dropping it gives everything back, unless the server stops.
struct StopReservations<'s> {
    shared: &'s Shared,
    holds_writes: bool,
}

impl<'s> StopReservations<'s> {
    /// Takes the right to begin a snapshot or a rewrite away from all others.
    fn begin(shared: &'s Shared) -> Self {
        shared.durability.saves.keep_for_stop(true);
        shared.durability.appending.begin_no_more(true);
        StopReservations { shared, holds_writes: false }
    }

    /// Holds writes back from now on.
    fn hold_writes(&mut self) {
        self.holds_writes = true;
        self.shared.engine.condition.lasting.begin(States::PAUSED_WRITES);
    }

    /// Waits for the end of a rewrite of the append-only file: only one snapshot is written at a
    /// time.
    fn wait_for_rewrite(&self, preparing: &ShutdownPermit<'_>) -> Result<(), RunsOn> {
        if self.shared.durability.appending.is_rewriting() {
            tracing::info!("waiting for a rewrite of the append-only file to end");
        }
        while self.shared.durability.appending.is_rewriting() {
            if preparing.is_aborted() {
                return Err(RunsOn::Aborted);
            }
            self.shared.engine.condition.shutdown.pause_for(LOOK);
        }
        Ok(())
    }
}

impl Drop for StopReservations<'_> {
    fn drop(&mut self) {
        let StopReservations { shared, holds_writes } = *self;
        if shared.engine.condition.shutdown.is_final() {
            return;
        }
        shared.durability.saves.keep_for_stop(false);
        shared.durability.appending.begin_no_more(false);
        if holds_writes {
            shared.engine.resume_writes();
            shared.engine.workers.post_all(&|| Message::PauseChanged);
            shared.supervisor.runs_on();
        }
    }
}

/// Saves if that is wanted, and tells the server to stop. Only on threads that may wait, outside
/// the gate.
///
/// # Errors
/// The server runs on.
pub fn stop(shared: &Shared, how: StopMode) -> Result<(), RunsOn> {
    let shutdown = &shared.engine.condition.shutdown;
    if how.is_forced && shared.durability.appending.begins_file() {
        tracing::warn!("Writing initial AOF. Exit anyway.");
    }
    pantala_operator::cluster::hand_over_role(&shared.operator);
    if !how.prepares(&shared.replication) {
        pantala_operator::cluster::leave(&shared.operator);
        shutdown.begin();
        return Ok(());
    }
    let Some(preparing) = shutdown.prepare() else {
        return if shutdown.wait_for_preparing() { Ok(()) } else { Err(RunsOn::Unsaved) };
    };
    let stopped = stop_prepared(shared, how, &preparing);
    // Logged before another thread can begin to prepare.
    stopped.inspect_err(|&why| tell_runs_on(why))
}

fn tell_runs_on(why: RunsOn) {
    match why {
        // SHUTDOWN ABORT has logged it.
        RunsOn::Aborted => return,
        RunsOn::Unsaved => tracing::error!("Error trying to save the DB, can't exit."),
        RunsOn::Held => {}
    }
    tracing::error!(
        "Errors trying to shut down the server. Check the logs for more information: {why}"
    );
}

fn stop_prepared(
    shared: &Shared,
    how: StopMode,
    preparing: &ShutdownPermit<'_>,
) -> Result<(), RunsOn> {
    let needs_right = how.awaits_replicas(&shared.replication)
        || how.saves(&shared.replication)
        || how.awaits_journal(&shared.replication);
    let _right = needs_right.then(|| right_to_hold_writes(shared, preparing)).transpose()?;
    // Taken after the right to prepare, so it is given back before that. Another thread may be
    // about to begin a rewrite.
    let mut taken = StopReservations::begin(shared);
    if how.awaits_replicas(&shared.replication) {
        wait_for_replicas(shared, preparing, &mut taken);
    }
    prepare(how, preparing, &mut taken)?;
    pantala_operator::cluster::leave(&shared.operator);
    // Before `taken` is dropped, so that nothing is given back, and before `preparing`, whose
    // waiters must not take this for a failure.
    shared.engine.condition.shutdown.begin();
    Ok(())
}

/// Makes sure that nothing is lost that is to be kept.
fn prepare(
    how: StopMode,
    preparing: &ShutdownPermit<'_>,
    taken: &mut StopReservations<'_>,
) -> Result<(), RunsOn> {
    let shared = taken.shared;
    if preparing.is_aborted() {
        return Err(RunsOn::Aborted);
    }
    if how.saves(&shared.replication) {
        match save(shared, preparing, taken) {
            Err(why) if !how.is_forced || why == RunsOn::Aborted => return Err(why),
            Err(why) => {
                tracing::error!("Error trying to save the DB. Exit anyway: {why}, and is lost");
            }
            Ok(()) => {}
        }
    } else if how.awaits_file(&shared.replication) {
        tracing::info!("Writing initial AOF: the server stops when it is there");
        while how.awaits_file(&shared.replication) && !preparing.is_aborted() {
            shared.engine.condition.shutdown.pause_for(LOOK);
        }
    }
    if how.awaits_journal(&shared.replication) && !preparing.is_aborted() {
        keep_journal(shared, preparing, taken)?;
    }
    if preparing.is_aborted() { Err(RunsOn::Aborted) } else { Ok(()) }
}

/// Waits for other holders of `writes_wait`, after whose end writes would go on: a DEBUG RELOAD, or
/// a FAILOVER, which may wait for ever and is aborted.
fn right_to_hold_writes<'s>(
    shared: &'s Shared,
    preparing: &ShutdownPermit<'_>,
) -> Result<MutexGuard<'s, ()>, RunsOn> {
    loop {
        match shared.durability.writes_wait.try_lock() {
            Some(right) => return Ok(right),
            None if preparing.is_aborted() => return Err(RunsOn::Aborted),
            // Each time: one may just have begun.
            None => _ = shared.replication.failover.abort(),
        }
        shared.engine.condition.shutdown.pause_for(LOOK);
    }
}

/// Holds writes back from now on, and waits until replicas have the earlier ones, or for
/// `shutdown-timeout`.
fn wait_for_replicas(
    shared: &Shared,
    preparing: &ShutdownPermit<'_>,
    taken: &mut StopReservations<'_>,
) {
    let timeout_s = shared.engine.settings.current().shutdown_timeout_s;
    let until_us = monotonic_us() + u64::from(timeout_s) * 1_000_000;
    preparing.wait_for_replicas(until_us);
    tracing::info!("Waiting for replicas before shutting down.");
    taken.hold_writes();
    let replication = &shared.replication;
    // Turns that began before end first.
    let end = match replication.is_replica() {
        true => Ok(replication.downstream.stream.end()),
        false => journaling::begin_to_feed(&shared.durability),
    };
    let Ok(end) = end else { return preparing.wait_for_replicas(0) };
    // A replica that wants only a copy acknowledges nothing.
    let follows = |replica: &Replica| !replica.announced().only_copy;
    // While nothing was streamed, at position 0, one that copies lacks nothing either.
    let is_behind =
        |replica: &Arc<Replica>| follows(replica) && replica.acknowledged().position < end;
    let has_lagging = || replication.downstream.replicas.all().iter().any(is_behind);
    // The request for acknowledgements is in the stream itself, so it is made only if needed.
    if has_lagging() {
        replication.downstream.waiters.join();
        shared.durability.appending.ask_replicas(&shared.engine.journal);
        while !preparing.is_aborted() && monotonic_us() < until_us && has_lagging() {
            shared.engine.condition.shutdown.pause_for(LOOK);
        }
        replication.downstream.waiters.leave();
    }
    preparing.wait_for_replicas(0);
    let all = replication.downstream.replicas.all();
    if preparing.is_aborted() {
        return;
    }
    let behind = all.iter().filter(|replica| is_behind(replica));
    let lagging = behind.inspect(|replica| tell_lagging(replica, end)).count();
    tell_in_sync(all.len() - lagging, all.len());
}

fn tell_lagging(replica: &Replica, end: u64) {
    let acknowledged = replica.acknowledged().position;
    tracing::warn!(
        acknowledged,
        "Lagging replica {} reported offset {} behind master",
        name(replica),
        end.saturating_sub(acknowledged)
    );
}

fn tell_in_sync(in_sync: usize, all: usize) {
    tracing::info!("{in_sync} of {all} replicas are in sync when shutting down.");
}

/// Saves with all writes held back.
fn save(
    shared: &Shared,
    preparing: &ShutdownPermit<'_>,
    taken: &mut StopReservations<'_>,
) -> Result<(), RunsOn> {
    tracing::info!("Saving the final RDB snapshot before exiting.");
    shared.supervisor.tell(SupervisorNotice::Saving);
    taken.hold_writes();
    if shared.durability.saves.cancel_and_wait() {
        tracing::info!("Background saving cancelled: the snapshot is written anew");
    }
    shared.replication.primary.cancel_and_wait();
    taken.wait_for_rewrite(preparing)?;
    save_watched(shared, preparing)
}

/// Saves, and checks meanwhile whether to give up.
fn save_watched(shared: &Shared, preparing: &ShutdownPermit<'_>) -> Result<(), RunsOn> {
    let Some(of_thread) = shared.arc() else { return Err(RunsOn::Unsaved) };
    let (ended, until_ended) = channel();
    let life = move || {
        // The receiver has gone if this took too long.
        let _late = ended.send(saving::save_before_stop(&of_thread.durability));
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
            Ok(Err(SaveFailure::Held)) => return Err(RunsOn::Held),
            Ok(Err(_)) if preparing.is_aborted() => return Err(RunsOn::Aborted),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(RunsOn::Unsaved),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(save) = shared.durability.saves.current() else { continue };
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

/// Waits until the append-only file has what was acknowledged and is synced, with writes held back:
/// once the server stops only `STOPPING_MOST` is left for that.
fn keep_journal(
    shared: &Shared,
    preparing: &ShutdownPermit<'_>,
    taken: &mut StopReservations<'_>,
) -> Result<(), RunsOn> {
    tracing::info!("Calling fsync() on the AOF file.");
    shared.supervisor.tell(SupervisorNotice::Saving);
    taken.hold_writes();
    // Turns that began before end first.
    let turns = |shared: &Shared| _ = shared.engine.space.at_one_moment(|_| ());
    wait_while(shared, preparing, TURNS_MOST, turns)?;
    wait_while(shared, preparing, Duration::MAX, |shared| {
        shared.durability.appending.flush(&shared.engine.journal);
    })
}

/// Runs something on a thread, and waits for its end: for `at_most`, or until the server stops in
/// any case.
///
/// # Errors
/// ABORT, or there is no thread.
fn wait_while(
    shared: &Shared,
    preparing: &ShutdownPermit<'_>,
    at_most: Duration,
    act: impl FnOnce(&Shared) + Send + 'static,
) -> Result<(), RunsOn> {
    let Some(of_thread) = shared.arc() else { return Err(RunsOn::Unsaved) };
    let (ended, until_ended) = channel::<()>();
    let life = move || {
        act(&of_thread);
        drop(ended);
        pantala_memory::release_seat();
    };
    if let Err(error) = Builder::new().name("stop-wait".into()).spawn(life) {
        tracing::error!("cannot start a thread: {error}");
        return Err(RunsOn::Unsaved);
    }
    let (began_us, mut is_told) = (monotonic_us(), false);
    while until_ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if preparing.is_aborted() {
            return Err(RunsOn::Aborted);
        }
        let waited = Duration::from_micros(monotonic_us().saturating_sub(began_us));
        if waited > at_most || shared.engine.condition.shutdown.is_final() {
            break;
        }
        // Not before: the log line may have to wait for the reader of the log.
        if !is_told && waited > TURNS_MOST {
            tracing::info!("waiting for the append-only file before the server stops");
            is_told = true;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Instant;

    use pantala_persistence::aof::AofWriter;
    use pantala_persistence::disk::RealDisk;
    use pantala_settings::Settings;

    use super::*;
    use crate::in_process::LocalServer;
    use pantala_durability::appending::NoRewrite;
    use pantala_durability::journaling::Keeper;
    use pantala_durability::rewriting;
    use pantala_durability::saves::SaveEnd;

    /// A server, and the directory of its files.
    struct Node {
        server: LocalServer,
        directory: std::path::PathBuf,
    }

    impl Node {
        fn new(name: &str) -> Node {
            let name = format!("pantala-stopping-{name}-{}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&directory).unwrap();
            let mut settings = Settings::defaults();
            settings.dir = directory.display().to_string();
            Node { server: LocalServer::new(settings).unwrap(), directory }
        }

        fn shared(&self) -> &Arc<Shared> {
            self.server.shared()
        }

        /// Begins an append-only file, whose thread's turns are taken by the test.
        fn append_by_hand(&self) -> Keeper {
            let shared = self.shared();
            let keeper = journaling::by_hand(&shared.durability).unwrap();
            let layout = journaling::layout(&shared.engine.settings.current());
            let mut writer = AofWriter::new(Arc::new(RealDisk), layout, None, 0);
            writer.resume().unwrap();
            shared.durability.appending.open(&shared.engine.journal, writer);
            keeper
        }

        #[track_caller]
        fn check_runs_on(&self) {
            let shared = self.shared();
            assert!(!shared.engine.condition.shutdown.is_final());
            let states = shared.engine.condition.lasting.now();
            assert!(!states.intersects(States::PAUSED_WRITES), "writes go on");
            shared.durability.appending.begin_rewrite(0).expect("a rewrite may begin");
            shared.durability.appending.forgo_rewrite();
            let save = shared.durability.saves.begin(0, true).expect("a snapshot may begin");
            shared.durability.saves.end(&save, SaveEnd::CalledOff, 0, 0);
        }
    }

    impl Drop for Node {
        fn drop(&mut self) {
            // Nothing depends on it.
            let _best_effort = std::fs::remove_dir_all(&self.directory);
        }
    }

    const WITHOUT_SAVING: StopMode =
        StopMode { saves: Some(false), is_forced: false, is_now: false };
    const SAVING: StopMode = StopMode { saves: Some(true), ..WITHOUT_SAVING };

    fn stop_aside(node: &Node, how: StopMode) -> std::thread::JoinHandle<Result<(), RunsOn>> {
        let shared = Arc::clone(node.shared());
        std::thread::spawn(move || stop(&shared, how))
    }

    #[test]
    fn what_is_taken_goes_back_when_abort_comes_as_the_save_ends() {
        let node = Node::new("late-abort");
        let shutdown = &node.shared().engine.condition.shutdown;
        let preparing = shutdown.prepare().unwrap();
        assert!(shutdown.abort());
        let mut taken = StopReservations::begin(node.shared());
        // So short a save most often ends before anybody looks whether it is still wanted.
        let _either = save(node.shared(), &preparing, &mut taken);
        drop(taken);
        node.check_runs_on();
        drop(preparing);
        assert_eq!(stop(node.shared(), SAVING), Ok(()));
        assert!(shutdown.is_final());
    }

    #[test]
    fn the_server_stops_when_the_append_only_file_has_everything() {
        let node = Node::new("journal");
        let mut keeper = node.append_by_hand();
        let shutdown = &node.shared().engine.condition.shutdown;
        for how in [WITHOUT_SAVING, SAVING] {
            let stopping = stop_aside(&node, how);
            while !shutdown.abort() {
                assert!(!shutdown.is_final(), "nobody has written what there is");
                std::thread::yield_now();
            }
            assert_eq!(stopping.join().unwrap(), Err(RunsOn::Aborted));
            node.check_runs_on();
        }
        let stopping = stop_aside(&node, WITHOUT_SAVING);
        while !shutdown.is_final() {
            keeper.turn();
        }
        assert_eq!(stopping.join().unwrap(), Ok(()));
    }

    #[test]
    fn nothing_else_begins_while_the_server_waits_for_a_rewrite() {
        let node = Node::new("alone");
        let shared = node.shared();
        shared.durability.appending.begin_rewrite(0).unwrap();
        let stopping = stop_aside(&node, SAVING);
        // Somebody saves again and again, and is called off, until there is no more of it.
        while let Ok(save) = shared.durability.saves.begin(0, true) {
            shared.durability.saves.end(&save, SaveEnd::CalledOff, 0, 0);
        }
        assert!(matches!(
            saving::save_in_background(&shared.durability, "BGSAVE"),
            Err(SaveFailure::Stopping)
        ));
        assert_eq!(rewriting::begin(&shared.durability, ""), Err(NoRewrite::Stopping));
        shared.durability.appending.forgo_rewrite();
        assert_eq!(rewriting::begin(&shared.durability, ""), Err(NoRewrite::Stopping));
        assert_eq!(stopping.join().unwrap(), Ok(()));
        assert!(shared.engine.condition.shutdown.is_final());
    }

    #[test]
    fn with_force_the_append_only_file_is_not_waited_for() {
        let node = Node::new("force");
        let _keeper_has_no_turn = node.append_by_hand();
        let forced = StopMode { is_forced: true, ..WITHOUT_SAVING };
        let stopping = stop_aside(&node, WITHOUT_SAVING);
        assert_eq!(stop(node.shared(), forced), Ok(()));
        assert!(node.shared().engine.condition.shutdown.is_final());
        stopping.join().unwrap().unwrap();
    }

    #[test]
    fn abort_is_heard_while_somebody_else_holds_writes_back() {
        let server = LocalServer::new(Settings::defaults()).expect("descriptors");
        let shared = Arc::clone(server.shared());
        let held = server.shared().durability.writes_wait.lock();
        let how = StopMode { saves: Some(true), ..StopMode::default() };
        let stopping = std::thread::spawn(move || stop(&shared, how));
        let (shutdown, began) = (&server.shared().engine.condition.shutdown, Instant::now());
        while !shutdown.is_preparing() {
            std::thread::yield_now();
        }
        assert!(shutdown.abort());
        while !stopping.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(60), "it waits on");
            std::thread::yield_now();
        }
        assert_eq!(stopping.join().expect("no panic"), Err(RunsOn::Aborted));
        drop(held);
    }
}
