//! PFDEBUG and PFSELFTEST: the insides of sketches.

use pantala_keyspace::OpenKey;
use pantala_values::hyperloglog::{
    Registers, SketchEncoding, describe_sparse, self_test, to_dense,
};

use super::sketch;
use crate::calls::call::{Call, CommandResult, Stop};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const PFDEBUG: Command = Command::write("PFDEBUG", pfdebug, Group::HyperLogLog)
    .arity(3)
    .flags(Flags::ADMIN.union(Flags::DENYOOM))
    .keys(&[KeySpec::one(2, KeyFlags::READ_CACHE)])
    .since("2.8.9")
    .complexity("O(N) for N registers")
    .syntax("subcommand key")
    .summary("Shows a HyperLogLog's registers, runs or encoding, or makes it dense.");

pub(super) const PFSELFTEST: Command = Command::new("PFSELFTEST", pfselftest, Group::HyperLogLog)
    .flags(Flags::ADMIN)
    .since("2.8.9")
    .complexity("O(1), some milliseconds")
    .summary("Checks that HyperLogLogs work on this machine.");

fn pfdebug(call: &mut Call<'_, '_>) -> CommandResult {
    let word = call.args[1];
    if is_word(word, "SIMD") {
        return simd(call);
    }
    let key = call.key();
    let mut opened = call.keys.open(key);
    let Some((encoding, text)) = sketch(&opened)? else {
        return Err(error::HLL_NO_KEY.into());
    };
    match word {
        _ if is_word(word, "GETREG") => {
            let mut all = Registers::new();
            all.merge(text)?;
            make_dense(&mut opened)?;
            call.reply.array(all.values().len());
            all.values().iter().for_each(|value| call.reply.int(i64::from(*value)));
        }
        _ if is_word(word, "DECODE") => match encoding {
            SketchEncoding::Dense => return Err(error::HLL_NOT_SPARSE.into()),
            SketchEncoding::Sparse => call.reply.bulk(&describe_sparse(text)),
        },
        _ if is_word(word, "ENCODING") => call.reply.simple(match encoding {
            SketchEncoding::Dense => "dense",
            SketchEncoding::Sparse => "sparse",
        }),
        _ if is_word(word, "TODENSE") => {
            let was_sparse = make_dense(&mut opened)?;
            call.reply.int(i64::from(was_sparse));
        }
        _ => return Err(error::unknown_pfdebug(word).into()),
    }
    Ok(())
}

/// Makes a sparse sketch dense; whether it was sparse.
fn make_dense(opened: &mut OpenKey<'_, '_>) -> Result<bool, Stop> {
    let Some((SketchEncoding::Sparse, text)) = sketch(opened)? else { return Ok(false) };
    let dense = to_dense(text)?;
    opened.rewrite_string(&dense);
    opened.publish_silently();
    Ok(true)
}

/// The processor's abilities are detected at the start; there is nothing to switch.
fn simd(call: &mut Call<'_, '_>) -> CommandResult {
    let word = call.args[2];
    if !is_word(word, "ON") && !is_word(word, "OFF") {
        return Err(ClientError::text("ERR Argument must be ON or OFF").into());
    }
    call.reply.simple("enabled");
    Ok(())
}

fn pfselftest(call: &mut Call<'_, '_>) -> CommandResult {
    if !self_test() {
        return Err(error::HLL_SELF_TEST.into());
    }
    call.reply.ok();
    Ok(())
}
