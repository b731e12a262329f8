//! ACL LOG.

use pantala_acl::LogEntry;
use pantala_base::clock::unix_ms;
use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{Call, CommandResult, error};
use pantala_engine::Engine;
use pantala_protocol::Reply;

use super::too_many;

/// How many entries are returned by default.
const USUAL_COUNT: usize = 10;

pub(super) fn show(call: &mut Call<'_, '_>) -> CommandResult {
    let log = &Engine::of(call).acl.log;
    let count = match call.args {
        [_, _] => USUAL_COUNT,
        [_, _, word] if is_word(word, "RESET") => {
            log.clear();
            call.reply.ok();
            return Ok(());
        }
        [_, _, word] => {
            let count = parse_i64(word).ok_or(error::NOT_INTEGER)?;
            usize::try_from(count).unwrap_or(0)
        }
        _ => return Err(too_many(call).into()),
    };
    let now_ms = unix_ms().0;
    let entries = log.newest(count);
    call.reply.array(entries.len());
    entries.iter().for_each(|entry| reply_entry(&mut call.reply, entry, now_ms));
    Ok(())
}

fn reply_entry(reply: &mut Reply<'_>, entry: &LogEntry, now_ms: i64) {
    let refusal = &entry.refusal;
    reply.map(10);
    reply.bulk(b"count");
    reply.int(entry.count.cast_signed());
    let words = [
        ("reason", refusal.reason.name().as_bytes()),
        ("context", refusal.context.name().as_bytes()),
        ("object", &refusal.object),
        ("username", &refusal.user),
    ];
    for (name, word) in words {
        reply.bulk(name.as_bytes());
        reply.bulk(word);
    }
    reply.bulk(b"age-seconds");
    reply.double((now_ms - entry.updated_ms).max(0) as f64 / 1000.0);
    reply.bulk(b"client-info");
    reply.bulk(&refusal.client);
    let numbers = [
        ("entry-id", entry.id.cast_signed()),
        ("timestamp-created", entry.created_ms),
        ("timestamp-last-updated", entry.updated_ms),
    ];
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.int(number);
    }
}
