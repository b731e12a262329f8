//! HOTKEYS, as in Redis 8.6: which keys cost most (`pantala_engine::stats::hot_keys`).

use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, Command, CommandResult, Flags, Group, error, help};
use pantala_engine::Engine;
use pantala_engine::stats::hot_keys::{
    Heaviest, HotKeysReport, HotKeysRequest, MOST_RATIO, Metrics,
};
use pantala_protocol::Reply;

use crate::info::cpu_seconds;

const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT);
/// Flags of forms that wait for other threads' notes, if only for moments.
const ASKS: Flags = ADMIN.union(Flags::LANE).union(Flags::OPERATOR);

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::container("HOTKEYS", Group::Server, SUBCOMMANDS)
    .since("8.6.0")
    .complexity("Depends on the subcommand.")
    .summary("Which keys cost most time and most bytes.")];

const SUBCOMMANDS: &[Command] = &[
    Command::new("START", start, Group::Server)
        .of("HOTKEYS")
        .arity(-2)
        .flags(ADMIN)
        .since("8.6.0")
        .syntax(
            "(METRICS count:int [CPU] [NET]) [COUNT k:int] [DURATION seconds:int] \
             [SAMPLE ratio:int] [SLOTS count:int slot:int [slot ...]]",
        )
        .summary("Begins to add up what commands cost, by key."),
    Command::new("STOP", stop, Group::Server)
        .of("HOTKEYS")
        .arity(2)
        .flags(ADMIN)
        .since("8.6.0")
        .summary("Ends the adding up; what was found is kept."),
    Command::new("GET", get, Group::Server)
        .of("HOTKEYS")
        .arity(2)
        .flags(ASKS)
        .since("8.6.0")
        .complexity("O(K) for K keys that are told")
        .summary("Tells the keys that cost most."),
    Command::new("RESET", reset, Group::Server)
        .of("HOTKEYS")
        .arity(2)
        .flags(ASKS)
        .since("8.6.0")
        .summary("Forgets what was found."),
    Command::new("HELP", help, Group::Server)
        .of("HOTKEYS")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("8.6.0")
        .summary("Tells what the subcommands do."),
];

const IN_PROGRESS: ClientError =
    ClientError::text("ERR hotkey tracking session already in progress");
const STOP_FIRST: ClientError =
    ClientError::text("ERR hotkey tracking session in progress, stop tracking first");
const NO_METRICS: ClientError = ClientError::text("ERR METRICS parameter is required");
const BAD_METRICS: ClientError = ClientError::text("ERR METRICS count must be > 0 and <= 2");
const CPU_TWICE: ClientError = ClientError::text("ERR METRICS CPU defined more than once!");
const NET_TWICE: ClientError = ClientError::text("ERR METRICS NET defined more than once!");
const TOO_FEW_METRICS: ClientError =
    ClientError::text("ERR METRICS count does not match number of metric types provided");
const UNKNOWN_METRICS: ClientError =
    ClientError::text("ERR METRICS no valid metrics passed. Supported: CPU|NET");
const BAD_COUNT: ClientError = ClientError::text("ERR COUNT must be between 1 and 64");
const BAD_DURATION: ClientError = ClientError::text("ERR DURATION must be between 1 and 1000000");
const BAD_RATIO: ClientError = ClientError::text("ERR SAMPLE ratio must be positive");
const NO_SLOTS: ClientError =
    ClientError::text("ERR SLOTS parameter cannot be used in non-cluster mode");

/// How many keys are reported by default.
const USUAL_COUNT: usize = 10;
/// The last slot of a cluster.
const LAST_SLOT: i64 = 16_383;

fn start(call: &mut Call<'_, '_>) -> CommandResult {
    let hot_keys = &Engine::of(call).stats.hot_keys;
    if hot_keys.is_running(call.clock()) {
        return Err(IN_PROGRESS.into());
    }
    let wanted = parse(&call.args[2..])?;
    hot_keys.start(wanted, call.clock()).map_err(|_| IN_PROGRESS)?;
    call.reply.ok();
    Ok(())
}

