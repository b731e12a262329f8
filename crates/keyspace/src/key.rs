//! Coordinates in the keyspace: a hashed key, a partition, a logical database.

/// The number of partitions (lock stripes): a power of two, fixed for the life of the process.
pub const PARTITION_COUNT: usize = 1024;
const _: () = assert!(PARTITION_COUNT.is_power_of_two(), "the low bits of a hash name one");
const _: () = assert!(PARTITION_COUNT <= 1 << 10, "the table uses the bits above");

/// The number of a partition, below [`PARTITION_COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// The partition a hash belongs to: its lowest ten bits.
    #[inline]
    pub fn of(hash: u64) -> Self {
        PartitionId((hash % PARTITION_COUNT as u64) as u16)
    }

    /// As an index into an array of partitions.
    #[inline]
    pub fn index(self) -> usize {
        debug_assert!(usize::from(self.0) < PARTITION_COUNT, "there is no such partition");
        usize::from(self.0) % PARTITION_COUNT
    }

    /// All of them, in the order in which locks are taken.
    pub fn all() -> impl Iterator<Item = PartitionId> {
        (0..PARTITION_COUNT as u16).map(PartitionId)
    }
}

/// A logical database, as SELECT numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DbIndex(pub u32);

impl DbIndex {
    /// As an index into an array of databases.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A key and its hash, taken once per command.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key as the client sent it.
    pub bytes: &'a [u8],
    /// Its seeded hash ([`crate::Keyspace::hash`]).
    pub hash: u64,
}
