//! The same test bodies run against every engine: epoll, io_uring with all features of this kernel,
//! and io_uring with features disabled, as on older kernels.
//!
//! A test waits for events, never for a time. `World::turn` fails after a minute without events, so
//! that a lost wake-up is a failure and not a hang.

#![allow(clippy::unwrap_used)]

mod chance;
mod closing;
mod connecting;
mod processes;
mod receiving;
mod sending;
mod waking;
mod world;

use pantala_reactor::{EngineChoice, Features, ReactorConfig};

/// Runs `body` with a configuration of each engine.
fn on_every_engine(body: impl Fn(ReactorConfig)) {
    for (name, config) in engines() {
        eprintln!("engine: {name}");
        body(config);
    }
}

fn engines() -> Vec<(&'static str, ReactorConfig)> {
    let epoll = ReactorConfig { choice: EngineChoice::Epoll, ..ReactorConfig::default() };
    let uring = ReactorConfig { choice: EngineChoice::Uring, ..ReactorConfig::default() };
    let no_multishot = Features { multishot_receive: true, ..Features::default() };
    let nothing = Features { multishot_receive: true, defer_taskrun: true };
    let mut engines = vec![("epoll", epoll)];
    if let Err(error) = pantala_reactor::Reactor::new(uring.clone()) {
        assert!(std::env::var_os("REQUIRE_IO_URING").is_none(), "no io_uring: {error}");
        eprintln!("no io_uring here: {error}");
        return engines;
    }
    engines.push(("uring", uring.clone()));
    engines.push(("uring, no multishot", ReactorConfig { without: no_multishot, ..uring.clone() }));
    engines.push(("uring, nothing new", ReactorConfig { without: nothing, ..uring }));
    engines
}
