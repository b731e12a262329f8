//! Several sorted sets, or sets, as one: ZUNION, ZINTER, ZDIFF, with STORE, ZINTERCARD.
//!
//! Keys are opened one after the other, so what is needed of one is copied before the next: for an
//! intersection or a difference the members of one set, for a union all. A union is then sorted by
//! member, added up, and sorted by score. Inputs are taken by size, the smallest first, as in the
//! reference: the order in which scores are added decides the last bit of a sum.

use std::cmp::Ordering;

use pantala_base::UnixMs;
use pantala_base::number::{parse_f64, parse_i64};
use pantala_keyspace::event::{self, Event};
use pantala_keyspace::{Expiry, Key, Opened};
use pantala_table::{IntText, StrRef};
use pantala_values::set::SetRef;
use pantala_values::sorted_set::SortedSetRef;
use pantala_values::{Set, SortedSet, Type};
use smallvec::SmallVec;

use super::{begin_members, check_lane, clean, limits, reply_member, view};
use crate::call::{Call, Done, Stop};
use crate::error::{self, ClientError};
use crate::options::is_word;

const NEGATIVE_LIMIT: ClientError = ClientError::text("ERR LIMIT can't be negative");
const WEIGHT_NOT_FLOAT: ClientError = ClientError::text("ERR weight value is not a float");

/// ZINTERCARD looks at so many members of the smallest input at a time.
const COUNTED_AT_ONCE: usize = 512;

/// The size of each input, and which it is.
type Sizes = SmallVec<[(usize, usize); 4]>;

/// What is made of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Union,
    Inter,
    Diff,
}

/// How the scores of a member become one.
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

    /// The sum of opposite infinities is 0.
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

/// Members copied from somewhere, with scores.
#[derive(Debug, Default)]
pub(super) struct Copied {
    bytes: Vec<u8>,
    /// Where a member begins and ends, and its score.
    entries: Vec<(usize, usize, f64)>,
}

impl Copied {
    pub(super) fn push(&mut self, member: StrRef<'_>, score: f64) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(member.bytes(&mut IntText::new()));
        self.entries.push((from, self.bytes.len(), score));
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Members and scores, in the order they have.
    fn pairs(&self) -> Vec<(&[u8], f64)> {
        self.entries.iter().map(|(from, to, score)| (&self.bytes[*from..*to], *score)).collect()
    }

    /// Makes one entry of all that have the same member.
    fn join(&mut self, aggregate: Aggregate) {
        let Copied { bytes, entries } = self;
        // Stable: the scores of a member stay in the order of their inputs.
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
        let Copied { bytes, entries } = self;
        entries.sort_unstable_by(|a, b| {
            let scores = a.2.partial_cmp(&b.2).unwrap_or(Ordering::Equal);
            scores.then_with(|| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]))
        });
    }

    /// Gives each entry the score that `change` makes of it, or takes it out.
    fn retain(&mut self, mut change: impl FnMut(&[u8], f64) -> Option<f64>) {
        let Copied { bytes, entries } = self;
        entries.retain_mut(|(from, to, score)| match change(&bytes[*from..*to], *score) {
            Some(new) => {
                *score = new;
                true
            }
            None => false,
        });
    }
}

