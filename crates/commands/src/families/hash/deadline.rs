//! Deadlines of fields: HEXPIRE, HTTL, HPERSIST and their sisters.

use pantala_keyspace::event;
use pantala_values::Hash;

use super::words::{counted, find_fields};
use super::{check_arguments, open};
use crate::call::{Call, Done, Stop};
use crate::error;
use crate::families::deadlines::{self, Form};
use crate::options::{Conditions, TimeForm, field_deadline, is_word};

/// HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT.
pub(super) fn expire(call: &mut Call<'_, '_>, form: TimeForm) -> Done {
    let at = find_fields(call.args, 3)?;
    let conditions = Conditions::parse(&call.args[3..at])?;
    let fields = counted(call.args, at, 1)?;
    let deadline = field_deadline(call.args[2], form, call.now(), call.command.name)?;
    check_arguments(call)?;
    let key = call.key();
    let opened = open(call.keys, key)?;
    Ok(deadlines::set::<Hash>(&mut call.reply, opened, fields, deadline, conditions)?)
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

/// HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME.
pub(super) fn ttl(call: &mut Call<'_, '_>, form: Form) -> Done {
    let fields = fields_here(call, error::SYNTAX)?;
    check_arguments(call)?;
    let key = call.key();
    let opened = call.keys.read(key);
    Ok(deadlines::reply::<Hash>(&mut call.reply, &opened, fields, form)?)
}

pub(super) fn persist(call: &mut Call<'_, '_>) -> Done {
    let fields = fields_here(call, error::FIELD_COUNT)?;
    check_arguments(call)?;
    let key = call.key();
    let opened = open(call.keys, key)?;
    Ok(deadlines::persist::<Hash>(&mut call.reply, opened, fields, event::HPERSIST)?)
}
