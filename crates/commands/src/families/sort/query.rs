//! The options of SORT.

use std::ops::Range;

use pantala_base::number::parse_i64;
use pantala_values::Type;
use smallvec::SmallVec;

use super::part;
use super::pattern::Pattern;
use crate::calls::call::{CommandResult, Lane, Stop};
use crate::error::{self, ClientError};
use crate::options::is_word;

/// Copying and sorting more elements than this is for the slow lane: it takes some 100
/// microseconds.
const WORKER_ELEMENTS: usize = 1000;

/// The most keys looked up on a worker, which then holds as many partitions.
const WORKER_LOOKUPS: usize = 256;

/// The options of SORT.
#[derive(Debug, Default)]
pub(super) struct Query<'a> {
    pub by: Option<Pattern<'a>>,
    pub is_descending: bool,
    is_alpha: bool,
    limit: Option<(i64, i64)>,
    pub gets: SmallVec<[Pattern<'a>; 4]>,
    pub store: Option<&'a [u8]>,
    /// It is called by a script.
    pub is_for_script: bool,
}

/// What elements are ordered by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights<'a> {
    /// Names the keys of the weights; without it the elements are the weights.
    pub pattern: Option<Pattern<'a>>,
    pub is_alpha: bool,
    pub is_descending: bool,
}

const BY_DENIED: ClientError =
    ClientError::text("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_DENIED: ClientError =
    ClientError::text("ERR GET option of SORT denied due to insufficient ACL permissions.");

const BY_CROSSES: ClientError = ClientError::text(
    "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in \
     different slots.",
);
const GET_CROSSES: ClientError = ClientError::text(
    "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in \
     different slots.",
);

/// The error for a client that may not read every key, by the first error among the arguments,
/// which may be one of syntax.
pub(super) fn denied(args: &[&[u8]], may_store: bool) -> Option<ClientError> {
    let mut rest = args.get(2..)?;
    loop {
        rest = match rest {
            [word, pattern, ..] if is_word(word, "BY") && Pattern::parse(pattern).has_star() => {
                return Some(BY_DENIED);
            }
            [word, _, ..] if is_word(word, "GET") => return Some(GET_DENIED),
            [word, more @ ..] if ["ASC", "DESC", "ALPHA"].iter().any(|one| is_word(word, one)) => {
                more
            }
            [word, _, more @ ..] if is_word(word, "BY") => more,
            [word, _, more @ ..] if may_store && is_word(word, "STORE") => more,
            [word, _, _, more @ ..] if is_word(word, "LIMIT") => more,
            _ => return None,
        };
    }
}

impl<'a> Query<'a> {
    pub fn parse(args: &[&'a [u8]], may_store: bool) -> Result<Query<'a>, ClientError> {
        let mut query = Query::default();
        let mut rest = args;
        while let [word, more @ ..] = rest {
            rest = match more {
                _ if is_word(word, "ASC") => {
                    query.is_descending = false;
                    more
                }
                _ if is_word(word, "DESC") => {
                    query.is_descending = true;
                    more
                }
                _ if is_word(word, "ALPHA") => {
                    query.is_alpha = true;
                    more
                }
                [offset, count, left @ ..] if is_word(word, "LIMIT") => {
                    let int = |text: &[u8]| parse_i64(text).ok_or(error::NOT_INTEGER);
                    query.limit = Some((int(offset)?, int(count)?));
                    left
                }
                [key, left @ ..] if may_store && is_word(word, "STORE") => {
                    query.store = Some(key);
                    left
                }
                [pattern, left @ ..] if is_word(word, "BY") => {
                    query.by = Some(Pattern::parse(pattern));
                    left
                }
                [pattern, left @ ..] if is_word(word, "GET") => {
                    query.gets.push(Pattern::parse(pattern));
                    left
                }
                _ => return Err(error::SYNTAX),
            };
        }
        Ok(query)
    }

    /// The error for a pattern that may name keys of other slots than this one.
    pub fn crossing(&self, slot: u16) -> Option<ClientError> {
        let crosses = |pattern: &Pattern<'_>| !pattern.is_in_slot(slot);
        if self.by.is_some_and(|by| by.has_star() && crosses(&by)) {
            return Some(BY_CROSSES);
        }
        self.gets.iter().any(crosses).then_some(GET_CROSSES)
    }

    /// Moves a command to the slow lane before it copies the elements of a value of this length, if
    /// they are many.
    pub fn check_lane(&self, lane: Lane, kind: Type, length: usize) -> CommandResult {
        let is_cut = kind != Type::Set && self.keeps_order(Some(kind));
        let count = if is_cut { self.range(length).len() } else { length };
        let lookups = count.saturating_mul(self.pattern_count());
        let is_long = count > WORKER_ELEMENTS || lookups > WORKER_LOOKUPS;
        if lane == Lane::Worker && is_long { Err(Stop::Lane) } else { Ok(()) }
    }

    /// The most keys that patterns name for each element.
    pub fn pattern_count(&self) -> usize {
        self.by.iter().chain(&self.gets).filter(|pattern| pattern.names_key()).count()
    }

    /// The wanted range of this many elements.
    pub fn range(&self, length: usize) -> Range<usize> {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        part(length, offset, count)
    }

    /// Whether the elements keep their order: BY with a constant.
    pub fn keeps_order(&self, kind: Option<Type>) -> bool {
        // The order of a set in memory must show neither in a stored result nor in a script.
        let is_loose = kind == Some(Type::Set) && (self.store.is_some() || self.is_for_script);
        self.by.is_some_and(|by| !by.has_star()) && !is_loose
    }

    /// Whether the weights are texts that keys hold; other servers order equal ones as they like.
    pub fn orders_texts_of_keys(&self) -> bool {
        self.is_alpha && self.by.is_some_and(|by| by.has_star())
    }

    /// What the elements are ordered by; `None` if they keep their order.
    pub fn weights(&self, kind: Option<Type>) -> Option<Weights<'a>> {
        if self.keeps_order(kind) {
            return None;
        }
        let pattern = self.by.filter(|by| by.has_star());
        // A constant for a set that is to be stored means: any order, but always the same.
        let is_forced = self.by.is_some() && pattern.is_none();
        let is_alpha = self.is_alpha || is_forced;
        Some(Weights { pattern, is_alpha, is_descending: self.is_descending })
    }
}
