//! Reads a file in windows: entries are collected into batches, everything else is reported at
//! once.
//!
//! Tests: at the foot.

use std::io::Read;

use pantala_keyspace::DbIndex;
use pantala_rdb::file::{FileItem, ModuleType, RdbReader, RdbVersion, ReadOptions, Section};
use pantala_table::IntText;

use super::Fault;

/// The bytes of one read, unless an entry needs more.
const WINDOW_BYTES: usize = 1 << 20;
/// The approximate size of a batch, unless a single entry is larger.
const BATCH_BYTES: usize = 128 << 10;

/// Consecutive entries of a file.
#[derive(Debug)]
pub struct Batch {
    /// The encoded entries.
    pub bytes: Vec<u8>,
    /// The offset of the first in the file.
    pub offset: u64,
    /// Their database.
    pub db: DbIndex,
    /// The version of the file.
    pub version: RdbVersion,
}

/// A part of a file.
#[derive(Debug)]
pub enum Part {
    /// Entries.
    Batch(Batch),
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// A name and value about the file or the server.
    Aux(Vec<u8>, Vec<u8>),
    /// A module's data outside keys, at this offset of the file.
    Module(u64, ModuleType),
}

/// Reads a file to its end, passes its parts to `take` until that returns false, and returns the
/// length of the snapshot; bytes after it may have been read, too.
///
/// # Errors
/// The file is damaged, or loading was cancelled.
pub fn read_file(
    file: &mut dyn Read,
    options: ReadOptions,
    take: &mut dyn FnMut(Part) -> bool,
) -> Result<u64, Fault> {
    let mut reading = SnapshotReading {
        reader: RdbReader::new(options),
        window: Vec::new(),
        at: 0,
        run: 0,
        run_offset: 0,
        db: DbIndex(0),
        version: None,
    };
    let mut missing = WINDOW_BYTES;
    loop {
        let is_all = reading.fill(file, missing)?;
        match reading.go_through(is_all, take)? {
            Some(more) => missing = more.max(WINDOW_BYTES),
            None => return Ok(reading.reader.offset()),
        }
    }
}

struct SnapshotReading {
    reader: RdbReader,
    window: Vec<u8>,
    /// The offset of the next section in the window.
    at: usize,
    /// The start of the collected entries, in the window and in the file.
    run: usize,
    run_offset: u64,
    db: DbIndex,
    version: Option<RdbVersion>,
}

impl SnapshotReading {
    /// Drops finished bytes, and reads `missing` more; returns whether the file has ended.
    fn fill(&mut self, file: &mut dyn Read, missing: usize) -> Result<bool, Fault> {
        debug_assert_eq!(self.run, self.at, "what was found was handed over");
        self.window.drain(..self.at);
        (self.at, self.run) = (0, 0);
        let wanted = self.window.len().saturating_add(missing);
        // In steps, so that a claimed size takes no memory before the bytes have come.
        while self.window.len() < wanted {
            let step = (wanted - self.window.len()).min(WINDOW_BYTES);
            let read = file.take(step as u64).read_to_end(&mut self.window);
            if read.map_err(Fault::Disk)? < step {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Handles everything whole in the window; returns how many more bytes are needed, `None` at
    /// the end.
    fn go_through(
        &mut self,
        is_all: bool,
        take: &mut dyn FnMut(Part) -> bool,
    ) -> Result<Option<usize>, Fault> {
        loop {
            let found = match self.reader.next(&self.window[self.at..], is_all)? {
                FileItem::Section(found) => found,
                FileItem::More(bytes) => {
                    return Ok(Some(bytes)).and_then(|more| self.flush(take).map(|()| more));
                }
            };
            let (bytes, offset) = (found.bytes.len(), found.offset);
            let part = match found.section {
                Section::Entry(_) => {
                    if self.run == self.at {
                        self.run_offset = offset;
                    }
                    debug_assert!(self.at + bytes <= self.window.len(), "it was read");
                    self.at += bytes;
                    if self.at - self.run >= BATCH_BYTES {
                        self.flush(take)?;
                    }
                    continue;
                }
                Section::End => return self.flush(take).map(|()| None),
                Section::Head(version) => {
                    self.version = Some(version);
                    None
                }
                Section::Function(code) => {
                    Some(Part::Function(code.bytes(&mut IntText::new()).to_vec()))
                }
                Section::Aux(name, value) => {
                    let (mut first, mut second) = (IntText::new(), IntText::new());
                    let (name, value) = (name.bytes(&mut first), value.bytes(&mut second));
                    Some(Part::Aux(name.to_vec(), value.to_vec()))
                }
                Section::Database(number) => {
                    self.flush(take)?;
                    self.db = DbIndex(number);
                    None
                }
                Section::Compressed(window) => {
                    self.flush(take)?;
                    self.go_through_compressed(window, offset, take)?;
                    None
                }
                Section::ModuleAux(module) => Some(Part::Module(offset, module)),
                Section::Sizes(_) | Section::Slots => None,
            };
            self.flush(take)?;
            debug_assert!(self.at + bytes <= self.window.len(), "it was read");
            self.at += bytes;
            self.run = self.at;
            if part.is_some_and(|part| !take(part)) {
                return Err(Fault::CalledOff);
            }
        }
    }

    /// Handles all sections that were compressed together at this offset.
    fn go_through_compressed(
        &mut self,
        window: Vec<u8>,
        offset: u64,
        take: &mut dyn FnMut(Part) -> bool,
    ) -> Result<(), Fault> {
        let SnapshotReading { db, version, .. } = *self;
        let Some(known) = version else { return Ok(()) };
        let reader = RdbReader::within(known, offset);
        let mut within =
            SnapshotReading { reader, window, at: 0, run: 0, run_offset: offset, db, version };
        within.go_through(true, take)?;
        self.db = within.db;
        Ok(())
    }

    /// Hands over the collected entries.
    fn flush(&mut self, take: &mut dyn FnMut(Part) -> bool) -> Result<(), Fault> {
        let bytes = &self.window[self.run..self.at];
        self.run = self.at;
        let Some(version) = self.version.filter(|_| !bytes.is_empty()) else { return Ok(()) };
        let batch = Batch { bytes: bytes.to_vec(), offset: self.run_offset, db: self.db, version };
        if take(Part::Batch(batch)) { Ok(()) } else { Err(Fault::CalledOff) }
    }
}
