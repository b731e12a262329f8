//! Memcached's binary protocol: requests of a header of 24 bytes and a body of extras, key, value.
//!
//! ```text
//!  0  magic 0x80   1  opcode   2  key length (2)
//!  4  extras length   5  data type   6  reserved (2)
//!  8  body length (4)  12  opaque (4), returned unchanged
//! 16  cas (8): of the item to be changed, 0 for any
//! ```
//!
//! Numbers are big-endian. A body whose lengths do not fit its command ends the connection after an
//! error reply; bytes that do not begin with the magic end it without one.
//!
//! Invariants: those of the crate. The parser waits for no more than header, extras and a key of
//! 250 bytes before it knows the request, and then for the value only if that may be stored.
//!
//! Not here: permissions; `Access` tells what the caller knows of them.

pub mod reply;

use crate::arithmetic::Direction;
use crate::request::{MOST_KEY_BYTES, StoreMode};
use crate::size::item_bytes;
use reply::Failure;

/// The first byte of a request; no line of text begins with it.
pub const MAGIC: u8 = 0x80;
const HEADER_BYTES: usize = 24;
/// The longest name of a SASL mechanism.
const MOST_MECHANISM_BYTES: usize = 32;
/// The expiry of `incr` and `decr` which says that a missing item is not created.
const MAKES_NOTHING: u32 = u32::MAX;

/// The limits of a client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest item, as `size` computes it.
    pub item_bytes: usize,
    /// Whether the client must authenticate.
    pub access: Access,
}

/// The authentication state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No authentication: the commands for it do not exist.
    Open,
    /// It must authenticate before anything else.
    Locked,
    /// It has authenticated.
    Granted,
}

/// The fields of a request that its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEcho {
    /// The command.
    pub opcode: u8,
    /// The client's identifier for the request.
    pub opaque: [u8; 4],
}

/// A request and the form of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The fields for the reply.
    pub asked: RequestEcho,
    /// No reply on success; for a read, none on a miss.
    pub is_quiet: bool,
    /// The command.
    pub command: Command<'a>,
}

/// The header and extras of a request: everything but key and data.
pub struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// The header and extras at the start of a request that was parsed before.
    pub fn of(request: &'a [u8]) -> Parts<'a> {
        let extras = request.get(4).map_or(0, |&extras| usize::from(extras));
        Parts(request.get(..HEADER_BYTES + extras).unwrap_or_default())
    }

    /// The header and extras as bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Rebuilds the request from its parts: these bytes, the key and the data. `None`: not a
    /// request.
    pub fn request(bytes: &'a [u8], key: &'a [u8], data: &'a [u8]) -> Option<Request<'a>> {
        let header = Header::read(bytes)?;
        let (kind, is_quiet) = kind_of(header.asked.opcode);
        let extras = bytes.get(HEADER_BYTES..)?;
        let head = Head { extras, key, cas: header.cas, data_bytes: data.len() };
        // Permissions were checked when it was parsed.
        match head.meaning(kind, Access::Granted) {
            HeadMeaning::Whole(command) => Some(Request { asked: header.asked, is_quiet, command }),
            HeadMeaning::WithData(command) => {
                let command = command.with_data(data);
                Some(Request { asked: header.asked, is_quiet, command })
            }
            HeadMeaning::Malformed | HeadMeaning::Refused(_) => None,
        }
    }

    /// The fields that a reply to this request repeats.
    pub fn asked(bytes: &[u8]) -> Option<RequestEcho> {
        Some(Header::read(bytes)?.asked)
    }
}

/// A command. Times are in seconds (see `expiry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// GET, GETK, GAT, GATK
    Get {
        /// The key.
        key: &'a [u8],
        /// Whether the reply contains the key.
        with_key: bool,
        /// The new time to live.
        exptime_s: Option<i64>,
    },
    /// TOUCH
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new time to live.
        exptime_s: i64,
    },
    /// SET, ADD, REPLACE, APPEND, PREPEND
    Store {
        /// The kind of store; never `IfUnchanged`, for which `cas` stands.
        storing: StoreMode,
        /// The key.
        key: &'a [u8],
        /// Only if the item has this cas; then ADD and REPLACE are SET.
        cas: Option<u64>,
        /// The client's flags.
        flags: u32,
        /// The time to live.
        exptime_s: i64,
        /// The value.
        data: &'a [u8],
    },
    /// DELETE
    Delete {
        /// The key.
        key: &'a [u8],
        /// Only if the item has this cas.
        cas: Option<u64>,
    },
    /// INCREMENT, DECREMENT
    Count {
        /// The key.
        key: &'a [u8],
        /// The direction.
        direction: Direction,
        /// The difference.
        delta: u64,
        /// Initial value and time to live, if a missing item is created.
        made_as: Option<(u64, i64)>,
        /// Only if the item has this cas.
        cas: Option<u64>,
    },
    /// FLUSH
    Flush {
        /// The delay in seconds.
        delay_s: i64,
    },
    /// NOOP
    Nothing,
    /// VERSION
    Version,
    /// STAT: the group, if one is named.
    Stats(&'a [u8]),
    /// QUIT
    Quit,
    /// SASL LIST MECHS
    Mechanisms,
    /// SASL AUTH, SASL STEP
    Authenticate {
        /// The name of the mechanism.
        mechanism: &'a [u8],
        /// The client's message.
        data: &'a [u8],
        /// Whether it continues an exchange (SASL STEP).
        continues: bool,
    },
}

