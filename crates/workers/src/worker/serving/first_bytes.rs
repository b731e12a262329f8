//! The protocol of a new connection, where a port serves more than one: recognised once, by the
//! first bytes.
//!
//! | first bytes | it speaks |
//! |---|---|
//! | `*`, as nearly all clients begin | RESP, at the first byte |
//! | a line `METHOD target HTTP/1.x` | HTTP, where that is served |
//! | 0x80 | Memcached's binary protocol |
//! | a line of Memcached's, in lower case, that RESP could only refuse | its text protocol |
//! | `get KEY`, `touch KEY N` in lower case, which both understand | what the setting says |
//! | anything else | RESP |
//!
//! So input that a RESP server would accept is not taken for anything else, unless the setting says
//! so; input of no known protocol gets RESP's error. Nothing is decided until a line has ended, but
//! at most [`LINE_BYTES`] are kept until then.
//!
//! A connection that speaks HTTP is given up by its worker, with what it has sent
//! (`Worker::give_to_http`), and served by the control plane (the server's `http`). TLS comes
//! before all this: `worker/secured.rs`.
//!
//! Tests: at the foot; the server's `tests/memcached.rs` and `tests/http/`.

use pantala_base::simd::find_byte;
use pantala_commands::Protocol;
use pantala_memcached::binary::MAGIC;
use pantala_memcached::number::{signed, unsigned};
use pantala_settings::field::PortSharing;

use crate::worker::Worker;

/// A longer first line is judged by its beginning.
const LINE_BYTES: usize = 2048;
/// The most words that are looked at.
const MOST_WORDS: usize = 8;

/// Memcached's commands that RESP does not have.
const ITS_OWN: &[&[u8]] = &[
    b"add",
    b"bget",
    b"cache_memlimit",
    b"cas",
    b"delete",
    b"flush_all",
    b"gat",
    b"gats",
    b"gets",
    b"ma",
    b"md",
    b"me",
    b"mg",
    b"mn",
    b"ms",
    b"prepend",
    b"replace",
    b"stats",
    b"verbosity",
    b"version",
];
/// Commands of both; `quit` is left out, as it ends a connection of either.
const OF_BOTH: &[&[u8]] = &[b"append", b"decr", b"get", b"incr", b"set", b"touch"];

/// Methods of HTTP that browsers and probes send.
const METHODS: &[&[u8]] =
    &[b"CONNECT", b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"POST", b"PUT", b"TRACE"];

/// What the bytes so far say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtocolGuess {
    /// More are needed.
    Nothing,
    /// The connection speaks a protocol that workers serve.
    Speaks(Protocol),
    /// It speaks HTTP.
    Http,
}

/// The protocols that a listener serves beside RESP.
#[derive(Clone, Copy, Debug)]
struct Choice {
    memcached: PortSharing,
    has_http: bool,
}

/// Whether a connection that has sent `before`, and now `bytes`, certainly speaks RESP.
#[inline]
pub fn begins_with_resp(before: &[u8], bytes: &[u8]) -> bool {
    before.is_empty() && bytes.first() == Some(&b'*')
}

impl Worker {
    /// Determines the protocol of the connection at `index` from what it has sent; false: not known
    /// yet.
    #[cold]
    pub fn decide_protocol(&mut self, index: u32) -> bool {
        let settings = &self.settings;
        let registry = &self.context.engine.registry;
        let slot = self.connections.get_mut(index as usize);
        let Some(connection) = slot.and_then(Option::as_deref_mut) else { return false };
        let memcached = match connection.kind.is_main() {
            true => settings.primary_port_memcached,
            false => PortSharing::No,
        };
        let choice = Choice { memcached, has_http: connection.kind.has_http(settings) };
        let is_command = |word: &[u8]| registry.find(word).is_some();
        match decide(&connection.input.bytes, choice, is_command) {
            ProtocolGuess::Nothing => return false,
            ProtocolGuess::Speaks(protocol) => connection.session.protocol = protocol,
            ProtocolGuess::Http => {
                self.lists.to_http.push(index);
                return false;
            }
        }
        true
    }
}

/// The protocol of these first bytes. `is_command` tells whether RESP has a command of this name:
/// commands may be renamed.
fn decide(bytes: &[u8], choice: Choice, is_command: impl Fn(&[u8]) -> bool) -> ProtocolGuess {
    if bytes.is_empty() {
        return ProtocolGuess::Nothing;
    }
    match choice.has_http.then(|| http_begins(bytes)) {
        Some(Some(true)) => return ProtocolGuess::Http,
        Some(None) => return ProtocolGuess::Nothing,
        Some(Some(false)) | None => {}
    }
    match decide_by_item(bytes, choice.memcached, is_command) {
        Protocol::Undecided => ProtocolGuess::Nothing,
        protocol => ProtocolGuess::Speaks(protocol),
    }
}

