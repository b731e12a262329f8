//! Deadlines of members, as in Garnet: setting them, asking for them, taking them away.
//!
//! The forms are those of HEXPIRE and its kin with MEMBERS for FIELDS.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_keyspace::event;
use pantala_values::SortedSet;

use super::{check_lane, open, read};
use crate::call::{Call, Done};
use crate::error::{self, ClientError};
use crate::options::{Conditions, TimeForm, field_deadline, is_word};

const MEMBER_COUNT: ClientError = ClientError::text(
    "ERR nummembers should be greater than 0 and match the provided number of members",
);

/// What the commands answer for a member.
const MISSING: i64 = -2;
const NO_DEADLINE: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

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
    let now = call.now();
    let deadline = field_deadline(call.args[2], form, now, call.command.name)?;
    check_lane(call.lane, members.len())?;
    let key = call.key();
    let mut opened = open(call.keys, key, call.lane)?;
    let mut set = opened.collection_mut::<SortedSet>()?;
    let (mut changed, mut removed) = (false, false);
    call.reply.array(members.len());
    for member in members {
        let done = match &mut set {
            None => MISSING,
            Some(set) => set_one(set, member, deadline, conditions, now),
        };
        changed |= done == DONE;
        removed |= done == REMOVED;
        call.reply.int(done);
    }
    if removed {
        opened.publish_collection::<SortedSet>(event::ZEXPIRED);
    } else if changed {
        opened.publish_collection::<SortedSet>(event::ZEXPIRE);
    } else {
        opened.unchanged();
    }
    Ok(())
}

fn set_one(
    set: &mut SortedSet,
    member: &[u8],
    deadline: UnixMs,
    conditions: Conditions,
    now: UnixMs,
) -> i64 {
    if set.view().score(member).is_none() {
        return MISSING;
    }
    if !conditions.allow(deadline, set.deadline(member)) {
        return REFUSED;
    }
    if deadline <= now {
        set.remove(member);
        return REMOVED;
    }
    set.set_deadline(member, deadline);
    DONE
}

/// How ZTTL and its sisters answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Left,
    LeftMs,
    Moment,
    MomentMs,
}

impl Answer {
    fn of(self, UnixMs(deadline): UnixMs, now: UnixMs) -> i64 {
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
fn seconds(milliseconds: i64) -> i64 {
    milliseconds / 1000 + i64::from(milliseconds % 1000 >= 500)
}

/// `MEMBERS count member ...` at its only place.
fn members_here<'c>(call: &Call<'c, '_>) -> Result<&'c [&'c [u8]], ClientError> {
    if !is_word(call.args[2], "MEMBERS") {
        return Err(error::SYNTAX);
    }
    members(call.args, 2)
}

pub(super) fn ttl(call: &mut Call<'_, '_>, answer: Answer) -> Done {
    let members = members_here(call)?;
    check_lane(call.lane, members.len())?;
    let (key, now) = (call.key(), call.now());
    let opened = read(call.keys, key, call.lane)?;
    let set = opened.collection::<SortedSet>()?;
    call.reply.array(members.len());
    for member in members {
        let found = set.filter(|set| set.view().score(member).is_some());
        call.reply.int(match found.map(|set| set.deadline(member)) {
            None => MISSING,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => answer.of(deadline, now),
        });
    }
    Ok(())
}

pub(super) fn persist(call: &mut Call<'_, '_>) -> Done {
    let members = members_here(call)?;
    check_lane(call.lane, members.len())?;
    let key = call.key();
    let mut opened = open(call.keys, key, call.lane)?;
    let mut set = opened.collection_mut::<SortedSet>()?;
    let mut changed = false;
    call.reply.array(members.len());
    for member in members {
        let done = match &mut set {
            Some(set) if set.view().score(member).is_some() => {
                if set.persist(member) {
                    DONE
                } else {
                    NO_DEADLINE
                }
            }
            _ => MISSING,
        };
        changed |= done == DONE;
        call.reply.int(done);
    }
    if changed {
        opened.publish_collection::<SortedSet>(event::ZPERSIST);
    } else {
        opened.unchanged();
    }
    Ok(())
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
