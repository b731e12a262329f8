//! Deadlines of members, as in Garnet: ZEXPIRE, ZTTL, ZPERSIST and their sisters. The forms are
//! those of HEXPIRE and its kin with MEMBERS for FIELDS.

use pantala_base::number::parse_i64;
use pantala_keyspace::event;
use pantala_values::SortedSet;

use super::{check_lane, open, read};
use crate::call::{Call, Done};
use crate::error::{self, ClientError};
use crate::families::deadlines::{self, Form};
use crate::options::{Conditions, TimeForm, field_deadline, is_word};

const MEMBER_COUNT: ClientError = ClientError::text(
    "ERR nummembers should be greater than 0 and match the provided number of members",
);

/// What follows MEMBERS, which stands at argument `at`.
fn members<'c>(args: &'c [&'c [u8]], at: usize) -> Result<&'c [&'c [u8]], ClientError> {
    let count = args.get(at + 1).and_then(|text| parse_i64(text)).ok_or(error::NOT_INTEGER)?;
    let rest = args.get(at + 2..).unwrap_or_default();
    let fits = count > 0 && i64::try_from(rest.len()).ok() == Some(count);
    if fits { Ok(rest) } else { Err(MEMBER_COUNT) }
}

/// ZEXPIRE, ZPEXPIRE, ZEXPIREAT, ZPEXPIREAT.
pub(super) fn expire(call: &mut Call<'_, '_>, form: TimeForm) -> Done {
    let words = call.args.get(3..).unwrap_or_default();
    let at = words.iter().position(|word| is_word(word, "MEMBERS")).ok_or(error::SYNTAX)? + 3;
    let conditions = Conditions::parse(&call.args[3..at])?;
    let members = members(call.args, at)?;
    let deadline = field_deadline(call.args[2], form, call.now(), call.command.name)?;
    check_lane(call.lane, members.len())?;
    let key = call.key();
    let opened = open(call.keys, key, call.lane)?;
    Ok(deadlines::set::<SortedSet>(&mut call.reply, opened, members, deadline, conditions)?)
}

/// `MEMBERS count member ...` at its only place.
fn members_here<'c>(call: &Call<'c, '_>) -> Result<&'c [&'c [u8]], ClientError> {
    if !is_word(call.args[2], "MEMBERS") {
        return Err(error::SYNTAX);
    }
    members(call.args, 2)
}

/// ZTTL, ZPTTL, ZEXPIRETIME, ZPEXPIRETIME.
pub(super) fn ttl(call: &mut Call<'_, '_>, form: Form) -> Done {
    let members = members_here(call)?;
    check_lane(call.lane, members.len())?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    Ok(deadlines::reply::<SortedSet>(&mut call.reply, &opened, members, form)?)
}

pub(super) fn persist(call: &mut Call<'_, '_>) -> Done {
    let members = members_here(call)?;
    check_lane(call.lane, members.len())?;
    let key = call.key();
    let opened = open(call.keys, key, call.lane)?;
    Ok(deadlines::persist::<SortedSet>(&mut call.reply, opened, members, event::ZPERSIST)?)
}

/// Removes what has expired, which nobody sees any more anyway. `*` means every key in Garnet; here
/// the sweep does that by itself.
pub(super) fn collect(call: &mut Call<'_, '_>) -> Done {
    for key in call.all_keys() {
        if key.bytes != b"*" {
            open(call.keys, key, call.lane)?;
        }
    }
    call.reply.ok();
    Ok(())
}
