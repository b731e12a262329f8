//! Decodes the entries of a file, on any thread, once [`super::Reader`] has found their ends.

use pantala_base::UnixMs;

use super::damage::{DamageFinding, RdbDamage};
use super::module::ModuleType;
use super::skim::{SkimOutcome, Skimmer};
use super::version::RdbVersion;
use super::{opcode, shape};
use crate::input::{Input, Malformed};
use crate::scalars::length;
use crate::scalars::text::{self, Text};
use crate::{EMPTY, KeyMetadata, RdbKind, RdbLimits, RdbValue};

/// A key with everything that the file holds for it.
#[derive(Debug)]
pub struct RdbEntry<'a> {
    /// The offset of the entry in the file.
    pub offset: u64,
    /// The key.
    pub key: Text<'a>,
    /// The deadline. Expired keys are read like all others.
    pub deadline: Option<UnixMs>,
    /// The idle time in seconds, if the server wrote it.
    pub idle_seconds: Option<u64>,
    /// The logarithm of the access frequency, if the server wrote it.
    pub frequency: Option<u8>,
    /// What is kept beside the value.
    pub beside: KeyMetadata,
    /// The type and encoding of the value.
    pub kind: RdbKind,
    /// The value.
    pub content: Content<'a>,
}

/// The content of a key.
#[derive(Debug)]
pub enum Content<'a> {
    /// A value.
    Value(RdbValue<'a>),
    /// A module's value, which is not decoded.
    Module(ModuleType),
    /// A collection without elements, as faulty servers have written it; other servers skip such
    /// keys when they read a file.
    Nothing,
}

/// Iterates over consecutive entries.
#[derive(Debug)]
pub struct RdbEntries<'a, 'l> {
    input: Input<'a>,
    offset: u64,
    version: RdbVersion,
    limits: &'l RdbLimits,
}

impl<'a, 'l> RdbEntries<'a, 'l> {
    /// The entries in these bytes, which begin at `offset` of a file of this version.
    pub fn new(
        bytes: &'a [u8],
        offset: u64,
        version: RdbVersion,
        limits: &'l RdbLimits,
    ) -> RdbEntries<'a, 'l> {
        RdbEntries { input: Input::new(bytes), offset, version, limits }
    }

    fn read(&mut self) -> Result<RdbEntry<'a>, RdbDamage> {
        let begin = self.input.rest();
        let at = |input: &Input<'_>| self.offset + (begin.len() - input.rest().len()) as u64;
        let (mut value_at, mut value_kind) = (self.offset, None);
        let RdbEntries { input, version, limits, .. } = self;
        let mut read = || {
            let head = EntryHead::read(input, *version)?;
            let key = text::read(input, limits.text_bytes)?;
            (value_at, value_kind) = (at(input), Some(head.kind));
            let content = match head.kind {
                RdbKind::MODULE => Content::Module(pass_over_module(input)?),
                kind => match crate::read(kind, input, limits) {
                    Ok(value) => Content::Value(value),
                    Err(why) if why == EMPTY => Content::Nothing,
                    Err(why) => return Err(why),
                },
            };
            let EntryHead { deadline, idle_seconds, frequency, beside, kind } = head;
            Ok(RdbEntry {
                offset: 0,
                key,
                deadline,
                idle_seconds,
                frequency,
                beside,
                kind,
                content,
            })
        };
        let read = read();
        let entry = read.map(|entry| RdbEntry { offset: self.offset, ..entry });
        let entry = entry.map_err(|why| RdbDamage {
            offset: value_at,
            expected: "an entry whose value is sound",
            found: value_kind
                .map_or(DamageFinding::Value(why), |kind| DamageFinding::Unsound(kind, why)),
        });
        self.offset += (begin.len() - self.input.rest().len()) as u64;
        entry
    }
}

impl<'a> Iterator for RdbEntries<'a, '_> {
    type Item = Result<RdbEntry<'a>, RdbDamage>;

    /// Nothing follows the first damage.
    fn next(&mut self) -> Option<Self::Item> {
        if self.input.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_err() {
            self.input = Input::new(&[]);
        }
        Some(entry)
    }
}

/// The fields before a key.
struct EntryHead {
    deadline: Option<UnixMs>,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
    beside: KeyMetadata,
    kind: RdbKind,
}

impl EntryHead {
    fn read(input: &mut Input<'_>, version: RdbVersion) -> Result<EntryHead, Malformed> {
        const NO_KIND: Malformed = Malformed("a kind that is not known");
        let (mut deadline, mut idle_seconds, mut frequency) = (None, None, None);
        let mut beside = KeyMetadata::default();
        loop {
            let mark = input.byte()?;
            match mark {
                opcode::DEADLINE_MS => deadline = Some(UnixMs(input.i64()?)),
                opcode::DEADLINE_SECONDS => {
                    let seconds = i32::from_le_bytes(input.array()?);
                    deadline = Some(UnixMs(i64::from(seconds) * 1000));
                }
                opcode::IDLE => idle_seconds = Some(length::read(input)?),
                opcode::FREQUENCY => frequency = Some(input.byte()?),
                opcode::KEY_BITS => beside = KeyMetadata::read(input)?,
                _ => match shape::of_prefix(mark, version.dialect) {
                    Some(shape) => pass_over(shape, input)?,
                    None => {
                        let kind = version.kind(mark).ok_or(NO_KIND)?;
                        return Ok(EntryHead { deadline, idle_seconds, frequency, beside, kind });
                    }
                },
            }
        }
    }
}

fn pass_over_module(input: &mut Input<'_>) -> Result<ModuleType, Malformed> {
    let number = length::read(input)?;
    pass_over(&[shape::Item::ModuleParts], input)?;
    Ok(ModuleType(number))
}

fn pass_over(shape: shape::EntryShape, input: &mut Input<'_>) -> Result<(), Malformed> {
    const NOT_WHOLE: Malformed = Malformed("parts that are not whole");
    let mut skimmer = Skimmer::default();
    skimmer.begin(shape);
    match skimmer.go_on(input.rest(), input.rest().len() as u64) {
        Ok(SkimOutcome::Whole) => input.take(skimmer.at() as usize).map(drop),
        _ => Err(NOT_WHOLE),
    }
}
