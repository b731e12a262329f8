//! The log: lines of text to standard output or a file.

use std::fs::OpenOptions;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use pantala_settings::Settings;
use pantala_settings::field::LogLevel;
use tracing::Level;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::dynamic_filter_fn;
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
        let lines = lines.with_filter(wanted);
        let _first_stays = set_global_default(tracing_subscriber::registry().with(lines));
    } else {
        let file = OpenOptions::new().create(true).append(true).open(&settings.logfile);
        let file =
            file.map_err(|error| format!("cannot write the log to {}: {error}", settings.logfile))?;
        let lines = lines.with_writer(Mutex::new(file)).with_filter(wanted);
        let _first_stays = set_global_default(tracing_subscriber::registry().with(lines));
    }
    Ok(())
}
