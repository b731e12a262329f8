//! The walk through the tables of one partition.

use std::mem::replace;

use super::output::Output;
use super::table_walk::{Portion, TableWalk};
use crate::Keyspace;
use crate::access::ticket::Ticket;
use crate::key::{DbIndex, PartitionId};
use crate::partition::Partition;

/// The position of a walk through the tables of one partition.
pub(crate) struct PartitionWalk {
    pub id: PartitionId,
    pub at: TableWalk,
    /// The walk of the table before this one, with copies still to be written.
    ended: Option<TableWalk>,
}

impl PartitionWalk {
    pub fn new(id: PartitionId) -> Self {
        PartitionWalk { id, at: TableWalk::new(DbIndex(0)), ended: None }
    }

    /// Writes what can be written without the partition.
    pub fn settle(&mut self, output: &Output) {
        if let Some(mut ended) = self.ended.take() {
            ended.end(output);
        }
        self.at.settle(output);
    }

    /// Writes some of the partition; returns the tickets to redeem once it is free.
    pub fn go_on(
        &mut self,
        space: &Keyspace,
        partition: &mut Partition,
        output: &Output,
    ) -> (Portion, Vec<Ticket>) {
        let Some(saving) = &mut partition.rest.saving else { return (Portion::End, Vec::new()) };
        let before = saving.in_parts.len();
        let portion = match partition.databases.cut_as(self.at.pending.db) {
            Some(db) => self.at.go_on(space, (db.table_to_mark(), &mut saving.in_parts), output),
            // The database was empty at the cut, or was flushed since.
            None => Portion::End,
        };
        let mut tickets = Vec::new();
        if saving.in_parts.len() < before {
            tickets = output.call(self.id);
        }
        if portion != Portion::End {
            return (portion, tickets);
        }
        let next = partition.databases.next_cut(DbIndex(self.at.pending.db.0 + 1));
        debug_assert!(next.is_none_or(|next| next > self.at.pending.db), "databases in order");
        let ended = replace(&mut self.at, TableWalk::new(next.unwrap_or_default()));
        self.ended = Some(ended);
        if next.is_some() {
            return (Portion::More, tickets);
        }
        debug_assert!(!saving.is_walked, "it is walked once");
        saving.is_walked = true;
        tickets.extend(partition.close_if_saved());
        (Portion::End, tickets)
    }
}
