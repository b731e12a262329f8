//! XREAD and XREADGROUP: the entries after an id in several streams, blocking if need be.
//!
//! Both go over their streams twice: first everything is checked, so that an error changes nothing,
//! then the entries are delivered. When served for a key, they do both for that key, and for others
//! only if their partitions are held anyway.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_keyspace::{Key, OpenKey, event};
use pantala_protocol::{Reply, Version};
use pantala_values::Stream;
use pantala_values::stream::{ConsumerNumber, Entries, Group, ID_TEXT_MAX_BYTES, StreamId};
use smallvec::SmallVec;

use super::options::{id, int};
use super::recorded::{Deliveries, Delivery};
use super::{WORKER_ENTRIES, leave_if_long, no_group, reply_entry, reply_id};
use crate::calls::call::{Call, CommandResult, KeyWait, Stop, TimeoutReply, WaitedKeys};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{
    Command, Find, Flags, Group as Chapter, KeyFlags, KeySpec, KeySpecStart,
};
use crate::rows::keys::streams_begin;

const fn streams_from(at: isize) -> KeySpec {
    KeySpec {
        begin: KeySpecStart::Keyword("STREAMS", at),
        find: Find::Streams,
        flags: KeyFlags::READ,
    }
}

pub(super) const XREAD: Command = Command::read("XREAD", xread, Chapter::Stream)
    .arity(-4)
    .flags(Flags::BLOCKING.union(Flags::MOVABLEKEYS))
    .keys(&[streams_from(1)])
    .since("5.0.0")
    .complexity("O(N) for N entries returned")
    .syntax(
        "[COUNT count:int] [BLOCK milliseconds:int] STREAMS (streams: key [key ...] id [id ...])",
    )
    .summary("Returns the entries of several streams after given ids, or waits for some.");

pub(super) const XREADGROUP: Command = Command::write("XREADGROUP", xreadgroup, Chapter::Stream)
    .arity(-7)
    .flags(Flags::BLOCKING.union(Flags::MOVABLEKEYS))
    .keys(&[streams_from(4)])
    .since("5.0.0")
    .complexity("O(M log N) for M entries delivered of N that are pending")
    .syntax(
        "GROUP (group-block: group consumer) [COUNT count:int] [BLOCK milliseconds:int] [NOACK] \
         STREAMS (streams: key [key ...] id [id ...])",
    )
    .summary("Delivers new entries of several streams to a consumer, or tells it what is pending.");

const NOT_XREADGROUP_GROUP: ClientError = ClientError::text(
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
);
const NOT_XREADGROUP_NOACK: ClientError = ClientError::text(
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
);
const NO_GROUP_OPTION: ClientError = ClientError::text("ERR Missing GROUP option for XREADGROUP");
const DOLLAR_IN_GROUP: ClientError = ClientError::text(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of \
     this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would \
     just return an empty result set.",
);
const PLUS_IN_GROUP: ClientError = ClientError::text(
    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of \
     this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would \
     just return an empty result set.",
);
const NEW_WITHOUT_GROUP: ClientError = ClientError::text(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
     <consumer> option.",
);

fn xread(call: &mut Call<'_, '_>) -> CommandResult {
    let request = Request::parse(call.args, false)?;
    read(call, &request)
}

fn xreadgroup(call: &mut Call<'_, '_>) -> CommandResult {
    let request = Request::parse(call.args, true)?;
    read(call, &request)
}

/// The options of XREAD and XREADGROUP.
struct Request<'a> {
    /// Milliseconds to block; 0: for ever; `None`: not at all.
    block_ms: Option<i64>,
    /// The most entries of each stream.
    count: usize,
    /// Delivered entries count as acknowledged.
    no_ack: bool,
    /// Group and consumer, for XREADGROUP.
    group: Option<(&'a [u8], &'a [u8])>,
    /// The position of the first stream's key.
    first: usize,
    /// The number of streams.
    streams: usize,
}

/// The position from which a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Not at all: the client is served for another stream.
    Nowhere,
    /// After this id; in a group: pending entries.
    Behind(StreamId),
    /// Entries that the group has not read.
    New,
}

