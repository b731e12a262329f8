//! DUMP and RESTORE: a value as bytes that other servers understand.

use pantala_base::UnixMs;
use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_i64, parse_i64};
use pantala_keyspace::{OpenKey, Scope, event};
use pantala_rdb::payload::Payload;
use pantala_rdb::{
    Malformed, RdbKind, RdbLimits, RdbValue, Strings, Writing, payload, write_flags,
};
use pantala_settings::Settings;
use pantala_table::{IntText, MAX_STRING_BYTES, OwnedRecord, RecordPlace, Table, Tail};
use pantala_values::Object;

use crate::calls::call::{Call, CommandResult, Lane, Stop, list_fill};
use crate::calls::record::Known;
use crate::error::{self, ClientError};
use crate::families::{hash, set, stream, zset};
use crate::long_work::incremental::GatherState;
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

/// Serialising a value of more bytes than this is for the slow lane: it takes some 500
/// microseconds.
const WORKER_DUMP_BYTES: usize = 1 << 20;
/// How many bytes of a larger value are written in one step.
const PART_BYTES: usize = 64 << 10;
/// Reading a payload of more bytes than this is for the slow lane: it may be compressed, and is
/// checked closely.
const WORKER_RESTORE_BYTES: usize = 64 << 10;

const BAD_TTL: ClientError = ClientError::text("ERR Invalid TTL value, must be >= 0");
const BAD_IDLE_TIME: ClientError = ClientError::text("ERR Invalid IDLETIME value, must be >= 0");
const BAD_FREQUENCY: ClientError =
    ClientError::text("ERR Invalid FREQ value, must be >= 0 and <= 255");
const BAD_PAYLOAD: ClientError =
    ClientError::text("ERR DUMP payload version or checksum are wrong");
const FOREIGN_HASH: ClientError = ClientError::text("ERR Unsupported foreign data type: 22");
const BAD_DATA: ClientError = ClientError::text("ERR Bad data format");

pub(super) const DUMP: Command = Command::read("DUMP", dump, Group::Generic)
    .arity(2)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .tips(&["nondeterministic_output"])
    .since("2.6.0")
    .complexity("O(N) for N bytes of the value")
    .syntax("key")
    .summary("Returns a key's value as bytes for RESTORE.");

pub(super) const RESTORE: Command =
    restore_row("RESTORE").since("2.6.0").summary("Creates a key from what DUMP returned.");

pub(super) const RESTORE_ASKING: Command = restore_row("RESTORE-ASKING")
    .flags(Flags::ASKING)
    .since("3.0.0")
    .summary("The same as RESTORE; in a cluster also on a slot that is being imported.");

const fn restore_row(name: &'static str) -> Command {
    Command::write(name, restore, Group::Generic)
        .replaces()
        .arity(-4)
        .flags(Flags::DENYOOM)
        .keys(const { &[KeySpec::one(1, KeyFlags::OVERWRITE)] })
        .categories(&[crate::Category::Keyspace, crate::Category::Dangerous])
        .complexity("O(N) for N bytes of the value, O(N log N) for sorted sets")
        .syntax(
            "key ttl:int serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds:int] \
            [FREQ frequency:int]",
        )
}

fn dump(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    if call.lane == Lane::Worker && is_large(&call.keys.peek(key)) {
        return Err(Stop::Lane);
    }
    let now = call.now();
    let opened = call.keys.read(key);
    if is_large(&opened) {
        drop(opened);
        return dump_in_parts(call);
    }
    let Some((table, place)) = opened.record() else {
        call.reply.null();
        return Ok(());
    };
    let mut bytes = Vec::new();
    payload::write(&table.value(place), table.tail(place).flags, now, &mut bytes);
    call.reply.bulk(&bytes);
    Ok(())
}

/// The payload of a large value, in pieces, so that nothing is moved to make room.
pub(super) struct DumpProgress {
    writing: Writing,
    pieces: Vec<Vec<u8>>,
}

impl DumpProgress {
    /// Begins with the record at this place.
    pub(super) fn begin(table: &Table<Object>, place: RecordPlace, now: UnixMs) -> DumpProgress {
        let writing = Writing::begin(&table.value(place), now, Strings::Plain);
        let mut head = Vec::new();
        write_flags(table.tail(place).flags, &mut head);
        head.push(writing.kind().0);
        DumpProgress { pieces: vec![head], writing }
    }

    /// Writes a part of the record, which has not changed; whether it was the last.
    pub(super) fn go_on(&mut self, table: &Table<Object>, place: RecordPlace) -> bool {
        let mut piece = Vec::with_capacity(PART_BYTES + PART_BYTES / 8);
        let is_last = self.writing.go_on(&table.value(place), PART_BYTES, &mut piece);
        self.pieces.push(piece);
        is_last
    }

