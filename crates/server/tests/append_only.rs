//! The append-only file of a whole server: commands that were answered are there after the next
//! start, in an order that gives the same data; also after rewrites, and with a file begun while
//! the server runs.
//!
//! Each server runs in this process, with a directory and a Unix socket of its own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pantala_base::rng::Rng;
use pantala_server::process::start::{Running, start};
use pantala_settings::{Disk, Settings, Start};

/// A directory for one test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pantala-append-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Directory(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // No test depends on the removal.
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a server in the directory, with these settings added, and loads the data.
fn server(at: &Directory, more: &[&str]) -> Running {
    let mut running = try_server(at, more).expect("it starts");
    running.load().expect("it loads");
    running
}

/// Starts a server in the directory, with these settings added, without loading anything.
fn try_server(at: &Directory, more: &[&str]) -> Result<Running, String> {
    let (dir, socket) = (at.0.display().to_string(), at.socket().display().to_string());
    let mut args = vec!["--dir", &dir, "--unixsocket", &socket, "--port", "0", "--save", ""];
    args.extend(["--threads", "3"]);
    args.extend(more);
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    let start_up = Settings::from_args(&args, std::iter::empty(), &mut Disk).expect("good words");
    let Start::Run(launch) = start_up else { panic!("there is nothing to print") };
    start(launch.settings, None)
}

/// Why a server with these settings does not start, or ends when it is to load.
fn refusal(at: &Directory, more: &[&str]) -> Option<String> {
    match try_server(at, more) {
        Err(why) => Some(why),
        Ok(mut running) => {
            let why = running.load().err();
            end(running);
            why
        }
    }
}

fn end(running: Running) {
    running.stop();
    running.wait();
}

struct Client {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Client {
    fn new(socket: &Path) -> Client {
        Client { stream: UnixStream::connect(socket).expect("it listens"), received: Vec::new() }
    }

    /// Sends commands and reads their replies, one of which is a line or a short string.
    fn send(&mut self, commands: &[&str]) -> Vec<String> {
        let text: String = commands.iter().map(|command| format!("{command}\r\n")).collect();
        self.stream.write_all(text.as_bytes()).expect("it reads");
        commands.iter().map(|_| self.reply()).collect()
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(&[command]).remove(0)
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.received.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).expect("text");
            }
            let mut window = [0; 4096];
            let got = self.stream.read(&mut window).expect("it answers");
            assert!(got > 0, "it has hung up");
            self.received.extend_from_slice(&window[..got]);
        }
    }

    fn reply(&mut self) -> String {
        let line = self.line();
        let count = || line[1..].parse::<i64>().expect("a number");
        match line.as_bytes()[0] {
            b'$' if count() >= 0 => {
                let mut text = String::new();
                while text.len() < count() as usize {
                    if !text.is_empty() {
                        text += "\r\n";
                    }
                    text += &self.line();
                }
                text
            }
            b'*' => {
                let parts: Vec<_> = (0..count()).map(|_| self.reply()).collect();
                parts.join(" ")
            }
            _ => line,
        }
    }
}

/// Waits until INFO has this line.
fn wait_for(client: &mut Client, line: &str) {
    while !client.ask("INFO persistence").contains(line) {
        std::thread::yield_now();
    }
}

fn digest(at: &Directory) -> String {
    let digest = Client::new(&at.socket()).ask("DEBUG DIGEST");
    assert_eq!(digest.trim_start_matches('+').len(), 40, "{digest}");
    digest
}

const SCRIPT: &str = "EVAL \"redis.call('INCR', KEYS[1]) \
    redis.call('RPUSH', KEYS[2], redis.call('GET', KEYS[1])) return 1\" 2";

/// A random step; most touch keys that other steps touch.
fn step(random: &mut Rng, number: usize) -> Vec<String> {
    let mut key = |kind: &str| format!("{kind}{}", random.below(12));
    let (a, b, list, set, hash) = (key("n"), key("n"), key("l"), key("s"), key("h"));
    match random.below(14) {
        0..4 => vec![format!("SET {a} {number}")],
        4 => vec![format!("INCRBY {a} {number}")],
        5 => vec![format!("RPUSH {list} {number} {a}")],
        6 => vec![format!("LPOP {list}")],
        7 => vec![format!("SADD {set} {number}"), format!("SPOP {set}")],
        8 => vec![format!("HSET {hash} {a} {number}")],
        9 => vec![format!("MSET {a} {number} {b} {number}")],
        10 => vec![
            "MULTI".into(),
            format!("INCR {a}"),
            format!("APPEND {b} 1"),
            format!("DEL {list}"),
            "EXEC".into(),
        ],
        11 => vec![format!("{SCRIPT} {a} {list}")],
        12 => vec![format!("RENAME {a} {b}")],
        _ => vec!["SELECT 1".into(), format!("SET {a} {number}"), "SELECT 0".into()],
    }
}