/// Parses the words after START.
fn parse(words: &[&[u8]]) -> Result<HotKeysRequest, ClientError> {
    let [metrics, count, rest @ ..] = words else { return Err(NO_METRICS) };
    if !is_word(metrics, "METRICS") {
        return Err(NO_METRICS);
    }
    let count = number(count, 2, BAD_METRICS)? as usize;
    let metrics = parse_metrics(&rest[..count.min(rest.len())], count)?;
    let mut wanted =
        HotKeysRequest { metrics, count: USUAL_COUNT, ratio: 1, lasts_ms: None, cpu_ms: cpu_ms() };
    let mut options = &rest[count..];
    while let [word, value, after @ ..] = options {
        if is_word(word, "COUNT") {
            wanted.count = number(value, 64, BAD_COUNT)? as usize;
        } else if is_word(word, "DURATION") {
            wanted.lasts_ms = Some(number(value, 1_000_000, BAD_DURATION)? * 1000);
        } else if is_word(word, "SAMPLE") {
            wanted.ratio = number(value, MOST_RATIO.into(), BAD_RATIO)? as u32;
        } else if is_word(word, "SLOTS") {
            return Err(NO_SLOTS);
        } else {
            return Err(error::SYNTAX);
        }
        options = after;
    }
    if options.is_empty() { Ok(wanted) } else { Err(error::SYNTAX) }
}

/// Parses this many metrics; unknown words stand for metrics of later versions.
fn parse_metrics(words: &[&[u8]], count: usize) -> Result<Metrics, ClientError> {
    let mut metrics = Metrics { cpu: false, net: false };
    let known = [("CPU", &mut metrics.cpu, CPU_TWICE), ("NET", &mut metrics.net, NET_TWICE)];
    for (name, is_wanted, twice) in known {
        match words.iter().filter(|word| is_word(word, name)).count() {
            0 => {}
            1 => *is_wanted = true,
            _ => return Err(twice),
        }
    }
    if words.len() < count {
        return Err(TOO_FEW_METRICS);
    }
    if metrics.cpu || metrics.net { Ok(metrics) } else { Err(UNKNOWN_METRICS) }
}

/// A number from 1 to `most`.
fn number(word: &[u8], most: i64, wrong: ClientError) -> Result<i64, ClientError> {
    parse_i64(word).filter(|number| (1..=most).contains(number)).ok_or(wrong)
}

fn cpu_ms() -> [u64; 2] {
    cpu_seconds().map(|seconds| (seconds * 1000.0) as u64)
}

fn stop(call: &mut Call<'_, '_>) -> CommandResult {
    match Engine::of(call).stats.hot_keys.stop(call.clock()) {
        true => call.reply.ok(),
        false => call.reply.null(),
    }
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> CommandResult {
    let stats = &Engine::of(call).stats;
    stats.hot_keys.reset(call.clock(), &stats.tallies).map_err(|_| STOP_FIRST)?;
    call.reply.ok();
    Ok(())
}

fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let stats = &Engine::of(call).stats;
    match stats.hot_keys.report(call.clock(), &stats.tallies) {
        Some(report) => {
            // As a cluster would, one report for each node that answers.
            call.reply.array(1);
            reply_report(&mut call.reply, &report);
        }
        None => call.reply.null(),
    }
    Ok(())
}

fn reply_report(reply: &mut Reply<'_>, report: &HotKeysReport) {
    let HotKeysReport { cpu, net, .. } = report;
    reply.map(7 + if cpu.is_some() { 3 } else { 0 } + if net.is_some() { 2 } else { 0 });
    reply_number(reply, "tracking-active", report.is_active.into());
    reply_number(reply, "sample-ratio", report.ratio.into());
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.int(0);
    reply.int(LAST_SLOT);
    reply_number(reply, "all-commands-all-slots-us", report.all_us);
    reply_number(reply, "net-bytes-all-commands-all-slots", report.all_bytes);
    reply_number(reply, "collection-start-time-unix-ms", report.began.0.max(0).unsigned_abs());
    reply_number(reply, "collection-duration-ms", report.lasted_ms.unsigned_abs());
    if cpu.is_some() {
        let [user, system] = cpu_ms();
        let [user_before, system_before] = report.cpu_ms;
        reply_number(reply, "total-cpu-time-user-ms", user.saturating_sub(user_before));
        reply_number(reply, "total-cpu-time-sys-ms", system.saturating_sub(system_before));
    }
    if let Some(net) = net {
        reply_number(reply, "total-net-bytes", net.total);
    }
    let keys = [("by-cpu-time-us", cpu), ("by-net-bytes", net)];
    for (name, heaviest) in keys {
        if let Some(heaviest) = heaviest {
            reply_keys(reply, name, heaviest);
        }
    }
}

fn reply_number(reply: &mut Reply<'_>, name: &str, value: u64) {
    reply.bulk(name.as_bytes());
    reply.int(value.cast_signed());
}

fn reply_keys(reply: &mut Reply<'_>, name: &str, heaviest: &Heaviest) {
    reply.bulk(name.as_bytes());
    reply.array(2 * heaviest.keys.len());
    for (key, weight) in &heaviest.keys {
        reply.bulk(key);
        reply.int(weight.cast_signed());
    }
}
