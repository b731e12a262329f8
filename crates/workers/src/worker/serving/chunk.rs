//! The bytes of one connection in a turn, and what is left of them after it.

use std::mem::take;

use pantala_commands::{OwnedArgs, Protocol};

use crate::worker::connection::Connection;

/// An argument that lacks this much or more gets its room at once,
const LONG_ARGUMENT_BYTES: usize = 64 << 10;
/// as soon as the missing part is at most so many times what has arrived.
const PROMISED_TIMES: usize = 8;
/// Room for what may come with the end of the argument: one read.
const BEHIND_BYTES: usize = 16 << 10;

/// The input of all connections in a turn, by protocol.
#[derive(Default)]
pub struct Chunks<'t> {
    pub(crate) resp: Vec<Chunk<'t>>,
    pub(crate) memcached: Vec<Chunk<'t>>,
}

impl<'t> Chunks<'t> {
    /// Whether nothing has arrived.
    pub fn is_empty(&self) -> bool {
        self.resp.is_empty() && self.memcached.is_empty()
    }

    /// The chunks of a protocol.
    #[inline]
    pub fn of(&mut self, protocol: Protocol) -> &mut Vec<Chunk<'t>> {
        match protocol {
            Protocol::Resp | Protocol::Undecided => &mut self.resp,
            Protocol::MemcachedText | Protocol::MemcachedBinary => &mut self.memcached,
        }
    }
}

/// The input of one connection in this turn.
pub struct Chunk<'t> {
    pub(crate) index: u32,
    bytes: Bytes<'t>,
    /// Bytes at the start that were executed in an earlier turn.
    done: usize,
}

/// The bytes of a chunk: in the reactor's buffer if no earlier input precedes them, else the
/// connection's own buffer.
enum Bytes<'t> {
    Received(&'t [u8]),
    Kept(Vec<u8>),
}

impl<'t> Chunk<'t> {
    /// A chunk of bytes just received, for a connection without earlier input.
    pub fn received(index: u32, bytes: &'t [u8]) -> Self {
        Chunk { index, bytes: Bytes::Received(bytes), done: 0 }
    }

    /// A chunk of the connection's earlier input, which is moved out of it.
    pub fn kept(index: u32, connection: &mut Connection) -> Self {
        let bytes = Bytes::Kept(take(&mut connection.input.bytes));
        Chunk { index, bytes, done: take(&mut connection.input.done) }
    }

    /// Appends further bytes of the same connection.
    pub fn extend(&mut self, more: &[u8]) {
        match &mut self.bytes {
            Bytes::Received(bytes) => self.bytes = Bytes::Kept([bytes, more].concat()),
            Bytes::Kept(bytes) => bytes.extend_from_slice(more),
        }
    }

    /// Separates the command from `begin` to `end` from the input after it, which is returned as by
    /// [`Chunk::rest`]. The shorter of the two is copied.
    pub fn part(self, begin: usize, end: usize) -> (OwnedArgs, (Vec<u8>, usize)) {
        let is_shorter = end - begin <= self.bytes().len() - end;
        match self.bytes {
            Bytes::Kept(mut bytes) if !is_shorter => {
                let rest = bytes[self.done + end..].to_vec();
                bytes.truncate(self.done + end);
                (OwnedArgs::received(bytes, self.done + begin), (rest, 0))
            }
            _ => {
                let command = self.bytes()[begin..end].to_vec();
                (OwnedArgs::received(command, 0), self.rest(end))
            }
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Received(bytes) => bytes,
            Bytes::Kept(bytes) => &bytes[self.done..],
        }
    }

