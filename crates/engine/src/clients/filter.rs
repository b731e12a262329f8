//! The filters of CLIENT LIST and CLIENT KILL.

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
}

/// Properties to select clients by; `None`: any.
#[derive(Clone, Debug, Default)]
pub struct ClientTraits {
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

/// All conditions must hold; an empty filter accepts every client.
#[derive(Clone, Debug, Default)]
pub struct ClientFilter {
    /// Properties that a client must have.
    pub wanted: ClientTraits,
    /// Properties that a client must not have (the `NOT-` words), each on its own.
    pub unwanted: ClientTraits,
    /// Only clients at least this old, in seconds.
    pub min_age_s: Option<u64>,
    /// Only clients idle at least this long, in seconds.
    pub min_idle_s: Option<u64>,
    /// The id of the client that asks.
    pub asker: u64,
    /// Leaves the asking client out.
    pub skip_asker: bool,
}
