//! Uploads whose server was killed: their parts stay, and are paid for, until they are aborted.
//! Storage does not list them among files, so each has a note beside its file.
//!
//! ```text
//! temp-upload.NAME      "HOST PROCESS ID": the writer of the file NAME, and the upload's id
//! ```
//!
//! Invariants
//! 1. A note exists from before the first part until after the last.
//! 2. Uploads that may still be written are left alone: those of a live process on this host, and
//!    of another host for `LONGEST`.
//!
//! A server killed between the start of an upload and its note leaves an upload that nobody finds.
//! Tests: compat/clients/objects.py.

use std::fmt;
use std::time::Duration;

use object_store::path::Path;

/// The prefix of a note's name.
const PREFIX: &str = "temp-upload.";
/// The longest time that an upload of another host is left alone.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A process that writes files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its host.
    pub host: String,
    /// Its process id there.
    pub process: u32,
}

/// The content of a note.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub owner: Owner,
    pub id: String,
}

impl Owner {
    /// The owner that this process is: its host and its number.
    pub fn here() -> Owner {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let is_plain = |c: &char| !c.is_whitespace();
        let host = format!("-{}", host.chars().filter(is_plain).collect::<String>());
        Owner { host, process: std::process::id() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { owner: Owner { host, process }, id } = self;
        write!(out, "{host} {process} {id}")
    }
}

impl Note {
    /// Whether it is abandoned, this long after its start.
    pub fn is_left(&self, here: &Owner, age: Duration, may_live: &dyn Fn(u32) -> bool) -> bool {
        match self.owner.host == here.host {
            true => !may_live(self.owner.process),
            false => age > LONGEST,
        }
    }

    pub fn parse(text: &[u8]) -> Option<Note> {
        let mut words = std::str::from_utf8(text).ok()?.splitn(3, ' ');
        let (host, process) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        Some(Note { owner: Owner { host, process }, id: words.next()?.to_owned() })
    }
}

/// The path of the note for a file being written.
pub(crate) fn note_path(file: &Path) -> Path {
    let name = format!("{PREFIX}{}", file.filename().unwrap_or_default());
    let mut parts: Vec<_> = file.parts().map(|part| part.as_ref().to_owned()).collect();
    parts.pop();
    parts.push(name);
    Path::from_iter(parts)
}

/// The file to whose upload this note belongs.
pub(crate) fn file_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_lies_beside_its_file_and_says_who_writes() {
        let note = note_path(&Path::from("some/where/dump.rdb"));
        assert_eq!(note, Path::from("some/where/temp-upload.dump.rdb"));
        assert_eq!(note_path(&Path::from("d")), Path::from("temp-upload.d"));
        assert_eq!(file_of("temp-upload.dump.rdb"), Some("dump.rdb"));
        assert_eq!(file_of("dump.rdb"), None);
        let note = Note { owner: Owner { host: "-a".into(), process: 7 }, id: "x y".into() };
        assert_eq!(Note::parse(note.to_string().as_bytes()), Some(note));
        assert_eq!(Note::parse(b"x 7"), None);
    }

    #[test]
    fn what_somebody_may_write_is_left_alone() {
        let note = Note { owner: Owner { host: "-a".into(), process: 7 }, id: "x".into() };
        let (own, other) = (note.owner.clone(), Owner { host: "-b".into(), process: 7 });
        let is_left = |here, age, lives| note.is_left(here, age, &move |_| lives);
        assert!(is_left(&own, Duration::ZERO, false));
        assert!(!is_left(&own, LONGEST * 2, true));
        assert!(!is_left(&other, LONGEST, false));
        assert!(is_left(&other, LONGEST * 2, true));
    }
}
