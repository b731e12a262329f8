//! The sinks of log lines: standard output or a file, the system log, systemd's journal.
//!
//! A file that was moved away or removed is created again with the next line, as in Redis and
//! Valkey, so logrotate need not tell the server (SIGHUP writes such a line). Lines that cannot be
//! written are lost. The system log and the journal are connected again each time, and never waited
//! for.
//!
//! Tests: at the foot.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use pantala_settings::field::Facility;
use parking_lot::Mutex;
use tracing::Level;

use super::line::Event;

/// The socket of the system log.
pub const SYSLOG: &str = "/dev/log";
/// The socket of systemd's journal.
pub const JOURNAL: &str = "/run/systemd/journal/socket";

/// A log file.
pub struct LogFile {
    path: PathBuf,
    open: Mutex<(File, Option<Identity>)>,
}

/// Device and inode: the identity of a file, whatever its name.
type Identity = (u64, u64);

fn identity(of: &Metadata) -> Identity {
    (of.dev(), of.ino())
}

impl LogFile {
    /// Opens it for appending.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &str) -> io::Result<LogFile> {
        // Independent of later changes of the working directory.
        let path = std::path::absolute(path)?;
        let open = Mutex::new(Self::open_at(&path)?);
        Ok(LogFile { path, open })
    }

    fn open_at(path: &PathBuf) -> io::Result<(File, Option<Identity>)> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let found = file.metadata().ok().as_ref().map(identity);
        Ok((file, found))
    }

    /// Writes a line.
    pub fn write(&self, line: &[u8]) {
        let mut open = self.open.lock();
        let there = std::fs::metadata(&self.path).ok().as_ref().map(identity);
        if there != open.1
            && let Ok(anew) = Self::open_at(&self.path)
        {
            *open = anew;
        }
        let _lost = open.0.write_all(line);
    }
}

/// A socket of the system that takes datagrams.
pub struct Datagrams {
    path: PathBuf,
    socket: Mutex<Option<UnixDatagram>>,
}

impl Datagrams {
    /// To this socket, which need not exist yet.
    pub fn to(path: impl Into<PathBuf>) -> Datagrams {
        Datagrams { path: path.into(), socket: Mutex::new(None) }
    }

    /// Sends a datagram; whether it was accepted.
    pub fn send(&self, bytes: &[u8]) -> bool {
        let mut socket = self.socket.lock();
        if let Some(open) = &*socket {
            match open.send(bytes) {
                Ok(_) => return true,
                // The reader is slow: that is no reason to wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(_) => {}
            }
        }
        *socket = self.connect().ok();
        socket.as_ref().is_some_and(|open| open.send(bytes).is_ok())
    }

    fn connect(&self) -> io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect(&self.path)?;
        Ok(socket)
    }
}

/// An event in the system log's format (RFC 3164, as `syslog` libraries write it).
pub fn syslog_message(event: &Event, facility: Facility, ident: &str) -> String {
    let facility = match facility {
        Facility::User => 1,
        Facility::Local0 => 16,
        Facility::Local1 => 17,
        Facility::Local2 => 18,
        Facility::Local3 => 19,
        Facility::Local4 => 20,
        Facility::Local5 => 21,
        Facility::Local6 => 22,
        Facility::Local7 => 23,
    };
    let (number, time) = (facility * 8 + priority(event.level), event.syslog_time());
    let (pid, text) = (std::process::id(), event.told.text());
    format!("<{number}>{time} {ident}[{pid}]: {text}")
}

/// An event in the journal's format: a line for each field. No value contains a line end.
pub fn journal_message(event: &Event, ident: &str) -> String {
    let (priority, message) = (priority(event.level), event.told.message());
    let mut text = format!("MESSAGE={message}\nPRIORITY={priority}\nSYSLOG_IDENTIFIER={ident}\n");
    for (name, value) in event.told.fields() {
        let name: String = name
            .chars()
            .map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_uppercase() } else { '_' })
            .collect();
        text += &format!("PANTALA_{name}={value}\n");
    }
    text
}

/// The priority of a level in the system log.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 5,
        Level::DEBUG => 6,
        Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::line::LineWords;
    use super::*;

    /// A directory for one test.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let name = format!("pantala-log-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("a directory for the test");
            Place(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _left = fs::remove_dir_all(&self.0);
        }
    }

    fn event(level: Level) -> Event {
        Event { level, unix_us: 1_795_268_223_123_456, offset_s: 0, told: LineWords::default() }
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let place = Place::new("rotation");
        let (path, moved) = (place.0.join("log"), place.0.join("log.1"));
        let log = LogFile::open(&path.to_string_lossy()).expect("opens");
        log.write(b"one\n");
        fs::rename(&path, &moved).expect("moves");
        log.write(b"two\n");
        log.write(b"three\n");
        let read = |path| fs::read_to_string(path).expect("it is there");
        assert_eq!((read(&moved), read(&path)), ("one\n".into(), "two\nthree\n".into()));
        // Where nothing can be made the old file is written on.
        fs::remove_file(&path).expect("removes");
        fs::create_dir(&path).expect("makes");
        log.write(b"four\n");
        fs::remove_dir(&path).expect("removes");
        log.write(b"five\n");
        assert_eq!(read(&path), "five\n");
    }

    #[test]
    fn a_socket_may_come_later_and_again() {
        let place = Place::new("socket");
        let path = place.0.join("log");
        let sent = Datagrams::to(&path);
        assert!(!sent.send(b"nobody hears"));
        for text in ["one", "two"] {
            let socket = UnixDatagram::bind(&path).expect("binds");
            assert!(sent.send(text.as_bytes()));
            let mut bytes = [0; 8];
            let count = socket.recv(&mut bytes).expect("receives");
            assert_eq!(&bytes[..count], text.as_bytes());
            drop(socket);
            fs::remove_file(&path).expect("removes");
        }
    }

    #[test]
    fn a_slow_reader_is_not_waited_for() {
        let place = Place::new("slow");
        let path = place.0.join("log");
        let socket = UnixDatagram::bind(&path).expect("binds");
        let sent = Datagrams::to(&path);
        let taken = (0..100_000).take_while(|_| sent.send(b"nobody reads")).count();
        assert!(taken < 100_000, "its queue is full at some time");
        drop(socket);
    }

    #[test]
    fn the_system_logs_have_forms_of_their_own() {
        let pid = std::process::id();
        let syslog = syslog_message(&event(Level::WARN), Facility::Local3, "me");
        assert_eq!(syslog, format!("<156>Nov 21 13:37:03 me[{pid}]: "));
        let syslog = syslog_message(&event(Level::TRACE), Facility::User, "me");
        assert!(syslog.starts_with("<15>"), "{syslog}");
        let journal = journal_message(&event(Level::INFO), "me");
        assert_eq!(journal, "MESSAGE=\nPRIORITY=5\nSYSLOG_IDENTIFIER=me\n");
    }
}
