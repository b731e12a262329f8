//! The front end of RESP: requests as `pantala_protocol` parses them, rows found by name.

use pantala_commands::{CommandRef, Flags};
use pantala_protocol::{ParseStep, RequestParser};

use super::front_end::{FrontEnd, ParserView, group_hash};
use super::window::LONG_REQUEST_BYTES;
use super::window::{Item, Progress};
use crate::worker::connection::Connection;

/// The front end of RESP.
pub struct Resp;

impl FrontEnd for Resp {
    const TAKES_BYTES: bool = true;

    #[inline(always)]
    fn parse<'t>(
        ahead: ParserView<'_, '_, 't>,
        (bytes, progress): (&'t [u8], &mut Progress),
        args: &mut Vec<&'t [u8]>,
    ) -> Option<(Item, usize)> {
        let ParserView { connection, limited, turn, arena, .. } = ahead;
        let (rest, first_arg) = (&bytes[progress.parsed..], args.len());
        let limits = limited.parser.of(&connection.session);
        Some(match connection.input.parser.parse(rest, &limits, arena, args) {
            ParseStep::Command { consumed } => {
                let args = &args[first_arg..];
                let found = turn.engine.registry.resolve(args);
                let is_long = consumed > LONG_REQUEST_BYTES;
                let group_hash = match is_long {
                    true => None,
                    false => group_hash(found, args, &connection.session, turn),
                };
                // If this is AUTH, it decides what may follow and how long it may be. A command of
                // an operator's may change the settings, which are fixed during a turn.
                progress.is_over = !connection.session.is_authenticated()
                    || group_hash.is_none() && is_of_operator(found);
                (Item::Command { found, group_hash }, consumed)
            }
            ParseStep::Long { consumed, arg_count } => {
                let found = turn.engine.registry.resolve(&args[first_arg..]);
                (Item::Long { found, arg_count }, consumed)
            }
            ParseStep::Empty { consumed } => (Item::Nothing, consumed),
            ParseStep::Error(error) => {
                progress.is_over = true;
                (Item::Broken(error), rest.len())
            }
            ParseStep::Incomplete { wanted } => {
                progress.wanted = wanted;
                progress.is_half = true;
                progress.is_over = true;
                return None;
            }
            ParseStep::Busy => {
                (progress.is_half, progress.is_busy, progress.is_over) = (true, true, true);
                return None;
            }
        })
    }

    fn begin_anew(connection: &mut Connection) {
        connection.input.parser = RequestParser::default();
    }
}

fn is_of_operator(found: Option<CommandRef>) -> bool {
    found.is_some_and(|found| found.row.flags.intersects(Flags::ADMIN))
}
