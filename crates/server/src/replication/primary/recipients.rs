//! Those who get one full copy, and how.

use std::sync::{Arc, Mutex, PoisonError};

use pantala_base::clock::monotonic_us;
use pantala_keyspace::snapshot::CutInfo;
use pantala_persistence::snapshot::{Facts, Form};
use pantala_rdb::file::{FIRST_OF_VALKEY, OLDEST_WRITTEN};
use pantala_replication::{CopyQueue, Filter, Kind, Phase, Replica, ReplicationId};
use pantala_settings::Settings;

use super::joined::Joined;
use super::{call, close, tell_memory};
use crate::process::files::saving::{Purpose, Readers};
use crate::replication::moment::{Moment, note};
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
        let is_direct = wants_direct && announced.takes_eof;
        let many = announced.connections > 1 && settings.worker_count() > 1;
        let readers = match announced.kind() {
            Kind::Pantala if many && is_direct && announced.filter.is_none() => Readers::InParts,
            Kind::Pantala => Readers::Pantala,
            Kind::Valkey => Readers::Valkey,
            Kind::Redis => Readers::Redis,
        };
        Way { is_direct, filter: announced.filter, readers }
    }
}

/// One of them.
pub struct Recipient {
    /// Who.
    pub replica: Arc<Replica>,
    /// What it is sent first.
    pub queue: Arc<CopyQueue>,
    /// Its connections beside the link.
    pub joined: Joined,
}

impl Recipient {
    /// It gets no copy: its connections are closed, and it may ask again.
    pub fn close(&self, shared: &Shared) {
        if self.replica.phase() != Phase::Gone {
            close(shared, &self.replica);
        }
        self.joined.close(shared);
    }

    /// Bytes that wait for it.
    pub fn bytes(&self) -> usize {
        self.queue.bytes() + self.joined.bytes()
    }
}

/// The replicas that get one full copy together.
pub struct Recipients {
    /// All of them.
    pub list: Vec<Recipient>,
    /// How they get it.
    pub way: Way,
    /// Where it is called off.
    pub save: Save,
    /// The copy itself is on its way.
    has_begun: Mutex<bool>,
}

impl Recipients {
    /// These, in this way.
    pub fn new(replicas: Vec<Arc<Replica>>, way: Way) -> Recipients {
        let recipient =
            |replica| Recipient { replica, queue: Arc::default(), joined: Joined::new() };
        Recipients {
            list: replicas.into_iter().map(recipient).collect(),
            way,
            save: Save::default(),
            has_begun: Mutex::new(false),
        }
    }

    /// Those who are still there.
    pub fn present(&self) -> impl Iterator<Item = &Recipient> {
        self.list.iter().filter(|recipient| recipient.replica.phase() != Phase::Gone)
    }

    /// Whether nobody is.
    pub fn are_gone(&self) -> bool {
        self.present().next().is_none()
    }

    /// Calls the copy off if nobody is: who writes a file does not see that by itself.
    pub fn end_if_gone(&self) {
        if self.are_gone() {
            self.save.cancel();
        }
    }

    /// The version that the head of a copy without a file names: it cannot be mended later.
    pub fn version(&self) -> u16 {
        match self.way.readers {
            Readers::Pantala | Readers::InParts | Readers::Valkey => FIRST_OF_VALKEY,
            Readers::Redis => OLDEST_WRITTEN,
        }
    }

    /// From this position on the stream is kept for them: the moment of the copy comes later.
    pub fn reserve(&self, shared: &Shared) {
        for recipient in self.present() {
            recipient.replica.start_on_word(self.way.is_direct);
            // In this order: what was written meanwhile is kept.
            recipient.replica.set_phase(Phase::Copying);
            recipient.replica.begin_at(shared.replication.stream.end(), monotonic_us());
        }
    }

    /// It did not come to that: they wait on.
    pub fn wait_on(&self) {
        self.present().for_each(|recipient| recipient.replica.set_phase(Phase::Waiting));
    }

    /// The snapshot of a copy for these.
    pub fn purpose<'p>(&self, at_cut: &'p mut dyn FnMut(&CutInfo)) -> Purpose<'p> {
        Purpose { is_base: "0", form: Form::Rdb, readers: self.way.readers, at_cut }
    }

    /// This was the moment of the copy: it says so itself, and they are told.
    ///
    /// # Errors
    /// There is no place in a history to go on from.
    pub fn begin(
        &self,
        shared: &Shared,
        moment: &Moment<'_>,
        facts: &mut Facts,
    ) -> Result<(), String> {
        let place = moment.place()?.ok_or("this server has no data of its primary")?;
        note(facts, place);
        self.begin_at(shared, place.id, place.position);
        Ok(())
    }

    fn begin_at(&self, shared: &Shared, id: ReplicationId, position: u64) {
        for Recipient { replica, queue, .. } in self.present() {
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

    /// Tells those whose file is not there yet, or who are sent parts, that they are not forgotten.
    pub fn keep_alive(&self, shared: &Shared) {
        let has_begun = self.has_begun.lock().unwrap_or_else(PoisonError::into_inner);
        let in_parts = self.way.readers == Readers::InParts;
        if *has_begun || self.way.is_direct && !in_parts {
            return;
        }
        let present = self.present().filter(|one| one.replica.copy().is_some());
        for Recipient { replica, queue, joined } in present {
            queue.put((*b"\n").into());
            call(shared, replica);
            joined.keep_alive(shared);
        }
    }

    /// The copy itself is on its way from now on.
    pub fn has_begun(&self) {
        if !self.way.is_direct {
            self.list.iter().for_each(|recipient| recipient.queue.begin_file());
        }
        *self.has_begun.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Puts the same bytes into all queues.
    pub fn put(&self, shared: &Shared, bytes: &[u8]) {
        let piece: Arc<[u8]> = bytes.into();
        for Recipient { replica, queue, .. } in self.present() {
            queue.put(Arc::clone(&piece));
            call(shared, replica);
        }
        tell_memory(shared);
    }

    /// These bytes are the last of it.
    pub fn finish_with(&self, shared: &Shared, bytes: &[u8]) {
        let piece: Arc<[u8]> = bytes.into();
        for Recipient { replica, queue, .. } in self.present() {
            queue.finish_with(Arc::clone(&piece));
            call(shared, replica);
        }
    }

    /// Who is gone needs none of its connections beside the link, whenever that was.
    pub fn forget_gone(&self, shared: &Shared) {
        let gone = self.list.iter().filter(|one| one.replica.phase() == Phase::Gone);
        gone.for_each(|recipient| recipient.joined.close(shared));
    }

    /// There is no copy: they are closed, and may ask again.
    pub fn break_off(&self, shared: &Shared) {
        self.list.iter().for_each(|recipient| recipient.close(shared));
    }
}