/// The result of parsing the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A request.
    Request {
        /// The request.
        request: Request<'a>,
        /// Bytes to take off the buffer.
        consumed: usize,
        /// How many further bytes to discard as they come.
        skip: usize,
    },
    /// A client's error, to be answered.
    Fault {
        /// The fields for the reply.
        asked: RequestEcho,
        /// What went wrong.
        failure: Failure,
        /// Whether the connection is closed after the reply.
        closes: bool,
        /// The key whose old value must be deleted: the new value is too large to be stored.
        stale: Option<&'a [u8]>,
        /// Bytes to take off the buffer.
        consumed: usize,
        /// Bytes to skip after `consumed`, which may not have arrived yet.
        skip: usize,
    },
    /// Part of a request. Call again with the same start and more bytes after it.
    Incomplete {
        /// At least this many bytes more are needed.
        wanted: usize,
    },
    /// The connection is to be closed: this is not the binary protocol.
    Close,
}

/// The state of one connection's input between calls.
#[derive(Clone, Debug, Default)]
pub struct RequestParser {
    /// The length of the request at the start of the buffer.
    needed: usize,
}

/// The header of a request.
#[derive(Clone, Copy)]
struct Header {
    asked: RequestEcho,
    key_bytes: usize,
    extras_bytes: usize,
    body_bytes: usize,
    cas: Option<u64>,
}

/// The parts of a request that precede its data.
struct Head<'a> {
    extras: &'a [u8],
    key: &'a [u8],
    cas: Option<u64>,
    /// Bytes after the key.
    data_bytes: usize,
}

