//! Random commands on keys of all types, each with what it can take at most.

use std::collections::HashMap;

use pantala_base::rng::Rng;

/// The types, and the command that makes one grow.
pub const KINDS: [(&str, &str); 6] = [
    ("string", "SET"),
    ("list", "RPUSH"),
    ("set", "SADD"),
    ("hash", "HSET"),
    ("sorted set", "ZADD"),
    ("stream", "XADD"),
];

const NAMES: u64 = 150;
/// The size up to which a value grows.
const LARGEST: u64 = 400_000;
/// The memory that a sent byte can take: growth by doubling, a table beside the elements.
const FACTOR: u64 = 4;

/// A command as bytes.
pub fn request<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend_from_slice(word);
        request.extend(b"\r\n");
    }
    request
}

/// The elements that a command adds.
fn elements(kind: &str, from: usize, count: usize) -> Vec<String> {
    let one = |number: usize| match kind {
        "SET" => vec!["some bytes and ".repeat(count)],
        "HSET" => vec![format!("field:{number}"), format!("value of {number}")],
        "ZADD" => vec![format!("{number}.5"), format!("member:{number}")],
        _ => vec![format!("element:{number}")],
    };
    let count = if kind == "SET" { 1 } else { count };
    (from..from + count).flat_map(one).collect()
}

/// Requests that make a value with this many elements.
pub fn collection(kind: &str, key: &str, count: usize) -> Vec<Vec<u8>> {
    if kind == "XADD" {
        let one = |number| request(&["XADD", key, &format!("{number}-1"), "field", "a value"]);
        return (1..=count).map(one).collect();
    }
    let step = if kind == "SET" { count } else { 500 };
    let parts = (0..count).step_by(step).map(|from| {
        let words = elements(kind, from, step.min(count - from));
        let head = [kind, key].into_iter();
        request(&head.chain(words.iter().map(String::as_str)).collect::<Vec<_>>())
    });
    parts.collect()
}

/// A command, or a transaction.
pub struct Command {
    pub name: &'static str,
    pub request: Vec<u8>,
    /// The most memory that it can take.
    pub takes: u64,
    /// Whether it may be refused for lack of room.
    pub grows: bool,
}

/// A generator of random commands, and the most memory that each key can have been given.
pub struct Writer {
    chance: Rng,
    /// The most memory that each key can have been given.
    given: HashMap<String, u64>,
}

impl Writer {
    pub fn new(seed: u64) -> Writer {
        Writer { chance: Rng::from_seed(seed + 1), given: HashMap::new() }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance.below(bound)
    }

    fn key(&mut self, kind: &str) -> String {
        format!("{kind}:{}", self.below(NAMES))
    }

    fn count(&mut self) -> usize {
        match self.below(40) {
            0 => 1_200,
            1..8 => 100,
            _ => 1 + self.below(12) as usize,
        }
    }

    fn bytes(&mut self) -> usize {
        match self.below(30) {
            0 => 250_000,
            1..4 => 20_000,
            4..10 => 2_000,
            _ => self.below(200) as usize,
        }
    }

    /// A command of these words, which gives this key so many more bytes.
    fn growing(&mut self, name: &'static str, words: &[&str], key: &str, more: u64) -> Command {
        let given = self.given.entry(key.to_owned()).or_default();
        *given += more + 64;
        let total = *given;
        let mut all = request(words);
        if total > LARGEST {
            self.given.remove(key);
            all.extend(request(&["DEL", key]));
        }
        Command { name, request: all, takes: total * FACTOR + 8_192, grows: true }
    }

    fn plain(name: &'static str, words: &[&str]) -> Command {
        Command { name, request: request(words), takes: 4_096, grows: false }
    }

    pub fn next(&mut self) -> Command {
        match self.below(20) {
            0..4 => self.set(),
            4 => self.set_range(),
            5 => self.append(),
            6..11 => self.add(),
            11 => self.take_out(),
            12 => self.rename(),
            13 => self.copy(),
            14 | 15 => self.expire(),
            16 => self.remove(),
            17 => self.script(),
            18 => self.transaction(),
            _ => self.read(),
        }
    }

    fn set(&mut self) -> Command {
        let (key, value) = (self.key("SET"), "v".repeat(self.bytes()));
        self.given.remove(&key);
        match self.below(2) {
            0 => self.growing("SET", &["SET", &key, &value], &key, value.len() as u64),
            _ => {
                let words = ["SET", &key, &value, "EX", "5000"];
                self.growing("SET EX", &words, &key, value.len() as u64)
            }
        }
    }

    fn set_range(&mut self) -> Command {
        let (key, offset) = (self.key("SET"), self.below(60_000));
        let words = ["SETRANGE", &key, &offset.to_string(), "here"];
        self.growing("SETRANGE", &words, &key, offset + 4)
    }

