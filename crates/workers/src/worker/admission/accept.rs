//! Connections that come and go: accepting, spreading over workers, moving.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_commands::{Login, Protocol, Session};
use pantala_engine::clients::directory::Transit;
use pantala_reactor::{ListenerId, Ops, Token, net};
use pantala_settings::field::PortSharing;

use crate::listener_kind::ListenerKind;
use crate::worker::Worker;
use crate::worker::connection::{Connection, Life, NextServer};
use crate::workers::inbox::Message;
use pantala_replication::primary;

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
/// The refusal beyond `maxclients` for a client of Memcached's protocols, in memcached's own words.
const TOO_MANY_OPEN: &[u8] = b"ERROR Too many open connections\r\n";
/// Word for word Valkey's text: clients recognise it.
const PROTECTED: &[u8] = b"\
    -DENIED Running in protected mode because protected mode is enabled and no password is set \
    for the default user. In this mode connections are only accepted from the loopback \
    interface. If you want to connect from external computers, you may adopt one of the \
    following solutions: 1) Just disable protected mode sending the command 'CONFIG SET \
    protected-mode no' from the loopback interface by connecting from the same host the server \
    is running, however MAKE SURE it's not publicly accessible from internet if you do so. Use \
    CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the \
    protected mode by editing the configuration file, and setting the protected mode option to \
    'no', and then restarting the server. 3) If you started the server manually just for \
    testing, restart it with the '--protected-mode no' option. 4) Set up an authentication \
    password for the default user. NOTE: You only need to do one of the above things in order \
    for the server to start accepting connections from the outside.\r\n";
const PROTECTED_ITEMS: &[u8] = b"SERVER_ERROR Pantala runs in protected mode: no password is set, \
    so only clients of this machine are served\r\n";

impl Worker {
    /// Assigns the socket of a new peer to the least loaded worker.
    pub fn accept(&mut self, socket: OwnedFd, listener: ListenerId, ops: &mut Ops<'_>) {
        let context = Arc::clone(&self.context);
        let kind = ListenerKind::of(listener);
        if !context.workers.room.has_place(self.settings.maxclients) {
            return self.turn_away(socket, kind, (TOO_MANY, TOO_MANY_OPEN));
        }
        // A password that was set before the client connected holds for it, even in the same turn.
        self.look_at_users();
        let id = context.engine.notices.directory.next_id();
        let mut session = Session::of_client(id, &self.users);
        session.since_us = monotonic_us();
        session.protocol = match self.has_choice(kind) {
            true => Protocol::Undecided,
            false => kind.protocol(),
        };
        if kind.is_admin() && self.settings.admin_nopass {
            let default = Arc::clone(self.users.users.default_user());
            session.log_in(Login::of_user(default, self.users.version), &self.users);
        }
        if kind == ListenerKind::RespUnix {
            session.peer = format!("{}:0", self.settings.unixsocket);
            session.local = session.peer.clone();
        } else {
            session.peer = net::peer_name(&socket);
            session.local = net::local_name(&socket);
            if self.is_protected() && !is_loopback(&session.peer) {
                return self.turn_away(socket, kind, (PROTECTED, PROTECTED_ITEMS));
            }
            net::set_nodelay(&socket);
            net::set_keepalive(&socket, self.settings.tcp_keepalive_s);
        }
        self.tally.accepted.add(1);
        context.workers.room.came();
        if context.workers.least_loaded() == self.index {
            context.workers.joined(self.index);
            self.adopt(socket, session, kind, ops);
        } else {
            let session = Box::new(session);
            context.workers.seat(Message::Accepted { socket, session, kind });
        }
    }

    /// Whether the listener serves more than one protocol.
    fn has_choice(&self, kind: ListenerKind) -> bool {
        let has_memcached = self.settings.primary_port_memcached != PortSharing::No;
        kind.has_http(&self.settings) || kind.is_main() && has_memcached
    }

    fn is_protected(&self) -> bool {
        self.settings.protected_mode && self.users.users.default_user().has_no_password()
    }

    /// Sends the reason, as far as the socket's buffer takes it at once, and closes. Over TLS
    /// nothing is sent: the handshake has not begun.
    fn turn_away(&self, socket: OwnedFd, kind: ListenerKind, (why, items): (&[u8], &[u8])) {
        self.tally.refused.add(1);
        if kind.is_tls() {
            return;
        }
        let why = if kind.protocol() == Protocol::Resp { why } else { items };
        let mut stream = TcpStream::from(socket);
        let _best_effort = stream.set_nonblocking(true).and_then(|()| stream.write(why));
    }

    /// Serves a new socket. It is already in the workers' count of connections.
    pub fn adopt(
        &mut self,
        socket: OwnedFd,
        session: Session,
        kind: ListenerKind,
        ops: &mut Ops<'_>,
    ) {
        let now_us = self.now_us;
        self.seat(socket, ops, |token| Box::new(Connection::new(token, session, kind, now_us)));
    }

