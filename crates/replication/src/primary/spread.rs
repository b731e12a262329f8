//! A full copy in parts: keys are spread over several connections as they come.
//!
//! ```text
//! queue of the snapshot --blocks of whole keys--> the part with the least to send --> frames
//! the link:  $PARTS:n, signs of life, and when all keys are sent: $EOF:mark, all but keys, mark
//! ```
//!
//! A part is a snapshot of its own, without a checksum: its frames have one each. While the
//! connections are slower than the snapshot the frames are compressed, where that pays.
//!
//! Invariants
//! 1. A block begins with its database, and holds whole keys, or is followed in the same part by
//!    the rest of its last key.
//! 2. What waits for one replica is bounded as in `sink`.
//!
//! Tests: compat/replication, `several_connections` and those after it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_keyspace::DbIndex;
use pantala_keyspace::snapshot::{SnapshotPiece, SnapshotRoom, Span};
use pantala_persistence::snapshot::queue::QueueItem;
use pantala_persistence::snapshot::{Fault, PieceSource, SnapshotFacts, SnapshotQueue};
use pantala_psync::link::FrameWriter;
use pantala_psync::link::frames::MOST_FRAME_BYTES;
use pantala_psync::{Phase, Replica};
use pantala_rdb::file::{RdbWriter, write_database};
use pantala_settings::Settings;
use pantala_settings::field::CopyCompression;

use super::direct;
use super::joined::Part;
use super::recipients::{Recipient, Recipients};
use super::{call, name, tell_memory};
use crate::Replication;
use pantala_durability::saving::SaveFailure;
use pantala_durability::snapshots::Turn;
use pantala_durability::snapshots::cut::PieceTarget;
use pantala_durability::snapshots::moment::Moment;

/// The size at which a block is sent.
const BLOCK_BYTES: usize = 128 << 10;
/// With more bytes waiting than this, the connection is the bottleneck.
const WAITING_BYTES: usize = 512 << 10;
const _: () = assert!(BLOCK_BYTES <= MOST_FRAME_BYTES, "a block of small keys is one frame");
const _: () = assert!(BLOCK_BYTES <= WAITING_BYTES, "one block waits for nobody");
/// After a block that compression did not shrink, this many are sent uncompressed.
const PLAIN_BLOCKS: u32 = 16;
/// How soon is checked whether another part has room.
const LOOK: Duration = Duration::from_millis(5);

/// Makes a copy for these, each with at least so many connections.
pub(super) fn make(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
    turn: Turn,
    count: usize,
) -> Result<u64, SaveFailure> {
    let moment = Moment::for_replicas(&replication.durability);
    let mut cut = turn.cut(recipients.purpose(moment))?;
    recipients.begin(replication, cut.note_place()?)?;
    for recipient in recipients.present() {
        let joined = recipient.joined.parts().len();
        recipient.queue.put(format!("$PARTS:{joined}\r\n").into_bytes().into());
        call(replication, &recipient.replica);
    }
    let source = Arc::clone(cut.queue());
    cut.write(&mut Parts { replication, recipients, source: &source, count })
}

/// The connections of all recipients, to write a snapshot to.
struct Parts<'s> {
    replication: &'s Arc<Replication>,
    recipients: &'s Arc<Recipients>,
    source: &'s SnapshotQueue,
    count: usize,
}

impl PieceTarget for Parts<'_> {
    fn write(&mut self, facts: &SnapshotFacts, pieces: &dyn PieceSource) -> Result<u64, Fault> {
        let Parts { replication, recipients, source, count } = *self;
        tracing::info!(parts = count, "it is sent over connections of its own");
        let mut spread = PartSpread::new(replication, recipients, source, count);
        let bytes = spread.write_all(pieces)?;
        let Counts { frames, compressed } = spread.counts;
        tracing::info!(bytes, frames, compressed, "all its keys are under way");
        // Everything except keys goes over the links.
        direct::send_without_keys(replication, recipients, facts).map(|rest| bytes + rest)
    }
}

/// The parts with the same number of all recipients: they are sent the same bytes.
struct Lane {
    frames: FrameWriter,
    writer: RdbWriter,
    /// For each recipient.
    parts: Vec<Part>,
}

impl Lane {
    /// The bytes that wait for the slowest of them.
    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.queue.bytes()).max().unwrap_or(0)
    }
}

struct PartSpread<'s> {
    replication: &'s Replication,
    recipients: &'s Recipients,
    source: &'s SnapshotQueue,
    lanes: Vec<Lane>,
    /// The block being filled.
    block: Vec<u8>,
    db: Option<DbIndex>,
    /// The part that got the last block.
    last: usize,
    /// The part that the rest of the last key has to go to.
    held: Option<usize>,
    is_inside: bool,
    compression: CopyCompression,
    /// How many blocks are still sent uncompressed.
    untried: u32,
    counts: Counts,
}

