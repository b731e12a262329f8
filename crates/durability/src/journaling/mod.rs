//! Journaling: one thread takes recorded steps in order and appends them to the append-only file
//! and to the stream of replicas, if there are any; another one syncs the file.
//!
//! ```text
//! Reader --runs--> File --append--> increment                                 (file.rs)
//!                     |--sync--> each second by a thread of its own (everysec), or here (always)
//!                  Feed --append--> the stream, whose workers are called        (feed.rs)
//!        --cut---> a rewrite begins: a new increment; the snapshot of that moment is its base
//!                  or the stream does: what a replica copies is the snapshot of that moment
//! ```
//!
//! Invariants
//! 1. A step is reported as durable (`Journal::set_durable`) only after the sync that covers it.
//! 2. After a fault nothing is reported as durable, and writes are refused (`States::UNWRITTEN`),
//!    until a rewrite that began after it has ended.
//! 3. Backlog is bounded: while too much is not written, writes wait (`Journal::is_full`).
//! 4. What the file does not have yet is in rings that outlive the process (`rings`), from before
//!    its reply is sent until it is confirmed to be in the file.
//! 5. The thread is started when it is first needed, and ends with the server.
//!
//! Not here: the snapshot (`saving`), what is loaded at the start (`loading`). Tests:
//! the server's `tests/append_only.rs`.

mod awaited;
mod feed;
mod file;
mod keeper;
mod rings;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_keyspace::Aborted;
use pantala_persistence::aof::{AofWriter, Manifest};
use pantala_persistence::disk::RealDisk;
use pantala_settings::Settings;
use pantala_settings::field::AppendSync;

use super::rewriting;
use crate::Durability;
use crate::appending::Order;
pub use crate::place::layout;
pub use keeper::Keeper;
use pantala_engine::Message;
pub use rings::directory as ring_directory;

/// How often is checked whether the first file is complete, or a rewrite has ended.
const LOOK: Duration = Duration::from_millis(5);
/// The longest wait for a rewrite that was called off.
const CALLED_OFF_MOST_US: u64 = 1_000_000;

/// Starts the thread, if there is none.
///
/// # Errors
/// The system has no thread.
fn start(durability: &Arc<Durability>) -> Result<(), String> {
    durability.appending.start_thread(|orders| {
        let keeper = Keeper::new(Arc::clone(durability), orders);
        let spawned = Builder::new().name("journal".into()).spawn(move || keeper.run());
        spawned.map_err(|error| format!("cannot start a thread: {error}"))
    })
}

/// The journal's keeper without a thread: the caller runs its rounds.
///
/// # Errors
/// There is a thread.
pub fn by_hand(durability: &Arc<Durability>) -> Result<Keeper, String> {
    let mut keeper = None;
    durability.appending.start_thread(|orders| {
        keeper = Some(Keeper::new(Arc::clone(durability), orders));
        Ok(std::thread::spawn(|| {}))
    })?;
    keeper.ok_or("there is a thread".into())
}

/// Adds to the files that `manifest` names what a killed process had acknowledged and not written.
/// To be called before they are loaded.
///
/// # Errors
/// A text for the operator.
pub fn take_over(durability: &Durability, manifest: &Manifest) -> Result<(), String> {
    let settings = durability.engine.settings.current();
    rings::take_over(&settings, &layout(&settings), manifest)
}

/// Begins journaling after the files of `manifest` were loaded, or with none; recording is on
/// already.
///
/// # Errors
/// A text for the operator.
pub fn begin(durability: &Arc<Durability>, manifest: Option<Manifest>) -> Result<(), String> {
    let writer = match manifest {
        None => rewriting::write_first(durability).map_err(|why| why.to_string())?,
        found => {
            let layout = layout(&durability.engine.settings.current());
            if let Some(last) = found.as_ref().and_then(|manifest| manifest.increments.last()) {
                tracing::info!("Opening AOF incr file {} on server start", last.name);
            }
            let mut writer = AofWriter::new(Arc::new(RealDisk), layout, found, 0);
            writer.keep_history(durability.engine.settings.current().aof_disable_auto_gc);
            writer.resume().map_err(|error| error.to_string())?;
            writer
        }
    };
    let is_always = durability.engine.settings.current().appendfsync == AppendSync::Always;
    durability.engine.journal.hold_replies(is_always);
    start(durability)?;
    durability.appending.open(&durability.engine.journal, writer);
    // Before anybody writes: from its first round on what is acknowledged outlives the process.
    let _ended = durability.appending.position(&durability.engine.journal).recv();
    Ok(())
}

