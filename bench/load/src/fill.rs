//! `fill`: writes every key once, in order, at full speed.
//!
//! ```text
//!   connection 0:  batch ------ replies | batch ...
//!   connection 1:        batch ------ replies | batch ...      the server works on one batch
//!   connection 2:              batch ------ replies | ...      while we write the next one
//! ```
//!
//! 1. Before a connection is written to, the replies of its last batch have been read and checked;
//!    so at the end every key is acknowledged.
//! 2. A batch's replies are at most [`BATCH_COMMANDS`] short lines, which fit a socket's buffer:
//!    the server can always answer while we are still writing, and neither side waits for the
//!    other.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::args::FillJob;
use crate::wire::{Reply, Writer, reply};
use crate::{Fault, STALL_LIMIT_S};

/// Most SETs in one batch.
pub const BATCH_COMMANDS: u64 = 500;
/// Aim for this many bytes in one batch.
pub const BATCH_BYTES: usize = 64 << 10;

/// The result of a fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filled {
    /// Keys written and acknowledged.
    pub keys: u64,
    /// How long it took.
    pub seconds: f64,
}

struct Lane {
    stream: TcpStream,
    inbox: Vec<u8>,
    awaited: u64,
}

/// Writes the keys `first..count` of the job.
pub fn fill(job: &FillJob) -> Result<Filled, Fault> {
    let writer = Writer::new(job.target.protocol, &job.target.keys).with_ttl(job.ttl_s);
    let batch_size = (BATCH_BYTES / writer.set_bytes()).clamp(1, BATCH_COMMANDS as usize) as u64;
    let mut lanes = Vec::new();
    for _ in 0..job.target.connections {
        lanes.push(Lane::connect(&job.target.address)?);
    }
    let start = Instant::now();
    let mut batch = Vec::with_capacity(BATCH_BYTES + writer.set_bytes());
    let mut next = job.first;
    while next < job.target.keys.count {
        for lane in &mut lanes {
            lane.take_replies(&writer)?;
            let end = (next + batch_size).min(job.target.keys.count);
            batch.clear();
            (next..end).for_each(|index| writer.set(index, &mut batch));
            lane.stream.write_all(&batch)?;
            lane.awaited = end - next;
            next = end;
        }
    }
    for lane in &mut lanes {
        lane.take_replies(&writer)?;
    }
    Ok(Filled { keys: next - job.first, seconds: start.elapsed().as_secs_f64() })
}

impl Lane {
    fn connect(address: &str) -> Result<Lane, Fault> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let limit = Some(Duration::from_secs(STALL_LIMIT_S));
        stream.set_read_timeout(limit)?;
        stream.set_write_timeout(limit)?;
        Ok(Lane { stream, inbox: Vec::new(), awaited: 0 })
    }

    /// Reads until the last batch is acknowledged.
    fn take_replies(&mut self, writer: &Writer) -> Result<(), Fault> {
        let mut chunk = [0; 16 << 10];
        let mut parsed = 0;
        while self.awaited > 0 {
            match reply(writer.protocol(), &self.inbox[parsed..])? {
                Some((Reply::Stored, used)) => {
                    parsed += used;
                    self.awaited -= 1;
                }
                Some((other, _)) => return Err(Fault::Reply(format!("to a SET: {other:?}"))),
                None => {
                    self.inbox.drain(..parsed);
                    parsed = 0;
                    let count = self.stream.read(&mut chunk)?;
                    if count == 0 {
                        return Err(Fault::Reply("the server closed the connection".into()));
                    }
                    self.inbox.extend_from_slice(&chunk[..count]);
                }
            }
        }
        if parsed < self.inbox.len() {
            return Err(Fault::Reply("more replies than commands".into()));
        }
        self.inbox.clear();
        Ok(())
    }
}
