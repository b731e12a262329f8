//! Ranges: ZRANGE and its older forms, ZRANGESTORE, and removing ranges.
//!
//! Every request becomes a range of ranks, so an offset costs nothing, and the length of a reply is
//! known before its first member.

use std::ops::{ControlFlow, Range};

use pantala_keyspace::event::{self, KeyEvent};
use pantala_values::SortedSet;
use pantala_values::sorted_set::{LexRange, ScoreRange, SortedSetRef};

use super::combine::{CopiedMembers, store};
use super::{
    CHANGE_REMOVE, READ, begin_members, bounds, check_lane, limits, open, read, reads,
    reply_member, view, writes,
};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::long_work::incremental::{GatherState, WorkStep};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};
use pantala_base::number::parse_i64;

const LIMIT_OF_RANKS: ClientError = ClientError::text(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
);
const SCORES_OF_LEX: ClientError =
    ClientError::text("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// What the ends of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeKind {
    Rank,
    Score,
    Lex,
}

/// What a command's name determines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The position of the first end.
    at: usize,
    /// `None`: options determine it.
    by: Option<(RangeKind, bool)>,
    stores: bool,
}

/// The options of a range.
#[derive(Clone, Copy, Debug)]
struct Options<'c> {
    ends: Ends<'c>,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// Negative: all.
    count: i64,
}

#[derive(Clone, Copy, Debug)]
enum Ends<'c> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(LexRange<'c>),
}

impl<'c> Options<'c> {
    fn parse(args: &'c [&'c [u8]], form: Form) -> Result<Options<'c>, ClientError> {
        let (mut by, mut reverse) = form.by.unzip();
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        let int = |text: &[u8]| parse_i64(text).ok_or(error::NOT_INTEGER);
        let words = &args[form.at + 2..];
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if !form.stores && is_word(word, "WITHSCORES") {
                with_scores = true;
            } else if is_word(word, "LIMIT") && at + 2 < words.len() {
                (offset, count) = (int(words[at + 1])?, int(words[at + 2])?);
                at += 2;
            } else if reverse.is_none() && is_word(word, "REV") {
                reverse = Some(true);
            } else if by.is_none() && is_word(word, "BYLEX") {
                by = Some(RangeKind::Lex);
            } else if by.is_none() && is_word(word, "BYSCORE") {
                by = Some(RangeKind::Score);
            } else {
                return Err(error::SYNTAX);
            }
            at += 1;
        }
        let (by, reverse) = (by.unwrap_or(RangeKind::Rank), reverse.unwrap_or(false));
        if count != -1 && by == RangeKind::Rank {
            return Err(LIMIT_OF_RANKS);
        }
        if with_scores && by == RangeKind::Lex {
            return Err(SCORES_OF_LEX);
        }
        let (first, second) = (args[form.at], args[form.at + 1]);
        let (min, max) =
            if reverse && by != RangeKind::Rank { (second, first) } else { (first, second) };
        let ends = match by {
            RangeKind::Rank => Ends::Ranks(int(min)?, int(max)?),
            RangeKind::Score => Ends::Scores(bounds::scores(min, max)?),
            RangeKind::Lex => Ends::Members(bounds::members(min, max)?),
        };
        Ok(Options { ends, reverse, with_scores, offset, count })
    }

    /// The selected ranks.
    fn ranks(&self, set: SortedSetRef<'_>) -> Range<usize> {
        let whole = match &self.ends {
            Ends::Ranks(start, stop) => {
                let ranks = bounds::ranks(*start, *stop, set.len());
                let mirrored = set.len() - ranks.end..set.len() - ranks.start;
                return if self.reverse { mirrored } else { ranks };
            }
            Ends::Scores(range) => set.ranks_by_score(range),
            Ends::Members(range) => set.ranks_by_lex(range, self.reverse),
        };
        let Ok(offset) = usize::try_from(self.offset) else { return 0..0 };
        let left = whole.len().saturating_sub(offset);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(left);
        match self.reverse {
            _ if count == 0 => 0..0,
            false => whole.start + offset..whole.start + offset + count,
            true => whole.end - offset - count..whole.end - offset,
        }
    }

    /// Writes members of these ranks while there is room; returns the ranks that are left.
    fn reply_members(
        &self,
        set: SortedSetRef<'_>,
        ranks: Range<usize>,
        step: &mut WorkStep<'_, '_>,
    ) -> Range<usize> {
        let mut left = ranks;
        if left.is_empty() {
            return left;
        }
        if self.reverse {
            for (member, score) in set.entries_back(left.end - 1, left.len()) {
                reply_member(step.reply, member, score, self.with_scores);
                left.end -= 1;
                if !step.has_room() {
                    break;
                }
            }
        } else {
            for (member, score) in set.entries(left.start, left.len()) {
                reply_member(step.reply, member, score, self.with_scores);
                left.start += 1;
                if !step.has_room() {
                    break;
                }
            }
        }
        left
    }
}

