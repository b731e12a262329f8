//! A snapshot target that keeps what it is given as text, and the same text of the keyspace itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use pantala_base::UnixMs;
use pantala_keyspace::snapshot::{
    SnapshotEntry, SnapshotParts, SnapshotPiece, SnapshotRoom, SnapshotTarget, Span,
};
use pantala_keyspace::{DbIndex, Keyspace};
use pantala_table::ValueRef;
use pantala_values::Object;
use parking_lot::Mutex;

use super::with;

/// No field has expired at this moment.
const BEFORE_ALL: UnixMs = UnixMs(i64::MIN);

/// Keys by database and name, each with all its properties.
pub type Contents = BTreeMap<(u32, String), String>;

/// `key deadline sticky value`, a line each. A value has no spaces.
#[derive(Default)]
pub struct Recording {
    taken: Mutex<Taken>,
    room: AtomicU8,
    parts_room: AtomicU8,
}

#[derive(Default)]
struct Taken {
    pieces: Vec<(DbIndex, Vec<u8>, u64)>,
    open: Option<(DbIndex, Vec<u8>)>,
    streamed: usize,
}

impl Recording {
    pub fn set_room(&self, room: SnapshotRoom) {
        self.room.store(room as u8, Ordering::Relaxed);
    }

    pub fn set_room_for_parts(&self, has_room: bool) {
        self.parts_room.store(u8::from(!has_room), Ordering::Relaxed);
    }

    /// The number of values that came in several pieces.
    pub fn streamed(&self) -> usize {
        self.taken.lock().streamed
    }

    /// All keys it was given; each must come once.
    pub fn contents(&self) -> Contents {
        let taken = self.taken.lock();
        assert!(taken.open.is_none(), "a value without its end");
        let mut contents = Contents::new();
        for (db, bytes, keys) in &taken.pieces {
            let text = std::str::from_utf8(bytes).expect("it is text");
            assert_eq!(text.lines().count() as u64, *keys, "keys of a piece");
            for line in text.lines() {
                let (key, rest) = line.split_once(' ').expect("a key and the rest");
                let before = contents.insert((db.0, key.to_owned()), sorted(rest));
                assert!(before.is_none(), "{key} was written twice");
            }
        }
        contents
    }
}

/// Sorts the fields of a line, as their order does not count.
fn sorted(line: &str) -> String {
    let (head, value) = line.rsplit_once(' ').expect("a value");
    let mut fields: Vec<&str> = value.split(';').collect();
    fields.sort_unstable();
    format!("{head} {}", fields.join(";"))
}

fn head(entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) {
    let mut text = String::from_utf8(entry.key.to_vec()).expect("keys here are text");
    let deadline = entry.deadline.map(|deadline| deadline.0);
    write!(text, " {deadline:?},{} ", entry.sticky).expect("a string takes all");
    out.extend_from_slice(text.as_bytes());
}

/// Writes a part of a value; returns where to continue.
fn write_part(
    value: &ValueRef<'_, Object>,
    from: usize,
    most: usize,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let end = out.len() + most;
    match value {
        ValueRef::Str(text) => {
            let text = text.to_vec();
            let to = text.len().min(from + most);
            out.extend_from_slice(&text[from..to]);
            (to < text.len()).then_some(to)
        }
        ValueRef::Object(Object::Hash(hash)) => {
            let view = hash.view();
            view.part(from, BEFORE_ALL, |field, value| {
                let field = field.to_vec();
                let deadline = view.get(&field, BEFORE_ALL).and_then(|found| found.deadline);
                out.extend_from_slice(&field);
                out.push(b'=');
                out.extend_from_slice(&value.to_vec());
                if let Some(UnixMs(deadline)) = deadline {
                    out.extend_from_slice(format!("@{deadline}").as_bytes());
                }
                out.push(b';');
                out.len() < end
            })
        }
        ValueRef::Object(_) => unreachable!("values here are strings and hashes"),
    }
}

struct Parts(usize);

impl SnapshotParts for Parts {
    fn go_on(
        &mut self,
        value: &ValueRef<'_, Object>,
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let next = write_part(value, self.0, most_bytes, out);
        self.0 = next.unwrap_or_default();
        if next.is_none() {
            out.push(b'\n');
        }
        next.is_none()
    }
}

impl SnapshotTarget for Recording {
    fn write(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) {
        head(entry, out);
        let mut parts = Parts(0);
        while !parts.go_on(&entry.value, usize::MAX / 2, out) {}
    }

    fn begin(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) -> Box<dyn SnapshotParts> {
        head(entry, out);
        Box::new(Parts(0))
    }

    fn take(&self, piece: SnapshotPiece) {
        let mut taken = self.taken.lock();
        let SnapshotPiece { db, bytes, keys, span, .. } = piece;
        match span {
            Span::Whole => taken.pieces.push((db, bytes, keys)),
            Span::First => {
                taken.streamed += 1;
                assert!(taken.open.replace((db, bytes)).is_none(), "two at a time");
            }
            Span::Middle => {
                let (of, open) = taken.open.as_mut().expect("its beginning");
                assert_eq!(*of, db);
                open.extend(bytes);
            }
            Span::Last => {
                let (of, mut open) = taken.open.take().expect("its beginning");
                assert_eq!(of, db);
                open.extend(bytes);
                taken.pieces.push((db, open, keys));
            }
        }
    }

    fn room(&self) -> SnapshotRoom {
        match self.room.load(Ordering::Relaxed) {
            0 => SnapshotRoom::Free,
            1 => SnapshotRoom::Full,
            _ => SnapshotRoom::Overfull,
        }
    }

    fn has_room_for_parts(&self) -> bool {
        self.parts_room.load(Ordering::Relaxed) == 0
    }
}

/// All data, including expired keys and elements.
pub fn contents(space: &Keyspace) -> Contents {
    let mut contents = Contents::new();
    for db in (0..space.database_count()).map(DbIndex) {
        with(space, db, |locked| {
            locked.each_table(&mut |table| {
                table.for_each(&mut |place| {
                    let entry = SnapshotEntry {
                        key: table.key(place),
                        value: table.value(place),
                        deadline: table.deadline(place),
                        sticky: table.sticky(place),
                        flags: table.tail(place).flags,
                    };
                    let mut line = Vec::new();
                    Recording::default().write(&entry, &mut line);
                    let line = String::from_utf8(line).expect("it is text");
                    let (key, rest) = line.trim_end().split_once(' ').expect("a key and the rest");
                    contents.insert((db.0, key.to_owned()), sorted(rest));
                });
            })
        })
        .expect("nobody gives up");
    }
    contents
}

/// A new recording, to be shared with a snapshot.
pub fn recording() -> Arc<Recording> {
    Arc::default()
}
