//! The line of those that want to write a snapshot: BGSAVE and its kin, rewrites of the append-only
//! file, full copies for replicas. One at a time has the turn.
//!
//! ```text
//! line_up --> Place, at the end -- wait --> Turn, the first in the line -- dropped --> the next
//!                                   '--> cancelled, or the server stops: it leaves the line
//! ```
//!
//! | file | what |
//! |---|---|
//! | here | the line: who waits, and who has the turn |
//! | `cut` | the cut, and writing what the walkers bring |
//! | `moment`, `place` | where in the stream the cut is |
//!
//! Invariants
//! 1. Turns come in the order of the line. Whoever leaves it, leaves by [`Place`]'s drop.
//! 2. Only the first in the line has the turn.
//!
//! Not here: which requests are refused while another one runs ([`Saves`](crate::saves::Saves),
//! [`AppendOnlyState`](crate::appending::AppendOnlyState)). Tests: at the foot.

pub mod cut;
pub mod moment;
pub mod place;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::saves::{Save, TurnWait};

/// The line for snapshots.
#[derive(Default)]
pub struct Snapshots {
    line: Arc<Mutex<Line>>,
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
    /// Waits in the line for the turn. Only on a thread that may wait, outside the gate.
    ///
    /// # Errors
    /// See [`NoTurn`].
    pub fn reserve(&self, save: &Arc<Save>) -> Result<Turn, NoTurn> {
        self.line_up(save).wait()
    }

    /// Takes the place at the end of the line, without waiting.
    pub fn line_up(&self, save: &Arc<Save>) -> Place {
        let mut line = self.line.lock();
        debug_assert!(line.place_of(save).is_none(), "a snapshot is in the line once");
        save.begin_wait();
        match line.saves.is_empty() {
            true => save.end_wait(TurnWait::Come),
            false if line.is_closed => save.end_wait(TurnWait::Closed),
            false => {}
        }
        line.saves.push_back(Arc::clone(save));
        line.check();
        Place { line: Arc::clone(&self.line), save: Arc::clone(save) }
    }

    /// Refuses all that wait, and those that would have to. Whoever has the turn keeps it.
    pub fn close(&self) {
        let mut line = self.line.lock();
        line.is_closed = true;
        line.saves.iter().skip(1).for_each(|save| save.end_wait(TurnWait::Closed));
    }
}

impl Line {
    fn place_of(&self, save: &Arc<Save>) -> Option<usize> {
        self.saves.iter().position(|other| Arc::ptr_eq(other, save))
    }

    /// Asserts in debug builds that nobody but the first has the turn.
    fn check(&self) {
        debug_assert!(self.saves.iter().skip(1).all(|save| !save.has_turn()), "only the first");
        debug_assert!(
            self.is_closed || self.saves.front().is_none_or(|save| save.has_turn()),
            "the first has it"
        );
    }
}

/// A place in the line, which is left when this is dropped.
#[must_use]
pub struct Place {
    line: Arc<Mutex<Line>>,
    save: Arc<Save>,
}

impl Place {
    /// Whether it is the first.
    pub fn has_turn(&self) -> bool {
        self.save.has_turn()
    }

    /// Waits for the turn. Only on a thread that may wait, outside the gate.
    ///
    /// # Errors
    /// See [`NoTurn`].
    pub fn wait(self) -> Result<Turn, NoTurn> {
        self.save.wait_for_turn()?;
        Ok(Turn(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut line = self.line.lock();
        let place = line.place_of(&self.save);
        debug_assert!(place.is_some(), "nobody else takes it out of the line");
        let Some(place) = place else { return };
        line.saves.remove(place);
        if let Some(first) = line.saves.front().filter(|_| place == 0) {
            first.end_wait(TurnWait::Come);
        }
        line.check();
    }
}

/// The right to write a snapshot, until it is dropped.
pub struct Turn(Place);

impl Turn {
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
        let first = snapshots.reserve(&Arc::default()).expect("the line is empty");
        let (told, heard) = channel();
        let waiting = ["a", "b", "c"].map(|name| wait_aside(&snapshots, name, &told));
        drop(told);
        assert!(heard.try_recv().is_err(), "another one has the turn");
        assert!(!snapshots.line_up(&Arc::default()).has_turn());
        drop(first);
        assert_eq!(names(&heard), ["a", "b", "c"]);
        waiting.into_iter().for_each(|(_, thread)| thread.join().expect("no panic"));
        assert!(snapshots.line.lock().saves.is_empty());
        assert!(snapshots.line_up(&Arc::default()).has_turn());
    }

    #[test]
    fn a_cancelled_one_leaves_the_line_at_once() {
        let snapshots = Arc::<Snapshots>::default();
        let first = snapshots.reserve(&Arc::default()).expect("the line is empty");
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
        let _first = snapshots.reserve(&Arc::default()).expect("the line is empty");
        let save = Arc::<Save>::default();
        save.cancel();
        assert_eq!(snapshots.reserve(&save).err(), Some(NoTurn::Cancelled));
        assert_eq!(snapshots.line.lock().saves.len(), 1);
    }

    #[test]
    fn a_place_that_is_dropped_gives_the_turn_to_nobody_twice() {
        let snapshots = Snapshots::default();
        let saves: [Arc<Save>; 3] = Default::default();
        let [first, middle, last] = saves.each_ref().map(|save| snapshots.line_up(save));
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
        let first = snapshots.reserve(&Arc::default()).expect("the line is empty");
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
