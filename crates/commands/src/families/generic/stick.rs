//! STICK and UNSTICK: keys that eviction passes over. The mark is one bit of the table's word: it
//! stays when the value changes, is kept when the key is renamed, moved or copied, and is removed
//! with the key.

use crate::calls::call::{Call, CommandResult};
use crate::calls::record::Known;
use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};

const KEYS: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::MODIFY)];

const fn row(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::Generic)
        .replaces()
        .arity(-2)
        .flags(Flags::FAST.union(Flags::ONLY_OURS))
        .keys(KEYS)
        .tips(super::presence::SUMMED)
        .since("7.0.0")
        .complexity("O(N) for N keys")
        .syntax("key [key ...]")
}

pub(super) const STICK: Command = row("STICK", |call| mark(call, true))
    .summary("Dragonfly's: marks keys as never to be evicted, and counts those that were not.");

pub(super) const UNSTICK: Command = row("UNSTICK", |call| mark(call, false))
    .summary("Takes the mark of STICK from keys, and counts those that had it.");

fn mark(call: &mut Call<'_, '_>, sticky: bool) -> CommandResult {
    let (mut changed, is_recorded) = (0, call.is_recorded());
    for key in call.all_keys() {
        let mut opened = call.keys.peek(key);
        if opened.set_sticky(sticky) {
            opened.publish_silently();
            changed += 1;
        }
    }
    if changed > 0 && is_recorded {
        call.record_aside(Known::ToOurs, call.args[1], call.args);
    }
    call.reply.int(changed);
    Ok(())
}