/// The meaning of a head.
enum HeadMeaning<'a> {
    /// A complete command; the rest of the body is discarded.
    Whole(Command<'a>),
    /// A command whose data is the rest of the body, empty as yet.
    WithData(Command<'a>),
    /// Its lengths do not fit.
    Malformed,
    /// It cannot be done; the data is discarded.
    Refused(Failure),
}

impl RequestParser {
    /// Parses the request at the start of `buf`. After `Incomplete` the buffer of the next call
    /// must begin with the same bytes.
    pub fn parse<'a>(&mut self, buf: &'a [u8], limits: &Limits) -> Step<'a> {
        if buf.len() < self.needed.max(HEADER_BYTES) {
            return Step::Incomplete { wanted: self.needed.max(HEADER_BYTES) - buf.len() };
        }
        let Some(header) = Header::read(buf) else { return Step::Close };
        if let Some(failure) = header.unfit(limits.access) {
            return self.fail(header.asked, failure, true, HEADER_BYTES);
        }
        let head_bytes = HEADER_BYTES + header.extras_bytes + header.key_bytes;
        if buf.len() < head_bytes {
            return self.wait_for(head_bytes, buf);
        }
        self.follow(buf, header, head_bytes, limits)
    }

    /// Continues when everything except the data is there.
    fn follow<'a>(
        &mut self,
        buf: &'a [u8],
        header: Header,
        head_bytes: usize,
        limits: &Limits,
    ) -> Step<'a> {
        let asked = header.asked;
        let (extras, key) = buf[HEADER_BYTES..head_bytes].split_at(header.extras_bytes);
        let data_bytes = HEADER_BYTES + header.body_bytes - head_bytes;
        let (kind, is_quiet) = kind_of(asked.opcode);
        let head = Head { extras, key, cas: header.cas, data_bytes };
        match head.meaning(kind, limits.access) {
            HeadMeaning::Malformed => self.fail(asked, Failure::Invalid, true, head_bytes),
            HeadMeaning::Refused(failure) => {
                self.refuse(asked, (failure, None), head_bytes, data_bytes)
            }
            HeadMeaning::Whole(command) => {
                *self = RequestParser::default();
                let request = Request { asked, is_quiet, command };
                Step::Request { request, consumed: head_bytes, skip: data_bytes }
            }
            HeadMeaning::WithData(command)
                if command.item_bytes(data_bytes) > limits.item_bytes =>
            {
                self.refuse(asked, too_large(kind, command), head_bytes, data_bytes)
            }
            HeadMeaning::WithData(command) => {
                let consumed = head_bytes + data_bytes;
                if buf.len() < consumed {
                    return self.wait_for(consumed, buf);
                }
                *self = RequestParser::default();
                let command = command.with_data(&buf[head_bytes..consumed]);
                let request = Request { asked, is_quiet, command };
                Step::Request { request, consumed, skip: 0 }
            }
        }
    }

    fn refuse<'a>(
        &mut self,
        asked: RequestEcho,
        (failure, stale): (Failure, Option<&'a [u8]>),
        consumed: usize,
        skip: usize,
    ) -> Step<'a> {
        *self = RequestParser::default();
        Step::Fault { asked, failure, closes: false, stale, consumed, skip }
    }

    fn wait_for(&mut self, needed: usize, buf: &[u8]) -> Step<'static> {
        self.needed = needed;
        Step::Incomplete { wanted: needed - buf.len() }
    }

    fn fail<'a>(
        &mut self,
        asked: RequestEcho,
        failure: Failure,
        closes: bool,
        consumed: usize,
    ) -> Step<'a> {
        *self = RequestParser::default();
        Step::Fault { asked, failure, closes, stale: None, consumed, skip: 0 }
    }
}

/// The failure for a value above the limit; for SET also the key, whose old value must be deleted.
fn too_large(kind: Kind, command: Command<'_>) -> (Failure, Option<&[u8]>) {
    match (kind, command) {
        (Kind::Set(StoreMode::Always), Command::Store { key, .. }) => {
            (Failure::TooLarge, Some(key))
        }
        (_, Command::Store { .. }) => (Failure::TooLarge, None),
        _ => (Failure::OutOfMemory, None),
    }
}

impl Header {
    /// `None`: it does not begin with the magic.
    fn read(buf: &[u8]) -> Option<Header> {
        let header = buf.first_chunk::<HEADER_BYTES>()?;
        let [magic, opcode, key @ .., extras, _, _, _] = *header.first_chunk::<8>()?;
        let [body @ .., o0, o1, o2, o3] = *header[8..].first_chunk::<8>()?;
        let cas = u64::from_be_bytes(*header.last_chunk::<8>()?);
        (magic == MAGIC).then_some(Header {
            asked: RequestEcho { opcode, opaque: [o0, o1, o2, o3] },
            key_bytes: usize::from(u16::from_be_bytes(key)),
            extras_bytes: usize::from(extras),
            body_bytes: u32::from_be_bytes(body) as usize,
            cas: (cas != 0).then_some(cas),
        })
    }

    /// Why the connection must end here, if so.
    fn unfit(&self, access: Access) -> Option<Failure> {
        let kind = kind_of(self.asked.opcode).0;
        let is_free = matches!(kind, Kind::Version | Kind::Mechanisms | Kind::Authenticate { .. });
        if self.key_bytes + self.extras_bytes > self.body_bytes {
            Some(Failure::Unknown)
        } else if access == Access::Locked && !is_free {
            Some(Failure::Unauthenticated)
        } else if self.key_bytes > MOST_KEY_BYTES {
            Some(Failure::Invalid)
        } else {
            None
        }
    }
}

