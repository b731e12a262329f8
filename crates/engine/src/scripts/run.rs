//! Running scripts: from the command to the interpreter and back.

use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_base::number::parse_i64;
use pantala_commands::{
    ClientError, CommandRef, Flags, Lane, Locking, Park, Program as Named, ReplyMode, Session,
    Stop, error,
};
use pantala_keyspace::{Busy, LockPlan, Locked};
use pantala_protocol::Reply;
use pantala_scripting::{Abort, Flags as ScriptFlags};

use super::call::{Reason, Rights, Run, session_for};
use super::known::{CachedScripts, Program};
use super::running::Kind;
use super::thread;
use crate::clients::monitors::Monitors;
use crate::condition::states::States;
use crate::execute::attempt::Attempt;
use crate::execute::{CommandRequest, SlotBound, Turn, Verdict, suppress_reply};
use crate::tracking::reading::forget_caching;

const NO_SCRIPT: ClientError = ClientError::text("NOSCRIPT No matching script.");
const NEGATIVE_KEYS: ClientError = ClientError::text("ERR Number of keys can't be negative");
/// FCALL's error text where EVAL says that the number of keys is no integer.
const BAD_KEYS: ClientError = ClientError::text("ERR Bad number of keys provided");
const TOO_MANY_KEYS: ClientError =
    ClientError::text("ERR Number of keys can't be greater than number of args");
const WRITES_IN_READ_ONLY: ClientError =
    ClientError::text("ERR Can not execute a script with write flag using *_ro command.");
const KILLED: &str = "ERR Script killed by user with SCRIPT KILL.";
const FUNCTION_KILLED: &str = "ERR Script killed by user with FUNCTION KILL.";

/// The state in which a run begins.
struct RunStart<'b, 'r> {
    locked: &'b mut Locked<'r>,
    attempt: &'b mut Attempt<'r>,
    /// When it began (monotonic, microseconds).
    began_us: u64,
}

impl<'r> Turn<'r> {
    /// Runs EVAL or one of its kin: locks the keys of the call, and more as the script names them.
    pub(crate) fn run_script(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        output: &mut Vec<u8>,
        began_us: u64,
    ) -> Verdict {
        let known = match self.find_program(request) {
            Ok(known) => known,
            Err(stop) => {
                if let Some(line) = self.line_of_failed(session, request, &stop) {
                    self.engine.notices.monitors.add(&line);
                }
                return self.stop_script(session, request, stop, output);
            }
        };
        if self.lane == Lane::Worker && (!known.is_quick() || known.needs_everything()) {
            return Verdict::Lane;
        }
        if known.is_long {
            thread::compile(&self.engine.scripts, &known);
        }
        let locking = match known.needs_everything() {
            true => Locking::Everything,
            false => self.locking,
        };
        let plan = LockPlan::of_command(request.hashes);
        let mut locked = self.engine.space.lock_none(self.scope(session));
        if let Err(park) = self.lock(&plan, &mut locked, locking) {
            return Verdict::Parked(park);
        }
        if let Err(error) = self.find_keys(session, request.found, request.args, &mut locked) {
            drop(locked);
            self.refuse(session, (Some(request.found), request.args), &error, output);
            return Verdict::Finished;
        }
        // On the lane it may have waited for its partitions.
        let began_us = if self.lane == Lane::Slow { monotonic_us() } else { began_us };
        let mut attempt = Attempt::begin(self, true, &mut locked);
        let begun = RunStart { locked: &mut locked, attempt: &mut attempt, began_us };
        let verdict = self.run_program(session, request, &known, begun, output);
        if matches!(verdict, Verdict::Finished) {
            attempt.end(&mut locked);
            self.learn_pace(&known, began_us);
            forget_caching(session);
        } else {
            attempt.put_back(session, &mut locked);
        }
        locked.set_scope(self.scope(session));
        if locked.has_ready() {
            self.serve_ready(&mut locked);
        }
        verdict
    }

