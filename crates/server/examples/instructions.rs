//! Runs a number of commands of a kind through parser, session, keyspace and reply, without
//! sockets: `instructions KIND N`. `bench/instructions` counts its instructions with callgrind.

use pantala_commands::Protocol;
use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;

#[global_allocator]
static ALLOCATOR: pantala_memory::Counting = pantala_memory::Counting;

const KEYS: u64 = 10_000;
const PIPELINE: u64 = 30;
const BATCHES: usize = 400;
const KEYS_OF_MGET: u64 = 10;
/// What LINDEX reads: enough for several chunks.
const LIST_ELEMENTS: u64 = 2_000;
const FIELDS: u64 = 100;
const SCRIPT: &str = "return redis.call('GET',KEYS[1])";

/// One kind of command.
struct Kind {
    name: &'static str,
    /// The bytes of the values that the keys have.
    value_bytes: usize,
    /// The `n`th command; the text is the digest of [`SCRIPT`].
    command: fn(n: u64, digest: &str) -> String,
}

const KINDS: &[Kind] = &[
    Kind { name: "get", value_bytes: 100, command: |n, _| request(&["GET", &key(n)]) },
    Kind {
        name: "set",
        value_bytes: 100,
        command: |n, _| request(&["SET", &key(n), &"x".repeat(100)]),
    },
    Kind { name: "get32", value_bytes: 32, command: |n, _| request(&["GET", &key(n)]) },
    Kind {
        name: "mget",
        value_bytes: 32,
        command: |n, _| {
            let keys: Vec<String> = (0..KEYS_OF_MGET).map(|nth| key(n * 7 + nth * 993)).collect();
            let args: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(|k| &**k)).collect();
            request(&args)
        },
    },
    Kind {
        name: "lpush",
        value_bytes: 8,
        command: |n, _| request(&["LPUSH", "pushed", &format!("element:{n:012}")]),
    },
    Kind {
        name: "lindex",
        value_bytes: 8,
        command: |n, _| request(&["LINDEX", "list", &(n % LIST_ELEMENTS).to_string()]),
    },
    Kind {
        name: "evalsha",
        value_bytes: 32,
        command: |n, digest| request(&["EVALSHA", digest, "1", &key(n)]),
    },
    Kind {
        name: "xadd",
        value_bytes: 8,
        command: |n, _| request(&["XADD", "stream", "*", "field", &n.to_string()]),
    },
    Kind {
        name: "hset",
        value_bytes: 8,
        command: |n, _| request(&["HSET", "hash", &format!("field:{}", n % FIELDS), "xxxxxxxx"]),
    },
];

/// Commands of Memcached's text protocol; a `get` of many keys counts as one command.
const KINDS_OF_MEMCACHED: &[Kind] = &[
    Kind { name: "mc_get", value_bytes: 100, command: |n, _| format!("get {}\r\n", key(n)) },
    Kind {
        name: "mc_set",
        value_bytes: 100,
        command: |n, _| format!("set {} 0 0 100\r\n{}\r\n", key(n), "x".repeat(100)),
    },
    Kind {
        name: "mc_get30",
        value_bytes: 100,
        command: |n, _| {
            let keys = (0..PIPELINE).map(|nth| key(n * 7 + nth * 993));
            format!("get {}\r\n", keys.collect::<Vec<_>>().join(" "))
        },
    },
];

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let all = || KINDS.iter().chain(KINDS_OF_MEMCACHED);
    let kind = args.get(1).and_then(|name| all().find(|kind| kind.name == name));
    let (Some(kind), Some(count), 3) = (kind, args.get(2), args.len()) else {
        let names: Vec<&str> = all().map(|kind| kind.name).collect();
        return Err(format!("usage: instructions {} N", names.join("|")));
    };
    let count: u64 = count.parse().map_err(|_| "N is a number")?;
    let mut server = LocalServer::new(Settings::defaults())?;
    let digest = prepare(&mut server, kind.value_bytes);
    if KINDS_OF_MEMCACHED.iter().any(|other| other.name == kind.name) {
        server.speak(Protocol::MemcachedText);
    }
    // A fixed walk over the keys that hits each about equally often, in no order; made beforehand,
    // so that only the server is counted.
    let mut n = 1;
    let batches: Vec<String> = (0..BATCHES)
        .map(|_| {
            let next = |_| {
                n = (n * 48_271 + 11) % 1_000_003;
                (kind.command)(n, &digest)
            };
            (0..PIPELINE).map(next).collect()
        })
        .collect();
    let mut reply = Vec::new();
    for batch in batches.iter().cycle().take((count / PIPELINE) as usize) {
        server.exchange(batch.as_bytes(), &mut reply);
        if reply.first() == Some(&b'-') {
            return Err(String::from_utf8_lossy(&reply).into_owned());
        }
        reply.clear();
    }
    Ok(())
}

/// Makes what the commands work on; the digest of the script.
fn prepare(server: &mut LocalServer, value_bytes: usize) -> String {
    let value = "x".repeat(value_bytes);
    let mut reply = Vec::new();
    for n in 0..KEYS {
        server.exchange(request(&["SET", &key(n), &value]).as_bytes(), &mut reply);
    }
    for n in 0..LIST_ELEMENTS {
        let element = format!("element:{n:012}");
        server.exchange(request(&["RPUSH", "list", &element]).as_bytes(), &mut reply);
    }
    reply.clear();
    server.exchange(request(&["SCRIPT", "LOAD", SCRIPT]).as_bytes(), &mut reply);
    String::from_utf8_lossy(&reply).lines().nth(1).unwrap_or_default().to_owned()
}

fn key(n: u64) -> String {
    format!("key:{:012}", n % KEYS)
}

fn request(args: &[&str]) -> String {
    let arg = |arg: &&str| format!("${}\r\n{arg}\r\n", arg.len());
    format!("*{}\r\n{}", args.len(), args.iter().map(arg).collect::<String>())
}
