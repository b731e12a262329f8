//! A worker: one thread, one reactor, its connections, and the turn that serves them.
//!
//! ```text
//! wait -> events: new sockets, received bytes, sent buffers      (here; with TLS: secured.rs)
//!      -> messages: unparked connections, replies of the lane    (turn/messages.rs)
//!      -> chunks -> windows of commands -> groups -> replies     (serving)
//!      -> flush: one send for every connection with output       (output/sending.rs)
//! ```
//!
//! Invariants
//! 1. A command is run by the worker that received it, or by the slow lane on its behalf.
//! 2. Nothing here blocks except the reactor's `wait` and, for microseconds, the gate. Code that
//!    may wait for partitions asserts that it does not run on a worker (`WorkerMark`).
//! 3. A connection has at most one chunk a turn, and is at most once in `touched`.
//! 4. A connection that can go on without anything new arriving is in `resumed`.
//! 5. A worker that retires runs nothing more of what its connections send, however busy they are:
//!    it finishes the commands under way, and hands each connection over, with its bytes, as soon
//!    as none of its bytes are being sent.
//!
//! Tests: the server's `tests/`, and everything in compat.

pub mod admission;
pub mod connection;
pub mod output;
mod secured;
pub mod serving;
pub mod state;
pub mod turn;

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use pantala_acl::VersionedUsers;
use pantala_base::clock::monotonic_us;
use pantala_commands::{Protocol, ServicePlace};
use pantala_engine::Mailbox;
use pantala_journal::Recorder;
use pantala_keyspace::WorkerMark;
use pantala_reactor::{Event, Events, Ops, Reactor, Token};
use pantala_settings::Settings;

use crate::WorkerContext;
use crate::worker::connection::{Connection, Life, handle_of};
use crate::worker::output::fence::TurnFence;
use crate::worker::serving::begins_with_resp;
use crate::worker::serving::chunk::{Chunk, Chunks};
use crate::worker::serving::window::Scratch;
use crate::worker::state::{Balance, Handshakes, Sharing, Timeouts, TurnParts};
use crate::worker::turn::spare::SpareBuffers;
use crate::workers::inbox::{Inbox, Message};
use pantala_engine::engine::limits::Limited;
use pantala_engine::stats::tallies::ThreadTally;

/// The interval of the chores (idle clients, soft limits), while there are any.
const CHORE_INTERVAL: Duration = Duration::from_secs(1);
/// How soon a worker that DEBUG SLEEP holds up notices that the server is to stop.
const SLEEP_LOOK: Duration = Duration::from_millis(100);

/// How soon an idle worker tries again to evict tracked keys beyond the limit.
const TRACKED_INTERVAL: Duration = Duration::from_millis(1);

/// One worker with its reactor, as its thread runs it.
pub struct WorkerThread {
    reactor: Reactor,
    worker: Worker,
}

/// Connections that need attention, by index.
#[derive(Default)]
pub struct ConnectionLists {
    /// To be looked at when the turn ends.
    pub touched: Vec<u32>,
    /// To go on in the next turn, without anything new arriving.
    pub resumed: Vec<u32>,
    /// Those whose output waits until the journal is durable.
    pub unkept: Vec<u32>,
    /// Those whose command (WAIT, WAITAOF) waits for the journal or for replicas.
    pub awaiting: Vec<u32>,
    /// The monitors.
    pub monitors: Vec<u32>,
    /// Those of replicas.
    pub replicas: Vec<u32>,
    /// Connections that speak HTTP and must be given to the control plane.
    pub to_http: Vec<u32>,
    /// The places of lost connections whose subscriptions are still being removed.
    pub unsubscribing: Vec<ServicePlace>,
    /// Spare buffers.
    pub spare: SpareBuffers,
}

