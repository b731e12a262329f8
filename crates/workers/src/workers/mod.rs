//! All workers: how many there are, how many connections each serves, and which must retire.

pub mod inbox;
pub mod room;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use pantala_base::awake::AwakeClock;
use parking_lot::{Mutex, MutexGuard, RwLock};

use pantala_engine::stats::tallies::ThreadTally;
use pantala_engine::{Mailbox, WorkerSet};

use self::inbox::{Inbox, Message};
use self::room::Room;

pub use pantala_engine::clients::mailbox::MAX_WORKERS;

const VACANT: u32 = 0;
const SERVING: u32 = 1;
const RETIRING: u32 = 2;

/// The place of one worker.
struct Place {
    state: AtomicU32,
    connections: AtomicUsize,
    /// An upper bound of the worker's largest client, see `worker/admission/client_memory`.
    largest_bytes: AtomicU64,
    inbox: RwLock<Option<Arc<Inbox>>>,
    clock: Mutex<Option<AwakeClock>>,
    tally: Mutex<Option<Arc<ThreadTally>>>,
}

/// All workers of the server, by index: their inboxes, states and loads.
pub struct Workers {
    places: Box<[Place]>,
    /// The count of connections, and its limits.
    pub room: Arc<Room>,
    /// Moves between workers that have begun, and that have ended.
    departed: AtomicU64,
    arrived: AtomicU64,
    /// The threads of workers that were added since the start; held while their number changes.
    pub added: Mutex<Vec<JoinHandle<()>>>,
    /// Held while a client is evicted and what all take is counted: otherwise several workers would
    /// each evict one for the same excess.
    evicting: Mutex<()>,
}

impl Default for Workers {
    fn default() -> Self {
        let place = || Place {
            state: AtomicU32::new(VACANT),
            connections: AtomicUsize::new(0),
            largest_bytes: AtomicU64::new(0),
            inbox: RwLock::new(None),
            clock: Mutex::new(None),
            tally: Mutex::new(None),
        };
        Workers {
            places: (0..MAX_WORKERS).map(|_| place()).collect(),
            room: Arc::default(),
            departed: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            added: Mutex::default(),
            evicting: Mutex::default(),
        }
    }
}

impl Workers {
    /// A worker begins to serve at this index.
    pub fn opened(&self, index: usize, inbox: Arc<Inbox>) {
        let mut place = self.places[index].inbox.write();
        *place = Some(inbox);
        self.places[index].state.store(SERVING, Ordering::Release);
    }

    /// Lets others ask how busy this worker is. To be called by its thread.
    pub fn began(&self, index: usize, tally: Arc<ThreadTally>) {
        let mut place = self.places[index].tally.lock();
        *place = Some(tally);
        let mut clock = self.places[index].clock.lock();
        *clock = AwakeClock::of_this_thread();
    }

    /// For how long the worker was awake since it began, in microseconds.
    pub fn awake_us(&self, index: usize) -> Option<u64> {
        let clock = self.places[index].clock.lock();
        clock.as_ref()?.awake_us()
    }

    /// The tally of the worker.
    pub fn tally(&self, index: usize) -> Option<Arc<ThreadTally>> {
        self.places[index].tally.lock().clone()
    }

    /// How many connections the worker serves.
    pub fn connections_of(&self, index: usize) -> usize {
        self.places[index].connections.load(Ordering::Relaxed)
    }

    /// A worker has retired. Sockets given to it at the last moment go to others; the engine's
    /// messages for it are returned.
    pub fn retired(&self, index: usize) -> Vec<pantala_engine::Message> {
        let mut place = self.places[index].inbox.write();
        let inbox = place.take();
        self.tell_largest(index, 0);
        self.places[index].state.store(VACANT, Ordering::Release);
        drop(place);
        // No thread posts any more: that takes the lock, and finds no inbox.
        let mut told = Vec::new();
        while let Some(message) = inbox.as_ref().and_then(|inbox| inbox.take()) {
            match message {
                Message::Accepted { .. } | Message::Moved { .. } => {
                    self.left(index);
                    self.seat(message);
                }
                Message::Engine(message) => told.push(message),
                _ => {}
            }
        }
        told
    }

