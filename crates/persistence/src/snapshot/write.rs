//! Writing a file from the queue: head, what is told about it, functions, keys, end.
//!
//! Tests: at the foot, on the simulated disk.

use std::fmt;
use std::io;
use std::path::PathBuf;

use pantala_keyspace::DbIndex;
use pantala_keyspace::snapshot::Piece;
use pantala_rdb::Strings;
use pantala_rdb::file::{OLDEST_WRITTEN, Sizes, Writer};

use super::queue::{Next, Queue};
use crate::disk::{Disk, DiskFile, directory_of};

/// So much is written between two syncs, so that the last one does not take long.
const SYNC_BYTES: u64 = 32 << 20;
/// Small sections are gathered up to so much before they are written.
const GATHERED_BYTES: usize = 64 << 10;

/// What stands before the keys.
#[derive(Debug, Default)]
pub struct Facts {
    /// About the file and the server: names and values.
    pub aux: Vec<(&'static str, String)>,
    /// The code of libraries.
    pub functions: Vec<Vec<u8>>,
    /// How many keys a database has, by its number.
    pub sizes: Vec<(DbIndex, Sizes)>,
}

/// How a file is written, and where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it is called in the end.
    pub path: PathBuf,
    /// What it is called until then; in the same directory.
    pub temporary: PathBuf,
    /// How strings are written.
    pub strings: Strings,
    /// Whether it ends with a checksum.
    pub has_checksum: bool,
    /// Whether it is synced in steps.
    pub syncs_in_steps: bool,
}

/// Why there is no file.
#[derive(Debug)]
pub enum Fault {
    /// The disk, at this act.
    Disk(&'static str, PathBuf, io::Error),
    /// It was called off.
    CalledOff,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Disk(act, path, error) => write!(f, "cannot {act} {}: {error}", path.display()),
            Fault::CalledOff => f.write_str("it was called off"),
        }
    }
}

impl std::error::Error for Fault {}

/// Writes a file of what comes out of the queue, and puts it in its place; its bytes. Whoever puts
/// in is told (`room`) when there is room again. `version` tells, when all has come, which version
/// that needs.
///
/// # Errors
/// There is no new file, no temporary one either, and nothing more comes out of the queue.
pub fn write(
    disk: &dyn Disk,
    plan: &Plan,
    facts: &Facts,
    queue: &Queue,
    version: &dyn Fn() -> u16,
    room: &dyn Fn(),
) -> Result<u64, Fault> {
    let written = write_temporary(disk, plan, facts, queue, version, room).and_then(|bytes| {
        let (from, to) = (&plan.temporary, &plan.path);
        disk.rename(from, to).map_err(|error| Fault::Disk("rename", from.clone(), error))?;
        let directory = directory_of(to);
        let synced = disk.sync_directory(directory);
        synced.map_err(|error| Fault::Disk("sync", directory.into(), error))?;
        Ok(bytes)
    });
    if written.is_err() {
        queue.break_off();
        // It may not have been there.
        let _best_effort = disk.remove(&plan.temporary);
    }
    written
}

fn write_temporary(
    disk: &dyn Disk,
    plan: &Plan,
    facts: &Facts,
    queue: &Queue,
    version: &dyn Fn() -> u16,
    room: &dyn Fn(),
) -> Result<u64, Fault> {
    let at = |act| move |error| Fault::Disk(act, plan.temporary.clone(), error);
    let file = disk.create(&plan.temporary).map_err(at("create"))?;
    let mut out = Vec::new();
    let writer = Writer::begin(OLDEST_WRITTEN, plan.has_checksum, &mut out);
    let mut writing = Writing { file: &*file, writer, out, facts, named: Vec::new(), unsynced: 0 };
    writing.begin(plan.strings);
    loop {
        let (next, has_more_room) = queue.next();
        if has_more_room {
            room();
        }
        match next {
            Next::Piece(piece) => writing.piece(&piece).map_err(at("write"))?,
            Next::End => break,
            Next::Broken => return Err(Fault::CalledOff),
        }
        if plan.syncs_in_steps && writing.unsynced >= SYNC_BYTES {
            writing.unsynced = 0;
            file.sync().map_err(at("sync"))?;
        }
    }
    let bytes = writing.end(version()).map_err(at("write"))?;
    file.sync().map_err(at("sync"))?;
    Ok(bytes)
}

struct Writing<'w> {
    file: &'w dyn DiskFile,
    writer: Writer,
    /// What is not in the file yet.
    out: Vec<u8>,
    facts: &'w Facts,
    /// Databases whose sizes have been written.
    named: Vec<DbIndex>,
    unsynced: u64,
}

impl Writing<'_> {
    fn begin(&mut self, strings: Strings) {
        for (name, value) in &self.facts.aux {
            self.writer.aux(name.as_bytes(), value.as_bytes(), &mut self.out);
        }
        for code in &self.facts.functions {
            self.writer.function(code, strings, &mut self.out);
        }
    }

    fn piece(&mut self, piece: &Piece) -> io::Result<()> {
        self.database(piece.db);
        self.writer.entries(&piece.bytes, OLDEST_WRITTEN);
        if piece.bytes.len() < GATHERED_BYTES {
            self.out.extend_from_slice(&piece.bytes);
            return if self.out.len() < GATHERED_BYTES { Ok(()) } else { self.flush() };
        }
        self.flush()?;
        self.append(&piece.bytes)
    }

    /// Says whose keys follow, and once how many there are.
    fn database(&mut self, db: DbIndex) {
        self.writer.database(db.0, &mut self.out);
        if self.named.contains(&db) {
            return;
        }
        self.named.push(db);
        if let Some((_, sizes)) = self.facts.sizes.iter().find(|(number, _)| *number == db) {
            self.writer.sizes(*sizes, &mut self.out);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        let flushed = self.append(&out);
        self.out = out;
        self.out.clear();
        flushed
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unsynced += bytes.len() as u64;
        self.file.append(bytes)
    }

    fn end(mut self, version: u16) -> io::Result<u64> {
        self.writer.entries(&[], version);
        let bytes = self.writer.bytes();
        let mut out = std::mem::take(&mut self.out);
        let head = self.writer.end(&mut out);
        self.file.append(&out)?;
        if let Some(head) = head {
            self.file.write_over_start(&head)?;
        }
        const END_BYTES: u64 = 9;
        Ok(bytes + END_BYTES)
    }
}
