//! PFCOUNT and PFMERGE.

use pantala_keyspace::{Key, event};
use pantala_values::hyperloglog::{
    Draft, Registers, SketchEncoding, cache, cached, count, empty, outdate, to_dense,
};

use super::sketch;
use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::long_work::incremental::{GatherState, OnceCountedKeys};
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const PFCOUNT: Command = Command::read("PFCOUNT", pfcount, Group::HyperLogLog)
    .arity(-2)
    .flags(Flags::MAY_REPLICATE)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::READ_CACHE)])
    .since("2.8.9")
    .complexity("O(1) for one key whose count is known, else O(N) for N keys, each about 5 us")
    .syntax("key [key ...]")
    .summary("Returns about how many different elements HyperLogLogs have seen together.");

pub(super) const PFMERGE: Command = Command::write("PFMERGE", pfmerge, Group::HyperLogLog)
    .arity(-2)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::one(1, KeyFlags::READ_ADD), KeySpec::range(2, -1, 1, KeyFlags::READ)])
    .since("2.8.9")
    .complexity("O(N) for N keys, each about 5 us")
    .syntax("destkey:key [sourcekey:key ...]")
    .summary("Makes a HyperLogLog that has seen what it and others have seen.");

/// Merging more sketches than this is for the slow lane: it takes some 100 microseconds.
const WORKER_SKETCHES: usize = 64;

fn check_lane(call: &Call<'_, '_>) -> CommandResult {
    match call.lane {
        Lane::Worker if call.hashes.len() > WORKER_SKETCHES => Err(Stop::Lane),
        Lane::Worker | Lane::Slow => Ok(()),
    }
}

/// The count of a single sketch is cached in it: a change without an event.
fn pfcount(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args.len() > 2 {
        return count_together(call);
    }
    let key = call.nth_key(1, 0);
    let mut opened = call.keys.read(key);
    let cardinality = match sketch(&opened)? {
        None => 0,
        Some((_, text)) => match cached(text) {
            Some(known) => known,
            None => {
                let cardinality = count(text)?;
                if let Some(text) = opened.string_mut()? {
                    cache(text, cardinality);
                    opened.publish(event::UNNAMED);
                }
                cardinality
            }
        },
    };
    call.reply.int(cardinality.cast_signed());
    Ok(())
}

/// The merged registers of several sketches.
struct MergedSketch {
    all: Registers,
    /// The registers of the first sketch.
    first: Option<Registers>,
    is_dense: bool,
    /// How many are done.
    count: usize,
}

/// Merges the sketches of all keys, in steps if they are many.
fn merge_all<R>(
    call: &mut Call<'_, '_>,
    keys: &[Key<'_>],
    finish: impl Fn(MergedSketch) -> R,
) -> Result<R, Stop> {
    check_lane(call)?;
    let mut read = OnceCountedKeys::default();
    call.gather(
        keys,
        |_| Ok(MergedSketch { all: Registers::new(), first: None, is_dense: false, count: 0 }),
        |call, merged, _| {
            for key in keys.iter().skip(merged.count).take(WORKER_SKETCHES) {
                merged.add(sketch(&read.read(call.keys, *key, merged.count))?)?;
            }
            match merged.count == keys.len() {
                true => Ok(GatherState::Whole),
                false => Ok(GatherState::PartOf(merged.count)),
            }
        },
        |_, merged| finish(merged),
    )
}

impl MergedSketch {
    fn add(&mut self, sketch: Option<(SketchEncoding, &[u8])>) -> CommandResult {
        if let Some((encoding, text)) = sketch {
            self.all.merge(text)?;
            self.is_dense |= encoding == SketchEncoding::Dense;
        }
        self.first.get_or_insert_with(|| self.all.clone());
        self.count += 1;
        Ok(())
    }
}

fn count_together(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = call.all_keys();
    let count = merge_all(call, &keys, |merged| merged.all.count())?;
    call.reply.int(count.cast_signed());
    Ok(())
}

/// The destination becomes dense as soon as one sketch is.
fn pfmerge(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = call.all_keys();
    let MergedSketch { all, first, is_dense, .. } = merge_all(call, &keys, |merged| merged)?;
    // If the destination has everything already, a sparse one need not be merged into.
    let is_known = first.is_some_and(|first| first == all);
    let mut opened = call.keys.open(keys[0]);
    match sketch(&opened)? {
        Some((SketchEncoding::Dense, _)) => {
            if let Some(text) = opened.string_mut()? {
                all.pack_into(text);
                outdate(text);
            }
        }
        old => {
            let mut draft = old.map_or_else(empty, |(_, text)| Draft::from_slice(text));
            if is_dense {
                draft = Draft::from_vec(to_dense(&draft)?);
                all.pack_into(&mut draft);
            } else if !is_known {
                all.raise(&mut draft, call.settings.hll_sparse_max_bytes)?;
            }
            outdate(&mut draft);
            opened.rewrite_string(&draft);
        }
    }
    opened.publish(event::PFADD);
    call.reply.ok();
    Ok(())
}
