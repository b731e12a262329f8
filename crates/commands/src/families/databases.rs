//! Whole databases: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB.
//!
//! Tests: compat/transcripts/server, compat/transcripts/generic/swapdb.txt.

use pantala_base::number::parse_i64;
use pantala_keyspace::DbIndex;

use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Category, Command, Databases, Flags, Group, Handler};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::read("DBSIZE", db_size, Group::Server)
        .arity(1)
        .flags(Flags::FAST)
        .categories(&[Category::Keyspace])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .summary("Counts the keys of the database."),
    flush_row("FLUSHALL", |call| flush(call, None))
        .databases(Databases::All)
        .complexity("O(N) for N keys in all databases")
        .summary("Removes all keys of all databases."),
    flush_row("FLUSHDB", |call| flush(call, Some(call.session.db)))
        .complexity("O(N) for N keys in the database")
        .summary("Removes all keys of the database."),
    Command::write("SWAPDB", swap_databases, Group::Server)
        .arity(3)
        .flags(Flags::FAST.union(Flags::LANE).union(Flags::OUTSIDE).union(Flags::WHOLE))
        .databases(Databases::OnlyTwo)
        .categories(&[Category::Keyspace, Category::Dangerous])
        .since("4.0.0")
        .complexity("O(N) for N clients that wait for keys")
        .syntax("index1:int index2:int")
        .summary("Lets two databases change places."),
];

const SWAP_IN_CLUSTER: ClientError = ClientError::text("ERR SWAPDB is not allowed in cluster mode");
const DANGEROUS: &[Category] = &[Category::Keyspace, Category::Dangerous];
const FLUSH_TIPS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const fn flush_row(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::Server)
        .arity(-1)
        .flags(Flags::LANE.union(Flags::OUTSIDE).union(Flags::WHOLE))
        .categories(DANGEROUS)
        .tips(FLUSH_TIPS)
        .syntax("[flush-type: ASYNC | SYNC]")
}

fn db_size(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = call.space().sizes(call.session.db).map_or(0, |sizes| sizes.keys());
    call.reply.int(keys.cast_signed());
    Ok(())
}

/// The number of keys in one database, or in all.
fn keys_of(call: &Call<'_, '_>, only: Option<DbIndex>) -> u64 {
    let space = call.space();
    let all = (0..space.database_count()).map(DbIndex);
    let meant = all.filter(|db| only.is_none_or(|only| only == *db));
    meant.filter_map(|db| space.sizes(db)).map(|sizes| sizes.keys()).sum()
}

fn flush(call: &mut Call<'_, '_>, only: Option<DbIndex>) -> CommandResult {
    let in_background = match &call.args[1..] {
        [] => call.settings.lazyfree_lazy_user_flush,
        [word] if is_word(word, "ASYNC") => true,
        [word] if is_word(word, "SYNC") => false,
        _ => return Err(error::SYNTAX.into()),
    };
    let keys = keys_of(call, only);
    let garbage = call.keys.flush(only)?;
    call.keys.scope().tally.more_changes.add(keys);
    call.space().dispose(garbage, in_background, call.keys.scope().tally);
    call.reply.ok();
    Ok(())
}

fn swap_databases(call: &mut Call<'_, '_>) -> CommandResult {
    if call.settings.cluster_enabled {
        return Err(SWAP_IN_CLUSTER.into());
    }
    let left = parse_index(call.args[1], error::INVALID_FIRST_DB)?;
    let right = parse_index(call.args[2], error::INVALID_SECOND_DB)?;
    let count = call.space().database_count();
    let known = |index: i32| u32::try_from(index).ok().filter(|index| *index < count);
    let (Some(left), Some(right)) = (known(left), known(right)) else {
        return Err(error::DB_OUT_OF_RANGE.into());
    };
    call.keys.swap_databases(DbIndex(left), DbIndex(right))?;
    call.keys.scope().tally.more_changes.add(1);
    call.reply.ok();
    Ok(())
}

fn parse_index(text: &[u8], error: ClientError) -> Result<i32, ClientError> {
    parse_i64(text).and_then(|number| i32::try_from(number).ok()).ok_or(error)
}
