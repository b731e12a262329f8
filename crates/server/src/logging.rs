//! The log: lines of text to standard output or a file.

use std::fs::OpenOptions;
use std::sync::Mutex;

use pantala_settings::Settings;
use pantala_settings::field::LogLevel;
use tracing::Level;

/// Begins to log as the settings say.
///
/// # Errors
/// The file cannot be opened.
pub fn begin(settings: &Settings) -> Result<(), String> {
    let level = match settings.loglevel {
        LogLevel::Debug => Some(Level::TRACE),
        LogLevel::Verbose => Some(Level::DEBUG),
        LogLevel::Notice => Some(Level::INFO),
        LogLevel::Warning => Some(Level::WARN),
        LogLevel::Nothing => None,
    };
    let Some(level) = level else { return Ok(()) };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_target(false);
    // A second call in one process (tests) keeps the first log.
    if settings.logfile.is_empty() {
        let _first_stays = builder.with_ansi(false).try_init();
    } else {
        let file =
            OpenOptions::new().create(true).append(true).open(&settings.logfile).map_err(
                |error| format!("cannot write the log to {}: {error}", settings.logfile),
            )?;
        let _first_stays = builder.with_ansi(false).with_writer(Mutex::new(file)).try_init();
    }
    Ok(())
}
