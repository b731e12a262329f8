//! Registering the keys that tracking clients read.

use pantala_commands::{CommandRef, Flags, Session, key_positions};
use pantala_keyspace::{Key, Locked};

use crate::execute::{CommandRequest, Turn};

impl<'r> Turn<'r> {
    /// Keeps the number of tracked keys within `tracking-table-max-keys`. Inside the gate.
    #[inline]
    pub fn shrink_tracked(&self) {
        if self.engine.notices.trackers.is_used() {
            self.engine.shrink_tracked();
        }
    }
}

/// Registers the keys of a command that only reads; their partitions are held. If a blocked command
/// is served for the key `ready`, only this one: others may not be held, and it got nothing from
/// them.
pub fn remember(
    session: &Session,
    request: CommandRequest<'_>,
    ready: Option<Key<'_>>,
    locked: &mut Locked<'_>,
) {
    let CommandRequest { found, args, hashes, .. } = request;
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

/// Whether the keys of a command of this client are registered.
fn remembers(session: &Session, found: CommandRef) -> bool {
    let flags = found.row.flags;
    let is_read = flags.intersects(Flags::READONLY) && !flags.intersects(Flags::PUBSUB);
    is_read && session.tracking.as_ref().is_some_and(|tracking| tracking.remembers())
}

/// Resets CLIENT CACHING, which is for one command.
pub fn forget_caching(session: &mut Session) {
    if let Some(tracking) = &mut session.tracking {
        tracking.caching = false;
    }
}
