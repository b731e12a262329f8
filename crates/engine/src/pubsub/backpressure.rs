//! Publishers wait while much lies in a worker's queue.

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

    /// Too much lies with a worker: publishers have to wait.
    pub fn crowd(&self, subscribers: &WorkerSubscribers) {
        if subscribers.become_crowded() {
            self.crowded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets publishers go on, if enough of a worker's messages were delivered.
    pub fn relieve(&self, subscribers: &WorkerSubscribers) {
        if let Some(tickets) = subscribers.relieve() {
            self.crowded.fetch_sub(1, Ordering::Relaxed);
            tickets.into_iter().for_each(pantala_sync::lock::Ticket::wake);
        }
    }

    /// A publisher waits until a long queue is shorter.
    ///
    /// # Errors
    /// None is long: the ticket comes back.
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
