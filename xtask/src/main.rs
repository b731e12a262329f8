//! The project's chores: `cargo xtask docs` and, when it lands, `cargo xtask tidy`.

#![forbid(unsafe_code)]

mod docs;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask docs [--check]   write, or only compare, the pages that derive from the code
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The root of the repository.
fn root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).into()
}
