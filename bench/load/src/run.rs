//! `run`: a closed loop. Every connection has one batch of `pipeline` commands in flight; when the
//! last of its replies has come, the next batch is sent.
//!
//! 1. A command's latency is counted from just before its batch is written to the read that brought
//!    the end of its reply. So with a pipeline it includes the wait behind its neighbours, as a
//!    client would see it.
//! 2. Replies are matched with commands in order, and checked by [`check`].
//! 3. The requested number of requests is divided among the threads; each request is issued once.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::args::{RunJob, Until};
use crate::chance::{Chance, Choice};
use crate::histogram::Histogram;
use crate::wire::{Reply, Writer, one_of_many, reply};
use crate::{Fault, STALL_LIMIT_S};

/// The initial size of a connection's input buffer, in bytes; it grows for long values.
const INBOX_BYTES: usize = 64 << 10;

/// The result of a run.
#[derive(Clone, Default)]
pub struct Outcome {
    /// Commands answered.
    pub requests: u64,
    /// Of these, GETs that found nothing.
    pub misses: u64,
    /// The time from the first command to the last reply, of the slowest thread.
    pub seconds: f64,
    /// Latency of every command, in ns.
    pub latency: Histogram,
}

/// Runs the load to its end.
pub fn run(job: &RunJob) -> Result<Outcome, Fault> {
    let mut drivers = Vec::new();
    for thread in 0..job.threads {
        drivers.push(Driver::new(job, thread)?);
    }
    let outcomes: Vec<Result<Outcome, Fault>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            drivers.into_iter().map(|driver| scope.spawn(move || driver.drive())).collect();
        let gone = |_| Err(Fault::Reply("a load thread panicked".into()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(gone)).collect()
    });
    let mut all = Outcome::default();
    for outcome in outcomes {
        let outcome = outcome?;
        all.requests += outcome.requests;
        all.misses += outcome.misses;
        all.seconds = all.seconds.max(outcome.seconds);
        all.latency.merge(&outcome.latency);
    }
    Ok(all)
}

/// The share of part number `part` when `whole` is divided among `parts`.
fn share(whole: u64, parts: usize, part: usize) -> u64 {
    let (parts, part) = (parts as u64, part as u64);
    whole / parts + u64::from(part < whole % parts)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Command {
    index: u64,
    is_get: bool,
}

/// One thread's part of the load.
struct Driver<'a> {
    job: &'a RunJob,
    writer: Writer,
    choice: Choice,
    chance: Chance,
    requests_left: u64,
    deadline: Option<Instant>,
    lanes: Vec<Lane>,
    expected: Vec<u8>,
    outcome: Outcome,
}

struct Lane {
    stream: TcpStream,
    outbox: Vec<u8>,
    sent: usize,
    inbox: Vec<u8>,
    read_from: usize,
    read_to: usize,
    awaited: VecDeque<Command>,
    batch_start: Instant,
}

impl<'a> Driver<'a> {
    fn new(job: &'a RunJob, thread: usize) -> Result<Driver<'a>, Fault> {
        let lane_count = share(job.target.connections as u64, job.threads, thread);
        let mut lanes = Vec::new();
        for _ in 0..lane_count {
            lanes.push(Lane::connect(&job.target.address)?);
        }
        let requests_left = match job.until {
            Until::Requests(count) => share(count, job.threads, thread),
            Until::Seconds(_) => u64::MAX,
        };
        Ok(Driver {
            job,
            writer: Writer::new(job.target.protocol, &job.target.keys),
            choice: Choice::new(job.target.keys.count, job.zipf),
            chance: Chance::new(job.target.keys.seed.wrapping_mul(31) + thread as u64 + 1),
            requests_left,
            deadline: None,
            lanes,
            expected: Vec::new(),
            outcome: Outcome::default(),
        })
    }

    fn drive(mut self) -> Result<Outcome, Fault> {
        let start = Instant::now();
        if let Until::Seconds(seconds) = self.job.until {
            self.deadline = Some(start + Duration::from_secs_f64(seconds));
        }
        let mut lanes = std::mem::take(&mut self.lanes);
        let mut last_progress = start;
        loop {
            let (mut progress, mut busy) = (false, false);
            for lane in &mut lanes {
                progress |= self.turn(lane)?;
                busy |= !lane.awaited.is_empty();
            }
            if !busy && !progress {
                break;
            }
            if progress {
                last_progress = Instant::now();
            } else if last_progress.elapsed().as_secs() >= STALL_LIMIT_S {
                return Err(Fault::Reply(format!("nothing happened for {STALL_LIMIT_S} s")));
            } else {
                // The server may have to share this core: let it run first.
                std::thread::yield_now();
            }
        }
        self.outcome.seconds = start.elapsed().as_secs_f64();
        Ok(self.outcome)
    }

    /// Does everything that is possible without waiting for one connection; returns whether that
    /// was anything.
    fn turn(&mut self, lane: &mut Lane) -> Result<bool, Fault> {
        if lane.awaited.is_empty() {
            let now = Instant::now();
            if !self.fill_batch(lane, now) {
                return Ok(false);
            }
            lane.flush()?;
            return Ok(true);
        }
        let flushed = lane.flush()?;
        let received = lane.receive()?;
        if received {
            self.take_replies(lane, Instant::now())?;
        }
        Ok(flushed || received)
    }

    /// Writes the next batch into the output buffer, unless the run is over.
    fn fill_batch(&mut self, lane: &mut Lane, now: Instant) -> bool {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.requests_left = 0;
        }
        let count = self.requests_left.min(self.job.pipeline as u64);
        self.requests_left -= count;
        lane.outbox.clear();
        lane.sent = 0;
        for _ in 0..count {
            let index = self.choice.draw(&mut self.chance);
            let is_get = self.is_get();
            if self.job.multi_get {
                // All at once, below.
            } else if is_get {
                self.writer.get(index, &mut lane.outbox);
            } else {
                self.writer.set(index, &mut lane.outbox);
            }
            lane.awaited.push_back(Command { index, is_get });
        }
        if self.job.multi_get && count > 0 {
            let indexes = lane.awaited.iter().map(|command| command.index);
            self.writer.get_all(indexes, &mut lane.outbox);
        }
        lane.batch_start = now;
        count > 0
    }

