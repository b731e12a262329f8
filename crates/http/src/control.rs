//! The control plane: one thread with an async runtime, for connections to other machines and HTTP.
//! No command on a worker waits for it, and it is started when it is first needed.

use parking_lot::Mutex;

use std::thread::Builder;

use tokio::runtime::Handle;

static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// The runtime of the control plane. Its thread ends with the process.
///
/// # Errors
/// The system has no thread or descriptor for it.
pub fn runtime() -> Result<Handle, String> {
    let mut handle = RUNTIME.lock();
    if let Some(handle) = &*handle {
        return Ok(handle.clone());
    }
    let cannot = |error| format!("cannot start the control plane: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(cannot)?;
    *handle = Some(runtime.handle().clone());
    let started = runtime.handle().clone();
    let life = move || runtime.block_on(std::future::pending::<()>());
    Builder::new().name("control".into()).spawn(life).map_err(cannot)?;
    Ok(started)
}
