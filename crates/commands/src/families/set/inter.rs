//! Intersections: SINTER, SINTERSTORE, SINTERCARD.
//!
//! The smallest set is gone through, and each of its members looked up in the others.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_keyspace::event;
use pantala_values::Set;
use pantala_values::packed::Element;
use pantala_values::set::{SetLimits, SetRef};
use smallvec::SmallVec;

use super::{Sets, check_lane, limits, read_all, reply_member, sets_at, source_keys, store};
use crate::call::{Call, Done, Lane, Stop};
use crate::error;
use crate::options::is_word;

/// The sets from the smallest to the largest; `None` if one is missing, so that nothing is in all.
struct Sorted<'s> {
    sets: SmallVec<[SetRef<'s>; 8]>,
    now: UnixMs,
}

impl<'s> Sorted<'s> {
    fn of(sets: Sets<'s>, now: UnixMs, lane: Lane) -> Result<Option<Sorted<'s>>, Stop> {
        let Some(mut sets) = sets.into_iter().collect::<Option<SmallVec<[SetRef<'s>; 8]>>>() else {
            return Ok(None);
        };
        sets.sort_by_key(|set| set.len());
        check_lane(lane, sets.first().map_or(0, |set| set.work().saturating_mul(sets.len())))?;
        Ok(Some(Sorted { sets, now }))
    }

    /// Calls `each` with what is in all of them, in the order of the smallest, until it says no.
    #[inline]
    fn for_each(&self, each: impl FnMut(Element<'s>) -> bool) {
        if let Some((first, others)) = self.sets.split_first() {
            first.for_each_common(others, self.now, each);
        }
    }

    /// The common members as a set, in the form the reference gives it.
    fn to_set(&self, limits: SetLimits) -> Set {
        let mut set = match self.sets.first() {
            Some(SetRef::Ints(_)) => Set::default(),
            _ => Set::packed(),
        };
        let mut is_all_ints = true;
        self.for_each(|member| {
            let member = match member {
                Element::Bytes(text) if is_all_ints => Element::of(text),
                known => known,
            };
            is_all_ints &= member.int().is_some();
            set.add_element(member, limits, self.now);
            true
        });
        if is_all_ints {
            set.to_ints(limits);
        }
        set
    }
}

pub(super) fn sinter(call: &mut Call<'_, '_>) -> Done {
    let (keys, now) = (call.all_keys(), call.now());
    read_all(call.keys, &keys)?;
    let Some(sorted) = Sorted::of(sets_at(call.keys, &keys)?, now, call.lane)? else {
        call.reply.set(0);
        return Ok(());
    };
    let reply = &mut call.reply;
    let (mark, mut count) = (reply.begin(), 0);
    sorted.for_each(|member| {
        reply_member(reply, member);
        count += 1;
        true
    });
    reply.end_set(mark, count);
    Ok(())
}

pub(super) fn sinterstore(call: &mut Call<'_, '_>) -> Done {
    let (keys, now) = (source_keys(call), call.now());
    read_all(call.keys, &keys)?;
    let sorted = Sorted::of(sets_at(call.keys, &keys)?, now, call.lane)?;
    let result = sorted.map_or_else(Set::default, |sorted| sorted.to_set(limits(call.limits)));
    store(call, result, event::SINTERSTORE);
    Ok(())
}

pub(super) fn sintercard(call: &mut Call<'_, '_>) -> Done {
    let limit = parse_card(call.args)?;
    let (keys, now) = (call.all_keys(), call.now());
    read_all(call.keys, &keys)?;
    let sorted = Sorted::of(sets_at(call.keys, &keys)?, now, call.lane)?;
    let mut count = 0;
    if let Some(sorted) = sorted {
        sorted.for_each(|_| {
            count += 1;
            count < limit
        });
    }
    call.reply.int(count as i64);
    Ok(())
}

/// `numkeys key [key ...] [LIMIT limit]`: the limit.
fn parse_card(args: &[&[u8]]) -> Result<usize, error::ClientError> {
    let key_count = parse_i64(args[1]).filter(|count| *count > 0);
    let key_count = key_count.ok_or(error::KEYS_NOT_POSITIVE)?;
    let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
    if key_count > args.len() - 2 {
        return Err(error::MORE_KEYS_THAN_ARGS);
    }
    let mut limit = 0;
    let mut words = args[2 + key_count..].iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next().filter(|_| is_word(word, "LIMIT")) else {
            return Err(error::SYNTAX);
        };
        let value = parse_i64(value).and_then(|value| usize::try_from(value).ok());
        limit = value.ok_or(error::LIMIT_NEGATIVE)?;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}
