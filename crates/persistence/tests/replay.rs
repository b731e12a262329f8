//! An append-only file loaded into an engine without connections.

#[allow(dead_code, reason = "other tests load snapshots")]
mod common;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use common::engine;
use pantala_base::clock::unix_ms;
use pantala_engine::Engine;
use pantala_persistence::aof::files::part_files;
use pantala_persistence::aof::load::{LoadSnapshot, load};
use pantala_persistence::aof::replay::replay_on;
use pantala_persistence::aof::{AofLayout, Manifest};
use pantala_persistence::disk::Disk;
use pantala_persistence::disk::simulated::SimulatedDisk;
use pantala_settings::Settings;

/// A loader for test snapshots, which are `REDIS` and a letter.
struct SixBytes(Vec<String>);

impl LoadSnapshot for SixBytes {
    fn load(&mut self, file: &mut dyn Read, file_bytes: u64) -> Result<u64, String> {
        let mut bytes = [0; 6];
        file.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        self.0.push(format!("{} of {file_bytes}", bytes.escape_ascii()));
        Ok(6)
    }
}

fn resp(line: &str) -> String {
    let args: Vec<_> = line.split(' ').collect();
    let text: String = args.iter().map(|arg| format!("${}\r\n{arg}\r\n", arg.len())).collect();
    format!("*{}\r\n{text}", args.len())
}

fn steps(lines: &[&str]) -> Vec<u8> {
    lines.iter().map(|line| resp(line)).collect::<String>().into_bytes()
}

struct Fixture {
    disk: SimulatedDisk,
    layout: AofLayout,
    engine: Arc<Engine>,
    snapshots: SixBytes,
    last_annotation: Option<String>,
}

impl Fixture {
    /// Files with these bytes: a base and increments. An empty base means no base.
    fn new(base: &[u8], increments: &[&[u8]]) -> Self {
        let disk = SimulatedDisk::new(1);
        let layout = AofLayout::new(Path::new("/"), "d", "a");
        disk.create_directory(Path::new("/")).expect("made");
        disk.create_directory(layout.directory()).expect("made");
        let mut manifest = Manifest::default();
        let put = |name: &str, bytes: &[u8]| {
            let file = disk.create(&layout.path(name)).expect("created");
            file.append(bytes).expect("appended");
        };
        if !base.is_empty() {
            let part = layout.base(1, pantala_persistence::aof::BaseKind::Commands);
            put(&part.name, base);
            manifest.base = Some(part);
        }
        for (seq, bytes) in (1..).zip(increments) {
            let part = layout.increment(seq);
            put(&part.name, bytes);
            manifest.increments.push(part);
        }
        layout.store(&disk, &manifest).expect("stored");
        let (engine, snapshots) = (engine(), SixBytes(Vec::new()));
        Fixture { disk, layout, engine, snapshots, last_annotation: None }
    }

    fn load(&mut self, cuts_torn_end: bool) -> Result<String, String> {
        let manifest = self.layout.open(&self.disk).expect("it opens").expect("there is one");
        let files = part_files(&self.disk, &self.layout, &manifest).expect("all are there");
        let mut bytes = 0;
        replay_on(&*self.engine, 0, |replay| {
            let loaded =
                load(&self.disk, &files, replay, &mut self.snapshots, cuts_torn_end, &mut |now| {
                    bytes = now
                });
            let loaded = loaded.map_err(|error| error.to_string())?;
            let errors = &replay.outcome().first_error;
            let cut = loaded.cut.map(|(_, torn)| torn.to_string());
            self.last_annotation =
                loaded.last_annotation.map(|text| text.escape_ascii().to_string());
            Ok(format!("{} steps, {} bytes, {errors:?}, {cut:?}", loaded.steps, loaded.bytes))
        })
    }

    /// Runs a command and returns the reply, its lines joined.
    fn ask(&self, line: &str) -> String {
        common::ask(&self.engine, 0, line)
    }
}

#[test]
fn base_and_increments_run_in_order_each_from_the_first_database() {
    let base = steps(&["SET k base", "SELECT 3", "SET k other"]);
    let first = steps(&["APPEND k +one", "MULTI", "SET t 1", "INCR t", "EXEC"]);
    let second = steps(&["SELECT 0", "APPEND k +two"]);
    let mut at = Fixture::new(&base, &[&first, &second]);
    let bytes = base.len() + first.len() + second.len();
    assert_eq!(at.load(true), Ok(format!("7 steps, {bytes} bytes, None, None")));
    assert_eq!(at.ask("GET k"), "$12 base+one+two");
    assert_eq!(at.ask("GET t"), "$1 2");
}

