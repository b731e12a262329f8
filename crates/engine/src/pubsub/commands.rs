//! SUBSCRIBE, PUBLISH and their kin. How messages are delivered: `crate::pubsub`.
//!
//! Confirmations are pushes, one for each name; in RESP2 a push is an array.
//!
//! Tests: compat/transcripts/pubsub.

use pantala_base::crc::slot_of;
use pantala_base::glob;
use pantala_cluster::{RoutedCommand, SlotTable};
use pantala_commands::{
    Call, ChannelSpec, ClientError, Command, CommandResult, Flags, Group, KeyFlags, KeySpec, Lane,
    Session, Stop, Subscriptions, error, help,
};
use pantala_keyspace::Effect;
use pantala_protocol::Reply;

use crate::engine::Engine;
use crate::pubsub::Kind;

/// With more channels than this, PUBSUB CHANNELS runs on the slow lane;
const WORKER_CHANNELS: usize = 10_000;

/// with more subscriptions, UNSUBSCRIBE without names;
const WORKER_SUBSCRIPTIONS: u32 = 4096;
/// with more patterns, PUBLISH, which tries all of them.
const WORKER_PATTERNS: usize = 4096;
/// The bytes that a subscription takes beside its name.
const SUBSCRIPTION_BYTES: usize = 96;

/// A shard channel, which clients of a cluster locate like a key.
const SLOT_CHANNEL: &[KeySpec] = &[KeySpec::one(1, KeyFlags::NOT_KEY)];
const SLOT_CHANNELS: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)];

const ONE_NAME: ChannelSpec = ChannelSpec { only_one: true, are_patterns: false };
const ALL_NAMES: ChannelSpec = ChannelSpec { only_one: false, are_patterns: false };

const SUBSCRIBING: Flags = Flags::PUBSUB
    .union(Flags::NOSCRIPT)
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::SUBSCRIBED);
const ASKING: Flags = Flags::PUBSUB.union(Flags::LOADING).union(Flags::STALE);
const PUBLISHING: Flags =
    ASKING.union(Flags::FAST).union(Flags::MAY_REPLICATE).union(Flags::REVERSIBLE);

const fn row(name: &'static str, handler: pantala_commands::Handler) -> Command {
    Command::new(name, handler, Group::PubSub).since("2.0.0")
}

/// The rows of this family.
pub const ROWS: &[Command] = &[
    row("PSUBSCRIBE", psubscribe)
        .arity(-2)
        .flags(SUBSCRIBING)
        .channels(ChannelSpec { only_one: false, are_patterns: true })
        .complexity("O(N) for N patterns")
        .syntax("pattern [pattern ...]")
        .summary("Listens to all channels that match one of the patterns."),
    row("PUBLISH", publish)
        .arity(3)
        .flags(PUBLISHING)
        .channels(ONE_NAME)
        .complexity("O(N+M) for N subscribers of the channel and M patterns")
        .syntax("channel message")
        .summary("Sends a message to all who listen to a channel; how many they are."),
    Command::container("PUBSUB", Group::PubSub, PUBSUB)
        .since("2.8.0")
        .complexity("Depends on the subcommand.")
        .summary("About channels and who listens to them."),
    row("PUNSUBSCRIBE", punsubscribe)
        .arity(-1)
        .flags(SUBSCRIBING)
        .complexity("O(N) for N patterns")
        .syntax("[pattern [pattern ...]]")
        .summary("Ends the listening to patterns, or to all of them."),
    row("SPUBLISH", spublish)
        .arity(3)
        .flags(PUBLISHING)
        .keys(SLOT_CHANNEL)
        .channels(ONE_NAME)
        .since("7.0.0")
        .complexity("O(N) for N subscribers of the channel")
        .syntax("shardchannel message")
        .summary("Sends a message to all who listen to a shard channel; how many they are."),
    row("SSUBSCRIBE", ssubscribe)
        .arity(-2)
        .flags(SUBSCRIBING)
        .keys(SLOT_CHANNELS)
        .channels(ALL_NAMES)
        .since("7.0.0")
        .complexity("O(N) for N channels")
        .syntax("shardchannel [shardchannel ...]")
        .summary("Listens to shard channels."),
    row("SUBSCRIBE", subscribe)
        .arity(-2)
        .flags(SUBSCRIBING)
        .channels(ALL_NAMES)
        .complexity("O(N) for N channels")
        .syntax("channel [channel ...]")
        .summary("Listens to channels."),
    row("SUNSUBSCRIBE", sunsubscribe)
        .arity(-1)
        .flags(SUBSCRIBING)
        .keys(SLOT_CHANNELS)
        .since("7.0.0")
        .complexity("O(N) for N channels")
        .syntax("[shardchannel [shardchannel ...]]")
        .summary("Ends the listening to shard channels, or to all of them."),
    row("UNSUBSCRIBE", unsubscribe)
        .arity(-1)
        .flags(SUBSCRIBING)
        .complexity("O(N) for N channels")
        .syntax("[channel [channel ...]]")
        .summary("Ends the listening to channels, or to all of them."),
];

