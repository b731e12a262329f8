//! CLIENT, and the commands that change who a connection is.
//!
//! | file | what |
//! |---|---|
//! | here | CLIENT about the asking connection itself |
//! | `greeting` | AUTH, HELLO, RESET |
//! | `others` | CLIENT LIST, INFO, KILL, UNBLOCK, PAUSE, UNPAUSE |
//! | `tracking` | CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO |
//! | `words` | which clients LIST and KILL mean |
//! | `rows` | the table |
//!
//! Tests: compat/transcripts/connection.

mod greeting;
mod others;
mod rows;
mod tracking;
mod words;

use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, Done, ReplyMode, error};
use pantala_engine::Engine;

pub use greeting::USER;
pub use rows::ROWS;
pub use tracking::redirect;

/// Names of clients and libraries are shown in a line of words: only what is visible may be there.
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

fn id(call: &mut Call<'_, '_>) -> Done {
    call.reply.int(call.session.id.cast_signed());
    Ok(())
}

fn getname(call: &mut Call<'_, '_>) -> Done {
    match &*call.session.name {
        [] => call.reply.null(),
        name => call.reply.bulk(name),
    }
    Ok(())
}

fn setname(call: &mut Call<'_, '_>) -> Done {
    check_printable(call.args[2], "Client names")?;
    call.session.name = call.args[2].into();
    call.reply.ok();
    Ok(())
}

fn setinfo(call: &mut Call<'_, '_>) -> Done {
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

fn no_evict(call: &mut Call<'_, '_>) -> Done {
    call.session.no_evict = switch(call.args[2])?;
    call.reply.ok();
    Ok(())
}

fn no_touch(call: &mut Call<'_, '_>) -> Done {
    call.session.no_touch = switch(call.args[2])?;
    call.reply.ok();
    Ok(())
}

/// Unknown capabilities are passed over: a newer client may have more.
fn capa(call: &mut Call<'_, '_>) -> Done {
    call.session.can_redirect |= call.args[2..].iter().any(|word| is_word(word, "REDIRECT"));
    call.reply.ok();
    Ok(())
}

/// OFF and SKIP have no reply themselves.
fn reply(call: &mut Call<'_, '_>) -> Done {
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

/// Whoever is a source may say so no more at any time; the rest is for the import mode.
fn import_source(call: &mut Call<'_, '_>) -> Done {
    let word = call.args[2];
    if !is_word(word, "OFF") && !Engine::of(call).settings.current().import_mode {
        return Err(ClientError::text("ERR Server is not in import mode").into());
    }
    call.session.is_import_source = switch(word)?;
    call.reply.ok();
    Ok(())
}