/// Runs clients that write at the same time.
fn write(at: &Directory, clients: u64, steps: usize) {
    std::thread::scope(|scope| {
        for seed in 0..clients {
            scope.spawn(move || {
                let (mut client, mut random) = (Client::new(&at.socket()), Rng::from_seed(seed));
                for _ in 0..steps / 8 {
                    let batch: Vec<_> =
                        (0..8).flat_map(|number| step(&mut random, number)).collect();
                    client.send(&batch.iter().map(String::as_str).collect::<Vec<_>>());
                }
            });
        }
    });
}

/// Checks that the data is the same after another start.
fn check_again(at: &Directory, running: Running, more: &[&str]) -> Running {
    let before = digest(at);
    end(running);
    let running = server(at, more);
    assert_eq!(digest(at), before);
    running
}

const ON: &[&str] = &["--appendonly", "yes"];

#[test]
fn what_many_wrote_at_once_is_there_again() {
    for clients in [1, 2, 8] {
        let at = Directory::new();
        let running = server(&at, ON);
        write(&at, clients, 800);
        let running = check_again(&at, running, ON);
        write(&at, clients, 80);
        end(check_again(&at, running, ON));
    }
}

/// A checksum of each key's value, deadline and flags.
fn dumps(client: &mut Client, keys: &[&str]) -> Vec<String> {
    const SUM: &str = "EVAL \"return redis.sha1hex(redis.call('DUMP', KEYS[1]))\" 1";
    keys.iter().map(|key| client.ask(&format!("{SUM} {key}"))).collect()
}

#[test]
fn memcacheds_flags_stay_with_a_value() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    for command in [
        "SET plain value",
        "SET flagged value _MCFLAGS 7",
        "SET changed value _MCFLAGS 8 EX 1000",
        "APPEND changed more",
        "SET number 5 _MCFLAGS 4294967295",
        "INCR number",
        "COPY flagged copy",
        "SET old value _MCFLAGS 9",
        "RENAME old new",
        "SET dropped value _MCFLAGS 7",
        "SET dropped value",
    ] {
        assert_ne!(client.ask(command).as_bytes()[0], b'-', "{command}");
    }
    let keys = &["plain", "flagged", "changed", "number", "copy", "new", "dropped"];
    let before = dumps(&mut client, keys);
    let sums: Vec<_> = [0, 1, 4, 6].map(|key| before[key].clone()).into();
    assert!(sums[0] == sums[3] && sums[1] == sums[2] && sums[0] != sums[1], "{before:?}");
    let running = check_again(&at, running, ON);
    let mut client = Client::new(&at.socket());
    assert_eq!(dumps(&mut client, keys), before, "from commands");
    client.ask("BGREWRITEAOF");
    wait_for(&mut client, "aof_rewrites:1");
    client.ask("DEL plain");
    let running = check_again(&at, running, ON);
    let mut client = Client::new(&at.socket());
    assert_eq!(dumps(&mut client, &keys[1..]), before[1..], "from a snapshot");
    assert_eq!(client.ask("DEBUG RELOAD"), "+OK");
    assert_eq!(dumps(&mut client, &keys[1..]), before[1..], "from another one");
    end(running);
}

#[test]
fn a_rewrite_under_writes_loses_nothing() {
    let at = Directory::new();
    let running = server(&at, ON);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&at, 4, 1600));
        let mut client = Client::new(&at.socket());
        for count in 1..=3 {
            let began = client.ask("BGREWRITEAOF");
            assert!(began.starts_with("+Background append only file rewriting"), "{began}");
            wait_for(&mut client, &format!("aof_rewrites:{count}"));
        }
        let info = client.ask("INFO persistence");
        assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
    });
    end(check_again(&at, running, ON));
}

