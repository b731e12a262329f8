//! Clients that are hostile, or broken.

use std::io::Read;

use serde_json::json;

use crate::common::{ENGINES, Server};

const GOOD: [(&str, &str); 2] = [("X-Pantala", "1"), ("Content-Type", "application/json")];

#[test]
fn other_sites_reach_nothing() {
    let server = Server::new("auto", &["--http_hosts", "db.example"]);
    let browser = server.browser();
    let body = json!({"run": ["PING"]}).to_string();
    let post = |lines: &[(&str, &str)]| {
        let answer = browser.request("POST", "/api/run", &[&GOOD[..], lines].concat(), &body);
        answer.status
    };
    assert_eq!(post(&[]), 200);
    assert_eq!(post(&[("Host", "db.example:80"), ("Origin", "http://db.example:80")]), 200);
    assert_eq!(post(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(post(&[("Origin", "null")]), 403);
    assert_eq!(post(&[("Host", "evil.example")]), 403);
    assert_eq!(post(&[("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(browser.request("POST", "/api/run", &GOOD[1..], &body).status, 403);
    let form = [GOOD[0], ("Content-Type", "text/plain")];
    assert_eq!(browser.request("POST", "/api/run", &form, &body).status, 415);
    assert_eq!(browser.request("GET", "/", &[("Host", "evil.example")], "").status, 403);
    assert_eq!(browser.request("OPTIONS", "/api/run", &[], "").status, 405);
    assert_eq!(browser.socket(&[("Origin", "http://evil.example")]).err(), Some(403));
    assert!(browser.socket(&[]).is_ok());
}

#[test]
fn what_is_too_long_is_refused() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let browser = server.browser();
        // The body itself is not sent: the request is refused before it, and its rest might meet a
        // closed connection.
        let mut client = server.resp();
        client.say(format!(
            "POST /api/run HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-Pantala: 1\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            server.port,
            2 << 20
        ));
        let mut heard = [0; 12];
        client.0.read_exact(&mut heard).expect("it answers");
        assert_eq!(&heard, b"HTTP/1.1 413");
        let header = "x".repeat(64 << 10);
        assert_eq!(browser.request("GET", "/", &[("X-Long", &header)], "").status, 431);
        let many = vec![("X-Many", "1"); 200];
        assert_eq!(browser.request("GET", "/", &many, "").status, 431);
        for body in ["", "{", "[]", "{\"run\":[]}", "{\"run\":[{}]}"] {
            assert_eq!(browser.request("POST", "/api/run", &GOOD, body).status, 400, "{body}");
        }
        assert_eq!(browser.run(&["PING"]), json!({"status": "PONG"}));
    }
}

#[test]
fn resp_inside_of_http_does_not_run() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let inner = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n\r\nSET k v\r\n";
        let length = inner.len();
        for head in [
            format!("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n"),
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"
                .to_owned(),
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\
             Content-Length: 3\r\n\r\n0\r\n\r\n"
                .to_owned(),
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: x\x00\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\n\u{ff}\u{fe}\r\n\r\n".to_owned(),
        ] {
            let mut client = server.resp();
            client.say(format!("{head}{inner}"));
            client.0.shutdown(std::net::Shutdown::Write).expect("a socket");
            let heard = client.rest();
            assert!(heard.starts_with("HTTP/1.1 ") || heard.is_empty(), "{head:?}: {heard}");
            assert!(!heard.contains("+OK"), "{head:?}: {heard}");
            server.resp().check("EXISTS k", ":0\r\n");
        }
        // And the other way round.
        let mut client = server.resp();
        client.say("PING\r\nPOST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET k v\r\n");
        assert_eq!(client.rest(), "");
        server.resp().check("EXISTS k", ":0\r\n");
    }
}

#[test]
fn connections_of_http_are_clients_among_others() {
    for engine in ENGINES {
        let server = Server::new(engine, &["--maxclients", "3"]);
        let mut keeper = server.resp();
        keeper.check("PING", "+PONG\r\n");
        let browser = server.browser();
        let mut socket = browser.socket(&[]).expect("it and its client are two more");
        assert_eq!(socket.run(1, &["PING"]), json!({"status": "PONG"}));
        assert!(server.resp().rest().contains("max number of clients"));
        drop(socket);
        loop {
            keeper.say("INFO clients\r\n");
            let mut text = [0; 4096];
            let length = std::io::Read::read(&mut keeper.0, &mut text).expect("a reply");
            if String::from_utf8_lossy(&text[..length]).contains("connected_clients:1\r") {
                break;
            }
        }
    }
}

#[test]
fn probes_are_answered_while_others_hold_all_connections() {
    const MOST: usize = 1_024;
    let server = Server::new("auto", &[]);
    let hold = || {
        let mut client = server.resp();
        client.say("GET / HTTP/1.1\r\n");
        client
    };
    let mut held: Vec<_> = (0..MOST).map(|_| hold()).collect();
    let host = format!("Host: 127.0.0.1:{}\r\nConnection: close", server.port);
    let ask = |path: &str| {
        let mut client = server.resp();
        client.say(format!("GET {path} HTTP/1.1\r\n{host}\r\n\r\n"));
        client.rest()
    };
    // The last of them may arrive after the one that asks, and the first have left after 15 s.
    while !ask("/").starts_with("HTTP/1.1 503") {
        held.push(hold());
    }
    let answer = ask("/healthz");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
}

#[test]
fn a_login_is_short() {
    let server = Server::new("auto", &["--requirepass", "secret"]);
    let browser = server.browser();
    let login = |user: usize| json!({"user": "x".repeat(user), "password": "secret"});
    assert_eq!(browser.post("/api/login", &login(10_000)).status, 401);
    assert_eq!(browser.post("/api/login", &login(20_000)).status, 413);
}
