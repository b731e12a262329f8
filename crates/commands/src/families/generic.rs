//! Keys, whatever they hold.

use pantala_keyspace::event;

use crate::call::{Call, Done};
use crate::command::{Command, Group, KeyFlags, KeySpec};

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::write("DEL", del, Group::Generic)
    .arity(-2)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::REMOVE)])
    .complexity("O(N) for N keys")
    .syntax("key [key ...]")
    .summary("Removes keys.")];

fn del(call: &mut Call<'_, '_>) -> Done {
    let mut removed = 0;
    for key in call.all_keys() {
        let mut opened = call.keys.peek(key);
        if opened.remove() {
            opened.publish(event::DEL);
            removed += 1;
        }
    }
    call.reply.int(removed);
    Ok(())
}
