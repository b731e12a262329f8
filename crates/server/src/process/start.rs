//! Starting the server, changing the number of its workers, and waiting for its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use pantala_base::hash::HashSeed;
use pantala_base::os::SignalStack;
use pantala_base::size::human;
use pantala_commands::Registry;
use pantala_keyspace::HideReason;
use pantala_persistence::aof::Manifest;
use pantala_persistence::disk::RealDisk;
use pantala_reactor::{EngineChoice, Reactor, ReactorConfig};
use pantala_settings::Settings;
use pantala_settings::field::IoEngine;

use crate::shared::{Launch, Shared};
use pantala_engine::condition::states::States;
use pantala_engine::lane;
use pantala_operator::acl;
use pantala_replication::{primary, replica};
use pantala_workers::worker::WorkerThread;
use pantala_workers::workers::MAX_WORKERS;
use pantala_workers::workers::inbox::Inbox;

use super::background::{self, renewing, schedule};
use super::signals;
use super::system::oom_score::OomScore;
use super::system::supervision::{Supervisor, SupervisorNotice};
use super::system::{confinement, limits, oom_score, pidfile, supervision};
use pantala_durability::loading::{self, AnswersLoading};
use pantala_durability::{journaling, place};
use pantala_operator::diagnosis::host;
use pantala_workers::listening;
use pantala_workers::listening::Listening;

/// Receive buffers of a worker: all of them are touched in time, so they count as resident memory.
const RECEIVE_BUFFERS: usize = 128;
/// The size of a receive buffer.
const RECEIVE_BUFFER_BYTES: usize = 8 << 10;

/// A server that runs in this process.
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    sweeper_waker: Arc<pantala_keyspace::ThreadWaker>,
    /// The data it starts with, until that is loaded. What is wrong with it is told by
    /// [`Running::load`], once the ports are open, as Redis does.
    to_load: Result<Option<ToLoad>, String>,
}

/// The data that the server starts with.
enum ToLoad {
    /// A snapshot.
    Snapshot(PathBuf),
    /// An append-only file; `None`: begin a new one.
    Steps(Option<Manifest>),
}

impl ToLoad {
    /// What these settings mean. A new append-only file begins with the data of the snapshot, if
    /// there is one.
    fn find(settings: &Settings) -> Result<Option<ToLoad>, String> {
        let snapshot = || Ok::<_, String>(loading::find_first(settings)?.map(ToLoad::Snapshot));
        if !settings.appendonly {
            return snapshot();
        }
        let layout = journaling::layout(settings);
        if layout.take_in_old(&RealDisk).map_err(|error| error.to_string())? {
            let (old, directory) = (&settings.appendfilename, &settings.appenddirname);
            tracing::info!(
                "Successfully migrated an old-style AOF configuration ({old}) into the AOF \
                 directory ({directory})."
            );
        }
        match layout.open(&RealDisk).map_err(|error| error.to_string())? {
            None => Ok(Some(snapshot()?.unwrap_or(ToLoad::Steps(None)))),
            Some(_) if loading::is_named(settings) => Err(format!(
                "--load {} does not go with --appendonly yes while {} has data, with which the \
                 server would begin: move it away, or load the snapshot with --appendonly no",
                settings.load,
                layout.directory().display()
            )),
            found => Ok(Some(ToLoad::Steps(found))),
        }
    }
}

/// Starts the server.
///
/// # Errors
/// A text for the operator.
pub fn start(settings: Settings, file: Option<std::path::PathBuf>) -> Result<Running, String> {
    start_with(settings, file, crate::commands::registry())
}

