//! The line of those that want to write a snapshot: BGSAVE and its kin, rewrites of the append-only
//! file, full copies for replicas. One at a time has the turn.
//!
//! ```text
//! reserve: at the end of the line -- waits --> Turn, the first in the line -- dropped --> the next
//!                                      '--> cancelled, or the server stops: it leaves the line
//! ```
//!
//! Invariants
//! 1. Turns come in the order of the line. Whoever leaves it, leaves by [`Place`]'s drop.
//! 2. Only the first in the line has the turn.
//!
//! Not here: which requests are refused while another one runs ([`Saves`](crate::saves::Saves),
//! [`AppendOnlyState`](crate::appending::AppendOnlyState)). Tests: at the foot.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::saves::{Save, TurnWait};

/// The line for snapshots.
#[derive(Default)]
pub struct Snapshots {
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// The first one has the turn.
    saves: VecDeque<Arc<Save>>,
    /// The server stops: whoever would have to wait is refused.
    is_closed: bool,
}

/// Why no turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTurn {
    /// The server stops while another snapshot is being written.
    Closed,
    /// It was cancelled.
    Cancelled,
}

impl Snapshots {
    /// Takes the turn, if nobody is in the line.
    pub fn try_reserve(&self, save: &Arc<Save>) -> Option<Turn<'_>> {
        let mut line = self.line.lock();
        line.saves.is_empty().then(|| Turn(self.line_up(&mut line, save)))
    }

    /// Waits in the line for the turn. Only on a thread that may wait, outside the gate.
    ///
    /// # Errors
    /// See [`NoTurn`].
    pub fn reserve(&self, save: &Arc<Save>) -> Result<Turn<'_>, NoTurn> {
        let place = {
            let mut line = self.line.lock();
            if line.is_closed && !line.saves.is_empty() {
                return Err(NoTurn::Closed);
            }
            self.line_up(&mut line, save)
        };
        place.save.wait_for_turn()?;
        Ok(Turn(place))
    }

    /// Refuses all that wait, and those that would have to. Whoever has the turn keeps it.
    pub fn close(&self) {
        let mut line = self.line.lock();
        line.is_closed = true;
        line.saves.iter().skip(1).for_each(|save| save.end_wait(TurnWait::Closed));
    }

    fn line_up(&self, line: &mut Line, save: &Arc<Save>) -> Place<'_> {
        debug_assert!(!line.holds(save), "a snapshot is in the line once");
        save.begin_wait();
        if line.saves.is_empty() {
            save.end_wait(TurnWait::Come);
        }
        line.saves.push_back(Arc::clone(save));
        Place { snapshots: self, save: Arc::clone(save) }
    }
}

impl Line {
    fn place_of(&self, save: &Arc<Save>) -> Option<usize> {
        self.saves.iter().position(|other| Arc::ptr_eq(other, save))
    }

    fn holds(&self, save: &Arc<Save>) -> bool {
        self.place_of(save).is_some()
    }
}

/// A place in the line, which is left when this is dropped.
struct Place<'s> {
    snapshots: &'s Snapshots,
    save: Arc<Save>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut line = self.snapshots.line.lock();
        let place = line.place_of(&self.save);
        debug_assert!(place.is_some(), "nobody else takes it out of the line");
        let Some(place) = place else { return };
        line.saves.remove(place);
        if let Some(first) = line.saves.front().filter(|_| place == 0) {
            first.end_wait(TurnWait::Come);
        }
    }
}

/// The right to write a snapshot, until it is dropped.
pub struct Turn<'s>(Place<'s>);

