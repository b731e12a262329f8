//! Blocking commands: entering the queues of their keys, being served, and leaving the queues.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use pantala_base::clock::monotonic_us;
use pantala_cluster::SlotTable;
use pantala_commands::{
    ClientError, CommandRef, Flags, Group, KeyWait, OwnedArgs, Park, Session, WaitedKeys,
    key_positions,
};
use pantala_journal::Stamp;
use pantala_keyspace::{DbIndex, Key, Locked, ReadyKey, Ticket, Waiter};
use pantala_values::Type;

use super::blocked::{BlockedCommand, WaitedState};
use crate::clients::mailbox::{Mailbox, Message};
use crate::engine::Engine;
use crate::execute::{CommandRequest, Turn, Verdict, routing};
use crate::stats::telemetry::FinishedCommand;

/// Where a command that may block reports to: its worker and its connection.
pub struct ReplyTarget<'s> {
    /// The worker's inbox.
    pub inbox: &'s Arc<dyn Mailbox>,
    /// The connection.
    pub connection: u64,
    /// The number that its parking will have.
    pub parking: u32,
    /// Set for a command that was blocked before and runs again.
    pub waited: Option<WaitedState>,
}

/// The command of a waiter.
pub struct PendingServe {
    /// The row.
    pub found: CommandRef,
    /// The arguments.
    pub args: OwnedArgs,
    keys: WaitedKeys,
    /// The session as it was when the command blocked.
    pub session: Session,
    inbox: Arc<dyn Mailbox>,
}

/// A waiter's answer, until its step outlives the process.
struct Served {
    waiter: Arc<Waiter>,
    inbox: Arc<dyn Mailbox>,
    reply: Vec<u8>,
    took_us: u64,
}

/// Counts as one blocked connection while it lives.
pub struct CountedAsBlocked(Arc<Engine>);

impl CountedAsBlocked {
    /// Counts one more blocked connection.
    pub fn new(engine: &Arc<Engine>) -> Self {
        engine.blocked.join();
        CountedAsBlocked(Arc::clone(engine))
    }
}

impl Drop for CountedAsBlocked {
    fn drop(&mut self) {
        self.0.blocked.leave();
    }
}

impl Engine {
    /// How many keys have blocked clients that are also told when the key goes: those that read as
    /// a consumer of a group.
    pub fn keys_waited_for_by_consumers(&self) -> usize {
        self.space.waited_keys_where(&|request| {
            let row = request.downcast_ref::<PendingServe>().map(|pending| pending.found.row);
            row.is_some_and(|row| row.group == Group::Stream && row.flags.intersects(Flags::WRITE))
        })
    }
}

