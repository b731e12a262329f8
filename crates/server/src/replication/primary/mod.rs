//! This server as a primary: who follows, how far each is, who waits for a full copy.
//!
//! ```text
//! PSYNC --> goes on: Online at once                                   (commands/replication)
//!       --> Waiting --keeper: together, after the delay--> copy --> Copying --> Online
//! worker/replicas.rs sends what each is to have, and hears what it says
//! ```
//!
//! Invariants
//! 1. A replica is in the list of those who follow from its PSYNC to the end of its connection.
//! 2. One full copy is made at a time, by a thread of its own; who comes later waits for the next.
//! 3. What a replica needs of the stream is kept from before the moment of its copy.
//!
//! | file | what |
//! |---|---|
//! | `keeper` | what time brings: copies that are due, replicas that are silent, unused streams |
//! | `copy` | one full copy |
//! | `direct` | a copy that is sent as it is made |
//! | `recipients` | those who get it |
//! | `joined` | connections beside the link, for a copy in parts |
//! | `spread` | such a copy |
//! | `sink` | a disk that is these |
//! | `file` | a copy that lies in a file before it is sent |
//!
//! Tests: compat/replication; compat/transcripts/replication.

mod copy;
mod direct;
mod file;
mod joined;
pub(super) mod keeper;
mod recipients;
mod sink;
mod spread;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;

use pantala_base::clock::monotonic_us;
use pantala_commands::Acknowledged;
use pantala_engine::condition::states::States;
use pantala_journal::Stamp;
use pantala_replication::{Kind, Phase, Replica};

pub use self::joined::join;

use self::recipients::Recipients;
use crate::shared::Shared;
use crate::workers::inbox::Message;

/// Something that is counted.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Once more.
    pub fn count(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// From nothing again.
    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// How many.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What INFO tells of those who asked for data.
#[derive(Debug, Default)]
pub struct Counts {
    /// Full copies.
    pub full: Count,
    /// Who went on where it was.
    pub partial: Count,
    /// Who wanted that in vain.
    pub refused: Count,
    /// Bytes that replicas were sent.
    pub sent_bytes: Count,
}

impl Counts {
    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        for count in [&self.full, &self.partial, &self.refused, &self.sent_bytes] {
            count.reset();
        }
    }
}

/// This server's side as a primary: counters, the keeper's waker, the full copy being made.
#[derive(Default)]
pub struct Primary {
    /// What is counted.
    pub counts: Counts,
    /// Where the keeper is woken, once it is there.
    keeper: Mutex<Option<Sender<()>>>,
    /// The copy that is being made.
    copying: Mutex<Option<Arc<Recipients>>>,
    copied: Condvar,
    /// Held while it is looked whether enough follow: who has looked last tells last.
    counting: Mutex<()>,
    /// Held while the memory that waits for replicas is measured, so that the newest measurement is
    /// the one stored. Taken before the locks of what is measured, and with none of them held.
    measuring: Mutex<()>,
}

impl Primary {
    /// The copy that is being made.
    fn copying(&self) -> Option<Arc<Recipients>> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These get one; false: another one is being made.
    fn begin_copy(&self, recipients: &Arc<Recipients>) -> bool {
        let mut copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = copying.is_none();
        copying.get_or_insert_with(|| Arc::clone(recipients));
        is_free
    }

    fn end_copy(&self) {
        *self.copying.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.copied.notify_all();
    }

