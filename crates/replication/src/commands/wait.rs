//! WAIT and WAITAOF: wait until replicas, or files, have a client's writes.
//!
//! If they do not yet, the connection is put into its worker's list of those to check again when a
//! replica has acknowledged something, or the journal is durable (`worker/turn/waiting.rs`).

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_commands::{
    Acknowledgements, Call, Category, ClientError, Command, CommandResult, Flags, Group, KeyWait,
    TimeoutReply, WaitedKeys, error,
};

use crate::Replication;
use crate::primary::acknowledged;

const ON_REPLICA: ClientError = ClientError::text(
    "ERR WAIT cannot be used with replica instances. Please also note that writes to replicas \
     are just local and are not propagated.",
);
const AOF_ON_REPLICA: ClientError = ClientError::text(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas \
     are just local and are not propagated.",
);

pub(super) const WAIT: Command = Command::new("WAIT", wait, Group::Generic)
    .arity(3)
    .flags(Flags::BLOCKING)
    .categories(&[Category::Connection])
    .tips(&["request_policy:all_shards", "response_policy:agg_min"])
    .since("3.0.0")
    .syntax("numreplicas:int timeout:int")
    .summary("Waits until so many replicas have what this connection wrote.");

pub(super) const WAITAOF: Command = Command::new("WAITAOF", wait_aof, Group::Generic)
    .arity(4)
    .flags(Flags::BLOCKING)
    .categories(&[Category::Connection])
    .tips(&["request_policy:all_shards", "response_policy:agg_min"])
    .since("7.2.0")
    .syntax("numlocal:int numreplicas:int timeout:int")
    .summary("Waits until the log of so many servers has what this connection wrote.");

fn wait(call: &mut Call<'_, '_>) -> CommandResult {
    if Replication::of(call).is_replica() {
        return Err(ON_REPLICA.into());
    }
    let wanted = u64::try_from(call.int(1)?).unwrap_or(0);
    let timeout_ms = timeout(call.args[2], call.now())?;
    let asked =
        Acknowledgements { on_disk: false, wants_local: false, wanted, local: false, replicas: 0 };
    wait_for(call, asked, timeout_ms)
}

fn wait_aof(call: &mut Call<'_, '_>) -> CommandResult {
    let local = call.int(1)?;
    if !(0..=1).contains(&local) {
        return Err(error::NOT_ZERO_OR_ONE.into());
    }
    let wanted = parse_i64(call.args[2]).and_then(|count| u64::try_from(count).ok());
    let wanted = wanted.ok_or(error::NOT_POSITIVE)?;
    let timeout_ms = timeout(call.args[3], call.now())?;
    if Replication::of(call).is_replica() {
        return Err(AOF_ON_REPLICA.into());
    }
    if local == 1 && !call.settings.appendonly {
        return Err(error::NO_LOG_TO_WAIT_FOR.into());
    }
    let asked = Acknowledgements {
        on_disk: true,
        wants_local: local == 1,
        wanted,
        local: false,
        replicas: 0,
    };
    wait_for(call, asked, timeout_ms)
}

/// Replies, if enough servers have it or the command may not wait; otherwise waits.
fn wait_for(call: &mut Call<'_, '_>, asked: Acknowledgements, timeout_ms: i64) -> CommandResult {
    let told = acknowledged(Replication::of(call), call.session.last_step, asked);
    let at_timeout = TimeoutReply::Acknowledged(told);
    if told.is_enough() {
        at_timeout.reply(&mut call.reply);
        return Ok(());
    }
    let until = (timeout_ms > 0).then(|| UnixMs(call.now().0 + timeout_ms));
    call.wait(KeyWait { until, keys: WaitedKeys::All, at_timeout, args: None })
}

/// Parses a timeout in milliseconds; 0: none.
fn timeout(text: &[u8], now: UnixMs) -> Result<i64, ClientError> {
    let timeout_ms = parse_i64(text).ok_or(error::TIMEOUT_NOT_INTEGER)?;
    if timeout_ms < 0 {
        return Err(error::TIMEOUT_NEGATIVE);
    }
    now.0.checked_add(timeout_ms).ok_or(error::TIMEOUT_OUT_OF_RANGE)?;
    Ok(timeout_ms)
}
