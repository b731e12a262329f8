//! Replacing a small file atomically: at every moment the old or the new one is there, complete.
//!
//! A new file can be read by its owner only, since it may hold secrets; an existing one keeps its
//! permissions.

use std::fs::{File, rename};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Replaces a file, if there is one, by one with this text.
///
/// # Errors
/// It could not be written; the old one is unchanged.
pub fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let fresh = fresh_name(file);
    let written = create_fresh(&fresh).and_then(|mut out| {
        out.write_all(text)?;
        if let Ok(metadata) = std::fs::metadata(file) {
            out.set_permissions(metadata.permissions())?;
        }
        out.sync_all()
    });
    let done = written.and_then(|()| rename(&fresh, file));
    if done.is_err() {
        // Nothing better can be done about a leftover.
        let _gone = std::fs::remove_file(&fresh);
    }
    done.and_then(|()| File::open(directory)?.sync_all())
}

/// The temporary name of a file that will replace this one.
fn fresh_name(file: &Path) -> PathBuf {
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    file.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

/// Creates a file that no other user can open. Whatever has that name is removed; the target of a
/// link is left alone.
fn create_fresh(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(trouble) if trouble.kind() != io::ErrorKind::NotFound => return Err(trouble),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn scratch(name: &str) -> PathBuf {
        let own = format!("pantala-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(own);
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        directory
    }

    fn mode(file: &Path) -> u32 {
        std::fs::metadata(file).expect("there").permissions().mode() & 0o777
    }

    /// Passwords stand in it, and the directory may be one where others write.
    #[test]
    fn what_is_rewritten_is_never_open_to_others() {
        let directory = scratch("rewrite-mode");
        let file = directory.join("x.conf");
        replace(&file, b"text").expect("made");
        assert_eq!(mode(&file), 0o600);
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("set");
        replace(&file, b"text").expect("replaced");
        assert_eq!(mode(&file), 0o640);

        let precious = directory.join("precious");
        std::fs::write(&precious, "kept").expect("writable");
        symlink(&precious, fresh_name(&file)).expect("planted");
        replace(&file, b"text").expect("replaced");
        assert_eq!(std::fs::read_to_string(&precious).expect("there"), "kept");
        let fresh = create_fresh(&fresh_name(&file)).expect("created");
        assert_eq!(fresh.metadata().expect("open").permissions().mode() & 0o777, 0o600);
        std::fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn what_cannot_be_replaced_leaves_nothing_behind() {
        let directory = scratch("rewrite-whole");
        std::fs::create_dir(directory.join("x")).expect("a directory in the way");
        replace(&directory.join("x"), b"").expect_err("a directory is no file");
        assert_eq!(std::fs::read_dir(&directory).expect("there").count(), 1, "no leftovers");
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
