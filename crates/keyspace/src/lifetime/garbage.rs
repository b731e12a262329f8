//! Garbage: data that is not needed any more, freed in the background where that takes long.

use pantala_table::{DiscardedValue, OwnedRecord, Table};
use pantala_values::Object;

use crate::Keyspace;
use crate::lifetime::evict::GarbageInTransit;
use crate::tally::Tally;

/// A larger value is freed in the background: above this the allocator returns pages.
const BACKGROUND_FREE_BYTES: usize = 64 << 10;

/// Data that is not needed any more and waits to be freed.
pub enum Garbage {
    /// A removed key.
    Record(OwnedRecord<Object>),
    /// A value that was overwritten.
    Value(DiscardedValue<Object>),
    /// The tables of flushed databases.
    Tables(Vec<Table<Object>>),
    /// A large reply that was sent.
    Bytes(Vec<u8>),
}

/// How many tables of flushed databases are freed as one piece.
const TABLES_PER_PIECE: usize = 32;

impl Garbage {
    /// Allocated bytes; for tables approximately.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Garbage::Record(record) => record.bytes(),
            Garbage::Value(value) => value.bytes(),
            Garbage::Tables(tables) => tables.iter().map(Table::estimated_bytes).sum(),
            Garbage::Bytes(bytes) => bytes.capacity(),
        }
    }
}

/// Frees garbage on a thread that may take its time.
pub trait Reclaimer: Send + Sync {
    /// Takes the garbage, to drop it; must not block.
    fn reclaim(&self, garbage: GarbageInTransit);
}

impl Keyspace {
    /// Frees a removed record: here if that is quick, otherwise in the background.
    pub(crate) fn discard(&self, record: OwnedRecord<Object>, tally: &Tally) {
        if record.bytes() > BACKGROUND_FREE_BYTES {
            self.reclaim(Garbage::Record(record), tally);
        }
    }

    /// Frees a replaced value in the background: the table hands out only those that are costly to
    /// free.
    pub(crate) fn discard_value(&self, value: DiscardedValue<Object>, tally: &Tally) {
        self.reclaim(Garbage::Value(value), tally);
    }

    /// Hands garbage to the background reclaimer; without one it is freed here.
    pub(crate) fn reclaim(&self, garbage: Garbage, tally: &Tally) {
        tally.reclaimed.add(1);
        let Some(reclaimer) = self.reclaimer.get() else { return };
        match garbage {
            // In pieces, so that the pending amount stays current while they are freed.
            Garbage::Tables(mut tables) => {
                while !tables.is_empty() {
                    let part = tables.split_off(tables.len().saturating_sub(TABLES_PER_PIECE));
                    reclaimer.reclaim(GarbageInTransit::new(Garbage::Tables(part), &self.pending));
                }
            }
            other => reclaimer.reclaim(GarbageInTransit::new(other, &self.pending)),
        }
    }
}