#[test]
fn a_key_whose_deadline_has_passed_is_there_until_the_stream_says_otherwise() {
    let past = unix_ms().0 - 1000;
    let lines = [
        "SET k 1".to_owned(),
        format!("PEXPIREAT k {past}"),
        "INCR k".to_owned(),
        format!("SET j 1 PXAT {past}"),
        "INCR j".to_owned(),
        "PERSIST j".to_owned(),
        "HSET h f 1 g 2".to_owned(),
        format!("HPEXPIREAT h {past} FIELDS 1 f"),
        "HINCRBY h f 1".to_owned(),
        "HPERSIST h FIELDS 1 f".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut at = Fixture::new(b"", &[&steps(&lines)]);
    let loaded = at.load(true).expect("it loads");
    assert!(loaded.starts_with("10 steps") && loaded.ends_with("None, None"), "{loaded}");
    assert_eq!(at.ask("GET k"), "$-1", "now it has expired");
    assert_eq!(at.ask("GET j"), "$1 2");
    assert_eq!(at.ask("HGET h f"), "$1 2");
}

#[test]
fn relative_times_count_from_now_and_streams_remember_the_time_of_day() {
    let now = unix_ms().0;
    let claim =
        format!("XCLAIM s g c 0 1-1 TIME {} RETRYCOUNT 1 FORCE JUSTID LASTID 1-1", now - 5000);
    let lines = ["SET k 1", "EXPIRE k 1000", "XADD s 1-1 f v", "XGROUP CREATE s g 0", &claim];
    let mut at = Fixture::new(b"", &[&steps(&lines)]);
    at.load(true).expect("it loads");
    assert!(matches!(&*at.ask("TTL k"), ":999" | ":1000"));
    let pending = at.ask("XPENDING s g - + 10");
    let idle: i64 = pending.split(' ').nth(6).and_then(|n| n[1..].parse().ok()).expect("a number");
    assert!((5000..600_000).contains(&idle), "{pending}");
}

#[test]
fn a_torn_end_is_cut_where_that_is_allowed() {
    let mut bytes = steps(&["SET a 1", "MULTI", "SET a 2", "SET b 2"]);
    let whole = resp("SET a 1").len();
    let torn = format!(
        "offset {whole}: the file ends inside a transaction ({} bytes)",
        bytes.len() - whole
    );
    let mut at = Fixture::new(b"", &[&bytes, b""]);
    let refused = at.load(false).expect_err("it is torn");
    let words = "Unexpected end of file reading the append only file /d/a.1.incr.aof. You can: 1) ";
    assert!(refused.starts_with(words) && refused.ends_with(&torn), "{refused}");
    assert!(refused.contains("set the 'aof-load-truncated' configuration option"), "{refused}");
    assert_eq!(at.ask("EXISTS b"), ":0");
    let cut = at.load(true);
    assert_eq!(cut, Ok(format!("1 steps, {whole} bytes, None, Some({torn:?})")));
    assert_eq!(at.load(false), Ok(format!("1 steps, {whole} bytes, None, None")));
    bytes.truncate(bytes.len() - 1);
    let mut at = Fixture::new(b"", &[&bytes, b"#\n"]);
    let refused = at.load(true).expect_err("something follows");
    let words = "Fatal error: the truncated file is not the last file: /d/a.1.incr.aof: ";
    assert!(refused.starts_with(words), "{refused}");
}

#[test]
fn what_all_files_end_with_is_told() {
    let step = resp("SET a 1");
    let check = |base: &str, increments: &[&str], expected: Option<&str>| {
        let increments: Vec<&[u8]> = increments.iter().map(|text| text.as_bytes()).collect();
        let mut at = Fixture::new(base.as_bytes(), &increments);
        at.load(true).expect("it loads");
        assert_eq!(at.last_annotation.as_deref(), expected);
    };
    let (annotated, torn) = (format!("{step}#x:1\r\n"), format!("#x:1\r\n{}", &step[..9]));
    check("", &[&annotated], Some("x:1"));
    check("", &[&format!("{annotated}#y:2\r\n")], Some("y:2"));
    check("", &[&annotated, ""], Some("x:1"));
    check(&annotated, &["", ""], Some("x:1"));
    check("", &[&annotated, &step], None);
    check("", &[&format!("{annotated}{step}")], None);
    check("", &[&torn], None);
    check("", &[&step], None);
}

#[test]
fn damage_is_told_with_file_and_offset() {
    let good = steps(&["SET a 1"]);
    // The words of Redis and Valkey, and then our own.
    let check = |bad: &[u8], words: &str, expected: &str| {
        let mut at = Fixture::new(b"", &[&[&good, bad].concat()]);
        let error = at.load(true).expect_err("it is damaged");
        let words = format!("{words} reading the append only file /d/a.1.incr.aof");
        let place = format!("offset {}: {expected}", good.len());
        assert!(error.starts_with(&words) && error.ends_with(&place), "{error}");
        // What newer ones say of it.
        assert_eq!(error.contains("unknown command 'SAT'"), words.contains("SAT"), "{error}");
    };
    check(
        b"SET a 2\r\n",
        "Bad file format",
        "expected a command: '*' and a number of arguments, found \"SET a 2\\r\\n\"",
    );
    check(
        &steps(&["SAT a 2"]),
        "Unknown command 'SAT'",
        "expected a command that this server knows, found 'SAT' 'a' '2' (3 arguments)",
    );
    check(
        &steps(&["GET a 2 3"]),
        "Bad file format",
        "expected a command with as many arguments as it takes, found 'GET' 'a' '2' (4 arguments)",
    );
}

#[test]
fn an_empty_file_is_no_snapshot() {
    let mut at = Fixture::new(b"", &[&steps(&["SET a 1"])]);
    let base = at.layout.base(1, pantala_persistence::aof::BaseKind::Rdb);
    let mut manifest = at.layout.open(&at.disk).expect("it opens").expect("there is one");
    at.disk.create(&at.layout.path(&base.name)).expect("created");
    manifest.base = Some(base);
    at.layout.store(&at.disk, &manifest).expect("stored");
    let error = at.load(true).expect_err("it is damaged");
    let expected = "offset 0: expected a snapshot, as the file's name says, found nothing";
    assert!(error.contains("/d/a.1.base.rdb: ") && error.ends_with(expected), "{error}");
}

#[test]
fn errors_are_counted_and_do_not_stop_it() {
    let mut at = Fixture::new(b"", &[&steps(&["SET a x", "INCR a", "SET b 1"])]);
    let loaded = at.load(true).expect("it loads");
    assert!(loaded.contains("INCR: -ERR value is not an integer or out of range"), "{loaded}");
    assert_eq!(at.ask("GET b"), "$1 1");
}

#[test]
fn an_error_stops_it_where_that_is_asked_for() {
    let mut at = Fixture::new(b"", &[&steps(&["SET a x", "INCR a", "SET b 1"])]);
    let panics = |now: &Settings| now.clone().with("propagation-error-behavior", "panic");
    at.engine.settings.change(panics).expect("a setting");
    let refused = at.load(true).expect_err("INCR fails");
    let told = "a command that succeeds: propagation-error-behavior, found 'INCR' 'a'";
    assert!(refused.contains(told), "{refused}");
    assert_eq!(at.ask("EXISTS b"), ":0");
}

#[test]
fn what_others_write_of_trimmed_streams_is_obeyed() {
    let lines = [
        "XADD s 1-1 a b",
        "XADD s 2-1 a b",
        "XADD s 3-1 a b",
        "XADD s MAXLEN = 3 LIMIT 1 4-1 a b",
        "XTRIM s MAXLEN = 2 LIMIT 1",
        "XADD s MINID = 4-1 LIMIT 100 5-1 a b",
        "XADD s 9-1 a b",
        "XDEL s 9-1",
        "XSETID s 6-1",
        "XADD s 7-1 a b",
    ];
    let mut at = Fixture::new(b"", &[&steps(&lines)]);
    let loaded = at.load(true).expect("it loads");
    assert!(loaded.ends_with("None, None"), "{loaded}");
    assert_eq!(at.ask("XRANGE s 7-1 7-1"), "*1 *2 $3 7-1 *2 $1 a $1 b");
    assert_eq!(at.ask("XLEN s"), ":3");
}

#[test]
fn a_snapshot_may_stand_before_the_steps() {
    let base = [b"REDIS!".to_vec(), steps(&["SET a 1"])].concat();
    let mut at = Fixture::new(&base, &[&steps(&["INCR a"])]);
    at.load(true).expect("it loads");
    assert_eq!(at.snapshots.0, [format!("REDIS! of {}", base.len())]);
    assert_eq!(at.ask("GET a"), "$1 2");
}

#[test]
fn whole_keyspaces_and_scripts_are_replayed() {
    let lines = ["SET a 1", "SELECT 2", "SET a 2", "SWAPDB 0 2", "SELECT 5", "SET a 5", "FLUSHDB"];
    let script = "*4\r\n$4\r\nEVAL\r\n$38\r\nreturn redis.call('INCRBY',KEYS[1],40)\r\n\
                  $1\r\n1\r\n$1\r\na\r\n";
    let bytes =
        [steps(&lines), b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n".to_vec(), script.into()].concat();
    let mut at = Fixture::new(b"", &[&bytes]);
    assert!(at.load(true).expect("it loads").contains("None, None"));
    assert_eq!(at.ask("GET a"), "$2 42");
}
