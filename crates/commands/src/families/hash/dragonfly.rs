//! FIELDTTL and FIELDEXPIRE, as Dragonfly has them: deadlines, in seconds, of the fields of a hash
//! or the members of a set.

use pantala_base::UnixMs;
use pantala_values::{Hash, Set, Type};

use super::{check_arguments, clean, open, reads, writes};
use crate::calls::call::{Call, CommandResult};
use crate::families::deadlines::{self, ExpiringCollection as _, NO_DEADLINE, seconds};
use crate::options::{Conditions, TimeForm, field_deadline};
use crate::rows::command::{Category, Command, Flags};

const NO_KEY: i64 = -2;
const NO_FIELD: i64 = -3;

pub(super) const FIELDTTL: Command = reads("FIELDTTL", field_ttl)
    .arity(3)
    .flags(Flags::FAST)
    .categories(&[Category::Keyspace])
    .syntax("key field")
    .summary("Dragonfly's: tells how many seconds a field or member has to live.");

fn field_ttl(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now, field) = (call.key(), call.now(), call.args[2]);
    let opened = call.keys.read(key);
    let found = if opened.kind() == Some(Type::Set) {
        opened.collection::<Set>()?.map(|set| set.deadline_of(field, now))
    } else {
        opened.collection::<Hash>()?.map(|hash| hash.deadline_of(field, now))
    };
    call.reply.int(match found {
        None => NO_KEY,
        Some(None) => NO_FIELD,
        Some(Some(None)) => NO_DEADLINE,
        Some(Some(Some(UnixMs(deadline)))) => seconds(deadline.saturating_sub(now.0)),
    });
    Ok(())
}

pub(super) const FIELDEXPIRE: Command = writes("FIELDEXPIRE", field_expire)
    .arity(-4)
    .flags(Flags::ONLY_OURS)
    .categories(&[Category::Set, Category::Hash])
    .complexity("O(N) for N fields")
    .syntax("key seconds:int field [field ...]")
    .summary("Dragonfly's: gives fields of a hash, or members of a set, seconds to live.");

fn field_expire(call: &mut Call<'_, '_>) -> CommandResult {
    let deadline =
        field_deadline(call.args[2], TimeForm::Seconds, call.clock(), call.command.name)?;
    check_arguments(call)?;
    let (key, now, elements) = (call.key(), call.now(), &call.args[3..]);
    let always = Conditions::default();
    if call.keys.peek(key).kind() == Some(Type::Set) {
        let mut opened = call.keys.open(key);
        clean::<Set>(&mut opened, now, call.lane)?;
        let changed = deadlines::set::<Set>(&mut call.reply, opened, elements, deadline, always)?;
        deadlines::record_set::<Set>(call, key.bytes, &changed, deadline);
        return Ok(());
    }
    let opened = open(call.keys, key, call.lane)?;
    let changed = deadlines::set::<Hash>(&mut call.reply, opened, elements, deadline, always)?;
    deadlines::record_set::<Hash>(call, key.bytes, &changed, deadline);
    Ok(())
}
