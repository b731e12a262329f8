//! Deadlines of fields: setting them, asking for them, taking them away.

use pantala_base::UnixMs;
use pantala_keyspace::event;
use pantala_values::Hash;
use pantala_values::hash::Field;

use super::words::{counted, find_fields};
use super::{check_arguments, open};
use crate::call::{Call, Done, Stop};
use crate::error;
use crate::options::{Conditions, TimeForm, field_deadline, is_word};

/// What HEXPIRE answers for a field.
pub(super) const MISSING: i64 = -2;
const NO_DEADLINE: i64 = -1;
const REFUSED: i64 = 0;
pub(super) const DONE: i64 = 1;
pub(super) const REMOVED: i64 = 2;

/// HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT.
pub(super) fn expire(call: &mut Call<'_, '_>, form: TimeForm) -> Done {
    let at = find_fields(call.args, 3)?;
    let conditions = Conditions::parse(&call.args[3..at])?;
    let fields = counted(call.args, at, 1)?;
    let deadline = field_deadline(call.args[2], form, call.now(), call.command.name)?;
    set_deadlines(call, fields, deadline, conditions)
}

/// Gives fields a deadline, or removes them where it has passed, and answers for each.
pub(super) fn set_deadlines(
    call: &mut Call<'_, '_>,
    fields: &[&[u8]],
    deadline: UnixMs,
    conditions: Conditions,
) -> Done {
    check_arguments(call)?;
    let (key, now) = (call.key(), call.now());
    let tally = call.keys.scope().tally;
    let mut opened = open(call.keys, key)?;
    let mut hash = opened.collection_mut::<Hash>()?;
    let (mut changed, mut removed) = (0_u64, 0_u64);
    call.reply.array(fields.len());
    for field in fields {
        let done = match &mut hash {
            None => MISSING,
            Some(hash) => set_one(hash, field, deadline, conditions, now),
        };
        changed += u64::from(done == DONE);
        removed += u64::from(done == REMOVED);
        call.reply.int(done);
    }
    if removed > 0 {
        tally.expired_elements.add(removed);
        opened.publish_collection::<Hash>(event::HEXPIRED);
    } else if changed > 0 {
        opened.publish_collection::<Hash>(event::HEXPIRE);
    } else {
        opened.unchanged();
    }
    Ok(())
}

fn set_one(
    hash: &mut Hash,
    field: &[u8],
    deadline: UnixMs,
    conditions: Conditions,
    now: UnixMs,
) -> i64 {
    let Some(found) = hash.view().get(field, now) else { return MISSING };
    if !conditions.allow(deadline, found.deadline) {
        return REFUSED;
    }
    if deadline <= now {
        hash.remove(field, now);
        return REMOVED;
    }
    hash.set_deadline(field, Some(deadline));
    DONE
}

/// How HTTL and its sisters answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Left,
    LeftMs,
    Moment,
    MomentMs,
}

impl Answer {
    fn of(self, found: Option<Field<'_>>, now: UnixMs) -> i64 {
        let Some(found) = found else { return MISSING };
        let Some(UnixMs(deadline)) = found.deadline else { return NO_DEADLINE };
        let left = deadline.saturating_sub(now.0).max(0);
        match self {
            Answer::Left => seconds(left),
            Answer::LeftMs => left,
            Answer::Moment => seconds(deadline),
            Answer::MomentMs => deadline,
        }
    }
}

/// The nearest whole second.
pub(super) fn seconds(milliseconds: i64) -> i64 {
    milliseconds / 1000 + i64::from(milliseconds % 1000 >= 500)
}

/// `FIELDS count field ...` at its only place. HTTL has another error for a wrong count.
fn fields_here<'c>(
    call: &Call<'c, '_>,
    wrong_count: error::ClientError,
) -> Result<&'c [&'c [u8]], Stop> {
    if !is_word(call.args[2], "FIELDS") {
        return Err(error::SYNTAX.into());
    }
    let fields = counted(call.args, 2, 1);
    fields.map_err(|error| if error == error::FIELD_COUNT { wrong_count } else { error }.into())
}

pub(super) fn ttl(call: &mut Call<'_, '_>, answer: Answer) -> Done {
    let fields = fields_here(call, error::SYNTAX)?;
    check_arguments(call)?;
    let (key, now) = (call.key(), call.now());
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?.map(Hash::view);
    call.reply.array(fields.len());
    for field in fields {
        let found = hash.and_then(|hash| hash.get(field, now));
        call.reply.int(answer.of(found, now));
    }
    Ok(())
}

pub(super) fn persist(call: &mut Call<'_, '_>) -> Done {
    let fields = fields_here(call, error::FIELD_COUNT)?;
    check_arguments(call)?;
    let (key, now) = (call.key(), call.now());
    let mut opened = open(call.keys, key)?;
    let mut hash = opened.collection_mut::<Hash>()?;
    let mut changed = false;
    call.reply.array(fields.len());
    for field in fields {
        let found = hash.as_ref().and_then(|hash| hash.view().get(field, now));
        let done = match found.map(|found| found.deadline) {
            None => MISSING,
            Some(None) => NO_DEADLINE,
            Some(Some(_)) => DONE,
        };
        if done == DONE
            && let Some(hash) = &mut hash
        {
            hash.set_deadline(field, None);
            changed = true;
        }
        call.reply.int(done);
    }
    if changed {
        opened.publish_collection::<Hash>(event::HPERSIST);
    } else {
        opened.unchanged();
    }
    Ok(())
}
