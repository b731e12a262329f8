//! Inspects the content of a file without loading it.
//!
//! Each value is decoded and dropped, so damage is found that a checksum does not reveal.

use std::collections::BTreeMap;

use super::damage::RdbDamage;
use super::entry::{Content, RdbEntries};
use super::module::ModuleType;
use super::read::{FileItem, FoundSection, RdbReader, ReadOptions, Section};
use super::version::RdbVersion;
use crate::scalars::text::Text;
use crate::{RdbKind, RdbLimits};

/// The findings so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The version in the head.
    pub version: Option<RdbVersion>,
    /// Names and values about the file and the server.
    pub aux: Vec<(Vec<u8>, Vec<u8>)>,
    /// Libraries of functions.
    pub functions: u64,
    /// The databases, by number.
    pub databases: BTreeMap<u32, DatabaseSummary>,
    /// The number of values of each module type.
    pub modules: BTreeMap<ModuleType, u64>,
    /// Modules with data outside keys.
    pub module_aux: Vec<ModuleType>,
    /// Bytes that were checked and are sound.
    pub bytes: u64,
    /// The database of the next entries.
    database: u32,
}

/// The content of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseSummary {
    /// All keys.
    pub keys: u64,
    /// Keys with a deadline.
    pub with_deadline: u64,
    /// How many values have each kind.
    pub kinds: BTreeMap<RdbKind, u64>,
    /// Keys that a server skips: collections without elements.
    pub empty: u64,
}

/// Inspects a file piece by piece.
#[derive(Debug)]
pub struct Inspection {
    reader: RdbReader,
    limits: RdbLimits,
    /// The unread bytes of the pieces, from `begin` on.
    buffer: Vec<u8>,
    begin: usize,
    is_whole: bool,
    summary: Summary,
}

impl Inspection {
    /// An inspection at the start of a file.
    pub fn new(options: ReadOptions, limits: RdbLimits) -> Inspection {
        Inspection {
            reader: RdbReader::new(options),
            limits,
            buffer: Vec::new(),
            begin: 0,
            is_whole: false,
            summary: Summary::default(),
        }
    }

    /// Inspects the next piece; `is_last`: nothing follows it. Fails with the first damage, after
    /// which nothing more can be told.
    pub fn feed(&mut self, piece: &[u8], is_last: bool) -> Result<(), RdbDamage> {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        self.buffer.extend_from_slice(piece);
        while !self.is_whole {
            let next = self.reader.next(&self.buffer[self.begin..], is_last)?;
            let FileItem::Section(found) = next else { break };
            let (offset, len) = (found.offset, found.bytes.len());
            self.is_whole = matches!(found.section, Section::End);
            self.summary.note(found, &self.limits)?;
            self.begin += len;
            self.summary.bytes = offset + len as u64;
        }
        Ok(())
    }

    /// Whether the end of the file was found.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Bytes given after the end, which do not belong to the file.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.begin..]
    }

    /// The findings so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

impl Summary {
    fn note(&mut self, found: FoundSection<'_>, limits: &RdbLimits) -> Result<(), RdbDamage> {
        let bytes = |text: &Text<'_>| text.view().to_vec();
        match found.section {
            Section::Head(version) => self.version = Some(version),
            Section::Aux(name, value) => self.aux.push((bytes(&name), bytes(&value))),
            Section::Function(_) => self.functions += 1,
            Section::ModuleAux(module) => self.module_aux.push(module),
            Section::Database(number) => self.database = number,
            Section::Entry(_) => {
                let Some(version) = self.version else { return Ok(()) };
                let entries = RdbEntries::new(found.bytes, found.offset, version, limits);
                return self.note_entries(self.database, entries);
            }
            Section::Compressed(sections) => {
                let Some(version) = self.version else { return Ok(()) };
                let (mut reader, mut at) = (RdbReader::within(version, found.offset), 0);
                while let FileItem::Section(found) = reader.next(&sections[at..], true)?
                    && !matches!(found.section, Section::End)
                {
                    at += found.bytes.len();
                    self.note(found, limits)?;
                }
            }
            Section::Sizes(_) | Section::Slots | Section::End => {}
        }
        Ok(())
    }

    fn note_entries(&mut self, number: u32, entries: RdbEntries<'_, '_>) -> Result<(), RdbDamage> {
        let database = self.databases.entry(number).or_default();
        for entry in entries {
            let entry = entry?;
            database.keys += 1;
            database.with_deadline += u64::from(entry.deadline.is_some());
            *database.kinds.entry(entry.kind).or_default() += 1;
            match entry.content {
                Content::Module(module) => *self.modules.entry(module).or_default() += 1,
                Content::Nothing => database.empty += 1,
                Content::Value(_) => {}
            }
        }
        Ok(())
    }
}
