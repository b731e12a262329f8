//! A reader of the ELF format (64 bits, little endian), as far as needed to tell how a binary was
//! linked: type, segments, dynamic section, imported names.
//!
//! Invariants
//! 1. Every read is checked against the file's length: an inconsistent file gives an error.
//!
//! Not here: the requirements (`hardened`). Tests: there.

/// Type of a file: loadable at any address.
pub const ET_DYN: u16 = 3;
/// Type of a segment: loaded into memory.
pub const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
/// Type of a segment: whether the stack is executable.
pub const PT_GNU_STACK: u32 = 0x6474_e551;
/// Type of a segment: read-only after relocation.
pub const PT_GNU_RELRO: u32 = 0x6474_e552;
/// Flag of a segment: may be executed.
pub const EXECUTABLE: u32 = 1;
/// Flag of a segment: may be written.
pub const WRITABLE: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
/// The first search path for libraries.
pub const DT_RPATH: u64 = 15;
/// The second search path for libraries.
pub const DT_RUNPATH: u64 = 29;
/// Flags of the loader.
pub const DT_FLAGS: u64 = 30;
/// More flags of the loader.
pub const DT_FLAGS_1: u64 = 0x6fff_fffb;

/// A segment of the file.
pub struct Segment {
    pub kind: u32,
    pub flags: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
}

/// The headers of a binary that were read.
pub struct Elf {
    pub kind: u16,
    pub segments: Vec<Segment>,
    dynamic: Vec<(u64, u64)>,
    strings: Vec<u8>,
}

impl Elf {
    /// Reads the headers of a file.
    pub fn read(file: &[u8]) -> Result<Elf, String> {
        if file.get(..6) != Some(b"\x7fELF\x02\x01") {
            return Err("no ELF file of 64 bits, little endian".into());
        }
        let (at, size, count) = (u64_at(file, 32)?, u16_at(file, 54)?, u16_at(file, 56)?);
        let segments: Vec<Segment> = (0..u64::from(count))
            .map(|number| segment(file, at.saturating_add(number * u64::from(size))))
            .collect::<Result<_, _>>()?;
        let dynamic = match segments.iter().find(|one| one.kind == PT_DYNAMIC) {
            Some(segment) => entries(file, segment)?,
            None => Vec::new(),
        };
        let mut elf = Elf { kind: u16_at(file, 16)?, segments, dynamic, strings: Vec::new() };
        elf.strings = elf.read_strings(file)?;
        Ok(elf)
    }

    /// An entry of the dynamic section with this tag.
    pub fn dynamic(&self, tag: u64) -> Option<u64> {
        self.dynamic.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value)
    }

    /// Whether a name is imported or exported in the dynamic symbol names.
    pub fn names(&self, name: &str) -> bool {
        self.strings.split(|byte| *byte == 0).any(|found| found == name.as_bytes())
    }

    fn read_strings(&self, file: &[u8]) -> Result<Vec<u8>, String> {
        let (Some(address), Some(length)) = (self.dynamic(DT_STRTAB), self.dynamic(DT_STRSZ))
        else {
            return Ok(Vec::new());
        };
        let is_there = |one: &&Segment| {
            one.kind == PT_LOAD
                && (one.address..one.address.saturating_add(one.file_bytes)).contains(&address)
        };
        let segment = self.segments.iter().find(is_there).ok_or("names that are not mapped")?;
        let from = segment.offset.saturating_add(address - segment.address);
        Ok(bytes(file, from, length)?.to_vec())
    }
}

fn segment(file: &[u8], at: u64) -> Result<Segment, String> {
    Ok(Segment {
        kind: u32_at(file, at)?,
        flags: u32_at(file, at.saturating_add(4))?,
        offset: u64_at(file, at.saturating_add(8))?,
        address: u64_at(file, at.saturating_add(16))?,
        file_bytes: u64_at(file, at.saturating_add(32))?,
    })
}

fn entries(file: &[u8], segment: &Segment) -> Result<Vec<(u64, u64)>, String> {
    let entry = |entry: &[u8]| Ok((u64_at(entry, 0)?, u64_at(entry, 8)?));
    bytes(file, segment.offset, segment.file_bytes)?.chunks_exact(16).map(entry).collect()
}

fn bytes(file: &[u8], at: u64, length: u64) -> Result<&[u8], String> {
    let range = at as usize..at.saturating_add(length) as usize;
    file.get(range).ok_or_else(|| "the file ends before what it announces".into())
}

fn u16_at(file: &[u8], at: u64) -> Result<u16, String> {
    Ok(bytes(file, at, 2)?.iter().rev().fold(0, |sum, byte| sum << 8 | u16::from(*byte)))
}

fn u32_at(file: &[u8], at: u64) -> Result<u32, String> {
    Ok(bytes(file, at, 4)?.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

fn u64_at(file: &[u8], at: u64) -> Result<u64, String> {
    Ok(bytes(file, at, 8)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
