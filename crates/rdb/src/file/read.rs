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
//! Entries that follow each other without another section between them can be kept together and
//! given to another thread, which reads them with [`super::Entries`].
//!
//! Invariants
//! 1. A window begins where the last section ended, and has all that the one before had.
//! 2. However the file is cut into windows, the same sections and the same damage are found, but
//!    for the words that tell of a file that ends too early.
//! 3. The checksum is that of all sections so far.

use pantala_base::crc::crc64;
use pantala_table::IntText;

use super::damage::{Damage, Found};
use super::module::ModuleType;
use super::opcode::{COMPRESSED_LZ4, COMPRESSED_ZSTD};
use super::skim::{Fault, Skimmed, Skimmer};
use super::version::Version;
use super::{HEAD_BYTES, Sizes, dragonfly, opcode, shape};
use crate::Kind;
use crate::input::{Input, Malformed};
use crate::payload::Versions;
use crate::scalars::length;
use crate::scalars::text::{self, Text};

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Which versions are taken.
    pub versions: Versions,
    /// Whether the checksum is compared, if there is one.
    pub checks: bool,
    /// Bytes of the file, if that is known: what claims more is refused at once.
    pub file_bytes: Option<u64>,
}

/// What comes next in a file.
#[derive(Debug)]
pub enum Next<'w> {
    /// This.
    Section(FoundSection<'w>),
    /// That is not whole in the window: so many bytes more are needed, if not more than that.
    More(usize),
}

/// A section with all its bytes.
#[derive(Debug)]
pub struct FoundSection<'w> {
    /// Where it begins in the file.
    pub offset: u64,
    /// The beginning of the window.
    pub bytes: &'w [u8],
    /// What it is.
    pub section: Section<'w>,
}

/// A section of a file.
#[derive(Debug)]
pub enum Section<'w> {
    /// The magic and the version.
    Head(Version),
    /// Something about the file or the server: name and value.
    Aux(Text<'w>, Text<'w>),
    /// The code of a library of functions.
    Function(Text<'w>),
    /// Entries of this database follow.
    Database(u32),
    /// How many keys there are in it, roughly.
    Sizes(Sizes),
    /// What a module keeps beside its keys.
    ModuleAux(ModuleType),
    /// Something about slots of a cluster.
    Slots,
    /// What was compressed together: sections, to be read with [`Reader::within`].
    Compressed(Vec<u8>),
    /// An entry, to be read with [`super::Entries`].
    Entry(Kind),
    /// The end. What follows in the window is not the file's.
    End,
}

/// Finds the sections of a file in windows of its bytes.
#[derive(Debug)]
pub struct Reader {
    options: ReadOptions,
    version: Option<Version>,
    /// Where the current section begins.
    offset: u64,
    checksum: u64,
    skimmer: Skimmer,
    /// The opcode of the section, or the kind of its value, once found.
    mark: Option<u8>,
    has_prefix: bool,
    /// Whether there is neither head nor end.
    is_within: bool,
}

const EXPECTED_HEAD: &str = "REDIS or VALKEY and a version";
const EXPECTED_MARK: &str = "a mark or a kind of value that is known";
const EXPECTED_KIND: &str = "a kind of value that is known";

impl Reader {
    /// At the beginning of a file.
    pub fn new(options: ReadOptions) -> Reader {
        Reader {
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

    /// At the beginning of sections that were compressed together at this offset. Offsets count
    /// their bytes from there. All that there is has to be in the window.
    pub fn within(version: Version, offset: u64) -> Reader {
        let options = ReadOptions { versions: Versions::Known, checks: false, file_bytes: None };
        Reader { version: Some(version), offset, is_within: true, ..Reader::new(options) }
    }

    /// Where the next section begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next section. `is_all` says that the file has nothing behind the window.
    pub fn next<'w>(&mut self, window: &'w [u8], is_all: bool) -> Result<Next<'w>, Damage> {
        let Some(version) = self.version else { return self.head(window, is_all) };
        let most = match self.options.file_bytes {
            _ if is_all => window.len() as u64,
            Some(bytes) => bytes.saturating_sub(self.offset),
            None => u64::MAX,
        };
        loop {
            let skimmed = self.skimmer.go_on(window, most);
            match skimmed.map_err(|fault| self.damage(fault))? {
                Skimmed::Part => return self.more(window, is_all),
                Skimmed::Whole => {}
            }
            if let Some(mark) = self.mark {
                return self.whole(mark, version, window).map(Next::Section);
            }
            let at = usize::try_from(self.skimmer.at()).ok();
            let Some(&mark) = at.and_then(|at| window.get(at)) else {
                return self.more(window, is_all);
            };
            self.enter(mark, version)?;
        }
    }

