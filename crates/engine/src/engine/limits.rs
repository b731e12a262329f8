//! The settings as threads that run commands use them, with the limits derived from them; made anew
//! when a setting changes.

use std::sync::Arc;

use pantala_commands::Session;
use pantala_settings::Settings;
use pantala_table::MAX_STRING_BYTES;

use crate::condition::eviction::MemoryRules;
use crate::engine::Engine;
use crate::engine::slots_cell::{SlotTables, WritePermit};
use crate::stats::hot_keys::sample::Draw;

/// The parser's limits, by whether the connection has authenticated.
#[derive(Clone, Copy, Debug)]
pub struct ParserLimits {
    max_bulk_bytes: usize,
}

impl ParserLimits {
    /// The limits that apply to this session.
    #[inline]
    pub fn of(&self, session: &Session) -> pantala_protocol::RequestLimits {
        pantala_protocol::RequestLimits {
            max_bulk_bytes: self.max_bulk_bytes,
            authenticated: session.is_authenticated(),
            ..pantala_protocol::RequestLimits::default()
        }
    }
}

/// The settings in force with the limits derived from them; made anew when a setting changes.
pub struct Limited {
    /// For the parser.
    pub parser: ParserLimits,
    /// The settings themselves, for handlers.
    pub settings: Arc<Settings>,
    /// What this node of a cluster does with each slot; `None`: no cluster.
    pub slots: Option<SlotTables>,
    /// A connection with more output than this, in bytes, is closed, so no more need be written.
    pub most_output_bytes: usize,
    /// The longest reply, in bytes, that a reading command writes on a worker; for a longer one it
    /// is run again on the lane.
    pub most_worker_bytes: usize,
    /// The memory limit, and what happens above it.
    pub memory: MemoryRules,
    /// Every command is timed on its own, because quick ones may have to be logged too.
    pub is_timed: bool,
    /// Durations of commands are counted in histograms.
    pub has_histograms: bool,
    /// One in this many turns is traced; 0: none.
    pub traced_turns: u32,
    /// Which windows' commands are noted by key.
    pub sampled_keys: Draw,
    /// Commands that take at least this many microseconds have to be logged.
    pub slow_us: u64,
    /// The most bytes that the buffers of all clients may take together; 0: no limit.
    pub most_client_bytes: u64,
    /// Commands with requests or replies of at least this many bytes may have to be logged, for the
    /// size or because they took long.
    pub large_bytes: usize,
}

/// Moving fewer bytes than this takes less than [`TIMED_BELOW_US`].
const SLOW_BYTES: usize = 256 << 10;
/// Copying a longer reply would take longer than other connections of a worker should wait.
const WORKER_OUTPUT_BYTES: usize = 2 << 20;
/// With a slow-log threshold below this, commands run one by one, each with its own clock reads.
const TIMED_BELOW_US: i64 = 1000;

impl Limited {
    /// The limits of an engine now.
    pub fn of(engine: &Engine) -> Self {
        Limited { slots: engine.slots.tables(), ..Limited::new(engine.settings.current()) }
    }

    /// The permission to write at this time (monotonic, microseconds).
    #[inline]
    pub fn permit(&self, engine: &Engine, now_us: u64) -> WritePermit {
        match &self.slots {
            None => WritePermit::Unfenced,
            Some(tables) => tables.at(&engine.slots.fence, now_us).0,
        }
    }

    /// The limits that follow from these settings, where no cluster is served.
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
            sampled_keys: Draw::new(settings.hot_keys_sample),
            slow_us: u64::try_from(slow_us).unwrap_or(u64::MAX),
            most_client_bytes: settings.maxmemory_clients.bytes(settings.memory_limit()),
            has_histograms: settings.latency_tracking,
            is_timed: (0..TIMED_BELOW_US).contains(&slow_us)
                || settings.latency_monitor_threshold_ms > 0,
            large_bytes: threshold(settings.commandlog_request_larger_than_bytes)
                .min(threshold(settings.commandlog_reply_larger_than_bytes))
                .min(SLOW_BYTES),
            slots: None,
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
