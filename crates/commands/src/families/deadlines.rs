//! Deadlines of fields and members: what the commands of hashes, sets and sorted sets share. Their
//! syntax differs (`FIELDS`, `MEMBERS`), their effect does not.

use pantala_base::UnixMs;
use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_i64};
use pantala_keyspace::event::{self, KeyEvent};
use pantala_keyspace::{OpenKey, WrongType};
use pantala_protocol::Reply;
use pantala_values::{Collection, Hash, Set, SortedSet};

use crate::calls::call::Call;
use crate::calls::record::{Known, RecordedWords};
use crate::options::Conditions;

/// The replies for one element.
const MISSING: i64 = -2;
pub(super) const NO_DEADLINE: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

/// A collection whose elements may have deadlines.
pub(super) trait ExpiringCollection: Collection {
    /// The event when elements were given a deadline.
    const GIVEN: KeyEvent;
    /// The event when elements were given a deadline that has passed, and so were removed.
    const GONE: KeyEvent;
    /// The commands for the journal that remove elements and give them deadlines, and the word
    /// before their count.
    const RECORDED: DeadlineCommands;

    /// The deadline of an element; the outer `None`: there is no such element.
    fn deadline_of(&self, element: &[u8], now: UnixMs) -> Option<Option<UnixMs>>;

    /// Sets or removes the deadline of a present element.
    fn change_deadline(&mut self, element: &[u8], deadline: Option<UnixMs>, now: UnixMs);

    /// Removes a present element.
    fn take(&mut self, element: &[u8], now: UnixMs);
}

/// The commands by which changes of deadlines are recorded.
pub(super) struct DeadlineCommands {
    pub removes: &'static [u8],
    pub expires: &'static [u8],
    pub word: &'static [u8],
    pub known: Known,
}

/// Records that elements of a key were given this deadline, or were removed because it has passed.
pub(super) fn record_set<C: ExpiringCollection>(
    call: &Call<'_, '_>,
    key: &[u8],
    elements: &[&[u8]],
    deadline: UnixMs,
) {
    let recorded = C::RECORDED;
    if call.keys.scope().has_passed(deadline) {
        return call.record_listed(&[recorded.removes, key], elements);
    }
    let digits = &mut [0; I64_TEXT_MAX_BYTES];
    let moment = fmt_i64(deadline.0, digits);
    let first: [&[u8]; 4] = [recorded.expires, key, moment, recorded.word];
    call.record_counted_aside(recorded.known, &first, elements);
}

/// Records, with this command, that elements of a key have no deadline any more.
pub(super) fn record_persist<C: ExpiringCollection>(
    call: &Call<'_, '_>,
    name: &[u8],
    key: &[u8],
    elements: &[&[u8]],
) {
    call.record_counted_aside(C::RECORDED.known, &[name, key, C::RECORDED.word], elements);
}

impl ExpiringCollection for Hash {
    const GIVEN: KeyEvent = event::HEXPIRE;
    const GONE: KeyEvent = event::HEXPIRED;
    const RECORDED: DeadlineCommands = DeadlineCommands {
        removes: b"HDEL",
        expires: b"HPEXPIREAT",
        word: b"FIELDS",
        known: Known::ToSome,
    };

    fn deadline_of(&self, field: &[u8], now: UnixMs) -> Option<Option<UnixMs>> {
        self.view().get(field, now).map(|found| found.deadline)
    }

    fn change_deadline(&mut self, field: &[u8], deadline: Option<UnixMs>, _now: UnixMs) {
        self.set_deadline(field, deadline);
    }

    fn take(&mut self, field: &[u8], now: UnixMs) {
        self.remove(field, now);
    }
}

impl ExpiringCollection for Set {
    const GIVEN: KeyEvent = event::SEXPIRE;
    const GONE: KeyEvent = event::SEXPIRED;
    const RECORDED: DeadlineCommands = DeadlineCommands {
        removes: b"SREM",
        expires: b"SPEXPIREAT",
        word: b"MEMBERS",
        known: Known::ToOurs,
    };

    fn deadline_of(&self, member: &[u8], now: UnixMs) -> Option<Option<UnixMs>> {
        self.member_deadline(member, now)
    }

    fn change_deadline(&mut self, member: &[u8], deadline: Option<UnixMs>, now: UnixMs) {
        self.set_member_deadline(member, deadline, now);
    }

    fn take(&mut self, member: &[u8], now: UnixMs) {
        self.remove(member, now);
    }
}

impl ExpiringCollection for SortedSet {
    const GIVEN: KeyEvent = event::ZEXPIRE;
    const GONE: KeyEvent = event::ZEXPIRED;
    const RECORDED: DeadlineCommands = DeadlineCommands {
        removes: b"ZREM",
        expires: b"ZPEXPIREAT",
        word: b"MEMBERS",
        known: Known::ToOurs,
    };

    fn deadline_of(&self, member: &[u8], _now: UnixMs) -> Option<Option<UnixMs>> {
        self.view().score(member).map(|_| self.deadline(member))
    }

