//! Sets.
//!
//! | file | commands |
//! |---|---|
//! | `member` | SADD SADDEX SPEXPIREAT SREM SISMEMBER SMISMEMBER SCARD SMOVE |
//! | `whole` | SMEMBERS SSCAN |
//! | `random` | SPOP SRANDMEMBER |
//! | `inter` | SINTER SINTERSTORE SINTERCARD |
//! | `combine` | SUNION SUNIONSTORE SDIFF SDIFFSTORE |
//! | `many` | those of several sets, for very many keys |
//!
//! Here is what they share: limits, several sets at once, members found in them, and storing a
//! result. Commands of several sets go through them in steps ([`Call::gather`]). No command sees
//! members whose deadline has passed. Those that change a set remove some of them first ([`open`]);
//! the keyspace's sweep removes the rest. Tests: compat/transcripts/set.

mod combine;
mod inter;
mod many;
mod member;
mod random;
mod whole;

use pantala_base::UnixMs;
use pantala_keyspace::event::{DEL, KeyEvent};
use pantala_keyspace::{Expiry, Key, Locked, OpenKey, WrongType};
use pantala_protocol::Reply;
use pantala_settings::Settings;
use pantala_table::is_expired;
use pantala_values::packed::Element;
use pantala_values::set::{Member, SetLimits, SetRef};
use pantala_values::{Collection as _, Set};
use smallvec::SmallVec;

use crate::calls::call::{Call, Lane, Stop};
use crate::calls::record::expire_all;
use crate::long_work::incremental::{Aggregate, Budget, GatherState, Header};
use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    member::SADD,
    member::SADDEX,
    member::SCARD,
    combine::SDIFF,
    combine::SDIFFSTORE,
    inter::SINTER,
    inter::SINTERCARD,
    inter::SINTERSTORE,
    member::SISMEMBER,
    whole::SMEMBERS,
    member::SMISMEMBER,
    member::SMOVE,
    member::SPEXPIREAT,
    random::SPOP,
    random::SRANDMEMBER,
    member::SREM,
    whole::SSCAN,
    combine::SUNION,
    combine::SUNIONSTORE,
];

const READ: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];
const ALL: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::READ)];

const STORE: &[KeySpec] =
    &[KeySpec::one(1, KeyFlags::OVERWRITE), KeySpec::range(2, -1, 1, KeyFlags::READ)];

const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];

const fn reads(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::Set).keys(READ)
}

const fn writes(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::Set)
}

/// A command that returns a combination of several sets.
const fn combines(name: &'static str, handler: Handler) -> Command {
    reads(name, handler).arity(-2).keys(ALL).tips(ANY_ORDER).syntax("key [key ...]")
}

/// A command that stores a combination of several sets.
const fn stores(name: &'static str, handler: Handler) -> Command {
    writes(name, handler)
        .replaces()
        .arity(-3)
        .flags(Flags::DENYOOM)
        .keys(STORE)
        .syntax("destination:key key [key ...]")
}

/// A command that looks at more members than this runs on the slow lane: it takes some hundred
/// microseconds.
const WORKER_MEMBERS: usize = 10_000;
/// How many expired members are removed before a set is changed.
const EXPIRED_AT_ONCE: usize = 64;

pub(in crate::families) fn limits(settings: &Settings) -> SetLimits {
    SetLimits {
        ints: settings.set_max_intset_entries,
        entries: settings.set_max_listpack_entries,
        value_bytes: settings.set_max_listpack_value_bytes,
    }
}

/// Opens a key to change a set: some expired members are removed first, with an event.
#[inline]
fn open<'l, 'k>(
    keys: &'l mut Locked<'k>,
    key: Key<'l>,
    lane: Lane,
) -> Result<OpenKey<'l, 'k>, Stop> {
    let now = keys.scope().now;
    let mut opened = keys.open(key);
    clean(&mut opened, now, lane)?;
    Ok(opened)
}

/// Removes some of the expired members; all of them, if that is recorded.
#[inline]
fn clean(opened: &mut OpenKey<'_, '_>, now: UnixMs, lane: Lane) -> Result<(), Stop> {
    let deadline = opened.collection::<Set>()?.and_then(Set::next_deadline);
    if deadline.is_some_and(|deadline| is_expired(deadline, now)) {
        expire_all(opened, lane)?;
        opened.expire_elements(EXPIRED_AT_ONCE);
    }
    Ok(())
}

