//! The link as a client: what CLIENT LIST shows of it, and CLIENT KILL ends.

use std::sync::atomic::Ordering;

use pantala_base::clock::monotonic_us;
use pantala_commands::Session;
use pantala_commands::client_line::{self, Meters};
use pantala_keyspace::DbIndex;

use super::socket::End;
use crate::Replication;
use pantala_engine::clients::filter::{ClientFilter, ClientKind, ClientTraits};

/// What is known of the link's connection.
pub(super) struct LinkClient {
    id: u64,
    peer: String,
    local: String,
    since_us: u64,
}

impl LinkClient {
    /// A connection that has just been established.
    pub(super) fn new(replication: &Replication, end: &dyn End) -> LinkClient {
        let (peer, local) = end.addresses();
        LinkClient {
            id: replication.engine.notices.directory.next_id(),
            peer,
            local,
            since_us: monotonic_us(),
        }
    }

    fn is_meant(&self, wanted: &ClientTraits) -> bool {
        let ClientTraits { ids, kind, address, local_address, .. } = wanted;
        // It has none of the other properties that may be asked for.
        let ClientTraits { user, name, flags, lib_name, lib_version, db, capabilities, ip, .. } =
            wanted;
        let others = [user, name, flags, lib_name, lib_version, capabilities, ip];
        let is = |wanted: &Option<Vec<u8>>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found.as_bytes())
        };
        ids.as_ref().is_none_or(|ids| ids.contains(&self.id))
            && kind.is_none_or(|kind| kind == ClientKind::Primary)
            && is(address, &self.peer)
            && is(local_address, &self.local)
            && db.is_none()
            && others.iter().all(|trait_| trait_.is_none())
    }
}

/// Its number and its line, if the filter selects it.
pub fn line(replication: &Replication, filter: &ClientFilter) -> Option<(u64, String)> {
    let following = &replication.following;
    let state = following.state();
    let client = state.client.as_ref().filter(|client| {
        let is_unwanted = filter.unwanted.kind == Some(ClientKind::Primary);
        !is_unwanted && client.is_meant(&filter.wanted)
    })?;
    let mut session = Session::new(client.id);
    session.peer.clone_from(&client.peer);
    session.local.clone_from(&client.local);
    (session.since_us, session.db) = (client.since_us, DbIndex(following.stream_db()));
    drop(state);
    let active_us = following.heard_us.load(Ordering::Relaxed);
    let meters = Meters { active_us, ..Meters::default() };
    let line = client_line::line(&session, &meters, "NULL", monotonic_us(), usize::MAX);
    Some((session.id, line.replacen(" flags=N ", " flags=M ", 1)))
}

/// Ends it, if the filter selects it; it will connect again. Returns its number.
pub fn kill(replication: &Replication, filter: &ClientFilter) -> Option<u64> {
    let (id, _) = line(replication, filter)?;
    if let Some(end) = &replication.following.state().end {
        end.shut();
    }
    Some(id)
}
