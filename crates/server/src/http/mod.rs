//! Connections that speak HTTP: from the worker that has recognised them to the control plane.
//!
//! ```text
//! worker: first line is HTTP --detach--> socket, bytes, TLS --Http::take--> Admin::serve
//!                                                             (a task of the control plane)
//! ```
//!
//! Invariants
//! 1. A worker hands over and goes on: it waits for nothing, and its work does not depend on what
//!    is sent over HTTP.
//! 2. A connection counts against `maxclients` until it has ended ([`Seat`]), and there are at most
//!    [`MOST_CONNECTIONS`].
//! 3. When the server stops all of them end, and nothing here keeps it alive.
//!
//! Not here: telling HTTP from RESP (`worker/serving/first_bytes.rs`), HTTP itself
//! (`pantala_admin`). Tests: `tests/http/`; the bad days `http`.

mod host;
mod sealed;

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pantala_admin::{Admin, ByteStream, Incoming, Peer};
use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::shared::Shared;
use host::Server;
use pantala_http::control;
use pantala_workers::HttpHandler;
use pantala_workers::worker::connection::Connection;
use sealed::Sealed;

/// The most connections that may speak HTTP at a time.
const MOST_CONNECTIONS: usize = 1_024;
/// The answer to a connection beyond that,
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\
                          Retry-After: 5\r\nConnection: close\r\n\r\n";
/// unless it begins like a health probe,
const HEALTH: &[u8] = b"GET /healthz ";
/// which gets this answer.
const SERVES: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";

/// The HTTP service, while there is one, and how many connections speak HTTP.
#[derive(Default)]
pub struct Http {
    service: RwLock<Option<Arc<Service>>>,
    open: Arc<AtomicUsize>,
}

/// The running service.
struct Service {
    runtime: Handle,
    admin: Arc<Admin>,
    shared: Arc<Shared>,
    stops: watch::Sender<bool>,
}

/// A connection's place among the clients, given back when it ends.
struct Seat {
    shared: Arc<Shared>,
    open: Arc<AtomicUsize>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.shared.workers.room.went();
    }
}

impl Http {
    /// Begins to serve, if a port serves HTTP.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn begin(&self, shared: &Arc<Shared>) -> Result<(), String> {
        let settings = shared.engine.settings.current();
        let exports = !settings.otlp_endpoint.is_empty();
        if !settings.primary_port_http_enabled && settings.admin_port == 0 && !exports {
            return Ok(());
        }
        let service = Service {
            runtime: control::runtime()?,
            admin: Admin::new(Arc::new(Server(Arc::clone(shared)))),
            shared: Arc::clone(shared),
            stops: watch::Sender::new(false),
        };
        if exports {
            let host = Arc::new(Server(Arc::clone(shared)));
            service.runtime.spawn(pantala_admin::export(host, service.stops.subscribe()));
        }
        let admin = Arc::clone(&service.admin);
        service.runtime.spawn(admin.keep_history(service.stops.subscribe()));
        *self.service.write() = Some(Arc::new(service));
        Ok(())
    }

    /// Ends all connections; no more are taken.
    pub fn end(&self) {
        let service = self.service.write().take();
        if let Some(service) = service {
            service.stops.send_replace(true);
        }
    }

    /// The number of connections.
    pub fn connection_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl HttpHandler for Http {
    fn take(&self, socket: OwnedFd, connection: Connection) {
        let service = self.service.read().clone();
        let Some(service) = service else { return };
        let seat = Seat { shared: Arc::clone(&service.shared), open: Arc::clone(&self.open) };
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let socket = TcpStream::from(socket);
        if before >= MOST_CONNECTIONS {
            return turn_away(&socket, &connection);
        }
        let admin = Arc::clone(&service.admin);
        let stops = service.stops.subscribe();
        let is_open = service.shared.engine.settings.current().admin_nopass;
        let needs_no_login = connection.kind.is_admin() && is_open;
        service.runtime.spawn(async move {
            match incoming(socket, connection, needs_no_login, seat) {
                Ok(incoming) => admin.serve(incoming, stops).await,
                Err(error) => tracing::debug!(%error, "cannot serve a connection of HTTP"),
            }
        });
    }
}

/// Sends the reason, as far as the socket's buffer takes it at once, and closes. A health probe is
/// answered that the process serves: otherwise a client that holds all connections could have the
/// process restarted.
fn turn_away(mut socket: &TcpStream, connection: &Connection) {
    if connection.tls.is_none() {
        let answer = if connection.input.bytes.starts_with(HEALTH) { SERVES } else { TOO_MANY };
        let _best_effort = socket.set_nonblocking(true).and_then(|()| socket.write(answer));
    }
}

/// The connection in the form that the service takes. Within the runtime.
fn incoming(
    socket: TcpStream,
    mut connection: Connection,
    needs_no_login: bool,
    seat: Seat,
) -> io::Result<Incoming> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpStream::from_std(socket)?;
    let tls = connection.tls.take().and_then(|tls| tls.into_session());
    let is_tls = tls.is_some();
    let stream: Box<dyn ByteStream> = match tls {
        Some(session) => Box::new(Sealed::new(socket, session)),
        None => Box::new(socket),
    };
    let received = std::mem::take(&mut connection.input.bytes);
    let session = connection.session;
    let peer = Peer { address: session.peer, local: session.local, is_tls, needs_no_login };
    Ok(Incoming { stream, received, peer, seat: Box::new(seat) })
}
