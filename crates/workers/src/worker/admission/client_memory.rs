//! `maxmemory-clients`: a limit for all clients together; above it the largest are closed first.
//!
//! Each worker keeps the bytes of its own connections in a counter, updated when a connection is
//! flushed. If a connection of a worker has grown, the worker adds up all these counters when its
//! turn ends. If the sum is too large the largest client of all workers is closed. For that each
//! worker publishes an upper bound of its largest client; a worker that finds a larger bound
//! elsewhere calls that worker instead of closing a smaller client of its own.
//!
//! Invariants
//! 1. `largest_bytes` is an upper bound of the worker's evictable clients. It becomes exact when
//!    the worker goes through its clients, so a worker that was called in vain is not called again
//!    for the same reason.
//! 2. A worker closes only its own connections.
//! 3. One worker at a time counts and closes clients, so no more clients are closed than necessary.
//!
//! Tests: the bad days `clients_together`, `the_largest_client_goes` and
//! `only_half_of_the_clients`.

use pantala_reactor::Ops;

use crate::worker::Worker;
use crate::worker::connection::{Connection, Life};
use crate::workers::inbox::Message;

/// How much a replica's output buffer grows at most while it is served: what may be in it and one
/// piece, in twice the capacity.
const MOST_GROWTH_BYTES: usize = 1 << 20;

impl Worker {
    /// Notes that a connection takes `now` bytes instead of `before`.
    #[inline]
    pub fn count_bytes(&mut self, before: u64, now: u64) {
        self.tally.client_bytes.set(self.tally.client_bytes.get() - before + now);
        self.chores.has_grown |= now > before;
        if now > self.chores.largest_bytes {
            self.set_largest(now);
        }
    }

    /// Before replicas are served: makes sure that nothing is evicted for a buffer that grows and
    /// is counted only afterwards.
    pub fn expect_replicas_to_grow(&mut self) {
        let most = self.lists.spare.large_bytes() + MOST_GROWTH_BYTES;
        self.tally.replica_spare_bytes.set(most as u64);
    }

    /// Counts again what the replicas of this worker take.
    pub fn count_replicas(&mut self) {
        let mut bytes = 0;
        for at in 0..self.lists.replicas.len() {
            let index = self.lists.replicas[at];
            // A large buffer may have moved from the spare ones to the connection.
            self.recount(index);
            bytes += self.at(index).map_or(0, |connection| connection.counts.counted_bytes);
        }
        self.tally.replica_bytes.set(bytes);
        self.tally.replica_spare_bytes.set(self.lists.spare.large_bytes() as u64);
    }

    #[cold]
    fn set_largest(&mut self, bytes: u64) {
        self.chores.largest_bytes = bytes;
        self.context.workers.tell_largest(self.index, bytes);
    }

    /// Closes the largest connections, while all of them together take too much.
    #[cold]
    pub fn evict_clients(&mut self, ops: &mut Ops<'_>) {
        let context = std::sync::Arc::clone(&self.context);
        let sum = || context.engine.stats.tallies.sum(|tally| tally.own_client_bytes());
        while sum() >= self.limited.most_client_bytes {
            let _alone = context.workers.evict_alone();
            if sum() < self.limited.most_client_bytes {
                return;
            }
            let may_go = |one: &&Connection| {
                let is_kept = one.session.no_evict || one.session.is_replica();
                !is_kept && one.life == Life::Open
            };
            let all = self.connections.iter().flatten().map(Box::as_ref).filter(may_go);
            let largest = all.max_by_key(|one| one.counts.counted_bytes);
            let largest = largest.map(|one| (one.token, one.session.id, one.counts.counted_bytes));
            let bytes = largest.map_or(0, |(_, _, bytes)| bytes);
            self.set_largest(bytes);
            if let Some((worker, elsewhere)) = context.workers.largest_but(self.index)
                && elsewhere > bytes
            {
                // One that has left is not found again.
                let _left = context.workers.post(worker, Message::EvictClients);
                return;
            }
            let Some((token, client, bytes)) = largest else { return };
            tracing::info!(client, bytes, "a client is evicted: maxmemory-clients is reached");
            self.tally.evicted_clients.add(1);
            self.drop_connection(token, ops);
        }
    }
}
