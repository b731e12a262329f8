//! SORT and SORT_RO: the elements of a list, set or sorted set in order, or what keys named after
//! them hold.
//!
//! | file | what |
//! |---|---|
//! | here | the rows; how a run gets at keys it learns of on the way |
//! | `query` | the options |
//! | `pattern` | from a pattern and an element to a key |
//! | `texts` | many texts in one buffer; collecting the elements |
//! | `order` | weights and the order |
//!
//! Patterns name keys that no row can declare. A run collects the elements and takes, beside the
//! partitions it was given, those of all keys the patterns name. A worker never waits while it
//! holds something: if one is busy the command goes to the slow lane. There the run lets go of
//! everything, takes what it had and what it missed, waiting, and begins again, because the
//! elements may have changed; after [`TRIES`] such rounds it takes every partition. So the elements
//! and all keys are read at one moment. In a transaction it runs with the gate closed
//! (`Flags::WHOLE`).
//!
//! Tests: compat/transcripts/sort.

mod order;
mod pattern;
mod query;
mod texts;

use std::ops::Range;

use pantala_keyspace::{Expiry, Key, PartitionId, event};
use pantala_table::IntText;
use pantala_values::List;
use pantala_values::packed::Element;

use crate::call::{Call, Done, Lane, Stop, reply_string};
use crate::command::{Begin, Category, Command, Find, Flags, Group, KeyFlags, KeySpec};
use crate::error;

use pattern::Pattern;
use query::Query;
use texts::Texts;

/// The rows of this family.
pub const ROWS: &[Command] = &[SORT, SORT_RO];

const CATEGORIES: &[Category] =
    &[Category::Set, Category::SortedSet, Category::List, Category::Dangerous];

const PATTERN_KEYS: KeySpec =
    KeySpec { begin: Begin::Unknown, find: Find::Unknown, flags: KeyFlags::READ };

const SORT: Command = Command::write("SORT", sort, Group::Generic)
    .arity(-2)
    .flags(Flags::DENYOOM.and(Flags::MOVABLEKEYS).and(Flags::WHOLE))
    .categories(CATEGORIES)
    .keys(&[
        KeySpec::one(1, KeyFlags::READ),
        PATTERN_KEYS,
        KeySpec { begin: Begin::Unknown, find: Find::SortStore, flags: KeyFlags::OVERWRITE },
    ])
    .complexity("O(N+M*log(M)) for N elements, of which M are returned")
    .syntax(
        "key [BY by-pattern:pattern] [LIMIT offset:int count:int] [GET get-pattern:pattern ...] \
         [order: ASC | DESC] [ALPHA] [STORE destination:key]",
    )
    .summary("Sorts a list, set or sorted set, by its elements or by other keys; may store it.");

const SORT_RO: Command = Command::read("SORT_RO", sort, Group::Generic)
    .arity(-2)
    .flags(Flags::MOVABLEKEYS.and(Flags::WHOLE))
    .categories(CATEGORIES)
    .keys(&[KeySpec::one(1, KeyFlags::READ), PATTERN_KEYS])
    .since("7.0.0")
    .complexity("O(N+M*log(M)) for N elements, of which M are returned")
    .syntax(
        "key [BY by-pattern:pattern] [LIMIT offset:int count:int] [GET get-pattern:pattern ...] \
         [order: ASC | DESC] [ALPHA]",
    )
    .summary("Sorts a list, set or sorted set, by its elements or by other keys.");

/// So often a run begins again before it takes all partitions.
const TRIES: usize = 4;

fn sort(call: &mut Call<'_, '_>) -> Done {
    let mut query = Query::parse(&call.args[2..], call.command.flags.has(Flags::WRITE))?;
    query.is_for_script = call.session.is_script;
    for round in 0.. {
        let Some(missed) = attempt(call, &query)? else { break };
        if call.lane == Lane::Worker {
            return Err(Stop::Lane);
        }
        if round < TRIES {
            call.keys.widen(missed);
        } else {
            call.keys.widen(PartitionId::all().map(|id| u64::from(id.0)));
        }
    }
    Ok(())
}

/// The hashes of keys whose partitions are busy; one for each partition.
type Missed = Vec<u64>;

/// One run. What it returns must be taken before the next.
fn attempt(call: &mut Call<'_, '_>, query: &Query<'_>) -> Result<Option<Missed>, Stop> {
    let elements = texts::collect(call, query)?;
    let mut picked: Vec<usize> = (0..elements.len()).collect();
    let mut range = query.range(elements.len());
    if elements.is_cut {
        range = 0..elements.len();
    }
    if let Some(by) = query.weights(elements.kind) {
        if let Some(pattern) = by.pattern
            && let Some(missed) = reach(call, &[pattern], &elements, &picked)
        {
            return Ok(Some(missed));
        }
        order::sort(call, &by, &elements, &mut picked, &range)?;
    }
    let picked = &picked[range];
    if let Some(missed) = reach(call, &query.gets, &elements, picked) {
        return Ok(Some(missed));
    }
    match query.store {
        None => answer(call, query, &elements, picked),
        Some(_) => store(call, query, &elements, picked)?,
    }
    Ok(None)
}

