//! TLS: between the socket's bytes and a connection's `input` and `output`, which hold plain bytes
//! in any case.
//!
//! ```text
//! Event::Data --receive_sealed--> TlsSession::open --> input --> chunk, as for any connection
//! output.bytes --flush_one--> TlsSession::seal, a piece at a time --> Ops::send
//! ```
//!
//! Invariants
//! 1. A worker computes at most `max-new-tls-connections-per-cycle` steps of handshakes a turn:
//!    each takes some tenths of a millisecond (a signature, a key exchange). Other connections wait
//!    in a queue with the bytes they have sent, and are not read meanwhile.
//! 2. Of a long reply a turn seals [`PIECE_BYTES`]; the next piece is sealed once that one is sent.
//!    So output that a client does not read exists once, as plain bytes, and counts against the
//!    output limits.
//! 3. A handshake that takes longer than `tls_handshake_timeout` ends its connection.
//! 4. A peer whose connection is closed gets a close_notify if nothing else is on its way to it.
//! 5. All of this moves with its connection to another worker.
//!
//! Not here: TLS itself (`pantala_tls`), the certificates (`pantala_tls::certificates`).
//! Tests: the server's `tests/tls.rs`; compat/tls; the bad day `stalled_handshakes`.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use pantala_acl::{AclRefusal, Context, Reason};
use pantala_commands::{Login, Protocol};
use pantala_reactor::{Ops, Token};
use pantala_settings::field::TlsUserField;
use pantala_tls::{HANDSHAKE_BYTE, NameField, OpenedBytes, TlsFault, TlsSession};

use super::Worker;
use super::connection::{Connection, Life};
use super::serving::{Chunk, Chunks};
use crate::worker::connection::describe::describe;

/// The most connections whose handshakes are looked at in a turn, however little there is to do.
const TURN_LOOKS: usize = 256;

/// The reply to a client that speaks plainly where only TLS is served.
const NOT_TLS: &[u8] = b"-ERR This port speaks TLS, and what was sent is not TLS\r\n";
const NOT_TLS_ITEMS: &[u8] = b"SERVER_ERROR This port speaks TLS, and what was sent is not TLS\r\n";

impl Worker {
    /// Whether a connection that could speak TLS does not, by its first byte.
    pub(crate) fn begins_plainly(&mut self, conn: Token, bytes: &[u8]) -> bool {
        let accepts = self.settings.tls_accept_plain;
        let Some(connection) = self.find(conn) else { return false };
        let is_fresh = connection.tls.as_ref().is_some_and(|tls| tls.session.is_none());
        if !is_fresh || connection.life != Life::Open || bytes.first() == Some(&HANDSHAKE_BYTE) {
            return false;
        }
        connection.tls = None;
        if !accepts {
            let is_resp =
                matches!(connection.session.protocol, Protocol::Resp | Protocol::Undecided);
            connection.output.bytes.extend_from_slice(if is_resp {
                NOT_TLS
            } else {
                NOT_TLS_ITEMS
            });
            connection.life = Life::Ending;
            self.touch(conn.index);
        }
        true
    }

    /// Handles bytes that have come over a TLS connection.
    #[inline(never)]
    pub(crate) fn receive_sealed(&mut self, conn: Token, bytes: &[u8], chunks: &mut Chunks<'_>) {
        let (now_us, has_turn) = (self.now_us, self.handshakes.left > 0);
        let is_line_empty = self.handshakes.line.is_empty();
        let Some(connection) = self.find(conn) else { return };
        connection.counts.received_bytes += bytes.len() as u64;
        connection.counts.active_us = now_us;
        if matches!(connection.life, Life::Ending | Life::Closing) {
            return;
        }
        let Some(tls) = connection.tls.as_mut() else { return };
        let must_wait = !(has_turn && is_line_empty) || connection.life == Life::Leaving;
        if tls.is_handshaking() && must_wait {
            let is_new = tls.waiting.is_empty();
            tls.waiting.extend_from_slice(bytes);
            if is_new {
                self.handshakes.line.push_back(conn);
            }
            return self.touch(conn.index);
        }
        self.open(conn, bytes, chunks);
    }

