//! This server as a primary: its replicas, the position of each, and full copies.
//!
//! ```text
//! PSYNC --> goes on: Online at once                                   (commands)
//!       --> Waiting --keeper: together, after the delay--> copy --> Copying --> Online
//! worker/output/replicas.rs sends each replica its bytes, and reads its acknowledgements
//! ```
//!
//! Invariants
//! 1. A replica is in the list of replicas from its PSYNC to the end of its connection.
//! 2. One full copy is made at a time, by a thread of its own; later replicas wait for the next.
//! 3. What a replica needs of the stream is kept from before the moment of its copy.
//!
//! | file | what |
//! |---|---|
//! | `keeper` | timed work: copies that are due, replicas that are silent, unused streams |
//! | `copy` | one full copy |
//! | `direct` | a copy that is sent as it is made |
//! | `recipients` | the replicas that get a copy |
//! | `joined` | connections beside the link, for a copy in parts |
//! | `spread` | a copy in parts |
//! | `sink` | the recipients as a disk |
//! | `file` | a copy that is written to a file before it is sent |
//!
//! Tests: compat/replication; compat/transcripts/replication.

mod copy;
mod direct;
mod file;
mod joined;
pub mod keeper;
mod recipients;
mod sink;
mod spread;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use pantala_base::clock::monotonic_us;
use pantala_commands::Acknowledgements;
use pantala_engine::condition::states::States;
use pantala_journal::Stamp;
use pantala_psync::{FollowerKind, Phase, Replica};
use parking_lot::{Condvar, Mutex};

pub use self::joined::join;

use self::recipients::Recipients;
use crate::Replication;
use pantala_engine::Message;

/// A counter to which several threads add.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Resets it.
    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of PSYNC requests for INFO.
#[derive(Debug, Default)]
pub struct Counts {
    /// Full copies that were asked for.
    pub full: Count,
    /// Replicas that went on where they were.
    pub partial: Count,
    /// Replicas that wanted to go on, and could not.
    pub refused: Count,
    /// Bytes sent to replicas.
    pub sent_bytes: Count,
}

impl Counts {
    /// Resets them, for CONFIG RESETSTAT.
    pub fn reset(&self) {
        for count in [&self.full, &self.partial, &self.refused, &self.sent_bytes] {
            count.reset();
        }
    }
}

/// This server's side as a primary: counters, the keeper's waker, the full copy being made.
#[derive(Default)]
pub struct Primary {
    /// The counters.
    pub counts: Counts,
    /// Wakes the keeper, once that is there.
    keeper: Mutex<Option<Sender<()>>>,
    /// The recipients of the copy that is being made.
    copying: Mutex<Option<Arc<Recipients>>>,
    copied: Condvar,
    /// Held while the good replicas are counted, so that the newest count is the one in force.
    counting: Mutex<()>,
    /// Held while the memory that waits for replicas is measured, so that the newest measurement is
    /// the one stored. Taken before the locks of what is measured, and with none of them held.
    measuring: Mutex<()>,
}

impl Primary {
    /// The recipients of the copy that is being made.
    fn copying(&self) -> Option<Arc<Recipients>> {
        self.copying.lock().clone()
    }

    /// Begins a copy for these; false if another one is being made.
    fn begin_copy(&self, recipients: &Arc<Recipients>) -> bool {
        let mut copying = self.copying.lock();
        let is_free = copying.is_none();
        copying.get_or_insert_with(|| Arc::clone(recipients));
        is_free
    }

    fn end_copy(&self) {
        let copying = self.copying.lock().take();
        debug_assert!(copying.is_some(), "one was being made");
        self.copied.notify_all();
    }

    /// Cancels the copy that is being made, and waits for its end. Only on threads that may wait.
    pub fn cancel_and_wait(&self) {
        let mut copying = self.copying.lock();
        while let Some(recipients) = copying.as_ref() {
            recipients.save.cancel();
            self.copied.wait(&mut copying);
        }
    }

    /// Whether a copy is being made.
    pub fn is_copying(&self) -> bool {
        self.copying().is_some()
    }

