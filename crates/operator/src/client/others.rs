//! CLIENT commands about other connections.
//!
//! Only its worker can look at a connection, so these run on the slow lane, ask every worker
//! through its inbox, and wait for the answers, but not for ever: a worker that hangs must not hold
//! up an operator who wants to know why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use pantala_base::clock::monotonic_us;
use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, Command, CommandResult, Flags, error};

use super::words::FilterWords;
use super::{sub, words};
use crate::Operator;
use pantala_engine::Engine;
use pantala_engine::clients::filter::ClientFilter;
use pantala_engine::condition::pause::PauseScope;
use pantala_replication::replica;
use pantala_workers::workers::inbox::Message;

/// The filters of CLIENT KILL, and its old form with an address.
const KILL: &str = "(filter: old-format | (new-format: [ID client-id:int [client-id:int ...]] \
    | [TYPE (client-type: NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB)] \
    | [USER username] | [ADDR addr] | [LADDR laddr] | [SKIPME (skipme: YES | NO)] \
    | [MAXAGE maxage:int] | [NAME name] | [IDLE idle:int] | [FLAGS flags] | [LIB-NAME lib-name] \
    | [LIB-VER lib-ver] | [DB db:int] | [CAPA capa] | [IP ip] \
    | [NOT-TYPE (not-client-type: NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB)] \
    | [NOT-ID not-client-id:int [not-client-id:int ...]] | [NOT-USER not-username] \
    | [NOT-ADDR not-addr] | [NOT-LADDR not-laddr] | [NOT-NAME not-name] | [NOT-FLAGS not-flags] \
    | [NOT-LIB-NAME not-lib-name] | [NOT-LIB-VER not-lib-ver] | [NOT-DB not-db:int] \
    | [NOT-CAPA not-capa] | [NOT-IP not-ip]) ...)";

/// The filters of CLIENT LIST.
const LIST: &str = "[TYPE (client-type: NORMAL | MASTER | REPLICA | PUBSUB)] \
    [ID client-id:int [client-id:int ...]] [USER username] [ADDR addr] [LADDR laddr] \
    [SKIPME (skipme: YES | NO)] [MAXAGE maxage:int] [NAME name] [IDLE idle:int] [FLAGS flags] \
    [LIB-NAME lib-name] [LIB-VER lib-ver] [DB db:int] [CAPA capa] [IP ip] \
    [NOT-TYPE (not-client-type: NORMAL | MASTER | REPLICA | PUBSUB)] \
    [NOT-ID not-client-id:int [not-client-id:int ...]] [NOT-USER not-username] \
    [NOT-ADDR not-addr] [NOT-LADDR not-laddr] [NOT-NAME not-name] [NOT-FLAGS not-flags] \
    [NOT-LIB-NAME not-lib-name] [NOT-LIB-VER not-lib-ver] [NOT-DB not-db:int] \
    [NOT-CAPA not-capa] [NOT-IP not-ip]";

/// Flags of commands that ask all workers, and wait for them.
const ASKS: Flags = Flags::LANE.union(Flags::OUTSIDE).union(Flags::OPERATOR);

/// The longest wait for the answers of all workers.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The most rounds of asking, while connections move.
const MOST_ROUNDS: usize = 8;

/// Asks every worker; returns the answers that came in time.
fn ask<T>(operator: &Operator, message: impl Fn(Sender<T>) -> Message) -> Vec<T> {
    let (sender, receiver) = channel();
    let count = operator.workers.post_all(|| message(sender.clone()));
    drop(sender);
    let until = Instant::now() + TIMEOUT;
    let mut answers = Vec::with_capacity(count);
    // A worker that ends drops its message, and with it its sender.
    while let Ok(answer) = receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
        answers.push(answer);
    }
    if answers.len() < count {
        tracing::warn!(asked = count, answered = answers.len(), "a worker did not answer in time");
    }
    answers
}

/// Like [`ask`], and asks again while a client in transit between two workers may have been missed.
/// `more` takes one worker's answer; false from it: no further round is wanted.
fn ask_all<T>(
    operator: &Operator,
    message: impl Fn(Sender<T>) -> Message,
    mut more: impl FnMut(T) -> bool,
) {
    for _ in 0..MOST_ROUNDS {
        let arrived = operator.workers.arrived_count();
        let mut is_wanted = true;
        for answer in ask(operator, &message) {
            is_wanted &= more(answer);
        }
        if !is_wanted || operator.workers.departed_count() == arrived {
            return;
        }
    }
}

/// The lines of the clients that the filter selects, by their ids.
fn lines_of(operator: &Operator, filter: ClientFilter) -> BTreeMap<u64, String> {
    let filter = Arc::new(filter);
    let message = |answer| Message::List { filter: Arc::clone(&filter), answer };
    let mut lines = BTreeMap::new();
    ask_all(operator, message, |answer| {
        lines.extend(answer);
        true
    });
    lines.extend(replica::line(&operator.replication, &filter));
    lines
}

/// The lines of all clients, by their ids.
pub fn all_lines(operator: &Operator) -> BTreeMap<u64, String> {
    lines_of(operator, ClientFilter::default())
}

fn lines(call: &mut Call<'_, '_>, filter: ClientFilter) {
    let mut text = String::new();
    for line in lines_of(Operator::of(call), filter).values() {
        text.push_str(line);
        text.push('\n');
    }
    call.reply.verbatim(b"txt", text.as_bytes());
}

pub(super) const CLIENT_INFO: Command = sub("INFO", info)
    .arity(2)
    .flags(ASKS)
    .tips(&["nondeterministic_output"])
    .since("6.2.0")
    .summary("All that is known of this connection, in one line.");

