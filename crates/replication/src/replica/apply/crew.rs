//! The threads that apply a link's stream beside the link's own thread.
//!
//! ```text
//! link:    begin(batch, run) --task--> each of them | its own share | end <--done-- each
//! ```
//!
//! They are started by the first run that is worth it, and sleep between runs.
//!
//! Invariants
//! 1. Between `end` and the next `begin` none of them has a batch, or is inside the gate.
//! 2. They have ended when the crew is dropped: another link will use their slots of the gate.
//!
//! Tests: compat/replication.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use pantala_journal::Stamp;

use super::batch::Batch;
use super::run::Runner;
use super::share::Share;
use crate::Replication;

/// One thread's share of a run.
struct Task {
    batch: Arc<Batch>,
    run: Range<usize>,
    share: Share,
    /// The database selected at its beginning.
    db: u32,
}

struct Member {
    tasks: Option<Sender<Task>>,
    /// Signals that a share is done, with the last step recorded for it.
    done: Receiver<Stamp>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    fn start(replication: &Arc<Replication>, number: usize) -> Option<Member> {
        let (tasks, waiting) = channel::<Task>();
        let (finished, done) = channel();
        let mut runner = Runner::new(Arc::clone(replication), number);
        let life = move || {
            for Task { batch, run, share, db } in waiting {
                runner.select(db);
                runner.run(&batch, run, share);
                // Before it is reported as done.
                drop(batch);
                let _link_has_gone = finished.send(runner.last_step());
            }
            drop(runner);
            pantala_memory::release_seat();
        };
        // If the system has no thread for it, there are fewer.
        let thread = Builder::new().name("replica-apply".into()).spawn(life).ok()?;
        Some(Member { tasks: Some(tasks), done, thread: Some(thread) })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic was logged already.
            let _ended = thread.join();
        }
    }
}

/// The threads that apply a link's stream beside the link's own thread.
pub struct ApplyPool {
    replication: Arc<Replication>,
    /// How many threads there should be.
    count: usize,
    members: Vec<Member>,
    last_step: Stamp,
}

impl ApplyPool {
    /// A crew of so many threads, which are started later.
    pub fn new(replication: Arc<Replication>, count: usize) -> ApplyPool {
        ApplyPool { replication, count, members: Vec::new(), last_step: Stamp::default() }
    }

    /// Whether there is no thread, and will be none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The last step that its threads have recorded.
    pub fn last_step(&self) -> Stamp {
        self.last_step
    }

    /// The share with this number; number 0 is the link's own.
    pub fn share(&self, number: usize) -> Share {
        debug_assert!(number <= self.members.len(), "there is such a member");
        Share { number, count: self.members.len() + 1 }
    }

    /// Begins their shares of a run, in this database; false: there is no thread.
    pub fn begin(&mut self, batch: &Arc<Batch>, run: &Range<usize>, db: u32) -> bool {
        if self.members.is_empty() {
            let members =
                (1..=self.count).map_while(|number| Member::start(&self.replication, number));
            self.members = members.collect();
        }
        for (at, member) in self.members.iter().enumerate() {
            let (batch, run, share) = (Arc::clone(batch), run.clone(), self.share(at + 1));
            let task = Task { batch, run, share, db };
            // One that has panicked is noticed at the end.
            let _is_there = member.tasks.as_ref().map(|tasks| tasks.send(task));
        }
        !self.members.is_empty()
    }

    /// Waits until all shares are done.
    pub fn end(&mut self) {
        for member in &self.members {
            let done = member.done.recv();
            let step = done.expect("a thread of the link has not panicked");
            debug_assert!(member.done.try_recv().is_err(), "one task has one end");
            self.last_step = self.last_step.max(step);
        }
    }
}