/// Like [`start`], with a command table of the caller's: with other names, or more commands.
///
/// # Errors
/// A text for the operator.
pub fn start_with(
    settings: Settings,
    file: Option<std::path::PathBuf>,
    registry: Registry,
) -> Result<Running, String> {
    let settings = limits::fit_clients(settings)?;
    limits::warn_of_backlog(&settings);
    host::warn(&settings);
    place::remove_leftovers(&settings);
    let to_load = ToLoad::find(&settings);
    let (listening, listeners) = Listening::open(&settings)?;
    pidfile::write(&settings);
    let (supervisor, seed) = (Supervisor::find(&settings), seed_of(&settings));
    let oom_score = OomScore::of_process();
    confinement::begin(&settings, file.as_deref())?;
    let workers = settings.worker_count().clamp(1, MAX_WORKERS);
    let lane_threads = settings.slow_lane_threads.clamp(1, lane::LANE_SLOTS);
    let parts = (settings, file, registry);
    let shared = share(parts, seed, supervisor, oom_score);
    *shared.context.listening.lock() = listening;
    limits::keep_reserve(&shared.workers.room, &shared.engine.settings.current());
    primary::settings_changed(&shared.replication);
    let settings = shared.engine.settings.current();
    shared.engine.acl.change(|users| acl::at_start(users, &settings))?;
    prepare_ports(&shared)?;
    if matches!(to_load, Ok(Some(ToLoad::Steps(_)))) {
        // Before any change: keys may expire as soon as everything is loaded.
        shared.engine.journal.turn(true);
    }
    prepare_states(&shared, !matches!(to_load, Ok(None)));
    let mut threads = Vec::new();
    let (to_reclaimer, garbage) = background::reclaimer();
    shared.engine.space.set_reclaimer(Box::new(to_reclaimer));
    // Detached: it ends with the process, or when the keyspace is dropped.
    spawn("reclaim", move || background::reclaim(&garbage))?;
    let (waker_sender, waker) = channel();
    let of_sweeper = Arc::clone(&shared);
    threads.push(spawn("sweep", move || {
        background::sweep(&of_sweeper, |waker| {
            // The receiver waits below.
            let _ = waker_sender.send(waker);
        });
    })?);
    let sweeper_waker = waker.recv().map_err(|_| "the sweeping thread did not start")?;
    let of_defragmentation = Arc::clone(&shared);
    threads.push(spawn("defrag", move || renewing::defragment(&of_defragmentation))?);
    let of_schedule = Arc::clone(&shared);
    threads.push(spawn("schedule", move || schedule::keep(&of_schedule))?);
    shared.engine.lane.open(lane_threads);
    let of_lane = Arc::downgrade(&shared);
    shared.engine.lane.set_thread_starter(Box::new(move |slot| {
        of_lane.upgrade().is_some_and(|shared| open_lane_thread(&shared, slot))
    }));
    for slot in 0..lane_threads {
        let shared = Arc::clone(&shared);
        threads.push(spawn("lane", move || lane::run(&*shared, slot))?);
    }
    let of_operators = Arc::clone(&shared);
    threads.push(spawn("lane-op", move || lane::run_operators(&*of_operators))?);
    let mut listeners = Some(listeners);
    for index in 0..workers {
        threads.push(open_worker(&shared, index, listeners.take().unwrap_or_default())?);
    }
    if let Some(every) = shared.supervisor.sign_of_life_every() {
        let shared = Arc::clone(&shared);
        let life = move || supervision::give_signs_of_life(&shared, every);
        threads.push(spawn("sign-of-life", life)?);
    }
    Ok(Running { shared, threads, sweeper_waker, to_load })
}

/// What the threads will share.
fn share(
    (settings, file, registry): (Settings, Option<PathBuf>, Registry),
    seed: HashSeed,
    supervisor: Supervisor,
    oom_score: OomScore,
) -> Arc<Shared> {
    let change_sink = None;
    Shared::new(Launch { settings, file, seed, registry, change_sink, supervisor, oom_score })
}

/// The seed of key hashes: random, unless `hash-seed` is set.
fn seed_of(settings: &Settings) -> HashSeed {
    match settings.hash_seed.as_str() {
        "" => HashSeed::random(),
        text => HashSeed::from_text(text),
    }
}

/// Sets the states that hold before there are clients.
fn prepare_states(shared: &Shared, is_loading: bool) {
    if is_loading {
        shared.engine.condition.lasting.begin(States::LOADING);
    }
    replica::prepare(&shared.replication);
    oom_score::warn_of_values(&shared.engine.settings.current());
    // The log says why, if the kernel has refused it.
    let _refused = shared
        .oom_score
        .apply(|| (shared.engine.settings.current(), shared.replication.is_replica()));
}

/// Prepares what connections beyond plain RESP need: the slots of a cluster, certificates, and the
/// HTTP service.
fn prepare_ports(shared: &Arc<Shared>) -> Result<(), String> {
    pantala_operator::cluster::begin(&shared.operator)?;
    shared.context.read_certificates()?;
    shared.http.begin(shared)
}

