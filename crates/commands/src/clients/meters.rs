//! What a worker knows of a client, for CLIENT LIST and ACL LOG.
//!
//! Tests: `client_line`.

/// The figures that a worker knows of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meters {
    /// Its number in the event loop.
    pub descriptor: u32,
    /// When it last did something (monotonic, microseconds).
    pub active_us: u64,
    /// It is blocked on a key, or held back by CLIENT PAUSE.
    pub waits: bool,
    /// Input that is not executed yet, in bytes.
    pub input_bytes: usize,
    /// Free capacity of the input buffer, in bytes.
    pub input_room: usize,
    /// The memory of the commands since MULTI, in bytes.
    pub queue_bytes: usize,
    /// Replies that are not being sent yet, in bytes.
    pub output_bytes: usize,
    /// The capacity of the output buffer, in bytes.
    pub output_capacity: usize,
    /// Replies not sent yet, including those being sent, in bytes.
    pub unsent_bytes: usize,
    /// The memory it takes, in bytes.
    pub memory_bytes: usize,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Commands run.
    pub commands: u64,
}
