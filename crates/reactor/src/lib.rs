//! The event loop of one worker, over io_uring or over epoll.
//!
//! A worker thread owns one [`Reactor`] and repeats one turn:
//!
//! ```text
//!        +--> wait ----------------------------------------------------------+
//!        |     submits what the last turn asked for, sleeps until something  |
//!        |     happens (one system call for both with io_uring)              |
//!        |                                                                   v
//!     Ops::send, close, ...  <--- the caller's work <---  Events: Accepted, Data, Sent, ...
//! ```
//!
//! `wait` returns two things that can be used side by side: [`Events`], which borrows the receive
//! buffers, and [`Ops`], which borrows everything else. Nothing is allocated per event, no clock is
//! read, and a reactor that has nothing to do is asleep in the kernel.
//!
//! Invariants
//! 1. Received bytes stay valid and unwritten until the next `wait`.
//! 2. A buffer given to `send` belongs to the reactor until `Sent` or `Closed` brings it back; it
//!    is never freed or moved while the kernel may read it.
//! 3. A connection whose peer does not read holds its own buffer and nothing else; no other
//!    connection waits for it.
//! 4. After `close` comes exactly one `Closed`, after `detach` exactly one `Detached`, and after
//!    either no event bears that token. Events already handed out in the turn of the call may still
//!    name it: the caller ignores those.
//! 5. A busy peer has a bounded share of a turn: the reads of a turn are bounded by the receive
//!    area, and connections with more to read take turns.
//!
//! Not here: protocols, timers beyond the timeout of `wait`, threads, and the choice of the worker
//! that serves a connection.
//!
//! Modules: `uring` and `epoll` are the engines, `net` makes and describes sockets, `wake` wakes a
//! reactor from another thread, `table` keeps the connections for both engines, in a `slab`, and
//! `listeners` the listening sockets; `area` is the receive memory.
//! Tests: `tests/engines` runs the same bodies against both engines.

mod area;
mod epoll;
mod event;
mod listeners;
pub mod net;
mod slab;
mod table;
mod uring;
mod wake;

pub use event::{Event, Events, ListenerId, Token};
pub use uring::Features;
pub use wake::Waker;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use wake::Alarm;

/// The kernel interface that drives a reactor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoEngine {
    /// io_uring, kernel 5.19 or later.
    Uring,
    /// epoll, any kernel.
    Epoll,
}

/// Which engine to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EngineChoice {
    /// io_uring if this kernel has it and permits it, otherwise epoll.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll.
    Epoll,
}

/// The configuration of a reactor. `ReactorConfig::default()` suits a server.
#[derive(Clone, Debug)]
pub struct ReactorConfig {
    /// The requested engine.
    pub choice: EngineChoice,
    /// About how many bytes a turn receives, so that they are still in the cache when they are
    /// parsed. io_uring may exceed it for many connections with little data each.
    pub turn_bytes: usize,
    /// io_uring: the size of one receive buffer. Should not be a multiple of 4,096: then the starts
    /// of the buffers do not fall on the same few cache sets.
    pub buffer_bytes: usize,
    /// io_uring: the most receive buffers; rounded up to a power of two, at most 32,768. Memory is
    /// used only where it is touched.
    pub buffer_count: usize,
    /// epoll: the most bytes read from one connection in a turn. (io_uring: 32 buffers, fixed in
    /// the kernel.)
    pub most_bytes_per_read: usize,
    /// Entries of the submission queue. More requests per turn only cost an extra system call.
    pub submission_entries: u32,
    /// Entries of the completion queue. When it overflows the kernel keeps the rest.
    pub completion_entries: u32,
    /// Features of io_uring that are not used even if the kernel has them.
    pub without: Features,
}

impl Default for ReactorConfig {
    fn default() -> ReactorConfig {
        ReactorConfig {
            choice: EngineChoice::Auto,
            turn_bytes: 512 << 10,
            buffer_bytes: (16 << 10) - 64,
            buffer_count: 1024,
            most_bytes_per_read: 64 << 10,
            submission_entries: 512,
            completion_entries: 4096,
            without: Features::default(),
        }
    }
}