impl Running {
    /// The state that the threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Loads the data that the server starts with; clients are answered -LOADING until then.
    ///
    /// # Errors
    /// A text for the operator: the server must not go on, as its data would be only a part of the
    /// file's.
    pub fn load(&mut self) -> Result<(), String> {
        if let Some(to_load) = std::mem::replace(&mut self.to_load, Ok(None))? {
            self.load_first(to_load)?;
        }
        match self.shared.engine.condition.shutdown.is_final() {
            true => Ok(()),
            false => {
                replica::begin(&self.shared.replication)?;
                pantala_operator::cluster::take_part(&self.shared.operator)
            }
        }
    }

    fn load_first(&self, to_load: ToLoad) -> Result<(), String> {
        self.shared.supervisor.tell(SupervisorNotice::Loading);
        let loading = AnswersLoading::begin(&self.shared.durability);
        let loaded = self.load_from(to_load);
        if loaded.is_err() {
            // The partial data must not become visible.
            std::mem::forget(loading);
        }
        if self.shared.engine.condition.shutdown.is_final() { Ok(()) } else { loaded }
    }

    fn load_from(&self, to_load: ToLoad) -> Result<(), String> {
        let shared = &self.shared;
        let settings = shared.engine.settings.current();
        let fatal = |why| {
            format!(
                "Fatal error loading the DB: {why}. Terminating server after rdb file reading \
                 failure."
            )
        };
        match to_load {
            ToLoad::Snapshot(path) => {
                if !settings.appendonly {
                    let place = place::of(&settings)?;
                    let load = || loading::load_at(&shared.durability, &*place.disk, &path, false);
                    return load_with_history(shared, load).map_err(fatal);
                }
                loading::load(&shared.durability, &path, false).map_err(fatal)?;
                // Before any client writes: until the first file is complete nothing is durable.
                journaling::begin_anew(&shared.durability)?;
                journaling::wait_for_first(&shared.durability)
            }
            ToLoad::Steps(manifest) => {
                let Some(manifest) = manifest else {
                    return journaling::begin(&shared.durability, None);
                };
                journaling::take_over(&shared.durability, &manifest)?;
                load_with_history(shared, || {
                    loading::load_steps(
                        &shared.durability,
                        &**shared,
                        (&journaling::layout(&settings), &manifest),
                    )?;
                    journaling::begin(&shared.durability, Some(manifest))
                })
            }
        }
    }

    /// Announces in the log, and to the service manager, that the server is ready, unless it was
    /// told to stop meanwhile.
    pub fn announce(&self) {
        if self.shared.engine.condition.shutdown.is_final() {
            return;
        }
        let settings = self.shared.engine.settings.current();
        let engine = self.shared.operator.run.io_engine.get().map_or("", String::as_str);
        let workers = self.shared.workers.serving().len();
        if let Some(why) = host::missing_io_uring(&settings, engine) {
            tracing::warn!("host: {why}");
        }
        let (port, version) = (settings.port, env!("CARGO_PKG_VERSION"));
        let maxmemory = match settings.memory_limit() {
            0 => "none".to_owned(),
            bytes => human(bytes),
        };
        let policy = settings.eviction_policy().word();
        // These are Redis's words: scripts that wait for the server look for them.
        tracing::info!(
            version,
            port,
            workers,
            engine,
            maxmemory,
            policy,
            "Ready to accept connections"
        );
        self.shared.supervisor.ready();
    }

    /// Like [`Running::wait`], for a process that is nothing but the server: the process ends in
    /// time, even if a thread does not.
    pub fn wait_and_end(self) {
        let (ended, until_ended) = channel();
        let shared = Arc::clone(&self.shared);
        self.shared.engine.condition.shutdown.wait();
        if let Err(error) = spawn("stopping", move || signals::end_in_time(shared, &until_ended)) {
            tracing::warn!("a thread that does not end may delay the stop: {error}");
        }
        self.wait();
        tracing::warn!("Pantala is now ready to exit, bye bye...");
        drop::<std::sync::mpsc::Sender<()>>(ended);
    }

    /// Waits until the server is told to stop, and stops it.
    pub fn wait(self) {
        self.shared.engine.condition.shutdown.wait();
        self.shared.supervisor.tell(SupervisorNotice::Stopping);
        self.shared.engine.workers.post_all(&|| pantala_engine::Message::LookUp);
        self.shared.durability.snapshots.close();
        self.shared.http.end();
        self.shared.engine.lane.wake_all();
        self.sweeper_waker.wake();
        let join = |thread: JoinHandle<()>| {
            // A panic was logged already.
            let _ = thread.join();
        };
        self.threads.into_iter().for_each(join);
        // What these have acknowledged has to be in the journal before that ends. One by one: each
        // of them may just have added another.
        let added = &self.shared.workers.added;
        let next = || added.lock().pop();
        std::iter::from_fn(next).for_each(join);
        replica::end(&self.shared.replication);
        self.shared.durability.appending.end(&self.shared.engine.journal);
        // An unfinished snapshot is useless.
        self.shared.durability.saves.cancel_and_wait();
        self.shared.replication.primary.cancel_and_wait();
        let settings = self.shared.engine.settings.current();
        listening::close(&settings);
        pidfile::remove(&settings);
    }

