//! Adding and removing members: ZADD, ZINCRBY, ZREM.

use pantala_base::number::parse_f64;
use pantala_keyspace::{Expiry, event};
use pantala_values::SortedSet;
use pantala_values::sorted_set::{SetOutcome, SortedSetLimits};
use smallvec::SmallVec;

use super::{CHANGE_REMOVE, MODIFY, check_lane, limits, open, writes};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const CHANGE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE)];

const NX_AND_XX: ClientError =
    ClientError::text("ERR XX and NX options at the same time are not compatible");
const GT_LT_NX: ClientError =
    ClientError::text("ERR GT, LT, and/or NX options at the same time are not compatible");
const ONE_INCREMENT: ClientError =
    ClientError::text("ERR INCR option supports a single increment-element pair");
const NOT_A_NUMBER: ClientError = ClientError::text("ERR resulting score is not a number (NaN)");

/// The options before the scores.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::families) struct Options {
    /// Only new members.
    pub nx: bool,
    /// Only present members.
    pub xx: bool,
    /// Only to a greater score; new members are added.
    gt: bool,
    /// Only to a smaller score; new members are added.
    lt: bool,
    /// Returns how many changed, not how many are new.
    pub ch: bool,
    /// Adds to the score.
    incr: bool,
}

impl Options {
    /// Parses the options; returns them and the position of the scores.
    fn parse(args: &[&[u8]]) -> Result<(Options, usize), ClientError> {
        let mut found = Options::default();
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let option = match *word {
                word if is_word(word, "NX") => &mut found.nx,
                word if is_word(word, "XX") => &mut found.xx,
                word if is_word(word, "GT") => &mut found.gt,
                word if is_word(word, "LT") => &mut found.lt,
                word if is_word(word, "CH") => &mut found.ch,
                word if is_word(word, "INCR") => &mut found.incr,
                _ => break,
            };
            *option = true;
            at += 1;
        }
        found.check(args.len() - at)?;
        Ok((found, at))
    }

    fn check(self, left: usize) -> Result<(), ClientError> {
        if left == 0 || !left.is_multiple_of(2) {
            return Err(error::SYNTAX);
        }
        if self.nx && self.xx {
            return Err(NX_AND_XX);
        }
        if (self.nx && (self.gt || self.lt)) || (self.gt && self.lt) {
            return Err(GT_LT_NX);
        }
        if self.incr && left > 2 {
            return Err(ONE_INCREMENT);
        }
        Ok(())
    }

    /// The score that a member gets; `None`: it stays as it is.
    #[inline]
    fn decide(self, old: Option<f64>, given: f64) -> Option<f64> {
        let Some(old) = old else { return (!self.xx).then_some(given) };
        let new = if self.incr { old + given } else { given };
        let is_refused =
            self.nx || (self.gt && new <= old) || (self.lt && new >= old) || new.is_nan();
        (!is_refused).then_some(new)
    }
}

pub(super) const ZADD: Command = writes("ZADD", zadd)
    .arity(-4)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(MODIFY)
    .since("1.2.0")
    .complexity("O(log(N)) for each member")
    .syntax(
        "key [NX | XX] [comparison: GT | LT] [change: CH] [increment: INCR] \
         score:double member [score:double member ...]",
    )
    .summary("Adds members to a sorted set, or changes their scores.");

fn zadd(call: &mut Call<'_, '_>) -> CommandResult {
    let (options, from) = Options::parse(call.args)?;
    add(call, options, from)
}

pub(super) const ZINCRBY: Command = writes("ZINCRBY", zincrby)
    .arity(4)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(CHANGE)
    .since("1.2.0")
    .complexity("O(log(N))")
    .syntax("key increment:double member")
    .summary("Adds to a member's score; a missing member counts as 0.");

/// As in the reference, options are parsed here, too; then nothing is left to add.
fn zincrby(call: &mut Call<'_, '_>) -> CommandResult {
    let (options, from) = Options::parse(call.args)?;
    add(call, Options { incr: true, ..options }, from)
}

/// Scores and members alternate from argument `from` on.
fn add(call: &mut Call<'_, '_>, options: Options, from: usize) -> CommandResult {
    let entries: SmallVec<[(f64, &[u8]); 8]> = call.args[from..]
        .chunks_exact(2)
        .map(|pair| Ok((parse_f64(pair[0]).ok_or(error::NOT_FLOAT)?, pair[1])))
        .collect::<Result<_, ClientError>>()?;
    put(call, options, &entries)
}

/// The effect on the given members.
#[derive(Default)]
struct Counts {
    added: i64,
    moved: i64,
    persisted: bool,
    is_nan: bool,
    /// The score of the last one, if it was set.
    result: Option<f64>,
}

