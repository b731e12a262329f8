//! In which form a command is recorded in the journal.
//!
//! A command that has changed something is recorded as it came, unless its handler says otherwise:
//! what it did, in commands that give the same result whenever they run.
//!
//! ```text
//! SETEX k 10 v    call.record_as(&[b"SET", k, v, b"PXAT", moment])
//! SPOP k          call.record_as(&[b"SREM", k, member])
//! SINTERSTORE to an empty set    nothing to say: the keyspace knows that nothing has changed
//! ```
//!
//! A handler that formats something for this asks [`Call::is_recorded`] first. It may record
//! several commands; they are one step, between MULTI and EXEC. What expired, or was evicted, the
//! keyspace records by itself.
//!
//! Tests: the server's `tests/journal.rs`.

use pantala_keyspace::DbIndex;

use crate::call::Call;

impl Call<'_, '_> {
    /// Whether changes are recorded.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.keys.scope().recorder.is_some()
    }

    /// What the command did is recorded as this command, in the present database.
    pub fn record_as(&self, args: &[&[u8]]) {
        self.record_as_in(self.keys.scope().db, args);
    }

    /// The same in another database.
    pub fn record_as_in(&self, db: DbIndex, args: &[&[u8]]) {
        if let Some(recorder) = self.keys.scope().recorder {
            recorder.record(db.0, args);
        }
    }

    /// What the command did leaves nothing to be recorded.
    #[inline]
    pub fn record_nothing(&self) {
        if let Some(recorder) = self.keys.scope().recorder {
            recorder.record_nothing();
        }
    }

    /// The command is recorded as it came, although no key has changed (FUNCTION LOAD).
    pub fn record_as_it_came(&self) {
        self.record_as(self.args);
    }

    /// The command is recorded as it came, for replicas only: it leaves no data behind (PUBLISH).
    pub fn record_for_replicas(&self) {
        let scope = self.keys.scope();
        if let Some(recorder) = scope.recorder {
            recorder.record_for_replicas(scope.db.0, self.args);
        }
    }
}
