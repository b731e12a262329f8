//! SORT and SORT_RO: the elements of a list, set or sorted set in order, or the values of keys
//! named by them.
//!
//! | file | what |
//! |---|---|
//! | here | the rows; how a run takes keys that it learns of on the way |
//! | `query` | the options |
//! | `pattern` | from a pattern and an element to a key |
//! | `texts` | many texts in one buffer; taking the elements |
//! | `order` | weights and the order |
//!
//! Without patterns the elements are taken in steps ([`Call::gather`]).
//!
//! Patterns name keys that no row can declare. A run collects the elements and takes the partitions
//! of all keys that the patterns name, beside the partitions it was given. A worker never waits
//! while it holds partitions: if one is busy the command moves to the slow lane. There the run
//! releases everything, waits for all the partitions that it had or missed, and begins again,
//! because the elements may have changed; after [`TRIES`] such rounds it takes every partition. So
//! the elements and all keys are read at one moment. In a transaction it runs with the gate closed
//! (`Flags::WHOLE`).
//!
//! Tests: compat/transcripts/sort.

mod order;
mod pattern;
mod query;
mod texts;

use std::ops::Range;

use pantala_base::crc::slot_of;
use pantala_keyspace::{Expiry, Locked, PartitionId, event};
use pantala_protocol::Reply;
use pantala_table::{IntText, StrRef};
use pantala_values::list::Fill;
use pantala_values::packed::Element;
use pantala_values::{Hash, List};

use crate::calls::call::{Call, CommandResult, Lane, Stop, reply_string};
use crate::calls::record::{RECORDED_AT_ONCE, expire_all};
use crate::clients::permission;
use crate::error;
use crate::long_work::incremental::{Budget, GatherState};
use crate::rows::command::{
    Category, Command, Find, Flags, Group, KeyFlags, KeySpec, KeySpecStart,
};

use pattern::Pattern;
use query::Query;
use texts::{ElementSelection, Texts};

/// The rows of this family.
pub const ROWS: &[Command] = &[SORT, SORT_RO];

const CATEGORIES: &[Category] =
    &[Category::Set, Category::SortedSet, Category::List, Category::Dangerous];

const PATTERN_KEYS: KeySpec =
    KeySpec { begin: KeySpecStart::Unknown, find: Find::Unknown, flags: KeyFlags::READ };

const SORT: Command = Command::write("SORT", sort, Group::Generic)
    .replaces()
    .arity(-2)
    .flags(Flags::DENYOOM.union(Flags::MOVABLEKEYS).union(Flags::WHOLE))
    .categories(CATEGORIES)
    .keys(&[
        KeySpec::one(1, KeyFlags::READ),
        PATTERN_KEYS,
        KeySpec { begin: KeySpecStart::Unknown, find: Find::SortStore, flags: KeyFlags::OVERWRITE },
    ])
    .complexity("O(N+M*log(M)) for N elements, of which M are returned")
    .syntax(
        "key [BY by-pattern:pattern#1] [LIMIT offset:int count:int] \
         [GET get-pattern:pattern#1 ...] [order: ASC | DESC] [sorting: ALPHA] \
         [STORE destination:key#2]",
    )
    .summary("Sorts a list, set or sorted set, by its elements or by other keys; may store it.");

const SORT_RO: Command = Command::read("SORT_RO", sort, Group::Generic)
    .arity(-2)
    .flags(Flags::MOVABLEKEYS.union(Flags::WHOLE))
    .categories(CATEGORIES)
    .keys(&[KeySpec::one(1, KeyFlags::READ), PATTERN_KEYS])
    .since("7.0.0")
    .complexity("O(N+M*log(M)) for N elements, of which M are returned")
    .syntax(
        "key [BY by-pattern:pattern#1] [LIMIT offset:int count:int] \
         [GET get-pattern:pattern#1 ...] [order: ASC | DESC] [sorting: ALPHA]",
    )
    .summary("Sorts a list, set or sorted set, by its elements or by other keys.");

/// How often a run begins again before it takes all partitions.
const TRIES: usize = 4;

