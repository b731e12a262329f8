//! Walks through the table: SCAN, all entries, a random one, expired ones.

use pantala_base::UnixMs;
use pantala_base::rng::Rng;

use super::bin::{Bin, Raws};
use super::{Chunk, Dense, Entry, HashHint, NEVER, Place, bound, entry};

/// Bits of a hash in a cursor: small enough for clients that read it as a signed number.
const CURSOR_BITS: u32 = 48;
/// A call of `scan` looks at up to this many bins for each entry that was asked for.
const BINS_PER_ENTRY: usize = 10;
/// One part of a walk covers at most this many bins, however little `each` takes of them: some
/// 1,800 entries.
const BINS_PER_PART: usize = 128;
/// After this many failed tries a random choice takes the next entry. About every third try
/// succeeds.
const CHANCE_TRIES: usize = 500;

impl Dense {
    /// Emits entries from a cursor on and returns the next cursor; 0 starts and ends. Every entry
    /// that exists during the whole scan is emitted, whatever happens between the calls; some may
    /// be emitted twice.
    ///
    /// A cursor is a bit-reversed hash; all entries with smaller ones have been emitted: splitting
    /// a bin divides its range of them in two. A call emits about `count` entries, always whole
    /// bins.
    pub fn scan(&self, cursor: u64, count: usize, each: &mut dyn FnMut(Entry<'_>)) -> u64 {
        let mut at = cursor << (64 - CURSOR_BITS);
        let (mut met, mut bins) = (0, 0);
        loop {
            let index = self.index_of(at.reverse_bits());
            let bin = self.bin(index);
            bin.iter().for_each(|raw| each(self.entry_of(raw)));
            met += bin.count();
            bins += 1;
            let depth = self.depth + u32::from(self.is_split(index));
            let Some(shift) = 64_u32.checked_sub(depth).filter(|&shift| shift < 64) else {
                return 0;
            };
            let Some(next) = (at >> shift).checked_add(1).filter(|&next| next >> depth == 0) else {
                return 0;
            };
            at = next << shift;
            if met >= count || bins / BINS_PER_ENTRY >= count {
                return at >> (64 - CURSOR_BITS);
            }
        }
    }

    /// Whether a bin has been split in this round, so that it is chosen by one more bit of the
    /// hash.
    #[inline]
    fn is_split(&self, index: usize) -> bool {
        index < self.split || index >= 1 << self.depth
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { table: self, chunks: self.chunks.iter(), bins: [].iter(), raws: None }
    }

    /// Visits the entries in parts, in no particular order: shows whole bins, from bin `from` on,
    /// until `each` has no room for more or the part is long. Returns the bin to continue with, as
    /// long as the table does not change; `None` at the end. 0 starts.
    #[inline]
    pub fn part<'a>(
        &'a self,
        from: usize,
        mut each: impl FnMut(Entry<'a>) -> bool,
    ) -> Option<usize> {
        self.part_of_bins(from, |bin| {
            let mut has_room = true;
            self.bin(bin).iter().for_each(|raw| has_room &= each(self.entry_of(raw)));
            has_room
        })
    }

    /// As [`Dense::part`], with the hash bits that follow from the place of each entry.
    #[inline]
    pub fn part_known<'a>(
        &'a self,
        from: usize,
        mut each: impl FnMut(Entry<'a>, HashHint) -> bool,
    ) -> Option<usize> {
        self.part_of_bins(from, |bin| {
            let bits = self.depth + u32::from(self.is_split(bin));
            let (mut raws, mut has_room) = (self.bin(bin).iter(), true);
            while let Some(raw) = raws.next() {
                let known = HashHint { low: bin, bits, tag: raws.last_tag() };
                has_room &= each(self.entry_of(raw), known);
            }
            has_room
        })
    }

    /// As [`Dense::part`], for entries whose key is also in another table, together with that
    /// table's entry. Tables of similar size keep such entries in the same bins, and then nothing
    /// is hashed.
    #[inline]
    pub fn part_common<'a>(
        &'a self,
        other: &'a Dense,
        from: usize,
        mut each: impl FnMut(Entry<'a>, Entry<'a>) -> bool,
    ) -> Option<usize> {
        self.part_of_bins(from, |index| {
            let bits = self.depth + u32::from(self.is_split(index));
            let same = other.bin_of_low(index, bits).map(|index| other.bin(index));
            let (mut raws, mut has_room) = (self.bin(index).iter(), true);
            while let Some(raw) = raws.next() {
                let entry = self.entry_of(raw);
                let found = match same {
                    None => other.get(entry.key),
                    Some(bin) => other
                        .find_slot(bin, raws.last_tag(), entry.key)
                        .map(|slot| other.entry_of(bin.raw(slot))),
                };
                if let Some(found) = found {
                    has_room &= each(entry, found);
                }
            }
            has_room
        })
    }

    /// Shows bins from one on until there is no room for more or the part is long. Returns where to
    /// continue.
    #[inline]
    fn part_of_bins(&self, from: usize, mut each: impl FnMut(usize) -> bool) -> Option<usize> {
        let (end, mut bin) = (self.bin_count(), from);
        while bin < end {
            let has_room = each(bin);
            bin += 1;
            if !has_room || bin - from == BINS_PER_PART {
                break;
            }
        }
        (bin < end).then_some(bin)
    }

