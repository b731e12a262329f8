//! The log: lines of text to standard output or a file.
//!
//! An event is one line, whatever a client or a script has put into it: control characters are
//! written as escapes, so that nobody forges a line or moves an operator's terminal.
//!
//! Tests: at the foot; the bad day `control_characters`.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use pantala_settings::Settings;
use pantala_settings::field::LogLevel;
use tracing::Level;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

/// What is logged: lines of at most this detail (0: none, 1: errors, ... 5: everything).
static DETAIL: AtomicU8 = AtomicU8::new(0);

fn detail_of(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// Sets `loglevel`, at the start and by CONFIG SET.
pub fn set_level(level: LogLevel) {
    let detail = match level {
        LogLevel::Nothing => 0,
        LogLevel::Warning => 2,
        LogLevel::Notice => 3,
        LogLevel::Verbose => 4,
        LogLevel::Debug => 5,
    };
    DETAIL.store(detail, Ordering::Relaxed);
}

/// Begins to log as the settings say.
///
/// # Errors
/// The file cannot be opened.
pub fn begin(settings: &Settings) -> Result<(), String> {
    set_level(settings.loglevel);
    let wanted =
        dynamic_filter_fn(|line, _| detail_of(line.level()) <= DETAIL.load(Ordering::Relaxed));
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_ansi(false);
    // A second call in one process (tests) keeps the first log.
    if settings.logfile.is_empty() {
        let lines = lines.with_writer(Lines(io::stdout)).with_filter(wanted);
        let _first_stays = set_global_default(tracing_subscriber::registry().with(lines));
    } else {
        let file = OpenOptions::new().create(true).append(true).open(&settings.logfile);
        let file =
            file.map_err(|error| format!("cannot write the log to {}: {error}", settings.logfile))?;
        let lines = lines.with_writer(Lines(Mutex::new(file))).with_filter(wanted);
        let _first_stays = set_global_default(tracing_subscriber::registry().with(lines));
    }
    Ok(())
}

/// Where lines go, each as one.
struct Lines<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Lines<W> {
    type Writer = Line<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Line(self.0.make_writer())
    }
}

/// Takes an event with its end of line in one `write`, which is how the subscriber writes it.
struct Line<W>(W);

impl<W: Write> Write for Line<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(&in_one_line(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The event without control characters but the last.
fn in_one_line(event: &[u8]) -> Cow<'_, [u8]> {
    let (text, end) = match event {
        [text @ .., b'\n'] => (text, &b"\n"[..]),
        _ => (event, &b""[..]),
    };
    if !text.iter().any(u8::is_ascii_control) {
        return Cow::Borrowed(event);
    }
    let mut line = Vec::with_capacity(event.len() + 16);
    for byte in text {
        match byte.is_ascii_control() {
            true => line.extend(byte.escape_ascii()),
            false => line.push(*byte),
        }
    }
    line.extend_from_slice(end);
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let check = |event: &str, line: &str| {
            assert_eq!(String::from_utf8_lossy(&in_one_line(event.as_bytes())), line);
        };
        check("nothing odd: \u{e9}, \\n\n", "nothing odd: \u{e9}, \\n\n");
        check("a\r\nb\0\x1b[2J\x7f\n", "a\\r\\nb\\x00\\x1b[2J\\x7f\n");
        check("\n\n", "\\n\n");
        check("", "");
    }
}