#[test]
fn it_can_be_begun_and_ended_while_the_server_runs() {
    let at = Directory::new();
    let running = server(&at, &[]);
    write(&at, 2, 80);
    let mut client = Client::new(&at.socket());
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    write(&at, 4, 400);
    wait_for(&mut client, "aof_rewrites:1");
    write(&at, 4, 80);
    let running = check_again(&at, running, ON);
    let mut client = Client::new(&at.socket());
    assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK");
    let before = digest(&at);
    client.ask("SET later 1");
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    wait_for(&mut client, "aof_rewrites:1");
    assert_ne!(digest(&at), before);
    end(check_again(&at, running, ON));
}

#[test]
fn a_first_file_that_fails_is_tried_again() {
    let at = Directory::new();
    let running = server(&at, &[]);
    let mut client = Client::new(&at.socket());
    client.ask("SET k 1");
    // A directory is in the way of the base file.
    let files = at.0.join("appendonlydir");
    std::fs::create_dir_all(files.join("temp-appendonly.aof.1.base.rdb")).expect("a directory");
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    while !files.join("appendonly.aof.2.base.rdb").exists() {
        std::thread::yield_now();
    }
    wait_for(&mut client, "aof_rewrite_in_progress:0");
    client.ask("SET later 1");
    end(check_again(&at, running, ON));
}

/// Ends the writing threads, also when a check has failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn it_ends_while_somebody_always_writes() {
    let at = Directory::new();
    let running = server(&at, &["--appendonly", "yes", "--repl-diskless-sync-delay", "0"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _at_the_end = Ends(&is_over);
        for number in 0..3 {
            let (at, is_over) = (&at, &is_over);
            scope.spawn(move || {
                let mut client = Client::new(&at.socket());
                let command = format!("INCR n:{number}");
                while !is_over.load(Ordering::Relaxed) {
                    client.send(&[&*command; 20]);
                }
            });
        }
        let mut client = Client::new(&at.socket());
        // A replica that has gone: the stream is still fed, for replicas that come back.
        let mut replica = Client::new(&at.socket());
        replica.ask("REPLCONF capa eof");
        replica.stream.write_all(b"PSYNC ? -1\r\n").expect("it reads");
        assert!(replica.line().contains("+FULLRESYNC"));
        drop(replica);
        assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK");
    });
    end(running);
}

#[test]
fn it_can_be_rewritten_while_it_is_off() {
    let at = Directory::new();
    let running = server(&at, &[]);
    write(&at, 2, 400);
    let mut client = Client::new(&at.socket());
    for count in 1..=2 {
        let began = client.ask("BGREWRITEAOF");
        assert_eq!(began, "+Background append only file rewriting started");
        wait_for(&mut client, &format!("aof_rewrites:{count}"));
    }
    end(check_again(&at, running, ON));
}

#[test]
fn it_can_be_ended_in_the_midst_of_a_rewrite() {
    let at = Directory::new();
    let running = server(&at, &[]);
    write(&at, 2, 400);
    let mut client = Client::new(&at.socket());
    for _ in 0..20 {
        // It is refused until the rewrite of the previous file has ended.
        while client.ask("CONFIG SET appendonly yes") != "+OK" {}
        assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK");
    }
    wait_for(&mut client, "aof_rewrite_in_progress:0");
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    wait_for(&mut client, "aof_rewrite_in_progress:0");
    write(&at, 2, 80);
    end(check_again(&at, running, ON));
}