/// The state of the periodic chores.
#[derive(Default)]
pub struct Chores {
    /// When they are due (monotonic, microseconds).
    pub next_us: u64,
    /// A connection's output is above its soft limit.
    pub is_over_soft: bool,
    /// A connection has grown, or the memory for clients has shrunk: eviction of clients is
    /// checked.
    pub has_grown: bool,
    /// An upper bound of the bytes that the largest evictable connection takes.
    pub largest_bytes: u64,
    /// The earliest login deadline of a connection (monotonic, microseconds).
    pub next_login_us: Option<u64>,
    /// Until when refusals of HTTP are not logged again (monotonic, microseconds).
    pub http_told_until_us: u64,
    /// The commands that this turn has run, and the microseconds they took.
    pub ran: (u64, u64),
    /// Until when nobody is served (monotonic, microseconds): DEBUG SLEEP.
    pub asleep_until_us: u64,
    /// How many bytes all replicas had been sent when their buffers were last looked at.
    pub replica_sent_bytes: u64,
}

/// The progress in delivering published messages.
#[derive(Default)]
pub struct Delivery {
    /// Bytes delivered in this turn.
    pub told_bytes: usize,
    /// A message that the previous turn could not deliver to all subscribers.
    pub sharing: Option<Box<Sharing>>,
}

/// A worker without its reactor, so that events can be read while connections change.
pub struct Worker {
    pub(crate) context: Arc<WorkerContext>,
    /// What each turn borrows.
    pub(crate) parts: Arc<TurnParts>,
    pub(crate) index: usize,
    /// Its messages.
    pub inbox: Arc<Inbox>,
    /// A message taken out too early, which comes before those in the inbox; never beyond a turn.
    pub set_aside: Option<Message>,
    /// The inbox as the engine knows it.
    pub mailbox: Arc<dyn Mailbox>,
    pub(crate) tally: Arc<ThreadTally>,
    /// Records its commands in the journal; the turn has it while one runs.
    pub recorder: Option<Box<Recorder>>,
    pub(crate) settings: Arc<Settings>,
    settings_version: u64,
    /// The users in force, as its connections know them.
    pub users: VersionedUsers,
    pub(crate) limited: Arc<Limited>,
    /// The connections, by index.
    pub connections: Vec<Option<Box<Connection>>>,
    pub(crate) open_count: usize,
    /// Connections that need attention.
    pub lists: ConnectionLists,
    pub(crate) chores: Chores,
    pub(crate) delivery: Delivery,
    pub(crate) scratch: Scratch,
    pub(crate) timeouts: Timeouts,
    pub(crate) handshakes: Handshakes,
    /// The state of the load balancing.
    pub balance: Balance,
    pub(crate) now_us: u64,
    /// Whether what this turn writes may leave.
    pub(crate) fence: TurnFence,
    pub(crate) is_retiring: bool,
    /// Commands given to the slow lane and not answered yet, also of connections that have gone:
    /// the worker ends what these have begun (a subscription, blocking on a key).
    pub lane_jobs: usize,
}

impl WorkerThread {
    /// The worker with this index.
    pub fn new(
        context: Arc<WorkerContext>,
        index: usize,
        reactor: Reactor,
        inbox: Arc<Inbox>,
    ) -> Self {
        WorkerThread { reactor, worker: Worker::new(context, index, inbox) }
    }

    /// Serves until the server stops or this worker is retired and empty.
    pub fn serve(mut self) {
        let _guard = WorkerMark::new();
        let tally = Arc::clone(&self.worker.tally);
        self.worker.context.workers.began(self.worker.index, tally);
        while !self.worker.is_finished() {
            self.worker.sleep_as_told();
            match self.reactor.wait(self.worker.longest_sleep()) {
                Ok((events, mut ops)) => self.worker.turn(events, &mut ops),
                Err(error) => {
                    tracing::error!(worker = self.worker.index, %error, "the event loop failed");
                    self.worker.context.engine.condition.shutdown.begin();
                    break;
                }
            }
        }
        let context = Arc::clone(&self.worker.context);
        for message in context.workers.retired(self.worker.index) {
            self.worker.take_engine_message(message);
        }
        pantala_memory::release_seat();
    }
}

