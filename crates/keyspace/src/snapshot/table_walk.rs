//! The walk through one table, portion by portion: in a held partition, or in a table that was
//! handed over.

use pantala_table::{Cursor, OwnedRecord, RecordPlace, Table};
use pantala_values::Object;
use smallvec::SmallVec;

use super::output::Output;
use super::parts::{Part, PartialKey};
use super::target::{
    PIECE_BYTES, PORTION_BYTES, PORTION_RECORDS, PendingKeys, STREAMED_BYTES, SnapshotEntry,
    most_at_once,
};
use crate::Keyspace;
use crate::changes::undo;
use crate::key::DbIndex;

/// A larger record is copied, and written with the partition free: compressing it takes ten times
/// as long, and the walker may lose its core meanwhile.
const TINY_BYTES: usize = 64;
const _: () = assert!(TINY_BYTES < super::target::SMALL_BYTES, "they are written at once");

/// The portion, in records, of a walk that only marks them because the snapshot is over.
const MARKED_RECORDS: usize = 4096;

/// A walk through one table.
pub(crate) struct TableWalk {
    cursor: Cursor,
    /// The key of the value that is being written in parts.
    pub current: Option<Box<[u8]>>,
    /// Records that were copied, because writing them takes longer.
    copied: Vec<OwnedRecord<Object>>,
    pub pending: PendingKeys,
}

/// How a portion ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Portion {
    More,
    /// Another value owns the stream.
    Blocked,
    /// The table's end.
    End,
}

impl TableWalk {
    pub fn new(db: DbIndex) -> Self {
        let (cursor, pending) = (Cursor::START, PendingKeys::new(db));
        TableWalk { cursor, current: None, copied: Vec::new(), pending }
    }

    /// Writes the copied records.
    pub fn settle(&mut self, output: &Output) {
        for record in self.copied.drain(..) {
            if !output.is_over() {
                output.write(&SnapshotEntry::of(&record), &mut self.pending);
            }
        }
        if self.pending.bytes.len() >= PIECE_BYTES {
            output.flush(&mut self.pending);
        }
    }

    /// Hands everything it has to the target.
    pub fn end(&mut self, output: &Output) {
        self.settle(output);
        output.flush(&mut self.pending);
    }

    /// Writes or copies some unsaved records; to be followed by [`TableWalk::settle`].
    pub fn go_on(
        &mut self,
        space: &Keyspace,
        (table, in_parts): (&mut Table<Object>, &mut Vec<PartialKey>),
        output: &Output,
    ) -> Portion {
        if let Some(key) = self.current.take() {
            let portion = go_on_with(space, (table, in_parts), (self.pending.db, &key), output);
            if let Some(portion) = portion {
                self.current = Some(key);
                return portion;
            }
        }
        if output.is_over() {
            return self.mark(table);
        }
        let (mut bytes, mut looked) = (0, 0);
        while !self.cursor.is_end() {
            let mut found: SmallVec<[RecordPlace; 32]> = SmallVec::new();
            let next = table.scan(self.cursor, &mut |place| {
                looked += 1;
                if !table.is_saved(place) {
                    table.prefetch(place);
                    found.push(place);
                }
            });
            for place in found {
                match self.save(table, place, in_parts, output) {
                    Some(saved) => bytes += saved,
                    None => return Portion::More,
                }
            }
            self.cursor = next;
            if bytes >= PORTION_BYTES || looked >= PORTION_RECORDS {
                break;
            }
        }
        if self.cursor.is_end() { Portion::End } else { Portion::More }
    }

    /// Writes or copies a record and returns its size; `None`: it was begun, to be written in
    /// parts.
    fn save(
        &mut self,
        table: &mut Table<Object>,
        place: RecordPlace,
        in_parts: &mut Vec<PartialKey>,
        output: &Output,
    ) -> Option<usize> {
        debug_assert!(!table.is_saved(place), "each record is written once");
        let entry = SnapshotEntry::at(table, place);
        let db = self.pending.db;
        if in_parts.iter().any(|one| one.is(db, entry.key)) {
            // Its value is being written in parts already.
            return Some(0);
        }
        let bytes = table.record_bytes(place);
        if bytes > most_at_once(table, place) {
            let one = PartialKey::begin(output, db, &entry, bytes > STREAMED_BYTES);
            self.current = Some(one.key.clone());
            in_parts.push(one);
            return None;
        }
        match bytes > TINY_BYTES {
            true => self.copied.push(undo::copy(table, place, entry.key)),
            false => output.write(&entry, &mut self.pending),
        }
        table.mark_saved(place);
        Some(bytes)
    }

    /// Marks unsaved records as saved: the snapshot is over.
    fn mark(&mut self, table: &mut Table<Object>) -> Portion {
        let mut looked = 0;
        while !self.cursor.is_end() && looked < MARKED_RECORDS {
            let mut found: SmallVec<[RecordPlace; 32]> = SmallVec::new();
            self.cursor = table.scan(self.cursor, &mut |place| {
                looked += 1;
                found.push(place);
            });
            found.into_iter().for_each(|place| table.mark_saved(place));
        }
        if self.cursor.is_end() { Portion::End } else { Portion::More }
    }
}

/// Writes one more part of a value; `None`: it is complete, or gone.
pub(crate) fn go_on_with(
    space: &Keyspace,
    (table, in_parts): (&mut Table<Object>, &mut Vec<PartialKey>),
    (db, key): (DbIndex, &[u8]),
    output: &Output,
) -> Option<Portion> {
    let at = in_parts.iter().position(|one| one.is(db, key))?;
    let Some(place) = table.find(space.hash(key), key) else {
        debug_assert!(false, "what is written in parts is in the table");
        in_parts.swap_remove(at);
        return None;
    };
    match in_parts[at].go_on(output, &table.value(place)) {
        Part::More => return Some(Portion::More),
        Part::Blocked => return Some(Portion::Blocked),
        Part::Last => {}
    }
    debug_assert!(output.is_over() || !table.is_saved(place), "each record is written once");
    in_parts.swap_remove(at);
    table.mark_saved(place);
    None
}
