//! An event as one line, in the form that `log-format` and `log-timestamp-format` say.
//!
//! ```text
//! legacy   4711:M 23 Nov 2026 05:17:03.123 * Ready to accept connections port=6379
//! logfmt   pid=4711 role=primary timestamp="..." level=notice message="Ready to ..." port=6379
//! json     {"timestamp":"...","level":"notice","pid":4711,"message":"Ready to ...","port":6379}
//! ```
//!
//! Legacy marks the level: `.` debug, `-` verbose, `*` notice, `#` warning; an error says so
//! itself.
//!
//! Invariants
//! 1. A line has no control character except its end, whatever a client or a script has put into
//!    the event: no line can be forged, and no operator's terminal controlled.
//!
//! Tests: at the foot.

use std::fmt::{Debug, Write};

use chrono::DateTime;
use pantala_settings::field::{LogFormat, LogTimes};
use tracing::Level;
use tracing::field::{Field, Visit};

/// An event to be logged.
pub struct Event {
    pub level: Level,
    /// When it happened (Unix, microseconds).
    pub unix_us: i64,
    /// How far local time is ahead of UTC, in seconds.
    pub offset_s: i64,
    pub told: LineWords,
}

/// The message and fields of an event.
#[derive(Default)]
pub struct LineWords {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

enum Value {
    Text(String),
    /// A number or a boolean.
    Bare(String),
}

impl Value {
    fn text(&self) -> &str {
        match self {
            Value::Text(text) | Value::Bare(text) => text,
        }
    }
}

impl LineWords {
    pub fn of(event: &tracing::Event<'_>) -> LineWords {
        let mut told = LineWords::default();
        event.record(&mut told);
        told
    }

    fn add(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => value.text().clone_into(&mut self.message),
            name => self.fields.push((name, value)),
        }
    }

    /// The message and the fields after it.
    pub fn text(&self) -> String {
        let mut text = one_line(&self.message);
        for (name, value) in &self.fields {
            // Writing to a string cannot fail.
            let _ = write!(text, " {name}={}", logfmt(value.text()));
        }
        text
    }

    pub fn message(&self) -> String {
        one_line(&self.message)
    }

    /// Names and values of the fields, each value in one line.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.fields.iter().map(|(name, value)| (*name, one_line(value.text())))
    }
}

impl Visit for LineWords {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Bare(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Bare(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Bare(value.to_string()));
    }
}

impl Event {
    /// The formatted line, with its end.
    pub fn line(&self, format: LogFormat, times: LogTimes) -> String {
        let (pid, time) = (std::process::id(), self.time(times));
        let level = level_name(self.level);
        match format {
            LogFormat::Legacy => {
                let error = if self.level == Level::ERROR { "ERROR: " } else { "" };
                format!("{pid}:M {time} {} {error}{}\n", mark(self.level), self.told.text())
            }
            LogFormat::Logfmt => {
                let message = quoted(&self.told.message);
                let mut line = format!(
                    "pid={pid} role=primary timestamp=\"{time}\" level={level} message={message}"
                );
                for (name, value) in &self.told.fields {
                    let _ = write!(line, " {name}={}", logfmt(value.text()));
                }
                line.push('\n');
                line
            }
            LogFormat::Json => {
                let (time, message) = (json(&time), json(&self.told.message));
                let mut line = format!(
                    "{{\"timestamp\":{time},\"level\":\"{level}\",\"pid\":{pid},\
                     \"message\":{message}"
                );
                for (name, value) in &self.told.fields {
                    let _ = match value {
                        Value::Text(text) => write!(line, ",{}:{}", json(name), json(text)),
                        Value::Bare(text) => write!(line, ",{}:{text}", json(name)),
                    };
                }
                line.push_str("}\n");
                line
            }
        }
    }

    /// The time in this format.
    pub fn time(&self, times: LogTimes) -> String {
        let local_us = self.unix_us.saturating_add(self.offset_s * 1_000_000);
        let local = DateTime::from_timestamp_micros(local_us).unwrap_or_default();
        let (sign, minutes) = (if self.offset_s < 0 { '-' } else { '+' }, self.offset_s.abs() / 60);
        match times {
            LogTimes::Legacy => local.format("%d %b %Y %H:%M:%S%.3f").to_string(),
            LogTimes::Milliseconds => self.unix_us.div_euclid(1000).to_string(),
            LogTimes::Iso8601 => {
                let (hours, minutes) = (minutes / 60, minutes % 60);
                format!("{}{sign}{hours:02}:{minutes:02}", local.format("%Y-%m-%dT%H:%M:%S%.3f"))
            }
        }
    }

