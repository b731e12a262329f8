//! EVAL, EVALSHA, their read-only forms, and SCRIPT.

use pantala_commands::options::is_word;
use pantala_commands::syntax::plain;
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, KeyFlags, KeySpec, Program, reply_help,
};
use pantala_scripting::Script;

use super::known::Program as CachedScripts;
use super::running::{KillError, Kind};
use super::thread;
use crate::engine::Engine;

const SCRIPT_FLAGS: Flags = Flags::NOSCRIPT
    .union(Flags::SKIP_MONITOR)
    .union(Flags::STALE)
    .union(Flags::MOVABLEKEYS)
    .union(Flags::NO_MANDATORY_KEYS)
    .union(Flags::SCRIPT);

const KEYS: &[KeySpec] = &[KeySpec::counted(2, 1, KeyFlags::CHANGE)];
const READ_KEYS: &[KeySpec] = &[KeySpec::counted(2, 1, KeyFlags::READ)];

/// A row that runs a script or a function; the interpreter takes the place of the handler.
pub const fn runs(name: &'static str, program: Program) -> Command {
    row(name, program).flags(Flags::MAY_REPLICATE).keys(KEYS)
}

/// Like [`runs`], for a script or function that only reads.
pub const fn runs_read_only(name: &'static str, program: Program) -> Command {
    row(name, program).flags(Flags::READONLY).keys(READ_KEYS).since("7.0.0")
}

const fn row(name: &'static str, program: Program) -> Command {
    Command::new(name, unreachable_handler, Group::Scripting)
        .arity(-3)
        .flags(SCRIPT_FLAGS)
        .runs(program)
        .complexity("That of the script.")
}

fn unreachable_handler(_call: &mut Call<'_, '_>) -> CommandResult {
    Err(ClientError::text("ERR a script can not run here").into())
}

/// The rows of this family.
pub const ROWS: &[Command] = &[
    runs("EVAL", Program::Body)
        .since("2.6.0")
        .syntax("script numkeys:int [key ...] [arg ...]")
        .summary("Runs a Lua script on the server, as one step."),
    runs("EVALSHA", Program::Digest)
        .since("2.6.0")
        .syntax("sha1 numkeys:int [key ...] [arg ...]")
        .summary("Runs a script that the server has seen, by its SHA1 digest."),
    runs_read_only("EVAL_RO", Program::Body)
        .syntax("script numkeys:int [key ...] [arg ...]")
        .summary("Runs a Lua script that may only read."),
    runs_read_only("EVALSHA_RO", Program::Digest)
        .syntax("sha1 numkeys:int [key ...] [arg ...]")
        .summary("Runs a known script that may only read, by its SHA1 digest."),
    Command::container("SCRIPT", Group::Scripting, SUBCOMMANDS)
        .since("2.6.0")
        .complexity("Depends on the subcommand.")
        .summary("About scripts that the server knows."),
];

const fn sub(name: &'static str, handler: pantala_commands::Handler) -> Command {
    Command::new(name, handler, Group::Scripting).of("SCRIPT").since("2.6.0")
}

const TO_ALL: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const SUBCOMMANDS: &[Command] = &[
    sub("DEBUG", debug)
        .arity(-3)
        .flags(Flags::NOSCRIPT)
        .since("3.2.0")
        .syntax("(mode: YES | SYNC | NO) [engine]")
        .summary("Refused: there is no debugger for scripts."),
    sub("EXISTS", exists)
        .arity(-3)
        .flags(Flags::STALE.union(Flags::NOSCRIPT))
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"])
        .complexity("O(N) for N digests")
        .syntax("sha1 [sha1 ...]")
        .summary("Tells which scripts are known."),
    sub("FLUSH", flush)
        .arity(-2)
        .flags(Flags::STALE.union(Flags::NOSCRIPT))
        .tips(TO_ALL)
        .complexity("O(N) for N scripts")
        .syntax("[flush-type: ASYNC | SYNC]")
        .summary("Forgets all scripts."),
    sub("HELP", help)
        .arity(2)
        .flags(Flags::STALE.union(Flags::LOADING))
        .since("5.0.0")
        .summary("Describes the subcommands."),
    sub("KILL", kill)
        .arity(2)
        .flags(Flags::ALLOW_BUSY.union(Flags::NOSCRIPT))
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
        .summary("Ends running scripts that have changed nothing."),
    sub("LOAD", load)
        .arity(3)
        .flags(Flags::STALE.union(Flags::NOSCRIPT))
        .tips(TO_ALL)
        .complexity("O(N) for N bytes")
        .syntax("script")
        .summary("Remembers a script, to be run by its digest."),
    sub("SHOW", show)
        .arity(3)
        .flags(Flags::STALE.union(Flags::NOSCRIPT))
        .since("8.0.0")
        .syntax("sha1")
        .summary("Returns the text of a known script."),
];

