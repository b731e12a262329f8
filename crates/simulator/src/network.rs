//! The network and the time of one node: connections that the scheduler opens, feeds and cuts.
//!
//! ```text
//! link's thread   connect, read: waits here <--- answer, deliver, tick: the scheduler, which then
//!                 write: taken by the scheduler  waits until the thread waits again (settle)
//! ```
//!
//! So only one thread runs at a time, and the scheduler decides which.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use pantala_tls::Connector;
use parking_lot::{Condvar, Mutex, MutexGuard};

use pantala_replication::replica::Primary;
use pantala_replication::replica::socket::{End, Network, Wire};

/// How long a thread may work before the test fails.
const MOST_WORK: Duration = Duration::from_secs(120);
/// How often to check whether a thread has ended.
const LOOK: Duration = Duration::from_millis(1);

/// The simulated network of one node, shared by its threads and the scheduler.
pub(super) struct Hub {
    state: Mutex<State>,
    changed: Condvar,
    began: Instant,
}

#[derive(Default)]
struct State {
    is_dead: bool,
    passed: Duration,
    waiting: HashMap<ThreadId, Waiting>,
    /// The number of the connection; `None`: refused.
    answers: HashMap<ThreadId, Option<usize>>,
    ends: Vec<Buffers>,
}

/// The event a thread waits for.
#[derive(Clone, Debug)]
enum Waiting {
    Connection(Primary),
    Bytes(usize),
}

/// The replica's end of a connection.
#[derive(Default)]
struct Buffers {
    ready: VecDeque<u8>,
    sent: Vec<u8>,
    /// No more bytes will arrive.
    is_over: bool,
    /// The replica has ended the connection.
    is_shut: bool,
    /// A read has waited for as long as its timeout.
    has_waited: bool,
}

/// A connection, as the link holds it.
struct Connection {
    hub: Arc<Hub>,
    number: usize,
}

/// The handle that ends a connection.
struct CloseHandle {
    hub: Arc<Hub>,
    number: usize,
}

/// The network as the server sees it.
pub(super) struct Simulated(pub Arc<Hub>);

impl Hub {
    pub fn new() -> Arc<Hub> {
        let state = Mutex::new(State::default());
        Arc::new(Hub { state, changed: Condvar::new(), began: Instant::now() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wait(&self, state: &mut MutexGuard<'_, State>) {
        self.changed.wait(state);
    }

    /// Waits until this thread waits for something, or has ended.
    pub fn settle(&self, link: &JoinHandle<()>) {
        let (thread, began) = (link.thread().id(), Instant::now());
        let works = |state: &mut State| !state.waiting.contains_key(&thread) && !link.is_finished();
        let mut state = self.state();
        while works(&mut state) {
            assert!(began.elapsed() < MOST_WORK, "the link's thread hangs");
            // No event reports the thread's end, so it is polled.
            let _timed_out = self.changed.wait_while_for(&mut state, works, LOOK);
        }
    }

    /// The address this thread wants to connect to, if it does.
    pub fn wanted(&self, thread: ThreadId) -> Option<Primary> {
        match self.state().waiting.get(&thread)? {
            Waiting::Connection(primary) => Some(primary.clone()),
            Waiting::Bytes(_) => None,
        }
    }

    /// Answers the wish to connect; returns the number of the connection.
    pub fn answer(&self, thread: ThreadId, accepts: bool) -> usize {
        let mut state = self.state();
        let number = state.ends.len();
        if accepts {
            state.ends.push(Buffers::default());
        }
        if let Some(Waiting::Connection(_)) = state.waiting.get(&thread) {
            state.waiting.remove(&thread);
            state.answers.insert(thread, accepts.then_some(number));
        }
        self.changed.notify_all();
        number
    }

    /// Lets these bytes arrive.
    pub fn deliver(&self, number: usize, bytes: &[u8]) {
        let mut state = self.state();
        state.ends[number].ready.extend(bytes);
        self.wake_reader(state, number);
    }

    /// Says that no more bytes will arrive.
    pub fn finish(&self, number: usize) {
        let mut state = self.state();
        state.ends[number].is_over = true;
        self.wake_reader(state, number);
    }

    fn wake_reader(&self, mut state: MutexGuard<'_, State>, number: usize) {
        let reads = |waiting: &Waiting| matches!(waiting, Waiting::Bytes(one) if *one == number);
        state.waiting.retain(|_, waiting| !reads(waiting));
        self.changed.notify_all();
    }

    /// Lets a second pass; a reading thread's wait ends.
    pub fn tick(&self) {
        let mut state = self.state();
        state.passed += Duration::from_secs(1);
        let State { waiting, ends, .. } = &mut *state;
        waiting.retain(|_, waiting| match waiting {
            Waiting::Bytes(number) => {
                ends[*number].has_waited = true;
                false
            }
            Waiting::Connection(_) => true,
        });
        self.changed.notify_all();
    }

    /// The bytes the replica has sent since the last call, and whether it has ended the connection.
    pub fn take_sent(&self, number: usize) -> (Vec<u8>, bool) {
        let mut state = self.state();
        let end = &mut state.ends[number];
        (std::mem::take(&mut end.sent), end.is_shut)
    }

    /// Cuts the power: every waiting thread is told.
    pub fn kill(&self) {
        let mut state = self.state();
        state.is_dead = true;
        state.waiting.clear();
        self.changed.notify_all();
    }

    fn shut(&self, number: usize) {
        let mut state = self.state();
        state.ends[number].is_shut = true;
        self.wake_reader(state, number);
    }
}

impl Network for Simulated {
    fn connect(
        &self,
        primary: &Primary,
        _: Duration,
        _: Option<&Connector>,
    ) -> io::Result<(Box<dyn Wire>, Box<dyn End>)> {
        let (hub, thread) = (&self.0, std::thread::current().id());
        let mut state = hub.state();
        loop {
            if state.is_dead {
                return Err(ErrorKind::NetworkDown.into());
            }
            if let Some(answer) = state.answers.remove(&thread) {
                let number = answer.ok_or(ErrorKind::ConnectionRefused)?;
                let wire = Connection { hub: Arc::clone(hub), number };
                return Ok((
                    Box::new(wire),
                    Box::new(CloseHandle { hub: Arc::clone(hub), number }),
                ));
            }
            state.waiting.insert(thread, Waiting::Connection(primary.clone()));
            hub.changed.notify_all();
            hub.wait(&mut state);
        }
    }

    fn now(&self) -> Instant {
        self.0.began + self.0.state().passed
    }

    fn retry(&self) -> Duration {
        Duration::ZERO
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let thread = std::thread::current().id();
        let mut state = self.hub.state();
        loop {
            let is_dead = state.is_dead;
            let end = &mut state.ends[self.number];
            if is_dead || end.is_shut {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if !end.ready.is_empty() {
                return end.ready.read(buffer);
            }
            if end.is_over {
                return Ok(0);
            }
            if std::mem::take(&mut end.has_waited) {
                return Err(ErrorKind::WouldBlock.into());
            }
            state.waiting.insert(thread, Waiting::Bytes(self.number));
            self.hub.changed.notify_all();
            self.hub.wait(&mut state);
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.hub.state();
        let is_dead = state.is_dead;
        let end = &mut state.ends[self.number];
        if is_dead || end.is_shut {
            return Err(ErrorKind::BrokenPipe.into());
        }
        end.sent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hub.shut(self.number);
    }
}

impl End for CloseHandle {
    fn shut(&self) {
        self.hub.shut(self.number);
    }

    fn addresses(&self) -> (String, String) {
        (String::new(), String::new())
    }
}
