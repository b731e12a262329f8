//! Combinations of sorted sets and sets: ZUNION, ZINTER, ZDIFF, with STORE, ZINTERCARD.
//!
//! Keys are opened one after the other, so what is needed of a set is copied before the next one is
//! opened: the members of one set for an intersection or a difference, those of all sets for a
//! union. This is done in steps ([`Call::gather`]). A union is then sorted by member, added up, and
//! sorted by score, with the partitions free if it was long. As in the reference, inputs are taken
//! by size, the smallest first: the order in which scores are added decides the last bit of a sum.

use std::cmp::Ordering;

use pantala_base::UnixMs;
use pantala_base::number::{parse_f64, parse_i64};
use pantala_keyspace::event::{self, KeyEvent};
use pantala_keyspace::{Expiry, Key, OpenKey};
use pantala_protocol::Reply;
use pantala_table::{IntText, StrRef};
use pantala_values::set::SetRef;
use pantala_values::sorted_set::{SortedSetLimits, SortedSetRef};
use pantala_values::{Set, SortedSet, Type};
use smallvec::SmallVec;

use super::{begin_members, check_lane, clean, limits, reads, reply_member, view, writes};
use crate::calls::call::{Call, CommandResult, Stop};
use crate::calls::record::expire_all;
use crate::error::{self, ClientError};
use crate::long_work::incremental::{Budget, GatherState};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

/// A destination, then a number of keys and the keys.
const STORE: &[KeySpec] =
    &[KeySpec::one(1, KeyFlags::OVERWRITE), KeySpec::counted(2, 1, KeyFlags::READ)];

const NEGATIVE_LIMIT: ClientError = ClientError::text("ERR LIMIT can't be negative");
const WEIGHT_NOT_FLOAT: ClientError = ClientError::text("ERR weight value is not a float");

/// The size and the number of each input.
type Sizes = SmallVec<[(usize, usize); 4]>;

/// How the inputs are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Union,
    Inter,
    Diff,
}

/// How the scores of a member are combined.
#[derive(Clone, Copy, Debug, Default)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Result<Aggregate, ClientError> {
        match word {
            word if is_word(word, "SUM") => Ok(Aggregate::Sum),
            word if is_word(word, "MIN") => Ok(Aggregate::Min),
            word if is_word(word, "MAX") => Ok(Aggregate::Max),
            _ => Err(error::SYNTAX),
        }
    }

    /// A sum that is NaN (opposite infinities, or a score that is NaN) is 0; of two scores of which
    /// one is NaN the smaller or larger is `one`.
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => zero_for_nan(one + other),
            Aggregate::Min if other < one => other,
            Aggregate::Max if other > one => other,
            Aggregate::Min | Aggregate::Max => one,
        }
    }
}

fn zero_for_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Copied members, with scores.
#[derive(Debug, Default)]
pub(super) struct CopiedMembers {
    bytes: Vec<u8>,
    /// The begin and end of a member, and its score.
    entries: Vec<(usize, usize, f64)>,
}

impl CopiedMembers {
    pub(super) fn push(&mut self, member: StrRef<'_>, score: f64) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(member.bytes(&mut IntText::new()));
        self.entries.push((from, self.bytes.len(), score));
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Members and scores, in order.
    fn pairs(&self) -> Vec<(&[u8], f64)> {
        self.entries.iter().map(|(from, to, score)| (&self.bytes[*from..*to], *score)).collect()
    }

    /// Joins all entries with the same member.
    fn join(&mut self, aggregate: Aggregate) {
        let CopiedMembers { bytes, entries } = self;
        // Stable, so the scores of a member stay in the order of their inputs.
        entries.sort_by(|a, b| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]));
        entries.dedup_by(|next, first| {
            let is_same = bytes[next.0..next.1] == bytes[first.0..first.1];
            if is_same {
                first.2 = aggregate.of(first.2, next.2);
            }
            is_same
        });
    }

    /// Puts the entries in the order of a sorted set.
    fn sort(&mut self) {
        let CopiedMembers { bytes, entries } = self;
        entries.sort_unstable_by(|a, b| {
            let scores = a.2.partial_cmp(&b.2).unwrap_or(Ordering::Equal);
            scores.then_with(|| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]))
        });
    }

    /// Gives entries the scores that `change` returns, or removes them, while there is budget.
    /// `from` is where to begin, and then where to go on; `kept` counts those before it that are
    /// left. Whether it is done.
    fn retain(
        &mut self,
        (from, kept): (&mut usize, &mut usize),
        budget: &mut Budget,
        mut change: impl FnMut(&[u8], f64) -> Option<f64>,
    ) -> bool {
        let CopiedMembers { bytes, entries } = self;
        while *from < entries.len() {
            if !budget.is_left() {
                return false;
            }
            let (start, end, score) = entries[*from];
            budget.take(end - start);
            if let Some(score) = change(&bytes[start..end], score) {
                entries[*kept] = (start, end, score);
                *kept += 1;
            }
            *from += 1;
        }
        entries.truncate(*kept);
        true
    }

    /// The sorted set of the entries, which are in order, if there are any.
    pub(super) fn to_set(&self, limits: SortedSetLimits) -> Option<SortedSet> {
        (self.len() > 0).then(|| SortedSet::of_sorted(&self.pairs(), limits))
    }
}