const NO_SCRIPT: ClientError = ClientError::text("NOSCRIPT No matching script.");
const NO_DEBUGGER: ClientError =
    ClientError::text("ERR there is no debugger for scripts; redis.log writes to the server's log");
const NOT_BUSY: ClientError = ClientError::text("NOTBUSY No scripts in execution right now.");
const HAVE_WRITTEN: ClientError = ClientError::text(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
     either wait the script termination or kill the server in a hard way using the SHUTDOWN \
     NOSAVE command.",
);

fn debug(call: &mut Call<'_, '_>) -> CommandResult {
    match call.args[2] {
        word if is_word(word, "NO") => call.reply.ok(),
        word if is_word(word, "YES") || is_word(word, "SYNC") => return Err(NO_DEBUGGER.into()),
        _ => return Err(ClientError::text("ERR Use SCRIPT DEBUG YES/SYNC/NO").into()),
    }
    Ok(())
}

fn exists(call: &mut Call<'_, '_>) -> CommandResult {
    let scripts = &Engine::of(call).scripts;
    call.reply.array(call.args.len() - 2);
    for sha in &call.args[2..] {
        call.reply.int(i64::from(scripts.find_any_case(sha).is_some()));
    }
    Ok(())
}

fn flush(call: &mut Call<'_, '_>) -> CommandResult {
    match &call.args[2..] {
        [] => {}
        [word] if is_word(word, "ASYNC") || is_word(word, "SYNC") => {}
        _ => {
            return Err(ClientError::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option").into());
        }
    }
    Engine::of(call).scripts.flush();
    call.reply.ok();
    Ok(())
}

fn kill(call: &mut Call<'_, '_>) -> CommandResult {
    match Engine::of(call).scripts.running.kill(Kind::Script) {
        Ok(()) => call.reply.ok(),
        Err(KillError::NotBusy) => return Err(NOT_BUSY.into()),
        Err(KillError::HaveWritten) => return Err(HAVE_WRITTEN.into()),
    }
    Ok(())
}

fn load(call: &mut Call<'_, '_>) -> CommandResult {
    let scripts = &Engine::of(call).scripts;
    let known = thread::by_body(scripts, call.args[2], call.lane)?;
    scripts.keep(&known);
    if let CachedScripts::Script(script) = &known.program {
        call.reply.bulk(script.sha());
    }
    Ok(())
}

fn show(call: &mut Call<'_, '_>) -> CommandResult {
    let known = Engine::of(call).scripts.find_any_case(call.args[2]).ok_or(NO_SCRIPT)?;
    if let CachedScripts::Script(script) = &known.program {
        call.reply.bulk(Script::body(script));
    }
    Ok(())
}

fn help(call: &mut Call<'_, '_>) -> CommandResult {
    let lines = SUBCOMMANDS.iter().flat_map(|row| {
        [
            format!("{} {}", row.name, plain(row.syntax)).trim_end().to_owned(),
            format!("    {}", row.summary),
        ]
    });
    reply_help(&mut call.reply, "SCRIPT", &lines.collect::<Vec<_>>());
    Ok(())
}
