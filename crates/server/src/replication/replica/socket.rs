//! The connection to the primary: plain or with TLS, with limits for everything that waits.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_base::os;
use pantala_replication::link;
use pantala_tls::Connector;

use super::Primary;

/// How long a read waits at most before it is looked what else is due.
pub const TICK: Duration = Duration::from_secs(1);
/// A connection that is not there by then will not be.
const MOST_CONNECT: Duration = Duration::from_secs(5);
/// How soon it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// So much is read at once.
const READ_BYTES: usize = 64 << 10;

/// What is read from and written to. A read waits for [`TICK`] at most.
pub trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// A connection for whoever ends it, and what is told of it.
pub trait End: Send {
    /// Nothing comes any more, and nothing goes.
    fn shut(&self);
    /// The other server's address and this one's.
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

/// How primaries are reached, and the time that passes meanwhile: in tests both are simulated.
pub trait Network: Send + Sync {
    /// Connects. Without an answer for so long it is given up.
    ///
    /// # Errors
    /// There is no connection.
    fn connect(
        &self,
        primary: &Primary,
        silence: Duration,
        tls: Option<&Connector>,
    ) -> io::Result<(Box<dyn Wire>, Box<dyn End>)>;

    /// Now.
    fn now(&self) -> Instant;

    /// Over so many connections beside the link a full copy may come; less than two: over none.
    fn most_connections(&self) -> usize {
        link::MOST_CONNECTIONS
    }

    /// How soon it is tried again after a connection has ended.
    fn retry(&self) -> Duration;
}

/// The one there is.
#[derive(Default)]
pub struct Tcp {
    /// The local address of its connections; empty: any.
    pub source: String,
}

impl Tcp {
    /// From the address it is to come from, where that is possible; else from any, as in Valkey.
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
    /// What was read and not used.
    input: Vec<u8>,
    /// For each read.
    buffer: Vec<u8>,
    heard: Instant,
    /// So long nothing may come.
    silence: Duration,
}

impl Socket {
    /// Connects; the connection comes too, for whoever ends it. Without an answer for so long it is
    /// given up.
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

    /// Now.
    pub fn now(&self) -> Instant {
        self.network.now()
    }

    /// Sends all of it.
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

    /// What was read and not used.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// So many bytes of it were used.
    pub fn use_up(&mut self, bytes: usize) {
        self.input.drain(..bytes);
    }

    /// All of it.
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
