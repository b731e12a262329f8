//! BITOP: several strings combined into one.
//!
//! The work is done stretch by stretch: a stretch of every source is folded into a short buffer,
//! which is then written into the destination in place. So nothing of the sources' size is
//! allocated, and a destination that is also a source is read before it is overwritten.
//!
//! If the partitions may be released meanwhile, long strings are folded into a new string instead,
//! some stretches at a time (`long_work/incremental.rs`). That string then replaces the
//! destination.

use pantala_keyspace::{Expiry, Key, SuspendedChange, event};
use pantala_table::{IntText, OwnedRecord};
use pantala_values::Type;
use pantala_values::bits::{BitOp, Fold};
use smallvec::SmallVec;

use super::{STEP_BYTES, check_lane};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::long_work::incremental::GatherState;
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const BITOP: Command = Command::write("BITOP", bitop, Group::Bitmap)
    .arity(-4)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::one(2, KeyFlags::OVERWRITE), KeySpec::range(3, -1, 1, KeyFlags::READ)])
    .since("2.6.0")
    .complexity("O(N) for N bytes of all sources together")
    .syntax(
        "(operation: AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE) destkey:key key [key ...]",
    )
    .summary("Combines strings bit by bit and stores what comes out.");

/// The bytes of a stretch: two of them fit the first-level cache beside those of the sources.
const STRETCH_BYTES: usize = 8 << 10;

/// A buffer that is on the stack up to this size.
type Buffer = SmallVec<[u8; 256]>;

const OPERATIONS: [(&str, BitOp); 8] = [
    ("AND", BitOp::And),
    ("OR", BitOp::Or),
    ("XOR", BitOp::Xor),
    ("NOT", BitOp::Not),
    ("DIFF", BitOp::Diff),
    ("DIFF1", BitOp::Diff1),
    ("ANDOR", BitOp::AndOr),
    ("ONE", BitOp::One),
];

fn operation(word: &[u8], source_count: usize) -> Result<BitOp, ClientError> {
    let found = OPERATIONS.iter().find(|(name, _)| is_word(word, name));
    let &(name, op) = found.ok_or(error::SYNTAX)?;
    match op {
        BitOp::Not if source_count != 1 => Err(error::BITOP_NOT_ONE_SOURCE),
        BitOp::Diff | BitOp::Diff1 | BitOp::AndOr if source_count < 2 => Err(ClientError::new(
            format!("ERR BITOP {name} must be called with at least two source keys."),
        )),
        _ => Ok(op),
    }
}

fn bitop(call: &mut Call<'_, '_>) -> CommandResult {
    let op = operation(call.args[1], call.args.len() - 3)?;
    let keys = call.all_keys();
    let (target, sources) = (keys[0], &keys[1..]);
    let mut lengths: SmallVec<[usize; 8]> = SmallVec::new();
    for source in sources {
        lengths.push(call.keys.read(*source).string()?.map_or(0, |value| value.len()));
    }
    check_lane(call.lane, lengths.iter().sum())?;
    let length = lengths.iter().copied().max().unwrap_or(0);
    if length == 0 {
        let mut opened = call.keys.open(target);
        if opened.remove() {
            opened.publish(event::DEL);
        }
        drop(opened);
        record_result(call, op, target);
    } else if lengths.iter().sum::<usize>() > STEP_BYTES && call.may_pause() {
        return fold_aside(call, op, target, sources);
    } else {
        let unfinished = make_room(call, target, length);
        let unfinished = fold(call, unfinished, op, target, sources, &lengths);
        call.keys.resume(unfinished, target).publish(event::SET);
        record_result(call, op, target);
    }
    call.reply.int(length as i64);
    Ok(())
}

/// A new string that is built with the partitions free in between.
struct BitopFold {
    lengths: SmallVec<[usize; 8]>,
    length: usize,
    folded: Vec<u8>,
}

