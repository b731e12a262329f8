//! Plays a trace as a look-aside application does: GET, and SET of missing values.
//!
//! ```text
//!   GET a  GET b  GET c   --->          one batch; no key occurs twice,
//!                         <---  found, missing, found    so order within it does not matter
//!   SET b                 --->
//!                         <---  stored, or refused
//! ```
//!
//! With a rate, a batch is not sent before its time: so deadlines mean the same as in the trace.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pantala_load::chance::{Chance, mix};
use pantala_load::wire::Protocol;
use pantala_load::{Fault, STALL_LIMIT_S};

use crate::{Request, Score};

/// Most requests in one batch.
const BATCH: usize = 64;
/// The longest line of a reply.
const REPLY_LINE_BYTES: u64 = 1_024;

/// The options of playing a trace.
#[derive(Clone, Debug)]
pub struct Manner {
    /// `host:port`.
    pub address: String,
    /// The server's language.
    pub protocol: Protocol,
    /// How many requests at the start do not count.
    pub warm_up: usize,
    /// Requests a second; 0: as fast as it goes.
    pub rate: u64,
}

/// The result of playing a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Played {
    /// The score of the part that counts.
    pub score: Score,
    /// Values that the server refused to store, in the whole trace.
    pub refused: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Plays a trace.
///
/// # Errors
/// The connection failed, or the server sent an invalid reply.
pub fn play(trace: &[Request], manner: &Manner) -> Result<Played, Fault> {
    let mut wire = Wire::connect(manner)?;
    let mut played = Played::default();
    let mut in_batch = HashSet::new();
    let start = Instant::now();
    let mut at = 0;
    while at < trace.len() {
        in_batch.clear();
        let fits = |request: &&Request| in_batch.insert(request.key);
        let count = trace[at..].iter().take(BATCH).take_while(fits).count();
        wait_until(start, at, manner.rate);
        let batch = &trace[at..at + count];
        let found = wire.get(batch)?;
        for (offset, &is_hit) in found.iter().enumerate() {
            if at + offset >= manner.warm_up {
                played.score.count(is_hit);
            }
        }
        let missing = batch.iter().zip(&found).filter(|&(_, &is_hit)| !is_hit);
        let missing: Vec<Request> = missing.map(|(request, _)| *request).collect();
        played.refused += wire.set(&missing)?;
        at += count;
    }
    played.seconds = start.elapsed().as_secs_f64();
    Ok(played)
}

fn wait_until(start: Instant, at: usize, rate: u64) {
    if rate > 0 {
        let due = Duration::from_secs_f64(at as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
}

struct Wire {
    protocol: Protocol,
    input: BufReader<TcpStream>,
    output: Vec<u8>,
    /// Random bytes, of which each value is a part.
    values: Vec<u8>,
}

impl Wire {
    fn connect(manner: &Manner) -> Result<Wire, Fault> {
        let stream = TcpStream::connect(&manner.address)?;
        stream.set_nodelay(true)?;
        let limit = Some(Duration::from_secs(STALL_LIMIT_S));
        stream.set_read_timeout(limit)?;
        stream.set_write_timeout(limit)?;
        let mut chance = Chance::new(1);
        let mut values = Vec::new();
        while values.len() < 2 * crate::MOST_VALUE_BYTES as usize {
            values.extend_from_slice(&chance.bits().to_le_bytes());
        }
        let input = BufReader::with_capacity(64 << 10, stream);
        Ok(Wire { protocol: manner.protocol, input, output: Vec::new(), values })
    }

    /// Which of these keys exist.
    fn get(&mut self, batch: &[Request]) -> Result<Vec<bool>, Fault> {
        for request in batch {
            // Writing to a Vec cannot fail.
            let _ = match self.protocol {
                Protocol::Resp => {
                    write!(self.output, "*2\r\n$3\r\nGET\r\n$16\r\n{}\r\n", Key(request.key))
                }
                Protocol::Memcached => write!(self.output, "get {}\r\n", Key(request.key)),
            };
        }
        self.send()?;
        batch.iter().map(|_| self.found()).collect()
    }

    /// Stores values; returns how many were refused.
    fn set(&mut self, batch: &[Request]) -> Result<u64, Fault> {
        for request in batch {
            self.write_set(request);
        }
        self.send()?;
        let mut refused = 0;
        for _ in batch {
            refused += u64::from(!self.stored()?);
        }
        Ok(refused)
    }

    fn write_set(&mut self, request: &Request) {
        let (key, length) = (Key(request.key), request.value_bytes as usize);
        let begin = (mix(request.key) % u64::from(crate::MOST_VALUE_BYTES)) as usize;
        let value = &self.values[begin..begin + length];
        let ttl_ms = request.ttl_ms;
        // Writing to a Vec cannot fail.
        let _ = match self.protocol {
            Protocol::Resp if ttl_ms == 0 => {
                write!(self.output, "*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n${length}\r\n")
            }
            Protocol::Resp => {
                let digits = ttl_ms.to_string().len();
                write!(
                    self.output,
                    "*4\r\n$6\r\nPSETEX\r\n$16\r\n{key}\r\n${digits}\r\n{ttl_ms}\r\n${length}\r\n"
                )
            }
            Protocol::Memcached => {
                let ttl_s = ttl_ms.div_ceil(1_000);
                write!(self.output, "set {key} 0 {ttl_s} {length}\r\n")
            }
        };
        self.output.extend_from_slice(value);
        self.output.extend_from_slice(b"\r\n");
    }

    fn send(&mut self) -> Result<(), Fault> {
        self.input.get_mut().write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    fn found(&mut self) -> Result<bool, Fault> {
        let line = self.line()?;
        let length = match self.protocol {
            Protocol::Resp if line == "$-1" => return Ok(false),
            Protocol::Resp => line.strip_prefix('$'),
            Protocol::Memcached if line == "END" => return Ok(false),
            Protocol::Memcached => line
                .strip_prefix("VALUE ")
                .and_then(|rest| rest.rsplit_once(' '))
                .map(|(_, length)| length),
        };
        let length: u64 = length.and_then(|text| text.parse().ok()).ok_or_else(|| wrong(&line))?;
        let mut value = (&mut self.input).take(length + 2);
        if std::io::copy(&mut value, &mut std::io::sink())? < length + 2 {
            return Err(Fault::Reply("the server closed the connection".into()));
        }
        if self.protocol == Protocol::Memcached {
            let end = self.line()?;
            return if end == "END" { Ok(true) } else { Err(wrong(&end)) };
        }
        Ok(true)
    }

    fn stored(&mut self) -> Result<bool, Fault> {
        let line = self.line()?;
        match (self.protocol, line.as_str()) {
            (Protocol::Resp, "+OK") | (Protocol::Memcached, "STORED") => Ok(true),
            (Protocol::Resp, text) if text.starts_with("-OOM") => Ok(false),
            (Protocol::Memcached, text) if text.starts_with("SERVER_ERROR") => Ok(false),
            (_, text) => Err(wrong(text)),
        }
    }

    fn line(&mut self) -> Result<String, Fault> {
        let mut line = Vec::new();
        (&mut self.input).take(REPLY_LINE_BYTES).read_until(b'\n', &mut line)?;
        let text = line.strip_suffix(b"\r\n").ok_or_else(|| wrong("half a line"))?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

fn wrong(text: &str) -> Fault {
    Fault::Reply(format!("not expected: {text}"))
}

/// The text of a key: 16 bytes, whatever its number.
struct Key(u64);

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
