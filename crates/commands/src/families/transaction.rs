//! MULTI, DISCARD, WATCH, UNWATCH; EXEC's row. The engine runs transactions: it locks for all
//! commands at once.
//!
//! Tests: compat/transcripts/transaction.

use std::sync::Arc;

use crate::calls::call::{Call, CommandResult};
use crate::clients::queue::{TransactionQueue, Watching};
use crate::error::{self, ClientError};
use crate::rows::command::{Category, Command, Flags, Group, KeyFlags, KeySpec};

const DISCARD_WITHOUT: ClientError = ClientError::text("ERR DISCARD without MULTI");

const ALWAYS: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
const AT_ONCE: Flags = ALWAYS.union(Flags::FAST).union(Flags::ALLOW_BUSY);

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::new("DISCARD", discard, Group::Transactions)
        .arity(1)
        .flags(AT_ONCE.union(Flags::UNQUEUED))
        .since("2.0.0")
        .complexity("O(N) for N commands since MULTI")
        .summary("Forgets the commands since MULTI and the watched keys."),
    Command::new("EXEC", exec, Group::Transactions)
        .arity(1)
        .flags(
            ALWAYS.union(Flags::SKIP_COMMANDLOG).union(Flags::UNQUEUED).union(Flags::TRANSACTION),
        )
        .since("1.2.0")
        .complexity("That of the commands since MULTI")
        .summary("Runs the commands since MULTI, all at one moment."),
    Command::new("MULTI", multi, Group::Transactions)
        .arity(1)
        .flags(AT_ONCE.union(Flags::NO_MULTI))
        .since("1.2.0")
        .summary("Gathers the commands that follow, up to EXEC."),
    Command::new("UNWATCH", unwatch, Group::Transactions)
        .arity(1)
        .flags(AT_ONCE)
        .since("2.2.0")
        .summary("Watches no key any more."),
    Command::new("WATCH", watch, Group::Transactions)
        .arity(-2)
        .flags(AT_ONCE.union(Flags::NO_MULTI))
        .categories(&[Category::Transaction])
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::LOOK)])
        .since("2.2.0")
        .complexity("O(1) for each key")
        .syntax("key [key ...]")
        .summary("Lets the next EXEC fail if one of these keys changes before it."),
];

fn multi(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.multi = Some(Arc::new(TransactionQueue::default()));
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_, '_>) -> CommandResult {
    if call.session.multi.take().is_none() {
        return Err(DISCARD_WITHOUT.into());
    }
    call.session.watching = None;
    call.reply.ok();
    Ok(())
}

/// Never reached: the engine runs rows with `TRANSACTION`.
fn exec(_: &mut Call<'_, '_>) -> CommandResult {
    Err(error::EXEC_WITHOUT_MULTI.into())
}

fn unwatch(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.watching = None;
    call.reply.ok();
    Ok(())
}

fn watch(call: &mut Call<'_, '_>) -> CommandResult {
    let (db, space) = (call.session.db, call.space());
    let begin = || Arc::new(Watching::begin(space.watching_clients()));
    for key in call.all_keys() {
        let watching = Arc::make_mut(call.session.watching.get_or_insert_with(begin));
        if watching.add(db, key.bytes) {
            call.keys.watch(key, &watching.watch);
        }
    }
    call.reply.ok();
    Ok(())
}
