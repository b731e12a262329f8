//! What all threads of the server share: the engine, and the server's own state around it.

use std::any::{Any, TypeId};
use std::sync::{Arc, OnceLock, Weak};

use pantala_base::hash::HashSeed;
use pantala_commands::{Registry, Server};
use pantala_durability::Durability;
use pantala_engine::Engine;
use pantala_engine::engine::assemble::Parts;
use pantala_keyspace::ChangeSink;
use pantala_settings::Settings;

use crate::http::Http;
use crate::process::system::oom_score::OomScore;
use crate::process::system::supervision::Supervisor;
use pantala_migrate::Migrations;
use pantala_operator::Operator;
use pantala_operator::parts::process::ProcessControl;
use pantala_replication::Replication;
use pantala_workers::workers::Workers;
use pantala_workers::{HttpHandler, WorkerContext};

/// What all threads of the server share.
pub struct Shared {
    /// Runs commands.
    pub engine: Arc<Engine>,
    /// All workers.
    pub workers: Arc<Workers>,
    /// What all workers are given.
    pub context: Arc<WorkerContext>,
    /// All parts, for commands about them.
    pub operator: Arc<Operator>,
    /// Snapshots, the append-only file and loading.
    pub durability: Arc<Durability>,
    /// This server as a primary and as a replica.
    pub replication: Arc<Replication>,
    /// The service manager that started the process.
    pub supervisor: Supervisor,
    /// How readily the kernel ends the process when memory runs out.
    pub oom_score: Arc<OomScore>,
    /// MIGRATE.
    pub migrations: Arc<Migrations>,
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
        let operator = Operator::new(Arc::clone(&context));
        let shared = Arc::new(Shared {
            migrations: Migrations::new(Arc::clone(&engine)),
            engine,
            workers,
            operator,
            durability: Arc::clone(&replication.durability),
            replication,
            supervisor: launch.supervisor,
            oom_score,
            http,
            context,
            self_ref: OnceLock::new(),
        });
        let _first = shared.self_ref.set(Arc::downgrade(&shared));
        let server: Arc<dyn Server> = Arc::clone(&shared) as Arc<dyn Server>;
        shared.replication.set_server(Arc::downgrade(&server));
        shared.context.set_server(Arc::downgrade(&server));
        let process: Arc<dyn ProcessControl> = Arc::clone(&shared) as Arc<dyn ProcessControl>;
        shared.operator.set_process(Arc::downgrade(&process));
        shared
    }

    /// The state itself, for threads that will be started.
    pub fn arc(&self) -> Option<Arc<Shared>> {
        self.self_ref.get()?.upgrade()
    }
}

impl Server for Shared {
    fn find_part(&self, id: TypeId) -> Option<&dyn Any> {
        let parts: [&dyn Any; 5] = [
            &*self.durability,
            &*self.replication,
            &*self.context,
            &*self.operator,
            &*self.migrations,
        ];
        parts.into_iter().find(|part| (**part).type_id() == id)
    }

    fn engine(&self) -> &dyn Any {
        &*self.engine
    }

    fn registry(&self) -> &Registry {
        &self.engine.registry
    }
}
