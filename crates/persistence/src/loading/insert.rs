//! Inserts entries as keys. Any number of threads may insert at the same time.
//!
//! Tests: at the foot.

use pantala_base::UnixMs;
use pantala_keyspace::{DbIndex, Keyspace, LockPlan, Locked, PartitionId, Scope, Tally, event};
use pantala_rdb::file::{Content, RdbEntries, RdbEntry};
use pantala_rdb::{KeyMetadata, RdbLimits, RdbValue};
use pantala_table::{IntText, OwnedRecord, Tail, is_expired};
use pantala_values::Object;

use super::{Batch, Fault};

/// Counts of inserted and skipped entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsertOutcome {
    /// Keys that were inserted.
    pub loaded: u64,
    /// Keys that had expired.
    pub expired: u64,
    /// Collections without elements.
    pub empty: u64,
    /// Values of modules that were skipped.
    pub of_modules: u64,
}

impl InsertOutcome {
    /// Adds other counts.
    pub fn add(&mut self, other: InsertOutcome) {
        self.loaded += other.loaded;
        self.expired += other.expired;
        self.empty += other.empty;
        self.of_modules += other.of_modules;
    }
}

/// Inserts entries, with these options.
#[derive(Clone, Copy)]
pub struct Inserter<'i> {
    /// The keyspace to insert into.
    pub space: &'i Keyspace,
    /// The limits of values and of packed forms.
    pub limits: &'i RdbLimits,
    /// Keys that have expired by this time are left out.
    pub now: UnixMs,
    /// Whether values of modules are skipped.
    pub skips_modules: bool,
    /// Whether an existing key is replaced; otherwise it is an error.
    pub replaces: bool,
    /// Called for keys that are left out because they have expired.
    pub on_expired: &'i (dyn Fn(DbIndex, &[u8]) + Sync),
    /// Called for keys that were left out because their collections have no elements.
    pub on_empty: &'i (dyn Fn(&[u8]) + Sync),
}

impl Inserter<'_> {
    /// Inserts a batch. Only on threads that may block.
    ///
    /// # Errors
    /// An entry is invalid; the entries before it were inserted.
    pub fn insert(&self, batch: &Batch, tally: &Tally) -> Result<InsertOutcome, Fault> {
        let Batch { bytes, offset, db, version } = batch;
        if db.0 >= self.space.database_count() {
            return Err(Fault::Database(*offset, db.0));
        }
        let scope = Scope {
            space: self.space,
            db: *db,
            now: self.now,
            tally,
            touch: false,
            sees_expired: true,
            recorder: None,
        };
        let (mut inserted, mut count) = (InsertOutcome::default(), 0);
        for entry in RdbEntries::new(bytes, *offset, *version, self.limits) {
            self.one(entry?, scope, &mut inserted)?;
            count += 1;
        }
        let InsertOutcome { loaded, expired, empty, of_modules } = inserted;
        debug_assert_eq!(loaded + expired + empty + of_modules, count, "each is counted once");
        Ok(inserted)
    }

    fn one(
        &self,
        entry: RdbEntry<'_>,
        scope: Scope<'_>,
        inserted: &mut InsertOutcome,
    ) -> Result<(), Fault> {
        let RdbEntry { offset, key, deadline, content, beside, .. } = entry;
        let value = match content {
            Content::Value(value) => value,
            Content::Nothing => {
                (self.on_empty)(key.bytes(&mut IntText::new()));
                inserted.empty += 1;
                return Ok(());
            }
            Content::Module(_) if self.skips_modules => {
                inserted.of_modules += 1;
                return Ok(());
            }
            Content::Module(module) => return Err(Fault::Module(offset, module.to_string())),
        };
        if deadline.is_some_and(|deadline| is_expired(deadline, self.now)) {
            (self.on_expired)(scope.db, key.bytes(&mut IntText::new()));
            inserted.expired += 1;
            return Ok(());
        }
        let mut scratch = IntText::new();
        let name = key.bytes(&mut scratch);
        let record = record_of(name, value, deadline, beside);
        let key = self.space.key(name);
        let mut locked = self.lock(PartitionId::of(key.hash), scope);
        let mut opened = locked.open(key);
        if opened.exists() && !self.replaces {
            return Err(Fault::Twice(offset, name.to_vec()));
        }
        opened.remove();
        opened.put_unheard(record);
        opened.publish(event::UNNAMED);
        drop(opened);
        // As in Redis, a client blocked on this key waits for the next client that writes to it.
        locked.leave_ready();
        inserted.loaded += 1;
        Ok(())
    }

    fn lock<'k>(&self, id: PartitionId, scope: Scope<'k>) -> Locked<'k> {
        match scope.space.lock_one(id, scope) {
            Ok(locked) => locked,
            Err(_) => scope.space.lock_waiting(&LockPlan::of([u64::from(id.0)]), scope),
        }
    }
}

fn record_of(
    name: &[u8],
    value: RdbValue<'_>,
    deadline: Option<UnixMs>,
    beside: KeyMetadata,
) -> OwnedRecord<Object> {
    let KeyMetadata { flags, sticky } = beside;
    let record = match value {
        RdbValue::String(text) => {
            let (scratch, tail) = (&mut IntText::new(), Tail::of_flags(flags));
            OwnedRecord::new_string_with_tail(name, text.bytes(scratch), deadline, tail)
        }
        RdbValue::Object(object) => OwnedRecord::new_object(name, object, deadline),
    };
    record.with_stickiness(sticky)
}
