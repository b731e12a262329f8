//! What the commands of a group need of other threads, done once no partition is held.

use std::sync::Arc;

use pantala_base::clock::unix_ms;
use pantala_commands::{ClientError, CommandRef, Flags, Lane, Locking, OwnedArgs, Park};
use pantala_keyspace::{ALL_OR_NONE_TRIES, Busy, Keyspace, Ticket, WaitTarget};

use super::window::{Deferred, Goal, Item, OwnedCommand, Window};
use crate::worker::Worker;
use crate::worker::connection::{Connection, ParkReason};
use pantala_engine::engine::slots_cell::WritePermit;
use pantala_engine::execute::{Refusal, Turn, keep_for_exec};
use pantala_engine::lane::Job;
use pantala_engine::waiting::CountedAsBlocked;

impl Worker {
    /// Does what a command needs of other threads, once no partition is held.
    #[cold]
    pub(super) fn perform(
        &mut self,
        window: &mut Window<'_>,
        turn: &Turn<'_>,
        position: usize,
        action: Deferred,
    ) {
        let parsed = &window.parsed[position];
        let index = window.chunks[parsed.chunk as usize].index;
        match action {
            Deferred::Lane(found) if !window.is_long(parsed) => {
                window.progress[parsed.chunk as usize].done = parsed.end;
                self.give_to_lane(index, found, OwnedArgs::of(window.args_of(parsed)));
            }
            Deferred::Lane(found) => window.take(position, found, Goal::Lane),
            Deferred::Queue(found, arg_count) => {
                window.take(position, found, Goal::Queue(arg_count))
            }
            Deferred::Park(Park::Partition(busy)) => {
                match self.context.engine.scripts.busy.error(WaitTarget::Partition(busy.0)) {
                    None => self.park_or_give_to_lane(window, position, busy),
                    Some(error) => {
                        window.progress[parsed.chunk as usize].done = parsed.end;
                        let args = window.args_of(parsed);
                        self.refuse_waiting(index, turn, (&parsed.item, args), error);
                    }
                }
            }
            Deferred::Park(Park::Visit(busy)) => {
                self.park_with(index, |space, ticket| space.park_visitor(busy, ticket));
            }
            Deferred::Park(Park::Snapshot(wait)) => {
                self.park_with(index, |space, ticket| space.park_for_snapshot(wait, ticket));
            }
            Deferred::Park(Park::Pin(wait)) => {
                self.park_with(index, |space, ticket| space.park_at_pin(wait, ticket));
            }
            // Not of a group: `Again` comes from commands that are served, `Keys` from blocking
            // ones, which run alone, `Token`, `Aborted` and `Errand` from those on the lane.
            Deferred::Park(
                Park::Again | Park::Keys(_) | Park::Token(_) | Park::Aborted(_) | Park::Errand,
            ) => {}
            Deferred::Block(blocked) => {
                window.progress[parsed.chunk as usize].done = parsed.end;
                if let Some(parked) = self.at(index).and_then(|one| one.waits.parked.as_mut()) {
                    parked.waiting = ParkReason::Keys;
                }
                self.block(index, blocked);
            }
            Deferred::Log(found, took_us, reply_bytes) => {
                let context = Arc::clone(&self.context);
                let Some(connection) = self.at(index) else { return };
                let args = window.args_of(parsed);
                context.engine.stats.logs.note(
                    &connection.session,
                    found,
                    args,
                    took_us,
                    reply_bytes,
                );
            }
            Deferred::Pause => {
                let counted = CountedAsBlocked::new(&self.context.engine);
                if let Some(connection) = self.at(index) {
                    connection.park(ParkReason::Pause);
                    connection.waits.paused = Some(counted);
                }
            }
        }
    }

    /// Parks a connection on a busy partition, or, after many attempts, gives its command to the
    /// lane, which waits for all of its partitions in order.
    fn park_or_give_to_lane(&mut self, window: &mut Window<'_>, position: usize, busy: Busy) {
        let parsed = &window.parsed[position];
        let index = window.chunks[parsed.chunk as usize].index;
        let Some(connection) = self.at(index) else { return };
        connection.count_try();
        match parsed.item {
            Item::Command { found: Some(found), .. } if connection.tries() >= ALL_OR_NONE_TRIES => {
                window.progress[parsed.chunk as usize].done = parsed.end;
                self.give_to_lane(index, found, OwnedArgs::of(window.args_of(parsed)));
            }
            _ => self.park_on(index, busy),
        }
    }

    /// Parks a connection on a busy partition. If the partition is free again by now, the
    /// connection wakes itself: it must stay parked until this turn ends, or later commands of it
    /// in the window would run first.
    fn park_on(&mut self, index: u32, busy: Busy) {
        self.park_with(index, |space, ticket| space.park(busy, ticket));
    }

