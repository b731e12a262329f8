//! Servers that a step starts for itself: on a free port of 127.0.0.1, waited for until they
//! answer, stopped by their process id when they are dropped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::lines::{Fault, refuse};
use super::run::Run;

/// Below the ports that the kernel gives to outgoing connections: other steps make thousands.
const PORTS: RangeInclusive<u16> = 10_000..=32_000;
/// How long a server may take until it answers.
const MOST_START: Duration = Duration::from_secs(60);
/// Between two questions whether it does.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);
/// The logs of this room.
pub const LOGS: &str = "target/test";

/// A server that runs.
pub struct Server {
    /// Host and port.
    pub address: String,
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// The binary under test, without a file of data. It logs to where the step does.
    pub fn of(run: &Run) -> Result<Self, Fault> {
        Self::start(Command::new(&run.server))
    }

    /// A reference server.
    pub fn reference(program: &str) -> Result<Self, Fault> {
        let mut command = Command::new(program);
        command.args(["--enable-debug-command", "yes"]).stdout(Stdio::null()).stderr(Stdio::null());
        Self::start(command)
    }

    fn start(mut command: Command) -> Result<Self, Fault> {
        let port = free_port()?;
        let folder = std::env::temp_dir().join(format!("pantala-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|why| refuse(&why.to_string()))?;
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        let command = command.arg("--dir").arg(&folder).stdin(Stdio::null());
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|why| refuse(&format!("{program}: {why}")))?;
        let mut server = Self { address: format!("127.0.0.1:{port}"), child, folder };
        let address = server.address.clone();
        wait_for(&mut server.child, || is_answered(&address))
            .then_some(server)
            .ok_or_else(|| refuse(&format!("{program} does not answer")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
        let _is_gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether a server starts with io_uring, for which it listens at a socket alone.
pub fn has_uring(server: &str) -> Result<bool, Fault> {
    let wrong = |why: std::io::Error| refuse(&format!("{server}: {why}"));
    let socket = Path::new(LOGS).join(format!("uring.{}.sock", std::process::id()));
    let _is_gone = std::fs::remove_file(&socket);
    let log = std::fs::File::create(Path::new(LOGS).join("uring.log")).map_err(wrong)?;
    let mut command = Command::new(server);
    command.args(["--io_engine=uring", "--port=0", "--save=", "--unixsocket"]).arg(&socket);
    command.stdin(Stdio::null()).stderr(log.try_clone().map_err(wrong)?).stdout(log);
    let mut child = command.spawn().map_err(wrong)?;
    let is_socket = || std::fs::metadata(&socket).is_ok_and(|it| it.file_type().is_socket());
    let has = wait_for(&mut child, is_socket);
    end(&mut child);
    let _is_gone = std::fs::remove_file(&socket);
    Ok(has)
}

/// Waits until something is so; false if the process ends before that.
fn wait_for(child: &mut Child, is_so: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < MOST_START {
        if is_so() {
            return true;
        }
        if !matches!(child.try_wait(), Ok(None)) {
            return false;
        }
        std::thread::sleep(BETWEEN_QUESTIONS);
    }
    false
}

/// Asks a process to end, and waits until it has.
fn end(child: &mut Child) {
    if matches!(child.try_wait(), Ok(None)) {
        terminate(&child.id().to_string());
        let _ended = child.wait();
    }
}

/// Sends SIGTERM to a process, or with `-` before its number to a group. The standard library has
/// no call for that, and every shell has.
pub fn terminate(target: &str) {
    let line = format!("kill -s TERM -- {target}");
    let sent = Command::new("sh").args(["-c", &line]).stderr(Stdio::null()).status();
    if let Err(why) = sent {
        eprintln!("sh: {why}");
    }
}

fn free_port() -> Result<u16, Fault> {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let count = PORTS.end() - PORTS.start();
    let first = (random() % u64::from(count)) as u16;
    let ports = (0..count).map(|n| PORTS.start() + (first + n) % count);
    ports.into_iter().find(is_free).ok_or_else(|| refuse("no port is free"))
}

/// A number that differs each time: the seed of a hash map.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn is_answered(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = [0; 7];
    let is_asked = stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.write_all(b"PING\r\n").is_ok();
    is_asked && stream.read_exact(&mut answer).is_ok() && answer == *b"+PONG\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_before_it_answers_is_noticed() {
        let mut child = Command::new("true").spawn().expect("true");
        assert!(!wait_for(&mut child, || false));
    }

    #[test]
    fn a_process_is_ended_by_its_number() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("a process");
        end(&mut child);
        assert!(child.try_wait().expect("its end").is_some_and(|status| !status.success()));
    }

    #[test]
    fn a_free_port_can_be_had() {
        let port = free_port().expect("one");
        assert!(PORTS.contains(&port));
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
    }
}