/// The event loop of one worker thread.
///
/// It may be built in one thread and moved to another, but from the first `wait` on it must stay in
/// its thread: io_uring then refuses other threads.
pub struct Reactor {
    engine: ReactorImpl,
    alarm: Arc<Alarm>,
}

enum ReactorImpl {
    Uring(Box<uring::Uring>),
    Epoll(Box<epoll::Epoll>),
}

impl Reactor {
    /// Builds a reactor.
    ///
    /// # Errors
    /// Those of the kernel; with `EngineChoice::Auto`, epoll is tried when io_uring fails.
    pub fn new(config: ReactorConfig) -> io::Result<Reactor> {
        let alarm = Alarm::new()?;
        let engine = match config.choice {
            EngineChoice::Uring => {
                ReactorImpl::Uring(Box::new(uring::Uring::new(&config, &alarm)?))
            }
            EngineChoice::Epoll => {
                ReactorImpl::Epoll(Box::new(epoll::Epoll::new(&config, &alarm)?))
            }
            EngineChoice::Auto => match uring::Uring::new(&config, &alarm) {
                Ok(uring) => ReactorImpl::Uring(Box::new(uring)),
                Err(_) => ReactorImpl::Epoll(Box::new(epoll::Epoll::new(&config, &alarm)?)),
            },
        };
        Ok(Reactor { engine, alarm })
    }

    /// The engine in use.
    pub fn engine(&self) -> IoEngine {
        match self.engine {
            ReactorImpl::Uring(_) => IoEngine::Uring,
            ReactorImpl::Epoll(_) => IoEngine::Epoll,
        }
    }

    /// The engine and the features it found in this kernel, one line for the log.
    pub fn features(&self) -> String {
        match &self.engine {
            ReactorImpl::Uring(uring) => uring.features().to_string(),
            ReactorImpl::Epoll(_) => "epoll".to_string(),
        }
    }

    /// A handle with which other threads wake this reactor.
    pub fn waker(&self) -> Waker {
        self.alarm.waker()
    }

    /// How many connections it serves.
    pub fn connection_count(&self) -> usize {
        match &self.engine {
            ReactorImpl::Uring(uring) => uring.core.connections.len(),
            ReactorImpl::Epoll(epoll) => epoll.core.connections.len(),
        }
    }

    /// The operations, outside a turn, at start-up.
    pub fn ops(&mut self) -> Ops<'_> {
        match &mut self.engine {
            ReactorImpl::Uring(uring) => Ops(OpsInside::Uring(&mut uring.core)),
            ReactorImpl::Epoll(epoll) => Ops(OpsInside::Epoll(&mut epoll.core)),
        }
    }

    /// Runs one turn: submits all requested operations, sleeps until something happens or the time
    /// is over (`None`: no limit), and returns the events, of which there may be none.
    ///
    /// # Errors
    /// Only errors that break the loop itself (called from a second thread, no memory); a
    /// connection's error is an event.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<(Events<'_>, Ops<'_>)> {
        match &mut self.engine {
            ReactorImpl::Uring(uring) => {
                uring.turn(timeout)?;
                let uring::Uring { core, area, sent, happenings, .. } = &mut **uring;
                let events = Events { sent: sent.drain(..), rest: happenings.drain(..), area };
                Ok((events, Ops(OpsInside::Uring(core))))
            }
            ReactorImpl::Epoll(epoll) => {
                epoll.turn(timeout)?;
                let epoll::Epoll { core, area, sent, happenings, .. } = &mut **epoll;
                let events = Events { sent: sent.drain(..), rest: happenings.drain(..), area };
                Ok((events, Ops(OpsInside::Epoll(core))))
            }
        }
    }
}

