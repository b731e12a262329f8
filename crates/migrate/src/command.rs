//! MIGRATE: its arguments, its runs and its replies; what happens in between is in
//! `errand`.
//!
//! Tests: the server's `tests/migrate.rs`; compat/transcripts/generic/migrate.txt;
//! compat/clients/migrate.py.

use std::sync::Arc;
use std::time::Duration;

use pantala_base::number::parse_i64;
use pantala_commands::families::generic::transfer::{self, KeyTransfer};
use pantala_commands::options::is_word;
use pantala_commands::{
    AsyncRequest, Call, Category, ClientError, Command, CommandResult, Find, Flags, Group,
    KeyFlags, KeySpec, KeySpecStart, Lane, Park, Stop, error,
};
use pantala_keyspace::Key;
use smallvec::SmallVec;

use crate::Migrations;
use crate::errand::{Answers, Failure, Migration, Order, Stage, ToPin, request};
use crate::link::LinkFault;

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::write("MIGRATE", migrate, Group::Generic)
    .arity(-6)
    .replaces()
    // In scripts its effect is final: what was sent cannot be taken back.
    .flags(Flags::MOVABLEKEYS.union(Flags::LANE).union(Flags::OTHER_DB))
    .keys(&[
        KeySpec::one(3, KeyFlags::TAKE),
        KeySpec {
            begin: KeySpecStart::Keyword("KEYS", -2),
            find: Find::Listed,
            flags: KeyFlags::TAKE.incomplete(),
        },
    ])
    .categories(&[Category::Keyspace, Category::Dangerous])
    .tips(&["nondeterministic_output"])
    .secrets(is_secret)
    .since("2.6.0")
    .complexity("O(N) for N bytes of the values, and their way to the other server")
    .syntax(
        "host port:int (key-selector: key | empty-string) destination-db:int timeout:int \
         [COPY] [REPLACE] [authentication: AUTH auth | AUTH2 (auth2: username password)] \
         [KEYS keys:key#1 [keys:key#1 ...]]",
    )
    .summary("Sends keys to another server and removes them here.")];

const NOT_EMPTY: ClientError = ClientError::text(
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
);
const HAS_CHANGED: ClientError = ClientError::text(
    "ERR A key was changed while it was sent: it is still here, and the target instance has it as \
     it was before",
);
/// The timeout if none is given.
const DEFAULT_LIMIT: Duration = Duration::from_secs(1);
/// The longest timeout.
const LONGEST_LIMIT_MS: u64 = 365 * 24 * 3600 * 1000;

/// What a client wants.
#[derive(Debug)]
struct Request {
    order: Order,
    copies: bool,
    replaces: bool,
    /// The target is a node of a cluster, which does not own the slot yet.
    asks: bool,
    /// No key follows KEYS.
    is_empty: bool,
}

impl Request {
    fn parse(args: &[&[u8]], asks: bool) -> Result<Request, ClientError> {
        let (mut copies, mut replaces, mut is_empty, mut auth) = (false, false, false, None);
        let mut rest = &args[6..];
        while let [word, behind @ ..] = rest {
            rest = behind;
            match (word, behind) {
                (word, _) if is_word(word, "COPY") => copies = true,
                (word, _) if is_word(word, "REPLACE") => replaces = true,
                (word, [password, behind @ ..]) if is_word(word, "AUTH") => {
                    auth = Some(vec![b"AUTH".to_vec(), password.to_vec()]);
                    rest = behind;
                }
                (word, [user, password, behind @ ..]) if is_word(word, "AUTH2") => {
                    auth = Some(vec![b"AUTH".to_vec(), user.to_vec(), password.to_vec()]);
                    rest = behind;
                }
                (word, keys) if is_word(word, "KEYS") => {
                    if !args[3].is_empty() {
                        return Err(NOT_EMPTY);
                    }
                    is_empty = keys.is_empty();
                    break;
                }
                _ => return Err(error::SYNTAX),
            }
        }
        let limit = match parse_i64(args[5]).ok_or(error::NOT_INTEGER)? {
            ..=0 => DEFAULT_LIMIT,
            limit => Duration::from_millis(limit.unsigned_abs().min(LONGEST_LIMIT_MS)),
        };
        let db = parse_i64(args[4]).ok_or(error::NOT_INTEGER)?;
        let (host, port) = (args[1].to_vec(), port_of(args[2]));
        let order = Order { host, port, auth, db, limit };
        Ok(Request { order, copies, replaces, asks, is_empty })
    }
}

