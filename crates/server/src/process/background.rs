//! Threads that keep house: one frees large garbage, one sweeps expired keys.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pantala_base::clock::unix_ms;
use pantala_keyspace::{Pending, Reclaimer, Sweeper};

use crate::shared::Shared;

/// The sending half: what partitions hand over.
pub struct ToReclaimer(Sender<Pending>);

impl Reclaimer for ToReclaimer {
    fn reclaim(&self, garbage: Pending) {
        // Without the thread the garbage comes back in the error and is freed here.
        let _freed_here = self.0.send(garbage);
    }
}

/// The two halves of the reclaimer.
pub fn reclaimer() -> (ToReclaimer, Receiver<Pending>) {
    let (sender, receiver) = channel();
    (ToReclaimer(sender), receiver)
}

/// The life of the thread that frees.
pub fn reclaim(garbage: &Receiver<Pending>) {
    for piece in garbage {
        drop(piece);
    }
    pantala_memory::release_seat();
}

/// The life of the thread that sweeps and watches resident memory.
pub fn sweep(shared: &Arc<Shared>, started: impl FnOnce(Arc<pantala_keyspace::Waker>)) {
    let tally = shared.engine.stats.tallies.join();
    let recorder = shared.engine.journal.join();
    let mut sweeper = Sweeper::new(&shared.engine.space);
    started(sweeper.waker());
    while !shared.engine.condition.shutdown.is_final() {
        if !shared.engine.condition.switches.does_sweep_rest() {
            let engine = &shared.engine;
            sweeper.round_recorded(&engine.space, unix_ms(), &tally.keys, Some(&recorder));
        }
        let longest = shared.engine.condition.memory.look();
        if shared.engine.make_room_in_background(&tally.keys, &recorder) {
            continue;
        }
        sweeper.sleep(&shared.engine.space, unix_ms(), longest);
    }
    pantala_memory::release_seat();
}