impl Turn<'_> {
    /// Puts a command that found nothing into the queues of its keys, which are held.
    pub fn enqueue(
        &self,
        session: &Session,
        (found, args): (CommandRef, &[&[u8]]),
        mut wait: KeyWait,
        locked: &mut Locked<'_>,
        target: &ReplyTarget<'_>,
    ) -> BlockedCommand {
        let args = match wait.args.take() {
            Some(others) => OwnedArgs::of(&others),
            None => OwnedArgs::of(args),
        };
        let pending = PendingServe {
            found,
            args: args.clone(),
            keys: wait.keys,
            session: session.clone(),
            inbox: Arc::clone(target.inbox),
        };
        let inbox: Arc<dyn pantala_keyspace::Inbox> = target.inbox.clone();
        let place = (target.connection, target.parking);
        let arrival = match target.waited {
            Some(waited) => waited.arrival,
            None => self.engine.space.next_arrival(),
        };
        let waiter = Waiter::new(Box::new(pending), inbox, place, arrival);
        for key in waited_keys(found, &args, wait.keys) {
            let hash = self.engine.space.hash(key);
            locked.waiters(hash).wait(session.db, key, Arc::clone(&waiter));
        }
        let first_until_us = || {
            let left_ms = u64::try_from(wait.until?.0.saturating_sub(self.now.0)).unwrap_or(0);
            Some(monotonic_us().saturating_add(left_ms.saturating_mul(1000)))
        };
        let until_us = target.waited.map_or_else(first_until_us, |waited| waited.until_us);
        BlockedCommand { waiter, until_us, at_timeout: wait.at_timeout }
    }

    /// Serves all clients blocked on keys that the current command has changed. Its partitions are
    /// still held, and its step ends here.
    #[cold]
    pub fn serve_ready(&self, locked: &mut Locked<'_>) {
        let (before, mut served) = (*locked.scope(), Vec::new());
        while let Some(ready) = locked.next_ready() {
            let hash = self.engine.space.hash(&ready.key);
            locked.set_scope(pantala_keyspace::Scope { db: ready.db, ..before });
            let key = Key { bytes: &ready.key, hash };
            let was_there = locked.peek(key).exists();
            let mut rest = locked.waiters(hash).take(ready.db, &ready.key);
            let mut left = VecDeque::new();
            while let Some(waiter) = rest.pop_front() {
                if !concerns(&waiter, locked.peek(key).kind()) {
                    left.push_back(waiter);
                    continue;
                }
                if !waiter.claim() {
                    continue;
                }
                if self.serve_safely(locked, &ready, hash, &waiter, &mut served) {
                    continue;
                }
                waiter.let_go();
                left.push_back(waiter);
                // Clients before have taken everything: nothing is left for the others.
                if was_there && !locked.peek(key).exists() {
                    break;
                }
            }
            left.append(&mut rest);
            locked.waiters(hash).put_back(ready.db, &ready.key, left);
        }
        locked.set_scope(before);
        self.answer_served(locked, served);
    }

    /// Answers them. An answer may leave at once: so the step ends and is handed over first, or
    /// what was served could be there again after the process has died.
    fn answer_served(&self, locked: &mut Locked<'_>, served: Vec<Served>) {
        if served.is_empty() {
            return;
        }
        let mut step = Stamp::default();
        if let Some(recorder) = self.recorder {
            // Its time is now: those who were served may have seen what came after the turn began.
            step = locked.stamp_early();
            if recorder.has_step() {
                locked.end_step();
                step = recorder.last();
            }
            recorder.hand_over();
        }
        let permit = self.permit;
        for Served { waiter, inbox, reply, took_us } in served {
            let (connection, parking) = (waiter.connection, waiter.parking);
            inbox.leave(Message::Served { connection, parking, reply, took_us, step, permit });
            locked.wake_later(Ticket::Inbox(Arc::clone(&waiter.inbox)));
        }
    }

    /// Like `serve_one`, and catches a panic of the waiter's command, so that it does not hit the
    /// command that changed the key: the waiter's command then runs again by itself, where a panic
    /// is answered.
    fn serve_safely(
        &self,
        locked: &mut Locked<'_>,
        ready: &ReadyKey,
        hash: u64,
        waiter: &Arc<Waiter>,
        served: &mut Vec<Served>,
    ) -> bool {
        let scope = *locked.scope();
        let serve = || self.serve_one(locked, ready, hash, waiter, served);
        catch_unwind(AssertUnwindSafe(serve)).unwrap_or_else(|_| {
            locked.set_scope(scope);
            locked.effects().set_author(0);
            run_by_itself(locked, waiter)
        })
    }

    /// Runs a claimed waiter's command for the key that changed; false: it stays blocked.
    fn serve_one(
        &self,
        locked: &mut Locked<'_>,
        ready: &ReadyKey,
        hash: u64,
        waiter: &Arc<Waiter>,
        served: &mut Vec<Served>,
    ) -> bool {
        let Some(pending) = waiter.request.downcast_ref::<PendingServe>() else { return false };
        let scope = *locked.scope();
        let args = pending.args.slices();
        let mut session = pending.session.clone();
        let mut reply = Vec::new();
        if !self.may_be_served(&mut session, pending.found, &args) {
            return run_by_itself(locked, waiter);
        }
        let request =
            CommandRequest { found: pending.found, args: &args, hashes: &[hash], frame: &[] };
        let key = Key { bytes: &ready.key, hash };
        let turn = Turn { may_wait: true, ..*self };
        let began_us = monotonic_us();
        let verdict = turn.invoke(&mut session, request, Some(key), locked, &mut reply);
        let took_us = monotonic_us() - began_us;
        locked.set_scope(scope);
        match verdict {
            Verdict::Finished => {}
            Verdict::Parked(Park::Keys(_)) => return false,
            Verdict::Lane | Verdict::Parked(_) | Verdict::Blocked(_) => {
                return run_by_itself(locked, waiter);
            }
        }
        waiter.end();
        self.count_time(pending.found, took_us * 1000);
        let (found, reply_bytes) = (pending.found, reply.len());
        self.note_keys(FinishedCommand { found, args: &args, took_us, reply_bytes });
        let (waiter, inbox) = (Arc::clone(waiter), Arc::clone(&pending.inbox));
        served.push(Served { waiter, inbox, reply, took_us });
        true
    }
}

