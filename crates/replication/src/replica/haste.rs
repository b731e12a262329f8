//! Haste: a replica must follow another server or none, and a script delays that: an endless script
//! of a client, or one that the primary has sent. The change of the role wins.
//!
//! ```text
//! the link is interrupted -- PATIENCE --> scripts that run for longer are ended; what they have
//!                            |            changed stays
//!                            '- LAST ---> steps that still wait for something are skipped
//! ```
//!
//! Skipped or shortened steps are in no history: the data gets a new one, or is copied anew.
//!
//! Tests: the server's `tests/replicas.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::Replication;

/// How long scripts and steps may go on.
const PATIENCE: Duration = Duration::from_secs(1);
/// After this time waiting steps are skipped.
const LAST: Duration = Duration::from_secs(5);
/// How often is checked after that.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Default)]
struct End {
    has_come: Mutex<bool>,
    told: Condvar,
}

impl End {
    /// Waits until it has come, for `most` at most; whether it has.
    fn wait(&self, most: Duration) -> bool {
        let mut has_come = self.has_come.lock();
        let _timed_out = self.told.wait_while_for(&mut has_come, |has_come| !*has_come, most);
        *has_come
    }
}

/// Ends what is in the way, while it lives. `changing` is held meanwhile.
pub(super) struct PromotionHaste {
    replication: Arc<Replication>,
    end: Arc<End>,
    thread: Option<JoinHandle<()>>,
}

impl PromotionHaste {
    /// Begins; `None`: the system has no thread, and everything may take its time.
    pub fn begin(replication: &Arc<Replication>) -> Option<PromotionHaste> {
        let end = Arc::<End>::default();
        let (of_thread, its_end) = (Arc::clone(replication), Arc::clone(&end));
        let life = move || {
            hasten(&of_thread, &its_end);
            pantala_memory::release_seat();
        };
        let thread = Builder::new().name("role-haste".into()).spawn(life).ok()?;
        Some(PromotionHaste { replication: Arc::clone(replication), end, thread: Some(thread) })
    }
}

impl Drop for PromotionHaste {
    fn drop(&mut self) {
        *self.end.has_come.lock() = true;
        self.end.told.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was logged already.
            let _ended = thread.join();
        }
        let following = &self.replication.following;
        following.hastens.store(false, Ordering::Release);
        following.gives_up.store(false, Ordering::Release);
    }
}

/// Repeats something that a script may prevent, until it is done.
///
/// # Errors
/// It has failed for another reason.
pub(super) fn insist<R>(
    replication: &Replication,
    mut work: impl FnMut() -> Result<R, String>,
) -> Result<R, String> {
    let began = Instant::now();
    loop {
        let done = work();
        let is_over = began.elapsed() >= LAST || replication.engine.condition.shutdown.is_final();
        if done.is_ok() || is_over {
            return done;
        }
        std::thread::sleep(LOOK);
    }
}

fn hasten(replication: &Replication, end: &End) {
    let (following, began) = (&replication.following, Instant::now());
    let mut rest = PATIENCE;
    loop {
        if end.wait(rest) {
            return;
        }
        rest = LOOK;
        following.hastens.store(true, Ordering::Release);
        let patience_ms = PATIENCE.as_millis() as u64;
        for (script, had_written) in replication.engine.scripts.running.cut_long(patience_ms) {
            let took_ms = script.took_ms();
            tracing::warn!(took_ms, had_written, "a script is ended: this server changes its role");
        }
        if began.elapsed() >= LAST && !following.gives_up.swap(true, Ordering::AcqRel) {
            tracing::warn!("steps of the primary that still wait are skipped, if there are any");
        }
    }
}
