//! Taking members from the ends: ZPOPMIN, ZPOPMAX, ZMPOP, and their blocking forms.
//!
//! A command that is served for a changed key ([`Call::ready`]) looks at that key only.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_keyspace::event::{self, KeyEvent};
use pantala_keyspace::{Key, OpenKey};
use pantala_protocol::Reply;
use pantala_values::{SortedSet, Type};

use super::{begin_members, check_lane, open, reply_member, view, writes};
use crate::calls::call::{
    Call, CommandResult, KeyWait, Stop, TimeoutReply, WaitedKeys, reply_string,
};
use crate::error::{self, ClientError};
use crate::options::{PopOptions, is_word, timeout};
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const TAKE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE)];

/// The end to take from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    fn parse(word: &[u8]) -> Result<End, ClientError> {
        match word {
            word if is_word(word, "MIN") => Ok(End::Min),
            word if is_word(word, "MAX") => Ok(End::Max),
            _ => Err(error::SYNTAX),
        }
    }

    fn event(self) -> KeyEvent {
        match self {
            End::Min => event::ZPOPMIN,
            End::Max => event::ZPOPMAX,
        }
    }

    /// The command that takes from this end, for the journal.
    fn pop_word(self) -> &'static [u8] {
        match self {
            End::Min => b"ZPOPMIN",
            End::Max => b"ZPOPMAX",
        }
    }
}

pub(super) const ZPOPMIN: Command = writes("ZPOPMIN", zpopmin)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(TAKE)
    .since("5.0.0")
    .complexity("O(M*log(N)) for M members taken")
    .syntax("key [count:int]")
    .summary("Takes the members with the smallest scores.");

fn zpopmin(call: &mut Call<'_, '_>) -> CommandResult {
    pop(call, End::Min)
}

pub(super) const ZPOPMAX: Command = writes("ZPOPMAX", zpopmax)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(TAKE)
    .since("5.0.0")
    .complexity("O(M*log(N)) for M members taken")
    .syntax("key [count:int]")
    .summary("Takes the members with the greatest scores.");

fn zpopmax(call: &mut Call<'_, '_>) -> CommandResult {
    pop(call, End::Max)
}

fn pop(call: &mut Call<'_, '_>, end: End) -> CommandResult {
    let count = match call.args[2..] {
        [] => None,
        [text] => {
            let count = parse_i64(text).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(error::NOT_POSITIVE)?)
        }
        _ => return Err(error::SYNTAX.into()),
    };
    let key = call.key();
    let mut opened = open(call.keys, key, call.lane)?;
    let len = view(&opened)?.map_or(0, |set| set.len());
    let taken = count.unwrap_or(1).min(len);
    check_lane(call.lane, taken)?;
    if count.is_none() {
        // A flat array in both versions of RESP.
        call.reply.array(2 * taken);
        show(&opened, end, taken, &mut |member, score| {
            reply_string(&mut call.reply, member);
            call.reply.double(score);
        })?;
    } else {
        let reply = &mut call.reply;
        begin_members(reply, taken, true);
        show(&opened, end, taken, &mut |member, score| {
            reply_member(reply, member, score, true);
        })?;
    }
    take(&mut opened, end, taken)?;
    Ok(())
}

