//! Hashes: fields and values in a listpack, one by one, or one by one with deadlines.

use pantala_base::UnixMs;
use pantala_table::IntText;
use pantala_values::Hash;
use pantala_values::hash::{FieldBefore, HashRef, Lifetime};
use pantala_values::packed::{self, Element, Packed, View};

use crate::input::{Input, Malformed};
use crate::kind::RdbKind;
use crate::packed::{doubles, listpack, ziplist};
use crate::scalars::{deadline, length, text};
use crate::{BEFORE_ALL, Part, RdbLimits};

const DOUBLE: Malformed = Malformed("a hash with a field twice");

/// The kind in which a hash is written.
pub fn kind_of(hash: HashRef<'_>, now: UnixMs) -> RdbKind {
    match hash {
        HashRef::Packed(_) => RdbKind::HASH_LISTPACK,
        HashRef::Large(large) => {
            let has_deadline = large.next_deadline().is_some()
                && large.iter().any(|found| found.deadline.is_some() && !found.is_gone(now));
            if has_deadline { RdbKind::HASH_2 } else { RdbKind::HASH }
        }
    }
}

/// Appends a part of a hash, without the fields that have expired.
pub fn write_part(hash: HashRef<'_>, part: Part, out: &mut Vec<u8>) -> Option<usize> {
    let HashRef::Large(large) = hash else {
        if let HashRef::Packed(view) = hash {
            listpack::write(view, part.style, out);
        }
        return None;
    };
    let end = part.end(out);
    if part.from == 0 {
        length::write(hash.live_len(part.now) as u64, out);
    }
    large.part(part.from, |found| {
        if !found.is_gone(part.now) {
            text::write_bytes(found.key, part.style.strings, out);
            text::write_bytes(found.value, part.style.strings, out);
            if part.kind == RdbKind::HASH_2 {
                deadline::write(found.deadline, out);
            }
        }
        out.len() < end
    })
}

/// Reads a hash of some kind.
pub fn read(kind: RdbKind, input: &mut Input<'_>, limits: &RdbLimits) -> Result<Hash, Malformed> {
    match kind {
        RdbKind::HASH => read_pairs(input, limits),
        RdbKind::HASH_2 | RdbKind::HASH_OF_DRAGONFLY => read_with_deadlines(kind, input, limits),
        RdbKind::HASH_BEFORE_RELEASE => read_deadlines_before(0, 0, input, limits),
        RdbKind::HASH_METADATA => {
            let first = u64::from_le_bytes(input.array()?);
            read_deadlines_before(first, 1, input, limits)
        }
        RdbKind::HASH_LISTPACK_BEFORE_RELEASE => of_triples(listpack::read(input)?, limits),
        RdbKind::HASH_LISTPACK_DEADLINES => {
            // The earliest deadline, which is recomputed.
            input.i64()?;
            of_triples(listpack::read(input)?, limits)
        }
        RdbKind::HASH_ZIPMAP => of_pairs(ziplist::read_map(input)?, limits),
        RdbKind::HASH_ZIPLIST => of_pairs(ziplist::read(input)?, limits),
        _ => of_pairs(listpack::read(input)?, limits),
    }
}

/// A hash from alternating fields and values.
fn of_pairs(pairs: Packed, limits: &RdbLimits) -> Result<Hash, Malformed> {
    if !pairs.len().is_multiple_of(2) {
        return Err(Malformed("a field without a value"));
    }
    let is_small = pairs.len() / 2 <= limits.hash.entries
        && pairs.entry_bytes() < packed::MAX_BYTES / 2
        && pairs.view().iter().all(|(_, element)| element.len() <= limits.hash.value_bytes);
    if is_small { small(pairs) } else { large(pairs.view(), limits) }
}

fn small(pairs: Packed) -> Result<Hash, Malformed> {
    if !doubles::are_different(pairs.view(), 2) {
        return Err(DOUBLE);
    }
    Ok(Hash::of_packed(pairs))
}

fn large(pairs: View<'_>, limits: &RdbLimits) -> Result<Hash, Malformed> {
    let mut hash = empty(limits);
    let mut elements = pairs.iter();
    while let (Some((_, field)), Some((_, value))) = (elements.next(), elements.next()) {
        let (mut field_text, mut value_text) = (IntText::new(), IntText::new());
        let (field, value) = (field.text(&mut field_text), value.text(&mut value_text));
        add(&mut hash, field, value, Lifetime::Forever, limits)?;
    }
    Ok(hash)
}

/// An empty hash in the large form.
fn empty(limits: &RdbLimits) -> Hash {
    let mut hash = Hash::default();
    hash.expect(usize::MAX, usize::MAX, limits.hash);
    hash
}

fn add(
    hash: &mut Hash,
    field: &[u8],
    value: &[u8],
    lifetime: Lifetime,
    limits: &RdbLimits,
) -> Result<(), Malformed> {
    match hash.set(field, value, lifetime, limits.hash, BEFORE_ALL) {
        FieldBefore::Missing => Ok(()),
        FieldBefore::Present | FieldBefore::Expired => Err(DOUBLE),
    }
}

