//! The last bytes of the replication stream (the backlog), and the history they belong to.
//!
//! ```text
//! first ------- kept ------- end          positions
//!   |  block  |  block  |  bl|
//! ```
//!
//! A primary appends what its journal emits, a replica what its primary sends. Each replica reads
//! from its own position; blocks that no replica needs are dropped once the rest is as long as
//! `repl-backlog-size`.
//!
//! Invariants
//! 1. The bytes at one position of one history never change.
//! 2. The second history is the one before the last change of role: the two differ only after its
//!    end.
//!
//! Tests: at the foot.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::id::ReplicationId;

/// Bytes of a block.
const BLOCK_BYTES: usize = 64 << 10;
/// How many emptied blocks are kept for reuse while a replica is connected: more than a replica
/// falls behind for a moment, since the pages of new memory cost more than writing to them.
const SPARE_BLOCKS: usize = 64;
/// How many emptied blocks are kept while no replica is connected: blocks go as others come.
const SPARE_BLOCKS_ALONE: usize = 1;
const _: () = assert!(SPARE_BLOCKS_ALONE <= SPARE_BLOCKS, "fewer while nobody reads");
const _: () = assert!(usize::BITS == 64, "a position can be an offset in memory");

/// The history of the data, and its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The id of the current history.
    pub id: ReplicationId,
    /// The previous history, and the position up to which both are equal.
    pub second: Option<(ReplicationId, u64)>,
    /// Whether bytes are kept for replicas that come back.
    pub is_kept: bool,
    /// The position of the first kept byte.
    pub first: u64,
    /// The position after the last byte.
    pub end: u64,
    /// The least number of bytes to keep.
    pub kept_bytes: u64,
}

/// Why a replica cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeFailure {
    /// Its data is of another history.
    OtherHistory,
    /// The bytes that it lacks are not kept, or it asks for bytes that do not exist yet.
    NotKept,
}

/// Where a replica continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The id of the history from now on.
    pub id: ReplicationId,
    /// The position.
    pub position: u64,
}

/// The backlog: the last bytes of the stream in blocks, with their history.
#[derive(Debug)]
pub struct ChangeStream {
    state: Mutex<State>,
    /// A copy of the end in `state`, readable without the lock.
    end: AtomicU64,
}

#[derive(Debug)]
struct State {
    history: History,
    /// Each has room for a block; all but the last are full.
    blocks: VecDeque<Vec<u8>>,
    /// The position of the first byte of the first block.
    base: u64,
    spare: Vec<Vec<u8>>,
    /// The end when it was last looked whether the spare blocks are used.
    looked_end: u64,
}

impl Default for ChangeStream {
    fn default() -> Self {
        let history = History {
            id: ReplicationId::random(),
            second: None,
            is_kept: false,
            first: 0,
            end: 0,
            kept_bytes: 0,
        };
        let blocks = VecDeque::new();
        let state = State { history, blocks, base: 0, spare: Vec::new(), looked_end: 0 };
        ChangeStream { state: Mutex::new(state), end: AtomicU64::new(0) }
    }
}

