//! Commands of Memcached's protocols that are about the server: `stats`, `flush_all`,
//! `cache_memlimit`, and the password.
//!
//! | file | what |
//! |---|---|
//! | here | the rows and what they do |
//! | `stats` | the pages of figures |
//!
//! Tests: the server's `tests/memcached.rs`.

pub mod flushing;
mod stats;

use std::time::Duration;

use pantala_commands::families::memcached::is_answered;
use pantala_commands::{Call, Command, CommandResult, Flags, Group, Handler, Stop};
use pantala_keyspace::DbIndex;
use pantala_memcached::binary::reply::Failure;
use pantala_memcached::binary::{self, Parts, Request};
use pantala_memcached::expiry::Expires;
use pantala_memcached::{number, reply, sasl};
use pantala_settings::Caller;

use super::client::authenticate;
use crate::Operator;
use stats::write_stats;

/// The rows of this family.
pub const ROWS: &[Command] = &[
    figures("mc.stats", stats, "INFO").summary("Returns figures of the server."),
    figures("mc.stats.reset", stats, "CONFIG|RESETSTAT").summary("Counts from zero."),
    figures("mc.stats.conns", stats, "CLIENT|LIST").summary("Returns the connections."),
    figures("mc.stats.settings", stats, "CONFIG|GET").summary("Returns the settings."),
    Command::write("mc.flush_all", flush_all, Group::Memcached)
        .arity(-2)
        .allowed_as("FLUSHDB")
        .flags(Flags::LANE.union(Flags::OUTSIDE).union(Flags::WHOLE))
        .syntax("delay [words]")
        .summary("Removes all keys of database 0, at once or later."),
    of_server("mc.cache_memlimit", cache_memlimit)
        .allowed_as("CONFIG|SET")
        .syntax("megabytes [words]")
        .summary("Sets maxmemory."),
    Command::new("mc.auth", auth, Group::Memcached)
        .arity(-5)
        .secrets(|_, position| position == 2)
        .allowed_as("AUTH")
        .flags(Flags::FAST.union(Flags::NO_AUTH).union(Flags::LOADING).union(Flags::STALE))
        .syntax("key data flags exptime [words]")
        .summary("Authenticates the connection."),
    figures("mc.b.stats", binary_stats, "INFO").summary("Returns figures of the server."),
    figures("mc.b.stats.reset", binary_stats, "CONFIG|RESETSTAT").summary("Counts from zero."),
    figures("mc.b.stats.conns", binary_stats, "CLIENT|LIST").summary("Returns the connections."),
    figures("mc.b.stats.settings", binary_stats, "CONFIG|GET").summary("Returns the settings."),
    Command::write("mc.b.flush", binary_flush, Group::Memcached)
        .arity(-3)
        .allowed_as("FLUSHDB")
        .flags(Flags::LANE.union(Flags::OUTSIDE).union(Flags::WHOLE))
        .syntax("none header")
        .summary("Removes all keys of database 0, at once or later."),
    Command::new("mc.b.auth", binary_auth, Group::Memcached)
        .arity(-4)
        .secrets(|_, position| position == 3)
        .allowed_as("AUTH")
        .flags(Flags::FAST.union(Flags::NO_AUTH).union(Flags::LOADING).union(Flags::STALE))
        .syntax("mechanism header data")
        .summary("Authenticates the connection."),
];

const fn of_server(name: &'static str, handler: Handler) -> Command {
    Command::new(name, handler, Group::Memcached)
        .arity(-2)
        .flags(Flags::LANE.union(Flags::OPERATOR).union(Flags::LOADING).union(Flags::STALE))
}

/// A row for a page of statistics, for users that may run the command `like`.
const fn figures(name: &'static str, handler: Handler, like: &'static str) -> Command {
    of_server(name, handler).allowed_as(like).flags(Flags::OUTSIDE).syntax("what [header]")
}

/// The least value of `cache_memlimit`, in megabytes.
const LEAST_MEGABYTES: u64 = 8;
const TOO_SMALL: &[u8] = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
const AUTH_FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";

/// `flush_all delay`: empties database 0, at once or later.
fn flush_all(call: &mut Call<'_, '_>) -> CommandResult {
    let delay_s = number::signed(call.args[1]).unwrap_or_default();
    let text = if flush(call, delay_s)? { reply::OK } else { reply::OUT_OF_MEMORY };
    answer(call, text);
    Ok(())
}

