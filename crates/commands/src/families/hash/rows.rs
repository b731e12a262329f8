//! The rows of the family.

use super::{deadline, dragonfly, field, number, random, together, whole};
use crate::command::{Category, Command, Flags, Group, Handler, KeyFlags, KeySpec};
use crate::families::deadlines::Form;
use crate::options::TimeForm;

const READ: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, KeyFlags::LOOK)];
const MODIFY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::MODIFY)];
const CHANGE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE)];
const ADD: &[KeySpec] = &[KeySpec::one(1, KeyFlags::ADD)];
const TAKE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE)];
const CHANGE_REMOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];

const fn reads(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::Hash).keys(READ).since("2.0.0")
}

const fn writes(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::Hash).flags(Flags::FAST).keys(MODIFY).since("2.0.0")
}

const fn grows(name: &'static str, handler: Handler) -> Command {
    writes(name, handler).flags(Flags::DENYOOM)
}

const fn expires(name: &'static str, handler: Handler) -> Command {
    writes(name, handler).arity(-6).since("9.0.0").complexity("O(N) for N fields")
}

const fn asks(name: &'static str, handler: Handler) -> Command {
    reads(name, handler)
        .arity(-5)
        .flags(Flags::FAST)
        .since("9.0.0")
        .complexity("O(N) for N fields")
        .syntax("key (FIELDS numfields:int field [field ...])")
}