    /// Tells the server to stop.
    pub fn stop(&self) {
        self.shared.engine.condition.shutdown.begin();
    }
}

/// Loads data, and goes on with its history: replicas are sent the removal of all keys that have
/// expired by then.
///
/// # Errors
/// A text for the operator.
pub fn load_with_history(
    shared: &Shared,
    load: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let space = &shared.engine.space;
    if !shared.replication.is_replica() {
        shared.durability.loading.note_expired();
    }
    // Keys that expire meanwhile are removed when the stream is fed with that.
    space.hide_expired(HideReason::Starting, true);
    let resumed = load().and_then(|()| replica::resume(&shared.replication));
    space.hide_expired(HideReason::Starting, false);
    resumed
}

fn spawn(name: &str, life: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    let life = move || {
        let _stack = SignalStack::take();
        life();
    };
    Builder::new().name(name.into()).spawn(life).map_err(|e| format!("cannot start a thread: {e}"))
}

fn reactor(settings: &Settings) -> Result<Reactor, String> {
    let choice = match settings.io_engine {
        IoEngine::Auto => EngineChoice::Auto,
        IoEngine::Uring => EngineChoice::Uring,
        IoEngine::Epoll => EngineChoice::Epoll,
    };
    let config = ReactorConfig {
        choice,
        buffer_count: RECEIVE_BUFFERS,
        buffer_bytes: RECEIVE_BUFFER_BYTES,
        ..ReactorConfig::default()
    };
    Reactor::new(config).map_err(|error| format!("cannot start the event loop: {error}"))
}

fn open_worker(
    shared: &Arc<Shared>,
    index: usize,
    listeners: Vec<(pantala_reactor::ListenerId, std::os::fd::OwnedFd)>,
) -> Result<JoinHandle<()>, String> {
    let mut reactor = reactor(&shared.engine.settings.current())?;
    shared.operator.run.io_engine.get_or_init(|| reactor.features());
    let inbox = Arc::new(Inbox::new(reactor.waker()));
    for (id, socket) in listeners {
        reactor.ops().listen(socket, id).map_err(|error| format!("cannot listen: {error}"))?;
    }
    shared.workers.opened(index, Arc::clone(&inbox));
    let worker_shared = Arc::clone(shared);
    spawn(&format!("worker-{index}"), move || {
        pantala_base::os::ask_for_short_slices();
        WorkerThread::new(Arc::clone(&worker_shared.context), index, reactor, inbox).serve();
    })
}

/// Starts one more thread of the slow lane; whether it could be started. It ends with the process.
pub(crate) fn open_lane_thread(shared: &Arc<Shared>, slot: usize) -> bool {
    let shared = Arc::clone(shared);
    match spawn("lane", move || lane::run(&*shared, slot)) {
        Ok(_detached) => true,
        Err(error) => {
            tracing::warn!("cannot start another thread of the slow lane: {error}");
            false
        }
    }
}

/// Raises or lowers the number of workers (`CONFIG SET threads`). Connections of workers that go
/// move to those that stay.
///
/// # Errors
/// A text for the operator; then fewer workers than wanted may have been added.
pub fn set_workers(shared: &Arc<Shared>, wanted: usize) -> Result<(), String> {
    let wanted = wanted.clamp(1, MAX_WORKERS);
    let mut added = shared.workers.added.lock();
    added.retain(|thread| !thread.is_finished());
    let serving = shared.workers.serving();
    // The first worker accepts connections, so it stays.
    for &index in serving.iter().skip(wanted) {
        shared.workers.ask_to_retire(index);
    }
    let mut count = serving.len();
    for index in 0..MAX_WORKERS {
        if count >= wanted {
            break;
        }
        if shared.workers.is_vacant(index) {
            added.push(open_worker(shared, index, Vec::new())?);
            count += 1;
        }
    }
    Ok(())
}
