//! Where each client is.
//!
//! For messages to one client from threads that do not serve it. A client that is moving to
//! another worker is found at the old one until it has arrived; a message to it is lost then, and
//! who sends messages has to bear that.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pantala_commands::Place;
use pantala_keyspace::ClientId;

const STRIPES: usize = 16;

/// See the module.
#[derive(Default)]
pub struct Directory {
    stripes: [Mutex<HashMap<ClientId, Place>>; STRIPES],
}

impl Directory {
    fn stripe(&self, client: ClientId) -> MutexGuard<'_, HashMap<ClientId, Place>> {
        let stripe = &self.stripes[(client % STRIPES as u64) as usize];
        stripe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client is there from now on.
    pub fn enter(&self, client: ClientId, place: Place) {
        self.stripe(client).insert(client, place);
    }

    /// The client has gone.
    pub fn leave(&self, client: ClientId) {
        self.stripe(client).remove(&client);
    }

    /// Where the client is.
    pub fn find(&self, client: ClientId) -> Option<Place> {
        self.stripe(client).get(&client).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_counts() {
        let directory = Directory::default();
        let there = |worker| Place { worker, connection: 5 };
        directory.enter(3, there(0));
        directory.enter(3 + STRIPES as u64, there(1));
        directory.enter(3, there(2));
        assert_eq!(directory.find(3), Some(there(2)));
        directory.leave(3);
        assert_eq!(directory.find(3), None);
        assert_eq!(directory.find(3 + STRIPES as u64), Some(there(1)));
    }
}