/// Whether the flush is possible; if so, does or schedules it. The delay is read like an item's
/// time to live: a large one is a point in time, and one that has passed means now.
fn flush(call: &mut Call<'_, '_>, delay_s: i64) -> Result<bool, Stop> {
    let (operator, now) = (Operator::of(call), call.now());
    if let Expires::At(moment) = Expires::of(delay_s, now) {
        let delay_ms = moment.0.saturating_sub(now.0).unsigned_abs();
        return Ok(flushing::flush_in(operator, Duration::from_millis(delay_ms)).is_ok());
    }
    operator.delayed_flush.cancel();
    let db = DbIndex(0);
    let keys = call.space().sizes(db).map_or(0, |sizes| sizes.keys());
    let garbage = call.keys.flush(Some(db))?;
    let tally = call.keys.scope().tally;
    tally.more_changes.add(keys);
    call.space().dispose(garbage, true, tally);
    Ok(true)
}

/// FLUSH of the binary protocol.
fn binary_flush(call: &mut Call<'_, '_>) -> CommandResult {
    let Some(request) = Parts::request(call.args[2], b"", b"") else { return Ok(()) };
    let Request { asked, is_quiet, command: binary::Command::Flush { delay_s } } = request else {
        return Ok(());
    };
    if !flush(call, delay_s)? {
        binary::reply::failure(call.reply.output(), asked, Failure::OutOfMemory);
    } else if !is_quiet {
        binary::reply::done(call.reply.output(), asked, 0);
    }
    Ok(())
}

/// SASL AUTH and SASL STEP: PLAIN, with the name of the user and the password.
fn binary_auth(call: &mut Call<'_, '_>) -> CommandResult {
    let Some(asked) = Parts::asked(call.args[2]) else { return Ok(()) };
    let (mechanism, data) = (call.args[1], call.args[3]);
    let is_plain = mechanism == sasl::MECHANISMS.as_bytes();
    if is_plain && data.is_empty() {
        binary::reply::more_wanted(call.reply.output(), asked);
        return Ok(());
    }
    let said = sasl::plain(data).filter(|_| is_plain);
    let fits = said.is_some_and(|said| authenticate(call, said.user, said.password).is_ok());
    let out = call.reply.output();
    match fits {
        true => binary::reply::text(out, asked, sasl::AUTHENTICATED),
        false => binary::reply::failure(out, asked, Failure::Unauthenticated),
    }
    Ok(())
}

/// STAT: the lines of `stats`, each in a reply of its own.
fn binary_stats(call: &mut Call<'_, '_>) -> CommandResult {
    let Some(asked) = Parts::asked(call.args[2]) else { return Ok(()) };
    let mut lines = Vec::new();
    let is_known = write_stats(Operator::of(call), call.args[1], &mut lines);
    let out = call.reply.output();
    if !is_known {
        binary::reply::failure(out, asked, Failure::NotFound);
        return Ok(());
    }
    for line in String::from_utf8_lossy(&lines).lines() {
        let figure = line.strip_prefix("STAT ").and_then(|line| line.split_once(' '));
        if let Some((name, value)) = figure {
            binary::reply::figure(out, asked, name, value);
        }
    }
    binary::reply::figure(out, asked, "", "");
    Ok(())
}

/// `cache_memlimit megabytes`: does what `CONFIG SET maxmemory` does.
fn cache_memlimit(call: &mut Call<'_, '_>) -> CommandResult {
    let megabytes = number::unsigned(call.args[1]).unwrap_or_default();
    if megabytes < LEAST_MEGABYTES {
        answer(call, TOO_SMALL);
        return Ok(());
    }
    let bytes = megabytes.saturating_mul(1 << 20).to_string();
    super::config::apply(Operator::of(call), &[(b"maxmemory", bytes.as_bytes())], Caller::Remote)?;
    answer(call, reply::OK);
    Ok(())
}

/// `set any 0 0 12` with the data `default password`: user name and password, as memcached's option
/// `-Y` expects them.
fn auth(call: &mut Call<'_, '_>) -> CommandResult {
    let data = call.args[2];
    let blank = data.iter().position(|byte| *byte == b' ').unwrap_or(data.len());
    let (user, password) = (&data[..blank], data.get(blank + 1..).unwrap_or_default());
    let fits = authenticate(call, user, password).is_ok();
    call.reply.raw(if fits { reply::STORED } else { AUTH_FAILED });
    Ok(())
}

fn stats(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    let out = call.reply.output();
    if !write_stats(operator, call.args[1], out) {
        out.extend_from_slice(b"ERROR\r\n");
    }
    Ok(())
}

fn answer(call: &mut Call<'_, '_>, text: &[u8]) {
    if is_answered(call.args) {
        call.reply.raw(text);
    }
}
