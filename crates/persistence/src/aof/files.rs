//! The files of an append-only file in reading order: base, then increments.
//!
//! Only the last file that holds anything may be torn: a crash tears what is being written, and one
//! file is written at a time. (A later increment may exist and be empty.)
//!
//! Invariants
//! 1. The parts are the manifest's, in its order, and none is missing. Each existed when the list
//!    was made, and was at least as long as when it was closed.
//!
//! Not here: cutting off a torn end, which settings decide. Tests: `tests/crashes.rs`.

use std::path::PathBuf;

use super::layout::{AofLayout, LayoutError};
use super::manifest::Manifest;
use super::reader::StepReader;
use crate::disk::Disk;

/// A file to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartFile {
    /// Its path.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether later files are empty, so its end may be torn.
    pub is_last: bool,
    /// Whether it is the base.
    pub is_base: bool,
}

/// The files to be read, in order.
///
/// # Errors
/// A file is missing, or shorter than when it was closed.
pub fn part_files(
    disk: &dyn Disk,
    layout: &AofLayout,
    manifest: &Manifest,
) -> Result<Vec<PartFile>, LayoutError> {
    if let Some(gap) = manifest.gap() {
        return Err(LayoutError::Gap(layout.manifest_path(), gap, layout.lengths(disk)));
    }
    let mut files = Vec::new();
    for part in manifest.parts() {
        let path = layout.path(&part.name);
        let bytes = match disk.size(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(LayoutError::Missing(path));
            }
            Err(error) => return Err(LayoutError::Disk(path, error)),
        };
        if let Some(closed) = part.closed.filter(|closed| bytes < closed.bytes) {
            return Err(LayoutError::Short(path, bytes, closed.bytes, layout.lengths(disk)));
        }
        let is_base = manifest.base.as_ref().is_some_and(|base| base.name == part.name);
        files.push(PartFile { path, bytes, is_last: false, is_base });
    }
    for file in files.iter_mut().rev() {
        file.is_last = true;
        if file.bytes > 0 {
            break;
        }
    }
    Ok(files)
}

impl PartFile {
    /// A reader of the steps of a file that holds only steps.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn steps(&self, disk: &dyn Disk) -> std::io::Result<StepReader> {
        Ok(StepReader::new(disk.open_to_read(&self.path)?, Vec::new(), 0, self.bytes))
    }
}
