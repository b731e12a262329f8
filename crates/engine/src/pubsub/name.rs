//! Keys of the indexed lists: names of channels and patterns, numbers of connections.

use std::sync::Arc;

use super::indexed_list::Key;

/// The name of a channel, or a pattern. Cloning shares the bytes.
#[derive(Clone)]
pub struct Name {
    hash: u64,
    bytes: Arc<[u8]>,
}

impl Name {
    /// A name and its hash.
    pub fn new(hash: u64, bytes: &[u8]) -> Self {
        Name { hash, bytes: bytes.into() }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A predicate for lists: whether a name has these bytes.
    pub fn is(bytes: &[u8]) -> impl Fn(&Name) -> bool {
        move |name| *name.bytes == *bytes
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Name {}

impl Key for Name {
    fn hash(&self) -> u64 {
        self.hash
    }
}

/// A connection, as its worker numbers it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SubscriberId(pub u64);

impl Key for SubscriberId {
    /// Clients do not choose these numbers: a multiplication spreads them well enough.
    fn hash(&self) -> u64 {
        let spread = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        spread ^ spread >> 32
    }
}
