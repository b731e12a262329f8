//! MONITOR: every command, shown to those who watch.
//!
//! ```text
//! a thread runs a command --> the feed of each worker with monitors   (any thread)
//!                         --> that of each monitor that is on its way between two workers
//! the worker, each turn   --> all that lies in its feed, to each of its monitors, in one piece
//! ```
//!
//! Invariants
//! 1. A feed holds at most [`FEED_BYTES`] and one line. A worker that is so far behind closes its
//!    monitors, as their output limit does: none of them has a gap in what it sees.
//! 2. A worker walks its monitors, never its connections.
//! 3. Nobody is woken while partitions are held: what a transaction or a script shows is left in
//!    the feeds, and `call` follows when it has let go.
//! 4. While a monitor leaves a worker or arrives no line is added anywhere: it has been shown what
//!    lies in the feed of the one, and is not shown what lies in that of the other.
//!
//! Tests: at the foot; compat/transcripts/server/monitor.txt; the bad days `a_monitor_in_a_crowd`,
//! `monitor_that_does_not_read` and `restless_connections`.

use std::collections::HashMap;
use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use pantala_base::clock::unix_us;
use pantala_commands::{CommandRef, Flags, Session};

use crate::clients::mailbox::{MAX_WORKERS, WorkerSet};
use crate::stats::logs::REDACTED;

/// What may wait for a worker to show it. A worker takes it all in each turn.
const FEED_BYTES: usize = 32 << 20;
/// A feed's buffer up to this size is kept for the next turn.
const KEPT_FEED_BYTES: usize = 1 << 20;

/// What waits to be shown to the monitors of one worker.
#[derive(Default)]
pub struct Feed {
    watching: AtomicUsize,
    has_lines: AtomicBool,
    queue: Mutex<Lines>,
}

/// Lines that wait.
#[derive(Default)]
pub struct Lines {
    /// Their bytes.
    pub lines: Vec<u8>,
    /// Something did not fit.
    pub is_torn: bool,
    /// The worker has been woken for what lies here.
    is_called: bool,
}

impl Feed {
    fn queue(&self) -> MutexGuard<'_, Lines> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8]) {
        let mut queue = self.queue();
        if queue.lines.len() > FEED_BYTES {
            queue.is_torn = true;
        } else {
            queue.lines.extend_from_slice(line);
        }
        self.has_lines.store(true, Ordering::Release);
    }

    /// Whether the worker is to be woken.
    fn is_to_be_called(&self) -> bool {
        let mut queue = self.queue();
        self.has_lines.load(Ordering::Relaxed) && !std::mem::replace(&mut queue.is_called, true)
    }

    /// All that waits.
    pub fn take(&self) -> Lines {
        let mut queue = self.queue();
        self.has_lines.store(false, Ordering::Release);
        take(&mut *queue)
    }

    /// Gives an empty buffer back.
    pub fn keep(&self, mut lines: Vec<u8>) {
        lines.clear();
        let mut queue = self.queue();
        if queue.lines.capacity() == 0 && lines.capacity() <= KEPT_FEED_BYTES {
            queue.lines = lines;
        }
    }
}

/// Who watches, by worker, and what they are to be shown.
pub struct Monitors {
    total: AtomicUsize,
    feeds: Box<[Feed]>,
    /// Those on their way, by the client's number. Held for reading while a line is added
    /// anywhere, for writing while one leaves or arrives.
    in_transit: RwLock<HashMap<u64, Feed>>,
}

impl Default for Monitors {
    fn default() -> Self {
        Monitors {
            total: AtomicUsize::new(0),
            feeds: (0..MAX_WORKERS).map(|_| Feed::default()).collect(),
            in_transit: RwLock::default(),
        }
    }
}

impl Monitors {
    /// What waits to be shown to the monitors of a worker.
    pub fn feed_of(&self, worker: usize) -> &Feed {
        &self.feeds[worker]
    }

