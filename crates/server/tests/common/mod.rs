//! A whole server in the process of a test: started with words of a command line, stopped when it
//! is dropped, with a folder of its own that goes with it.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use pantala_commands::Registry;
use pantala_server::commands::registry;
use pantala_server::process::start::{Running, start_with};
use pantala_settings::{Disk, Settings, Start};

/// Longer than anything takes in these tests, yet short enough to fail in.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs.
pub struct Server {
    running: Option<Running>,
    /// Where its files are.
    pub directory: PathBuf,
    /// Where it listens at 127.0.0.1; 0: at its socket alone.
    pub port: u16,
}

impl Server {
    /// At a free port, which this flag sets.
    pub fn at_port(flag: &str, more: &[&str]) -> Self {
        let port = free_port();
        let mut server = Self::unstarted(port);
        server.start(&[&[flag, &port.to_string()], more].concat(), registry());
        server
    }

    /// At a Unix socket.
    pub fn at_socket(more: &[&str]) -> Self {
        Self::with_rows(more, registry())
    }

    /// At a Unix socket, with a command table of the test's own.
    pub fn with_rows(more: &[&str], rows: Registry) -> Self {
        let mut server = Self::unstarted(0);
        server.start_at_socket(more, rows);
        server
    }

    fn unstarted(port: u16) -> Self {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pantala-test-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        Self { running: None, directory, port }
    }

    fn start_at_socket(&mut self, more: &[&str], rows: Registry) {
        let socket = self.socket().display().to_string();
        self.start(&[&["--port", "0", "--unixsocket", &socket], more].concat(), rows);
    }

    fn start(&mut self, more: &[&str], rows: Registry) {
        let directory = self.directory.display().to_string();
        let own = ["--dir", &directory, "--bind", "127.0.0.1", "--save", ""];
        let words: Vec<String> = own.iter().chain(more).map(|word| (*word).to_owned()).collect();
        let started = Settings::from_args(&words, std::iter::empty(), &mut Disk);
        let Start::Run(launch) = started.expect("good words") else { panic!("nothing to print") };
        let rows = rows.renamed(&launch.renames).expect("good names");
        let mut running = start_with(launch.settings, None, rows).expect("it starts");
        running.load().expect("it loads");
        self.running = Some(running);
    }

    /// Starts again, at the socket and with the files of before.
    pub fn restart(&mut self, more: &[&str]) {
        self.stop();
        self.start_at_socket(more, registry());
    }

    /// Stops it.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
            // A server that does not stop would also hang a test that has failed.
            if !std::thread::panicking() {
                running.wait();
            }
        }
    }

    /// Waits until it has stopped, which somebody else has told it to do.
    pub fn wait(&mut self) {
        self.running.take().expect("it runs").wait();
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("s")
    }

    /// A connection to its socket.
    pub fn connect_to_socket(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        stream
    }

    /// A connection to its port.
    pub fn connect_to_port(&self) -> TcpStream {
        connect_to(("127.0.0.1", self.port)).expect("it listens")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        // No test depends on the removal.
        let _best_effort = std::fs::remove_dir_all(&self.directory);
    }
}

/// A connection that gives up reading in the end; none, if nobody listens there.
pub fn connect_to(address: (&str, u16)) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream.set_nodelay(true).expect("a socket");
    Some(stream)
}

/// A port that is free, and stays so: not one of those that the kernel gives to outgoing
/// connections, of which tests make many, and never the same twice in this process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 200) as u16 * 100;
    loop {
        let port = 12_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
