//! The directory of clients: at which worker each client is.
//!
//! Used for messages to one client from threads that do not serve it. A client that moves between
//! two workers is *in transit*: its messages wait here until it has arrived.
//!
//! Invariant
//! 1. A message for a client has reached it, is in the mailbox of the worker where the directory
//!    has it (or had it: that worker forwards late messages), or is here. None is lost while the
//!    client lives. If too many wait in transit, one message replaces them, which says that
//!    everything may be stale.
//!
//! Tests: below; the bad day `restless_connections`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_commands::ServicePlace;
use pantala_keyspace::ClientId;
use parking_lot::{Mutex, MutexGuard};

use crate::clients::mailbox::Invalidation;

const STRIPES: usize = 16;

/// The most messages kept for a client in transit; beyond that it is told to flush its cache.
const TRANSIT_WORDS: usize = 1024;

/// The messages kept for a client in transit.
#[derive(Default)]
pub struct Transit {
    /// The messages, in order.
    pub words: Vec<Invalidation>,
    /// There were too many.
    pub is_torn: bool,
}

impl Transit {
    fn add(&mut self, word: Invalidation) {
        if self.words.len() >= TRANSIT_WORDS {
            self.words.clear();
            self.is_torn = true;
        }
        if !self.is_torn {
            self.words.push(word);
        }
    }
}

enum ClientLocation {
    At(ServicePlace),
    InTransit(Transit),
}

/// What to do with a message for a client.
pub enum DeliveryOutcome {
    /// Leave it for the connection at this place.
    To(ServicePlace, Invalidation),
    /// It is kept here until the client arrives.
    Kept,
    /// There is no such client.
    Gone,
}

/// Where each client is: at a worker, or in transit between two.
#[derive(Default)]
pub struct Directory {
    stripes: [Mutex<HashMap<ClientId, ClientLocation>>; STRIPES],
    /// The number of the last client.
    last: AtomicU64,
}

impl Directory {
    /// The number of the next client.
    pub fn next_id(&self) -> ClientId {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn stripe(&self, client: ClientId) -> MutexGuard<'_, HashMap<ClientId, ClientLocation>> {
        let stripe = &self.stripes[(client % STRIPES as u64) as usize];
        stripe.lock()
    }

    /// The client is at this place from now on; returns what was kept for it.
    pub fn enter(&self, client: ClientId, place: ServicePlace) -> Transit {
        match self.stripe(client).insert(client, ClientLocation::At(place)) {
            Some(ClientLocation::InTransit(transit)) => transit,
            Some(ClientLocation::At(_)) | None => Transit::default(),
        }
    }

    /// The client leaves one worker for another: it is in transit.
    pub fn depart(&self, client: ClientId) {
        self.stripe(client).insert(client, ClientLocation::InTransit(Transit::default()));
    }

    /// Removes a client that has gone.
    pub fn leave(&self, client: ClientId) {
        self.stripe(client).remove(&client);
    }

    /// Whether there is such a client.
    pub fn has(&self, client: ClientId) -> bool {
        self.stripe(client).contains_key(&client)
    }

    /// Keeps a message for a client in transit, or says where it goes.
    pub fn send(&self, client: ClientId, word: Invalidation) -> DeliveryOutcome {
        match self.stripe(client).get_mut(&client) {
            Some(ClientLocation::At(place)) => DeliveryOutcome::To(*place, word),
            Some(ClientLocation::InTransit(transit)) => {
                transit.add(word);
                DeliveryOutcome::Kept
            }
            None => DeliveryOutcome::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(worker: u16) -> ServicePlace {
        ServicePlace { worker, connection: 5 }
    }

    fn way(directory: &Directory, client: ClientId) -> Option<ServicePlace> {
        match directory.send(client, Invalidation::Broken(9)) {
            DeliveryOutcome::To(place, _) => Some(place),
            DeliveryOutcome::Kept | DeliveryOutcome::Gone => None,
        }
    }

    #[test]
    fn the_last_place_counts() {
        let directory = Directory::default();
        directory.enter(3, there(0));
        directory.enter(3 + STRIPES as u64, there(1));
        directory.enter(3, there(2));
        assert_eq!(way(&directory, 3), Some(there(2)));
        directory.leave(3);
        assert!(!directory.has(3));
        assert_eq!(way(&directory, 3), None);
        assert_eq!(way(&directory, 3 + STRIPES as u64), Some(there(1)));
    }

    #[test]
    fn word_waits_for_a_client_in_transit() {
        let directory = Directory::default();
        directory.enter(3, there(0));
        directory.depart(3);
        assert!(directory.has(3));
        assert!(matches!(directory.send(3, Invalidation::Broken(1)), DeliveryOutcome::Kept));
        assert!(matches!(directory.send(3, Invalidation::Broken(2)), DeliveryOutcome::Kept));
        let transit = directory.enter(3, there(1));
        assert!(!transit.is_torn);
        assert!(matches!(transit.words[..], [Invalidation::Broken(1), Invalidation::Broken(2)]));
        assert_eq!(directory.enter(3, there(1)).words.len(), 0);
    }

    #[test]
    fn too_much_word_becomes_one() {
        let directory = Directory::default();
        directory.depart(3);
        for _ in 0..=TRANSIT_WORDS {
            directory.send(3, Invalidation::Broken(1));
        }
        let transit = directory.enter(3, there(1));
        assert!(transit.is_torn && transit.words.is_empty());
    }
}
