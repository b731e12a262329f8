//! One full copy: a snapshot, and the position of the stream at its cut.
//!
//! ```text
//! reserve -- cut, the stream is fed from here -- position -- +FULLRESYNC -- keys -- the stream
//! ```
//!
//! Sent as it is made: `direct`; from a file: `file`; over several connections: `joined` before the
//! cut, `spread` after it.

use std::sync::Arc;
use std::thread::Builder;

use super::recipients::Recipients;
use super::{direct, file, joined, name, spread};
use crate::Replication;
use pantala_durability::journaling;
use pantala_durability::saving::SaveFailure;
use pantala_durability::snapshots::Turn;

/// Makes a full copy, on a thread of its own.
pub(super) fn begin(replication: &Arc<Replication>, recipients: Arc<Recipients>) {
    let (of_thread, of_recipients) = (Arc::clone(replication), Arc::clone(&recipients));
    let life = move || {
        pantala_base::os::yield_to_others();
        run(&of_thread, &of_recipients);
        of_thread.primary.end_copy();
        of_thread.primary.wake();
        pantala_memory::release_seat();
    };
    let spawned = Builder::new().name("copy".into()).spawn(life);
    if let Err(error) = spawned {
        tracing::error!("no full copy is made: cannot start a thread: {error}");
        recipients.break_off(replication);
        replication.primary.end_copy();
    }
}

fn run(replication: &Arc<Replication>, recipients: &Arc<Recipients>) {
    let names: Vec<_> = recipients.present().map(|recipient| name(&recipient.replica)).collect();
    let replicas = names.join(", ");
    let (is_direct, pid) = (recipients.way.is_direct, std::process::id());
    // Words of Redis and Valkey, which people and tools look for; here it is a thread that does it.
    match is_direct {
        true => tracing::info!("Background RDB transfer started by pid {pid}"),
        false => tracing::info!("Background saving started by pid {pid}"),
    }
    tracing::info!(replicas, is_direct, "a full copy begins");
    match make(replication, recipients) {
        Ok(bytes) => {
            let still_there = recipients.present().count();
            if is_direct {
                tracing::info!(
                    "Diskless rdb transfer, done reading from pipe, {still_there} replicas still \
                     up."
                );
            }
            tracing::info!(replicas, still_there, bytes, "a full copy was made");
        }
        Err(_) if recipients.are_gone() => {
            if is_direct {
                tracing::info!(
                    "Diskless rdb transfer, last replica dropped, killing fork child. (It is a \
                     thread, and ends.)"
                );
            }
            tracing::info!(replicas, "a full copy ends: the replicas have gone");
        }
        Err(why) => {
            tracing::error!(replicas, "a full copy could not be made: {why}");
            recipients.break_off(replication);
        }
    }
    recipients.forget_gone(replication);
}

/// Makes the copy, after any other snapshot that is being written.
fn make(replication: &Arc<Replication>, recipients: &Arc<Recipients>) -> Result<u64, SaveFailure> {
    journaling::prepare_to_feed(&replication.durability).map_err(SaveFailure::Failed)?;
    recipients.reserve(replication);
    if recipients.way.is_direct && recipients.way.filter.is_some() {
        // It has no keys, so it needs no snapshot.
        return direct::make_without_keys(replication, recipients);
    }
    let parts = joined::invite(replication, recipients);
    let turn = take_turn(replication, recipients)?;
    // The stream has gone on.
    recipients.reserve(replication);
    match recipients.way.is_direct {
        true if parts > 0 => spread::make(replication, recipients, turn, parts),
        true => direct::make(replication, recipients, turn),
        false => file::make(replication, recipients, turn),
    }
}

/// Waits for the turn of the copy's snapshot.
fn take_turn(replication: &Replication, recipients: &Recipients) -> Result<Turn, SaveFailure> {
    let place = replication.durability.snapshots.line_up(&recipients.save);
    if !place.has_turn() {
        recipients.wait_on();
    }
    Ok(place.wait()?)
}