/// Whether these bytes begin an HTTP request; `None`: more are needed.
fn http_begins(bytes: &[u8]) -> Option<bool> {
    let name = bytes.split(|byte| *byte == b' ').next().unwrap_or_default();
    if name.len() == bytes.len() {
        let may_become = METHODS.iter().any(|method| method.starts_with(bytes));
        return if may_become { None } else { Some(false) };
    }
    if !METHODS.contains(&name) {
        return Some(false);
    }
    let Some(end) = find_byte(bytes, b'\n') else {
        return if bytes.len() <= LINE_BYTES { None } else { Some(false) };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let mut words = line.split(|byte| *byte == b' ').skip(1);
    let (target, version, more) = (words.next(), words.next(), words.next());
    let is_version = |word: &[u8]| matches!(word, b"HTTP/1.0" | b"HTTP/1.1");
    let has_target = target.is_some_and(|target| !target.is_empty());
    Some(has_target && version.is_some_and(is_version) && more.is_none())
}

/// Whether these bytes begin a request of Memcached's or of RESP.
fn decide_by_item(
    bytes: &[u8],
    sharing: PortSharing,
    is_command: impl Fn(&[u8]) -> bool,
) -> Protocol {
    match bytes.first() {
        None => return Protocol::Undecided,
        _ if sharing == PortSharing::No => return Protocol::Resp,
        Some(&MAGIC) => return Protocol::MemcachedBinary,
        Some(byte) if !byte.is_ascii_lowercase() => return Protocol::Resp,
        Some(_) => {}
    }
    let end = find_byte(bytes, b'\n');
    let line = match end {
        Some(end) => &bytes[..end],
        None if bytes.len() <= LINE_BYTES && may_become_one(bytes) => return Protocol::Undecided,
        // The last word may be incomplete.
        None => bytes.rsplitn(2, |byte| *byte == b' ').nth(1).unwrap_or_default(),
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if is_of_memcached(line, sharing, is_command) {
        Protocol::MemcachedText
    } else {
        Protocol::Resp
    }
}

/// Whether an incomplete line may become one of Memcached's.
fn may_become_one(bytes: &[u8]) -> bool {
    let name_end = bytes.iter().position(|byte| matches!(byte, b' ' | b'\r'));
    let mut names = ITS_OWN.iter().chain(OF_BOTH);
    match name_end {
        Some(end) => names.any(|name| **name == bytes[..end]),
        None => names.any(|name| name.starts_with(bytes)),
    }
}

fn is_of_memcached(line: &[u8], sharing: PortSharing, is_command: impl Fn(&[u8]) -> bool) -> bool {
    let mut places: [&[u8]; MOST_WORDS] = [b""; MOST_WORDS];
    let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let count = places.iter_mut().zip(words).map(|(place, word)| *place = word).count();
    let (name, rest) = (places[0], &places[1..count.max(1)]);
    if ITS_OWN.contains(&name) {
        return !is_command(name);
    }
    // RESP reads quoted text as one word.
    let is_quoted = line.iter().any(|byte| matches!(byte, b'"' | b'\''));
    if is_quoted || !OF_BOTH.contains(&name) {
        return false;
    }
    let is_number = |word: &&[u8]| signed(word).is_some() || unsigned(word).is_some();
    match (name, rest) {
        (b"get", [_, _, ..]) => true,
        (b"get", [_]) => sharing == PortSharing::Yes,
        (b"touch", [_, number] | [_, number, b"noreply"]) => {
            sharing == PortSharing::Yes && is_number(number)
        }
        (b"set" | b"append", [_, numbers @ .., b"noreply"] | [_, numbers @ ..]) => {
            numbers.len() == 3 && numbers.iter().all(is_number)
        }
        (b"incr" | b"decr", [_, number] | [_, number, b"noreply"]) => is_number(number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Protocol::{MemcachedBinary, MemcachedText, Resp, Undecided};

    #[track_caller]
    fn check(bytes: impl AsRef<[u8]>, clear: Protocol, yes: Protocol) {
        let bytes = bytes.as_ref();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
        let is_command = |word: &[u8]| {
            [&b"get"[..], b"set", b"touch", b"append", b"incr", b"decr", b"stats"].contains(&word)
        };
        let decide = |memcached| match super::decide(
            bytes,
            Choice { memcached, has_http: false },
            is_command,
        ) {
            ProtocolGuess::Nothing => Undecided,
            ProtocolGuess::Speaks(protocol) => protocol,
            ProtocolGuess::Http => panic!("{shown:?} is taken for HTTP, which is not served"),
        };
        assert_eq!(decide(PortSharing::Clear), clear, "{shown:?}");
        assert_eq!(decide(PortSharing::Yes), yes, "{shown:?} with yes");
        let of_none = if bytes.is_empty() { Undecided } else { Resp };
        assert_eq!(decide(PortSharing::No), of_none, "{shown:?} with no");
    }

    #[test]
    fn what_resp_would_refuse_is_memcacheds() {
        for line in [
            "set k 0 0 1\r\n",
            "set k 5 -1 1 noreply\n",
            "append k 0 0 1\r\n",
            "get a b\r\n",
            "gets a\r\n",
            "incr n 1\r\n",
            "decr n 1 noreply\r\n",
            "mg k v\r\n",
            "mn\r\n",
            "version\r\n",
            "flush_all\r\n",
            "verbosity 1\r\n",
            "add k 0 0 0\r\n",
        ] {
            check(line, MemcachedText, MemcachedText);
        }
        check([0x80], MemcachedBinary, MemcachedBinary);
    }

    #[test]
    fn what_resp_understands_is_resps_but_for_two_lines_where_that_is_wanted() {
        for line in [
            "*1\r\n$4\r\nPING\r\n",
            "PING\r\n",
            "ping\r\n",
            "set k v\r\n",
            "set k v ex 10\r\n",
            "SET k 0 0 1\r\n",
            "get \"a b\"\r\n",
            "get 'a b'\r\n",
            "append k 0\r\n",
            "incr n\r\n",
            "touch a b\r\n",
            "touch a 1 2\r\n",
            "quit\r\n",
            "watch fetchers\r\n",
            "\r\n",
            " mn\r\n",
            "GET / HTTP/1.1\r\n",
            "get\r\n",
            "bogus\r\n",
            "\x16\x03\x01",
            "\0",
        ] {
            check(line, Resp, Resp);
        }
        for line in ["get k\r\n", "get  k \r\n", "touch k 10\r\n", "touch k 10 noreply\r\n"] {
            check(line, Resp, MemcachedText);
        }
        // Somebody has given this name to a command of RESP.
        check("stats\r\n", Resp, Resp);
    }

    #[test]
    fn half_a_line_waits_for_its_rest_for_a_while() {
        for half in ["", "g", "get", "get k", "cache_mem", "set k 0 0 1\r"] {
            check(half, Undecided, Undecided);
        }
        for half in ["x", "geto", "pi", "getset k", "SET k 0"] {
            check(half, Resp, Resp);
        }
        check(format!("get {}", "k ".repeat(1_500)), MemcachedText, MemcachedText);
        check(format!("mg {}", "k".repeat(3_000)), MemcachedText, MemcachedText);
        check(format!("get {}", "k".repeat(3_000)), Resp, Resp);
    }

    #[track_caller]
    fn check_http(bytes: impl AsRef<[u8]>, expected: ProtocolGuess) {
        let bytes = bytes.as_ref();
        for memcached in [PortSharing::No, PortSharing::Clear, PortSharing::Yes] {
            let told = super::decide(bytes, Choice { memcached, has_http: true }, |_| true);
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
            assert_eq!(told, expected, "{shown:?} with {memcached:?}");
        }
    }

    #[test]
    fn http_is_known_by_its_whole_first_line() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.0\n",
            "POST /api/run HTTP/1.1\r\nHost: x\r\n\r\n{}",
            "OPTIONS * HTTP/1.1\r\n",
            "CONNECT x:1 HTTP/1.1\r\n",
        ] {
            check_http(line, ProtocolGuess::Http);
            for length in 0..=line.find('\n').expect("a line") {
                check_http(&line[..length], ProtocolGuess::Nothing);
            }
        }
    }

    #[test]
    fn what_is_not_quite_http_is_resp() {
        for line in [
            "*1\r\n$4\r\nPING\r\n",
            "GET / HTTP/2.0\r\n",
            "GET / HTTP/1.1 \r\n",
            "GET  / HTTP/1.1\r\n",
            "GET / http/1.1\r\n",
            "GET HTTP/1.1\r\n",
            "GET k\r\n",
            "GET\r\n",
            "PING\r\n",
            "PI",
            "PRI * HTTP/2.0\r\n\r\n",
            " GET / HTTP/1.1\r\n",
            "\r\nGET / HTTP/1.1\r\n",
            "SET k v\r\nGET / HTTP/1.1\r\n",
        ] {
            check_http(line, ProtocolGuess::Speaks(Resp));
        }
        check_http(format!("GET /{}", "x".repeat(LINE_BYTES)), ProtocolGuess::Speaks(Resp));
    }
}
