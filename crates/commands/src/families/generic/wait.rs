//! WAIT and WAITAOF: until replicas, or files, have what was written. There are no replicas yet.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;

use crate::call::{AtTimeout, Call, Done, KeyWait, WaitedKeys};
use crate::command::{Category, Command, Flags, Group};
use crate::error::{self, ClientError};

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

fn wait(call: &mut Call<'_, '_>) -> Done {
    call.int(1)?;
    timeout(call.args[2], call.now())?;
    call.reply.int(0);
    Ok(())
}

fn wait_aof(call: &mut Call<'_, '_>) -> Done {
    let local = call.int(1)?;
    if !(0..=1).contains(&local) {
        return Err(error::NOT_ZERO_OR_ONE.into());
    }
    let replicas = parse_i64(call.args[2]).filter(|count| *count >= 0);
    let replicas = replicas.ok_or(error::NOT_POSITIVE)?;
    let timeout_ms = timeout(call.args[3], call.now())?;
    if local == 1 && !call.settings.appendonly {
        return Err(error::NO_LOG_TO_WAIT_FOR.into());
    }
    let recorder = call.keys.scope().recorder;
    let is_kept = recorder.is_some_and(|recorder| recorder.is_durable(call.session.last_step));
    let at_timeout = AtTimeout::Acknowledged { local: is_kept };
    if (is_kept || local == 0) && replicas == 0 {
        at_timeout.reply(&mut call.reply);
        return Ok(());
    }
    let until = (timeout_ms > 0).then(|| UnixMs(call.now().0 + timeout_ms));
    call.wait(KeyWait { until, keys: WaitedKeys::All, at_timeout, args: None })
}

/// A timeout in milliseconds, 0 for none.
fn timeout(text: &[u8], now: UnixMs) -> Result<i64, ClientError> {
    let timeout_ms = parse_i64(text).ok_or(error::TIMEOUT_NOT_INTEGER)?;
    if timeout_ms < 0 {
        return Err(error::TIMEOUT_NEGATIVE);
    }
    now.0.checked_add(timeout_ms).ok_or(error::TIMEOUT_OUT_OF_RANGE)?;
    Ok(timeout_ms)
}
