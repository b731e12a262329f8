//! Reading scores, ranks and counts.

use super::{READ, bounds, read, reads, view};
use crate::calls::call::{Call, CommandResult};
use crate::error;
use crate::options::is_word;
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const LOOK: &[KeySpec] = &[KeySpec::one(1, KeyFlags::LOOK)];

pub(super) const ZCARD: Command = reads("ZCARD", zcard)
    .arity(2)
    .flags(Flags::FAST)
    .keys(LOOK)
    .since("1.2.0")
    .syntax("key")
    .summary("Counts the members of a sorted set.");

fn zcard(call: &mut Call<'_, '_>) -> CommandResult {
    let opened = read(call.keys, call.nth_key(1, 0), call.lane)?;
    call.reply.int(view(&opened)?.map_or(0, |set| set.len() as i64));
    Ok(())
}

pub(super) const ZSCORE: Command = reads("ZSCORE", zscore)
    .arity(3)
    .flags(Flags::FAST)
    .keys(READ)
    .since("1.2.0")
    .syntax("key member")
    .summary("Returns a member's score.");

fn zscore(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    match view(&opened)?.and_then(|set| set.score(call.args[2])) {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) const ZMSCORE: Command = reads("ZMSCORE", zmscore)
    .arity(-3)
    .flags(Flags::FAST)
    .keys(READ)
    .since("6.2.0")
    .complexity("O(1) for each member")
    .syntax("key member [member ...]")
    .summary("Returns the scores of several members.");

fn zmscore(call: &mut Call<'_, '_>) -> CommandResult {
    super::check_lane(call.lane, call.args.len())?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    let set = view(&opened)?;
    call.reply.array(call.args.len() - 2);
    for member in &call.args[2..] {
        match set.and_then(|set| set.score(member)) {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) const ZRANK: Command = reads("ZRANK", zrank)
    .arity(-3)
    .flags(Flags::FAST)
    .keys(READ)
    .since("2.0.0")
    .complexity("O(log(N))")
    .syntax("key member [WITHSCORE]")
    .summary("Tells how many members stand before a member.");

fn zrank(call: &mut Call<'_, '_>) -> CommandResult {
    rank(call, false)
}

pub(super) const ZREVRANK: Command = reads("ZREVRANK", zrevrank)
    .arity(-3)
    .flags(Flags::FAST)
    .keys(READ)
    .since("2.0.0")
    .complexity("O(log(N))")
    .syntax("key member [WITHSCORE]")
    .summary("Tells how many members stand after a member.");

fn zrevrank(call: &mut Call<'_, '_>) -> CommandResult {
    rank(call, true)
}

fn rank(call: &mut Call<'_, '_>, reverse: bool) -> CommandResult {
    let with_score = match call.args[3..] {
        [] => false,
        [word] if is_word(word, "WITHSCORE") => true,
        [_] => return Err(error::SYNTAX.into()),
        _ => return Err(error::wrong_arity(call.command.name).into()),
    };
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    let found = view(&opened)?.and_then(|set| {
        let (rank, score) = set.rank(call.args[2])?;
        Some((if reverse { set.len() - 1 - rank } else { rank }, score))
    });
    match found {
        None if with_score => call.reply.null_array(),
        None => call.reply.null(),
        Some((rank, score)) => {
            if with_score {
                call.reply.array(2);
            }
            call.reply.int(rank as i64);
            if with_score {
                call.reply.double(score);
            }
        }
    }
    Ok(())
}

pub(super) const ZCOUNT: Command = reads("ZCOUNT", zcount)
    .arity(4)
    .flags(Flags::FAST)
    .keys(READ)
    .since("2.0.0")
    .complexity("O(log(N))")
    .syntax("key min:double max:double")
    .summary("Counts the members whose scores lie in a range.");

fn zcount(call: &mut Call<'_, '_>) -> CommandResult {
    let range = bounds::scores(call.args[2], call.args[3])?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    let count = view(&opened)?.map_or(0, |set| set.ranks_by_score(&range).len());
    call.reply.int(count as i64);
    Ok(())
}

pub(super) const ZLEXCOUNT: Command = reads("ZLEXCOUNT", zlexcount)
    .arity(4)
    .flags(Flags::FAST)
    .keys(READ)
    .since("2.8.9")
    .complexity("O(log(N))")
    .syntax("key min max")
    .summary("Counts the members in a range of a sorted set whose scores are all equal.");

fn zlexcount(call: &mut Call<'_, '_>) -> CommandResult {
    let range = bounds::members(call.args[2], call.args[3])?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    let count = view(&opened)?.map_or(0, |set| set.ranks_by_lex(&range, false).len());
    call.reply.int(count as i64);
    Ok(())
}