#[test]
fn what_was_answered_is_durable_with_always() {
    let at = Directory::new();
    let more = &["--appendonly", "yes", "--appendfsync", "always"];
    let running = server(&at, more);
    let mut client = Client::new(&at.socket());
    let bytes = || {
        let file = at.0.join("appendonlydir/appendonly.aof.1.incr.aof");
        std::fs::read(file)
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    for number in 0..50 {
        let key = format!("k{number}");
        let sent = match number % 3 {
            0 => client.ask(&format!("SET {key} 1")),
            1 => client.ask(&format!("{SCRIPT} {key} {key}l")),
            _ => client.send(&["MULTI", &format!("INCR {key}"), "INCR all", "EXEC"]).remove(3),
        };
        assert!(!sent.starts_with('-'), "{sent}");
        assert!(bytes().contains(&key), "{key} was answered and is not in the file");
    }
    // A client that waits for a key is also answered only once the write is durable.
    let mut waiting = Client::new(&at.socket());
    let waits = std::thread::scope(|scope| {
        let blocked = scope.spawn(|| waiting.ask("BLPOP queue 0"));
        wait_for_blocked(&mut client);
        client.ask("RPUSH queue served");
        blocked.join().expect("no panic")
    });
    assert_eq!(waits, "queue served");
    assert!(bytes().contains("LPOP"), "{}", bytes());
    end(check_again(&at, running, more));
}

fn wait_for_blocked(client: &mut Client) {
    while !client.ask("INFO clients").contains("blocked_clients:1") {
        std::thread::yield_now();
    }
}

#[test]
fn a_snapshot_is_what_a_new_append_only_file_begins_with() {
    let at = Directory::new();
    let running = server(&at, &[]);
    write(&at, 1, 80);
    assert_eq!(Client::new(&at.socket()).ask("SAVE"), "+OK");
    let running = check_again(&at, running, ON);
    wait_for(&mut Client::new(&at.socket()), "aof_rewrites:1");
    std::fs::remove_file(at.0.join("dump.rdb")).expect("it was saved");
    end(check_again(&at, running, ON));
}

#[test]
fn a_client_can_wait_until_the_file_has_what_it_wrote() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    assert_eq!(client.ask("WAITAOF 1 0 0"), ":1 :0", "it has written nothing");
    assert_eq!(client.send(&["SET k v", "WAITAOF 1 0 0"]), ["+OK", ":1 :0"]);
    assert_eq!(client.send(&["SET k w", "WAITAOF 0 1 1"])[1].split(' ').nth(1), Some(":0"));
    assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK");
    assert!(client.ask("WAITAOF 1 0 0").starts_with("-ERR WAITAOF"));
    end(running);
}

#[test]
fn debug_reload_leaves_the_append_only_file_whole() {
    let at = Directory::new();
    let running = server(&at, ON);
    write(&at, 2, 80);
    assert_eq!(Client::new(&at.socket()).ask("DEBUG RELOAD"), "+OK");
    write(&at, 2, 80);
    end(check_again(&at, running, ON));
}

#[test]
fn reload_loses_neither_data_nor_what_is_written_meanwhile() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    assert_eq!(client.ask("DEBUG POPULATE 5000"), "+OK");
    assert_eq!(client.ask("SET k v"), "+OK");
    let is_over = AtomicBool::new(false);
    let socket = at.socket();
    std::thread::scope(|scope| {
        let write = || {
            let mut writer = Client::new(&socket);
            let mut last = 0;
            while !is_over.load(Ordering::Relaxed) {
                let reply = writer.ask("INCR counter");
                let Some(number) = reply.strip_prefix(':') else { continue };
                let number: u64 = number.parse().expect("a number");
                assert_eq!(number, last + 1);
                last = number;
            }
        };
        let writing = scope.spawn(write);
        let replies: Vec<_> = (0..5).map(|_| client.ask("DEBUG RELOAD")).collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(replies, ["+OK"; 5]);
        writing.join().expect("nothing that was acknowledged is lost");
    });
    assert_eq!(client.ask("GET k"), "v");
    end(running);
}

#[test]
fn the_snapshot_to_begin_with_can_be_named() {
    let at = Directory::new();
    for day in ["1", "2"] {
        let name = format!("d-2026-11-2{day}T00:00:00.rdb");
        let running = server(&at, &["--dbfilename", &name]);
        let mut client = Client::new(&at.socket());
        client.send(&["FLUSHALL", &format!("SET day {day}"), "SAVE"]);
        end(running);
    }
    let day = |more: &[&str]| {
        let running = server(&at, more);
        let day = Client::new(&at.socket()).ask("GET day");
        end(running);
        day
    };
    assert_eq!(day(&[]), "$-1");
    assert_eq!(day(&["--load", "latest"]), "2");
    let first = ["--load", "d-2026-11-21T00:00:00.rdb"];
    assert_eq!(day(&first), "1");
    let missing = refusal(&at, &["--load", "other.rdb"]).expect("it is missing");
    assert!(missing.contains("--load other.rdb: cannot read it"), "{missing}");
    // The append-only file begins with the snapshot, and is what is loaded from then on.
    assert_eq!(day(&["--appendonly", "yes", first[0], first[1]]), "1");
    assert_eq!(day(&["--appendonly", "yes", "--load", "latest"]), "1");
    let two = refusal(&at, &["--appendonly", "yes", first[0], first[1]]);
    assert!(two.expect("there are two").contains("does not go with --appendonly yes"));
}

