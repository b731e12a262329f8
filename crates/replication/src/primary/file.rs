//! A full copy that is written to a file before it is sent: with `repl-diskless-sync no`, or for a
//! replica that wants to know the length first.
//!
//! The file is unlinked before it is sent: each replica has a thread that reads it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_persistence::disk::RealDisk;
use pantala_persistence::snapshot::Form;
use pantala_psync::{CopyQueue, Replica};

use super::recipients::{Recipient, Recipients};
use super::{call, close, name};
use crate::Replication;
use pantala_durability::place;
use pantala_durability::saving::{self, SaveFailure};
use pantala_durability::snapshots::Turn;
use pantala_durability::snapshots::cut::FileTarget;
use pantala_durability::snapshots::moment::Moment;

/// The most bytes read at a time.
const PIECE_BYTES: usize = 64 << 10;
/// How often is checked whether the replica is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Writes the file and begins to send it.
pub(super) fn make(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
    turn: Turn,
) -> Result<u64, SaveFailure> {
    let settings = replication.engine.settings.current();
    let path = place::beside_data(&settings, &name_of_file());
    let plan = saving::plan_at(&settings, path.clone(), Form::Rdb);
    let moment = Moment::for_replicas(&replication.durability);
    let mut cut = turn.cut(recipients.purpose(moment))?;
    recipients.begin(replication, cut.note_place()?)?;
    let bytes = cut.write(&mut FileTarget { disk: &RealDisk, plan })?;
    recipients.has_begun();
    let sent = recipients.present().try_for_each(|recipient| send(replication, recipient, &path));
    // The sending threads have it open.
    let _removed = fs::remove_file(&path);
    sent.map_err(|error| SaveFailure::Failed(format!("cannot read {}: {error}", path.display())))?;
    Ok(bytes)
}

/// The name is such that a file left by a killed server is removed like one of BGSAVE.
fn name_of_file() -> PathBuf {
    format!("temp-repl-{}.rdb", std::process::id()).into()
}

/// Starts the thread that sends it to one replica.
fn send(replication: &Arc<Replication>, recipient: &Recipient, path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let (replication, replica) = (Arc::clone(replication), Arc::clone(&recipient.replica));
    let queue = Arc::clone(&recipient.queue);
    let life = move || {
        pantala_base::os::yield_to_others();
        queue.put(format!("${length}\r\n").into_bytes().into());
        let read = read(&replication, (&replica, &queue), file.take(length));
        match read {
            Ok(()) => queue.finish(),
            Err(why) => {
                let replica_name = name(&replica);
                tracing::warn!(replica = replica_name, "a full copy was not sent: {why}");
                close(&replication, &replica);
            }
        }
        call(&replication, &replica);
        pantala_memory::release_seat();
    };
    Builder::new().name("copy-send".into()).spawn(life).map(drop)
}

fn read(
    replication: &Replication,
    (replica, queue): (&Replica, &CopyQueue),
    mut file: impl Read,
) -> Result<(), String> {
    let most_us = u64::from(replication.engine.settings.current().repl_timeout_s) * 1_000_000;
    let mut bytes = vec![0; PIECE_BYTES];
    loop {
        let count = file.read(&mut bytes).map_err(|error| error.to_string())?;
        if count == 0 {
            return Ok(());
        }
        queue.put(bytes[..count].into());
        call(replication, replica);
        let since_us = monotonic_us();
        while !queue.wait_for_room(LOOK) {
            if queue.is_over() || replication.engine.condition.shutdown.is_final() {
                return Err("the replica is gone".into());
            }
            if monotonic_us() - since_us > most_us {
                return Err("the replica takes nothing".into());
            }
        }
    }
}