    fn is_get(&mut self) -> bool {
        match self.job.get_percent {
            0 => false,
            100 => true,
            percent => self.chance.below(100) < percent,
        }
    }

    /// Checks and counts every complete reply in the inbox.
    fn take_replies(&mut self, lane: &mut Lane, now: Instant) -> Result<(), Fault> {
        let latency_ns = now.duration_since(lane.batch_start).as_nanos() as u64;
        loop {
            let waiting = &lane.inbox[lane.read_from..lane.read_to];
            let found = if self.job.multi_get {
                one_of_many(waiting, lane.awaited.len() == 1)?
            } else {
                reply(self.writer.protocol(), waiting)?
            };
            let Some((reply, used)) = found else { break };
            let Some(command) = lane.awaited.pop_front() else {
                return Err(Fault::Reply("more replies than commands".into()));
            };
            self.expected.clear();
            if self.job.verify && command.is_get {
                self.writer.keys().write_value(command.index, &mut self.expected);
            }
            let verify = self.job.verify.then_some(&self.expected[..]);
            let hit = check(command, &reply, self.writer.keys().value_bytes, verify)?;
            if !hit && !self.job.allow_misses {
                return Err(Fault::Reply(format!("key number {} is missing", command.index)));
            }
            self.outcome.misses += u64::from(!hit);
            self.outcome.requests += 1;
            self.outcome.latency.record(latency_ns);
            lane.read_from += used;
        }
        Ok(())
    }
}

/// Whether the reply is valid for its command; returns false for a miss.
fn check(
    command: Command,
    reply: &Reply<'_>,
    value_bytes: usize,
    expected: Option<&[u8]>,
) -> Result<bool, Fault> {
    match (command.is_get, reply) {
        (false, Reply::Stored) => Ok(true),
        (true, Reply::Miss) => Ok(false),
        (true, Reply::Value(value)) if value.len() != value_bytes => Err(Fault::Reply(format!(
            "key number {} has {} bytes, not {value_bytes}",
            command.index,
            value.len()
        ))),
        (true, Reply::Value(value)) if expected.is_some_and(|bytes| bytes != *value) => {
            Err(Fault::Reply(format!("key number {} has another value", command.index)))
        }
        (true, Reply::Value(_)) => Ok(true),
        (_, Reply::Wrong(line)) => Err(Fault::Reply(String::from_utf8_lossy(line).into_owned())),
        _ => Err(Fault::Reply(format!("{command:?} was answered {reply:?}"))),
    }
}

impl Lane {
    fn connect(address: &str) -> Result<Lane, Fault> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Lane {
            stream,
            outbox: Vec::new(),
            sent: 0,
            inbox: vec![0; INBOX_BYTES],
            read_from: 0,
            read_to: 0,
            awaited: VecDeque::new(),
            batch_start: Instant::now(),
        })
    }

    /// Sends what the socket accepts; returns whether that was anything.
    fn flush(&mut self) -> Result<bool, Fault> {
        let mut any = false;
        while self.sent < self.outbox.len() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            any = true;
        }
        Ok(any)
    }

    /// Reads once; returns whether anything came.
    fn receive(&mut self) -> Result<bool, Fault> {
        if self.read_from > 0 {
            self.inbox.copy_within(self.read_from..self.read_to, 0);
            self.read_to -= self.read_from;
            self.read_from = 0;
        }
        if self.read_to == self.inbox.len() {
            self.inbox.resize(self.inbox.len() * 2, 0);
        }
        match self.stream.read(&mut self.inbox[self.read_to..]) {
            Ok(0) => Err(Fault::Reply("the server closed the connection".into())),
            Ok(count) => {
                self.read_to += count;
                Ok(true)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Command = Command { index: 3, is_get: true };
    const SET: Command = Command { index: 3, is_get: false };

    #[test]
    fn only_fitting_replies_count() {
        let ok = |command, reply: Reply<'_>| check(command, &reply, 3, None).ok();
        assert_eq!(ok(GET, Reply::Value(b"abc")), Some(true));
        assert_eq!(ok(GET, Reply::Miss), Some(false));
        assert_eq!(ok(SET, Reply::Stored), Some(true));
        assert_eq!(ok(GET, Reply::Value(b"abcd")), None);
        assert_eq!(ok(GET, Reply::Stored), None);
        assert_eq!(ok(SET, Reply::Miss), None);
        assert_eq!(ok(SET, Reply::Value(b"abc")), None);
        assert_eq!(ok(SET, Reply::Wrong(b"OOM")), None);
        assert!(check(GET, &Reply::Value(b"abc"), 3, Some(b"abc")).is_ok());
        assert!(check(GET, &Reply::Value(b"abc"), 3, Some(b"abd")).is_err());
    }

    #[test]
    fn shares_sum_up() {
        for (whole, parts) in [(10u64, 3usize), (1, 4), (0, 2), (50, 50)] {
            let sum: u64 = (0..parts).map(|part| share(whole, parts, part)).sum();
            assert_eq!(sum, whole);
        }
        assert_eq!([share(10, 3, 0), share(10, 3, 1), share(10, 3, 2)], [4, 3, 3]);
    }
}
