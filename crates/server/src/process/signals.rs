//! Signals: SIGTERM and SIGINT stop the server, which may save first (`stopping`).
//!
//! 1. The process ends within `STOPPING_MOST` after what is to be saved was saved, whatever its
//!    threads do: a command that takes long on the lane, or a log that nobody reads, holds up
//!    nothing.
//! 2. A second SIGINT ends it at once.
//! 3. SIGALRM has it said what the threads are doing, and SIGSEGV and its kin end the process with
//!    a report (`system/crash.rs`).
//! 4. SIGHUP reads certificates and keys anew; if they are not sound those in force stay. It logs a
//!    line, and so begins a log anew that was moved away.
//!
//! Tests: compat/bad_days (`sigterm_ends_what_does_not_answer`, `sigterm_with_a_full_log`).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::files::saving;
use super::listening;
use super::stopping::{self, How, RunsOn};
use crate::shared::Shared;

/// Beyond this after it was told to stop, the process ends without waiting for its threads. Less
/// than the ten seconds after which containers are killed.
pub const STOPPING_MOST: Duration = Duration::from_secs(5);
/// How long it then takes to say so.
const LAST_WORDS_MOST: Duration = Duration::from_millis(500);
/// What the process then ends with.
const FORCED_STATUS: i32 = 1;

/// Listens for the signals on a thread of its own, for the rest of the process.
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
                // A file is as long as it may be, which its writer is told. Unheard, it would kill.
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
            let how =
                How { saves: words.saves(), is_forced: words.is_forced(), is_now: words.is_now() };
            // First, because the line may have to wait for whoever reads the log.
            match how.prepares(&shared) {
                true => stop(&shared, how),
                false => shared.engine.condition.shutdown.begin(),
            }
            tracing::info!(signal, "Received a signal to stop: shutdown is under way");
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(cannot)?;
    Ok(())
}

/// Logs what each thread is doing, as the kernel knows it, in the words of Valkey, whose debuggers
/// ask so.
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

/// Reads anew what may be replaced while the server runs.
fn reload(shared: &Shared) {
    match shared.tls.apply(&shared.engine) {
        Ok(()) => tracing::info!("SIGHUP: certificates and keys are read anew"),
        Err(why) => tracing::error!("SIGHUP: the certificates in force stay: {why}"),
    }
}

/// Stops, on a thread of its own: another signal may come.
fn stop(shared: &Arc<Shared>, how: How) {
    let of_thread = Arc::clone(shared);
    let life = move || match stopping::stop(&of_thread, how) {
        Ok(()) => {}
        Err(RunsOn::Held) => {
            tracing::error!("a script does not end: the server stops, what is not saved is lost");
            // The append-only file is to have everything all the same.
            let unsaved = How { saves: Some(false), is_now: true, ..how };
            if stopping::stop(&of_thread, unsaved) != Err(RunsOn::Aborted) {
                of_thread.engine.condition.shutdown.begin();
            }
        }
        // The log has the reason.
        Err(RunsOn::Unsaved | RunsOn::Aborted) => {}
    };
    if let Err(error) = std::thread::Builder::new().name("stop".into()).spawn(life) {
        tracing::error!("the server stops without saving, as it cannot start a thread: {error}");
        shared.engine.condition.shutdown.begin();
    }
}

/// A second SIGINT: whoever sends it means it.
fn end_at_once(shared: &Shared) -> ! {
    tracing::warn!("SIGINT again: the server ends at once, without saving");
    if let Some(save) = shared.saves.current() {
        save.cancel();
    }
    saving::remove_temporary(&shared.engine.settings.current());
    signal_hook::low_level::exit(FORCED_STATUS)
}

/// Ends the process in time after it was told to stop, unless `ended` says that it did by itself
/// (or is dropped).
pub fn end_in_time(shared: Arc<Shared>, ended: &Receiver<()>) {
    if ended.recv_timeout(STOPPING_MOST) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let (done, until_done) = channel::<()>();
    // On a thread of its own, because whatever is locked or written here may have to wait.
    let last_words = move || {
        listening::close(&shared.engine.settings.current());
        tracing::error!("some threads did not stop in time: the server ends without them");
        drop(done);
    };
    // Whether it could be started, or is done, is no matter any more.
    let _silent = std::thread::Builder::new().name("last-words".into()).spawn(last_words);
    let _too_late = until_done.recv_timeout(LAST_WORDS_MOST);
    signal_hook::low_level::exit(FORCED_STATUS);
}