const fn sub(name: &'static str, handler: pantala_commands::Handler) -> Command {
    row(name, handler).of("PUBSUB").flags(ASKING).since("2.8.0")
}

const PUBSUB: &[Command] = &[
    sub("CHANNELS", channels)
        .arity(-2)
        .complexity("O(N) for N channels")
        .syntax("[pattern]")
        .summary("Channels that somebody listens to, or those of them that match a pattern."),
    Command::new("HELP", help, Group::PubSub)
        .of("PUBSUB")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("6.2.0")
        .summary("Shows this text."),
    sub("NUMPAT", numpat).arity(2).summary("How many patterns somebody listens to."),
    sub("NUMSUB", numsub)
        .arity(-2)
        .complexity("O(N) for N channels")
        .syntax("[channel [channel ...]]")
        .summary("How many listen to each of the channels, without patterns."),
    sub("SHARDCHANNELS", slot_channels)
        .arity(-2)
        .since("7.0.0")
        .complexity("O(N) for N channels")
        .syntax("[pattern]")
        .summary("Shard channels that somebody listens to."),
    sub("SHARDNUMSUB", slot_numsub)
        .arity(-2)
        .since("7.0.0")
        .complexity("O(N) for N channels")
        .syntax("[shardchannel [shardchannel ...]]")
        .summary("How many listen to each of the shard channels."),
];

fn publish(call: &mut Call<'_, '_>) -> CommandResult {
    send(call, Kind::Channel)
}

fn spublish(call: &mut Call<'_, '_>) -> CommandResult {
    send(call, Kind::SlotChannel)
}

fn send(call: &mut Call<'_, '_>, kind: Kind) -> CommandResult {
    let engine = Engine::of(call);
    call.record_for_replicas();
    if !call.may_wait {
        // In a transaction it is published at the end, together with the effects of its changes.
        let (channel, message) = (call.args[1].into(), call.args[2].into());
        let by_slot = kind == Kind::SlotChannel;
        call.keys.tell_later(Effect::Publish { channel, message, by_slot });
        call.reply.int(engine.notices.pubsub.receivers(kind, call.args[1]) as i64);
        return Ok(());
    }
    let has_many =
        kind == Kind::Channel && engine.notices.pubsub.count(Kind::Pattern) > WORKER_PATTERNS;
    if call.lane == Lane::Worker && has_many {
        return Err(Stop::Lane);
    }
    let mut wakes = crate::pubsub::WakeSet::default();
    let count = engine.notices.pubsub.leave(kind, call.args[1], call.args[2], &mut wakes);
    if call.lane == Lane::Worker {
        wakes.remove(usize::from(call.session.place.worker));
    }
    wakes.wake(&*engine.workers);
    call.reply.int(count as i64);
    Ok(())
}

fn subscribe(call: &mut Call<'_, '_>) -> CommandResult {
    enter(call, Kind::Channel)
}

fn psubscribe(call: &mut Call<'_, '_>) -> CommandResult {
    enter(call, Kind::Pattern)
}

fn ssubscribe(call: &mut Call<'_, '_>) -> CommandResult {
    if !call.may_wait {
        let error = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
        return Err(ClientError::text(error).into());
    }
    enter(call, Kind::SlotChannel)
}

fn unsubscribe(call: &mut Call<'_, '_>) -> CommandResult {
    leave(call, Kind::Channel)
}

fn punsubscribe(call: &mut Call<'_, '_>) -> CommandResult {
    leave(call, Kind::Pattern)
}

fn sunsubscribe(call: &mut Call<'_, '_>) -> CommandResult {
    leave(call, Kind::SlotChannel)
}

/// Subscribes to all names among the arguments.
fn enter(call: &mut Call<'_, '_>, kind: Kind) -> CommandResult {
    let word: &[u8] = match kind {
        Kind::Channel => b"subscribe",
        Kind::Pattern => b"psubscribe",
        Kind::SlotChannel => b"ssubscribe",
    };
    for name in &call.args[1..] {
        let is_new = Engine::of(call).notices.pubsub.subscribe(call.session.place, kind, name);
        if is_new {
            count(call.session, kind, name, 1);
        }
        confirm(&mut call.reply, call.session, (kind, word), Some(name));
    }
    Ok(())
}

