//! Undoing what a script has done: the state of keys before it changed them.
//!
//! A script that meets a busy partition, or takes too long for a worker, must run again from its
//! start as if it had not run. So before it first changes a key a copy of the key is kept (`change`
//! does this), which is put back in that case. Large values are not copied: a command that may
//! change one asks first ([`Locked::can_undo`](crate::Locked::can_undo)) and takes the token, after
//! which nothing can stop the script.
//!
//! Keys that expired meanwhile stay expired, and their expiry is announced. A client blocked on a
//! changed key is served from the value that is there afterwards. A WATCH that was touched stays
//! touched: its transaction fails although nothing changed, which WATCH allows.
//!
//! Tests: `tests/undo.rs`, `tests/token.rs`.

use pantala_table::{Object as _, OwnedRecord, RecordPlace, Table};
use pantala_values::Object;

use crate::key::{DbIndex, Key};

/// A key as it was: with its value and deadline, or absent.
pub(crate) struct SavedKey {
    pub db: DbIndex,
    pub key: Box<[u8]>,
    pub hash: u64,
    pub record: Option<OwnedRecord<Object>>,
}

/// The copies of keys before they changed.
#[derive(Default)]
pub(crate) struct Undo {
    pub kept: Vec<SavedKey>,
    /// Their total size.
    pub bytes: usize,
}

impl Undo {
    /// Whether the key was copied.
    pub fn has(&self, db: DbIndex, key: Key<'_>) -> bool {
        self.kept.iter().any(|one| one.hash == key.hash && one.db == db && *one.key == *key.bytes)
    }

    /// Copies a key that is about to change, unless it was copied before.
    pub fn keep(
        &mut self,
        table: &Table<Object>,
        db: DbIndex,
        key: Key<'_>,
        at: Option<RecordPlace>,
    ) {
        if !self.has(db, key) {
            self.bytes += at.map_or(0, |place| record_bytes(table, place));
            let record = at.map(|place| copy(table, place, key.bytes));
            self.kept.push(SavedKey { db, key: key.bytes.into(), hash: key.hash, record });
        }
    }
}

/// A copy of value, deadline and stickiness under this key.
pub(crate) fn copy(table: &Table<Object>, place: RecordPlace, key: &[u8]) -> OwnedRecord<Object> {
    let copied = match table.object(place) {
        Some(object) => OwnedRecord::new_object(key, object.duplicate(), table.deadline(place)),
        None => table.copy_string(place, key).expect("what is no object is a string"),
    };
    copied.with_stickiness(table.sticky(place))
}

/// The approximate size of a copy of a record.
pub(crate) fn record_bytes(table: &Table<Object>, place: RecordPlace) -> usize {
    table.record_bytes(place) + table.object(place).map_or(0, Object::heap_bytes)
}

/// How much may be copied for undo.
#[derive(Clone, Copy, Debug)]
pub struct UndoLimits {
    /// Keys.
    pub keys: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}
