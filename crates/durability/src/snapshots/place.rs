//! The place of a snapshot or of an append-only file in the stream of replicas.
//!
//! An append-only file states its place at its end, when the server stops; whatever is appended
//! later is at another place.

use pantala_persistence::snapshot::SnapshotFacts;
use pantala_psync::ReplicationId;

use crate::Durability;

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
    pub fn at_the_end(durability: &Durability) -> Option<SnapshotPlace> {
        let Durability { downstream, role, .. } = durability;
        let history = downstream.stream.history();
        let db = match role.is_replica() {
            true => role.stream_db(),
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
