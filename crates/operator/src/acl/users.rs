//! ACL commands that create, change, remove and show users.

use pantala_acl::{Denial, Selector};
use pantala_commands::permission::Asked;
use pantala_commands::{Call, ClientError, CommandResult, error};
use pantala_engine::Engine;
use pantala_protocol::Reply;

use super::default_channels;

pub(super) fn set(call: &mut Call<'_, '_>) -> CommandResult {
    let channels = default_channels(call.settings);
    let (name, rules) = (call.args[2], &call.args[3..]);
    Engine::of(call)
        .change_users(|users| users.with_rules(name, rules, channels))
        .map_err(|wrong| ClientError::bytes([b"ERR ", &wrong.text()[..]].concat()))?;
    call.reply.ok();
    Ok(())
}

pub(super) fn delete(call: &mut Call<'_, '_>) -> CommandResult {
    let names = &call.args[2..];
    if names.contains(&pantala_acl::DEFAULT_NAME) {
        return Err(ClientError::text("ERR The 'default' user cannot be removed").into());
    }
    let mut gone = 0;
    let _nobody_is_gone = Engine::of(call).change_users(|users| {
        let (next, count) = users.without(names);
        gone = count;
        // If no user was removed, connections need not be checked.
        if count == 0 { Err(()) } else { Ok(next) }
    });
    call.reply.int(gone.cast_signed() as i64);
    Ok(())
}

pub(super) fn list(call: &mut Call<'_, '_>) -> CommandResult {
    let users = Engine::of(call).acl.users();
    call.reply.array(users.iter().count());
    users.iter().for_each(|user| call.reply.bulk(&user.describe()));
    Ok(())
}

pub(super) fn names(call: &mut Call<'_, '_>) -> CommandResult {
    let users = Engine::of(call).acl.users();
    call.reply.array(users.iter().count());
    users.iter().for_each(|user| call.reply.bulk(user.name()));
    Ok(())
}

pub(super) fn who_am_i(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.bulk(call.session.user_name());
    Ok(())
}

pub(super) fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let users = Engine::of(call).acl.users();
    let Some(user) = users.find(call.args[2]) else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut call.reply;
    reply.map(7);
    reply.bulk(b"flags");
    reply.set(user.flags().count());
    user.flags().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.password_texts().count());
    user.password_texts().for_each(|text| reply.bulk(&text));
    reply_rules(reply, user.root());
    reply.bulk(b"selectors");
    reply.array(user.selectors().len());
    for selector in user.selectors() {
        reply.map(4);
        reply_rules(reply, selector);
    }
    Ok(())
}

fn reply_rules(reply: &mut Reply<'_>, selector: &Selector) {
    let rules = [
        ("commands", selector.commands_text()),
        ("keys", selector.keys_text()),
        ("channels", selector.channels_text()),
        ("databases", selector.databases_text()),
    ];
    for (name, text) in rules {
        reply.bulk(name.as_bytes());
        reply.bulk(&text);
    }
}

pub(super) fn dry_run(call: &mut Call<'_, '_>) -> CommandResult {
    let engine = Engine::of(call);
    let (name, args) = (call.args[2], &call.args[3..]);
    let users = engine.acl.users();
    let user = users
        .find(name)
        .ok_or_else(|| ClientError::bytes([b"ERR User '", name, b"' not found"].concat()))?;
    let found = engine.registry.find_own(args[0]);
    let found = found.and_then(|found| match found.row.subcommands {
        [] => Some(found),
        _ => args.get(1).map_or(Some(found), |word| engine.registry.subcommand(found, word)),
    });
    let found = found
        .ok_or_else(|| ClientError::bytes([b"ERR Command '", args[0], b"' not found"].concat()))?;
    if !found.row.accepts(args.len()) {
        return Err(error::wrong_arity(&found.row.full_name()).into());
    }
    let asked = Asked {
        row: found.row,
        id: engine.registry.permission(found),
        also: engine.registry.also(found),
        args,
        db: call.session.db,
        database_count: engine.space.database_count(),
    };
    let refused = match asked.of(user) {
        Ok(()) => {
            call.reply.ok();
            return Ok(());
        }
        Err(Denial::Command) => format!("run the '{}' command", found.row.full_name()).into_bytes(),
        Err(Denial::Key(at)) => [b"access the '", args[at], b"' key"].concat(),
        Err(Denial::Channel(at)) => [b"access the '", args[at], b"' channel"].concat(),
        Err(Denial::Database(at)) => [b"access database ", args[at]].concat(),
    };
    call.reply.bulk(&[b"User ", name, b" has no permissions to ", &refused].concat());
    Ok(())
}
