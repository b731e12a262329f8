//! The fence at the end of a turn: no reply leaves under a permission that has ended.
//!
//! ```text
//! refresh   may this node write?  yes: `ran` is the permission       no: commands are refused
//! flush     does it still last?   no: what needs it does not leave, and its clients are closed
//! ```
//!
//! A turn may run long after it has read the clock: its thread, or the whole process or machine,
//! may have stood still. By then another node may be the primary, and has not what was written here
//! since; what was read here may be old. So the client must not be told that it succeeded. It is
//! not told that it failed, either, as nobody knows: its connection is closed.
//!
//! The same holds for replies that were written earlier and wait: for the journal, behind output
//! that is being sent, on their way from the lane, from who served a waiter, or from another
//! worker. [`Output::permit`](crate::worker::connection::Output) says what they need.
//!
//! Not here: the permission (`pantala_engine::engine::slots_cell`); bytes that the reactor has got
//! already, of which it may send the rest later. The stream of replicas needs no permission. Tests:
//! the server's `tests/fence.rs`.

use pantala_base::clock::monotonic_us;
use pantala_engine::engine::slots_cell::WritePermit;

use crate::worker::Worker;
use crate::worker::connection::{Life, Output};

/// The permissions of a worker's turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnFence {
    /// The one under which the turn's commands run.
    pub ran: WritePermit,
    /// The one at the end of the turn; known from then on.
    lasts: WritePermit,
    /// How many clients were closed because their replies may not leave.
    unanswered: usize,
}

impl TurnFence {
    /// The fence of a turn that begins under this permission.
    pub fn of(ran: WritePermit) -> TurnFence {
        TurnFence { ran, ..TurnFence::default() }
    }

    /// Whether something has to be asked before this output leaves. Without a cluster: never.
    #[inline]
    pub fn concerns(&self, output: &Output) -> bool {
        self.ran != WritePermit::Unfenced || output.permit != WritePermit::Unfenced
    }
}

impl Worker {
    /// Reads the clock at the end of a turn that ran under a permission: does it still last?
    ///
    /// From here to the sends is the only time in which this thread may stand still unnoticed: with
    /// io_uring until all of the turn is submitted, with epoll until the call for each connection.
    /// The margin of the permission is for that; a longer standstill just there lets replies leave
    /// that should not, and nothing in this process could tell.
    #[inline]
    pub(super) fn look_at_fence(&mut self) {
        if self.fence.ran != WritePermit::Unfenced {
            self.fence.lasts = self.context.engine.slots.fence.permit(monotonic_us());
        }
    }

    /// Whether the output of a connection may leave now. What stays is marked with the permission
    /// that it needs.
    #[cold]
    pub(super) fn may_answer(&mut self, index: u32) -> bool {
        let TurnFence { ran, mut lasts, .. } = self.fence;
        if ran == WritePermit::Unfenced {
            // It has lost its slots since this was written.
            lasts = self.context.engine.slots.fence.permit(monotonic_us());
        }
        let Some(connection) = self.at(index) else { return true };
        if connection.session.is_replica() || !connection.has_output() {
            connection.output.permit = WritePermit::Unfenced;
            return true;
        }
        connection.output.needs(ran);
        let needed = connection.output.permit;
        let may = match needed {
            WritePermit::Held(_) => lasts == needed || lasts == WritePermit::Unfenced,
            WritePermit::Unfenced | WritePermit::Ended => true,
        };
        // The worker that takes it over asks again.
        let leaves = matches!(connection.life, Life::Leaving | Life::Closing);
        self.fence.unanswered += usize::from(!may && !leaves);
        may || leaves
    }

    /// Logs that clients were closed without a reply.
    #[inline]
    pub(super) fn tell_unanswered(&mut self) {
        if self.fence.unanswered > 0 {
            tracing::warn!(
                clients = self.fence.unanswered,
                "the permission to write has ended: clients are closed instead of answered"
            );
        }
    }
}
