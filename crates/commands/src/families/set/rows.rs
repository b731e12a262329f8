//! The rows of the family.

use super::{combine, inter, member, random, whole};
use crate::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};

const READ: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, KeyFlags::LOOK)];
const ADD: &[KeySpec] = &[KeySpec::one(1, KeyFlags::ADD)];
const TAKE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE)];
const CHANGE_REMOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];
const ALL: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::READ)];
const MOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE), KeySpec::one(2, KeyFlags::ADD)];
const COUNTED: &[KeySpec] = &[KeySpec::counted(1, 1, KeyFlags::READ)];
const STORE: &[KeySpec] =
    &[KeySpec::one(1, KeyFlags::OVERWRITE), KeySpec::range(2, -1, 1, KeyFlags::READ)];

const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];

const fn reads(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::Set).keys(READ)
}

const fn writes(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::Set)
}

/// A command that answers what comes of several sets.
const fn combines(name: &'static str, handler: Handler) -> Command {
    reads(name, handler).arity(-2).keys(ALL).tips(ANY_ORDER).syntax("key [key ...]")
}

/// A command that stores what comes of several sets.
const fn stores(name: &'static str, handler: Handler) -> Command {
    writes(name, handler)
        .arity(-3)
        .flags(Flags::DENYOOM)
        .keys(STORE)
        .syntax("destination:key key [key ...]")
}

/// The rows of this family.
pub const ROWS: &[Command] = &[
    writes("SADD", member::sadd)
        .arity(-3)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(ADD)
        .complexity("O(N) for N members")
        .syntax("key member [member ...]")
        .summary("Adds members to a set, creating it when missing."),
    writes("SADDEX", member::saddex)
        .arity(-4)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(ADD)
        .complexity("O(N) for N members")
        .syntax("key [KEEPTTL] seconds:int member [member ...]")
        .summary("Adds members to a set, each for so many seconds (Dragonfly)."),
    reads("SCARD", member::scard)
        .arity(2)
        .flags(Flags::FAST)
        .keys(LOOK)
        .syntax("key")
        .summary("Tells how many members a set has."),
    combines("SDIFF", combine::sdiff)
        .complexity("O(N) for N members of all sets")
        .summary("Returns the members of the first set that are in none of the others."),
    stores("SDIFFSTORE", combine::sdiffstore)
        .complexity("O(N) for N members of all sets")
        .summary("Stores the members of the first set that are in none of the others."),
    combines("SINTER", inter::sinter)
        .complexity("O(N*M) for N members of the smallest of M sets")
        .summary("Returns the members that are in all of the sets."),
    reads("SINTERCARD", inter::sintercard)
        .arity(-3)
        .flags(Flags::MOVABLEKEYS)
        .keys(COUNTED)
        .since("7.0.0")
        .complexity("O(N*M) for N members of the smallest of M sets")
        .syntax("numkeys:int key [key ...] [LIMIT limit:int]")
        .summary("Tells how many members are in all of the sets."),
    stores("SINTERSTORE", inter::sinterstore)
        .complexity("O(N*M) for N members of the smallest of M sets")
        .summary("Stores the members that are in all of the sets."),
    reads("SISMEMBER", member::sismember)
        .arity(3)
        .flags(Flags::FAST)
        .keys(LOOK)
        .syntax("key member")
        .summary("Tells whether a set has a member."),
    reads("SMEMBERS", whole::smembers)
        .arity(2)
        .tips(ANY_ORDER)
        .complexity("O(N) for N members")
        .syntax("key")
        .summary("Returns all members of a set."),
    reads("SMISMEMBER", member::smismember)
        .arity(-3)
        .flags(Flags::FAST)
        .since("6.2.0")
        .complexity("O(N) for N members asked for")
        .syntax("key member [member ...]")
        .summary("Tells for each text whether it is a member of a set."),
    writes("SMOVE", member::smove)
        .arity(4)
        .flags(Flags::FAST)
        .keys(MOVE)
        .syntax("source:key destination:key member")
        .summary("Moves a member from one set to another."),
    writes("SPOP", random::spop)
        .arity(-2)
        .flags(Flags::FAST)
        .keys(TAKE)
        .tips(ANY_OUTPUT)
        .complexity("O(N) for N members taken out")
        .syntax("key [count:int]")
        .summary("Takes members by chance out of a set and returns them."),
    reads("SRANDMEMBER", random::srandmember)
        .arity(-2)
        .tips(ANY_OUTPUT)
        .complexity("O(N) for N members wished for")
        .syntax("key [count:int]")
        .summary("Returns members of a set by chance."),
    writes("SREM", member::srem)
        .arity(-3)
        .flags(Flags::FAST)
        .keys(CHANGE_REMOVE)
        .complexity("O(N) for N members")
        .syntax("key member [member ...]")
        .summary("Removes members of a set."),
    reads("SSCAN", whole::sscan)
        .arity(-3)
        .tips(ANY_OUTPUT)
        .since("2.8.0")
        .complexity("O(COUNT) for one call, O(N) for N members in all")
        .syntax("key cursor:int [MATCH pattern] [COUNT count:int]")
        .summary("Lists some members of a set, and tells where to go on."),
    combines("SUNION", combine::sunion)
        .complexity("O(N) for N members of all sets")
        .summary("Returns the members of all of the sets."),
    stores("SUNIONSTORE", combine::sunionstore)
        .complexity("O(N) for N members of all sets")
        .summary("Stores the members of all of the sets."),
];
