//! Trimming, as it is recorded.
//!
//! Approximate trimming depends on a stream's blocks in memory, so it is recorded as exact trimming
//! to its result. Trimming that respects references (Redis 8.2's DELREF and ACKED) is recorded in
//! commands that every server knows: trimmed to a length, or entries deleted, and acknowledged.

use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_u64};
use pantala_values::Stream;
use pantala_values::stream::{Bound, ID_TEXT_MAX_BYTES, References, StreamId, Trim};

use super::options::{AddOptions, NewId, references};
use super::record_ids;
use crate::calls::call::Call;
use crate::calls::record::RecordedWords;
use crate::options::is_word;

/// What was removed, and what is left.
#[derive(Default)]
pub(super) struct TrimResult {
    /// How many entries were removed.
    pub count: u64,
    /// Which ones, if references were respected.
    gone: Vec<StreamId>,
    /// The groups whose references to them were removed, too.
    groups: Vec<Box<[u8]>>,
    minds_references: bool,
    /// What is left is not a suffix of what was there.
    has_gaps: bool,
    length: u64,
    first_id: StreamId,
}

impl TrimResult {
    /// Trims a stream.
    pub fn of(stream: &mut Stream, trim: Trim, is_recorded: bool) -> TrimResult {
        if !is_recorded {
            return TrimResult { count: stream.trim(trim), ..TrimResult::default() };
        }
        let minds_references = stream.minds_references(trim);
        let mut gone = Vec::new();
        let count = match minds_references {
            true => stream.trim_each(trim, &mut |id| gone.push(id)),
            false => stream.trim(trim),
        };
        let groups = match trim.references {
            References::Drop if minds_references => {
                stream.groups().map(|(name, _)| Box::from(name)).collect()
            }
            _ => Vec::new(),
        };
        let length = stream.len();
        // In an empty stream no removed id is after the first entry's.
        let first_id = if length == 0 { StreamId::MAX } else { stream.first_id() };
        let has_gaps = gone.last().is_some_and(|last| *last > first_id);
        TrimResult { count, gone, groups, minds_references, has_gaps, length, first_id }
    }

    /// Records XADD, with this id at this argument, or XTRIM.
    #[inline(never)]
    pub fn record(
        &self,
        call: &Call<'_, '_>,
        options: &AddOptions,
        added: Option<(StreamId, usize)>,
    ) {
        let (id_digits, digits) = (&mut [0; ID_TEXT_MAX_BYTES], &mut [0; I64_TEXT_MAX_BYTES]);
        let first_digits = &mut [0; ID_TEXT_MAX_BYTES];
        let length = fmt_u64(self.length, digits);
        let end = added.map_or(call.args.len(), |(_, at)| at);
        let given = &call.args[2..end];
        let mut words = RecordedWords::from_slice(&call.args[..2]);
        match options.trim {
            Some(_) if self.has_gaps => {}
            Some(_) if self.minds_references => words.extend([&b"MAXLEN"[..], b"=", length]),
            Some(Trim { approximate: true, bound: Bound::Id(_), .. }) => {
                push_exact(&mut words, given, self.first_id.write(first_digits));
            }
            _ => push_exact(&mut words, given, length),
        }
        if let Some((id, at)) = added {
            words.push(match options.id {
                Some((NewId::Given(_), _)) => call.args[at],
                _ => id.write(id_digits),
            });
            words.extend_from_slice(&call.args[at + 1..]);
        }
        if added.is_some() || !self.has_gaps {
            call.record_as(&words);
        }
        if self.has_gaps {
            record_ids(call, &[b"XDEL", call.args[1]], &self.gone);
        }
        for group in &self.groups {
            record_ids(call, &[b"XACK", call.args[1], group], &self.gone);
        }
    }
}

/// The words before the id, with the threshold in place of an approximate one.
fn push_exact<'w>(words: &mut RecordedWords<'w>, given: &[&'w [u8]], threshold: &'w [u8]) {
    let mut rest = given;
    while let [word, behind @ ..] = rest {
        rest = behind;
        match (word, behind) {
            (&b"~", [_, behind @ ..]) => {
                words.extend([&b"="[..], threshold]);
                rest = behind;
            }
            (word, [_, behind @ ..]) if is_word(word, "LIMIT") => rest = behind,
            // The key exists by now.
            (word, _) if is_word(word, "NOMKSTREAM") || references(word).is_some() => {}
            _ => words.push(word),
        }
    }
}
