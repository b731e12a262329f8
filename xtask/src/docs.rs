//! Generates files from the code: those of settings, which are known here, and of commands, which
//! only the server knows: an example of the server writes them.

use std::process::{Command, ExitCode};

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

/// Writes the pages of commands. That builds the server, so it is a command of its own; the
/// server's `tests/pages.rs` keeps them current.
pub fn commands() -> ExitCode {
    const EXAMPLE: [&str; 6] =
        ["run", "--quiet", "--package", "pantala-server", "--example", "command_pages"];
    let mut cargo = Command::new(env!("CARGO"));
    // Variables that `cargo xtask` has set for this program: build scripts that read them (ring's)
    // would run again, and everything that depends on them.
    for (name, _) in std::env::vars_os() {
        let is_of_program = |text: &str| {
            ["CARGO_MANIFEST", "CARGO_PKG_"].iter().any(|begin| text.starts_with(begin))
        };
        if name.to_str().is_some_and(is_of_program) {
            cargo.env_remove(name);
        }
    }
    let run = cargo.args(EXAMPLE).current_dir(crate::root()).status();
    if run.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares every file with its generated content.
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
