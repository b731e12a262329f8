//! DEBUG: for tests, measurements and diagnosis.
//!
//! The row runs outside the gate: nothing here may hold up FLUSHALL or the cut of a snapshot. Every
//! subcommand locks one partition at a time, for one key or a small batch.
//!
//! Not here: MALLCTL (`allocator`), POPULATE (`populate`), DIGEST (`digest`), RELOAD (`reload`),
//! JMAP (`jmap`), tables (`tables`), switches (`switches`).

mod allocator;
mod digest;
mod jmap;
mod populate;
mod reload;
mod switches;
mod tables;

use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_base::{glob, os};
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, error, options::is_word, reply_help,
};
use pantala_keyspace::{Aborted, Expiry, Locked, PartitionId, Scope};
use pantala_settings::field::Permission;
use pantala_table::{Encoding, ValueRef};

use super::is_local;
use crate::Operator;
use pantala_engine::{Engine, Message};

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::new("DEBUG", debug, Group::Server)
    .arity(-2)
    .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE))
    .flags(Flags::LANE.union(Flags::OUTSIDE).union(Flags::WHOLE))
    .complexity("Depends on the subcommand.")
    .syntax("subcommand [arg [arg ...]]")
    .summary("For tests and for looking inside.")];

/// One form of DEBUG.
struct Form {
    name: &'static str,
    /// The least and the most arguments after the name.
    arguments: (usize, usize),
    run: fn(&mut Call<'_, '_>) -> CommandResult,
    syntax: &'static str,
    summary: &'static str,
}

const fn form(
    name: &'static str,
    arguments: (usize, usize),
    run: fn(&mut Call<'_, '_>) -> CommandResult,
    syntax: &'static str,
    summary: &'static str,
) -> Form {
    Form { name, arguments, run, syntax, summary }
}

const ANY: usize = usize::MAX;

const FORMS: [Form; 33] = [
    form("CLIENT-ENFORCE-REPLY-LIST", (1, 1), fine, "(0 | 1)", "Accepted, without effect."),
    form("CHANGE-REPL-ID", (0, 0), change_history, "", "Gives the history of the data another id."),
    form(
        "AOF-FLUSH-SLEEP",
        (1, 1),
        switches::slow_file,
        "microseconds:int",
        "Waits so long before it writes to the append-only file.",
    ),
    form(
        "CLUSTER-FENCE",
        (1, 1),
        switches::set_fence,
        "(milliseconds:int | OFF)",
        "Permits writes to this node of a cluster for so long.",
    ),
    form(
        "CONFIG-REWRITE-FORCE-ALL",
        (0, 0),
        rewrite_all,
        "",
        "CONFIG REWRITE with a line of every setting.",
    ),
    form("DIGEST", (0, 0), digest::digest, "", "What all data comes down to."),
    form("DIGEST-VALUE", (1, ANY), digest::of_values, "key [key ...]", "The same for values."),
    form("DICT-RESIZING", (1, 1), fine, "(0 | 1)", "Accepted, without effect."),
    form("ERROR", (1, 1), fail, "text", "Answers this error."),
    form("HELP", (0, 0), help, "", "Tells what the subcommands do."),
    form("HTSTATS", (1, 1), tables::of_database, "db:int", "Entries of a database's tables."),
    form("HTSTATS-KEY", (1, 1), tables::of_key, "key", "Entries of a collection's table."),
    form("JMAP", (0, 1), jmap::jmap, "[count:int]", "A report on memory, by type and size."),
    form("LISTPACK", (1, 1), tables::packed, "key", "Logs how many entries a packed value has."),
    form("LOADAOF", (0, 0), reload::load_steps, "", "Forgets everything, and loads the file."),
    form("LOG", (1, 1), log, "text", "Writes a line to the log."),
    form("MALLCTL", (1, 1), allocator::number, "name", "A number that the allocator tells."),
    form("MALLCTL-STR", (1, 2), allocator::text, "name [VOID]", "Its text, or what it is to do."),
    form("OBJECT", (1, 2), object, "key [FAST]", "How a value is kept."),
    form(
        "PAUSE-CRON",
        (1, 1),
        switches::pause_housekeeping,
        "(0 | 1)",
        "Stops what the server does of its own accord.",
    ),
    form(
        "POPULATE",
        (1, ANY),
        populate::populate,
        populate::SYNTAX,
        "Makes many keys, without stopping other clients.",
    ),
    form("PROTOCOL", (1, 1), protocol, "type", "Answers a reply of this type."),
    form("QUICKLIST-PACKED-THRESHOLD", (1, 1), fine, "bytes", "Accepted, without effect."),
    form("REPLYBUFFER", (2, 2), fine, "name value", "Accepted, without effect."),
    form("REPLICATE", (1, ANY), replicate, "command [arg ...]", "Sends this to replicas alone."),
    form(
        "RESTART",
        (0, 1),
        unable,
        "[milliseconds:int]",
        "Refused: the process does not start itself anew.",
    ),
    form(
        "RELOAD",
        (0, 3),
        reload::reload,
        "[NOSAVE] [NOFLUSH] [MERGE]",
        "Saves, forgets everything, and loads it again.",
    ),
    form("SEGFAULT", (0, 0), crash, "", "Ends the process, with the report of a crash."),
    form(
        "SET-ACTIVE-EXPIRE",
        (1, 1),
        switches::set_sweep,
        "(0 | 1)",
        "Stops the sweep of expired keys.",
    ),
    form(
        "SET-DISABLE-DENY-SCRIPTS",
        (1, 1),
        switches::let_scripts_debug,
        "(0 | 1)",
        "Lets scripts call DEBUG.",
    ),
    form(
        "SET-SKIP-CHECKSUM-VALIDATION",
        (1, 1),
        switches::skip_checksums,
        "(0 | 1)",
        "RESTORE does not look at checksums.",
    ),
    form(
        "SLEEP",
        (1, 1),
        sleep,
        "seconds:double",
        "Serves nobody for this long; inside a transaction or script: answers later.",
    ),
    form(
        "STRINGMATCH-LEN",
        (2, 2),
        string_match,
        "length:int pattern",
        "Matches a pattern with a string of letters a.",
    ),
];

