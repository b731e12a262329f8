//! Signals: SIGTERM and SIGINT stop the server, which may save first (`stopping`).
//!
//! 1. Once everything is saved the process ends within `STOPPING_MOST`, whatever its threads do:
//!    neither a long command on the lane nor a log that nobody reads delays it.
//! 2. A second SIGINT ends it at once.
//! 3. SIGALRM makes the server log what its threads are doing; SIGSEGV and its kin end the process
//!    with a report (`system/crash.rs`).
//! 4. SIGHUP reads certificates and keys again; if they are invalid, the old ones stay in force. It
//!    logs a line, which creates a log file anew if the old one was moved away.
//!
//! Tests: compat/bad_days (`sigterm_ends_what_does_not_answer`, `sigterm_with_a_full_log`).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::stopping::{self, RunsOn};
use crate::shared::Shared;
use pantala_durability::saving;
use pantala_operator::parts::stop_mode::StopMode;
use pantala_workers::listening;

/// If the threads have not ended after this time, the process ends without them. Less than the ten
/// seconds after which containers are killed.
pub const STOPPING_MOST: Duration = Duration::from_secs(5);
/// How long it may then take to log that.
const LAST_WORDS_MOST: Duration = Duration::from_millis(500);
/// The exit status in that case.
const FORCED_STATUS: i32 = 1;

/// Listens for the signals on a thread of its own, until the process ends.
///
/// # Errors
/// The system refuses to register them.
pub fn stop_on_signals(shared: &Arc<Shared>) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("cannot listen for signals: {error}");
    let heard = [SIGTERM, SIGINT, SIGHUP, SIGXFSZ, SIGALRM];
    let mut signals = Signals::new(heard).map_err(cannot)?;
    let shared = Arc::clone(shared);
    let listen = move || {
        let mut interrupts = 0;
        for signal in signals.forever() {
            if signal == SIGXFSZ {
                // SIGXFSZ: a file has reached its size limit, which its writer is told. Unhandled,
                // it would kill the process.
                continue;
            }
            if signal == SIGALRM {
                tell_threads();
                continue;
            }
            if signal == SIGHUP {
                shared.supervisor.reloading(|| reload(&shared));
                continue;
            }
            interrupts += u32::from(signal == SIGINT);
            if interrupts > 1 && shared.engine.condition.shutdown.is_preparing() {
                end_at_once(&shared);
            }
            let settings = shared.engine.settings.current();
            let words = match signal {
                SIGINT => settings.shutdown_on_sigint,
                _ => settings.shutdown_on_sigterm,
            };
            let how = StopMode {
                saves: words.saves(),
                is_forced: words.is_forced(),
                is_now: words.is_now(),
            };
            // First, because the log line may have to wait for the reader of the log.
            let leaves_cluster = pantala_operator::cluster::takes_part(&shared.operator);
            match leaves_cluster || how.prepares(&shared.replication) {
                true => stop(&shared, how),
                false => shared.engine.condition.shutdown.begin(),
            }
            tracing::warn!("Received {} scheduling shutdown...", name_of(signal));
            tracing::info!("User requested shutdown...");
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(cannot)?;
    Ok(())
}

fn name_of(signal: i32) -> &'static str {
    if signal == SIGINT { "SIGINT" } else { "SIGTERM" }
}

/// Logs what each thread is doing, by the kernel's account, in the words that Valkey uses.
fn tell_threads() {
    tracing::warn!("Received SIGALRM");
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (stat, waits_in) = (read("stat"), read("wchan"));
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
        let (thread, name) = (task.file_name(), read("comm"));
        tracing::warn!(
            thread = %thread.display(),
            name = name.trim(),
            state = state.unwrap_or_default(),
            waits_in,
            "a thread"
        );
    }
}

/// Reads again what may be replaced while the server runs.
fn reload(shared: &Shared) {
    match shared.context.read_certificates() {
        Ok(()) => tracing::info!("SIGHUP: certificates and keys are read anew"),
        Err(why) => tracing::error!("SIGHUP: the certificates in force stay: {why}"),
    }
}

/// Stops on a thread of its own: another signal may come.
fn stop(shared: &Arc<Shared>, how: StopMode) {
    let of_thread = Arc::clone(shared);
    let life = move || match stopping::stop(&of_thread, how) {
        Ok(()) => {}
        Err(RunsOn::Held) => {
            tracing::error!("a script does not end: the server stops without saving");
            // The append-only file is to get everything all the same.
            let unsaved = StopMode { saves: Some(false), is_now: true, ..how };
            if stopping::stop(&of_thread, unsaved) != Err(RunsOn::Aborted) {
                of_thread.engine.condition.shutdown.begin();
            }
        }
        // The log has the reason.
        Err(RunsOn::Unsaved) => tracing::error!(
            "SIGTERM received but errors trying to shut down the server, check the logs for more \
             information"
        ),
        Err(RunsOn::Aborted) => {}
    };
    if let Err(error) = std::thread::Builder::new().name("stop".into()).spawn(life) {
        tracing::error!("the server stops without saving, as it cannot start a thread: {error}");
        shared.engine.condition.shutdown.begin();
    }
}

/// Ends the process at once, for a second SIGINT.
fn end_at_once(shared: &Shared) -> ! {
    tracing::warn!("SIGINT again: the server ends at once, without saving");
    if let Some(save) = shared.durability.saves.current() {
        save.cancel();
    }
    saving::remove_temporary(&shared.engine.settings.current());
    signal_hook::low_level::exit(FORCED_STATUS)
}

/// Ends the process if it has not ended in time after it was told to stop; it has if something
/// comes through `ended` or its sender is dropped.
pub fn end_in_time(shared: Arc<Shared>, ended: &Receiver<()>) {
    if ended.recv_timeout(STOPPING_MOST) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let (done, until_done) = channel::<()>();
    // On a thread of its own, because locking or writing here may have to wait.
    let last_words = move || {
        listening::close(&shared.engine.settings.current());
        tracing::error!("some threads did not stop in time: the server ends without them");
        drop(done);
    };
    // Whether it was started, or is done, does not matter any more.
    let _silent = std::thread::Builder::new().name("last-words".into()).spawn(last_words);
    let _too_late = until_done.recv_timeout(LAST_WORDS_MOST);
    signal_hook::low_level::exit(FORCED_STATUS);
}
