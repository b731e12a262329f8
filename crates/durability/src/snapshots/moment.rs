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
use crate::snapshots::place::SnapshotPlace;

/// The moment of a snapshot that is being taken, and its place in the stream once that is known.
pub struct Moment<'m> {
    durability: &'m Durability,
    /// Held until the snapshot's moment is over: the role stays, and no step is half applied.
    between_steps: Option<MutexGuard<'m, ()>>,
    marks: Marks,
    found: Found,
}

/// What is to be marked at the moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    Nothing,
    /// The place in the stream, if there is a history.
    Place,
    /// The place in the stream, which is to be fed from then on, whether or not it was before.
    Feed,
    /// The begin of a rewrite's increment, by its number.
    Rewrite(u64),
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
        Moment { marks: Marks::Feed, ..Moment::for_file(durability) }
    }

    /// Before the moment of a snapshot in a file: the file says its place if there is a history. On
    /// a thread that may wait, outside the gate.
    pub fn for_file(durability: &'m Durability) -> Moment<'m> {
        let between_steps = Some(durability.role.between_steps());
        Moment { between_steps, marks: Marks::Place, ..Moment::unmarked(durability) }
    }

    /// Before the moment of the rewrite with this number: what is recorded from then on is in the
    /// increment after the base.
    pub fn of_rewrite(durability: &'m Durability, number: u64) -> Moment<'m> {
        Moment { marks: Marks::Rewrite(number), ..Moment::unmarked(durability) }
    }

    /// A moment that nobody else has to know.
    pub fn unmarked(durability: &'m Durability) -> Moment<'m> {
        let (marks, found) = (Marks::Nothing, Found::Nothing);
        Moment { durability, between_steps: None, marks, found }
    }

    /// The server whose moment it is.
    pub(crate) fn durability(&self) -> &'m Durability {
        self.durability
    }

    /// Marks the moment. With no thread inside the gate.
    pub fn is_now(&mut self, stamp: Stamp) {
        debug_assert!(matches!(self.found, Found::Nothing), "a moment comes once");
        let Durability { appending, engine, .. } = self.durability;
        match self.marks {
            Marks::Nothing => {}
            Marks::Rewrite(number) => appending.cut(&engine.journal, stamp, number),
            Marks::Place | Marks::Feed => self.find_place(stamp),
        }
        self.between_steps = None;
    }

    fn find_place(&mut self, stamp: Stamp) {
        debug_assert!(self.between_steps.is_some(), "no step is half applied");
        let Durability { downstream, role, appending, .. } = self.durability;
        let history = downstream.stream.history();
        if role.is_replica() {
            let db = role.stream_db();
            let place = SnapshotPlace { id: history.id, position: history.end, db };
            if history.is_kept {
                self.found = Found::Known(place);
            }
        } else if self.marks == Marks::Feed || history.is_kept && appending.is_fed() {
            self.found = Found::Told(self.durability.feed_from(stamp));
        }
    }

    /// The place of the moment, if there is a history; waits for the journal's thread.
    ///
    /// # Errors
    /// A text for the log.
    pub fn place(&self) -> Result<Option<SnapshotPlace>, String> {
        debug_assert!(self.between_steps.is_none(), "the moment is over");
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
