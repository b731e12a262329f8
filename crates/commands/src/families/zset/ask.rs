//! Questions about members and ranges.

use super::{bounds, read, view};
use crate::call::{Call, Done};
use crate::error;
use crate::options::is_word;

pub(super) fn zcard(call: &mut Call<'_, '_>) -> Done {
    let opened = read(call.keys, call.nth_key(1, 0), call.lane)?;
    call.reply.int(view(&opened)?.map_or(0, |set| set.len() as i64));
    Ok(())
}

pub(super) fn zscore(call: &mut Call<'_, '_>) -> Done {
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    match view(&opened)?.and_then(|set| set.score(call.args[2])) {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn zmscore(call: &mut Call<'_, '_>) -> Done {
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

pub(super) fn zrank(call: &mut Call<'_, '_>) -> Done {
    rank(call, false)
}

pub(super) fn zrevrank(call: &mut Call<'_, '_>) -> Done {
    rank(call, true)
}

fn rank(call: &mut Call<'_, '_>, reverse: bool) -> Done {
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

pub(super) fn zcount(call: &mut Call<'_, '_>) -> Done {
    let range = bounds::scores(call.args[2], call.args[3])?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    let count = view(&opened)?.map_or(0, |set| set.ranks_by_score(&range).len());
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn zlexcount(call: &mut Call<'_, '_>) -> Done {
    let range = bounds::members(call.args[2], call.args[3])?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    let count = view(&opened)?.map_or(0, |set| set.ranks_by_lex(&range, false).len());
    call.reply.int(count as i64);
    Ok(())
}
