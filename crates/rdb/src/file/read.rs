//! Reading a file: finds its sections one after the other; entries are skipped, not decoded.
//!
//! ```text
//! loop {
//!     match reader.next(&window, is_all)? {
//!         Next::More(bytes) => /* read that many or more behind the window */
//!         Next::Section(found) => /* found.section; then drop found.bytes.len() bytes in front */
//!     }
//! }
//! ```
//!
//! Consecutive entries can be kept together and given to another thread, which decodes them with
//! [`super::RdbEntries`].
//!
//! Invariants
//! 1. A window begins where the last section ended, and has everything that the previous window had
//!    from there.
//! 2. For every division of the file into windows, the same sections and the same damage are found,
//!    except for the words about a file that ends too early.
//! 3. The checksum covers all sections so far.

use pantala_base::crc::crc64;
use pantala_table::IntText;

use super::damage::{
    DamageFinding, EXPECTED_HEAD, EXPECTED_KIND, EXPECTED_MARK, EXPECTED_VERSION, RdbDamage,
};
use super::module::ModuleType;
use super::opcode::{COMPRESSED_LZ4, COMPRESSED_ZSTD};
use super::skim::{SkimFault, SkimOutcome, Skimmer};
use super::version::RdbVersion;
use super::{HEAD_BYTES, SizeHints, dragonfly, opcode, shape};
use crate::RdbKind;
use crate::input::{Input, Malformed};
use crate::payload::Versions;
use crate::scalars::length;
use crate::scalars::text::{self, Text};

/// The options of reading a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// The accepted versions.
    pub versions: Versions,
    /// Whether the checksum is verified, if there is one.
    pub checks: bool,
    /// The size of the file, if known: a larger claim is refused at once.
    pub file_bytes: Option<u64>,
}

/// The result of a call.
#[derive(Debug)]
pub enum FileItem<'w> {
    /// A section.
    Section(FoundSection<'w>),
    /// The section is not whole in the window: at least this many bytes more are needed.
    More(usize),
}

/// A section with its bytes.
#[derive(Debug)]
pub struct FoundSection<'w> {
    /// The offset of the section in the file.
    pub offset: u64,
    /// The bytes of the section, at the start of the window.
    pub bytes: &'w [u8],
    /// The parsed section.
    pub section: Section<'w>,
}

/// A section of a file.
#[derive(Debug)]
pub enum Section<'w> {
    /// The magic and the version.
    Head(RdbVersion),
    /// A name and value about the file or the server.
    Aux(Text<'w>, Text<'w>),
    /// The code of a library of functions.
    Function(Text<'w>),
    /// Entries of this database follow.
    Database(u32),
    /// About how many keys it has.
    Sizes(SizeHints),
    /// A module's data outside keys.
    ModuleAux(ModuleType),
    /// Data about slots of a cluster.
    Slots,
    /// Decompressed sections, to be read with [`RdbReader::within`].
    Compressed(Vec<u8>),
    /// An entry, to be read with [`super::RdbEntries`].
    Entry(RdbKind),
    /// The end. Bytes after it in the window do not belong to the file.
    End,
}

/// Finds the sections of a file in windows of its bytes.
#[derive(Debug)]
pub struct RdbReader {
    options: ReadOptions,
    version: Option<RdbVersion>,
    /// Where the current section begins.
    offset: u64,
    checksum: u64,
    skimmer: Skimmer,
    /// The opcode of the section, or the kind of its value, once found.
    mark: Option<u8>,
    has_prefix: bool,
    /// Whether it reads compressed sections, without head and end.
    is_within: bool,
}

impl RdbReader {
    /// A reader at the start of a file.
    pub fn new(options: ReadOptions) -> RdbReader {
        RdbReader {
            options,
            version: None,
            offset: 0,
            checksum: 0,
            skimmer: Skimmer::default(),
            mark: None,
            has_prefix: false,
            is_within: false,
        }
    }

