//! Replies to meta commands: a code of two letters, and the requested fields in the order of the
//! flags.
//!
//! ```text
//! HD s3 t-1                 a hit, or success
//! VA 3 k1 W\r\nabc\r\n      with the value, which the caller writes after the line
//! EN  NF  NS  EX            a miss; not found; not stored; another cas
//! ```

use super::{Action, Key, Request};
use std::io::Write;

/// The properties of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Bytes of the value; for `ma`, of the number as text.
    pub size: usize,
    /// The client's flags, stored with the value.
    pub client_flags: u32,
    /// The CAS value, which the flag `C` compares.
    pub cas: u64,
    /// Time to live in seconds before the request, or as set by `N`; `None`: no expiry.
    pub ttl_before_s: Option<u32>,
    /// Time to live in seconds after the request; `None`: no expiry.
    pub ttl_after_s: Option<u32>,
    /// Seconds since the last read.
    pub since_access_s: u32,
    /// Whether it was read before.
    pub was_fetched: bool,
    /// Whether the request has created it.
    pub was_made: bool,
    /// The state of its renewal.
    pub renewal: Renewal,
}

/// The state of an item's renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// `X`: it is stale.
    pub is_stale: bool,
    /// `Z`: another client was told so before.
    pub was_won: bool,
    /// `W`: this client must renew it.
    pub wins: bool,
}

/// The result of a request that shows no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `ms`, `md`: success; with the item's cas (not used for `md`).
    Done(u64),
    /// `ms`: the key exists already, or does not.
    NotStored,
    /// `C` is not the item's cas.
    Exists,
    /// There is no such item.
    NotFound,
}

/// The line for a hit of `mg` or `ma`. True: the value and a line end must follow. A quiet `ma`
/// writes nothing, unless it has created the item.
#[must_use]
pub fn item(out: &mut Vec<u8>, request: &Request<'_>, item: &Item) -> bool {
    let (is_get, wants_value) = match request.action {
        Action::Get(get) => (true, get.wants_value),
        Action::Count(_) if request.is_quiet && !item.was_made => return false,
        Action::Count(count) => (false, count.wants_value),
        _ => (true, false),
    };
    if wants_value {
        let _in_memory = write!(out, "VA {}", item.size);
    } else {
        out.extend_from_slice(b"HD");
    }
    let mut ttl_s = if item.was_made { None } else { item.ttl_before_s };
    for flag in request.flags.iter() {
        let _in_memory = match flag[0] {
            b'T' => {
                ttl_s = item.ttl_after_s;
                Ok(())
            }
            b'N' if item.was_made => {
                ttl_s = item.ttl_before_s;
                Ok(())
            }
            b'c' => write!(out, " c{}", item.cas),
            b't' => match ttl_s {
                Some(ttl_s) => write!(out, " t{ttl_s}"),
                None => write!(out, " t-1"),
            },
            b's' if is_get => write!(out, " s{}", item.size),
            b'f' if is_get => write!(out, " f{}", item.client_flags),
            b'l' if is_get => write!(out, " l{}", item.since_access_s),
            b'h' if is_get => write!(out, " h{}", u8::from(item.was_fetched)),
            _ => {
                return_sent(out, request.key, flag);
                Ok(())
            }
        };
    }
    if is_get {
        renewal(out, item.renewal);
    }
    out.extend_from_slice(b"\r\n");
    wants_value
}

fn renewal(out: &mut Vec<u8>, renewal: Renewal) {
    for (holds, mark) in
        [(renewal.was_won, b" Z"), (renewal.is_stale, b" X"), (renewal.wins, b" W")]
    {
        if holds {
            out.extend_from_slice(mark);
        }
    }
}

/// Whether a quiet request suppresses this result.
pub fn is_silent(request: &Request<'_>, outcome: Outcome) -> bool {
    request.is_quiet
        && match request.action {
            Action::Get(_) => outcome == Outcome::NotFound,
            _ => matches!(outcome, Outcome::Done(_)),
        }
}

/// Any other reply: nothing if `is_silent`.
pub fn outcome(out: &mut Vec<u8>, request: &Request<'_>, outcome: Outcome) {
    if is_silent(request, outcome) {
        return;
    }
    let (code, cas): (&[u8; 2], u64) = match (outcome, request.action) {
        (Outcome::Done(cas), _) => (b"HD", cas),
        (Outcome::NotStored, _) => (b"NS", 0),
        (Outcome::Exists, _) => (b"EX", 0),
        (Outcome::NotFound, Action::Get(_) | Action::Describe) => (b"EN", 0),
        (Outcome::NotFound, _) => (b"NF", 0),
    };
    out.extend_from_slice(code);
    let is_store = matches!(request.action, Action::Store(_));
    for flag in request.flags.iter() {
        if is_store && flag[0] == b'c' {
            let _in_memory = write!(out, " c{cas}");
        } else {
            return_sent(out, request.key, flag);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The properties of an item that `me` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The time to live in seconds; `None`: no expiry.
    pub ttl_s: Option<u32>,
    /// Seconds since the last read.
    pub since_access_s: u32,
    /// The CAS value.
    pub cas: u64,
    /// Whether it was read.
    pub was_fetched: bool,
    /// Its size in bytes, including key and metadata.
    pub size: usize,
}

/// The reply to `me` for a hit.
pub fn description(out: &mut Vec<u8>, request: &Request<'_>, item: &Description) {
    out.extend_from_slice(b"ME ");
    request.key.write(out);
    // A time to live is reported as the time since its end, so negative.
    let passed_s = item.ttl_s.map_or(-1, |ttl_s| -i64::from(ttl_s));
    let fetched = if item.was_fetched { "yes" } else { "no" };
    let Description { since_access_s, cas, size, .. } = item;
    let _in_memory = write!(
        out,
        " exp={passed_s} la={since_access_s} cas={cas} fetch={fetched} cls=1 size={size}\r\n"
    );
}

/// `k` and `O`: returns what the client has sent.
fn return_sent(out: &mut Vec<u8>, key: Key<'_>, flag: &[u8]) {
    match flag[0] {
        b'O' => {
            out.push(b' ');
            out.extend_from_slice(flag);
        }
        b'k' => {
            out.extend_from_slice(b" k");
            key.write(out);
            if key.is_base64() {
                out.extend_from_slice(b" b");
            }
        }
        _ => {}
    }
}
