//! The log: lines of text to standard output or a file and, if configured, to the system log and to
//! systemd's journal.
//!
//! | file | what |
//! |---|---|
//! | here | what is logged, and to which sinks |
//! | `line` | the format of a line |
//! | `sinks` | the sinks |
//!
//! No secret is logged: input of a client is shown only where it is no command.
//!
//! Tests: in `line` and `sinks`; the bad days `control_characters`, `log_rotation`.

mod line;
mod sinks;

use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};

use pantala_base::clock::unix_us;
use pantala_base::os::local_offset_s;
use pantala_settings::Settings;
use pantala_settings::field::{Facility, LogFormat, LogLevel, LogTimes};
use tracing::subscriber::set_global_default;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use line::{Event, LineWords};
use sinks::{Datagrams, JOURNAL, LogFile, SYSLOG, journal_message, syslog_message};

/// The level of detail that is logged (0: none, 1: errors, ... 5: everything).
static DETAIL: AtomicU8 = AtomicU8::new(0);
/// The formats of lines and times, as [`LogFormat`] and [`LogTimes`] number them.
static FORMAT: AtomicU8 = AtomicU8::new(LogFormat::Legacy as u8);
static TIMES: AtomicU8 = AtomicU8::new(LogTimes::Legacy as u8);

fn detail_of(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// Applies the settings, at the start and at CONFIG SET.
pub fn apply(settings: &Settings) {
    let detail = match settings.loglevel {
        LogLevel::Nothing => 0,
        LogLevel::Warning => 2,
        LogLevel::Notice => 3,
        LogLevel::Verbose => 4,
        LogLevel::Debug => 5,
    };
    FORMAT.store(settings.log_format as u8, Ordering::Relaxed);
    TIMES.store(settings.log_timestamp_format as u8, Ordering::Relaxed);
    DETAIL.store(detail, Ordering::Relaxed);
}

fn format() -> LogFormat {
    match FORMAT.load(Ordering::Relaxed) {
        1 => LogFormat::Logfmt,
        2 => LogFormat::Json,
        _ => LogFormat::Legacy,
    }
}

fn times() -> LogTimes {
    match TIMES.load(Ordering::Relaxed) {
        1 => LogTimes::Iso8601,
        2 => LogTimes::Milliseconds,
        _ => LogTimes::Legacy,
    }
}

/// Begins logging as the settings say.
///
/// # Errors
/// The file cannot be opened.
pub fn begin(settings: &Settings) -> Result<(), String> {
    apply(settings);
    let sinks = Sinks::open(settings)?;
    let wanted =
        dynamic_filter_fn(|line, _| detail_of(line.level()) <= DETAIL.load(Ordering::Relaxed));
    // A second call in one process (tests) keeps the first log.
    let _first_stays =
        set_global_default(tracing_subscriber::registry().with(sinks.with_filter(wanted)));
    let sockets = [(settings.syslog_enabled, SYSLOG), (settings.journald_enabled, JOURNAL)];
    for (_, path) in sockets.iter().filter(|(is_wanted, path)| *is_wanted && !exists(path)) {
        tracing::warn!("no program listens at {path}: log lines go there as soon as one does");
    }
    Ok(())
}

fn exists(path: &str) -> bool {
    std::path::Path::new(path).exists()
}

/// The sinks of log lines.
struct Sinks {
    /// `None`: standard output.
    file: Option<LogFile>,
    syslog: Option<(Datagrams, Facility)>,
    journal: Option<Datagrams>,
    ident: String,
}

impl Sinks {
    fn open(settings: &Settings) -> Result<Sinks, String> {
        let path = &settings.logfile;
        let file = match path.is_empty() {
            true => None,
            false => Some(
                LogFile::open(path)
                    .map_err(|error| format!("cannot write the log to {path}: {error}"))?,
            ),
        };
        let syslog = || (Datagrams::to(SYSLOG), settings.syslog_facility);
        Ok(Sinks {
            file,
            syslog: settings.syslog_enabled.then(syslog),
            journal: settings.journald_enabled.then(|| Datagrams::to(JOURNAL)),
            ident: settings.syslog_ident.clone(),
        })
    }

    fn tell(&self, event: &Event) {
        let line = event.line(format(), times());
        match &self.file {
            Some(file) => file.write(line.as_bytes()),
            None => {
                let mut output = io::stdout().lock();
                let _nobody_reads = output.write_all(line.as_bytes()).and_then(|()| output.flush());
            }
        }
        if let Some((syslog, facility)) = &self.syslog {
            syslog.send(syslog_message(event, *facility, &self.ident).as_bytes());
        }
        if let Some(journal) = &self.journal {
            journal.send(journal_message(event, &self.ident).as_bytes());
        }
    }
}

impl<S: Subscriber> Layer<S> for Sinks {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let unix_us = unix_us();
        let offset_s = local_offset_s(unix_us.div_euclid(1_000_000));
        let (level, told) = (*event.metadata().level(), LineWords::of(event));
        self.tell(&Event { level, unix_us, offset_s, told });
    }
}