/// One input. Every member of a set has the score 1.
enum Source<'o> {
    Nothing,
    Sorted(SortedSetRef<'o>),
    Set(SetRef<'o>, UnixMs),
}

impl<'o> Source<'o> {
    fn of(opened: &'o Opened<'_, '_>, now: UnixMs) -> Result<Source<'o>, Stop> {
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

    /// Shows some members from a rank on, or all of them; how many ranks are done.
    fn part(&self, rank: usize, count: usize, mut show: impl FnMut(StrRef<'_>, f64)) -> usize {
        if let Source::Sorted(set) = self {
            set.entries(rank, count).for_each(|(member, score)| show(member, score));
            return count;
        }
        self.for_each(show);
        usize::MAX
    }

    fn for_each(&self, mut show: impl FnMut(StrRef<'_>, f64)) {
        match self {
            Source::Nothing => {}
            Source::Sorted(set) => set.iter().for_each(|(member, score)| show(member, score)),
            Source::Set(set, now) => set.iter(*now).for_each(|member| show(member.into(), 1.0)),
        }
    }
}

/// What is asked for.
struct Wish<'c> {
    kind: Kind,
    /// The inputs.
    keys: SmallVec<[Key<'c>; 4]>,
    /// As many as inputs, or none.
    weights: SmallVec<[f64; 4]>,
    aggregate: Aggregate,
    with_scores: bool,
    /// ZINTERCARD: 0 for none.
    limit: usize,
}

/// The words that a command knows behind its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// WEIGHTS and AGGREGATE, WITHSCORES: those of ZUNION.
    Reply,
    /// Without WITHSCORES.
    Store,
    /// LIMIT.
    Cardinality,
}

impl<'c> Wish<'c> {
    /// `at` is the argument with the number of keys.
    fn parse(
        call: &mut Call<'c, '_>,
        kind: Kind,
        words: Words,
        at: usize,
    ) -> Result<Wish<'c>, Stop> {
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
        // The reference looks at the keys before the words.
        for key in &keys {
            let kind = call.keys.peek(*key).kind();
            if kind.is_some_and(|kind| !matches!(kind, Type::SortedSet | Type::Set)) {
                return Err(error::WRONG_TYPE.into());
            }
        }
        let mut wish = Wish {
            kind,
            keys,
            weights: SmallVec::new(),
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        wish.parse_words(words, &call.args[at + 1 + count..])?;
        Ok(wish)
    }

    fn parse_words(&mut self, words: Words, mut rest: &[&[u8]]) -> Result<(), ClientError> {
        let count = self.keys.len();
        let combines = words != Words::Cardinality && self.kind != Kind::Diff;
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
                word if words == Words::Reply && is_word(word, "WITHSCORES") => {
                    self.with_scores = true;
                    behind
                }
                word if words == Words::Cardinality
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

    fn weigh(&self, input: usize, score: f64) -> f64 {
        match self.weights.get(input) {
            Some(weight) => zero_for_nan(weight * score),
            None => score,
        }
    }

    /// How large each input is, and which it is, in the order in which they are taken.
    fn sizes(&self, call: &mut Call<'c, '_>) -> Result<Sizes, Stop> {
        let now = call.now();
        let mut sizes = Sizes::new();
        for (input, key) in self.keys.iter().enumerate() {
            let mut opened = call.keys.read(*key);
            if opened.kind() == Some(Type::SortedSet) {
                clean(&mut opened, now, call.lane)?;
            }
            sizes.push((Source::of(&opened, now)?.len(), input));
        }
        if self.kind != Kind::Diff {
            sizes.sort();
        }
        Ok(sizes)
    }

    /// What comes of it, in no order that means anything.
    fn run(&self, call: &mut Call<'c, '_>) -> Result<Copied, Stop> {
        let sizes = self.sizes(call)?;
        let total = sizes.iter().map(|(size, _)| size).sum();
        match self.kind {
            Kind::Union => {
                check_lane(call.lane, total)?;
                self.union(call, &sizes)
            }
            Kind::Inter => {
                check_lane(call.lane, sizes[0].0.saturating_mul(sizes.len()))?;
                self.inter(call, &sizes)
            }
            Kind::Diff => {
                let found = sizes[0].0.saturating_mul(sizes.len());
                check_lane(call.lane, found)?;
                self.diff(call)
            }
        }
    }

    fn union(&self, call: &mut Call<'c, '_>, sizes: &[(usize, usize)]) -> Result<Copied, Stop> {
        let (mut all, now) = (Copied::default(), call.now());
        for (_, input) in sizes {
            let opened = call.keys.peek(self.keys[*input]);
            Source::of(&opened, now)?
                .for_each(|member, score| all.push(member, self.weigh(*input, score)));
        }
        if self.keys.len() > 1 {
            all.join(self.aggregate);
        }
        Ok(all)
    }

    fn inter(&self, call: &mut Call<'c, '_>, sizes: &[(usize, usize)]) -> Result<Copied, Stop> {
        let (mut left, now) = (Copied::default(), call.now());
        for (nth, (_, input)) in sizes.iter().enumerate() {
            let opened = call.keys.peek(self.keys[*input]);
            let source = Source::of(&opened, now)?;
            if nth == 0 {
                source.for_each(|member, score| left.push(member, self.weigh(*input, score)));
            } else {
                left.retain(|member, score| {
                    let other = self.weigh(*input, source.score(member)?);
                    Some(self.aggregate.of(score, other))
                });
            }
        }
        Ok(left)
    }

    /// How many members all inputs have; up to the limit, if there is one. The smallest input is
    /// gone through in parts, so that a small limit means little work.
    fn count(&self, call: &mut Call<'c, '_>) -> Result<usize, Stop> {
        let (sizes, now) = (self.sizes(call)?, call.now());
        let limit = if self.limit > 0 { self.limit } else { usize::MAX };
        let (size, smallest) = sizes[0];
        let (mut found, mut from) = (0, 0);
        while from < size && found < limit {
            // Without a limit it is known at once that all is gone through.
            let looked_at = if self.limit == 0 { size } else { from };
            check_lane(call.lane, looked_at.saturating_mul(sizes.len()))?;
            let mut left = Copied::default();
            let opened = call.keys.peek(self.keys[smallest]);
            from += Source::of(&opened, now)?
                .part(from, COUNTED_AT_ONCE, |member, score| left.push(member, score));
            drop(opened);
            for (_, input) in &sizes[1..] {
                let opened = call.keys.peek(self.keys[*input]);
                let source = Source::of(&opened, now)?;
                left.retain(|member, score| source.score(member).map(|_| score));
            }
            found += left.len();
        }
        Ok(found.min(limit))
    }

    fn diff(&self, call: &mut Call<'c, '_>) -> Result<Copied, Stop> {
        let (mut left, now) = (Copied::default(), call.now());
        for (nth, key) in self.keys.iter().enumerate() {
            let opened = call.keys.peek(*key);
            let source = Source::of(&opened, now)?;
            if nth == 0 {
                source.for_each(|member, score| left.push(member, score));
            } else {
                left.retain(|member, score| source.score(member).is_none().then_some(score));
            }
        }
        Ok(left)
    }
}

pub(super) fn zunion(call: &mut Call<'_, '_>) -> Done {
    reply(call, Kind::Union)
}

pub(super) fn zinter(call: &mut Call<'_, '_>) -> Done {
    reply(call, Kind::Inter)
}

pub(super) fn zdiff(call: &mut Call<'_, '_>) -> Done {
    reply(call, Kind::Diff)
}

fn reply(call: &mut Call<'_, '_>, kind: Kind) -> Done {
    let wish = Wish::parse(call, kind, Words::Reply, 1)?;
    let mut found = wish.run(call)?;
    found.sort();
    begin_members(&mut call.reply, found.len(), wish.with_scores);
    for (member, score) in found.pairs() {
        reply_member(&mut call.reply, StrRef::Bytes(member), score, wish.with_scores);
    }
    Ok(())
}

pub(super) fn zintercard(call: &mut Call<'_, '_>) -> Done {
    let wish = Wish::parse(call, Kind::Inter, Words::Cardinality, 1)?;
    let found = wish.count(call)?;
    call.reply.int(found as i64);
    Ok(())
}

pub(super) fn zunionstore(call: &mut Call<'_, '_>) -> Done {
    combine_and_store(call, Kind::Union, event::ZUNIONSTORE)
}

pub(super) fn zinterstore(call: &mut Call<'_, '_>) -> Done {
    combine_and_store(call, Kind::Inter, event::ZINTERSTORE)
}

pub(super) fn zdiffstore(call: &mut Call<'_, '_>) -> Done {
    combine_and_store(call, Kind::Diff, event::ZDIFFSTORE)
}

fn combine_and_store(call: &mut Call<'_, '_>, kind: Kind, event: Event) -> Done {
    let wish = Wish::parse(call, kind, Words::Store, 2)?;
    let mut found = wish.run(call)?;
    found.sort();
    let to = call.nth_key(1, 0);
    store(call, to, &found, event)
}

/// Sets a key to what was found, which is in order, whatever the key was; nothing removes it. The
/// reply is how many there are.
pub(super) fn store(call: &mut Call<'_, '_>, to: Key<'_>, found: &Copied, event: Event) -> Done {
    let limits = limits(call.limits);
    let mut opened = call.keys.open(to);
    if found.len() > 0 {
        let set = SortedSet::of_sorted(&found.pairs(), limits);
        opened.set_collection(set, Expiry::Never);
        opened.publish_collection::<SortedSet>(event);
    } else if opened.remove() {
        opened.publish(event::DEL);
    }
    call.reply.int(found.len() as i64);
    Ok(())
}