    /// Takes bytes that came while the connection was moving to this worker.
    fn take_plainly(&mut self, conn: Token, bytes: &[u8]) {
        if let Some(connection) = self.find(conn).filter(|one| one.life == Life::Open) {
            connection.input.bytes.extend_from_slice(bytes);
            self.resume(conn.index);
        }
    }

    /// Computes the next handshake steps of the connections that queue, and ends handshakes that
    /// take too long.
    pub(crate) fn take_handshakes(&mut self, chunks: &mut Chunks<'_>, ops: &mut Ops<'_>) {
        if self.handshakes.line.is_empty() && self.handshakes.begun.is_empty() {
            self.handshakes.left = self.settings.max_new_tls_connections_per_cycle;
            return;
        }
        for _ in 0..TURN_LOOKS {
            if self.handshakes.left == 0 {
                break;
            }
            let Some(conn) = self.handshakes.line.pop_front() else { break };
            let Some(connection) = self.find(conn) else { continue };
            let Some(tls) = connection.tls.as_mut() else { continue };
            let waiting = take(&mut tls.waiting);
            if self.begins_plainly(conn, &waiting) {
                self.take_plainly(conn, &waiting);
            } else {
                self.open(conn, &waiting, chunks);
            }
        }
        self.handshakes.left = self.settings.max_new_tls_connections_per_cycle;
        self.end_slow_handshakes(ops);
    }

    fn end_slow_handshakes(&mut self, ops: &mut Ops<'_>) {
        let most_us = u64::from(self.settings.tls_handshake_timeout_s) * 1_000_000;
        while let Some(&(since_us, conn)) = self.handshakes.begun.front() {
            let is_due = most_us > 0 && since_us + most_us <= self.now_us;
            let is_under_way = self.find(conn).is_some_and(|connection| {
                connection.life != Life::Closing
                    && connection.handshaking_since_us() == Some(since_us)
            });
            if is_under_way && !is_due {
                break;
            }
            self.handshakes.begun.pop_front();
            if is_under_way {
                self.context.tls.counts.late.add(1);
                self.drop_connection(conn, ops);
            }
        }
    }

    /// The time left until the oldest handshake has to be complete.
    pub(crate) fn handshakes_end_in(&self) -> Option<Duration> {
        let (since_us, _) = self.handshakes.begun.front()?;
        let most_us = u64::from(self.settings.tls_handshake_timeout_s) * 1_000_000;
        let left_us = (since_us + most_us).saturating_sub(pantala_base::clock::monotonic_us());
        (most_us > 0).then(|| Duration::from_micros(left_us))
    }

    /// Decrypts what has come, and serves the plain bytes.
    fn open(&mut self, conn: Token, bytes: &[u8], chunks: &mut Chunks<'_>) {
        let context = Arc::clone(&self.context);
        let spare = &mut self.lists.spare;
        let slot = self.connections.get_mut(conn.index as usize);
        let Some(connection) = slot.and_then(Option::as_deref_mut) else { return };
        let Connection { tls: Some(tls), input, .. } = connection else { return };
        if tls.session.is_none() {
            tls.session = context.tls.acceptor().and_then(|acceptor| TlsSession::new(&acceptor));
        }
        let Some(session) = &mut tls.session else {
            connection.life = Life::Ending;
            return self.touch(conn.index);
        };
        if input.bytes.capacity() == 0 {
            input.bytes = spare.take();
        }
        let opened = session.open(bytes, &mut input.bytes);
        self.touch(conn.index);
        match opened {
            Ok(opened) => self.opened(conn, opened, chunks),
            Err(fault) => self.failed(conn, &fault),
        }
    }

