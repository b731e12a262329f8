//! What the settings allow a connection.

use pantala_commands::Session;
use pantala_engine::limits::Limited;

use super::connection::Connection;

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

/// What [`Limited`] says of one connection.
pub trait Judge {
    /// How much unsent output a connection may have.
    fn most_unsent_bytes(&self, connection: &Connection) -> usize;

    /// Looks at a connection's buffers.
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
        let unread = (connection.input.bytes.len() - connection.input.done) as u64;
        if unread > self.settings.client_query_buffer_limit {
            return Judgement::TooMuchInput;
        }
        let limits = &self.settings.client_output_buffer_limit;
        let mut output = limits.normal;
        if connection.session.is_subscribed() {
            output = limits.pubsub;
        } else if output.hard_bytes == 0 && output.soft_bytes == 0 {
            // One who only watches must not fill the memory if he does not look.
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
