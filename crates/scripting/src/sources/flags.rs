//! What a script or a function says about itself: the flags of a shebang line and of
//! `register_function`.
//!
//! Not here: what they mean for a command (engine, `scripts`). Tests: foot of `script`.

/// A set of flags; the names are the reference's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Writes nothing.
    pub const NO_WRITES: Flags = Flags(1);
    /// May run when memory is short.
    pub const ALLOW_OOM: Flags = Flags(1 << 1);
    /// May run on a replica whose leader is away.
    pub const ALLOW_STALE: Flags = Flags(1 << 2);
    /// Does not run in a cluster.
    pub const NO_CLUSTER: Flags = Flags(1 << 3);
    /// May reach keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: Flags = Flags(1 << 4);
    /// No shebang line: a script of the old kind, of which less is known.
    pub const COMPATIBLE: Flags = Flags(1 << 5);

    /// The flags that have names, in the order in which the reference lists them.
    pub const NAMED: [(&'static str, Flags); 5] = [
        ("no-writes", Flags::NO_WRITES),
        ("allow-oom", Flags::ALLOW_OOM),
        ("allow-stale", Flags::ALLOW_STALE),
        ("no-cluster", Flags::NO_CLUSTER),
        ("allow-cross-slot-keys", Flags::ALLOW_CROSS_SLOT_KEYS),
    ];

    /// None.
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

    /// It may write, by its own words: one of the old kind says nothing.
    pub const fn says_that_it_writes(self) -> bool {
        !self.has(Flags::NO_WRITES) && !self.has(Flags::COMPATIBLE)
    }

    /// It may need more memory, by its own words.
    pub const fn says_that_it_grows(self) -> bool {
        self.says_that_it_writes() && !self.has(Flags::ALLOW_OOM)
    }

    /// These and `other`.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The names of those set, in the reference's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Flags::NAMED.iter().filter(move |(_, flag)| self.has(*flag)).map(|(name, _)| *name)
    }
}
