//! Whether a command has to wait for the snapshot that runs, or until a key is pinned no longer,
//! asked before it does anything.
//!
//! Whoever changes a value that the snapshot has not written yet writes it first. That is quick but
//! for a large value that changes where it is: then the command parks until it has been written in
//! parts. It also parks where the snapshot has no room for more. A key that is being sent to
//! another server is pinned: whoever would write to it parks. Who is asked, and when:
//!
//! | | before | waits |
//! |---|---|---|
//! | a command | its handler | parked |
//! | a transaction | its first command, for the keys of all | parked |
//! | a script | each command that writes | undone, then parked as a whole |
//! | a script that cannot be undone any more, or in a transaction | - | not |
//! | a command that is served | its handler | runs again by itself |
//!
//! Invariants
//! 1. Who parks here has changed nothing and holds nothing.
//! 2. This is about how long something takes, never about what the snapshot has: a change that was
//!    not asked for is saved all the same (`keyspace::snapshot`). Who pins a key watches it, too.
//!
//! Tests: crates/server/tests/snapshot.rs, crates/server/tests/migrate.rs.

use pantala_commands::{Command, Flags, Park, Queue, key_positions};
use pantala_keyspace::snapshot::Asked;
use pantala_keyspace::{ClientId, Key, Locked};
use smallvec::SmallVec;

use super::{Hashes, Request, Turn};

/// What a command may do with its keys.
pub(crate) fn asked(row: &Command) -> Asked {
    Asked { in_place: !row.replaces, everywhere: row.flags.has(Flags::OTHER_DB) }
}

impl Turn<'_> {
    /// Whether a command of this client that is about to run by itself, or is served for the key
    /// `ready`, has to wait.
    #[cold]
    pub(super) fn waits_to_write(
        &self,
        client: ClientId,
        request: Request<'_>,
        ready: Option<Key<'_>>,
        locked: &mut Locked<'_>,
    ) -> Option<Park> {
        let Request { found, args, .. } = request;
        if !found.row.flags.has(Flags::WRITE) || !self.may_wait {
            return None;
        }
        let positions = key_positions(found.row, args).unwrap_or_default();
        let hashes = self.hashes(args, &positions);
        if ready.is_some() && !hashes.iter().all(|&hash| locked.try_hold(hash)) {
            return Some(Park::Again);
        }
        let keys: SmallVec<[Key<'_>; 4]> = keys_at(args, &positions, &hashes).collect();
        park_before(locked, &keys, asked(found.row), client)
    }

    /// Whether a transaction has to wait, before its first command.
    #[cold]
    pub(crate) fn transaction_waits_to_write(
        &self,
        client: ClientId,
        queue: &Queue,
        hashes: &[Hashes],
        locked: &mut Locked<'_>,
    ) -> Option<Park> {
        let commands = queue.commands.iter().zip(hashes);
        let mut writing = commands.filter(|(one, _)| one.found.row.flags.has(Flags::WRITE));
        writing.find_map(|(one, hashes)| {
            let args = one.args.slices();
            let positions = key_positions(one.found.row, &args).unwrap_or_default();
            let keys: SmallVec<[Key<'_>; 4]> = keys_at(&args, &positions, hashes).collect();
            // It may SELECT another database on its way.
            let asked = Asked { everywhere: true, ..asked(one.found.row) };
            park_before(locked, &keys, asked, client)
        })
    }
}

/// Whether a command of this client that is about to write to these keys, which are held, has to
/// wait.
pub(crate) fn park_before(
    locked: &mut Locked<'_>,
    keys: &[Key<'_>],
    asked: Asked,
    client: ClientId,
) -> Option<Park> {
    let (space, db) = (locked.scope().space, locked.scope().db);
    if let Some(wait) = space.awaits_pins(db, keys, asked.everywhere, client) {
        return Some(Park::Pin(wait));
    }
    locked.awaits_snapshot(keys, asked).map(Park::Snapshot)
}

fn keys_at<'a>(
    args: &'a [&'a [u8]],
    positions: &'a [usize],
    hashes: &'a [u64],
) -> impl Iterator<Item = Key<'a>> {
    let found = positions.iter().zip(hashes);
    found.map(|(&position, &hash)| Key { bytes: args[position], hash })
}