/// The counts for the log.
#[derive(Clone, Copy, Default)]
struct Counts {
    frames: u64,
    compressed: u64,
}

/// The error when the recipients are gone, or the copy was cancelled.
fn broken() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl<'s> PartSpread<'s> {
    fn new(
        replication: &'s Replication,
        recipients: &'s Recipients,
        source: &'s SnapshotQueue,
        count: usize,
    ) -> PartSpread<'s> {
        let parts: Vec<_> = recipients.present().map(|one| one.joined.parts()).collect();
        let lane = |at: usize| {
            let mut head = Vec::new();
            let writer = RdbWriter::begin(recipients.version(), false, &mut head);
            let parts: Vec<_> = parts.iter().filter_map(|list| list.get(at).cloned()).collect();
            let mut lane = Lane { frames: FrameWriter::default(), writer, parts };
            lane.put(replication, &head, false);
            lane
        };
        // Surplus connections of one recipient get no keys.
        let most = parts.iter().map(Vec::len).max().unwrap_or(0);
        let mut lanes: Vec<Lane> = (0..most).map(lane).collect();
        lanes.drain(count.min(most)..).for_each(|lane| lane.end(replication));
        PartSpread {
            replication,
            recipients,
            source,
            lanes,
            block: Vec::new(),
            db: None,
            last: 0,
            held: None,
            is_inside: false,
            compression: compression_of(&replication.engine.settings.current()),
            untried: 0,
            counts: Counts::default(),
        }
    }

    /// Takes all pieces and sends them; returns their bytes.
    fn write_all(&mut self, pieces: &dyn PieceSource) -> Result<u64, Fault> {
        let failed = |error| Fault::Disk("send", PathBuf::from("a full copy"), error);
        let mut bytes = 0;
        loop {
            match pieces.next() {
                QueueItem::Piece(piece) => {
                    bytes += piece.bytes.len() as u64;
                    self.gather(&piece).map_err(failed)?;
                }
                QueueItem::End => break,
                QueueItem::Broken => return Err(Fault::CalledOff),
            }
        }
        self.flush().map_err(failed)?;
        self.look_after().map_err(failed)?;
        debug_assert!(self.block.is_empty() && self.held.is_none(), "all whole keys are sent");
        self.lanes.drain(..).for_each(|lane| lane.end(self.replication));
        Ok(bytes)
    }

    fn gather(&mut self, piece: &SnapshotPiece) -> io::Result<()> {
        if !self.is_inside && (self.block.is_empty() || self.db != Some(piece.db)) {
            write_database(piece.db.0, &mut self.block);
            self.db = Some(piece.db);
        }
        debug_assert!(self.db == Some(piece.db), "the parts of a key are of one database");
        self.is_inside = matches!(piece.span, Span::First | Span::Middle);
        self.block.extend_from_slice(&piece.bytes);
        if self.block.len() < BLOCK_BYTES { Ok(()) } else { self.flush() }
    }

    /// Sends the block.
    fn flush(&mut self) -> io::Result<()> {
        // Among equal parts they take turns.
        let (lanes, turn) = (self.lanes.len(), self.last + 1);
        let in_turn = (turn..turn + lanes).map(|at| at % lanes);
        let emptiest = in_turn.min_by_key(|at| self.lanes[*at].bytes());
        let at = self.held.or(emptiest).ok_or_else(broken)?;
        debug_assert!(at < lanes, "there is such a part");
        self.last = at;
        let mut block = std::mem::take(&mut self.block);
        for (number, bytes) in block.chunks(MOST_FRAME_BYTES).enumerate() {
            if number > 0 {
                self.wait_for_room(Some(at))?;
            }
            let tries = self.tries(at);
            let pays = self.lanes[at].put(self.replication, bytes, tries);
            if tries && !pays {
                self.untried = PLAIN_BLOCKS;
            }
            self.counts.compressed += u64::from(pays);
            self.counts.frames += 1;
        }
        self.held = self.is_inside.then_some(at);
        self.wait_for_room(self.held)?;
        block.clear();
        self.block = block;
        Ok(())
    }

    /// Whether to try compressing the next frame of this part.
    fn tries(&mut self, at: usize) -> bool {
        match self.compression {
            CopyCompression::Yes => true,
            CopyCompression::No => false,
            CopyCompression::Auto if self.untried > 0 => {
                self.untried -= 1;
                false
            }
            CopyCompression::Auto => self.lanes[at].bytes() >= WAITING_BYTES,
        }
    }

    /// Waits until this part, or else any, has room, or commands would have to wait.
    fn wait_for_room(&self, of: Option<usize>) -> io::Result<()> {
        let waiting = || self.lanes.iter().map(Lane::bytes).sum::<usize>();
        let (mut moved_us, mut left) = (monotonic_us(), waiting());
        loop {
            self.look_after()?;
            let emptiest = self.lanes.iter().min_by_key(|lane| lane.bytes());
            let lane = of.map_or(emptiest, |at| self.lanes.get(at)).ok_or_else(broken)?;
            // Nothing is taken from the queues of the others.
            let present = lane.parts.iter().filter(|part| !part.queue.is_over());
            let fullest = present.max_by_key(|part| part.queue.bytes());
            if fullest.is_none_or(|part| part.queue.wait_for_room(LOOK)) {
                return Ok(());
            }
            let now = waiting();
            if now < left {
                (moved_us, left) = (monotonic_us(), now);
            }
            // They may have changed meanwhile.
            let settings = self.replication.engine.settings.current();
            let most_us = u64::from(settings.repl_timeout_s) * 1_000_000;
            let most_bytes = settings.client_output_buffer_limit.replica.hard_bytes;
            let is_stuck = monotonic_us().saturating_sub(moved_us) > most_us;
            for recipient in self.recipients.present() {
                let bytes = recipient.bytes() as u64;
                if is_stuck && bytes > 0 {
                    self.give_up(recipient, "Disconnecting timedout replica (full sync)");
                } else if most_bytes > 0 && bytes > most_bytes {
                    self.give_up(recipient, "what waits for it is over its output buffer limit");
                }
            }
            if self.source.room() == SnapshotRoom::Overfull {
                return Ok(());
            }
        }
    }

    /// Drops a recipient that has lost a connection, and the connections of one that is gone.
    fn look_after(&self) -> io::Result<()> {
        for recipient in &self.recipients.list {
            let is_gone = |replica: &Replica| replica.phase() == Phase::Gone;
            let parts = recipient.joined.parts();
            if is_gone(&recipient.replica) {
                recipient.joined.close(self.replication);
            } else if parts.iter().any(|part| is_gone(&part.replica)) {
                self.give_up(recipient, "one of its connections is lost");
            }
        }
        match self.recipients.are_gone() || self.recipients.save.is_cancelled() {
            true => Err(broken()),
            false => Ok(()),
        }
    }

    fn give_up(&self, recipient: &Recipient, why: &str) {
        let replica = name(&recipient.replica);
        tracing::warn!(replica, "disconnecting a replica during its copy: {why}");
        recipient.close(self.replication);
    }
}

