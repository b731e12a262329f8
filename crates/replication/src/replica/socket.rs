//! The connection to the primary: plain or with TLS, with a time limit for everything that waits.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_base::os;
use pantala_psync::link;
use pantala_tls::Connector;

use super::Primary;

/// The longest wait of a read before other work is checked.
pub const TICK: Duration = Duration::from_secs(1);
/// The longest wait for a connection.
const MOST_CONNECT: Duration = Duration::from_secs(5);
/// The pause before the next attempt to connect.
const RETRY: Duration = Duration::from_secs(1);
/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// A byte stream to the primary. A read waits for [`TICK`] at most.
pub trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// A handle that ends a connection, and tells its addresses.
pub trait End: Send {
    /// Ends both directions.
    fn shut(&self);
    /// The address of the other server, and this one's.
    fn addresses(&self) -> (String, String);
}

impl End for TcpStream {
    fn shut(&self) {
        // It may be closed already.
        let _closed = self.shutdown(Shutdown::Both);
    }

    fn addresses(&self) -> (String, String) {
        let text = |address: io::Result<SocketAddr>| {
            address.map(|address| address.to_string()).unwrap_or_default()
        };
        (text(self.peer_addr()), text(self.local_addr()))
    }
}

/// How primaries are reached, and the time that passes meanwhile: tests simulate both.
pub trait Network: Send + Sync {
    /// Connects; gives up without an answer for `silence`.
    ///
    /// # Errors
    /// There is no connection.
    fn connect(
        &self,
        primary: &Primary,
        silence: Duration,
        tls: Option<&Connector>,
    ) -> io::Result<(Box<dyn Wire>, Box<dyn End>)>;

    /// The current time.
    fn now(&self) -> Instant;

    /// The most connections beside the link for a full copy; fewer than two: none are used.
    fn most_connections(&self) -> usize {
        link::MOST_CONNECTIONS
    }

    /// The pause before the next attempt after a connection has ended.
    fn retry(&self) -> Duration;
}

/// The real network.
#[derive(Default)]
pub struct Tcp {
    /// The local address of its connections; empty: any.
    pub source: String,
}

impl Tcp {
    /// Connects from the configured address where that is possible, otherwise from any, as Valkey
    /// does.
    fn connect_to(&self, to: &SocketAddr, most: Duration) -> io::Result<TcpStream> {
        if self.source.is_empty() {
            return TcpStream::connect_timeout(to, most);
        }
        let source = self.source.parse().map_err(|_| Error::other("it is no address"));
        source.and_then(|source| os::connect_from(source, to, most)).or_else(|why| {
            tracing::warn!(source = self.source, "bind-source-addr can not be used: {why}");
            TcpStream::connect_timeout(to, most)
        })
    }
}

impl Network for Tcp {
    fn connect(
        &self,
        primary: &Primary,
        silence: Duration,
        tls: Option<&Connector>,
    ) -> io::Result<(Box<dyn Wire>, Box<dyn End>)> {
        let mut last = Error::new(ErrorKind::NotFound, "the name has no address");
        for address in (&*primary.host, primary.port).to_socket_addrs()? {
            match self.connect_to(&address, silence.min(MOST_CONNECT)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(TICK))?;
                    stream.set_write_timeout(Some(silence))?;
                    stream.set_nodelay(true)?;
                    let other = stream.try_clone()?;
                    let wire: Box<dyn Wire> = match tls {
                        None => Box::new(stream),
                        Some(tls) => {
                            let sealed = tls.connect(&primary.host, stream);
                            Box::new(sealed.map_err(Error::other)?)
                        }
                    };
                    return Ok((wire, Box::new(other)));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn retry(&self) -> Duration {
        RETRY
    }
}

/// The connection to the primary, with what was read ahead and the time it may be silent.
pub struct Socket {
    network: Arc<dyn Network>,
    wire: Box<dyn Wire>,
    /// Bytes read and not used.
    input: Vec<u8>,
    /// The buffer of reads.
    buffer: Vec<u8>,
    heard: Instant,
    /// The longest time for which nothing may come.
    silence: Duration,
}

impl Socket {
    /// Connects; also returns the handle that ends the connection. Gives up without an answer for
    /// `silence`.
    ///
    /// # Errors
    /// There is no connection.
    pub fn open(
        network: Arc<dyn Network>,
        primary: &Primary,
        silence: Duration,
        tls: Option<&Connector>,
    ) -> io::Result<(Socket, Box<dyn End>)> {
        let (wire, end) = network.connect(primary, silence, tls)?;
        let (input, buffer, heard) = (Vec::new(), vec![0; READ_BYTES], network.now());
        Ok((Socket { network, wire, input, buffer, heard, silence }, end))
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.network.now()
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// The connection has ended, or takes nothing.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.write_all(bytes)?;
        self.wire.flush()
    }

    /// Reads what is there, or waits a while; whether anything came.
    ///
    /// # Errors
    /// The connection has ended, or was silent for too long.
    pub fn fill(&mut self) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let count = self.read(&mut buffer);
        self.buffer = buffer;
        let count = count?;
        self.input.extend_from_slice(&self.buffer[..count]);
        Ok(count > 0)
    }

    /// Reads into `room` and returns how many bytes came; 0 if none came within a read's timeout.
    /// Only while no input lies unused.
    ///
    /// # Errors
    /// As [`Socket::fill`].
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.wire.read(room) {
            Ok(0) => Err(Error::new(ErrorKind::UnexpectedEof, "the primary has closed the link")),
            Ok(count) => {
                debug_assert!(count <= room.len(), "they have room");
                self.heard = self.now();
                Ok(count)
            }
            Err(error) if is_nothing(&error) && self.now() - self.heard < self.silence => Ok(0),
            Err(error) if is_nothing(&error) => {
                Err(Error::new(ErrorKind::TimedOut, "nothing has come for repl-timeout"))
            }
            Err(error) => Err(error),
        }
    }

    /// Bytes read and not used.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Drops this many of them, which were used.
    pub fn use_up(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.input.len(), "they have come");
        self.input.drain(..bytes);
    }

    /// Takes all of them.
    pub fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// The next line, if it has come.
    ///
    /// # Errors
    /// It is too long for one.
    pub fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let too_long = |_| Error::new(ErrorKind::InvalidData, "a line does not end");
        let Some((line, used)) = link::line(&self.input).map_err(too_long)? else {
            return Ok(None);
        };
        let line = line.to_vec();
        self.use_up(used);
        Ok(Some(line))
    }
}

fn is_nothing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
