//! What a dead process has left in its rings.
//!
//! Tests: `rings`.

use std::collections::BTreeMap;
use std::ops::Range;

use super::layout::{
    AREA_WORDS, CONTINUES, ENTRIES_AT, ENTRY_WORDS, HEAD_WORDS, IDENTITY_AT, KIND_AT, LENGTH_AT,
    MAGIC, MISSED_AT, NUMBER_AT, OWNER_AT, PLACED_AT, SLOT_WORDS, SLOTS_AT, USED_AT, VERSION,
    piece_of, sum,
};
use super::{ConfirmedBytes, Identity};
use crate::chunk::{Chunk, Frame, JournalPiece};
use crate::merger::Merger;
use crate::resp::command_bytes;
use crate::stamp::{MOST_THREADS, Stamp};

/// What a dead process has left in its rings.
#[derive(Debug, PartialEq, Eq)]
pub struct RingRemains {
    /// The confirmed position.
    pub confirmed: ConfirmedBytes,
    /// The commands after it, framed and with SELECT.
    pub commands: Vec<u8>,
    /// Further steps existed but are incomplete.
    pub is_cut: bool,
}

/// Why nothing can be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Nothing was confirmed, or it is of another version, or of another run of the machine.
    Nothing,
    /// It is of this run of the machine, for other files.
    Others,
    /// It is not what was stored.
    Damaged,
}

impl RingRemains {
    /// Reads a file of rings.
    ///
    /// # Errors
    /// It is none of this identity, is damaged, or has nothing to add.
    pub fn read(bytes: &[u8], identity: &Identity) -> Result<RingRemains, Unread> {
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|w| u64::from_ne_bytes(*w)).collect();
        let (head, areas) = words.split_at_checked(HEAD_WORDS).ok_or(Unread::Nothing)?;
        check_identity(head, identity)?;
        let confirmed = read_slots(head).ok_or(Unread::Nothing)?;
        if ((areas.len() / AREA_WORDS) as u64) < head[PLACED_AT] {
            return Err(Unread::Damaged);
        }
        let until = missing_from(&head[MISSED_AT..], confirmed.upto);
        let mut merger = Merger::default();
        for (thread, areas) in by_thread(areas) {
            let mut ring = RingReader::new(thread, confirmed.upto..until);
            areas.iter().try_for_each(|area| ring.read(area)).ok_or(Unread::Damaged)?;
            merger.add(thread, ring.chunk);
        }
        let mut commands = Vec::new();
        merger.take(until, &mut |run| {
            if run.audience.has_files() {
                commands.extend_from_slice(run.bytes);
            }
        });
        Ok(RingRemains { confirmed, commands, is_cut: until != Stamp::LAST })
    }
}

fn check_identity(head: &[u64], identity: &Identity) -> Result<(), Unread> {
    let (found, boot) = (&head[IDENTITY_AT..][..identity.len()], &identity[..2]);
    match head[..2] == [MAGIC, VERSION] && found.starts_with(boot) {
        false => Err(Unread::Nothing),
        true if found != identity => Err(Unread::Others),
        true => Ok(()),
    }
}

/// What was confirmed last.
fn read_slots(head: &[u64]) -> Option<ConfirmedBytes> {
    let slots = (0..2).map(|slot| &head[SLOTS_AT + slot * SLOT_WORDS..][..5]);
    let whole = slots.filter(|slot| slot[0] != 0 && slot[4] == sum(&slot[..4]));
    let slot = whole.max_by_key(|slot| slot[0])?;
    let upto = Stamp::from_bits(slot[3]);
    Some(ConfirmedBytes { increment: slot[1], bytes: slot[2], upto })
}

/// The first missing stamp that is not confirmed.
fn missing_from(words: &[u64], confirmed: Stamp) -> Stamp {
    let (from, upto) = (Stamp::from_bits(words[0]), Stamp::from_bits(words[1]));
    if upto < confirmed || upto == Stamp::default() { Stamp::LAST } else { from }
}