const fn named(by: RangeKind, reverse: bool) -> Form {
    Form { at: 2, by: Some((by, reverse)), stores: false }
}

pub(super) const ZRANGE: Command = reads("ZRANGE", zrange)
    .arity(-4)
    .keys(READ)
    .since("1.2.0")
    .complexity("O(log(N)+M) for M members returned")
    .syntax(
        "key start stop [sortby: BYSCORE | BYLEX] [REV] [LIMIT offset:int count:int] \
            [WITHSCORES]",
    )
    .summary("Lists the members in a range of ranks, scores or members.");

fn zrange(call: &mut Call<'_, '_>) -> CommandResult {
    reply_range(call, Form { at: 2, by: None, stores: false })
}

pub(super) const ZREVRANGE: Command = reads("ZREVRANGE", zrevrange)
    .arity(-4)
    .keys(READ)
    .since("1.2.0")
    .complexity("O(log(N)+M) for M members returned")
    .syntax("key start:int stop:int [WITHSCORES]")
    .summary("Lists the members in a range of ranks, the greatest scores first.");

fn zrevrange(call: &mut Call<'_, '_>) -> CommandResult {
    reply_range(call, named(RangeKind::Rank, true))
}

pub(super) const ZRANGEBYSCORE: Command = reads("ZRANGEBYSCORE", zrangebyscore)
    .arity(-4)
    .keys(READ)
    .since("1.0.5")
    .complexity("O(log(N)+M) for M members returned")
    .syntax("key min:double max:double [WITHSCORES] [LIMIT offset:int count:int]")
    .summary("Lists the members whose scores lie in a range.");

fn zrangebyscore(call: &mut Call<'_, '_>) -> CommandResult {
    reply_range(call, named(RangeKind::Score, false))
}

pub(super) const ZREVRANGEBYSCORE: Command = reads("ZREVRANGEBYSCORE", zrevrangebyscore)
    .arity(-4)
    .keys(READ)
    .since("2.2.0")
    .complexity("O(log(N)+M) for M members returned")
    .syntax("key max:double min:double [WITHSCORES] [LIMIT offset:int count:int]")
    .summary("Lists the members whose scores lie in a range, the greatest first.");

fn zrevrangebyscore(call: &mut Call<'_, '_>) -> CommandResult {
    reply_range(call, named(RangeKind::Score, true))
}

pub(super) const ZRANGEBYLEX: Command = reads("ZRANGEBYLEX", zrangebylex)
    .arity(-4)
    .keys(READ)
    .since("2.8.9")
    .complexity("O(log(N)+M) for M members returned")
    .syntax("key min max [LIMIT offset:int count:int]")
    .summary("Lists the members in a range of a sorted set whose scores are all equal.");

fn zrangebylex(call: &mut Call<'_, '_>) -> CommandResult {
    reply_range(call, named(RangeKind::Lex, false))
}

pub(super) const ZREVRANGEBYLEX: Command = reads("ZREVRANGEBYLEX", zrevrangebylex)
    .arity(-4)
    .keys(READ)
    .since("2.8.9")
    .complexity("O(log(N)+M) for M members returned")
    .syntax("key max min [LIMIT offset:int count:int]")
    .summary(
        "Lists the members in a range of a sorted set whose scores are all equal, the \
            last first.",
    );

fn zrevrangebylex(call: &mut Call<'_, '_>) -> CommandResult {
    reply_range(call, named(RangeKind::Lex, true))
}

fn reply_range(call: &mut Call<'_, '_>, form: Form) -> CommandResult {
    let (options, lane) = (Options::parse(call.args, form)?, call.lane);
    let read = call.read_whole(
        |keys, key| read(keys, key, lane),
        |set: &SortedSet, reply| {
            let ranks = options.ranks(set.view());
            check_lane(lane, ranks.len())?;
            begin_members(reply, ranks.len(), options.with_scores);
            Ok(ranks)
        },
        |set, ranks, step| {
            let left = options.reply_members(set.view(), ranks, step);
            if left.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(left) }
        },
    )?;
    if read.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

