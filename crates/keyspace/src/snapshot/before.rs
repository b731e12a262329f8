//! What happens before a change, in a partition that the snapshot is not done with.

use std::sync::Arc;

use pantala_table::{OwnedRecord, RecordPlace, Table};
use pantala_values::Object;

use super::jobs::{HandedRecord, Job};
use super::parts::PartialKey;
use super::state::SnapshotState;
use super::target::{
    PIECE_BYTES, PendingKeys, SMALL_BYTES, STREAMED_BYTES, SnapshotEntry, most_at_once,
};
use super::unwritten::UnwrittenShare;
use crate::access::ticket::Ticket;
use crate::changes::follow_ups::FollowUps;
use crate::key::{DbIndex, PartitionId};

/// The way in which a record is about to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeManner {
    /// Its value changes in place, or is moved elsewhere.
    InPlace,
    /// Its value is replaced by another one.
    Overwrite,
    /// Its deadline or its marks change, not its value.
    Header,
    /// It is removed; [`Saving::gone`] gets the record.
    Remove,
}

/// A partition whose snapshot is not complete: what is still to be saved, and the hooks that
/// commands call before they change a record.
pub(crate) struct Saving {
    state: Arc<SnapshotState>,
    id: PartitionId,
    /// Values in parts of records that are in the tables: see invariant 3 of `snapshot`.
    pub(crate) in_parts: Vec<PartialKey>,
    /// Keys that commands have written, for each database, not yet handed to the target.
    pending: Vec<PendingKeys>,
    /// All tables have been walked to their end.
    pub(crate) is_walked: bool,
    /// The bytes of this and of `pending`.
    unwritten: UnwrittenShare,
}

impl Saving {
    pub fn new(state: &Arc<SnapshotState>, id: PartitionId) -> Saving {
        state.open_partition();
        Saving {
            state: Arc::clone(state),
            id,
            in_parts: Vec::new(),
            pending: Vec::new(),
            is_walked: false,
            unwritten: state.output.unwritten(size_of::<Saving>()),
        }
    }

    pub fn state(&self) -> &Arc<SnapshotState> {
        &self.state
    }

    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Saves a record, if it is not saved yet, before it changes.
    pub fn before_change(
        &mut self,
        table: &mut Table<Object>,
        db: DbIndex,
        (place, manner): (RecordPlace, ChangeManner),
        woken: &mut FollowUps,
    ) {
        debug_assert!(!table.is_saved(place), "each record is written once");
        if manner == ChangeManner::Remove {
            return;
        }
        if self.state.output.is_over() {
            return table.mark_saved(place);
        }
        let begun = self.position(db, table.key(place));
        let bytes = table.record_bytes(place);
        match (begun, manner) {
            (Some(_), ChangeManner::Header) => {}
            (Some(at), ChangeManner::InPlace) => {
                self.state.output.count_unasked();
                let one = self.in_parts.swap_remove(at);
                one.finish(&self.state.output, &table.value(place));
                table.mark_saved(place);
                woken.add(self.state.output.call(self.id));
            }
            (Some(at), _) => {
                let parts = self.in_parts.swap_remove(at);
                self.hand_over_value(table, db, place, Some(parts));
                woken.add(self.state.output.call(self.id));
            }
            (None, _) if bytes <= SMALL_BYTES => self.write(table, db, place),
            (None, ChangeManner::Header) => self.begin(table, db, place),
            (None, ChangeManner::Overwrite) => self.hand_over_value(table, db, place, None),
            (None, _) => self.write_or_copy(table, db, (place, bytes)),
        }
    }

    /// Takes a record that has left its table, if it is not saved yet; otherwise returns it, to be
    /// freed.
    pub fn gone(
        &mut self,
        db: DbIndex,
        record: OwnedRecord<Object>,
        woken: &mut FollowUps,
    ) -> Option<OwnedRecord<Object>> {
        if self.state.output.is_over() {
            self.in_parts.retain(|one| !one.is(db, record.key()));
            return Some(record);
        }
        if let Some(at) = self.position(db, record.key()) {
            let parts = Some(self.in_parts.swap_remove(at));
            self.state.hand_over(Job::Handed(HandedRecord { db, record, parts }));
            woken.add(self.state.output.call(self.id));
        } else if record.bytes() > SMALL_BYTES {
            self.state.hand_over(Job::Handed(HandedRecord { db, record, parts: None }));
        } else {
            self.write_entry(db, &SnapshotEntry::of(&record));
        }
        None
    }

