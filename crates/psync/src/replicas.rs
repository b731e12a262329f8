//! The replicas of this server, and how far each is.
//!
//! A replica is a connection of a worker; here is what other threads need to know of it.
//!
//! Tests: at the foot; one of them is a model.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use crate::copy::CopyQueue;
use crate::id::ReplicationId;
use crate::primitives::{
    AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering,
};
use crate::stream::{ChangeStream, Continuation, ResumeFailure};

/// The phase of a replica's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It introduces itself, and has not requested anything.
    Greeting = 0,
    /// It waits for a snapshot.
    Waiting = 1,
    /// The snapshot is being sent.
    Copying = 2,
    /// It receives the stream.
    Online = 3,
    /// It will be closed, or is.
    Gone = 4,
}

/// What a replica has announced about itself.
#[derive(Clone, Debug, Default)]
pub struct ReplicaAbilities {
    /// `REPLCONF ip-address`: its address, if other than that of the connection.
    pub address: Option<String>,
    /// `REPLCONF listening-port`.
    pub port: u16,
    /// `capa eof`: a snapshot may come without its length.
    pub takes_eof: bool,
    /// `capa psync2`: it understands `+CONTINUE id`.
    pub takes_new_id: bool,
    /// `version`, of Valkey's replicas.
    pub version: Option<String>,
    /// `capa pantala`: it reads formats that only Pantala writes.
    pub takes_own: bool,
    /// `capa parts-<n>`: it takes a full copy over n connections beside its own.
    pub connections: usize,
    /// `capa node-<id>`: its id as a node of a cluster.
    pub node: Option<String>,
    /// It is one of those connections.
    pub is_part: bool,
    /// `rdb-only 1`: it wants a snapshot and nothing after it.
    pub only_copy: bool,
    /// `rdb-filter-only`: which part of the snapshot; `None`: all of it.
    pub filter: Option<Filter>,
}

/// Which commands a replica knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FollowerKind {
    /// Those of Redis 7.0.
    Redis,
    /// Also those of Valkey 9.
    Valkey,
    /// All of Pantala's.
    Pantala,
}

impl ReplicaAbilities {
    /// The kind of the replica. Redis and older Valkeys do not announce it.
    pub fn kind(&self) -> FollowerKind {
        let version = self.version.as_ref();
        let major = version.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
        match major {
            _ if self.takes_own => FollowerKind::Pantala,
            Some(9..) => FollowerKind::Valkey,
            _ => FollowerKind::Redis,
        }
    }
}

/// The parts that `REPLCONF rdb-filter-only` names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Libraries of functions.
    pub functions: bool,
}

/// A connected replica, shared between its worker and other threads.
#[derive(Debug)]
pub struct Replica {
    /// The id of its client.
    pub client: u64,
    /// The address that it connects from, if known.
    pub from: Option<IpAddr>,
    announced: Mutex<ReplicaAbilities>,
    phase: AtomicU8,
    /// The stream is sent from this position on; what is before it is not needed any more.
    position: AtomicU64,
    /// One more than the acknowledged position; 0: nothing was acknowledged.
    acked: AtomicU64,
    synced: AtomicU64,
    heard_us: AtomicU64,
    /// The snapshot that is sent to it.
    copy: Mutex<Option<Arc<CopyQueue>>>,
    /// The stream follows the snapshot only after the replica's first acknowledgement.
    starts_on_word: AtomicBool,
    /// It never acknowledges (SYNC).
    is_silent: AtomicBool,
    /// The log already says what this replica does not get.
    lacks: AtomicBool,
    /// The worker that owns its connection.
    worker: AtomicUsize,
    /// Its worker was told that there is more to send.
    is_called: AtomicBool,
}

