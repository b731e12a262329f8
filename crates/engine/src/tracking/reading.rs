//! What a client that tracks keys reads is remembered.

use pantala_commands::{CommandRef, Flags, Session, key_positions};
use pantala_keyspace::{Key, Locked};

use crate::execute::{Request, Turn, Verdict};

impl<'r> Turn<'r> {
    /// Keeps the number of remembered keys within `tracking-table-max-keys`. Inside the gate.
    #[inline]
    pub fn shrink_tracked(&self) {
        if self.engine.notices.trackers.is_used() {
            self.engine.shrink_tracked();
        }
    }

    /// Runs a command of a client that tracks keys, and remembers those it reads.
    #[cold]
    pub fn run_tracked(
        &self,
        session: &mut Session,
        request: Request<'_>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let is_author = session.tracking.as_ref().is_some_and(|tracking| tracking.no_loop);
        if is_author {
            locked.effects().set_author(session.id);
        }
        let verdict = self.run_untracked(session, request, locked, output);
        if is_author {
            locked.effects().set_author(0);
        }
        if matches!(verdict, Verdict::Finished) {
            remember(session, request, locked);
            // What stood before MULTI is for all commands up to EXEC, what stood before EVAL for
            // all that the script runs.
            let is_between = !self.may_wait || session.multi.is_some();
            if !is_between && request.found.row.parent != Some("CLIENT") {
                forget_caching(session);
            }
        }
        verdict
    }
}

/// Notes the keys of a command that only reads; their partitions are held.
pub fn remember(session: &Session, request: Request<'_>, locked: &mut Locked<'_>) {
    let Request { found, args, hashes } = request;
    if !remembers(session, found) {
        return;
    }
    let positions = key_positions(found.row, args).unwrap_or_default();
    for (&position, &hash) in positions.iter().zip(hashes) {
        locked.track(Key { bytes: args[position], hash }, session.id);
    }
}

/// Notes the key with which a command that waited was served. Others of its keys may not be held,
/// and have given it nothing.
pub fn remember_served(
    session: &Session,
    found: CommandRef,
    key: Key<'_>,
    locked: &mut Locked<'_>,
) {
    if remembers(session, found) {
        locked.track(key, session.id);
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