/// Reads fields one by one. Whether the hash can be small is known at the end, unless there are too
/// many fields.
fn read_pairs(input: &mut Input<'_>, limits: &RdbLimits) -> Result<Hash, Malformed> {
    let count = length::read_count(input, 2)?;
    if count > limits.hash.entries {
        return read_large(count, input, empty(limits), limits);
    }
    let mut pairs = Packed::new();
    for index in 0..count {
        let field = text::read(input, limits.text_bytes)?;
        let value = text::read(input, limits.text_bytes)?;
        let (mut field_text, mut value_text) = (IntText::new(), IntText::new());
        let (field, value) = (field.bytes(&mut field_text), value.bytes(&mut value_text));
        let fits = field.len().max(value.len()) <= limits.hash.value_bytes
            && pairs.entry_bytes() + field.len() + value.len() < packed::MAX_BYTES / 2;
        if !fits {
            let mut hash = large(pairs.view(), limits)?;
            add(&mut hash, field, value, Lifetime::Forever, limits)?;
            return read_large(count - index - 1, input, hash, limits);
        }
        pairs.push(Element::of(field));
        pairs.push(Element::of(value));
    }
    small(pairs)
}

fn read_large(
    count: usize,
    input: &mut Input<'_>,
    mut hash: Hash,
    limits: &RdbLimits,
) -> Result<Hash, Malformed> {
    for _ in 0..count {
        let field = text::read(input, limits.text_bytes)?;
        let value = text::read(input, limits.text_bytes)?;
        let (mut field_text, mut value_text) = (IntText::new(), IntText::new());
        let (field, value) = (field.bytes(&mut field_text), value.bytes(&mut value_text));
        add(&mut hash, field, value, Lifetime::Forever, limits)?;
    }
    Ok(hash)
}

fn read_with_deadlines(
    kind: RdbKind,
    input: &mut Input<'_>,
    limits: &RdbLimits,
) -> Result<Hash, Malformed> {
    let mut hash = empty(limits);
    for _ in 0..length::read_count(input, 2 + deadline::least_bytes(kind))? {
        let field = text::read(input, limits.text_bytes)?;
        let value = text::read(input, limits.text_bytes)?;
        let lifetime = deadline::read(kind, input)?.map_or(Lifetime::Forever, Lifetime::Until);
        let (mut field_text, mut value_text) = (IntText::new(), IntText::new());
        let (field, value) = (field.bytes(&mut field_text), value.bytes(&mut value_text));
        add(&mut hash, field, value, lifetime, limits)?;
    }
    Ok(hash)
}

/// Reads Redis's form: before each field its deadline, where `least` stands for the time `base`; 0
/// is none.
fn read_deadlines_before(
    base: u64,
    least: u64,
    input: &mut Input<'_>,
    limits: &RdbLimits,
) -> Result<Hash, Malformed> {
    let mut hash = empty(limits);
    for _ in 0..length::read_count(input, 3)? {
        let lifetime = match length::read(input)? {
            0 => Lifetime::Forever,
            after => {
                let moment = (after - least).checked_add(base);
                until(moment.and_then(|moment| i64::try_from(moment).ok()))?
            }
        };
        let field = text::read(input, limits.text_bytes)?;
        let value = text::read(input, limits.text_bytes)?;
        let (mut field_text, mut value_text) = (IntText::new(), IntText::new());
        let (field, value) = (field.bytes(&mut field_text), value.bytes(&mut value_text));
        add(&mut hash, field, value, lifetime, limits)?;
    }
    Ok(hash)
}

/// A hash from repeated field, value and deadline; 0 is no deadline.
fn of_triples(triples: Packed, limits: &RdbLimits) -> Result<Hash, Malformed> {
    if !triples.len().is_multiple_of(3) {
        return Err(Malformed("a field without a value or a deadline"));
    }
    let mut hash = empty(limits);
    let mut elements = triples.view().iter().map(|(_, element)| element);
    while let (Some(field), Some(value), Some(deadline)) =
        (elements.next(), elements.next(), elements.next())
    {
        let lifetime = match deadline.int() {
            Some(0) => Lifetime::Forever,
            deadline => until(deadline)?,
        };
        let (mut field_text, mut value_text) = (IntText::new(), IntText::new());
        let (field, value) = (field.text(&mut field_text), value.text(&mut value_text));
        add(&mut hash, field, value, lifetime, limits)?;
    }
    Ok(hash)
}

fn until(moment: Option<i64>) -> Result<Lifetime, Malformed> {
    let moment = moment.filter(|moment| *moment >= 0);
    let moment = moment.ok_or(Malformed("a deadline that is no time"))?;
    Ok(Lifetime::Until(UnixMs(moment)))
}
