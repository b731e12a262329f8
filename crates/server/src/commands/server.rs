//! The server as a process: its time, its role, its end.

use pantala_base::clock::unix_us;
use pantala_commands::{
    Call, Category, ClientError, Command, Done, Flags, Group, error, options::is_word,
};

use crate::shared::Shared;
use pantala_engine::Engine;

const FAST: Flags = Flags::FAST.and(Flags::LOADING).and(Flags::STALE);
const OPERATORS: &[Category] = &[Category::Admin, Category::Dangerous];

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::new("TIME", time, Group::Server)
        .arity(1)
        .flags(FAST)
        .tips(&["nondeterministic_output"])
        .since("2.6.0")
        .summary("Tells the server's time: seconds and microseconds of Unix time."),
    Command::new("LASTSAVE", last_save, Group::Server)
        .arity(1)
        .flags(FAST)
        .categories(OPERATORS)
        .tips(&["nondeterministic_output"])
        .summary("Tells when the data was last saved, in seconds of Unix time."),
    Command::new("ROLE", role, Group::Server)
        .arity(1)
        .flags(FAST.and(Flags::NOSCRIPT))
        .categories(OPERATORS)
        .since("2.8.12")
        .summary("Tells the server's part in replication."),
    Command::new("SHUTDOWN", shut_down, Group::Server)
        .arity(-1)
        .flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE))
        .flags(Flags::ALLOW_BUSY.and(Flags::NO_MULTI))
        .complexity("O(N) with SAVE, for N keys")
        .syntax(
            "[abort-selector: (save-selector-block: [save-selector: NOSAVE | SAVE] [NOW] [FORCE]) \
             | ABORT]",
        )
        .summary("Ends the server."),
];

fn time(call: &mut Call<'_, '_>) -> Done {
    // In a transaction or a script the time stands still, but for one that may wait for it to pass.
    let goes_on = call.may_wait || call.session.time_goes_on;
    let now_us = if goes_on { unix_us() } else { call.now().0.saturating_mul(1000) };
    call.reply.array(2);
    call.reply.bulk_int(now_us.div_euclid(1_000_000));
    call.reply.bulk_int(now_us.rem_euclid(1_000_000));
    Ok(())
}

/// Nothing is saved yet: as in Redis, the start counts.
fn last_save(call: &mut Call<'_, '_>) -> Done {
    let started = Shared::of(call).run.started_unix_s;
    call.reply.int(started);
    Ok(())
}

fn role(call: &mut Call<'_, '_>) -> Done {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.int(0);
    call.reply.array(0);
    Ok(())
}

/// What SHUTDOWN was told.
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

fn shut_down(call: &mut Call<'_, '_>) -> Done {
    let options = Options::parse(&call.args[1..])?;
    if options.abort {
        return Err(ClientError::text("ERR No shutdown in progress.").into());
    }
    if options.save && !options.force {
        tracing::warn!("SHUTDOWN SAVE was refused: this version cannot save");
        let refused = "ERR Errors trying to SHUTDOWN. Check logs.";
        return Err(ClientError::text(refused).into());
    }
    tracing::info!(client = call.session.peer, "SHUTDOWN: the server stops");
    call.session.closing = true;
    Engine::of(call).condition.shutdown.begin();
    Ok(())
}
