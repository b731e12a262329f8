//! The settings as whoever runs commands uses them, and what follows from several of them: made
//! anew when they change.

use std::sync::Arc;

use pantala_commands::Session;
use pantala_settings::Settings;
use pantala_table::MAX_STRING_BYTES;

use crate::condition::eviction::MemoryRules;

/// Limits of the parser, by whether the connection has given its password.
#[derive(Clone, Copy, Debug)]
pub struct ParserLimits {
    max_bulk_bytes: usize,
}

impl ParserLimits {
    /// Those of this session.
    #[inline]
    pub fn of(&self, session: &Session) -> pantala_protocol::Limits {
        pantala_protocol::Limits {
            max_bulk_bytes: self.max_bulk_bytes,
            authenticated: session.is_authenticated(),
            ..pantala_protocol::Limits::default()
        }
    }
}

/// The settings in force with the limits derived from them; made anew when a setting changes.
pub struct Limited {
    /// For the parser.
    pub parser: ParserLimits,
    /// The settings themselves, for handlers.
    pub settings: Arc<Settings>,
    /// A connection with more output than this is closed, so no more need be written.
    pub most_output_bytes: usize,
    /// The longest output that a command which reads makes on a worker.
    pub most_worker_bytes: usize,
    /// How much memory may be used, and what happens above.
    pub memory: MemoryRules,
    /// Every command is timed by itself, because fast ones may have to be logged too.
    pub is_timed: bool,
    /// How long commands take is counted by duration.
    pub has_histograms: bool,
    /// One turn in so many is traced; 0: none is.
    pub traced_turns: u32,
    /// Commands that take at least so long have to be logged, in microseconds.
    pub slow_us: u64,
    /// What the buffers of all clients may take together; 0: no limit.
    pub most_client_bytes: u64,
    /// Requests and replies of at least this size, in bytes, may have to be logged: for the size,
    /// or because they took long.
    pub large_bytes: usize,
}

/// Moving fewer bytes than this never takes as long as [`TIMED_BELOW_US`].
const SLOW_BYTES: usize = 256 << 10;
/// Copying a longer reply takes longer than other connections of a worker should wait.
const WORKER_OUTPUT_BYTES: usize = 2 << 20;
/// Below this slow-log threshold commands run one by one, each with its own look at the clock.
const TIMED_BELOW_US: i64 = 1000;

impl Limited {
    /// From a snapshot of the settings.
    pub fn new(settings: Arc<Settings>) -> Self {
        let most_output_bytes = settings.client_output_buffer_limit.normal.most_bytes();
        let slow_us = settings.commandlog_execution_slower_than_us;
        Limited {
            parser: ParserLimits {
                max_bulk_bytes: to_usize(settings.proto_max_bulk_len).min(MAX_STRING_BYTES),
            },
            most_output_bytes,
            memory: MemoryRules::of(&settings),
            most_worker_bytes: WORKER_OUTPUT_BYTES.min(most_output_bytes),
            traced_turns: match settings.otlp_endpoint.is_empty() {
                true => 0,
                false => u32::try_from(settings.otlp_sample).unwrap_or(0),
            },
            slow_us: u64::try_from(slow_us).unwrap_or(u64::MAX),
            most_client_bytes: settings.maxmemory_clients.bytes(settings.memory_limit()),
            has_histograms: settings.latency_tracking,
            is_timed: (0..TIMED_BELOW_US).contains(&slow_us)
                || settings.latency_monitor_threshold_ms > 0,
            large_bytes: threshold(settings.commandlog_request_larger_than_bytes)
                .min(threshold(settings.commandlog_reply_larger_than_bytes))
                .min(SLOW_BYTES),
            settings,
        }
    }
}

/// A threshold in bytes; negative ones are never reached.
fn threshold(bytes: i64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
