//! The moment of a snapshot in the stream: which steps are in the snapshot, and which come after.
//!
//! ```text
//! to_come -- no step is being applied -- the cut: is_now -- steps go on -- place
//! ```
//!
//! On a primary the journal's thread reports the position once it has come to the cut; on a replica
//! the moment is between two steps, and the position is the stream's end.

use std::sync::mpsc::Receiver;

use pantala_journal::Stamp;
use parking_lot::MutexGuard;

use crate::Durability;
use crate::snapshot_place::SnapshotPlace;

/// The moment of a snapshot that is being taken, and its place in the stream once that is known.
pub struct Moment<'m> {
    durability: &'m Durability,
    /// Held until the snapshot's moment is over: the role stays, and no step is half applied.
    between_steps: Option<MutexGuard<'m, ()>>,
    /// The stream is to be fed from then on, whether or not it was before.
    is_for_replicas: bool,
    found: Found,
}

enum Found {
    /// There is no history.
    Nothing,
    Told(Receiver<u64>),
    Known(SnapshotPlace),
}

impl<'m> Moment<'m> {
    /// Before the moment of a copy for replicas: steps recorded from then on are fed to the stream.
    /// On a thread that may wait, outside the gate.
    pub fn for_replicas(durability: &'m Durability) -> Moment<'m> {
        Moment { is_for_replicas: true, ..Moment::for_file(durability) }
    }

    /// Before the moment of a snapshot in a file: the file says its place if there is a history. On
    /// a thread that may wait, outside the gate.
    pub fn for_file(durability: &'m Durability) -> Moment<'m> {
        let between_steps = Some(durability.role.between_steps());
        Moment { durability, between_steps, is_for_replicas: false, found: Found::Nothing }
    }

    /// Marks the moment. With no thread inside the gate.
    pub fn is_now(&mut self, stamp: Stamp) {
        let Durability { downstream, role, .. } = self.durability;
        let history = downstream.stream.history();
        if role.is_replica() {
            let db = role.stream_db();
            let place = SnapshotPlace { id: history.id, position: history.end, db };
            if history.is_kept {
                self.found = Found::Known(place);
            }
        } else if self.is_for_replicas || history.is_kept && self.durability.appending.is_fed() {
            self.found = Found::Told(self.durability.feed_from(stamp));
        }
        self.between_steps = None;
    }

    /// The place of the moment, if there is a history; waits for the journal's thread.
    ///
    /// # Errors
    /// A text for the log.
    pub fn place(&self) -> Result<Option<SnapshotPlace>, String> {
        let position = match &self.found {
            Found::Nothing => return Ok(None),
            Found::Known(place) => return Ok(Some(*place)),
            Found::Told(coming) => coming.recv().map_err(|_| "the server stops")?,
        };
        let id = self.durability.downstream.stream.history().id;
        // After a cut the stream selects its database anew.
        Ok(Some(SnapshotPlace { id, position, db: 0 }))
    }
}