/// Parses a port as C does: the leading digits, cut to 16 bits.
fn port_of(text: &[u8]) -> u16 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |port: u16, byte| port.wrapping_mul(10).wrapping_add(u16::from(byte - b'0')))
}

/// Whether the argument follows AUTH or AUTH2.
fn is_secret(args: &[&[u8]], position: usize) -> bool {
    let mut at = 6;
    while let Some(word) = args.get(at).filter(|_| at < position) {
        let secrets = match word {
            word if is_word(word, "AUTH") => 1,
            word if is_word(word, "AUTH2") => 2,
            word if is_word(word, "KEYS") => return false,
            _ => 0,
        };
        if position <= at + secrets {
            return true;
        }
        at += 1 + secrets;
    }
    false
}

type Keys<'c> = SmallVec<[Key<'c>; 4]>;

fn migrate(call: &mut Call<'_, '_>) -> CommandResult {
    let request = Request::parse(call.args, call.settings.cluster_enabled)?;
    if call.lane == Lane::Worker {
        return Err(Stop::Lane);
    }
    let keys = if request.is_empty { Keys::new() } else { call.all_keys() };
    let errand = call.session.errand.take().and_then(|errand| errand.any().downcast().ok());
    let Some(migration): Option<Arc<Migration>> = errand else {
        return begin(call, &request, &keys);
    };
    match migration.take_stage() {
        Stage::Connected(Ok((link, pins))) => {
            let mut parcels = transfer::pack(call, &keys)?;
            if parcels.is_empty() {
                migration.give_back(link);
                call.reply.simple("NOKEY");
                return Ok(());
            }
            let bytes = call.meanwhile(|| requests(&keys, &mut parcels, &request))?;
            migration.send_next(link, (parcels, bytes), pins);
            send_out(call, migration)
        }
        Stage::Connected(Err(failure)) => Err(stop_of(failure)),
        Stage::Sent(answers) => {
            let (parcels, _pins) = migration.take_parcels();
            end(call, &request, &keys, &parcels, answers)
        }
        Stage::Connect(_) | Stage::Send(..) | Stage::Over => {
            Err(io_error(LinkFault::Reading { may_retry: false }).into())
        }
    }
}

/// The first run: finds the keys.
fn begin(call: &mut Call<'_, '_>, request: &Request, keys: &Keys<'_>) -> CommandResult {
    let mut names = Vec::new();
    for key in keys {
        if call.keys.read(*key).exists() {
            names.push(key.bytes.to_vec());
        }
    }
    if names.is_empty() {
        call.reply.simple("NOKEY");
        return Ok(());
    }
    let Some(migrations) = Migrations::of(call).arc() else {
        return Err(io_error(LinkFault::Connecting).into());
    };
    if !call.may_pause() {
        return at_once(call, request, keys, migrations);
    }
    let (db, owner) = (call.keys.scope().db, call.session.id);
    // A copy needs no pins: it is of the moment at which its payload is made.
    let to_pin = (!request.copies).then_some(ToPin { db, keys: names, owner });
    send_out(call, Migration::new(migrations, request.order.clone(), to_pin))
}

fn send_out(call: &mut Call<'_, '_>, migration: Arc<Migration>) -> CommandResult {
    let errand: Arc<dyn AsyncRequest> = migration;
    call.session.errand = Some(errand);
    Err(Stop::Park(Park::Errand))
}