    /// The complete payload.
    pub(super) fn end(self) -> Vec<Vec<u8>> {
        let DumpProgress { writing, mut pieces } = self;
        let footer = payload::footer(writing.kind(), pieces.iter().map(Vec::as_slice));
        pieces.push(footer.to_vec());
        pieces
    }
}

/// Frees the partition between two parts, and while the checksum is computed.
fn dump_in_parts(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now) = (call.key(), call.now());
    call.gather(
        &[key],
        |call| {
            let opened = call.keys.peek(key);
            Ok(opened.record().map(|(table, place)| DumpProgress::begin(table, place, now)))
        },
        |call, dumping, _| {
            let opened = call.keys.peek(key);
            let (Some(dumping), Some((table, place))) = (dumping, opened.record()) else {
                return Ok(GatherState::Whole);
            };
            Ok(GatherState::whole_if(dumping.go_on(table, place)))
        },
        |reply, dumping| match dumping {
            Some(dumping) => {
                let pieces = dumping.end();
                reply.bulk_of(pieces.iter().map(Vec::as_slice));
            }
            None => reply.null(),
        },
    )
}

pub(super) fn is_large(opened: &OpenKey<'_, '_>) -> bool {
    opened.record().is_some_and(|(table, place)| table.record_bytes(place) > WORKER_DUMP_BYTES)
}

#[derive(Default)]
struct Options {
    replaces: bool,
    is_absolute: bool,
    /// The initial hotness of the key; `None`: that of any new key.
    heat: Option<AccessHint>,
}

/// How the hotness of a key is given.
enum AccessHint {
    /// It was not used for this many seconds.
    Idle(i64),
    /// It has this access frequency.
    Frequency(i64),
}

impl AccessHint {
    fn hotness(&self, scope: &Scope<'_>) -> u8 {
        match *self {
            AccessHint::Idle(seconds) => {
                scope.space.hotness_of_idle(seconds.saturating_mul(1_000), scope.now)
            }
            AccessHint::Frequency(frequency) => hotness_of_frequency(frequency),
        }
    }
}

/// Two bits for what Redis counts in eight, logarithmically: a new key there has 5.
fn hotness_of_frequency(frequency: i64) -> u8 {
    match frequency {
        ..=5 => 0,
        6..=9 => 1,
        10..=19 => 2,
        20.. => 3,
    }
}

/// Parses the words after the payload.
fn parse_options(words: &[&[u8]]) -> Result<Options, ClientError> {
    let mut options = Options::default();
    let (mut has_idle_time, mut has_frequency) = (false, false);
    let mut rest = words;
    while let [word, behind @ ..] = rest {
        rest = behind;
        match (word, behind) {
            (word, _) if is_word(word, "REPLACE") => options.replaces = true,
            (word, _) if is_word(word, "ABSTTL") => options.is_absolute = true,
            (word, [seconds, behind @ ..]) if is_word(word, "IDLETIME") && !has_frequency => {
                let seconds = parse_i64(seconds).ok_or(error::NOT_INTEGER)?;
                if seconds < 0 {
                    return Err(BAD_IDLE_TIME);
                }
                options.heat = Some(AccessHint::Idle(seconds));
                (has_idle_time, rest) = (true, behind);
            }
            (word, [frequency, behind @ ..]) if is_word(word, "FREQ") && !has_idle_time => {
                let frequency = parse_i64(frequency).ok_or(error::NOT_INTEGER)?;
                if !(0..=255).contains(&frequency) {
                    return Err(BAD_FREQUENCY);
                }
                options.heat = Some(AccessHint::Frequency(frequency));
                (has_frequency, rest) = (true, behind);
            }
            _ => return Err(error::SYNTAX),
        }
    }
    Ok(options)
}

fn restore(call: &mut Call<'_, '_>) -> CommandResult {
    let options = parse_options(&call.args[4..])?;
    if call.lane == Lane::Worker && call.args[3].len() > WORKER_RESTORE_BYTES {
        return Err(Stop::Lane);
    }
    // Errors come in the reference's order: the key is checked first.
    check_free(call, &options)?;
    let ttl = parse_i64(call.args[2]).ok_or(error::NOT_INTEGER)?;
    let deadline = deadline(ttl, options.is_absolute, call.clock())?;
    let (payload, versions, limits) = (call.args[3], call.rdb_versions(), limits(call));
    let (name, is_recorded) = (call.args[1], call.is_recorded());
    let (record, told) = call.meanwhile(|| {
        let payload = payload::open(payload, versions).ok_or(BAD_PAYLOAD)?;
        if payload.foreign_kind() == Some(RdbKind::HASH_2) {
            return Err(FOREIGN_HASH);
        }
        let value = payload::read(&payload, &limits).map_err(|why| refused(&payload, why))?;
        let record = record_of(name, value, deadline, payload.beside.flags);
        let told =
            (is_recorded && !payload.is_for_all()).then(|| PortablePayload::of(&payload, &record));
        Ok((record, told))
    })??;
    // The key may have been created meanwhile.
    check_free(call, &options)?;
    let mut opened = call.keys.open(call.nth_key(1, 0));
    if deadline.is_some_and(|deadline| opened.scope().has_passed(deadline)) {
        let was_there = opened.remove();
        if was_there {
            opened.publish(event::DEL);
        }
        drop(opened);
        if was_there && call.is_recorded() {
            call.record_end(name);
        }
    } else {
        // The old value is removed first: the key is a new one.
        opened.remove();
        opened.put(record);
        if let Some(heat) = options.heat {
            let hotness = heat.hotness(opened.scope());
            opened.set_hotness(hotness);
        }
        opened.publish(event::RESTORE);
        drop(opened);
        // With a time of day it is recorded as it came.
        let is_relative = deadline.is_some() && !options.is_absolute;
        if call.is_recorded() && (is_relative || told.is_some()) {
            record_restored(call, deadline, told.as_ref());
        }
    }
    call.reply.ok();
    Ok(())
}

