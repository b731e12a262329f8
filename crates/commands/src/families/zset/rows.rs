//! The rows of the family.

use super::{add, ask, combine, deadline, pop, range, some};
use crate::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};
use crate::families::deadlines::Form;
use crate::options::TimeForm;

const LOOK: &[KeySpec] = &[KeySpec::one(1, KeyFlags::LOOK)];
const READ: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];
const MODIFY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::MODIFY)];
const CHANGE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE)];
const TAKE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE)];
const CHANGE_REMOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];
/// A destination, then a number of keys and the keys.
const STORE: &[KeySpec] =
    &[KeySpec::one(1, KeyFlags::OVERWRITE), KeySpec::counted(2, 1, KeyFlags::READ)];

const fn read(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::SortedSet)
}

const fn write(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::SortedSet)
}

/// The rows of this family.
pub const ROWS: &[Command] = &[
    write("BZMPOP", pop::bzmpop)
        .arity(-5)
        .flags(Flags::BLOCKING.and(Flags::MOVABLEKEYS))
        .keys(&[KeySpec::counted(2, 1, KeyFlags::TAKE)])
        .since("7.0.0")
        .complexity("O(K) + O(M*log(N)) for K keys, M members taken and N members")
        .syntax("timeout:double numkeys:int key [key ...] (where: MIN | MAX) [COUNT count:int]")
        .summary(
            "Takes members from an end of the first sorted set that is not empty, or waits \
                for one.",
        ),
    write("BZPOPMAX", pop::bzpopmax)
        .arity(-3)
        .flags(Flags::BLOCKING.and(Flags::FAST))
        .keys(&[KeySpec::range(1, -2, 1, KeyFlags::TAKE)])
        .since("5.0.0")
        .complexity("O(log(N))")
        .syntax("key [key ...] timeout:double")
        .summary(
            "Takes the member with the greatest score from the first of several sorted sets \
                that is not empty, or waits for one.",
        ),
    write("BZPOPMIN", pop::bzpopmin)
        .arity(-3)
        .flags(Flags::BLOCKING.and(Flags::FAST))
        .keys(&[KeySpec::range(1, -2, 1, KeyFlags::TAKE)])
        .since("5.0.0")
        .complexity("O(log(N))")
        .syntax("key [key ...] timeout:double")
        .summary(
            "Takes the member with the smallest score from the first of several sorted sets \
                that is not empty, or waits for one.",
        ),
    write("ZADD", add::zadd)
        .arity(-4)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(MODIFY)
        .since("1.2.0")
        .complexity("O(log(N)) for each member")
        .syntax(
            "key [NX | XX] [comparison: GT | LT] [change: CH] [increment: INCR] \
             score:double member [score:double member ...]",
        )
        .summary("Adds members to a sorted set, or changes their scores."),
    read("ZCARD", ask::zcard)
        .arity(2)
        .flags(Flags::FAST)
        .keys(LOOK)
        .since("1.2.0")
        .syntax("key")
        .summary("Counts the members of a sorted set."),
    write("ZCOLLECT", deadline::collect)
        .arity(-2)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::CHANGE_REMOVE)])
        .since("8.0.0")
        .complexity("O(M*log(N)) for M members that have expired")
        .syntax("key [key ...]")
        .summary(
            "Removes the members of sorted sets that have expired, which happens by itself, \
                too.",
        ),
    read("ZCOUNT", ask::zcount)
        .arity(4)
        .flags(Flags::FAST)
        .keys(READ)
        .since("2.0.0")
        .complexity("O(log(N))")
        .syntax("key min:double max:double")
        .summary("Counts the members whose scores lie in a range."),
    read("ZDIFF", combine::zdiff)
        .arity(-3)
        .flags(Flags::MOVABLEKEYS)
        .keys(&[KeySpec::counted(1, 1, KeyFlags::READ)])
        .since("6.2.0")
        .complexity("O(M*K) + O(M*log(M)) for M members of the first and K others")
        .syntax("numkeys:int key [key ...] [WITHSCORES]")
        .summary("Lists the members of the first sorted set that no other has."),
    write("ZDIFFSTORE", combine::zdiffstore)
        .arity(-4)
        .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
        .keys(STORE)
        .since("6.2.0")
        .complexity("O(M*K) + O(M*log(M)) for M members of the first and K others")
        .syntax("destination:key numkeys:int key [key ...]")
        .summary("Stores the members of the first sorted set that no other has."),
    write("ZEXPIRE", |call| deadline::expire(call, TimeForm::Seconds))
        .arity(-6)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(MODIFY)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax("key seconds:int [NX | XX | GT | LT] MEMBERS nummembers:int member [member ...]")
        .summary("Gives members of a sorted set so many seconds to live."),
    write("ZEXPIREAT", |call| deadline::expire(call, TimeForm::UnixSeconds))
        .arity(-6)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(MODIFY)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax(
            "key unix-time-seconds:unix-time [NX | XX | GT | LT] MEMBERS nummembers:int \
                member [member ...]",
        )
        .summary("Lets members of a sorted set live until a moment, in seconds since 1970."),
    read("ZEXPIRETIME", |call| deadline::ttl(call, Form::Moment))
        .arity(-5)
        .flags(Flags::FAST)
        .keys(READ)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax("key MEMBERS nummembers:int member [member ...]")
        .summary("Tells until when members of a sorted set live, in seconds since 1970."),
    write("ZINCRBY", add::zincrby)
        .arity(4)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(CHANGE)
        .since("1.2.0")
        .complexity("O(log(N))")
        .syntax("key increment:double member")
        .summary("Adds to a member's score; a missing member counts as 0."),
    read("ZINTER", combine::zinter)
        .arity(-3)
        .flags(Flags::MOVABLEKEYS)
        .keys(&[KeySpec::counted(1, 1, KeyFlags::READ)])
        .since("6.2.0")
        .complexity("O(M*K) + O(M*log(M)) for M members of the smallest of K sorted sets")
        .syntax(
            "numkeys:int key [key ...] [WEIGHTS weight:double [weight:double ...]] \
                [AGGREGATE (aggregate: SUM | MIN | MAX)] [WITHSCORES]",
        )
        .summary("Lists the members that all of several sorted sets have."),
    read("ZINTERCARD", combine::zintercard)
        .arity(-3)
        .flags(Flags::MOVABLEKEYS)
        .keys(&[KeySpec::counted(1, 1, KeyFlags::READ)])
        .since("7.0.0")
        .complexity("O(M*K) for M members of the smallest of K sorted sets")
        .syntax("numkeys:int key [key ...] [LIMIT limit:int]")
        .summary("Counts the members that all of several sorted sets have."),
    write("ZINTERSTORE", combine::zinterstore)
        .arity(-4)
        .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
        .keys(STORE)
        .since("2.0.0")
        .complexity("O(M*K) + O(M*log(M)) for M members of the smallest of K sorted sets")
        .syntax(
            "destination:key numkeys:int key [key ...] [WEIGHTS weight:double \
                [weight:double ...]] [AGGREGATE (aggregate: SUM | MIN | MAX)]",
        )
        .summary("Stores the members that all of several sorted sets have."),
    read("ZLEXCOUNT", ask::zlexcount)
        .arity(4)
        .flags(Flags::FAST)
        .keys(READ)
        .since("2.8.9")
        .complexity("O(log(N))")
        .syntax("key min max")
        .summary("Counts the members in a range of a sorted set whose scores are all equal."),
    write("ZMPOP", pop::zmpop)
        .arity(-4)
        .flags(Flags::MOVABLEKEYS)
        .keys(&[KeySpec::counted(1, 1, KeyFlags::TAKE)])
        .since("7.0.0")
        .complexity("O(K) + O(M*log(N)) for K keys, M members taken and N members")
        .syntax("numkeys:int key [key ...] (where: MIN | MAX) [COUNT count:int]")
        .summary("Takes members from an end of the first sorted set that is not empty."),
    read("ZMSCORE", ask::zmscore)
        .arity(-3)
        .flags(Flags::FAST)
        .keys(READ)
        .since("6.2.0")
        .complexity("O(1) for each member")
        .syntax("key member [member ...]")
        .summary("Returns the scores of several members."),
    write("ZPERSIST", deadline::persist)
        .arity(-5)
        .flags(Flags::FAST)
        .keys(MODIFY)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax("key MEMBERS nummembers:int member [member ...]")
        .summary("Takes the deadlines of members of a sorted set away."),
    write("ZPEXPIRE", |call| deadline::expire(call, TimeForm::Milliseconds))
        .arity(-6)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(MODIFY)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax(
            "key milliseconds:int [NX | XX | GT | LT] MEMBERS nummembers:int member [member \
                ...]",
        )
        .summary("Gives members of a sorted set so many milliseconds to live."),
    write("ZPEXPIREAT", |call| deadline::expire(call, TimeForm::UnixMilliseconds))
        .arity(-6)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(MODIFY)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax(
            "key unix-time-milliseconds:unix-time [NX | XX | GT | LT] MEMBERS \
                nummembers:int member [member ...]",
        )
        .summary("Lets members of a sorted set live until a moment, in milliseconds since 1970."),
    read("ZPEXPIRETIME", |call| deadline::ttl(call, Form::MomentMs))
        .arity(-5)
        .flags(Flags::FAST)
        .keys(READ)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax("key MEMBERS nummembers:int member [member ...]")
        .summary("Tells until when members of a sorted set live, in milliseconds since 1970."),
    write("ZPOPMAX", pop::zpopmax)
        .arity(-2)
        .flags(Flags::FAST)
        .keys(TAKE)
        .since("5.0.0")
        .complexity("O(M*log(N)) for M members taken")
        .syntax("key [count:int]")
        .summary("Takes the members with the greatest scores."),
    write("ZPOPMIN", pop::zpopmin)
        .arity(-2)
        .flags(Flags::FAST)
        .keys(TAKE)
        .since("5.0.0")
        .complexity("O(M*log(N)) for M members taken")
        .syntax("key [count:int]")
        .summary("Takes the members with the smallest scores."),
    read("ZPTTL", |call| deadline::ttl(call, Form::LeftMs))
        .arity(-5)
        .flags(Flags::FAST)
        .keys(READ)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax("key MEMBERS nummembers:int member [member ...]")
        .summary("Tells how many milliseconds members of a sorted set have left."),
    read("ZRANDMEMBER", some::zrandmember)
        .arity(-2)
        .keys(READ)
        .tips(&["nondeterministic_output"])
        .since("6.2.0")
        .complexity("O(M*log(N)) for M members returned")
        .syntax("key [options: count:int [WITHSCORES]]")
        .summary("Returns members of a sorted set, by chance."),
    read("ZRANGE", range::zrange)
        .arity(-4)
        .keys(READ)
        .since("1.2.0")
        .complexity("O(log(N)+M) for M members returned")
        .syntax(
            "key start stop [sortby: BYSCORE | BYLEX] [REV] [LIMIT offset:int count:int] \
                [WITHSCORES]",
        )
        .summary("Lists the members in a range of ranks, scores or members."),
    read("ZRANGEBYLEX", range::zrangebylex)
        .arity(-4)
        .keys(READ)
        .since("2.8.9")
        .complexity("O(log(N)+M) for M members returned")
        .syntax("key min max [LIMIT offset:int count:int]")
        .summary("Lists the members in a range of a sorted set whose scores are all equal."),
    read("ZRANGEBYSCORE", range::zrangebyscore)
        .arity(-4)
        .keys(READ)
        .since("1.0.5")
        .complexity("O(log(N)+M) for M members returned")
        .syntax("key min:double max:double [WITHSCORES] [LIMIT offset:int count:int]")
        .summary("Lists the members whose scores lie in a range."),
    write("ZRANGESTORE", range::zrangestore)
        .arity(-5)
        .flags(Flags::DENYOOM)
        .keys(&[KeySpec::one(1, KeyFlags::OVERWRITE), KeySpec::one(2, KeyFlags::READ)])
        .since("6.2.0")
        .complexity("O(log(N)+M) for M members stored")
        .syntax(
            "dst:key src:key min max [sortby: BYSCORE | BYLEX] [REV] [LIMIT offset:int count:int]",
        )
        .summary("Stores the members in a range of ranks, scores or members."),
    read("ZRANK", ask::zrank)
        .arity(-3)
        .flags(Flags::FAST)
        .keys(READ)
        .since("2.0.0")
        .complexity("O(log(N))")
        .syntax("key member [WITHSCORE]")
        .summary("Tells how many members stand before a member."),
    write("ZREM", add::zrem)
        .arity(-3)
        .flags(Flags::FAST)
        .keys(CHANGE_REMOVE)
        .since("1.2.0")
        .complexity("O(log(N)) for each member")
        .syntax("key member [member ...]")
        .summary("Removes members from a sorted set."),
    write("ZREMRANGEBYLEX", range::zremrangebylex)
        .arity(4)
        .keys(CHANGE_REMOVE)
        .since("2.8.9")
        .complexity("O(log(N)+M) for M members removed")
        .syntax("key min max")
        .summary("Removes the members in a range of a sorted set whose scores are all equal."),
    write("ZREMRANGEBYRANK", range::zremrangebyrank)
        .arity(4)
        .keys(CHANGE_REMOVE)
        .since("2.0.0")
        .complexity("O(log(N)+M) for M members removed")
        .syntax("key start:int stop:int")
        .summary("Removes the members in a range of ranks."),
    write("ZREMRANGEBYSCORE", range::zremrangebyscore)
        .arity(4)
        .keys(CHANGE_REMOVE)
        .since("1.2.0")
        .complexity("O(log(N)+M) for M members removed")
        .syntax("key min:double max:double")
        .summary("Removes the members whose scores lie in a range."),
    read("ZREVRANGE", range::zrevrange)
        .arity(-4)
        .keys(READ)
        .since("1.2.0")
        .complexity("O(log(N)+M) for M members returned")
        .syntax("key start:int stop:int [WITHSCORES]")
        .summary("Lists the members in a range of ranks, the greatest scores first."),
    read("ZREVRANGEBYLEX", range::zrevrangebylex)
        .arity(-4)
        .keys(READ)
        .since("2.8.9")
        .complexity("O(log(N)+M) for M members returned")
        .syntax("key max min [LIMIT offset:int count:int]")
        .summary(
            "Lists the members in a range of a sorted set whose scores are all equal, the \
                last first.",
        ),
    read("ZREVRANGEBYSCORE", range::zrevrangebyscore)
        .arity(-4)
        .keys(READ)
        .since("2.2.0")
        .complexity("O(log(N)+M) for M members returned")
        .syntax("key max:double min:double [WITHSCORES] [LIMIT offset:int count:int]")
        .summary("Lists the members whose scores lie in a range, the greatest first."),
    read("ZREVRANK", ask::zrevrank)
        .arity(-3)
        .flags(Flags::FAST)
        .keys(READ)
        .since("2.0.0")
        .complexity("O(log(N))")
        .syntax("key member [WITHSCORE]")
        .summary("Tells how many members stand behind a member."),
    read("ZSCAN", some::zscan)
        .arity(-3)
        .keys(READ)
        .tips(&["nondeterministic_output"])
        .since("2.8.0")
        .complexity("O(COUNT) for one call, O(N) for N members in all")
        .syntax("key cursor:int [MATCH pattern] [COUNT count:int] [NOSCORES]")
        .summary("Lists some members with their scores, and tells where to go on."),
    read("ZSCORE", ask::zscore)
        .arity(3)
        .flags(Flags::FAST)
        .keys(READ)
        .since("1.2.0")
        .syntax("key member")
        .summary("Returns a member's score."),
    read("ZTTL", |call| deadline::ttl(call, Form::Left))
        .arity(-5)
        .flags(Flags::FAST)
        .keys(READ)
        .since("8.0.0")
        .complexity("O(log(N)) for each member")
        .syntax("key MEMBERS nummembers:int member [member ...]")
        .summary("Tells how many seconds members of a sorted set have left."),
    read("ZUNION", combine::zunion)
        .arity(-3)
        .flags(Flags::MOVABLEKEYS)
        .keys(&[KeySpec::counted(1, 1, KeyFlags::READ)])
        .since("6.2.0")
        .complexity("O(N*log(N)) for N members of all sorted sets")
        .syntax(
            "numkeys:int key [key ...] [WEIGHTS weight:double [weight:double ...]] \
                [AGGREGATE (aggregate: SUM | MIN | MAX)] [WITHSCORES]",
        )
        .summary("Lists the members that any of several sorted sets has."),
    write("ZUNIONSTORE", combine::zunionstore)
        .arity(-4)
        .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
        .keys(STORE)
        .since("2.0.0")
        .complexity("O(N*log(N)) for N members of all sorted sets")
        .syntax(
            "destination:key numkeys:int key [key ...] [WEIGHTS weight:double \
                [weight:double ...]] [AGGREGATE (aggregate: SUM | MIN | MAX)]",
        )
        .summary("Stores the members that any of several sorted sets has."),
];