impl Worker {
    /// The worker with this index, without a reactor: its owner calls it.
    pub fn new(context: Arc<WorkerContext>, index: usize, inbox: Arc<Inbox>) -> Self {
        let settings = context.engine.settings.current();
        let limited = Arc::new(Limited::of(&context.engine));
        let users = context.engine.acl.in_force();
        let tally = context.engine.stats.tallies.join();
        let recorder = Box::new(context.engine.journal.join());
        Worker {
            parts: Arc::new(TurnParts::of(&context)),
            context,
            index,
            mailbox: inbox.clone(),
            inbox,
            set_aside: None,
            tally,
            recorder: Some(recorder),
            settings,
            settings_version: 0,
            users,
            limited,
            connections: Vec::new(),
            open_count: 0,
            lists: ConnectionLists::default(),
            chores: Chores::default(),
            delivery: Delivery::default(),
            scratch: Scratch::default(),
            timeouts: Timeouts::default(),
            handshakes: Handshakes::default(),
            balance: Balance::default(),
            now_us: monotonic_us(),
            fence: TurnFence::default(),
            is_retiring: false,
            lane_jobs: 0,
        }
    }

    fn is_finished(&self) -> bool {
        self.context.engine.condition.shutdown.is_final()
            || (self.is_retiring
                && self.open_count == 0
                && self.lane_jobs == 0
                && self.inbox.is_empty()
                && !self.has_published())
    }

    /// Serves nobody while DEBUG SLEEP lasts, or until the server is to stop.
    fn sleep_as_told(&mut self) {
        let until_us = take(&mut self.chores.asleep_until_us);
        let shutdown = &self.context.engine.condition.shutdown;
        while until_us > monotonic_us() && !shutdown.is_preparing() && !shutdown.is_final() {
            let left = Duration::from_micros(until_us.saturating_sub(monotonic_us()));
            shutdown.pause_for(left.min(SLEEP_LOOK));
        }
    }

    /// How long the next `wait` may sleep.
    fn longest_sleep(&self) -> Option<Duration> {
        let has_lines = self.has_to_show();
        if !self.lists.resumed.is_empty()
            || !self.inbox.is_empty()
            || has_lines
            || self.has_published()
            || self.handshakes.are_waiting()
        {
            return Some(Duration::ZERO);
        }
        let pause = self.context.engine.condition.pause.ends_in(monotonic_us);
        let chores = self.has_chores().then_some(CHORE_INTERVAL);
        let tracked = self.has_too_many_tracked().then_some(TRACKED_INTERVAL);
        let waiting = self
            .timeouts
            .next_us()
            .map(|until_us| Duration::from_micros(until_us.saturating_sub(monotonic_us())));
        let handshakes = self.handshakes_end_in();
        let logins = self
            .chores
            .next_login_us
            .map(|next_us| Duration::from_micros(next_us.saturating_sub(monotonic_us())));
        let ends = [pause, chores, tracked, waiting, handshakes, logins];
        ends.into_iter().flatten().min()
    }

    fn has_chores(&self) -> bool {
        let timed = self.settings.timeout_s > 0
            || self.chores.is_over_soft
            || !self.lists.replicas.is_empty();
        self.open_count > 0 && (self.is_retiring || timed)
    }

    fn turn(&mut self, events: Events<'_>, ops: &mut Ops<'_>) {
        self.refresh();
        let mut chunks = Chunks::default();
        for event in events {
            self.take_event(event, ops, &mut chunks);
        }
        self.take_handshakes(&mut chunks, ops);
        let engine = &self.context.engine;
        engine.condition.activity.report();
        if engine.condition.pause.take_over(&engine.space, self.now_us) {
            self.context.engine.workers.post_all(&|| pantala_engine::Message::PauseChanged);
        }
        self.take_messages(ops);
        self.deliver_published();
        self.feed_monitors();
        self.forget_listeners();
        self.end_waiting();
        self.take_resumed(&mut chunks);
        if !self.lists.to_http.is_empty() {
            self.give_to_http(ops);
        }
        // All that runs in this turn has arrived.
        self.look_at_users();
        if !chunks.is_empty() {
            self.serve(chunks);
            if self.context.engine.notices.trackers.is_used() || self.set_aside.is_some() {
                // A client that changed a key it has cached gets the invalidation together with the
                // reply.
                self.take_messages(ops);
            }
            self.deliver_published();
            self.feed_monitors();
        } else if self.has_too_many_tracked() {
            self.forget_tracked();
            self.take_messages(ops);
        }
        self.do_chores(ops);
        self.end_late_logins(ops);
        self.balance(ops);
        self.flush(ops);
    }