#[test]
fn parts_without_their_manifest_refuse_the_start() {
    let at = Directory::new();
    end(server(&at, ON));
    let manifest = at.0.join("appendonlydir/appendonly.aof.manifest");
    let running = server(&at, ON);
    Client::new(&at.socket()).ask("SET k v");
    end(running);
    let text = std::fs::read(&manifest).expect("it is there");
    std::fs::remove_file(&manifest).expect("it was there");
    let why = refusal(&at, ON).expect("data would be written over");
    assert!(why.contains("the manifest that should name it is missing"), "{why}");
    std::fs::write(&manifest, text).expect("it is back");
    let running = server(&at, ON);
    assert_eq!(Client::new(&at.socket()).ask("GET k"), "v");
    end(running);
}

/// As in Redis and Valkey: programs that count the files, or watch for the next one, find the same.
#[test]
fn the_first_base_is_there_from_the_start() {
    for (preamble, ending) in [("yes", "rdb"), ("no", "aof")] {
        let at = Directory::new();
        let running = server(&at, &[ON, &["--aof-use-rdb-preamble", preamble]].concat());
        let files = at.0.join("appendonlydir");
        let names = |number: u32| {
            let base = format!("appendonly.aof.{number}.base.{ending}");
            [base, format!("appendonly.aof.{number}.incr.aof")]
        };
        assert!(names(1).iter().all(|name| files.join(name).exists()), "{preamble}");
        let mut client = Client::new(&at.socket());
        client.ask("SET k v");
        client.ask("BGREWRITEAOF");
        wait_for(&mut client, "aof_rewrites:1");
        assert!(names(2).iter().all(|name| files.join(name).exists()), "{preamble}");
        let running = check_again(&at, running, ON);
        assert_eq!(Client::new(&at.socket()).ask("GET k"), "v");
        end(running);
    }
}

/// The old form: one file in `dir` without a manifest, with commands, or a snapshot and then
/// commands.
#[test]
fn the_file_of_a_server_before_redis_7_is_taken_in() {
    for preamble in ["no", "yes"] {
        let at = Directory::new();
        let running = server(&at, &[ON, &["--aof-use-rdb-preamble", preamble]].concat());
        let mut client = Client::new(&at.socket());
        client.send(&["SET k v", "RPUSH l a b", "BGREWRITEAOF"]);
        wait_for(&mut client, "aof_rewrites:1");
        client.send(&["SELECT 3", "MULTI", "INCR n", "INCR n", "EXEC"]);
        end(running);
        let files = at.0.join("appendonlydir");
        let mut parts: Vec<_> = std::fs::read_dir(&files).expect("there").flatten().collect();
        parts.sort_by_key(std::fs::DirEntry::file_name);
        let parts = parts.iter().map(std::fs::DirEntry::path);
        let is_part =
            |path: &PathBuf| path.extension().is_some_and(|kind| kind == "rdb" || kind == "aof");
        let parts = parts.filter(is_part);
        let old: Vec<u8> = parts.flat_map(|path| std::fs::read(path).expect("read")).collect();
        std::fs::remove_dir_all(&files).expect("removed");
        // Its end is torn, as after a crash.
        std::fs::write(at.0.join("appendonly.aof"), [&old[..], b"*2\r\n$4\r\nIN"].concat())
            .expect("written");

        // Without an append-only file in use it is left alone.
        end(server(&at, &[]));
        assert!(at.0.join("appendonly.aof").exists());
        for _ in 0..2 {
            let running = server(&at, ON);
            let mut client = Client::new(&at.socket());
            assert_eq!(client.send(&["GET k", "LLEN l", "SELECT 3", "GET n"])[..2], ["v", ":2"]);
            assert_eq!(client.ask("GET n"), "2");
            end(running);
            assert!(!at.0.join("appendonly.aof").exists());
        }
        let text = std::fs::read_to_string(files.join("appendonly.aof.manifest")).expect("there");
        let expected = "file appendonly.aof seq 1 type b\n\
                        file appendonly.aof.1.incr.aof seq 1 type i\n";
        assert_eq!(text, expected);
    }
}