    /// Leaves the keeper's work to callers of [`keeper::look_once`].
    pub fn keep_by_hand(&self) {
        *self.keeper.lock() = Some(channel().0);
    }

    /// Wakes the keeper.
    fn wake(&self) {
        let keeper = self.keeper.lock();
        // It ends with the server.
        let _ended = keeper.as_ref().map(|keeper| keeper.send(()));
    }
}

/// The address of a replica: as it announces it, or as it connects.
pub fn address(replica: &Replica) -> (String, u16) {
    let announced = replica.announced();
    let from = || replica.from.map(|ip| ip.to_string()).unwrap_or_default();
    (announced.address.clone().unwrap_or_else(from), announced.port)
}

/// The name of a replica in the log.
pub fn name(replica: &Replica) -> String {
    match address(replica) {
        (_, 0) => format!("client {}", replica.client),
        (ip, port) if ip.contains(':') => format!("[{ip}]:{port}"),
        (ip, port) => format!("{ip}:{port}"),
    }
}

/// Puts a replica into the queue for a full copy.
pub fn wait_for_copy(replication: &Replication, replica: &Arc<Replica>) {
    replica.begin_at(0, monotonic_us());
    replica.set_phase(Phase::Waiting);
    replication.downstream.replicas.join(replica);
    replication.primary.counts.full.count();
    followers_changed(replication);
}

/// A replica has joined or left.
pub fn followers_changed(replication: &Replication) {
    count_good(replication);
    let started = replication.arc().map_or(Ok(()), |replication| start_keeper(&replication));
    if let Err(why) = started {
        tracing::error!("the thread that looks after replicas does not run: {why}");
    }
    replication.primary.wake();
    // The journal's thread pings from now on, if no client writes.
    replication.engine.journal.wake_reader();
}

/// Removes a replica whose connection has ended, or ends.
pub fn leave(replication: &Replication, replica: &Arc<Replica>) {
    if replica.phase() != Phase::Gone && !replica.announced().is_part {
        tracing::info!(replica = name(replica), "the connection with a replica is lost");
    }
    replication.downstream.replicas.leave(replica);
    // Drops what only this replica needed of the stream.
    let_go(replication);
    followers_changed(replication);
}

/// Drops what no replica needs of the stream, and updates the memory count.
pub fn let_go(replication: &Replication) {
    replication.downstream.stream.trim(replication.downstream.replicas.needed());
    tell_memory(replication);
}

/// Reports how much memory waits for replicas, beyond the backlog.
fn tell_memory(replication: &Replication) {
    let measuring = &replication.primary.measuring;
    let _one_at_a_time = measuring.lock();
    let kept = replication.engine.settings.current().repl_backlog_bytes;
    let stream = replication.downstream.stream.memory_bytes().saturating_sub(kept);
    let copies = replication.downstream.replicas.all();
    let copies = copies.iter().filter_map(|replica| replica.copy());
    let copies: u64 = copies.map(|copy| copy.bytes() as u64).sum();
    let parts = replication.primary.copying().map_or(0, |copying| {
        let parts = copying.list.iter().map(|recipient| recipient.joined.bytes() as u64);
        parts.sum()
    });
    replication.engine.condition.memory.set_unsent(stream + copies + parts);
}

/// Has a replica's connection closed by its worker.
pub fn close(replication: &Replication, replica: &Arc<Replica>) {
    replication.downstream.replicas.leave(replica);
    call(replication, replica);
    count_good(replication);
}

/// Has a replica's worker look at it.
fn call(replication: &Replication, replica: &Replica) {
    if replica.call() {
        // Its new worker looks at one that has moved anyway.
        let _gone = replication.engine.workers.post(replica.worker(), Message::StreamGrew);
    }
}

/// A replica has acknowledged a position.
pub fn heard(replication: &Replication) {
    if replication.downstream.waiters.are_there() {
        replication.engine.workers.post_to_waiting(&|| Message::JournalKept);
    }
    if replication.engine.condition.lasting.now().intersects(States::TOO_FEW_REPLICAS) {
        count_good(replication);
    }
}

