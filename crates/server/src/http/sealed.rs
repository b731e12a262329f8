//! TLS connections that a worker has begun, continued on the control plane.
//!
//! Invariants
//! 1. What is sealed is sent before more is sealed: at most [`PIECE_BYTES`] of plain bytes are on
//!    their way.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pantala_tls::TlsSession;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The most bytes sealed at a time.
const PIECE_BYTES: usize = 16 << 10;
/// The most bytes read at a time.
const READ_BYTES: usize = 16 << 10;

/// A TLS connection that was handed over by a worker, as an asynchronous stream of plain bytes.
pub struct Sealed {
    socket: TcpStream,
    session: TlsSession,
    /// Decrypted bytes; those from `taken` on are not taken yet.
    plain: Vec<u8>,
    taken: usize,
    /// Encrypted bytes; those from `sent` on are to be sent.
    wire: Vec<u8>,
    sent: usize,
    has_ended: bool,
    has_said_goodbye: bool,
}

impl Sealed {
    /// A connection whose handshake is complete.
    pub fn new(socket: TcpStream, session: TlsSession) -> Sealed {
        Sealed {
            socket,
            session,
            plain: Vec::new(),
            taken: 0,
            wire: Vec::new(),
            sent: 0,
            has_ended: false,
            has_said_goodbye: false,
        }
    }

    /// Sends what is encrypted.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.sent == self.wire.len() && self.session.wants_to_send() {
            self.session.seal(&[], &mut self.wire);
        }
        while self.sent < self.wire.len() {
            let rest = &self.wire[self.sent..];
            match ready!(Pin::new(&mut self.socket).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        self.wire.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Reads and decrypts; whether plain bytes may be there now.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut place = [0; READ_BYTES];
        let mut buffer = ReadBuf::new(&mut place);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer))?;
        if buffer.filled().is_empty() {
            self.has_ended = true;
            return Poll::Ready(Ok(()));
        }
        let opened = self.session.open(buffer.filled(), &mut self.plain);
        match opened {
            Ok(opened) => self.has_ended |= opened.is_closed,
            Err(fault) => return Poll::Ready(Err(io::Error::other(fault))),
        }
        // An alert or a new key: not waited for.
        let _later = self.poll_send(cx)?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Sealed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.taken == this.plain.len() && !this.has_ended {
            this.plain.clear();
            this.taken = 0;
            ready!(this.poll_open(cx))?;
        }
        let rest = &this.plain[this.taken..];
        let length = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..length]);
        this.taken += length;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sealed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_send(cx))?;
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let taken = this.session.seal(piece, &mut this.wire);
        if taken == 0 && !piece.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        // The rest is sent before the next piece, or with `flush`.
        let _later = this.poll_send(cx)?;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.has_said_goodbye {
            this.has_said_goodbye = true;
            this.session.close(&mut this.wire);
        }
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}
