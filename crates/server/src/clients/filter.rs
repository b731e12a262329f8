//! The filters of CLIENT LIST and CLIENT KILL.

use pantala_commands::client_line::{capabilities, flags};

use crate::clients::describe::waits;
use crate::worker::connection::{Connection, Life};

/// The kinds of clients in CLIENT LIST TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A client that sends commands.
    Normal,
    /// A client with subscriptions.
    PubSub,
    /// A replica of this server.
    Replica,
    /// The primary of this server.
    Primary,
}

impl ClientKind {
    /// The kind with this name, in any case.
    pub fn from_name(name: &[u8]) -> Option<ClientKind> {
        let names = [
            ("normal", ClientKind::Normal),
            ("pubsub", ClientKind::PubSub),
            ("replica", ClientKind::Replica),
            ("slave", ClientKind::Replica),
            ("primary", ClientKind::Primary),
            ("master", ClientKind::Primary),
        ];
        let found = names.iter().find(|(text, _)| name.eq_ignore_ascii_case(text.as_bytes()));
        found.map(|(_, kind)| *kind)
    }

    fn of(connection: &Connection) -> ClientKind {
        match &connection.session {
            session if session.is_replica() => ClientKind::Replica,
            session if session.is_subscribed() => ClientKind::PubSub,
            _ => ClientKind::Normal,
        }
    }
}

/// Properties to select clients by; `None`: any.
#[derive(Clone, Debug, Default)]
pub struct Traits {
    /// One of these ids.
    pub ids: Option<Vec<u64>>,
    /// This kind.
    pub kind: Option<ClientKind>,
    /// This user.
    pub user: Option<Vec<u8>>,
    /// This peer address.
    pub address: Option<Vec<u8>>,
    /// This address of ours.
    pub local_address: Option<Vec<u8>>,
    /// This name.
    pub name: Option<Vec<u8>>,
    /// All of these flags, as CLIENT LIST writes them.
    pub flags: Option<Vec<u8>>,
    /// This library.
    pub lib_name: Option<Vec<u8>>,
    /// This version of the library.
    pub lib_version: Option<Vec<u8>>,
    /// This database.
    pub db: Option<u32>,
    /// All of these capabilities, as CLIENT LIST writes them.
    pub capabilities: Option<Vec<u8>>,
    /// This peer IP.
    pub ip: Option<Vec<u8>>,
}

impl Traits {
    /// For each property whether the client has it; `None` if it is not asked for.
    fn look(&self, connection: &Connection) -> [Option<bool>; 12] {
        let session = &connection.session;
        let ip = session.peer.rsplit_once(':').map_or("", |(ip, _)| ip).trim_matches(['[', ']']);
        let is =
            |wanted: &Option<Vec<u8>>, found: &[u8]| wanted.as_ref().map(|wanted| wanted == found);
        let has = |wanted: &Option<Vec<u8>>, found: &str| {
            let all = |wanted: &Vec<u8>| wanted.iter().all(|flag| found.as_bytes().contains(flag));
            wanted.as_ref().map(all)
        };
        [
            self.ids.as_ref().map(|ids| ids.contains(&session.id)),
            self.kind.map(|kind| kind == ClientKind::of(connection)),
            is(&self.user, session.user_name()),
            is(&self.address, session.peer.as_bytes()),
            is(&self.local_address, session.local.as_bytes()),
            is(&self.name, &session.name),
            self.flags.as_ref().and_then(|_| has(&self.flags, &flags(session, waits(connection)))),
            is(&self.lib_name, &session.lib_name),
            is(&self.lib_version, &session.lib_version),
            self.db.map(|db| db == session.db.0),
            has(&self.capabilities, capabilities(session)),
            is(&self.ip, ip.as_bytes()),
        ]
    }
}

/// All conditions must hold; an empty filter accepts every client.
#[derive(Clone, Debug, Default)]
pub struct ClientFilter {
    /// Properties that a client must have.
    pub wanted: Traits,
    /// Properties that a client must not have (the `NOT-` words), each on its own.
    pub unwanted: Traits,
    /// Only clients at least this old, in seconds.
    pub min_age_s: Option<u64>,
    /// Only clients idle at least this long, in seconds.
    pub min_idle_s: Option<u64>,
    /// The id of the client that asks.
    pub asker: u64,
    /// Leaves the asking client out.
    pub skip_asker: bool,
}

impl ClientFilter {
    /// Whether the filter selects the connection.
    pub fn accepts(&self, connection: &Connection, now_us: u64) -> bool {
        let session = &connection.session;
        let age_s = now_us.saturating_sub(session.since_us) / 1_000_000;
        let idle_s = now_us.saturating_sub(connection.counts.active_us) / 1_000_000;
        connection.life != Life::Closing
            && self.min_age_s.is_none_or(|wanted| age_s >= wanted)
            && self.min_idle_s.is_none_or(|wanted| idle_s >= wanted)
            && !(self.skip_asker && self.asker == session.id)
            && self.wanted.look(connection).iter().all(|found| *found != Some(false))
            && self.unwanted.look(connection).iter().all(|found| *found != Some(true))
    }
}
