//! CLIENT commands about other connections.
//!
//! Only its worker can look at a connection, so these run on the slow lane, ask every worker
//! through its inbox, and wait for the answers, but not for ever: a worker that is held up must not
//! hold up an operator who wants to know why.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use pantala_base::clock::monotonic_us;
use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, Done, error};

use super::words;
use crate::clients::filter::ClientFilter;
use crate::shared::Shared;
use crate::workers::inbox::Message;
use pantala_engine::Engine;
use pantala_engine::execute::Paused;

/// How long the answers of all workers together may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks every worker; the answers that came in time.
fn ask<T>(shared: &Shared, message: impl Fn(Sender<T>) -> Message) -> Vec<T> {
    let (sender, receiver) = channel();
    let count = shared.workers.post_all(|| message(sender.clone()));
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

fn lines(call: &mut Call<'_, '_>, filter: ClientFilter) {
    let filter = Arc::new(filter);
    let message = |answer| Message::List { filter: Arc::clone(&filter), answer };
    let mut lines = ask(Shared::of(call), message).concat();
    lines.sort_unstable_by_key(|(id, _)| *id);
    let mut text = String::new();
    for (_, line) in &lines {
        text.push_str(line);
        text.push('\n');
    }
    call.reply.verbatim(b"txt", text.as_bytes());
}

pub(super) fn info(call: &mut Call<'_, '_>) -> Done {
    let mut filter = ClientFilter::default();
    filter.wanted.ids = Some(vec![call.session.id]);
    lines(call, filter);
    Ok(())
}

pub(super) fn list(call: &mut Call<'_, '_>) -> Done {
    if call.args.len() == 3 {
        return Err(error::SYNTAX.into());
    }
    let filter = ClientFilter { asker: call.session.id, ..ClientFilter::default() };
    let filter = words::parse(&call.args[2..], call.space().database_count(), filter)?;
    lines(call, filter);
    Ok(())
}

pub(super) fn kill(call: &mut Call<'_, '_>) -> Done {
    let asker = call.session.id;
    let is_old_form = call.args.len() == 3;
    let mut filter = ClientFilter { asker, skip_asker: !is_old_form, ..ClientFilter::default() };
    if is_old_form {
        filter.wanted.address = Some(call.args[2].to_vec());
    } else {
        filter = words::parse(&call.args[2..], call.space().database_count(), filter)?;
    }
    let filter = Arc::new(filter);
    let message = |answer| Message::Kill { filter: Arc::clone(&filter), answer };
    let killed = ask(Shared::of(call), message).concat();
    if is_old_form && killed.is_empty() {
        return Err(ClientError::text("ERR No such client").into());
    }
    if is_old_form {
        call.reply.ok();
    } else {
        call.reply.int(killed.len() as i64);
    }
    // The one who asks is told first.
    call.session.closing |= killed.contains(&asker);
    Ok(())
}

pub(super) fn unblock(call: &mut Call<'_, '_>) -> Done {
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
        was_blocked = ask(Shared::of(call), message).contains(&true);
    }
    call.reply.int(i64::from(was_blocked));
    Ok(())
}

pub(super) fn pause(call: &mut Call<'_, '_>) -> Done {
    let paused = match call.args.get(3) {
        None => Paused::All,
        Some(word) if is_word(word, "ALL") => Paused::All,
        Some(word) if is_word(word, "WRITE") => Paused::Writes,
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
    Engine::of(call).pause.begin(until_us, paused, now_us);
    call.reply.ok();
    Ok(())
}

pub(super) fn unpause(call: &mut Call<'_, '_>) -> Done {
    let shared = Shared::of(call);
    shared.engine.pause.end();
    shared.workers.post_all(|| Message::PauseChanged);
    call.reply.ok();
    Ok(())
}
