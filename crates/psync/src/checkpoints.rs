//! Maps a step of the journal to a position of the stream, closely enough for WAIT.
//!
//! After each round the journal's thread notes how far it has come in both. A step counts as sent
//! at the position of the first note after it: never too early, at most one round too late.

use std::collections::VecDeque;

use pantala_journal::Stamp;
use parking_lot::{Mutex, MutexGuard};

/// How many notes are kept: those of the last seconds, under load. A step older than all notes is
/// before the first of them.
const KEPT: usize = 4096;

/// Pairs of a stamp and a stream position, one per round of the journal's thread.
#[derive(Debug, Default)]
pub struct Checkpoints(Mutex<VecDeque<(Stamp, u64)>>);

impl Checkpoints {
    fn notes(&self) -> MutexGuard<'_, VecDeque<(Stamp, u64)>> {
        self.0.lock()
    }

    /// Notes that every step with a stamp before `until` is before `position`.
    pub fn note(&self, until: Stamp, position: u64) {
        let mut notes = self.notes();
        if let Some(last) = notes.back_mut().filter(|last| last.1 == position) {
            // Nothing has come in between: the note holds for the later time, too.
            last.0 = last.0.max(until);
            return;
        }
        // While a thread has announced an older floor, the stream is known to be complete up to an
        // earlier time than before; it may have grown all the same, by a PING.
        let until = notes.back().map_or(until, |last| last.0.max(until));
        debug_assert!(notes.back().is_none_or(|last| last.1 < position), "the stream only grows");
        if notes.len() >= KEPT {
            notes.pop_front();
        }
        notes.push_back((until, position));
        debug_assert!(notes.len() <= KEPT, "one goes as one comes");
    }

    /// A position after this step; `None`: the journal's thread has not reached the step yet.
    pub fn position_after(&self, step: Stamp) -> Option<u64> {
        let notes = self.notes();
        let first = notes.partition_point(|(until, _)| *until <= step);
        notes.get(first).map(|(_, position)| *position)
    }

    /// Drops all notes: the stream is another one.
    pub fn forget(&self) {
        self.notes().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_before_the_first_note_after_it() {
        let notes = Checkpoints::default();
        assert_eq!(notes.position_after(Stamp::default()), None);
        notes.note(Stamp::first_of(5), 100);
        notes.note(Stamp::first_of(8), 200);
        notes.note(Stamp::first_of(9), 200);
        assert_eq!(notes.position_after(Stamp::first_of(2)), Some(100));
        assert_eq!(notes.position_after(Stamp::first_of(5)), Some(200), "not before its own");
        assert_eq!(notes.position_after(Stamp::first_of(8)), Some(200), "the note was moved on");
        assert_eq!(notes.position_after(Stamp::first_of(9)), None);
        for time in 0..2 * KEPT as u64 {
            notes.note(Stamp::first_of(10 + time), 300 + time);
        }
        let oldest = 300 + KEPT as u64;
        assert_eq!(notes.position_after(Stamp::first_of(2)), Some(oldest), "late, not early");
        notes.forget();
        assert_eq!(notes.position_after(Stamp::first_of(2)), None);
    }

    #[test]
    fn notes_stay_in_order_when_the_time_falls() {
        let notes = Checkpoints::default();
        notes.note(Stamp::first_of(5), 100);
        notes.note(Stamp::first_of(9), 200);
        notes.note(Stamp::first_of(3), 214);
        assert_eq!(notes.position_after(Stamp::first_of(4)), Some(100));
        assert_eq!(notes.position_after(Stamp::first_of(8)), Some(200));
        assert_eq!(notes.position_after(Stamp::first_of(9)), None);
    }
}
