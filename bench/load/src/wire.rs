//! Commands out and replies in, for RESP and for memcached's text protocol. Bytes only, no sockets.
//!
//! 1. `reply` consumes exactly one reply or nothing; what follows is the next reply.
//! 2. Replies are only those that GET and SET may have; anything else is [`Reply::Wrong`], so no
//!    unknown answer can pass for success.
//! 3. A reply whose line does not end within [`REPLY_LINE_MAX`] bytes is wrong, not awaited
//!    forever.

use crate::Fault;
use crate::keys::Keys;

/// Longest first line of a reply, in bytes.
pub const REPLY_LINE_MAX: usize = 1_024;

/// The protocol of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, Redis's.
    Resp,
    /// memcached's text protocol.
    Memcached,
}

/// One reply. Borrowed bytes are the server's.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A SET succeeded.
    Stored,
    /// A GET found this value.
    Value(&'a [u8]),
    /// A GET found nothing.
    Miss,
    /// An error, or anything that neither GET nor SET may return; the reply's first line.
    Wrong(&'a [u8]),
}

/// Writes commands for keys of one shape.
pub struct Writer {
    protocol: Protocol,
    keys: Keys,
    get_head: Vec<u8>,
    set_head: Vec<u8>,
    set_middle: Vec<u8>,
    set_end: Vec<u8>,
}

impl Writer {
    /// A writer whose fixed parts are made once.
    pub fn new(protocol: Protocol, keys: &Keys) -> Writer {
        let (key_bytes, value_bytes) = (keys.key_bytes, keys.value_bytes);
        let (get_head, set_head, set_middle) = match protocol {
            Protocol::Resp => (
                format!("*2\r\n$3\r\nGET\r\n${key_bytes}\r\n"),
                format!("*3\r\n$3\r\nSET\r\n${key_bytes}\r\n"),
                format!("\r\n${value_bytes}\r\n"),
            ),
            Protocol::Memcached => {
                ("get ".into(), "set ".into(), format!(" 0 0 {value_bytes}\r\n"))
            }
        };
        Writer {
            protocol,
            keys: keys.clone(),
            get_head: get_head.into_bytes(),
            set_head: set_head.into_bytes(),
            set_middle: set_middle.into_bytes(),
            set_end: b"\r\n".to_vec(),
        }
    }

    /// This writer, with a deadline of `ttl_s` seconds on every SET; 0: none.
    #[must_use]
    pub fn with_ttl(mut self, ttl_s: u64) -> Writer {
        let (key_bytes, value_bytes) = (self.keys.key_bytes, self.keys.value_bytes);
        if ttl_s == 0 {
            return self;
        }
        match self.protocol {
            Protocol::Resp => {
                let word = ttl_s.to_string();
                self.set_head = format!("*5\r\n$3\r\nSET\r\n${key_bytes}\r\n").into_bytes();
                self.set_end =
                    format!("\r\n$2\r\nEX\r\n${}\r\n{word}\r\n", word.len()).into_bytes();
            }
            Protocol::Memcached => {
                self.set_middle = format!(" 0 {ttl_s} {value_bytes}\r\n").into_bytes();
            }
        }
        self
    }

    /// The protocol of the commands.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The shape of keys and values.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Length of one SET in bytes, an upper bound.
    pub fn set_bytes(&self) -> usize {
        self.set_head.len()
            + self.keys.key_bytes
            + self.set_middle.len()
            + self.keys.value_bytes
            + self.set_end.len()
    }

    /// Appends a GET of key `index`.
    pub fn get(&self, index: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.get_head);
        self.keys.write_key(index, out);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends one `get` of all these keys, memcached's.
    pub fn get_all(&self, indexes: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"get");
        for index in indexes {
            out.push(b' ');
            self.keys.write_key(index, out);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Appends a SET of key `index` to its own value.
    pub fn set(&self, index: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.set_head);
        self.keys.write_key(index, out);
        out.extend_from_slice(&self.set_middle);
        self.keys.write_value(index, out);
        out.extend_from_slice(&self.set_end);
    }
}

/// The first reply in `bytes` and how many bytes it takes, or nothing when it is not complete.
pub fn reply(protocol: Protocol, bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Fault> {
    let Some((line, after_line)) = first_line(bytes)? else { return Ok(None) };
    match protocol {
        Protocol::Resp => resp_reply(bytes, line, after_line),
        Protocol::Memcached => memcached_reply(bytes, line, after_line),
    }
}

/// One value of the reply to a `get` of many keys; the last one includes the end. A missing key is
/// an error: nothing says which it was.
pub fn one_of_many(bytes: &[u8], is_last: bool) -> Result<Option<(Reply<'_>, usize)>, Fault> {
    let Some((line, after_line)) = first_line(bytes)? else { return Ok(None) };
    if !line.starts_with(b"VALUE ") {
        return Ok(Some((Reply::Wrong(line), after_line)));
    }
    let tail: &[u8] = if is_last { VALUE_AND_END } else { b"\r\n" };
    let value = value_of(bytes, after_line, length_in(line)?, tail);
    Ok(value.map(|(value, end)| (Reply::Value(value), end)))
}

/// The first line without its end, and where the next one starts.
fn first_line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Fault> {
    let window = &bytes[..bytes.len().min(REPLY_LINE_MAX)];
    match window.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => Ok(Some((&bytes[..end], end + 2))),
        None if bytes.len() >= REPLY_LINE_MAX => {
            Err(Fault::Reply(format!("no line end within {REPLY_LINE_MAX} bytes")))
        }
        None => Ok(None),
    }
}

type Parsed<'a> = Result<Option<(Reply<'a>, usize)>, Fault>;

