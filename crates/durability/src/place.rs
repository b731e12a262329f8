//! The place of snapshots: a directory, or the object storage of a cloud (`dir s3://bucket/x`).
//!
//! Object storage acts as a disk on which one file is written at a time, which appears under its
//! name with the rename that ends it.
//!
//! Tests: compat/clients/objects.py, against emulators.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pantala_base::clock::unix_ms;
use pantala_objects::{BucketPlace as ObjectPlace, ObjectBucket, ObjectFault, Upload};
use pantala_persistence::aof::AofLayout;
use pantala_persistence::disk::{Disk, DiskFile, RealDisk, leftovers};
use pantala_settings::Settings;
use parking_lot::{Mutex, MutexGuard};

use pantala_http::control;

/// The place where the settings have files lie: a disk and a directory on it.
pub struct BucketPlace {
    /// The disk with its operations.
    pub disk: Box<dyn Disk>,
    /// The directory on that disk.
    pub directory: PathBuf,
}

/// The place of the settings, to read files from.
///
/// # Errors
/// A text for the operator.
pub fn of(settings: &Settings) -> Result<BucketPlace, String> {
    for_file(settings, "")
}

/// The place of the settings, to write a file whose final name is `name`.
///
/// # Errors
/// A text for the operator.
pub fn for_file(settings: &Settings, name: &str) -> Result<BucketPlace, String> {
    let dir = &settings.dir;
    if !ObjectPlace::is_meant_by(dir) {
        return Ok(BucketPlace { disk: Box::new(RealDisk), directory: dir.into() });
    }
    let of_fault = |fault: ObjectFault| format!("{dir}: {fault}");
    let place = ObjectPlace::parse(dir).map_err(of_fault)?;
    let bucket = ObjectBucket::open(&place, control::runtime()?).map_err(of_fault)?;
    let disk = ObjectDisk { bucket, name: name.into(), written: Mutex::default() };
    Ok(BucketPlace { disk: Box::new(disk), directory: PathBuf::new() })
}

/// The paths of the files, by the settings.
pub fn layout(settings: &Settings) -> AofLayout {
    AofLayout::new(Path::new(&settings.dir), &settings.appenddirname, &settings.appendfilename)
}

/// Checks that the append-only file can be in its place, if it is turned on.
///
/// # Errors
/// Why it cannot.
pub fn check_append_only(settings: &Settings) -> Result<(), String> {
    let dir = &settings.dir;
    if settings.appendonly && ObjectPlace::is_meant_by(dir) {
        return Err(format!(
            "the append-only file needs a directory of this machine, and dir is {dir}: object \
             storage keeps whole files only"
        ));
    }
    Ok(())
}

/// Removes unfinished snapshots of killed servers.
pub fn remove_leftovers(settings: &Settings) {
    let removed = match ObjectPlace::is_meant_by(&settings.dir) {
        true => give_up_uploads(&settings.dir),
        false => leftovers::remove(Path::new(&settings.dir)).map_err(|error| error.to_string()),
    };
    match removed {
        Ok(removed) => removed.iter().for_each(|name| {
            tracing::info!("removed {name}, the unfinished snapshot of a killed server");
        }),
        Err(error) => tracing::warn!("old temporary files stay in {}: {error}", settings.dir),
    }
}

fn give_up_uploads(dir: &str) -> Result<Vec<String>, String> {
    let place = ObjectPlace::parse(dir).map_err(|fault| fault.to_string())?;
    let bucket =
        ObjectBucket::open(&place, control::runtime()?).map_err(|fault| fault.to_string())?;
    let given_up = bucket.give_up_unfinished(unix_ms().0, &leftovers::may_live);
    given_up.map_err(|fault| fault.to_string())
}

/// Checks that files can be in this directory, without asking another machine.
///
/// # Errors
/// Why they cannot.
pub fn check(dir: &str) -> Result<(), String> {
    if ObjectPlace::is_meant_by(dir) {
        return ObjectPlace::parse(dir).map(drop).map_err(|fault| fault.to_string());
    }
    // The directory must be enterable, as chdir checks for other servers.
    match std::fs::metadata(Path::new(dir).join(".")) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// The path of a file in a setting: a relative path is relative to the data, if that is on this
/// machine.
pub fn beside_data(settings: &Settings, file: &Path) -> PathBuf {
    if ObjectPlace::is_meant_by(&settings.dir) {
        return file.into();
    }
    Path::new(&settings.dir).join(file)
}

/// The operating system's text for an error, as other servers show it.
pub fn os_words(error: &str) -> &str {
    error.split(" (os error").next().unwrap_or_default()
}

struct ObjectDisk {
    bucket: ObjectBucket,
    name: String,
    written: Mutex<Option<Arc<ObjectFile>>>,
}

impl ObjectDisk {
    fn written(&self) -> MutexGuard<'_, Option<Arc<ObjectFile>>> {
        self.written.lock()
    }
}

fn name_of(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::other("the name is not UTF-8"))
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "object storage has whole files only"))
}

impl Disk for ObjectDisk {
    fn create(&self, _temporary: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = Arc::new(ObjectFile(Mutex::new(Some(self.bucket.upload(&self.name)))));
        *self.written() = Some(Arc::clone(&file));
        Ok(file)
    }

    fn open_to_append(&self, _path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        unsupported()
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.bucket.download(name_of(path)?)?))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let (name, files) = (name_of(path)?, self.bucket.list()?);
        let found = files.iter().find(|file| file.name == name);
        found.map(|file| file.bytes).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn truncate(&self, _path: &Path, _bytes: u64) -> io::Result<()> {
        unsupported()
    }

    /// Ends the file that is being written.
    fn rename(&self, _temporary: &Path, _to: &Path) -> io::Result<()> {
        let Some(file) = self.written().take() else { return unsupported() };
        let upload = file.upload().take();
        upload.ok_or(io::ErrorKind::NotFound)?.finish().map_err(io::Error::from)
    }

    /// Gives up the file that is being written, or removes an existing one.
    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.written().take() {
            Some(file) => drop(file.upload().take()),
            None => self.bucket.remove(name_of(path)?)?,
        }
        Ok(())
    }

    fn create_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _path: &Path) -> io::Result<Vec<String>> {
        let mut names: Vec<String> =
            self.bucket.list()?.into_iter().map(|file| file.name).collect();
        names.sort();
        Ok(names)
    }

    fn list_with_times(&self, _path: &Path) -> io::Result<Vec<(i64, String)>> {
        let files = self.bucket.list()?.into_iter();
        Ok(files.map(|file| (file.modified_unix_ms, file.name)).collect())
    }
}

/// A file that is being written.
struct ObjectFile(Mutex<Option<Upload>>);

impl ObjectFile {
    fn upload(&self) -> MutexGuard<'_, Option<Upload>> {
        self.0.lock()
    }
}

impl DiskFile for ObjectFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.upload().as_mut().ok_or(io::ErrorKind::NotFound)?.write_all(bytes)
    }

    fn write_over_start(&self, bytes: &[u8]) -> io::Result<()> {
        let upload = self.upload();
        Ok(upload.as_ref().ok_or(io::ErrorKind::NotFound)?.write_over_start(bytes)?)
    }

    /// Nothing to do: the storage keeps a file once it is complete.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