impl Counts {
    fn are_changes(&self) -> bool {
        self.added + self.moved > 0 || self.persisted
    }
}

/// Adds scores and members to a sorted set, up to one whose score would be NaN.
#[inline]
fn update_all(
    set: &mut SortedSet,
    options: Options,
    entries: &[(f64, &[u8])],
    limits: SortedSetLimits,
) -> Counts {
    let mut counts = Counts::default();
    for &(given, member) in entries {
        let Counts { is_nan, result, .. } = &mut counts;
        let (_, changed) = set.update(member, limits, |old| {
            *is_nan = options.incr && old.is_some_and(|old| (old + given).is_nan());
            *result = options.decide(old, given);
            *result
        });
        if *is_nan {
            break;
        }
        let is_set = result.is_some();
        counts.added += i64::from(changed == SetOutcome::Added);
        counts.moved += i64::from(changed == SetOutcome::Moved);
        // Setting a score removes the member's deadline; adding to it does not.
        if changed != SetOutcome::Added && is_set && !options.incr {
            counts.persisted |= set.persist(member);
        }
    }
    counts
}

/// Adds scores and members to the sorted set at the command's key: ZADD, and GEOADD.
pub(in crate::families) fn put(
    call: &mut Call<'_, '_>,
    options: Options,
    entries: &[(f64, &[u8])],
) -> CommandResult {
    check_lane(call.lane, entries.len())?;
    let (key, limits, lane) = (call.key(), limits(call.settings), call.lane);
    let longest = || entries.iter().map(|(_, member)| member.len()).max().unwrap_or(0);
    let mut swapped = None;
    if call.has_many_args() {
        open(call.keys, key, lane)?;
        swapped = call.copy_and_swap(|set: &mut SortedSet| {
            if set.is_empty() {
                *set = SortedSet::with_room(entries.len(), longest(), limits);
            }
            update_all(set, options, entries, limits)
        })?;
    }
    let mut opened = open(call.keys, key, lane)?;
    if !opened.exists() && options.xx {
        match options.incr {
            true => call.reply.null(),
            false => call.reply.int(0),
        }
        return Ok(());
    }
    if swapped.is_none() && !opened.exists() {
        let set = SortedSet::with_room(entries.len(), longest(), limits);
        opened.set_collection(set, Expiry::Never);
    }
    let counts = match swapped {
        Some((set, counts)) => {
            if let Some(set) = set
                && counts.are_changes()
            {
                opened.set_collection(set, Expiry::Keep);
            }
            counts
        }
        None => update_all(opened.collection_or_new::<SortedSet>()?, options, entries, limits),
    };
    let Counts { added, moved, persisted, is_nan, result } = counts;
    if is_nan {
        opened.unchanged();
        return Err(NOT_A_NUMBER.into());
    }
    if added + moved > 0 {
        let event = if options.incr { event::ZINCR } else { event::ZADD };
        opened.counts_as((added + moved).unsigned_abs() as usize);
        opened.publish_collection::<SortedSet>(event);
    } else if persisted {
        opened.publish_collection::<SortedSet>(event::ZPERSIST);
    } else {
        opened.unchanged();
    }
    match (options.incr, result) {
        (true, Some(score)) => call.reply.double(score),
        (true, None) => call.reply.null(),
        (false, _) => call.reply.int(if options.ch { added + moved } else { added }),
    }
    Ok(())
}

pub(super) const ZREM: Command = writes("ZREM", zrem)
    .arity(-3)
    .flags(Flags::FAST)
    .keys(CHANGE_REMOVE)
    .since("1.2.0")
    .complexity("O(log(N)) for each member")
    .syntax("key member [member ...]")
    .summary("Removes members from a sorted set.");

fn zrem(call: &mut Call<'_, '_>) -> CommandResult {
    check_lane(call.lane, call.args.len())?;
    let key = call.key();
    if call.has_many_args() {
        drop(open(call.keys, key, call.lane)?);
        let members = &call.args[2..];
        return call.remove_many(event::ZREM, |set: &mut SortedSet| {
            members.iter().filter(|member| set.remove(member).is_some()).count()
        });
    }
    let mut opened = open(call.keys, key, call.lane)?;
    let mut removed = 0;
    if let Some(set) = opened.collection_mut::<SortedSet>()? {
        for member in &call.args[2..] {
            removed += usize::from(set.remove(member).is_some());
        }
        match removed {
            0 => opened.unchanged(),
            _ => {
                opened.counts_as(removed);
                opened.publish_collection::<SortedSet>(event::ZREM);
            }
        }
    }
    call.reply.int(removed as i64);
    Ok(())
}
