//! Parsing that several commands of the family share: ids, intervals, trimming.

use pantala_base::number::parse_i64;
use pantala_values::stream::{Bound, References, Sequence, StreamId, Trim};

use crate::calls::call::Call;
use crate::error::{self, ClientError};
use crate::options::is_word;

pub(super) const INVALID_ID: ClientError =
    ClientError::text("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: ClientError = ClientError::text("ERR invalid start ID for the interval");
const INVALID_END: ClientError = ClientError::text("ERR invalid end ID for the interval");
const TWO_STRATEGIES: ClientError = ClientError::text(
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
);
const NEGATIVE_LENGTH: ClientError = ClientError::text("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: ClientError = ClientError::text("ERR The LIMIT argument must be >= 0.");
const LIMIT_OF_NOTHING: ClientError = ClientError::text(
    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
);
const NO_STRATEGY: ClientError =
    ClientError::text("ERR syntax error, XTRIM must be called with a trimming strategy");
const LIMIT_OF_EXACT: ClientError =
    ClientError::text("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// How many full blocks approximate trimming looks at by default ...
const DEFAULT_LIMIT_BLOCKS: u64 = 100;
/// ... or how many entries, if a block has no limit ...
const DEFAULT_LIMIT: u64 = 10_000;
/// ... and the upper limit of that.
const HIGHEST_DEFAULT_LIMIT: u64 = 1_000_000;

/// Parses an id; a missing second half is 0.
pub(super) fn id(text: &[u8]) -> Result<StreamId, ClientError> {
    StreamId::parse_strict(text, 0).ok_or(INVALID_ID)
}

/// Parses one end of an interval: the id, and whether it is excluded.
fn end_of_interval(text: &[u8], missing: u64) -> Result<(StreamId, bool), ClientError> {
    match text {
        b"-" => Ok((StreamId::MIN, false)),
        b"+" => Ok((StreamId::MAX, false)),
        [b'(', rest @ ..] if !rest.is_empty() => {
            Ok((StreamId::parse_strict(rest, missing).ok_or(INVALID_ID)?, true))
        }
        _ => Ok((StreamId::parse_strict(text, missing).ok_or(INVALID_ID)?, false)),
    }
}

/// The first id of an interval.
pub(super) fn interval_start(text: &[u8]) -> Result<StreamId, ClientError> {
    match end_of_interval(text, 0)? {
        (id, false) => Ok(id),
        (id, true) => id.next().ok_or(INVALID_START),
    }
}

/// The last id of an interval.
pub(super) fn interval_end(text: &[u8]) -> Result<StreamId, ClientError> {
    match end_of_interval(text, u64::MAX)? {
        (id, false) => Ok(id),
        (id, true) => id.previous().ok_or(INVALID_END),
    }
}

/// Parses an integer of 64 bits, as options have it.
pub(super) fn int(text: &[u8]) -> Result<i64, ClientError> {
    parse_i64(text).ok_or(error::NOT_INTEGER)
}

/// Parses the integer after a word, with its own error.
pub(super) fn int_or(text: &[u8], error: ClientError) -> Result<i64, ClientError> {
    parse_i64(text).ok_or(error)
}

/// Parses KEEPREF, DELREF or ACKED.
pub(super) fn references(word: &[u8]) -> Option<References> {
    match word {
        word if is_word(word, "KEEPREF") => Some(References::Keep),
        word if is_word(word, "DELREF") => Some(References::Drop),
        word if is_word(word, "ACKED") => Some(References::Acknowledged),
        _ => None,
    }
}

/// The id of a new entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum NewId {
    /// `*`
    Auto,
    /// `ms-*`
    Time(u64),
    /// This one.
    Given(StreamId),
}

/// The options of XADD and XTRIM.
#[derive(Debug)]
pub(super) struct AddOptions {
    /// NOMKSTREAM
    pub only_existing: bool,
    /// How to trim.
    pub trim: Option<Trim>,
    /// XADD's id and its position.
    pub id: Option<(NewId, usize)>,
}

/// The parsed words, before they are checked together.
#[derive(Default)]
struct ParsedOptions {
    only_existing: bool,
    bound: Option<Bound>,
    approximate: bool,
    limit: Option<i64>,
    references: Option<References>,
    id: Option<(NewId, usize)>,
}

impl AddOptions {
    /// Parses those of XADD, up to the id.
    pub fn of_xadd(call: &Call<'_, '_>) -> Result<AddOptions, ClientError> {
        ParsedOptions::parse(call.args, true)?.judge(call, true)
    }

    /// Parses those of XTRIM.
    pub fn of_xtrim(call: &Call<'_, '_>) -> Result<AddOptions, ClientError> {
        ParsedOptions::parse(call.args, false)?.judge(call, false)
    }
}

impl ParsedOptions {
    fn parse(args: &[&[u8]], adds: bool) -> Result<ParsedOptions, ClientError> {
        let mut words = ParsedOptions::default();
        let mut at = 2;
        while let Some(&word) = args.get(at) {
            let has_more = at + 1 < args.len();
            if adds && word == b"*" {
                words.id = Some((NewId::Auto, at));
                return Ok(words);
            } else if has_more && (is_word(word, "MAXLEN") || is_word(word, "MINID")) {
                at = words.bound(args, at)?;
            } else if has_more && is_word(word, "LIMIT") {
                let limit = int(args[at + 1])?;
                if limit < 0 {
                    return Err(NEGATIVE_LIMIT);
                }
                words.limit = Some(limit);
                at += 2;
            } else if adds && is_word(word, "NOMKSTREAM") {
                words.only_existing = true;
                at += 1;
            } else if words.references.is_none()
                && let Some(references) = references(word)
            {
                words.references = Some(references);
                at += 1;
            } else if adds {
                words.id = Some((new_id(word)?, at));
                return Ok(words);
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(words)
    }

    /// Parses MAXLEN or MINID at `at`; returns the position after it.
    fn bound(&mut self, args: &[&[u8]], at: usize) -> Result<usize, ClientError> {
        if self.bound.is_some() {
            return Err(TWO_STRATEGIES);
        }
        let has_sign = at + 2 < args.len() && matches!(args[at + 1], b"~" | b"=");
        self.approximate = has_sign && args[at + 1] == b"~";
        let at_value = at + 1 + usize::from(has_sign);
        let value = args[at_value];
        self.bound = Some(if is_word(args[at], "MAXLEN") {
            let length = int(value)?;
            Bound::Length(u64::try_from(length).map_err(|_| NEGATIVE_LENGTH)?)
        } else {
            Bound::Id(id(value)?)
        });
        Ok(at_value + 1)
    }

    fn judge(self, call: &Call<'_, '_>, adds: bool) -> Result<AddOptions, ClientError> {
        let limit = self.limit.unwrap_or(0).unsigned_abs();
        if self.bound.is_none() && limit != 0 {
            return Err(LIMIT_OF_NOTHING);
        }
        if self.bound.is_none() && !adds {
            return Err(NO_STRATEGY);
        }
        // Other servers record what `~` has become, and leave LIMIT as it was.
        let is_repeated = call.is_repeated();
        if self.limit.is_some() && !self.approximate && !is_repeated {
            return Err(LIMIT_OF_EXACT);
        }
        let Some(bound) = self.bound else {
            return Ok(AddOptions { only_existing: self.only_existing, trim: None, id: self.id });
        };
        let limit = match self.limit {
            // The recorded threshold is exact.
            _ if is_repeated => 0,
            None if self.approximate => default_limit(call.settings.stream_node_max_entries as u64),
            _ => limit,
        };
        let references = self.references.unwrap_or_default();
        let trim = Trim { bound, approximate: self.approximate, limit, references };
        Ok(AddOptions { only_existing: self.only_existing, trim: Some(trim), id: self.id })
    }
}

fn default_limit(block_entries: u64) -> u64 {
    match block_entries.saturating_mul(DEFAULT_LIMIT_BLOCKS) {
        0 => DEFAULT_LIMIT,
        limit => limit.min(HIGHEST_DEFAULT_LIMIT),
    }
}

fn new_id(text: &[u8]) -> Result<NewId, ClientError> {
    match StreamId::parse(text) {
        Some((ms, Sequence::Given(seq))) => Ok(NewId::Given(StreamId { ms, seq })),
        Some((ms, Sequence::Missing)) => Ok(NewId::Given(StreamId { ms, seq: 0 })),
        Some((ms, Sequence::Any)) => Ok(NewId::Time(ms)),
        None => Err(INVALID_ID),
    }
}
