//! The fence of a cluster node: after its permission has ended, nothing is written, nothing read,
//! and nothing answered that ran past the end.
//!
//! The permission comes from DEBUG CLUSTER-FENCE. A server that stands still is one that SIGSTOP
//! has stopped.
//!
//! Not here: how a node gets its permission (`pantala_cluster::control`).

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, connect_to, free_port};

const DOWN: &str = "-CLUSTERDOWN The cluster is down\r\n";
/// Long enough for a permission that is not to end by itself.
const LONG_MS: u64 = 600_000;
/// A permission that ends while the server is stopped.
const SHORT_MS: u64 = 120;
/// How often a server is stopped under load.
const ROUNDS: usize = 8;
/// The load's requests at a time.
const BATCH: usize = 500;
/// How many batches are sent ahead of the answers.
const AHEAD: usize = 4;

/// A node that owns every slot, in a process of its own.
struct Node {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Node {
    fn start(engine: &str, more: &[&str]) -> Node {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("pantala-fence-{port}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let process = Command::new(env!("CARGO_BIN_EXE_pantala"))
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--dir", folder.to_str().expect("it is text"), "--threads", "1"])
            .args(["--cluster-enabled", "yes", "--io_engine", engine])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let node = Node { process, port, folder };
        let mut client = node.connect();
        client.lines_until("CLUSTER ADDSLOTSRANGE 0 16383", "+OK\r\n");
        client.lines_until("SET k 0", "+OK\r\n");
        node
    }

    fn connect(&self) -> Client {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(stream) = connect_to(("127.0.0.1", self.port)) {
                return Client(stream);
            }
            assert!(Instant::now() < until, "nobody listens");
            std::thread::yield_now();
        }
    }

