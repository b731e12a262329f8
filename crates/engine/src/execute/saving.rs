//! Decides, before a command does anything, whether it has to wait for the running snapshot or
//! until a key is unpinned.
//!
//! A command that changes a value which the snapshot has not written yet writes it first. That is
//! quick except for a large value that is changed in place: then the command parks until the value
//! has been written in parts. It also parks while the snapshot's buffers are full. A key that is
//! being sent to another server is pinned: commands that would write to it park. Who asks, and
//! when:
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
//! 1. A command that parks here has changed nothing and holds nothing.
//! 2. This only decides who waits. The snapshot does not depend on it: if a command did not ask,
//!    the old value is saved all the same (`keyspace::snapshot`). A pinned key is also watched.
//!
//! Tests: crates/server/tests/snapshot.rs, crates/server/tests/migrate.rs.

use pantala_commands::{Command, Flags, Park, TransactionQueue, key_positions};
use pantala_keyspace::snapshot::IntendedChange;
use pantala_keyspace::{ClientId, Key, Locked};
use smallvec::SmallVec;

use super::{CommandRequest, Hashes, Turn};

/// How the command may change its keys.
pub(crate) fn asked(row: &Command) -> IntendedChange {
    IntendedChange { in_place: !row.replaces, everywhere: row.flags.intersects(Flags::OTHER_DB) }
}

impl Turn<'_> {
    /// Whether a client's command that is about to run alone, or is served for the key `ready`, has
    /// to wait.
    #[cold]
    pub(super) fn waits_to_write(
        &self,
        client: ClientId,
        request: CommandRequest<'_>,
        ready: Option<Key<'_>>,
        locked: &mut Locked<'_>,
    ) -> Option<Park> {
        let CommandRequest { found, args, .. } = request;
        if !found.row.flags.intersects(Flags::WRITE) || !self.may_wait {
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

    /// Whether a transaction has to wait; asked before its first command.
    #[cold]
    pub(crate) fn transaction_waits_to_write(
        &self,
        client: ClientId,
        queue: &TransactionQueue,
        hashes: &[Hashes],
        locked: &mut Locked<'_>,
    ) -> Option<Park> {
        let commands = queue.commands.iter().zip(hashes);
        let mut writing = commands.filter(|(one, _)| one.found.row.flags.intersects(Flags::WRITE));
        writing.find_map(|(one, hashes)| {
            let args = one.args.slices();
            let positions = key_positions(one.found.row, &args).unwrap_or_default();
            let keys: SmallVec<[Key<'_>; 4]> = keys_at(&args, &positions, hashes).collect();
            // It may SELECT another database.
            let asked = IntendedChange { everywhere: true, ..asked(one.found.row) };
            park_before(locked, &keys, asked, client)
        })
    }
}

/// Whether a client's command that is about to write to these keys, which are held, has to wait.
pub(crate) fn park_before(
    locked: &mut Locked<'_>,
    keys: &[Key<'_>],
    asked: IntendedChange,
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
