//! REPLCONF: what a replica announces of itself before it asks for data.
//!
//! Once it follows, its worker reads its acknowledgements (`worker/output/replicas.rs`). The error
//! texts are word for word the reference's.

use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_base::number::parse_i64;
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, Lane, ReplyMode, Session, error,
    options::is_word,
};
use pantala_psync::link::MOST_CONNECTIONS;
use pantala_psync::{Filter, Replica};

use crate::Replication;
use crate::primary;

/// Host names are shorter.
const HOST_BYTES: usize = 256;
const NOT_PORT: ClientError = error::NOT_INTEGER;
/// The error reveals nothing about copies that exist.
const NO_COPY: ClientError = ClientError::text("ERR there is no full copy for this connection");
const NO_FILTER: ClientError = ClientError::text("ERR Missing rdb-filter-only values");

pub(super) const REPLCONF: Command = Command::new("REPLCONF", replconf, Group::Server)
    .arity(-1)
    .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE))
    .flags(Flags::ALLOW_BUSY)
    .since("3.0.0")
    .complexity("O(1)")
    .summary("A replica says of itself what its primary has to know.");

fn replconf(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args.len().is_multiple_of(2) {
        return Err(error::SYNTAX.into());
    }
    for pair in call.args[1..].chunks_exact(2) {
        let (option, value) = (pair[0], pair[1]);
        if is_word(option, "ACK") || is_word(option, "GETACK") {
            // Neither is ever answered: the worker reads a replica's, and a primary's comes with
            // its stream.
            return Ok(());
        }
        if is_word(option, "COPY-PART") {
            return join_copy(call, value);
        }
        say(call.session, option, value)?;
    }
    call.reply.ok();
    Ok(())
}

/// Adds a connection to those over which a replica gets a full copy in parts.
fn join_copy(call: &mut Call<'_, '_>, token: &[u8]) -> CommandResult {
    let session = &mut *call.session;
    let is_plain = !session.is_subscribed() && session.tracking.is_none();
    if call.lane != Lane::Worker || !is_plain || session.is_replica() || session.monitor {
        return Err(NO_COPY.into());
    }
    let replica = Arc::clone(replica_of(session));
    replica.set_worker(usize::from(session.place.worker));
    if !primary::join(&Replication::of(call).primary, token, &replica) {
        return Err(NO_COPY.into());
    }
    call.session.reply_mode = ReplyMode::On;
    call.reply.ok();
    Ok(())
}

/// The replica of a session, created if there is none.
pub(super) fn replica_of(session: &mut Session) -> &Arc<Replica> {
    let Session { id, peer, replica, .. } = session;
    replica.get_or_insert_with(|| {
        let ip = peer.rsplit_once(':').map_or("", |(ip, _)| ip).trim_matches(['[', ']']);
        Arc::new(Replica::new(*id, ip.parse().ok(), monotonic_us()))
    })
}

fn say(session: &mut Session, option: &[u8], value: &[u8]) -> Result<(), ClientError> {
    let mut announced = replica_of(session).announced();
    match option {
        option if is_word(option, "LISTENING-PORT") => {
            let port = parse_i64(value).and_then(|port| u16::try_from(port).ok());
            announced.port = port.ok_or(NOT_PORT)?;
        }
        option if is_word(option, "IP-ADDRESS") => {
            if value.len() >= HOST_BYTES {
                return Err(ClientError::new(format!(
                    "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                    value.len()
                )));
            }
            announced.address = Some(printable(value)).filter(|address| !address.is_empty());
        }
        option if is_word(option, "CAPA") => {
            announced.takes_eof |= is_word(value, "EOF");
            announced.takes_new_id |= is_word(value, "PSYNC2");
            announced.takes_own |= is_word(value, "PANTALA");
            if let Some(id) = value.strip_prefix(b"node-") {
                announced.node = Some(printable(id));
            }
            if let Some(count) = value.strip_prefix(b"parts-").and_then(parse_i64) {
                announced.connections = usize::try_from(count).unwrap_or(0).min(MOST_CONNECTIONS);
            }
        }
        option if is_word(option, "VERSION") => {
            let text = printable(value);
            if !is_version(&text) {
                let text = format!("ERR Unrecognized version format: {text}");
                return Err(ClientError::new(text));
            }
            announced.version = Some(text);
        }
        option if is_word(option, "RDB-ONLY") => {
            let wanted = parse_i64(value).ok_or(error::NOT_INTEGER)?;
            if !(0..=1).contains(&wanted) {
                return Err(error::NOT_ZERO_OR_ONE);
            }
            announced.only_copy = wanted == 1;
        }
        option if is_word(option, "RDB-FILTER-ONLY") => announced.filter = Some(filter(value)?),
        // Slot migration and a second channel do not exist here; a replica that asks for them goes
        // on without.
        option if is_word(option, "SET-CLUSTER-NODE-ID") => {}
        unknown => {
            let mut text = b"ERR Unrecognized REPLCONF option: ".to_vec();
            text.extend_from_slice(unknown);
            return Err(ClientError::bytes(text));
        }
    }
    Ok(())
}

/// A replica's name goes into lines of text, so only printable characters are kept.
fn printable(text: &[u8]) -> String {
    let text = &text[..text.len().min(HOST_BYTES)];
    text.iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect()
}

/// Whether it consists of three numbers.
fn is_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').count() == 3 && text.split('.').all(is_number)
}

/// Parses the wanted parts of a snapshot. As in Redis, words before an unknown one count.
fn filter(value: &[u8]) -> Result<Filter, ClientError> {
    let words = std::str::from_utf8(value).map_err(|_| NO_FILTER)?;
    let mut filter = Filter::default();
    for word in words.split_ascii_whitespace() {
        if !is_word(word.as_bytes(), "FUNCTIONS") {
            let text = format!("ERR Unsupported rdb-filter-only option: {word}");
            return Err(ClientError::new(text));
        }
        filter.functions = true;
    }
    Ok(filter)
}
