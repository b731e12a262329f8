//! The flags of a script or a function, from a shebang line or `register_function`.
//!
//! Not here: their meaning for a command (engine, `scripts`). Tests: foot of `script`.

/// A set of flags; the names are the reference's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Writes nothing.
    pub const NO_WRITES: Flags = Flags(1);
    /// May run when memory is short.
    pub const ALLOW_OOM: Flags = Flags(1 << 1);
    /// May run on a replica whose link to the primary is down.
    pub const ALLOW_STALE: Flags = Flags(1 << 2);
    /// Does not run in a cluster.
    pub const NO_CLUSTER: Flags = Flags(1 << 3);
    /// May access keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: Flags = Flags(1 << 4);
    /// No shebang line: an old-style script, of which less is known.
    pub const COMPATIBLE: Flags = Flags(1 << 5);

    /// The flags with names, in the reference's order.
    pub const NAMED: [(&'static str, Flags); 5] = [
        ("no-writes", Flags::NO_WRITES),
        ("allow-oom", Flags::ALLOW_OOM),
        ("allow-stale", Flags::ALLOW_STALE),
        ("no-cluster", Flags::NO_CLUSTER),
        ("allow-cross-slot-keys", Flags::ALLOW_CROSS_SLOT_KEYS),
    ];

    /// No flags.
    pub const fn empty() -> Flags {
        Flags(0)
    }

    /// The flag of this name.
    pub fn named(name: &[u8]) -> Option<Flags> {
        let (_, flag) = Flags::NAMED.iter().find(|(known, _)| known.as_bytes() == name)?;
        Some(*flag)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it declares that it writes; an old-style script declares nothing.
    pub const fn says_that_it_writes(self) -> bool {
        !self.has(Flags::NO_WRITES) && !self.has(Flags::COMPATIBLE)
    }

    /// Whether it declares that it may need more memory.
    pub const fn says_that_it_grows(self) -> bool {
        self.says_that_it_writes() && !self.has(Flags::ALLOW_OOM)
    }

    /// The union with `other`.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The names of the set flags, in the reference's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Flags::NAMED.iter().filter(move |(_, flag)| self.has(*flag)).map(|(name, _)| *name)
    }
}
