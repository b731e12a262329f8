//! The recipients: the replicas that get one full copy, and how they get it.

use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_persistence::snapshot::Form;
use pantala_psync::{CopyQueue, Filter, FollowerKind, Phase, Replica, ReplicationId};
use pantala_rdb::file::{FIRST_OF_VALKEY, OLDEST_WRITTEN};
use pantala_settings::Settings;
use parking_lot::Mutex;

use super::joined::JoinedParts;
use super::{call, close, tell_memory};
use crate::Replication;
use pantala_durability::saves::Save;
use pantala_durability::saving::SaveFailure;
use pantala_durability::snapshots::cut::{Purpose, Readers};
use pantala_durability::snapshots::moment::Moment;
use pantala_durability::snapshots::place::SnapshotPlace;

/// How a replica gets its copy: replicas with the same way can get one together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyMode {
    /// It is sent as it is made; otherwise from a file, once that is complete.
    pub is_direct: bool,
    /// Which part of the data; `None`: everything.
    pub filter: Option<Filter>,
    /// Which servers are to read it.
    pub readers: Readers,
}

impl CopyMode {
    /// The way of a replica.
    pub fn of(settings: &Settings, replica: &Replica) -> CopyMode {
        let announced = replica.announced();
        let wants_direct = settings.repl_diskless_sync || announced.filter.is_some();
        let is_direct = wants_direct && announced.takes_eof;
        let many = announced.connections > 1 && settings.worker_count() > 1;
        let readers = match announced.kind() {
            FollowerKind::Pantala if many && is_direct && announced.filter.is_none() => {
                Readers::InParts
            }
            FollowerKind::Pantala => Readers::Pantala,
            FollowerKind::Valkey => Readers::Valkey,
            FollowerKind::Redis => Readers::Redis,
        };
        CopyMode { is_direct, filter: announced.filter, readers }
    }
}

/// One recipient.
pub struct Recipient {
    /// The replica.
    pub replica: Arc<Replica>,
    /// The bytes of the copy, before those of the stream.
    pub queue: Arc<CopyQueue>,
    /// Its connections beside the link, for parts.
    pub joined: JoinedParts,
}

impl Recipient {
    /// Closes its connections: it gets no copy, and may ask again.
    pub fn close(&self, replication: &Replication) {
        if self.replica.phase() != Phase::Gone {
            close(replication, &self.replica);
        }
        self.joined.close(replication);
    }

    /// The bytes that wait to be sent to it.
    pub fn bytes(&self) -> usize {
        self.queue.bytes() + self.joined.bytes()
    }
}

/// The replicas that get one full copy together.
pub struct Recipients {
    /// All recipients.
    pub list: Vec<Recipient>,
    /// How they get the copy.
    pub way: CopyMode,
    /// The snapshot, by which the copy is cancelled.
    pub save: Arc<Save>,
    /// The sending of the copy itself has begun.
    has_begun: Mutex<bool>,
}

impl Recipients {
    /// These replicas, in this way.
    pub fn new(replicas: Vec<Arc<Replica>>, way: CopyMode) -> Recipients {
        debug_assert!(!replicas.is_empty(), "a copy is for somebody");
        let recipient =
            |replica| Recipient { replica, queue: Arc::default(), joined: JoinedParts::new() };
        Recipients {
            list: replicas.into_iter().map(recipient).collect(),
            way,
            save: Arc::default(),
            has_begun: Mutex::new(false),
        }
    }

    /// The recipients that are still connected.
    pub fn present(&self) -> impl Iterator<Item = &Recipient> {
        self.list.iter().filter(|recipient| recipient.replica.phase() != Phase::Gone)
    }

    /// Whether none is.
    pub fn are_gone(&self) -> bool {
        self.present().next().is_none()
    }

    /// Cancels the copy if none is: the code that writes a file would not notice that.
    pub fn end_if_gone(&self) {
        if self.are_gone() {
            self.save.cancel();
        }
    }

    /// The RDB version in the header of a copy without a file: it cannot be changed later.
    pub fn version(&self) -> u16 {
        match self.way.readers {
            Readers::Pantala | Readers::InParts | Readers::Valkey => FIRST_OF_VALKEY,
            Readers::Redis => OLDEST_WRITTEN,
        }
    }