/// Checks whether as many good replicas follow as `min-replicas-to-write` wants.
pub fn count_good(replication: &Replication) {
    let counting = &replication.primary.counting;
    let _one_at_a_time = counting.lock();
    let settings = replication.engine.settings.current();
    let (wanted, lag_s) = (settings.min_replicas_to_write, settings.min_replicas_max_lag_s);
    let is_meant = wanted > 0 && lag_s > 0 && !replication.is_replica();
    let lasting = &replication.engine.condition.lasting;
    match is_meant && good_count(replication) < wanted as usize {
        true => lasting.begin(States::TOO_FEW_REPLICAS),
        false => lasting.end(States::TOO_FEW_REPLICAS),
    }
    refuse_unknown(replication);
}

/// Whether a replica of this kind or an older one follows.
pub fn has_follower_of(replication: &Replication, kind: FollowerKind) -> bool {
    let replicas = replication.downstream.replicas.all();
    replicas
        .iter()
        .any(|replica| replica.phase() != Phase::Gone && replica.announced().kind() <= kind)
}

/// Has commands refused that a replica does not know, with `repl-refuse-unknown`.
fn refuse_unknown(replication: &Replication) {
    let is_meant = replication.engine.settings.current().repl_refuse_unknown;
    let lasting = &replication.engine.condition.lasting;
    for (state, kind) in
        [(States::OTHERS_FOLLOW, FollowerKind::Valkey), (States::OLD_FOLLOW, FollowerKind::Redis)]
    {
        match is_meant && has_follower_of(replication, kind) {
            true => lasting.begin(state),
            false => lasting.end(state),
        }
    }
}

/// How many replicas were heard of within `min-replicas-max-lag`.
pub fn good_count(replication: &Replication) -> usize {
    let lag_s = replication.engine.settings.current().min_replicas_max_lag_s;
    // Redis counts whole seconds.
    let lag_us = (u64::from(lag_s) + 1) * 1_000_000 - 1;
    replication.downstream.replicas.count_heard_since(monotonic_us().saturating_sub(lag_us))
}

/// Applies the settings, at the start or later.
pub fn settings_changed(replication: &Replication) {
    replication
        .downstream
        .stream
        .keep_bytes(replication.engine.settings.current().repl_backlog_bytes);
    let_go(replication);
    count_good(replication);
    replication.primary.wake();
}

/// How many servers have a step, by the kind of acknowledgement that is asked for.
pub fn acknowledged(
    replication: &Replication,
    step: Stamp,
    asked: Acknowledgements,
) -> Acknowledgements {
    let (replication, is_nothing) = (&replication, step == Stamp::default());
    let position = match is_nothing {
        true => Some(0),
        // Not yet in the stream, or in none: no replica has it.
        false => replication.downstream.checkpoints.position_after(step),
    };
    let count =
        |position| replication.downstream.replicas.count_acknowledged(position, asked.on_disk);
    Acknowledgements {
        local: asked.on_disk
            && replication.durability.appending.is_running()
            && is_on_disk(replication, step),
        replicas: position.map_or(0, count) as u64,
        ..asked
    }
}

/// Whether the append-only file has a step on disk. A caller that gets `false` is told when that
/// may have changed. A step from before recording began has no stamp, and is in the first base.
fn is_on_disk(replication: &Replication, step: Stamp) -> bool {
    let (journal, appending) = (&replication.engine.journal, &replication.durability.appending);
    // Asks to be told, then looks again: the base may just have been completed.
    if !appending.is_kept() && !journal.is_durable(Stamp::LAST) && !appending.is_kept() {
        return false;
    }
    step == Stamp::default() || journal.is_durable(step)
}

/// Starts the keeper's thread, if there is none.
fn start_keeper(replication: &Arc<Replication>) -> Result<(), String> {
    let primary = &replication.primary;
    let mut keeper = primary.keeper.lock();
    if keeper.is_none() {
        let (sender, woken) = channel();
        let replication = Arc::downgrade(replication);
        let life = move || keeper::run(&replication, &woken);
        let spawned = Builder::new().name("replicas".into()).spawn(life);
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        *keeper = Some(sender);
    }
    Ok(())
}