    /// Parks a connection with the ticket that `leave` puts where it is to be redeemed; the
    /// connection may wake itself, as in `park_on`.
    fn park_with(
        &mut self,
        index: u32,
        leave: impl FnOnce(&Keyspace, Ticket) -> Result<(), Ticket>,
    ) {
        self.tally.parked.add(1);
        let inbox: Arc<dyn pantala_keyspace::Inbox> = self.inbox.clone();
        let Some(connection) = self.at(index) else { return };
        let parking = connection.park(ParkReason::Partition);
        let ticket = Ticket::Connection { inbox, connection: connection.handle(), parking };
        if let Err(ticket) = leave(&self.context.engine.space, ticket) {
            pantala_sync::lock::Ticket::wake(ticket);
        }
    }

    /// Answers a command with an error in place of blocking. The connection wakes itself: as in
    /// `park_on`, it stays parked until the turn ends.
    #[cold]
    fn refuse_waiting(
        &mut self,
        index: u32,
        turn: &Turn<'_>,
        (item, args): (&Item, &[&[u8]]),
        error: &ClientError,
    ) {
        let Item::Command { found, .. } = *item else { return };
        let inbox = Arc::clone(&self.inbox);
        let Some(connection) = self.at(index) else { return };
        turn.refuse(&mut connection.session, (found, args), error, &mut connection.output.bytes);
        connection.throttle_output();
        let parking = connection.park(ParkReason::Partition);
        pantala_keyspace::Inbox::unpark(&*inbox, connection.handle(), parking);
    }

    /// Hands a command over with its bytes; its connection is parked.
    pub(super) fn give(&mut self, index: u32, taken: OwnedCommand, args: OwnedArgs) {
        let OwnedCommand { found, goal, .. } = taken;
        let Goal::Queue(arg_count) = goal else { return self.give_to_lane(index, found, args) };
        let is_refused = self.refuses_to_keep(index, found, &args);
        let Some(connection) = self.at(index) else { return };
        let Connection { session, output, .. } = connection;
        if !is_refused {
            keep_for_exec(session, found, (args, arg_count), &mut output.bytes);
        }
        connection.begun(found.number);
        connection.waits.parked = None;
        self.resume(index);
    }

    /// Refuses a long command between MULTI and EXEC that its user may not run; true if it did. Its
    /// arguments were not at hand when the command was admitted.
    fn refuses_to_keep(&mut self, index: u32, found: CommandRef, args: &OwnedArgs) -> bool {
        let tally = Arc::clone(&self.tally);
        let parts = Arc::clone(&self.parts);
        let (limited, now) = (Arc::clone(&self.limited), (unix_ms(), self.now_us));
        let Some(recorder) = self.recorder.take() else { return false };
        let turn = Turn::new(&*parts.server, (&tally, &recorder), &limited, Lane::Worker, now);
        let is_refused = self.at(index).is_some_and(|connection| {
            let Connection { session, output, .. } = connection;
            turn.refuses(session, (found, &args.slices()), &mut output.bytes)
        });
        self.recorder = Some(recorder);
        is_refused
    }

    /// Gives a connection's command to the slow lane.
    pub(super) fn give_to_lane(&mut self, index: u32, found: CommandRef, args: OwnedArgs) {
        self.tally.laned.add(1);
        let inbox = Arc::clone(&self.mailbox);
        let Some(connection) = self.at(index) else { return };
        let parking = connection.park(ParkReason::Lane);
        let job = Job {
            args,
            found,
            session: Box::new(connection.session.clone()),
            inbox,
            connection: connection.handle(),
            parking,
            locking: Locking::Upfront,
            tries: connection.tries(),
            waited: connection.waits.waited.take(),
            applicant: connection.applicant(),
            has_begun: false,
            permit: WritePermit::default(),
            answer: None,
        };
        if found.row.flags.intersects(Flags::TRANSACTION) {
            // Watching ends with EXEC; the lane has the watched keys.
            connection.session.watching = None;
        }
        connection.begun(found.number);
        self.lane_jobs += 1;
        self.context.engine.lane.submit(job);
    }
}

/// Answers a command that was not admitted, or returns what it waits for.
#[cold]
pub fn answer_refusal(
    turn: &Turn<'_>,
    connection: &mut Connection,
    refusal: Refusal,
    args: &[&[u8]],
) -> Option<Deferred> {
    let Connection { session, output, .. } = connection;
    match refusal {
        Refusal::Error(found, error) => {
            turn.refuse(session, (found, args), &error, &mut output.bytes);
            if let Some(found) = found.filter(|_| turn.is_monitored) {
                turn.show_refused_exec(session, found, args);
            }
            connection.throttle_output();
            None
        }
        Refusal::Queue(found) => {
            keep_for_exec(session, found, (OwnedArgs::of(args), args.len()), &mut output.bytes);
            connection.begun(found.number);
            None
        }
        Refusal::Lane(found) => Some(Deferred::Lane(found)),
        Refusal::Pause => Some(Deferred::Pause),
    }
}
