//! The project's maintenance commands: `cargo xtask tidy`, `cargo xtask docs` and `cargo xtask
//! hardened`.
//!
//! Not here: running tests and servers; `./test` does that.

#![forbid(unsafe_code)]

mod docs;
mod elf;
mod hardened;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask tidy               check the house rules
       cargo xtask tidy --tighten     lower the numbers of tidy.toml to what is found
       cargo xtask tidy --wrap        wrap comment lines beyond 100 columns
       cargo xtask docs [--check]     write, or only compare, the pages that derive from the code
       cargo xtask docs commands      write the pages of commands, for which the server is built
       cargo xtask hardened FILE      check what a binary was linked with against its own holes
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["tidy", "--tighten"] => tidy::tighten(),
        ["tidy", "--wrap"] => tidy::wrap(),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["docs", "commands"] => docs::commands(),
        ["hardened", file] => hardened::run(file),
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
