//! A server without threads and sockets, for the tests of this crate.

use std::sync::Arc;

use pantala_base::hash::HashSeed;
use pantala_commands::Registry;
use pantala_engine::Engine;
use pantala_engine::clients::mailbox::NoWorkers;
use pantala_engine::engine::assemble::Parts;
use pantala_settings::Settings;

use crate::Durability;

/// The durability of a server without commands.
pub fn durability() -> Arc<Durability> {
    let parts = Parts {
        settings: Settings::defaults(),
        file: None,
        seed: HashSeed::random(),
        registry: Registry::new(&[]),
        workers: Arc::new(NoWorkers),
        change_sink: None,
    };
    Durability::new(Engine::new(parts), Box::new(|| {}))
}
