//! The form in which reads by consumer groups are recorded.
//!
//! ```text
//! XREADGROUP .. >    XCLAIM key group consumer 0 id .. TIME ms RETRYCOUNT 1 FORCE JUSTID LASTID id
//!                    XGROUP SETID key group id ENTRIESREAD count
//! of what is pending, XCLAIM, XAUTOCLAIM    XCLAIM as above; XACK for entries that are gone
//! a new consumer that was given nothing     XGROUP CREATECONSUMER
//! ```
//!
//! As in the reference, except that entries with the same time and count share one XCLAIM, and that
//! new consumers and repeated deliveries of pending entries are not lost.

use pantala_base::UnixMs;
use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_i64, fmt_u64};
use pantala_values::stream::{Group, ID_TEXT_MAX_BYTES, StreamId};

use crate::calls::call::Call;
use crate::calls::record::RecordedWords;

/// The most ids recorded in one command.
const IDS_AT_ONCE: usize = 512;

/// An entry that is pending now in this state.
#[derive(Clone, Copy)]
pub(super) struct Delivery {
    pub id: StreamId,
    pub at: UnixMs,
    pub count: u64,
}

/// The effect of a command on a group and one of its consumers.
#[derive(Default)]
pub(super) struct Deliveries {
    /// The deliveries, in order.
    pub list: Vec<Delivery>,
    /// Entries that are no longer pending.
    pub gone: Vec<StreamId>,
    /// The consumer was created.
    pub is_new: bool,
    /// The group's last id, or the number of entries it has read, has changed.
    pub has_advanced: bool,
    pub last_id: StreamId,
    pub entries_read: Option<i64>,
}

impl Deliveries {
    /// Notes the state of the group after the command; `before` is that before it.
    pub fn note(&mut self, group: &Group, before: (StreamId, Option<i64>), is_new: bool) {
        self.is_new = is_new;
        (self.last_id, self.entries_read) = (group.last_id, group.entries_read);
        // Claims carry the last id themselves.
        self.has_advanced =
            before.1 != self.entries_read || (before.0 != self.last_id && self.list.is_empty());
    }

    /// Records the effect; nothing, if only the time has changed.
    #[inline(never)]
    pub fn record(&self, call: &Call<'_, '_>, key: &[u8], group: &[u8], consumer: &[u8]) {
        call.record_nothing();
        if self.is_new && self.list.is_empty() {
            call.record_as(&[b"XGROUP", b"CREATECONSUMER", key, group, consumer]);
        }
        let alike = |one: &Delivery, next: &Delivery| (one.at, one.count) == (next.at, next.count);
        for batch in self.list.chunk_by(alike).flat_map(|same| same.chunks(IDS_AT_ONCE)) {
            self.record_claim(call, [key, group, consumer], batch);
        }
        record_ids(call, &[b"XACK", key, group], &self.gone);
        if self.has_advanced {
            // A count that cannot be set is unknown.
            let (id_digits, digits) = (&mut [0; ID_TEXT_MAX_BYTES], &mut [0; I64_TEXT_MAX_BYTES]);
            let (id, count) = (
                self.last_id.write(id_digits),
                self.entries_read.filter(|count| *count >= 0).unwrap_or(-1),
            );
            let count = fmt_i64(count, digits);
            call.record_as(&[b"XGROUP", b"SETID", key, group, id, b"ENTRIESREAD", count]);
        }
    }

    fn record_claim(&self, call: &Call<'_, '_>, names: [&[u8]; 3], batch: &[Delivery]) {
        let Some(Delivery { at, count, .. }) = batch.first() else { return };
        let [key, group, consumer] = names;
        let (moment, counted) = (&mut [0; I64_TEXT_MAX_BYTES], &mut [0; I64_TEXT_MAX_BYTES]);
        let last = &mut [0; ID_TEXT_MAX_BYTES];
        let texts = Texts::of(batch.iter().map(|delivery| delivery.id));
        let mut words = RecordedWords::from_slice(&[b"XCLAIM", key, group, consumer, b"0"]);
        words.extend(texts.iter());
        words.extend([&b"TIME"[..], fmt_i64(at.0, moment)]);
        words.extend([&b"RETRYCOUNT"[..], fmt_u64(*count, counted)]);
        words.extend([&b"FORCE"[..], b"JUSTID", b"LASTID", self.last_id.write(last)]);
        call.record_as(&words);
    }
}

/// Records a command about entries: its first words, and their ids.
pub(super) fn record_ids(call: &Call<'_, '_>, first: &[&[u8]], ids: &[StreamId]) {
    for ids in ids.chunks(IDS_AT_ONCE) {
        let texts = Texts::of(ids.iter().copied());
        let words: RecordedWords<'_> = texts.iter().collect();
        call.record_listed(first, &words);
    }
}

/// Ids as text.
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn of(ids: impl Iterator<Item = StreamId>) -> Texts {
        let mut texts = Texts { bytes: Vec::new(), ends: Vec::new() };
        for id in ids {
            texts.bytes.extend_from_slice(id.write(&mut [0; ID_TEXT_MAX_BYTES]));
            texts.ends.push(texts.bytes.len());
        }
        texts
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut from, end)..end])
    }
}
