//! The stream between HTTP and a socket: replays bytes that were read before, and enforces a
//! deadline on sending.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a peer may accept nothing before it is dropped.
const STALLED_MOST: Duration = Duration::from_secs(30);

/// The bytes of a connection, with TLS or without.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A byte stream that first yields bytes read earlier, and fails when the peer takes nothing for
/// too long.
pub(crate) struct TimedStream {
    inner: Box<dyn ByteStream>,
    /// Bytes read earlier; those up to `taken` have been handed out.
    before: Vec<u8>,
    taken: usize,
    /// How long a peer may accept no bytes.
    patience: Duration,
    /// Set while a write waits: when the peer has accepted nothing for too long.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Dropping it tells the counter of connections.
    _seat: Box<dyn Send>,
}

impl TimedStream {
    /// The stream with these first bytes; `seat` is dropped with it.
    pub fn new(inner: Box<dyn ByteStream>, before: Vec<u8>, seat: Box<dyn Send>) -> TimedStream {
        let patience = STALLED_MOST;
        TimedStream { inner, before, taken: 0, patience, deadline: None, _seat: seat }
    }

    /// The result of an attempt to send, or an error if nothing was accepted for too long.
    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.deadline = None;
            return attempt;
        }
        let patience = self.patience;
        let fresh = || Box::pin(sleep_until(Instant::now() + patience));
        let deadline = self.deadline.get_or_insert_with(fresh);
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.taken < this.before.len() {
            let rest = &this.before[this.taken..];
            let length = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..length]);
            this.taken += length;
            if this.taken == this.before.len() {
                (this.before, this.taken) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.inner).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.judge(cx, attempt)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, attempt)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_read_before_comes_first() {
        let (mut far, near) = tokio::io::duplex(64);
        let mut stream = TimedStream::new(Box::new(near), b"GET / HT".to_vec(), Box::new(()));
        far.write_all(b"TP/1.1").await.expect("room");
        drop(far);
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an end");
        assert_eq!(text, "GET / HTTP/1.1");
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (_far, near) = tokio::io::duplex(4);
        let mut stream = TimedStream::new(Box::new(near), Vec::new(), Box::new(()));
        stream.patience = Duration::from_millis(1);
        let sent = stream.write_all(b"more than fits").await;
        assert_eq!(sent.map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
    }
}
