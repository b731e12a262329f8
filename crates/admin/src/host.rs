//! What this crate asks of the server that it stands in.

use std::os::unix::net::UnixStream;

use pantala_commands::Login;
use pantala_engine::Engine;

/// A server. Nothing here waits.
pub trait Host: Send + Sync + 'static {
    /// What runs commands, with its settings, users and counts.
    fn engine(&self) -> &Engine;

    /// A new client of the server, that speaks RESP 3: this end of a pair of sockets, whose other
    /// end a worker serves.
    ///
    /// # Errors
    /// A text for the user: there are too many clients, or too few descriptors.
    fn connect(&self, client: NewClient) -> Result<NearEnd, String>;

    /// What is settled once a run.
    fn facts(&self) -> Facts;

    /// Whether it serves what clients ask for.
    ///
    /// # Errors
    /// Why not.
    fn readiness(&self) -> Result<(), NotReady>;

    /// What only the server knows of the present.
    fn figures(&self) -> Figures;

    /// The text of INFO, without what takes a look at keys.
    fn info(&self) -> String;
}

/// Who connects.
#[derive(Clone, Debug)]
pub struct NewClient {
    /// Who it is; `None`: it has to say so, as anybody who connects.
    pub login: Option<Login>,
    /// Its address, as CLIENT LIST shows it.
    pub address: String,
    /// Our end of its connection.
    pub local: String,
}

/// This end of a connection.
pub struct NearEnd {
    /// Its socket, which waits for nothing.
    pub stream: UnixStream,
    /// Its place among all descriptors of connections: to be dropped after the socket.
    pub place: Box<dyn Send>,
}

/// What is settled once a run.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The version.
    pub version: &'static str,
    /// The port that clients connect to.
    pub port: u16,
    /// The event loop in use and what it found in the kernel.
    pub event_loop: String,
    /// When it began (Unix, milliseconds).
    pub started_unix_ms: i64,
    /// How long it has run, in seconds.
    pub uptime_s: u64,
}

/// Why clients are not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// What it begins with is being loaded.
    Loading,
    /// It is about to stop.
    Stopping,
    /// Writes are refused because nothing can be kept.
    DiskFails,
}

impl NotReady {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            NotReady::Loading => "loading",
            NotReady::Stopping => "stopping",
            NotReady::DiskFails => "the disk fails: writes are refused",
        }
    }
}

/// What only the server knows of the present. Counts are those since the start.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The memory.
    pub memory: MemoryFigures,
    /// The workers.
    pub workers: Vec<WorkerFigures>,
    /// The slow lane.
    pub lane: LaneFigures,
    /// Connections at this moment.
    pub clients: u64,
    /// Time on cores in user mode and in the kernel, in seconds.
    pub cpu_s: [f64; 2],
    /// The lines of INFO about snapshots and the append-only file.
    pub persistence: Vec<(String, String)>,
    /// Whether the link to the primary is up; `None`: this is one.
    pub link_is_up: Option<bool>,
    /// How many follow this server.
    pub replicas: u64,
}

/// Where the memory is, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFigures {
    /// Given out by the allocator.
    pub used: u64,
    /// Resident.
    pub rss: u64,
    /// The limit; 0 is none.
    pub most: u64,
    /// The most there was in use.
    pub peak: u64,
    /// Not compared with the limit.
    pub not_counted: u64,
}

/// One worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerFigures {
    /// Its place.
    pub id: usize,
    /// The connections it serves.
    pub connections: u64,
    /// Commands run.
    pub commands: u64,
    /// Time awake, in microseconds.
    pub busy_us: Option<u64>,
    /// Commands that had to wait for a partition.
    pub lock_parks: u64,
}

/// The slow lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneFigures {
    /// Its threads.
    pub threads: u64,
    /// Jobs that wait for a thread.
    pub waiting: u64,
    /// Jobs given to it.
    pub jobs: u64,
}