    fn opened(&mut self, conn: Token, opened: OpenedBytes, chunks: &mut Chunks<'_>) {
        if opened.is_costly {
            self.handshakes.left = self.handshakes.left.saturating_sub(1);
        }
        if opened.is_established {
            self.established(conn);
        }
        if opened.plain_bytes > 0 {
            self.hand_on(conn, chunks);
        }
        let Some(connection) = self.find(conn) else { return };
        if opened.plain_bytes == 0 && connection.input.bytes.is_empty() {
            let unused = take(&mut connection.input.bytes);
            self.keep_buffer(unused);
        }
        if opened.is_closed
            && let Some(connection) = self.find(conn)
        {
            connection.peer.is_done = true;
            connection.sends_no_more();
        }
    }

    /// Ends a connection whose peer has sent no TLS, or a certificate that is not trusted; a TLS
    /// alert says why.
    #[cold]
    fn failed(&mut self, conn: Token, fault: &TlsFault) {
        self.context.tls.counts.failed.add(1);
        let Some(connection) = self.find(conn) else { return };
        tracing::debug!(client = %connection.session.peer, %fault, "a TLS connection failed");
        // Only the alert is still to be sent.
        connection.output.bytes = Vec::new();
        if let Some(tls) = connection.tls.as_mut() {
            tls.has_said_goodbye = true;
            (tls.plain, tls.sealed) = (Vec::new(), 0);
        }
        connection.life = Life::Ending;
    }

    /// The handshake of a connection is complete.
    #[cold]
    fn established(&mut self, conn: Token) {
        self.context.tls.counts.done.add(1);
        let field = match self.settings.tls_auth_clients_user {
            TlsUserField::CommonName => NameField::CommonName,
            TlsUserField::Uri => NameField::Uri,
            TlsUserField::Off => return,
        };
        let Some(connection) = self.find(conn) else { return };
        let session = connection.tls.as_ref().and_then(|tls| tls.session.as_ref());
        let names = session.map(|session| session.peer_names(field)).unwrap_or_default();
        if !names.is_empty() {
            self.named_by_certificate(conn, &names);
        }
    }

    /// Logs a client in by its certificate: as the first of its names that is an enabled user. If
    /// none is, the login stays what it was, and ACL LOG has an entry.
    fn named_by_certificate(&mut self, conn: Token, names: &[String]) {
        let (context, now) = (Arc::clone(&self.context), self.users.clone());
        let now_us = self.now_us;
        let Some(connection) = self.find(conn) else { return };
        let mut found = names.iter().filter_map(|name| now.users.find(name.as_bytes()));
        if let Some(user) = found.find(|user| user.is_on()) {
            tracing::debug!(client = connection.session.id, "a certificate names a user");
            return connection.session.log_in(Login::of_user(Arc::clone(user), now.version), &now);
        }
        let rows = context.engine.registry.rows();
        let line = describe(connection, rows, now_us);
        let concerned = (&b""[..], names[0].as_bytes());
        let refusal = AclRefusal::new(Reason::TlsCert, Context::TopLevel, concerned, line);
        context.engine.log_refusal(refusal);
    }

    /// Serves plain bytes that were appended to the connection's input.
    fn hand_on(&mut self, conn: Token, chunks: &mut Chunks<'_>) {
        let is_retiring = self.is_retiring;
        let Some(connection) = self.find(conn) else { return };
        if connection.life != Life::Open {
            return;
        }
        if connection.session.protocol == Protocol::Undecided {
            return self.resume(conn.index);
        }
        let chunks = chunks.of(connection.session.protocol);
        match connection.marks.chunk {
            Some(chunk) => {
                chunks[chunk as usize].extend(&connection.input.bytes);
                connection.input.bytes.clear();
            }
            None if !connection.is_ready() => {}
            None if is_retiring => connection.marks.is_resumed = true,
            None => {
                connection.marks.chunk = Some(chunks.len() as u32);
                chunks.push(Chunk::kept(conn.index, connection));
            }
        }
    }
}
