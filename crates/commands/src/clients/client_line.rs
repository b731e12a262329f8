//! A client as a line of CLIENT LIST, also used by ACL LOG.
//!
//! What only its worker knows are [`Meters`]. The worker stores them in the session of a client
//! that may be refused something, before its command runs: so they are at hand where the refusal
//! happens.
//!
//! Tests: compat/transcripts/connection, compat/transcripts/acl/log.txt.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use pantala_protocol::Version;

pub use crate::clients::meters::Meters;
use crate::clients::session::{Protocol, Session, Tracking};

/// Valkey keeps so much output of a client in a buffer of its own (`obl`) and the rest in a list of
/// such buffers (`oll`, `omem`). Here all of it is in one buffer, and is reported as if it were
/// split so.
const OWN_BUFFER_BYTES: usize = 16 << 10;

/// The line, without its end, of a client whose last command is called `command`. Texts given by
/// the client are cut to `most_text_bytes`.
pub fn line(
    session: &Session,
    meters: &Meters,
    command: &str,
    now_us: u64,
    most_text_bytes: usize,
) -> String {
    let seconds_since = |then: u64| now_us.saturating_sub(then) / 1_000_000;
    let small = meters.unsent_bytes.min(OWN_BUFFER_BYTES);
    let listed = meters.unsent_bytes - small;
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(most_text_bytes)]).into_owned()
    };
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
        meters.descriptor,
        text(&session.name),
        seconds_since(session.since_us),
        seconds_since(meters.active_us),
        flags(session, meters.waits),
        capabilities(session),
        session.db.0,
        session.subscriptions.channels,
        session.subscriptions.patterns,
        session.subscriptions.slot_channels,
        session.multi.as_ref().map_or(-1, |queue| queue.commands.len() as i64),
        session.watching.as_ref().map_or(0, |watching| watching.keys().len()),
        meters.input_bytes,
        meters.input_room,
        meters.queue_bytes,
        meters.output_capacity,
        meters.output_bytes,
        small,
        listed.div_ceil(OWN_BUFFER_BYTES),
        listed,
        meters.memory_bytes,
        if meters.unsent_bytes > 0 { "rw" } else { "r" },
        command,
        text(session.user_name()),
        redirect(session.tracking.as_deref()),
        resp_version(session),
        text(&session.lib_name),
        text(&session.lib_version),
        meters.received_bytes,
        meters.sent_bytes,
        meters.commands + session.inner_commands,
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

/// The client that gets the invalidations instead of this one: 0 for none, -1 without tracking.
pub fn redirect(tracking: Option<&Tracking>) -> i64 {
    tracking.map_or(-1, |tracking| tracking.redirect.cast_signed())
}

/// The capabilities that the client has announced, one letter each.
pub fn capabilities(session: &Session) -> &'static str {
    if session.can_redirect() { "r" } else { "" }
}

/// The flags of a client, one letter each; `waits`: its worker counts it as blocked.
pub fn flags(session: &Session, waits: bool) -> String {
    let is_tracking = |how: fn(&Tracking) -> bool| session.tracking.as_deref().is_some_and(how);
    let shown = [
        (session.monitor, 'O'),
        (session.is_replica(), 'S'),
        (session.is_subscribed(), 'P'),
        (waits, 'b'),
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
