//! The process of a step: this program once more, as `xtask test-step NAME REACH`, in a process
//! group of its own, its output in target/test/STEP.log.
//!
//! Invariants
//! 1. A step ends when the run does, however that ends: the run holds the other end of the pipe
//!    that the step has for its input, and a thread of the step ends the group when it closes.
//! 2. What a step starts does not inherit that pipe: `lines::finish` and its kin give them nothing
//!    to read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::environment::forget_cargo;

use super::counts::{Counts, failure_in};
use super::lines::{Ending, Fault, SKIPPED, run_line};
use super::run::{Reach, Run};
use super::servers::{LOGS, terminate};
use super::steps::{Act, Step};

/// The hidden command of this program that runs one step.
pub const COMMAND: &str = "test-step";

/// A step that runs.
pub struct Process {
    step: &'static Step,
    child: Child,
    began: Instant,
    /// The step lives as long as this is open.
    _lease: Option<ChildStdin>,
}

/// How a step went.
pub struct Report {
    /// The step.
    pub step: &'static Step,
    /// Its checks.
    pub counts: Counts,
    /// What is printed of it, without the last newline.
    pub text: String,
}

/// Where the log of a step is.
pub fn log_of(step: &Step) -> PathBuf {
    Path::new(LOGS).join(format!("{}.log", step.name))
}

impl Process {
    /// Starts a step.
    pub fn start(step: &'static Step, reach: Reach) -> io::Result<Self> {
        let log = File::create(log_of(step))?;
        // By this name even a binary that was built anew in the meantime is the one that runs.
        let mut command = Command::new("/proc/self/exe");
        command.args([COMMAND, step.name, reach.word()]).process_group(0);
        command.stdin(Stdio::piped()).stderr(log.try_clone()?).stdout(log);
        forget_cargo(&mut command).env("PATH", path()).env("CARGO_TERM_COLOR", "never");
        let mut child = command.spawn()?;
        let lease = child.stdin.take();
        Ok(Self { step, child, began: Instant::now(), _lease: lease })
    }

    /// Waits until it ends.
    pub fn wait(mut self) -> Report {
        let code = self.child.wait().ok().and_then(|status| status.code());
        let bytes = std::fs::read(log_of(self.step)).unwrap_or_default();
        let log = String::from_utf8_lossy(&bytes);
        Report::new(self.step, code, self.began.elapsed(), &log)
    }
}

impl Report {
    fn new(step: &'static Step, code: Option<i32>, took: Duration, log: &str) -> Self {
        let (name, seconds) = (step.name, took.as_secs());
        let mut counts = Counts::of_log(log);
        if code == Some(SKIPPED.into()) {
            let why = log.lines().last().unwrap_or_default();
            let text = format!("{name:<12}skipped {seconds:3} s   {why}");
            return Self { step, counts: Counts::default(), text };
        }
        if code == Some(0) && counts.failed == 0 {
            let text = format!("{name:<12}ok     {seconds:4} s   {}", counts.passed);
            return Self { step, counts, text };
        }
        if counts.failed == 0 {
            counts = Counts { passed: 0, failed: 1 };
        }
        let mut text = format!("{name:<12}FAILED {seconds:4} s   ({})", log_of(step).display());
        failure_in(log).iter().for_each(|line| text.push_str(&format!("\n    {line}")));
        Self { step, counts, text }
    }

    /// Of a step that could not be started.
    pub fn unstarted(step: &'static Step, why: &io::Error) -> Self {
        Self::new(step, None, Duration::ZERO, &why.to_string())
    }

    /// Whether no check failed.
    pub fn is_well(&self) -> bool {
        self.counts.failed == 0
    }
}

/// Runs one step, in the process that is there for it.
pub fn run_step(name: &str, reach: &str) -> ExitCode {
    let (Some(step), Some(reach)) = (Step::named(name), Reach::of_word(reach)) else {
        eprintln!("no step '{name}', or not by '{reach}'");
        return ExitCode::from(2);
    };
    std::thread::spawn(end_with_the_run);
    match act(step, &Run::new(reach)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fault::Failed) => ExitCode::FAILURE,
        Err(Fault::Skipped) => ExitCode::from(SKIPPED),
    }
}

fn act(step: &Step, run: &Run) -> Ending {
    match step.act {
        Act::Lines(lines) => lines.iter().try_for_each(|line| run_line(run, line)),
        Act::Call(function) => function(run),
    }
}

/// Where programs are found: the wheels' first, cargo's at last.
fn path() -> OsString {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let known = std::env::var_os("PATH").unwrap_or_default();
    let known = std::env::split_paths(&known).collect::<Vec<_>>();
    let wheels = crate::root().join(".venv/bin");
    let folders = [wheels].into_iter().chain(known).chain([home.join(".cargo/bin")]);
    std::env::join_paths(folders).unwrap_or_default()
}

/// Waits until the run is gone, and then ends this process and all that it has started.
fn end_with_the_run() {
    let _nothing = io::stdin().read(&mut [0]);
    terminate(&format!("-{}", std::process::id()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(code: Option<i32>, log: &str) -> Report {
        Report::new(Step::named("tidy").expect("a step"), code, Duration::from_secs(7), log)
    }

    fn check(code: Option<i32>, log: &str, passed: u64, failed: u64, first_line: &str) {
        let report = report(code, log);
        assert_eq!(report.counts, Counts { passed, failed });
        assert_eq!(report.text.lines().next(), Some(first_line));
        assert_eq!(report.is_well(), failed == 0);
    }

    #[test]
    fn a_step_is_well_if_it_ends_with_0_and_no_check_failed() {
        check(Some(0), "3 passed, 0 failed\n", 3, 0, "tidy        ok        7 s   3");
        let failed = "tidy        FAILED    7 s   (target/test/tidy.log)";
        check(Some(0), "3 passed, 2 failed\n", 3, 2, failed);
        check(Some(1), "3 passed, 0 failed\n", 0, 1, failed);
        check(None, "", 0, 1, failed);
    }

    #[test]
    fn a_skipped_step_counts_nothing_and_tells_why() {
        let line = "tidy        skipped   7 s   no root";
        check(Some(75), "1 passed, 0 failed\nno root\n", 0, 0, line);
    }

    #[test]
    fn what_tells_most_of_a_failure_is_indented() {
        let text = report(Some(1), "error: x\n").text;
        assert_eq!(text.lines().nth(1), Some("    1: error: x"));
        assert_eq!(text.lines().last(), Some("    error: x"));
    }
}
