//! Commands about the connection itself that concern only the session.

use pantala_keyspace::DbIndex;

use crate::calls::call::{Call, CommandResult};
use crate::error;
use crate::rows::command::{Command, Databases, Flags, Group};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::new("ECHO", echo, Group::Connection)
        .arity(2)
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE).union(Flags::REVERSIBLE))
        .syntax("message")
        .summary("Answers the message."),
    Command::new("PING", ping, Group::Connection)
        .arity(-1)
        .flags(Flags::FAST.union(Flags::SUBSCRIBED).union(Flags::REVERSIBLE))
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .syntax("[message]")
        .summary("Answers PONG, or the message."),
    Command::new("QUIT", quit, Group::Connection)
        .arity(-1)
        .flags(
            Flags::NOSCRIPT
                .union(Flags::LOADING)
                .union(Flags::STALE)
                .union(Flags::FAST)
                .union(Flags::NO_AUTH)
                .union(Flags::ALLOW_BUSY)
                .union(Flags::UNQUEUED)
                .union(Flags::SUBSCRIBED),
        )
        .summary("Closes the connection."),
    Command::new("SELECT", select, Group::Connection)
        .arity(2)
        .flags(
            Flags::FAST
                .union(Flags::LOADING)
                .union(Flags::STALE)
                .union(Flags::ALLOW_BUSY)
                .union(Flags::REVERSIBLE),
        )
        .databases(Databases::Selects)
        .syntax("index:int")
        .summary("Chooses the logical database."),
];

fn ping(call: &mut Call<'_, '_>) -> CommandResult {
    match call.args {
        [_] | [_, _] if call.session.is_confined() => {
            // In the form of a message, for subscribed clients.
            call.reply.array(2);
            call.reply.bulk(b"pong");
            call.reply.bulk(call.args.get(1).copied().unwrap_or_default());
        }
        [_] => call.reply.simple("PONG"),
        [_, message] => call.reply.bulk(message),
        _ => return Err(error::wrong_arity("ping").into()),
    }
    Ok(())
}

fn echo(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.bulk(call.args[1]);
    Ok(())
}

fn quit(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.closing = true;
    call.reply.ok();
    Ok(())
}

fn select(call: &mut Call<'_, '_>) -> CommandResult {
    let index = i32::try_from(call.int(1)?).map_err(|_| error::INT_OUT_OF_RANGE)?;
    let index = u32::try_from(index).map_err(|_| error::DB_OUT_OF_RANGE)?;
    if index >= call.space().database_count() {
        return Err(error::DB_OUT_OF_RANGE.into());
    }
    call.session.db = DbIndex(index);
    call.reply.ok();
    Ok(())
}
