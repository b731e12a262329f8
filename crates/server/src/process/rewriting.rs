//! Rewriting the append-only file: a snapshot takes the place of what was written before its
//! moment.
//!
//! ```text
//! this thread      cut ------ waits for the writer ----- snapshot to the base's path -- order
//! journal's thread       the cut: a new increment begins          the manifest names both
//! ```
//!
//! Turning the append-only file on while running is the same: recording begins at the cut.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_persistence::aof::Rewrite;
use pantala_persistence::disk::RealDisk;

use super::saving::{self, Unsaved};
use crate::appending::{Order, Rewritten};
use crate::saves::Save;
use crate::shared::Shared;

/// How soon it is tried again while a snapshot is being written.
const AGAIN: Duration = Duration::from_millis(100);
/// So long the writer may take to come to the cut: its disk may be slow.
const BEGIN_MOST: Duration = Duration::from_secs(60);

/// Begins a rewrite on a thread of its own; false: one is under way, or there is no thread.
pub fn begin(shared: &Arc<Shared>) -> bool {
    shared.appending.begin_rewrite(monotonic_us()).is_some() && go_on(shared)
}

/// The same where [`begin_rewrite`](crate::appending::Appending::begin_rewrite) has been asked.
pub fn go_on(shared: &Arc<Shared>) -> bool {
    let of_thread = Arc::clone(shared);
    let life = move || {
        pantala_base::os::yield_to_others();
        run(&of_thread);
        pantala_memory::release_seat();
    };
    let spawned = Builder::new().name("rewrite".into()).spawn(life);
    if let Err(error) = &spawned {
        tracing::error!("the append-only file is not rewritten: cannot start a thread: {error}");
        shared.appending.rewrite_ended(false, monotonic_us());
    }
    spawned.is_ok()
}

fn run(shared: &Shared) {
    let mut begun = None;
    let written = loop {
        match write(shared, &mut begun) {
            Err(Unsaved::Busy) if !shared.engine.condition.shutdown.pause_for(AGAIN) => {
                shared.appending.set_scheduled(true);
            }
            other => break other,
        }
    };
    shared.appending.set_scheduled(false);
    if let Err(why) = &written {
        tracing::error!("the append-only file could not be rewritten: {why}");
    }
    match begun {
        Some(rewrite) => {
            let ended = Order::Rewritten(Rewritten { rewrite, is_written: written.is_ok() });
            if !shared.appending.order(&shared.engine.journal, ended) {
                tracing::warn!("the append-only file is not wanted any more: nor is its new base");
                shared.appending.rewrite_ended(false, monotonic_us());
            }
        }
        None => shared.appending.rewrite_ended(false, monotonic_us()),
    }
}

/// Writes the base. `begun` is the rewrite, once the writer has come to the cut.
fn write(shared: &Shared, begun: &mut Option<Rewrite>) -> Result<u64, Unsaved> {
    let journal = &shared.engine.journal;
    let (number, coming) = shared.appending.expect_rewrite();
    let save = Save::default();
    saving::write_snapshot(
        shared,
        &save,
        ("1", &mut |cut| shared.appending.cut(journal, cut.stamp, number)),
        || {
            let rewrite = coming.recv_timeout(BEGIN_MOST).ok().flatten();
            let rewrite = rewrite.ok_or("the file after it could not be begun")?;
            let path = begun.insert(rewrite).base_path.clone();
            let plan = saving::plan_at(&shared.engine.settings.current(), path);
            Ok((Box::new(RealDisk), plan))
        },
    )
}