impl Replica {
    /// A client that announces itself, at this time (monotonic, microseconds).
    pub fn new(client: u64, from: Option<IpAddr>, now_us: u64) -> Replica {
        Replica {
            client,
            from,
            announced: Mutex::default(),
            phase: AtomicU8::new(Phase::Greeting as u8),
            position: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            heard_us: AtomicU64::new(now_us),
            copy: Mutex::default(),
            starts_on_word: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            lacks: AtomicBool::new(false),
            worker: AtomicUsize::new(0),
            is_called: AtomicBool::new(false),
        }
    }

    /// What it has announced about itself.
    pub fn announced(&self) -> MutexGuard<'_, ReplicaAbilities> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it lacks something; returns whether that is reported for the first time.
    pub fn lacks_something(&self) -> bool {
        !self.lacks.swap(true, Ordering::Relaxed)
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Greeting,
            1 => Phase::Waiting,
            2 => Phase::Copying,
            3 => Phase::Online,
            _ => Phase::Gone,
        }
    }

    /// Sets the phase. A replica that is gone stays gone.
    pub fn set_phase(&self, phase: Phase) {
        let step = |now| (now != Phase::Gone as u8).then_some(phase as u8);
        // A replica that is gone stays gone.
        let _gone = self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
    }

    /// The stream is sent from this position on.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Sets the position from which the stream is sent.
    pub fn set_position(&self, position: u64) {
        debug_assert!(
            self.phase() != Phase::Online || position >= self.position(),
            "a replica that is online is sent the stream onwards"
        );
        self.position.store(position, Ordering::Release);
    }

    /// The snapshot that is sent before the stream, if any.
    pub fn copy(&self) -> Option<Arc<CopyQueue>> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets or clears the snapshot that is sent before the stream.
    pub fn set_copy(&self, copy: Option<Arc<CopyQueue>>) {
        *self.copy.lock().unwrap_or_else(PoisonError::into_inner) = copy;
    }

    /// Sets whether the stream waits until the replica reports that it has the whole snapshot,
    /// which is sent without a length.
    pub fn start_on_word(&self, starts: bool) {
        self.starts_on_word.store(starts, Ordering::Release);
    }

    /// Whether the stream waits until the replica reports that it has the whole snapshot.
    pub fn starts_on_word(&self) -> bool {
        self.starts_on_word.load(Ordering::Acquire)
    }

    /// Marks it as a replica that never acknowledges: it knows only SYNC.
    pub fn is_to_be_silent(&self) {
        self.is_silent.store(true, Ordering::Release);
    }

    /// Whether it never acknowledges.
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Acquire)
    }

    /// Whether its snapshot was sent completely, so that the stream can follow.
    pub fn has_copy(&self) -> bool {
        let is_sent =
            self.phase() == Phase::Copying && self.starts_on_word() && self.copy().is_none();
        is_sent && !self.announced().only_copy
    }

    /// The protocol's name for its phase.
    pub fn state_name(&self) -> &'static str {
        match self.phase() {
            Phase::Online => "online",
            Phase::Copying if self.has_copy() => "online",
            Phase::Copying if self.copy().is_some_and(|copy| copy.is_in_file()) => "send_bulk",
            _ => "wait_bgsave",
        }
    }

    /// Notes a sign of life at this time (monotonic, microseconds).
    pub fn is_heard(&self, now_us: u64) {
        self.heard_us.fetch_max(now_us, Ordering::AcqRel);
    }

    /// Acknowledges everything before `acked`, and everything before `synced` as in its file. A
    /// smaller position than before is ignored.
    pub fn acknowledge(&self, acked: u64, synced: Option<u64>, now_us: u64) {
        self.acked.fetch_max(acked.saturating_add(1), Ordering::AcqRel);
        self.synced.fetch_max(synced.unwrap_or_default(), Ordering::AcqRel);
        self.heard_us.fetch_max(now_us, Ordering::AcqRel);
    }

    /// Starts a full copy of everything before `position`; earlier acknowledgements are of another
    /// history and are dropped. A replica that wants only the copy needs nothing of the stream.
    pub fn begin_at(&self, position: u64, now_us: u64) {
        let only_copy = self.announced().only_copy;
        self.begin_with(if only_copy { u64::MAX } else { position }, 0, now_us);
    }

    /// Continues at `position`: it has everything before.
    pub fn go_on_at(&self, position: u64, now_us: u64) {
        self.begin_with(position, position.saturating_add(1), now_us);
    }

    fn begin_with(&self, position: u64, acked: u64, now_us: u64) {
        // It may be an earlier one than before: another history begins.
        self.position.store(position, Ordering::Release);
        self.acked.store(acked, Ordering::Release);
        self.synced.store(0, Ordering::Release);
        self.heard_us.store(now_us, Ordering::Release);
    }

    /// How many bytes of the stream it still has to be sent, up to `end`.
    pub fn left_bytes(&self, end: u64) -> u64 {
        end.saturating_sub(self.position())
    }

    /// Its acknowledgements and its last sign of life.
    pub fn acknowledged(&self) -> AcknowledgedOffsets {
        let acked = self.acked.load(Ordering::Acquire);
        AcknowledgedOffsets {
            has_spoken: acked > 0,
            position: acked.saturating_sub(1),
            synced: self.synced.load(Ordering::Acquire),
            heard_us: self.heard_us.load(Ordering::Acquire),
        }
    }

    /// The worker that owns its connection.
    pub fn worker(&self) -> usize {
        self.worker.load(Ordering::Acquire)
    }

    /// Sets the worker that owns its connection.
    pub fn set_worker(&self, worker: usize) {
        self.worker.store(worker, Ordering::Release);
    }

    /// Notes that there is more to send; returns whether its worker must still be told.
    pub fn call(&self) -> bool {
        !self.is_called.swap(true, Ordering::AcqRel)
    }

    /// Called by its worker before it looks for more.
    pub fn hear(&self) {
        self.is_called.store(false, Ordering::SeqCst);
    }
}