    /// Calls off the copy that is being made, and waits for its end. Only where one may wait.
    pub fn cancel_and_wait(&self) {
        let mut copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(recipients) = copying.as_ref() {
            recipients.save.cancel();
            copying = self.copied.wait(copying).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a copy is being made.
    pub fn is_copying(&self) -> bool {
        self.copying().is_some()
    }

    /// Nobody looks after replicas but who calls [`keeper::look_once`].
    #[cfg(test)]
    pub fn keep_by_hand(&self) {
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel().0);
    }

    /// There is something for the keeper to look at.
    fn wake(&self) {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        // It ends with the server.
        let _ended = keeper.as_ref().map(|keeper| keeper.send(()));
    }
}

/// Where a replica is, as it says or as it connects.
pub fn address(replica: &Replica) -> (String, u16) {
    let announced = replica.announced();
    let from = || replica.from.map(|ip| ip.to_string()).unwrap_or_default();
    (announced.address.clone().unwrap_or_else(from), announced.port)
}

/// A replica as the log calls it.
pub fn name(replica: &Replica) -> String {
    match address(replica) {
        (_, 0) => format!("client {}", replica.client),
        (ip, port) if ip.contains(':') => format!("[{ip}]:{port}"),
        (ip, port) => format!("{ip}:{port}"),
    }
}

/// A replica wants all of the data. It is told when its turn has come.
pub fn wait_for_copy(shared: &Shared, replica: &Arc<Replica>) {
    replica.begin_at(0, monotonic_us());
    replica.set_phase(Phase::Waiting);
    shared.replication.replicas.join(replica);
    shared.replication.primary.counts.full.count();
    followers_changed(shared);
}

/// Somebody follows who did not, or follows no more.
pub fn followers_changed(shared: &Shared) {
    count_good(shared);
    let started = shared.arc().map_or(Ok(()), |shared| start_keeper(&shared));
    if let Err(why) = started {
        tracing::error!("nobody looks after replicas: {why}");
    }
    shared.replication.primary.wake();
    // It pings from now on, if nobody writes.
    shared.engine.journal.wake_reader();
}

/// Its connection has ended, or ends.
pub fn leave(shared: &Shared, replica: &Arc<Replica>) {
    if replica.phase() != Phase::Gone && !replica.announced().is_part {
        tracing::info!(replica = name(replica), "the connection with a replica is lost");
    }
    let replication = &shared.replication;
    replication.replicas.leave(replica);
    // What only it needed goes.
    let_go(shared);
    followers_changed(shared);
}

/// Lets go of what nobody needs of the stream, and tells what is left.
pub fn let_go(shared: &Shared) {
    let replication = &shared.replication;
    replication.stream.trim(replication.replicas.needed());
    tell_memory(shared);
}

/// Tells how much memory waits for replicas, beside what is kept for those who come back.
fn tell_memory(shared: &Shared) {
    let replication = &shared.replication;
    let measuring = &replication.primary.measuring;
    let _one_at_a_time = measuring.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = shared.engine.settings.current().repl_backlog_bytes;
    let stream = replication.stream.memory_bytes().saturating_sub(kept);
    let copies = replication.replicas.all();
    let copies = copies.iter().filter_map(|replica| replica.copy());
    let copies: u64 = copies.map(|copy| copy.bytes() as u64).sum();
    let parts = replication.primary.copying().map_or(0, |copying| {
        let parts = copying.list.iter().map(|recipient| recipient.joined.bytes() as u64);
        parts.sum()
    });
    shared.engine.condition.memory.set_unsent(stream + copies + parts);
}

/// Has the connection of a replica closed by its worker.
pub fn close(shared: &Shared, replica: &Arc<Replica>) {
    shared.replication.replicas.leave(replica);
    call(shared, replica);
    count_good(shared);
}

/// Has the worker of a replica look at it.
fn call(shared: &Shared, replica: &Replica) {
    if replica.call() {
        // One that has moved on is looked at by its new worker anyway.
        let _gone = shared.workers.post(replica.worker(), Message::StreamGrew);
    }
}

/// A replica has said how far it is.
pub fn heard(shared: &Shared) {
    if shared.replication.waiters.are_there() {
        shared.workers.post_where(|one| one.for_replicas.are_there(), || Message::JournalKept);
    }
    if shared.engine.condition.lasting.now().has(States::TOO_FEW_REPLICAS) {
        count_good(shared);
    }
}

/// Looks whether as many follow as `min-replicas-to-write` wants.
pub fn count_good(shared: &Shared) {
    let counting = &shared.replication.primary.counting;
    let _one_at_a_time = counting.lock().unwrap_or_else(PoisonError::into_inner);
    let settings = shared.engine.settings.current();
    let (wanted, lag_s) = (settings.min_replicas_to_write, settings.min_replicas_max_lag_s);
    let is_meant = wanted > 0 && lag_s > 0 && !shared.replication.is_replica();
    let lasting = &shared.engine.condition.lasting;
    match is_meant && good_count(shared) < wanted as usize {
        true => lasting.begin(States::TOO_FEW_REPLICAS),
        false => lasting.end(States::TOO_FEW_REPLICAS),
    }
    refuse_unknown(shared);
}

/// Whether one follows that is of this kind or an older one.
pub fn has_follower_of(shared: &Shared, kind: Kind) -> bool {
    let replicas = shared.replication.replicas.all();
    replicas
        .iter()
        .any(|replica| replica.phase() != Phase::Gone && replica.announced().kind() <= kind)
}

/// What replicas that follow do not know is refused, where that is wanted.
fn refuse_unknown(shared: &Shared) {
    let is_meant = shared.engine.settings.current().repl_refuse_unknown;
    let lasting = &shared.engine.condition.lasting;
    for (state, kind) in [(States::OTHERS_FOLLOW, Kind::Valkey), (States::OLD_FOLLOW, Kind::Redis)]
    {
        match is_meant && has_follower_of(shared, kind) {
            true => lasting.begin(state),
            false => lasting.end(state),
        }
    }
}

/// How many follow that were heard of lately.
pub fn good_count(shared: &Shared) -> usize {
    let lag_s = shared.engine.settings.current().min_replicas_max_lag_s;
    // Redis counts whole seconds.
    let lag_us = (u64::from(lag_s) + 1) * 1_000_000 - 1;
    shared.replication.replicas.count_heard_since(monotonic_us().saturating_sub(lag_us))
}

/// The settings are these now, at the start or later.
pub fn settings_changed(shared: &Shared) {
    let replication = &shared.replication;
    replication.stream.keep_bytes(shared.engine.settings.current().repl_backlog_bytes);
    let_go(shared);
    count_good(shared);
    replication.primary.wake();
}

/// How many servers have a step, for who asks like this.
pub fn acknowledged(shared: &Shared, step: Stamp, asked: Acknowledged) -> Acknowledged {
    let (replication, is_nothing) = (&shared.replication, step == Stamp::default());
    let position = match is_nothing {
        true => Some(0),
        // Not yet in the stream, or in none: nobody has it.
        false => replication.checkpoints.position_after(step),
    };
    let count = |position| replication.replicas.count_acknowledged(position, asked.on_disk);
    let is_kept = || is_nothing || shared.engine.journal.is_durable(step);
    Acknowledged {
        local: asked.on_disk && shared.appending.is_running() && is_kept(),
        replicas: position.map_or(0, count) as u64,
        ..asked
    }
}

/// Starts the keeper, if there is none.
fn start_keeper(shared: &Arc<Shared>) -> Result<(), String> {
    let primary = &shared.replication.primary;
    let mut keeper = primary.keeper.lock().unwrap_or_else(PoisonError::into_inner);
    if keeper.is_none() {
        let (sender, woken) = channel();
        let shared = Arc::downgrade(shared);
        let life = move || keeper::run(&shared, &woken);
        let spawned = Builder::new().name("replicas".into()).spawn(life);
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        *keeper = Some(sender);
    }
    Ok(())
}