/// Takes the partitions of the keys that patterns name for these elements; those that are busy.
fn reach(
    call: &mut Call<'_, '_>,
    patterns: &[Pattern<'_>],
    elements: &Texts,
    picked: &[usize],
) -> Option<Missed> {
    let space = call.space();
    let (mut name, mut missed) = (Vec::new(), Missed::new());
    for pattern in patterns.iter().filter(|pattern| pattern.names_key()) {
        for &index in picked {
            pattern.write_key(elements.get(index), &mut name);
            let hash = space.hash(&name);
            let partition = PartitionId::of(hash);
            let is_new = missed.iter().all(|other| PartitionId::of(*other) != partition);
            if is_new && !call.keys.reach(hash) {
                missed.push(hash);
            }
        }
    }
    (!missed.is_empty()).then_some(missed)
}

/// Shows what a pattern means for an element; `None` where there is nothing.
fn look_up<R>(
    call: &mut Call<'_, '_>,
    pattern: &Pattern<'_>,
    element: &[u8],
    name: &mut Vec<u8>,
    show: impl FnOnce(&mut pantala_protocol::Reply<'_>, Option<pantala_table::StrRef<'_>>) -> R,
) -> R {
    use pantala_table::StrRef;
    if pattern.is_element() {
        return show(&mut call.reply, Some(StrRef::Bytes(element)));
    }
    if !pattern.names_key() {
        return show(&mut call.reply, None);
    }
    pattern.write_key(element, name);
    let (hash, now) = (call.space().hash(name), call.now());
    let opened = call.keys.read(Key { bytes: name, hash });
    let found = match pattern.field() {
        None => opened.string().ok().flatten(),
        Some(field) => {
            let hash = opened.collection::<pantala_values::Hash>().ok().flatten();
            hash.and_then(|hash| hash.view().get(field, now)).map(|found| found.value)
        }
    };
    show(&mut call.reply, found)
}

fn answer(call: &mut Call<'_, '_>, query: &Query<'_>, elements: &Texts, picked: &[usize]) {
    call.reply.array(picked.len() * query.gets.len().max(1));
    let mut name = Vec::new();
    for &index in picked {
        let element = elements.get(index);
        if query.gets.is_empty() {
            call.reply.bulk(element);
        }
        for pattern in &query.gets {
            look_up(call, pattern, element, &mut name, |reply, found| match found {
                Some(value) => reply_string(reply, value),
                None => reply.null(),
            });
        }
    }
}

/// Makes a list of the result; nothing is an empty text in it.
fn store(call: &mut Call<'_, '_>, query: &Query<'_>, elements: &Texts, picked: &[usize]) -> Done {
    let mut results = Texts::default();
    let mut name = Vec::new();
    for &index in picked {
        let element = elements.get(index);
        if query.gets.is_empty() {
            results.push(element);
        }
        for pattern in &query.gets {
            look_up(call, pattern, element, &mut name, |_, found| {
                let mut room = IntText::new();
                results.push(found.as_ref().map_or(&[], |value| value.bytes(&mut room)));
            });
        }
    }
    if (0..results.len()).any(|index| results.get(index).len() > MOST_ELEMENT_BYTES) {
        return Err(error::STRING_TOO_LONG.into());
    }
    let target = call.all_keys()[1];
    let fill = call.limits.packed.list();
    let mut opened = call.keys.open(target);
    if results.len() > 0 {
        let texts = (0..results.len()).map(|index| Element::of(results.get(index)));
        opened.set_collection(List::collect(texts, fill), Expiry::Never);
        opened.publish(event::SORTSTORE);
    } else if opened.remove() {
        opened.publish(event::DEL);
    }
    call.reply.int(results.len() as i64);
    Ok(())
}

/// A longer element is refused: a packed buffer has at most a gigabyte.
const MOST_ELEMENT_BYTES: usize = (1 << 30) - 64;

/// A part of a row of so many: `count` of them (all when negative) from `offset` on.
fn part(length: usize, offset: i64, count: i64) -> Range<usize> {
    let clamp = |number: i64| usize::try_from(number.max(0)).unwrap_or(usize::MAX).min(length);
    let start = clamp(offset);
    let count = if count < 0 { length } else { clamp(count) };
    start..length.min(start + count)
}
