//! COMMANDLOG and SLOWLOG, its older name for the log of slow commands.

use pantala_base::number::parse_i64;
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, help, options::is_word,
};

use pantala_engine::Engine;
use pantala_engine::stats::logs::{Entry, Kind, Log};

const ADMIN: Flags = Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE);
const ANY_TIME: Flags = Flags::LOADING.union(Flags::STALE);
const TIPS_GET: &[&str] = &["request_policy:all_nodes", "nondeterministic_output"];
const TIPS_LEN: &[&str] =
    &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"];
const TIPS_RESET: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const TYPES: &str = "(type: SLOW | LARGE-REQUEST | LARGE-REPLY)";

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::container("COMMANDLOG", Group::Server, COMMANDLOG)
        .since("8.1.0")
        .complexity("Depends on the subcommand.")
        .summary("Commands that took long, or whose request or reply was large."),
    Command::container("SLOWLOG", Group::Server, SLOWLOG)
        .since("2.2.12")
        .complexity("Depends on the subcommand.")
        .summary("Commands that took long."),
];

const COMMANDLOG: &[Command] = &[
    Command::new("GET", get, Group::Server)
        .of("COMMANDLOG")
        .arity(4)
        .flags(ADMIN)
        .tips(TIPS_GET)
        .since("8.1.0")
        .complexity("O(N) for N entries")
        .syntax("count:int (type: SLOW | LARGE-REQUEST | LARGE-REPLY)")
        .summary("Tells the newest entries of a log; all of them for -1."),
    Command::new("LEN", len, Group::Server)
        .of("COMMANDLOG")
        .arity(3)
        .flags(ADMIN)
        .tips(TIPS_LEN)
        .since("8.1.0")
        .syntax(TYPES)
        .summary("Tells how many entries a log has."),
    Command::new("RESET", reset, Group::Server)
        .of("COMMANDLOG")
        .arity(3)
        .flags(ADMIN)
        .tips(TIPS_RESET)
        .since("8.1.0")
        .complexity("O(N) for N entries")
        .syntax(TYPES)
        .summary("Forgets the entries of a log."),
    Command::new("HELP", help, Group::Server)
        .of("COMMANDLOG")
        .arity(2)
        .flags(ANY_TIME)
        .since("8.1.0")
        .summary("Tells what the subcommands do."),
];

const SLOWLOG: &[Command] = &[
    Command::new("GET", slow_get, Group::Server)
        .of("SLOWLOG")
        .arity(-2)
        .flags(ADMIN)
        .tips(TIPS_GET)
        .since("2.2.12")
        .complexity("O(N) for N entries")
        .syntax("[count:int]")
        .summary("Tells the newest entries: 10, or as many as asked, or all for -1."),
    Command::new("LEN", slow_len, Group::Server)
        .of("SLOWLOG")
        .arity(2)
        .flags(ADMIN)
        .tips(TIPS_LEN)
        .since("2.2.12")
        .summary("Tells how many entries there are."),
    Command::new("RESET", slow_reset, Group::Server)
        .of("SLOWLOG")
        .arity(2)
        .flags(ADMIN)
        .tips(TIPS_RESET)
        .since("2.2.12")
        .complexity("O(N) for N entries")
        .summary("Forgets the entries."),
    Command::new("HELP", help, Group::Server)
        .of("SLOWLOG")
        .arity(2)
        .flags(ANY_TIME)
        .since("6.2.0")
        .summary("Tells what the subcommands do."),
];

/// How many entries SLOWLOG GET returns by default.
const USUAL_COUNT: usize = 10;

fn log<'c>(call: &Call<'c, '_>, position: usize) -> Result<&'c Log, ClientError> {
    const WRONG: &str = "ERR type should be one of the following: slow, large-request, large-reply";
    let word = call.args[position];
    let kinds = [
        ("slow", Kind::Slow),
        ("large-request", Kind::LargeRequest),
        ("large-reply", Kind::LargeReply),
    ];
    let kind = kinds.into_iter().find(|(name, _)| is_word(word, name));
    let (_, kind) = kind.ok_or(ClientError::text(WRONG))?;
    Ok(Engine::of(call).stats.logs.of(kind))
}

fn slow<'c>(call: &Call<'c, '_>) -> &'c Log {
    Engine::of(call).stats.logs.of(Kind::Slow)
}

fn count(word: &[u8]) -> Result<usize, ClientError> {
    const WRONG: &str = "ERR count should be greater than or equal to -1";
    match parse_i64(word) {
        Some(-1) => Ok(usize::MAX),
        Some(number) => usize::try_from(number).map_err(|_| ClientError::text(WRONG)),
        None => Err(ClientError::text(WRONG)),
    }
}

fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let count = count(call.args[2])?;
    let entries = log(call, 3)?.newest(count);
    reply_entries(call, &entries);
    Ok(())
}

fn slow_get(call: &mut Call<'_, '_>) -> CommandResult {
    let count = match call.args {
        [_, _] => USUAL_COUNT,
        [_, _, word] => count(word)?,
        _ => return Err(unknown_form(call.args[1])),
    };
    let entries = slow(call).newest(count);
    reply_entries(call, &entries);
    Ok(())
}

fn unknown_form(word: &[u8]) -> pantala_commands::Stop {
    let word = String::from_utf8_lossy(word);
    let what = "unknown subcommand or wrong number of arguments for";
    ClientError::new(format!("ERR {what} '{word}'. Try SLOWLOG HELP.")).into()
}

fn reply_entries(call: &mut Call<'_, '_>, entries: &[Entry]) {
    let reply = &mut call.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.int(entry.id.cast_signed());
        reply.int(entry.unix_us / 1_000_000);
        reply.int(entry.value);
        reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| reply.bulk(arg));
        reply.bulk(entry.peer.as_bytes());
        reply.bulk(&entry.name);
    }
}

fn len(call: &mut Call<'_, '_>) -> CommandResult {
    let len = log(call, 2)?.count();
    call.reply.int(len.cast_signed() as i64);
    Ok(())
}

fn slow_len(call: &mut Call<'_, '_>) -> CommandResult {
    let len = slow(call).count();
    call.reply.int(len.cast_signed() as i64);
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> CommandResult {
    log(call, 2)?.clear();
    call.reply.ok();
    Ok(())
}

fn slow_reset(call: &mut Call<'_, '_>) -> CommandResult {
    slow(call).clear();
    call.reply.ok();
    Ok(())
}
