//! Back-pressure: publishers wait while a worker's queue is long.

use std::sync::atomic::Ordering;

use pantala_keyspace::Ticket;

use super::PubSub;
use super::subscribers::WorkerSubscribers;

impl PubSub {
    /// Whether messages wait for this worker.
    #[inline]
    pub fn has_published(&self, worker: usize) -> bool {
        !self.subscribers[worker].is_empty()
    }

    /// Whether publishers have to wait.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed) > 0
    }

    /// Makes publishers wait: a worker's queue is too long.
    pub fn crowd(&self, subscribers: &WorkerSubscribers) {
        if subscribers.become_crowded() {
            self.crowded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets publishers go on if enough of a worker's messages were delivered.
    pub fn relieve(&self, subscribers: &WorkerSubscribers) {
        if let Some(tickets) = subscribers.relieve() {
            self.crowded.fetch_sub(1, Ordering::Relaxed);
            tickets.into_iter().for_each(pantala_sync::lock::Ticket::wake);
        }
    }

    /// Parks a publisher until a long queue is shorter.
    ///
    /// # Errors
    /// None is long: the ticket is returned.
    pub fn wait(&self, ticket: Ticket) -> Result<(), Ticket> {
        self.subscribers
            .iter()
            .try_fold(ticket, |ticket, subscribers| match subscribers.wait(ticket) {
                Ok(()) => Err(()),
                Err(ticket) => Ok(ticket),
            })
            .map_or(Ok(()), Err)
    }
}
