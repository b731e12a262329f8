//! What all workers are given.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};

use pantala_commands::families::memcached::Verbs;
use pantala_commands::{Call, Server};
use pantala_durability::Durability;
use pantala_engine::Engine;
use pantala_replication::Replication;
use pantala_tls::certificates::Tls;
use parking_lot::Mutex;

use crate::listening::Listening;
use crate::worker::connection::Connection;
use crate::worker::turn::load::Loads;
use crate::workers::Workers;

/// Serves connections that speak HTTP, which workers give up.
pub trait HttpHandler: Send + Sync {
    /// Serves this connection. It is already in the workers' count.
    fn take(&self, socket: OwnedFd, connection: Connection);
}

/// What all workers are given.
pub struct WorkerContext {
    /// Runs commands.
    pub engine: Arc<Engine>,
    /// What the server keeps.
    pub durability: Arc<Durability>,
    /// This server as a primary and as a replica.
    pub replication: Arc<Replication>,
    /// All workers.
    pub workers: Arc<Workers>,
    /// The rows of Memcached's commands.
    pub verbs: Verbs,
    /// The certificates in force.
    pub tls: Tls,
    /// The listening sockets.
    pub listening: Mutex<Listening>,
    /// The loads of the workers, for INFO.
    pub loads: Mutex<Loads>,
    pub(crate) http: Arc<dyn HttpHandler>,
    server: OnceLock<Weak<dyn Server>>,
}

impl WorkerContext {
    /// The context of a server that has just started.
    pub fn new(
        replication: Arc<Replication>,
        workers: Arc<Workers>,
        http: Arc<dyn HttpHandler>,
    ) -> WorkerContext {
        let engine = Arc::clone(&replication.engine);
        WorkerContext {
            verbs: Verbs::new(&engine.registry),
            engine,
            durability: Arc::clone(&replication.durability),
            replication,
            workers,
            tls: Tls::default(),
            listening: Mutex::default(),
            loads: Mutex::default(),
            http,
            server: OnceLock::new(),
        }
    }

    /// The context of the server that runs this call.
    pub fn of<'c>(call: &Call<'c, '_>) -> &'c WorkerContext {
        call.server.part()
    }

    /// Sets the server that runs commands.
    pub fn set_server(&self, server: Weak<dyn Server>) {
        // There is one server.
        let _first = self.server.set(server);
    }

    /// The server that runs commands.
    pub fn server(&self) -> Arc<dyn Server> {
        let server = self.server.get().and_then(Weak::upgrade);
        server.unwrap_or_else(|| Arc::clone(&self.engine) as Arc<dyn Server>)
    }

    /// Reads the files of certificates again and puts them in force, if they are valid.
    ///
    /// # Errors
    /// A text for the operator; nothing has changed.
    pub fn read_certificates(&self) -> Result<(), String> {
        self.tls.apply(|| self.engine.settings.current(), self.asks_for_login())
    }

    /// Whether the default user has a password.
    pub fn asks_for_login(&self) -> bool {
        !self.engine.acl.users().default_user().is_open()
    }
}