impl<'a> Request<'a> {
    fn parse(args: &[&'a [u8]], has_group: bool) -> Result<Request<'a>, ClientError> {
        let mut request = Request {
            block_ms: None,
            count: usize::MAX,
            no_ack: false,
            group: None,
            first: 0,
            streams: 0,
        };
        let begin = streams_begin(args);
        let mut at = 1;
        while at < args.len() {
            let (word, more) = (args[at], args.len() - at - 1);
            if more > 0 && is_word(word, "STREAMS") {
                request.first = begin.unwrap_or(at + 1);
                break;
            }
            at += 1 + request.option(args, at, more, has_group, word)?;
        }
        let left = args.len() - request.first;
        match request.first {
            0 => return Err(error::SYNTAX),
            _ if !left.is_multiple_of(2) => return Err(unbalanced(has_group)),
            _ if has_group && request.group.is_none() => return Err(NO_GROUP_OPTION),
            _ => request.streams = left / 2,
        }
        Ok(request)
    }

    /// Parses the option at `at`; returns how many arguments it has.
    fn option(
        &mut self,
        args: &[&'a [u8]],
        at: usize,
        more: usize,
        has_group: bool,
        word: &[u8],
    ) -> Result<usize, ClientError> {
        if more > 0 && is_word(word, "BLOCK") {
            let block_ms = parse_i64(args[at + 1]).ok_or(error::TIMEOUT_NOT_INTEGER)?;
            if block_ms < 0 {
                return Err(error::TIMEOUT_NEGATIVE);
            }
            self.block_ms = Some(block_ms);
            Ok(1)
        } else if more > 0 && is_word(word, "COUNT") {
            let count = int(args[at + 1])?;
            self.count = if count <= 0 { usize::MAX } else { count as usize };
            Ok(1)
        } else if more > 1 && is_word(word, "GROUP") {
            if !has_group {
                return Err(NOT_XREADGROUP_GROUP);
            }
            self.group = Some((args[at + 1], args[at + 2]));
            Ok(2)
        } else if is_word(word, "NOACK") {
            if !has_group {
                return Err(NOT_XREADGROUP_NOACK);
            }
            self.no_ack = true;
            Ok(0)
        } else {
            Err(error::SYNTAX)
        }
    }
}

impl Request<'_> {
    /// Whether the number of entries is worth checking.
    fn may_be_long(&self) -> bool {
        self.count as u64 > WORKER_ENTRIES
    }
}

fn unbalanced(has_group: bool) -> ClientError {
    ClientError::text(match has_group {
        false => {
            "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be \
             specified."
        }
        true => {
            "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must \
             be specified."
        }
    })
}

fn read(call: &mut Call<'_, '_>, request: &Request<'_>) -> CommandResult {
    let until = match request.block_ms {
        None | Some(0) => None,
        Some(ms) => {
            Some(UnixMs(ms.checked_add(call.clock().0).ok_or(error::TIMEOUT_OUT_OF_RANGE)?))
        }
    };
    let mut positions = SmallVec::<[Position; 4]>::new();
    for nth in 0..request.streams {
        positions.push(position(call, request, nth)?);
    }
    let mark = call.reply.begin();
    let mut served = 0;
    for (nth, position) in positions.iter().enumerate() {
        let is_served = match (request.group, *position) {
            (_, Position::Nowhere) => false,
            (Some(group), position) => serve_group(call, request, nth, group, position)?,
            (None, position) => serve(call, request, nth, position)?,
        };
        served += usize::from(is_served);
    }
    if served > 0 {
        match call.reply.version() {
            Version::Resp2 => call.reply.end_array(mark, served),
            Version::Resp3 => call.reply.end_map(mark, served),
        }
        return Ok(());
    }
    if request.block_ms.is_none() {
        call.reply.null_array();
        return Ok(());
    }
    let args = with_ids_of_now(call, request, &positions);
    call.wait(KeyWait { until, keys: WaitedKeys::All, at_timeout: TimeoutReply::NullArray, args })
}

/// The arguments with the present ids in place of `$`; `None` if there is no `$`.
fn with_ids_of_now(
    call: &Call<'_, '_>,
    request: &Request<'_>,
    positions: &[Position],
) -> Option<Vec<Vec<u8>>> {
    let ids = &call.args[request.first + request.streams..];
    if !call.may_wait || !ids.contains(&&b"$"[..]) {
        return None;
    }
    let mut args: Vec<Vec<u8>> = call.args.iter().map(|arg| arg.to_vec()).collect();
    for (nth, position) in positions.iter().enumerate() {
        if let (b"$", Position::Behind(id)) = (ids[nth], *position) {
            let text = id.write(&mut [0; ID_TEXT_MAX_BYTES]).to_vec();
            args[request.first + request.streams + nth] = text;
        }
    }
    Some(args)
}

/// The key of a stream. A client that is served for one key gets entries of others only if they are
/// held anyway: the same transaction may have changed them.
fn stream_key<'c>(call: &Call<'c, '_>, request: &Request<'_>, nth: usize) -> Option<Key<'c>> {
    let bytes = call.args[request.first + nth];
    match call.ready {
        None => Some(Key { bytes, hash: *call.hashes.get(nth)? }),
        Some(ready) if ready.bytes == bytes => Some(ready),
        Some(_) => {
            let hash = call.space().hash(bytes);
            call.keys.is_held(hash).then_some(Key { bytes, hash })
        }
    }
}