/// The areas that are in use, of each thread in their order.
fn by_thread(areas: &[u64]) -> BTreeMap<usize, Vec<&[u64]>> {
    let is_used =
        |area: &&[u64]| area[USED_AT] != 0 && (1..=MOST_THREADS as u64).contains(&area[OWNER_AT]);
    let mut used: Vec<&[u64]> = areas.chunks_exact(AREA_WORDS).filter(is_used).collect();
    used.sort_by_key(|area| area[NUMBER_AT]);
    let mut threads = BTreeMap::<usize, Vec<&[u64]>>::new();
    for area in used {
        threads.entry(area[OWNER_AT] as usize - 1).or_default().push(area);
    }
    threads
}

/// Reads the steps of a thread that are not confirmed.
struct RingReader {
    thread: usize,
    /// The stamps that are wanted: neither confirmed nor after a step that found no room.
    wanted: Range<Stamp>,
    last: Stamp,
    /// Whole steps.
    chunk: Chunk,
    /// The pieces of a step whose end has not come.
    step: Chunk,
    /// The first parts of a piece.
    part: Vec<u8>,
}

impl RingReader {
    fn new(thread: usize, wanted: Range<Stamp>) -> RingReader {
        let last = Stamp::default();
        let (chunk, step) = (Chunk::default(), Chunk::default());
        RingReader { thread, wanted, last, chunk, step, part: Vec::new() }
    }

    /// Reads the entries of an area; `None`: it is damaged.
    fn read(&mut self, area: &[u64]) -> Option<()> {
        let used = usize::try_from(area[USED_AT]).ok()?;
        let mut entries = area[ENTRIES_AT..].get(..used)?;
        while !entries.is_empty() {
            let (entry, rest) = entries.split_at_checked(ENTRY_WORDS)?;
            let length = match usize::try_from(entry[LENGTH_AT]).ok()? {
                0 => rest.len(),
                length => length,
            };
            let (words, rest) = rest.split_at_checked(length)?;
            self.read_entry(Stamp::from_bits(entry[0]), entry[KIND_AT], words)?;
            entries = rest;
        }
        Some(())
    }

    fn read_entry(&mut self, stamp: Stamp, kind: u64, words: &[u64]) -> Option<()> {
        // In order, and its own: the merger relies on it.
        (stamp >= self.last && stamp.thread() == self.thread).then_some(())?;
        if stamp > self.last {
            // What is not whole by now belongs to a step that found no room.
            self.step = Chunk::default();
            self.part.clear();
            self.last = stamp;
        }
        if !self.wanted.contains(&stamp) {
            return Some(());
        }
        self.part.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        if kind & CONTINUES != 0 {
            return Some(());
        }
        let part = std::mem::take(&mut self.part);
        let piece = piece_of(stamp, kind);
        let Frame { begins, ends, is_inside } = piece.frame;
        if begins || !is_inside {
            self.step = Chunk::default();
        } else if self.step.pieces.is_empty() {
            // The beginning found no room, and neither did the step.
            return Some(());
        }
        push_commands(&mut self.step, piece, &part)?;
        if ends || !is_inside {
            let step = std::mem::take(&mut self.step);
            let begin = self.chunk.bytes.len();
            self.chunk.bytes.extend_from_slice(&step.bytes);
            let moved = |piece: JournalPiece| JournalPiece { end: begin + piece.end, ..piece };
            self.chunk.pieces.extend(step.pieces.into_iter().map(moved));
        }
        Some(())
    }
}

/// Adds a piece with the commands in these bytes; `None`: they are none. Each command was stored
/// from a whole word on, so that zeros may follow it.
fn push_commands(step: &mut Chunk, piece: JournalPiece, mut bytes: &[u8]) -> Option<()> {
    while let Some(at) = bytes.iter().position(|&byte| byte != 0) {
        bytes = &bytes[at..];
        let (command, rest) = bytes.split_at_checked(command_bytes(bytes)?)?;
        step.bytes.extend_from_slice(command);
        bytes = rest;
    }
    step.pieces.push(JournalPiece { end: step.bytes.len(), ..piece });
    Some(())
}
