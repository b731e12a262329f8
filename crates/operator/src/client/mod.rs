//! CLIENT, and the commands that change the identity of a connection.
//!
//! | file | what |
//! |---|---|
//! | here | CLIENT about the asking connection itself |
//! | `greeting` | AUTH, HELLO, RESET |
//! | `others` | CLIENT LIST, INFO, KILL, UNBLOCK, PAUSE, UNPAUSE |
//! | `tracking` | CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO |
//! | `words` | the filters of LIST and KILL |
//!
//! Tests: compat/transcripts/connection.

mod greeting;
mod others;
mod tracking;
mod words;

use pantala_commands::options::is_word;
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, ReplyMode, error, help,
};
use pantala_engine::Engine;

pub(super) use greeting::authenticate;
pub use others::all_lines;

/// The rows of this family.
pub const ROWS: &[Command] = &[greeting::AUTH, CLIENT, greeting::HELLO, greeting::RESET];

/// In the order in which CLIENT HELP shows them.
const SUBCOMMANDS: &[Command] = &[
    tracking::CLIENT_CACHING,
    CLIENT_CAPA,
    tracking::CLIENT_GETREDIR,
    CLIENT_GETNAME,
    CLIENT_ID,
    others::CLIENT_INFO,
    others::CLIENT_KILL,
    others::CLIENT_LIST,
    others::CLIENT_UNPAUSE,
    others::CLIENT_PAUSE,
    CLIENT_REPLY,
    CLIENT_SETNAME,
    CLIENT_SETINFO,
    others::CLIENT_UNBLOCK,
    tracking::CLIENT_TRACKING,
    tracking::CLIENT_TRACKINGINFO,
    CLIENT_NO_EVICT,
    CLIENT_NO_TOUCH,
    CLIENT_IMPORT_SOURCE,
    CLIENT_HELP,
];

const fn sub(name: &'static str, handler: pantala_commands::Handler) -> Command {
    Command::new(name, handler, Group::Connection)
        .of("CLIENT")
        .keeps_caching()
        .flags(Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE))
}

/// Flags of subcommands that may run while a script runs for too long: they touch only their own
/// connection.
const OWN: Flags = Flags::ALLOW_BUSY.union(Flags::REVERSIBLE);

const TO_ALL: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const CLIENT: Command = Command::container("CLIENT", Group::Connection, SUBCOMMANDS)
    .since("2.4.0")
    .complexity("Depends on subcommand.")
    .summary("About connections: this one, and all others.");

const CLIENT_HELP: Command = Command::new("HELP", help, Group::Connection)
    .of("CLIENT")
    .keeps_caching()
    .arity(2)
    .flags(Flags::LOADING.union(Flags::STALE))
    .since("5.0.0")
    .summary("Shows this text.");

/// Names of clients and libraries are shown in a line of words, so only visible characters are
/// allowed.
fn check_printable(text: &[u8], what: &str) -> Result<(), ClientError> {
    if text.iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    let error = format!("ERR {what} cannot contain spaces, newlines or special characters.");
    Err(ClientError::new(error))
}

/// ON or OFF.
fn switch(word: &[u8]) -> Result<bool, ClientError> {
    match word {
        _ if is_word(word, "ON") => Ok(true),
        _ if is_word(word, "OFF") => Ok(false),
        _ => Err(error::SYNTAX),
    }
}

const CLIENT_ID: Command =
    sub("ID", id).arity(2).flags(OWN).since("5.0.0").summary("The number of this connection.");

fn id(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.int(call.session.id.cast_signed());
    Ok(())
}

const CLIENT_GETNAME: Command = sub("GETNAME", getname)
    .arity(2)
    .flags(OWN)
    .since("2.6.9")
    .summary("The name of this connection.");

fn getname(call: &mut Call<'_, '_>) -> CommandResult {
    match &*call.session.name {
        [] => call.reply.null(),
        name => call.reply.bulk(name),
    }
    Ok(())
}

const CLIENT_SETNAME: Command = sub("SETNAME", setname)
    .arity(3)
    .flags(OWN)
    .tips(TO_ALL)
    .since("2.6.9")
    .syntax("connection-name")
    .summary("Gives this connection a name.");