    /// Whether anybody watches.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.count() > 0
    }

    /// How many watch.
    #[inline]
    pub fn count(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Whether something waits to be shown to the monitors of this worker.
    #[inline]
    pub fn has_lines(&self, worker: usize) -> bool {
        self.feeds[worker].has_lines.load(Ordering::Acquire)
    }

    /// A connection of this worker begins to watch.
    pub fn join(&self, worker: usize) {
        let feed = &self.feeds[worker];
        if feed.watching.load(Ordering::Relaxed) == 0 {
            // Meant for one that has gone.
            drop(feed.take());
        }
        feed.watching.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection of this worker watches no more.
    pub fn leave(&self, worker: usize) {
        let feed = &self.feeds[worker];
        self.total.fetch_sub(1, Ordering::Relaxed);
        if feed.watching.fetch_sub(1, Ordering::Relaxed) == 1 {
            // Nobody is there to be shown it.
            drop(feed.take());
        }
    }

    /// A client that watches leaves a worker for another. `before` shows what lies in the worker's
    /// feed.
    pub fn depart(&self, worker: usize, client: u64, before: impl FnOnce()) {
        let mut in_transit = self.in_transit.write().unwrap_or_else(PoisonError::into_inner);
        before();
        in_transit.insert(client, Feed::default());
        self.total.fetch_add(1, Ordering::Relaxed);
        self.leave(worker);
    }

    /// It has arrived at a worker. `before` shows what lies in the worker's feed. What it is to be
    /// shown of the time between. `None`: it was not on its way.
    pub fn arrive(&self, worker: usize, client: u64, before: impl FnOnce()) -> Option<Lines> {
        let mut in_transit = self.in_transit.write().unwrap_or_else(PoisonError::into_inner);
        let feed = in_transit.remove(&client)?;
        before();
        self.join(worker);
        self.total.fetch_sub(1, Ordering::Relaxed);
        Some(feed.take())
    }

    /// It has gone for good on its way.
    pub fn forget(&self, client: u64) {
        let mut in_transit = self.in_transit.write().unwrap_or_else(PoisonError::into_inner);
        if in_transit.remove(&client).is_some() {
            self.total.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Shows a command to all who watch. To be called with no partition held.
    #[cold]
    pub fn feed(
        &self,
        workers: &dyn WorkerSet,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
    ) {
        if let Some(line) = Monitors::line_inside(session, found, args) {
            self.add(&line);
        }
        self.call(workers);
    }

    /// What is shown of a command of a transaction.
    #[cold]
    pub fn line_inside(session: &Session, found: CommandRef, args: &[&[u8]]) -> Option<Vec<u8>> {
        is_shown(found).then(|| line(session, &session.peer, found, args))
    }

    /// What is shown of a command that is about to run a script: before those of the script.
    #[cold]
    pub fn line_of_script(session: &Session, found: CommandRef, args: &[&[u8]]) -> Vec<u8> {
        line(session, &session.peer, found, args)
    }

    /// What is shown of a command that a script runs.
    #[cold]
    pub fn line_from_script(
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
    ) -> Option<Vec<u8>> {
        is_shown(found).then(|| line(session, "lua", found, args))
    }

    /// Leaves a line to be shown.
    pub fn add(&self, line: &[u8]) {
        let in_transit = self.in_transit.read().unwrap_or_else(PoisonError::into_inner);
        let is_watched = |feed: &&Feed| feed.watching.load(Ordering::Relaxed) > 0;
        let watched = self.feeds.iter().filter(is_watched);
        watched.chain(in_transit.values()).for_each(|feed| feed.add(line));
    }

    /// Wakes the workers that have something to show. To be called with no partition held.
    #[cold]
    pub fn call(&self, workers: &dyn WorkerSet) {
        for (worker, feed) in self.feeds.iter().enumerate() {
            if feed.watching.load(Ordering::Relaxed) > 0 && feed.is_to_be_called() {
                workers.wake(worker);
            }
        }
    }
}

fn is_shown(found: CommandRef) -> bool {
    !found.row.flags.has(Flags::SKIP_MONITOR.and(Flags::ADMIN))
}

fn line(session: &Session, peer: &str, found: CommandRef, args: &[&[u8]]) -> Vec<u8> {
    let now_us = unix_us();
    let mut line =
        format!("+{}.{:06} [{} {}]", now_us / 1_000_000, now_us % 1_000_000, session.db.0, peer)
            .into_bytes();
    for (at, arg) in args.iter().enumerate() {
        let is_secret = found.row.is_secret.is_some_and(|is_secret| is_secret(args, at));
        line.push(b' ');
        quote(if is_secret { REDACTED } else { arg }, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// An argument between quotes, with what cannot be shown escaped.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_moves_is_shown_each_line_once() {
        let (monitors, shown, others) = (Monitors::default(), Feed::default(), Feed::default());
        let show = |worker: usize, to: &[&Feed]| {
            let lines = monitors.feed_of(worker).take().lines;
            to.iter().for_each(|feed| feed.add(&lines));
        };
        monitors.join(0);
        monitors.join(1);
        monitors.add(b"1");
        monitors.depart(0, 7, || show(0, &[&shown]));
        monitors.add(b"2");
        assert_eq!(monitors.count(), 2);
        assert!(monitors.arrive(1, 8, || panic!("nobody arrives")).is_none());
        let between = monitors.arrive(1, 7, || show(1, &[&others])).expect("it was on its way");
        shown.add(&between.lines);
        monitors.add(b"3");
        show(1, &[&shown, &others]);
        assert_eq!((shown.take().lines, others.take().lines), (b"123".into(), b"123".into()));
        assert_eq!((monitors.count(), between.is_torn), (2, false));
        monitors.depart(1, 7, || ());
        monitors.forget(7);
        monitors.forget(7);
        assert_eq!(monitors.count(), 1);
    }
}
