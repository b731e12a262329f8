//! Those who get one full copy, and how.

use std::sync::{Arc, Mutex, PoisonError};

use pantala_base::clock::monotonic_us;
use pantala_rdb::file::{FIRST_OF_VALKEY, OLDEST_WRITTEN};
use pantala_replication::{CopyQueue, Filter, Phase, Replica, ReplicationId};
use pantala_settings::Settings;

use super::{call, close, tell_memory};
use crate::process::saving::Readers;
use crate::saves::Save;
use crate::shared::Shared;

/// How a replica gets its copy: those who get it the same way can get it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// As it is made; else from a file, when that is whole.
    pub is_direct: bool,
    /// What of it; `None`: everything.
    pub filter: Option<Filter>,
    /// What they read.
    pub readers: Readers,
}

impl Way {
    /// That of a replica.
    pub fn of(settings: &Settings, replica: &Replica) -> Way {
        let announced = replica.announced();
        let wants_direct = settings.repl_diskless_sync || announced.filter.is_some();
        let version = announced.version.as_ref();
        let major = version.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
        let readers = match major {
            _ if announced.takes_own => Readers::Pantala,
            Some(9..) => Readers::Valkey,
            _ => Readers::Redis,
        };
        let is_direct = wants_direct && announced.takes_eof;
        Way { is_direct, filter: announced.filter, readers }
    }
}

/// One of them.
pub struct Rider {
    /// Who.
    pub replica: Arc<Replica>,
    /// What it is sent first.
    pub queue: Arc<CopyQueue>,
}

/// See the module.
pub struct Riders {
    /// All of them.
    pub list: Vec<Rider>,
    /// How they get it.
    pub way: Way,
    /// Where it is called off.
    pub save: Save,
    /// The copy itself is on its way.
    has_begun: Mutex<bool>,
}

impl Riders {
    /// These, in this way.
    pub fn new(replicas: Vec<Arc<Replica>>, way: Way) -> Riders {
        let rider = |replica| Rider { replica, queue: Arc::default() };
        Riders {
            list: replicas.into_iter().map(rider).collect(),
            way,
            save: Save::default(),
            has_begun: Mutex::new(false),
        }
    }

    /// Those who are still there.
    pub fn present(&self) -> impl Iterator<Item = &Rider> {
        self.list.iter().filter(|rider| rider.replica.phase() != Phase::Gone)
    }

    /// Whether nobody is.
    pub fn are_gone(&self) -> bool {
        self.present().next().is_none()
    }

    /// The version that the head of a copy without a file names: it cannot be mended later.
    pub fn version(&self) -> u16 {
        match self.way.readers {
            Readers::Pantala | Readers::Valkey => FIRST_OF_VALKEY,
            Readers::Redis => OLDEST_WRITTEN,
        }
    }

    /// From this position on the stream is kept for them: the moment of the copy comes later.
    pub fn reserve(&self, shared: &Shared) {
        for rider in self.present() {
            rider.replica.start_on_word(self.way.is_direct);
            // In this order: what was written meanwhile is kept.
            rider.replica.set_phase(Phase::Copying);
            rider.replica.begin_at(shared.replication.stream.end(), monotonic_us());
        }
    }

    /// It did not come to that: they wait on.
    pub fn wait_on(&self) {
        self.present().for_each(|rider| rider.replica.set_phase(Phase::Waiting));
    }

    /// The moment of the copy was here, in this history.
    pub fn begin(&self, shared: &Shared, id: ReplicationId, position: u64) {
        for Rider { replica, queue } in self.present() {
            replica.begin_at(position, monotonic_us());
            if !replica.is_silent() {
                queue.put(format!("+FULLRESYNC {id} {position}\r\n").into_bytes().into());
            }
            replica.set_copy(Some(Arc::clone(queue)));
            if replica.phase() == Phase::Gone {
                // It has left in this moment, and knew no queue that it could break.
                queue.break_off();
            }
            call(shared, replica);
        }
    }

    /// Tells those whose file is not there yet that they are not forgotten.
    pub fn keep_alive(&self, shared: &Shared) {
        let has_begun = self.has_begun.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_begun || self.way.is_direct {
            return;
        }
        for Rider { replica, queue } in self.present().filter(|one| one.replica.copy().is_some()) {
            queue.put((*b"\n").into());
            call(shared, replica);
        }
    }

    /// The copy itself is on its way from now on.
    pub fn has_begun(&self) {
        *self.has_begun.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Puts the same bytes into all queues.
    pub fn put(&self, shared: &Shared, bytes: &[u8]) {
        let piece: Arc<[u8]> = bytes.into();
        for Rider { replica, queue } in self.present() {
            queue.put(Arc::clone(&piece));
            call(shared, replica);
        }
        tell_memory(shared);
    }

    /// These bytes are the last of it.
    pub fn finish_with(&self, shared: &Shared, bytes: &[u8]) {
        let piece: Arc<[u8]> = bytes.into();
        for Rider { replica, queue } in self.present() {
            queue.finish_with(Arc::clone(&piece));
            call(shared, replica);
        }
    }

    /// There is no copy: they are closed, and may ask again.
    pub fn break_off(&self, shared: &Shared) {
        self.present().for_each(|rider| close(shared, &rider.replica));
    }
}