impl Turn<'_> {
    /// Whether its user may still run a blocked command. If not, the command runs again by itself,
    /// and is refused there.
    fn may_be_served(&self, session: &mut Session, found: CommandRef, args: &[&[u8]]) -> bool {
        self.engine.renew(session)
            && (!session.has_rules() || self.engine.ask(session, session.db, (found, args)).is_ok())
    }
}

/// Has a claimed waiter's connection run the command again. Always true: it has left the queue.
fn run_by_itself(locked: &mut Locked<'_>, waiter: &Waiter) -> bool {
    waiter.end();
    locked.wake_later(waiter.ticket());
    true
}

fn waited_keys(found: CommandRef, args: &OwnedArgs, which: WaitedKeys) -> Vec<&[u8]> {
    let args = args.slices();
    let positions = key_positions(found.row, &args).unwrap_or_default();
    let count = match which {
        WaitedKeys::All => positions.len(),
        WaitedKeys::First => 1,
    };
    let mut keys: Vec<&[u8]> = positions.into_iter().take(count).map(|at| args[at]).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Whether a waiter's command may be served by a key that now has this type. Running it takes time
/// in proportion to its keys, and another command may have changed all of them.
fn concerns(waiter: &Waiter, kind: Option<Type>) -> bool {
    let pending = waiter.request.downcast_ref::<PendingServe>();
    let wanted = pending.and_then(|pending| match pending.found.row.group {
        Group::List => Some(Type::List),
        Group::SortedSet => Some(Type::SortedSet),
        // A consumer is also told that its stream is gone.
        Group::Stream if !pending.found.row.flags.intersects(Flags::WRITE) => Some(Type::Stream),
        _ => None,
    });
    wanted.is_none() || wanted == kind
}

impl BlockedCommand {
    /// Claims it, so that nothing else serves it, and takes it out of the queues. False if it is
    /// being served or called at this moment.
    pub fn give_up(&self, engine: &Engine) -> bool {
        let is_won = self.waiter.claim();
        if is_won {
            self.waiter.end();
            self.forget(engine, 1);
        }
        is_won
    }

    /// Logs its ended command if that is worthwhile; returns its row.
    pub fn note(
        &self,
        engine: &Engine,
        session: &Session,
        took_us: u64,
        reply_bytes: usize,
    ) -> Option<CommandRef> {
        let PendingServe { found, args, .. } = self.waiter.request.downcast_ref()?;
        let args = &args.slices();
        engine.log_ended(session, FinishedCommand { found: *found, args, took_us, reply_bytes });
        Some(*found)
    }

    /// The error that sends its client to another node, if its keys are not at this one any more.
    pub fn redirection(
        &self,
        slots: &SlotTable,
        session: &Session,
        tls_port: u16,
    ) -> Option<ClientError> {
        let PendingServe { found, args, .. } = self.waiter.request.downcast_ref()?;
        let keys = args.slices();
        routing::redirection(slots, session, (*found, &keys), tls_port)
    }

    /// Removes the ended waiter from the queues of its keys, if these are at least `at_least`.
    pub fn forget(&self, engine: &Engine, at_least: usize) {
        let Some(pending) = self.waiter.request.downcast_ref::<PendingServe>() else { return };
        let keys = waited_keys(pending.found, &pending.args, pending.keys);
        if keys.len() >= at_least {
            for key in keys {
                forget_waiter(engine, pending.session.db, key, &self.waiter);
            }
        }
    }
}

/// An ended waiter in the queue of a busy partition: it is removed when the partition is freed. It
/// would keep its worker's inbox alive otherwise.
struct StaleWaiter {
    engine: Weak<Engine>,
    db: DbIndex,
    key: Box<[u8]>,
    waiter: Arc<Waiter>,
}

impl pantala_keyspace::Inbox for StaleWaiter {
    fn unpark(&self, _connection: u64, _parking: u32) {}

    fn wake(&self) {
        if let Some(engine) = self.engine.upgrade() {
            forget_waiter(&engine, self.db, &self.key, &self.waiter);
        }
    }
}

/// Removes an ended waiter from the queue of a key: now, or once the partition is free.
fn forget_waiter(engine: &Engine, db: DbIndex, key: &[u8], waiter: &Arc<Waiter>) {
    let space = &engine.space;
    while let Err(busy) = space.forget_waiter(db, space.key(key), waiter) {
        let (engine, waiter) = (engine.weak(), Arc::clone(waiter));
        let forgotten = StaleWaiter { engine, db, key: key.into(), waiter };
        if space.park(busy, Ticket::Inbox(Arc::new(forgotten))).is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use pantala_base::clock::unix_ms;
    use pantala_base::hash::HashSeed;
    use pantala_commands::{Lane, Registry, families};
    use pantala_journal::{Journal, Recorder};
    use pantala_settings::Settings;

    use super::*;
    use crate::clients::mailbox::NoWorkers;
    use crate::engine::assemble::Parts;
    use crate::engine::limits::Limited;

    /// What was handed over when something was left there, and what that was.
    struct Looking(Arc<Journal>, Mutex<Vec<(usize, Message)>>);

    impl pantala_keyspace::Inbox for Looking {
        fn unpark(&self, _connection: u64, _parking: u32) {}

        fn wake(&self) {}
    }

    impl Mailbox for Looking {
        fn leave(&self, message: Message) {
            self.1.lock().push((self.0.waiting_bytes(), message));
        }
    }

    fn run(
        engine: &Engine,
        recorder: &Recorder,
        inbox: &Arc<dyn Mailbox>,
        connection: u64,
        line: &str,
    ) -> Verdict {
        let (limited, tally) = (Limited::of(engine), engine.stats.tallies.join());
        let turn = Turn::new(engine, (&tally, recorder), &limited, Lane::Worker, (unix_ms(), 0));
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let found = engine.registry.resolve(&args).expect("it is known");
        let target = ReplyTarget { inbox, connection, parking: 0, waited: None };
        let mut session = Session::new(connection);
        turn.run(&mut session, found, &args, &mut Vec::new(), &target)
    }

    #[test]
    fn who_waits_is_answered_when_the_step_has_been_handed_over() {
        let engine = Engine::new(Parts {
            settings: Settings::defaults(),
            file: None,
            seed: HashSeed::from_words(1, 2),
            registry: Registry::new(&[families::list::ROWS]),
            workers: Arc::new(NoWorkers),
            change_sink: None,
        });
        engine.journal.turn(true);
        let recorder = engine.journal.join();
        let looking = Arc::new(Looking(Arc::clone(&engine.journal), Mutex::default()));
        let inbox: Arc<dyn Mailbox> = Arc::<Looking>::clone(&looking);
        let waiting: Vec<Verdict> =
            [1, 2].map(|one| run(&engine, &recorder, &inbox, one, "BLPOP k 0")).into();
        assert!(waiting.iter().all(|verdict| matches!(verdict, Verdict::Blocked(_))));
        let pushed = run(&engine, &recorder, &inbox, 3, "RPUSH k a b");
        assert!(matches!(pushed, Verdict::Finished));
        let all = engine.journal.waiting_bytes();
        let left = looking.1.lock();
        let served = left.iter().map(|(waiting_bytes, message)| match message {
            Message::Served { connection, reply, step, .. } => {
                assert_eq!(*step, recorder.last());
                (*connection, *waiting_bytes, String::from_utf8_lossy(reply).into_owned())
            }
            _ => panic!("something else was left"),
        });
        let reply = |element: &str| format!("*2\r\n$1\r\nk\r\n$1\r\n{element}\r\n");
        assert!(all > 0, "the step was handed over");
        assert_eq!(served.collect::<Vec<_>>(), [(1, all, reply("a")), (2, all, reply("b"))]);
    }
}
