//! A connection to another server: requests out, lines in.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::pin;
use std::time::{Duration, Instant};

use pantala_commands::ResumeGuard;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// How often is checked whether the client still waits.
const LOOK: Duration = Duration::from_millis(100);
/// The longest line of an answer, in bytes.
const MOST_LINE_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 16 << 10;

/// Why a connection has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// There is no connection.
    Connecting,
    /// Not everything was sent.
    Writing {
        /// It may work over another connection.
        may_retry: bool,
    },
    /// An answer is missing.
    Reading {
        /// It may work over another connection.
        may_retry: bool,
    },
}

impl LinkFault {
    /// Whether another connection may be tried.
    pub fn may_retry(self) -> bool {
        matches!(
            self,
            LinkFault::Writing { may_retry: true } | LinkFault::Reading { may_retry: true }
        )
    }
}

/// A connection of MIGRATE to another server.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    /// The database selected there; -1: unknown.
    pub last_db: i64,
}

/// Waits for a future for at most this long, and only while the client still waits.
async fn within<T>(
    limit: Duration,
    way_back: &ResumeGuard,
    future: impl Future<Output = T>,
) -> Option<T> {
    let begun = Instant::now();
    let mut future = pin!(future);
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left.min(LOOK), future.as_mut()).await {
            Ok(result) => return Some(result),
            Err(_) if way_back.is_unwanted() || begun.elapsed() >= limit => return None,
            Err(_) => {}
        }
    }
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// The fault that the reference reports: it notices only when it writes that nothing listens
    /// there.
    pub async fn open(
        host: &str,
        port: u16,
        limit: Duration,
        way_back: &ResumeGuard,
    ) -> Result<Link, LinkFault> {
        let connected = within(limit, way_back, TcpStream::connect((host, port))).await;
        let stream = match connected.ok_or(LinkFault::Connecting)? {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(LinkFault::Writing { may_retry: false });
            }
            Err(_) => return Err(LinkFault::Connecting),
        };
        // Without it the connection is only slower.
        let _ = stream.set_nodelay(true);
        Ok(Link { stream, last_db: -1 })
    }

    /// Sends these pieces and reads so many lines; returns those that came, and what went wrong. It
    /// reads while it sends, so that neither side waits for the other with full buffers.
    pub async fn exchange(
        &self,
        pieces: &[&[u8]],
        lines: usize,
        limit: Duration,
        way_back: &ResumeGuard,
    ) -> (Vec<String>, Option<LinkFault>) {
        let mut input = Lines::default();
        let mut pieces = pieces.iter().copied().filter(|piece| !piece.is_empty());
        let mut output = pieces.next().unwrap_or_default();
        while !output.is_empty() || input.lines.len() < lines {
            let is_writing = !output.is_empty();
            let fault = |may_retry| match is_writing {
                true => Some(LinkFault::Writing { may_retry }),
                false => Some(LinkFault::Reading { may_retry }),
            };
            let interest = match is_writing {
                true => Interest::READABLE | Interest::WRITABLE,
                false => Interest::READABLE,
            };
            let ready = match within(limit, way_back, self.stream.ready(interest)).await {
                None => return (input.lines, fault(false)),
                Some(Err(_)) => return (input.lines, fault(true)),
                Some(Ok(ready)) => ready,
            };
            if is_writing && ready.is_writable() {
                match done(self.stream.try_write(output)) {
                    Ok(written) => output = &output[written..],
                    Err(_) => return (input.lines, fault(true)),
                }
                if output.is_empty() {
                    output = pieces.next().unwrap_or_default();
                }
            }
            if ready.is_readable() && !self.read(&mut input) {
                return (input.lines, fault(true));
            }
        }
        (input.lines, None)
    }

    /// Reads what is there; whether more may come.
    fn read(&self, input: &mut Lines) -> bool {
        let mut buffer = [0; READ_BYTES];
        match self.stream.try_read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => input.add(&buffer[..count]),
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Zero where it would block.
fn done(result: Result<usize, Error>) -> Result<usize, Error> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

/// Collects lines from pieces of input.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    rest: Vec<u8>,
}

impl Lines {
    /// Adds bytes; false: a line is too long.
    fn add(&mut self, bytes: &[u8]) -> bool {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.rest.extend_from_slice(part);
            let line = self.rest.strip_suffix(b"\r").unwrap_or(&self.rest);
            self.lines.push(String::from_utf8_lossy(line).into_owned());
            self.rest.clear();
        }
        self.rest.extend_from_slice(last);
        self.rest.len() <= MOST_LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_any_pieces() {
        let text = b"+OK\r\n\r\n-ERR no\r\n+half";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            assert!(text.chunks(size).all(|piece| lines.add(piece)));
            assert_eq!(lines.lines, ["+OK", "", "-ERR no"], "{size}");
            assert_eq!(lines.rest, b"+half");
        }
        assert!(!Lines::default().add(&[b'x'; MOST_LINE_BYTES + 1]));
    }
}
