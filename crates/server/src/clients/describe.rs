//! A connection as a line of CLIENT LIST.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use pantala_commands::{Command, Protocol, Session, Tracking};
use pantala_protocol::Version;

use crate::commands::client::redirect;
use crate::worker::connection::{Connection, Waiting};

/// Valkey keeps so much output of a client in a buffer of its own (`obl`) and more than that in a
/// list of such buffers (`oll`, `omem`). Here all of it lies together, and is told as if it did so.
const OWN_BUFFER_BYTES: usize = 16 << 10;

/// The line, without its end.
pub fn describe(connection: &Connection, rows: &[&'static Command], now_us: u64) -> String {
    let session = &connection.session;
    let seconds_since = |then: u64| now_us.saturating_sub(then) / 1_000_000;
    let row = connection.counts.last_command.and_then(|number| rows.get(usize::from(number)));
    let command = row.map_or_else(|| "NULL".into(), |row| row.full_name());
    let output = connection.unsent_bytes();
    let small = output.min(OWN_BUFFER_BYTES);
    let listed = output - small;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut line = String::with_capacity(400);
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} capa={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} \
         obl={} oll={} omem={} tot-mem={} events={} cmd={} user={} redir={} resp={} \
         lib-name={} lib-ver={} tot-net-in={} tot-net-out={} tot-cmds={}",
        session.id,
        session.peer,
        session.local,
        connection.token.index,
        text(&session.name),
        seconds_since(session.since_us),
        seconds_since(connection.counts.active_us),
        flags(connection),
        capabilities(session),
        session.db.0,
        session.subscriptions.channels,
        session.subscriptions.patterns,
        session.subscriptions.slot_channels,
        session.multi.as_ref().map_or(-1, |queue| queue.commands.len() as i64),
        session.watching.as_ref().map_or(0, |watching| watching.keys().len()),
        connection.input.bytes.len() - connection.input.done,
        connection.input.bytes.capacity() - connection.input.bytes.len(),
        connection.queue_bytes(),
        connection.output.bytes.capacity(),
        connection.output.bytes.len(),
        small,
        listed.div_ceil(OWN_BUFFER_BYTES),
        listed,
        connection.memory_bytes(),
        if output > 0 { "rw" } else { "r" },
        command,
        text(session.user_name()),
        redirect(session.tracking.as_deref()),
        resp_version(session),
        text(&session.lib_name),
        text(&session.lib_version),
        connection.counts.received_bytes,
        connection.counts.sent_bytes,
        connection.counts.commands + session.inner_commands,
    );
    line
}

/// The version of RESP that it speaks; 0 for Memcached's protocols.
fn resp_version(session: &Session) -> u8 {
    match (session.protocol, session.version) {
        (Protocol::MemcachedText | Protocol::MemcachedBinary, _) => 0,
        (_, Version::Resp3) => 3,
        _ => 2,
    }
}

/// What the client said it is able to do, one letter each.
pub fn capabilities(session: &Session) -> &'static str {
    if session.can_redirect { "r" } else { "" }
}

/// The state of a connection, one letter each.
pub fn flags(connection: &Connection) -> String {
    let session = &connection.session;
    let is_tracking = |how: fn(&Tracking) -> bool| session.tracking.as_deref().is_some_and(how);
    let waiting = connection.waits.parked.map(|parked| parked.waiting);
    let shown = [
        (session.monitor, 'O'),
        (session.is_subscribed(), 'P'),
        (matches!(waiting, Some(Waiting::Pause | Waiting::Keys)), 'b'),
        (session.multi.is_some(), 'x'),
        (session.tracking.is_some(), 't'),
        (is_tracking(|tracking| tracking.is_broken.load(Ordering::Relaxed)), 'R'),
        (is_tracking(|tracking| tracking.is_broadcast), 'B'),
        (session.closing, 'c'),
        (session.no_evict, 'e'),
        (session.no_touch, 'T'),
        (session.is_import_source, 'I'),
        (session.peer.starts_with('/'), 'U'),
    ];
    let flags: String = shown.iter().filter(|(is_set, _)| *is_set).map(|(_, f)| *f).collect();
    if flags.is_empty() { "N".into() } else { flags }
}
