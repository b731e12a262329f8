//! What one thread records: commands, step by step.
//!
//! ```text
//! begin_command --> note_change, record, record_nothing --> end_command: as it came, or nothing
//!                                      ...
//!                   end_step(stamp of what is held) --> the stamp to leave there
//!                                      ...
//!                   hand_over: to the journal's reader
//! ```
//!
//! Invariants
//! 1. A discarded step leaves nothing but expiries (`record_lasting`).
//! 2. Nothing here is shared with another thread, and no command causes an allocation once the
//!    buffers have grown.
//! 3. While there are rings, a step is in this thread's ring before `end_step` returns: the caller
//!    holds the partitions until then, so no other thread has seen the step's effects.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::chunk::{Audience, Chunk, Frame, JournalPiece};
use crate::journal::{HeldRing, Journal, Outbox, UnknownCommandCounts};
use crate::resp;
use crate::rings::kind_of;
use crate::stamp::Stamp;

/// Flag: the current command has changed something.
const HAS_CHANGED: u8 = 1;
/// Flag: the current command has recorded its effects itself.
const HAS_SAID: u8 = 2;

/// Records the commands of one thread, step by step, and hands them to the journal's reader.
#[derive(Debug)]
pub struct Recorder {
    journal: Arc<Journal>,
    outbox: Arc<Outbox>,
    /// A bound is announced: there are finished steps that were not handed over.
    is_announced: Cell<bool>,
    last: Cell<Stamp>,
    command: Cell<u8>,
    /// A step has ended since [`Recorder::take_ended`].
    has_ended: Cell<bool>,
    /// The open step already has its stamp.
    has_stamp: Cell<bool>,
    /// Who receives the changes of commands; a script may restrict it.
    told: Cell<Option<Audience>>,
    /// Commands that some readers do not know, counted since the last hand-over.
    asides: Cell<UnknownCommandCounts>,
    /// How many commands the open step has.
    open_commands: Cell<usize>,
    steps: RefCell<Steps>,
}

/// Finished steps and, at their end, the open step.
#[derive(Debug, Default)]
struct Steps {
    chunk: Chunk,
    finished_bytes: usize,
    finished_pieces: usize,
    /// Also stores finished steps.
    held: HeldRing,
}

impl Recorder {
    pub(crate) fn new(journal: Arc<Journal>, outbox: Arc<Outbox>) -> Recorder {
        let last = Cell::new(outbox.last());
        Recorder {
            journal,
            outbox,
            is_announced: Cell::new(false),
            last,
            command: Cell::new(0),
            has_ended: Cell::new(false),
            has_stamp: Cell::new(false),
            told: Cell::new(Some(Audience::All)),
            asides: Cell::default(),
            open_commands: Cell::new(0),
            steps: RefCell::default(),
        }
    }