/// When the caller wants `Sent` for a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// With the next turn that happens anyway. The cheap one: a worker that has answered everything
    /// goes to sleep in the same system call that sends the answers.
    Lazy,
    /// As soon as the buffer was taken: for a caller that has more to send on this connection.
    Prompt,
}

/// The operations of a reactor. A dead token is ignored everywhere.
pub struct Ops<'r>(OpsInside<'r>);

enum OpsInside<'r> {
    Uring(&'r mut uring::Core),
    Epoll(&'r mut epoll::Core),
}

macro_rules! either {
    ($self:ident, $core:ident => $act:expr) => {
        match &mut $self.0 {
            OpsInside::Uring($core) => $act,
            OpsInside::Epoll($core) => $act,
        }
    };
}

impl Ops<'_> {
    /// Accepts connections from a listening socket until `unlisten`.
    ///
    /// # Errors
    /// The kernel does not take this descriptor.
    pub fn listen(&mut self, socket: OwnedFd, id: ListenerId) -> io::Result<()> {
        either!(self, core => core.listen(socket, id))
    }

    /// Stops accepting; `Unlistened` tells when the socket is closed.
    pub fn unlisten(&mut self, id: ListenerId) {
        either!(self, core => core.unlisten(id));
    }

    /// Takes a connected stream socket and starts to receive from it.
    ///
    /// # Errors
    /// epoll: the kernel does not take this descriptor.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        either!(self, core => core.adopt(socket))
    }

    /// Takes a socket whose `connect` is in progress (`net::connect_tcp`): `Connected` reports that
    /// it can be used, or `Failed` why not. `Ops::close` gives up; the caller limits the wait.
    ///
    /// # Errors
    /// epoll: the kernel does not take this descriptor.
    pub fn adopt_connecting(&mut self, socket: OwnedFd) -> io::Result<Token> {
        either!(self, core => core.adopt_connecting(socket))
    }

    /// Sends the whole buffer. At most one send may be in progress per connection: wait for `Sent`
    /// before the next.
    ///
    /// # Panics
    /// If a send is in progress, or before `Connected`: a mistake of the caller, never of a peer.
    #[inline]
    pub fn send(&mut self, conn: Token, buffer: Vec<u8>, receipt: Receipt) {
        either!(self, core => core.send(conn, buffer, receipt));
    }

    /// Makes a lazy receipt prompt, for a caller that meanwhile has more to send.
    #[inline]
    pub fn hasten(&mut self) {
        either!(self, core => core.connections.prompt = true);
    }

    /// Stops receiving. Data already received is still delivered, and `HungUp` reports that the
    /// peer sends nothing more.
    pub fn pause_reading(&mut self, conn: Token) {
        either!(self, core => core.pause_reading(conn));
    }

    /// To be called for a connection that may be sent nothing for long: only then is a reset that
    /// arrives together with data sure to end it. Costs nothing when repeated.
    pub fn watch_peer(&mut self, conn: Token) {
        if let OpsInside::Uring(core) = &mut self.0 {
            core.watch_peer(conn);
        }
    }

    /// Resumes receiving.
    pub fn resume_reading(&mut self, conn: Token) {
        either!(self, core => core.resume_reading(conn));
    }

    /// Closes without waiting: what the kernel has not taken yet is lost, except that a buffer
    /// given to `send` in this very turn is offered to the kernel once.
    pub fn close(&mut self, conn: Token) {
        either!(self, core => core.close(conn));
    }

    /// Shuts down the writing side, after the send in progress, if any.
    pub fn shutdown_write(&mut self, conn: Token) {
        either!(self, core => core.connections.shutdown_write(conn));
    }

    /// Releases the socket without closing it, after the send in progress, if any: see `Detached`.
    pub fn detach(&mut self, conn: Token) {
        either!(self, core => core.detach(conn));
    }

    /// The connection's socket, for setting options or reading addresses.
    pub fn fd(&mut self, conn: Token) -> Option<BorrowedFd<'_>> {
        either!(self, core => core.connections.fd(conn))
    }
}
