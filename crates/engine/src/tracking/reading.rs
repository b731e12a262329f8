//! What a client that tracks keys reads is remembered.

use pantala_commands::{CommandRef, Flags, Session, key_positions};
use pantala_keyspace::{Key, Locked};

use crate::execute::{Request, Turn};

impl<'r> Turn<'r> {
    /// Keeps the number of remembered keys within `tracking-table-max-keys`. Inside the gate.
    #[inline]
    pub fn shrink_tracked(&self) {
        if self.engine.notices.trackers.is_used() {
            self.engine.shrink_tracked();
        }
    }
}

/// Notes the keys of a command that only reads; their partitions are held. Of one that is served
/// for a key that is `ready` only this: others may not be held, and have given it nothing.
pub fn remember(
    session: &Session,
    request: Request<'_>,
    ready: Option<Key<'_>>,
    locked: &mut Locked<'_>,
) {
    let Request { found, args, hashes } = request;
    if !remembers(session, found) {
        return;
    }
    if let Some(key) = ready {
        return locked.track(key, session.id);
    }
    let positions = key_positions(found.row, args).unwrap_or_default();
    for (&position, &hash) in positions.iter().zip(hashes) {
        locked.track(Key { bytes: args[position], hash }, session.id);
    }
}

/// Whether the keys of a command of this client are remembered.
fn remembers(session: &Session, found: CommandRef) -> bool {
    let flags = found.row.flags;
    let is_read = flags.has(Flags::READONLY) && !flags.has(Flags::PUBSUB);
    is_read && session.tracking.as_ref().is_some_and(|tracking| tracking.remembers())
}

/// CLIENT CACHING is for one command.
pub fn forget_caching(session: &mut Session) {
    if let Some(tracking) = &mut session.tracking {
        tracking.caching = false;
    }
}