/// What a replica has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcknowledgedOffsets {
    /// Whether it has acknowledged anything: while it loads its copy it has not.
    pub has_spoken: bool,
    /// Everything before this position.
    pub position: u64,
    /// Everything before this position is on its disk.
    pub synced: u64,
    /// The last sign of life (monotonic, microseconds).
    pub heard_us: u64,
}

impl AcknowledgedOffsets {
    /// Whether it has acknowledged everything before this position. Before its first
    /// acknowledgement it has nothing: not even everything before position 0, where a first copy
    /// may begin.
    pub fn has(&self, position: u64) -> bool {
        self.has_spoken && self.position >= position
    }

    /// Whether it has acknowledged everything before this position as synced to its disk.
    pub fn has_synced(&self, position: u64) -> bool {
        self.has_spoken && self.synced >= position
    }
}

/// All replicas of this server.
#[derive(Debug, Default)]
pub struct Replicas {
    list: Mutex<Vec<Arc<Replica>>>,
    count: AtomicUsize,
}

impl Replicas {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Replica>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is none; never blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a replica, unless it is in the list already.
    pub fn join(&self, replica: &Arc<Replica>) {
        let mut list = self.list();
        if !list.iter().any(|one| Arc::ptr_eq(one, replica)) {
            list.push(Arc::clone(replica));
        }
        self.count.store(list.len(), Ordering::Relaxed);
    }

    /// Lets a replica that has everything before `position` of the history `id` continue there, if
    /// the stream can. Otherwise it is added, too, and waits for a copy.
    ///
    /// # Errors
    /// Why it cannot continue.
    pub fn go_on(
        &self,
        replica: &Arc<Replica>,
        stream: &ChangeStream,
        id: ReplicationId,
        position: u64,
        now_us: u64,
    ) -> Result<Continuation, ResumeFailure> {
        // Before the check: what it needs is kept from now on. It does not count for WAIT yet,
        // since its data may be of another history.
        replica.begin_at(position, now_us);
        replica.set_phase(Phase::Copying);
        self.join(replica);
        let continuation = stream.go_on(id, position)?;
        debug_assert_eq!(continuation.position, position, "it goes on where it is");
        replica.go_on_at(position, now_us);
        replica.set_phase(Phase::Online);
        Ok(continuation)
    }

