//! Writes the pages that derive from the code: of settings, or of commands. `cargo xtask docs`
//! calls it, since it knows neither itself; the tests of `settings` and of the server keep the
//! pages current.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pantala_server::commands::pages as commands;

const USAGE: &str = "Usage: pages settings|commands [--check]";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let settings = || pantala_settings::pages().into_iter().map(|(path, text)| (path.into(), text));
    match words.as_slice() {
        ["settings"] => write(settings().collect()),
        ["commands"] => write(commands::pages()),
        ["settings", "--check"] => Ok(check(settings().collect(), "docs")),
        ["commands", "--check"] => Ok(check(commands::pages(), "docs commands")),
        _ => Err(USAGE.into()),
    }
}

fn place_of(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn write(pages: Vec<(String, String)>) -> Result<ExitCode, Box<dyn Error>> {
    for (path, text) in pages {
        let place = place_of(&path);
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&place, text)?;
        println!("wrote {path}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares every file with its generated content.
fn check(pages: Vec<(String, String)>, command: &str) -> ExitCode {
    let mut outcome = ExitCode::SUCCESS;
    for (path, text) in pages {
        if std::fs::read_to_string(place_of(&path)).ok().as_ref() != Some(&text) {
            eprintln!("{path} is not current; run: cargo xtask {command}");
            outcome = ExitCode::FAILURE;
        }
    }
    outcome
}
