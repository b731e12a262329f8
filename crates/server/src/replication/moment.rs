//! The moment of a snapshot in the stream: which steps are in the snapshot, and which come after.
//!
//! ```text
//! to_come -- no step is being applied -- the cut: is_now -- steps go on -- place
//! ```
//!
//! On a primary the journal's thread reports the position once it has come to the cut; on a replica
//! the moment is between two steps, and the position is the stream's end.
//!
//! An append-only file states its place at its end, when the server stops; whatever is appended
//! later is at another place.

use std::sync::mpsc::Receiver;
use std::sync::{MutexGuard, PoisonError};

use pantala_journal::Stamp;
use pantala_persistence::snapshot::SnapshotFacts;
use pantala_replication::ReplicationId;

use crate::process::files::journaling;
use crate::shared::Shared;

/// A position in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotPlace {
    /// The id of the history.
    pub id: ReplicationId,
    /// Everything before this position is included.
    pub position: u64,
    /// The database selected in the stream at this position.
    pub db: u32,
}

/// The prefix of an append-only file's annotation with its place.
const ANNOTATION: &str = "REPL:";

impl SnapshotPlace {
    /// The final place of the data, if they have a history: the server stops, and the stream does
    /// not grow any more.
    pub fn at_the_end(shared: &Shared) -> Option<SnapshotPlace> {
        let replication = &shared.replication;
        let history = replication.stream.history();
        let db = match replication.is_replica() {
            true => replication.following.stream_db(),
            false => 0,
        };
        history.is_kept.then_some(SnapshotPlace { id: history.id, position: history.end, db })
    }

    /// The annotation of an append-only file.
    pub fn annotation(self) -> String {
        let SnapshotPlace { id, position, db } = self;
        format!("{ANNOTATION}{id}:{position}:{db}")
    }

    /// The place in such an annotation.
    pub fn of_annotation(annotation: &[u8]) -> Option<SnapshotPlace> {
        let text = std::str::from_utf8(annotation).ok()?.strip_prefix(ANNOTATION)?;
        let mut words = text.split(':');
        let id = ReplicationId::parse(words.next()?.as_bytes())?;
        let position = words.next()?.parse().ok()?;
        let db = words.next()?.parse().ok()?;
        words.next().is_none().then_some(SnapshotPlace { id, position, db })
    }
}

/// The moment of a snapshot that is being taken, and its place in the stream once that is known.
pub struct Moment<'m> {
    shared: &'m Shared,
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
    pub fn for_replicas(shared: &'m Shared) -> Moment<'m> {
        Moment { is_for_replicas: true, ..Moment::for_file(shared) }
    }

    /// Before the moment of a snapshot in a file: the file says its place if there is a history. On
    /// a thread that may wait, outside the gate.
    pub fn for_file(shared: &'m Shared) -> Moment<'m> {
        let applying = &shared.replication.following.applying;
        let between_steps = Some(applying.lock().unwrap_or_else(PoisonError::into_inner));
        Moment { shared, between_steps, is_for_replicas: false, found: Found::Nothing }
    }

    /// Marks the moment. With no thread inside the gate.
    pub fn is_now(&mut self, stamp: Stamp) {
        let replication = &self.shared.replication;
        let history = replication.stream.history();
        if replication.is_replica() {
            let db = replication.following.stream_db();
            let place = SnapshotPlace { id: history.id, position: history.end, db };
            if history.is_kept {
                self.found = Found::Known(place);
            }
        } else if self.is_for_replicas || history.is_kept && self.shared.appending.is_fed() {
            self.found = Found::Told(journaling::feed_from(self.shared, stamp));
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
        let id = self.shared.replication.stream.history().id;
        // After a cut the stream selects its database anew.
        Ok(Some(SnapshotPlace { id, position, db: 0 }))
    }
}

/// Adds the place to the facts that a snapshot states of itself.
pub fn note(facts: &mut SnapshotFacts, place: SnapshotPlace) {
    facts.aux.push(("repl-stream-db", place.db.to_string()));
    facts.aux.push(("repl-id", place.id.to_string()));
    facts.aux.push(("repl-offset", place.position.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_from_its_annotation() {
        let place = SnapshotPlace { id: ReplicationId::random(), position: u64::MAX, db: 7 };
        let text = place.annotation();
        assert!(text.len() < 120, "Redis reads such lines into a buffer of 128 bytes");
        assert_eq!(SnapshotPlace::of_annotation(text.as_bytes()), Some(place));
        for wrong in
            [&text[1..], &text[..text.len() - 1], &format!("{text}:1"), "TS:1700000000", ""]
        {
            assert_eq!(SnapshotPlace::of_annotation(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