#[test]
fn object_storage_takes_no_append_only_file() {
    let at = Directory::new();
    let running = server(&at, &["--enable-protected-configs", "yes", "--appendonly", "yes"]);
    let mut client = Client::new(&at.socket());
    let why = client.ask("CONFIG SET dir s3://bucket/x");
    assert!(why.contains("argument 'dir') - the append-only file needs a directory"), "{why}");
    client.ask("CONFIG SET appendonly no");
    assert_eq!(client.ask("CONFIG SET dir s3://bucket/x"), "+OK");
    let why = client.ask("CONFIG SET appendonly yes");
    assert!(why.contains("argument 'appendonly') - the append-only file needs"), "{why}");
    end(running);
}

/// Makes keys of all types, small and large, with deadlines, flags and other properties.
fn fill(client: &mut Client) {
    let far = "32503680000000";
    let mut commands = vec![
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return 1 end)\""
            .into(),
        format!("SET s text PXAT {far}"),
        "SET n 12345".into(),
        "SET flags v _MCFLAGS 99".into(),
        "SETRANGE long 300000 x".into(),
        "HSET h f 1 g two".into(),
        format!("HPEXPIREAT h {far} FIELDS 1 f"),
        "SADDEX deadlines 100000 a b".into(),
        "ZADD z 1 a 2.5 b -inf c".into(),
        format!("ZPEXPIREAT z {far} MEMBERS 1 b"),
        "XADD x 5-1 f v g w".into(),
        "XADD x 6-1 f v g w".into(),
        "XDEL x 5-1".into(),
        "XGROUP CREATE x g 0 ENTRIESREAD 1".into(),
        "XGROUP CREATECONSUMER x g idle".into(),
        "XREADGROUP GROUP g c STREAMS x >".into(),
        "XGROUP CREATE empty g $ MKSTREAM".into(),
        "SELECT 3".into(),
        "SET other db".into(),
    ];
    for number in 0..300 {
        commands.push(format!("RPUSH l {number} element:{number}"));
        commands.push(format!("SADD set member:{number}"));
        commands.push(format!("SADD ints {number}"));
        commands.push(format!("HSET hash field:{number} {number}"));
        commands.push(format!("ZADD sorted {number}.25 member:{number}"));
        commands.push(format!("XADD stream {number}-7 field {number}"));
    }
    commands.push("SELECT 0".into());
    for command in &commands {
        let reply = client.ask(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

#[test]
fn a_base_may_be_commands() {
    let at = Directory::new();
    let settings = [ON, &["--aof-use-rdb-preamble", "no"]].concat();
    let running = server(&at, &settings);
    let mut client = Client::new(&at.socket());
    fill(&mut client);
    client.ask("BGREWRITEAOF");
    wait_for(&mut client, "aof_rewrites:1");
    client.ask("SET after rewrite");
    let base = at.0.join("appendonlydir/appendonly.aof.2.base.aof");
    let bytes = std::fs::read(&base).expect("it is there");
    assert!(bytes.starts_with(b"*3\r\n$8\r\nFUNCTION\r\n"), "{}", bytes[..40].escape_ascii());
    let pending = client.ask("XPENDING x g");
    let flags = dumps(&mut client, &["flags"]);
    let running = check_again(&at, running, &settings);
    let mut client = Client::new(&at.socket());
    assert_eq!(client.ask("XPENDING x g"), pending);
    assert_eq!(dumps(&mut client, &["flags"]), flags);
    assert_eq!(client.ask("FCALL f 0"), ":1");
    assert_eq!(client.ask("ZPEXPIRETIME z MEMBERS 1 b"), ":32503680000000");
    // Back to a base in the form of a snapshot.
    client.ask("CONFIG SET aof-use-rdb-preamble yes");
    client.ask("BGREWRITEAOF");
    wait_for(&mut client, "aof_rewrites:1");
    assert!(at.0.join("appendonlydir/appendonly.aof.3.base.rdb").exists());
    end(check_again(&at, running, &settings));
}

#[test]
fn debug_loadaof_is_the_file_and_back() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    fill(&mut client);
    write(&at, 3, 100);
    let before = digest(&at);
    for _ in 0..3 {
        assert_eq!(client.ask("DEBUG LOADAOF"), "+OK");
        assert_eq!(digest(&at), before);
    }
    client.ask("SET after it");
    let running = check_again(&at, running, ON);
    let mut client = Client::new(&at.socket());
    assert_eq!(client.ask("GET after"), "it");
    client.ask("CONFIG SET appendonly no");
    client.ask("SET after this");
    assert_eq!(client.ask("DEBUG LOADAOF"), "+OK");
    assert_eq!(client.ask("GET after"), "it");
    end(running);
}

#[test]
fn a_reload_waits_for_a_save_and_a_rewrite() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    client.ask("DEBUG POPULATE 20000 key 100");
    let before = digest(&at);
    for _ in 0..3 {
        client.ask("BGREWRITEAOF");
        client.ask("BGSAVE SCHEDULE");
        assert_eq!(client.ask("DEBUG RELOAD"), "+OK");
        assert_eq!(client.ask("DEBUG RELOAD NOSAVE"), "+OK");
        assert_eq!(digest(&at), before);
    }
    end(check_again(&at, running, ON));
}