impl ChangeStream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The position after the last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// The history of the data, and its extent.
    pub fn history(&self) -> History {
        self.state().history
    }

    /// Memory used by the kept bytes.
    pub fn memory_bytes(&self) -> u64 {
        let state = self.state();
        ((state.blocks.len() + state.spare.len()) * BLOCK_BYTES) as u64
    }

    /// The most that [`ChangeStream::memory_bytes`] can be while no replica is connected: the bytes
    /// to keep, in whole blocks.
    pub fn kept_memory_bytes(&self) -> u64 {
        let state = self.state();
        let kept_blocks = state.history.kept_bytes.div_ceil(BLOCK_BYTES as u64);
        let most = (kept_blocks + 1 + SPARE_BLOCKS_ALONE as u64) * BLOCK_BYTES as u64;
        most.min(((state.blocks.len() + state.spare.len()) * BLOCK_BYTES) as u64)
    }

    /// Sets the least number of bytes to keep; the next [`ChangeStream::trim`] drops the excess.
    pub fn keep_bytes(&self, bytes: u64) {
        self.state().history.kept_bytes = bytes;
    }

    /// Starts to keep bytes.
    pub fn begin_to_keep(&self) {
        let mut state = self.state();
        if !state.history.is_kept {
            let end = state.history.end;
            state.empty_at(end);
            state.history.is_kept = true;
        }
    }

    /// Stops keeping bytes. Changes are not recorded meanwhile, so what follows is another history.
    pub fn stop_keeping(&self) {
        let mut state = self.state();
        let end = state.history.end;
        state.empty_at(end);
        state.spare = Vec::new();
        state.history.is_kept = false;
        (state.history.id, state.history.second) = (ReplicationId::random(), None);
    }

    /// Appends bytes of whole commands; returns the position after them.
    pub fn append(&self, bytes: &[u8]) -> u64 {
        let mut state = self.state();
        let before = state.history.end;
        state.append(bytes);
        debug_assert_eq!(state.history.end, before + bytes.len() as u64, "the stream only grows");
        state.check();
        self.end.store(state.history.end, Ordering::Release);
        state.history.end
    }

    /// Appends about `most` bytes at `position` to `out`; returns how many.
    ///
    /// # Errors
    /// The bytes at `position` are not kept.
    pub fn read(
        &self,
        position: u64,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, ResumeFailure> {
        self.state().read(position, most, out)
    }

    /// Drops bytes that need not be kept; `needed` is the smallest position that a replica needs.
    pub fn trim(&self, needed: Option<u64>) {
        let mut state = self.state();
        let History { first, end, kept_bytes, .. } = state.history;
        let from = end.saturating_sub(kept_bytes).min(needed.unwrap_or(end)).max(first);
        let most = if needed.is_some() { SPARE_BLOCKS } else { SPARE_BLOCKS_ALONE };
        state.forget_before(from, most);
        debug_assert!(state.history.first <= from, "what is needed is kept");
        state.check();
    }

    /// Frees the spare blocks if less than a block was appended since the last call; whether there
    /// were any. To be called once a second or so.
    pub fn free_unused(&self) -> bool {
        let mut state = self.state();
        let end = state.history.end;
        let before = std::mem::replace(&mut state.looked_end, end);
        if end.saturating_sub(before) >= BLOCK_BYTES as u64 || state.spare.is_empty() {
            return false;
        }
        state.spare = Vec::new();
        true
    }

    /// Whether a replica with the history `id` can continue at `position`.
    ///
    /// # Errors
    /// Why not.
    pub fn go_on(&self, id: ReplicationId, position: u64) -> Result<Continuation, ResumeFailure> {
        let history = self.state().history;
        let is_second =
            || history.second.is_some_and(|(second, end)| second == id && position <= end);
        if id != history.id && !is_second() {
            return Err(ResumeFailure::OtherHistory);
        }
        if !history.is_kept || !(history.first..=history.end).contains(&position) {
            return Err(ResumeFailure::NotKept);
        }
        debug_assert!(position <= self.end(), "a replica continues within the stream");
        Ok(Continuation { id: history.id, position })
    }

    /// Starts a new history here, which differs from the old one only from here on; returns its id.
    pub fn branch(&self) -> ReplicationId {
        let id = ReplicationId::random();
        self.rename(id);
        id
    }

    /// Gives the history a new id, with which no replica of the old id can continue.
    pub fn change_id(&self) {
        let history = &mut self.state().history;
        (history.id, history.second) = (ReplicationId::random(), None);
    }

    /// Takes the new id of the primary's history from here on.
    pub fn rename(&self, id: ReplicationId) {
        let history = &mut self.state().history;
        if history.id != id {
            history.second = Some((history.id, history.end));
            history.id = id;
        }
    }

    /// Takes over another history at this position, after a full copy.
    pub fn become_copy(&self, id: ReplicationId, position: u64) {
        let mut state = self.state();
        state.empty_at(position);
        let history = &mut state.history;
        (history.id, history.second, history.is_kept) = (id, None, true);
        state.check();
        self.end.store(position, Ordering::Release);
    }

    /// Restores the history and position from a data file. A primary continues with a history of
    /// its own, and its former replicas may come back.
    pub fn resume(&self, id: ReplicationId, position: u64, is_primary: bool) {
        let mut state = self.state();
        state.empty_at(position);
        let history = &mut state.history;
        history.is_kept = true;
        match is_primary {
            true => history.second = Some((id, position)),
            false => (history.id, history.second) = (id, None),
        }
        state.check();
        self.end.store(position, Ordering::Release);
    }
}

