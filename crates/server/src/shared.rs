//! What all threads of the server share: the engine, and the server's own state around it.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use pantala_base::clock::{monotonic_us, unix_us};
use pantala_base::hash::HashSeed;
use pantala_base::rng::Rng;
use pantala_commands::{Call, Registry, Server};
use pantala_durability::Durability;
use pantala_engine::Engine;
use pantala_engine::engine::assemble::Parts;
use pantala_keyspace::ChangeSink;
use pantala_settings::Settings;

use crate::http::Http;
use crate::migrate::Links;
use crate::process::background::flushing::DelayedFlush;
use crate::process::system::oom_score::OomScore;
use crate::process::system::supervision::Supervisor;
use crate::rates::Rates;
use pantala_replication::Replication;
use pantala_workers::workers::Workers;
use pantala_workers::{HttpHandler, WorkerContext};

/// What all threads of the server share.
pub struct Shared {
    /// Runs commands.
    pub engine: Arc<Engine>,
    /// The delayed flush of Memcached's `flush_all`, if any.
    pub delayed_flush: DelayedFlush,
    /// All workers.
    pub workers: Arc<Workers>,
    /// What all workers are given.
    pub context: Arc<WorkerContext>,
    /// This run of the server.
    pub run: RunInfo,
    /// The rates per second in INFO.
    pub rates: Mutex<Rates>,
    /// Snapshots, the append-only file and loading.
    pub durability: Arc<Durability>,
    /// This server as a primary and as a replica.
    pub replication: Arc<Replication>,
    /// The service manager that started the process.
    pub supervisor: Supervisor,
    /// How readily the kernel ends the process when memory runs out.
    pub oom_score: Arc<OomScore>,
    /// Idle connections of MIGRATE.
    pub links: Links,
    /// Connections that speak HTTP.
    pub http: Arc<Http>,
    self_ref: OnceLock<Weak<Shared>>,
}

/// The parameters of a server.
pub struct Launch {
    /// The settings.
    pub settings: Settings,
    /// The file that the settings were read from.
    pub file: Option<std::path::PathBuf>,
    /// The seed of the key hashes.
    pub seed: HashSeed,
    /// The command table.
    pub registry: Registry,
    /// The sink that is told of changes of keys; `None`: the clients that ask for it.
    pub change_sink: Option<Box<dyn ChangeSink>>,
    /// The service manager that is told of the server's state.
    pub supervisor: Supervisor,
    /// How readily the kernel ends the process when memory runs out.
    pub oom_score: OomScore,
}

/// The constants of one run of the server.
pub struct RunInfo {
    /// Its id: forty hexadecimal digits.
    pub id: String,
    /// When it began (monotonic, microseconds).
    pub started_us: u64,
    /// When it began (Unix, seconds).
    pub started_unix_s: i64,
    /// The event loop in use and what it found in the kernel.
    pub io_engine: OnceLock<String>,
}

impl RunInfo {
    fn begin() -> Self {
        let mut random = Rng::random();
        let mut id = [0; 20];
        random.bytes(&mut id);
        RunInfo {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            started_us: monotonic_us(),
            started_unix_s: unix_us() / 1_000_000,
            io_engine: OnceLock::new(),
        }
    }
}

impl Shared {
    /// The state of a server that has just started, ready to run commands: with threads and
    /// without.
    pub fn new(launch: Launch) -> Arc<Self> {
        let workers = Arc::new(Workers::default());
        let parts = Parts {
            settings: launch.settings,
            file: launch.file,
            seed: launch.seed,
            registry: launch.registry,
            workers: workers.clone(),
            change_sink: launch.change_sink,
        };
        let engine = Engine::new(parts);
        let oom_score = Arc::new(launch.oom_score);
        let of_role = Arc::clone(&oom_score);
        let role_changed = move |replication: &Replication| {
            let now = || (replication.engine.settings.current(), replication.is_replica());
            // The log says why, if the kernel has refused it.
            let _refused = of_role.apply(now);
        };
        let replication = Replication::new(Arc::clone(&engine), Box::new(role_changed));
        let http = Arc::new(Http::default());
        let context = WorkerContext::new(
            Arc::clone(&replication),
            Arc::clone(&workers),
            Arc::clone(&http) as Arc<dyn HttpHandler>,
        );
        let context = Arc::new(context);
        let shared = Arc::new(Shared {
            delayed_flush: DelayedFlush::default(),
            engine,
            workers,
            run: RunInfo::begin(),
            rates: Mutex::new(Rates::default()),
            durability: Arc::clone(&replication.durability),
            replication,
            supervisor: launch.supervisor,
            oom_score,
            links: Links::default(),
            http,
            context,
            self_ref: OnceLock::new(),
        });
        let _first = shared.self_ref.set(Arc::downgrade(&shared));
        let server: Arc<dyn Server> = Arc::clone(&shared) as Arc<dyn Server>;
        shared.replication.set_server(Arc::downgrade(&server));
        shared.context.set_server(Arc::downgrade(&server));
        shared
    }

    /// Tells the kernel how readily to end the process, by the settings and the role of now.
    ///
    /// # Errors
    /// The kernel refuses it; the log says why.
    pub fn apply_oom_score(&self) -> Result<(), String> {
        let now = || (self.engine.settings.current(), self.replication.is_replica());
        self.oom_score.apply(now)
    }

    /// The state itself, for threads that are to be started.
    pub fn arc(&self) -> Option<Arc<Shared>> {
        self.self_ref.get()?.upgrade()
    }

    /// The state of the server that runs this call.
    pub fn of<'c>(call: &Call<'c, '_>) -> &'c Shared {
        call.server.part()
    }
}

impl Server for Shared {
    fn find_part(&self, id: TypeId) -> Option<&dyn Any> {
        let parts: [&dyn Any; 4] = [self, &*self.durability, &*self.replication, &*self.context];
        parts.into_iter().find(|part| (**part).type_id() == id)
    }

    fn engine(&self) -> &dyn Any {
        &*self.engine
    }

    fn registry(&self) -> &Registry {
        &self.engine.registry
    }
}