    /// Gives a socket to the worker with the fewest connections.
    pub fn seat(&self, message: Message) {
        let mut unseated = message;
        loop {
            let chosen = self.least_loaded();
            self.joined(chosen);
            match self.post(chosen, unseated) {
                Ok(()) => return,
                // It left between being chosen and being told. At the very end all have left.
                Err(message) => {
                    self.left(chosen);
                    if self.serving().is_empty() {
                        return;
                    }
                    unseated = message;
                }
            }
        }
    }

    /// Gives a socket to this worker, or to another if that one retires.
    pub fn seat_at(&self, index: usize, message: Message) {
        if self.places[index].state.load(Ordering::Acquire) != SERVING {
            return self.seat(message);
        }
        self.joined(index);
        if let Err(message) = self.post(index, message) {
            self.left(index);
            self.seat(message);
        }
    }

    /// Asks a worker to give up its connections and end.
    pub fn ask_to_retire(&self, index: usize) {
        self.places[index].state.store(RETIRING, Ordering::Release);
        // One that has left need not be told.
        let _left = self.post(index, pantala_engine::Message::LookUp.into());
    }

    /// Whether this worker was asked to retire.
    #[inline]
    pub fn is_retiring(&self, index: usize) -> bool {
        self.places[index].state.load(Ordering::Relaxed) == RETIRING
    }

    /// Whether there is no worker at this index.
    pub fn is_vacant(&self, index: usize) -> bool {
        self.places[index].state.load(Ordering::Acquire) == VACANT
    }

    /// The workers that serve and are not to retire.
    pub fn serving(&self) -> Vec<usize> {
        let is_serving =
            |index: &usize| self.places[*index].state.load(Ordering::Acquire) == SERVING;
        (0..MAX_WORKERS).filter(is_serving).collect()
    }

    /// A connection leaves one worker for another: until it arrives no worker has it.
    pub fn departs(&self) {
        self.departed.fetch_add(1, Ordering::SeqCst);
    }

