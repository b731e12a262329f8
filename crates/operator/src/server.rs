//! Commands about the process: TIME, SAVE, SHUTDOWN and the like.

use pantala_base::clock::unix_us;
use pantala_commands::{
    Call, Category, ClientError, Command, CommandResult, Flags, Group, Lane, Stop, error,
    options::is_word,
};
use pantala_engine::waiting::CountedAsBlocked;

use crate::Operator;
use crate::parts::stop_mode::StopMode;
use pantala_durability::appending::NoRewrite;
use pantala_durability::rewriting;
use pantala_durability::saving::{self, SaveFailure};

const FAST: Flags = Flags::FAST.union(Flags::LOADING).union(Flags::STALE);
const SAVES: Flags = Flags::ADMIN
    .union(Flags::NOSCRIPT)
    .union(Flags::NO_ASYNC_LOADING)
    .union(Flags::LANE)
    .union(Flags::OUTSIDE);
const OPERATORS: &[Category] = &[Category::Admin, Category::Dangerous];

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::new("TIME", time, Group::Server)
        .arity(1)
        .flags(FAST)
        .tips(&["nondeterministic_output"])
        .since("2.6.0")
        .summary("Tells the server's time: seconds and microseconds of Unix time."),
    Command::new("SAVE", save, Group::Server)
        .arity(1)
        .flags(SAVES.union(Flags::NO_MULTI))
        .complexity("O(N) for N keys")
        .summary("Saves a snapshot, and answers when the file is there. Nobody else waits."),
    Command::new("BGSAVE", save_in_background, Group::Server)
        .arity(-1)
        .flags(SAVES)
        .complexity("O(1)")
        .syntax("[operation: SCHEDULE | CANCEL]")
        .summary("Begins to save a snapshot, or calls it off."),
    Command::new("BGREWRITEAOF", rewrite_in_background, Group::Server)
        .arity(1)
        .flags(SAVES)
        .complexity("O(1)")
        .summary("Begins to rewrite the append-only file: a snapshot and what follows it."),
    Command::new("LASTSAVE", last_save, Group::Server)
        .arity(1)
        .flags(FAST)
        .categories(OPERATORS)
        .tips(&["nondeterministic_output"])
        .summary("Tells when the data was last saved, in seconds of Unix time."),
    Command::new("SHUTDOWN", shut_down, Group::Server)
        .arity(-1)
        .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE))
        .flags(Flags::ALLOW_BUSY.union(Flags::NO_MULTI).union(Flags::OUTSIDE))
        .complexity("O(N) with SAVE, for N keys")
        .syntax(
            "[abort-selector: (save-selector-block: [save-selector: NOSAVE | SAVE] [NOW] [FORCE]) \
             | ABORT]",
        )
        .summary("Ends the server."),
];

fn time(call: &mut Call<'_, '_>) -> CommandResult {
    // In a transaction or a script the time stands still, except in a script that may wait for it
    // to pass.
    let goes_on = call.may_wait || call.session.time_goes_on;
    let now_us = if goes_on { unix_us() } else { call.now().0.saturating_mul(1000) };
    call.reply.array(2);
    call.reply.bulk_int(now_us.div_euclid(1_000_000));
    call.reply.bulk_int(now_us.rem_euclid(1_000_000));
    Ok(())
}

const BUSY_SAVING: ClientError = ClientError::text("ERR Background save already in progress");
const BUSY_REWRITING: ClientError =
    ClientError::text("ERR Background append only file rewriting already in progress");
const NOT_SAVING: ClientError =
    ClientError::text("ERR Background saving is currently not in progress or scheduled");

/// Waits on its thread of the lane, in whose place another one runs.
fn save(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    let _others_run = operator.engine.lane.compensate();
    match saving::save(&operator.durability, "SAVE") {
        Ok(()) => call.reply.ok(),
        Err(SaveFailure::Busy) => return Err(BUSY_SAVING.into()),
        Err(unsaved) => return Err(ClientError::new(format!("ERR not saved: {unsaved}")).into()),
    }
    Ok(())
}