    /// A reader for sections that were compressed together at this offset. Offsets count their
    /// bytes from there. The window must hold all of them.
    pub fn within(version: RdbVersion, offset: u64) -> RdbReader {
        let options = ReadOptions { versions: Versions::Known, checks: false, file_bytes: None };
        RdbReader { version: Some(version), offset, is_within: true, ..RdbReader::new(options) }
    }

    /// The offset of the next section.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Finds the next section. `is_all`: the file ends with the window.
    pub fn next<'w>(&mut self, window: &'w [u8], is_all: bool) -> Result<FileItem<'w>, RdbDamage> {
        let Some(version) = self.version else { return self.head(window, is_all) };
        let most = match self.options.file_bytes {
            _ if is_all => window.len() as u64,
            Some(bytes) => bytes.saturating_sub(self.offset),
            None => u64::MAX,
        };
        loop {
            let skimmed = self.skimmer.go_on(window, most);
            match skimmed.map_err(|fault| self.damage(fault))? {
                SkimOutcome::Part => return self.more(window, is_all),
                SkimOutcome::Whole => {}
            }
            if let Some(mark) = self.mark {
                return self.whole(mark, version, window).map(FileItem::Section);
            }
            let at = usize::try_from(self.skimmer.at()).ok();
            let Some(&mark) = at.and_then(|at| window.get(at)) else {
                return self.more(window, is_all);
            };
            self.enter(mark, version)?;
        }
    }

    fn head<'w>(&mut self, window: &'w [u8], is_all: bool) -> Result<FileItem<'w>, RdbDamage> {
        let offset = 0;
        let Some(head) = window.first_chunk::<HEAD_BYTES>() else {
            if is_all {
                return Err(RdbDamage {
                    offset,
                    expected: EXPECTED_HEAD,
                    found: DamageFinding::End,
                });
            }
            return Ok(FileItem::More(HEAD_BYTES - window.len()));
        };
        let version = RdbVersion::of(head).ok_or(RdbDamage {
            offset,
            expected: EXPECTED_HEAD,
            found: DamageFinding::Number(u64::from(head[0])),
        })?;
        if !version.is_taken(self.options.versions) {
            let found = DamageFinding::Number(u64::from(version.number));
            return Err(RdbDamage { offset, expected: EXPECTED_VERSION, found });
        }
        self.version = Some(version);
        let bytes = &window[..HEAD_BYTES];
        self.pass(bytes);
        Ok(FileItem::Section(FoundSection { offset, bytes, section: Section::Head(version) }))
    }

    fn more<'w>(&self, window: &[u8], is_all: bool) -> Result<FileItem<'w>, RdbDamage> {
        let (at, end) = (self.skimmer.at(), window.len() as u64);
        if self.is_within && is_all && window.is_empty() {
            let (offset, section) = (self.offset, Section::End);
            return Ok(FileItem::Section(FoundSection { offset, bytes: &[], section }));
        }
        if is_all {
            let next = self.skimmer.expected().unwrap_or(EXPECTED_MARK);
            let expected = if at > end { "the rest of a string" } else { next };
            let offset = self.offset + at.min(end);
            return Err(RdbDamage { offset, expected, found: DamageFinding::End });
        }
        let missing = (at + 1).saturating_sub(end);
        Ok(FileItem::More(usize::try_from(missing).unwrap_or(usize::MAX).max(1)))
    }

    fn damage(&self, fault: SkimFault) -> RdbDamage {
        let SkimFault { at, expected, found } = fault;
        RdbDamage { offset: self.offset + at, expected, found }
    }

    /// Starts the section or entry that an opcode announces.
    fn enter(&mut self, mark: u8, version: RdbVersion) -> Result<(), RdbDamage> {
        let at = self.skimmer.at();
        self.skimmer.pass(1);
        if let Some(shape) = shape::of_prefix(mark, version.dialect) {
            self.has_prefix = true;
            self.skimmer.begin(shape);
            return Ok(());
        }
        self.mark = Some(mark);
        // Nothing is compressed twice, so there is no depth to be bounded.
        let is_refused =
            self.is_within && matches!(mark, COMPRESSED_LZ4 | COMPRESSED_ZSTD | opcode::END);
        if !self.has_prefix
            && !is_refused
            && let Some(shape) = shape::of_section(mark, version.dialect)
        {
            if mark != opcode::END || version.has_checksum() {
                self.skimmer.begin(shape);
            }
            return Ok(());
        }
        match version.kind(mark).and_then(shape::of_value) {
            Some(shape) => {
                self.skimmer.begin(shape);
                self.skimmer.begin(shape::KEY);
                Ok(())
            }
            None => {
                let found = DamageFinding::Number(u64::from(mark));
                let expected = if self.has_prefix { EXPECTED_KIND } else { EXPECTED_MARK };
                Err(self.damage(SkimFault { at, expected, found }))
            }
        }
    }

    /// Returns a whole section, and prepares for the next.
    fn whole<'w>(
        &mut self,
        mark: u8,
        version: RdbVersion,
        window: &'w [u8],
    ) -> Result<FoundSection<'w>, RdbDamage> {
        let (offset, len) = (self.offset, self.skimmer.at() as usize);
        let bytes = &window[..len];
        let is_end = mark == opcode::END && !self.has_prefix;
        if is_end {
            self.check(bytes)?;
            return Ok(FoundSection { offset, bytes, section: Section::End });
        }
        let section = match version.kind(mark) {
            Some(kind) => Ok(Section::Entry(kind)),
            None => section(mark, &mut Input::new(&bytes[1..])),
        };
        let section = section.map_err(|why| RdbDamage {
            offset: offset + 1,
            expected: "something about the file or its entries",
            found: DamageFinding::Value(why),
        })?;
        self.pass(bytes);
        Ok(FoundSection { offset, bytes, section })
    }

    fn pass(&mut self, bytes: &[u8]) {
        if self.options.checks {
            self.checksum = crc64(self.checksum, bytes);
        }
        self.offset += bytes.len() as u64;
        (self.skimmer, self.mark, self.has_prefix) = (Skimmer::default(), None, false);
    }

    /// Verifies the checksum, if there is one.
    fn check(&mut self, end: &[u8]) -> Result<(), RdbDamage> {
        let offset = self.offset + 1;
        self.pass(&end[..1]);
        let Some(written) = end[1..].first_chunk() else { return Ok(()) };
        let (written, computed) = (u64::from_le_bytes(*written), self.checksum);
        if self.options.checks && written != 0 && written != computed {
            let found = DamageFinding::Checksum { written, computed };
            return Err(RdbDamage { offset, expected: "the checksum of the file", found });
        }
        self.offset += (end.len() - 1) as u64;
        Ok(())
    }
}