    /// A random entry, uniformly; `None` in an empty table.
    ///
    /// A random hash chooses a bin, and the bin is accepted in proportion to its number of entries,
    /// so entries of full bins are not rarer than others. Full means six deviations above the mean.
    pub fn random(&self, chance: &mut Rng) -> Option<Entry<'_>> {
        self.random_place(chance).map(|place| self.entry_at(place))
    }

    /// Removes a random entry, uniformly, and shows it first. `None` in an empty table.
    pub fn take_random<R>(
        &mut self,
        chance: &mut Rng,
        show: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let place = self.random_place(chance)?;
        let shown = show(self.entry_at(place));
        self.cut(place);
        self.shrink();
        Some(shown)
    }

    fn random_place(&self, chance: &mut Rng) -> Option<Place> {
        if self.is_empty() {
            return None;
        }
        let mean = (self.len >> self.depth) as u64 + 1;
        let full = mean + 8 * mean.isqrt() + 8;
        for _ in 0..CHANCE_TRIES {
            let index = self.index_of(chance.next_u64());
            let bin = self.bin(index);
            let count = bin.count() as u64;
            // A split bin is chosen half as often, by half as many hashes.
            let weight = 1 + u64::from(self.is_split(index));
            if chance.below(full) < count * weight {
                let slot = bin.slot(bin.count(), chance.below(count) as usize);
                return Some(Place { bin: index, slot });
            }
        }
        let bin = (0..self.bin_count()).find(|&index| self.bin(index).count() > 0)?;
        let slot = self.bin(bin).slot(self.bin(bin).count(), 0);
        Some(Place { bin, slot })
    }

    /// No entry expires before this time; `None` when none has a deadline.
    #[inline]
    pub fn next_deadline(&self) -> Option<UnixMs> {
        (self.earliest < NEVER).then_some(self.earliest)
    }

    /// How many entries have not expired at `now`. Looks only at the chunks that may hold expired
    /// ones.
    pub fn live_len(&self, now: UnixMs) -> usize {
        if self.earliest >= now {
            return self.len;
        }
        let due = self.chunks.iter().filter(|chunk| chunk.earliest < now);
        let bins = due.flat_map(|chunk| &chunk.bins).filter(|bin| bin.has_marks());
        let gone = bins.flat_map(|bin| bin.iter()).filter(|raw| self.entry_of(*raw).is_gone(now));
        self.len - gone.count()
    }

    /// Removes expired entries: chunk by chunk, until `limit` or more are removed or none is left.
    /// Each is passed to `gone` first. Returns how many were removed; fewer than `limit` means that
    /// the bound of [`Dense::next_deadline`] is exact again.
    ///
    /// A chunk has about a thousand entries, of which only marked ones are read.
    pub fn expire(&mut self, now: UnixMs, limit: usize, gone: &mut dyn FnMut(Entry<'_>)) -> usize {
        let mut removed = 0;
        let mut index = 0;
        while index < self.chunks.len() && removed < limit {
            if self.chunks[index].earliest < now {
                removed += self.expire_chunk(index, now, gone);
            }
            index += 1;
        }
        if removed > 0 || self.earliest < now {
            let bounds = self.chunks.iter().map(|chunk| chunk.earliest);
            self.earliest = bounds.min().unwrap_or(NEVER);
        }
        for _ in 0..removed {
            self.shrink();
        }
        removed
    }

    fn expire_chunk(
        &mut self,
        index: usize,
        now: UnixMs,
        gone: &mut dyn FnMut(Entry<'_>),
    ) -> usize {
        let mut chunk = std::mem::take(&mut self.chunks[index]);
        let before = self.len;
        let mut earliest = NEVER;
        for bin in chunk.bins.iter_mut().filter(|bin| bin.has_marks()) {
            earliest = earliest.min(self.expire_bin(bin, now, gone));
        }
        chunk.earliest = earliest;
        self.chunks[index] = chunk;
        before - self.len
    }

    /// Removes the expired entries of a bin; returns the earliest remaining deadline.
    fn expire_bin(
        &mut self,
        bin: &mut Bin,
        now: UnixMs,
        gone: &mut dyn FnMut(Entry<'_>),
    ) -> UnixMs {
        let mut stays = [true; super::bin::MAX_ENTRIES];
        let mut earliest = NEVER;
        let mut removed = 0;
        for (stays, raw) in stays.iter_mut().zip(bin.iter()) {
            let one = self.entry_of(raw);
            let Some(deadline) = one.deadline else { continue };
            if !one.is_gone(now) {
                earliest = earliest.min(bound(deadline));
                continue;
            }
            gone(one);
            *stays = false;
            removed += 1;
            self.inline_bytes -= raw.1.len();
            if let Some(large) = entry::marked(raw.1).large {
                self.large.free(large);
            }
        }
        if removed > 0 {
            let left = bin.part(|index| stays[index]);
            self.bin_heap = self.bin_heap + left.allocated() - bin.allocated();
            self.len -= removed;
            *bin = left;
        }
        earliest
    }
}

impl Default for Chunk {
    fn default() -> Self {
        Chunk { bins: Vec::new(), earliest: NEVER }
    }
}

/// An iterator over all entries, see [`Dense::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    table: &'a Dense,
    chunks: std::slice::Iter<'a, Chunk>,
    bins: std::slice::Iter<'a, Bin>,
    raws: Option<Raws<'a>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if let Some(raw) = self.raws.as_mut().and_then(Iterator::next) {
                return Some(self.table.entry_of(raw));
            }
            match self.bins.next() {
                Some(bin) => self.raws = Some(bin.iter()),
                None => self.bins = self.chunks.next()?.bins.iter(),
            }
        }
    }
}
