//! XCLAIM and XAUTOCLAIM: pending entries of one consumer become another's.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_protocol::Reply;
use pantala_values::Stream;
use pantala_values::stream::{ConsumerNumber, Entries, Group, PendingEntry, StreamId, once_more};

use super::options::{id, int_or, interval_start};
use super::pending::idle_ms;
use super::read::settle;
use super::recorded::{Deliveries, Delivery};
use super::{fast, leave_if_long, no_key_or_group, reply_entry, reply_id};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, KeyFlags, KeySpec};

pub(super) const XCLAIM: Command = fast("XCLAIM", xclaim)
    .arity(-6)
    .tips(&["nondeterministic_output"])
    .complexity("O(N log M) for N ids of M that are pending")
    .syntax(
        "key group consumer min-idle-time id [id ...] [IDLE ms:int] \
         [TIME unix-time-milliseconds:time] [RETRYCOUNT count:int] [FORCE] [JUSTID] \
         [LASTID lastid]",
    )
    .summary("Gives pending entries to another consumer.");

pub(super) const XAUTOCLAIM: Command = fast("XAUTOCLAIM", xautoclaim)
    .arity(-6)
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)])
    .tips(&["nondeterministic_output"])
    .since("6.2.0")
    .complexity("O(N) for up to ten times COUNT pending entries looked at")
    .syntax("key group consumer min-idle-time start [COUNT count:int] [JUSTID]")
    .summary("Gives entries that are pending for long to another consumer.");

const CLAIM_MIN_IDLE: ClientError =
    ClientError::text("ERR Invalid min-idle-time argument for XCLAIM");
const CLAIM_IDLE: ClientError = ClientError::text("ERR Invalid IDLE option argument for XCLAIM");
const CLAIM_TIME: ClientError = ClientError::text("ERR Invalid TIME option argument for XCLAIM");
const CLAIM_RETRYCOUNT: ClientError =
    ClientError::text("ERR Invalid RETRYCOUNT option argument for XCLAIM");
const AUTOCLAIM_MIN_IDLE: ClientError =
    ClientError::text("ERR Invalid min-idle-time argument for XAUTOCLAIM");
const AUTOCLAIM_COUNT: ClientError = ClientError::text("ERR COUNT must be > 0");

/// How many entries XAUTOCLAIM claims by default ...
const DEFAULT_COUNT: i64 = 100;
/// ... at most ...
const MAX_COUNT: i64 = i64::MAX / 16;
/// ... and how many it looks at for each of them.
const LOOKS_PER_CLAIM: u64 = 10;

/// How entries are claimed.
struct Claim {
    consumer: ConsumerNumber,
    min_idle_ms: i64,
    delivered_at: UnixMs,
    retry_count: Option<u64>,
    just_ids: bool,
    now: UnixMs,
}

/// The options after XCLAIM's ids.
#[derive(Default)]
struct Options {
    delivered_at: Option<i64>,
    retry_count: Option<u64>,
    forced: bool,
    just_ids: bool,
    last_id: StreamId,
}

impl Options {
    fn parse(words: &[&[u8]], now: UnixMs) -> Result<Options, ClientError> {
        let mut options = Options::default();
        let mut rest = words;
        while let [word, behind @ ..] = rest {
            rest = behind;
            let value = rest.first();
            match value {
                _ if is_word(word, "FORCE") => options.forced = true,
                _ if is_word(word, "JUSTID") => options.just_ids = true,
                Some(value) => {
                    options.valued(word, value, now)?;
                    rest = &rest[1..];
                }
                None => return Err(unrecognized(word)),
            }
        }
        Ok(options)
    }

    fn valued(&mut self, word: &[u8], value: &[u8], now: UnixMs) -> Result<(), ClientError> {
        if is_word(word, "IDLE") {
            self.delivered_at = Some(now.0.wrapping_sub(int_or(value, CLAIM_IDLE)?));
        } else if is_word(word, "TIME") {
            self.delivered_at = Some(int_or(value, CLAIM_TIME)?);
        } else if is_word(word, "RETRYCOUNT") {
            self.retry_count = u64::try_from(int_or(value, CLAIM_RETRYCOUNT)?).ok();
        } else if is_word(word, "LASTID") {
            self.last_id = id(value)?;
        } else {
            return Err(unrecognized(word));
        }
        Ok(())
    }
}

