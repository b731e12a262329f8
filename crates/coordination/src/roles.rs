//! The thread on which the role changes: that may wait for long, and the driver does not.
//!
//! Only the last role that was wanted counts. A change that fails is tried again.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::node::{CoordinatedNode, RoleTarget};

/// How soon a change that has failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// The role that is wanted.
#[derive(Default)]
struct Wanted {
    role: Option<RoleTarget>,
    /// It is not carried out yet.
    is_new: bool,
    is_over: bool,
}

/// The thread that changes the role; it ends when this is dropped.
pub struct RoleThread {
    shared: Arc<(Mutex<Wanted>, Condvar)>,
}

impl RoleThread {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn begin(node: Arc<dyn CoordinatedNode>) -> Result<RoleThread, String> {
        let shared = Arc::new((Mutex::new(Wanted::default()), Condvar::new()));
        let of_thread = Arc::clone(&shared);
        let spawned = Builder::new().name("role".into()).spawn(move || run(&*node, &of_thread));
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(RoleThread { shared })
    }

    /// Wants this role from now on.
    pub fn want(&self, role: RoleTarget) {
        let (wanted, changed) = &*self.shared;
        let mut wanted = wanted.lock();
        if wanted.role.as_ref() != Some(&role) {
            (wanted.role, wanted.is_new) = (Some(role), true);
            changed.notify_all();
        }
    }
}

impl Drop for RoleThread {
    fn drop(&mut self) {
        let (wanted, changed) = &*self.shared;
        wanted.lock().is_over = true;
        changed.notify_all();
    }
}

fn run(node: &dyn CoordinatedNode, (wanted, changed): &(Mutex<Wanted>, Condvar)) {
    loop {
        let mut state = wanted.lock();
        changed.wait_while(&mut state, |state| !state.is_new && !state.is_over);
        if state.is_over {
            return;
        }
        state.is_new = false;
        let Some(role) = state.role.clone() else { continue };
        drop(state);
        if let Err(why) = node.take_role(&role) {
            tracing::warn!("the role in the cluster has not changed yet: {why}");
            let mut state = wanted.lock();
            let waits = |state: &mut Wanted| !state.is_new && !state.is_over;
            let _timed_out = changed.wait_while_for(&mut state, waits, RETRY);
            state.is_new = true;
        }
    }
}
