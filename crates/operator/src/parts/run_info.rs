//! The constants of one run of the server.

use std::sync::OnceLock;

use pantala_base::clock::{monotonic_us, unix_us};
use pantala_base::rng::Rng;

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
    /// The constants of a run that begins now.
    pub fn begin() -> Self {
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