    /// Takes over a table with records that may not be saved. Returns the tickets to redeem.
    pub fn gone_table(&mut self, db: DbIndex, table: Table<Object>) -> Vec<Ticket> {
        let in_parts = self.in_parts.extract_if(.., |one| one.db == db).collect();
        self.state.hand_over(Job::table(db, table, in_parts));
        self.state.output.call(self.id)
    }

    /// Whether the value of an unsaved record is large and therefore written in parts. If so, it is
    /// written before others.
    pub fn writes_in_parts(
        &mut self,
        table: &Table<Object>,
        place: RecordPlace,
        db: Option<DbIndex>,
    ) -> bool {
        let Some(db) = db.filter(|_| !self.state.output.is_over()) else { return false };
        if self.position(db, table.key(place)).is_some() {
            return true;
        }
        let is_large = table.record_bytes(place) > most_at_once(table, place);
        if is_large {
            self.begin(table, db, place);
        }
        is_large
    }

    /// Its index among the values written in parts.
    pub(crate) fn position(&self, db: DbIndex, key: &[u8]) -> Option<usize> {
        self.in_parts.iter().position(|one| one.is(db, key))
    }

    /// Whether nothing is left to save.
    pub fn is_done(&self) -> bool {
        self.is_walked && self.in_parts.is_empty()
    }

    /// Ends the snapshot of this partition: hands pending keys to the target. Returns the tickets
    /// to redeem.
    pub fn close(mut self) -> Vec<Ticket> {
        debug_assert!(self.is_done(), "all of the partition is saved");
        for pending in &mut self.pending {
            self.state.output.flush(pending);
        }
        self.state.close_partition();
        self.state.output.call(self.id)
    }

    /// Begins to write a record's value in parts; a walker goes on with it.
    fn begin(&mut self, table: &Table<Object>, db: DbIndex, place: RecordPlace) {
        debug_assert!(!table.is_saved(place), "each record is written once");
        let entry = SnapshotEntry::at(table, place);
        debug_assert!(self.position(db, entry.key).is_none(), "it is begun once");
        let streams = table.record_bytes(place) > STREAMED_BYTES;
        self.in_parts.push(PartialKey::begin(&self.state.output, db, &entry, streams));
        self.state.push_urgent(Job::Parts { id: self.id, db, key: entry.key.into() });
    }

    /// Writes a record.
    fn write(&mut self, table: &mut Table<Object>, db: DbIndex, place: RecordPlace) {
        debug_assert!(!table.is_saved(place), "each record is written once");
        self.write_entry(db, &SnapshotEntry::at(table, place));
        table.mark_saved(place);
    }

    /// Writes a large value at once, for a command that did not ask.
    fn write_or_copy(
        &mut self,
        table: &mut Table<Object>,
        db: DbIndex,
        (place, bytes): (RecordPlace, usize),
    ) {
        let copy = (bytes <= most_at_once(table, place))
            .then(|| table.copy_string(place, table.key(place)));
        match copy.flatten() {
            Some(record) => {
                let record = record.with_stickiness(table.sticky(place));
                self.state.hand_over(Job::Handed(HandedRecord { db, record, parts: None }));
                table.mark_saved(place);
            }
            None => {
                self.state.output.count_unasked();
                self.write(table, db, place);
            }
        }
    }

    /// Hands a record over to a walker; one with the same key and an empty value takes its place.
    fn hand_over_value(
        &mut self,
        table: &mut Table<Object>,
        db: DbIndex,
        place: RecordPlace,
        parts: Option<PartialKey>,
    ) {
        debug_assert!(!table.is_saved(place), "each record is written once");
        let record = table.take_value(place);
        table.mark_saved(place);
        self.state.hand_over(Job::Handed(HandedRecord { db, record, parts }));
    }

    fn write_entry(&mut self, db: DbIndex, entry: &SnapshotEntry<'_>) {
        let at = match self.pending.iter().position(|pending| pending.db == db) {
            Some(at) => at,
            None => {
                self.pending.reserve_exact(1);
                self.pending.push(PendingKeys::new(db));
                let bytes = size_of::<Saving>() + size_of_val(&*self.pending);
                self.unwritten = self.state.output.unwritten(bytes);
                self.pending.len() - 1
            }
        };
        let pending = &mut self.pending[at];
        let output = &self.state.output;
        output.write(entry, pending);
        if pending.bytes.len() >= PENDING_BYTES {
            output.flush(pending);
        }
    }
}

/// The most bytes that commands have written which are kept in a partition.
const PENDING_BYTES: usize = PIECE_BYTES / 8;
