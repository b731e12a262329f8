//! REPLICAOF: makes this server a replica or a primary.
//!
//! In a transaction the role changes after it has ended, and before EXEC is answered: nothing may
//! be waited for with partitions held.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::thread::Builder;

use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{
    AsyncRequest, Call, ClientError, Command, CommandResult, Flags, Group, ResumeGuard, Stop,
};

use crate::Replication;
use crate::replica::{self, Primary};

const CHANGES_ROLE: Flags = Flags::ADMIN
    .union(Flags::NOSCRIPT)
    .union(Flags::STALE)
    .union(Flags::NO_ASYNC_LOADING)
    .union(Flags::LANE)
    .union(Flags::OUTSIDE);

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

const IN_CLUSTER: ClientError = ClientError::text("ERR REPLICAOF not allowed in cluster mode.");
const BAD_PORT: ClientError = ClientError::text("ERR Invalid master port");

fn follow(call: &mut Call<'_, '_>) -> CommandResult {
    let (host, port) = (call.args[1], call.args[2]);
    let replication = Replication::of(call);
    if call.settings.cluster_enabled {
        return Err(IN_CLUSTER.into());
    }
    if is_word(host, "NO") && is_word(port, "ONE") {
        return carry_out(call, None, "");
    }
    // Port 0, where nobody listens, makes a replica without a primary.
    let port = parse_i64(port).and_then(|port| u16::try_from(port).ok()).ok_or(BAD_PORT)?;
    let host = std::str::from_utf8(host).map_err(|_| ClientError::text("ERR Invalid host"))?;
    let primary = Primary { host: host.to_owned(), port };
    if replication.following.follows(&primary) {
        call.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    let setting = format!("{host} {port}");
    carry_out(call, Some(primary), &setting)
}

fn carry_out(call: &mut Call<'_, '_>, primary: Option<Primary>, setting: &str) -> CommandResult {
    let Some(replication) = Replication::of(call).arc() else {
        return Err(Stop::Error(ClientError::text("ERR the server stops")));
    };
    let _now = replication
        .engine
        .settings
        .change(|now| now.clone().with("replicaof", setting))
        .map_err(|refused| ClientError::new(format!("ERR {refused}")))?;
    if call.session.multi.is_some() {
        // Of several the last one counts.
        let failure = OnceLock::new();
        call.session.epilogue = Some(Arc::new(ChangeOfRole { replication, primary, failure }));
    } else {
        let _others_run = replication.engine.lane.compensate();
        change_role(&replication, primary.as_ref())
            .map_err(|why| ClientError::new(format!("ERR {why}")))?;
    }
    call.reply.ok();
    Ok(())
}

/// The errand that a transaction leaves behind.
struct ChangeOfRole {
    replication: Arc<Replication>,
    primary: Option<Primary>,
    failure: OnceLock<String>,
}

impl std::fmt::Debug for ChangeOfRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChangeOfRole")
    }
}

impl ChangeOfRole {
    fn fail(&self, why: String) {
        tracing::error!("the role has not changed: {why}");
        let _only_once = self.failure.set(why);
    }
}

impl AsyncRequest for ChangeOfRole {
    fn begin(self: Arc<Self>, way_back: ResumeGuard) {
        let myself = Arc::clone(&self);
        let life = move || {
            if let Err(why) = change_role(&myself.replication, myself.primary.as_ref()) {
                myself.fail(why);
            }
            drop(way_back);
            pantala_memory::release_seat();
        };
        if let Err(error) = Builder::new().name("role".into()).spawn(life) {
            self.fail(format!("cannot start a thread: {error}"));
        }
    }

    fn failure(&self) -> Option<ClientError> {
        let why = self.failure.get()?;
        Some(ClientError::new(format!("ERR the transaction has run, the role is as before: {why}")))
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Makes this server a replica of a primary, or a primary.
///
/// # Errors
/// A text for the operator.
pub fn change_role(
    replication: &Arc<Replication>,
    primary: Option<&Primary>,
) -> Result<(), String> {
    match primary {
        Some(primary) => replica::follow(replication, primary).map(drop),
        None => replica::promote(replication),
    }
}
