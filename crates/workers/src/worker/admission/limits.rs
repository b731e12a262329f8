//! The limits of one connection.
//!
//! What one connection can take at most, whatever it sends and however little it reads:
//!
//! | | before the password | after |
//! |---|---|---|
//! | input to be run | [`UNAUTHENTICATED_INPUT_BYTES`] | `client-query-buffer-limit` |
//! | commands since MULTI | none | counted with the input |
//! | one argument | 16 KB, ten of them | `proto-max-bulk-len` |
//! | output to be read | [`UNAUTHENTICATED_OUTPUT_BYTES`] | `client-output-buffer-limit` |
//! | time | `auth_timeout` | `timeout` |
//!
//! Tests: the bad days in `compat/bad_days/scenarios/unauthenticated.py` and `buffers.py`.

use pantala_commands::Session;
use pantala_engine::engine::limits::Limited;

use crate::worker::connection::Connection;
use crate::worker::output::replicas::is_replica;

/// Unread replies that a client may leave before it has authenticated: as much as Valkey allows,
/// one reply buffer and one kilobyte.
pub const UNAUTHENTICATED_OUTPUT_BYTES: usize = 17 << 10;
/// Above this, unauthenticated input stays in the kernel. The longest command that such a client
/// may send fits.
pub const UNAUTHENTICATED_INPUT_BYTES: usize = 256 << 10;

/// What a client may be over a soft limit beyond its time: CLIENT LIST tells of a buffer as it was
/// a moment before, and who measures the time by it must not see the client closed too early.
const SOFT_GRACE_US: u64 = 10_000;

/// Whether a connection is within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is.
    Fine,
    /// It exceeds `client-query-buffer-limit`.
    TooMuchInput,
    /// It exceeds `client-output-buffer-limit`.
    TooMuchOutput,
}

/// The limits in force, applied to one connection.
pub trait Judge {
    /// The most unsent output that a connection may have, in bytes.
    fn most_unsent_bytes(&self, connection: &Connection) -> usize;

    /// Checks a connection's buffers.
    fn judge(&self, connection: &mut Connection, now_us: u64) -> Judgement;
}

impl Judge for Limited {
    #[inline]
    fn most_unsent_bytes(&self, connection: &Connection) -> usize {
        let output = &self.settings.client_output_buffer_limit;
        let class = match &connection.session {
            session if session.is_subscribed() => &output.pubsub,
            session if watches(session) => &output.replica,
            _ => &output.normal,
        };
        class.most_bytes()
    }

    #[inline]
    fn judge(&self, connection: &mut Connection, now_us: u64) -> Judgement {
        let unread = connection.input.bytes.len() - connection.input.done;
        if (unread + connection.queue_bytes()) as u64 > self.settings.client_query_buffer_limit {
            return Judgement::TooMuchInput;
        }
        if !connection.session.is_authenticated()
            && connection.unsent_bytes() > UNAUTHENTICATED_OUTPUT_BYTES
        {
            return Judgement::TooMuchOutput;
        }
        if is_replica(connection) {
            // `replicas` checks those, and counts the stream too.
            return Judgement::Fine;
        }
        let limits = &self.settings.client_output_buffer_limit;
        let mut output = limits.normal;
        if connection.session.is_subscribed() {
            output = limits.pubsub;
        } else if output.hard_bytes == 0 && output.soft_bytes == 0 {
            // A client that only watches must not fill the memory by not reading.
            if !watches(&connection.session) {
                return Judgement::Fine;
            }
            output = limits.replica;
        }
        let unsent = connection.unsent_bytes() as u64;
        if output.hard_bytes > 0 && unsent > output.hard_bytes {
            return Judgement::TooMuchOutput;
        }
        if output.soft_bytes == 0 || unsent <= output.soft_bytes {
            connection.output.over_soft_since_us = None;
            return Judgement::Fine;
        }
        let since_us = *connection.output.over_soft_since_us.get_or_insert(now_us);
        if now_us - since_us > u64::from(output.soft_s) * 1_000_000 + SOFT_GRACE_US {
            return Judgement::TooMuchOutput;
        }
        Judgement::Fine
    }
}

/// Whether a client is pushed what others do (MONITOR, tracking by broadcast), without asking each
/// time.
fn watches(session: &Session) -> bool {
    session.monitor || session.tracking.as_ref().is_some_and(|tracking| tracking.is_broadcast)
}