    fn change_deadline(&mut self, member: &[u8], deadline: Option<UnixMs>, _now: UnixMs) {
        match deadline {
            Some(deadline) => self.set_deadline(member, deadline),
            None => drop(self.persist(member)),
        }
    }

    fn take(&mut self, member: &[u8], _now: UnixMs) {
        self.remove(member);
    }
}

/// Gives elements a deadline, or removes them if it has passed, and replies for each. Returns the
/// changed ones, if that is recorded.
pub(super) fn set<'e, C: ExpiringCollection>(
    reply: &mut Reply<'_>,
    mut opened: OpenKey<'_, '_>,
    elements: &[&'e [u8]],
    deadline: UnixMs,
    conditions: Conditions,
) -> Result<RecordedWords<'e>, WrongType> {
    let now = opened.scope().now;
    let is_recorded = opened.scope().recorder.is_some();
    let has_passed = opened.scope().has_passed(deadline);
    let mut recorded = RecordedWords::new();
    let mut found = opened.collection_mut::<C>()?;
    let (mut changed, mut removed) = (0_u64, 0_u64);
    reply.array(elements.len());
    for element in elements {
        let done = match &mut found {
            None => MISSING,
            Some(found) => set_one(*found, element, (deadline, has_passed), conditions, now),
        };
        if is_recorded && matches!(done, DONE | REMOVED) {
            recorded.push(element);
        }
        changed += u64::from(done == DONE);
        removed += u64::from(done == REMOVED);
        reply.int(done);
    }
    if removed > 0 {
        opened.scope().tally.expired_elements.add(removed);
        opened.counts_as((removed + changed) as usize);
        opened.publish_collection::<C>(C::GONE);
    } else if changed > 0 {
        opened.counts_as(changed as usize);
        opened.publish_collection::<C>(C::GIVEN);
    } else {
        opened.unchanged();
    }
    Ok(recorded)
}

fn set_one<C: ExpiringCollection>(
    found: &mut C,
    element: &[u8],
    (deadline, has_passed): (UnixMs, bool),
    conditions: Conditions,
    now: UnixMs,
) -> i64 {
    let Some(before) = found.deadline_of(element, now) else { return MISSING };
    if !conditions.allow(deadline, before) {
        return REFUSED;
    }
    if has_passed {
        found.take(element, now);
        return REMOVED;
    }
    found.change_deadline(element, Some(deadline), now);
    DONE
}

/// The form in which a deadline is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Left,
    LeftMs,
    Moment,
    MomentMs,
}

impl Form {
    fn of(self, UnixMs(deadline): UnixMs, now: UnixMs) -> i64 {
        let left = deadline.saturating_sub(now.0).max(0);
        match self {
            Form::Left => seconds(left),
            Form::LeftMs => left,
            Form::Moment => seconds(deadline),
            Form::MomentMs => deadline,
        }
    }
}

/// The nearest whole second.
pub(super) fn seconds(milliseconds: i64) -> i64 {
    milliseconds / 1000 + i64::from(milliseconds % 1000 >= 500)
}

/// Replies with the deadline of each element.
pub(super) fn reply<C: ExpiringCollection>(
    reply: &mut Reply<'_>,
    opened: &OpenKey<'_, '_>,
    elements: &[&[u8]],
    form: Form,
) -> Result<(), WrongType> {
    let now = opened.scope().now;
    let found = opened.collection::<C>()?;
    reply.array(elements.len());
    for element in elements {
        reply.int(match found.and_then(|found| found.deadline_of(element, now)) {
            None => MISSING,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => form.of(deadline, now),
        });
    }
    Ok(())
}

/// Removes the deadlines of elements and replies for each. Returns those that had one, if that is
/// recorded.
pub(super) fn persist<'e, C: ExpiringCollection>(
    reply: &mut Reply<'_>,
    mut opened: OpenKey<'_, '_>,
    elements: &[&'e [u8]],
    event: KeyEvent,
) -> Result<RecordedWords<'e>, WrongType> {
    let is_recorded = opened.scope().recorder.is_some();
    let mut recorded = RecordedWords::new();
    let now = opened.scope().now;
    let mut found = opened.collection_mut::<C>()?;
    let mut changed = 0;
    reply.array(elements.len());
    for element in elements {
        let before = found.as_ref().and_then(|found| found.deadline_of(element, now));
        if let (Some(found), Some(Some(_))) = (&mut found, before) {
            found.change_deadline(element, None, now);
            changed += 1;
            if is_recorded {
                recorded.push(element);
            }
        }
        reply.int(match before {
            None => MISSING,
            Some(None) => NO_DEADLINE,
            Some(Some(_)) => DONE,
        });
    }
    if changed > 0 {
        opened.counts_as(changed);
        opened.publish_collection::<C>(event);
    } else {
        opened.unchanged();
    }
    Ok(recorded)
}
