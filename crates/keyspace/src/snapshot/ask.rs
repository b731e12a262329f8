//! Whether a command has to wait for the snapshot; asked before it does anything.

use super::before::Saving;
use super::output::SnapshotWait;
use super::target::SnapshotRoom;
use crate::Keyspace;
use crate::access::locked::Locked;
use crate::access::ticket::Ticket;
use crate::key::{Key, PartitionId};

/// What a command is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntendedChange {
    /// It may change a value in place; otherwise values are only replaced or removed as a whole.
    pub in_place: bool,
    /// The database of its keys is not known in advance.
    pub everywhere: bool,
}

impl Keyspace {
    /// Whether a snapshot runs. Within a turn this may end, but not begin.
    #[inline]
    pub fn has_snapshot(&self) -> bool {
        self.snapshot.is_running()
    }

    /// Leaves a ticket with the snapshot.
    ///
    /// # Errors
    /// What was waited for has happened: try again.
    pub fn park_for_snapshot(&self, wait: SnapshotWait, ticket: Ticket) -> Result<(), Ticket> {
        match self.snapshot.get() {
            Some(state) => state.output.park(wait, ticket),
            None => Err(ticket),
        }
    }
}

impl Locked<'_> {
    /// Whether a command has to wait before it writes to these keys, which are held. If so, nothing
    /// was done, and the keys are written as soon as possible.
    ///
    /// A command need not ask: then it writes a large value itself, with its partition held.
    pub fn awaits_snapshot(
        &mut self,
        keys: &[Key<'_>],
        asked: IntendedChange,
    ) -> Option<SnapshotWait> {
        keys.iter().find_map(|&key| self.key_awaits_snapshot(key, asked))
    }

    fn key_awaits_snapshot(&mut self, key: Key<'_>, asked: IntendedChange) -> Option<SnapshotWait> {
        let id = PartitionId::of(key.hash);
        let db = self.scope().db;
        let place = self.place_of(id)?;
        let partition = &mut *self.held[place].1;
        let saving = partition.rest.saving.as_mut()?;
        let databases = partition.databases.all_mut();
        let meant = databases.filter(|(number, _)| asked.everywhere || *number == db);
        for (_, db) in meant {
            let cut = db.cut();
            let table = db.table();
            let place = table.find(key.hash, key.bytes);
            let Some(place) = place.filter(|&place| !table.is_saved(place)) else { continue };
            if asked.in_place && saving.writes_in_parts(table, place, cut) {
                return Some(saving.wait());
            }
            if saving.state().output.room() == SnapshotRoom::Overfull {
                // Checked again after the wait is noted, so that room made now counts as news.
                let wait = saving.wait();
                if saving.state().output.room() == SnapshotRoom::Overfull {
                    return Some(wait);
                }
            }
        }
        None
    }
}

impl Saving {
    /// The wait for one of its values to be written, or for room.
    fn wait(&self) -> SnapshotWait {
        self.state().output.wait_for(self.id())
    }
}
