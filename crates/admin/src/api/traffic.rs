//! What clients run, live: MONITOR on a client of its own, cut down to what a page can show.

use std::time::{Duration, Instant};

use pantala_commands::Login;

use crate::admin::Peer;
use crate::host::AdminHost;
use crate::link::Link;
use crate::reply::push_bytes;
use crate::scan::ScannedReply;

/// How many lines are shown per second; the others are counted.
const LINES_PER_S: u32 = 200;
/// How many bytes of an argument are shown.
const ARGUMENT_BYTES: usize = 1_000;
/// How many arguments are shown.
const ARGUMENTS: usize = 64;

/// The progress of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for the reply to CLIENT LIST, which has the client's address.
    Looking,
    /// Waits for the reply to MONITOR.
    Beginning,
    /// Receives lines.
    Showing,
    /// Has ended.
    Over,
}

/// The live view of commands for one page: a client that runs MONITOR, and the filter.
pub(super) struct Traffic {
    link: Link,
    stage: Stage,
    /// The client whose commands are shown; empty: all clients.
    client: String,
    /// The address of that client, once known.
    address: Option<Vec<u8>>,
    second: Instant,
    shown: u32,
    dropped: u64,
}

impl Traffic {
    /// Starts to watch; `client`: 0 for all clients.
    ///
    /// # Errors
    /// A text for the user.
    pub fn begin(
        host: &dyn AdminHost,
        peer: &Peer,
        login: Login,
        client: u64,
    ) -> Result<Traffic, String> {
        let called = |name| {
            let found = host.engine().registry.called(name).map(str::as_bytes);
            found.ok_or_else(|| format!("{name} has no name here"))
        };
        let (list, monitor) = (called("CLIENT")?, called("MONITOR")?);
        let mut link = Link::open(host, peer, Some(login), None)?;
        let (number, mut stage) = (client.to_string(), Stage::Beginning);
        if client != 0 {
            link.send_blindly(&[list, b"LIST", b"ID", number.as_bytes()]);
            stage = Stage::Looking;
        }
        link.send_blindly(&[monitor]);
        Ok(Traffic {
            link,
            stage,
            client: if client == 0 { String::new() } else { number },
            address: None,
            second: Instant::now(),
            shown: 0,
            dropped: 0,
        })
    }

    /// The next message for the browser; cancel-safe. `None`: the traffic has ended.
    pub async fn next(&mut self) -> Option<String> {
        while self.stage != Stage::Over {
            let Ok(Some(reply)) = self.link.next_reply().await else {
                self.stage = Stage::Over;
                return Some(error("the traffic was too much to follow, or the client was ended"));
            };
            let ScannedReply::Reply(reply) = reply else {
                self.dropped += 1;
                continue;
            };
            if let Some(message) = self.take(&reply) {
                return Some(message);
            }
        }
        None
    }

    fn take(&mut self, reply: &[u8]) -> Option<String> {
        let line = reply.strip_suffix(b"\r\n").unwrap_or(reply);
        if self.stage != Stage::Showing && line.first() == Some(&b'-') {
            self.stage = Stage::Over;
            return Some(error(&String::from_utf8_lossy(&line[1..])));
        }
        match self.stage {
            Stage::Looking => match address_in(line) {
                Some(address) => {
                    (self.address, self.stage) = (Some(address.to_vec()), Stage::Beginning);
                }
                None => {
                    self.stage = Stage::Over;
                    return Some(error("there is no such client"));
                }
            },
            Stage::Beginning => self.stage = Stage::Showing,
            Stage::Showing => return self.show(line),
            Stage::Over => {}
        }
        None
    }

    fn show(&mut self, line: &[u8]) -> Option<String> {
        let line = Line::read(line.strip_prefix(b"+")?)?;
        if self.address.as_ref().is_some_and(|address| address != line.address) {
            return None;
        }
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.shown) = (Instant::now(), 0);
        }
        if self.shown >= LINES_PER_S {
            self.dropped += 1;
            return None;
        }
        self.shown += 1;
        let mut message = line.message(&self.client);
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            message.pop();
            message.push_str(&format!(",\"dropped\":{dropped}}}"));
        }
        Some(message)
    }
}

fn error(why: &str) -> String {
    serde_json::json!({ "error": why, "watch": null }).to_string()
}