/// Checks a stream without changing anything; returns the position to read from.
fn position(call: &mut Call<'_, '_>, request: &Request<'_>, nth: usize) -> Result<Position, Stop> {
    let Some(key) = stream_key(call, request, nth) else { return Ok(Position::Nowhere) };
    let is_woken = call.ready.is_some();
    let opened = call.keys.read(key);
    let stream = match opened.collection::<Stream>() {
        // It waits for a stream, even if the key has another type meanwhile.
        Err(_) if is_woken && request.group.is_none() => return Ok(Position::Nowhere),
        stream => stream?,
    };
    let word = call.args[request.first + request.streams + nth];
    let Some((group_name, _)) = request.group else {
        let position = position_without_group(stream, word)?;
        if request.may_be_long()
            && let (Some(stream), Position::Behind(id)) = (stream, position)
        {
            let cost = stream.count_about(id, StreamId::MAX).min(request.count as u64);
            leave_if_long(call.lane, cost)?;
        }
        return Ok(position);
    };
    let group = stream.and_then(|stream| stream.group(group_name));
    let (Some(stream), Some(group)) = (stream, group) else {
        let pieces: [&[u8]; 5] = [
            b"No such key '",
            key.bytes,
            b"' or consumer group '",
            group_name,
            b"' in XREADGROUP with GROUP option",
        ];
        return Err(no_group(&pieces).into());
    };
    let position = match word {
        b"$" => return Err(DOLLAR_IN_GROUP.into()),
        b"+" => return Err(PLUS_IN_GROUP.into()),
        b">" => Position::New,
        word => match id(word)? {
            // In the reference this id stands for `>`.
            StreamId::MAX => Position::New,
            id => Position::Behind(id),
        },
    };
    if request.may_be_long() {
        leave_if_long(call.lane, cost_in_group(stream, group, request, position))?;
    }
    Ok(position)
}

fn position_without_group(stream: Option<&Stream>, word: &[u8]) -> Result<Position, ClientError> {
    let last = stream.map_or(StreamId::MIN, Stream::last_id);
    match word {
        b"$" => Ok(Position::Behind(last)),
        // Only the entry with the last id: nothing, if that was deleted.
        b"+" => Ok(Position::Behind(last.previous().unwrap_or_default())),
        b">" => Err(NEW_WITHOUT_GROUP),
        word => Ok(Position::Behind(id(word)?)),
    }
}

fn cost_in_group(stream: &Stream, group: &Group, request: &Request<'_>, at: Position) -> u64 {
    let cost = match (at, request.group.and_then(|(_, name)| group.find_consumer(name))) {
        (Position::New, _) => stream.count_about(group.last_id, StreamId::MAX),
        (_, Some(number)) => group.consumer(number).map_or(0, |it| it.pending_count() as u64),
        (_, None) => 0,
    };
    cost.min(request.count as u64)
}

/// Writes the name of a stream before its entries.
#[inline]
fn reply_name(call: &mut Call<'_, '_>, key: Key<'_>) {
    if call.reply.version() == Version::Resp2 {
        call.reply.array(2);
    }
    call.reply.bulk(key.bytes);
}

fn serve(
    call: &mut Call<'_, '_>,
    request: &Request<'_>,
    nth: usize,
    position: Position,
) -> Result<bool, Stop> {
    let Some(key) = stream_key(call, request, nth) else { return Ok(false) };
    let before = call.reply.len();
    reply_name(call, key);
    // The reference looks twice, and so counts and publishes twice.
    let opened = call.keys.read(key);
    let stream = opened.collection::<Stream>()?;
    let start = match position {
        Position::Behind(id) => id.next(),
        Position::Nowhere | Position::New => None,
    };
    let start = start.filter(|start| stream.is_some_and(|stream| *start <= stream.last_id()));
    let mark = call.reply.begin();
    let mut count = 0;
    if let (Some(stream), Some(start)) = (stream, start) {
        for entry in stream.range(start, StreamId::MAX).take(request.count) {
            reply_entry(&mut call.reply, &entry);
            count += 1;
        }
    }
    match count {
        0 => call.reply.truncate(before),
        _ => call.reply.end_array(mark, count),
    }
    Ok(count > 0)
}

