//! The rows of the family.

use super::blocking::{blmove, blmpop, blpop, brpop, brpoplpush};
use super::pop::{lmpop, lpop, rpop};
use super::position::lpos;
use super::push::{lpush, lpushx, rpush, rpushx};
use super::shift::{lmove, rpoplpush};
use super::{lindex, linsert, llen, lrange, lrem, lset, ltrim};
use crate::command::{Command, Flags, Group, KeyFlags, KeySpec};

const PUSH: Flags = Flags::DENYOOM.and(Flags::FAST);
const WAIT: Flags = Flags::BLOCKING;
const WAIT_AND_PUSH: Flags = Flags::BLOCKING.and(Flags::DENYOOM);

const READ: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];
const ADD: &[KeySpec] = &[KeySpec::one(1, KeyFlags::ADD)];
const TAKE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE)];
const REMOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];
const FROM_TO: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE), KeySpec::one(2, KeyFlags::ADD)];
const ALL_BUT_LAST: &[KeySpec] = &[KeySpec::range(1, -2, 1, KeyFlags::TAKE)];

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::write("BLMOVE", blmove, Group::List)
        .arity(6)
        .flags(WAIT_AND_PUSH)
        .keys(FROM_TO)
        .since("6.2.0")
        .syntax(
            "source:key destination:key (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT) \
             timeout:float",
        )
        .summary("Moves an element from one list to another, waiting until there is one."),
    Command::write("BLMPOP", blmpop, Group::List)
        .arity(-5)
        .flags(WAIT.and(Flags::MOVABLEKEYS))
        .keys(&[KeySpec::counted(2, 1, KeyFlags::TAKE)])
        .since("7.0.0")
        .complexity("O(N+M) for N keys and M elements")
        .syntax("timeout:float numkeys:int key [key ...] (where: LEFT | RIGHT) [COUNT count:int]")
        .summary("Removes elements from the first list that has any, waiting until one has."),
    Command::write("BLPOP", blpop, Group::List)
        .arity(-3)
        .flags(WAIT)
        .keys(ALL_BUT_LAST)
        .since("2.0.0")
        .complexity("O(N) for N keys")
        .syntax("key [key ...] timeout:float")
        .summary("Removes the first element of the first list that has any, waiting for one."),
    Command::write("BRPOP", brpop, Group::List)
        .arity(-3)
        .flags(WAIT)
        .keys(ALL_BUT_LAST)
        .since("2.0.0")
        .complexity("O(N) for N keys")
        .syntax("key [key ...] timeout:float")
        .summary("Removes the last element of the first list that has any, waiting for one."),
    Command::write("BRPOPLPUSH", brpoplpush, Group::List)
        .arity(4)
        .flags(WAIT_AND_PUSH)
        .keys(FROM_TO)
        .since("2.2.0")
        .syntax("source:key destination:key timeout:float")
        .summary("Moves the last element of a list to the head of another, waiting for one."),
    Command::read("LINDEX", lindex, Group::List)
        .arity(3)
        .keys(READ)
        .complexity("O(1) at the ends, O(sqrt(N)) in between")
        .syntax("key index:int")
        .summary("Returns the element at an index; negative ones count from the end."),
    Command::write("LINSERT", linsert, Group::List)
        .arity(5)
        .flags(Flags::DENYOOM)
        .keys(ADD)
        .since("2.2.0")
        .complexity("O(N) for N elements before the pivot")
        .syntax("key (where: BEFORE | AFTER) pivot element")
        .summary("Puts an element before or behind the first one equal to the pivot."),
    Command::read("LLEN", llen, Group::List)
        .arity(2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::LOOK)])
        .syntax("key")
        .summary("Counts the elements of a list."),
    Command::write("LMOVE", lmove, Group::List)
        .arity(5)
        .flags(Flags::DENYOOM)
        .keys(FROM_TO)
        .since("6.2.0")
        .syntax("source:key destination:key (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT)")
        .summary("Moves an element from an end of a list to an end of a list, and returns it."),
    Command::write("LMPOP", lmpop, Group::List)
        .arity(-4)
        .flags(Flags::MOVABLEKEYS)
        .keys(&[KeySpec::counted(1, 1, KeyFlags::TAKE)])
        .since("7.0.0")
        .complexity("O(N+M) for N keys and M elements")
        .syntax("numkeys:int key [key ...] (where: LEFT | RIGHT) [COUNT count:int]")
        .summary("Removes elements from the first list that has any."),
    Command::write("LPOP", lpop, Group::List)
        .arity(-2)
        .flags(Flags::FAST)
        .keys(TAKE)
        .complexity("O(N) for N elements")
        .syntax("key [count:int]")
        .summary("Removes elements from the head of a list and returns them."),
    Command::read("LPOS", lpos, Group::List)
        .arity(-3)
        .keys(READ)
        .since("6.0.6")
        .complexity("O(N) for N elements looked at")
        .syntax("key element [RANK rank:int] [COUNT num-matches:int] [MAXLEN len:int]")
        .summary("Returns where an element stands in a list."),
    Command::write("LPUSH", lpush, Group::List)
        .arity(-3)
        .flags(PUSH)
        .keys(ADD)
        .complexity("O(N) for N elements")
        .syntax("key element [element ...]")
        .summary("Puts elements at the head of a list; a missing one is created."),
    Command::write("LPUSHX", lpushx, Group::List)
        .arity(-3)
        .flags(PUSH)
        .keys(ADD)
        .since("2.2.0")
        .complexity("O(N) for N elements")
        .syntax("key element [element ...]")
        .summary("Puts elements at the head of a list, if there is one."),
    Command::read("LRANGE", lrange, Group::List)
        .arity(4)
        .keys(READ)
        .complexity("O(N) for N elements returned")
        .syntax("key start:int stop:int")
        .summary("Returns the elements between two indices, both included."),
    Command::write("LREM", lrem, Group::List)
        .arity(4)
        .keys(REMOVE)
        .complexity("O(N) for N elements of the list")
        .syntax("key count:int element")
        .summary("Removes elements equal to one: all, or some from the head or from the tail."),
    Command::write("LSET", lset, Group::List)
        .arity(4)
        .flags(Flags::DENYOOM)
        .keys(&[KeySpec::one(1, KeyFlags::MODIFY)])
        .complexity("O(1) at the ends, O(sqrt(N)) in between")
        .syntax("key index:int element")
        .summary("Puts an element in the place of the one at an index."),
    Command::write("LTRIM", ltrim, Group::List)
        .arity(4)
        .keys(REMOVE)
        .complexity("O(N) for N elements removed")
        .syntax("key start:int stop:int")
        .summary("Keeps only the elements between two indices, both included."),
    Command::write("RPOP", rpop, Group::List)
        .arity(-2)
        .flags(Flags::FAST)
        .keys(TAKE)
        .complexity("O(N) for N elements")
        .syntax("key [count:int]")
        .summary("Removes elements from the tail of a list and returns them."),
    Command::write("RPOPLPUSH", rpoplpush, Group::List)
        .arity(3)
        .flags(Flags::DENYOOM)
        .keys(FROM_TO)
        .since("1.2.0")
        .syntax("source:key destination:key")
        .summary("Moves the last element of a list to the head of another, and returns it."),
    Command::write("RPUSH", rpush, Group::List)
        .arity(-3)
        .flags(PUSH)
        .keys(ADD)
        .complexity("O(N) for N elements")
        .syntax("key element [element ...]")
        .summary("Puts elements at the tail of a list; a missing one is created."),
    Command::write("RPUSHX", rpushx, Group::List)
        .arity(-3)
        .flags(PUSH)
        .keys(ADD)
        .since("2.2.0")
        .complexity("O(N) for N elements")
        .syntax("key element [element ...]")
        .summary("Puts elements at the tail of a list, if there is one."),
];
