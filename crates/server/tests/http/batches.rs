//! Many commands in one message of the WebSocket.

use serde_json::{Value, json};

use super::common::{ENGINES, Server, Socket};

/// Sends a message that is answered at once, so that all before it has been read.
fn wait_until_read(socket: &mut Socket) {
    socket.say(&json!({}));
    assert!(socket.hear_of("error")["error"].is_string());
}

#[test]
fn a_batch_is_answered_in_order_as_if_each_command_were_alone() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let mut browser = server.browser();
        assert_eq!(browser.log_in("default", ""), 204);
        let mut socket = browser.socket(&[]).expect("a socket");
        let mut runs = vec![json!(["INCR", "n"]); 990];
        runs.extend([json!(["NOSUCH"]), json!([]), json!(7), json!(["HELLO", "2"])]);
        runs.extend([json!(["GET", "n"]), json!(["SUBSCRIBE", "c"]), json!(["GET", "m"])]);
        socket.say(&json!({"id": "one", "runs": runs, "db": 2}));
        socket.say(&json!({"id": 2, "runs": [["EXISTS", "n"]], "db": 0}));
        socket.say(&json!({"id": 3, "runs": []}));
        let first = socket.hear_of("replies");
        assert_eq!(first["id"], json!("one"));
        let replies = first["replies"].as_array().expect("a list");
        let counted: Vec<Value> = (1..=990).map(|n| json!(n)).collect();
        assert_eq!(replies[..990], counted);
        for refused in &replies[990..994] {
            assert!(refused["error"].is_string(), "{refused}");
        }
        assert_eq!(replies[994..], [json!("990"), json!({"status": "OK"}), json!(null)]);
        assert_eq!(socket.hear_of("replies"), json!({"id": 2, "replies": [0]}));
        assert_eq!(socket.hear_of("replies"), json!({"id": 3, "replies": []}));
        assert_eq!(socket.run(4, &["PING"]), json!({"status": "PONG"}));
    }
}

#[test]
fn rights_hold_for_each_command_of_a_batch() {
    let server = Server::new("auto", &[]);
    let mut keeper = server.resp();
    keeper.check("ACL SETUSER anna on >secret ~a:* +get +set", "+OK\r\n");
    let mut browser = server.browser();
    let runs = json!([["GET", "a:1"], ["SET", "a:1", "x"], ["GET", "b:1"], ["INFO"]]);
    let batch = json!({"id": 1, "runs": runs});
    let mut visitor = browser.socket(&[]).expect("a socket");
    visitor.say(&batch);
    let replies = visitor.hear_of("replies")["replies"].clone();
    assert!(replies[1]["error"].to_string().contains("NOAUTH"), "{replies}");
    assert!(replies[3]["text"].is_string());
    drop(visitor);
    assert_eq!(browser.log_in("anna", "secret"), 204);
    let mut anna = browser.socket(&[]).expect("a socket");
    anna.say(&batch);
    let replies = anna.hear_of("replies")["replies"].clone();
    assert_eq!((&replies[0], &replies[1]), (&json!(null), &json!({"status": "OK"})));
    for refused in [&replies[2], &replies[3]] {
        assert!(refused["error"].to_string().contains("NOPERM"), "{replies}");
    }
}

#[test]
fn a_batch_has_its_bounds() {
    let server = Server::new("auto", &[]);
    let mut browser = server.browser();
    assert_eq!(browser.log_in("default", ""), 204);
    let mut socket = browser.socket(&[]).expect("a socket");
    for wrong in [
        json!({"id": 1, "runs": vec![json!(["PING"]); 1_001]}),
        json!({"id": 1, "runs": "PING"}),
        json!({"id": 1, "runs": [["PING"]], "db": -1}),
        json!({"runs": [["PING"]]}),
    ] {
        socket.say(&wrong);
        let refused = socket.hear_of("error");
        assert!(refused["error"].is_string());
        assert_eq!(refused.get("id"), wrong.get("id"));
    }
    let megabyte = "x".repeat(1 << 20);
    let mut runs = vec![json!(["GET", "k"]); 20];
    runs.insert(0, json!(["SET", "k", megabyte]));
    runs.push(json!(["PING"]));
    socket.say(&json!({"id": 1, "runs": runs}));
    let replies = socket.hear_of("replies")["replies"].clone();
    let replies = replies.as_array().expect("a list");
    assert_eq!(replies.iter().filter(|reply| **reply == json!(megabyte)).count(), 7);
    assert!(replies[8..21].iter().all(|reply| reply["tooLarge"].as_u64() > Some(1 << 20)));
    assert_eq!(replies[21], json!({"status": "PONG"}), "what is short has room");
}

#[test]
fn a_command_comes_in_between_and_what_waits_ends_with_its_socket() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let mut browser = server.browser();
        assert_eq!(browser.log_in("default", ""), 204);
        let mut socket = browser.socket(&[]).expect("a socket");
        let mut runs = vec![json!(["INCR", "n"]); 900];
        runs[0] = json!(["BLPOP", "queue", "0"]);
        socket.say(&json!({"id": 1, "runs": runs}));
        socket.say(&json!({"id": 2, "run": ["PING"]}));
        wait_until_read(&mut socket);
        let mut other = server.resp();
        other.check("RPUSH queue x", ":1\r\n");
        assert_eq!(socket.hear().expect("a reply")["id"], json!(2));
        assert_eq!(socket.hear().expect("replies")["replies"][899], json!(899));
        socket.say(&json!({"id": 3, "runs": runs}));
        wait_until_read(&mut socket);
        drop(socket);
        while browser.run(&["CLIENT", "LIST"]).to_string().contains("cmd=blpop") {}
        other.check("RPUSH queue x", ":1\r\n");
        other.check("GET n", "$3\r\n899\r\n");
    }
}

#[test]
fn a_command_runs_in_its_database_after_a_transaction_that_selects() {
    let server = Server::new("auto", &[]);
    let mut browser = server.browser();
    assert_eq!(browser.log_in("default", ""), 204);
    let mut socket = browser.socket(&[]).expect("a socket");
    for words in [&["MULTI"][..], &["SELECT", "5"], &["EXEC"]] {
        assert!(!socket.run(1, words).to_string().contains("error"), "{words:?}");
    }
    socket.say(&json!({"id": 2, "run": ["SET", "k", "v"], "db": 0}));
    assert_eq!(socket.hear().expect("a reply")["reply"], json!({"status": "OK"}));
    server.resp().check("EXISTS k", ":1\r\n");
}
