//! What a turn of the loop hands out: tokens, events, and the iterator over them.
//!
//! The engines collect [`Happening`]s: an event that owns everything it carries, or the place of
//! received bytes in the [`Area`]. [`Events`] turns them into [`Event`]s on the way out.
//!
//! Not here: who makes them (`uring`, `epoll`), and the memory itself (`area`).
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

/// The caller's own number for a listening socket, given to `Ops::listen`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerId(pub u32);

/// Something that happened since the turn before.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say what they are; the variants say the rest")]
pub enum Event<'r> {
    /// A peer connected. Give the socket to `Ops::adopt` of any reactor, or drop it to refuse.
    /// The peer's address is not fetched: see `net::peer_name`.
    Accepted { listener: ListenerId, socket: OwnedFd },
    /// The kernel refused to accept, mostly for lack of descriptors (`EMFILE`, `ENFILE`). Told once
    /// per episode; the reactor tries again when a connection closes, or every 100 ms.
    AcceptFailed { listener: ListenerId, error: io::Error },
    /// After `Ops::unlisten`: this reactor's descriptor of the listening socket is closed.
    Unlistened { listener: ListenerId },
    /// After `Ops::adopt_connecting`: the peer has accepted. From now on it can be written, and
    /// `Data` may come.
    Connected { conn: Token },
    /// Bytes from the peer, in order; several a turn are possible. They live until the next `wait`.
    Data { conn: Token, bytes: &'r [u8] },
    /// The peer sends no more. The connection can still be written.
    Eof { conn: Token },
    /// While reading is paused: the peer sends no more than what is still unread, or is gone
    /// altogether; the two look alike until one reads on or writes. Told once a pause. A reset is
    /// told as `Failed`.
    HungUp { conn: Token },
    /// The whole buffer was taken by the kernel; here it is again, empty, with its capacity.
    Sent { conn: Token, buffer: Vec<u8> },
    /// The connection is broken (reset, `EPIPE`, ...). Told once; `close` it.
    Failed { conn: Token, error: io::Error },
    /// After `Ops::close`: the kernel holds nothing of ours any more and the token is dead. If a
    /// send was under way its buffer comes back, empty.
    Closed { conn: Token, buffer: Option<Vec<u8>> },
    /// After `Ops::detach`: the token is dead, the socket lives on. Every byte taken from it was
    /// delivered as `Data` before.
    Detached { conn: Token, socket: OwnedFd },
    /// A `Waker` was used, once or many times.
    Woken,
}

pub(crate) enum Happening {
    Data { conn: Token, offset: u32, length: u32 },
    Other(Event<'static>),
}

/// The events of one turn. Those not taken are lost when this is dropped (their sockets closed).
pub struct Events<'r> {
    pub(crate) sent: std::vec::Drain<'r, Happening>,
    pub(crate) rest: std::vec::Drain<'r, Happening>,
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
            Happening::Data { conn, offset, length } => {
                Event::Data { conn, bytes: self.area.received(offset, length) }
            }
            Happening::Other(event) => event,
        })
    }
}