/// Which frames of a copy are compressed. Who wants no compression of snapshots has a use for the
/// processor that it would take.
fn compression_of(settings: &Settings) -> CopyCompression {
    match settings.repl_copy_compression {
        CopyCompression::Auto if !settings.rdbcompression => CopyCompression::No,
        chosen => chosen,
    }
}

impl Lane {
    /// Sends a frame of these bytes; whether it was compressed.
    fn put(&mut self, replication: &Replication, bytes: &[u8], compresses: bool) -> bool {
        let mut out = Vec::with_capacity(bytes.len() + 64);
        let pays = self.frames.write(bytes, compresses, &mut out);
        let frame: Arc<[u8]> = out.into();
        for Part { replica, queue } in &self.parts {
            queue.put(Arc::clone(&frame));
            call(replication, replica);
        }
        tell_memory(replication);
        pays
    }

    fn end(mut self, replication: &Replication) {
        let mut tail = Vec::new();
        self.writer.end(&mut tail);
        self.put(replication, &tail, false);
        let mut end = Vec::new();
        self.frames.end(&mut end);
        let end: Arc<[u8]> = end.into();
        for Part { replica, queue } in &self.parts {
            queue.finish_with(Arc::clone(&end));
            call(replication, replica);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_compressed_as_snapshots_are() {
        let check = |words: &[(&str, &str)], expected| {
            let with = |settings: Settings, (name, word): &(&str, &str)| {
                settings.with(name, word).expect("a setting")
            };
            let settings = words.iter().fold(Settings::defaults(), with);
            assert_eq!(compression_of(&settings), expected, "{words:?}");
        };
        check(&[], CopyCompression::Auto);
        check(&[("rdbcompression", "no")], CopyCompression::No);
        check(&[("rdbcompression", "no"), ("repl-copy-compression", "yes")], CopyCompression::Yes);
    }
}
