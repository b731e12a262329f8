//! How far loading is, for INFO, and what the file says of itself.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pantala_base::clock::monotonic_us;
use pantala_keyspace::DbIndex;
use pantala_persistence::loading::Inserted;
use pantala_replication::ReplicationId;

use crate::process::files::saving::now_s;
use crate::replication::moment::Place;

/// What INFO tells of loading.
#[derive(Default)]
pub struct LoadState {
    began_us: AtomicU64,
    began_s: AtomicU64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    used_bytes: AtomicU64,
    /// Of how many parts one of Dragonfly's says it is.
    parts: AtomicU64,
    /// The database that the primary's stream had selected.
    stream_db: AtomicU32,
    /// Whose history the data is, if the file says it.
    history: Mutex<Option<ReplicationId>>,
    /// The position in it, plus one.
    position: AtomicU64,
    last: Mutex<Inserted>,
    /// Keys that were left out, while somebody wants to tell replicas of them.
    expired: Mutex<Option<Expired>>,
}

/// Keys that a file has and that have expired.
#[derive(Default)]
pub struct Expired {
    /// Their names.
    pub keys: Vec<(DbIndex, Box<[u8]>)>,
    /// Bytes of these names.
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

/// How far loading is.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// When it began (Unix, seconds).
    pub began_s: u64,
    /// Bytes of the file.
    pub total_bytes: u64,
    /// So many of them have been loaded.
    pub loaded_bytes: u64,
    /// The memory that the server which wrote the file had used, if it says so.
    pub used_bytes: u64,
    /// How long it has taken, in microseconds.
    pub took_us: u64,
}

impl LoadState {
    /// Files of so many bytes are loaded from now on.
    pub(super) fn begin(&self, total_bytes: u64) {
        self.began_us.store(monotonic_us(), Ordering::Relaxed);
        self.began_s.store(now_s().unsigned_abs(), Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(0, Ordering::Relaxed);
        self.used_bytes.store(0, Ordering::Relaxed);
        self.parts.store(0, Ordering::Relaxed);
        self.stream_db.store(0, Ordering::Relaxed);
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.position.store(0, Ordering::Relaxed);
    }

    /// How far it is.
    pub fn progress(&self) -> LoadProgress {
        LoadProgress {
            began_s: self.began_s.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            loaded_bytes: self.loaded_bytes.load(Ordering::Relaxed),
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            took_us: monotonic_us().saturating_sub(self.began_us.load(Ordering::Relaxed)),
        }
    }

    /// Where in which history the data is, if the file says it.
    pub fn place(&self) -> Option<Place> {
        let id = (*self.history.lock().unwrap_or_else(PoisonError::into_inner))?;
        let position = self.position.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Place { id, position, db: self.stream_db.load(Ordering::Relaxed) })
    }

    /// From now on keys that have expired are noted.
    pub fn note_expired(&self) {
        *self.expired.lock().unwrap_or_else(PoisonError::into_inner) = Some(Expired::default());
    }

    /// Those that were noted since; none are from now on.
    pub fn take_expired(&self) -> Expired {
        let noted = self.expired.lock().unwrap_or_else(PoisonError::into_inner).take();
        noted.unwrap_or_default()
    }

    /// Only of a file that says its place: nobody else has followed.
    pub(super) fn has_expired(&self, db: DbIndex, name: &[u8], most_bytes: u64) {
        let mut expired = self.expired.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(expired) = &mut *expired
            && self.place().is_some()
        {
            expired.add(db, name, most_bytes);
        }
    }

    /// The data is there, or nobody knows where it is.
    pub(super) fn set_place(&self, place: Option<Place>) {
        let next = place.and_then(|place| place.position.checked_add(1)).unwrap_or_default();
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = place.map(|place| place.id);
        self.position.store(next, Ordering::Relaxed);
        self.stream_db.store(place.map_or(0, |place| place.db), Ordering::Relaxed);
    }

    /// What the file says of itself and of its place.
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
                *self.history.lock().unwrap_or_else(PoisonError::into_inner) =
                    ReplicationId::parse(value);
            }
            b"repl-offset" => {
                // Less than there are bytes in the world.
                let next = u64::checked_add(number, 1).unwrap_or_default();
                self.position.store(next, Ordering::Relaxed);
            }
            b"shard-count" => self.parts.store(number, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Of how many parts the file says it is, or 0.
    pub(super) fn parts(&self) -> u64 {
        self.parts.load(Ordering::Relaxed)
    }

    /// The database that the primary's stream had selected.
    pub(super) fn stream_db(&self) -> u32 {
        self.stream_db.load(Ordering::Relaxed)
    }

    /// So many bytes more have been loaded.
    pub(super) fn add_loaded(&self, bytes: usize) {
        self.loaded_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So many bytes have been loaded.
    pub(super) fn set_loaded(&self, bytes: u64) {
        self.loaded_bytes.store(bytes, Ordering::Relaxed);
    }

    /// A file has been loaded, with this.
    pub(super) fn set_last(&self, inserted: Inserted) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = inserted;
    }

    /// What became of the last file.
    pub fn last(&self) -> Inserted {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
