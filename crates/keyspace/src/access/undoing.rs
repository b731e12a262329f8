//! A command that may be undone: asks whether it can be, and puts everything back.
//!
//! Not here: the copies themselves (`changes/undo`). Tests: `tests/undo.rs`.

use crate::access::locked::Locked;
use crate::changes::undo::{SavedKey, UndoLimits, record_bytes};
use crate::key::Key;

impl Locked<'_> {
    /// Whether a command that may change these keys of the current database could be undone. If so,
    /// changed keys are copied from here on.
    pub fn can_undo(&mut self, keys: &[Key<'_>], limits: UndoLimits) -> bool {
        let db = self.scope.db;
        let undo = self.woken.undo.get_or_insert_default();
        let (mut count, mut bytes) = (undo.kept.len(), undo.bytes);
        for &key in keys {
            if self.woken.undo.as_ref().is_some_and(|undo| undo.has(db, key)) {
                continue;
            }
            count += 1;
            let opened = self.peek(key);
            bytes += opened.record().map_or(0, |(table, place)| record_bytes(table, place));
            if count > limits.keys || bytes > limits.bytes {
                return false;
            }
        }
        true
    }

    /// Makes all changes so far final: they cannot be undone any more.
    pub fn end_undo(&mut self) {
        self.woken.undo = None;
    }

    /// Restores everything as it was before the first [`Locked::can_undo`]. Effects since then are
    /// discarded, except for what time has done.
    pub fn undo(&mut self) {
        let undo = self.woken.undo.take().unwrap_or_default();
        for SavedKey { db, key, hash, record } in undo.kept.into_iter().rev() {
            let mut opened = self.peek_in(db, Key { bytes: &key, hash });
            opened.remove();
            if let Some(record) = record {
                opened.put(record);
            }
            opened.unchanged();
        }
        self.discard_step();
        self.discard_effects(0);
    }
}
