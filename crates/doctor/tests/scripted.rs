//! The doctor and a server that answers by a script: other products, and hostile ones.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use pantala_client::Value;
use pantala_protocol::value::parse;

/// Valid replies of a small Redis; a script changes some.
const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\
    uptime_in_seconds:864000\r\nused_memory:1048576\r\nmaxmemory:0\r\nrole:master\r\n\
    connected_slaves:0\r\ncluster_enabled:0\r\n\
    cmdstat_get:calls=10,usec=9,failed_calls=0\r\n\
    cmdstat_cluster|slots:calls=5,usec=9,failed_calls=5\r\n\
    db0:keys=1000,expires=10,avg_ttl=0\r\n";

/// The reply to a command, if not the usual one.
type Script = Box<dyn Fn(&str) -> Option<Vec<u8>> + Send>;

/// The reply to a command without a script.
fn usual(command: &str) -> Vec<u8> {
    match command.split(' ').next().unwrap_or_default() {
        "INFO" => bulk(INFO),
        "CONFIG" => b"*4\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n$4\r\nsave\r\n$0\r\n\r\n".to_vec(),
        "COMMAND" => b"*2\r\n$3\r\nget\r\n$3\r\nset\r\n".to_vec(),
        "MODULE" => b"*0\r\n".to_vec(),
        "CLIENT" if command.ends_with("LIST") => bulk("id=3 name= cmd=get lib-name=jedis\n"),
        "SCAN" => b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n".to_vec(),
        "TYPE" => b"+string\r\n".to_vec(),
        "STRLEN" => b":100\r\n".to_vec(),
        "MEMORY" => b":160\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    }
}

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// A server for one client; returns the received commands when the client is gone.
struct Fake {
    url: String,
    served: JoinHandle<Vec<String>>,
}

impl Fake {
    fn new(script: Script) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("an address"));
        let served = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            serve(stream, script)
        });
        Fake { url, served }
    }
}

fn serve(mut stream: TcpStream, script: Script) -> Vec<String> {
    let (mut asked, mut received, mut part) = (Vec::new(), Vec::new(), [0; 4096]);
    loop {
        while let Ok(Some((Value::Array(words), used))) = parse(&received) {
            received.drain(..used);
            let words: Vec<String> = words.iter().map(pantala_client::text_of).collect();
            let command = words.join(" ");
            let answer = script(&command).unwrap_or_else(|| usual(&command));
            asked.push(command);
            // An empty reply ends the connection.
            if answer.is_empty() || stream.write_all(&answer).is_err() {
                return asked;
            }
        }
        match stream.read(&mut part) {
            Ok(count) if count > 0 => received.extend_from_slice(&part[..count]),
            _ => return asked,
        }
    }
}

/// The report, or why there is none; and the received commands.
type Examined = (Result<(bool, String), String>, Vec<String>);

fn examine(script: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static, words: &[&str]) -> Examined {
    let has = |name: &str| ["get", "set", "info"].contains(&name);
    let fake = Fake::new(Box::new(script));
    let words = [&[fake.url.as_str()], words].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let mut output = Vec::new();
    let outcome = pantala_doctor::run(&words, None, &has, &mut output);
    let outcome = outcome.map(|stops| (stops, String::from_utf8(output).expect("it is text")));
    (outcome, fake.served.join().expect("it ends"))
}

/// Whether something prevents the move, and the text.
fn report(script: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static) -> (bool, String) {
    examine(script, &[]).0.expect("it can be examined")
}

