//! One connection: decrypts what the peer sends, encrypts what is sent to it.
//!
//! Tests: `tests/`.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

use rustls::ServerConnection;

use crate::acceptor::Acceptor;
use crate::certificate::{NameField, names_in};

/// The TLS state of one incoming connection.
pub struct TlsSession {
    connection: ServerConnection,
    is_over: bool,
}

/// The outcome of decrypting received bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenedBytes {
    /// How many plain bytes were appended.
    pub plain_bytes: usize,
    /// A step of the handshake was computed: some tenths of a millisecond of work.
    pub is_costly: bool,
    /// The handshake was completed by these bytes.
    pub is_established: bool,
    /// The peer has announced that it sends nothing more.
    pub is_closed: bool,
}

/// Why a session has ended: invalid bytes from the peer, or its certificate.
#[derive(Clone, Debug)]
pub struct TlsFault(rustls::Error);

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for TlsFault {}

impl TlsSession {
    /// A new connection. `None`: there is no memory or no randomness for it.
    pub fn new(acceptor: &Acceptor) -> Option<TlsSession> {
        let mut connection = ServerConnection::new(Arc::clone(&acceptor.config)).ok()?;
        // Encrypted bytes leave at once: the caller decides how many.
        connection.set_buffer_limit(None);
        Some(TlsSession { connection, is_over: false })
    }

    /// Decrypts received bytes and appends the plain bytes to `plain`. An incomplete record waits
    /// for its rest.
    ///
    /// # Errors
    /// The session is over; [`TlsSession::seal`] gives the alert to be sent.
    pub fn open(
        &mut self,
        mut sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<OpenedBytes, TlsFault> {
        let mut opened = OpenedBytes::default();
        let was_handshaking = self.connection.is_handshaking();
        while !sealed.is_empty() && !self.is_over {
            let step = self
                .take(&mut sealed)
                .and_then(|()| self.connection.process_new_packets().map_err(TlsFault));
            opened.plain_bytes += self.drain(plain);
            match step {
                Ok(state) if state.peer_has_closed() => {
                    self.is_over = true;
                    opened.is_closed = true;
                }
                Ok(_) => {}
                Err(fault) => {
                    self.is_over = true;
                    return Err(fault);
                }
            }
        }
        opened.is_established = was_handshaking && !self.connection.is_handshaking();
        opened.is_costly =
            was_handshaking && (opened.is_established || self.connection.wants_write());
        Ok(opened)
    }

    /// Hands over some of the bytes, at least one.
    fn take(&mut self, sealed: &mut &[u8]) -> Result<(), TlsFault> {
        match self.connection.read_tls(sealed) {
            Ok(0) => {
                Err(TlsFault(rustls::Error::General("a record of an impossible length".into())))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(TlsFault(rustls::Error::General(error.to_string()))),
        }
    }

    /// Takes all decrypted bytes.
    fn drain(&mut self, plain: &mut Vec<u8>) -> usize {
        let before = plain.len();
        let mut reader = self.connection.reader();
        while let Ok(chunk) = reader.fill_buf() {
            let length = chunk.len();
            if length == 0 {
                break;
            }
            plain.extend_from_slice(chunk);
            reader.consume(length);
        }
        plain.len() - before
    }

    /// Encrypts plain bytes, unless the handshake is in progress, and appends everything to be sent
    /// to `out`. Returns how many plain bytes were taken: all of them, or none.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> usize {
        let taken = if plain.is_empty() || self.connection.is_handshaking() {
            0
        } else {
            self.connection.writer().write(plain).unwrap_or(0)
        };
        self.flush(out);
        taken
    }

    /// Announces that nothing more is sent.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if !self.connection.is_handshaking() {
            self.connection.send_close_notify();
        }
        self.flush(out);
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            if !matches!(self.connection.write_tls(&mut SliceAppender(out)), Ok(1..)) {
                break;
            }
        }
    }

    /// Whether something must be sent even if nothing new is encrypted.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        self.connection.wants_write()
    }

    /// Whether nothing can be encrypted yet.
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The values of this field in the peer's certificate, if it has shown one.
    pub fn peer_names(&self, field: NameField) -> Vec<String> {
        let shown = self.connection.peer_certificates().and_then(|chain| chain.first());
        shown.map(|own| names_in(own, field)).unwrap_or_default()
    }

    /// The version and cipher, for the log.
    pub fn spoken(&self) -> String {
        let version = self.connection.protocol_version();
        let suite = self.connection.negotiated_cipher_suite().map(|suite| suite.suite());
        format!("{version:?} {suite:?}")
    }
}

/// Writes slices of all records at once.
struct SliceAppender<'v>(&'v mut Vec<u8>);

impl Write for SliceAppender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut length = 0;
        for slice in slices {
            self.0.extend_from_slice(slice);
            length += slice.len();
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
