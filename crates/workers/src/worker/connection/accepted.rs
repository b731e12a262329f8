//! Which connections the filters of CLIENT LIST and CLIENT KILL select.

use pantala_commands::client_line::{capabilities, flags};
use pantala_engine::clients::filter::{ClientFilter, ClientKind, ClientTraits};

use crate::worker::connection::describe::waits;
use crate::worker::connection::{Connection, Life};

fn kind_of(connection: &Connection) -> ClientKind {
    match &connection.session {
        session if session.is_replica() => ClientKind::Replica,
        session if session.is_subscribed() => ClientKind::PubSub,
        _ => ClientKind::Normal,
    }
}

/// For each property whether the client has it; `None` if it is not asked for.
fn look(traits: &ClientTraits, connection: &Connection) -> [Option<bool>; 12] {
    let session = &connection.session;
    let ip = session.peer.rsplit_once(':').map_or("", |(ip, _)| ip).trim_matches(['[', ']']);
    let is = |wanted: &Option<Vec<u8>>, found: &[u8]| wanted.as_ref().map(|wanted| wanted == found);
    let has = |wanted: &Option<Vec<u8>>, found: &str| {
        let all = |wanted: &Vec<u8>| wanted.iter().all(|flag| found.as_bytes().contains(flag));
        wanted.as_ref().map(all)
    };
    [
        traits.ids.as_ref().map(|ids| ids.contains(&session.id)),
        traits.kind.map(|kind| kind == kind_of(connection)),
        is(&traits.user, session.user_name()),
        is(&traits.address, session.peer.as_bytes()),
        is(&traits.local_address, session.local.as_bytes()),
        is(&traits.name, &session.name),
        traits.flags.as_ref().and_then(|_| has(&traits.flags, &flags(session, waits(connection)))),
        is(&traits.lib_name, &session.lib_name),
        is(&traits.lib_version, &session.lib_version),
        traits.db.map(|db| db == session.db.0),
        has(&traits.capabilities, capabilities(session)),
        is(&traits.ip, ip.as_bytes()),
    ]
}

/// Whether the filter selects the connection.
pub fn accepts(filter: &ClientFilter, connection: &Connection, now_us: u64) -> bool {
    let session = &connection.session;
    let age_s = now_us.saturating_sub(session.since_us) / 1_000_000;
    let idle_s = now_us.saturating_sub(connection.counts.active_us) / 1_000_000;
    connection.life != Life::Closing
        && filter.min_age_s.is_none_or(|wanted| age_s >= wanted)
        && filter.min_idle_s.is_none_or(|wanted| idle_s >= wanted)
        && !(filter.skip_asker && filter.asker == session.id)
        && look(&filter.wanted, connection).iter().all(|found| *found != Some(false))
        && look(&filter.unwanted, connection).iter().all(|found| *found != Some(true))
}