fn sort(call: &mut Call<'_, '_>) -> CommandResult {
    let may_store = call.command.flags.intersects(Flags::WRITE);
    if call.session.has_rules()
        && let Some(error) = query::denied(call.args, may_store)
        && !permission::may_read_every_key(call)
    {
        return Err(error.into());
    }
    let mut query = Query::parse(&call.args[2..], may_store)?;
    query.is_for_script = call.session.is_script;
    if call.settings.cluster_enabled
        && let Some(error) = query.crossing(slot_of(call.args[1]))
    {
        return Err(error.into());
    }
    expire_all(&mut call.keys.peek(call.nth_key(1, 0)), call.lane)?;
    if query.pattern_count() == 0 {
        return sort_elements(call, &query);
    }
    for round in 0.. {
        let Some(missed) = attempt(call, &query)? else { break };
        if call.lane == Lane::Worker {
            return Err(Stop::Lane);
        }
        if round < TRIES {
            call.keys.widen(missed)?;
        } else {
            call.keys.widen(PartitionId::all().map(|id| u64::from(id.0)))?;
        }
    }
    Ok(())
}

/// Sorts where no pattern names a key: only the elements are read, and if they are many they are
/// sorted with the partitions free.
fn sort_elements(call: &mut Call<'_, '_>, query: &Query<'_>) -> CommandResult {
    let (key, fill) = (call.nth_key(1, 0), call.fill());
    texts::read(call)?;
    let list = call.gather(
        &[key],
        |call| ElementSelection::begin(call, query),
        |call, taking, budget| taking.go_on(call, budget),
        |reply, ElementSelection { texts: elements, .. }| {
            let meanings = &mut PatternValues::default();
            let (mut picked, range) = numbered(query, &elements);
            if let Some(by) = query.weights(elements.kind) {
                order::sort(meanings, &by, &elements, &mut picked, &range)?;
            }
            let picked = &picked[range];
            match query.store {
                Some(_) => results(meanings, query, &elements, picked)
                    .map(|results| list_of(&results, fill)),
                None => {
                    answer(reply, meanings, query, &elements, picked);
                    Ok(None)
                }
            }
        },
    )??;
    if query.store.is_some() {
        store(call, list);
    }
    Ok(())
}

/// The numbers of all elements, and the wanted range once they are in order.
fn numbered(query: &Query<'_>, elements: &Texts) -> (Vec<usize>, Range<usize>) {
    let all = 0..elements.len();
    let range = if elements.is_cut { all.clone() } else { query.range(elements.len()) };
    (all.collect(), range)
}

/// The hashes of keys whose partitions are busy; one for each partition.
type BusyHashes = Vec<u64>;

/// One run with patterns that name keys. The returned partitions must be taken before the next run.
fn attempt(call: &mut Call<'_, '_>, query: &Query<'_>) -> Result<Option<BusyHashes>, Stop> {
    texts::read(call)?;
    let mut taking = ElementSelection::begin(call, query)?;
    while taking.go_on(call, &mut Budget::for_all())? == GatherState::Part {}
    let elements = taking.texts;
    let (mut picked, range) = numbered(query, &elements);
    if let Some(by) = query.weights(elements.kind) {
        if let Some(pattern) = by.pattern
            && let Some(missed) = reach(call, &[pattern], &elements, &picked)
        {
            return Ok(Some(missed));
        }
        order::sort(&mut PatternValues::of(call.keys), &by, &elements, &mut picked, &range)?;
    }
    let picked = &picked[range];
    if let Some(missed) = reach(call, &query.gets, &elements, picked) {
        return Ok(Some(missed));
    }
    let fill = call.fill();
    let meanings = &mut PatternValues::of(call.keys);
    if query.store.is_none() {
        answer(&mut call.reply, meanings, query, &elements, picked);
    } else {
        let results = results(meanings, query, &elements, picked)?;
        let has_changed = store(call, list_of(&results, fill));
        if has_changed && query.orders_texts_of_keys() && call.is_recorded() {
            record_stored(call, &results);
        }
    }
    Ok(None)
}