#[test]
fn a_server_that_stops_waits_for_a_rewrite_before_it_saves() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    client.ask("DEBUG POPULATE 2000 key 100");
    client.ask("CONFIG SET rdb-key-save-delay 500");
    client.ask("BGREWRITEAOF");
    wait_for(&mut client, "aof_rewrite_in_progress:1");
    client.ask("CONFIG SET rdb-key-save-delay 0");
    client.stream.write_all(b"SHUTDOWN SAVE\r\n").expect("sent");
    assert_eq!(client.stream.read(&mut [0]).expect("it hangs up"), 0, "an error");
    running.wait();
    assert!(at.0.join("dump.rdb").exists());
}

#[test]
fn a_snapshot_waits_for_a_rewrite() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    client.ask("DEBUG POPULATE 2000 key 100");
    client.ask("CONFIG SET rdb-key-save-delay 500 save \"3600 1\"");
    client.ask("BGREWRITEAOF");
    wait_for(&mut client, "aof_rewrite_in_progress:1");
    client.ask("CONFIG SET rdb-key-save-delay 0");
    assert_eq!(client.ask("BGSAVE"), "+Background saving started");
    wait_for(&mut client, "rdb_bgsave_in_progress:0");
    assert_eq!(client.ask("SET key:0 value"), "+OK");
    assert!(client.ask("INFO persistence").contains("rdb_last_bgsave_status:ok"));
    assert!(at.0.join("dump.rdb").exists());
    end(running);
}

#[test]
fn a_second_rewrite_is_refused_and_one_in_a_transaction_is_scheduled() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    client.ask("DEBUG POPULATE 20 key 100");
    client.ask("CONFIG SET rdb-key-save-delay 20000");
    let told = client.send(&["BGREWRITEAOF", "BGREWRITEAOF", "CONFIG SET rdb-key-save-delay 0"]);
    assert_eq!(told[0], "+Background append only file rewriting started");
    assert_eq!(told[1], "-ERR Background append only file rewriting already in progress");
    for (command, what, ends) in [
        ("BGREWRITEAOF", "append only file rewriting", "aof_rewrite_in_progress:0"),
        ("BGSAVE", "saving", "rdb_bgsave_in_progress:0"),
    ] {
        wait_for(&mut client, "aof_rewrite_in_progress:0");
        client.send(&["MULTI", command]);
        assert_eq!(client.ask("EXEC"), format!("+Background {what} scheduled"));
        wait_for(&mut client, ends);
    }
    end(running);
}

#[test]
fn a_rewrite_ends_with_its_file_even_before_it_has_begun() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    client.ask("DEBUG POPULATE 20 key 100");
    for _ in 0..10 {
        wait_for(&mut client, "aof_rewrite_in_progress:0");
        // Were it not ended, it would take 200 seconds.
        client.ask("CONFIG SET rdb-key-save-delay 10000000");
        let told = client.send(&["BGREWRITEAOF", "CONFIG SET appendonly no"]);
        assert_eq!(told[1], "+OK");
        wait_for(&mut client, "aof_rewrite_in_progress:0");
        client.ask("CONFIG SET rdb-key-save-delay 0");
        assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    }
    end(running);
}

