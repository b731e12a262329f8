//! CONFIG: reading, changing and saving the settings.
//!
//! `pantala_settings` defines the values of each setting and its error texts.
//!
//! | file | what |
//! |---|---|
//! | `checks` | what must hold before a change |
//! | `reactions` | what the server does after a change |
//! | `rewrite` | CONFIG REWRITE |

mod checks;
mod reactions;
mod rewrite;

use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, Lane, Stop, error, help,
};
use pantala_engine::{Engine, Message};
use pantala_settings::{Caller, OnChange, Row, RowFlags, Settings, find};

use super::is_local;
use crate::Operator;
use reactions::REACTIONS;
use rewrite::rewrite;
pub(super) use rewrite::rewrite_in;

const ADMIN: Flags = Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE);
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::container("CONFIG", Group::Server, SUBCOMMANDS)
    .since("2.0.0")
    .complexity("Depends on the subcommand.")
    .summary("Settings of the running server.")];

const SUBCOMMANDS: &[Command] = &[
    Command::new("GET", get, Group::Server)
        .of("CONFIG")
        .arity(-3)
        .flags(ADMIN)
        .since("2.0.0")
        .complexity("O(N) for N patterns")
        .syntax("parameter [parameter ...]")
        .summary("Tells the settings whose names match any of the patterns."),
    Command::new("SET", set, Group::Server)
        .of("CONFIG")
        .arity(-4)
        .flags(ADMIN)
        .tips(ALL_NODES)
        .secrets(is_secret)
        .since("2.0.0")
        .complexity("O(N) for N settings")
        .syntax("parameter value [parameter value ...]")
        .summary("Changes settings: all of those named, or none."),
    Command::new("RESETSTAT", reset_statistics, Group::Server)
        .of("CONFIG")
        .arity(2)
        .flags(ADMIN)
        .tips(ALL_NODES)
        .since("2.0.0")
        .summary("Lets the counts that INFO shows begin again at zero."),
    Command::new("REWRITE", rewrite, Group::Server)
        .of("CONFIG")
        .arity(2)
        .flags(ADMIN.union(Flags::LANE).union(Flags::OPERATOR))
        .tips(ALL_NODES)
        .since("2.8.0")
        .summary("Writes the settings in force to the configuration file."),
    Command::new("HELP", help, Group::Server)
        .of("CONFIG")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("5.0.0")
        .summary("Tells what the subcommands do."),
];

/// The row of the setting with this name.
fn named(name: &[u8]) -> Option<&'static Row> {
    std::str::from_utf8(name).ok().and_then(find)
}

fn is_secret(args: &[&[u8]], at: usize) -> bool {
    let is_value = at >= 3 && at % 2 == 1;
    is_value && named(args[at - 1]).is_some_and(|row| row.has(RowFlags::SECRET))
}

fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let patterns: Vec<_> = call.args[2..].iter().map(|arg| String::from_utf8_lossy(arg)).collect();
    let patterns: Vec<&str> = patterns.iter().map(|pattern| &**pattern).collect();
    let found = Engine::of(call).settings.current().get(&patterns);
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn set(call: &mut Call<'_, '_>) -> CommandResult {
    let words = &call.args[2..];
    if !words.len().is_multiple_of(2) {
        return Err(error::SYNTAX.into());
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    if call.lane == Lane::Worker && pairs.iter().any(|(name, _)| takes_long(name)) {
        // Starting threads and their event loops takes a while.
        return Err(Stop::Lane);
    }
    let caller = if is_local(call.session) { Caller::Local } else { Caller::Remote };
    apply(Operator::of(call), &pairs, caller)?;
    call.reply.ok();
    Ok(())
}

fn takes_long(name: &[u8]) -> bool {
    named(name).is_some_and(|row| reactions::takes_long(row.on_change))
}

/// Changes the settings and reacts to the change. If that fails they are put back.
pub(super) fn apply(
    operator: &Operator,
    pairs: &[(&[u8], &[u8])],
    caller: Caller,
) -> Result<(), ClientError> {
    let rows = || pairs.iter().filter_map(|(name, _)| named(name));
    checks::refuse_while_loading(operator, rows())?;
    let mut old = Vec::new();
    let now = operator.engine.settings.change(|before| {
        let next = before
            .set(pairs, caller)
            .map_err(|refused| ClientError::new(format!("ERR {refused}")))?;
        checks::check(operator, before, &next)?;
        // A TLS file may have changed under the same name.
        let changes =
            |row: &&Row| before.value(row) != next.value(row) || row.on_change == OnChange::Tls;
        old.extend(rows().filter(changes).map(|row| (row, before.value(row))));
        Ok::<Settings, ClientError>(next)
    })?;
    let changed: Vec<&Row> = old.iter().map(|(row, _)| *row).collect();
    let done = react(operator, &now, &changed);
    if done.is_err() {
        put_back(operator, &old);
    }
    // Sleeping workers have to see new timeouts.
    operator.engine.workers.post_all(&|| Message::LookUp);
    done
}

/// Runs the reactions to the change of these settings until one fails.
fn react(operator: &Operator, now: &Settings, changed: &[&Row]) -> Result<(), ClientError> {
    for reaction in REACTIONS {
        let Some(row) = changed.iter().find(|row| row.on_change == reaction.to) else { continue };
        (reaction.apply)(operator, now).map_err(|why| match row.name {
            "bind" => failed("bind", FAILED_TO_BIND),
            name => failed(name, &why),
        })?;
    }
    Ok(())
}

/// Puts the settings of a failed change back.
fn put_back(operator: &Operator, old: &[(&Row, String)]) {
    let pairs: Vec<(&[u8], &[u8])> =
        old.iter().map(|(row, value)| (row.name.as_bytes(), value.as_bytes())).collect();
    match operator.engine.settings.change(|now| now.set(&pairs, Caller::Local)) {
        Ok(before) => {
            // Reactions that succeeded with the old settings succeed again.
            let changed: Vec<&Row> = old.iter().map(|(row, _)| *row).collect();
            if let Err(ClientError(why)) = react(operator, &before, &changed) {
                tracing::warn!("CONFIG SET: not put back: {}", String::from_utf8_lossy(&why));
            }
        }
        Err(refused) => tracing::warn!("CONFIG SET: not put back: {refused}"),
    }
}

const FAILED_TO_BIND: &str = "Failed to bind to specified addresses.";

fn failed(name: &str, why: &str) -> ClientError {
    let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
    ClientError::new(text)
}

fn reset_statistics(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    operator.engine.stats.tallies.reset();
    operator.engine.stats.errors.reset();
    operator.engine.scripts.reset_evicted();
    operator.engine.condition.exceeded.reset();
    operator.replication.primary.counts.reset();
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_passwords_are_secret() {
        let args: Vec<&[u8]> =
            vec![b"CONFIG", b"SET", b"timeout", b"1", b"RequirePass", b"x", b"MASTERAUTH", b"y"];
        let secret: Vec<usize> = (0..args.len()).filter(|&at| is_secret(&args, at)).collect();
        assert_eq!(secret, [5, 7]);
    }
}