#[test]
fn a_plain_server_may_move_and_is_only_read() {
    let (outcome, asked) = examine(|_| None, &[]);
    let (stops, text) = outcome.expect("it can be examined");
    assert!(!stops, "{text}");
    for part in ["Redis 7.0.15", "1,000 keys", "121.17K", "the 1 command", "jedis", "10 days"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    const READS: [&str; 11] = [
        "INFO",
        "CONFIG GET",
        "COMMAND",
        "MODULE LIST",
        "CLIENT LIST",
        "CLIENT NO-TOUCH",
        "SELECT",
        "SCAN",
        "TYPE",
        "STRLEN",
        "MEMORY USAGE",
    ];
    for command in asked {
        assert!(READS.iter().any(|reads| command.starts_with(reads)), "{command}");
    }
}

#[test]
fn commands_modules_and_types_that_are_not_here_stop_the_move() {
    let (stops, text) = report(|command| match command {
        "INFO everything" => Some(bulk(&format!(
            "{INFO}cmdstat_json.get:calls=12345,failed_calls=0\r\ncmdstat_frob:calls=1\r\n"
        ))),
        "MODULE LIST" => Some(b"*1\r\n*2\r\n$4\r\nname\r\n$6\r\nReJSON\r\n".to_vec()),
        "TYPE b" => Some(b"+ReJSON-RL\r\n".to_vec()),
        _ => None,
    });
    assert!(stops, "{text}");
    for part in [
        "called and not here: 2 commands",
        "JSON.GET: 12,345 calls, of the module ReJSON",
        "FROB: 1 call",
        "modules are loaded",
        "ReJSON-RL: 1 key",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains("CLUSTER"), "it fails there, too:\n{text}");
}

#[test]
fn settings_are_judged_and_secrets_are_not_shown() {
    let (stops, text) = report(|command| {
        (command == "CONFIG GET *").then(|| {
            b"*10\r\n$11\r\ntls-cluster\r\n$3\r\nyes\r\n\
              $16\r\nmaxmemory-policy\r\n$3\r\nlru\r\n\
              $11\r\nrequirepass\r\n$6\r\nsecret\r\n$10\r\nio-threads\r\n$1\r\n8\r\n\
              $4\r\nfrob\r\n$1\r\n1\r\n"
                .to_vec()
        })
    });
    assert!(stops, "{text}");
    for part in ["tls-cluster yes", "maxmemory-policy lru: ", "io-threads 8", "frob 1"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(text.contains("requirepass (not shown)") && !text.contains("secret"), "{text}");
}

#[test]
fn who_is_around_it_may_stop_the_move() {
    let (stops, text) = report(|command| match command {
        "INFO everything" => {
            let info = INFO.replace("cluster_enabled:0", "cluster_enabled:1");
            Some(bulk(&info.replace("connected_slaves:0", "connected_slaves:2")))
        }
        "CLIENT LIST" => Some(bulk("id=3 name=sentinel-abc-cmd cmd=ping user=app\n")),
        _ => None,
    });
    assert!(stops, "{text}");
    for part in ["node of a cluster", "it has 2 replicas", "Sentinels watch it", "users other"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn other_products_are_told_apart() {
    for (line, name) in [
        ("valkey_version:9.1.2", "Valkey 9.1.2"),
        ("dragonfly_version:df-v1.40.0", "Dragonfly df-v1.40.0"),
        ("garnet_version:1.0.80", "Garnet 1.0.80"),
        ("mvcc_depth:0", "KeyDB 7.0.15"),
        ("pantala_version:0.1.0", "Pantala 0.1.0"),
    ] {
        let (_, text) = report(move |command| {
            command.starts_with("INFO").then(|| bulk(&format!("{INFO}{line}\r\n")))
        });
        assert!(text.starts_with(name), "{name}:\n{text}");
    }
}

#[test]
fn what_is_refused_is_told_and_the_rest_is_examined() {
    let (stops, text) = report(|command| {
        let is_refused = !command.starts_with("INFO");
        is_refused.then(|| b"-NOPERM User has no permissions\r\n".to_vec())
    });
    assert!(!stops, "{text}");
    for part in ["CONFIG GET is refused: NOPERM", "no key could", "they are not known"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn an_older_server_knows_fewer_words() {
    let (_, text) = report(|command| match command {
        "INFO everything" | "COMMAND LIST" => Some(b"-ERR unknown\r\n".to_vec()),
        "INFO all" => Some(bulk("")),
        "COMMAND" => Some(b"*1\r\n*2\r\n$4\r\nfrob\r\n:2\r\n".to_vec()),
        _ => None,
    });
    assert!(text.contains("FROB"), "{text}");
}

#[test]
fn who_can_not_be_examined_says_why() {
    for (answer, part) in [
        (b"-NOAUTH Authentication required.\r\n".to_vec(), "NOAUTH"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "no RESP"),
        (Vec::new(), "closed the connection"),
        (bulk("redis_version:7\r\nredis_mode:sentinel\r\n"), "Sentinel"),
        (bulk("redis_version:7\r\nloading:1\r\n"), "loads its data"),
        (bulk("hello:world\r\n"), "no version"),
        (b":1\r\n".to_vec(), "nothing of itself"),
        (b"+a\r\n+b\r\n".to_vec(), "nobody has asked"),
        (b"*1\r\n".repeat(100_000), "no RESP"),
        (b"$9223372036854775807\r\n".to_vec().repeat(3_000_000), "too long"),
    ] {
        let (outcome, _) = examine(move |_| Some(answer.clone()), &[]);
        let why = outcome.expect_err("it can not be examined");
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[test]
fn hostile_answers_do_no_harm() {
    let (_, text) = report(|command| match command.split(' ').next().unwrap_or_default() {
        "INFO" => Some(bulk(
            "redis_version:\x1b[2J7\r\nused_memory:-5\r\nuptime_in_seconds:99999999999999999999\r\n\
             cmdstat_\x1b]0;x\x07:calls=18446744073709551615\r\n\
             db0:keys=18446744073709551615,expires=18446744073709551615\r\n\
             db1:keys=18446744073709551615\r\n",
        )),
        "CONFIG" => Some(b"*3\r\n$4\r\nport\r\n*0\r\n%1\r\n+a\r\n+b\r\n".to_vec()),
        "MODULE" => Some(b"*2\r\n*1\r\n+name\r\n:1\r\n".to_vec()),
        "CLIENT" => Some(bulk("\x1b[31m=\x1b[0m = = =\n")),
        "STRLEN" | "MEMORY" => Some(b":9223372036854775807\r\n".to_vec()),
        _ => None,
    });
    assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text}");
    // A cursor that never ends, and keys that are not keys.
    let (_, text) = report(|command| match command.split(' ').next().unwrap_or_default() {
        "SCAN" => Some(b"*2\r\n$1\r\n7\r\n*0\r\n".to_vec()),
        _ => None,
    });
    assert!(text.contains("Redis"), "{text}");
}

#[test]
fn json_says_the_same() {
    let (outcome, _) = examine(|_| None, &["--json", "--sample", "1"]);
    let (stops, text) = outcome.expect("it can be examined");
    let report: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(report["stops"], stops);
    assert_eq!(report["server"]["version"], "7.0.15");
    assert_eq!(report["estimate"]["sampled"], 1);
    assert!(report["findings"].as_array().is_some_and(|all| all.len() > 2), "{text}");
}

#[test]
fn nobody_there_is_an_error() {
    let words = ["redis://127.0.0.1:1".to_owned()];
    let why = pantala_doctor::run(&words, None, &|_| true, &mut Vec::new());
    assert!(why.expect_err("nobody").contains("127.0.0.1:1"));
}
