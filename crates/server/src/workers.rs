//! The workers as a whole: how many, who serves how many connections, who is to go.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::inbox::{Inbox, Message};

/// The most workers there can be.
pub const MAX_WORKERS: usize = 256;

const VACANT: u32 = 0;
const SERVING: u32 = 1;
const RETIRING: u32 = 2;

/// One worker's place.
struct Desk {
    state: AtomicU32,
    connections: AtomicUsize,
    inbox: RwLock<Option<Arc<Inbox>>>,
}

/// See the module.
pub struct Workers {
    desks: Box<[Desk]>,
    /// Held while the number of workers changes.
    pub changing: Mutex<()>,
}

impl Default for Workers {
    fn default() -> Self {
        let desk = || Desk {
            state: AtomicU32::new(VACANT),
            connections: AtomicUsize::new(0),
            inbox: RwLock::new(None),
        };
        Workers { desks: (0..MAX_WORKERS).map(|_| desk()).collect(), changing: Mutex::new(()) }
    }
}

impl Workers {
    /// A worker begins at this desk.
    pub fn opened(&self, index: usize, inbox: Arc<Inbox>) {
        let mut place = self.desks[index].inbox.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(inbox);
        self.desks[index].state.store(SERVING, Ordering::Release);
    }

    /// A worker has left its desk.
    pub fn retired(&self, index: usize) {
        let mut place = self.desks[index].inbox.write().unwrap_or_else(PoisonError::into_inner);
        *place = None;
        self.desks[index].state.store(VACANT, Ordering::Release);
    }

    /// Asks a worker to give up its connections and go.
    pub fn ask_to_retire(&self, index: usize) {
        self.desks[index].state.store(RETIRING, Ordering::Release);
        self.post(index, Message::LookUp);
    }

    /// Whether this worker was asked to go.
    #[inline]
    pub fn is_retiring(&self, index: usize) -> bool {
        self.desks[index].state.load(Ordering::Relaxed) == RETIRING
    }

    /// Whether nobody sits there.
    pub fn is_vacant(&self, index: usize) -> bool {
        self.desks[index].state.load(Ordering::Acquire) == VACANT
    }

    /// The workers that serve and stay.
    pub fn serving(&self) -> Vec<usize> {
        let is_serving =
            |index: &usize| self.desks[*index].state.load(Ordering::Acquire) == SERVING;
        (0..MAX_WORKERS).filter(is_serving).collect()
    }

    /// How many connections there are.
    pub fn connection_count(&self) -> usize {
        self.desks.iter().map(|desk| desk.connections.load(Ordering::Relaxed)).sum()
    }

    /// A worker has one connection more.
    pub fn joined(&self, index: usize) {
        self.desks[index].connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker has one connection less.
    pub fn left(&self, index: usize) {
        self.desks[index].connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// The serving worker with the fewest connections.
    pub fn least_loaded(&self) -> usize {
        self.serving()
            .into_iter()
            .min_by_key(|index| self.desks[*index].connections.load(Ordering::Relaxed))
            .unwrap_or(0)
    }

    /// Puts a message into a worker's inbox; dropped if nobody sits there.
    pub fn post(&self, index: usize, message: Message) {
        let place = self.desks[index].inbox.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = &*place {
            inbox.post(message);
        }
    }

    /// Puts a message into every worker's inbox; how many there are.
    pub fn post_all(&self, mut message: impl FnMut() -> Message) -> usize {
        let mut count = 0;
        for desk in &self.desks {
            let place = desk.inbox.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(inbox) = &*place {
                inbox.post(message());
                count += 1;
            }
        }
        count
    }
}
