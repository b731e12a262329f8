//! COMMAND DOCS: summary, version, group, complexity and arguments, from a row's own texts.

use pantala_commands::syntax::{Argument, ArgumentKind, arguments};
use pantala_commands::{Call, Command, CommandResult};
use pantala_protocol::Reply;

pub(super) fn docs(call: &mut Call<'_, '_>) -> CommandResult {
    let registry = call.server.registry();
    let names = &call.args[2..];
    let rows: Vec<&Command> = if names.is_empty() {
        registry.callable().collect()
    } else {
        names.iter().filter_map(|name| registry.find_full(name)).map(|found| found.row).collect()
    };
    call.reply.map(rows.len());
    for row in rows {
        reply_docs(&mut call.reply, row);
    }
    Ok(())
}

fn reply_docs(reply: &mut Reply<'_>, row: &Command) {
    reply.bulk(row.full_name().as_bytes());
    let arguments = arguments(row);
    let is_deprecated = row.is_deprecated;
    let parts = 4
        + usize::from(is_deprecated)
        + usize::from(!arguments.is_empty())
        + usize::from(!row.subcommands.is_empty());
    reply.map(parts);
    for (name, text) in [
        ("summary", row.summary),
        ("since", row.since),
        ("group", row.group.name()),
        ("complexity", row.complexity),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if is_deprecated {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple("deprecated");
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        reply_arguments(reply, &arguments);
    }
    if !row.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(row.subcommands.len());
        row.subcommands.iter().for_each(|subcommand| reply_docs(reply, subcommand));
    }
}

fn reply_arguments(reply: &mut Reply<'_>, arguments: &[Argument]) {
    reply.array(arguments.len());
    for argument in arguments {
        reply_argument(reply, argument);
    }
}

fn reply_argument(reply: &mut Reply<'_>, argument: &Argument) {
    let is_group = matches!(argument.kind, ArgumentKind::OneOf | ArgumentKind::Block);
    let flags: Vec<&str> = [
        (argument.optional, "optional"),
        (argument.multiple, "multiple"),
        (argument.multiple_token, "multiple_token"),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .map(|(_, name)| name)
    .collect();
    let parts = 2
        + usize::from(!is_group)
        + usize::from(argument.key_spec.is_some())
        + usize::from(argument.token.is_some())
        + usize::from(!flags.is_empty())
        + usize::from(is_group);
    reply.map(parts);
    reply.bulk(b"name");
    reply.bulk(argument.name.as_bytes());
    reply.bulk(b"type");
    reply.bulk(argument.kind.name().as_bytes());
    if !is_group {
        reply.bulk(b"display_text");
        reply.bulk(argument.name.as_bytes());
    }
    if let Some(index) = argument.key_spec {
        reply.bulk(b"key_spec_index");
        reply.int(index as i64);
    }
    if let Some(token) = &argument.token {
        reply.bulk(b"token");
        reply.bulk(token.as_bytes());
    }
    if !flags.is_empty() {
        reply.bulk(b"flags");
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if is_group {
        reply.bulk(b"arguments");
        reply_arguments(reply, &argument.parts);
    }
}
