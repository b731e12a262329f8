//! Pages that derive from the code. Each is one row of `PAGES`.

use std::process::ExitCode;

/// A page's path, and what writes it.
type Page = (&'static str, fn() -> String);

const PAGES: [Page; 1] = [("docs/settings.md", pantala_settings::page)];

/// Writes every page.
pub fn write() -> ExitCode {
    for (path, page) in PAGES {
        if let Err(error) = std::fs::write(crate::root().join(path), page()) {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
        println!("wrote {path}");
    }
    ExitCode::SUCCESS
}

/// Compares every page with what would be written.
pub fn check() -> ExitCode {
    let is_stale = |(path, page): &Page| {
        std::fs::read_to_string(crate::root().join(path)).ok() != Some(page())
    };
    let stale: Vec<&str> = PAGES.iter().filter(|page| is_stale(page)).map(|page| page.0).collect();
    for path in &stale {
        eprintln!("{path} is not current; run: cargo xtask docs");
    }
    if stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
