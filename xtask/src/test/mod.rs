//! `cargo xtask test`: all that must hold before a change lands. `./test` calls it.
//!
//! Steps run side by side, since most of them keep one core busy; what is printed comes in the
//! order in which they end. None may rely on being alone: ports are free ones, figures mean
//! nothing.
//!
//! | module | what |
//! |---|---|
//! | `steps` | the table of steps; a new one is a row |
//! | `choice` | the command line |
//! | `order`, `schedule` | which step begins when |
//! | `process` | a step runs in a process of its own, with a log |
//! | `counts` | what a log tells |
//! | `lines` | the command lines of the table |
//! | `calls`, `plays`, `needs` | steps that are more than lines |
//! | `servers` | servers that steps start |
//!
//! Needs Rust, a C compiler, Python 3, Node 20 and Go 1.26; the step `needs` brings the rest. The
//! output of each step is kept in target/test/STEP.log. The server under test is
//! target/release/pantala; $PANTALA names another.

mod calls;
mod choice;
mod counts;
mod lines;
mod needs;
mod order;
mod plays;
mod process;
mod run;
mod schedule;
mod servers;
mod steps;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use choice::Choice;
pub use process::{COMMAND, run_step};
use schedule::Schedule;

const USAGE: &str = "\
All that must hold before a change lands.

  ./test                 every step
  ./test quick           what tells most in a few minutes, with a debug build; needs only Rust
  ./test unit tidy       these steps
  ./test --long          every step, the soaks and other people's suites
  ./test --jobs N        N steps at a time; when not told, one for each core, four at most
  ./test --list          the steps, what they wait for and what they do
";

/// Runs steps, tells how each went, and fails if one has.
pub fn run(words: &[&str]) -> ExitCode {
    if words.contains(&"--help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match Choice::parse(words, cores) {
        Ok(Choice::List) => {
            let mut out = std::io::stdout().lock();
            // Who has read enough of the list may close it.
            let _written = steps::STEPS.iter().try_for_each(|step| writeln!(out, "{}", step.row()));
            ExitCode::SUCCESS
        }
        Ok(Choice::Steps { names, reach, jobs }) => {
            let began = Instant::now();
            if let Err(why) = prepare() {
                eprintln!("{}: {why}", servers::LOGS);
                return ExitCode::FAILURE;
            }
            let total = Schedule::new(&names, reach, jobs).run();
            let seconds = began.elapsed().as_secs();
            println!("\n{} min {} s", seconds / 60, seconds % 60);
            println!("{} passed, {} failed", total.passed, total.failed);
            if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Where steps work.
fn prepare() -> std::io::Result<()> {
    std::env::set_current_dir(crate::root())?;
    std::fs::create_dir_all(servers::LOGS)
}
