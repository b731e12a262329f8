//! `pantala doctor`: what will differ after a move from another server; and `pantala sizing`: how
//! much a server needs.
//!
//! ```text
//! options --> connection --> facts --> checks --> findings --> print
//!                             |                     ^
//!                             `---- estimate -------'
//! ```
//!
//! | file | what |
//! |---|---|
//! | `options` | the command line |
//! | `facts`, `keys` | what the other server reports, and a sample of its keys |
//! | `product` | the kind of server |
//! | `checks` | what follows from the facts |
//! | `differences` | the lines of docs/differences.md, by command |
//! | `estimate` | the size of keys here |
//! | `print` | text and JSON |
//! | `sizing` | the calculator |
//!
//! Invariants
//! 1. The other server is only read: no command is sent that changes data or settings.
//! 2. Its replies are untrusted: they are bounded (`pantala_client`), cannot control the terminal,
//!    and what cannot be parsed is reported, not guessed.
//! 3. What exists here comes from the tables of commands and settings, so that nothing needs
//!    editing here when something new is added.
//!
//! Not here: which commands exist (the caller says so, by [`CommandLookup`]). Tests: at the foot of
//! each file, `tests/scripted.rs`, and compat/clients/doctor.py with real servers.

#![forbid(unsafe_code)]

mod checks;
pub mod differences;
pub mod estimate;
mod facts;
mod finding;
mod keys;
mod options;
mod print;
mod product;
pub mod sizing;

use std::io::Write;

use pantala_client::Connection;

pub use finding::{Finding, Severity};
use options::DoctorOptions;

/// Whether a command exists here: `get`, or `config|get`.
pub type CommandLookup<'h> = &'h dyn Fn(&str) -> bool;

/// Runs with the words after `doctor` and the password of the environment; returns whether
/// something prevents the move.
///
/// # Errors
/// A text for the operator: invalid words, or the server could not be asked.
pub fn run(
    words: &[String],
    password: Option<String>,
    has: CommandLookup<'_>,
    output: &mut dyn Write,
) -> Result<bool, String> {
    let options = DoctorOptions::parse(words, password)?;
    let (text, stops) = if options.is_help {
        (options::help(), false)
    } else {
        let mut connection = Connection::open(&options.address)?;
        let facts = facts::gather(&mut connection, &options)?;
        let report = checks::examine(&facts, has);
        let print = if options.is_json { print::json } else { print::text };
        (print(&facts, &report), report.stops())
    };
    // Nobody is left to tell when the reader is gone (`pantala doctor | head`).
    let _reader_has_gone = output.write_all(text.as_bytes());
    Ok(stops)
}
