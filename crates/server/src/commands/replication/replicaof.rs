//! REPLICAOF: whom this server follows.
//!
//! In a transaction the role changes as soon as that has ended: nobody may wait for others with
//! partitions held.

use std::sync::Arc;
use std::thread::Builder;

use pantala_base::number::parse_i64;
use pantala_commands::{Call, ClientError, Command, Done, Flags, Group, Stop, options::is_word};

use crate::replication::replica::{self, Primary};
use crate::shared::Shared;

const CHANGES_ROLE: Flags = Flags::ADMIN
    .and(Flags::NOSCRIPT)
    .and(Flags::STALE)
    .and(Flags::NO_ASYNC_LOADING)
    .and(Flags::LANE)
    .and(Flags::OUTSIDE);

pub(super) const REPLICAOF: Command = Command::new("REPLICAOF", follow, Group::Server)
    .arity(3)
    .flags(CHANGES_ROLE)
    .since("5.0.0")
    .complexity("O(1)")
    .syntax("(args: (host-port: host port:int) | (no-one: NO ONE))")
    .summary("Makes the server a replica of another one, or a primary.");

pub(super) const SLAVEOF: Command = Command::new("SLAVEOF", follow, Group::Server)
    .arity(3)
    .flags(CHANGES_ROLE)
    .complexity("O(1)")
    .syntax("(args: (host-port: host port:int) | (no-one: NO ONE))")
    .summary("The same under its old name.");

const BAD_PORT: ClientError = ClientError::text("ERR Invalid master port");

fn follow(call: &mut Call<'_, '_>) -> Done {
    let (host, port) = (call.args[1], call.args[2]);
    let shared = Shared::of(call);
    if is_word(host, "NO") && is_word(port, "ONE") {
        return carry_out(call, None, "");
    }
    let port = parse_i64(port).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    let port = port.ok_or(BAD_PORT)?;
    let host = std::str::from_utf8(host).map_err(|_| ClientError::text("ERR Invalid host"))?;
    let primary = Primary { host: host.to_owned(), port };
    if shared.replication.following.follows(&primary) {
        call.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    let setting = format!("{host} {port}");
    carry_out(call, Some(primary), &setting)
}

fn carry_out(call: &mut Call<'_, '_>, primary: Option<Primary>, setting: &str) -> Done {
    let Some(shared) = Shared::of(call).arc() else {
        return Err(Stop::Error(ClientError::text("ERR the server stops")));
    };
    let _now = shared
        .engine
        .settings
        .change(|now| now.clone().with("replicaof", setting))
        .map_err(|refused| ClientError::new(format!("ERR {refused}")))?;
    if call.session.multi.is_some() {
        let of_thread = Arc::clone(&shared);
        let life = move || {
            if let Err(why) = change(&of_thread, primary.as_ref()) {
                tracing::error!("the role has not changed: {why}");
            }
            pantala_memory::release_seat();
        };
        let spawned = Builder::new().name("role".into()).spawn(life);
        spawned.map_err(|error| ClientError::new(format!("ERR cannot start a thread: {error}")))?;
    } else {
        let _others_run = shared.engine.lane.compensate();
        change(&shared, primary.as_ref()).map_err(|why| ClientError::new(format!("ERR {why}")))?;
    }
    call.reply.ok();
    Ok(())
}

fn change(shared: &Arc<Shared>, primary: Option<&Primary>) -> Result<(), String> {
    match primary {
        Some(primary) => replica::follow(shared, primary).map(drop),
        None => replica::promote(shared),
    }
}