fn debug(call: &mut Call<'_, '_>) -> CommandResult {
    if !is_allowed(call) {
        const REFUSED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option \
            is set to \"local\", you can run it from a local connection, otherwise you need to \
            set this option in the configuration file, and then restart the server.";
        return Err(ClientError::text(REFUSED).into());
    }
    let count = call.args.len() - 2;
    let is_meant = |form: &&Form| {
        let (least, most) = form.arguments;
        is_word(call.args[1], form.name) && (least..=most).contains(&count)
    };
    match FORMS.iter().find(is_meant) {
        Some(form) => (form.run)(call),
        None => {
            let word = String::from_utf8_lossy(call.args[1]);
            let what = "unknown subcommand or wrong number of arguments for";
            Err(ClientError::new(format!("ERR {what} '{word}'. Try DEBUG HELP.")).into())
        }
    }
}

fn is_allowed(call: &Call<'_, '_>) -> bool {
    match Engine::of(call).settings.current().enable_debug_command {
        Permission::Yes => true,
        Permission::No => false,
        Permission::Local => is_local(call.session),
    }
}

fn help(call: &mut Call<'_, '_>) -> CommandResult {
    let mut lines = Vec::new();
    for form in &FORMS {
        lines.push(format!("{} {}", form.name, form.syntax).trim_end().to_owned());
        lines.push(format!("    {}", form.summary));
    }
    reply_help(&mut call.reply, "DEBUG", &lines);
    Ok(())
}

fn fine(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.ok();
    Ok(())
}

fn rewrite_all(call: &mut Call<'_, '_>) -> CommandResult {
    super::config::rewrite_in(call, true)
}

fn change_history(call: &mut Call<'_, '_>) -> CommandResult {
    Operator::of(call).replication.downstream.stream.change_id();
    call.reply.ok();
    Ok(())
}

fn unable(call: &mut Call<'_, '_>) -> CommandResult {
    let word = String::from_utf8_lossy(call.args[1]).to_ascii_uppercase();
    Err(ClientError::new(format!("ERR DEBUG {word} is not supported")).into())
}

/// The longest sleep; longer ones are taken for typing errors.
const LONGEST_SLEEP_S: f64 = 86_400.0;
/// The longest sleep in a transaction or script, which holds partitions meanwhile.
const LONGEST_SLEEP_INSIDE_S: f64 = 1.0;

fn sleep(call: &mut Call<'_, '_>) -> CommandResult {
    let text = std::str::from_utf8(call.args[2]).unwrap_or_default();
    // As in Redis, what is no number counts as zero.
    let seconds: f64 = text.parse().unwrap_or(0.0);
    let all = Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_SLEEP_S));
    Operator::of(call).replication.following.sleep_for(all);
    let most = if call.may_wait { LONGEST_SLEEP_S } else { LONGEST_SLEEP_INSIDE_S };
    let sleeps = Duration::from_secs_f64(seconds.clamp(0.0, most));
    if call.may_wait {
        let engine = Engine::of(call);
        let until_us = monotonic_us() + sleeps.as_micros() as u64;
        engine.workers.post_all(&|| Message::Sleep { until_us });
        let left = || Duration::from_micros(until_us.saturating_sub(monotonic_us()));
        while !left().is_zero() && !engine.condition.shutdown.pause_for(left()) {}
    } else {
        std::thread::sleep(sleeps);
    }
    call.reply.ok();
    Ok(())
}