fn fold_aside(
    call: &mut Call<'_, '_>,
    op: BitOp,
    target: Key<'_>,
    sources: &[Key<'_>],
) -> CommandResult {
    let (record, length) = call.gather(
        sources,
        |call| {
            let mut lengths = SmallVec::new();
            for source in sources {
                lengths.push(call.keys.peek(*source).string()?.map_or(0, |value| value.len()));
            }
            let length = lengths.iter().copied().max().unwrap_or(0);
            Ok(BitopFold { lengths, length, folded: Vec::with_capacity(length) })
        },
        |call, BitopFold { lengths, length, folded }, _| {
            let mut buffers = (vec![0; STRETCH_BYTES], vec![0; STRETCH_BYTES]);
            let mut left = STEP_BYTES;
            while left > 0 && folded.len() < *length {
                let (at, stretch) = (folded.len(), STRETCH_BYTES.min(*length - folded.len()));
                let (out, scratch) = (&mut buffers.0[..stretch], &mut buffers.1[..stretch]);
                let done = fold_stretch(call, op, (sources, lengths), at, (out, scratch));
                folded.extend_from_slice(done);
                left = left.saturating_sub(STRETCH_BYTES * sources.len());
            }
            Ok(GatherState::whole_if(folded.len() == *length))
        },
        |_, BitopFold { folded, .. }| {
            (OwnedRecord::new_string(target.bytes, &folded, None), folded.len())
        },
    )?;
    let mut opened = call.keys.open(target);
    let was_there = opened.remove();
    if length > 0 {
        opened.put(record);
        opened.publish(event::SET);
    } else if was_there {
        opened.publish(event::DEL);
    }
    drop(opened);
    record_result(call, op, target);
    call.reply.int(length as i64);
    Ok(())
}

/// Records the result of an operation that Redis 7.0 and Valkey do not know. Operations that they
/// know are recorded as they came: that may be much shorter than the result.
fn record_result(call: &mut Call<'_, '_>, op: BitOp, target: Key<'_>) {
    let is_known = matches!(op, BitOp::And | BitOp::Or | BitOp::Xor | BitOp::Not);
    if is_known || !call.is_recorded() {
        return;
    }
    let opened = call.keys.peek(target);
    let (mut scratch, recorder) = (IntText::new(), opened.scope().recorder);
    let db = opened.scope().db.0;
    let Some(recorder) = recorder else { return };
    match opened.string() {
        Ok(Some(value)) => recorder.record(db, &[b"SET", target.bytes, value.bytes(&mut scratch)]),
        _ => recorder.record(db, &[b"DEL", target.bytes]),
    }
}

/// Folds a stretch of the sources, which begins at `at` and has the length of both buffers.
fn fold_stretch<'b>(
    call: &mut Call<'_, '_>,
    op: BitOp,
    (sources, ends): (&[Key<'_>], &[usize]),
    at: usize,
    (out, scratch): (&'b mut [u8], &'b mut [u8]),
) -> &'b [u8] {
    let stretch = out.len();
    let mut fold = Fold::new(op, out, scratch);
    for (source, end) in sources.iter().zip(ends) {
        if *end <= at {
            fold.add(&[]);
            continue;
        }
        let opened = call.keys.peek(*source);
        let mut scratch = IntText::new();
        if let Ok(Some(value)) = opened.string() {
            fold.add(&value.bytes(&mut scratch)[at..(*end).min(at + stretch)]);
        }
    }
    fold.finish()
}

/// Makes the destination a string of this length. Its old contents stay at the front: it may be a
/// source, which is then no longer than that.
fn make_room(call: &mut Call<'_, '_>, target: Key<'_>, length: usize) -> SuspendedChange {
    let mut opened = call.keys.open(target);
    if opened.kind() == Some(Type::String) {
        opened.set_deadline(None);
    } else {
        opened.set_string(&[0; 64][..length.min(64)], Expiry::Never);
    }
    opened.resize(length);
    // The change is published once everything is written.
    opened.suspend()
}

/// Folds the sources into the target, whose change is published later.
fn fold(
    call: &mut Call<'_, '_>,
    mut unfinished: SuspendedChange,
    op: BitOp,
    target: Key<'_>,
    sources: &[Key<'_>],
    ends: &[usize],
) -> SuspendedChange {
    let length = ends.iter().copied().max().unwrap_or(0);
    let stretch = length.min(STRETCH_BYTES);
    let (mut out, mut scratch) = (Buffer::from_elem(0, stretch), Buffer::from_elem(0, stretch));
    for at in (0..length).step_by(STRETCH_BYTES) {
        let stretch = stretch.min(length - at);
        let (out, scratch) = (&mut out[..stretch], &mut scratch[..stretch]);
        let folded = fold_stretch(call, op, (sources, ends), at, (out, scratch));
        let mut opened = call.keys.resume(unfinished, target);
        if let Ok(Some(bytes)) = opened.string_mut() {
            bytes[at..at + stretch].copy_from_slice(folded);
        }
        unfinished = opened.suspend();
    }
    unfinished
}