impl State {
    /// Asserts in debug builds that positions are in order and that the blocks have the bytes
    /// between them.
    fn check(&self) {
        let History { first, end, is_kept, .. } = self.history;
        debug_assert!(self.base <= first && first <= end, "positions are in order");
        let is_full = |block: &Vec<u8>| block.len() == BLOCK_BYTES;
        debug_assert!(self.blocks.iter().rev().skip(1).all(is_full), "all but the last are full");
        let last = self.blocks.back().map_or(0, Vec::len);
        let bytes = self.blocks.len().saturating_sub(1) * BLOCK_BYTES + last;
        debug_assert!(self.spare.len() <= SPARE_BLOCKS, "few blocks are spare");
        debug_assert!(self.spare.iter().all(Vec::is_empty), "spare blocks have nothing");
        debug_assert!(
            self.history.second.is_none_or(|(_, upto)| upto <= end),
            "the former history is a part of this one"
        );
        debug_assert!(!is_kept || self.base + bytes as u64 == end, "the blocks end at the end");
    }

    fn empty_at(&mut self, position: u64) {
        self.blocks.clear();
        self.base = position;
        (self.history.first, self.history.end) = (position, position);
    }

    fn append(&mut self, mut bytes: &[u8]) {
        if !self.history.is_kept {
            self.history.end += bytes.len() as u64;
            return self.empty_at(self.history.end);
        }
        self.history.end += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.blocks.back().is_none_or(|block| block.len() == BLOCK_BYTES) {
                let spare = self.spare.pop();
                self.blocks.push_back(spare.unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES)));
            }
            let Some(block) = self.blocks.back_mut() else { return };
            let part = bytes.len().min(BLOCK_BYTES - block.len());
            block.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
        }
    }

    fn read(&self, position: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, ResumeFailure> {
        let History { first, end, .. } = self.history;
        if !(first..=end).contains(&position) {
            return Err(ResumeFailure::NotKept);
        }
        let bytes = most.min((end - position) as usize);
        debug_assert!(position >= self.base, "what is before the first block is not kept");
        let (mut at, mut left) = ((position - self.base) as usize, bytes);
        out.reserve(bytes);
        while left > 0
            && let Some(block) = self.blocks.get(at / BLOCK_BYTES)
        {
            let inside = at % BLOCK_BYTES;
            let part = left.min(BLOCK_BYTES - inside);
            out.extend_from_slice(&block[inside..inside + part]);
            (at, left) = (at + part, left - part);
        }
        debug_assert_eq!(left, 0, "the blocks have all that is kept");
        Ok(bytes)
    }

    /// Drops whole blocks only: a little more is kept than requested. At most `most_spare` blocks
    /// are spare afterwards.
    fn forget_before(&mut self, position: u64, most_spare: usize) {
        debug_assert!(position >= self.base, "what is before was forgotten");
        debug_assert!(position <= self.history.end, "what comes later is not there");
        while position - self.base >= BLOCK_BYTES as u64
            && let Some(mut block) = self.blocks.pop_front()
        {
            self.base += BLOCK_BYTES as u64;
            if self.spare.len() < most_spare {
                block.clear();
                self.spare.push(block);
            }
        }
        self.spare.truncate(most_spare);
        self.history.first = self.history.first.max(self.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(bytes: u64) -> ChangeStream {
        let stream = ChangeStream::default();
        stream.keep_bytes(bytes);
        stream.begin_to_keep();
        stream
    }

    fn read(stream: &ChangeStream, position: u64, most: usize) -> Result<Vec<u8>, ResumeFailure> {
        let mut out = Vec::new();
        let bytes = stream.read(position, most, &mut out)?;
        assert_eq!(bytes, out.len());
        Ok(out)
    }

    #[test]
    fn what_was_appended_is_read_from_any_position() {
        let stream = kept(u64::MAX);
        let text: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
        for part in text.chunks(7_777) {
            stream.append(part);
        }
        for position in [0, 1, 65_535, 65_536, 131_072, 199_999, 200_000] {
            let found = read(&stream, position as u64, 100_000).expect("it is kept");
            assert_eq!(found, text[position..(position + 100_000).min(200_000)]);
        }
        assert_eq!(read(&stream, 200_001, 1), Err(ResumeFailure::NotKept));
        assert_eq!(stream.end(), 200_000);
    }

    #[test]
    fn as_much_is_kept_as_is_asked_for_or_somebody_needs() {
        let stream = kept(100_000);
        for _ in 0..100 {
            stream.append(&[1; 10_000]);
            stream.trim(Some(300_000));
        }
        let first = stream.history().first;
        assert!(first <= 300_000 && first > 300_000 - BLOCK_BYTES as u64, "{first}");
        assert!(read(&stream, 300_000, 10).is_ok());
        stream.trim(None);
        let first = stream.history().first;
        assert!(first <= 900_000 && first > 900_000 - BLOCK_BYTES as u64, "{first}");
        assert_eq!(read(&stream, 300_000, 10), Err(ResumeFailure::NotKept));
        assert_eq!(read(&stream, 999_999, 10), Ok(vec![1]));
        let most = (100_000 / BLOCK_BYTES + 2 + SPARE_BLOCKS_ALONE) * BLOCK_BYTES;
        assert!(stream.memory_bytes() <= most as u64);
    }

    #[test]
    fn spare_blocks_are_kept_while_they_are_used() {
        let stream = kept(0);
        let write = || {
            stream.append(&[1; 10 * BLOCK_BYTES]);
            stream.trim(Some(stream.end()));
        };
        write();
        assert_eq!(stream.memory_bytes(), 10 * BLOCK_BYTES as u64);
        assert!(!stream.free_unused(), "much was written");
        write();
        assert_eq!(stream.memory_bytes(), 10 * BLOCK_BYTES as u64, "they are used again");
        assert!(!stream.free_unused());
        stream.append(b"PING");
        assert!(stream.free_unused());
        assert_eq!(stream.memory_bytes(), BLOCK_BYTES as u64);
        assert!(!stream.free_unused(), "there are none");
    }

    #[test]
    fn nothing_is_kept_before_it_is_asked_for_nor_after() {
        let stream = ChangeStream::default();
        stream.append(b"abc");
        assert_eq!((stream.end(), stream.memory_bytes()), (3, 0));
        let id = stream.history().id;
        assert_eq!(stream.go_on(id, 3), Err(ResumeFailure::NotKept));
        stream.begin_to_keep();
        assert_eq!(stream.go_on(id, 3), Ok(Continuation { id, position: 3 }));
        assert_eq!(stream.go_on(id, 2), Err(ResumeFailure::NotKept));
        stream.append(b"def");
        assert_eq!(read(&stream, 3, 9), Ok(b"def".to_vec()));
        stream.stop_keeping();
        assert_eq!(stream.go_on(id, 6), Err(ResumeFailure::OtherHistory));
        assert_eq!(stream.end(), 6);
    }

    #[test]
    fn who_knows_the_history_before_goes_on_up_to_where_they_part() {
        let stream = kept(1000);
        stream.append(&[0; 100]);
        let old = stream.history().id;
        let id = stream.branch();
        stream.append(&[0; 100]);
        assert_eq!(stream.go_on(old, 100), Ok(Continuation { id, position: 100 }));
        assert_eq!(stream.go_on(old, 101), Err(ResumeFailure::OtherHistory));
        assert_eq!(stream.go_on(id, 200), Ok(Continuation { id, position: 200 }));
        assert_eq!(stream.go_on(id, 201), Err(ResumeFailure::NotKept));
        stream.change_id();
        assert_eq!(stream.go_on(id, 200), Err(ResumeFailure::OtherHistory));
        assert_eq!(stream.go_on(old, 100), Err(ResumeFailure::OtherHistory));
        assert_eq!(stream.go_on(ReplicationId::random(), 0), Err(ResumeFailure::OtherHistory));
    }

    #[test]
    fn a_copy_has_the_history_of_what_was_copied() {
        let stream = kept(1000);
        stream.append(&[0; 100]);
        let (own, id) = (stream.history().id, ReplicationId::random());
        stream.become_copy(id, 5_000);
        assert_eq!(stream.go_on(own, 100), Err(ResumeFailure::OtherHistory));
        assert_eq!(stream.go_on(id, 5_000), Ok(Continuation { id, position: 5_000 }));
        assert_eq!(stream.append(b"a"), 5_001);
        assert_eq!(read(&stream, 5_000, 9), Ok(b"a".to_vec()));
    }

    #[test]
    fn after_a_restart_a_replica_goes_on_and_a_primary_knows_its_replicas() {
        let id = ReplicationId::random();
        let replica = kept(1000);
        replica.resume(id, 70, false);
        assert_eq!(replica.history().id, id);
        let primary = kept(1000);
        primary.resume(id, 70, true);
        assert!(primary.go_on(id, 70).is_ok());
        assert_eq!(primary.go_on(id, 71), Err(ResumeFailure::OtherHistory));
        assert_eq!(primary.append(b"abc"), 73);
    }
}