    /// A connection has arrived.
    pub fn arrived(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of moves that have begun. A caller that asks all workers has missed no client if
    /// as many moves had ended before it began as have begun by its end.
    pub fn departed_count(&self) -> u64 {
        self.departed.load(Ordering::SeqCst)
    }

    /// The number of moves that have ended.
    pub fn arrived_count(&self) -> u64 {
        self.arrived.load(Ordering::SeqCst)
    }

    /// Counts one connection more of a worker.
    pub fn joined(&self, index: usize) {
        self.places[index].connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one connection less of a worker.
    pub fn left(&self, index: usize) {
        self.places[index].connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Publishes an upper bound of this worker's largest client, in bytes.
    pub fn tell_largest(&self, index: usize, bytes: u64) {
        self.places[index].largest_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The other worker with the largest bound, and this bound in bytes.
    pub fn largest_but(&self, index: usize) -> Option<(usize, u64)> {
        let bytes_of = |one: usize| self.places[one].largest_bytes.load(Ordering::Relaxed);
        let others = self.serving().into_iter().filter(|one| *one != index);
        others.map(|one| (one, bytes_of(one))).max_by_key(|(_, bytes)| *bytes)
    }

    /// Waits until no other worker evicts a client, and keeps the others from it.
    pub fn evict_alone(&self) -> MutexGuard<'_, ()> {
        self.evicting.lock()
    }

    /// The serving worker with the fewest connections.
    pub fn least_loaded(&self) -> usize {
        self.serving()
            .into_iter()
            .min_by_key(|index| self.places[*index].connections.load(Ordering::Relaxed))
            .unwrap_or(0)
    }

    /// Puts a message into a worker's inbox.
    ///
    /// # Errors
    /// There is no such worker: the message is returned.
    pub fn post(&self, index: usize, message: Message) -> Result<(), Message> {
        let place = self.places[index].inbox.read();
        match &*place {
            Some(inbox) => {
                inbox.post(message);
                Ok(())
            }
            None => Err(message),
        }
    }

    /// Sends a message to the first worker, which accepts connections and never retires.
    pub fn tell_first(&self, message: Message) {
        if let Some(&first) = self.serving().first() {
            // At the very end it has left, too.
            let _left = self.post(first, message);
        }
    }

    /// Wakes a worker, if it sleeps.
    pub fn wake(&self, index: usize) {
        let place = self.places[index].inbox.read();
        if let Some(inbox) = &*place {
            inbox.wake();
        }
    }

    /// The inbox of a worker.
    pub fn inbox(&self, index: usize) -> Option<Arc<Inbox>> {
        self.places[index].inbox.read().clone()
    }

    /// Puts a message into a worker's inbox without waking it; whether there is such a worker.
    pub fn leave(&self, index: usize, message: Message) -> bool {
        let place = self.places[index].inbox.read();
        if let Some(inbox) = &*place {
            inbox.leave(message);
        }
        place.is_some()
    }

    /// Puts a message into every worker's inbox; returns how many workers there are.
    pub fn post_all(&self, message: impl FnMut() -> Message) -> usize {
        self.post_where(|_| true, message)
    }

    /// Puts a message into each inbox that `is_meant` accepts; returns how many these are.
    pub fn post_where(
        &self,
        is_meant: impl Fn(&Inbox) -> bool,
        mut message: impl FnMut() -> Message,
    ) -> usize {
        let mut count = 0;
        for one in &self.places {
            let place = one.inbox.read();
            if let Some(inbox) = place.as_ref().filter(|inbox| is_meant(inbox)) {
                inbox.post(message());
                count += 1;
            }
        }
        count
    }
}

impl WorkerSet for Workers {
    fn leave(&self, worker: usize, message: pantala_engine::Message) -> bool {
        self.leave(worker, Message::Engine(message))
    }

    fn post(&self, worker: usize, message: pantala_engine::Message) -> bool {
        self.post(worker, Message::Engine(message)).is_ok()
    }

    fn post_all(&self, message: &dyn Fn() -> pantala_engine::Message) {
        self.post_all(|| Message::Engine(message()));
    }

    fn post_to_waiting(&self, message: &dyn Fn() -> pantala_engine::Message) {
        self.post_where(|inbox| inbox.for_replicas.are_there(), || message().into());
    }

    fn wake(&self, worker: usize) {
        self.wake(worker);
    }

    fn mailbox(&self, worker: usize) -> Option<Arc<dyn Mailbox>> {
        let inbox: Arc<dyn Mailbox> = self.inbox(worker)?;
        Some(inbox)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pantala_commands::Session;
    use pantala_reactor::{EngineChoice, Reactor, ReactorConfig};

    use super::*;
    use crate::listener_kind::ListenerKind;

    fn inbox() -> Arc<Inbox> {
        let config = ReactorConfig { choice: EngineChoice::Epoll, ..ReactorConfig::default() };
        Arc::new(Inbox::new(Reactor::new(config).unwrap().waker()))
    }

    fn newcomer() -> Message {
        let socket = std::fs::File::open("/dev/null").unwrap().into();
        Message::Accepted { socket, session: Box::new(Session::new(1)), kind: ListenerKind::Resp }
    }

    #[test]
    fn a_newcomer_of_a_worker_that_has_left_goes_to_another() {
        let workers = Workers::default();
        let (stays, goes) = (inbox(), inbox());
        workers.opened(0, Arc::clone(&stays));
        workers.opened(1, Arc::clone(&goes));
        workers.joined(0);
        workers.seat(newcomer());
        assert!(stays.is_empty() && !goes.is_empty());
        assert!(workers.retired(1).is_empty());
        assert!(goes.is_empty() && matches!(stays.take(), Some(Message::Accepted { .. })));
        assert_eq!((workers.connections_of(0), workers.connections_of(1)), (2, 0));
        assert!(workers.post(1, pantala_engine::Message::LookUp.into()).is_err());
    }

    #[test]
    fn when_all_have_left_a_newcomer_is_dropped() {
        let workers = Workers::default();
        workers.seat(newcomer());
        assert_eq!(workers.connections_of(0), 0);
    }
}
