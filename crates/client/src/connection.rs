//! A blocking connection to a server: one command, then its reply.
//!
//! A server that is silent for [`PATIENCE`], or whose reply is not whole after [`REPLY_TIME`] or
//! [`REPLY_BYTES`], counts as lost.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_protocol::value::{Value, parse};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::address::Address;

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a reply may take from its first byte to its last.
const REPLY_TIME: Duration = Duration::from_secs(30);
/// The longest reply: that of CLIENT LIST with 50,000 clients.
const REPLY_BYTES: usize = 32 << 20;
/// How much is read at a time.
const PART_BYTES: usize = 64 << 10;

/// A stream in both directions.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// A connection to a server; replies are read one at a time.
pub struct Connection {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
}

impl Connection {
    /// Connects, and authenticates if there is a password.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn open(address: &Address) -> Result<Connection, String> {
        let at_place = |why: String| format!("{}: {why}", address.place());
        let stream = open(address).map_err(|error| at_place(said(&error)))?;
        let mut connection = Connection { stream, received: Vec::new() };
        if let Some(password) = &address.password {
            let mut words = vec!["AUTH"];
            words.extend(address.user.as_deref());
            words.push(password);
            if let Value::Error(why) = connection.ask(&words).map_err(at_place)? {
                return Err(String::from_utf8_lossy(&why).into_owned());
            }
        }
        Ok(connection)
    }

    /// Sends a command; returns its reply.
    ///
    /// # Errors
    /// The connection is unusable: a text for the operator.
    pub fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask_bytes(&words)
    }

    /// As [`Connection::ask`], where the words may be any bytes.
    ///
    /// # Errors
    /// As for [`Connection::ask`].
    pub fn ask_bytes(&mut self, words: &[&[u8]]) -> Result<Value, String> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.exchange(&request).map_err(|error| said(&error))
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<Value> {
        let invalid = |why| io::Error::new(ErrorKind::InvalidData, why);
        if !self.received.is_empty() {
            return Err(invalid("it answers what nobody has asked"));
        }
        self.stream.write_all(request)?;
        self.stream.flush()?;
        let begin = Instant::now();
        let mut part = vec![0; PART_BYTES];
        let mut looked_at = 0;
        loop {
            let count = match self.stream.read(&mut part) {
                // A signal for another purpose.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read?,
            };
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&part[..count]);
            // A long reply is parsed each time it has doubled, and where it may end.
            if count == part.len() && self.received.len() < 2 * looked_at {
                continue;
            }
            looked_at = self.received.len();
            let parsed = parse(&self.received).map_err(|_| invalid("it speaks no RESP"))?;
            if let Some((value, used)) = parsed {
                self.received.drain(..used);
                return Ok(value);
            }
            if self.received.len() > REPLY_BYTES {
                return Err(invalid("its reply is too long"));
            }
            if begin.elapsed() > REPLY_TIME {
                return Err(invalid("its reply does not end"));
            }
        }
    }
}

/// An error in readable form.
fn said(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no answer within {} s", PATIENCE.as_secs())
        }
        ErrorKind::UnexpectedEof => "it closed the connection".into(),
        _ => error.to_string(),
    }
}

fn open(address: &Address) -> io::Result<Box<dyn Stream>> {
    if let Some(path) = &address.socket {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        return Ok(Box::new(stream));
    }
    let addresses = (address.host.as_str(), address.port).to_socket_addrs()?;
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for one in addresses {
        match TcpStream::connect_timeout(&one, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return if address.tls { sealed(stream, address) } else { Ok(Box::new(stream)) };
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn sealed(stream: TcpStream, address: &Address) -> io::Result<Box<dyn Stream>> {
    let wrong = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
    let path = address.certificates().ok_or_else(|| wrong("--cacert is missing".into()))?;
    let pem = fs::read(&path).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = address.name.clone().unwrap_or_else(|| address.host.clone());
    let name = ServerName::try_from(name).map_err(|error| wrong(error.to_string()))?;
    let session = ClientConnection::new(Arc::new(config), name);
    let session = session.map_err(|error| wrong(error.to_string()))?;
    Ok(Box::new(StreamOwned::new(session, stream)))
}
