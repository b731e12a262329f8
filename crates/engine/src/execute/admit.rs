//! Admission: whether a command may run, decided before anything is locked.

use std::sync::Arc;

use pantala_commands::{
    ClientError, CommandRef, Flags, Lane, OwnedArgs, ReplyMode, Session, TransactionQueue, error,
};
use pantala_protocol::Reply;
use pantala_scripting::Flags as ScriptFlags;

use super::finish::suppress_reply;
use super::{Turn, is_exec};
use crate::condition::redirection::Target;
use crate::condition::states::{PAUSED, RefusalAnswer, RefusalScope, States};

/// Why a command does not run now.
pub enum Refusal {
    /// An error for the client.
    Error(Option<CommandRef>, ClientError),
    /// It is to run on the slow lane.
    Lane(CommandRef),
    /// CLIENT PAUSE holds it back.
    Pause,
    /// It must be queued for EXEC.
    Queue(CommandRef),
}

impl Turn<'_> {
    /// Decides everything that can be decided before locks are taken. `args` may be the first
    /// arguments only; `arg_count` counts all.
    #[inline]
    pub fn admit(
        &self,
        session: &Session,
        found: Option<CommandRef>,
        args: &[&[u8]],
        arg_count: usize,
    ) -> Result<CommandRef, Refusal> {
        self.admit_routed::<true>(session, found, args, arg_count)
    }

    /// Like [`Turn::admit`], for a command whose key is known to be at this node.
    #[inline]
    pub fn admit_member(
        &self,
        session: &Session,
        found: Option<CommandRef>,
        args: &[&[u8]],
    ) -> Result<CommandRef, Refusal> {
        self.admit_routed::<false>(session, found, args, args.len())
    }

    #[inline(always)]
    fn admit_routed<const IS_ROUTED: bool>(
        &self,
        session: &Session,
        found: Option<CommandRef>,
        args: &[&[u8]],
        arg_count: usize,
    ) -> Result<CommandRef, Refusal> {
        if !session.is_unrestricted() {
            self.admit_others(session, found, args, arg_count)?;
        }
        let Some(found) = found else {
            return Err(Refusal::Error(None, error::unknown_command(args)));
        };
        let row = found.row;
        if !row.accepts(arg_count) {
            return Err(Refusal::Error(Some(found), error::wrong_arity(&row.full_name())));
        }
        if IS_ROUTED
            && let Some(slots) = self.slots
            && args.len() == arg_count
        {
            self.route(slots, session, found, args)?;
        }
        if let Some(queue) = &session.multi {
            return self.admit_to_queue(queue, found, args);
        }
        if !self.states.is_empty() {
            self.judge_states(found, args)?;
        }
        if self.lane == Lane::Worker && row.flags.intersects(Flags::LANE) {
            return Err(Refusal::Lane(found));
        }
        Ok(found)
    }

    /// Decides for a restricted client: one that has not authenticated, whose user has rules, or
    /// that has subscribed to something. If not all arguments are at hand, the user's rules are
    /// checked once they are: by the lane, or when the command is queued for EXEC.
    #[cold]
    fn admit_others(
        &self,
        session: &Session,
        found: Option<CommandRef>,
        args: &[&[u8]],
        arg_count: usize,
    ) -> Result<(), Refusal> {
        let flags = found.map_or(Flags::NONE, |found| found.row.flags);
        // An unauthenticated client learns nothing, not even which commands exist.
        if !session.is_authenticated() && !flags.intersects(Flags::NO_AUTH) {
            return Err(Refusal::Error(found, error::NO_AUTH));
        }
        let Some(found) = found.filter(|found| found.row.accepts(arg_count)) else {
            return Ok(());
        };
        if session.has_rules() && args.len() == arg_count && !is_refused_anyway(session, found) {
            let permitted = self.permit(session, (found, args));
            permitted.map_err(|error| Refusal::Error(Some(found), error))?;
        }
        if session.can_redirect() {
            self.redirect(session, found, args)?;
        }
        let is_refused = self.states.difference(PAUSED).refusal(RefusalScope::one(flags)).is_some();
        if session.is_confined() && !flags.intersects(Flags::SUBSCRIBED) && !is_refused {
            let error = error::not_while_subscribed(&found.row.full_name());
            return Err(Refusal::Error(Some(found), error));
        }
        Ok(())
    }

    /// On a replica, redirects clients with CLIENT CAPA REDIRECT to the primary: for writes, and
    /// for reads without READONLY. While the role is handed over they wait.
    fn redirect(
        &self,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
    ) -> Result<(), Refusal> {
        let target = self.engine.condition.redirection.target();
        if target == Target::Here {
            return Ok(());
        }
        let flags = match (found.row.flags, &session.multi) {
            (_, Some(queue)) if is_exec(found) => self.flags_of_queue(queue),
            (flags, _) if flags.intersects(Flags::SCRIPT) => self.flags_of_script(found, args),
            (flags, _) => flags,
        };
        let reads = flags.intersects(Flags::READONLY) && !session.reads_replicas;
        let is_script =
            found.row.flags.intersects(Flags::SCRIPT) && !self.says_that_it_writes(found, args);
        if !reads && (is_script || !flags.intersects(Flags::WRITE)) {
            return Ok(());
        }
        match target {
            Target::There(address) => {
                let error = error::redirected(&address);
                Err(Refusal::Error(Some(found), error))
            }
            _ => Err(Refusal::Pause),
        }
    }

    /// Whether a script declares that it writes.
    fn says_that_it_writes(&self, found: CommandRef, args: &[&[u8]]) -> bool {
        self.flags_said(found, args)
            .is_some_and(|said| !said.has(ScriptFlags::COMPATIBLE) && said.says_that_it_writes())
    }

    /// Decides for a command between MULTI and EXEC.
    #[cold]
    fn admit_to_queue(
        &self,
        queue: &TransactionQueue,
        found: CommandRef,
        args: &[&[u8]],
    ) -> Result<CommandRef, Refusal> {
        let row = found.row;
        let at_once = row.flags.intersects(Flags::UNQUEUED);
        if row.flags.intersects(Flags::NO_MULTI) && !at_once {
            return Err(Refusal::Error(Some(found), error::not_in_multi(&row.full_name())));
        }
        if row.flags.intersects(Flags::CONTAINER) {
            let word = args.get(1).copied().unwrap_or_default();
            return Err(Refusal::Error(Some(found), error::unknown_subcommand(row.name, word)));
        }
        let (some, all) = match row.flags.intersects(Flags::TRANSACTION) {
            true => (queue.flags, queue.lacking.complement()),
            false => (row.flags, row.flags),
        };
        // A command that is only queued waits together with EXEC; an aborted transaction answers
        // EXECABORT.
        let states = if at_once { self.states } else { self.states.difference(PAUSED) };
        let states = if queue.is_aborted { states.difference(States::FULL) } else { states };
        if !states.is_empty() && some.intersects(Flags::SCRIPT) {
            let concerned = match row.flags.intersects(Flags::TRANSACTION) {
                true => RefusalScope { some: self.flags_of_queue(queue), all },
                false => RefusalScope::one(self.flags_of_script(found, args)),
            };
            self.judge(states, found, concerned)?;
        } else {
            self.judge(states, found, RefusalScope { some, all })?;
        }
        if at_once { Ok(found) } else { Err(Refusal::Queue(found)) }
    }

    #[cold]
    fn judge_states(&self, found: CommandRef, args: &[&[u8]]) -> Result<(), Refusal> {
        let flags = match found.row.flags {
            flags if flags.intersects(Flags::SCRIPT) => self.flags_of_script(found, args),
            flags => flags,
        };
        self.judge(self.states, found, RefusalScope::one(flags))
    }

    /// The flags of a command that runs a script, with those that the script declares. Whether
    /// there is memory for it is checked when it runs.
    pub(super) fn flags_of_script(&self, found: CommandRef, args: &[&[u8]]) -> Flags {
        let flags = found.row.flags;
        let Some(said) = self.flags_said(found, args) else { return flags };
        let flags = match said.has(ScriptFlags::ALLOW_STALE) {
            true => flags.union(Flags::STALE),
            false => flags.difference(Flags::STALE),
        };
        match (said.has(ScriptFlags::COMPATIBLE), said.says_that_it_writes()) {
            (true, _) => flags,
            (_, true) => flags.union(Flags::WRITE),
            (_, false) => flags.difference(Flags::WRITE.union(Flags::MAY_REPLICATE)),
        }
    }

    /// The flags that at least one command of a transaction has.
    #[cold]
    pub(super) fn flags_of_queue(&self, queue: &TransactionQueue) -> Flags {
        let flags = queue.commands.iter().map(|one| match one.found.row.flags {
            flags if flags.intersects(Flags::SCRIPT) => {
                self.flags_of_script(one.found, &one.args.slices())
            }
            flags => flags,
        });
        flags.fold(Flags::NONE, Flags::union)
    }

    fn judge(
        &self,
        states: States,
        found: CommandRef,
        concerned: RefusalScope,
    ) -> Result<(), Refusal> {
        match states.refusal(concerned) {
            None => Ok(()),
            Some(RefusalAnswer::Error(error)) => Err(Refusal::Error(Some(found), error.clone())),
            Some(RefusalAnswer::Wait) => Err(Refusal::Pause),
        }
    }

    /// Refuses a command, which has not run.
    #[cold]
    pub fn refuse(
        &self,
        session: &mut Session,
        (found, args): (Option<CommandRef>, &[&[u8]]),
        error: &ClientError,
        output: &mut Vec<u8>,
    ) {
        if let Some(found) = found {
            self.tally.commands[usize::from(found.number)].rejected.add(1);
        }
        session.asks &= session.multi.is_some();
        let before = output.len();
        if found.is_some_and(is_exec) {
            (session.multi, session.watching) = (None, None);
            let is_redirected = error::REDIRECTIONS.contains(&error.code());
            let told = if is_redirected { error.clone() } else { error::exec_aborted_by(error) };
            self.reply_error(session, args, &told, output);
        } else {
            if let Some(queue) = &mut session.multi {
                Arc::make_mut(queue).is_aborted = true;
            }
            self.reply_error(session, args, error, output);
        }
        let mode = session.reply_mode;
        if mode != ReplyMode::On {
            suppress_reply(session, mode, before, output);
        }
    }
}

/// Whether a command is refused with an error that comes before those of users' rules: it does not
/// exist, or not in transactions.
fn is_refused_anyway(session: &Session, found: CommandRef) -> bool {
    let flags = found.row.flags;
    let is_in_multi = session.multi.is_some();
    flags.intersects(Flags::CONTAINER)
        || is_in_multi && flags.intersects(Flags::NO_MULTI) && !flags.intersects(Flags::UNQUEUED)
}

/// Queues a command for EXEC.
#[cold]
pub fn keep_for_exec(
    session: &mut Session,
    found: CommandRef,
    (args, arg_count): (OwnedArgs, usize),
    output: &mut Vec<u8>,
) {
    let Some(queue) = &mut session.multi else { return };
    Arc::make_mut(queue).push(found, args, arg_count);
    let before = output.len();
    Reply::new(output, session.version).simple("QUEUED");
    let mode = session.reply_mode;
    if mode != ReplyMode::On {
        suppress_reply(session, mode, before, output);
    }
}
