//! After a command: counts, logs, MONITOR, CLIENT REPLY.

use pantala_commands::families::memcached;
use pantala_commands::{ClientError, CommandRef, Protocol, ReplyMode, Session};
use pantala_protocol::Reply;

use super::{Turn, Verdict, is_exec};
use crate::engine::Engine;
use crate::stats::hot_keys::Cost;
use crate::stats::tallies::ThreadTally;
use crate::stats::telemetry::FinishedCommand;

impl Turn<'_> {
    /// Counts and logs a command that ran alone and was timed.
    pub fn finish(&self, session: &Session, ended: FinishedCommand<'_>) {
        self.count_time(ended.found, ended.took_us * 1000);
        self.note_keys(ended);
        if self.is_traced {
            self.trace(session, ended);
        }
        self.engine.log_ended(session, ended);
    }

    /// Keeps a command for a trace.
    #[cold]
    pub(super) fn trace(&self, session: &Session, ended: FinishedCommand<'_>) {
        let stats = &self.engine.stats;
        stats.telemetry.note(&stats.logs, session, ended);
    }

    /// Adds what a command has cost to its keys, if HOTKEYS tracks or it is of the sample. It
    /// counts even if the command is undone later.
    #[inline]
    pub(crate) fn note_keys(&self, ended: FinishedCommand<'_>) {
        if self.hot_keys.is_on() {
            let FinishedCommand { found, args, took_us: us, reply_bytes } = ended;
            self.tally.note_keys(self.hot_keys, found, args, Cost { us, reply_bytes });
        }
        if let Some(sample) = self.key_sample {
            self.tally.sample_keys(sample, ended);
        }
    }

    /// Sends a command to the monitors, unless it is to run again. No partition is held.
    #[cold]
    pub(super) fn show(
        &self,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
        verdict: &Verdict,
    ) {
        let (monitors, workers) = (&self.engine.notices.monitors, &*self.engine.workers);
        match verdict {
            Verdict::Finished | Verdict::Blocked(_) => monitors.feed(workers, session, found, args),
            Verdict::Lane | Verdict::Parked(_) => monitors.call(workers),
        }
    }

    /// Sends a refused EXEC to the monitors, which have seen its MULTI.
    #[cold]
    pub fn show_refused_exec(&self, session: &Session, found: CommandRef, args: &[&[u8]]) {
        if is_exec(found) {
            self.engine.notices.monitors.feed(&*self.engine.workers, session, found, args);
        }
    }

    /// Writes and counts an error reply.
    #[cold]
    pub fn reply_error(
        &self,
        session: &Session,
        args: &[&[u8]],
        error: &ClientError,
        output: &mut Vec<u8>,
    ) {
        self.tally.count_error(&self.engine.stats.errors, error.code());
        push_error(session, args, error, output);
    }

    /// Counts a command that is too quick to be worth a clock read.
    #[inline]
    pub fn count_quick(&self, found: CommandRef) {
        self.count_time(found, 0);
    }

    /// Adds to the time and the histogram of a row.
    #[inline]
    pub fn count_time(&self, found: CommandRef, nanoseconds: u64) {
        let row = &self.tally.commands[usize::from(found.number)];
        row.took(nanoseconds, self.limited.has_histograms);
    }
}

impl Engine {
    /// Logs a command that took long or was large.
    pub fn log_ended(&self, session: &Session, ended: FinishedCommand<'_>) {
        let FinishedCommand { found, args, took_us, reply_bytes } = ended;
        self.stats.logs.note(session, found, args, took_us, reply_bytes);
        self.stats.latency_monitor.note(found.row, took_us);
    }
}

/// Handles a command that has panicked, which is a bug: logs and counts it, and tells the client.
/// The caller closes the connection.
#[cold]
pub fn report_panic(
    engine: &Engine,
    tally: &ThreadTally,
    session: &Session,
    (found, args): (Option<CommandRef>, &[&[u8]]),
    output: &mut Vec<u8>,
) {
    const ERROR: ClientError = ClientError::text("ERR internal error, see the log of the server");
    let command = found.map(|found| found.row.full_name()).unwrap_or_default();
    tracing::error!(command, "a command panicked; its connection is closed");
    tally.unexpected_errors.add(1);
    tally.count_error(&engine.stats.errors, ERROR.code());
    push_error(session, args, &ERROR, output);
}

/// Writes an error in the protocol of the connection.
fn push_error(session: &Session, args: &[&[u8]], error: &ClientError, output: &mut Vec<u8>) {
    match session.protocol {
        Protocol::Resp | Protocol::Undecided => {
            Reply::new(output, session.version).error(&*error.0)
        }
        protocol => memcached::push_refusal(protocol, args, error, output),
    }
}

/// Removes a reply that CLIENT REPLY suppresses.
#[cold]
pub fn suppress_reply(
    session: &mut Session,
    mode_before: ReplyMode,
    before: usize,
    output: &mut Vec<u8>,
) {
    match session.reply_mode {
        // CLIENT REPLY ON itself is answered.
        ReplyMode::On => return,
        ReplyMode::SkipNext if mode_before == ReplyMode::SkipNext => {
            session.reply_mode = ReplyMode::On;
        }
        ReplyMode::SkipAgain => session.reply_mode = ReplyMode::SkipNext,
        ReplyMode::SkipNext | ReplyMode::Off => {}
    }
    output.truncate(before);
}
