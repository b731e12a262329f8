//! Memcached's protocols: requests become commands with at most one key.
//!
//! The first byte says which of them a connection speaks (`text` or `binary`). A `get` of many keys
//! becomes one command a key, so they run in groups like a pipeline. The commands of one line may
//! therefore run in several turns: then the keys whose commands have run are removed from the line,
//! and the rest begins with the same words, as if the client had sent it so (`text::begin_rest`).
//!
//! Invariants
//! 1. What is left of a connection's input when a turn ends begins with a request, or with data
//!    that are to be thrown away (`Reader::skipped`). So between turns a parser keeps only how much
//!    of the first request it has seen.

mod binary;
mod meta;
pub mod reader;
mod text;

use pantala_commands::Protocol;
use pantala_memcached::binary::MAGIC;

use super::chunk::Chunk;
use super::front_end::{FrontEnd, ParserView};
use super::window::{Item, Progress};
use crate::worker::connection::Connection;

/// The capacity for lines that is kept from turn to turn.
const KEPT_LINES: usize = 64;

/// The front end of Memcached's protocols.
pub struct Memcached;

impl FrontEnd for Memcached {
    const TAKES_BYTES: bool = false;

    fn parse<'t>(
        ahead: ParserView<'_, '_, 't>,
        (bytes, progress): (&'t [u8], &mut Progress),
        args: &mut Vec<&'t [u8]>,
    ) -> Option<(Item, usize)> {
        let reader = ahead.connection.input.memcached.get_or_insert_default();
        if reader.skipped > 0 {
            let skipped = reader.skipped.min(bytes.len() - progress.parsed);
            reader.skipped -= skipped;
            progress.parsed += skipped;
            // They are at the start of the rest.
            progress.done = progress.parsed;
        }
        let first = bytes.get(progress.parsed)?;
        if !reader.is_decided {
            reader.is_decided = true;
            if *first == MAGIC {
                ahead.connection.session.protocol = Protocol::MemcachedBinary;
            }
        }
        match ahead.connection.session.protocol {
            Protocol::MemcachedBinary => binary::parse(ahead, (bytes, progress), args),
            _ => text::parse(ahead, (bytes, progress), args),
        }
    }

    fn begin_anew(connection: &mut Connection) {
        if let Some(reader) = &mut connection.input.memcached {
            (reader.text, reader.binary) = Default::default();
            (reader.line, reader.skipped_then) = Default::default();
        }
    }

    fn rest(
        connection: &mut Connection,
        chunk: Chunk<'_>,
        progress: &Progress,
    ) -> (Vec<u8>, usize) {
        if let Some(reader) = &mut connection.input.memcached
            && progress.done == progress.parsed
        {
            reader.skipped += std::mem::take(&mut reader.skipped_then);
        }
        let reader = connection.input.memcached.as_deref_mut();
        let cut = reader.and_then(|reader| {
            let cut = reader.lines.iter().find(|line| line.has(progress.done)).cloned();
            reader.lines.clear();
            reader.lines.shrink_to(KEPT_LINES);
            cut
        });
        let Some(cut) = cut else { return chunk.rest(progress.done) };
        let words = chunk.bytes()[cut.words].to_vec();
        text::begin_rest(chunk.rest(progress.done), &words)
    }
}
