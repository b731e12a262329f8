//! Commands about a part that this server does not have: modules. They are answered as by a server
//! without modules.
//!
//! Tests: compat/transcripts/server/absent.txt.

use pantala_commands::{Call, Command, CommandResult, Flags, Group, help};

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::container("MODULE", Group::Server, MODULE)
    .since("4.0.0")
    .complexity("Depends on the subcommand.")
    .summary("Modules: there are none.")];

const ANY_TIME: Flags = Flags::LOADING.union(Flags::STALE);

const MODULE: &[Command] = &[
    Command::new("LIST", list, Group::Server)
        .of("MODULE")
        .arity(2)
        .flags(Flags::ADMIN.union(Flags::NOSCRIPT))
        .tips(&["nondeterministic_output_order"])
        .since("4.0.0")
        .complexity("O(N) for N modules")
        .summary("Tells which modules are loaded: none."),
    Command::new("HELP", help, Group::Server)
        .of("MODULE")
        .arity(2)
        .flags(ANY_TIME)
        .since("5.0.0")
        .summary("Tells what the subcommands do."),
];

fn list(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.array(0);
    Ok(())
}
