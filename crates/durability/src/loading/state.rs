//! The progress of loading, for INFO, and what the file states of itself.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pantala_base::clock::monotonic_us;
use pantala_keyspace::DbIndex;
use pantala_persistence::loading::InsertOutcome;
use pantala_psync::ReplicationId;
use parking_lot::Mutex;

use crate::saving::now_s;
use crate::snapshots::place::SnapshotPlace;

/// The state of loading.
#[derive(Default)]
pub struct LoadState {
    began_us: AtomicU64,
    began_s: AtomicU64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    used_bytes: AtomicU64,
    /// How many parts a file of Dragonfly's states that it has.
    parts: AtomicU64,
    /// The database that was selected in the primary's stream.
    stream_db: AtomicU32,
    /// The history of the data, if the file states it.
    history: Mutex<Option<ReplicationId>>,
    /// The position in the history, plus one; 0: unknown.
    position: AtomicU64,
    last: Mutex<InsertOutcome>,
    /// Expired keys that were left out, while they are to be sent to replicas.
    expired: Mutex<Option<Expired>>,
}

/// The expired keys of a file.
#[derive(Default)]
pub struct Expired {
    /// Their names.
    pub keys: Vec<(DbIndex, Box<[u8]>)>,
    /// The bytes of these names.
    bytes: usize,
    /// There were too many: some are missing.
    pub is_cut: bool,
}

impl Expired {
    fn add(&mut self, db: DbIndex, name: &[u8], most_bytes: u64) {
        self.bytes = self.bytes.saturating_add(name.len() + size_of::<(DbIndex, Box<[u8]>)>());
        self.is_cut |= self.bytes as u64 > most_bytes;
        match self.is_cut {
            true => self.keys = Vec::new(),
            false => self.keys.push((db, name.into())),
        }
    }
}

/// The progress of loading.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// When it began (Unix, seconds).
    pub began_s: u64,
    /// Bytes of the file.
    pub total_bytes: u64,
    /// The bytes loaded so far.
    pub loaded_bytes: u64,
    /// The memory that the writing server had used, if the file states it.
    pub used_bytes: u64,
    /// How long loading has taken, in microseconds.
    pub took_us: u64,
}

impl LoadState {
    /// Begins to load files of this many bytes.
    pub(super) fn begin(&self, total_bytes: u64) {
        self.began_us.store(monotonic_us(), Ordering::Relaxed);
        self.began_s.store(now_s().unsigned_abs(), Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
        self.used_bytes.store(0, Ordering::Relaxed);
        self.parts.store(0, Ordering::Relaxed);
        self.stream_db.store(0, Ordering::Relaxed);
        *self.history.lock() = None;
        self.position.store(0, Ordering::Relaxed);
    }

    /// The progress.
    pub fn progress(&self) -> LoadProgress {
        LoadProgress {
            began_s: self.began_s.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            loaded_bytes: self.loaded_bytes.load(Ordering::Relaxed),
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            took_us: monotonic_us().saturating_sub(self.began_us.load(Ordering::Relaxed)),
        }
    }

    /// The place of the data in a history, if the file states it.
    pub fn place(&self) -> Option<SnapshotPlace> {
        let id = (*self.history.lock())?;
        let position = self.position.load(Ordering::Relaxed).checked_sub(1)?;
        Some(SnapshotPlace { id, position, db: self.stream_db.load(Ordering::Relaxed) })
    }

    /// Begins to collect expired keys.
    pub fn note_expired(&self) {
        *self.expired.lock() = Some(Expired::default());
    }

    /// Takes the collected expired keys, and ends collecting.
    pub fn take_expired(&self) -> Expired {
        let noted = self.expired.lock().take();
        noted.unwrap_or_default()
    }

    /// Collects an expired key, but only of a file that states its place: otherwise no replica can
    /// go on.
    pub(super) fn has_expired(&self, db: DbIndex, name: &[u8], most_bytes: u64) {
        let mut expired = self.expired.lock();
        if let Some(expired) = &mut *expired
            && self.place().is_some()
        {
            expired.add(db, name, most_bytes);
        }
    }

    /// Sets the place of the data; `None`: it is unknown.
    pub(super) fn set_place(&self, place: Option<SnapshotPlace>) {
        let next = place.and_then(|place| place.position.checked_add(1)).unwrap_or_default();
        *self.history.lock() = place.map(|place| place.id);
        self.position.store(next, Ordering::Relaxed);
        self.stream_db.store(place.map_or(0, |place| place.db), Ordering::Relaxed);
    }

    /// Takes a field that the file states of itself.
    pub(super) fn take_aux(&self, name: &[u8], value: &[u8]) {
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let number = number.unwrap_or_default();
        match name {
            b"used-mem" => self.used_bytes.store(number, Ordering::Relaxed),
            b"repl-stream-db" => {
                let db = u32::try_from(number).unwrap_or_default();
                self.stream_db.store(db, Ordering::Relaxed);
            }
            b"repl-id" => {
                *self.history.lock() = ReplicationId::parse(value);
            }
            b"repl-offset" => {
                // There are fewer bytes than that in the world.
                let next = u64::checked_add(number, 1).unwrap_or_default();
                self.position.store(next, Ordering::Relaxed);
            }
            b"shard-count" => self.parts.store(number, Ordering::Relaxed),
            _ => {}
        }
    }

    /// How many parts the file states that it has; 0: unknown.
    pub(super) fn parts(&self) -> u64 {
        self.parts.load(Ordering::Relaxed)
    }

    /// The database that was selected in the primary's stream.
    pub(super) fn stream_db(&self) -> u32 {
        self.stream_db.load(Ordering::Relaxed)
    }

    /// Counts loaded bytes.
    pub(super) fn add_loaded(&self, bytes: usize) {
        self.loaded_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Sets the number of loaded bytes.
    pub(super) fn set_loaded(&self, bytes: u64) {
        self.loaded_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes what was inserted from a file.
    pub(super) fn set_last(&self, inserted: InsertOutcome) {
        *self.last.lock() = inserted;
    }

    /// What was inserted from the last file.
    pub fn last(&self) -> InsertOutcome {
        *self.last.lock()
    }
}
