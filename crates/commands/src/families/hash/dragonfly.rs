//! FIELDTTL and FIELDEXPIRE, as Dragonfly has them: deadlines, in seconds, of the fields of a hash
//! or the members of a set.

use pantala_base::UnixMs;
use pantala_keyspace::event;
use pantala_values::{Hash, Set, Type};

use super::deadline::{DONE, MISSING, REMOVED, seconds, set_deadlines};
use super::{check_arguments, clean};
use crate::call::{Call, Done};
use crate::options::{Conditions, TimeForm, field_deadline};

const NO_DEADLINE: i64 = -1;
const NO_KEY: i64 = -2;
const NO_FIELD: i64 = -3;

pub(super) fn field_ttl(call: &mut Call<'_, '_>) -> Done {
    let (key, now, field) = (call.key(), call.now(), call.args[2]);
    let opened = call.keys.read(key);
    let found = if opened.kind() == Some(Type::Set) {
        opened.collection::<Set>()?.map(|set| set.member_deadline(field, now))
    } else {
        let hash = opened.collection::<Hash>()?.map(Hash::view);
        hash.map(|hash| hash.get(field, now).map(|found| found.deadline))
    };
    call.reply.int(match found {
        None => NO_KEY,
        Some(None) => NO_FIELD,
        Some(Some(None)) => NO_DEADLINE,
        Some(Some(Some(UnixMs(deadline)))) => seconds(deadline.saturating_sub(now.0)),
    });
    Ok(())
}

pub(super) fn field_expire(call: &mut Call<'_, '_>) -> Done {
    let deadline = field_deadline(call.args[2], TimeForm::Seconds, call.now(), call.command.name)?;
    let (key, fields) = (call.key(), &call.args[3..]);
    if call.keys.peek(key).kind() == Some(Type::Set) {
        return set_member_deadlines(call, fields, deadline);
    }
    set_deadlines(call, fields, deadline, Conditions::default())
}

/// Gives members of a set a deadline, or removes them where it has passed.
fn set_member_deadlines(call: &mut Call<'_, '_>, members: &[&[u8]], deadline: UnixMs) -> Done {
    check_arguments(call)?;
    let (key, now) = (call.key(), call.now());
    let tally = call.keys.scope().tally;
    let mut opened = call.keys.open(key);
    clean::<Set>(&mut opened, now)?;
    let mut set = opened.collection_mut::<Set>()?;
    let (mut changed, mut removed) = (0_u64, 0_u64);
    call.reply.array(members.len());
    for member in members {
        let done = match &mut set {
            Some(set) if deadline <= now => if_there(set.remove(member, now), REMOVED),
            Some(set) => if_there(set.set_member_deadline(member, Some(deadline), now), DONE),
            None => MISSING,
        };
        changed += u64::from(done == DONE);
        removed += u64::from(done == REMOVED);
        call.reply.int(done);
    }
    if removed > 0 {
        tally.expired_elements.add(removed);
        opened.publish_collection::<Set>(event::SEXPIRED);
    } else if changed > 0 {
        opened.publish_collection::<Set>(event::SEXPIRE);
    } else {
        opened.unchanged();
    }
    Ok(())
}

fn if_there(was_there: bool, done: i64) -> i64 {
    if was_there { done } else { MISSING }
}
