//! Replies of the binary protocol: the header of the request, with another magic and a status.

use super::RequestEcho;

const MAGIC: u8 = 0x81;
const STATS: u8 = 0x10;
const FLAGS_BYTES: usize = 4;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no such key.
    NotFound,
    /// The key exists (ADD), or its cas is different.
    Exists,
    /// The value is too large.
    TooLarge,
    /// The request does not fit its command.
    Invalid,
    /// There is nothing to append to.
    NotStored,
    /// The value is not a number.
    NotNumeric,
    /// The client has not authenticated.
    Unauthenticated,
    /// The command is unknown, or its body is shorter than its parts.
    Unknown,
    /// There is no memory left.
    OutOfMemory,
    /// Another error; memcached has no status for errors of other protocols' values.
    Internal,
}

impl Failure {
    /// The status code, and its text.
    pub const fn status(self) -> (u16, &'static str) {
        match self {
            Failure::NotFound => (0x01, "Not found"),
            Failure::Exists => (0x02, "Data exists for key."),
            Failure::TooLarge => (0x03, "Too large."),
            Failure::Invalid => (0x04, "Invalid arguments"),
            Failure::NotStored => (0x05, "Not stored."),
            Failure::NotNumeric => (0x06, "Non-numeric server-side value for incr or decr"),
            Failure::Unauthenticated => (0x20, "Auth failure."),
            Failure::Unknown => (0x81, "Unknown command"),
            Failure::OutOfMemory => (0x82, "Out of memory"),
            Failure::Internal => (0x84, "Internal error"),
        }
    }
}

/// The lengths of a reply's parts.
#[derive(Clone, Copy, Default)]
struct Lengths {
    extras: usize,
    key: usize,
    data: usize,
}

/// A hit: everything but the `size` bytes of the value, which must follow.
pub fn value(
    out: &mut Vec<u8>,
    asked: RequestEcho,
    key: Option<&[u8]>,
    (client_flags, cas): (u32, u64),
    size: usize,
) {
    let key = key.unwrap_or_default();
    header(out, asked, 0, Lengths { extras: FLAGS_BYTES, key: key.len(), data: size }, cas);
    out.extend_from_slice(&client_flags.to_be_bytes());
    out.extend_from_slice(key);
}

/// A miss; a command that wants the key back gets it in place of a text.
pub fn miss(out: &mut Vec<u8>, asked: RequestEcho, key: Option<&[u8]>) {
    match key {
        Some(key) => {
            let (status, _) = Failure::NotFound.status();
            header(out, asked, status, Lengths { key: key.len(), ..Lengths::default() }, 0);
            out.extend_from_slice(key);
        }
        None => failure(out, asked, Failure::NotFound),
    }
}

/// Success; with the cas of the item.
pub fn done(out: &mut Vec<u8>, asked: RequestEcho, cas: u64) {
    header(out, asked, 0, Lengths::default(), cas);
}

/// The result of INCREMENT or DECREMENT.
pub fn number(out: &mut Vec<u8>, asked: RequestEcho, number: u64, cas: u64) {
    header(out, asked, 0, Lengths { data: size_of::<u64>(), ..Lengths::default() }, cas);
    out.extend_from_slice(&number.to_be_bytes());
}

/// A text: of VERSION, and of authentication.
pub fn text(out: &mut Vec<u8>, asked: RequestEcho, text: &str) {
    header(out, asked, 0, Lengths { data: text.len(), ..Lengths::default() }, 0);
    out.extend_from_slice(text.as_bytes());
}

/// More is required, by SASL STEP.
pub fn more_wanted(out: &mut Vec<u8>, asked: RequestEcho) {
    header(out, asked, 0x21, Lengths::default(), 0);
}

/// One statistic of STAT; one without a name ends the list.
pub fn figure(out: &mut Vec<u8>, asked: RequestEcho, name: &str, value: &str) {
    let asked = RequestEcho { opcode: STATS, ..asked };
    let lengths = Lengths { extras: 0, key: name.len(), data: value.len() };
    header(out, asked, 0, lengths, 0);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value.as_bytes());
}

/// Appends a failure with the usual text of its status.
pub fn failure(out: &mut Vec<u8>, asked: RequestEcho, failure: Failure) {
    let (_, text) = failure.status();
    failure_with(out, asked, failure, text);
}

/// Appends a failure with another text.
pub fn failure_with(out: &mut Vec<u8>, asked: RequestEcho, failure: Failure, text: &str) {
    let (status, _) = failure.status();
    header(out, asked, status, Lengths { data: text.len(), ..Lengths::default() }, 0);
    out.extend_from_slice(text.as_bytes());
}

fn header(out: &mut Vec<u8>, asked: RequestEcho, status: u16, lengths: Lengths, cas: u64) {
    let Lengths { extras, key, data } = lengths;
    out.extend_from_slice(&[MAGIC, asked.opcode]);
    out.extend_from_slice(&(key as u16).to_be_bytes());
    out.extend_from_slice(&[extras as u8, 0]);
    out.extend_from_slice(&status.to_be_bytes());
    out.extend_from_slice(&((extras + key + data) as u32).to_be_bytes());
    out.extend_from_slice(&asked.opaque);
    out.extend_from_slice(&cas.to_be_bytes());
}
