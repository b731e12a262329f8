//! A connection to the server: commands out, replies in, one after the other.
//!
//! Every wait has an end: a server that does not answer within [`PATIENCE`] counts as lost.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use pantala_protocol::value::{Value, parse};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::options::Options;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A reply of more bytes is not for a screen.
const MOST_BYTES: usize = 64 << 20;

/// Bytes there and back.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// See the module.
pub struct Client {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
}

impl Client {
    /// Connects, and authenticates if there is a password.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn connect(options: &Options) -> Result<Client, String> {
        let stream = open(options).map_err(|error| format!("{}: {error}", options.place()))?;
        let mut client = Client { stream, received: Vec::new() };
        if let Some(password) = &options.password {
            let mut words = vec!["AUTH"];
            words.extend(options.user.as_deref());
            words.push(password);
            if let Value::Error(why) = client.ask(&words)? {
                return Err(String::from_utf8_lossy(&why).into_owned());
            }
        }
        Ok(client)
    }

    /// Sends a command; its reply.
    ///
    /// # Errors
    /// The connection is of no use any more: a text for the operator.
    pub fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.exchange(&request).map_err(|error| error.to_string())
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<Value> {
        self.stream.write_all(request)?;
        self.stream.flush()?;
        let mut part = [0; 16 << 10];
        loop {
            let broken = |_| io::Error::new(ErrorKind::InvalidData, "it speaks no RESP");
            if let Some((value, used)) = parse(&self.received).map_err(broken)? {
                self.received.drain(..used);
                return Ok(value);
            }
            if self.received.len() > MOST_BYTES {
                return Err(io::Error::new(ErrorKind::InvalidData, "its reply is too long"));
            }
            match self.stream.read(&mut part)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&part[..count]),
            }
        }
    }
}

fn open(options: &Options) -> io::Result<Box<dyn Stream>> {
    if let Some(path) = &options.socket {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        return Ok(Box::new(stream));
    }
    let addresses = (options.host.as_str(), options.port).to_socket_addrs()?;
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return if options.tls { sealed(stream, options) } else { Ok(Box::new(stream)) };
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn sealed(stream: TcpStream, options: &Options) -> io::Result<Box<dyn Stream>> {
    let wrong = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
    let path = options.certificates().ok_or_else(|| wrong("--cacert is missing".into()))?;
    let pem = fs::read(&path).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = options.name.clone().unwrap_or_else(|| options.host.clone());
    let name = ServerName::try_from(name).map_err(|error| wrong(error.to_string()))?;
    let session = ClientConnection::new(Arc::new(config), name);
    let session = session.map_err(|error| wrong(error.to_string()))?;
    Ok(Box::new(StreamOwned::new(session, stream)))
}