    fn head<'w>(&mut self, window: &'w [u8], is_all: bool) -> Result<Next<'w>, Damage> {
        let offset = 0;
        let Some(head) = window.first_chunk::<HEAD_BYTES>() else {
            if is_all {
                return Err(Damage { offset, expected: EXPECTED_HEAD, found: Found::End });
            }
            return Ok(Next::More(HEAD_BYTES - window.len()));
        };
        let version = Version::of(head).ok_or(Damage {
            offset,
            expected: EXPECTED_HEAD,
            found: Found::Number(u64::from(head[0])),
        })?;
        if !version.is_taken(self.options.versions) {
            let found = Found::Number(u64::from(version.number));
            return Err(Damage { offset, expected: "a version that is known", found });
        }
        self.version = Some(version);
        let bytes = &window[..HEAD_BYTES];
        self.pass(bytes);
        Ok(Next::Section(FoundSection { offset, bytes, section: Section::Head(version) }))
    }

    fn more<'w>(&self, window: &[u8], is_all: bool) -> Result<Next<'w>, Damage> {
        let (at, end) = (self.skimmer.at(), window.len() as u64);
        if self.is_within && is_all && window.is_empty() {
            let (offset, section) = (self.offset, Section::End);
            return Ok(Next::Section(FoundSection { offset, bytes: &[], section }));
        }
        if is_all {
            let next = self.skimmer.expected().unwrap_or(EXPECTED_MARK);
            let expected = if at > end { "the rest of a string" } else { next };
            let offset = self.offset + at.min(end);
            return Err(Damage { offset, expected, found: Found::End });
        }
        let missing = (at + 1).saturating_sub(end);
        Ok(Next::More(usize::try_from(missing).unwrap_or(usize::MAX).max(1)))
    }

    fn damage(&self, fault: Fault) -> Damage {
        let Fault { at, expected, found } = fault;
        Damage { offset: self.offset + at, expected, found }
    }

    /// Begins with what a mark announces.
    fn enter(&mut self, mark: u8, version: Version) -> Result<(), Damage> {
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
                let found = Found::Number(u64::from(mark));
                let expected = if self.has_prefix { EXPECTED_KIND } else { EXPECTED_MARK };
                Err(self.damage(Fault { at, expected, found }))
            }
        }
    }

    /// The section, which is whole, and the next one's beginning.
    fn whole<'w>(
        &mut self,
        mark: u8,
        version: Version,
        window: &'w [u8],
    ) -> Result<FoundSection<'w>, Damage> {
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
        let section = section.map_err(|why| Damage {
            offset: offset + 1,
            expected: "something about the file or its entries",
            found: Found::Value(why),
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

    /// Compares the checksum, if there is one.
    fn check(&mut self, end: &[u8]) -> Result<(), Damage> {
        let offset = self.offset + 1;
        self.pass(&end[..1]);
        let Some(written) = end[1..].first_chunk() else { return Ok(()) };
        let (written, computed) = (u64::from_le_bytes(*written), self.checksum);
        if self.options.checks && written != 0 && written != computed {
            let found = Found::Checksum { written, computed };
            return Err(Damage { offset, expected: "the checksum of the file", found });
        }
        self.offset += (end.len() - 1) as u64;
        Ok(())
    }
}

/// What is no entry, after its mark.
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
        opcode::SIZES => Section::Sizes(Sizes {
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
