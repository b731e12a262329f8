//! Front ends: how the bytes of a protocol become commands.
//!
//! ```text
//! chunks of one protocol --> FrontEnd::parse --> items of the window --> the one way to run them
//! ```
//!
//! A front end reads bytes and finds rows. All that follows is the same for all protocols: admit,
//! groups, locks, `invoke`, the slow lane. A handler writes its replies in its own protocol; an
//! error from the engine is rendered by the session's protocol (`Session::protocol`).
//!
//! A turn has one list of chunks for each protocol ([`Chunks`](super::Chunks)), so the protocol is
//! looked up once for each connection in a turn, and its parser is called directly. TLS comes
//! before this: chunks hold decrypted bytes. Connections that speak HTTP leave the workers (the
//! server's `http`).

use pantala_commands::families::memcached::Verbs;
use pantala_commands::{CommandRef, Flags, Session};
use pantala_engine::engine::limits::Limited;
use pantala_engine::execute::Turn;
use pantala_protocol::Arena;

use pantala_acl::VersionedUsers;

use super::chunk::Chunk;
use super::window::{Item, Progress};
use crate::worker::connection::Connection;

/// A protocol that workers serve.
pub trait FrontEnd {
    /// Whether a long command goes to the slow lane with the bytes that it came in, which the lane
    /// reads as RESP.
    const TAKES_BYTES: bool;

    /// Parses the next item of a chunk: `bytes` and `progress` are the chunk's. Returns the item
    /// and the bytes that it took, and appends its arguments to `args`. `None`: nothing more for
    /// now; `progress` says why.
    fn parse<'t>(
        ahead: ParserView<'_, '_, 't>,
        chunk: (&'t [u8], &mut Progress),
        args: &mut Vec<&'t [u8]>,
    ) -> Option<(Item, usize)>;

    /// Resets the parser: what is left of a connection's input will be parsed from its start.
    fn begin_anew(connection: &mut Connection);

    /// What is left of a chunk when a turn ends, as [`Chunk::rest`] returns it.
    fn rest(_: &mut Connection, chunk: Chunk<'_>, progress: &Progress) -> (Vec<u8>, usize) {
        chunk.rest(progress.done)
    }
}

/// What a parser may use.
pub struct ParserView<'w, 'r, 't> {
    pub connection: &'w mut Connection,
    pub limited: &'w Limited,
    pub users: &'w VersionedUsers,
    pub turn: &'w Turn<'r>,
    pub arena: &'t Arena,
    pub verbs: &'w Verbs,
}

/// The hash of a command's only key, if the command may run in a group. In a cluster the key is one
/// that this node serves.
#[inline]
pub fn group_hash(
    found: Option<CommandRef>,
    args: &[&[u8]],
    session: &Session,
    turn: &Turn<'_>,
) -> Option<u64> {
    let row = found?.row;
    let position = usize::from(row.group_key);
    if position == 0 {
        return None;
    }
    let key = args.get(position)?;
    if let Some(slots) = turn.slots
        && !turn.is_served(slots, session, row.flags.intersects(Flags::WRITE), key)
    {
        return None;
    }
    Some(turn.engine.space.hash(key))
}
