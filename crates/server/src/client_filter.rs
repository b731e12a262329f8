//! Which clients CLIENT LIST and CLIENT KILL mean.

use crate::connection::{Connection, Life};

/// All conditions must hold; an empty filter accepts every client.
#[derive(Clone, Debug, Default)]
pub struct ClientFilter {
    /// Only these numbers.
    pub ids: Option<Vec<u64>>,
    /// Not these numbers.
    pub not_ids: Vec<u64>,
    /// Only clients of one of these kinds exist so far: `normal`. False: some other kind.
    pub normal: Option<bool>,
    /// Only this peer address.
    pub address: Option<String>,
    /// Only clients connected to this address of ours.
    pub local_address: Option<String>,
    /// Only this user.
    pub user: Option<Vec<u8>>,
    /// Only clients at least this old, in seconds.
    pub max_age_s: Option<u64>,
    /// Only this name.
    pub name: Option<Vec<u8>>,
    /// Only this database.
    pub db: Option<u32>,
    /// Only this library.
    pub lib_name: Option<Vec<u8>>,
    /// Only this version of the library.
    pub lib_version: Option<Vec<u8>>,
    /// Only clients idle at least this long, in seconds.
    pub idle_s: Option<u64>,
    /// Only this peer IP.
    pub ip: Option<String>,
    /// The client that asks.
    pub asker: u64,
    /// Leave the asker out.
    pub skip_asker: bool,
}

impl ClientFilter {
    /// Whether the connection is meant.
    pub fn accepts(&self, connection: &Connection, now_us: u64) -> bool {
        let session = &connection.session;
        let age_s = now_us.saturating_sub(session.since_us) / 1_000_000;
        let idle_s = now_us.saturating_sub(connection.active_us) / 1_000_000;
        let ip = session.peer.rsplit_once(':').map_or("", |(ip, _)| ip);
        connection.life != Life::Closing
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&session.id))
            && !self.not_ids.contains(&session.id)
            && self.normal != Some(false)
            && self.address.as_ref().is_none_or(|address| *address == session.peer)
            && self.local_address.as_ref().is_none_or(|address| *address == session.local)
            && self.user.as_ref().is_none_or(|user| user == b"default")
            && self.max_age_s.is_none_or(|wanted| age_s >= wanted)
            && self.name.as_ref().is_none_or(|name| *name == session.name)
            && self.db.is_none_or(|db| db == session.db.0)
            && self.lib_name.as_ref().is_none_or(|name| *name == session.lib_name)
            && self.lib_version.as_ref().is_none_or(|version| *version == session.lib_version)
            && self.idle_s.is_none_or(|wanted| idle_s >= wanted)
            && self.ip.as_ref().is_none_or(|wanted| wanted == ip.trim_matches(['[', ']']))
            && !(self.skip_asker && self.asker == session.id)
    }
}
