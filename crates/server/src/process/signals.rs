//! SIGTERM and SIGINT stop the server.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::shared::Shared;

/// Listens for the signals on a thread of its own, for the rest of the process.
///
/// # Errors
/// The system refuses to register them.
pub fn stop_on_signals(shared: &Arc<Shared>) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("cannot listen for signals: {error}");
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(cannot)?;
    let shared = Arc::clone(shared);
    let listen = move || {
        for signal in signals.forever() {
            tracing::info!(signal, "a signal asks the server to stop");
            shared.engine.shutdown.begin();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(cannot)?;
    Ok(())
}
