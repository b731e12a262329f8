//! MONITOR: every command, shown to those who watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pantala_base::clock::unix_us;
use pantala_commands::{CommandRef, Flags, Session};

use crate::inbox::Message;
use crate::logs::REDACTED;
use crate::workers::{MAX_WORKERS, Workers};

/// How many watch, by worker.
pub struct Monitors {
    total: AtomicUsize,
    by_worker: Box<[AtomicUsize]>,
}

impl Default for Monitors {
    fn default() -> Self {
        Monitors {
            total: AtomicUsize::new(0),
            by_worker: (0..MAX_WORKERS).map(|_| AtomicUsize::new(0)).collect(),
        }
    }
}

impl Monitors {
    /// Whether anybody watches.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.total.load(Ordering::Relaxed) > 0
    }

    /// A connection of this worker begins to watch.
    pub fn join(&self, worker: usize) {
        self.by_worker[worker].fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection of this worker watches no more.
    pub fn leave(&self, worker: usize) {
        self.by_worker[worker].fetch_sub(1, Ordering::Relaxed);
        self.total.fetch_sub(1, Ordering::Relaxed);
    }

    /// Shows a command to all who watch.
    #[cold]
    pub fn feed(&self, workers: &Workers, session: &Session, found: CommandRef, args: &[&[u8]]) {
        let hidden = Flags::SKIP_MONITOR.and(Flags::ADMIN);
        if !found.row.flags.has(hidden) {
            self.show(workers, line(session, &session.peer, found, args));
        }
    }

    /// Shows a command that is about to run a script: before those of the script.
    #[cold]
    pub fn feed_script(
        &self,
        workers: &Workers,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
    ) {
        self.show(workers, line(session, &session.peer, found, args));
    }

    /// Shows a command that a script runs.
    #[cold]
    pub fn feed_from_script(
        &self,
        workers: &Workers,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
    ) {
        if !found.row.flags.has(Flags::SKIP_MONITOR.and(Flags::ADMIN)) {
            self.show(workers, line(session, "lua", found, args));
        }
    }

    fn show(&self, workers: &Workers, line: Vec<u8>) {
        let bytes: Arc<[u8]> = line.into();
        for (worker, watching) in self.by_worker.iter().enumerate() {
            if watching.load(Ordering::Relaxed) > 0 {
                // Monitors move with the worker they are at.
                let _left = workers.post(worker, Message::Feed { bytes: Arc::clone(&bytes) });
            }
        }
    }
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
