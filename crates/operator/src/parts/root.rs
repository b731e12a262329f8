//! The state that commands for operators share.

use std::sync::{Arc, OnceLock, Weak};

use pantala_commands::Call;
use pantala_durability::Durability;
use pantala_engine::Engine;
use pantala_replication::Replication;
use pantala_workers::WorkerContext;
use pantala_workers::workers::Workers;
use parking_lot::Mutex;

use crate::cluster::ClusterMember;
use crate::memcached::flushing::DelayedFlush;
use crate::parts::process::ProcessControl;
use crate::parts::rates::Rates;
use crate::parts::run_info::RunInfo;

/// All parts of a server, for commands about them.
pub struct Operator {
    /// Runs commands.
    pub engine: Arc<Engine>,
    /// Snapshots, the append-only file and loading.
    pub durability: Arc<Durability>,
    /// This server as a primary and as a replica.
    pub replication: Arc<Replication>,
    /// All workers.
    pub workers: Arc<Workers>,
    /// What all workers are given.
    pub context: Arc<WorkerContext>,
    /// This run of the server.
    pub run: RunInfo,
    /// The rates per second in INFO.
    pub rates: Mutex<Rates>,
    /// This server as a node of a cluster, if it is one.
    pub cluster: OnceLock<ClusterMember>,
    /// The delayed flush of Memcached's `flush_all`, if any.
    pub delayed_flush: DelayedFlush,
    process: OnceLock<Weak<dyn ProcessControl>>,
    self_ref: Weak<Operator>,
}

impl Operator {
    /// The state of a server that has just started.
    pub fn new(context: Arc<WorkerContext>) -> Arc<Operator> {
        Arc::new_cyclic(|self_ref| Operator {
            engine: Arc::clone(&context.engine),
            durability: Arc::clone(&context.durability),
            replication: Arc::clone(&context.replication),
            workers: Arc::clone(&context.workers),
            context,
            run: RunInfo::begin(),
            rates: Mutex::default(),
            cluster: OnceLock::new(),
            delayed_flush: DelayedFlush::default(),
            process: OnceLock::new(),
            self_ref: Weak::clone(self_ref),
        })
    }

    /// The state of the server that runs this call.
    pub fn of<'c>(call: &Call<'c, '_>) -> &'c Operator {
        call.server.part()
    }

    /// The state itself, for threads that will be started.
    pub fn arc(&self) -> Option<Arc<Operator>> {
        self.self_ref.upgrade()
    }

    /// The state itself, for what must not keep it alive.
    pub fn weak(&self) -> Weak<Operator> {
        Weak::clone(&self.self_ref)
    }

    /// Sets the process that runs the server.
    pub fn set_process(&self, process: Weak<dyn ProcessControl>) {
        // There is one process.
        let _first = self.process.set(process);
    }

    /// The process that runs the server; `None` once it ends.
    pub fn process(&self) -> Option<Arc<dyn ProcessControl>> {
        self.process.get()?.upgrade()
    }
}
