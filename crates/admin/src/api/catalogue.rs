//! Lists of commands and settings.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pantala_commands::Command;
use pantala_commands::syntax::{Argument, ArgumentKind, arguments};
use pantala_settings::{ChangeTime, Row, RowFlags};
use serde_json::{Value, json};

use crate::access::Requester;
use crate::admin::{Admin, Peer};
use crate::answer::{Refusal, json_answer};

/// `GET /api/commands`: all commands, subcommands by their full names.
pub(super) async fn commands(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let asker = Requester::needed(&admin, &peer, &headers)?;
    let engine = admin.host.engine();
    asker.must_run(engine, "command|docs")?;
    let rows = engine.registry.callable();
    let all = rows.flat_map(|row| std::iter::once(row).chain(row.subcommands));
    Ok(json_answer(&all.map(command).collect()))
}

fn command(row: &Command) -> Value {
    json!({
        "name": row.full_name().replace('|', " ").to_uppercase(),
        "family": row.group.name(),
        "summary": row.summary,
        "since": row.since,
        "arity": row.arity,
        "flags": row.flags.names().collect::<Vec<_>>(),
        "args": arguments(row).iter().map(argument).collect::<Vec<_>>(),
    })
}

/// An argument in the form of COMMAND DOCS.
fn argument(argument: &Argument) -> Value {
    let is_group = matches!(argument.kind, ArgumentKind::OneOf | ArgumentKind::Block);
    let flags = [
        (argument.optional, "optional"),
        (argument.multiple, "multiple"),
        (argument.multiple_token, "multiple_token"),
    ];
    let flags: Vec<&str> =
        flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    let mut value = json!({ "name": argument.name, "type": argument.kind.name() });
    if let Some(token) = &argument.token {
        value["token"] = json!(token);
    }
    if let Some(index) = argument.key_spec {
        value["key_spec_index"] = json!(index);
    }
    if !flags.is_empty() {
        value["flags"] = json!(flags);
    }
    if is_group {
        value["arguments"] = argument.parts.iter().map(self::argument).collect();
    }
    value
}

/// `GET /api/settings`: all settings, secrets without their values.
pub(super) async fn settings(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let asker = Requester::needed(&admin, &peer, &headers)?;
    let engine = admin.host.engine();
    asker.must_run(engine, "config|get")?;
    let now = engine.settings.current();
    let shown = pantala_settings::rows().iter().filter(|row| !row.has(RowFlags::HIDDEN));
    Ok(json_answer(&shown.map(|row| setting(row, &now.value(row))).collect()))
}

fn setting(row: &Row, value: &str) -> Value {
    let aliases: Vec<&str> = row.also.iter().chain(row.understood).copied().collect();
    let mut shown = json!({
        "name": row.name,
        "aliases": aliases,
        "default": row.default,
        "kind": row.kind.allowed(),
        "doc": row.doc,
        "runtime": row.change == ChangeTime::Live,
        "secret": row.has(RowFlags::SECRET),
        "group": row.group.title(),
    });
    if !row.has(RowFlags::SECRET) {
        shown["value"] = json!(value);
    }
    shown
}
