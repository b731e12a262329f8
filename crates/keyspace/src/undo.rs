//! Undoing what a script has done: the state of keys before it changed them.
//!
//! A script that meets a busy partition, or takes too long for a worker, must run again from its
//! start as if it had not run. So before it first changes a key a copy is kept, and put back when
//! that happens. What is large is not copied: who would change it takes the token first, after
//! which nothing can stop the script any more.
//!
//! What expired meanwhile stays expired, and is told. Who waits for a key that was changed is shown
//! it as it is then: nothing is forgotten that time has done. A WATCH that was touched stays
//! touched: its transaction fails although nothing changed, which WATCH allows.
//!
//! Tests: `tests/token.rs`.

use pantala_table::{Object as _, OwnedRecord};
use pantala_values::Object;

use crate::key::{DbIndex, Key};
use crate::locked::Locked;

/// One key as it was: with its value and deadline, or absent.
pub struct Saved {
    db: DbIndex,
    key: Box<[u8]>,
    hash: u64,
    record: Option<OwnedRecord<Object>>,
}

impl Saved {
    /// Whether it is this key.
    pub fn is(&self, db: DbIndex, key: Key<'_>) -> bool {
        self.hash == key.hash && self.db == db && *self.key == *key.bytes
    }

    /// Bytes of the copy.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.record.as_ref().map_or(0, OwnedRecord::bytes)
    }
}

impl Locked<'_> {
    /// Copies a key of the present database if that takes at most about `most_bytes`.
    pub fn save(&mut self, key: Key<'_>, most_bytes: usize) -> Option<Saved> {
        let db = self.scope.db;
        let opened = self.peek(key);
        let bytes = opened.record().map_or(0, |(table, place)| {
            let object = table.object(place).map_or(0, Object::heap_bytes);
            table.record_bytes(place) + object
        });
        if bytes > most_bytes {
            return None;
        }
        let record = opened.copy(key.bytes);
        Some(Saved { db, key: key.bytes.into(), hash: key.hash, record })
    }

    /// Puts a key back as it was.
    pub fn restore(&mut self, saved: Saved) {
        let Saved { db, key, hash, record } = saved;
        let mut opened = self.peek_in(db, Key { bytes: &key, hash });
        opened.remove();
        if let Some(record) = record {
            opened.put(record);
        }
        opened.unchanged();
    }
}
