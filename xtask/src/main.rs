//! The project's maintenance commands: `cargo xtask test` (which `./test` calls), `cargo xtask
//! tidy`, `cargo xtask docs` and `cargo xtask hardened`.

#![forbid(unsafe_code)]

mod docs;
mod elf;
mod environment;
mod hardened;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask test [STEP...]      run all that must hold, or some steps (test --help)
       cargo xtask tidy               check the house rules
       cargo xtask tidy --tighten     lower the numbers of tidy.toml to what is found
       cargo xtask tidy --wrap        wrap comment lines beyond 100 columns
       cargo xtask docs [--check]     write, or only compare, the pages that derive from the code
       cargo xtask docs commands      write the pages of commands
       cargo xtask hardened FILE      check what a binary was linked with against its own holes
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["tidy", "--tighten"] => tidy::tighten(),
        ["tidy", "--wrap"] => tidy::wrap(),
        ["docs"] => docs::run(&["settings"]),
        ["docs", "--check"] => docs::run(&["settings", "--check"]),
        ["docs", "commands"] => docs::run(&["commands"]),
        ["hardened", file] => hardened::run(file),
        ["test", words @ ..] => test::run(words),
        [test::COMMAND, name, reach] => test::run_step(name, reach),
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