/// One input. Every member of a set has the score 1.
enum Source<'o> {
    Nothing,
    Sorted(SortedSetRef<'o>),
    Set(SetRef<'o>, UnixMs),
}

impl<'o> Source<'o> {
    fn of(opened: &'o OpenKey<'_, '_>, now: UnixMs) -> Result<Source<'o>, Stop> {
        match opened.kind() {
            Some(Type::Set) => {
                let set = opened.collection::<Set>()?.map(Set::view);
                Ok(set.map_or(Source::Nothing, |set| Source::Set(set, now)))
            }
            _ => Ok(view(opened)?.map_or(Source::Nothing, Source::Sorted)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::Nothing => 0,
            Source::Sorted(set) => set.len(),
            Source::Set(set, _) => set.len(),
        }
    }

    /// A member's score.
    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Nothing => None,
            Source::Sorted(set) => set.score(member),
            Source::Set(set, now) => set.contains(member, *now).then_some(1.0),
        }
    }

    /// Passes members on while there is room; returns where to go on in an unchanged input. 0
    /// begins.
    fn part(
        &self,
        from: usize,
        budget: &mut Budget,
        mut show: impl FnMut(StrRef<'_>, f64),
    ) -> Option<usize> {
        let set = match self {
            Source::Nothing => return None,
            Source::Sorted(set) => set,
            Source::Set(set, now) => {
                return set.part(from, *now, |member| {
                    show(member.into(), 1.0);
                    budget.take(member.len())
                });
            }
        };
        let mut rank = from;
        for (member, score) in set.entries(from, budget.left()) {
            show(member, score);
            rank += 1;
            if !budget.take(member.len()) {
                break;
            }
        }
        (rank < set.len()).then_some(rank)
    }
}

/// The options of a combination.
struct Options<'c> {
    kind: Kind,
    /// The inputs.
    keys: SmallVec<[Key<'c>; 4]>,
    /// As many as inputs, or none.
    weights: SmallVec<[f64; 4]>,
    aggregate: Aggregate,
    with_scores: bool,
    /// ZINTERCARD's limit; 0: none.
    limit: usize,
}

/// The words that a command allows after its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CombineWords {
    /// Those of ZUNION: WEIGHTS, AGGREGATE and WITHSCORES.
    Reply,
    /// Those of ZUNIONSTORE: WEIGHTS and AGGREGATE.
    Store,
    /// LIMIT.
    Cardinality,
}

impl<'c> Options<'c> {
    /// Parses them; `at` is the position of the number of keys.
    fn parse(
        call: &mut Call<'c, '_>,
        kind: Kind,
        words: CombineWords,
        at: usize,
    ) -> Result<Options<'c>, Stop> {
        let count = parse_i64(call.args[at]).ok_or(error::NOT_INTEGER)?;
        if count < 1 {
            let name = call.command.name.to_ascii_lowercase();
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(ClientError::new(text).into());
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > call.args.len() - at - 1 {
            return Err(error::SYNTAX.into());
        }
        let mut keys = call.all_keys();
        keys.drain(..keys.len() - count);
        // As in the reference, the keys are checked before the words.
        for key in &keys {
            let kind = call.keys.peek(*key).kind();
            if kind.is_some_and(|kind| !matches!(kind, Type::SortedSet | Type::Set)) {
                return Err(error::WRONG_TYPE.into());
            }
        }
        let mut options = Options {
            kind,
            keys,
            weights: SmallVec::new(),
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        options.parse_words(words, &call.args[at + 1 + count..])?;
        Ok(options)
    }

    fn parse_words(&mut self, words: CombineWords, mut rest: &[&[u8]]) -> Result<(), ClientError> {
        let count = self.keys.len();
        let combines = words != CombineWords::Cardinality && self.kind != Kind::Diff;
        while let [word, behind @ ..] = rest {
            rest = match word {
                word if combines && is_word(word, "WEIGHTS") && behind.len() >= count => {
                    let (weights, behind) = behind.split_at(count);
                    let parse = |text: &&[u8]| parse_f64(text).ok_or(WEIGHT_NOT_FLOAT);
                    self.weights = weights.iter().map(parse).collect::<Result<_, _>>()?;
                    behind
                }
                word if combines && is_word(word, "AGGREGATE") && !behind.is_empty() => {
                    self.aggregate = Aggregate::parse(behind[0])?;
                    &behind[1..]
                }
                word if words == CombineWords::Reply && is_word(word, "WITHSCORES") => {
                    self.with_scores = true;
                    behind
                }
                word if words == CombineWords::Cardinality
                    && is_word(word, "LIMIT")
                    && !behind.is_empty() =>
                {
                    let limit = parse_i64(behind[0]).and_then(|limit| usize::try_from(limit).ok());
                    self.limit = limit.ok_or(NEGATIVE_LIMIT)?;
                    &behind[1..]
                }
                _ => return Err(error::SYNTAX),
            };
        }
        Ok(())
    }

    /// The first score of a member. Infinity times 0 is 0.
    fn weigh_first(&self, input: usize, score: f64) -> f64 {
        zero_for_nan(self.weigh(input, score))
    }

    /// Infinity times 0 is NaN here: the aggregate decides what becomes of it.
    fn weigh(&self, input: usize, score: f64) -> f64 {
        self.weights.get(input).map_or(score, |weight| weight * score)
    }

    /// Reads each input; of sorted sets, expired members are removed first.
    fn read(&self, call: &mut Call<'c, '_>) -> CommandResult {
        for key in &self.keys {
            let mut opened = call.keys.read(*key);
            match opened.kind() {
                Some(Type::SortedSet) => clean(&mut opened, call.lane)?,
                _ => expire_all(&mut opened, call.lane)?,
            }
        }
        Ok(())
    }

    /// The size and number of each input, in the order in which they are taken.
    fn sizes(&self, call: &mut Call<'c, '_>) -> Result<Sizes, Stop> {
        let now = call.now();
        let mut sizes = Sizes::new();
        for (input, key) in self.keys.iter().enumerate() {
            sizes.push((Source::of(&call.keys.peek(*key), now)?.len(), input));
        }
        if self.kind != Kind::Diff {
            sizes.sort();
        }
        Ok(sizes)
    }

    /// Gathers the combination, and lets `finish` make the result.
    fn run<R>(
        &self,
        call: &mut Call<'c, '_>,
        finish: impl Fn(&mut Reply<'c>, CopiedMembers) -> R,
    ) -> Result<R, Stop> {
        self.read(call)?;
        call.gather(
            &self.keys,
            |call| {
                let sizes = self.sizes(call)?;
                let members = match self.kind {
                    Kind::Union => sizes.iter().map(|(size, _)| size).sum(),
                    Kind::Inter | Kind::Diff => sizes[0].0.saturating_mul(sizes.len()),
                };
                check_lane(call.lane, members)?;
                Ok(Progress { sizes, ..Progress::default() })
            },
            |call, progress, budget| self.go_on(call, progress, budget),
            |reply, Progress { mut found, .. }| {
                if self.kind == Kind::Union && self.keys.len() > 1 {
                    found.join(self.aggregate);
                }
                found.sort();
                finish(reply, found)
            },
        )
    }

    fn go_on(
        &self,
        call: &mut Call<'c, '_>,
        progress: &mut Progress,
        budget: &mut Budget,
    ) -> Result<GatherState, Stop> {
        let now = call.now();
        let Progress { sizes, nth, from, kept, found } = progress;
        while budget.is_left() {
            let Some(&(_, input)) = sizes.get(*nth) else { return Ok(GatherState::Whole) };
            let opened = call.keys.peek(self.keys[input]);
            let source = Source::of(&opened, now)?;
            let is_done = if self.kind == Kind::Union || *nth == 0 {
                let push =
                    |member: StrRef<'_>, score| found.push(member, self.weigh_first(input, score));
                let next = source.part(*from, budget, push);
                *from = next.unwrap_or_default();
                next.is_none()
            } else {
                found.retain((from, kept), budget, |member, score| match self.kind {
                    Kind::Diff => source.score(member).is_none().then_some(score),
                    _ => {
                        let other = self.weigh(input, source.score(member)?);
                        Some(self.aggregate.of(score, other))
                    }
                })
            };
            if is_done {
                (*nth, *from, *kept) = (*nth + 1, 0, 0);
            }
        }
        Ok(GatherState::Part)
    }

    /// The number of members that all inputs share; up to the limit, if there is one. The smallest
    /// input is gone through in parts, so that a small limit means little work.
    fn count(&self, call: &mut Call<'c, '_>) -> Result<usize, Stop> {
        self.read(call)?;
        let (lane, now) = (call.lane, call.now());
        let limit = if self.limit > 0 { self.limit } else { usize::MAX };
        call.gather(
            &self.keys,
            |call| Ok((self.sizes(call)?, 0, 0)),
            |call, (sizes, from, found), budget| {
                // Without a limit it is certain that everything is gone through.
                let looked_at = if self.limit == 0 { sizes[0].0 } else { *from };
                check_lane(lane, looked_at.saturating_mul(sizes.len()))?;
                let mut left = CopiedMembers::default();
                let opened = call.keys.peek(self.keys[sizes[0].1]);
                let push = |member: StrRef<'_>, score| left.push(member, score);
                let next = Source::of(&opened, now)?.part(*from, budget, push);
                drop(opened);
                for (_, input) in &sizes[1..] {
                    let opened = call.keys.peek(self.keys[*input]);
                    let source = Source::of(&opened, now)?;
                    let is_there = |member: &[u8], score| source.score(member).map(|_| score);
                    left.retain((&mut 0, &mut 0), &mut Budget::for_all(), is_there);
                }
                *found += left.len();
                *from = next.unwrap_or_default();
                Ok(GatherState::whole_if(next.is_none() || *found >= limit))
            },
            |_, (_, _, found)| found.min(limit),
        )
    }
}

/// The progress through the inputs.
#[derive(Default)]
struct Progress {
    sizes: Sizes,
    /// The number of the input that is gone through, or looked into.
    nth: usize,
    /// Where to go on in it, or in what was found before.
    from: usize,
    /// How many of the members found before it have kept.
    kept: usize,
    found: CopiedMembers,
}

pub(super) const ZUNION: Command = reads("ZUNION", zunion)
    .arity(-3)
    .flags(Flags::MOVABLEKEYS)
    .keys(&[KeySpec::counted(1, 1, KeyFlags::READ)])
    .since("6.2.0")
    .complexity("O(N*log(N)) for N members of all sorted sets")
    .syntax(
        "numkeys:int key [key ...] [WEIGHTS weight:double [weight:double ...]] \
            [AGGREGATE (aggregate: SUM | MIN | MAX)] [WITHSCORES]",
    )
    .summary("Lists the members that any of several sorted sets has.");

fn zunion(call: &mut Call<'_, '_>) -> CommandResult {
    reply(call, Kind::Union)
}

pub(super) const ZINTER: Command = reads("ZINTER", zinter)
    .arity(-3)
    .flags(Flags::MOVABLEKEYS)
    .keys(&[KeySpec::counted(1, 1, KeyFlags::READ)])
    .since("6.2.0")
    .complexity("O(M*K) + O(M*log(M)) for M members of the smallest of K sorted sets")
    .syntax(
        "numkeys:int key [key ...] [WEIGHTS weight:double [weight:double ...]] \
            [AGGREGATE (aggregate: SUM | MIN | MAX)] [WITHSCORES]",
    )
    .summary("Lists the members that all of several sorted sets have.");

fn zinter(call: &mut Call<'_, '_>) -> CommandResult {
    reply(call, Kind::Inter)
}

pub(super) const ZDIFF: Command = reads("ZDIFF", zdiff)
    .arity(-3)
    .flags(Flags::MOVABLEKEYS)
    .keys(&[KeySpec::counted(1, 1, KeyFlags::READ)])
    .since("6.2.0")
    .complexity("O(M*K) + O(M*log(M)) for M members of the first and K others")
    .syntax("numkeys:int key [key ...] [WITHSCORES]")
    .summary("Lists the members of the first sorted set that no other has.");

fn zdiff(call: &mut Call<'_, '_>) -> CommandResult {
    reply(call, Kind::Diff)
}

fn reply(call: &mut Call<'_, '_>, kind: Kind) -> CommandResult {
    let options = Options::parse(call, kind, CombineWords::Reply, 1)?;
    options.run(call, |reply, found| {
        begin_members(reply, found.len(), options.with_scores);
        for (member, score) in found.pairs() {
            reply_member(reply, StrRef::Bytes(member), score, options.with_scores);
        }
    })
}

pub(super) const ZINTERCARD: Command = reads("ZINTERCARD", zintercard)
    .arity(-3)
    .flags(Flags::MOVABLEKEYS)
    .keys(&[KeySpec::counted(1, 1, KeyFlags::READ)])
    .since("7.0.0")
    .complexity("O(M*K) for M members of the smallest of K sorted sets")
    .syntax("numkeys:int key [key ...] [LIMIT limit:int]")
    .summary("Counts the members that all of several sorted sets have.");

fn zintercard(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(call, Kind::Inter, CombineWords::Cardinality, 1)?;
    let found = options.count(call)?;
    call.reply.int(found as i64);
    Ok(())
}

pub(super) const ZUNIONSTORE: Command = writes("ZUNIONSTORE", zunionstore)
    .replaces()
    .arity(-4)
    .flags(Flags::DENYOOM.union(Flags::MOVABLEKEYS))
    .keys(STORE)
    .since("2.0.0")
    .complexity("O(N*log(N)) for N members of all sorted sets")
    .syntax(
        "destination:key numkeys:int key [key ...] [WEIGHTS weight:double \
            [weight:double ...]] [AGGREGATE (aggregate: SUM | MIN | MAX)]",
    )
    .summary("Stores the members that any of several sorted sets has.");

fn zunionstore(call: &mut Call<'_, '_>) -> CommandResult {
    combine_and_store(call, Kind::Union, event::ZUNIONSTORE)
}

pub(super) const ZINTERSTORE: Command = writes("ZINTERSTORE", zinterstore)
    .replaces()
    .arity(-4)
    .flags(Flags::DENYOOM.union(Flags::MOVABLEKEYS))
    .keys(STORE)
    .since("2.0.0")
    .complexity("O(M*K) + O(M*log(M)) for M members of the smallest of K sorted sets")
    .syntax(
        "destination:key numkeys:int key [key ...] [WEIGHTS weight:double \
            [weight:double ...]] [AGGREGATE (aggregate: SUM | MIN | MAX)]",
    )
    .summary("Stores the members that all of several sorted sets have.");

fn zinterstore(call: &mut Call<'_, '_>) -> CommandResult {
    combine_and_store(call, Kind::Inter, event::ZINTERSTORE)
}

pub(super) const ZDIFFSTORE: Command = writes("ZDIFFSTORE", zdiffstore)
    .replaces()
    .arity(-4)
    .flags(Flags::DENYOOM.union(Flags::MOVABLEKEYS))
    .keys(STORE)
    .since("6.2.0")
    .complexity("O(M*K) + O(M*log(M)) for M members of the first and K others")
    .syntax("destination:key numkeys:int key [key ...]")
    .summary("Stores the members of the first sorted set that no other has.");

fn zdiffstore(call: &mut Call<'_, '_>) -> CommandResult {
    combine_and_store(call, Kind::Diff, event::ZDIFFSTORE)
}

fn combine_and_store(call: &mut Call<'_, '_>, kind: Kind, event: KeyEvent) -> CommandResult {
    let options = Options::parse(call, kind, CombineWords::Store, 2)?;
    let limits = limits(call.settings);
    let set = options.run(call, |_, found| found.to_set(limits))?;
    store(call, set, event);
    Ok(())
}

/// Stores the result at the command's first key, whatever is there; an empty result removes the
/// key. Replies with its size.
pub(super) fn store(call: &mut Call<'_, '_>, found: Option<SortedSet>, event: KeyEvent) {
    call.reply.int(found.as_ref().map_or(0, SortedSet::len) as i64);
    let mut opened = call.keys.open(call.nth_key(1, 0));
    if let Some(set) = found {
        opened.set_collection(set, Expiry::Never);
        opened.publish_collection::<SortedSet>(event);
    } else if opened.remove() {
        opened.publish(event::DEL);
    }
}
