//! A connection to a server under test, and the server itself as a child process.
//!
//! 1. Every wait ends: every read and every start has a time limit.
//! 2. A server that was started here is stopped by process id when its guard is dropped; its folder
//!    is removed.

use crate::pattern::Resp;
use crate::quoting;
use crate::value::{self, Value};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a reply may take.
pub const REPLY_LIMIT: Duration = Duration::from_secs(60);
/// How long a server may take to answer its first PING.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The time between two attempts to reach a server that starts.
const START_POLL: Duration = Duration::from_millis(5);

/// Why a read did not return a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server closed the connection.
    Closed,
    /// No reply within `REPLY_LIMIT`.
    Silent,
    /// The bytes are not a reply.
    Malformed(&'static str),
    /// The server cannot be reached or died.
    Unreachable(String),
}

/// One connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects, and sends HELLO for RESP3.
    pub fn open(address: &str, resp: Resp) -> Result<Connection, Fault> {
        let unreachable = |error: std::io::Error| Fault::Unreachable(format!("{address}: {error}"));
        let stream = TcpStream::connect(address).map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        stream.set_read_timeout(Some(REPLY_LIMIT)).map_err(unreachable)?;
        let mut connection = Connection { stream, buffer: Vec::new() };
        if resp == Resp::Three {
            connection.send(&encode(&[b"HELLO".to_vec(), b"3".to_vec()]));
            if let Value::Error(text) = connection.receive()? {
                return Err(Fault::Unreachable(String::from_utf8_lossy(&text).into_owned()));
            }
        }
        Ok(connection)
    }

    /// Sets how long to wait for a reply, instead of `REPLY_LIMIT`.
    pub fn limit(&mut self, limit: Duration) {
        // It fails only for zero; then the old limit stays.
        let _ = self.stream.set_read_timeout(Some(limit));
    }

    /// Sends bytes. A failed send shows as `Closed` at the next read, after the replies that still
    /// arrived.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Closes the connection in both directions; bytes that have arrived are not read any more.
    pub fn hang_up(&mut self) {
        // It may have been closed already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        self.buffer.clear();
    }

    /// Sends a command and reads its reply.
    pub fn command(&mut self, args: &[&str]) -> Result<Value, Fault> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        self.send(&encode(&args));
        self.receive()
    }

    /// The next reply.
    pub fn receive(&mut self) -> Result<Value, Fault> {
        loop {
            if let Some((value, used)) =
                value::read(&self.buffer).map_err(|bad| Fault::Malformed(bad.0))?
            {
                self.buffer.drain(..used);
                return Ok(value);
            }
            self.fill()?;
        }
    }

    /// The next `count` bytes.
    pub fn receive_bytes(&mut self, count: usize) -> Result<Vec<u8>, Fault> {
        while self.buffer.len() < count {
            self.fill()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// A reply that has already arrived, if there is one.
    pub fn unread(&mut self) -> Option<Value> {
        if self.stream.set_nonblocking(true).is_ok() {
            let _ = self.fill();
            let _ = self.stream.set_nonblocking(false);
        }
        value::read(&self.buffer).ok().flatten().map(|(value, _)| value)
    }

    fn fill(&mut self) -> Result<(), Fault> {
        let mut chunk = [0; 1 << 16];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(Fault::Closed),
            Ok(count) => {
                self.buffer.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Fault::Silent)
            }
            Err(_) => Err(Fault::Closed),
        }
    }
}

/// A command as the array of bulk strings that clients send.
pub fn encode(args: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend(format!("${}\r\n", arg.len()).bytes());
        out.extend(arg);
        out.extend(b"\r\n");
    }
    out
}

/// A server started for the tests.
pub struct Server {
    child: Child,
    folder: PathBuf,
    /// Its address, `127.0.0.1:port`.
    pub address: String,
    _claim: UnixListener,
}

impl Server {
    /// Starts the command with `{port}` and `{dir}` filled in, `more` arguments after it, and
    /// waits until it answers.
    pub fn start(command: &str, more: &str) -> Result<Server, String> {
        let folder = fresh_folder().map_err(|error| format!("no temporary folder: {error}"))?;
        let (port, claim) = free_port().map_err(|error| format!("no free port: {error}"))?;
        let text = format!("{command} {more}")
            .replace("{port}", &port.to_string())
            .replace("{dir}", &folder.to_string_lossy());
        let words = quoting::split(&text)?;
        let words: Vec<String> =
            words.into_iter().map(|w| String::from_utf8_lossy(&w).into_owned()).collect();
        let (program, args) = words.split_first().ok_or("an empty server command")?;
        let child = Command::new(program)
            .args(args)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let address = format!("127.0.0.1:{port}");
        let mut server = Server { child, folder, address, _claim: claim };
        server.wait_until_ready(&text)?;
        Ok(server)
    }

    /// The folder of the server.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn wait_until_ready(&mut self, text: &str) -> Result<(), String> {
        let end = Instant::now() + START_LIMIT;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{text}: ended with {status}"));
            }
            let answer = Connection::open(&self.address, Resp::Two)
                .and_then(|mut connection| connection.command(&["PING"]));
            if answer.is_ok() {
                return Ok(());
            }
            std::thread::sleep(START_POLL);
        }
        Err(format!("{text}: no answer within {START_LIMIT:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A range below the ports that the kernel gives to outgoing connections: other tests make
/// thousands of these between the check of a port and the start of its server.
const PORTS: std::ops::Range<u64> = 10_000..32_000;

/// A port without a listener, and the claim that keeps other tests from taking it: a Unix socket
/// without a file, as in `ports.py`.
fn free_port() -> std::io::Result<(u16, UnixListener)> {
    let mut trouble = None;
    for _ in PORTS {
        // The standard library's only source of random numbers.
        let chance = RandomState::new().build_hasher().finish();
        let port = (PORTS.start + chance % (PORTS.end - PORTS.start)) as u16;
        let name = SocketAddr::from_abstract_name(format!("pantala-test-port-{port}"))?;
        let claimed = UnixListener::bind_addr(&name)
            .and_then(|claim| TcpListener::bind(("0.0.0.0", port)).map(|_| claim));
        match claimed {
            Ok(claim) => return Ok((port, claim)),
            Err(taken) => trouble = Some(taken),
        }
    }
    Err(trouble.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
}

fn fresh_folder() -> std::io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("pantala-compat-{}-{count}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulks() {
        let args = [b"GET".to_vec(), b"k".to_vec()];
        assert_eq!(encode(&args), b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }

    #[test]
    fn replies_arrive_in_pieces_and_the_end_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"$5\r\nhe").unwrap();
            stream.write_all(b"llo\r\n:7\r\n").unwrap();
        });
        let mut connection = Connection::open(&address, Resp::Two).unwrap();
        assert_eq!(connection.receive(), Ok(Value::Bulk(b"hello".to_vec())));
        server.join().unwrap();
        assert_eq!(connection.unread(), Some(Value::Int(7)));
        assert_eq!(connection.receive(), Ok(Value::Int(7)));
        assert_eq!(connection.receive(), Err(Fault::Closed));
    }

    #[test]
    fn a_server_that_ends_at_once_is_told() {
        let error = Server::start("false", "").err().unwrap();
        assert!(error.contains("ended with"), "{error}");
    }
}
