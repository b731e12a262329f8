//! The numbers that name the type and encoding of a value.

/// The byte before a value: its type and encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RdbKind(pub u8);

impl RdbKind {
    /// Whether only files may contain it: RESTORE refuses it, as other servers do.
    pub(crate) fn is_only_in_files(self) -> bool {
        matches!(
            self,
            RdbKind::HASH_BEFORE_RELEASE
                | RdbKind::HASH_LISTPACK_BEFORE_RELEASE
                | RdbKind::HASH_METADATA
                | RdbKind::HASH_LISTPACK_DEADLINES
                | RdbKind::HASH_OF_DRAGONFLY
                | RdbKind::SET_OF_DRAGONFLY
        )
    }

    /// The kind that replaces it where only kinds of Redis or Valkey are written: without deadlines
    /// of members.
    pub fn portable(self) -> RdbKind {
        match self {
            RdbKind::SET_WITH_DEADLINES => RdbKind::SET,
            RdbKind::SORTED_SET_WITH_DEADLINES => RdbKind::SORTED_SET_2,
            known => known,
        }
    }

    /// The kind that replaces it where only kinds of Redis 7.0 are written: a hash without
    /// deadlines of fields, a stream whose consumers have one time.
    pub fn old(self) -> RdbKind {
        match self.portable() {
            RdbKind::HASH_2 => RdbKind::HASH,
            RdbKind::STREAM_3 => RdbKind::STREAM_2,
            known => known,
        }
    }

    /// What Redis and Valkey call the form of its values in their logs, if it is a packed one.
    pub fn packed(self) -> Option<&'static str> {
        Some(match self {
            RdbKind::HASH_ZIPMAP => "Zipmap",
            RdbKind::LIST_ZIPLIST => "List ziplist",
            RdbKind::LIST_QUICKLIST => "Ziplist",
            RdbKind::LIST_QUICKLIST_2 => "Listpack",
            RdbKind::SET_INTSET => "Intset",
            RdbKind::SET_LISTPACK => "Set listpack",
            RdbKind::SORTED_SET_ZIPLIST => "Zset ziplist",
            RdbKind::SORTED_SET_LISTPACK => "Zset listpack",
            RdbKind::HASH_ZIPLIST => "Hash ziplist",
            RdbKind::HASH_LISTPACK
            | RdbKind::HASH_LISTPACK_BEFORE_RELEASE
            | RdbKind::HASH_LISTPACK_DEADLINES => "Hash listpack",
            RdbKind::STREAM | RdbKind::STREAM_2 | RdbKind::STREAM_3 => "Stream listpack",
            _ => return None,
        })
    }

    /// The answer of TYPE for its values; a module's name is not known here.
    pub fn type_name(self) -> &'static str {
        match self {
            RdbKind::STRING => "string",
            RdbKind::LIST
            | RdbKind::LIST_ZIPLIST
            | RdbKind::LIST_QUICKLIST
            | RdbKind::LIST_QUICKLIST_2 => "list",
            RdbKind::SET
            | RdbKind::SET_INTSET
            | RdbKind::SET_LISTPACK
            | RdbKind::SET_OF_DRAGONFLY
            | RdbKind::SET_WITH_DEADLINES => "set",
            RdbKind::SORTED_SET
            | RdbKind::SORTED_SET_2
            | RdbKind::SORTED_SET_ZIPLIST
            | RdbKind::SORTED_SET_LISTPACK
            | RdbKind::SORTED_SET_WITH_DEADLINES => "zset",
            RdbKind::STREAM | RdbKind::STREAM_2 | RdbKind::STREAM_3 => "stream",
            RdbKind::MODULE => "module",
            _ => "hash",
        }
    }
}

macro_rules! kinds {
    ($($name:ident = $number:literal, $version:literal, $what:literal;)+) => {
        impl RdbKind {
            $(
                #[doc = $what]
                pub const $name: RdbKind = RdbKind($number);
            )+

            /// The oldest version of the format that has it.
            pub fn version(self) -> Option<u16> {
                match self.0 {
                    $($number => Some($version),)+
                    _ => None,
                }
            }

            /// A description in one sentence.
            pub fn description(self) -> &'static str {
                match self.0 {
                    $($number => $what,)+
                    _ => "Nothing that is known.",
                }
            }
        }
    };
}

kinds! {
    STRING = 0, 6, "A string.";
    LIST = 1, 6, "A list: strings.";
    SET = 2, 6, "A set: strings.";
    SORTED_SET = 3, 6, "A sorted set: members, and scores as text.";
    HASH = 4, 6, "A hash: fields and values.";
    SORTED_SET_2 = 5, 8, "A sorted set: members, and scores as eight bytes.";
    MODULE = 7, 8, "A module's value, in parts that tell their own length. Not read.";
    HASH_ZIPMAP = 9, 6, "A hash in a string, as Redis 2.4 had it.";
    LIST_ZIPLIST = 10, 6, "A list in a ziplist.";
    SET_INTSET = 11, 6, "A set of numbers in a string.";
    SORTED_SET_ZIPLIST = 12, 6, "A sorted set in a ziplist.";
    HASH_ZIPLIST = 13, 6, "A hash in a ziplist.";
    LIST_QUICKLIST = 14, 7, "A list: several ziplists.";
    STREAM = 15, 9, "A stream, as Redis 5 had it.";
    HASH_LISTPACK = 16, 10, "A hash in a listpack.";
    SORTED_SET_LISTPACK = 17, 10, "A sorted set in a listpack.";
    LIST_QUICKLIST_2 = 18, 10, "A list: several listpacks, or elements by themselves.";
    STREAM_2 = 19, 10, "A stream with its counters.";
    SET_LISTPACK = 20, 11, "A set in a listpack.";
    STREAM_3 = 21, 11, "A stream whose consumers have two times.";
    HASH_2 = 22, 80, "A hash: fields, values and deadlines (Valkey 9).";
    HASH_LISTPACK_BEFORE_RELEASE = 23, 12, "As `HASH_LISTPACK_DEADLINES`, without the first.";
    HASH_METADATA = 24, 12, "Redis 7.4: the first deadline; deadlines after it, fields and values.";
    HASH_LISTPACK_DEADLINES = 25, 12, "Redis 7.4: the first deadline; triples in a listpack.";
    HASH_OF_DRAGONFLY = 31, 9, "Dragonfly: a hash, each value with a deadline after it.";
    SET_OF_DRAGONFLY = 32, 9, "Dragonfly: a set, a deadline after each member.";
    SET_WITH_DEADLINES = 112, 80, "Ours: a set, members and deadlines as in `HASH_2`.";
    SORTED_SET_WITH_DEADLINES = 113, 80, "Ours: as `SORTED_SET_2`, a deadline after each score.";
    HASH_BEFORE_RELEASE = 222, 12, "Our name for what was 22 before Redis 7.4 was released.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_for_old_servers_they_know() {
        for number in 0..=u8::MAX {
            let old = RdbKind(number).old();
            let written = [RdbKind::HASH_2, RdbKind::STREAM_3, RdbKind::SET_WITH_DEADLINES]
                .contains(&RdbKind(number))
                || RdbKind(number) == RdbKind::SORTED_SET_WITH_DEADLINES;
            assert_eq!(old != RdbKind(number), written, "{number}");
            assert!(!written || old.version().is_some_and(|version| version <= 10), "{number}");
        }
    }
}
