//! Inspects one file, or all files of a manifest: content and damage.
//!
//! Tests: in `check`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::snapshot;
use crate::aof::files::{PartFile, part_files};
use crate::aof::layout::LayoutError;
use crate::aof::load::{begins_with_snapshot, skip_to};
use crate::aof::manifest::Manifest;
use crate::aof::reader::{ReadError, StepRead, StepReader, TornTail};
use crate::aof::{AofLayout, Part};
use crate::disk::{Disk, directory_of};
use crate::snapshot::name::files_of;

/// The result of an inspection.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The report, in order.
    pub lines: Vec<String>,
    /// Whether nothing is wrong.
    pub is_whole: bool,
    /// Set if the only fault is that this file has a torn end that can be cut.
    pub torn: Option<(PathBuf, TornTail)>,
}

/// Inspects a file, a manifest, or the directory of one.
pub fn inspect(disk: &dyn Disk, path: &Path) -> Inspection {
    let looked = match find_manifest(disk, path) {
        Ok(Some(manifest)) => inspect_manifest(disk, &manifest),
        Ok(None) => inspect_files(disk, path).map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    looked.unwrap_or_else(|what| {
        let lines = vec![format!("{}: {what}", path.display())];
        Inspection { lines, ..Inspection::default() }
    })
}

/// Inspects the file, or all files of a snapshot of Dragonfly.
fn inspect_files(disk: &dyn Disk, path: &Path) -> io::Result<Inspection> {
    let files = files_of(disk, path)?;
    let mut found = Inspection { is_whole: true, ..Inspection::default() };
    for path in &files {
        let is_last = files.len() == 1;
        let bytes = disk.size(path)?;
        let file = PartFile { path: path.clone(), bytes, is_last, is_base: true };
        inspect_file(disk, &file, &mut found);
    }
    Ok(found)
}

/// The path of the manifest; `None`: it is another file.
pub fn find_manifest(disk: &dyn Disk, path: &Path) -> Result<Option<PathBuf>, String> {
    if path.extension().is_some_and(|ending| ending == "manifest") {
        return Ok(Some(path.to_owned()));
    }
    let Ok(names) = disk.list(path) else { return Ok(None) };
    let is_manifest = |name: &&String| name.ends_with(".manifest") && !name.starts_with("temp-");
    let manifests: Vec<&String> = names.iter().filter(is_manifest).collect();
    match manifests[..] {
        [name] => Ok(Some(path.join(name))),
        [] => Err("there is no manifest in this directory".into()),
        _ => Err("there are several manifests in this directory: name one".into()),
    }
}

/// The parts of a manifest, and their layout.
pub fn read_manifest(disk: &dyn Disk, path: &Path) -> Result<(AofLayout, Manifest), String> {
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let layout = AofLayout::new(directory_of(path), "", &name.unwrap_or_default());
    let manifest = layout.read(disk).map_err(|error| match error {
        // Whoever asks says where.
        LayoutError::Disk(_, error) => error.to_string(),
        LayoutError::Manifest(_, error) => error.to_string(),
        other => other.to_string(),
    })?;
    let manifest = manifest.ok_or("No such file or directory")?;
    Ok((layout, manifest))
}

fn inspect_manifest(disk: &dyn Disk, path: &Path) -> Result<Inspection, String> {
    let (layout, manifest) = read_manifest(disk, path)?;
    let count = |parts: &[Part]| parts.len();
    let base = if manifest.base.is_some() { "a base" } else { "no base" };
    let increments = count(&manifest.increments);
    let history = count(&manifest.history);
    let line = format!("{base}, {increments} increments, {history} files of history");
    let mut found = Inspection { is_whole: true, ..Inspection::default() };
    found.lines.push(format!("{}: {line}", path.display()));
    found.lines.extend(layout.doubt(disk, &manifest));
    match part_files(disk, &layout, &manifest) {
        Ok(files) => files.iter().for_each(|file| inspect_file(disk, file, &mut found)),
        Err(error) => {
            found.is_whole = false;
            found.lines.push(error.to_string());
        }
    }
    Ok(found)
}

fn inspect_file(disk: &dyn Disk, file: &PartFile, found: &mut Inspection) {
    let was_whole = found.is_whole;
    let path = file.path.display();
    let outcome = look(disk, file, &mut found.lines);
    match outcome {
        Ok(None) => {}
        Ok(Some(torn)) => {
            found.is_whole = false;
            // A cut makes the set whole only if nothing else is wrong.
            let can_be_cut = file.is_last && was_whole;
            found.torn = can_be_cut.then(|| (file.path.clone(), torn));
        }
        Err(what) => {
            found.is_whole = false;
            found.torn = None;
            found.lines.push(format!("{path}: {what}"));
        }
    }
}

/// Reports the content of a file; returns its torn end, or why it cannot be read on.
fn look(
    disk: &dyn Disk,
    file: &PartFile,
    lines: &mut Vec<String>,
) -> Result<Option<TornTail>, String> {
    let told = |error: io::Error| error.to_string();
    let path = file.path.display();
    let mut input = disk.open_to_read(&file.path).map_err(told)?;
    let (ahead, is_snapshot) = begins_with_snapshot(&mut input).map_err(told)?;
    if !is_snapshot {
        return count_steps(StepReader::new(input, ahead, 0, file.bytes), file, lines);
    }
    let counted = snapshot::count(&mut ahead.as_slice().chain(input), file.bytes)?;
    lines.push(format!("{path}: {counted}"));
    if counted.bytes == file.bytes {
        return Ok(None);
    }
    let input = skip_to(disk, &file.path, counted.bytes).map_err(told)?;
    count_steps(StepReader::new(input, Vec::new(), counted.bytes, file.bytes), file, lines)
}

fn count_steps(
    mut reader: StepReader,
    file: &PartFile,
    lines: &mut Vec<String>,
) -> Result<Option<TornTail>, String> {
    let begin = reader.offset();
    let (mut steps, mut commands) = (0_u64, 0_u64);
    let mut line = |reader: &StepReader, steps, commands, end: &str| {
        let bytes = reader.begin_offset() - begin;
        let path = file.path.display();
        lines.push(format!("{path}: {steps} steps, {commands} commands, {bytes} bytes{end}"));
    };
    loop {
        match reader.next() {
            Ok(StepRead::Step) => {
                steps += 1;
                commands += reader.step().len() as u64;
            }
            Ok(StepRead::Annotation) => {}
            Ok(StepRead::End) => {
                line(&reader, steps, commands, ": whole");
                return Ok(None);
            }
            Ok(StepRead::Torn(torn)) => {
                line(&reader, steps, commands, &format!(", then torn at {torn}"));
                return Ok(Some(torn));
            }
            Err(ReadError::Damage(damage)) => {
                line(&reader, steps, commands, &format!(", then damaged: {damage}"));
                return Err(format!("{} bytes follow the damage", file.bytes - damage.offset));
            }
            Err(ReadError::Disk(error)) => return Err(error.to_string()),
        }
    }
}