/// The commands, without their quiet variants.
#[derive(Clone, Copy)]
enum Kind {
    Get { with_key: bool },
    GetAndTouch { with_key: bool },
    Touch,
    Set(StoreMode),
    Extend(StoreMode),
    Delete,
    Count(Direction),
    Quit,
    Flush,
    Nothing,
    Version,
    Stats,
    Mechanisms,
    Authenticate { continues: bool },
    Unknown,
}

/// The command of an opcode, and whether the opcode is the quiet variant.
fn kind_of(opcode: u8) -> (Kind, bool) {
    let loud = match opcode {
        0x09 => 0x00,
        0x0d => 0x0c,
        0x11..=0x18 => opcode - 0x10,
        0x19 | 0x1a => opcode - 0x0b,
        0x1e => 0x1d,
        0x24 => 0x23,
        _ => opcode,
    };
    let kind = match loud {
        0x00 => Kind::Get { with_key: false },
        0x01 => Kind::Set(StoreMode::Always),
        0x02 => Kind::Set(StoreMode::IfMissing),
        0x03 => Kind::Set(StoreMode::IfPresent),
        0x04 => Kind::Delete,
        0x05 => Kind::Count(Direction::Up),
        0x06 => Kind::Count(Direction::Down),
        0x07 => Kind::Quit,
        0x08 => Kind::Flush,
        0x0a => Kind::Nothing,
        0x0b => Kind::Version,
        0x0c => Kind::Get { with_key: true },
        0x0e => Kind::Extend(StoreMode::After),
        0x0f => Kind::Extend(StoreMode::Before),
        0x10 => Kind::Stats,
        0x1c => Kind::Touch,
        0x1d => Kind::GetAndTouch { with_key: false },
        0x20 => Kind::Mechanisms,
        0x21 => Kind::Authenticate { continues: false },
        0x22 => Kind::Authenticate { continues: true },
        0x23 => Kind::GetAndTouch { with_key: true },
        _ => Kind::Unknown,
    };
    (kind, loud != opcode)
}

