//! What is in a slot: COUNTKEYSINSLOT, GETKEYSINSLOT, SLOT-STATS.
//!
//! Keys do not lie together by slot, so these look at every key, on the slow lane and with one
//! partition held at a time. Not at one moment: keys that come or go meanwhile may be missed.

use pantala_base::crc::{SLOT_COUNT, slot_of};
use pantala_base::number::parse_i64;
use pantala_cluster::SlotRange;
use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, CommandResult, Stop, error};
use pantala_keyspace::{DbIndex, Scope};
use pantala_table::is_expired;

use super::{require, topology_for};

const INVALID_SLOT: ClientError = ClientError::text("ERR Invalid slot");
const INVALID_SLOT_OR_COUNT: ClientError = ClientError::text("ERR Invalid slot or number of keys");
const OUT_OF_RANGE: ClientError = ClientError::text("ERR Invalid or out of range slot");
const BAD_METRIC: ClientError = ClientError::text("ERR Unrecognized sort metric for ORDERBY.");
const BAD_LIMIT: ClientError =
    ClientError::text("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");
const TWICE: ClientError =
    ClientError::text("ERR Multiple filters of the same type are disallowed.");
const UNKNOWN_FORM: ClientError = ClientError::text(
    "ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP.",
);

fn number(text: &[u8]) -> Result<i64, ClientError> {
    parse_i64(text).ok_or(error::NOT_INTEGER)
}

fn valid_slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOT_COUNT)
}

/// Passes each key of the selected database that has not expired to `see`.
fn each_key(call: &mut Call<'_, '_>, see: &mut dyn FnMut(&[u8])) -> CommandResult {
    let now = call.now();
    call.keys.each_table(&mut |table| {
        table.for_each(&mut |place| {
            if !table.deadline(place).is_some_and(|deadline| is_expired(deadline, now)) {
                see(table.key(place));
            }
        });
    })?;
    Ok(())
}

/// The slot that an argument names.
pub(super) fn parse_slot(text: &[u8]) -> Result<u16, ClientError> {
    parse_i64(text).and_then(valid_slot).ok_or(OUT_OF_RANGE)
}

/// Whether there is a key of this slot in any database.
pub(super) fn has_keys(call: &mut Call<'_, '_>, slot: u16) -> Result<bool, Stop> {
    let mut found = false;
    each_key_of_all(call, &mut |key| found |= slot_of(key) == slot)?;
    Ok(found)
}

/// Like [`each_key`], of every database.
fn each_key_of_all(call: &mut Call<'_, '_>, see: &mut dyn FnMut(&[u8])) -> CommandResult {
    let (space, before) = (call.space(), *call.keys.scope());
    for db in (0..space.database_count()).map(DbIndex) {
        if space.sizes(db).is_some_and(|sizes| sizes.keys() > 0) {
            call.keys.set_scope(Scope { db, ..before });
            let seen = each_key(call, see);
            call.keys.set_scope(before);
            seen?;
        }
    }
    Ok(())
}

pub(super) fn count(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    let slot = valid_slot(number(call.args[2])?).ok_or(INVALID_SLOT)?;
    let mut keys = 0;
    each_key(call, &mut |key| keys += i64::from(slot_of(key) == slot))?;
    call.reply.int(keys);
    Ok(())
}

pub(super) fn get(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    let (slot, most) = (number(call.args[2])?, number(call.args[3])?);
    let slot = valid_slot(slot).ok_or(INVALID_SLOT_OR_COUNT)?;
    let most = usize::try_from(most).map_err(|_| INVALID_SLOT_OR_COUNT)?;
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    each_key(call, &mut |key| {
        if keys.len() < most && slot_of(key) == slot {
            keys.push(key.into());
        }
    })?;
    call.reply.array(keys.len());
    keys.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

/// The slots that SLOT-STATS is asked for.
enum StatsRequest {
    /// These, in order.
    Range(SlotRange),
    /// The ones with most or fewest keys, so many at most.
    ByKeys { most: usize, ascending: bool },
}

impl StatsRequest {
    fn parse(args: &[&[u8]]) -> Result<StatsRequest, ClientError> {
        match *args {
            [word, first, last] if is_word(word, "SLOTSRANGE") => {
                let (first, last) = (parse_slot(first)?, parse_slot(last)?);
                let wrong = || {
                    ClientError::new(format!(
                        "ERR Start slot number {first} is greater than end slot number {last}"
                    ))
                };
                SlotRange::new(first, last).map(StatsRequest::Range).ok_or_else(wrong)
            }
            [word, metric, ref rest @ ..] if is_word(word, "ORDERBY") => {
                if !is_word(metric, "KEY-COUNT") {
                    return Err(BAD_METRIC);
                }
                StatsRequest::parse_order(rest)
            }
            _ => Err(UNKNOWN_FORM),
        }
    }

    fn parse_order(mut rest: &[&[u8]]) -> Result<StatsRequest, ClientError> {
        let (mut most, mut ascending) = (None, None);
        while let [word, ref after @ ..] = *rest {
            rest = match after {
                [count, after @ ..] if is_word(word, "LIMIT") => {
                    let allowed = 1..=i64::from(SLOT_COUNT);
                    let count = number(count).ok().filter(|count| allowed.contains(count));
                    set_once(&mut most, count.ok_or(BAD_LIMIT)? as usize)?;
                    after
                }
                _ if is_word(word, "ASC") => {
                    set_once(&mut ascending, true)?;
                    after
                }
                _ if is_word(word, "DESC") => {
                    set_once(&mut ascending, false)?;
                    after
                }
                _ => return Err(error::SYNTAX),
            };
        }
        let most = most.unwrap_or(usize::from(SLOT_COUNT));
        Ok(StatsRequest::ByKeys { most, ascending: ascending.unwrap_or_default() })
    }
}

/// Sets what may be told once.
fn set_once<T>(place: &mut Option<T>, value: T) -> Result<(), ClientError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(TWICE),
    }
}

pub(super) fn stats(call: &mut Call<'_, '_>) -> CommandResult {
    let topology = topology_for(call)?;
    let request = StatsRequest::parse(&call.args[2..])?;
    let owned = topology.my_shard().map(|shard| shard.slots.clone()).unwrap_or_default();
    let mut counts = vec![0_i64; usize::from(SLOT_COUNT)];
    each_key_of_all(call, &mut |key| counts[usize::from(slot_of(key))] += 1)?;
    let is_mine = |slot: &u16| owned.iter().any(|range| range.contains(*slot));
    let slots: Vec<u16> = match request {
        StatsRequest::Range(range) => (range.first..=range.last).filter(is_mine).collect(),
        StatsRequest::ByKeys { most, ascending } => {
            let mut slots: Vec<u16> = (0..SLOT_COUNT).filter(is_mine).collect();
            let sign = if ascending { 1 } else { -1 };
            slots.sort_by_key(|slot| (sign * counts[usize::from(*slot)], *slot));
            slots.truncate(most);
            slots
        }
    };
    let reply = &mut call.reply;
    reply.array(slots.len());
    for slot in slots {
        reply.array(2);
        reply.int(slot.into());
        reply.map(1);
        reply.bulk(b"key-count");
        reply.int(counts[usize::from(slot)]);
    }
    Ok(())
}
