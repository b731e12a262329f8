//! Some of the members: random ones, and all of them in parts (ZSCAN).

use std::ops::ControlFlow;

use pantala_base::number::{parse_i64, parse_u64, push_f64};
use pantala_protocol::{Reply, Version};
use pantala_values::SortedSet;
use pantala_values::sorted_set::SortedSetRef;

use super::{READ, begin_members, check_lane, read, reads, reply_member, view};
use crate::calls::call::{Call, CommandResult, reply_string};
use crate::error::{self, ClientError};
use crate::long_work::draws::Shuffle;
use crate::options::{ElementScan, OmitOption, is_word};
use crate::rows::command::Command;

/// How many members are wanted, and how.
struct Options {
    count: usize,
    /// The same member may be returned more than once.
    repeats: bool,
    with_scores: bool,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Options, ClientError> {
        let count = parse_i64(args[2]).ok_or(error::NOT_INTEGER)?;
        if count == i64::MIN {
            return Err(error::COUNT_OUT_OF_RANGE);
        }
        let with_scores = match args[3..] {
            [] => false,
            [word] if is_word(word, "WITHSCORES") => true,
            _ => return Err(error::SYNTAX),
        };
        if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
            return Err(error::OUT_OF_RANGE);
        }
        let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(Options { count: size, repeats: count < 0, with_scores })
    }
}

pub(super) const ZRANDMEMBER: Command = reads("ZRANDMEMBER", zrandmember)
    .arity(-2)
    .keys(READ)
    .tips(&["nondeterministic_output"])
    .since("6.2.0")
    .complexity("O(M*log(N)) for M members returned")
    .syntax("key [options: count:int [WITHSCORES]]")
    .summary("Returns random members of a sorted set.");

fn zrandmember(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args.len() == 2 {
        return one(call);
    }
    let options = Options::parse(call.args)?;
    if !options.repeats {
        return different(call, &options);
    }
    let (lane, mut chance) = (call.lane, call.space().chance());
    let is_flat = options.with_scores && call.reply.version() == Version::Resp2;
    call.draw_repeatedly(
        |keys, key| read(keys, key, lane),
        (options.count, 1 + usize::from(is_flat)),
        || check_lane(lane, options.count),
        |set: &SortedSet, left, step| {
            let (set, mut drawn) = (set.view(), 0);
            while drawn < left && step.has_room() {
                let rank = chance.below(set.len() as u64) as usize;
                reply_rank(step.reply, set, rank, options.with_scores);
                drawn += 1;
            }
            drawn
        },
    )
}

/// Members of different ranks, in random order.
fn different(call: &mut Call<'_, '_>, options: &Options) -> CommandResult {
    let (lane, mut chance) = (call.lane, call.space().chance());
    let read = call.read_whole(
        |keys, key| read(keys, key, lane),
        |set: &SortedSet, reply| {
            let count = options.count.min(set.view().len());
            check_lane(lane, count)?;
            begin_members(reply, count, options.with_scores);
            Ok(Shuffle::new(count, set.view().len()))
        },
        |set, mut ranks, step| {
            while let Some(rank) = ranks.next(&mut chance) {
                reply_rank(step.reply, set.view(), rank, options.with_scores);
                if !step.has_room() {
                    return ControlFlow::Continue(ranks);
                }
            }
            ControlFlow::Break(())
        },
    )?;
    if read.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

fn reply_rank(reply: &mut Reply<'_>, set: SortedSetRef<'_>, rank: usize, with_scores: bool) {
    if let Some((member, score)) = set.entries(rank, 1).next() {
        reply_member(reply, member, score, with_scores);
    }
}

fn one(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, space) = (call.key(), call.space());
    let opened = read(call.keys, key, call.lane)?;
    match view(&opened)? {
        Some(set) => {
            let rank = space.chance().below(set.len() as u64) as usize;
            reply_rank(&mut call.reply, set, rank, false);
        }
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) const ZSCAN: Command = reads("ZSCAN", zscan)
    .arity(-3)
    .keys(READ)
    .tips(&["nondeterministic_output"])
    .since("2.8.0")
    .complexity("O(COUNT) for one call, O(N) for N members in all")
    .syntax("key cursor:int [MATCH pattern] [COUNT count:int] [NOSCORES]")
    .summary("Lists some members with their scores, and tells where to go on.");

/// As in the reference, a missing key or one of another type is reported before a wrong option.
/// Scores are strings here, even in RESP3.
fn zscan(call: &mut Call<'_, '_>) -> CommandResult {
    let cursor = parse_u64(call.args[2]).ok_or(error::INVALID_CURSOR)?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    let Some(set) = view(&opened)? else {
        ElementScan::begin(&mut call.reply, 0);
        call.reply.array(0);
        return Ok(());
    };
    let options = ElementScan::parse(&call.args[3..], OmitOption::Scores)?;
    check_lane(call.lane, set.len().min(options.count))?;
    // The cursor is known last and written first, so the rest goes into a reply of its own.
    let (mut behind, mut text, mut count) = (Vec::new(), Vec::new(), 0);
    let mut rest = Reply::new(&mut behind, Version::Resp2);
    let next = set.scan(cursor, options.count, &mut |member, score| {
        if options.fits(member) {
            reply_string(&mut rest, pantala_table::StrRef::Bytes(member));
            count += 1;
            if options.is_whole {
                text.clear();
                push_f64(&mut text, score);
                rest.bulk(&text);
                count += 1;
            }
        }
    });
    ElementScan::begin(&mut call.reply, next);
    call.reply.array(count);
    call.reply.raw(&behind);
    Ok(())
}
