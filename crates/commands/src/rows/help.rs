//! CONTAINER HELP, generated from the rows of its subcommands.

use pantala_protocol::Reply;

use crate::calls::call::{Call, CommandResult};
use crate::rows::syntax::plain;

/// The handler of every `HELP` row: lists each subcommand of the same container with its arguments
/// and its summary.
pub fn help(call: &mut Call<'_, '_>) -> CommandResult {
    let parent = call.command.parent.unwrap_or_default();
    let registry = call.server.registry();
    let rows = registry.find_own(parent.as_bytes()).map_or(&[][..], |found| found.row.subcommands);
    let mut lines = Vec::new();
    for row in rows {
        lines.push(format!("{} {}", row.name, plain(row.syntax)).trim_end().to_owned());
        lines.push(format!("    {}", row.summary));
    }
    reply_help(&mut call.reply, parent, &lines);
    Ok(())
}

/// Writes a help text: a heading for `container`, then the lines.
pub fn reply_help(reply: &mut Reply<'_>, container: &str, lines: &[String]) {
    reply.array(lines.len() + 1);
    let placeholders = "<subcommand> [<arg> [value] [opt] ...]";
    reply.simple(&format!("{container} {placeholders}. Subcommands are:"));
    for line in lines {
        reply.simple(line);
    }
}