fn replicate(call: &mut Call<'_, '_>) -> CommandResult {
    call.record_other_for_replicas(&call.args[2..]);
    call.reply.ok();
    Ok(())
}

fn crash(_call: &mut Call<'_, '_>) -> CommandResult {
    os::raise_fault();
    Err(ClientError::text("ERR the process goes on").into())
}

fn fail(call: &mut Call<'_, '_>) -> CommandResult {
    Err(ClientError::bytes(call.args[2].to_vec()).into())
}

fn log(call: &mut Call<'_, '_>) -> CommandResult {
    let text = String::from_utf8_lossy(call.args[2]);
    tracing::warn!("DEBUG LOG: {text}");
    call.reply.ok();
    Ok(())
}

/// The longest string that STRINGMATCH-LEN makes.
const MOST_MATCHED: i64 = 1 << 24;

fn string_match(call: &mut Call<'_, '_>) -> CommandResult {
    let length = call.int(2)?;
    if !(0..=MOST_MATCHED).contains(&length) {
        return Err(error::OUT_OF_RANGE.into());
    }
    let text = vec![b'a'; length.unsigned_abs() as usize];
    call.reply.int(i64::from(glob::matches(call.args[3], &text)));
    Ok(())
}

/// Runs something with a key's partition held; waits for the partition.
fn with_key<'k, T>(
    keys: &mut Locked<'k>,
    key: &[u8],
    act: impl FnOnce(&mut Locked<'k>, pantala_keyspace::Key<'_>) -> T,
) -> Result<T, Aborted> {
    let scope: Scope<'k> = *keys.scope();
    let key = scope.space.key(key);
    if keys.is_held(key.hash) {
        return Ok(act(keys, key));
    }
    let plan = pantala_keyspace::LockPlan::of(std::iter::once(key.hash));
    Ok(act(&mut scope.space.lock_or_abort(&plan, scope)?, key))
}

fn object(call: &mut Call<'_, '_>) -> CommandResult {
    let line = with_key(call.keys, call.args[2], |locked, key| {
        let scope = *locked.scope();
        // An expired key that is still there is shown, too.
        locked.set_scope(Scope { sees_expired: true, ..scope });
        let line = object_line(locked, key);
        locked.set_scope(scope);
        line
    })?;
    call.reply.simple(&line.ok_or(error::NO_SUCH_KEY)?);
    Ok(())
}

/// A line about the representation of a value.
fn object_line(locked: &mut Locked<'_>, key: pantala_keyspace::Key<'_>) -> Option<String> {
    let opened = locked.peek(key);
    let (table, place) = opened.record()?;
    let encoding = match table.encoding(place) {
        Encoding::Int => "int",
        Encoding::Inline => "embstr",
        Encoding::Long => "raw",
        Encoding::Object => match table.value(place) {
            ValueRef::Object(object) => object.encoding(),
            ValueRef::Str(_) => "raw",
        },
    };
    let length = opened.string().ok().flatten().map_or(0, |string| string.len());
    Some(format!(
        "Value at:0x{:x} refcount:1 encoding:{encoding} serializedlength:{} lru:0 \
         lru_seconds_idle:0 hotness:{} sticky:{} partition:{} bytes:{}",
        key.hash,
        length + 1,
        table.hotness(place),
        i32::from(table.sticky(place)),
        PartitionId::of(key.hash).0,
        table.record_bytes(place),
    ))
}

fn protocol(call: &mut Call<'_, '_>) -> CommandResult {
    const WRONG: &str = "ERR Wrong protocol type name. Please use one of the following: \
        string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false";
    let reply = &mut call.reply;
    match String::from_utf8_lossy(call.args[2]).to_ascii_lowercase().as_str() {
        "string" => reply.bulk(b"Hello World"),
        "integer" => reply.int(12345),
        "double" => reply.double(3141.0 / 1000.0),
        "null" => reply.null(),
        "bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        "array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.int(number));
        }
        "set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.int(number));
        }
        "map" => {
            reply.map(3);
            for number in 0..3 {
                reply.int(number);
                reply.bool(number == 1);
            }
        }
        "attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        "push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
        }
        "verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        "true" => reply.bool(true),
        "false" => reply.bool(false),
        _ => return Err(ClientError::text(WRONG).into()),
    }
    Ok(())
}

/// Sets a string if the key is absent; whether it did.
fn set_if_absent(
    locked: &mut Locked<'_>,
    key: pantala_keyspace::Key<'_>,
    value: &[u8],
    expiry: Expiry,
) -> bool {
    let mut opened = locked.open(key);
    if opened.exists() {
        return false;
    }
    opened.set_string(value, expiry);
    opened.publish(pantala_keyspace::event::UNNAMED);
    true
}