    /// Whether changes are recorded. A worker asks once per turn; a thread outside the gate asks
    /// while it holds the partition.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.journal.is_on()
    }

    /// Whether this step is durable by the fsync policy; the default stamp always is.
    pub fn is_durable(&self, step: Stamp) -> bool {
        step == Stamp::default() || self.journal.is_durable(step)
    }

    /// Starts the next command: clears the flags of the previous one.
    #[inline]
    pub fn begin_command(&self) {
        self.command.set(0);
    }

    /// Notes that the current command has changed something.
    #[inline]
    pub fn note_change(&self) {
        self.command.set(self.command.get() | HAS_CHANGED);
    }

    /// Suppresses recording the current command as it came: it records its effects itself.
    #[inline]
    pub fn record_nothing(&self) {
        self.command.set(self.command.get() | HAS_SAID);
    }

    /// Whether the current command has changed something and has not recorded its effects: then it
    /// is recorded as it came.
    #[inline]
    fn is_unsaid(&self) -> bool {
        self.command.get() == HAS_CHANGED
    }

    /// Ends the current command, which ran in this database, and records it as it came if needed.
    /// `frame` is the bytes that its arguments were parsed from, or empty.
    #[inline]
    pub fn end_command(&self, db: u32, args: &[&[u8]], frame: &[u8]) {
        if !self.is_unsaid() {
            return;
        }
        if resp::is_canonical(frame, args) {
            self.append_frame(db, frame);
        } else {
            self.append(db, args, Audience::All, false);
        }
    }

    /// Adds a command to the open step as the client has written it.
    #[inline]
    fn append_frame(&self, db: u32, frame: &[u8]) {
        let Some(audience) = Audience::All.within(self.told.get()) else { return };
        let mut steps = self.steps.borrow_mut();
        steps.chunk.bytes.extend_from_slice(frame);
        steps.chunk.prepare_for(frame.len());
        let piece = steps.add_piece(db, audience, false);
        let is_first = self.open_commands.replace(self.open_commands.get() + 1) == 0;
        match &mut steps.held.ring {
            Some(ring) if is_first && self.is_announced.get() => {
                ring.stage(kind_of(&piece), frame);
            }
            _ => steps.unstage(),
        }
    }

    /// Adds a command to the open step, in this database.
    #[inline]
    pub fn record(&self, db: u32, args: &[&[u8]]) {
        self.record_nothing();
        self.append(db, args, Audience::All, false);
    }

    /// Adds a command to the open step, in this database, for replicas only.
    pub fn record_for_replicas(&self, db: u32, args: &[&[u8]]) {
        self.record_nothing();
        self.append(db, args, Audience::Replicas, false);
    }

    /// Adds an expiry, which is not undone with the current command.
    #[cold]
    pub fn record_lasting(&self, db: u32, args: &[&[u8]]) {
        if !self.is_on() {
            return;
        }
        self.append(db, args, Audience::All, true);
    }

    /// Sets who receives the changes of commands from now on; `None`: nobody.
    pub fn tell(&self, told: Option<Audience>) {
        self.told.set(told);
    }

    /// Counts a command that not all readers know.
    pub fn count_aside(&self, is_ours_alone: bool) {
        let UnknownCommandCounts { ours, newer } = self.asides.get();
        self.asides.set(match is_ours_alone {
            true => UnknownCommandCounts { ours: ours + 1, newer },
            false => UnknownCommandCounts { ours, newer: newer + 1 },
        });
    }

    #[inline]
    fn append(&self, db: u32, args: &[&[u8]], audience: Audience, lasts: bool) {
        let told = if lasts { Some(Audience::All) } else { self.told.get() };
        let Some(audience) = audience.within(told) else { return };
        let mut steps = self.steps.borrow_mut();
        resp::push_command(&mut steps.chunk.bytes, args);
        steps.add_piece(db, audience, lasts);
        steps.unstage();
        self.open_commands.set(self.open_commands.get() + 1);
    }

    /// Whether the open step has recorded anything.
    #[inline]
    pub fn has_step(&self) -> bool {
        self.open_commands.get() != 0
    }

    /// Discards what the open step has recorded, except expiries.
    pub fn discard_step(&self) {
        let left = self.steps.borrow_mut().discard();
        self.open_commands.set(left);
    }

    /// Fixes the stamp of the open step, to be left in partitions that are freed before it ends, or
    /// told to a client. After this the step may take no partition with a larger stamp. `seen` is
    /// the largest stamp of the partitions it holds.
    pub fn stamp_step(&self, seen: Stamp) -> Stamp {
        if self.is_announced.get() && !self.has_stamp.get() {
            self.keep_up((self.journal.clock)());
        }
        self.has_stamp.set(true);
        self.next_stamp(seen)
    }

    /// Whether the open step already has its stamp.
    pub fn has_stamp(&self) -> bool {
        self.has_stamp.get()
    }

    #[inline]
    fn next_stamp(&self, seen: Stamp) -> Stamp {
        if !self.is_announced.get() {
            self.announce();
        }
        let stamp = seen.next_of(self.outbox.thread).max(self.last.get());
        debug_assert!(stamp >= seen, "it is after all steps in the partitions held");
        debug_assert_eq!(stamp.thread(), self.outbox.thread, "it is this thread's");
        self.last.set(stamp);
        stamp
    }

    /// Announces the bound, for the first step after a hand-over.
    fn announce(&self) {
        debug_assert!(!self.is_announced.get(), "once between two hand-overs");
        let floor = self.journal.floor.announce(&self.outbox.bound);
        self.keep_up(floor.max((self.journal.clock)()));
        self.is_announced.set(true);
        let mut steps = self.steps.borrow_mut();
        if steps.held.version != self.journal.ring_version() {
            steps.held = self.journal.ring(&self.outbox, self.outbox.last());
        }
        if let Some(ring) = &mut steps.held.ring {
            ring.begin_turn();
        }
    }

    /// Makes all further stamps at least this time.
    #[inline]
    fn keep_up(&self, time: u64) {
        let least = Stamp::first_of(time).next_of(self.outbox.thread);
        self.last.set(least.max(self.last.get()));
    }

    /// Ends the open step and returns its stamp, which the caller leaves in the partitions held.
    /// `seen` is the largest stamp of these.
    #[inline]
    pub fn end_step(&self, seen: Stamp) -> Stamp {
        let stamp = self.next_stamp(seen);
        self.has_stamp.set(false);
        self.has_ended.set(true);
        let commands = self.open_commands.replace(0);
        self.steps.borrow_mut().finish(stamp, commands > 1);
        stamp
    }

    /// The stamp of the last step, if one has ended since the last call.
    #[inline]
    pub fn take_ended(&self) -> Option<Stamp> {
        self.has_ended.replace(false).then(|| self.last.get())
    }

    /// Ends the open step without a frame: its commands may become visible one by one.
    pub fn end_loose_step(&self, seen: Stamp) -> Stamp {
        let stamp = self.next_stamp(seen);
        self.has_stamp.set(false);
        self.open_commands.set(0);
        self.steps.borrow_mut().finish(stamp, false);
        stamp
    }

    /// Hands all finished steps to the reader; called at the end of each turn, inside the gate.
    #[inline]
    pub fn hand_over(&self) {
        if self.is_announced.replace(false) {
            self.hand_over_steps();
        }
    }

    fn hand_over_steps(&self) {
        let mut steps = self.steps.borrow_mut();
        let (bytes, held) = self.outbox.put(self.last.get(), |empty| steps.take_finished(empty));
        self.outbox.bound.withdraw();
        self.journal.given(bytes, held);
        if self.asides.get() != UnknownCommandCounts::default() {
            self.journal.count_asides(self.asides.take());
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn take_finished(&self) -> Chunk {
        self.steps.borrow_mut().take_finished(Chunk::default())
    }

    /// The stamp of the last step.
    #[inline]
    pub fn last(&self) -> Stamp {
        self.last.get()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_over();
        self.outbox.keep_ring(std::mem::take(&mut self.steps.borrow_mut().held));
        self.journal.leave(&self.outbox);
    }
}

impl Steps {
    /// Adds a piece for the bytes that were appended last to the open step.
    #[inline]
    fn add_piece(&mut self, db: u32, audience: Audience, lasts: bool) -> JournalPiece {
        let (stamp, end, frame) = (Stamp::default(), self.chunk.bytes.len(), Frame::default());
        let piece = JournalPiece { stamp, end, db, audience, frame, lasts };
        self.chunk.add_piece(piece, self.finished_pieces);
        piece
    }

    #[inline]
    fn unstage(&mut self) {
        if let Some(ring) = &mut self.held.ring {
            ring.unstage();
        }
    }

    #[inline]
    fn finish(&mut self, stamp: Stamp, is_framed: bool) {
        let Steps { chunk, finished_bytes, finished_pieces, held } = self;
        debug_assert_eq!(
            chunk.pieces.last().map_or(0, |piece| piece.end),
            chunk.bytes.len(),
            "all bytes are of pieces"
        );
        debug_assert!(
            chunk.pieces[..*finished_pieces].last().is_none_or(|last| last.stamp <= stamp),
            "a thread's stamps never fall"
        );
        let open = &mut chunk.pieces[*finished_pieces..];
        for piece in &mut *open {
            (piece.stamp, piece.lasts) = (stamp, false);
            piece.frame.is_inside = is_framed;
        }
        if is_framed {
            if let [first, ..] = &mut *open {
                first.frame.begins = true;
            }
            if let [.., last] = open {
                last.frame.ends = true;
            }
        }
        if let Some(ring) = &mut held.ring {
            ring.store_step(open, &chunk.bytes, *finished_bytes);
        }
        if !is_framed && open.len() == 1 {
            chunk.join_last();
        }
        *finished_bytes = chunk.bytes.len();
        *finished_pieces = chunk.pieces.len();
    }

    /// Discards the open step; returns how many commands of it are left, 2 for more than one.
    fn discard(&mut self) -> usize {
        self.unstage();
        let Steps { chunk, finished_bytes, finished_pieces, .. } = self;
        let open = chunk.pieces.split_off(*finished_pieces);
        let (mut begin, mut kept) = (*finished_bytes, *finished_bytes);
        for piece in open {
            if piece.lasts {
                chunk.bytes.copy_within(begin..piece.end, kept);
                kept += piece.end - begin;
                chunk.add_piece(JournalPiece { end: kept, ..piece }, *finished_pieces);
            }
            begin = piece.end;
        }
        debug_assert!(kept <= begin && begin <= chunk.bytes.len(), "pieces are of these bytes");
        chunk.bytes.truncate(kept);
        count_commands(&chunk.bytes[*finished_bytes..])
    }

    fn take_finished(&mut self, mut empty: Chunk) -> Chunk {
        let Steps { chunk, finished_bytes, finished_pieces, .. } = self;
        empty.bytes.extend_from_slice(&chunk.bytes[*finished_bytes..]);
        let open = chunk.pieces[*finished_pieces..].iter();
        empty
            .pieces
            .extend(open.map(|piece| JournalPiece { end: piece.end - *finished_bytes, ..*piece }));
        debug_assert!(*finished_bytes <= chunk.bytes.len(), "finished bytes stay");
        chunk.bytes.truncate(*finished_bytes);
        chunk.pieces.truncate(*finished_pieces);
        debug_assert!(
            chunk.pieces.is_sorted_by_key(|piece| piece.stamp),
            "a thread's stamps never fall"
        );
        (*finished_bytes, *finished_pieces) = (0, 0);
        std::mem::replace(chunk, empty)
    }
}

/// How many commands these bytes are: 0, 1, or 2 for more.
fn count_commands(bytes: &[u8]) -> usize {
    let Some(first) = resp::command_bytes(bytes) else { return 0 };
    if first < bytes.len() { 2 } else { 1 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const DEL: &[u8] = b"*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";
    const INCR: &[u8] = b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n";

    fn recorder() -> Recorder {
        let journal = Arc::new(Journal::with_clock(|| 0));
        journal.turn(true);
        journal.join()
    }

    fn del(recorder: &Recorder, db: u32) {
        recorder.record(db, &[b"DEL", b"k"]);
    }

    fn incr(recorder: &Recorder, db: u32) {
        recorder.record(db, &[b"INCR", b"k"]);
    }

    fn expire(recorder: &Recorder, db: u32) {
        recorder.record_lasting(db, &[b"DEL", b"k"]);
    }

    /// The finished bytes, and the end, database and frame of each piece.
    fn finished(recorder: &Recorder) -> (Vec<u8>, Vec<(usize, u32, u8)>) {
        let chunk = recorder.take_finished();
        let bits = |frame: Frame| {
            u8::from(frame.begins) + 2 * u8::from(frame.ends) + 4 * u8::from(frame.is_inside)
        };
        let pieces = chunk.pieces.iter().map(|one| (one.end, one.db, bits(one.frame)));
        let pieces = pieces.collect();
        (chunk.bytes, pieces)
    }

    #[test]
    fn a_command_is_recorded_in_its_one_form_however_it_came() {
        let recorder = recorder();
        for frame in
            ["*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n", "*2\r\n$03\r\nDEL\r\n$1\r\nk\r\n", "DEL k\r\n", ""]
        {
            recorder.begin_command();
            recorder.note_change();
            recorder.end_command(0, &[b"DEL", b"k"], frame.as_bytes());
            recorder.end_step(Stamp::default());
            assert_eq!(finished(&recorder).0, DEL, "{frame:?}");
        }
    }

    #[test]
    fn single_commands_are_one_piece_while_nobody_is_met() {
        let recorder = recorder();
        for _ in 0..3 {
            incr(&recorder, 0);
            recorder.end_step(Stamp::default());
        }
        incr(&recorder, 4);
        recorder.end_step(Stamp::first_of(9));
        let (bytes, pieces) = finished(&recorder);
        assert_eq!(bytes, INCR.repeat(4));
        assert_eq!(pieces, [(3 * INCR.len(), 0, 0), (4 * INCR.len(), 4, 0)]);
        assert_eq!(recorder.last().time(), 9);
        assert_eq!(finished(&recorder).0, []);
    }

    thread_local! {
        /// The time of the test's clock.
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn what_was_sent_after_an_answer_comes_later_wherever_it_runs() {
        NOW.set(5);
        let journal = Arc::new(Journal::with_clock(|| NOW.get()));
        let (start, threads) = (Stamp::default(), [journal.join(), journal.join()]);
        let mut before = start;
        for turn in [0, 1, 1, 0, 0, 1, 0] {
            let recorder = &threads[turn];
            for _ in 0..2 {
                del(recorder, 0);
                let stamp = recorder.end_step(start);
                assert!(stamp > before && stamp.time() == NOW.get());
            }
            // Answers leave; another thread takes what comes then.
            before = recorder.last();
            recorder.hand_over();
            NOW.set(NOW.get() + 1);
        }
    }

    #[test]
    fn a_turn_reads_the_clock_once_and_again_for_who_is_answered_early() {
        NOW.set(5);
        let (journal, start) = (Arc::new(Journal::with_clock(|| NOW.get())), Stamp::default());
        let recorder = journal.join();
        let step = || {
            del(&recorder, 0);
            recorder.end_step(start).time()
        };
        assert_eq!(step(), 5);
        NOW.set(8);
        assert_eq!(step(), 5, "it was sent before all that others have seen since");
        assert_eq!(recorder.stamp_step(start).time(), 8);
        NOW.set(9);
        assert_eq!(recorder.stamp_step(start).time(), 8, "all are told the same");
        assert_eq!(step(), 8);
        assert_eq!(recorder.stamp_step(start).time(), 9);
    }

    #[test]
    fn several_commands_are_one_step() {
        let recorder = recorder();
        incr(&recorder, 0);
        recorder.end_step(Stamp::default());
        incr(&recorder, 0);
        incr(&recorder, 0);
        del(&recorder, 1);
        recorder.end_step(Stamp::default());
        incr(&recorder, 1);
        recorder.end_step(Stamp::default());
        let (bytes, pieces) = finished(&recorder);
        assert_eq!(bytes, [INCR, INCR, INCR, DEL, INCR].concat());
        let ends: Vec<_> = pieces.iter().map(|(_, db, bits)| (*db, *bits)).collect();
        assert_eq!(ends, [(0, 0), (0, 1 + 4), (1, 2 + 4), (1, 0)]);
    }

    #[test]
    fn a_stamp_taken_early_is_the_steps() {
        let recorder = recorder();
        let early = recorder.stamp_step(Stamp::first_of(9).next_of(4));
        assert!(early > Stamp::first_of(9).next_of(4));
        incr(&recorder, 0);
        // What is held at the end has the stamp; or nothing is held any more.
        assert_eq!((recorder.end_step(early), recorder.end_step(Stamp::default())), (early, early));
    }

    #[test]
    fn what_is_undone_leaves_what_time_has_done() {
        let recorder = recorder();
        incr(&recorder, 0);
        recorder.end_step(Stamp::default());
        incr(&recorder, 0);
        expire(&recorder, 0);
        incr(&recorder, 0);
        expire(&recorder, 2);
        recorder.discard_step();
        assert!(recorder.has_step());
        incr(&recorder, 0);
        recorder.discard_step();
        recorder.end_step(Stamp::default());
        let (bytes, pieces) = finished(&recorder);
        assert_eq!(bytes, [INCR, DEL, DEL].concat());
        let lens = [1, 2, 3].map(|count| INCR.len() + (count - 1) * DEL.len());
        assert_eq!(pieces, [(lens[0], 0, 0), (lens[1], 0, 1 + 4), (lens[2], 2, 2 + 4)]);
        incr(&recorder, 0);
        recorder.discard_step();
        assert!(!recorder.has_step());
    }

    #[test]
    fn an_open_step_stays_when_others_are_taken() {
        let recorder = recorder();
        incr(&recorder, 0);
        recorder.end_step(Stamp::default());
        del(&recorder, 3);
        assert_eq!(finished(&recorder).0, INCR);
        del(&recorder, 3);
        recorder.end_step(Stamp::default());
        assert_eq!(finished(&recorder), ([DEL, DEL].concat(), vec![(2 * DEL.len(), 3, 7)]));
    }

    #[test]
    fn a_command_is_recorded_as_it_came_only_if_it_has_changed_something() {
        let recorder = recorder();
        recorder.begin_command();
        assert!(!recorder.is_unsaid());
        expire(&recorder, 0);
        assert!(!recorder.is_unsaid());
        recorder.note_change();
        assert!(recorder.is_unsaid());
        recorder.record_nothing();
        assert!(!recorder.is_unsaid());
        recorder.begin_command();
        recorder.note_change();
        del(&recorder, 0);
        assert!(!recorder.is_unsaid());
    }
}