/// The reading of one stream by one consumer.
struct GroupRead<'r> {
    group: &'r mut Group,
    entries: Entries<'r>,
    consumer: ConsumerNumber,
    most: usize,
    no_ack: bool,
    now: UnixMs,
    /// The deliveries to be recorded, if changes are recorded.
    told: Option<Vec<Delivery>>,
}

fn serve_group(
    call: &mut Call<'_, '_>,
    request: &Request<'_>,
    nth: usize,
    (group_name, consumer_name): (&[u8], &[u8]),
    position: Position,
) -> Result<bool, Stop> {
    let Some(key) = stream_key(call, request, nth) else { return Ok(false) };
    let (now, is_recorded) = (call.clock(), call.is_recorded());
    let before = call.reply.len();
    reply_name(call, key);
    let mut opened = call.keys.peek(key);
    let parts = opened.collection_mut::<Stream>()?;
    let Some((group, entries)) = parts.and_then(|stream| stream.group_and_entries(group_name))
    else {
        opened.unchanged();
        return Ok(false);
    };
    let group_before = (group.last_id, group.entries_read);
    let (consumer, is_new) = group.consumer_or_new(consumer_name, now);
    if let Some(consumer) = group.consumer_mut(consumer) {
        consumer.seen_at = now;
    }
    let (most, no_ack) = (request.count, request.no_ack);
    let told = is_recorded.then(Vec::new);
    let mut reading = GroupRead { group, entries, consumer, most, no_ack, now, told };
    let is_served = match position {
        Position::Behind(id) => {
            reading.reply_pending(&mut call.reply, id);
            true
        }
        _ => reading.deliver_new(&mut call.reply),
    };
    let GroupRead { group, told, .. } = reading;
    let deliveries = told.map(|list| {
        let mut deliveries = Deliveries { list, ..Deliveries::default() };
        deliveries.note(group, group_before, is_new);
        deliveries
    });
    settle(&mut opened, is_new);
    drop(opened);
    if let Some(deliveries) = deliveries {
        deliveries.record(call, key.bytes, group_name, consumer_name);
    }
    if !is_served {
        call.reply.truncate(before);
    }
    Ok(is_served)
}

/// Ends a change by a consumer that may be new.
pub(super) fn settle(opened: &mut OpenKey<'_, '_>, is_new_consumer: bool) {
    opened.publish_silently();
    if is_new_consumer {
        opened.announce(event::XGROUP_CREATECONSUMER);
    }
}

impl GroupRead<'_> {
    /// Delivers entries that the group has not read; whether there were any.
    fn deliver_new(&mut self, reply: &mut Reply<'_>) -> bool {
        if self.entries.are_read_up_to(self.group.last_id) {
            return false;
        }
        let Some(start) = self.group.last_id.next() else { return false };
        let mark = reply.begin();
        let mut count = 0;
        for entry in self.entries.from(start).take(self.most) {
            reply_entry(reply, &entry);
            self.entries.advance(self.group, entry.id);
            if !self.no_ack {
                self.group.deliver(entry.id, self.consumer, self.now);
                if let Some(told) = &mut self.told {
                    told.push(Delivery { id: entry.id, at: self.now, count: 1 });
                }
            }
            count += 1;
        }
        if count == 0 {
            return false;
        }
        reply.end_array(mark, count);
        if !self.no_ack
            && let Some(consumer) = self.group.consumer_mut(self.consumer)
        {
            consumer.active_at = Some(self.now);
        }
        true
    }

    /// Returns the consumer's pending entries after an id. Deleted entries have no fields.
    fn reply_pending(&mut self, reply: &mut Reply<'_>, behind: StreamId) {
        let consumer = self.group.consumer(self.consumer);
        let ids: Vec<StreamId> = match (consumer, behind.next()) {
            (Some(consumer), Some(start)) => consumer.pending_from(start).take(self.most).collect(),
            _ => Vec::new(),
        };
        reply.array(ids.len());
        for id in ids {
            match self.entries.get(id) {
                Some(entry) => {
                    reply_entry(reply, &entry);
                    self.group.redeliver(id, self.now);
                    if let (Some(told), Some(pending)) =
                        (&mut self.told, self.group.pending().get(id))
                    {
                        told.push(Delivery { id, at: self.now, count: pending.count });
                    }
                }
                None => {
                    reply.array(2);
                    reply_id(reply, id);
                    reply.null_array();
                }
            }
        }
    }
}