fn save_in_background(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    match &call.args[1..] {
        [] => {}
        [word] if is_word(word, "SCHEDULE") => {}
        [word] if is_word(word, "CANCEL") => {
            let current = operator.durability.saves.current().filter(|save| save.is_in_background);
            current.ok_or(NOT_SAVING)?.cancel();
            call.reply.simple("Background saving cancelled");
            return Ok(());
        }
        _ => return Err(error::SYNTAX.into()),
    }
    let Some(operator) = operator.arc() else { return Err(BUSY_SAVING.into()) };
    match saving::save_in_background(&operator.durability, "BGSAVE") {
        // As Valkey says it within a transaction.
        Ok(()) if !call.may_wait => call.reply.simple("Background saving scheduled"),
        Ok(()) => call.reply.simple("Background saving started"),
        Err(SaveFailure::Busy) => return Err(BUSY_SAVING.into()),
        Err(unsaved) => return Err(ClientError::new(format!("ERR not saved: {unsaved}")).into()),
    }
    Ok(())
}

fn rewrite_in_background(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    let is_saving = operator.durability.saves.current().is_some();
    let begun = operator
        .arc()
        .ok_or(NoRewrite::Stopping)
        .and_then(|operator| rewriting::begin(&operator.durability, "BGREWRITEAOF"));
    match begun {
        Ok(()) if is_saving || !call.may_wait => {
            call.reply.simple("Background append only file rewriting scheduled");
        }
        Ok(()) => call.reply.simple("Background append only file rewriting started"),
        // It waits for the save, so this one is answered as the one before.
        Err(NoRewrite::Running)
            if is_saving && operator.durability.appending.rewrites().is_scheduled =>
        {
            call.reply.simple("Background append only file rewriting scheduled");
        }
        Err(NoRewrite::Running) => return Err(BUSY_REWRITING.into()),
        Err(why) => return Err(ClientError::new(format!("ERR not rewritten: {why}")).into()),
    }
    Ok(())
}

/// As in Redis, the start counts if nothing has been saved yet.
fn last_save(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.int(Operator::of(call).durability.saves.history().last_good_s);
    Ok(())
}

/// The options of SHUTDOWN.
#[derive(Default)]
struct Options {
    save: bool,
    no_save: bool,
    now: bool,
    force: bool,
    abort: bool,
}

impl Options {
    fn parse(words: &[&[u8]]) -> Result<Options, ClientError> {
        let mut options = Options::default();
        for word in words {
            let place = match word {
                word if is_word(word, "SAVE") => &mut options.save,
                word if is_word(word, "NOSAVE") => &mut options.no_save,
                word if is_word(word, "NOW") => &mut options.now,
                word if is_word(word, "FORCE") => &mut options.force,
                word if is_word(word, "ABORT") => &mut options.abort,
                _ => return Err(error::SYNTAX),
            };
            *place = true;
        }
        let others = options.save || options.no_save || options.now || options.force;
        if (options.abort && others) || (options.save && options.no_save) {
            return Err(error::SYNTAX);
        }
        Ok(options)
    }
}

const UNSAVED: ClientError = ClientError::text("ERR Errors trying to SHUTDOWN. Check logs.");

/// If something is to be saved it waits for that on a thread of the lane.
fn shut_down(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(&call.args[1..])?;
    let operator = Operator::of(call);
    let shutdown = &operator.engine.condition.shutdown;
    if options.abort {
        if !shutdown.abort() {
            return Err(ClientError::text("ERR No shutdown in progress.").into());
        }
        tracing::info!(client = call.session.peer, "Shutdown manually aborted.");
        call.reply.ok();
        return Ok(());
    }
    let saves = if options.no_save { Some(false) } else { options.save.then_some(true) };
    let how = StopMode { saves, is_forced: options.force, is_now: options.now };
    let tell = |call: &Call<'_, '_>| {
        let peer = &call.session.peer;
        tracing::info!("User requested shutdown... (user request from '{peer}')");
    };
    if how.prepares(&operator.replication) {
        if call.lane == Lane::Worker {
            return Err(Stop::Lane);
        }
        let _others_run = operator.engine.lane.compensate();
        let _waits = CountedAsBlocked::new(&operator.engine);
        tell(call);
        let process = operator.process().ok_or(UNSAVED)?;
        process.stop(how).map_err(|_| UNSAVED)?;
    } else {
        tell(call);
        shutdown.begin();
    }
    call.session.closing = true;
    Ok(())
}