/// Takes the partitions of the keys that patterns name for these elements; returns the busy ones.
fn reach(
    call: &mut Call<'_, '_>,
    patterns: &[Pattern<'_>],
    elements: &Texts,
    picked: &[usize],
) -> Option<BusyHashes> {
    let space = call.space();
    let (mut name, mut missed) = (Vec::new(), BusyHashes::new());
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

/// Resolves patterns for elements.
#[derive(Default)]
struct PatternValues<'l, 'k> {
    /// `None` if no pattern names a key.
    keys: Option<&'l mut Locked<'k>>,
    name: Vec<u8>,
}

impl<'l, 'k> PatternValues<'l, 'k> {
    fn of(keys: &'l mut Locked<'k>) -> PatternValues<'l, 'k> {
        PatternValues { keys: Some(keys), name: Vec::new() }
    }

    /// Passes `show` what a pattern means for an element; `None` if there is nothing.
    fn look_up<R>(
        &mut self,
        pattern: &Pattern<'_>,
        element: &[u8],
        show: impl FnOnce(Option<StrRef<'_>>) -> R,
    ) -> R {
        if pattern.is_element() {
            return show(Some(StrRef::Bytes(element)));
        }
        let (Some(keys), true) = (&mut self.keys, pattern.names_key()) else { return show(None) };
        pattern.write_key(element, &mut self.name);
        let scope = keys.scope();
        let (now, key) = (scope.now, scope.space.key(&self.name));
        let mut opened = keys.read(key);
        // On the lane this never fails.
        let _ = expire_all(&mut opened, Lane::Slow);
        show(match pattern.field() {
            None => opened.string().ok().flatten(),
            Some(field) => {
                let hash = opened.collection::<Hash>().ok().flatten();
                hash.and_then(|hash| hash.view().get(field, now)).map(|found| found.value)
            }
        })
    }
}

fn answer(
    reply: &mut Reply<'_>,
    meanings: &mut PatternValues<'_, '_>,
    query: &Query<'_>,
    elements: &Texts,
    picked: &[usize],
) {
    reply.array(picked.len() * query.gets.len().max(1));
    for &index in picked {
        let element = elements.get(index);
        if query.gets.is_empty() {
            reply.bulk(element);
        }
        for pattern in &query.gets {
            meanings.look_up(pattern, element, |found| match found {
                Some(value) => reply_string(reply, value),
                None => reply.null(),
            });
        }
    }
}

/// The texts to be stored; missing values are empty texts.
fn results(
    meanings: &mut PatternValues<'_, '_>,
    query: &Query<'_>,
    elements: &Texts,
    picked: &[usize],
) -> Result<Texts, Stop> {
    let mut results = Texts::default();
    for &index in picked {
        let element = elements.get(index);
        if query.gets.is_empty() {
            results.push(element);
        }
        for pattern in &query.gets {
            meanings.look_up(pattern, element, |found| {
                let mut budget = IntText::new();
                results.push(found.as_ref().map_or(&[], |value| value.bytes(&mut budget)));
            });
        }
    }
    if (0..results.len()).any(|index| results.get(index).len() > MOST_ELEMENT_BYTES) {
        return Err(error::STRING_TOO_LONG.into());
    }
    Ok(results)
}

/// A list of the texts, if there are any.
fn list_of(results: &Texts, fill: Fill) -> Option<List> {
    let texts = (0..results.len()).map(|index| Element::of(results.get(index)));
    (results.len() > 0).then(|| List::collect(texts, fill))
}

/// Stores the list; whether that changed something.
fn store(call: &mut Call<'_, '_>, list: Option<List>) -> bool {
    call.reply.int(list.as_ref().map_or(0, List::len) as i64);
    let mut opened = call.keys.open(call.all_keys()[1]);
    if let Some(list) = list {
        opened.counts_as(list.len());
        opened.set_collection(list, Expiry::Never);
        opened.publish(event::SORTSTORE);
        return true;
    }
    let was_there = opened.remove();
    if was_there {
        opened.publish(event::DEL);
    }
    was_there
}

/// Records the stored result: Valkey and Redis leave the order of equal weights open.
#[inline(never)]
fn record_stored(call: &Call<'_, '_>, results: &Texts) {
    let target = call.all_keys()[1].bytes;
    call.record_removal(target);
    let texts: Vec<&[u8]> = (0..results.len()).map(|index| results.get(index)).collect();
    for texts in texts.chunks(RECORDED_AT_ONCE) {
        call.record_listed(&[b"RPUSH", target], texts);
    }
}

/// Longer elements are refused: a packed buffer has at most a gigabyte.
const MOST_ELEMENT_BYTES: usize = (1 << 30) - 64;

/// The part of a sequence of this length: `count` items (all if negative) from `offset` on.
fn part(length: usize, offset: i64, count: i64) -> Range<usize> {
    let clamp = |number: i64| usize::try_from(number.max(0)).unwrap_or(usize::MAX).min(length);
    let start = clamp(offset);
    let count = if count < 0 { length } else { clamp(count) };
    start..length.min(start + count)
}
