//! A connection as a line of CLIENT LIST.

use pantala_commands::Command;
use pantala_commands::client_line::{self, Meters};

use crate::worker::connection::{Connection, ParkReason};

/// The line, without its end.
pub fn describe(connection: &Connection, rows: &[&'static Command], now_us: u64) -> String {
    let row = connection.counts.last_command.and_then(|number| rows.get(usize::from(number)));
    let command = row.map_or_else(|| "NULL".into(), |row| row.full_name());
    client_line::line(&connection.session, &meters(connection), &command, now_us, usize::MAX)
}

/// The fields of the line that the session does not know.
pub fn meters(connection: &Connection) -> Meters {
    let Connection { input, output, counts, .. } = connection;
    Meters {
        descriptor: connection.token.index,
        active_us: counts.active_us,
        waits: waits(connection),
        input_bytes: input.bytes.len() - input.done,
        input_room: input.bytes.capacity() - input.bytes.len(),
        queue_bytes: connection.queue_bytes(),
        output_bytes: output.bytes.len(),
        output_capacity: output.bytes.capacity(),
        unsent_bytes: connection.unsent_bytes(),
        memory_bytes: connection.memory_bytes(),
        received_bytes: counts.received_bytes,
        sent_bytes: counts.sent_bytes,
        commands: counts.commands,
    }
}

/// Whether the connection counts as blocked.
pub fn waits(connection: &Connection) -> bool {
    let waiting = connection.waits.parked.map(|parked| parked.waiting);
    matches!(waiting, Some(ParkReason::Pause | ParkReason::Keys))
}