    /// Removes a replica.
    pub fn leave(&self, replica: &Arc<Replica>) {
        replica.set_phase(Phase::Gone);
        if let Some(copy) = replica.copy() {
            copy.break_off();
        }
        let mut list = self.list();
        list.retain(|one| !Arc::ptr_eq(one, replica));
        self.count.store(list.len(), Ordering::Relaxed);
    }

    /// All replicas, in the order in which they joined.
    pub fn all(&self) -> Vec<Arc<Replica>> {
        self.list().clone()
    }

    /// The smallest position that some replica still has to be sent.
    pub fn needed(&self) -> Option<u64> {
        let list = self.list();
        let follow = |one: &&Arc<Replica>| matches!(one.phase(), Phase::Copying | Phase::Online);
        list.iter().filter(follow).map(|one| one.position()).min()
    }

    /// How many have acknowledged everything before this position, or have it on their disks.
    pub fn count_acknowledged(&self, position: u64, on_disk: bool) -> usize {
        let list = self.list();
        let has = |one: &&Arc<Replica>| {
            let said = one.acknowledged();
            let has_it = if on_disk { said.has_synced(position) } else { said.has(position) };
            one.phase() == Phase::Online && has_it
        };
        list.iter().filter(has).count()
    }

    /// How many are online, have acknowledged something, and gave a sign of life since this time
    /// (monotonic, microseconds).
    pub fn count_heard_since(&self, since_us: u64) -> usize {
        let list = self.list();
        let is_good = |one: &&Arc<Replica>| {
            let said = one.acknowledged();
            one.phase() == Phase::Online && said.has_spoken && said.heard_us >= since_us
        };
        list.iter().filter(is_good).count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn replica(client: u64, phase: Phase, position: u64) -> Arc<Replica> {
        let replica = Arc::new(Replica::new(client, None, 0));
        replica.go_on_at(position, 0);
        replica.set_phase(phase);
        replica
    }

    #[test]
    fn those_who_follow_count_with_what_they_have_said() {
        let replicas = Replicas::default();
        assert!(replicas.is_empty());
        let (one, two) = (replica(1, Phase::Online, 100), replica(2, Phase::Copying, 70));
        replicas.join(&one);
        replicas.join(&two);
        replicas.join(&two);
        assert_eq!(replicas.all().len(), 2);
        assert_eq!(replicas.needed(), Some(70));
        assert_eq!(replicas.count_acknowledged(100, false), 1);
        two.set_phase(Phase::Online);
        two.acknowledge(150, Some(120), 9);
        two.acknowledge(90, None, 8);
        assert_eq!(replicas.count_acknowledged(100, false), 2);
        assert_eq!(replicas.count_acknowledged(150, false), 1);
        assert_eq!(replicas.count_acknowledged(120, true), 1);
        assert_eq!(replicas.count_heard_since(9), 1);
        replicas.leave(&two);
        assert_eq!((replicas.needed(), replicas.all().len()), (Some(100), 1));
    }

    #[test]
    fn who_loads_its_copy_has_nothing_until_it_says_so() {
        let (replicas, one) = (Replicas::default(), replica(1, Phase::Online, 100));
        replicas.join(&one);
        assert!(one.acknowledged().has(100) && !one.acknowledged().has(101));
        for position in [0, 100] {
            one.begin_at(position, 9);
            // It is busy.
            one.is_heard(10);
            assert!(!one.acknowledged().has(0) && !one.acknowledged().has_synced(0));
            assert_eq!((one.position(), one.acknowledged().position), (position, 0));
            let counts = |on_disk| replicas.count_acknowledged(0, on_disk);
            assert_eq!((counts(false), counts(true), replicas.count_heard_since(10)), (0, 0, 0));
            one.acknowledge(position, None, 10);
            let counts = |on_disk| replicas.count_acknowledged(0, on_disk);
            assert_eq!((counts(false), counts(true), replicas.count_heard_since(10)), (1, 1, 1));
            assert_eq!(replicas.count_acknowledged(position + 1, false), 0);
        }
    }

    #[test]
    fn for_who_wants_only_a_copy_nothing_is_kept() {
        let (replicas, one) = (Replicas::default(), replica(1, Phase::Copying, 0));
        one.announced().only_copy = true;
        replicas.join(&one);
        one.begin_at(100, 0);
        assert_eq!((one.left_bytes(1_000_000), replicas.needed()), (0, Some(u64::MAX)));
        assert!(!one.acknowledged().has(100));
    }

    #[test]
    fn who_goes_on_has_what_it_says_and_who_cannot_has_nothing() {
        let (replicas, stream) = (Replicas::default(), ChangeStream::default());
        stream.begin_to_keep();
        let (id, one) = (stream.history().id, Arc::new(Replica::new(1, None, 0)));
        let other = ReplicationId::random();
        assert_eq!(replicas.go_on(&one, &stream, other, 0, 5), Err(ResumeFailure::OtherHistory));
        assert_eq!((one.phase(), one.acknowledged().has(0)), (Phase::Copying, false));
        assert!(replicas.go_on(&one, &stream, id, 0, 5).is_ok());
        assert_eq!((one.phase(), one.acknowledged().has(0)), (Phase::Online, true));
        assert_eq!((replicas.all().len(), replicas.count_heard_since(5)), (1, 1));
    }

    #[test]
    fn who_has_gone_stays_gone_and_takes_nothing_more() {
        let (replicas, one) = (Replicas::default(), replica(1, Phase::Copying, 5));
        let copy = Arc::new(CopyQueue::default());
        one.set_copy(Some(Arc::clone(&copy)));
        replicas.join(&one);
        replicas.leave(&one);
        one.set_phase(Phase::Online);
        assert_eq!(one.phase(), Phase::Gone);
        assert!(copy.is_over() && replicas.is_empty());
    }

    #[test]
    fn a_copy_is_sent_once_its_file_is_there() {
        let (one, copy) = (replica(1, Phase::Copying, 5), Arc::new(CopyQueue::default()));
        one.set_copy(Some(Arc::clone(&copy)));
        assert_eq!(one.state_name(), "wait_bgsave");
        copy.begin_file();
        assert_eq!(one.state_name(), "send_bulk");
        one.set_phase(Phase::Online);
        assert_eq!(one.state_name(), "online");
    }

    #[test]
    fn a_worker_is_called_once_for_what_it_has_not_looked_at() {
        let one = replica(1, Phase::Online, 0);
        assert!(one.call() && !one.call());
        one.hear();
        assert!(one.call());
    }
}

/// A replica asks to continue while another worker counts acknowledgements.
#[cfg(all(test, loom))]
mod models {
    use super::*;

    #[test]
    fn who_has_another_history_is_never_counted() {
        loom::model(|| {
            let replicas = loom::sync::Arc::new(Replicas::default());
            let counted = loom::sync::Arc::clone(&replicas);
            let asking = loom::thread::spawn(move || {
                let (stream, one) = (ChangeStream::default(), Arc::new(Replica::new(1, None, 0)));
                let other = ReplicationId::random();
                assert!(replicas.go_on(&one, &stream, other, 7, 1).is_err());
            });
            assert_eq!(counted.count_acknowledged(7, false), 0);
            assert_eq!(counted.count_heard_since(0), 0);
            asking.join().expect("no panic");
        });
    }
}