fn unrecognized(word: &[u8]) -> ClientError {
    let word = error::up_to_nul(word);
    ClientError::bytes([b"ERR Unrecognized XCLAIM option '", word, b"'"].concat())
}

fn xclaim(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, name, now) = (call.key(), call.args[2], call.clock());
    let mut opened = call.keys.read(key);
    let stream = opened.collection::<Stream>()?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(no_key_or_group(key.bytes, name).into());
    }
    let min_idle_ms = int_or(call.args[4], CLAIM_MIN_IDLE)?.max(0);
    let is_id = |text: &&&[u8]| StreamId::parse_strict(text, 0).is_some();
    let id_count = call.args[5..].iter().take_while(is_id).count();
    let (ids, words) = call.args[5..].split_at(id_count);
    let options = Options::parse(words, now)?;
    // A recorded time is right, whatever the clock says.
    let latest = if opened.scope().sees_expired { i64::MAX } else { now.0 };
    let parts = opened.collection_mut::<Stream>()?;
    let Some((group, entries)) = parts.and_then(|stream| stream.group_and_entries(name)) else {
        opened.unchanged();
        return Ok(());
    };
    let group_before = (group.last_id, group.entries_read);
    let mut deliveries = Deliveries::default();
    group.last_id = group.last_id.max(options.last_id);
    let (consumer, is_new) = see_consumer(group, call.args[3], now);
    let delivered_at = options.delivered_at.filter(|at| (0..=latest).contains(at));
    let claim = Claim {
        consumer,
        min_idle_ms,
        delivered_at: delivered_at.map_or(now, UnixMs),
        retry_count: options.retry_count,
        just_ids: options.just_ids,
        now,
    };
    let mark = call.reply.begin();
    let mut count = 0;
    for id in ids.iter().filter_map(|text| StreamId::parse_strict(text, 0)) {
        let held = group.pending().get(id).copied();
        if entries.get(id).is_none() {
            if group.acknowledge(id) {
                deliveries.gone.push(id);
            }
            continue;
        }
        let fresh = PendingEntry { id, consumer, delivered_at: now, count: 1 };
        let (pending, is_fresh) = match held {
            Some(pending) => (pending, false),
            None if options.forced => (fresh, true),
            None => continue,
        };
        if is_fresh || idle_ms(&pending, now) >= claim.min_idle_ms {
            deliveries.list.push(claim.take(&mut call.reply, group, entries, pending));
            count += 1;
        }
    }
    deliveries.note(group, group_before, is_new);
    call.reply.end_array(mark, count);
    settle(&mut opened, is_new);
    drop(opened);
    if call.is_recorded() {
        deliveries.record(call, key.bytes, name, call.args[3]);
    }
    Ok(())
}

fn see_consumer(group: &mut Group, name: &[u8], now: UnixMs) -> (ConsumerNumber, bool) {
    let (number, is_new) = group.consumer_or_new(name, now);
    if let Some(consumer) = group.consumer_mut(number) {
        consumer.seen_at = now;
    }
    (number, is_new)
}

impl Claim {
    /// Makes an entry pending for the consumer, and replies with it.
    fn take(
        &self,
        reply: &mut Reply<'_>,
        group: &mut Group,
        entries: Entries<'_>,
        before: PendingEntry,
    ) -> Delivery {
        let count = match self.retry_count {
            Some(count) => count,
            None if self.just_ids => before.count,
            None => once_more(before.count),
        };
        let (consumer, delivered_at) = (self.consumer, self.delivered_at);
        group.hold(PendingEntry { consumer, delivered_at, count, ..before });
        if let Some(consumer) = group.consumer_mut(self.consumer) {
            consumer.active_at = Some(self.now);
        }
        match entries.get(before.id) {
            Some(entry) if !self.just_ids => reply_entry(reply, &entry),
            _ => reply_id(reply, before.id),
        }
        Delivery { id: before.id, at: delivered_at, count }
    }
}