fn resp_reply<'a>(bytes: &'a [u8], line: &'a [u8], body: usize) -> Parsed<'a> {
    Ok(match line.split_first() {
        Some((b'+', b"OK")) => Some((Reply::Stored, body)),
        Some((b'$', b"-1")) | Some((b'_', b"")) => Some((Reply::Miss, body)),
        Some((b'$', length)) => {
            value_of(bytes, body, number(length)?, b"\r\n").map(|(v, end)| (Reply::Value(v), end))
        }
        _ => Some((Reply::Wrong(line), body)),
    })
}

fn memcached_reply<'a>(bytes: &'a [u8], line: &'a [u8], body: usize) -> Parsed<'a> {
    Ok(match line {
        b"STORED" => Some((Reply::Stored, body)),
        b"END" => Some((Reply::Miss, body)),
        line if line.starts_with(b"VALUE ") => {
            let value = value_of(bytes, body, length_in(line)?, VALUE_AND_END);
            value.map(|(value, end)| (Reply::Value(value), end))
        }
        _ => Some((Reply::Wrong(line), body)),
    })
}

/// The bytes after memcached's last value.
const VALUE_AND_END: &[u8] = b"\r\nEND\r\n";

/// The length in a line of memcached: its last word.
fn length_in(line: &[u8]) -> Result<usize, Fault> {
    number(line.rsplit(|&byte| byte == b' ').next().unwrap_or_default())
}

/// The value at `start`, and where it and the closing `tail` end.
fn value_of<'a>(
    bytes: &'a [u8],
    start: usize,
    length: usize,
    tail: &[u8],
) -> Option<(&'a [u8], usize)> {
    let end = start.checked_add(length)?.checked_add(tail.len())?;
    (bytes.len() >= end).then(|| (&bytes[start..start + length], end))
}

