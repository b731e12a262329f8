//! Commands while a snapshot runs: it has the data as it was at the cut, and what takes long is
//! asked for before anything is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::snapshot::{
    Snapshot, SnapshotEntry, SnapshotOutcome, SnapshotParts, SnapshotPiece, SnapshotRoom,
    SnapshotTarget, Span, WalkOutcome,
};
use pantala_keyspace::{DbIndex, Scope, Tally};
use pantala_rdb::{Strings, Writing};
use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;
use pantala_table::ValueRef;
use pantala_values::Object;
use parking_lot::Mutex;

/// No element has expired at this moment.
const BEFORE_ALL: UnixMs = UnixMs(i64::MIN);

/// Keys by database and name, as a file would have them.
type Contents = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

/// A snapshot target that keeps all that it is given; keys are separated by a mark that occurs in
/// none of them.
#[derive(Default)]
struct Recording(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    pieces: Vec<(DbIndex, Vec<u8>)>,
    open: Vec<u8>,
}

const MARK: &[u8] = b"<next key>";

fn begin(entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) -> Parts {
    let writing = Writing::begin(&entry.value, BEFORE_ALL, Strings::Plain);
    out.extend_from_slice(entry.key);
    let deadline = entry.deadline.map_or(0, |deadline| deadline.0);
    let (sticky, kind) = (entry.sticky, writing.kind().0);
    out.extend_from_slice(format!(" {deadline} {sticky} {kind} ").as_bytes());
    Parts(writing)
}

struct Parts(Writing);

impl SnapshotParts for Parts {
    fn go_on(
        &mut self,
        value: &ValueRef<'_, Object>,
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let is_last = self.0.go_on(value, most_bytes, out);
        if is_last {
            out.extend_from_slice(MARK);
        }
        is_last
    }
}

impl SnapshotTarget for Recording {
    fn write(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) {
        let mut parts = begin(entry, out);
        while !parts.go_on(&entry.value, usize::MAX, out) {}
    }

    fn begin(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) -> Box<dyn SnapshotParts> {
        Box::new(begin(entry, out))
    }

    fn take(&self, piece: SnapshotPiece) {
        let mut taken = self.0.lock();
        let mut bytes = piece.bytes;
        match piece.span {
            Span::First | Span::Middle => return taken.open.append(&mut bytes),
            Span::Last => {
                let mut open = std::mem::take(&mut taken.open);
                open.append(&mut bytes);
                bytes = open;
            }
            Span::Whole => {}
        }
        taken.pieces.push((piece.db, bytes));
    }

    fn room(&self) -> SnapshotRoom {
        SnapshotRoom::Free
    }

    fn has_room_for_parts(&self) -> bool {
        true
    }
}

impl Recording {
    fn contents(&self) -> Contents {
        let mut contents = Contents::new();
        for (db, bytes) in &self.0.lock().pieces {
            let mut rest = &bytes[..];
            while let Some(end) = rest.windows(MARK.len()).position(|part| part == MARK) {
                add(&mut contents, *db, &rest[..end + MARK.len()]);
                rest = &rest[end + MARK.len()..];
            }
            assert!(rest.is_empty(), "half a key");
        }
        contents
    }
}

fn add(contents: &mut Contents, db: DbIndex, written: &[u8]) {
    let end = written.iter().position(|byte| *byte == b' ').expect("it begins with its name");
    let before = contents.insert((db.0, written[..end].to_vec()), written.to_vec());
    assert_eq!(before, None, "{:?} twice", String::from_utf8_lossy(&written[..end]));
}

struct Server {
    process: LocalServer,
    running: Option<(Snapshot, Arc<Recording>, Contents)>,
    /// Every command waits for the snapshot instead of writing a large value itself.
    all_wait: bool,
}

impl Server {
    fn new() -> Server {
        let process = LocalServer::new(Settings::defaults()).expect("descriptors");
        Server { process, running: None, all_wait: true }
    }

