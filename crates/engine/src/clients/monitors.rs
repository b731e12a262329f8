//! MONITOR: every command, sent to the clients that watch.
//!
//! ```text
//! a thread runs a command --> the feed of each worker with monitors   (any thread)
//!                         --> the feed of each monitor in transit between two workers
//! the worker, each turn   --> everything in its feed, to each of its monitors, in one piece
//! ```
//!
//! Invariants
//! 1. A feed holds at most [`FEED_BYTES`] and one line. A worker that falls further behind closes
//!    its monitors, as their output limit would: no monitor ever has a gap.
//! 2. A worker walks its monitors, never its connections.
//! 3. No worker is woken while partitions are held: the lines of a transaction or script stay in
//!    the feeds, and `call` wakes the workers once the partitions are released.
//! 4. While a monitor leaves a worker or arrives at one, no line is added to any feed: the monitor
//!    has been sent all lines of the old worker's feed, and is sent none that is in the new
//!    worker's feed by then.
//!
//! Tests: at the foot; compat/transcripts/server/monitor.txt; the bad days `a_monitor_in_a_crowd`,
//! `monitor_that_does_not_read` and `restless_connections`.

use std::collections::HashMap;
use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pantala_base::clock::unix_us;
use pantala_commands::{CommandRef, Flags, Session};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::clients::mailbox::{MAX_WORKERS, WorkerSet};
use crate::stats::logs::REDACTED;

/// The most bytes that wait in a worker's feed. A worker takes all of them each turn.
const FEED_BYTES: usize = 32 << 20;
/// A feed's buffer up to this capacity is kept for the next turn.
const KEPT_FEED_BYTES: usize = 1 << 20;

/// The lines that wait for the monitors of one worker, or of one monitor in transit.
#[derive(Default)]
pub struct Feed {
    watching: AtomicUsize,
    has_lines: AtomicBool,
    queue: Mutex<Lines>,
}

/// Waiting lines.
#[derive(Default)]
pub struct Lines {
    /// The lines as they are sent.
    pub lines: Vec<u8>,
    /// Some line did not fit.
    pub is_torn: bool,
    /// The worker has been woken for these lines.
    is_called: bool,
}

impl Feed {
    fn queue(&self) -> MutexGuard<'_, Lines> {
        self.queue.lock()
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

    /// Whether the worker has yet to be woken; marks it as woken.
    fn is_to_be_called(&self) -> bool {
        let mut queue = self.queue();
        self.has_lines.load(Ordering::Relaxed) && !std::mem::replace(&mut queue.is_called, true)
    }

    /// Takes all waiting lines.
    pub fn take(&self) -> Lines {
        let mut queue = self.queue();
        self.has_lines.store(false, Ordering::Release);
        take(&mut *queue)
    }

    /// Gives an emptied buffer back.
    pub fn keep(&self, mut lines: Vec<u8>) {
        lines.clear();
        let mut queue = self.queue();
        if queue.lines.capacity() == 0 && lines.capacity() <= KEPT_FEED_BYTES {
            queue.lines = lines;
        }
    }
}

/// The monitors of all workers, and the feeds.
pub struct Monitors {
    total: AtomicUsize,
    feeds: Box<[Feed]>,
    /// The feeds of monitors in transit, by the client's number. Held for reading while a line is
    /// added anywhere, for writing while a monitor leaves or arrives.
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
    /// The feed of a worker.
    pub fn feed_of(&self, worker: usize) -> &Feed {
        &self.feeds[worker]
    }

    /// Whether there are monitors.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.count() > 0
    }

    /// The number of monitors.
    #[inline]
    pub fn count(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Whether lines wait for the monitors of this worker.
    #[inline]
    pub fn has_lines(&self, worker: usize) -> bool {
        self.feeds[worker].has_lines.load(Ordering::Acquire)
    }

    /// Adds a monitor to this worker.
    pub fn join(&self, worker: usize) {
        let feed = &self.feeds[worker];
        if feed.watching.load(Ordering::Relaxed) == 0 {
            // These lines were meant for a monitor that has gone.
            drop(feed.take());
        }
        feed.watching.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a monitor from this worker.
    pub fn leave(&self, worker: usize) {
        let feed = &self.feeds[worker];
        self.total.fetch_sub(1, Ordering::Relaxed);
        if feed.watching.fetch_sub(1, Ordering::Relaxed) == 1 {
            // No monitor is left to be sent these lines.
            drop(feed.take());
        }
    }

    /// A monitor leaves a worker for another. `before` sends it what is in the worker's feed.
    pub fn depart(&self, worker: usize, client: u64, before: impl FnOnce()) {
        let mut in_transit = self.in_transit.write();
        before();
        in_transit.insert(client, Feed::default());
        self.total.fetch_add(1, Ordering::Relaxed);
        self.leave(worker);
    }

    /// A monitor arrives at a worker. `before` sends the worker's monitors what is in its feed.
    /// Returns the lines of the time between; `None`: the client was not in transit.
    pub fn arrive(&self, worker: usize, client: u64, before: impl FnOnce()) -> Option<Lines> {
        let mut in_transit = self.in_transit.write();
        let feed = in_transit.remove(&client)?;
        before();
        self.join(worker);
        self.total.fetch_sub(1, Ordering::Relaxed);
        Some(feed.take())
    }

    /// Removes a monitor that has gone in transit.
    pub fn forget(&self, client: u64) {
        let mut in_transit = self.in_transit.write();
        if in_transit.remove(&client).is_some() {
            self.total.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Adds a command to all feeds and wakes the workers. With no partition held.
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

    /// The line of a command in a transaction, if monitors see it.
    #[cold]
    pub fn line_inside(session: &Session, found: CommandRef, args: &[&[u8]]) -> Option<Vec<u8>> {
        is_shown(found).then(|| line(session, &session.peer, found, args))
    }

    /// The line of a command that is about to run a script; it comes before those of the script.
    #[cold]
    pub fn line_of_script(session: &Session, found: CommandRef, args: &[&[u8]]) -> Vec<u8> {
        line(session, &session.peer, found, args)
    }

    /// The line of a command that a script runs.
    #[cold]
    pub fn line_from_script(
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
    ) -> Option<Vec<u8>> {
        is_shown(found).then(|| line(session, "lua", found, args))
    }

    /// Adds a line to all feeds.
    pub fn add(&self, line: &[u8]) {
        let in_transit = self.in_transit.read();
        let is_watched = |feed: &&Feed| feed.watching.load(Ordering::Relaxed) > 0;
        let watched = self.feeds.iter().filter(is_watched);
        watched.chain(in_transit.values()).for_each(|feed| feed.add(line));
    }

    /// Wakes the workers with lines for their monitors. With no partition held.
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
    !found.row.flags.intersects(Flags::SKIP_MONITOR.union(Flags::ADMIN))
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

/// An argument in quotes, with unprintable bytes escaped.
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