#[test]
fn info_tells_of_the_journal() {
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    client.ask("SET k v");
    while !client.ask("INFO journal").contains("lag_bytes=0,unsynced_bytes=0") {
        std::thread::yield_now();
    }
    let told = client.ask("INFO journal");
    assert!(told.contains("journal_enabled:1") && told.contains("name=file,offset="), "{told}");
    client.ask("CONFIG SET appendonly no");
    assert!(client.ask("INFO journal").contains("journal_readers:0"));
    end(running);
}

#[test]
fn a_snapshot_in_parts_is_loaded_whole_or_not_at_all() {
    let at = Directory::new();
    let parts = ["x-summary.dfs", "x-0000.dfs", "x-0001.dfs"];
    for (number, name) in parts.iter().enumerate() {
        let running = server(&at, &["--dbfilename", name]);
        let mut client = Client::new(&at.socket());
        client.ask("FLUSHALL");
        if number > 0 {
            client.ask(&format!("SET key:{number} {number}"));
        }
        assert_eq!(client.ask("SAVE"), "+OK");
        end(running);
    }
    for words in [["--load", "latest"], ["--load", parts[0]], ["--dbfilename", "x"]] {
        let running = server(&at, &words);
        assert_eq!(Client::new(&at.socket()).send(&["GET key:1", "GET key:2"]), ["1", "2"]);
        end(running);
    }
    std::fs::remove_file(at.0.join(parts[1])).expect("it was there");
    let mut running = try_server(&at, &["--load", parts[0]]).expect("it starts");
    let why = running.load().expect_err("a part is missing");
    assert!(why.contains("x-0000.dfs is missing"), "{why}");
    end(running);
}

#[test]
fn who_waits_for_a_key_goes_on_waiting_when_it_is_loaded() {
    let at = Directory::new();
    let running = server(&at, &["--enable-debug-command", "yes"]);
    let (mut client, mut waiting) = (Client::new(&at.socket()), Client::new(&at.socket()));
    client.send(&["SET text v", "RPUSH list old", "SAVE", "DEL list text"]);
    waiting.stream.write_all(b"BLPOP text list 0\r\n").expect("it reads");
    wait_for_blocked(&mut client);
    client.ask("SET text again");
    assert_eq!(client.ask("DEBUG RELOAD NOSAVE"), "+OK");
    assert_eq!(client.send(&["TYPE text", "LRANGE list 0 -1"]), ["+string", "old"]);
    assert_eq!(client.ask("RPUSH list new"), ":2");
    assert_eq!(waiting.reply(), "list old");
    end(running);
}

#[test]
fn no_append_only_file_is_begun_with_a_part_of_what_is_loaded() {
    let at = Directory::new();
    let running = server(&at, &[]);
    Client::new(&at.socket()).send(&["SET k v", "SAVE"]);
    end(running);
    let mut running = try_server(&at, &[]).expect("it starts");
    let mut client = Client::new(&at.socket());
    assert!(client.ask("CONFIG SET appendonly yes").starts_with("-LOADING"));
    assert_eq!(client.ask("CONFIG SET maxclients 1000"), "+OK");
    running.load().expect("it loads");
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    end(running);
}

#[test]
fn the_last_deadline_there_can_be_is_kept() {
    const LAST: i64 = i64::MAX;
    let at = Directory::new();
    let running = server(&at, ON);
    let mut client = Client::new(&at.socket());
    for number in 0..300 {
        client.ask(&format!("HSET h f{number} v"));
    }
    client.ask(&format!("HPEXPIREAT h {LAST} FIELDS 1 f7"));
    client.send(&["SADD set a", "ZADD sorted 1 a"]);
    client.ask(&format!("SPEXPIREAT set {LAST} MEMBERS 1 a"));
    client.ask(&format!("ZPEXPIREAT sorted {LAST} MEMBERS 1 a"));
    let keys = &["set", "sorted"];
    let before = dumps(&mut client, keys);
    assert_eq!(client.ask("DEBUG RELOAD"), "+OK");
    assert_eq!(client.ask("HPEXPIRETIME h FIELDS 1 f7"), format!(":{LAST}"));
    assert_eq!(dumps(&mut client, keys), before);
    let running = check_again(&at, running, ON);
    assert_eq!(dumps(&mut Client::new(&at.socket()), keys), before);
    end(running);
}