/// All in one run, in a transaction or a script.
fn at_once(
    call: &mut Call<'_, '_>,
    request: &Request,
    keys: &Keys<'_>,
    migrations: Arc<Migrations>,
) -> CommandResult {
    let _others_run = migrations.engine.lane.compensate();
    let migration = Migration::new(Arc::clone(&migrations), request.order.clone(), None);
    migration.wait();
    let link = match migration.take_stage() {
        Stage::Connected(Ok((link, _))) => link,
        Stage::Connected(Err(failure)) => return Err(stop_of(failure)),
        _ => return Err(io_error(LinkFault::Connecting).into()),
    };
    let mut parcels = transfer::pack(call, keys)?;
    let bytes = requests(keys, &mut parcels, request);
    migration.send_next(link, (parcels, bytes), None);
    migration.wait();
    let (parcels, _) = migration.take_parcels();
    match migration.take_stage() {
        Stage::Sent(answers) => end(call, request, keys, &parcels, answers),
        _ => Err(io_error(LinkFault::Reading { may_retry: false }).into()),
    }
}

fn requests(keys: &Keys<'_>, parcels: &mut [KeyTransfer], wanted: &Request) -> Vec<Vec<u8>> {
    let names: SmallVec<[&[u8]; 4]> = keys.iter().map(|key| key.bytes).collect();
    let word = if wanted.asks { "RESTORE-ASKING" } else { "RESTORE" };
    request(&names, parcels, word, wanted.replaces)
}

/// The last run: removes the keys that the target has, and replies.
fn end(
    call: &mut Call<'_, '_>,
    request: &Request,
    keys: &Keys<'_>,
    parcels: &[KeyTransfer],
    answers: Answers,
) -> CommandResult {
    let is_there = |at: usize| answers.has.get(at) == Some(&true);
    let removed = match request.copies {
        true => transfer::Removed::default(),
        false => transfer::remove(call, keys, parcels, is_there),
    };
    if let Some(text) = &answers.error {
        let text = format!("ERR Target instance replied with error: {text}");
        return Err(ClientError::new(text).into());
    }
    if let Some(fault) = answers.fault {
        return Err(io_error(fault).into());
    }
    if removed.changed > 0 {
        return Err(HAS_CHANGED.into());
    }
    call.reply.ok();
    Ok(())
}

fn stop_of(failure: Failure) -> Stop {
    match failure {
        Failure::Fault(fault) => io_error(fault).into(),
        Failure::Pinned(wait) => Stop::Park(Park::Pin(wait)),
        Failure::Aborted(aborted) => aborted.into(),
    }
}

fn io_error(fault: LinkFault) -> ClientError {
    ClientError::text(match fault {
        LinkFault::Connecting => "IOERR error or timeout connecting to the client",
        LinkFault::Writing { .. } => "IOERR error or timeout writing to target instance",
        LinkFault::Reading { .. } => "IOERR error or timeout reading to target instance",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(|word| if word == "''" { &b""[..] } else { word.as_bytes() }).collect()
    }

    #[test]
    fn only_what_follows_auth_is_secret() {
        for (line, expected) in [
            ("MIGRATE h 1 '' 0 9 COPY AUTH p KEYS auth a", vec![8]),
            ("MIGRATE h 1 k 0 9 AUTH2 u p REPLACE", vec![7, 8]),
            ("MIGRATE h 1 auth 0 9 AUTH AUTH AUTH AUTH2", vec![7, 9]),
            ("MIGRATE h 1 k 0 9", vec![]),
        ] {
            let args = args(line);
            let found: Vec<usize> = (0..args.len()).filter(|&at| is_secret(&args, at)).collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn ports_are_read_as_c_reads_them() {
        for (text, port) in [("6379", 6379), ("abc", 0), ("12x", 12), ("70000", 4464), ("", 0)] {
            assert_eq!(port_of(text.as_bytes()), port, "{text}");
        }
    }
}
