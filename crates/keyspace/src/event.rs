//! What happened to a key: the words of keyspace notifications, used for everything that listens.

/// The classes of `notify-keyspace-events`, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u16);

impl EventClass {
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
}

/// One kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The class a listener can ask for.
    pub class: EventClass,
    /// The name a listener is told.
    pub name: &'static str,
}

macro_rules! events {
    ($($class:ident { $($constant:ident = $name:literal),+ $(,)? })+) => {
        $($(
            #[doc = concat!("`", $name, "`")]
            pub const $constant: Event = Event { class: EventClass::$class, name: $name };
        )+)+
    };
}

events! {
    GENERIC {
        DEL = "del", EXPIRE = "expire", PERSIST = "persist", RENAME_FROM = "rename_from",
        RENAME_TO = "rename_to", MOVE_FROM = "move_from", MOVE_TO = "move_to", COPY_TO = "copy_to",
    }
    STRING {
        SET = "set", APPEND = "append", SETRANGE = "setrange", INCRBY = "incrby",
        INCRBYFLOAT = "incrbyfloat",
    }
    EXPIRED { EXPIRED = "expired" }
}