/// Parses XAUTOCLAIM's COUNT and JUSTID.
fn parse_auto(words: &[&[u8]]) -> Result<(u64, bool), ClientError> {
    let (mut count, mut just_ids) = (DEFAULT_COUNT, false);
    let mut rest = words;
    while !rest.is_empty() {
        match rest {
            [word, value, behind @ ..] if is_word(word, "COUNT") => {
                let in_range = |count: &i64| (1..=MAX_COUNT).contains(count);
                count = parse_i64(value).filter(in_range).ok_or(AUTOCLAIM_COUNT)?;
                rest = behind;
            }
            [word, behind @ ..] if is_word(word, "JUSTID") => {
                just_ids = true;
                rest = behind;
            }
            _ => return Err(error::SYNTAX),
        }
    }
    Ok((count.unsigned_abs(), just_ids))
}

fn xautoclaim(call: &mut Call<'_, '_>) -> CommandResult {
    let min_idle_ms = int_or(call.args[4], AUTOCLAIM_MIN_IDLE)?.max(0);
    let start = interval_start(call.args[5])?;
    let (most, just_ids) = parse_auto(&call.args[6..])?;
    let (key, name, now) = (call.key(), call.args[2], call.clock());
    let mut opened = call.keys.read(key);
    let stream = opened.collection::<Stream>()?;
    let group = stream.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_key_or_group(key.bytes, name))?;
    let looks = most.saturating_mul(LOOKS_PER_CLAIM);
    leave_if_long(call.lane, looks.min(group.pending().len() as u64))?;
    let parts = opened.collection_mut::<Stream>()?;
    let Some((group, entries)) = parts.and_then(|stream| stream.group_and_entries(name)) else {
        opened.unchanged();
        return Ok(());
    };
    let group_before = (group.last_id, group.entries_read);
    let mut deliveries = Deliveries::default();
    let (consumer, is_new) = see_consumer(group, call.args[3], now);
    let claim =
        Claim { consumer, min_idle_ms, delivered_at: now, retry_count: None, just_ids, now };
    let found = FoundPending::search(group, entries, start, looks, most, &claim);
    call.reply.array(3);
    reply_id(&mut call.reply, found.next);
    call.reply.array(found.claimed.len());
    for pending in found.claimed {
        deliveries.list.push(claim.take(&mut call.reply, group, entries, pending));
    }
    call.reply.array(found.gone.len());
    for id in &found.gone {
        group.acknowledge(*id);
        reply_id(&mut call.reply, *id);
    }
    deliveries.gone = found.gone;
    deliveries.note(group, group_before, is_new);
    settle(&mut opened, is_new);
    drop(opened);
    if call.is_recorded() {
        deliveries.record(call, key.bytes, name, call.args[3]);
    }
    Ok(())
}

/// What XAUTOCLAIM finds.
struct FoundPending {
    /// Entries to be claimed.
    claimed: Vec<PendingEntry>,
    /// Pending entries that are not in the stream any more.
    gone: Vec<StreamId>,
    /// Where to go on; zero at the end.
    next: StreamId,
}

impl FoundPending {
    fn search(
        group: &Group,
        entries: Entries<'_>,
        start: StreamId,
        looks: u64,
        most: u64,
        claim: &Claim,
    ) -> FoundPending {
        let mut found = FoundPending { claimed: Vec::new(), gone: Vec::new(), next: StreamId::MIN };
        for (looked, pending) in (0..).zip(group.pending().iter_from(start)) {
            let taken = (found.claimed.len() + found.gone.len()) as u64;
            if looked == looks || taken == most {
                found.next = pending.id;
                break;
            }
            if entries.get(pending.id).is_none() {
                found.gone.push(pending.id);
            } else if idle_ms(pending, claim.now) >= claim.min_idle_ms {
                found.claimed.push(*pending);
            }
        }
        found
    }
}