fn info(call: &mut Call<'_, '_>) -> CommandResult {
    let mut filter = ClientFilter::default();
    filter.wanted.ids = Some(vec![call.session.id]);
    lines(call, filter);
    Ok(())
}

pub(super) const CLIENT_LIST: Command = sub("LIST", list)
    .arity(-2)
    .flags(ASKS.union(Flags::ADMIN))
    .tips(&["nondeterministic_output"])
    .since("2.4.0")
    .complexity("O(N) for N connections")
    .syntax(LIST)
    .summary("All connections, or those that fit, one a line; NOT- before a filter negates it.");

/// Adds the filter words of the arguments to a filter.
fn parse(call: &Call<'_, '_>, filter: ClientFilter) -> Result<ClientFilter, ClientError> {
    let users = Engine::of(call).acl.users();
    let known = FilterWords { databases: call.space().database_count(), users: &users };
    words::parse(&call.args[2..], &known, filter)
}

fn list(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args.len() == 3 {
        return Err(error::SYNTAX.into());
    }
    let filter = ClientFilter { asker: call.session.id, ..ClientFilter::default() };
    let filter = parse(call, filter)?;
    lines(call, filter);
    Ok(())
}

pub(super) const CLIENT_KILL: Command = sub("KILL", kill)
    .arity(-3)
    .flags(ASKS.union(Flags::ADMIN))
    .since("2.4.0")
    .complexity("O(N) for N connections")
    .syntax(KILL)
    .summary(
        "Closes connections: the one from an address, or all that LIST would show with these \
         filters; this one only with SKIPME NO.",
    );

fn kill(call: &mut Call<'_, '_>) -> CommandResult {
    let asker = call.session.id;
    let is_old_form = call.args.len() == 3;
    let mut filter = ClientFilter { asker, skip_asker: !is_old_form, ..ClientFilter::default() };
    if is_old_form {
        filter.wanted.address = Some(call.args[2].to_vec());
    } else {
        filter = parse(call, filter)?;
    }
    let filter = Arc::new(filter);
    let message = |answer| Message::Kill { filter: Arc::clone(&filter), answer };
    let mut killed = BTreeSet::new();
    ask_all(Operator::of(call), message, |answer| {
        killed.extend(answer);
        true
    });
    killed.extend(replica::kill(&Operator::of(call).replication, &filter));
    if is_old_form && killed.is_empty() {
        return Err(ClientError::text("ERR No such client").into());
    }
    if is_old_form {
        call.reply.ok();
    } else {
        call.reply.int(killed.len() as i64);
    }
    // The asking client gets its reply first.
    call.session.closing |= killed.contains(&asker);
    Ok(())
}

pub(super) const CLIENT_UNBLOCK: Command = sub("UNBLOCK", unblock)
    .arity(-3)
    .flags(ASKS.union(Flags::ADMIN))
    .since("5.0.0")
    .complexity("O(N) for N connections")
    .syntax("client-id:int [unblock-type: TIMEOUT | ERROR]")
    .summary("Ends the waiting of a connection, as if its time were over or with an error.");

fn unblock(call: &mut Call<'_, '_>) -> CommandResult {
    const REASON: ClientError =
        ClientError::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    let with_error = match call.args.get(3) {
        None => false,
        Some(word) if is_word(word, "TIMEOUT") => false,
        Some(word) if is_word(word, "ERROR") => true,
        Some(_) => return Err(REASON.into()),
    };
    let id = call.int(2)?;
    let mut was_blocked = false;
    if let Ok(client) = u64::try_from(id) {
        let message = |answer| Message::Unblock { client, with_error, answer };
        ask_all(Operator::of(call), message, |answer| {
            was_blocked |= answer;
            !answer
        });
    }
    call.reply.int(i64::from(was_blocked));
    Ok(())
}

pub(super) const CLIENT_PAUSE: Command = sub("PAUSE", pause)
    .arity(-3)
    .flags(Flags::ADMIN)
    .since("3.0.0")
    .syntax("timeout:int [mode: WRITE | ALL]")
    .summary("Holds back commands of all clients, or those that write, for milliseconds.");

fn pause(call: &mut Call<'_, '_>) -> CommandResult {
    let paused = match call.args.get(3) {
        None => PauseScope::All,
        Some(word) if is_word(word, "ALL") => PauseScope::All,
        Some(word) if is_word(word, "WRITE") => PauseScope::Writes,
        Some(_) => {
            let mode = "ERR CLIENT PAUSE mode must be WRITE or ALL";
            return Err(ClientError::text(mode).into());
        }
    };
    let timeout_ms = parse_i64(call.args[2]).ok_or(error::TIMEOUT_NOT_INTEGER)?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| error::TIMEOUT_NEGATIVE)?;
    if call.now().0.checked_add_unsigned(timeout_ms).is_none() {
        return Err(error::TIMEOUT_OUT_OF_RANGE.into());
    }
    let now_us = monotonic_us();
    let until_us = now_us.saturating_add(timeout_ms.saturating_mul(1000));
    let engine = Engine::of(call);
    engine.condition.pause.begin(&engine.space, until_us, paused, now_us);
    call.reply.ok();
    Ok(())
}

pub(super) const CLIENT_UNPAUSE: Command = sub("UNPAUSE", unpause)
    .arity(2)
    .flags(Flags::ADMIN)
    .since("6.2.0")
    .complexity("O(N) for N paused connections")
    .summary("Ends a pause.");

fn unpause(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    operator.engine.condition.pause.end(&operator.engine.space);
    operator.engine.workers.post_all(&|| pantala_engine::Message::PauseChanged);
    call.reply.ok();
    Ok(())
}