/// Sends a command that is about to look at this many members to the slow lane.
#[inline]
fn check_lane(lane: Lane, members: usize) -> Result<(), Stop> {
    if members > WORKER_MEMBERS && lane == Lane::Worker { Err(Stop::Lane) } else { Ok(()) }
}

/// Writes a member.
#[inline]
fn reply_member(reply: &mut Reply<'_>, member: Element<'_>) {
    match member {
        Element::Int(number) => reply.bulk_int(number),
        Element::Bytes(text) => reply.bulk(text),
    }
}

/// Several keys, each already read: all are sets or missing.
type Keys<'c> = SmallVec<[Key<'c>; 4]>;
/// The sets at several keys, in order.
type Sets<'s> = SmallVec<[Option<SetRef<'s>>; 8]>;
/// The sets that are present.
type PresentMembers<'s> = SmallVec<[SetRef<'s>; 8]>;

/// Reads each key, so that [`sets_at`] may look at all at once.
fn read_all(keys: &mut Locked<'_>, of: &[Key<'_>]) -> Result<(), WrongType> {
    of.iter().try_for_each(|key| keys.read(*key).collection::<Set>().map(drop))
}

/// The sets at some keys, which were read before.
fn sets_at<'l>(keys: &'l Locked<'_>, of: &[Key<'_>]) -> Result<Sets<'l>, WrongType> {
    of.iter().map(|key| Ok(keys.collection::<Set>(*key)?.map(Set::view))).collect()
}

/// A position in several sets, gone through one after the other.
#[derive(Default)]
struct Place {
    set: usize,
    from: usize,
}

impl Place {
    /// Passes members on, with the number of their set, while there is budget.
    #[inline]
    fn go_on(
        &mut self,
        sets: &[SetRef<'_>],
        now: UnixMs,
        budget: &mut Budget,
        mut each: impl FnMut(usize, &Member<'_>),
    ) -> GatherState {
        while let Some(set) = sets.get(self.set) {
            if !budget.is_left() {
                return GatherState::Part;
            }
            let next = set.part_to_look_up(self.from, now, |member| {
                each(self.set, &member);
                budget.take(member.element.len())
            });
            match next {
                Some(next) => self.from = next,
                None => *self = Place { set: self.set + 1, from: 0 },
            }
        }
        GatherState::Whole
    }
}

/// The destination of the resulting members.
enum Destination {
    Reply(Header),
    Set(Set),
}

impl Destination {
    /// A destination that is the reply itself; its length is written at the end.
    fn reply(reply: &mut Reply<'_>) -> Destination {
        Destination::Reply(Header::later(reply))
    }

    #[inline]
    fn add(&mut self, member: Element<'_>, reply: &mut Reply<'_>, limits: SetLimits, now: UnixMs) {
        match self {
            Destination::Reply(header) => {
                reply_member(reply, member);
                header.count += 1;
            }
            Destination::Set(set) => _ = set.add_element(member, limits, now),
        }
    }

    /// Completes the reply.
    fn answer(self, reply: &mut Reply<'_>, now: UnixMs) {
        match self {
            Destination::Reply(header) => header.end(Aggregate::Set, reply),
            Destination::Set(set) => {
                reply.set(set.view().len());
                set.view().iter(now).for_each(|member| reply_member(reply, member));
            }
        }
    }

    /// The set to be stored.
    fn into_set(self) -> Set {
        match self {
            Destination::Reply(_) => Set::default(),
            Destination::Set(set) => set,
        }
    }
}

/// The keys of a storing command without the first, which is the destination; expired members in
/// them are recorded as removed.
fn source_keys<'c>(call: &mut Call<'c, '_>) -> Result<Keys<'c>, Stop> {
    let mut keys = call.all_keys();
    keys.remove(0);
    if call.is_recorded() {
        for key in &keys {
            expire_all(&mut call.keys.peek(*key), call.lane)?;
        }
    }
    Ok(keys)
}

/// Stores a result at the command's first key, whatever is there, and replies with its size. An
/// empty result removes the key.
fn store(call: &mut Call<'_, '_>, result: Set, event: KeyEvent) {
    let key = call.nth_key(1, 0);
    let size = result.view().len();
    let mut opened = call.keys.open(key);
    if size > 0 {
        opened.set_collection(result, Expiry::Never);
        opened.publish(event);
    } else if opened.remove() {
        opened.publish(DEL);
    }
    call.reply.int(size as i64);
}
