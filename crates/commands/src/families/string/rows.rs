//! The rows of the family.

use super::{
    delex, delifeq, digest, get, getdel, getex, getset, psetex, set, setex, setnx, strlen,
};
use super::{lcs, many, number, range, throttle};
use crate::command::{Command, Flags, Group, KeyFlags, KeySpec};
use crate::options::is_word;

/// SET tells what was there only where it is asked to.
fn set_key_flags(args: &[&[u8]]) -> KeyFlags {
    match args.iter().skip(3).any(|word| is_word(word, "GET")) {
        true => KeyFlags::CHANGE,
        false => KeyFlags::OVERWRITE,
    }
}

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::write("APPEND", range::append, Group::String)
        .arity(3)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::ADD)])
        .since("2.0.0")
        .complexity("O(1) amortised, for short values")
        .syntax("key value")
        .summary("Appends to the string at a key; a missing key is created."),
    Command::write("CL.THROTTLE", throttle::throttle, Group::String)
        .arity(-5)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
        .since("4.0.0")
        .syntax("key max-burst:int count:int period:int [quantity:int]")
        .summary("Redis-cell's: asks whether something may be done now, at a rate and a burst."),
    Command::write("DECR", number::decr, Group::String)
        .arity(2)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
        .syntax("key")
        .summary("Subtracts one from the integer at a key; a missing key counts as 0."),
    Command::write("DECRBY", number::decrby, Group::String)
        .arity(3)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
        .syntax("key decrement:int")
        .summary("Subtracts from the integer at a key; a missing key counts as 0."),
    Command::write("DELEX", delex, Group::String)
        .arity(-2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::REMOVE)])
        .since("8.4.0")
        .complexity("O(1) for IFEQ and IFNE, O(N) for digests of N bytes")
        .syntax("key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]")
        .summary("Removes a key if its value, or the value's digest, is or is not the given one."),
    Command::write("DELIFEQ", delifeq, Group::String)
        .arity(3)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::REMOVE)])
        .since("9.0.0")
        .syntax("key value")
        .summary("Removes a key if its value is the given one."),
    Command::read("DIGEST", digest, Group::String)
        .arity(2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::READ)])
        .since("8.4.0")
        .complexity("O(N) for a value of N bytes")
        .syntax("key")
        .summary("Returns the XXH3 hash of the string at a key, as 16 hexadecimal digits."),
    Command::read("GET", get, Group::String)
        .arity(2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::READ)])
        .syntax("key")
        .summary("Returns the string at a key."),
    Command::write("GETDEL", getdel, Group::String)
        .arity(2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::TAKE)])
        .since("6.2.0")
        .syntax("key")
        .summary("Returns the string at a key and removes the key."),
    Command::write("GETEX", getex, Group::String)
        .arity(-2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
        .since("6.2.0")
        .syntax(
            "key [EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | \
             PXAT unix-time-milliseconds:time | PERSIST]",
        )
        .summary("Returns the string at a key and sets or clears the key's deadline."),
    Command::read("GETRANGE", range::getrange, Group::String)
        .arity(4)
        .flags(Flags::STEADY)
        .keys(&[KeySpec::one(1, KeyFlags::READ)])
        .since("2.4.0")
        .complexity("O(N) for N bytes returned")
        .syntax("key start:int end:int")
        .summary("Returns a part of the string at a key."),
    Command::write("GETSET", getset, Group::String)
        .arity(3)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
        .syntax("key value")
        .summary("Sets a key to a string and returns the string it held before."),
    Command::write("INCR", number::incr, Group::String)
        .arity(2)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
        .syntax("key")
        .summary("Adds one to the integer at a key; a missing key counts as 0."),
    Command::write("INCRBY", number::incrby, Group::String)
        .arity(3)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
        .syntax("key increment:int")
        .summary("Adds to the integer at a key; a missing key counts as 0."),
    Command::write("INCRBYFLOAT", number::incrbyfloat, Group::String)
        .arity(3)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
        .since("2.6.0")
        .syntax("key increment:double")
        .summary("Adds to the floating-point number at a key; a missing key counts as 0."),
    Command::read("LCS", lcs::lcs, Group::String)
        .arity(-3)
        .keys(&[KeySpec::range(1, 1, 1, KeyFlags::READ)])
        .since("7.0.0")
        .complexity("O(N*M) for values of N and M bytes")
        .syntax("key1:key key2:key [LEN] [IDX] [MINMATCHLEN min-match-len:int] [WITHMATCHLEN]")
        .summary("Finds the longest common subsequence of two strings."),
    Command::read("MGET", many::mget, Group::String)
        .arity(-2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::READ)])
        .tips(&["request_policy:multi_shard"])
        .complexity("O(N) for N keys")
        .syntax("key [key ...]")
        .summary("Returns the strings at several keys."),
    Command::write("MSET", many::mset, Group::String)
        .arity(-3)
        .flags(Flags::DENYOOM)
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::OVERWRITE)])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .since("1.0.1")
        .complexity("O(N) for N keys")
        .syntax("key value [key value ...]")
        .summary("Sets several keys to strings, all at once."),
    Command::write("MSETEX", many::msetex, Group::String)
        .arity(-4)
        .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS))
        .keys(&[KeySpec::counted(1, 2, KeyFlags::OVERWRITE)])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .since("9.1.0")
        .complexity("O(N) for N keys")
        .syntax(
            "numkeys:int key value [key value ...] [NX | XX] [EX seconds:int | \
             PX milliseconds:int | EXAT unix-time-seconds:time | \
             PXAT unix-time-milliseconds:time | \
             KEEPTTL]",
        )
        .summary("Sets several keys to strings with one deadline, all at once or not at all."),
    Command::write("MSETNX", many::msetnx, Group::String)
        .arity(-3)
        .flags(Flags::DENYOOM)
        .keys(&[KeySpec::range(1, -1, 2, KeyFlags::CREATE)])
        .since("1.0.1")
        .complexity("O(N) for N keys")
        .syntax("key value [key value ...]")
        .summary("Sets several keys to strings if none of them is there."),
    Command::write("PSETEX", psetex, Group::String)
        .arity(4)
        .flags(Flags::DENYOOM.and(Flags::STEADY))
        .keys(&[KeySpec::one(1, KeyFlags::OVERWRITE)])
        .since("2.6.0")
        .syntax("key milliseconds:int value")
        .summary("Sets a key to a string that lives for some milliseconds."),
    Command::write("SET", set, Group::String)
        .arity(-3)
        .flags(Flags::DENYOOM.and(Flags::STEADY))
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE.variable())])
        .flags_of(set_key_flags)
        .syntax(
            "key value [NX | XX | IFEQ comparison-value] [GET] [EX seconds:int | \
             PX milliseconds:int | EXAT unix-time-seconds:time | \
             PXAT unix-time-milliseconds:time | \
             KEEPTTL]",
        )
        .summary("Sets a key to a string, whatever it held before."),
    Command::write("SETEX", setex, Group::String)
        .arity(4)
        .flags(Flags::DENYOOM.and(Flags::STEADY))
        .keys(&[KeySpec::one(1, KeyFlags::OVERWRITE)])
        .since("2.0.0")
        .syntax("key seconds:int value")
        .summary("Sets a key to a string that lives for some seconds."),
    Command::write("SETNX", setnx, Group::String)
        .arity(3)
        .flags(Flags::DENYOOM.and(Flags::FAST))
        .keys(&[KeySpec::one(1, KeyFlags::CREATE)])
        .syntax("key value")
        .summary("Sets a key to a string if the key is not there."),
    Command::write("SETRANGE", range::setrange, Group::String)
        .arity(4)
        .flags(Flags::DENYOOM.and(Flags::STEADY))
        .keys(&[KeySpec::one(1, KeyFlags::MODIFY)])
        .since("2.2.0")
        .complexity("O(M) for M bytes written, gap included")
        .syntax("key offset:int value")
        .summary("Overwrites a part of the string at a key; a gap is filled with zero bytes."),
    Command::read("STRLEN", strlen, Group::String)
        .arity(2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::LOOK)])
        .since("2.2.0")
        .syntax("key")
        .summary("Returns the length of the string at a key in bytes."),
    Command::read("SUBSTR", range::getrange, Group::String)
        .arity(4)
        .flags(Flags::STEADY)
        .keys(&[KeySpec::one(1, KeyFlags::READ)])
        .complexity("O(N) for N bytes returned")
        .syntax("key start:int end:int")
        .summary("The old name of GETRANGE."),
];