fn setname(call: &mut Call<'_, '_>) -> CommandResult {
    check_printable(call.args[2], "Client names")?;
    call.session.name = call.args[2].into();
    call.reply.ok();
    Ok(())
}

const CLIENT_SETINFO: Command = sub("SETINFO", setinfo)
    .arity(4)
    .flags(OWN)
    .tips(TO_ALL)
    .since("7.2.0")
    .syntax("(attr: LIB-NAME libname | LIB-VER libver)")
    .summary("Names the library the client uses.");

fn setinfo(call: &mut Call<'_, '_>) -> CommandResult {
    let (word, text) = (call.args[2], call.args[3]);
    if is_word(word, "LIB-NAME") {
        check_printable(text, "LIB-NAME")?;
        call.session.lib_name = text.into();
    } else if is_word(word, "LIB-VER") {
        check_printable(text, "LIB-VER")?;
        call.session.lib_version = text.into();
    } else {
        let word = String::from_utf8_lossy(word);
        return Err(ClientError::new(format!("ERR Unrecognized option '{word}'")).into());
    }
    call.reply.ok();
    Ok(())
}

const CLIENT_NO_EVICT: Command = sub("NO-EVICT", no_evict)
    .arity(3)
    .flags(OWN.union(Flags::ADMIN))
    .since("7.0.0")
    .syntax("(enabled: ON | OFF)")
    .summary("Whether this connection is kept when connections need too much memory.");

fn no_evict(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.no_evict = switch(call.args[2])?;
    call.reply.ok();
    Ok(())
}

const CLIENT_NO_TOUCH: Command = sub("NO-TOUCH", no_touch)
    .arity(3)
    .flags(OWN)
    .since("7.2.0")
    .syntax("(enabled: ON | OFF)")
    .summary("Whether the commands of this connection leave keys as cold as they are.");

fn no_touch(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.no_touch = switch(call.args[2])?;
    call.reply.ok();
    Ok(())
}

const CLIENT_CAPA: Command = sub("CAPA", capa)
    .arity(-3)
    .flags(OWN)
    .since("8.0.0")
    .syntax("capability [capability ...]")
    .summary("Says what the client is able to do; REDIRECT: it follows redirections.");

/// Unknown capabilities are ignored: a newer client may have more.
fn capa(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args[2..].iter().any(|word| is_word(word, "REDIRECT")) {
        call.session.set_can_redirect(true);
    }
    call.reply.ok();
    Ok(())
}

const CLIENT_REPLY: Command = sub("REPLY", reply)
    .arity(3)
    .flags(OWN.union(Flags::NO_MULTI))
    .since("3.2.0")
    .syntax("(action: ON | OFF | SKIP)")
    .summary("Whether this connection wants replies; SKIP: not the next one.");

/// OFF and SKIP have no reply themselves.
fn reply(call: &mut Call<'_, '_>) -> CommandResult {
    let word = call.args[2];
    if is_word(word, "ON") {
        call.session.reply_mode = ReplyMode::On;
        call.reply.ok();
    } else if is_word(word, "OFF") {
        call.session.reply_mode = ReplyMode::Off;
    } else if !is_word(word, "SKIP") {
        return Err(error::SYNTAX.into());
    } else {
        call.session.reply_mode = match call.session.reply_mode {
            ReplyMode::Off => ReplyMode::Off,
            ReplyMode::On => ReplyMode::SkipNext,
            ReplyMode::SkipNext | ReplyMode::SkipAgain => ReplyMode::SkipAgain,
        };
    }
    Ok(())
}

const CLIENT_IMPORT_SOURCE: Command = sub("IMPORT-SOURCE", import_source)
    .arity(3)
    .since("8.1.0")
    .syntax("(enabled: ON | OFF)")
    .summary("Whether this connection brings data of another server.");

/// OFF is always allowed; ON only in import mode.
fn import_source(call: &mut Call<'_, '_>) -> CommandResult {
    let word = call.args[2];
    if !is_word(word, "OFF") && !Engine::of(call).settings.current().import_mode {
        return Err(ClientError::text("ERR Server is not in import mode").into());
    }
    call.session.is_import_source = switch(word)?;
    call.reply.ok();
    Ok(())
}