/// Parses a section other than an entry, after its opcode.
fn section<'w>(mark: u8, input: &mut Input<'w>) -> Result<Section<'w>, Malformed> {
    const MOST: usize = usize::MAX >> 1;
    Ok(match mark {
        opcode::AUX => Section::Aux(text::read(input, MOST)?, text::read(input, MOST)?),
        opcode::FUNCTION => Section::Function(text::read(input, MOST)?),
        opcode::DATABASE => {
            let number = length::read(input)?;
            let number = u32::try_from(number);
            Section::Database(number.map_err(|_| Malformed("a database with a large number"))?)
        }
        opcode::SIZES => Section::Sizes(SizeHints {
            keys: length::read(input)?,
            with_deadline: length::read(input)?,
        }),
        opcode::MODULE_AUX => Section::ModuleAux(ModuleType(length::read(input)?)),
        COMPRESSED_LZ4 | COMPRESSED_ZSTD => {
            let (frame, mut scratch) = (text::read(input, MOST)?, IntText::new());
            let frame = frame.bytes(&mut scratch);
            Section::Compressed(match mark {
                COMPRESSED_LZ4 => dragonfly::decompress_lz4(frame)?,
                _ => dragonfly::decompress_zstd(frame)?,
            })
        }
        _ => Section::Slots,
    })
}
