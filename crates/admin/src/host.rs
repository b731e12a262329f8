//! The server's interface for this crate.

use std::os::unix::net::UnixStream;

use pantala_commands::Login;
use pantala_engine::Engine;
use pantala_engine::stats::info_table::InfoTable;

/// A server. No method blocks.
pub trait AdminHost: Send + Sync + 'static {
    /// The engine, with its settings, users and counts.
    fn engine(&self) -> &Engine;

    /// Opens a new client of the server that speaks RESP3: one end of a socket pair, whose other
    /// end a worker serves.
    ///
    /// # Errors
    /// A text for the user: too many clients, or too few descriptors.
    fn connect(&self, client: NewClient) -> Result<LocalEnd, String>;

    /// Facts that are fixed for a run.
    fn facts(&self) -> AdminFacts;

    /// Whether it serves clients.
    ///
    /// # Errors
    /// Why not.
    fn readiness(&self) -> Result<(), NotReady>;

    /// Current figures that only the server knows.
    fn figures(&self) -> Figures;

    /// The last runs of snapshots and of rewrites of the append-only file, the newest first.
    fn past_runs(&self) -> Vec<PastRun>;

    /// The figures of INFO, without the sections that look at keys.
    fn info(&self) -> InfoTable;
}

/// A new client.
#[derive(Clone, Debug)]
pub struct NewClient {
    /// Its authenticated user; `None`: it must authenticate, as any new client.
    pub login: Option<Login>,
    /// Its address, as CLIENT LIST shows it.
    pub address: String,
    /// The local address of its connection.
    pub local: String,
}

/// The near end of a client's connection.
pub struct LocalEnd {
    /// The non-blocking socket.
    pub stream: UnixStream,
    /// Its seat among the descriptors of connections; to be dropped after the socket.
    pub place: Box<dyn Send>,
}

/// Facts that are fixed for a run.
#[derive(Clone, Debug, Default)]
pub struct AdminFacts {
    /// The version.
    pub version: &'static str,
    /// The port for clients.
    pub port: u16,
    /// The event loop in use and its features.
    pub event_loop: String,
    /// The start time (Unix, milliseconds).
    pub started_unix_ms: i64,
    /// The uptime in seconds.
    pub uptime_s: u64,
}

/// Why clients are not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// The dataset is being loaded.
    Loading,
    /// The server is stopping.
    Stopping,
    /// Writes are refused because they cannot be persisted.
    DiskFails,
}

impl NotReady {
    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            NotReady::Loading => "loading",
            NotReady::Stopping => "stopping",
            NotReady::DiskFails => "the disk fails: writes are refused",
        }
    }
}

/// A snapshot, or a rewrite of the append-only file, that has ended.
#[derive(Clone, Debug)]
pub struct PastRun {
    /// `snapshot` or `rewrite`.
    pub kind: &'static str,
    /// Why it began.
    pub why: String,
    /// When it began (Unix, milliseconds).
    pub began_ms: i64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The keys that were written.
    pub keys: u64,
    /// The bytes of the file; 0 if there is none.
    pub bytes: u64,
    /// The name of the file; empty if it was not known yet.
    pub file: String,
    /// Why there is no file; `None`: all is well.
    pub error: Option<String>,
}

/// Current figures that only the server knows. Counts are since the start.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The memory.
    pub memory: MemoryFigures,
    /// The workers.
    pub workers: Vec<WorkerFigures>,
    /// The slow lane.
    pub lane: LaneFigures,
    /// The current number of connections.
    pub clients: u64,
    /// CPU time in user mode and in the kernel, in seconds.
    pub cpu_s: [f64; 2],
    /// INFO's section about snapshots and the append-only file.
    pub persistence: InfoTable,
    /// Whether the link to the primary is up; `None`: this server is a primary.
    pub link_is_up: Option<bool>,
    /// The number of replicas.
    pub replicas: u64,
}

/// Memory figures, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFigures {
    /// What the allocator has given out.
    pub used: u64,
    /// Resident set size.
    pub rss: u64,
    /// The limit; 0: none.
    pub most: u64,
    /// The peak of allocated memory.
    pub peak: u64,
    /// The part that does not count against the limit.
    pub not_counted: u64,
}

/// Figures of one worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerFigures {
    /// Its index.
    pub id: usize,
    /// Its connections.
    pub connections: u64,
    /// Commands that it has run.
    pub commands: u64,
    /// Its time awake, in microseconds.
    pub busy_us: Option<u64>,
    /// How often a command waited for a partition.
    pub lock_parks: u64,
}

/// Figures of the slow lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneFigures {
    /// The number of threads.
    pub threads: u64,
    /// Jobs waiting for a thread.
    pub waiting: u64,
    /// Jobs submitted.
    pub jobs: u64,
}
