//! A server without threads and sockets, for the tests of this crate.

use std::sync::Arc;

use pantala_base::hash::HashSeed;
use pantala_commands::Registry;
use pantala_engine::Engine;
use pantala_engine::clients::mailbox::NoWorkers;
use pantala_engine::engine::assemble::Parts;
use pantala_settings::Settings;

use crate::Replication;

/// The replication of a server with these settings, and without commands.
pub fn replication(settings: Settings) -> Arc<Replication> {
    let parts = Parts {
        settings,
        file: None,
        seed: HashSeed::random(),
        registry: Registry::new(&[]),
        workers: Arc::new(NoWorkers),
        change_sink: None,
    };
    Replication::new(Engine::new(parts), Box::new(|_| {}))
}
