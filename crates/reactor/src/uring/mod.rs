//! The io_uring engine.
//!
//! Receiving is a multishot request per connection over one ring of provided buffers: data arrives
//! without any request of ours. Sending is one entry per buffer, submitted by the same system call
//! that then waits. Accepting is a system call, after a poll has reported a waiting peer.
//!
//! # Quick sends
//! A send is first tried with `MSG_DONTWAIT` and asked to be silent on success. Such a request
//! never outlives the submission: either the whole buffer was taken, and no completion comes, or a
//! completion tells what is left (`MSG_WAITALL` makes the kernel count a short write as a failure
//! that carries the count). So after a call that submitted everything, and after its completions
//! were read, every unreported quick send is done. That saves a completion per command, and it lets
//! the call sleep although it sent something: with a completion per send it would return at once,
//! for nothing. The rest of a short write is sent by an ordinary request.
//!
//! Invariants
//! 1. RECEIVING, SENDING, WATCHED, CONNECTING say that the kernel holds a request for the
//!    connection. Its slot is freed and its socket closed only when all are cleared; so a
//!    completion never finds another tenant (and carries the generation besides), and `output`
//!    outlives the send.
//! 2. A request ends with exactly one completion without F_MORE; a quick send ends silently.
//! 3. A cancellation may miss a request that is between two states (`ENOENT`, `EALREADY`). So it
//!    is repeated until the request's final completion has come.
//! 4. Quick sends are settled only when nothing is unsubmitted and no completion is kept back.
//! 5. Polls, cancellations and timeouts point to no memory of ours but statics; receives write only
//!    to the provided buffers, which outlive the ring.
//! 6. A descriptor that a completion brings has no other owner.
//!
//! Not here: setting up and probing (`ring`), the buffer ring (`buffers`), requests and slots
//! (`core`, `accept`). Tests: `tests/engines`.

mod accept;
mod buffers;
mod core;
mod ring;

pub(crate) use self::core::Core;
pub use ring::Features;

use self::core::{Kind, Target};
use crate::ReactorConfig;
use crate::area::Area;
use crate::event::{Event, ReactorEvent};
use crate::wake::Alarm;
use buffers::Buffers;
use io_uring::cqueue;
use ring::Ring;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Uring {
    // Dropped in this order: the ring (inside `core`) before the memory it was given.
    pub(crate) core: Core,
    buffers: Buffers,
    pub(crate) area: Area,
    pub(crate) sent: Vec<ReactorEvent>,
    pub(crate) happenings: Vec<ReactorEvent>,
    /// The eventfd's owner: the ring polls it.
    alarm: Arc<Alarm>,
}

impl Uring {
    pub(crate) fn new(config: &ReactorConfig, alarm: &Arc<Alarm>) -> io::Result<Uring> {
        let features = ring::probe()?.without(config.without);
        let ring = Ring::new(config.submission_entries, config.completion_entries, features)?;
        let count = config.buffer_count.clamp(1, 1 << 15).next_power_of_two();
        let bytes = config.buffer_bytes.clamp(1, (1 << 31) / count);
        let area = Area::new(count * bytes)?;
        let least = (config.turn_bytes / bytes).clamp(1, count);
        let buffers = Buffers::new(count as u16, bytes as u32, least as u16)?;
        buffers.register(&ring)?;
        Ok(Uring {
            core: Core::new(ring, features),
            buffers,
            area,
            sent: Vec::new(),
            happenings: Vec::new(),
            alarm: Arc::clone(alarm),
        })
    }

    pub(crate) fn features(&self) -> Features {
        self.core.features
    }

    /// Runs one turn; its events are then in `sent` and `happenings`.
    pub(crate) fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.core.end_turn();
        self.buffers.give_back(&self.area, self.core.was_starved());
        if self.core.ring.enable()? {
            self.core.watch(self.alarm.fd());
        }
        self.core.arm_receives();
        // The results of the last turn's operations come first; usually there are none.
        std::mem::swap(&mut self.happenings, &mut self.core.connections.queued);
        let hurried = self.core.is_hurried() || !self.happenings.is_empty();
        let called = self.alarm.before_sleep();
        let sleep = !(hurried || called || timeout == Some(Duration::ZERO));
        let entered = self.core.ring.enter(sleep, timeout);
        if self.alarm.after_sleep() | called {
            self.happenings.push(ReactorEvent::Other(Event::Woken));
        }
        entered?;
        let settled = !self.core.ring.has_unsubmitted() && !self.core.ring.overflowed();
        self.read_completions();
        self.core.settle_quick_sends(settled, &mut self.sent);
        self.core.finish(&mut self.happenings);
        Ok(())
    }

    fn read_completions(&mut self) {
        // Completions that arrive while we read wait for the next turn: a bounded turn.
        let mut left = {
            let mut queue = self.core.ring.completions();
            queue.sync();
            queue.len()
        };
        while left > 0 {
            let Some(completion) = self.core.ring.completions().next() else { break };
            left -= 1;
            let target = Target::from_user_data(completion.user_data());
            if target.kind == Kind::Receive {
                self.received(target, &completion);
            } else {
                self.core.completed(target, &completion, &mut self.sent, &mut self.happenings);
            }
        }
    }

    #[inline]
    fn received(&mut self, target: Target, completion: &cqueue::Entry) {
        let (result, flags) = (completion.result(), completion.flags());
        let conn = target.token;
        let wanted = self.core.takes_data(conn);
        let happenings = &mut self.happenings;
        if let Some(buffer) = cqueue::buffer_select(flags) {
            let length = result.max(0) as u32;
            let offset = self.buffers.take(buffer, length);
            if wanted && length > 0 {
                happenings.push(ReactorEvent::Data { conn, offset, length });
            }
        }
        if !cqueue::more(flags) {
            self.core.receive_ended(conn, result, happenings);
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if !self.core.cancel_everything() {
            // The kernel may still write to the buffers: better leaked than freed.
            if let Ok(empty) = Area::new(1) {
                std::mem::forget(std::mem::replace(&mut self.area, empty));
            }
            self.core.leak_outputs();
        }
    }
}