fn number(digits: &[u8]) -> Result<usize, Fault> {
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Fault::Reply(format!("bad length {:?}", String::from_utf8_lossy(digits))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(protocol: Protocol) -> Writer {
        Writer::new(protocol, &Keys::new(1_000, 16, 3, 1).expect("a valid shape"))
    }

    fn first(protocol: Protocol, bytes: &[u8]) -> Option<(Reply<'_>, usize)> {
        reply(protocol, bytes).expect("well formed")
    }

    #[test]
    fn commands_are_as_the_protocols_want_them() {
        let mut out = Vec::new();
        writer(Protocol::Resp).get(7, &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n");
        out.clear();
        writer(Protocol::Resp).set(7, &mut out);
        assert!(out.starts_with(b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$3\r\n"));
        assert_eq!(out.len(), writer(Protocol::Resp).set_bytes());
        out.clear();
        writer(Protocol::Memcached).get(7, &mut out);
        assert_eq!(out, b"get key:000000000007\r\n");
        out.clear();
        writer(Protocol::Memcached).set(7, &mut out);
        assert!(out.starts_with(b"set key:000000000007 0 0 3\r\n") && out.ends_with(b"\r\n"));
        assert_eq!(out.len(), writer(Protocol::Memcached).set_bytes());
    }

    #[test]
    fn a_deadline_stands_where_the_protocols_want_it() {
        let (mut resp, mut memcached) = (Vec::new(), Vec::new());
        let with_ttl = |protocol| writer(protocol).with_ttl(30);
        with_ttl(Protocol::Resp).set(7, &mut resp);
        assert!(resp.starts_with(b"*5\r\n$3\r\nSET\r\n") && resp.ends_with(b"\r\n$2\r\n30\r\n"));
        assert!(resp.windows(12).any(|bytes| bytes == b"\r\n$2\r\nEX\r\n$2"));
        with_ttl(Protocol::Memcached).set(7, &mut memcached);
        assert!(memcached.starts_with(b"set key:000000000007 0 30 3\r\n"));
        assert_eq!(resp.len(), with_ttl(Protocol::Resp).set_bytes());
    }

    #[test]
    fn replies_are_told_apart() {
        let resp = |bytes| first(Protocol::Resp, bytes);
        assert_eq!(resp(b"+OK\r\n+OK"), Some((Reply::Stored, 5)));
        assert_eq!(resp(b"$-1\r\n"), Some((Reply::Miss, 5)));
        assert_eq!(resp(b"_\r\n"), Some((Reply::Miss, 3)));
        assert_eq!(resp(b"$3\r\na\r\n\r\nx"), Some((Reply::Value(b"a\r\n"), 9)));
        assert_eq!(resp(b"-ERR no\r\n"), Some((Reply::Wrong(b"-ERR no"), 9)));
        assert_eq!(resp(b":1\r\n"), Some((Reply::Wrong(b":1"), 4)));
        let memcached = |bytes| first(Protocol::Memcached, bytes);
        assert_eq!(memcached(b"STORED\r\n"), Some((Reply::Stored, 8)));
        assert_eq!(memcached(b"END\r\n"), Some((Reply::Miss, 5)));
        let found = b"VALUE key:1 0 3\r\nabc\r\nEND\r\nEND";
        assert_eq!(memcached(found), Some((Reply::Value(b"abc"), 27)));
        assert_eq!(memcached(b"ERROR\r\n"), Some((Reply::Wrong(b"ERROR"), 7)));
        let too_large = b"SERVER_ERROR object too large for cache\r\n";
        assert!(matches!(memcached(too_large), Some((Reply::Wrong(_), 41))));
    }

    #[test]
    fn many_keys_are_one_command() {
        let mut out = Vec::new();
        writer(Protocol::Memcached).get_all([7, 8].into_iter(), &mut out);
        assert_eq!(out, b"get key:000000000007 key:000000000008\r\n");
        let one = |bytes, is_last| one_of_many(bytes, is_last).expect("well formed");
        let found = b"VALUE key:1 0 3\r\nabc\r\nEND\r\n";
        assert_eq!(one(found, false), Some((Reply::Value(b"abc"), 22)));
        assert_eq!(one(found, true), Some((Reply::Value(b"abc"), 27)));
        assert_eq!(one(&found[..26], true), None);
        assert_eq!(one(b"END\r\n", true), Some((Reply::Wrong(b"END"), 5)));
    }

    #[test]
    fn every_cut_reply_is_waited_for() {
        let whole: [(Protocol, &[u8]); 4] = [
            (Protocol::Resp, b"$3\r\nabc\r\n"),
            (Protocol::Resp, b"+OK\r\n"),
            (Protocol::Memcached, b"VALUE key:1 0 3\r\nabc\r\nEND\r\n"),
            (Protocol::Memcached, b"STORED\r\n"),
        ];
        for (protocol, bytes) in whole {
            for cut in 0..bytes.len() {
                assert_eq!(first(protocol, &bytes[..cut]), None, "cut at {cut}");
            }
            assert_eq!(first(protocol, bytes).map(|(_, end)| end), Some(bytes.len()));
        }
    }

    #[test]
    fn nonsense_is_a_fault_and_not_a_wait() {
        assert!(reply(Protocol::Resp, b"$x\r\n").is_err());
        assert!(reply(Protocol::Resp, &[b'x'; REPLY_LINE_MAX]).is_err());
        let huge = format!("${}\r\n", usize::MAX);
        assert!(matches!(reply(Protocol::Resp, huge.as_bytes()), Ok(None)));
    }
}