/// Unsubscribes from all names among the arguments, or from all there are.
fn leave(call: &mut Call<'_, '_>, kind: Kind) -> CommandResult {
    let word: &[u8] = match kind {
        Kind::Channel => b"unsubscribe",
        Kind::Pattern => b"punsubscribe",
        Kind::SlotChannel => b"sunsubscribe",
    };
    let (pubsub, place) = (&Engine::of(call).notices.pubsub, call.session.place);
    if call.args.len() > 1 {
        for name in &call.args[1..] {
            let was_there = Engine::of(call).notices.pubsub.unsubscribe(place, kind, name);
            if was_there {
                count(call.session, kind, name, -1);
            }
            confirm(&mut call.reply, call.session, (kind, word), Some(name));
        }
        return Ok(());
    }
    if call.lane == Lane::Worker && is_long(&call.session.subscriptions) {
        return Err(Stop::Lane);
    }
    let names = pubsub.names(place, kind);
    if names.is_empty() {
        confirm(&mut call.reply, call.session, (kind, word), None);
    }
    for name in names {
        if Engine::of(call).notices.pubsub.unsubscribe(place, kind, name.bytes()) {
            count(call.session, kind, name.bytes(), -1);
        }
        confirm(&mut call.reply, call.session, (kind, word), Some(name.bytes()));
    }
    Ok(())
}

/// Whether ending all of them takes long.
pub fn is_long(subscriptions: &Subscriptions) -> bool {
    let Subscriptions { channels, patterns, slot_channels, .. } = *subscriptions;
    channels.max(patterns).max(slot_channels) > WORKER_SUBSCRIPTIONS
}

/// Counts one subscription more or less.
fn count(session: &mut Session, kind: Kind, name: &[u8], change: i32) {
    let mut now = session.subscriptions;
    let counter = match kind {
        Kind::Channel => &mut now.channels,
        Kind::Pattern => &mut now.patterns,
        Kind::SlotChannel => &mut now.slot_channels,
    };
    *counter = counter.saturating_add_signed(change);
    let bytes = (name.len() + SUBSCRIPTION_BYTES).cast_signed();
    now.bytes = now.bytes.saturating_add_signed(bytes * change as isize);
    session.set_subscriptions(now);
}

/// Writes one confirmation, with the number of subscriptions left: shard channels are counted
/// separately.
fn confirm(
    reply: &mut Reply<'_>,
    session: &Session,
    (kind, word): (Kind, &[u8]),
    name: Option<&[u8]>,
) {
    let now = session.subscriptions;
    let left = match kind {
        Kind::SlotChannel => now.slot_channels,
        Kind::Channel | Kind::Pattern => now.channels + now.patterns,
    };
    reply.push(3);
    reply.bulk(word);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.int(i64::from(left));
}

/// Ends the subscriptions of a session to shard channels whose slot is not at this node any more;
/// what its client is told.
pub fn leave_slots(engine: &Engine, session: &mut Session, slots: &SlotTable) -> Vec<u8> {
    let (pubsub, kind) = (&engine.notices.pubsub, Kind::SlotChannel);
    let mut told = Vec::new();
    for name in pubsub.names(session.place, kind) {
        let is_here = slots.is_local(slot_of(name.bytes()), RoutedCommand::default());
        if !is_here && pubsub.unsubscribe(session.place, kind, name.bytes()) {
            count(session, kind, name.bytes(), -1);
            let mut reply = Reply::new(&mut told, session.version);
            confirm(&mut reply, session, (kind, b"sunsubscribe"), Some(name.bytes()));
        }
    }
    told
}

fn channels(call: &mut Call<'_, '_>) -> CommandResult {
    list(call, Kind::Channel)
}

fn slot_channels(call: &mut Call<'_, '_>) -> CommandResult {
    list(call, Kind::SlotChannel)
}

fn list(call: &mut Call<'_, '_>, kind: Kind) -> CommandResult {
    if call.args.len() > 3 {
        return Err(error::subcommand_syntax("PUBSUB", call.args[1]).into());
    }
    let pubsub = &Engine::of(call).notices.pubsub;
    if call.lane == Lane::Worker && pubsub.count(kind) > WORKER_CHANNELS {
        return Err(Stop::Lane);
    }
    let pattern = call.args.get(2).copied();
    let begin = call.reply.begin();
    let mut count = 0;
    pubsub.each(kind, |name| {
        if pattern.is_none_or(|pattern| glob::matches(pattern, name)) {
            call.reply.bulk(name);
            count += 1;
        }
    });
    call.reply.end_array(begin, count);
    Ok(())
}

fn numpat(call: &mut Call<'_, '_>) -> CommandResult {
    let count = Engine::of(call).notices.pubsub.count(Kind::Pattern);
    call.reply.int(count as i64);
    Ok(())
}

fn numsub(call: &mut Call<'_, '_>) -> CommandResult {
    count_each(call, Kind::Channel)
}

fn slot_numsub(call: &mut Call<'_, '_>) -> CommandResult {
    count_each(call, Kind::SlotChannel)
}

fn count_each(call: &mut Call<'_, '_>, kind: Kind) -> CommandResult {
    let names = &call.args[2..];
    call.reply.array(names.len() * 2);
    for name in names {
        let count = Engine::of(call).notices.pubsub.subscribers(kind, name);
        call.reply.bulk(name);
        call.reply.int(count as i64);
    }
    Ok(())
}
