//! PFADD.
//!
//! A dense sketch is changed in its record. A sparse one is checked there, and copied only when an
//! element changes it: so a corrupt one is noticed before anything has changed.

use pantala_keyspace::{Expiry, event};
use pantala_values::hyperloglog::{
    Draft, RegisterMark, SketchEncoding, add, add_dense, empty, outdate, would_change,
};

use super::sketch;
use crate::calls::call::{Call, CommandResult};
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const PFADD: Command = Command::write("PFADD", pfadd, Group::HyperLogLog)
    .arity(-2)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::ADD)])
    .since("2.8.9")
    .complexity("O(1) for each element")
    .syntax("key [element ...]")
    .summary("Adds elements to a HyperLogLog, creating it when missing.");

fn pfadd(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, elements) = (call.key(), &call.args[2..]);
    let sparse_max = call.settings.hll_sparse_max_bytes;
    let mut opened = call.keys.open(key);
    let has_changed = match sketch(&opened)? {
        None => {
            let mut draft = empty();
            add_all(&mut draft, elements, sparse_max)?;
            opened.set_string(&draft, Expiry::Never);
            true
        }
        Some((SketchEncoding::Sparse, text)) => {
            // Elements that change nothing need no copy.
            let mut first = 0;
            while let Some(element) = elements.get(first)
                && !would_change(text, RegisterMark::of(element))?
            {
                first += 1;
            }
            if first < elements.len() {
                let mut draft = Draft::from_slice(text);
                add_all(&mut draft, &elements[first..], sparse_max)?;
                opened.rewrite_string(&draft);
            }
            first < elements.len()
        }
        Some((SketchEncoding::Dense, _)) => {
            let mut has_changed = false;
            if let Some(text) = opened.string_mut()? {
                for element in elements {
                    has_changed |= add_dense(text, RegisterMark::of(element));
                }
                if has_changed {
                    outdate(text);
                }
            }
            has_changed
        }
    };
    if has_changed {
        opened.publish(event::PFADD);
    } else {
        opened.unchanged();
    }
    call.reply.int(i64::from(has_changed));
    Ok(())
}

/// Adds elements, the first of which changes the sketch.
fn add_all(draft: &mut Draft, elements: &[&[u8]], sparse_max: usize) -> CommandResult {
    for element in elements {
        add(draft, RegisterMark::of(element), sparse_max)?;
    }
    outdate(draft);
    Ok(())
}