/// Applies CONFIG SET appendonly: begins a file by a rewrite, or ends writing.
///
/// # Errors
/// A text for the operator.
pub fn settings_changed(durability: &Durability, now: &Settings) -> Result<(), String> {
    let journal = &durability.engine.journal;
    if now.appendonly == durability.appending.is_running() {
        // The sync policy has changed, or whether old files are kept.
        if !now.aof_disable_auto_gc {
            remove_history(durability);
        }
        journal.wake_reader();
        return Ok(());
    }
    if !now.appendonly {
        durability.appending.close(journal);
        journal.hold_replies(false);
        durability.engine.workers.post_all(&|| Message::JournalKept);
        return Ok(());
    }
    wait_for_called_off(durability);
    begin_anew(&durability.arc().ok_or("the server stops")?)
}

/// Removes what rewrites have replaced while `aof-disable-auto-gc` was on.
fn remove_history(durability: &Durability) {
    let (removed, until_removed) = channel();
    if durability.appending.order(&durability.engine.journal, Order::RemoveHistory(removed)) {
        // Otherwise the next start removes it.
        let _ended = until_removed.recv();
    }
}

/// Waits for the end of a rewrite whose file was turned off a moment ago. Not for long: it may wait
/// for the transaction in which this command is.
fn wait_for_called_off(durability: &Durability) {
    let began_us = monotonic_us();
    while durability.appending.is_called_off()
        && monotonic_us() - began_us < CALLED_OFF_MOST_US
        && !durability.engine.condition.shutdown.pause_for(LOOK)
    {}
}

/// Begins an append-only file with the present data.
///
/// # Errors
/// A text for the operator.
pub fn begin_anew(durability: &Arc<Durability>) -> Result<(), String> {
    // Reserved first: a rewrite begun for an earlier file must not end in this one.
    let asked = durability.appending.begin_rewrite(monotonic_us());
    asked.map_err(|why| why.to_string())?;
    let layout = layout(&durability.engine.settings.current());
    let manifest = layout.try_to_write(&RealDisk).and_then(|()| layout.open(&RealDisk));
    let manifest = manifest.map_err(|error| error.to_string());
    let opened = start(durability).and(manifest).inspect_err(|_| {
        durability.appending.rewrite_ended(false, monotonic_us());
    });
    let writer = AofWriter::new(Arc::new(RealDisk), layout, opened?, 0);
    durability.appending.open(&durability.engine.journal, writer);
    match rewriting::go_on(durability, "a file begins") {
        true => Ok(()),
        false => Err("there is no thread for it".into()),
    }
}

/// Waits until the file that [`begin_anew`] has begun is complete, or the server stops.
///
/// # Errors
/// It could not be written.
pub fn wait_for_first(durability: &Durability) -> Result<(), String> {
    while durability.appending.begins_file() {
        if durability.engine.condition.shutdown.pause_for(LOOK) {
            return Ok(());
        }
    }
    match durability.appending.is_kept() {
        true => Ok(()),
        false => Err("the append-only file could not be begun: the log says why".into()),
    }
}

/// Prepares [`Durability::feed_from`]: starts the journal's thread.
///
/// # Errors
/// The system has no thread.
pub fn prepare_to_feed(durability: &Durability) -> Result<(), String> {
    start(&durability.arc().ok_or("the server stops")?)
}

/// Begins to feed the stream with what is recorded; returns its position at that moment. Only on a
/// thread that may wait, outside the gate.
///
/// # Errors
/// A text for the log.
pub fn begin_to_feed(durability: &Durability) -> Result<u64, String> {
    prepare_to_feed(durability)?;
    let cut = durability.engine.space.at_one_moment(|stamp| durability.feed_from(stamp));
    let coming = cut.map_err(|Aborted(_)| "a command does not end")?;
    coming.recv().map_err(|_| "the server stops".into())
}

/// Ends feeding; returns the stream's end, once everything recorded before is in it. Only on a
/// thread that may wait.
pub fn stop_feeding(durability: &Durability) -> u64 {
    let coming = durability.appending.end_feed(&durability.engine.journal);
    // Without the thread nothing was recorded.
    coming.recv().unwrap_or_else(|_| durability.downstream.stream.end())
}