/// The client's error. The reason goes to the log, as in Redis and Valkey.
#[cold]
fn refused(payload: &Payload<'_>, why: Malformed) -> ClientError {
    match payload.kind().and_then(RdbKind::packed) {
        Some(form) => tracing::debug!(
            "Internal error in RDB reading of RESTORE -> {form} integrity check failed: {why}"
        ),
        None => tracing::debug!("Internal error in RDB reading of RESTORE -> {why}"),
    }
    BAD_DATA
}

/// A payload that not all servers read, in a form that they do.
struct PortablePayload {
    payload: Vec<u8>,
    /// Which servers have what this form lacks.
    rest: Option<Known>,
}

impl PortablePayload {
    fn of(payload: &Payload<'_>, record: &OwnedRecord<Object>) -> PortablePayload {
        let mut old = Vec::new();
        let (from, to) = payload::write_old(&record.value(), &mut old);
        let rest = match from {
            _ if payload.beside.flags != 0 => Some(Known::ToOurs),
            RdbKind::HASH_2 | RdbKind::STREAM_3 => Some(Known::ToSome),
            from => (from != to).then_some(Known::ToOurs),
        };
        PortablePayload { payload: old, rest }
    }
}

/// Records the key as it is now: in a form that all servers read, and in the special form as it
/// came.
#[inline(never)]
fn record_restored(call: &Call<'_, '_>, deadline: Option<UnixMs>, told: Option<&PortablePayload>) {
    let (name, payload) = (call.args[1], call.args[3]);
    let digits = &mut [0; I64_TEXT_MAX_BYTES];
    let moment = fmt_i64(deadline.map_or(0, |deadline| deadline.0), digits);
    let words = |payload| [b"RESTORE", name, moment, payload, b"REPLACE", b"ABSTTL"];
    call.record_as(&words(told.map_or(payload, |told| &told.payload)));
    if let Some(known) = told.and_then(|told| told.rest) {
        call.record_aside(known, name, &words(payload));
    }
}

fn check_free(call: &mut Call<'_, '_>, options: &Options) -> CommandResult {
    match !options.replaces && call.keys.open(call.nth_key(1, 0)).exists() {
        true => Err(error::BUSY_KEY.into()),
        false => Ok(()),
    }
}

/// Zero means none. As in the reference, a time beyond the representable range has passed.
fn deadline(ttl: i64, is_absolute: bool, now: UnixMs) -> Result<Option<UnixMs>, ClientError> {
    match ttl {
        ..0 => Err(BAD_TTL),
        0 => Ok(None),
        moment if is_absolute => Ok(Some(UnixMs(moment))),
        milliseconds => Ok(Some(UnixMs(now.0.wrapping_add(milliseconds)))),
    }
}

/// Built with the partition free: a long string is copied.
fn record_of(
    name: &[u8],
    value: RdbValue<'_>,
    deadline: Option<UnixMs>,
    flags: u32,
) -> OwnedRecord<Object> {
    match value {
        RdbValue::String(text) => {
            let (scratch, tail) = (&mut IntText::new(), Tail::of_flags(flags));
            OwnedRecord::new_string_with_tail(name, text.bytes(scratch), deadline, tail)
        }
        RdbValue::Object(object) => OwnedRecord::new_object(name, object, deadline),
    }
}

/// The limits of a value from a client.
fn limits(call: &Call<'_, '_>) -> RdbLimits {
    RdbLimits { text_bytes: call.most_string_bytes(), ..rdb_limits(call.settings) }
}

/// The settings for the encodings of a value that is read, without a limit on its size.
pub fn rdb_limits(settings: &Settings) -> RdbLimits {
    RdbLimits {
        text_bytes: MAX_STRING_BYTES,
        hash: hash::limits(settings),
        list: list_fill(settings),
        set: set::limits(settings),
        sorted_set: zset::limits(settings),
        stream: stream::limits(settings),
    }
}