    /// Runs a script inside a transaction that holds the token. If it has to be put back, the whole
    /// attempt is.
    pub(crate) fn run_script_inside(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        locked: &mut Locked<'r>,
        attempt: &mut Attempt<'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        match self.find_program(request) {
            Ok(known) => {
                let begun = RunStart { locked, attempt, began_us: monotonic_us() };
                self.run_program(session, request, &known, begun, output)
            }
            Err(stop) => {
                if let Some(line) = self.line_of_failed(session, request, &stop) {
                    attempt.log.show(line);
                }
                self.stop_script(session, request, stop, output)
            }
        }
    }

    /// The line for MONITOR of a command that runs no script, because it is unknown or cannot run.
    fn line_of_failed(
        &self,
        session: &Session,
        CommandRequest { found, args, .. }: CommandRequest<'_>,
        stop: &Stop,
    ) -> Option<Vec<u8>> {
        let is_shown = self.is_monitored && matches!(stop, Stop::Error(_));
        is_shown.then(|| Monitors::line_of_script(session, found, args))
    }

    fn stop_script(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        stop: Stop,
        output: &mut Vec<u8>,
    ) -> Verdict {
        match stop {
            Stop::Error(error) => self.fail_script(session, request, &error, output),
            Stop::Lane => Verdict::Lane,
            Stop::Park(park) => Verdict::Parked(park),
        }
    }

    fn find_program(&self, request: CommandRequest<'_>) -> Result<Arc<CachedScripts>, Stop> {
        let known = self.look_up(request)?;
        if request.found.row.flags.intersects(Flags::READONLY) && known.flags.says_that_it_writes()
        {
            return Err(WRITES_IN_READ_ONLY.into());
        }
        if self.states.intersects(States::FULL) && known.flags.says_that_it_grows() {
            return Err(error::OUT_OF_MEMORY.into());
        }
        Ok(known)
    }

    fn look_up(&self, request: CommandRequest<'_>) -> Result<Arc<CachedScripts>, Stop> {
        let CommandRequest { found, args, .. } = request;
        let scripts = &self.engine.scripts;
        match found.row.program {
            Some(Named::Body) => {
                check_key_count(args, &error::NOT_INTEGER)?;
                thread::by_body(scripts, args[1], self.lane)
            }
            Some(Named::Digest) => {
                check_key_count(args, &error::NOT_INTEGER)?;
                thread::by_sha(scripts, args[1]).ok_or_else(|| NO_SCRIPT.into())
            }
            Some(Named::Function) | None => {
                let known = self.engine.function(args[1])?;
                check_key_count(args, &BAD_KEYS)?;
                Ok(known)
            }
        }
    }

    /// The flags that a script declares; `None` if it is not known.
    pub(crate) fn flags_said(&self, found: CommandRef, args: &[&[u8]]) -> Option<ScriptFlags> {
        match found.row.program? {
            // Only the first line counts: a script that cannot be compiled is reported when it
            // runs.
            Named::Body => pantala_scripting::Script::flags_said(args.get(1)?).ok(),
            Named::Digest => Some(thread::by_sha(&self.engine.scripts, args.get(1)?)?.flags),
            Named::Function => Some(self.engine.function(args.get(1)?).ok()?.flags),
        }
    }

    /// Whether a script declares that it needs memory. If there is none it is refused before any
    /// other check, and does not run.
    #[cold]
    pub(crate) fn has_no_memory_for(&self, request: CommandRequest<'_>) -> bool {
        self.look_up(request).is_ok_and(|known| known.flags.says_that_it_grows())
    }

    fn fail_script(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        error: &ClientError,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let before = output.len();
        let tally = &self.tally.commands[usize::from(request.found.number)];
        tally.calls.add(1);
        tally.failed.add(1);
        self.reply_error(session, request.args, error, output);
        let mode = session.reply_mode;
        if mode != ReplyMode::On {
            suppress_reply(session, mode, before, output);
        }
        Verdict::Finished
    }

    fn run_program(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        known: &Arc<CachedScripts>,
        begun: RunStart<'_, 'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let RunStart { locked, attempt, began_us } = begun;
        let (before, errors_before) = (output.len(), attempt.errors());
        attempt.counts(request.found);
        let begun = RunStart { locked, attempt: &mut *attempt, began_us };
        let mut run = self.begin(session, request, known, begun);
        let kind = run.kind;
        if self.is_monitored {
            let CommandRequest { found, args, .. } = request;
            run.attempt.log.show(Monitors::line_of_script(run.client, found, args));
        }
        let ended = self.interpret(session, request.args, known, &mut run, output);
        let line = ended.err().flatten();
        let reason = ended.err().map(|_| run.reason.take().unwrap_or(Reason::Killed));
        let inner_commands = run.session.inner_commands;
        drop(run);
        if let Some(reason) = reason.filter(|reason| *reason != Reason::Killed) {
            output.truncate(before);
            return self.begin_again(known, reason);
        }
        session.inner_commands += inner_commands;
        if reason.is_some() {
            output.truncate(before);
            Reply::new(output, session.version).error(killed(kind, line));
        }
        let here = Turn { tally: attempt.tally(), ..*self };
        let is_counted = attempt.errors() > errors_before;
        here.count_script(session, request, before, is_counted, output);
        Verdict::Finished
    }

    /// Learns the pace for later runs. On a worker a slow run would have been stopped.
    fn learn_pace(&self, known: &CachedScripts, began_us: u64) {
        if self.lane == Lane::Slow {
            known.ran_on_lane(monotonic_us() - began_us);
        }
    }

    fn begin<'s>(
        &self,
        session: &'s Session,
        request: CommandRequest<'s>,
        known: &'s CachedScripts,
        RunStart { locked, attempt, began_us }: RunStart<'s, 'r>,
    ) -> Run<'s, 'r> {
        let (kind, name) = match &known.program {
            Program::Script(_) => (Kind::Script, &[][..]),
            Program::Function { name, .. } => (Kind::Function, &**name),
        };
        let flags = known.flags;
        let reads_only = request.found.row.flags.intersects(Flags::READONLY)
            || flags.has(ScriptFlags::NO_WRITES);
        Run {
            turn: Turn { may_wait: false, tally: attempt.tally(), ..*self },
            locked,
            session: session_for(session),
            client: session,
            rights: Rights {
                writes: !reads_only,
                grows: flags.has(ScriptFlags::ALLOW_OOM) && !flags.has(ScriptFlags::COMPATIBLE),
            },
            slots: self.slot_bound(request, flags),
            attempt,
            reason: None,
            has_written: false,
            began_us,
            kind,
            name,
            command: request.args,
            listed: None,
            compensation: None,
            told_busy: None,
            commands: 0,
            users_version: session.login().version(),
            is_orphan: false,
            was_long: false,
        }
    }

    /// The slots whose keys a script with these flags may use.
    fn slot_bound(&self, request: CommandRequest<'_>, flags: ScriptFlags) -> SlotBound {
        let crosses = self.slots.is_none()
            || flags.has(ScriptFlags::COMPATIBLE)
            || flags.has(ScriptFlags::ALLOW_CROSS_SLOT_KEYS);
        SlotBound::new(crosses, request.found, request.args)
    }

    /// Runs the interpreter. `Err`: it was stopped, at this line if that is known.
    fn interpret(
        &self,
        session: &Session,
        args: &[&[u8]],
        known: &CachedScripts,
        run: &mut Run<'_, 'r>,
        output: &mut Vec<u8>,
    ) -> Result<(), Option<u32>> {
        let key_count = parse_i64(args[2]).map_or(0, |count| count.unsigned_abs() as usize);
        let (keys, rest) = args[3..].split_at(key_count.min(args.len() - 3));
        let version = session.version;
        thread::with_vm(&self.engine.scripts, |vm| {
            let ended = match &known.program {
                Program::Script(script) => vm.run(script, keys, rest, version, run, output),
                Program::Function { library, name } => {
                    vm.call_function(library, name, keys, rest, version, run, output)
                }
            };
            ended.map_err(|Abort| vm.aborted_line())
        })
    }

    /// The verdict on a script that was stopped and is undone.
    fn begin_again(&self, known: &CachedScripts, reason: Reason) -> Verdict {
        let is_worker = self.lane == Lane::Worker;
        match reason {
            Reason::Busy(id) if is_worker && !known.ran_in_vain() => {
                Verdict::Parked(Park::Partition(Busy(id)))
            }
            Reason::Busy(_) if is_worker => Verdict::Lane,
            Reason::Busy(_) | Reason::Killed => Verdict::Parked(Park::Token(Locking::Incremental)),
            Reason::Slow => {
                known.was_slow();
                Verdict::Lane
            }
            Reason::Aborted(awaited) => Verdict::Parked(Park::Aborted(awaited)),
            Reason::Snapshot(wait) => Verdict::Parked(Park::Snapshot(wait)),
            Reason::Pin(wait) => Verdict::Parked(Park::Pin(wait)),
            Reason::Locking(locking) => {
                if locking == Locking::Everything {
                    known.wants_everything();
                }
                if is_worker { Verdict::Lane } else { Verdict::Parked(Park::Token(locking)) }
            }
        }
    }

    fn count_script(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        before: usize,
        is_error_counted: bool,
        output: &mut Vec<u8>,
    ) {
        let tally = &self.tally.commands[usize::from(request.found.number)];
        tally.calls.add(1);
        let reply = &output[before..];
        if reply.first() == Some(&b'-') {
            tally.failed.add(1);
            // An error of a command inside was counted already.
            if !is_error_counted {
                let code = reply[1..].split(|byte| b" \r".contains(byte)).next();
                let code = String::from_utf8_lossy(code.unwrap_or_default());
                self.tally.count_made_error(&self.engine.stats.errors, &code);
            }
        }
        let mode = session.reply_mode;
        if mode != ReplyMode::On {
            suppress_reply(session, mode, before, output);
        }
    }
}

/// The error text for a script that was killed.
fn killed(kind: Kind, line: Option<u32>) -> String {
    let (text, source) = match kind {
        Kind::Script => (KILLED, "@user_script"),
        Kind::Function => (FUNCTION_KILLED, "@user_function"),
    };
    match line {
        Some(line) => format!("{text} script: on {source}:{line}."),
        None => text.to_owned(),
    }
}

/// Whether the number of keys, argument 2, fits the arguments after it.
fn check_key_count(args: &[&[u8]], no_number: &ClientError) -> Result<(), ClientError> {
    let count = parse_i64(args[2]).ok_or_else(|| no_number.clone())?;
    let most = (args.len() - 3) as i64;
    match count {
        count if count > most => Err(TOO_MANY_KEYS),
        count if count < 0 => Err(NEGATIVE_KEYS),
        _ => Ok(()),
    }
}