    /// Reads the clock, and takes over changed settings.
    pub fn refresh(&mut self) {
        self.now_us = monotonic_us();
        self.delivery.told_bytes = 0;
        self.tally.turns.add(1);
        self.chores.ran = (0, 0);
        let version = self.context.engine.settings.version();
        if version != self.settings_version {
            self.settings_version = version;
            self.settings = self.context.engine.settings.current();
            self.limited = Arc::new(Limited::of(&self.context.engine));
            self.chores.has_grown = true;
            // `auth_timeout` may have changed for those that have yet to authenticate.
            self.chores.next_login_us = (self.open_count > 0).then_some(self.now_us);
        }
        self.is_retiring = self.context.workers.is_retiring(self.index);
        self.fence = TurnFence::of(self.limited.permit(&self.context.engine, self.now_us));
    }

    fn take_event<'t>(&mut self, event: Event<'t>, ops: &mut Ops<'_>, chunks: &mut Chunks<'t>) {
        match event {
            Event::Data { conn, bytes } => self.receive(conn, bytes, chunks),
            Event::Sent { conn, buffer } => self.sent(conn, buffer),
            Event::Accepted { socket, listener } => self.accept(socket, listener, ops),
            Event::Eof { conn } => {
                if let Some(connection) = self.find(conn) {
                    connection.peer.is_done = true;
                    connection.sends_no_more();
                    self.touch(conn.index);
                }
            }
            Event::HungUp { conn } => {
                if let Some(connection) = self.find(conn) {
                    connection.peer.has_hung_up = true;
                    connection.sends_no_more();
                    self.touch(conn.index);
                }
            }
            Event::Failed { conn, error: _ } => {
                if let Some(tls) = self.find(conn).and_then(|connection| connection.tls.as_mut()) {
                    tls.hears_nothing();
                }
                self.drop_connection(conn, ops);
            }
            Event::Closed { conn, buffer } => {
                self.forget(conn);
                self.keep_buffer(buffer.unwrap_or_default());
            }
            Event::Detached { conn, socket } => self.hand_over(conn, socket),
            Event::AcceptFailed { error, .. } => {
                tracing::warn!(%error, "cannot accept connections at the moment");
            }
            // Workers open no connections.
            Event::Connected { .. } | Event::Unlistened { .. } | Event::Woken => {}
        }
    }

    pub(crate) fn find(&mut self, token: Token) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(token.index as usize)?.as_deref_mut()?;
        (connection.token == token).then_some(connection)
    }

    /// The connection with this number, as other threads name it, if it still lives.
    pub fn find_handle(&mut self, handle: u64) -> Option<&mut Connection> {
        let index = (handle & u64::from(u32::MAX)) as usize;
        let connection = self.connections.get_mut(index)?.as_deref_mut()?;
        (handle_of(connection.token) == handle).then_some(connection)
    }

    /// The connection at this index.
    #[inline]
    pub fn at(&mut self, index: u32) -> Option<&mut Connection> {
        self.connections.get_mut(index as usize)?.as_deref_mut()
    }

    /// Has a connection looked at when the turn ends.
    #[inline]
    pub fn touch(&mut self, index: u32) {
        if let Some(connection) = self.at(index)
            && !connection.marks.is_touched
        {
            connection.marks.is_touched = true;
            self.lists.touched.push(index);
        }
    }

    /// Lets a connection go on with its input.
    pub fn resume(&mut self, index: u32) {
        if let Some(connection) = self.at(index) {
            connection.marks.is_resumed = true;
        }
        self.lists.resumed.push(index);
        self.touch(index);
    }

    /// Takes bytes that a connection has received; whole ones become chunks.
    pub fn receive<'t>(&mut self, conn: Token, bytes: &'t [u8], chunks: &mut Chunks<'t>) {
        self.tally.received_bytes.add(bytes.len() as u64);
        self.tally.reads.add(1);
        let (now_us, is_retiring) = (self.now_us, self.is_retiring);
        let Some(mut connection) = self.find(conn) else { return };
        if connection.tls.is_some() {
            if !self.begins_plainly(conn, bytes) {
                return self.receive_sealed(conn, bytes, chunks);
            }
            let Some(found) = self.find(conn) else { return };
            connection = found;
        }
        connection.counts.received_bytes += bytes.len() as u64;
        connection.counts.active_us = now_us;
        match connection.life {
            Life::Open => {}
            // Bytes that were on their way are for its next worker.
            Life::Leaving => return connection.input.bytes.extend_from_slice(bytes),
            // It runs nothing any more.
            Life::Ending | Life::Closing => return,
        }
        if connection.session.protocol == Protocol::Undecided {
            if !begins_with_resp(&connection.input.bytes, bytes) {
                connection.input.bytes.extend_from_slice(bytes);
                return self.resume(conn.index);
            }
            connection.session.protocol = Protocol::Resp;
        }
        let chunks = chunks.of(connection.session.protocol);
        match connection.marks.chunk {
            Some(chunk) => chunks[chunk as usize].extend(bytes),
            None if !connection.is_ready() => connection.input.bytes.extend_from_slice(bytes),
            None if is_retiring => {
                connection.input.bytes.extend_from_slice(bytes);
                connection.marks.is_resumed = true;
            }
            None => {
                connection.marks.chunk = Some(chunks.len() as u32);
                if connection.input.bytes.is_empty() {
                    chunks.push(Chunk::received(conn.index, bytes));
                } else {
                    connection.input.bytes.extend_from_slice(bytes);
                    chunks.push(Chunk::kept(conn.index, connection));
                }
            }
        }
        self.touch(conn.index);
    }

    /// Adds the chunks of connections that go on without anything new.
    pub fn take_resumed(&mut self, chunks: &mut Chunks<'_>) {
        let mut resumed = std::mem::take(&mut self.lists.resumed);
        for index in resumed.drain(..) {
            let is_retiring = self.is_retiring;
            let Some(connection) = self.at(index) else { continue };
            connection.marks.is_resumed = is_retiring;
            if is_retiring {
                continue;
            }
            let is_fresh = connection.session.protocol == Protocol::Undecided;
            let is_known = !is_fresh || self.decide_protocol(index);
            let Some(connection) = self.at(index) else { continue };
            if is_known
                && connection.is_ready()
                && connection.marks.chunk.is_none()
                && !connection.input.bytes.is_empty()
            {
                let chunks = chunks.of(connection.session.protocol);
                connection.marks.chunk = Some(chunks.len() as u32);
                chunks.push(Chunk::kept(index, connection));
            }
            // Even without input: if its peer has sent a FIN, it may have to end.
            self.touch(index);
        }
        self.lists.resumed = resumed;
    }

    fn forget(&mut self, conn: Token) {
        self.stop_waiting(conn.index);
        if self.find(conn).is_some() {
            self.connections[conn.index as usize] = None;
            self.open_count -= 1;
            self.context.workers.left(self.index);
            self.context.workers.room.went();
        }
    }

    /// Checks idle clients and soft limits, and evicts or hands over connections.
    fn do_chores(&mut self, ops: &mut Ops<'_>) {
        if !self.has_chores() || self.now_us < self.chores.next_us {
            return;
        }
        let interval_us = if self.is_retiring { 0 } else { CHORE_INTERVAL.as_micros() as u64 };
        self.chores.next_us = self.now_us + interval_us;
        let timeout_us = u64::from(self.settings.timeout_s) * 1_000_000;
        self.chores.is_over_soft = false;
        self.keep_replicas_alive();
        for index in 0..self.connections.len() {
            let now_us = self.now_us;
            let is_retiring = self.is_retiring;
            let Some(connection) = self.at(index as u32) else { continue };
            let token = connection.token;
            let is_idle =
                timeout_us > 0 && now_us.saturating_sub(connection.counts.active_us) > timeout_us;
            let is_exempt = connection.waits.parked.is_some()
                || connection.session.monitor
                || connection.session.is_subscribed();
            if is_idle && !is_exempt {
                self.drop_connection(token, ops);
            } else if is_retiring {
                self.give_away(index as u32, ops);
            } else if connection.output.over_soft_since_us.is_some() {
                self.touch(index as u32);
            }
        }
    }
}