    fn ask(&mut self, words: &[&[u8]]) -> String {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend_from_slice(word);
            request.extend(b"\r\n");
        }
        self.exchange(&request)
    }

    fn line(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.ask(&words)
    }

    fn exchange(&mut self, request: &[u8]) -> String {
        let mut reply = Vec::new();
        self.process.exchange(request, &mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// All data, including expired keys and elements.
    fn contents(&self) -> Contents {
        let (space, tally, mut contents) =
            (self.process.space(), Tally::default(), Contents::new());
        for db in (0..space.database_count()).map(DbIndex) {
            let scope = Scope {
                space,
                db,
                now: UnixMs(0),
                tally: &tally,
                touch: false,
                sees_expired: true,
                recorder: None,
            };
            let mut locked = space.lock_none(scope);
            let seen = locked.each_table(&mut |table| {
                table.for_each(&mut |place| {
                    let entry = SnapshotEntry {
                        key: table.key(place),
                        value: table.value(place),
                        deadline: table.deadline(place),
                        sticky: table.sticky(place),
                        flags: table.tail(place).flags,
                    };
                    let mut written = Vec::new();
                    Recording::default().write(&entry, &mut written);
                    add(&mut contents, db, &written);
                });
            });
            seen.expect("nobody gives up");
        }
        contents
    }

    fn begin(&mut self) {
        let (target, expected) = (Arc::<Recording>::default(), self.contents());
        let snapshot = self.process.space().begin_snapshot(target.clone(), &mut |_| {});
        self.running = Some((snapshot.expect("none runs"), target, expected));
    }

    /// Runs some steps of the walk; returns whether it has ended, with the expected contents.
    #[track_caller]
    fn walk(&mut self, steps: u64) -> bool {
        let Some((snapshot, target, expected)) = self.running.take() else { return true };
        for _ in 0..steps {
            if let WalkOutcome::Done(outcome) = snapshot.walk(self.process.space()) {
                assert_eq!(outcome, SnapshotOutcome::Complete);
                let unasked = snapshot.progress().unasked;
                assert!(unasked == 0 || !self.all_wait, "a command has written a large value");
                let found = target.contents();
                for key in found.keys().chain(expected.keys()) {
                    let name = String::from_utf8_lossy(&key.1);
                    assert!(found.get(key) == expected.get(key), "{name} in {}", key.0);
                }
                return true;
            }
        }
        self.running = Some((snapshot, target, expected));
        false
    }

    /// A command's reply, and how many steps of the walk it had to wait for.
    fn wait_for(&mut self, mut reply: String) -> (String, u64) {
        let mut steps = 0;
        while reply.is_empty() {
            assert!(self.running.is_some() || steps == 0, "it waits for ever");
            self.walk(1);
            steps += 1;
            reply = self.exchange(b"");
        }
        (reply, steps)
    }
}

/// A server with a large and a small value of each type.
fn full() -> Server {
    let mut server = Server::new();
    let long = "x".repeat(200_000);
    server.ask(&[b"SET", b"string", long.as_bytes()]);
    server.line("SET small value");
    server.line("RPUSH short a b c");
    for number in 0..600 {
        let wide = format!("{number}-{}", "y".repeat(40));
        server.line(&format!("RPUSH list {wide}"));
        server.line(&format!("SADD set {wide}"));
        server.line(&format!("ZADD zset {number} {wide}"));
        server.line(&format!("HSET hash {wide} v"));
        server.line(&format!("XADD stream {}-1 f {wide}", number + 1));
    }
    server.line("XGROUP CREATE stream group 0");
    server
}

/// Commands that change a large value in place, or move it.
const IN_PLACE: &[&str] = &[
    "APPEND string tail",
    "SETRANGE string 5 xyz",
    "SETBIT string 9 1",
    "BITFIELD string SET u8 0 7",
    "BITOP NOT string string",
    "RPUSH list tail",
    "LPOP list",
    "LTRIM list 0 3",
    "LMOVE list short LEFT RIGHT",
    "LMOVE short list LEFT RIGHT",
    "SADD set member",
    "SPOP set",
    "SMOVE set other 5-yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
    "ZADD zset 1 member",
    "ZPOPMIN zset",
    "HSET hash f v",
    "HDEL hash f",
    "HEXPIRE hash 100 FIELDS 1 f",
    "XADD stream * f v",
    "XREADGROUP GROUP group me STREAMS stream >",
    "XTRIM stream MAXLEN 3",
    "RENAME list other",
    "MOVE set 1",
];

/// Commands that replace or remove a large value, or change its deadline.
const REPLACING: &[&str] = &[
    "SET string new",
    "SET list new",
    "GETSET string new",
    "GETDEL string",
    "GETEX string EX 100",
    "MSET string a list b",
    "DEL hash",
    "UNLINK zset stream",
    "EXPIRE list 100",
    "PEXPIREAT hash 1",
    "PERSIST set",
    "STICK zset",
    "SUNIONSTORE set short",
    "SUNIONSTORE hash nothing",
    "ZUNIONSTORE zset 2 zset zset",
    "SORT short ALPHA STORE list",
    "COPY list set REPLACE",
    "COPY list copied",
    "SETEX list 100 v",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB 0 1",
];

#[test]
fn who_changes_a_large_value_where_it_is_waits_until_it_is_written() {
    for command in IN_PLACE {
        let expected = full().line(command);
        let mut server = full();
        server.begin();
        let reply = server.line(command);
        assert_eq!(reply, "", "{command} waits");
        let (reply, steps) = server.wait_for(reply);
        assert!(steps > 0 && server.running.is_some(), "{command} waits for its key only");
        if !command.contains('*') {
            assert_eq!(reply, expected, "{command}");
        }
        assert_ne!(server.line(command), "", "{command} waits once");
        assert!(server.walk(u64::MAX), "{command}");
    }
}

#[test]
fn who_replaces_a_large_value_does_not_wait() {
    for command in REPLACING {
        let expected = full().line(command);
        let mut server = full();
        server.begin();
        assert_eq!(server.line(command), expected, "{command}");
        let (snapshot, ..) = server.running.as_ref().expect("nobody has walked");
        assert_eq!(snapshot.progress().unasked, 0, "{command}");
        assert!(server.walk(u64::MAX), "{command}");
    }
}

#[test]
fn what_is_one_step_waits_as_a_whole() {
    let change = "redis.call('SET', 'small', 'changed') ";
    let whole = |body: &str| vec!["EVAL".to_owned(), format!("{change} {body}"), "0".to_owned()];
    let steps: Vec<Vec<Vec<String>>> = vec![
        vec![whole("return redis.call('RPUSH', 'list', 'tail')")],
        vec![whole("redis.call('HSET', 'hash', 'f', 'v') return redis.call('SADD', 'set', 'm')")],
        ["MULTI", "SET small changed", "SELECT 0", "RPUSH list tail", "EXEC"]
            .map(|line| line.split(' ').map(str::to_owned).collect())
            .to_vec(),
        vec![
            vec!["MULTI".to_owned()],
            whole("return redis.call('RPUSH', 'list', 'tail')"),
            vec!["EXEC".to_owned()],
        ],
    ];
    for commands in steps {
        let run = |server: &mut Server| {
            let ask = |words: &Vec<String>| {
                server.ask(&words.iter().map(String::as_bytes).collect::<Vec<_>>())
            };
            commands.iter().map(ask).last().expect("there is one")
        };
        let expected = run(&mut full());
        let mut server = full();
        // The script is known, so it runs on the worker.
        server.line("RPUSH short d");
        server.begin();
        let reply = run(&mut server);
        assert_eq!(reply, "", "{commands:?} waits");
        let (reply, _) = server.wait_for(reply);
        assert_eq!(reply, expected, "{commands:?}");
        assert_eq!(server.line("GET small"), "$7\r\nchanged\r\n");
        assert!(server.walk(u64::MAX), "{commands:?}");
    }
}

/// `K` stands for a key, `N` for a small number, `W` for many wide words, `P` for as many pairs.
const COMMANDS: &[&str] = &[
    "SET K N",
    "SET K W",
    "SET K N PX 1",
    "SET K N KEEPTTL GET",
    "APPEND K W",
    "SETRANGE K N W",
    "SETBIT K N 1",
    "INCRBY K N",
    "GETDEL K",
    "GETEX K PX N",
    "MSET K N K W",
    "BITOP OR K K K",
    "BITFIELD K SET u8 N 7",
    "PFADD K W",
    "PFMERGE K K",
    "PFCOUNT K",
    "RPUSH K W",
    "LPUSH K N",
    "LPOP K N",
    "LTRIM K N 40",
    "LSET K 0 N",
    "LREM K 0 N",
    "LINSERT K BEFORE N N",
    "LMOVE K K LEFT RIGHT",
    "LMPOP 2 K K LEFT COUNT N",
    "SADD K W",
    "SADD K N",
    "SREM K N",
    "SPOP K N",
    "SMOVE K K N",
    "SUNIONSTORE K K K",
    "SDIFFSTORE K K K",
    "SINTERSTORE K K K",
    "HSET K P",
    "HSET K N N",
    "HDEL K N",
    "HINCRBY K N N",
    "HPEXPIRE K 1 FIELDS 2 N 3",
    "HSETEX K PX 1 FIELDS 1 N N",
    "ZADD K N N",
    "ZADD K 1 a 2 b 3 c",
    "ZINCRBY K 2 N",
    "ZREM K N",
    "ZPOPMIN K N",
    "ZUNIONSTORE K 2 K K",
    "ZRANGESTORE K K 0 N",
    "ZREMRANGEBYRANK K 0 N",
    "GEOADD K 13 38 N",
    "GEOSEARCHSTORE K K FROMLONLAT 13 38 BYRADIUS 900 km",
    "XADD K * f W",
    "XTRIM K MAXLEN N",
    "XGROUP CREATE K group 0",
    "XREADGROUP GROUP group me COUNT N STREAMS K >",
    "XDEL K 1-1",
    "XSETID K 99999999999999-1",
    "SORT K ALPHA STORE K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K REPLACE",
    "COPY K K DB 1 REPLACE",
    "MOVE K 1",
    "DEL K K",
    "UNLINK K",
    "EXPIRE K 100",
    "PEXPIRE K 1",
    "PERSIST K",
    "STICK K",
    "UNSTICK K",
    "RESTORE K 0 bad",
    "SELECT 0",
    "SELECT 1",
    "HGETALL K",
    "SMEMBERS K",
    "GET K",
    "TYPE K",
];

const SWEEPING: &[&str] = &["FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "DEBUG POPULATE 500 K 20"];

fn words(random: &mut Rng, template: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for word in template.split(' ') {
        match word {
            "K" => words.push(format!("key{}", random.below(14)).into_bytes()),
            "N" => words.push((1 + random.below(9)).to_string().into_bytes()),
            "W" | "P" if template.starts_with("SET") || template.starts_with("AP") => {
                words.push(vec![b'w'; [60, 9_000, 100_000][random.below(3) as usize]]);
            }
            "W" | "P" => {
                let count = 2 * (1 + random.below(90));
                let is_one = ["MSET", "XADD", "PFMERGE"].iter().any(|one| template.contains(one));
                for number in 0..if is_one { 1 } else { count } {
                    let wide = "y".repeat(10 + random.below(60) as usize);
                    words.push(format!("{number}-{wide}").into_bytes());
                }
            }
            other => words.push(other.as_bytes().to_vec()),
        }
    }
    words
}

/// A random command, a script of some, or a transaction.
fn random_step(random: &mut Rng, server: &mut Server) {
    let pick = |random: &mut Rng| {
        let all = if random.below(60) == 0 { SWEEPING } else { COMMANDS };
        let template = all[random.below(all.len() as u64) as usize];
        words(random, template)
    };
    let mut steps = vec![pick(random)];
    match random.below(8) {
        0 => {
            let script = "for at = 1, #ARGV, 2 do redis.pcall(unpack(cjson.decode(ARGV[at]))) end";
            let mut eval: Vec<Vec<u8>> = vec![b"EVAL".into(), script.into(), b"0".into()];
            for _ in 0..1 + random.below(4) {
                let words = pick(random);
                let quoted: Vec<String> = words
                    .iter()
                    .map(|word| format!("\"{}\"", String::from_utf8_lossy(word)))
                    .collect();
                eval.push(format!("[{}]", quoted.join(",")).into_bytes());
                eval.push(b"-".into());
            }
            steps = vec![eval];
        }
        1 => {
            steps = (0..1 + random.below(4)).map(|_| pick(random)).collect();
            steps.insert(0, vec![b"MULTI".into()]);
            steps.push(vec![b"EXEC".into()]);
        }
        _ => {}
    }
    for step in steps {
        let words: Vec<&[u8]> = step.iter().map(Vec::as_slice).collect();
        let reply = server.ask(&words);
        server.wait_for(reply);
    }
}

#[test]
fn whatever_commands_do_the_snapshot_has_what_was_there() {
    let mut finished = 0;
    for seed in 0..6 {
        let (mut server, mut random) = (Server::new(), Rng::from_seed(seed));
        // Scripts that change another database cannot be undone.
        server.all_wait = false;
        for _ in 0..2_500 {
            if server.running.is_none() && random.below(40) == 0 {
                server.begin();
            } else if server.running.is_some() && random.below(12) == 0 {
                let steps = random.below(300);
                finished += u64::from(server.walk(steps));
            }
            random_step(&mut random, &mut server);
        }
        assert!(server.walk(u64::MAX));
    }
    assert!(finished > 40, "{finished}");
}
