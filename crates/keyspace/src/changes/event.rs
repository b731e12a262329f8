//! Events: what has happened to a key, in the words of keyspace notifications.

/// The classes of `notify-keyspace-events`, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u16);

impl EventClass {
    /// No class: no event is published, but the value has changed.
    pub const NONE: EventClass = EventClass(0);
    /// `g`: commands that are not specific to a type.
    pub const GENERIC: EventClass = EventClass(1 << 0);
    /// `$`: strings.
    pub const STRING: EventClass = EventClass(1 << 1);
    /// `x`: a key expired.
    pub const EXPIRED: EventClass = EventClass(1 << 2);
    /// `e`: a key was evicted.
    pub const EVICTED: EventClass = EventClass(1 << 3);
    /// `n`: a key was created.
    pub const NEW: EventClass = EventClass(1 << 4);
    /// `l`: lists.
    pub const LIST: EventClass = EventClass(1 << 5);
    /// `s`: sets.
    pub const SET: EventClass = EventClass(1 << 6);
    /// `h`: hashes.
    pub const HASH: EventClass = EventClass(1 << 7);
    /// `z`: sorted sets.
    pub const ZSET: EventClass = EventClass(1 << 8);
    /// `t`: streams.
    pub const STREAM: EventClass = EventClass(1 << 9);
    /// `m`: a missing key was looked up.
    pub const KEY_MISS: EventClass = EventClass(1 << 10);
}

impl EventClass {
    /// The classes that a letter of `notify-keyspace-events` selects. `d` is a class of modules,
    /// which do not exist here.
    pub fn of_letter(letter: char) -> EventClass {
        const ALL: &str = "g$lshzxet";
        match letter {
            'g' => EventClass::GENERIC,
            '$' => EventClass::STRING,
            'l' => EventClass::LIST,
            's' => EventClass::SET,
            'h' => EventClass::HASH,
            'z' => EventClass::ZSET,
            'x' => EventClass::EXPIRED,
            'e' => EventClass::EVICTED,
            't' => EventClass::STREAM,
            'm' => EventClass::KEY_MISS,
            'n' => EventClass::NEW,
            'A' => EventClass(ALL.chars().map(|letter| EventClass::of_letter(letter).0).sum()),
            _ => EventClass::NONE,
        }
    }

    /// The union of both.
    #[must_use]
    pub const fn and(self, other: EventClass) -> EventClass {
        EventClass(self.0 | other.0)
    }
}

/// One kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// The class by which listeners select it.
    pub class: EventClass,
    /// The name that listeners are told.
    pub name: &'static str,
}

macro_rules! events {
    ($($class:ident { $($constant:ident = $name:literal),+ $(,)? })+) => {
        $($(
            #[doc = concat!("`", $name, "`")]
            pub const $constant: KeyEvent = KeyEvent { class: EventClass::$class, name: $name };
        )+)+
    };
}

events! {
    NONE { UNNAMED = "" }
    GENERIC {
        DEL = "del", EXPIRE = "expire", PERSIST = "persist", RENAME_FROM = "rename_from",
        RENAME_TO = "rename_to", MOVE_FROM = "move_from", MOVE_TO = "move_to", COPY_TO = "copy_to",
        RESTORE = "restore",
    }
    STRING {
        SET = "set", APPEND = "append", SETRANGE = "setrange", INCRBY = "incrby",
        INCRBYFLOAT = "incrbyfloat", SETBIT = "setbit", PFADD = "pfadd",
    }
    HASH {
        HSET = "hset", HDEL = "hdel", HINCRBY = "hincrby", HINCRBYFLOAT = "hincrbyfloat",
        HEXPIRE = "hexpire", HPERSIST = "hpersist", HEXPIRED = "hexpired",
    }
    SET {
        SADD = "sadd", SREM = "srem", SPOP = "spop", SINTERSTORE = "sinterstore",
        SUNIONSTORE = "sunionstore", SDIFFSTORE = "sdiffstore", SEXPIRE = "sexpire",
        SEXPIRED = "sexpired",
    }
    LIST {
        LPUSH = "lpush", RPUSH = "rpush", LPOP = "lpop", RPOP = "rpop", LINSERT = "linsert",
        LSET = "lset", LREM = "lrem", LTRIM = "ltrim", SORTSTORE = "sortstore",
    }
    ZSET {
        ZADD = "zadd", ZINCR = "zincr", ZREM = "zrem", ZREMRANGEBYRANK = "zremrangebyrank",
        ZREMRANGEBYSCORE = "zremrangebyscore", ZREMRANGEBYLEX = "zremrangebylex",
        ZPOPMIN = "zpopmin", ZPOPMAX = "zpopmax", ZRANGESTORE = "zrangestore",
        ZUNIONSTORE = "zunionstore", ZINTERSTORE = "zinterstore", ZDIFFSTORE = "zdiffstore",
        GEORADIUSSTORE = "georadiusstore", GEOSEARCHSTORE = "geosearchstore",
        ZEXPIRE = "zexpire", ZPERSIST = "zpersist", ZEXPIRED = "zexpired",
    }
    EXPIRED { EXPIRED = "expired", HEXPIRED_BY_TIME = "hexpired" }
    EVICTED { EVICTED = "evicted" }
    NEW { NEW = "new" }
    KEY_MISS { KEY_MISS = "keymiss" }
    STREAM {
        XADD = "xadd", XTRIM = "xtrim", XDEL = "xdel", XSETID = "xsetid",
        XGROUP_CREATE = "xgroup-create", XGROUP_SETID = "xgroup-setid",
        XGROUP_DESTROY = "xgroup-destroy", XGROUP_CREATECONSUMER = "xgroup-createconsumer",
        XGROUP_DELCONSUMER = "xgroup-delconsumer",
    }
}
