//! MONITOR. What monitors are sent: `pantala_engine::clients::monitors`.

use pantala_commands::{Call, Command, CommandResult, Flags, Group};

/// The rows of this family. It runs on the lane, because the worker that takes the reply back also
/// registers the connection as a monitor.
pub const ROWS: &[Command] = &[Command::new("MONITOR", monitor, Group::Server)
    .arity(1)
    .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE))
    .flags(Flags::LANE.union(Flags::OPERATOR))
    .summary("Shows every command that the server runs, from now on.")];

fn monitor(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.monitor = true;
    call.reply.ok();
    Ok(())
}
