//! FUNCTION LIST and STATS.

use pantala_base::glob::matches_nocase;
use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, CommandResult};
use pantala_protocol::Reply;
use pantala_scripting::{ENGINE, Library};

use crate::engine::Engine;
use crate::scripts::Kind;

const NO_PATTERN: ClientError = ClientError::text("ERR library name argument was not given");

pub(super) fn list(call: &mut Call<'_, '_>) -> CommandResult {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = call.args[2..].iter();
    while let Some(word) = words.next() {
        if !with_code && is_word(word, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && is_word(word, "LIBRARYNAME") {
            pattern = Some(*words.next().ok_or(NO_PATTERN)?);
        } else {
            let text = [b"ERR Unknown argument ", *word].concat();
            return Err(ClientError::bytes(text).into());
        }
    }
    let libraries = Engine::of(call).functions.current();
    let fits = |library: &Library| pattern.is_none_or(|one| matches_nocase(one, &library.name));
    let (mark, mut count) = (call.reply.begin(), 0);
    for library in libraries.iter().filter(|library| fits(library)) {
        show(&mut call.reply, library, with_code);
        count += 1;
    }
    call.reply.end_array(mark, count);
    Ok(())
}

fn show(reply: &mut Reply<'_>, library: &Library, with_code: bool) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(&library.name);
    reply.bulk(b"engine");
    reply.bulk(ENGINE.as_bytes());
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|name| reply.simple(name));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

/// FUNCTION STATS. If several functions run, the one that has run longest is shown.
pub(super) fn stats(call: &mut Call<'_, '_>) -> CommandResult {
    let engine = Engine::of(call);
    let libraries = engine.functions.current();
    let all = engine.scripts.running.all();
    let running = all.iter().find(|one| one.kind == Kind::Function);
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&running.name);
            reply.bulk(b"command");
            reply.array(running.command.len());
            running.command.iter().for_each(|arg| reply.bulk(arg));
            reply.bulk(b"duration_ms");
            reply.int(running.took_ms().cast_signed());
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(ENGINE.as_bytes());
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.int(libraries.library_count().cast_signed() as i64);
    reply.bulk(b"functions_count");
    reply.int(libraries.function_count().cast_signed() as i64);
    Ok(())
}
