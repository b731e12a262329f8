//! Connections that are kept for the next MIGRATE to the same server.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::link::Link;
use crate::Migrations;

/// The most connections that are kept.
const MOST_LINKS: usize = 64;
/// A connection that was not used for this long is closed.
const KEPT: Duration = Duration::from_secs(10);
/// How often is checked for those, while there are any.
const LOOK: Duration = Duration::from_secs(1);

/// Idle connections to other servers, kept for the next MIGRATE: at most `MOST_LINKS`, each for
/// `KEPT`.
#[derive(Debug, Default)]
pub struct Links {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: Vec<CachedLink>,
    is_looked_after: bool,
}

#[derive(Debug)]
struct CachedLink {
    target: Vec<u8>,
    link: Link,
    since: Instant,
}

impl Links {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The number of kept connections.
    pub fn count(&self) -> usize {
        self.state().kept.len()
    }

    /// Takes a connection to this server.
    pub fn take(&self, target: &[u8]) -> Option<Link> {
        let mut state = self.state();
        let at = state.kept.iter().rposition(|kept| kept.target == target)?;
        Some(state.kept.swap_remove(at).link)
    }

    /// Closes connections that were not used for long; whether none is left.
    fn close_old(&self) -> bool {
        let mut state = self.state();
        state.kept.retain(|kept| kept.since.elapsed() < KEPT);
        state.kept.is_empty()
    }

    /// Ends the checking, unless there are connections again; whether it has ended.
    fn leave(&self) -> bool {
        let mut state = self.state();
        state.is_looked_after = !state.kept.is_empty();
        !state.is_looked_after
    }
}

impl Migrations {
    /// Keeps a connection to this server, if there is room. On the control plane.
    pub(super) fn keep_link(self: &Arc<Self>, target: &[u8], link: Link) {
        let mut state = self.links.state();
        if state.kept.len() < MOST_LINKS {
            let target = target.to_vec();
            state.kept.push(CachedLink { target, link, since: Instant::now() });
        }
        if !state.is_looked_after {
            state.is_looked_after = true;
            drop(state);
            tokio::spawn(look_after(Arc::downgrade(self)));
        }
    }
}

/// Closes connections and ends pinning when they were not used for a while.
async fn look_after(migrations: Weak<Migrations>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(migrations) = migrations.upgrade() else { return };
        if migrations.links.close_old()
            && migrations.engine.space.close_pins()
            && migrations.links.leave()
        {
            return;
        }
    }
}
