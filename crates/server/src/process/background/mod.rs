//! Background threads: one frees large garbage and one sweeps expired keys (here), one defragments
//! (`renewing`), and one saves by save
//! points (`schedule`).

pub mod renewing;
pub mod schedule;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_engine::stats::latency_monitor::Chore;
use pantala_engine::stats::tallies::ThreadTally;
use pantala_journal::Recorder;
use pantala_keyspace::{GarbageInTransit, Reclaimer, Sweeper};

use crate::shared::Shared;

/// About how many rounds the share of expired keys is averaged over.
const SHARE_ROUNDS: u64 = 20;

/// The sender for the garbage of partitions.
pub struct ToReclaimer(Sender<GarbageInTransit>);

impl Reclaimer for ToReclaimer {
    fn reclaim(&self, garbage: GarbageInTransit) {
        // Without the thread the garbage comes back in the error, and is freed here.
        let _freed_here = self.0.send(garbage);
    }
}

/// A channel from the partitions to the reclaiming thread.
pub fn reclaimer() -> (ToReclaimer, Receiver<GarbageInTransit>) {
    let (sender, receiver) = channel();
    (ToReclaimer(sender), receiver)
}

/// The main loop of the thread that frees garbage.
pub fn reclaim(garbage: &Receiver<GarbageInTransit>) {
    for piece in garbage {
        drop(piece);
    }
    pantala_memory::release_seat();
}

/// The main loop of the thread that sweeps expired keys and watches resident memory.
pub fn sweep(shared: &Arc<Shared>, started: impl FnOnce(Arc<pantala_keyspace::ThreadWaker>)) {
    let tally = shared.engine.stats.tallies.join();
    let recorder = shared.engine.journal.join();
    let mut sweeper = Sweeper::new(&shared.engine.space);
    started(sweeper.waker());
    while !shared.engine.condition.shutdown.is_final() {
        if !shared.engine.condition.switches.does_sweep_rest() {
            sweep_once(shared, &mut sweeper, &tally, &recorder);
        }
        let longest = shared.engine.condition.memory.look();
        if shared.engine.make_room_in_background(&tally.keys, &recorder) {
            continue;
        }
        sweeper.sleep(&shared.engine.space, unix_ms(), longest);
    }
    pantala_memory::release_seat();
}

/// Runs one round of the sweep, and updates its statistics.
fn sweep_once(shared: &Shared, sweeper: &mut Sweeper, tally: &ThreadTally, recorder: &Recorder) {
    let (engine, began_us) = (&shared.engine, monotonic_us());
    let found = sweeper.round_recorded(&engine.space, unix_ms(), &tally.keys, Some(recorder));
    if found.seen == 0 {
        return;
    }
    let took_us = monotonic_us() - began_us;
    tally.expire_cycle_us.add(took_us);
    let share_ppm = found.removed * 1_000_000 / found.seen;
    let before_ppm = tally.expired_share_ppm.get();
    tally.expired_share_ppm.set((share_ppm + (SHARE_ROUNDS - 1) * before_ppm) / SHARE_ROUNDS);
    engine.stats.latency_monitor.note_chore(Chore::ExpireCycle, took_us);
    engine.stats.latency_monitor.note_chore(Chore::ExpireDel, found.longest_hold_us);
}
