//! What a turn of the loop returns: tokens, events, and the iterator over them.
//!
//! The engines collect [`ReactorEvent`]s: an event that owns everything it carries, or the place of
//! received bytes in the [`Area`]. [`Events`] turns them into [`Event`]s.
//!
//! Not here: what makes them (`uring`, `epoll`), and the memory itself (`area`).
//! Tests: `tests/engines`.

use crate::area::Area;
use std::io;
use std::os::fd::OwnedFd;

/// A connection of one reactor. Meaningless in another reactor.
///
/// The index is small and dense, so that a caller may keep its own state in a vector; it is not
/// given to another connection before the turn that delivered [`Event::Closed`] or
/// [`Event::Detached`] is over. The generation tells successive owners of an index apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token {
    /// The slot in the reactor's table, below 2^24.
    pub index: u32,
    /// How many connections had this slot before.
    pub generation: u32,
}

/// The caller's number for a listening socket, given to `Ops::listen`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerId(pub u32);

/// An event since the previous turn.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say what they are; the variants say the rest")]
pub enum Event<'r> {
    /// A peer has connected. Give the socket to `Ops::adopt` of any reactor, or drop it to refuse.
    /// The peer's address is not fetched: see `net::peer_name`.
    Accepted { listener: ListenerId, socket: OwnedFd },
    /// The kernel refused to accept, mostly for lack of descriptors (`EMFILE`, `ENFILE`). Reported
    /// once per episode; the reactor tries again when a connection closes, or every 100 ms.
    AcceptFailed { listener: ListenerId, error: io::Error },
    /// After `Ops::unlisten`: this reactor's descriptor of the listening socket is closed.
    Unlistened { listener: ListenerId },
    /// After `Ops::adopt_connecting`: the peer has accepted. From now on the connection can be
    /// written, and `Data` may come.
    Connected { conn: Token },
    /// Bytes from the peer, in order; several per turn are possible. Valid until the next `wait`.
    Data { conn: Token, bytes: &'r [u8] },
    /// The peer sends nothing more. The connection can still be written.
    Eof { conn: Token },
    /// While reading is paused: the peer sends nothing more than what is still unread, or is gone
    /// altogether; the two look alike until one reads on or writes. Reported once per pause. A
    /// reset is reported as `Failed`.
    HungUp { conn: Token },
    /// The kernel has taken the whole buffer, which comes back empty, with its capacity.
    Sent { conn: Token, buffer: Vec<u8> },
    /// The connection is broken (reset, `EPIPE`, ...). Reported once; `close` it.
    Failed { conn: Token, error: io::Error },
    /// After `Ops::close`: the kernel holds nothing of ours any more and the token is dead. The
    /// buffer of a send in progress comes back, empty.
    Closed { conn: Token, buffer: Option<Vec<u8>> },
    /// After `Ops::detach`: the token is dead, the socket lives on. Every byte read from it was
    /// delivered as `Data` before.
    Detached { conn: Token, socket: OwnedFd },
    /// A `Waker` was used, once or many times.
    Woken,
}

pub(crate) enum ReactorEvent {
    Data { conn: Token, offset: u32, length: u32 },
    Other(Event<'static>),
}

/// The events of one turn. Dropping it loses the remaining events (and closes their sockets).
pub struct Events<'r> {
    pub(crate) sent: std::vec::Drain<'r, ReactorEvent>,
    pub(crate) rest: std::vec::Drain<'r, ReactorEvent>,
    pub(crate) area: &'r Area,
}

impl<'r> Iterator for Events<'r> {
    type Item = Event<'r>;

    #[inline]
    fn next(&mut self) -> Option<Event<'r>> {
        let happening = match self.sent.next() {
            Some(happening) => happening,
            None => self.rest.next()?,
        };
        Some(match happening {
            ReactorEvent::Data { conn, offset, length } => {
                Event::Data { conn, bytes: self.area.received(offset, length) }
            }
            ReactorEvent::Other(event) => event,
        })
    }
}
