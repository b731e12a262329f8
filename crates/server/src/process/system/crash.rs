//! The report of a crash in the log, in Valkey's form and words: tools look for "crashed by signal"
//! and for the lines around it.
//!
//! The crashed thread notes what the kernel tells it (`pantala_base::os::CrashWatch`) and waits; a
//! thread that was started before, on a healthy stack, writes the report, and the process ends by
//! the signal. The part that is known for certain is written first, without using the heap, which
//! the crash may have damaged; then comes the part for which other threads are asked. If the report
//! does not end, the process ends after five seconds.
//!
//! No value of a key and no password is written; addresses and names of clients are.
//!
//! Tests: the bad day `crash_report`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use pantala_base::os::{Crash, CrashWatch, REGISTER_NAMES};

use super::pidfile;
use crate::shared::Shared;
use pantala_engine::clients::filter::ClientFilter;
use pantala_operator::info;
use pantala_workers::workers::inbox::Message;

/// Bytes for the part of the report that is known for certain.
const CERTAIN_BYTES: usize = 8 << 10;
/// How long a worker's answer is waited for.
const PATIENCE: Duration = Duration::from_millis(200);

/// Starts the thread that reports a crash of the process.
///
/// # Errors
/// A text for the operator.
pub fn begin(shared: &Arc<Shared>) -> Result<(), String> {
    let cannot = |error: io::Error| format!("crashes can not be reported: {error}");
    let watch = CrashWatch::begin().map_err(cannot)?;
    let (shared, program) = (Arc::clone(shared), Program::find());
    let life = move || {
        let Some(seen) = watch.wait() else { return };
        // A report that cannot be written is dropped: nobody is left to be told.
        let _unwritten = report(&shared, &program, seen.0);
    };
    std::thread::Builder::new().name("crash-report".into()).spawn(life).map_err(cannot)?;
    Ok(())
}

/// The addresses of the program's code in memory.
struct Program {
    from: u64,
    to: u64,
}

impl Program {
    fn find() -> Program {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let path = std::env::current_exe().unwrap_or_default();
        let of_program = |line: &&str| line.ends_with(&*path.to_string_lossy());
        let range = |line: &str| {
            let (from, to) = line.split_once(' ')?.0.split_once('-')?;
            Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
        };
        let ranges: Vec<(u64, u64)> = maps.lines().filter(of_program).filter_map(range).collect();
        let from = ranges.first().map_or(0, |range| range.0);
        Program { from, to: ranges.last().map_or(0, |range| range.1) }
    }

    /// Writes an address and its offset in the program's file, as `addr2line` wants it.
    fn write(&self, address: u64, out: &mut impl Write) -> io::Result<()> {
        match (self.from..self.to).contains(&address) {
            true => writeln!(out, "pantala(+{:#x}) [{address:#x}]", address - self.from),
            false => writeln!(out, "[{address:#x}]"),
        }
    }
}

fn report(shared: &Arc<Shared>, program: &Program, crash: &Crash) -> io::Result<()> {
    let settings = shared.engine.settings.current();
    if !settings.crash_log_enabled {
        return Ok(());
    }
    let mut log = match settings.logfile.is_empty() {
        true => File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?),
        false => OpenOptions::new().append(true).create(true).open(&settings.logfile)?,
    };
    let mut room = [0; CERTAIN_BYTES];
    let mut left = &mut room[..];
    // A part that does not fit is left out.
    let _cut = write_certain(crash, program, &mut left);
    let written = CERTAIN_BYTES - left.len();
    log.write_all(&room[..written])?;
    write!(log, "\n------ INFO OUTPUT ------\n{}", info::figures(&shared.operator))?;
    writeln!(log, "\n------ CLIENT LIST OUTPUT ------")?;
    for line in clients(shared) {
        writeln!(log, "{line}")?;
    }
    pidfile::remove(&settings);
    writeln!(log, "\n=== PANTALA BUG REPORT END. Make sure to include from START to END. ===\n")
}

/// Writes the part that needs only the crashed thread's notes.
fn write_certain(crash: &Crash, program: &Program, out: &mut impl Write) -> io::Result<()> {
    let of = Ordering::Relaxed;
    let (pid, version) = (std::process::id(), env!("CARGO_PKG_VERSION"));
    let (signal, code) = (crash.signal.load(of), crash.code.load(of));
    writeln!(out, "\n\n=== PANTALA BUG REPORT START: Cut & paste starting from here ===")?;
    writeln!(out, "{pid}:M # Pantala {version} crashed by signal: {signal}, si_code: {code}")?;
    if code <= 0 {
        let (pid, uid) = (crash.sender_pid.load(of), crash.sender_uid.load(of));
        writeln!(out, "Killed by PID: {pid}, UID: {uid}")?;
    } else {
        writeln!(out, "Accessing address: {:#x}", crash.address.load(of))?;
    }
    write!(out, "Crashed running the instruction at: ")?;
    program.write(crash.registers[0].load(of), out)?;
    writeln!(out, "Thread: {}", crash.thread.load(of))?;
    writeln!(out, "\n------ STACK TRACE ------")?;
    for frame in crash.frames.iter().map(|frame| frame.load(of)).take_while(|frame| *frame != 0) {
        program.write(frame, out)?;
    }
    writeln!(out, "------ STACK TRACE DONE ------\n\n------ REGISTERS ------")?;
    for (number, (name, value)) in REGISTER_NAMES.iter().zip(&crash.registers).enumerate() {
        let end = if number % 4 == 3 { '\n' } else { ' ' };
        write!(out, "{name}:{:016x}{end}", value.load(of))?;
    }
    writeln!(out)
}

/// The CLIENT LIST lines of the workers that answer in time.
fn clients(shared: &Shared) -> Vec<String> {
    let filter = Arc::new(ClientFilter::default());
    let mut lines = Vec::new();
    for worker in shared.workers.serving() {
        let (answer, answered) = channel();
        let message = Message::List { filter: Arc::clone(&filter), answer };
        if shared.workers.post(worker, message).is_ok()
            && let Ok(found) = answered.recv_timeout(PATIENCE)
        {
            lines.extend(found.into_iter().map(|(_, line)| line));
        }
    }
    lines
}
