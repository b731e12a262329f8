//! Commands about parts that this server does not have: modules, the cluster. They are answered as
//! by a server without modules and with its cluster off.
//!
//! Tests: compat/transcripts/server/absent.txt.

use pantala_commands::{Call, Category, Command, CommandResult, Flags, Group, help};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::container("MODULE", Group::Server, MODULE)
        .since("4.0.0")
        .complexity("Depends on the subcommand.")
        .summary("Modules: there are none."),
    Command::new("READONLY", read_here, Group::Cluster)
        .arity(1)
        .flags(Flags::FAST.union(ANY_TIME))
        .categories(&[Category::Connection])
        .since("3.0.0")
        .summary("A client that follows redirections reads from a replica all the same."),
    Command::new("READWRITE", read_there, Group::Cluster)
        .arity(1)
        .flags(Flags::FAST.union(ANY_TIME))
        .categories(&[Category::Connection])
        .since("3.0.0")
        .summary("A client that follows redirections is sent to the primary to read."),
];

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

fn read_here(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.reads_replicas = true;
    call.reply.ok();
    Ok(())
}

fn read_there(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.reads_replicas = false;
    call.reply.ok();
    Ok(())
}

fn list(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.array(0);
    Ok(())
}
