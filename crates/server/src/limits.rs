//! Settings as a worker uses them: ready to compare with, made anew when the settings change.

use pantala_commands::{Limits, Session};
use pantala_settings::Settings;
use pantala_settings::field::OutputLimit;
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
            authenticated: session.authenticated,
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
    /// Some class has a soft limit, which takes time to be exceeded.
    pub has_soft_limits: bool,
    /// Every command is timed by itself, because fast ones may have to be logged too.
    pub is_timed: bool,
    /// Requests of at least this size, in bytes on the wire, may have to be logged.
    pub large_request_bytes: usize,
    /// Replies of at least this size, in bytes, have to be logged.
    pub large_reply_bytes: usize,
    max_input_bytes: usize,
    output: OutputLimit,
}

/// Below this slow-log threshold commands run one by one, each with its own look at the clock.
const TIMED_BELOW_US: i64 = 1000;

impl Limited {
    /// From a snapshot of the settings.
    pub fn new(settings: &Settings) -> Self {
        let output = settings.client_output_buffer_limit.normal;
        let slow_us = settings.commandlog_execution_slower_than_us;
        Limited {
            parser: ParserLimits { max_bulk_bytes: string_bytes(settings) },
            for_handlers: Limits {
                max_string_bytes: string_bytes(settings),
                keys_output_limit: to_usize(settings.keys_output_limit),
                lazy_user_flush: settings.lazyfree_lazy_user_flush,
                is_lfu: is_lfu(settings),
            },
            has_soft_limits: output.soft_bytes > 0,
            is_timed: (0..TIMED_BELOW_US).contains(&slow_us)
                || settings.latency_monitor_threshold_ms > 0,
            large_request_bytes: threshold(settings.commandlog_request_larger_than_bytes),
            large_reply_bytes: threshold(settings.commandlog_reply_larger_than_bytes),
            max_input_bytes: to_usize(settings.client_query_buffer_limit),
            output,
        }
    }

    /// Looks at a connection's buffers.
    #[inline]
    pub fn judge(&self, connection: &mut Connection, now_us: u64) -> Judgement {
        if connection.input.len() - connection.input_done > self.max_input_bytes {
            return Judgement::TooMuchInput;
        }
        if self.output.hard_bytes == 0 && self.output.soft_bytes == 0 {
            return Judgement::Fine;
        }
        let unsent = (connection.output.len() + connection.in_flight) as u64;
        if self.output.hard_bytes > 0 && unsent > self.output.hard_bytes {
            return Judgement::TooMuchOutput;
        }
        if self.output.soft_bytes == 0 || unsent <= self.output.soft_bytes {
            connection.over_soft_since_us = None;
            return Judgement::Fine;
        }
        let since_us = *connection.over_soft_since_us.get_or_insert(now_us);
        if now_us - since_us > u64::from(self.output.soft_s) * 1_000_000 {
            return Judgement::TooMuchOutput;
        }
        Judgement::Fine
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