impl<'a> Head<'a> {
    fn meaning(&self, kind: Kind, access: Access) -> HeadMeaning<'a> {
        if matches!(kind, Kind::Mechanisms | Kind::Authenticate { .. }) {
            return self.access_meaning(kind, access);
        }
        let meaning = match kind {
            Kind::Get { with_key } => {
                self.bare(true, |key| Command::Get { key, with_key, exptime_s: None })
            }
            Kind::Delete => self.bare(true, |key| Command::Delete { key, cas: self.cas }),
            Kind::Quit => self.bare(false, |_| Command::Quit),
            Kind::Nothing => self.bare(false, |_| Command::Nothing),
            Kind::Version => self.bare(false, |_| Command::Version),
            Kind::GetAndTouch { with_key } => self.timed(|key, exptime_s| Command::Get {
                key,
                with_key,
                exptime_s: Some(exptime_s),
            }),
            Kind::Touch => self.timed(|key, exptime_s| Command::Touch { key, exptime_s }),
            Kind::Set(storing) => self.set(storing),
            Kind::Extend(storing) => self.extend(storing),
            Kind::Count(direction) => self.count(direction),
            Kind::Flush => self.flush(),
            Kind::Stats => {
                self.extras.is_empty().then_some(HeadMeaning::Whole(Command::Stats(self.key)))
            }
            _ => Some(HeadMeaning::Refused(Failure::Unknown)),
        };
        meaning.unwrap_or(HeadMeaning::Malformed)
    }

    /// A command with a key or nothing, and nothing else.
    fn bare(
        &self,
        has_key: bool,
        command: impl FnOnce(&'a [u8]) -> Command<'a>,
    ) -> Option<HeadMeaning<'a>> {
        let fits = self.extras.is_empty() && self.data_bytes == 0 && self.key.is_empty() != has_key;
        fits.then(|| HeadMeaning::Whole(command(self.key)))
    }

    /// A command with a key and a time.
    fn timed(&self, command: impl FnOnce(&'a [u8], i64) -> Command<'a>) -> Option<HeadMeaning<'a>> {
        let exptime: [u8; 4] = self.extras.try_into().ok()?;
        let exptime_s = i64::from(u32::from_be_bytes(exptime));
        (!self.key.is_empty()).then(|| HeadMeaning::Whole(command(self.key, exptime_s)))
    }

    fn set(&self, storing: StoreMode) -> Option<HeadMeaning<'a>> {
        let [f0, f1, f2, f3, exptime @ ..]: [u8; 8] = self.extras.try_into().ok()?;
        let command = Command::Store {
            storing: if self.cas.is_some() { StoreMode::Always } else { storing },
            key: self.key,
            cas: self.cas,
            flags: u32::from_be_bytes([f0, f1, f2, f3]),
            exptime_s: i64::from(u32::from_be_bytes(exptime)),
            data: b"",
        };
        (!self.key.is_empty()).then_some(HeadMeaning::WithData(command))
    }

    fn extend(&self, storing: StoreMode) -> Option<HeadMeaning<'a>> {
        let fits = self.extras.is_empty() && !self.key.is_empty();
        let (key, cas) = (self.key, self.cas);
        let command = Command::Store { storing, key, cas, flags: 0, exptime_s: 0, data: b"" };
        fits.then_some(HeadMeaning::WithData(command))
    }

    fn count(&self, direction: Direction) -> Option<HeadMeaning<'a>> {
        let (delta, rest) = self.extras.split_first_chunk::<8>()?;
        let (initial, rest) = rest.split_first_chunk::<8>()?;
        let exptime = u32::from_be_bytes(rest.try_into().ok()?);
        let made_as = (u64::from_be_bytes(*initial), i64::from(exptime));
        let command = Command::Count {
            key: self.key,
            direction,
            delta: u64::from_be_bytes(*delta),
            made_as: (exptime != MAKES_NOTHING).then_some(made_as),
            cas: self.cas,
        };
        let fits = !self.key.is_empty() && self.data_bytes == 0;
        fits.then_some(HeadMeaning::Whole(command))
    }

    fn flush(&self) -> Option<HeadMeaning<'a>> {
        let delay_s = match *self.extras {
            [] => 0,
            [d0, d1, d2, d3] => i64::from(u32::from_be_bytes([d0, d1, d2, d3])),
            _ => return None,
        };
        let fits = self.key.is_empty() && self.data_bytes == 0;
        fits.then_some(HeadMeaning::Whole(Command::Flush { delay_s }))
    }

    /// The commands for authentication; where none is required, they do not exist.
    fn access_meaning(&self, kind: Kind, access: Access) -> HeadMeaning<'a> {
        let continues = match kind {
            Kind::Authenticate { continues } => Some(continues),
            _ => None,
        };
        let is_bare = self.extras.is_empty();
        match continues {
            None if !is_bare || !self.key.is_empty() || self.data_bytes > 0 => {
                HeadMeaning::Malformed
            }
            Some(_) if !is_bare || self.key.is_empty() => HeadMeaning::Malformed,
            _ if access == Access::Open => HeadMeaning::Refused(Failure::Unknown),
            None => HeadMeaning::Whole(Command::Mechanisms),
            Some(_) if self.key.len() > MOST_MECHANISM_BYTES => {
                HeadMeaning::Refused(Failure::Invalid)
            }
            Some(continues) => HeadMeaning::WithData(Command::Authenticate {
                mechanism: self.key,
                data: b"",
                continues,
            }),
        }
    }
}

impl<'a> Command<'a> {
    /// The size of an item with this much data; for other commands, of the data.
    fn item_bytes(&self, data_bytes: usize) -> usize {
        match self {
            Command::Store { key, flags, .. } => item_bytes(key.len(), data_bytes, *flags),
            _ => data_bytes,
        }
    }

    fn with_data(mut self, bytes: &'a [u8]) -> Command<'a> {
        if let Command::Store { data, .. } | Command::Authenticate { data, .. } = &mut self {
            *data = bytes;
        }
        self
    }
}

#[cfg(test)]
mod tests;
