//! Files that derive from the code.

use std::process::ExitCode;

use pantala_settings::pages;

/// Writes every file.
pub fn write() -> ExitCode {
    for (path, text) in pages() {
        let place = crate::root().join(path);
        let written = place
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&place, text));
        if let Err(error) = written {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
        println!("wrote {path}");
    }
    ExitCode::SUCCESS
}

/// Compares every file with what would be written.
pub fn check() -> ExitCode {
    let is_stale = |path: &str, text: &str| {
        std::fs::read_to_string(crate::root().join(path)).ok().as_deref() != Some(text)
    };
    let mut outcome = ExitCode::SUCCESS;
    for (path, text) in pages() {
        if is_stale(path, &text) {
            eprintln!("{path} is not current; run: cargo xtask docs");
            outcome = ExitCode::FAILURE;
        }
    }
    outcome
}
