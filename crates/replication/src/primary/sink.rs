//! The recipients as a disk: what is appended to its one file goes to all replicas that get a full
//! copy.
//!
//! While a replica is slow the snapshot waits, as for a slow disk. Where commands would have to
//! wait for it in the end, the bytes are kept in memory instead, up to `client-output-buffer-limit
//! replica`; then that replica is closed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_keyspace::snapshot::SnapshotRoom;
use pantala_persistence::disk::{Disk, DiskFile};
use pantala_persistence::snapshot::SnapshotQueue;

use super::recipients::{Recipient, Recipients};
use super::{close, name};
use crate::Replication;

/// How often is checked whether commands wait.
const LOOK: Duration = Duration::from_millis(20);
/// A longer piece is cut, so that slow replicas do not hold up others by much.
const PIECE_BYTES: usize = 256 << 10;

/// A [`Disk`] whose one file goes to all replicas that get a full copy.
pub struct Sink {
    /// The server.
    pub replication: Arc<Replication>,
    /// The replicas.
    pub recipients: Arc<Recipients>,
    /// The snapshot's queue of pieces.
    pub source: Arc<SnapshotQueue>,
}

fn absent<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Disk for Sink {
    fn create(&self, _: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let (replication, recipients) =
            (Arc::clone(&self.replication), Arc::clone(&self.recipients));
        Ok(Arc::new(Sink { replication, recipients, source: Arc::clone(&self.source) }))
    }

    fn open_to_append(&self, _: &Path) -> io::Result<Arc<dyn DiskFile>> {
        absent()
    }

    fn open_to_read(&self, _: &Path) -> io::Result<Box<dyn io::Read + Send>> {
        absent()
    }

    fn size(&self, _: &Path) -> io::Result<u64> {
        absent()
    }

    fn truncate(&self, _: &Path, _: u64) -> io::Result<()> {
        absent()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_directory(&self, _: &Path) -> io::Result<()> {
        absent()
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        absent()
    }

    fn list_with_times(&self, _: &Path) -> io::Result<Vec<(i64, String)>> {
        absent()
    }
}

impl DiskFile for Sink {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.recipients.put(&self.replication, piece);
            self.recipients.present().for_each(|recipient| self.wait_for_room(recipient));
            if self.recipients.are_gone() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }

    fn write_over_start(&self, _: &[u8]) -> io::Result<()> {
        absent()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn wait_for_room(&self, recipient: &Recipient) {
        let (mut moved_us, mut left) = (monotonic_us(), recipient.queue.bytes());
        while !recipient.queue.wait_for_room(LOOK) && !recipient.queue.is_over() {
            let now = recipient.queue.bytes();
            if now < left {
                (moved_us, left) = (monotonic_us(), now);
            }
            // They may have changed meanwhile.
            let settings = self.replication.engine.settings.current();
            let most_us = u64::from(settings.repl_timeout_s) * 1_000_000;
            let most_bytes = settings.client_output_buffer_limit.replica.hard_bytes;
            let is_stuck = monotonic_us().saturating_sub(moved_us) > most_us;
            let is_too_much = most_bytes > 0 && now as u64 > most_bytes;
            if is_stuck || is_too_much || self.recipients.save.is_cancelled() {
                let replica = name(&recipient.replica);
                match is_stuck {
                    true => tracing::warn!("Disconnecting timedout replica (full sync): {replica}"),
                    false => tracing::warn!(replica, "disconnecting a replica during its copy"),
                }
                return close(&self.replication, &recipient.replica);
            }
            if self.source.room() == SnapshotRoom::Overfull {
                return;
            }
        }
    }
}