/// Passes the first or last members on.
fn show(
    opened: &OpenKey<'_, '_>,
    end: End,
    count: usize,
    write: &mut dyn FnMut(pantala_table::StrRef<'_>, f64),
) -> Result<(), Stop> {
    let Some(set) = view(opened)?.filter(|_| count > 0) else { return Ok(()) };
    match end {
        End::Min => set.entries(0, count).for_each(|(member, score)| write(member, score)),
        End::Max => {
            set.entries_back(set.len() - 1, count).for_each(|(member, score)| write(member, score));
        }
    }
    Ok(())
}

/// Removes the first or last members and publishes that.
fn take(opened: &mut OpenKey<'_, '_>, end: End, count: usize) -> Result<(), Stop> {
    let len = view(opened)?.map_or(0, |set| set.len());
    if count == 0 {
        return Ok(());
    }
    if count == len {
        opened.remove();
        opened.counts_as(count);
        opened.publish(end.event());
        opened.announce(event::DEL);
        return Ok(());
    }
    let ranks = if end == End::Min { 0..count } else { len - count..len };
    if let Some(set) = opened.collection_mut::<SortedSet>()? {
        set.remove_ranks(ranks);
    }
    opened.counts_as(count);
    opened.publish_collection::<SortedSet>(end.event());
    Ok(())
}

pub(super) const ZMPOP: Command = writes("ZMPOP", zmpop)
    .arity(-4)
    .flags(Flags::MOVABLEKEYS)
    .keys(&[KeySpec::counted(1, 1, KeyFlags::TAKE)])
    .since("7.0.0")
    .complexity("O(K) + O(M*log(N)) for K keys, M members taken and N members")
    .syntax("numkeys:int key [key ...] (where: MIN | MAX) [COUNT count:int]")
    .summary("Takes members from an end of the first sorted set that is not empty.");

fn zmpop(call: &mut Call<'_, '_>) -> CommandResult {
    let wanted = PopOptions::parse(&call.args[1..], End::parse)?;
    let keys = call.all_keys();
    if !take_from_first(call, &keys, &wanted)? {
        call.reply.null_array();
    }
    Ok(())
}

/// Takes from the first of the keys that has a member; false if none has.
fn take_from_first(
    call: &mut Call<'_, '_>,
    keys: &[Key<'_>],
    wanted: &PopOptions<End>,
) -> Result<bool, Stop> {
    for &key in keys {
        let mut opened = open(call.keys, key, call.lane)?;
        let Some(len) = view(&opened)?.map(|set| set.len()) else { continue };
        let count = wanted.count.min(len);
        check_lane(call.lane, count)?;
        let reply = &mut call.reply;
        reply.array(2);
        reply.bulk(key.bytes);
        reply.array(count);
        show(&opened, wanted.end, count, &mut |member, score| {
            reply.array(2);
            reply_string(reply, member);
            reply.double(score);
        })?;
        take(&mut opened, wanted.end, count)?;
        drop(opened);
        if call.is_recorded() {
            call.record_pop(wanted.end.pop_word(), key.bytes, count);
        }
        return Ok(true);
    }
    Ok(false)
}

fn wait(call: &mut Call<'_, '_>, until: Option<UnixMs>) -> CommandResult {
    let (keys, at_timeout) = (WaitedKeys::All, TimeoutReply::NullArray);
    call.wait(KeyWait { until, keys, at_timeout, args: None })
}

pub(super) const BZPOPMIN: Command = writes("BZPOPMIN", bzpopmin)
    .arity(-3)
    .flags(Flags::BLOCKING.union(Flags::FAST))
    .keys(&[KeySpec::range(1, -2, 1, KeyFlags::TAKE)])
    .since("5.0.0")
    .complexity("O(log(N))")
    .syntax("key [key ...] timeout:double")
    .summary(
        "Takes the member with the smallest score from the first of several sorted sets \
            that is not empty, or waits for one.",
    );

fn bzpopmin(call: &mut Call<'_, '_>) -> CommandResult {
    pop_or_wait(call, End::Min)
}

pub(super) const BZPOPMAX: Command = writes("BZPOPMAX", bzpopmax)
    .arity(-3)
    .flags(Flags::BLOCKING.union(Flags::FAST))
    .keys(&[KeySpec::range(1, -2, 1, KeyFlags::TAKE)])
    .since("5.0.0")
    .complexity("O(log(N))")
    .syntax("key [key ...] timeout:double")
    .summary(
        "Takes the member with the greatest score from the first of several sorted sets \
            that is not empty, or waits for one.",
    );

fn bzpopmax(call: &mut Call<'_, '_>) -> CommandResult {
    pop_or_wait(call, End::Max)
}

fn pop_or_wait(call: &mut Call<'_, '_>, end: End) -> CommandResult {
    let until = timeout(call.args[call.args.len() - 1], call.now())?;
    for key in call.keys_of_type(Type::SortedSet) {
        let mut opened = open(call.keys, key, call.lane)?;
        if !opened.exists() {
            continue;
        }
        let reply: &mut Reply<'_> = &mut call.reply;
        reply.array(3);
        reply.bulk(key.bytes);
        show(&opened, end, 1, &mut |member, score| {
            reply_string(reply, member);
            reply.double(score);
        })?;
        take(&mut opened, end, 1)?;
        drop(opened);
        if call.is_recorded() {
            call.record_as(&[end.pop_word(), key.bytes]);
        }
        return Ok(());
    }
    wait(call, until)
}

pub(super) const BZMPOP: Command = writes("BZMPOP", bzmpop)
    .arity(-5)
    .flags(Flags::BLOCKING.union(Flags::MOVABLEKEYS))
    .keys(&[KeySpec::counted(2, 1, KeyFlags::TAKE)])
    .since("7.0.0")
    .complexity("O(K) + O(M*log(N)) for K keys, M members taken and N members")
    .syntax("timeout:double numkeys:int key [key ...] (where: MIN | MAX) [COUNT count:int]")
    .summary(
        "Takes members from an end of the first sorted set that is not empty, or waits \
            for one.",
    );

fn bzmpop(call: &mut Call<'_, '_>) -> CommandResult {
    let wanted = PopOptions::parse(&call.args[2..], End::parse)?;
    let until = timeout(call.args[1], call.now())?;
    let keys = call.keys_of_type(Type::SortedSet);
    if take_from_first(call, &keys, &wanted)? {
        return Ok(());
    }
    wait(call, until)
}
