//! A change of one key, as its observers hear of it.

use crate::changes::effects::ClientId;
use crate::changes::event::KeyEvent;
use crate::key::DbIndex;

/// The audience of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAudience {
    /// Blocked clients, watches, caches, and listeners of events.
    ByAll,
    /// All but watches and caches: what these have seen of the key is unchanged.
    Unwatched,
    /// Only the journal and the counts.
    Silently,
}

/// A change of one key.
#[derive(Clone, Copy, Debug)]
pub struct KeyChange<'c> {
    /// Its database.
    pub db: DbIndex,
    /// The key: it has another value or deadline than before, or is there, or gone.
    pub key: &'c [u8],
    /// What happened.
    pub event: KeyEvent,
    /// The audience.
    pub heard: ChangeAudience,
    /// The client whose command it was; 0 if that does not matter.
    pub author: ClientId,
}

/// Is told of every change after it was made, in order, with the partition of the key (for a whole
/// database: with all of them) still held. Called only while something is
/// [`EventMask`](crate::EventMask).
pub trait ChangeObserver {
    /// A command has changed a key.
    fn changed(&mut self, changed: KeyChange<'_>);
    /// A key was removed because its deadline has passed.
    fn expired(&mut self, db: DbIndex, key: &[u8]);
    /// Elements of a key were removed because their own deadline has passed; `was_last`: the key
    /// with them.
    fn elements_expired(&mut self, db: DbIndex, key: &[u8], event: KeyEvent, was_last: bool);
    /// A key was evicted, to free memory.
    fn evicted(&mut self, db: DbIndex, key: &[u8]);
    /// All keys of one database, or of all databases, were removed.
    fn flushed(&mut self, only: Option<DbIndex>);
    /// Two databases were exchanged.
    fn swapped(&mut self, left: DbIndex, right: DbIndex);
}
