//! Finding the snapshot that the settings mean.

use std::path::PathBuf;

use pantala_persistence::snapshot::name;
use pantala_settings::Settings;

use crate::place;

/// The value of `--load` for the newest snapshot.
const LATEST: &str = "latest";

/// The path of the file that the settings mean, if there is one.
///
/// # Errors
/// The directory cannot be read.
pub fn find(settings: &Settings) -> Result<Option<PathBuf>, String> {
    let place = place::of(settings)?;
    let found = name::latest(&*place.disk, &place.directory, &settings.dbfilename);
    found.map_err(|error| format!("cannot read {}: {error}", settings.dir))
}

/// Whether `--load` names a file.
pub fn is_named(settings: &Settings) -> bool {
    !matches!(&*settings.load, "" | LATEST)
}

/// The snapshot that the server starts with, if there is one.
///
/// # Errors
/// The directory cannot be read, or has no file of the requested name.
pub fn find_first(settings: &Settings) -> Result<Option<PathBuf>, String> {
    let (dir, load) = (&settings.dir, &settings.load);
    if load.is_empty() {
        return find(settings);
    }
    let place = place::of(settings)?;
    let (disk, directory) = (&*place.disk, &place.directory);
    if load == LATEST {
        let found = name::newest(disk, directory, &settings.dbfilename)
            .map_err(|error| format!("cannot read {dir}: {error}"))?;
        if found.is_none() {
            tracing::warn!("--load latest: there is no snapshot in {dir}; the server begins empty");
        }
        return Ok(found);
    }
    let path = directory.join(load);
    match disk.size(&path) {
        Ok(_) => Ok(Some(path)),
        Err(error) => Err(format!("--load {load}: cannot read it in {dir}: {error}")),
    }
}
