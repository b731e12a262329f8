//! Searches: members within a shape, in some order, returned or stored.

use std::ops::Range;

use pantala_base::number::push_f64;
use pantala_keyspace::event;
use pantala_keyspace::{Expiry, Key};
use pantala_table::{IntText, StrRef};
use pantala_values::SortedSet;
use pantala_values::geo::{Cover, Position, ScoreSpan, Shape, cover};
use pantala_values::sorted_set::{ScoreRange, SortedSetLimits, SortedSetRef};
use smallvec::SmallVec;

use super::query::{Form, Order, Query};
use super::{READS, reply_distance, reply_position};
use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::calls::record::{RECORDED_AT_ONCE, RecordedWords};
use crate::error;
use crate::families::zset;
use crate::long_work::incremental::{Budget, GatherState};
use crate::rows::command::{Command, Find, Flags, Group, KeyFlags, KeySpec, KeySpecStart};

const fn overwrite(_args: &[&[u8]]) -> KeyFlags {
    KeyFlags::OVERWRITE
}

/// GEORADIUS's destination after this word, which is searched from an argument on.
const fn stored(word: &'static str, from: isize) -> KeySpec {
    KeySpec {
        begin: KeySpecStart::Keyword(word, from),
        find: Find::GeoStore(word),
        flags: KeyFlags::OVERWRITE.variable(),
    }
}

const SEARCH_COMPLEXITY: &str =
    "O(N+log(M)) for N members in the cells around the shape, of M in all";

/// Looking at more members than this is for the slow lane: it takes some 100 microseconds.
const WORKER_MEMBERS: usize = 2000;

pub(super) const GEORADIUS: Command = Command::write("GEORADIUS", georadius, Group::Geo)
    .replaces()
    .arity(-6)
    .flags(Flags::DENYOOM.union(Flags::MOVABLEKEYS))
    .deprecated()
    .keys(&[KeySpec::one(1, KeyFlags::READ), stored("STORE", 6), stored("STOREDIST", 6)])
    .flags_of(overwrite)
    .since("3.2.0")
    .complexity(SEARCH_COMPLEXITY)
    .syntax(
        "key longitude:double latitude:double radius:double (unit: M | KM | FT | MI) \
         [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: COUNT count:int [ANY]] \
         [order: ASC | DESC] [store: STORE storekey:key | STOREDIST storedistkey:key]",
    )
    .summary("Finds members within a distance of a position; may store them.");

fn georadius(call: &mut Call<'_, '_>) -> CommandResult {
    search(call, Form::Radius { may_store: true })
}

pub(super) const GEORADIUS_RO: Command = Command::read("GEORADIUS_RO", georadius_ro, Group::Geo)
    .arity(-6)
    .deprecated()
    .keys(READS)
    .since("3.2.10")
    .complexity(SEARCH_COMPLEXITY)
    .syntax(
        "key longitude:double latitude:double radius:double (unit: M | KM | FT | MI) \
         [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: COUNT count:int [ANY]] \
         [order: ASC | DESC]",
    )
    .summary("Finds members within a distance of a position.");

fn georadius_ro(call: &mut Call<'_, '_>) -> CommandResult {
    search(call, Form::Radius { may_store: false })
}

pub(super) const GEORADIUSBYMEMBER: Command =
    Command::write("GEORADIUSBYMEMBER", georadiusbymember, Group::Geo)
        .replaces()
        .arity(-5)
        .flags(Flags::DENYOOM.union(Flags::MOVABLEKEYS))
        .deprecated()
        .keys(&[KeySpec::one(1, KeyFlags::READ), stored("STORE", 5), stored("STOREDIST", 5)])
        .flags_of(overwrite)
        .since("3.2.0")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "key member radius:double (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
         [count-block: COUNT count:int [ANY]] [order: ASC | DESC] \
         [store: STORE storekey:key | STOREDIST storedistkey:key]",
        )
        .summary("Finds members within a distance of a member; may store them.");