/// The address in a line of CLIENT LIST.
fn address_in(text: &[u8]) -> Option<&[u8]> {
    let mut words = text.split(|byte| byte.is_ascii_whitespace());
    words.find_map(|word| word.strip_prefix(b"addr="))
}

/// A line of MONITOR: `seconds.microseconds [db address] "word" "word" ...`.
#[derive(Debug, PartialEq, Eq)]
struct Line<'l> {
    at_ms: u64,
    db: u32,
    address: &'l [u8],
    words: &'l [u8],
}

impl<'l> Line<'l> {
    fn read(line: &'l [u8]) -> Option<Line<'l>> {
        let open = line.iter().position(|byte| *byte == b'[')?;
        let close = open + line[open..].windows(2).position(|two| two == b"] ")?;
        let seconds: f64 = std::str::from_utf8(&line[..open]).ok()?.trim().parse().ok()?;
        let inside = &line[open + 1..close];
        let space = inside.iter().position(|byte| *byte == b' ')?;
        let db = std::str::from_utf8(&inside[..space]).ok()?.parse().ok()?;
        let at_ms = (seconds * 1000.0) as u64;
        Some(Line { at_ms, db, address: &inside[space + 1..], words: &line[close + 2..] })
    }

    fn message(&self, client: &str) -> String {
        let Line { at_ms, db, .. } = self;
        let mut out = format!("{{\"traffic\":{{\"atMs\":{at_ms},\"db\":{db}");
        if !client.is_empty() {
            out.push_str(&format!(",\"client\":\"{client}\""));
        }
        out.push_str(",\"addr\":");
        push_bytes(self.address, &mut out);
        out.push_str(",\"command\":[");
        for (number, mut word) in words(self.words).take(ARGUMENTS).enumerate() {
            if number > 0 {
                out.push(',');
            }
            if word.len() > ARGUMENT_BYTES {
                word.truncate(ARGUMENT_BYTES);
                while word.last().is_some_and(|byte| *byte >= 0x80) {
                    word.pop();
                }
                word.extend_from_slice("\u{2026}".as_bytes());
            }
            push_bytes(&word, &mut out);
        }
        out.push_str("]}}");
        out
    }
}

/// The words in quotes, unescaped.
fn words(text: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut bytes = text.iter().copied();
    std::iter::from_fn(move || {
        bytes.find(|byte| *byte == b'"')?;
        let mut word = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => return Some(word),
                b'\\' => word.push(match bytes.next()? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let digits = [bytes.next()?, bytes.next()?];
                        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                    }
                    other => other,
                }),
                other => word.push(other),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let line = br#"1700000000.250000 [3 [::1]:5000] "SET" "k\x00\"" "a] b\\\n""#;
        let line = Line::read(line).expect("a line");
        assert_eq!((line.at_ms, line.db, line.address), (1_700_000_000_250, 3, &b"[::1]:5000"[..]));
        let expected = [&b"SET"[..], b"k\0\"", b"a] b\\\n"].map(<[u8]>::to_vec);
        assert_eq!(words(line.words).collect::<Vec<_>>(), expected);
        let expected = "{\"traffic\":{\"atMs\":1700000000250,\"db\":3,\"client\":\"7\",\
                        \"addr\":\"[::1]:5000\",\
                        \"command\":[\"SET\",\"k\\u0000\\\"\",\"a] b\\\\\\n\"]}}";
        assert_eq!(line.message("7"), expected);
    }

    #[test]
    fn what_is_no_line_is_left_out() {
        for line in ["", "OK", "1.0 [0", "1.0 [x y] \"a\"", "x [0 a] \"a\""] {
            assert_eq!(Line::read(line.as_bytes()), None, "{line}");
        }
        for text in ["", "\"", "\"a", "\"\\", "\"\\x1"] {
            assert_eq!(words(text.as_bytes()).count(), 0, "{text}");
        }
    }

    #[test]
    fn an_address_is_found_in_a_list() {
        let text = b"$60\r\nid=7 addr=127.0.0.1:5 laddr=127.0.0.1:6379 fd=8\n";
        assert_eq!(address_in(text), Some(&b"127.0.0.1:5"[..]));
        assert_eq!(address_in(b"$0\r\n"), None);
    }
}
