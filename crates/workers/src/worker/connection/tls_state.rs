//! The TLS side of a connection: what it has received and not decrypted, or has yet to seal.

use std::mem::{swap, take};

use pantala_tls::TlsSession;

/// The most bytes of a reply sealed in a turn: about a tenth of a millisecond.
const PIECE_BYTES: usize = 256 << 10;
/// Plain output buffers up to this size are reused by their connection.
const KEPT_PLAIN_BYTES: usize = 16 << 10;
/// About the memory of a session with its keys and buffers (measured, rustls 0.23).
const SESSION_BYTES: usize = 8 << 10;

/// The TLS side of a connection.
pub struct TlsState {
    /// `None` until the first byte has come.
    pub(crate) session: Option<TlsSession>,
    /// When it began (monotonic, microseconds).
    pub since_us: u64,
    /// Bytes received while it queues for a step of the handshake.
    pub(crate) waiting: Vec<u8>,
    /// Plain bytes that are being sealed; those up to `sealed` are.
    pub(crate) plain: Vec<u8>,
    pub(crate) sealed: usize,
    /// Nothing follows the present output.
    pub is_last: bool,
    pub(crate) has_said_goodbye: bool,
}

impl TlsState {
    /// The state before anything has come.
    pub fn new(now_us: u64) -> Self {
        TlsState {
            session: None,
            since_us: now_us,
            waiting: Vec::new(),
            plain: Vec::new(),
            sealed: 0,
            is_last: false,
            has_said_goodbye: false,
        }
    }

    /// The TLS session, for the HTTP service that takes the connection over.
    pub fn into_session(self) -> Option<TlsSession> {
        self.session
    }

    /// Whether the handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_none_or(TlsSession::is_handshaking)
    }

    /// Whether it queues for a step of its handshake.
    pub fn waits_for_turn(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Plain bytes taken from the output and not sealed yet.
    pub fn unsealed_bytes(&self) -> usize {
        self.plain.len() - self.sealed
    }

    /// The memory it takes in bytes.
    pub fn memory_bytes(&self) -> usize {
        let session = if self.session.is_some() { SESSION_BYTES } else { 0 };
        size_of::<TlsState>() + session + self.waiting.capacity() + self.plain.capacity()
    }

    /// Whether there is something to send; `is_waiting` says that the connection's output is not
    /// empty.
    #[inline]
    pub fn has_output(&self, is_waiting: bool) -> bool {
        let Some(session) = &self.session else { return false };
        session.wants_to_send()
            || !session.is_handshaking()
                && (is_waiting
                    || self.unsealed_bytes() > 0
                    || self.is_last && !self.has_said_goodbye)
    }

    /// The next bytes to send, in the buffer `wire`: TLS's own messages, and a piece of the plain
    /// bytes taken before or, when none are left, of the present output.
    pub fn seal(&mut self, output: &mut Vec<u8>, mut wire: Vec<u8>) -> Vec<u8> {
        let Some(session) = &mut self.session else { return wire };
        if self.plain.is_empty() {
            swap(&mut self.plain, output);
        }
        let end = self.plain.len().min(self.sealed + PIECE_BYTES);
        self.sealed += session.seal(&self.plain[self.sealed..end], &mut wire);
        if self.sealed == self.plain.len() {
            self.sealed = 0;
            self.plain.clear();
            if self.plain.capacity() <= KEPT_PLAIN_BYTES && output.capacity() == 0 {
                swap(&mut self.plain, output);
            }
            if self.is_last && output.is_empty() && !self.has_said_goodbye {
                self.has_said_goodbye = true;
                session.close(&mut wire);
            }
        }
        wire
    }

    /// A plain buffer that is not needed any more.
    pub fn take_spent(&mut self) -> Vec<u8> {
        if self.plain.is_empty() { take(&mut self.plain) } else { Vec::new() }
    }

    /// The close_notify, if it can be sent and was not yet.
    pub fn goodbye(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        if let Some(session) = self.session.as_mut().filter(|_| !self.has_said_goodbye) {
            self.has_said_goodbye = true;
            session.close(&mut wire);
        }
        wire
    }

    /// The connection is broken: no close_notify may be sent.
    pub fn hears_nothing(&mut self) {
        self.has_said_goodbye = true;
    }
}
