//! The rows of the family.

use super::place::{geoadd, geodist, geohash, geopos};
use super::search::{
    georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore,
};
use crate::command::{Begin, Command, Find, Flags, Group, KeyFlags, KeySpec};

const READS: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];

const SEARCH_COMPLEXITY: &str =
    "O(N+log(M)) for N members in the cells around the shape, of M in all";

/// The destination of GEORADIUS behind this word, which is looked for from an argument on.
const fn stored(word: &'static str, from: isize) -> KeySpec {
    KeySpec {
        begin: Begin::Keyword(word, from),
        find: Find::GeoStore(word),
        flags: KeyFlags::OVERWRITE.variable(),
    }
}

const fn overwrite(_args: &[&[u8]]) -> KeyFlags {
    KeyFlags::OVERWRITE
}

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::write("GEOADD", geoadd, Group::Geo)
        .arity(-5)
        .flags(Flags::DENYOOM)
        .keys(&[KeySpec::one(1, KeyFlags::MODIFY)])
        .since("3.2.0")
        .complexity("O(log(N)) for each member, of N in all")
        .syntax(
            "key [condition: NX | XX] [change: CH] \
             (data: longitude:double latitude:double member) ...",
        )
        .summary("Adds members with positions to a sorted set, or moves them."),
    Command::read("GEODIST", geodist, Group::Geo)
        .arity(-4)
        .keys(READS)
        .since("3.2.0")
        .syntax("key member1 member2 [unit: M | KM | FT | MI]")
        .summary("Returns the distance between two members."),
    Command::read("GEOHASH", geohash, Group::Geo)
        .arity(-2)
        .keys(READS)
        .since("3.2.0")
        .complexity("O(1) for each member")
        .syntax("key [member ...]")
        .summary("Returns the standard geohashes of members."),
    Command::read("GEOPOS", geopos, Group::Geo)
        .arity(-2)
        .keys(READS)
        .since("3.2.0")
        .complexity("O(1) for each member")
        .syntax("key [member ...]")
        .summary("Returns the longitudes and latitudes of members."),
    Command::write("GEORADIUS", georadius, Group::Geo)
        .arity(-6)
        .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS).and(Flags::DEPRECATED))
        .keys(&[KeySpec::one(1, KeyFlags::READ), stored("STORE", 6), stored("STOREDIST", 6)])
        .flags_of(overwrite)
        .since("3.2.0")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "key longitude:double latitude:double radius:double (unit: M | KM | FT | MI) \
             [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: COUNT count:int [ANY]] \
             [order: ASC | DESC] [store: STORE storekey:key | STOREDIST storedistkey:key]",
        )
        .summary("Finds members within a distance of a position; may store them."),
    Command::write("GEORADIUSBYMEMBER", georadiusbymember, Group::Geo)
        .arity(-5)
        .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS).and(Flags::DEPRECATED))
        .keys(&[KeySpec::one(1, KeyFlags::READ), stored("STORE", 5), stored("STOREDIST", 5)])
        .flags_of(overwrite)
        .since("3.2.0")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "key member radius:double (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
             [count-block: COUNT count:int [ANY]] [order: ASC | DESC] \
             [store: STORE storekey:key | STOREDIST storedistkey:key]",
        )
        .summary("Finds members within a distance of a member; may store them."),
    Command::read("GEORADIUSBYMEMBER_RO", georadiusbymember_ro, Group::Geo)
        .arity(-5)
        .flags(Flags::DEPRECATED)
        .keys(READS)
        .since("3.2.10")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "key member radius:double (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
             [count-block: COUNT count:int [ANY]] [order: ASC | DESC]",
        )
        .summary("Finds members within a distance of a member."),
    Command::read("GEORADIUS_RO", georadius_ro, Group::Geo)
        .arity(-6)
        .flags(Flags::DEPRECATED)
        .keys(READS)
        .since("3.2.10")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "key longitude:double latitude:double radius:double (unit: M | KM | FT | MI) \
             [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: COUNT count:int [ANY]] \
             [order: ASC | DESC]",
        )
        .summary("Finds members within a distance of a position."),
    Command::read("GEOSEARCH", geosearch, Group::Geo)
        .arity(-7)
        .keys(READS)
        .since("6.2.0")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "key [from: FROMMEMBER member | FROMLONLAT longitude:double latitude:double] (by: \
             (circle: BYRADIUS radius:double (unit: M | KM | FT | MI)) | (box: BYBOX width:double \
             height:double (unit: M | KM | FT | MI)) | (polygon: BYPOLYGON num-vertices:int \
             (vertices: longitude:double latitude:double) ...)) [order: ASC | DESC] \
             [count-block: COUNT count:int [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        )
        .summary("Finds members within a circle, a box or a polygon."),
    Command::write("GEOSEARCHSTORE", geosearchstore, Group::Geo)
        .arity(-8)
        .flags(Flags::DENYOOM)
        .keys(&[KeySpec::one(1, KeyFlags::OVERWRITE), KeySpec::one(2, KeyFlags::READ)])
        .since("6.2.0")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "destination:key source:key \
             [from: FROMMEMBER member | FROMLONLAT longitude:double latitude:double] (by: \
             (circle: BYRADIUS radius:double (unit: M | KM | FT | MI)) | (box: BYBOX width:double \
             height:double (unit: M | KM | FT | MI)) | (polygon: BYPOLYGON num-vertices:int \
             (vertices: longitude:double latitude:double) ...)) [order: ASC | DESC] \
             [count-block: COUNT count:int [ANY]] [STOREDIST]",
        )
        .summary("Stores the members within a circle, a box or a polygon as a sorted set."),
];