pub(super) const ZRANGESTORE: Command = writes("ZRANGESTORE", zrangestore)
    .replaces()
    .arity(-5)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::one(1, KeyFlags::OVERWRITE), KeySpec::one(2, KeyFlags::READ)])
    .since("6.2.0")
    .complexity("O(log(N)+M) for M members stored")
    .syntax("dst:key src:key min max [sortby: BYSCORE | BYLEX] [REV] [LIMIT offset:int count:int]")
    .summary("Stores the members in a range of ranks, scores or members.");

fn zrangestore(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(call.args, Form { at: 3, by: None, stores: true })?;
    let (from, lane, limits) = (call.nth_key(2, 1), call.lane, limits(call.settings));
    drop(read(call.keys, from, lane)?);
    let result = call.gather(
        &[from],
        |call| {
            let ranks = view(&call.keys.peek(from))?.map_or(0..0, |set| options.ranks(set));
            check_lane(lane, ranks.len())?;
            Ok((ranks, CopiedMembers::default()))
        },
        |call, (ranks, copied), budget| {
            let opened = call.keys.peek(from);
            let Some(set) = view(&opened)? else { return Ok(GatherState::Whole) };
            for (member, score) in set.entries(ranks.start, ranks.len().min(budget.left())) {
                copied.push(member, score);
                ranks.start += 1;
                if !budget.take(member.len()) {
                    break;
                }
            }
            Ok(GatherState::whole_if(ranks.start >= ranks.end))
        },
        |_, (_, copied)| copied.to_set(limits),
    )?;
    store(call, result, event::ZRANGESTORE);
    Ok(())
}

pub(super) const ZREMRANGEBYRANK: Command = writes("ZREMRANGEBYRANK", zremrangebyrank)
    .arity(4)
    .keys(CHANGE_REMOVE)
    .since("2.0.0")
    .complexity("O(log(N)+M) for M members removed")
    .syntax("key start:int stop:int")
    .summary("Removes the members in a range of ranks.");

fn zremrangebyrank(call: &mut Call<'_, '_>) -> CommandResult {
    let ends = Ends::Ranks(call.int(2)?, call.int(3)?);
    remove(call, ends, event::ZREMRANGEBYRANK)
}

pub(super) const ZREMRANGEBYSCORE: Command = writes("ZREMRANGEBYSCORE", zremrangebyscore)
    .arity(4)
    .keys(CHANGE_REMOVE)
    .since("1.2.0")
    .complexity("O(log(N)+M) for M members removed")
    .syntax("key min:double max:double")
    .summary("Removes the members whose scores lie in a range.");

fn zremrangebyscore(call: &mut Call<'_, '_>) -> CommandResult {
    let ends = Ends::Scores(bounds::scores(call.args[2], call.args[3])?);
    remove(call, ends, event::ZREMRANGEBYSCORE)
}

pub(super) const ZREMRANGEBYLEX: Command = writes("ZREMRANGEBYLEX", zremrangebylex)
    .arity(4)
    .keys(CHANGE_REMOVE)
    .since("2.8.9")
    .complexity("O(log(N)+M) for M members removed")
    .syntax("key min max")
    .summary("Removes the members in a range of a sorted set whose scores are all equal.");

fn zremrangebylex(call: &mut Call<'_, '_>) -> CommandResult {
    let ends = Ends::Members(bounds::members(call.args[2], call.args[3])?);
    remove(call, ends, event::ZREMRANGEBYLEX)
}

fn remove(call: &mut Call<'_, '_>, ends: Ends<'_>, event: KeyEvent) -> CommandResult {
    let options = Options { ends, reverse: false, with_scores: false, offset: 0, count: -1 };
    let key = call.key();
    let mut opened = open(call.keys, key, call.lane)?;
    let Some(set) = view(&opened)? else {
        call.reply.int(0);
        return Ok(());
    };
    let (ranks, len) = (options.ranks(set), set.len());
    let count = ranks.len();
    if count == len {
        // The whole set: it is freed in the background.
        opened.remove();
        opened.counts_as(count);
        opened.publish(event);
        opened.announce(event::DEL);
    } else if count > 0 {
        check_lane(call.lane, count)?;
        drop(opened);
        call.remove_long(event, |set: &mut SortedSet| set.remove_ranks(ranks))?;
    }
    call.reply.int(count as i64);
    Ok(())
}