fn georadiusbymember(call: &mut Call<'_, '_>) -> CommandResult {
    search(call, Form::ByMember { may_store: true })
}

pub(super) const GEORADIUSBYMEMBER_RO: Command =
    Command::read("GEORADIUSBYMEMBER_RO", georadiusbymember_ro, Group::Geo)
        .arity(-5)
        .deprecated()
        .keys(READS)
        .since("3.2.10")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "key member radius:double (unit: M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
         [count-block: COUNT count:int [ANY]] [order: ASC | DESC]",
        )
        .summary("Finds members within a distance of a member.");

fn georadiusbymember_ro(call: &mut Call<'_, '_>) -> CommandResult {
    search(call, Form::ByMember { may_store: false })
}

pub(super) const GEOSEARCH: Command = Command::read("GEOSEARCH", geosearch, Group::Geo)
    .arity(-7)
    .keys(READS)
    .since("6.2.0")
    .complexity(SEARCH_COMPLEXITY)
    .syntax(
        "key [from: FROMMEMBER member | FROMLONLAT longitude:double latitude:double] (by: \
         (circle: BYRADIUS radius:double (unit: M | KM | FT | MI)) | (box: BYBOX width:double \
         height:double (unit: M | KM | FT | MI)) | (polygon: BYPOLYGON num-vertices:int \
         (vertices: longitude:double latitude:double) ...)) [order: ASC | DESC] \
         [count-block: COUNT count:int [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
    )
    .summary("Finds members within a circle, a box or a polygon.");

fn geosearch(call: &mut Call<'_, '_>) -> CommandResult {
    search(call, Form::Search)
}

pub(super) const GEOSEARCHSTORE: Command =
    Command::write("GEOSEARCHSTORE", geosearchstore, Group::Geo)
        .replaces()
        .arity(-8)
        .flags(Flags::DENYOOM)
        .keys(&[KeySpec::one(1, KeyFlags::OVERWRITE), KeySpec::one(2, KeyFlags::READ)])
        .since("6.2.0")
        .complexity(SEARCH_COMPLEXITY)
        .syntax(
            "destination:key source:key \
         [from: FROMMEMBER member | FROMLONLAT longitude:double latitude:double] (by: \
         (circle: BYRADIUS radius:double (unit: M | KM | FT | MI)) | (box: BYBOX width:double \
         height:double (unit: M | KM | FT | MI)) | (polygon: BYPOLYGON num-vertices:int \
         (vertices: longitude:double latitude:double) ...)) [order: ASC | DESC] \
         [count-block: COUNT count:int [ANY]] [STOREDIST]",
        )
        .summary("Stores the members within a circle, a box or a polygon as a sorted set.");

fn geosearchstore(call: &mut Call<'_, '_>) -> CommandResult {
    search(call, Form::SearchStore)
}

/// With so few entries all are read once for all spans, as a packed sorted set is searched from its
/// start.
const READ_ONCE: usize = 256;

/// A member inside the shape.
struct Hit {
    /// The range of its text in [`Hits::texts`].
    text: Range<usize>,
    score: f64,
    place: Position,
    /// The distance from the centre: in metres while searching, then in the query's unit.
    distance: f64,
}

#[derive(Default)]
struct Hits {
    texts: Vec<u8>,
    found: Vec<Hit>,
}

