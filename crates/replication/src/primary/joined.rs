//! Connections over which a replica gets its full copy in parts, beside its link.
//!
//! ```text
//! +PARTS token n  --> the replica connects n times --> REPLCONF copy-part token --> join
//! all have come, or some seconds have passed: no more may join, and the copy's moment is taken
//! ```
//!
//! Invariants
//! 1. Only the worker treats such a connection as a replica: it is not counted as one, and gets no
//!    stream.
//! 2. A replica is told how many connections have joined; it takes the copy only if it has opened
//!    as many.
//!
//! Tests: at the foot; compat/replication, `several_connections` and those after it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_psync::link::{MOST_CONNECTIONS, frames};
use pantala_psync::{CopyQueue, Phase, Replica, ReplicationId};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::recipients::Recipients;
use super::{Primary, call, close, name};
use crate::Replication;
use pantala_durability::snapshots::cut::Readers;

/// How long to wait for the connections.
const MOST_WAIT: Duration = Duration::from_secs(5);
/// How often is checked whether the replica is still there.
const LOOK: Duration = Duration::from_millis(50);

/// One such connection.
#[derive(Clone, Debug)]
pub struct Part {
    /// The replica by which its worker knows it.
    pub replica: Arc<Replica>,
    /// The bytes to be sent over it.
    pub queue: Arc<CopyQueue>,
}

/// The connections that one replica has opened beside its link, for a copy in parts.
#[derive(Debug)]
pub struct JoinedParts {
    token: ReplicationId,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    parts: Vec<Part>,
    /// How many may join.
    most: usize,
}

impl JoinedParts {
    /// No connection, and none may join.
    pub fn new() -> JoinedParts {
        let (token, state) = (ReplicationId::random(), Mutex::default());
        JoinedParts { token, state, changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// All connections.
    pub fn parts(&self) -> Vec<Part> {
        self.state().parts.clone()
    }

    /// The bytes that wait to be sent.
    pub fn bytes(&self) -> usize {
        self.state().parts.iter().map(|part| part.queue.bytes()).sum()
    }

    /// Sets how many may join.
    fn allow(&self, most: usize) {
        debug_assert!(most <= MOST_CONNECTIONS, "a replica offers no more");
        self.state().most = most;
    }

    /// Adds the connection if it has the right token and there is room; whether it was added.
    fn join(&self, token: &[u8], replica: &Arc<Replica>) -> bool {
        let mut state = self.state();
        if self.token.as_str().as_bytes() != token || state.parts.len() >= state.most {
            return false;
        }
        let queue = Arc::new(CopyQueue::default());
        {
            let mut announced = replica.announced();
            (announced.is_part, announced.only_copy) = (true, true);
        }
        // It needs nothing of the stream.
        replica.set_position(u64::MAX);
        replica.set_copy(Some(Arc::clone(&queue)));
        replica.set_phase(Phase::Copying);
        state.parts.push(Part { replica: Arc::clone(replica), queue });
        debug_assert!(state.parts.len() <= state.most, "no more than may");
        self.changed.notify_all();
        true
    }

    /// Waits a while for the missing connections; whether all have come.
    fn wait(&self, most: Duration) -> bool {
        let waits = |state: &mut State| state.parts.len() < state.most;
        let mut state = self.state();
        let _timed_out = self.changed.wait_while_for(&mut state, waits, most);
        state.parts.len() >= state.most
    }

    /// Sends a sign of life over connections that are sent nothing else.
    pub fn keep_alive(&self, replication: &Replication) {
        for part in self.parts().iter().filter(|part| part.queue.bytes() == 0) {
            part.queue.put(frames::alive().into());
            call(replication, &part.replica);
        }
    }

    /// Closes all connections.
    pub fn close(&self, replication: &Replication) {
        self.allow(0);
        let parts = std::mem::take(&mut self.state().parts);
        parts.iter().for_each(|part| close(replication, &part.replica));
    }
}

/// Adds the connection to the copy with this token; whether there is one.
pub fn join(primary: &Primary, token: &[u8], replica: &Arc<Replica>) -> bool {
    let copying = primary.copying();
    copying.is_some_and(|to| to.present().any(|one| one.joined.join(token, replica)))
}

/// Invites replicas that take parts, and waits until they have connected. Returns how many parts
/// there will be; 0: the copy goes over the links.
pub(super) fn invite(replication: &Replication, recipients: &Recipients) -> usize {
    if recipients.way.readers != Readers::InParts {
        return 0;
    }
    let settings = replication.engine.settings.current();
    let wanted = recipients.present().map(|one| one.replica.announced().connections);
    let most = wanted.chain([settings.worker_count(), MOST_CONNECTIONS]).min().unwrap_or(0);
    for recipient in recipients.present() {
        let (joined, queue) = (&recipient.joined, &recipient.queue);
        joined.allow(most);
        queue.put(format!("+PARTS {} {most}\r\n", joined.token).into_bytes().into());
        recipient.replica.set_copy(Some(Arc::clone(queue)));
        call(replication, &recipient.replica);
    }
    let since = Instant::now();
    for recipient in recipients.present() {
        while !recipient.joined.wait(LOOK) {
            let is_gone = recipient.replica.phase() == Phase::Gone;
            let is_over = recipients.save.is_cancelled() || recipients.are_gone();
            if is_gone || is_over || since.elapsed() > MOST_WAIT {
                break;
            }
        }
    }
    // Later connections are refused.
    recipients.list.iter().for_each(|recipient| recipient.joined.allow(0));
    let counts = recipients.present().map(|one| (one, one.joined.state().parts.len()));
    let few = counts.min_by_key(|(_, count)| *count);
    match few {
        Some((recipient, 0)) => {
            let replica = name(&recipient.replica);
            tracing::warn!(replica, "it opened no connections: the copy goes over the link");
            recipients.list.iter().for_each(|recipient| recipient.joined.close(replication));
            0
        }
        few => few.map_or(0, |(_, count)| count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Arc<Replica> {
        Arc::new(Replica::new(1, None, 0))
    }

    #[test]
    fn as_many_join_as_may_and_only_with_the_token() {
        let joined = JoinedParts::new();
        let token = joined.token.as_str().as_bytes().to_vec();
        assert!(!joined.join(&token, &connection()), "nobody is invited yet");
        joined.allow(2);
        for wrong in [&b""[..], &token[1..], &[b'0'; 40]] {
            assert!(!joined.join(wrong, &connection()));
        }
        let first = connection();
        assert!(joined.join(&token, &first));
        assert_eq!(first.phase(), Phase::Copying);
        assert!(first.announced().is_part && first.copy().is_some());
        assert!(!joined.wait(Duration::ZERO));
        assert!(joined.join(&token, &connection()) && joined.wait(Duration::ZERO));
        let late = connection();
        assert!(!joined.join(&token, &late));
        assert_eq!((late.phase(), joined.parts().len()), (Phase::Greeting, 2));
    }

    #[test]
    fn nobody_joins_when_the_copy_has_begun() {
        let joined = JoinedParts::new();
        joined.allow(2);
        let token = joined.token.as_str().as_bytes().to_vec();
        assert!(joined.join(&token, &connection()));
        joined.allow(0);
        assert!(!joined.join(&token, &connection()));
        assert_eq!(joined.parts().len(), 1);
    }
}