    /// The time in the system log's format.
    pub fn syslog_time(&self) -> String {
        let local_us = self.unix_us.saturating_add(self.offset_s * 1_000_000);
        let local = DateTime::from_timestamp_micros(local_us).unwrap_or_default();
        local.format("%b %e %H:%M:%S").to_string()
    }
}

/// The levels in the words of Redis and Valkey.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "notice",
        Level::DEBUG => "verbose",
        Level::TRACE => "debug",
    }
}

fn mark(level: Level) -> char {
    match level {
        Level::ERROR | Level::WARN => '#',
        Level::INFO => '*',
        Level::DEBUG => '-',
        Level::TRACE => '.',
    }
}

/// The text without control characters.
fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// Without control characters, and with a backslash before the characters that `is_marked` selects.
fn escaped(text: &str, is_marked: impl Fn(char) -> bool) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() {
            line.extend(char.escape_default());
        } else {
            line.extend(is_marked(char).then_some('\\'));
            line.push(char);
        }
    }
    line
}

/// A value in logfmt, quoted if necessary.
fn logfmt(text: &str) -> String {
    let is_plain = |char: char| !char.is_whitespace() && !"\"=\\".contains(char);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => one_line(text),
        false => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text, |char| char == '"' || char == '\\'))
}

/// A string of JSON.
fn json(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 2);
    line.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => line.extend(['\\', char]),
            // Control characters are all below U+10000.
            _ if char.is_control() => drop(write!(line, "\\u{:04x}", u32::from(char))),
            _ => line.push(char),
        }
    }
    line.push('"');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(level: Level, message: &str, fields: Vec<(&'static str, Value)>) -> Event {
        let told = LineWords { message: message.to_owned(), fields };
        Event { level, unix_us: 1_795_268_223_123_456, offset_s: 0, told }
    }

    fn text(value: &str) -> Value {
        Value::Text(value.to_owned())
    }

    fn line_of(event: &Event, format: LogFormat) -> String {
        event.line(format, LogTimes::Legacy).replace(&std::process::id().to_string(), "PID")
    }

    #[test]
    fn an_event_has_three_forms() {
        let fields = vec![("port", Value::Bare("6379".into())), ("engine", text("io_uring, new"))];
        let event = event(Level::WARN, "so \"it\" is", fields);
        assert_eq!(
            line_of(&event, LogFormat::Legacy),
            "PID:M 21 Nov 2026 13:37:03.123 # so \"it\" is port=6379 engine=\"io_uring, new\"\n"
        );
        assert_eq!(
            line_of(&event, LogFormat::Logfmt),
            "pid=PID role=primary timestamp=\"21 Nov 2026 13:37:03.123\" level=warning \
             message=\"so \\\"it\\\" is\" port=6379 engine=\"io_uring, new\"\n"
        );
        assert_eq!(
            line_of(&event, LogFormat::Json),
            "{\"timestamp\":\"21 Nov 2026 13:37:03.123\",\"level\":\"warning\",\"pid\":PID,\
             \"message\":\"so \\\"it\\\" is\",\"port\":6379,\"engine\":\"io_uring, new\"}\n"
        );
    }

    #[test]
    fn an_event_is_one_line() {
        let bad = "a\r\nb\0\u{1b}[2J\u{7f}\u{9b}\u{e9} \\n";
        let event = event(Level::ERROR, bad, vec![("why", text(bad)), ("none", text(""))]);
        for format in [LogFormat::Legacy, LogFormat::Logfmt, LogFormat::Json] {
            let line = line_of(&event, format);
            let rest = line.strip_suffix('\n').expect("it ends");
            assert!(!rest.chars().any(char::is_control), "{rest:?}");
            assert!(rest.contains('\u{e9}') && rest.contains("[2J"), "{rest}");
        }
        let legacy = line_of(&event, LogFormat::Legacy);
        assert!(legacy.contains(" # ERROR: a\\r\\nb\\u{0}\\u{1b}[2J"), "{legacy}");
        assert!(legacy.ends_with(" none=\"\"\n"), "{legacy}");
        let json = event.line(LogFormat::Json, LogTimes::Milliseconds);
        let value: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!((value["message"].as_str(), value["why"].as_str()), (Some(bad), Some(bad)));
    }

    #[test]
    fn a_time_has_three_forms() {
        let mut event = event(Level::INFO, "", Vec::new());
        event.offset_s = -(5 * 3600 + 30 * 60);
        assert_eq!(event.time(LogTimes::Legacy), "21 Nov 2026 08:07:03.123");
        assert_eq!(event.time(LogTimes::Iso8601), "2026-11-21T08:07:03.123-05:30");
        assert_eq!(event.time(LogTimes::Milliseconds), "1795268223123");
        assert_eq!(event.syslog_time(), "Nov 21 08:07:03");
    }
}
