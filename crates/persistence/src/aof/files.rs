//! All files of an append-only file, one after the other: base, then increments.
//!
//! Only the last file that holds anything may be torn: a crash tears what is written, and one file
//! is written at a time. (An increment may have been begun and be empty.)
//!
//! Invariants
//! 1. The parts are the manifest's, in its order, and none is missing among them. Each was there
//!    when the list was made, as long as it was when it was closed.
//!
//! Not here: cutting off what is torn, which is decided by settings. Tests: `tests/crashes.rs`.

use std::path::PathBuf;

use super::layout::{Layout, LayoutError};
use super::manifest::Manifest;
use super::reader::StepReader;
use crate::disk::Disk;

/// One file to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartFile {
    /// Where.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Nothing follows in later files, so its end may be torn.
    pub is_last: bool,
    /// It is the base.
    pub is_base: bool,
}

/// The files to be read, in order.
///
/// # Errors
/// One of them is missing, or shorter than it was.
pub fn part_files(
    disk: &dyn Disk,
    layout: &Layout,
    manifest: &Manifest,
) -> Result<Vec<PartFile>, LayoutError> {
    if let Some(gap) = manifest.gap() {
        return Err(LayoutError::Gap(layout.manifest_path(), gap));
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
            return Err(LayoutError::Short(path, bytes, closed.bytes));
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
    /// A reader of the steps of a file that holds nothing else.
    ///
    /// # Errors
    /// It can not be opened.
    pub fn steps(&self, disk: &dyn Disk) -> std::io::Result<StepReader> {
        Ok(StepReader::new(disk.open_to_read(&self.path)?, Vec::new(), 0, self.bytes))
    }
}
