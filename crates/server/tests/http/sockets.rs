//! The commands of a WebSocket: in which database and transaction they run, under which names, and
//! by whose rules.

use serde_json::{Value, json};

use super::common::{Server, Socket};

const OK: &str = "{\"status\":\"OK\"}";

fn ok() -> Value {
    serde_json::from_str(OK).expect("JSON")
}

fn queued() -> Value {
    json!({"status": "QUEUED"})
}

/// The reply to a command in a database.
fn run_in(socket: &mut Socket<'_>, db: u32, words: &[&str]) -> Value {
    socket.say(&json!({ "id": "db", "run": words, "db": db }));
    let answer = socket.hear_of("reply");
    assert_eq!(answer["id"], json!("db"), "{answer}");
    answer["reply"].clone()
}

#[test]
fn a_database_is_that_of_the_command_also_around_transactions() {
    let server = Server::new("auto", &[]);
    let mut browser = server.browser();
    assert_eq!(browser.log_in("default", ""), 204);
    let mut socket = browser.socket(&[]).expect("a socket");
    assert_eq!(socket.run(1, &["MULTI"]), ok());
    assert_eq!(socket.run(2, &["SUBSCRIBE", "c"]), queued());
    assert_eq!(socket.run(3, &["DISCARD"]), ok());
    let refused = run_in(&mut socket, 99, &["SET", "k", "v"]);
    assert!(refused["error"].as_str().is_some_and(|why| why.contains("out of range")), "{refused}");
    assert_eq!(socket.run(4, &["EXISTS", "k"]), json!(0));
    assert_eq!(run_in(&mut socket, 3, &["SET", "k", "three"]), ok());
    assert_eq!(run_in(&mut socket, 3, &["MULTI"]), ok());
    assert_eq!(run_in(&mut socket, 3, &["GET", "k"]), queued());
    let refused = run_in(&mut socket, 4, &["SET", "k", "four"]);
    assert!(refused["error"].as_str().is_some_and(|why| why.contains("within MULTI")), "{refused}");
    assert_eq!(socket.run(5, &["SELECT", "5"]), queued());
    assert_eq!(socket.run(6, &["SET", "k", "five"]), queued());
    assert_eq!(socket.run(7, &["EXEC"]), json!(["three", {"status": "OK"}, {"status": "OK"}]));
    assert_eq!(run_in(&mut socket, 3, &["GET", "k"]), json!("three"));
    assert_eq!(run_in(&mut socket, 5, &["GET", "k"]), json!("five"));
    // All are sent at once, without waiting for answers: each has its own.
    for (id, words) in [(10, "MULTI"), (11, "PING"), (13, "EXEC"), (14, "PING")] {
        if id == 13 {
            socket.say(&json!({"id": 12, "run": ["PING"], "db": 9}));
        }
        socket.say(&json!({"id": id, "run": [words]}));
    }
    let told: Vec<Value> = (0..5).map(|_| socket.hear_of("reply")).collect();
    let ids: Vec<u64> = told.iter().filter_map(|one| one["id"].as_u64()).collect();
    assert_eq!(ids, [10, 11, 12, 13, 14], "{told:?}");
    assert_eq!(told[3]["reply"], json!([{"status": "PONG"}]));
    assert_eq!(told[4]["reply"], json!({"status": "PONG"}));
}

#[test]
fn commands_that_were_renamed_are_not_missed() {
    let renames: [&[&str]; 2] = [
        &["--rename-command", "PING", "", "--rename-command", "HELLO", ""],
        &[
            "--rename-command",
            "PING",
            "P1",
            "--rename-command",
            "HELLO",
            "H1",
            "--rename-command",
            "SELECT",
            "S1",
            "--rename-command",
            "AUTH",
            "A1",
            "--rename-command",
            "MONITOR",
            "M1",
            "--rename-command",
            "CLIENT",
            "C1",
        ],
    ];
    for renames in renames {
        let server = Server::new("auto", renames);
        let mut browser = server.browser();
        assert_eq!(browser.log_in("default", ""), 204);
        let mut socket = browser.socket(&[]).expect("a socket");
        assert_eq!(socket.run(1, &["SUBSCRIBE", "c"]), ok());
        assert_eq!(socket.hear_of("push")["push"], json!(["subscribe", "c", 1]));
        assert_eq!(run_in(&mut socket, 2, &["SET", "k", "v"]), ok());
        assert_eq!(run_in(&mut socket, 0, &["EXISTS", "k"]), json!(0));
        assert_eq!(run_in(&mut socket, 2, &["GET", "k"]), json!("v"));
        socket.say(&json!({"watch": {"client": 0}}));
        // MONITOR shows nothing until it has begun.
        while browser.run(&["INFO", "pantala"])["text"].to_string().contains("monitors:0") {}
        assert_eq!(browser.run(&["SET", "seen", "1"]), ok());
        socket.hear_of("traffic");
    }
}

#[test]
fn figures_end_when_the_user_may_not_see_them_any_more() {
    let server = Server::new("auto", &[]);
    let mut client = server.resp();
    client.check("ACL SETUSER anna on >secret ~* +@all", "+OK\r\n");
    let mut browser = server.browser();
    assert_eq!(browser.log_in("anna", "secret"), 204);
    let mut socket = browser.socket(&[]).expect("a socket");
    socket.say(&json!({"figures": 250}));
    socket.hear_of("figures");
    client.check("ACL SETUSER anna -info", "+OK\r\n");
    let told = socket.hear_of("error");
    assert!(told["error"].as_str().is_some_and(|why| why.contains("INFO")), "{told}");
    // Messages that were under way have come before: none comes any more.
    assert_eq!(socket.run(1, &["PING"]), json!({"status": "PONG"}));
    socket.say(&json!({"figures": 250}));
    socket.hear_of("error");
}
