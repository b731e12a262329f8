//! Settings as a worker uses them: ready to compare with, made anew when the settings change.

use pantala_commands::{Limits, PackedLimits, Session, Standing};
use pantala_settings::Settings;
use pantala_settings::field::OutputLimits;
use pantala_table::MAX_STRING_BYTES;

use crate::connection::Connection;

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

/// Whether a connection may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It may.
    Fine,
    /// `client-query-buffer-limit`.
    TooMuchInput,
    /// `client-output-buffer-limit`.
    TooMuchOutput,
}

/// See the module.
pub struct Limited {
    /// For the parser.
    pub parser: ParserLimits,
    /// For handlers.
    pub for_handlers: Limits,
    /// Every command is timed by itself, because fast ones may have to be logged too.
    pub is_timed: bool,
    /// Commands that take at least so long have to be logged, in microseconds.
    pub slow_us: u64,
    /// What the buffers of all clients may take together; 0: no limit.
    pub most_client_bytes: u64,
    /// Requests and replies of at least this size, in bytes, may have to be logged: for the size,
    /// or because they took long.
    pub large_bytes: usize,
    max_input_bytes: usize,
    output: OutputLimits,
}

/// Moving fewer bytes than this never takes as long as [`TIMED_BELOW_US`].
const SLOW_BYTES: usize = 256 << 10;
/// Copying a longer reply takes longer than other connections of a worker should wait.
const WORKER_OUTPUT_BYTES: usize = 2 << 20;
/// Below this slow-log threshold commands run one by one, each with its own look at the clock.
const TIMED_BELOW_US: i64 = 1000;

impl Limited {
    /// From a snapshot of the settings.
    pub fn new(settings: &Settings) -> Self {
        let output = settings.client_output_buffer_limit;
        let most_output_bytes = match output.normal.hard_bytes {
            0 => usize::MAX,
            most => to_usize(most),
        };
        let slow_us = settings.commandlog_execution_slower_than_us;
        Limited {
            parser: ParserLimits { max_bulk_bytes: string_bytes(settings) },
            for_handlers: Limits {
                max_string_bytes: string_bytes(settings),
                keys_output_limit: to_usize(settings.keys_output_limit),
                lazy_user_flush: settings.lazyfree_lazy_user_flush,
                is_lfu: is_lfu(settings),
                packed: packed(settings),
                busy_after_ms: settings.busy_reply_threshold_ms,
                most_output_bytes,
                most_worker_bytes: WORKER_OUTPUT_BYTES.min(most_output_bytes),
            },
            slow_us: u64::try_from(slow_us).unwrap_or(u64::MAX),
            most_client_bytes: settings.maxmemory_clients.bytes(settings.maxmemory),
            is_timed: (0..TIMED_BELOW_US).contains(&slow_us)
                || settings.latency_monitor_threshold_ms > 0,
            large_bytes: threshold(settings.commandlog_request_larger_than_bytes)
                .min(threshold(settings.commandlog_reply_larger_than_bytes))
                .min(SLOW_BYTES),
            max_input_bytes: to_usize(settings.client_query_buffer_limit),
            output,
        }
    }

    /// How much unsent output a connection may have.
    #[inline]
    pub fn most_output_bytes(&self, connection: &Connection) -> usize {
        let class = match connection.session.standing {
            Standing::Subscribed => &self.output.pubsub,
            _ if watches(&connection.session) => &self.output.replica,
            _ => &self.output.normal,
        };
        if class.hard_bytes == 0 { usize::MAX } else { to_usize(class.hard_bytes) }
    }

    /// Looks at a connection's buffers.
    #[inline]
    pub fn judge(&self, connection: &mut Connection, now_us: u64) -> Judgement {
        if connection.input.len() - connection.input_done > self.max_input_bytes {
            return Judgement::TooMuchInput;
        }
        let mut output = self.output.normal;
        if connection.session.standing == Standing::Subscribed {
            output = self.output.pubsub;
        } else if output.hard_bytes == 0 && output.soft_bytes == 0 {
            // One who only watches must not fill the memory if he does not look.
            if !watches(&connection.session) {
                return Judgement::Fine;
            }
            output = self.output.replica;
        }
        let unsent = connection.unsent_bytes() as u64;
        if output.hard_bytes > 0 && unsent > output.hard_bytes {
            return Judgement::TooMuchOutput;
        }
        if output.soft_bytes == 0 || unsent <= output.soft_bytes {
            connection.over_soft_since_us = None;
            return Judgement::Fine;
        }
        let since_us = *connection.over_soft_since_us.get_or_insert(now_us);
        if now_us - since_us > u64::from(output.soft_s) * 1_000_000 {
            return Judgement::TooMuchOutput;
        }
        Judgement::Fine
    }
}

/// Whether a client is sent what others do, without asking each time.
fn watches(session: &Session) -> bool {
    session.monitor || session.tracking.as_ref().is_some_and(|tracking| tracking.is_broadcast)
}

fn packed(settings: &Settings) -> PackedLimits {
    PackedLimits {
        hash_entries: to_usize(settings.hash_max_listpack_entries),
        hash_value_bytes: to_usize(settings.hash_max_listpack_value_bytes),
        list_size: settings.list_max_listpack_size,
        list_depth: settings.list_compress_depth,
        set_ints: to_usize(settings.set_max_intset_entries),
        set_entries: to_usize(settings.set_max_listpack_entries),
        set_value_bytes: to_usize(settings.set_max_listpack_value_bytes),
        zset_entries: to_usize(settings.zset_max_listpack_entries),
        zset_value_bytes: to_usize(settings.zset_max_listpack_value_bytes),
        hll_sparse_bytes: to_usize(settings.hll_sparse_max_bytes),
        stream_node_bytes: to_usize(settings.stream_node_max_bytes),
        stream_node_entries: to_usize(settings.stream_node_max_entries),
    }
}

/// `proto-max-bulk-len`, as far as the table can follow.
fn string_bytes(settings: &Settings) -> usize {
    to_usize(settings.proto_max_bulk_len).min(MAX_STRING_BYTES)
}

/// The policy itself is not acted on yet; OBJECT answers by it all the same.
fn is_lfu(settings: &Settings) -> bool {
    settings.get(&["maxmemory-policy"]).iter().any(|(_, policy)| policy.ends_with("-lfu"))
}

/// A threshold in bytes; negative ones are never reached.
fn threshold(bytes: i64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
