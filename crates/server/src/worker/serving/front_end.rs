//! What differs between the protocols that connections speak: how their bytes become commands.
//!
//! ```text
//! chunks of one protocol --> FrontEnd::parse --> items of the window --> the one way to run them
//! ```
//!
//! A front end reads bytes and finds rows. All that follows is the same for all: admit, groups,
//! locks, `invoke`, the slow lane. What a handler answers it writes by itself; an error of the
//! engine's is rendered by what the session says that it speaks (`Session::protocol`).
//!
//! A turn has a list of chunks for each protocol ([`Chunks`](super::Chunks)), so each is told once
//! a turn what a connection speaks, and its parser is called directly. TLS comes before this: what
//! it decrypts are a connection's bytes. HTTP would be one more front end.

use pantala_commands::families::memcached::Verbs;
use pantala_commands::{CommandRef, Flags};
use pantala_engine::engine::limits::Limited;
use pantala_engine::execute::Turn;
use pantala_protocol::Arena;

use pantala_acl::InForce;

use super::chunk::Chunk;
use super::window::{Item, Progress};
use crate::worker::connection::Connection;

/// A protocol.
pub trait FrontEnd {
    /// Whether a long command goes to the slow lane with the bytes that it came in: whoever takes
    /// them reads RESP.
    const TAKES_BYTES: bool;

    /// Parses what comes next of a chunk, whose bytes and progress these are: an item and how many
    /// bytes it took, its arguments after those that are there. `None`: nothing more for now, and
    /// `progress` says why.
    fn parse<'t>(
        ahead: Ahead<'_, '_, 't>,
        chunk: (&'t [u8], &mut Progress),
        args: &mut Vec<&'t [u8]>,
    ) -> Option<(Item, usize)>;

    /// What is left of a connection's input will be parsed from its start.
    fn begin_anew(connection: &mut Connection);

    /// What is left of a chunk when a turn ends, as [`Chunk::rest`] says it.
    fn rest(_: &mut Connection, chunk: Chunk<'_>, progress: &Progress) -> (Vec<u8>, usize) {
        chunk.rest(progress.done)
    }
}

/// What a parser may look at.
pub struct Ahead<'w, 'r, 't> {
    pub connection: &'w mut Connection,
    pub limited: &'w Limited,
    pub users: &'w InForce,
    pub turn: &'w Turn<'r>,
    pub arena: &'t Arena,
    pub verbs: &'w Verbs,
}

/// The hash of the only key, for commands that may run in a group.
#[inline]
pub fn group_hash(found: Option<CommandRef>, args: &[&[u8]], turn: &Turn<'_>) -> Option<u64> {
    let row = found?.row;
    let position = usize::from(row.only_key);
    if position == 0 || row.flags.has(Flags::LANE.and(Flags::BLOCKING)) {
        return None;
    }
    args.get(position).map(|key| turn.engine.space.hash(key))
}