impl Turn<'_> {
    /// The snapshot whose turn it is.
    pub fn save(&self) -> &Arc<Save> {
        &self.0.save
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::{self, JoinHandle};

    use super::*;

    /// One that waits in a thread, and reports its name when it has the turn, and why it has none.
    fn wait_aside(
        snapshots: &Arc<Snapshots>,
        name: &'static str,
        told: &std::sync::mpsc::Sender<(&'static str, Option<NoTurn>)>,
    ) -> (Arc<Save>, JoinHandle<()>) {
        let save = Arc::<Save>::default();
        let before = snapshots.line.lock().saves.len();
        let (of_thread, waiting, told) = (Arc::clone(snapshots), Arc::clone(&save), told.clone());
        let thread = thread::spawn(move || {
            let turn = of_thread.reserve(&waiting);
            told.send((name, turn.as_ref().err().copied())).expect("the test listens");
        });
        while snapshots.line.lock().saves.len() == before {
            thread::yield_now();
        }
        (save, thread)
    }

    fn names(told: &Receiver<(&'static str, Option<NoTurn>)>) -> Vec<&'static str> {
        told.iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn turns_come_in_the_order_of_the_line() {
        let snapshots = Arc::<Snapshots>::default();
        let first = snapshots.try_reserve(&Arc::default()).expect("the line is empty");
        let (told, heard) = channel();
        let waiting = ["a", "b", "c"].map(|name| wait_aside(&snapshots, name, &told));
        drop(told);
        assert!(heard.try_recv().is_err(), "another one has the turn");
        assert!(snapshots.try_reserve(&Arc::default()).is_none());
        drop(first);
        assert_eq!(names(&heard), ["a", "b", "c"]);
        waiting.into_iter().for_each(|(_, thread)| thread.join().expect("no panic"));
        assert!(snapshots.line.lock().saves.is_empty());
        assert!(snapshots.try_reserve(&Arc::default()).is_some());
    }

    #[test]
    fn a_cancelled_one_leaves_the_line_at_once() {
        let snapshots = Arc::<Snapshots>::default();
        let first = snapshots.try_reserve(&Arc::default()).expect("the line is empty");
        let (told, heard) = channel();
        let (cancelled, thread) = wait_aside(&snapshots, "a", &told);
        let (_, last) = wait_aside(&snapshots, "b", &told);
        cancelled.cancel();
        assert_eq!(heard.recv().expect("a thread"), ("a", Some(NoTurn::Cancelled)));
        thread.join().expect("no panic");
        assert_eq!(snapshots.line.lock().saves.len(), 2);
        drop(first);
        assert_eq!(heard.recv().expect("a thread"), ("b", None));
        last.join().expect("no panic");
    }

    #[test]
    fn one_that_is_cancelled_beforehand_waits_for_nothing() {
        let snapshots = Snapshots::default();
        let _first = snapshots.try_reserve(&Arc::default()).expect("the line is empty");
        let save = Arc::<Save>::default();
        save.cancel();
        assert_eq!(snapshots.reserve(&save).err(), Some(NoTurn::Cancelled));
        assert_eq!(snapshots.line.lock().saves.len(), 1);
    }

    #[test]
    fn a_place_that_is_dropped_gives_the_turn_to_nobody_twice() {
        let snapshots = Snapshots::default();
        let saves: [Arc<Save>; 3] = Default::default();
        let places = saves.each_ref().map(|save| {
            let mut line = snapshots.line.lock();
            Some(snapshots.line_up(&mut line, save))
        });
        let [first, middle, last] = places;
        let has_turn = || saves.each_ref().map(|save| save.has_turn());
        assert_eq!(has_turn(), [true, false, false]);
        drop(middle);
        assert_eq!(has_turn(), [true, false, false], "the first one still has it");
        drop(first);
        assert_eq!(has_turn(), [true, false, true]);
        drop(last);
        assert!(snapshots.line.lock().saves.is_empty());
    }

    #[test]
    fn a_server_that_stops_refuses_those_that_wait_and_lets_the_first_one_end() {
        let snapshots = Arc::<Snapshots>::default();
        let first = snapshots.try_reserve(&Arc::default()).expect("the line is empty");
        let (told, heard) = channel();
        let (_, thread) = wait_aside(&snapshots, "a", &told);
        snapshots.close();
        assert_eq!(heard.recv().expect("a thread"), ("a", Some(NoTurn::Closed)));
        thread.join().expect("no panic");
        assert_eq!(snapshots.reserve(&Arc::default()).err(), Some(NoTurn::Closed));
        drop(first);
        assert!(snapshots.reserve(&Arc::default()).is_ok(), "nothing is to be waited for");
    }
}
