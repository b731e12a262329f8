//! The limit of memory, seen from the outside: random commands on keys of all types, under each
//! policy, with one client and no socket.
//!
//! Before a command runs, memory use is below the limit, or no key is left that may be evicted;
//! after it the use has grown by no more than the command itself can have taken. Keys that may not
//! be evicted stay.
//!
//! `writer.rs` makes the commands. The counters of the allocator are those of the process, so the
//! tests here run one after the other.

mod writer;

use std::sync::Arc;

use pantala_base::clock::unix_ms;
use pantala_keyspace::{Choice, DbIndex, First, GarbageInTransit, Reclaimer, Scope, Tally};
use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;
use parking_lot::{Mutex, MutexGuard};

use writer::{Writer, request};

#[global_allocator]
static ALLOCATOR: pantala_memory::Counting = pantala_memory::Counting;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock()
}

/// The bytes allocated by this thread: nothing else runs in it.
fn own_bytes() -> u64 {
    // The count may be below zero: the harness's memory may be freed by another thread than
    // allocated it.
    pantala_memory::allocated_by_this_thread().cast_unsigned().wrapping_add(1 << 40)
}

/// Bytes for data.
const ROOM: u64 = 2 << 20;
/// Bytes beside the data: buffers of the connection, logs, a thread's caches.
const SLACK: u64 = 96 << 10;
const COMMANDS: usize = 2_500;
const STICKY: usize = 40;

const POLICIES: [&str; 9] = [
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "cache mode",
];

/// A server with this policy and so much room above the use of an empty one.
struct Limited {
    server: LocalServer,
    policy: &'static str,
    limit: u64,
}

