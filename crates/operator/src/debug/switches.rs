//! The forms of DEBUG that switch something for the whole server, for tests.

use pantala_base::clock::monotonic_us;
use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{Call, CommandResult};
use pantala_engine::Engine;

use crate::Operator;
use pantala_engine::Message;

/// Whether the number after the form's name is not 0; what is no number counts as 0.
fn is_on(call: &Call<'_, '_>) -> bool {
    parse_i64(call.args[2]).unwrap_or(0) != 0
}

pub(super) fn set_sweep(call: &mut Call<'_, '_>) -> CommandResult {
    let is_on = is_on(call);
    Engine::of(call).condition.switches.no_sweep.turn(!is_on);
    call.reply.ok();
    Ok(())
}

pub(super) fn pause_housekeeping(call: &mut Call<'_, '_>) -> CommandResult {
    let is_paused = is_on(call);
    let operator = Operator::of(call);
    operator.engine.condition.switches.no_housekeeping.turn(is_paused);
    // Sleeping workers make up for what was switched off.
    operator.engine.workers.post_all(&|| Message::LookUp);
    call.reply.ok();
    Ok(())
}

/// The longest wait before a write; more is taken for a slip.
const LONGEST_WAIT_US: i64 = 10_000_000;

pub(super) fn slow_file(call: &mut Call<'_, '_>) -> CommandResult {
    let wait_us = call.int(2)?.clamp(0, LONGEST_WAIT_US);
    Engine::of(call).condition.switches.set_file_wait(wait_us.unsigned_abs());
    call.reply.ok();
    Ok(())
}

pub(super) fn set_fence(call: &mut Call<'_, '_>) -> CommandResult {
    let until_us = match is_word(call.args[2], "OFF") {
        true => u64::MAX,
        false => monotonic_us().saturating_add_signed(call.int(2)?.saturating_mul(1_000)),
    };
    Engine::of(call).slots.fence.set_until(until_us);
    call.reply.ok();
    Ok(())
}

pub(super) fn let_scripts_debug(call: &mut Call<'_, '_>) -> CommandResult {
    let may = is_on(call);
    Engine::of(call).condition.switches.scripts_may_debug.turn(may);
    call.reply.ok();
    Ok(())
}

pub(super) fn skip_checksums(call: &mut Call<'_, '_>) -> CommandResult {
    let skips = is_on(call);
    let changed = Engine::of(call).settings.change(|before| {
        let mut next = before.clone();
        next.skip_checksum_validation = skips;
        Ok::<_, std::convert::Infallible>(next)
    });
    let Ok(_in_force) = changed;
    call.reply.ok();
    Ok(())
}
