//! FUNCTION: libraries of functions. The rows of FCALL are here, too; `scripts` runs them.
//!
//! ```text
//! LOAD, RESTORE   (slow lane) run the code once, to learn what it registers --> a new state
//! FCALL           the state that this thread knows --> the function --> `scripts` runs it
//! ```
//!
//! 1. There is one current state of all libraries (`Functions`), replaced as a whole; a running
//!    function keeps the state it was found in.
//! 2. While it is loaded a library's code runs in an interpreter of its own, for at most
//!    [`load::MOST_MS`]; all that it can do with the server is write log lines.
//! 3. All libraries of a RESTORE become visible at once, or none.
//!
//! Not here: what a library is and which names clash (`pantala_scripting::library`), DUMP's bytes
//! (`pantala_rdb::functions`). Tests: compat/transcripts/functions, compat/clients/dump.py.

mod load;
mod show;
pub mod store;

use pantala_commands::options::is_word;
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, Program, error, help,
};
use pantala_keyspace::{Busy, PartitionId};

use crate::engine::Engine;
use crate::scripts::{self, KillError, Kind};

pub use load::{libraries_of, load_libraries};
pub use store::{Functions, Kept};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::container("FUNCTION", Group::Scripting, SUBCOMMANDS)
        .since("7.0.0")
        .complexity("Depends on the subcommand.")
        .summary("Libraries of functions that the server keeps."),
    scripts::runs("FCALL", Program::Function)
        .since("7.0.0")
        .complexity("That of the function.")
        .syntax("function numkeys:int [key ...] [arg ...]")
        .summary("Calls a function of a library, as one step."),
    scripts::runs_read_only("FCALL_RO", Program::Function)
        .complexity("That of the function.")
        .syntax("function numkeys:int [key ...] [arg ...]")
        .summary("Calls a function that only reads."),
];

const TO_ALL: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const fn sub(name: &'static str, handler: pantala_commands::Handler) -> Command {
    Command::new(name, handler, Group::Scripting).of("FUNCTION").since("7.0.0")
}

/// Flags of commands that change libraries. Outside the gate: they take nothing of the keyspace.
const CHANGES: Flags = Flags::NOSCRIPT.union(Flags::WRITE);
const LOADS: Flags = CHANGES.union(Flags::DENYOOM).union(Flags::LANE).union(Flags::OUTSIDE);

const SUBCOMMANDS: &[Command] = &[
    sub("DELETE", delete)
        .arity(3)
        .flags(CHANGES)
        .tips(TO_ALL)
        .complexity("O(N) for N libraries")
        .syntax("library-name")
        .summary("Removes a library and its functions."),
    sub("DUMP", dump)
        .arity(2)
        .flags(Flags::NOSCRIPT)
        .complexity("O(N) for N libraries")
        .summary("Returns all libraries as a payload for FUNCTION RESTORE."),
    sub("FLUSH", flush)
        .arity(-2)
        .flags(CHANGES)
        .tips(TO_ALL)
        .complexity("O(N) for N libraries")
        .syntax("[flush-type: ASYNC | SYNC]")
        .summary("Removes all libraries."),
    sub("HELP", help)
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .summary("Tells what the subcommands do."),
    sub("KILL", kill)
        .arity(2)
        .flags(Flags::NOSCRIPT.union(Flags::ALLOW_BUSY))
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
        .summary("Ends running functions that have changed nothing."),
    sub("LIST", show::list)
        .arity(-2)
        .flags(Flags::NOSCRIPT)
        .tips(&["nondeterministic_output_order"])
        .complexity("O(N) for N functions")
        .syntax("[LIBRARYNAME library-name-pattern] [WITHCODE]")
        .summary("Tells the libraries and their functions, with their code if asked."),
    sub("LOAD", load::load)
        .arity(-3)
        .flags(LOADS)
        .tips(TO_ALL)
        .complexity("O(N) for N libraries, and what the code does while it is loaded")
        .syntax("[REPLACE] function-code")
        .summary("Makes a library of this code, in the place of one of its name if told."),
    sub("RESTORE", load::restore)
        .arity(-3)
        .flags(LOADS)
        .tips(TO_ALL)
        .complexity("O(N) for N libraries, and what their code does while it is loaded")
        .syntax("serialized-value [policy: FLUSH | APPEND | REPLACE]")
        .summary("Makes the libraries of a payload of FUNCTION DUMP."),
    sub("STATS", show::stats)
        .arity(2)
        .flags(Flags::NOSCRIPT.union(Flags::ALLOW_BUSY))
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .summary("Tells which function runs, and how many libraries and functions there are."),
];

const LIBRARY_NOT_FOUND: ClientError = ClientError::text("ERR Library not found");
const NOT_BUSY: ClientError = ClientError::text("NOTBUSY No scripts in execution right now.");
const HAVE_WRITTEN: ClientError = ClientError::text(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
     either wait the script termination or kill the server in a hard way using the SHUTDOWN \
     NOSAVE command.",
);
const FLUSH_MODE: ClientError =
    ClientError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");

/// Takes the partition whose stamp orders the records of library changes. In a transaction, which
/// cannot wait, it may be busy.
fn hold_order(call: &mut Call<'_, '_>) -> CommandResult {
    match call.is_recorded() && !call.keys.reach(0) && call.may_wait {
        true => Err(Busy(PartitionId::of(0)).into()),
        false => Ok(()),
    }
}

fn delete(call: &mut Call<'_, '_>) -> CommandResult {
    let name = call.args[2];
    hold_order(call)?;
    Engine::of(call).change_functions(|now| now.without(name).ok_or(LIBRARY_NOT_FOUND))?;
    call.record_as_it_came();
    call.reply.ok();
    Ok(())
}

/// The last thread that knows the old state frees it, in either mode.
fn flush(call: &mut Call<'_, '_>) -> CommandResult {
    match &call.args[2..] {
        [] => {}
        [mode] if is_word(mode, "SYNC") || is_word(mode, "ASYNC") => {}
        [_] => return Err(FLUSH_MODE.into()),
        _ => return Err(error::subcommand_syntax("FUNCTION", call.args[1]).into()),
    }
    hold_order(call)?;
    Engine::of(call).change_functions(|_| Ok::<_, ClientError>(Default::default()))?;
    call.record_as_it_came();
    call.reply.ok();
    Ok(())
}

fn dump(call: &mut Call<'_, '_>) -> CommandResult {
    let libraries = Engine::of(call).functions.current();
    let mut payload = Vec::new();
    let codes = libraries.iter().map(|library| library.code.as_slice());
    pantala_rdb::functions::write(codes, &mut payload);
    call.reply.bulk(&payload);
    Ok(())
}

fn kill(call: &mut Call<'_, '_>) -> CommandResult {
    match Engine::of(call).scripts.running.kill(Kind::Function) {
        Ok(()) => call.reply.ok(),
        Err(KillError::NotBusy) => return Err(NOT_BUSY.into()),
        Err(KillError::HaveWritten) => return Err(HAVE_WRITTEN.into()),
    }
    Ok(())
}