    fn permit(&self, milliseconds: u64) {
        let answer = self.connect().ask(&format!("DEBUG CLUSTER-FENCE {milliseconds}"));
        // It ran under the permission before: if this one ends at once, that is not answered.
        assert!(answer == "+OK\r\n" || milliseconds == 0 && answer == "closed", "{answer:?}");
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let status = Command::new("kill").args([name, &pid]).status().expect("it runs");
        assert!(status.success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // No test depends on these.
        let _killed = self.process.kill();
        let _ended = self.process.wait();
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}

struct Client(TcpStream);

impl Client {
    /// All that is answered to a line, up to the answer of a PING after it, or the end of the
    /// connection.
    fn ask(&mut self, line: &str) -> String {
        const END: &str = "$3\r\nend\r\n";
        self.0.write_all(format!("{line}\r\nPING end\r\n").as_bytes()).expect("it is open");
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while !text.ends_with(END) {
            match self.0.read(&mut bytes) {
                Ok(count) if count > 0 => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer"),
                _ => return text + "closed",
            }
        }
        text.truncate(text.len() - END.len());
        text
    }

    fn wait_for_blocked(&mut self, count: usize) {
        let until = Instant::now() + PATIENCE;
        while !self.ask("INFO clients").contains(&format!("blocked_clients:{count}\r\n")) {
            assert!(Instant::now() < until, "there are never {count}");
        }
    }

    /// All that comes until it is closed.
    fn rest(mut self) -> String {
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        loop {
            match self.0.read(&mut bytes) {
                Ok(count) if count > 0 => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it is not closed"),
                _ => return text,
            }
        }
    }

    /// So many lines that are answered.
    fn lines(&mut self, request: &str, count: usize) -> String {
        self.0.write_all(format!("{request}\r\n").as_bytes()).expect("it is open");
        let (mut text, mut byte) = (String::new(), [0]);
        while text.matches('\n').count() < count {
            self.0.read_exact(&mut byte).expect("an answer");
            text.push(byte[0].into());
        }
        text
    }

    fn lines_until(&mut self, request: &str, wanted: &str) {
        let until = Instant::now() + PATIENCE;
        while self.lines(request, 1) != wanted {
            assert!(Instant::now() < until, "{request:?} never answers {wanted:?}");
        }
    }
}

fn with_both(test: impl Fn(&str)) {
    test("epoll");
    test("uring");
}

#[test]
fn after_its_end_nothing_is_served_until_it_is_extended() {
    with_both(|engine| {
        let node = Node::start(engine, &[]);
        let (mut client, mut early) = (node.connect(), node.connect());
        assert_eq!(early.lines("MULTI\r\nSET k 1", 2), "+OK\r\n+QUEUED\r\n");
        node.permit(0);
        for line in ["SET k 1", "GET k", "MGET k k", "DEL k k", "BLPOP k 0", "FLUSHALL"] {
            assert_eq!(client.ask(line), DOWN, "{line}");
        }
        for line in ["EVAL 'return 1' 1 k", "EVAL_RO 'return 1' 1 k"] {
            assert_eq!(client.ask(line), DOWN, "{line}");
        }
        for script in ["'set', 'k', 1", "'get', 'k'", "'flushall'"] {
            let answer = client.ask(&format!("EVAL \"return redis.call({script})\" 0"));
            let told = "Script attempted to execute a command while the cluster is down";
            assert!(answer.starts_with("-ERR") && answer.contains(told), "{script}: {answer}");
        }
        assert_eq!(early.ask("EXEC"), DOWN);
        let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        assert_eq!(client.ask("MULTI\r\nSET k 1\r\nEXEC"), format!("+OK\r\n{DOWN}{aborted}"));
        assert_eq!(client.ask("PING"), "+PONG\r\n");
        node.permit(LONG_MS);
        assert_eq!(client.ask("GET k"), "$1\r\n0\r\n", "nothing was written");
        assert_eq!(client.ask("CONFIG SET cluster-allow-reads-when-down yes"), "+OK\r\n");
        node.permit(0);
        let told = "-CLUSTERDOWN The cluster is down and only accepts read commands\r\n";
        assert_eq!(client.ask("SET k 1"), told);
        assert_eq!(client.ask("GET k"), "$1\r\n0\r\n");
        assert_eq!(client.ask("DEBUG CLUSTER-FENCE OFF\r\nSET k 1"), "+OK\r\n+OK\r\n");
    });
}

/// Lets the permission end while these requests of a client run on the lane.
fn answer_of(node: &Node, requests: &str) -> String {
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    let until = Instant::now() + PATIENCE;
    loop {
        node.permit(LONG_MS);
        let (mut client, mut watcher) = (node.connect(), node.connect());
        let name = format!("begun-{}", ROUND.fetch_add(1, Ordering::Relaxed));
        let requests = format!("CLIENT SETNAME {name}\r\n{requests}");
        let waits = std::thread::spawn(move || client.ask(&requests));
        // Its first command is there: the rest has come with it.
        while !watcher.ask("CLIENT LIST").contains(&format!("name={name} ")) {
            assert!(Instant::now() < until, "it does not begin");
        }
        node.permit(0);
        let answer = waits.join().expect("it has asked");
        node.permit(LONG_MS);
        // If the permission has ended before the command began, again.
        if !answer.contains("CLUSTERDOWN") {
            return answer;
        }
        assert!(Instant::now() < until, "the server is too slow: {answer}");
    }
}

#[test]
fn a_reply_of_the_lane_that_comes_too_late_does_not_leave() {
    with_both(|engine| {
        let node = Node::start(engine, &[]);
        let mut client = node.connect();
        assert_eq!(client.ask("DEBUG SET-DISABLE-DENY-SCRIPTS 1"), "+OK\r\n");
        let exec = "MULTI\r\nINCR k\r\nDEBUG SLEEP 0.5\r\nEXEC";
        let answer = answer_of(&node, exec);
        assert_eq!(answer, "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\nclosed");
        assert_eq!(client.ask("GET k"), "$1\r\n1\r\n", "it has run");
        let mut blocked = node.connect();
        blocked.0.write_all(b"BLPOP list 0\r\n").expect("it is open");
        client.wait_for_blocked(1);
        let exec = "MULTI\r\nRPUSH list a\r\nDEBUG SLEEP 0.5\r\nEXEC";
        assert!(answer_of(&node, exec).ends_with("closed"));
        assert_eq!(blocked.rest(), "", "it was served too late");
        let script = "redis.call('incr', KEYS[1]) redis.call('debug', 'sleep', '0.5')";
        let answer = answer_of(&node, &format!("EVAL \"{script}\" 1 k"));
        assert_eq!(answer, "+OK\r\nclosed");
        assert_eq!(client.ask("GET k"), "$1\r\n2\r\n", "it has run");
    });
}

#[test]
fn who_is_blocked_stays_so_and_is_served_under_the_next_permission() {
    with_both(|engine| {
        let node = Node::start(engine, &[]);
        let mut blocked = node.connect();
        blocked.0.write_all(b"BLPOP list 0\r\n").expect("it is open");
        let (mut client, mut until) = (node.connect(), node.connect());
        client.wait_for_blocked(1);
        until.0.write_all(b"BLPOP list 1\r\n").expect("it is open");
        client.wait_for_blocked(2);
        node.permit(0);
        assert_eq!(client.ask("RPUSH list a"), DOWN);
        // That the list was empty all the time would be a read.
        assert_eq!(until.ask(""), DOWN);
        client.wait_for_blocked(1);
        node.permit(LONG_MS);
        assert_eq!(client.ask("RPUSH list a"), ":1\r\n");
        assert_eq!(blocked.ask(""), "*2\r\n$4\r\nlist\r\n$1\r\na\r\n");
    });
}

/// Sends requests that are answered with a number, a few batches ahead of the answers, so that
/// these never wait in the server. Counts the numbers, until the server closes the connection.
fn send_load(mut stream: TcpStream, request: &str, numbers: &AtomicUsize) {
    let batch = request.repeat(BATCH);
    let (mut sent, mut read, mut at_line, mut bytes) = (0, 0, false, vec![0; 1 << 16]);
    loop {
        // Once the server is behind its fence, it may close the connection at any time.
        while sent < read + AHEAD * BATCH && stream.write_all(batch.as_bytes()).is_ok() {
            sent += BATCH;
        }
        let Ok(count @ 1..) = stream.read(&mut bytes) else { return };
        for byte in &bytes[..count] {
            read += usize::from(at_line && *byte == b':');
            at_line = *byte == b'\n';
        }
        numbers.store(read, Ordering::Relaxed);
    }
}

/// Stops a server in the midst of a load until its permission has ended; returns how many writes it
/// acknowledges after that.
fn acknowledged_too_late(node: &Node, request: &str) -> usize {
    node.permit(LONG_MS);
    let Client(stream) = node.connect();
    let numbers = AtomicUsize::default();
    std::thread::scope(|scope| {
        let load = stream.try_clone().expect("a socket");
        let load = scope.spawn(|| send_load(load, request, &numbers));
        let until = Instant::now() + PATIENCE;
        while numbers.load(Ordering::Relaxed) < BATCH {
            assert!(Instant::now() < until && !load.is_finished(), "it is not served");
            std::thread::yield_now();
        }
        node.permit(SHORT_MS);
        let ends = Instant::now() + Duration::from_millis(SHORT_MS + 10);
        node.signal("-STOP");
        while Instant::now() < ends {
            std::thread::park_timeout(ends.saturating_duration_since(Instant::now()));
        }
        let before = numbers.load(Ordering::Relaxed);
        node.signal("-CONT");
        // The server may have closed it.
        let _ended = stream.shutdown(Shutdown::Write);
        load.join().expect("it ends");
        numbers.load(Ordering::Relaxed) - before
    })
}

/// A signal may hit between the look at the clock and the sends of a turn, in less than one of a
/// hundred cases; without that look most of them would count.
fn check_load(request: &str, more: &[&str]) {
    with_both(|engine| {
        let node = Node::start(engine, more);
        let late: Vec<usize> = (0..ROUNDS).map(|_| acknowledged_too_late(&node, request)).collect();
        assert!(late.iter().filter(|count| **count > 0).count() <= 1, "{engine}: {late:?}");
    });
}

#[test]
fn a_server_that_stood_still_acknowledges_no_write() {
    check_load("INCR k\r\n", &[]);
}

#[test]
fn a_server_that_stood_still_acknowledges_no_transaction() {
    check_load("MULTI\r\nINCR k\r\nEXEC\r\n", &[]);
}

#[test]
fn a_server_that_stood_still_acknowledges_no_script() {
    check_load("EVAL \"return redis.call('incr', KEYS[1])\" 1 k\r\n", &[]);
}

#[test]
fn a_server_that_stood_still_acknowledges_no_write_that_a_sync_held_back() {
    check_load("INCR k\r\n", &["--appendonly", "yes", "--appendfsync", "always"]);
}
