//! The connection to the primary: plain or with TLS, with limits for everything that waits.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use pantala_replication::link;
use pantala_tls::Connector;

use super::Primary;

/// How long a read waits at most before it is looked what else is due.
pub const TICK: Duration = Duration::from_secs(1);
/// A connection that is not there by then will not be.
const MOST_CONNECT: Duration = Duration::from_secs(5);
/// So much is read at once.
const READ_BYTES: usize = 64 << 10;

/// What is read from and written to.
trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// See the module.
pub struct Socket {
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
    /// Connects; the socket itself comes too, for whoever ends it. Without an answer for so long it
    /// is given up.
    ///
    /// # Errors
    /// There is no connection.
    pub fn open(
        primary: &Primary,
        silence: Duration,
        tls: Option<&Connector>,
    ) -> io::Result<(Socket, TcpStream)> {
        let mut last = Error::new(ErrorKind::NotFound, "the name has no address");
        for address in (&*primary.host, primary.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, silence.min(MOST_CONNECT)) {
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
                    return Ok((Socket::over(wire, silence), other));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn over(wire: Box<dyn Wire>, silence: Duration) -> Socket {
        Socket {
            wire,
            input: Vec::new(),
            buffer: vec![0; READ_BYTES],
            heard: Instant::now(),
            silence,
        }
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
        match self.wire.read(&mut self.buffer) {
            Ok(0) => Err(Error::new(ErrorKind::UnexpectedEof, "the primary has closed the link")),
            Ok(count) => {
                self.heard = Instant::now();
                self.input.extend_from_slice(&self.buffer[..count]);
                Ok(true)
            }
            Err(error) if is_nothing(&error) && self.heard.elapsed() < self.silence => Ok(false),
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