/// The rows of this family.
pub const ROWS: &[Command] = &[
    writes("HDEL", field::hdel)
        .arity(-3)
        .keys(CHANGE_REMOVE)
        .complexity("O(N) for N fields")
        .syntax("key field [field ...]")
        .summary("Removes fields of a hash."),
    reads("HEXISTS", field::hexists)
        .arity(3)
        .flags(Flags::FAST)
        .keys(LOOK)
        .syntax("key field")
        .summary("Tells whether a hash has a field."),
    expires("HEXPIRE", |call| deadline::expire(call, TimeForm::Seconds))
        .syntax("key seconds:int [NX | XX | GT | LT] (FIELDS numfields:int field [field ...])")
        .summary("Gives fields of a hash so many seconds to live."),
    expires("HEXPIREAT", |call| deadline::expire(call, TimeForm::UnixSeconds))
        .syntax(
            "key unix-time-seconds:int [NX | XX | GT | LT] \
             (FIELDS numfields:int field [field ...])",
        )
        .summary("Lets fields of a hash live until a moment, in seconds since 1970."),
    asks("HEXPIRETIME", |call| deadline::ttl(call, Form::Moment))
        .summary("Tells at which second since 1970 fields of a hash will be gone."),
    reads("HGET", field::hget)
        .arity(3)
        .flags(Flags::FAST)
        .syntax("key field")
        .summary("Returns the value of a field of a hash."),
    reads("HGETALL", whole::hgetall)
        .arity(2)
        .flags(Flags::STEADY)
        .tips(&["nondeterministic_output_order"])
        .complexity("O(N) for N fields")
        .syntax("key")
        .summary("Returns all fields of a hash and their values."),
    writes("HGETDEL", together::hgetdel)
        .arity(-5)
        .keys(TAKE)
        .since("9.1.0")
        .complexity("O(N) for N fields")
        .syntax("key (FIELDS numfields:int field [field ...])")
        .summary("Returns the values of fields of a hash and removes the fields."),
    writes("HGETEX", together::hgetex)
        .arity(-5)
        .keys(CHANGE)
        .since("9.0.0")
        .complexity("O(N) for N fields")
        .syntax(
            "key [EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | \
             PXAT unix-time-milliseconds:time | PERSIST] (FIELDS numfields:int field [field ...])",
        )
        .summary("Returns the values of fields of a hash and sets or clears their deadlines."),
    grows("HINCRBY", number::hincrby)
        .arity(4)
        .keys(CHANGE)
        .syntax("key field increment:int")
        .summary("Adds to the integer in a field of a hash; a missing field counts as 0."),
    grows("HINCRBYFLOAT", number::hincrbyfloat)
        .arity(4)
        .keys(CHANGE)
        .since("2.6.0")
        .syntax("key field increment:double")
        .summary("Adds to the number in a field of a hash; a missing field counts as 0."),
    reads("HKEYS", whole::hkeys)
        .arity(2)
        .flags(Flags::STEADY)
        .tips(&["nondeterministic_output_order"])
        .complexity("O(N) for N fields")
        .syntax("key")
        .summary("Returns all fields of a hash, without their values."),
    reads("HLEN", field::hlen)
        .arity(2)
        .flags(Flags::FAST)
        .keys(LOOK)
        .syntax("key")
        .summary("Counts the fields of a hash."),
    reads("HMGET", field::hmget)
        .arity(-3)
        .flags(Flags::FAST)
        .complexity("O(N) for N fields")
        .syntax("key field [field ...]")
        .summary("Returns the values of several fields of a hash."),
    grows("HMSET", field::hmset)
        .arity(-4)
        .complexity("O(N) for N fields")
        .syntax("key field value [field value ...]")
        .summary("The old form of HSET, which answers OK."),
    writes("HPERSIST", deadline::persist)
        .arity(-5)
        .since("9.0.0")
        .complexity("O(N) for N fields")
        .syntax("key (FIELDS numfields:int field [field ...])")
        .summary("Takes the deadlines of fields of a hash away."),
    expires("HPEXPIRE", |call| deadline::expire(call, TimeForm::Milliseconds))
        .syntax("key milliseconds:int [NX | XX | GT | LT] (FIELDS numfields:int field [field ...])")
        .summary("Gives fields of a hash so many milliseconds to live."),
    expires("HPEXPIREAT", |call| deadline::expire(call, TimeForm::UnixMilliseconds))
        .syntax(
            "key unix-time-milliseconds:int [NX | XX | GT | LT] \
             (FIELDS numfields:int field [field ...])",
        )
        .summary("Lets fields of a hash live until a moment, in milliseconds since 1970."),
    asks("HPEXPIRETIME", |call| deadline::ttl(call, Form::MomentMs))
        .summary("Tells at which millisecond since 1970 fields of a hash will be gone."),
    asks("HPTTL", |call| deadline::ttl(call, Form::LeftMs))
        .summary("Tells how many milliseconds fields of a hash have to live."),
    reads("HRANDFIELD", random::hrandfield)
        .arity(-2)
        .tips(&["nondeterministic_output"])
        .since("6.2.0")
        .complexity("O(N) for N fields returned; at most of the order of the hash's size")
        .syntax("key [options: count:int [WITHVALUES]]")
        .summary("Returns fields of a hash, chosen by chance."),
    reads("HSCAN", whole::hscan)
        .arity(-3)
        .tips(&["nondeterministic_output"])
        .since("2.8.0")
        .complexity("O(COUNT) for one call, O(N) for N fields in all")
        .syntax("key cursor:int [MATCH pattern] [COUNT count:int] [NOVALUES]")
        .summary("Lists some fields of a hash, and tells where to go on."),
    grows("HSET", field::hset)
        .arity(-4)
        .complexity("O(N) for N fields")
        .syntax("key field value [field value ...]")
        .summary("Sets fields of a hash, which is made if it is missing."),
    grows("HSETEX", together::hsetex)
        .arity(-6)
        .keys(ADD)
        .since("9.0.0")
        .complexity("O(N) for N fields")
        .syntax(
            "key [key-condition: NX | XX] [fields-condition: FNX | FXX] [EX seconds:int | \
             PX milliseconds:int | EXAT unix-time-seconds:time | \
             PXAT unix-time-milliseconds:time | KEEPTTL] \
             (FIELDS numfields:int field value [field value ...])",
        )
        .summary("Sets fields of a hash, and their deadlines, if key and fields are as wanted."),
    grows("HSETNX", field::hsetnx)
        .arity(4)
        .keys(ADD)
        .syntax("key field value")
        .summary("Sets a field of a hash if it is not there."),
    reads("HSTRLEN", field::hstrlen)
        .arity(3)
        .flags(Flags::FAST)
        .keys(LOOK)
        .since("3.2.0")
        .syntax("key field")
        .summary("Returns the length of a field's value in bytes."),
    asks("HTTL", |call| deadline::ttl(call, Form::Left))
        .summary("Tells how many seconds fields of a hash have to live."),
    reads("HVALS", whole::hvals)
        .arity(2)
        .flags(Flags::STEADY)
        .tips(&["nondeterministic_output_order"])
        .complexity("O(N) for N fields")
        .syntax("key")
        .summary("Returns the values of all fields of a hash."),
    writes("FIELDEXPIRE", dragonfly::field_expire)
        .arity(-4)
        .categories(&[Category::Set, Category::Hash])
        .complexity("O(N) for N fields")
        .syntax("key seconds:int field [field ...]")
        .summary("Dragonfly's: gives fields of a hash, or members of a set, seconds to live."),
    reads("FIELDTTL", dragonfly::field_ttl)
        .arity(3)
        .flags(Flags::FAST)
        .categories(&[Category::Keyspace])
        .syntax("key field")
        .summary("Dragonfly's: tells how many seconds a field or member has to live."),
];
