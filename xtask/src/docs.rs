//! Generates files from the code. The server knows their contents, and an example program of the
//! server writes them: this program depends on no other crate, so it is built in a moment.

use std::process::{Command, ExitCode};

use crate::environment::forget_cargo;

const EXAMPLE: [&str; 7] =
    ["run", "--quiet", "--package", "pantala-server", "--example", "pages", "--"];

/// Runs the example with these words. That builds the server.
pub fn run(words: &[&str]) -> ExitCode {
    let mut cargo = Command::new(env!("CARGO"));
    forget_cargo(&mut cargo).args(EXAMPLE).args(words).current_dir(crate::root());
    match cargo.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
