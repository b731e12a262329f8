//! PSYNC and SYNC: a connection becomes a replica's.
//!
//! If the stream still has what the replica lacks, the replica goes on there; otherwise it waits
//! for a full copy (`primary`). Afterwards its worker sends it nothing else
//! (`worker/output/replicas.rs`).

use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_base::number::parse_i64;
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, Lane, ReplyMode, error,
    options::is_word,
};
use pantala_psync::{Replica, ReplicationId};

use super::replconf::replica_of;
use super::takeover;
use crate::Replication;
use crate::primary;

const SYNCS: Flags =
    Flags::ADMIN.union(Flags::NO_MULTI).union(Flags::NOSCRIPT).union(Flags::NO_ASYNC_LOADING);

const NOT_EOF: ClientError = ClientError::text("ERR Filtered replica requires EOF capability");
const IS_TOLD: ClientError = ClientError::text(
    "ERR SYNC and PSYNC are not allowed on a connection that has subscribed to something or \
     tracks keys",
);
/// A replica would take earlier replies for a part of its copy.
const HAS_OUTPUT: ClientError =
    ClientError::text("ERR SYNC and PSYNC are invalid with pending output");
/// Only a worker's connection can become a replica's: not a primary's stream, and not HTTP.
const NOT_FROM_HERE: ClientError =
    ClientError::text("ERR SYNC and PSYNC are for connections of replicas only");
const NOT_CONNECTED: ClientError =
    ClientError::text("NOMASTERLINK Can't SYNC while not connected with my master");

pub(super) const PSYNC: Command = Command::new("PSYNC", psync, Group::Server)
    .arity(-3)
    .flags(SYNCS)
    .since("2.8.0")
    .complexity("O(1)")
    .syntax("replicationid offset:int")
    .summary("A replica goes on with the stream where it was, or begins with a full copy.");

pub(super) const SYNC: Command = Command::new("SYNC", sync, Group::Server)
    .arity(1)
    .flags(SYNCS)
    .complexity("O(1)")
    .summary("An old replica begins with a full copy.");

fn psync(call: &mut Call<'_, '_>) -> CommandResult {
    if call.session.is_replica() || call.session.monitor {
        return Ok(());
    }
    let replication = Replication::of(call);
    let takes_over = call.args.get(3).is_some_and(|word| is_word(word, "FAILOVER"));
    if takes_over {
        takeover::take_over(call, call.args[1])?;
    }
    // A takeover has waited on the lane.
    let replica = begin(call, takes_over)?;
    let name = primary::name(&replica);
    tracing::info!("Replica {name} asks for synchronization");
    let Some(number) = parse_i64(call.args[2]) else {
        tracing::warn!("Replica {name} asks for synchronization but with a wrong offset");
        return Err(error::NOT_INTEGER.into());
    };
    let counts = &replication.primary.counts;
    match go_on(replication, &replica, call.args[1], number) {
        Some(answer) => {
            counts.partial.count();
            call.reply.simple(&answer);
        }
        None => {
            if !call.args[1].starts_with(b"?") {
                counts.refused.count();
            }
            primary::wait_for_copy(replication, &replica);
        }
    }
    Ok(())
}

fn sync(call: &mut Call<'_, '_>) -> CommandResult {
    if call.session.is_replica() || call.session.monitor {
        return Ok(());
    }
    let replica = begin(call, false)?;
    replica.is_to_be_silent();
    tracing::info!("Replica {} asks for synchronization, by SYNC", primary::name(&replica));
    primary::wait_for_copy(Replication::of(call), &replica);
    Ok(())
}

/// The checks of both commands.
fn begin(call: &mut Call<'_, '_>, may_be_on_lane: bool) -> Result<Arc<Replica>, ClientError> {
    if call.lane != Lane::Worker && !may_be_on_lane {
        return Err(NOT_FROM_HERE);
    }
    if call.session.is_subscribed() || call.session.tracking.is_some() {
        return Err(IS_TOLD);
    }
    if !Replication::of(call).may_be_followed() {
        return Err(NOT_CONNECTED);
    }
    // Replies to earlier commands count, too.
    if !call.reply.is_empty() {
        return Err(HAS_OUTPUT);
    }
    let worker = usize::from(call.session.place.worker);
    let replica = Arc::clone(replica_of(call.session));
    let announced = replica.announced();
    if announced.filter.is_some() && !announced.takes_eof {
        return Err(NOT_EOF);
    }
    drop(announced);
    replica.set_worker(worker);
    call.session.reply_mode = ReplyMode::On;
    Ok(replica)
}

/// Lets a replica go on at this byte of the stream, if it can; returns the reply.
fn go_on(
    replication: &Replication,
    replica: &Arc<Replica>,
    id: &[u8],
    number: i64,
) -> Option<String> {
    let position = u64::try_from(number).ok()?.checked_sub(1)?;
    let id = ReplicationId::parse(id)?;
    if replica.announced().only_copy {
        return None;
    }
    let stream = &replication.downstream.stream;
    // What only the link needed that this one replaces is not promised any more.
    primary::let_go(replication);
    let answer = match replication.downstream.replicas.go_on(
        replica,
        stream,
        id,
        position,
        monotonic_us(),
    ) {
        Ok(_) if !replica.announced().takes_new_id => "CONTINUE".to_owned(),
        Ok(continuation) => format!("CONTINUE {}", continuation.id),
        Err(why) => {
            tracing::info!(
                replica = primary::name(replica),
                position,
                ?why,
                "no partial resynchronization"
            );
            return None;
        }
    };
    let left = replica.left_bytes(stream.end());
    tracing::info!(
        replica = primary::name(replica),
        position,
        "a replica continues: {left} bytes of the backlog are sent"
    );
    primary::followers_changed(replication);
    Some(answer)
}
