//! The one place where a handler is called on behalf of a client.
//!
//! ```text
//! run_locked   a client's command, also inside EXEC and a script   --+
//! serve_one    a blocked command, for the key that changed         --+--> invoke --> handler
//! ```
//!
//! This place knows the author of a change, whether something has changed, and the form in which
//! the command is recorded in the journal: as it came, unless the handler has said otherwise.
//!
//! Invariants
//! 1. Every call of a handler for a client passes [`Turn::invoke`], so each is counted once, and
//!    with NOLOOP its author gets no invalidations of its own changes.
//! 2. A call that ends with [`Stop::Lane`] or [`Stop::Park`] has changed nothing and is not
//!    counted.

use pantala_commands::{Call, CommandRef, CommandResult, Flags, Lane, ReplyMode, Session, Stop};
use pantala_keyspace::{Key, Locked};
use pantala_protocol::Reply;

use super::finish::suppress_reply;
use super::{CommandRequest, Turn, Verdict};
use crate::tracking::reading::{forget_caching, remember};

impl<'r> Turn<'r> {
    /// Runs a client's command whose partitions are held. Always inline, like all code of the
    /// workers' loop.
    #[inline(always)]
    pub fn run_locked(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        locked: &mut Locked<'_>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let mode = session.reply_mode;
        let before = output.len();
        let verdict = self.invoke(session, request, None, locked, output);
        if mode != ReplyMode::On && matches!(verdict, Verdict::Finished) {
            // CLIENT REPLY does not suppress pushes.
            let before = if is_pushed(request.found) { output.len() } else { before };
            suppress_reply(session, mode, before, output);
        }
        verdict
    }

    /// Calls the handler of a command whose partitions are held. `ready` is set when a blocked
    /// command is served: the key that changed; its other keys need not be held then.
    #[inline(always)]
    pub fn invoke(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        ready: Option<Key<'_>>,
        locked: &mut Locked<'_>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        if session.tracking.is_some() {
            return self.invoke_tracked(session, request, ready, locked, output);
        }
        self.call(session, request, ready, locked, output)
    }

    /// Invokes a command for a client with CLIENT TRACKING on: the keys that it reads are
    /// remembered, and with NOLOOP it is not told of its own changes.
    #[cold]
    fn invoke_tracked(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        ready: Option<Key<'_>>,
        locked: &mut Locked<'_>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let is_author = session.tracking.as_ref().is_some_and(|tracking| tracking.no_loop);
        if is_author {
            locked.effects().set_author(session.id);
        }
        let verdict = self.call(session, request, ready, locked, output);
        if is_author {
            locked.effects().set_author(0);
        }
        if matches!(verdict, Verdict::Finished) {
            remember(session, request, ready, locked);
            // CLIENT CACHING before MULTI holds for all commands up to EXEC, before EVAL for all
            // that the script runs.
            let is_between = !self.may_wait || session.multi.is_some();
            if !is_between && !request.found.row.keeps_caching {
                forget_caching(session);
            }
        }
        verdict
    }

    #[inline(always)]
    fn call(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        ready: Option<Key<'_>>,
        locked: &mut Locked<'_>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let CommandRequest { found, args, hashes, frame } = request;
        if !found.row.flags.intersects(Flags::READONLY)
            && self.writes_ask
            && let Some(park) = self.waits_to_write(session.id, request, ready, locked)
        {
            return Verdict::Parked(park);
        }
        if let Some(recorder) = self.recorder {
            recorder.begin_command();
        }
        let before = output.len();
        // A single missing key makes no long reply: only with several keys may effects have been
        // queued in vain.
        let told = if hashes.len() > 1 { locked.effect_count() } else { usize::MAX };
        let mut call = Call {
            args,
            command: found.row,
            reply: match ready {
                None => self.reply(session, found, output),
                Some(_) => Reply::new(output, session.version),
            },
            keys: locked,
            hashes,
            session,
            server: self.server,
            settings: &self.limited.settings,
            lane: self.lane,
            ready,
            may_wait: self.may_wait,
        };
        let mut done = (found.row.handler)(&mut call);
        if call.reply.is_short() {
            if call.reply.may_be_short() {
                locked.discard_effects(told);
                done = Err(Stop::Lane);
            } else if session.reply_mode == ReplyMode::On {
                // It is over its output limit: later commands of its pipeline do not run.
                session.closing = true;
            }
        }
        if let Some(recorder) = self.recorder
            && done.is_ok()
        {
            recorder.end_command(locked.scope().db.0, args, frame);
        }
        self.settle(session, (found, args), done, before, output)
    }

    /// The reply that a command writes to. On a worker it is limited: a reading command that
    /// exceeds the limit stops and is run on the slow lane.
    #[inline]
    fn reply<'o>(
        &self,
        session: &Session,
        found: CommandRef,
        output: &'o mut Vec<u8>,
    ) -> Reply<'o> {
        let limits = self.limited;
        let may_be_short = self.lane == Lane::Worker && found.row.flags.intersects(Flags::READONLY);
        let most = match may_be_short {
            true => limits.most_worker_bytes,
            false if session.is_script => usize::MAX,
            false => limits.most_output_bytes,
        };
        Reply::new(output, session.version).at_most(most).or_short(may_be_short)
    }

    #[inline]
    fn settle(
        &self,
        session: &Session,
        (found, args): (CommandRef, &[&[u8]]),
        done: CommandResult,
        before: usize,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let tally = &self.tally.commands[usize::from(found.number)];
        let stop = match done {
            Ok(()) => {
                tally.calls.add(1);
                return Verdict::Finished;
            }
            Err(stop) => stop,
        };
        output.truncate(before);
        match stop {
            Stop::Error(error) => {
                tally.calls.add(1);
                tally.failed.add(1);
                self.reply_error(session, args, &error, output);
                Verdict::Finished
            }
            Stop::Lane => Verdict::Lane,
            Stop::Park(park) => Verdict::Parked(park),
        }
    }
}

/// Whether its replies are pushes, which CLIENT REPLY leaves alone.
#[cold]
fn is_pushed(found: CommandRef) -> bool {
    found.row.flags.intersects(Flags::SUBSCRIBED) && found.row.flags.intersects(Flags::PUBSUB)
}
