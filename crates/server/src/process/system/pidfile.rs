//! The file with the number of the process (`pidfile`), for scripts.
//!
//! It is written before the server confines itself, and removed after an orderly stop. Failing to
//! write it is logged and stops nothing, as in Redis.

use pantala_settings::Settings;

/// Writes the number of this process, if `pidfile` is set.
pub fn write(settings: &Settings) {
    let path = &settings.pidfile;
    if path.is_empty() {
        return;
    }
    if let Err(error) = std::fs::write(path, format!("{}\n", std::process::id())) {
        tracing::warn!(%path, "the pidfile cannot be written: {error}");
    }
}

/// Removes the file, if it has this process's number.
pub fn remove(settings: &Settings) {
    let path = &settings.pidfile;
    let own = std::process::id().to_string();
    if !path.is_empty() && std::fs::read_to_string(path).is_ok_and(|text| text.trim() == own) {
        tracing::info!("Removing the pid file.");
        // The file may be where this process may not write any more.
        let _best_effort = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_is_removed() {
        let path = std::env::temp_dir().join(format!("pantala-pidfile-{}", std::process::id()));
        let text = path.to_str().expect("it is text");
        let settings = Settings::defaults().with("pidfile", text).expect("it may be set");
        write(&settings);
        let written = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(written, format!("{}\n", std::process::id()));
        std::fs::write(&path, "1\n").expect("it may be written");
        remove(&settings);
        assert!(path.exists(), "it is another's");
        write(&settings);
        remove(&settings);
        assert!(!path.exists());
    }
}