    /// Keeps the stream for them from its present position on: the moment of the copy comes later.
    pub fn reserve(&self, replication: &Replication) {
        for recipient in self.present() {
            debug_assert_ne!(recipient.replica.phase(), Phase::Online, "it waits for a copy");
            recipient.replica.start_on_word(self.way.is_direct);
            // In this order, so that what is written meanwhile is kept.
            recipient.replica.set_phase(Phase::Copying);
            recipient.replica.begin_at(replication.downstream.stream.end(), monotonic_us());
        }
    }

    /// Puts them back into the queue: no copy was begun.
    pub fn wait_on(&self) {
        self.present().for_each(|recipient| recipient.replica.set_phase(Phase::Waiting));
    }

    /// The purpose of the snapshot.
    pub fn purpose<'d>(&self, moment: Moment<'d>) -> Purpose<'d> {
        Purpose { is_base: "0", form: Form::Rdb, readers: self.way.readers, moment }
    }

    /// Tells the replicas the place of the copy.
    ///
    /// # Errors
    /// There is no place in a history to go on from.
    pub fn begin(
        &self,
        replication: &Replication,
        place: Option<SnapshotPlace>,
    ) -> Result<(), SaveFailure> {
        let lacks = || SaveFailure::Failed("this server has no data of its primary".into());
        let SnapshotPlace { id, position, .. } = place.ok_or_else(lacks)?;
        self.begin_at(replication, id, position);
        Ok(())
    }

    fn begin_at(&self, replication: &Replication, id: ReplicationId, position: u64) {
        for Recipient { replica, queue, .. } in self.present() {
            debug_assert!(
                matches!(replica.phase(), Phase::Copying | Phase::Gone),
                "phases follow each other"
            );
            replica.begin_at(position, monotonic_us());
            if !replica.is_silent() {
                queue.put(format!("+FULLRESYNC {id} {position}\r\n").into_bytes().into());
            }
            replica.set_copy(Some(Arc::clone(queue)));
            if replica.phase() == Phase::Gone {
                // It has left at this moment, and did not know the queue yet.
                queue.break_off();
            }
            call(replication, replica);
        }
    }

    /// Sends signs of life to those whose file is not complete yet, or that are sent parts.
    pub fn keep_alive(&self, replication: &Replication) {
        let has_begun = self.has_begun.lock();
        let in_parts = self.way.readers == Readers::InParts;
        if *has_begun || self.way.is_direct && !in_parts {
            return;
        }
        let present = self.present().filter(|one| one.replica.copy().is_some());
        for Recipient { replica, queue, joined } in present {
            queue.put((*b"\n").into());
            call(replication, replica);
            joined.keep_alive(replication);
        }
    }

    /// Notes that the sending of the copy itself has begun.
    pub fn has_begun(&self) {
        if !self.way.is_direct {
            self.list.iter().for_each(|recipient| recipient.queue.begin_file());
        }
        *self.has_begun.lock() = true;
    }

    /// Adds the same bytes to all queues.
    pub fn put(&self, replication: &Replication, bytes: &[u8]) {
        let piece: Arc<[u8]> = bytes.into();
        for Recipient { replica, queue, .. } in self.present() {
            queue.put(Arc::clone(&piece));
            call(replication, replica);
        }
        tell_memory(replication);
    }

    /// Adds the last bytes of the copy.
    pub fn finish_with(&self, replication: &Replication, bytes: &[u8]) {
        let piece: Arc<[u8]> = bytes.into();
        for Recipient { replica, queue, .. } in self.present() {
            queue.finish_with(Arc::clone(&piece));
            call(replication, replica);
        }
    }

    /// Closes the extra connections of replicas that have gone, whenever that was.
    pub fn forget_gone(&self, replication: &Replication) {
        let gone = self.list.iter().filter(|one| one.replica.phase() == Phase::Gone);
        gone.for_each(|recipient| recipient.joined.close(replication));
    }

    /// Closes all recipients: there is no copy, and they may ask again.
    pub fn break_off(&self, replication: &Replication) {
        self.list.iter().for_each(|recipient| recipient.close(replication));
    }
}
