//! `pantala doctor`: what will differ for whom moves here from the server that runs now; and
//! `pantala sizing`: how much a server needs.
//!
//! ```text
//! options --> connection --> facts --> checks --> findings --> print
//!                             |                     ^
//!                             `---- estimate -------'
//! ```
//!
//! | file | what |
//! |---|---|
//! | `options` | what it is told |
//! | `facts`, `keys` | what the other server says of itself, and some of its keys |
//! | `product` | which server it is |
//! | `checks` | what follows from that |
//! | `differences` | the lines of docs/differences.md, by command |
//! | `estimate` | how many bytes keys take here |
//! | `print` | text and JSON |
//! | `sizing` | the calculator |
//!
//! Invariants
//! 1. The other server is only read: no command is sent that changes data or settings.
//! 2. What it answers is a stranger's: it is bounded (`pantala_client`), nothing of it moves the
//!    terminal, and what cannot be understood is told, not guessed.
//! 3. What is here and what is not comes from the tables of commands and settings, so that nothing
//!    is to be edited here when something new lands.
//!
//! Not here: which commands there are (whoever calls says so, by [`Has`]). Tests: at the foot of
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
use options::Options;

/// Whether a command is here: `get`, or `config|get`.
pub type Has<'h> = &'h dyn Fn(&str) -> bool;

/// Runs with these words after `doctor`, and the password of the environment; whether something
/// stops the move.
///
/// # Errors
/// A text for the operator: the words are wrong, or the server could not be asked.
pub fn run(
    words: &[String],
    password: Option<String>,
    has: Has<'_>,
    output: &mut dyn Write,
) -> Result<bool, String> {
    let options = Options::parse(words, password)?;
    let (text, stops) = if options.is_help {
        (options::help(), false)
    } else {
        let mut connection = Connection::open(&options.address)?;
        let facts = facts::gather(&mut connection, &options)?;
        let report = checks::examine(&facts, has);
        let print = if options.is_json { print::json } else { print::text };
        (print(&facts, &report), report.stops())
    };
    // Nobody is left to tell when the reader has gone (`pantala doctor | head`).
    let _reader_has_gone = output.write_all(text.as_bytes());
    Ok(stops)
}