impl Limited {
    fn new(policy: &'static str, room: u64) -> Limited {
        let settings = match policy {
            "cache mode" => Settings::defaults().with("cache_mode", "yes"),
            name => Settings::defaults().with("maxmemory-policy", name),
        };
        // However slow the machine is, eviction makes all the room it can before a command.
        let settings = settings.and_then(|all| all.with("maxmemory-eviction-tenacity", "100"));
        let settings = settings.expect("good words");
        let server = LocalServer::new(settings).expect("descriptors");
        let mut limited = Limited { server, policy, limit: u64::MAX };
        for line in ["SET s 1", "EVAL return 1 0", "DEL s", "FLUSHALL"] {
            limited.ask(&line.split(' ').collect::<Vec<_>>());
        }
        let limit = pantala_memory::allocated() + room;
        limited.ask(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
        limited.limit = limit;
        limited
    }

    fn ask(&mut self, words: &[&str]) -> String {
        self.exchange(&request(words))
    }

    fn exchange(&mut self, request: &[u8]) -> String {
        let mut reply = Vec::new();
        self.server.exchange(request, &mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    fn used(&self) -> u64 {
        pantala_memory::allocated() - self.server.space().pending_bytes()
    }

    fn evicts(&self) -> bool {
        self.policy != "noeviction"
    }

    /// The number of keys, and of those with a deadline, in all databases.
    fn keys(&self) -> (u64, u64) {
        let space = self.server.space();
        let all = (0..16).filter_map(|db| space.sizes(DbIndex(db)));
        all.fold((0, 0), |sum, sizes| (sum.0 + sizes.keys(), sum.1 + sizes.with_deadline()))
    }

    /// The number of keys that may be evicted.
    fn candidates(&self) -> u64 {
        let (keys, with_deadline) = self.keys();
        match self.policy {
            "noeviction" => 0,
            policy if policy.starts_with("volatile") => with_deadline,
            _ => keys - STICKY as u64,
        }
    }

    fn evicted(&mut self) -> u64 {
        let info = self.ask(&["INFO", "stats"]);
        let value = info.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        value.and_then(|value| value.parse().ok()).expect("a number")
    }

    /// Evicts all keys, one after the other; returns their bytes as eviction counts them.
    fn evict_all(&mut self) -> u64 {
        let (mut freed, tally) = (0, Tally::default());
        while self.keys().0 > 0 {
            let space = self.server.space();
            let scope = Scope {
                space,
                db: DbIndex(0),
                now: unix_ms(),
                tally: &tally,
                touch: false,
                sees_expired: false,
                recorder: None,
            };
            let any = Choice { first: First::Any, only_deadlines: false, in_need: true };
            freed += space.evict(scope, any, 1).bytes as u64;
        }
        freed
    }

    /// Runs a command that only makes room, and checks that no key is evicted that may not be.
    fn make_room(&mut self, why: &str) {
        let (before, was_full) = (self.keys(), self.used() + SLACK / 4 > self.limit);
        assert_eq!(self.ask(&["PING"]), "+PONG\r\n");
        let (now, used) = (self.keys(), self.used());
        let (limit, policy) = (self.limit + SLACK / 4, self.policy);
        assert!(used <= limit || self.candidates() == 0, "{policy}: {used} > {limit} after {why}");
        if !was_full || !self.evicts() {
            assert_eq!(now, before, "{policy}: nothing goes while there is room: {why}");
        }
        if policy.starts_with("volatile") {
            let lasting = |keys: (u64, u64)| keys.0 - keys.1;
            assert_eq!(lasting(now), lasting(before), "{policy}: what has no deadline: {why}");
        }
    }

    /// Runs one random command.
    fn step(&mut self, writer: &mut Writer) -> bool {
        let command = writer.next();
        let (keys, was_used) = (self.keys(), self.used());
        let reply = self.exchange(&command.request);
        let is_refused = reply.contains("-OOM ");
        let most = was_used.max(self.limit) + command.takes + SLACK + 4 * reply.len() as u64;
        let (used, policy) = (self.used(), self.policy);
        assert!(used <= most, "{policy}: {used} > {most} after {}: {reply}", command.name);
        if is_refused {
            let left = self.candidates();
            assert_eq!(left, 0, "{policy}: {} is refused, {left} may go", command.name);
            assert!(command.grows, "{policy}: {} takes nothing: {reply}", command.name);
            assert!(self.keys().0 <= keys.0, "{policy}: {} is refused", command.name);
        }
        self.make_room(command.name);
        is_refused
    }
}

fn sticky(number: usize) -> String {
    format!("sticky:{number}")
}

fn play(policy: &'static str, seed: u64) {
    let mut limited = Limited::new(policy, ROOM);
    for number in 0..STICKY {
        limited.ask(&["SET", &sticky(number), "value"]);
        assert_eq!(limited.ask(&["STICK", &sticky(number)]), ":1\r\n");
    }
    let mut writer = Writer::new(seed);
    let refused = (0..COMMANDS).filter(|_| limited.step(&mut writer)).count();
    let names: Vec<String> = (0..STICKY).map(sticky).collect();
    let words: Vec<&str> = ["EXISTS"].into_iter().chain(names.iter().map(String::as_str)).collect();
    assert_eq!(limited.ask(&words), format!(":{STICKY}\r\n"), "{policy}: what sticks");
    let evicted = limited.evicted();
    assert_eq!(evicted > 0, limited.evicts(), "{policy}: {evicted} keys have gone");
    let may_refuse = policy.starts_with("volatile") || policy == "noeviction";
    assert_eq!(refused > 0, may_refuse, "{policy}: {refused} writes were refused");
}

#[test]
fn it_holds_under_each_policy() {
    let _alone = alone();
    for (seed, policy) in POLICIES.into_iter().enumerate() {
        play(policy, seed as u64);
    }
}

/// Valkey's COMMAND INFO of each command.
fn facts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../facts/commands.tsv").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'))
}

/// Commands that end, write files, or are answered by what they run.
const OTHERS: [&str; 11] = [
    "BGREWRITEAOF",
    "BGSAVE",
    "DEBUG",
    "EVAL",
    "EVALSHA",
    "EVALSHA_RO",
    "EVAL_RO",
    "FCALL",
    "FCALL_RO",
    "SAVE",
    "SHUTDOWN",
];

#[test]
fn what_is_refused_without_room_is_what_valkey_refuses() {
    let _alone = alone();
    let (mut refused, mut run) = (0, 0);
    let known = pantala_commands::Registry::new(&pantala_server::commands::families());
    let is_known =
        |name: &str| known.rows().iter().any(|row| row.full_name().eq_ignore_ascii_case(name));
    for (name, fact) in facts().filter(|(name, _)| !OTHERS.contains(name)) {
        let mut fields = fact.split('\t');
        let arity: i64 = fields.next().and_then(|text| text.parse().ok()).expect("an arity");
        let refuses = fields.next().expect("flags").split(',').any(|flag| flag == "denyoom");
        if !is_known(name) {
            continue;
        }
        let mut words: Vec<&str> = name.split(['|', ' ']).collect();
        words.resize(words.len().max(arity.unsigned_abs() as usize), "1");
        let settings = Settings::defaults().with("maxmemory", "1").expect("a limit");
        let mut reply = Vec::new();
        let mut server = LocalServer::new(settings).expect("descriptors");
        server.exchange(&request(&words), &mut reply);
        let reply = String::from_utf8_lossy(&reply);
        assert!(!reply.contains("wrong number of arguments for '"), "{words:?}: {reply}");
        assert_eq!(reply.starts_with("-OOM "), refuses, "{words:?}: {reply}");
        if refuses { refused += 1 } else { run += 1 }
    }
    assert!(refused > 50 && run > 150, "{refused} of {}", refused + run);
}

#[test]
fn reads_go_on_without_room() {
    let _alone = alone();
    let mut limited = Limited::new("noeviction", ROOM);
    for line in ["SET s v", "HSET h f v", "RPUSH l v", "SADD t v", "ZADD z 1 v", "XADD x 1-1 f v"] {
        limited.ask(&line.split(' ').collect::<Vec<_>>());
    }
    limited.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    for line in
        ["GET s", "HGET h f", "LRANGE l 0 -1", "SMEMBERS t", "ZRANGE z 0 -1", "XRANGE x - +"]
    {
        let reply = limited.ask(&line.split(' ').collect::<Vec<_>>());
        assert!(reply.contains("\r\nv\r\n"), "{line}: {reply}");
    }
    let script = "return redis.call('GET', KEYS[1])";
    assert_eq!(limited.ask(&["EVAL", script, "1", "s"]), "$1\r\nv\r\n");
    let script = "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])";
    assert_eq!(limited.ask(&["EVAL", script, "1", "s"]), "$1\r\nv\r\n");
    let script = "return redis.call('SET', KEYS[1], 'w')";
    assert!(limited.ask(&["EVAL", script, "1", "s"]).starts_with("-OOM "));
    let both = [request(&["MULTI"]), request(&["GET", "s"]), request(&["EXEC"])].concat();
    assert_eq!(limited.exchange(&both), "+OK\r\n+QUEUED\r\n*1\r\n$1\r\nv\r\n");
    let both = [request(&["MULTI"]), request(&["SET", "s", "w"]), request(&["EXEC"])].concat();
    assert!(limited.exchange(&both).starts_with("+OK\r\n-OOM "));
    for line in ["DEL s", "HDEL h f", "LPOP l", "SREM t v", "EXPIRE z 100", "XDEL x 1-1"] {
        let reply = limited.ask(&line.split(' ').collect::<Vec<_>>());
        assert!(!reply.starts_with('-'), "what takes no memory runs: {line}: {reply}");
    }
}

/// The bytes counted by eviction are those that the allocator gets back.
#[test]
fn each_type_counts_by_its_true_size() {
    let _alone = alone();
    for (name, kind) in writer::KINDS {
        for count in [3, 40, 3_000] {
            let mut limited = Limited::new("noeviction", 64 << 20);
            for request in writer::collection(kind, "key", count) {
                limited.exchange(&request);
            }
            assert_eq!(limited.keys().0, 1);
            let before = own_bytes();
            let freed = limited.evict_all();
            let gone = before - own_bytes();
            let about = gone / 8 + 256;
            assert!(freed.abs_diff(gone) <= about, "{name} of {count}: {freed}, in truth {gone}");
        }
    }
}

/// Otherwise a small cache would fill up with empty databases.
#[test]
fn a_database_that_is_empty_again_takes_nothing() {
    let _alone = alone();
    for db in ["0", "9"] {
        let mut limited = Limited::new("noeviction", 64 << 20);
        limited.ask(&["SELECT", db]);
        limited.ask(&["SET", "k", "v"]);
        limited.evict_all();
        let before = own_bytes();
        for number in 0..3_000 {
            limited.ask(&["SET", &number.to_string(), "v", "EX", "1000"]);
        }
        let full = own_bytes();
        limited.evict_all();
        let (after, took) = (own_bytes().saturating_sub(before), full - before);
        assert!(after < took / 50, "database {db}: {after} of {took} are left");
    }
}

/// Frees only when told to.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Vec<GarbageInTransit>>>);

impl Reclaimer for Slow {
    fn reclaim(&self, garbage: GarbageInTransit) {
        self.0.lock().push(garbage);
    }
}

/// The thread that makes room does not free large values itself, and those waiting to be freed
/// count as free.
#[test]
fn large_collections_are_freed_in_the_background() {
    let _alone = alone();
    for (name, kind) in writer::KINDS.into_iter().filter(|(_, kind)| *kind != "SET") {
        let (mut limited, slow) = (Limited::new("allkeys-lru", 64 << 20), Slow::default());
        limited.server.space().set_reclaimer(Box::new(slow.clone()));
        for request in writer::collection(kind, "key", 20_000) {
            limited.exchange(&request);
        }
        let before = own_bytes();
        limited.evict_all();
        assert_eq!(limited.server.space().pending_pieces(), 1, "{name}");
        assert!(own_bytes() > before - 4_096, "{name}: nothing is freed yet");
        let pending = limited.server.space().pending_bytes();
        slow.0.lock().clear();
        assert_eq!(limited.server.space().pending_bytes(), 0, "{name}");
        let freed = before - own_bytes();
        let about = freed / 8 + 4_096;
        assert!(pending.abs_diff(freed) < about, "{name}: {pending} of {freed} count as free");
    }
}

#[test]
fn latency_tells_of_evictions_that_take_long() {
    let _alone = alone();
    let mut limited = Limited::new("allkeys-lru", 64 << 20);
    limited.ask(&["DEBUG", "POPULATE", "100000"]);
    limited.ask(&["CONFIG", "SET", "latency-monitor-threshold", "1"]);
    limited.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    limited.ask(&["PING"]);
    assert_eq!(limited.keys().0, 0);
    let latest = limited.ask(&["LATENCY", "LATEST"]);
    assert!(latest.contains("\r\neviction-cycle\r\n"), "{latest}");
}

/// How many of these `count` keys, called `PREFIX:n`, are left.
fn left(limited: &mut Limited, prefix: &str, count: usize) -> usize {
    let names: Vec<String> = (0..count).map(|number| format!("{prefix}:{number}")).collect();
    let words: Vec<&str> = ["EXISTS"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let reply = limited.ask(&words);
    reply[1..].trim_end().parse().expect("a number")
}

/// Whether small or large values are written, the small and the large ones there before lose the
/// same share.
#[test]
fn neither_large_nor_small_values_starve_the_others() {
    let _alone = alone();
    const LARGE: (usize, usize) = (240, 15_000);
    const SMALL: (usize, usize) = (24_000, 100);
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl"] {
        for (name, new_bytes) in [("large", LARGE.1), ("small", SMALL.1)] {
            let mut limited = Limited::new(policy, 9 << 20);
            for (prefix, (count, bytes)) in [("small", SMALL), ("large", LARGE)] {
                let value = "v".repeat(bytes);
                for number in 0..count {
                    let seconds = (1_000 + number % 100).to_string();
                    limited.ask(&["SET", &format!("{prefix}:{number}"), &value, "EX", &seconds]);
                }
            }
            let before = limited.keys().0;
            assert_eq!(before, (LARGE.0 + SMALL.0) as u64, "all of them fit");
            let value = "v".repeat(new_bytes);
            for number in 0..(4 << 20) / (new_bytes + 40) {
                limited.ask(&["SET", &format!("new:{number}"), &value, "EX", "100000"]);
            }
            // Asking takes memory itself.
            limited.ask(&["CONFIG", "SET", "maxmemory", "0"]);
            let large = left(&mut limited, "large", LARGE.0) as f64 / LARGE.0 as f64;
            let small = left(&mut limited, "small", SMALL.0) as f64 / SMALL.0 as f64;
            let said = format!("{policy}, {name} written: {large:.2} and {small:.2} are left");
            println!("{said}");
            assert!(large > 0.15 && small > 0.15, "{said}");
            assert!((large - small).abs() < 0.25, "{said}");
        }
    }
}