impl Hits {
    /// Takes an entry inside a shape, unless there are enough.
    fn take(&mut self, (member, score): (StrRef<'_>, f64), shape: &Shape, most: usize) {
        if self.found.len() >= most {
            return;
        }
        let place = Position::of_score(score);
        let Some(distance) = shape.distance_inside(place) else { return };
        let begin = self.texts.len();
        self.texts.extend_from_slice(member.bytes(&mut IntText::new()));
        let text = begin..self.texts.len();
        self.found.push(Hit { text, score, place, distance });
    }

    fn text(&self, hit: &Hit) -> &[u8] {
        &self.texts[hit.text.clone()]
    }
}

/// A running search: it goes through the members in the cells around the shape, some at a time.
struct Search {
    query: Query,
    shape: Option<Shape>,
    /// The ranks still to be looked at, the next ones last.
    ranks: SmallVec<[Range<usize>; 9]>,
    hits: Hits,
}

/// The result: the hits in order, and what is to be stored.
struct SearchResult {
    query: Query,
    hits: Hits,
    stored: Option<SortedSet>,
}

fn search(call: &mut Call<'_, '_>, form: Form) -> CommandResult {
    let keys = call.all_keys();
    let source = if form == Form::SearchStore { keys[1] } else { keys[0] };
    let (args, lane, limits) = (call.args, call.lane, zset::limits(call.settings));
    drop(zset::read(call.keys, source, lane)?);
    let found = call.gather(
        &[source],
        |call| {
            let opened = call.keys.peek(source);
            let set = zset::view(&opened)?;
            Search::begin(Query::parse(args, form, set)?, set, lane)
        },
        |call, search, budget| {
            if let Some(set) = zset::view(&call.keys.peek(source))? {
                search.go_on(set, budget);
            }
            Ok(GatherState::whole_if(search.is_over()))
        },
        |_, search| search.finish(limits),
    )?;
    let SearchResult { query, hits, stored } = found;
    if !query.stores {
        answer(call, &query, &hits);
        return Ok(());
    }
    let (target, event) = match form {
        Form::SearchStore => (Some(keys[0]), event::GEOSEARCHSTORE),
        _ => (keys.get(1).copied(), event::GEORADIUSSTORE),
    };
    // The row finds the key by the same words as the query.
    let (target, is_polygon) = (target.ok_or(error::SYNTAX)?, query.is_polygon);
    let entries = match is_polygon && call.is_recorded() {
        true => Some(entries_of(&query, &hits)),
        false => None,
    };
    let has_changed = store(call, target, stored, event);
    if let Some(entries) = entries.filter(|_| has_changed) {
        record_stored(call, target, &entries);
    }
    call.reply.int(hits.found.len() as i64);
    Ok(())
}

impl Search {
    fn begin(mut query: Query, set: Option<SortedSetRef<'_>>, lane: Lane) -> Result<Search, Stop> {
        let shape = query.shape();
        let mut search = Search { query, shape, ranks: SmallVec::new(), hits: Hits::default() };
        let (Some(set), Some(shape)) = (set, &search.shape) else { return Ok(search) };
        let spans: Cover = cover(shape);
        if set.len() <= READ_ONCE {
            let entries: SmallVec<[(StrRef<'_>, f64); 32]> = set.iter().collect();
            for span in spans {
                let range = scores(span);
                let inside = entries.iter().copied().filter(|(_, score)| range.holds(*score));
                inside.for_each(|entry| search.hits.take(entry, shape, search.query.most()));
            }
            return Ok(search);
        }
        search.ranks = spans.iter().rev().map(|span| set.ranks_by_score(&scores(*span))).collect();
        let inside = search.ranks.iter().map(ExactSizeIterator::len).sum::<usize>();
        if lane == Lane::Worker && inside > WORKER_MEMBERS {
            return Err(Stop::Lane);
        }
        Ok(search)
    }

    fn is_over(&self) -> bool {
        self.ranks.is_empty() || self.hits.found.len() >= self.query.most()
    }

    /// Looks at members while there is budget.
    fn go_on(&mut self, set: SortedSetRef<'_>, budget: &mut Budget) {
        let Some(shape) = &self.shape else { return };
        let most = self.query.most();
        while let Some(ranks) = self.ranks.last_mut() {
            for (member, score) in set.entries(ranks.start, ranks.len()) {
                self.hits.take((member, score), shape, most);
                ranks.start += 1;
                if !budget.take(member.len()) {
                    return;
                }
            }
            self.ranks.pop();
        }
    }

    /// Puts the hits in order, and builds what is to be stored.
    fn finish(self, limits: SortedSetLimits) -> SearchResult {
        let Search { query, mut hits, .. } = self;
        arrange(&mut hits.found, &query);
        for hit in &mut hits.found {
            hit.distance /= query.unit;
        }
        let is_stored = query.stores && !hits.found.is_empty();
        let stored = is_stored.then(|| sorted_set(&query, &hits, limits));
        SearchResult { query, hits, stored }
    }
}

fn scores(span: ScoreSpan) -> ScoreRange {
    let (min, max) = (span.first as f64, span.end as f64);
    ScoreRange { min, after_min: false, max, before_max: true }
}

/// Puts hits in order and keeps as many as are wanted. Equally distant ones keep the order in which
/// they were found.
fn arrange(hits: &mut Vec<Hit>, query: &Query) {
    let wanted = if query.count == 0 { hits.len() } else { query.count.min(hits.len()) };
    if let Some(order) = query.order {
        let compare = |a: &Hit, b: &Hit| {
            let nearer = a.distance.total_cmp(&b.distance);
            let turned = if order == Order::Ascending { nearer } else { nearer.reverse() };
            turned.then(a.text.start.cmp(&b.text.start))
        };
        if wanted < hits.len() {
            hits.select_nth_unstable_by(wanted, compare);
            hits.truncate(wanted);
        }
        hits.sort_unstable_by(compare);
    }
    hits.truncate(wanted);
}

fn answer(call: &mut Call<'_, '_>, query: &Query, hits: &Hits) {
    let extras = [query.with_distance, query.with_hash, query.with_position];
    let extras = extras.iter().filter(|extra| **extra).count();
    let mut text = Vec::new();
    let reply = &mut call.reply;
    reply.array(hits.found.len());
    for hit in &hits.found {
        if extras > 0 {
            reply.array(1 + extras);
        }
        reply.bulk(hits.text(hit));
        if query.with_distance {
            reply_distance(reply, hit.distance, &mut text);
        }
        if query.with_hash {
            reply.int(hit.score as i64);
        }
        if query.with_position {
            reply_position(reply, hit.place, &mut text);
        }
    }
}

/// The entries to be stored, in the order found.
fn entries_of<'h>(query: &Query, hits: &'h Hits) -> Vec<(&'h [u8], f64)> {
    let score = |hit: &Hit| if query.stores_distances { hit.distance } else { hit.score };
    hits.found.iter().map(|hit| (hits.text(hit), score(hit))).collect()
}

fn sorted_set(query: &Query, hits: &Hits, limits: SortedSetLimits) -> SortedSet {
    let mut entries = entries_of(query, hits);
    entries.sort_unstable_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
    SortedSet::of_sorted(&entries, limits)
}

/// Stores the result; whether that changed something.
fn store(
    call: &mut Call<'_, '_>,
    target: Key<'_>,
    set: Option<SortedSet>,
    event: event::KeyEvent,
) -> bool {
    let mut opened = call.keys.open(target);
    match set {
        Some(set) => {
            opened.counts_as(set.view().len());
            opened.set_collection(set, Expiry::Never);
            opened.publish_collection::<SortedSet>(event);
        }
        None if opened.remove() => opened.publish(event::DEL),
        None => return false,
    }
    true
}

/// Records the stored result, as Redis 7.0 knows no polygons.
#[inline(never)]
fn record_stored(call: &Call<'_, '_>, target: Key<'_>, entries: &[(&[u8], f64)]) {
    call.record_removal(target.bytes);
    for entries in entries.chunks(RECORDED_AT_ONCE) {
        let mut scores = vec![Vec::new(); entries.len()];
        scores.iter_mut().zip(entries).for_each(|(text, (_, score))| push_f64(text, *score));
        let pairs = scores.iter().zip(entries);
        let words: RecordedWords<'_> = pairs.flat_map(|(score, entry)| [score, entry.0]).collect();
        call.record_listed(&[b"ZADD", target.bytes], &words);
    }
}