    /// Serves a socket that another worker has handed over.
    pub fn take_over(
        &mut self,
        socket: OwnedFd,
        mut connection: Box<Connection>,
        ops: &mut Ops<'_>,
    ) {
        let session = connection.session.clone();
        self.context.workers.arrived();
        let seated = self.seat(socket, ops, |token| {
            connection.become_open(token);
            connection
        });
        match seated {
            Some((token, transit)) => {
                self.told_in_transit(token.index, &transit);
                if session.is_replica() {
                    self.arrive_as_replica(token.index);
                }
                self.resume(token.index);
            }
            None => self.end_session(&session),
        }
    }

    fn seat(
        &mut self,
        socket: OwnedFd,
        ops: &mut Ops<'_>,
        make: impl FnOnce(Token) -> Box<Connection>,
    ) -> Option<(Token, Transit)> {
        let token = match ops.adopt(socket) {
            Ok(token) => token,
            Err(error) => {
                tracing::warn!(%error, "cannot serve a connection");
                self.context.workers.left(self.index);
                self.context.workers.room.went();
                return None;
            }
        };
        let index = token.index as usize;
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
        }
        let mut connection = make(token);
        self.land(&mut connection);
        self.expect_login(&connection.session);
        let session = &connection.session;
        let transit = self.context.engine.notices.directory.enter(session.id, session.place);
        connection.counts.counted_bytes = connection.memory_bytes() as u64;
        self.count_bytes(0, connection.counts.counted_bytes);
        let is_monitor = connection.session.monitor;
        self.handshakes.joined(&connection);
        self.connections[index] = Some(connection);
        self.open_count += 1;
        if is_monitor {
            self.arrive_as_monitor(token.index);
        }
        self.renew_login(token.index);
        Some((token, transit))
    }

    /// Gives up a connection of a retiring worker, unless something of it is under way.
    pub fn give_away(&mut self, index: u32, ops: &mut Ops<'_>) {
        self.take_back(index);
        self.let_go(index, ops);
    }

    /// Gives up a connection that waits for no key, unless something of it is under way.
    pub fn let_go(&mut self, index: u32, ops: &mut Ops<'_>) {
        let Some(connection) = self.at(index).filter(|connection| connection.can_leave()) else {
            return;
        };
        (connection.waits.parked, connection.waits.paused) = (None, None);
        connection.life = Life::Leaving;
        ops.detach(connection.token);
    }

    /// Ends what a client that has gone for good is registered for: subscriptions, tracking,
    /// monitoring.
    pub fn end_session(&mut self, session: &Session) {
        self.end_subscriptions(session.is_subscribed(), session.place);
        if session.monitor {
            self.context.engine.notices.monitors.forget(session.id);
        }
        if let Some(replica) = session.replica.as_ref().filter(|_| session.is_replica()) {
            primary::leave(&self.context.replication, replica);
        }
        self.context.engine.notices.directory.leave(session.id);
        self.context.engine.end_tracking(session.id);
    }

    /// Hands a socket that the reactor has released over to another worker.
    pub fn hand_over(&mut self, conn: Token, socket: OwnedFd) {
        if self.find(conn).is_none() {
            return;
        }
        self.take_off(conn.index);
        self.depart_as_monitor(conn.index);
        self.depart_as_replica(conn.index);
        let Some(mut connection) = self.connections[conn.index as usize].take() else { return };
        self.open_count -= 1;
        let counted = std::mem::take(&mut connection.counts.counted_bytes);
        self.count_bytes(counted, 0);
        let context = Arc::clone(&self.context);
        context.workers.left(self.index);
        let next = std::mem::take(&mut connection.next);
        if next == NextServer::Http {
            self.end_session(&connection.session);
            return context.http.take(socket, *connection);
        }
        context.workers.departs();
        context.engine.notices.directory.depart(connection.session.id);
        match next {
            NextServer::Worker(next) => {
                self.tally.moved.add(1);
                context.workers.seat_at(usize::from(next), Message::Moved { socket, connection });
            }
            _ => context.workers.seat(Message::Moved { socket, connection }),
        }
    }

    /// Gives up the connections that turned out to speak HTTP.
    pub fn give_to_http(&mut self, ops: &mut Ops<'_>) {
        for index in std::mem::take(&mut self.lists.to_http) {
            let Some(connection) = self.at(index).filter(|one| one.life == Life::Open) else {
                continue;
            };
            (connection.life, connection.next) = (Life::Leaving, NextServer::Http);
            ops.detach(connection.token);
        }
    }
}

/// Whether the address is one of this machine.
pub fn is_loopback(peer: &str) -> bool {
    peer.starts_with("127.") || peer.starts_with("[::1]") || peer.starts_with("[::ffff:127.")
}