    fn append(&mut self) -> Command {
        let (key, value) = (self.key("SET"), "a".repeat(self.bytes() / 8));
        self.growing("APPEND", &["APPEND", &key, &value], &key, value.len() as u64)
    }

    /// Elements for a collection, sometimes so many that the slow lane has to add them.
    fn add(&mut self) -> Command {
        let (name, kind) = KINDS[1 + self.below(5) as usize];
        let (key, from) = (self.key(kind), self.below(5_000) as usize);
        if kind == "XADD" {
            let value = "x".repeat(self.bytes() / 4);
            let words = ["XADD", &key, "*", "field", &value];
            return self.growing(name, &words, &key, value.len() as u64);
        }
        let words = elements(kind, from, self.count());
        let head = [kind, &key].into_iter();
        let words: Vec<&str> = head.chain(words.iter().map(String::as_str)).collect();
        let more = words.iter().map(|word| word.len() as u64 + 32).sum();
        self.growing(name, &words, &key, more)
    }

    fn take_out(&mut self) -> Command {
        let (kind, first): (&str, &[&str]) = match self.below(4) {
            0 => ("RPUSH", &["LPOP"]),
            1 => ("SADD", &["SPOP"]),
            2 => ("ZADD", &["ZPOPMIN"]),
            _ => ("XADD", &["XTRIM"]),
        };
        let key = self.key(kind);
        let rest: &[&str] = if kind == "XADD" { &["MAXLEN", "10"] } else { &["5"] };
        Writer::plain(first[0], &[first, &[&key], rest].concat())
    }

    fn two_keys(&mut self) -> (String, String) {
        let kind = KINDS[self.below(6) as usize].1;
        (self.key(kind), self.key(kind))
    }

    fn rename(&mut self) -> Command {
        let (from, to) = self.two_keys();
        if let Some(given) = self.given.remove(&from) {
            self.given.insert(to.clone(), given);
        }
        Writer::plain("RENAME", &["RENAME", &from, &to])
    }

    fn copy(&mut self) -> Command {
        let (from, to) = self.two_keys();
        let given = self.given.get(&from).copied().unwrap_or(0);
        self.given.remove(&to);
        self.growing("COPY", &["COPY", &from, &to, "REPLACE"], &to, given)
    }

    fn any_key(&mut self) -> String {
        let kind = KINDS[self.below(6) as usize].1;
        self.key(kind)
    }

    fn expire(&mut self) -> Command {
        let key = self.any_key();
        let seconds = (1_000 + self.below(1_000)).to_string();
        match self.below(8) {
            0 => Writer::plain("PERSIST", &["PERSIST", &key]),
            1 => Writer::plain("MOVE", &["MOVE", &key, "3"]),
            _ => Writer::plain("EXPIRE", &["EXPIRE", &key, &seconds]),
        }
    }

    fn remove(&mut self) -> Command {
        let key = self.any_key();
        match self.below(10) {
            0 => Command {
                name: "FLUSHDB",
                request: [
                    request(&["SELECT", "3"]),
                    request(&["FLUSHDB"]),
                    request(&["SELECT", "0"]),
                ]
                .concat(),
                takes: 0,
                grows: false,
            },
            1..5 => Writer::plain("UNLINK", &["UNLINK", &key]),
            _ => Writer::plain("DEL", &["DEL", &key]),
        }
    }

    fn script(&mut self) -> Command {
        const SCRIPT: &str = "for n = 1, tonumber(ARGV[1]) do \
             redis.call('HSET', KEYS[1], 'script:' .. n, ARGV[2]) end";
        let (key, count) = (self.key("HSET"), 1 + self.below(60));
        let words = ["EVAL", SCRIPT, "1", &key, &count.to_string(), "a value from a script"];
        let mut command = self.growing("EVAL", &words, &key, count * 64);
        // The interpreter's memory.
        command.takes += 512 << 10;
        command
    }

    fn transaction(&mut self) -> Command {
        let parts = [self.set(), self.add(), self.append()];
        let inner: Vec<u8> = parts.iter().flat_map(|part| part.request.clone()).collect();
        let all = [request(&["MULTI"]), inner.clone(), request(&["EXEC"])].concat();
        let takes = parts.iter().map(|part| part.takes).sum::<u64>() + inner.len() as u64;
        Command { name: "MULTI", request: all, takes, grows: true }
    }

    fn read(&mut self) -> Command {
        let key = self.any_key();
        let words: &[&str] = match &key[..3] {
            "SET" => &["GETRANGE", &key, "0", "100"],
            "RPU" => &["LRANGE", &key, "0", "20"],
            "SAD" => &["SRANDMEMBER", &key, "5"],
            "HSE" => &["HSCAN", &key, "0"],
            "ZAD" => &["ZRANGE", &key, "0", "20"],
            _ => &["XRANGE", &key, "-", "+", "COUNT", "5"],
        };
        Writer::plain("a read", words)
    }
}