    /// The buffer with what is left after `done` more bytes, and the number of executed bytes at
    /// its start: the rest is moved to the front only when at least half of the buffer was
    /// executed.
    pub fn rest(self, done: usize) -> (Vec<u8>, usize) {
        let done = self.done + done;
        match self.bytes {
            Bytes::Received(bytes) => (bytes[done..].to_vec(), 0),
            Bytes::Kept(mut bytes) if done == bytes.len() => {
                bytes.clear();
                (bytes, 0)
            }
            Bytes::Kept(bytes) if done < bytes.len() / 2 => (bytes, done),
            Bytes::Kept(mut bytes) => {
                bytes.drain(..done);
                (bytes, 0)
            }
        }
    }
}

/// Reserves room for the rest of a long argument at once, since doubling would copy it several
/// times: but only when a good part of it has arrived, so that a mere announcement takes no memory.
/// It gets little more than is missing, unless `wanted` may be the next of many long arguments:
/// then the capacity is doubled, as `Vec::reserve` does it.
pub fn make_room(input: &mut Vec<u8>, wanted: usize) {
    if wanted < LONG_ARGUMENT_BYTES || input.len() < wanted / PROMISED_TIMES {
        return;
    }
    match input.len() <= wanted {
        true => input.reserve_exact(wanted + BEHIND_BYTES),
        false => input.reserve(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(length: usize, done: usize) -> Chunk<'static> {
        let mut connection = Connection::new(
            pantala_reactor::Token { index: 0, generation: 0 },
            pantala_commands::Session::new(1),
            crate::listener_kind::ListenerKind::Resp,
            0,
        );
        connection.input.bytes = (0..length).map(|position| position as u8).collect();
        connection.input.done = done;
        Chunk::kept(0, &mut connection)
    }

    #[test]
    fn a_long_rest_stays_where_it_is_until_half_is_done() {
        assert_eq!(kept(100, 10).bytes()[0], 10);
        assert_eq!(kept(100, 10).rest(39).1, 49);
        let (rest, done) = kept(100, 10).rest(40);
        assert_eq!((rest[0], rest.len(), done), (50, 50, 0));
        assert_eq!(kept(100, 10).rest(90), (Vec::new(), 0));
        assert_eq!(kept(100, 0).rest(0).1, 0);
    }

    #[test]
    fn a_long_argument_takes_little_more_than_its_length() {
        for length in [140_000, 1 << 20, (1 << 20) + 1, 5_000_000] {
            let mut input = Vec::new();
            while input.len() < length {
                let missing = length - input.len();
                make_room(&mut input, missing);
                input.resize(input.len() + missing.min(16_384), 0);
            }
            let capacity = input.capacity();
            assert!(capacity - length <= BEHIND_BYTES, "{capacity} for {length}");
        }
    }

    #[test]
    fn many_long_arguments_are_not_copied_for_each() {
        let (mut input, mut growths) = (Vec::new(), 0);
        for _ in 0..100 {
            let before = input.capacity();
            make_room(&mut input, LONG_ARGUMENT_BYTES + 1);
            input.resize(input.len() + LONG_ARGUMENT_BYTES + 1, 0);
            growths += usize::from(input.capacity() != before);
        }
        assert!(growths <= 8, "{growths}");
    }

    #[test]
    fn a_command_is_parted_from_what_follows_it() {
        for (end, is_copied) in [(30, true), (90, false)] {
            let (args, (rest, done)) = kept(100, 5).part(10, end);
            assert_eq!(rest[done..], kept(100, 5).bytes()[end..]);
            assert_eq!(args.memory_bytes() < 100, is_copied);
        }
        let (_, rest) = Chunk::received(0, b"*1\r\n$4\r\nPING\r\nabc").part(0, 14);
        assert_eq!(rest, (b"abc".to_vec(), 0));
    }

    #[test]
    fn more_of_a_connection_goes_after_what_is_left() {
        let mut chunk = kept(10, 3);
        chunk.extend(b"ab");
        assert_eq!(chunk.bytes(), [3, 4, 5, 6, 7, 8, 9, b'a', b'b']);
        assert_eq!(Chunk::received(0, b"abc").rest(1), (b"bc".to_vec(), 0));
    }
}
