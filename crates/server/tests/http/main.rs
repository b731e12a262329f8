//! A whole server that speaks HTTP, with both event loops: browsers, strangers, permissions, and
//! RESP clients that notice nothing.

mod batches;
mod common;
mod hostile;
mod hot_keys;
mod runs;
mod sockets;

use std::io::Write;

use common::{Browser, ENGINES, Resp, Server};
use serde_json::json;

#[test]
fn health_and_the_page_need_no_login_and_are_not_to_be_framed() {
    for engine in ENGINES {
        let server = Server::new(engine, &["--requirepass", "secret"]);
        let browser = server.browser();
        for path in ["/healthz", "/readyz"] {
            let answer = browser.get(path);
            assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"), "{path}");
        }
        let page = browser.request("GET", "/", &[("Accept-Encoding", "gzip")], "");
        assert_eq!(page.status, 200);
        let header = |name: &str| page.headers.get(name).map(|value| value.to_str().expect("text"));
        assert_eq!(header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(header("x-content-type-options"), Some("nosniff"));
        assert_eq!(header("referrer-policy"), Some("no-referrer"));
        assert!(header("content-security-policy").is_some_and(|text| text.contains("'none'")));
        let tag = header("etag").expect("a tag");
        let again = browser.request("GET", "/", &[("If-None-Match", tag)], "");
        assert_eq!((again.status, again.body.as_str()), (304, ""));
        assert_eq!(browser.get("/nothing").status, 404);
        assert_eq!(browser.get("/api/nothing").status, 404);
        assert_eq!(browser.request("HEAD", "/healthz", &[], "").body, "");
        for path in ["/metrics", "/api/commands", "/api/settings", "/api/figures", "/api/history"] {
            assert_eq!(browser.get(path).status, 401, "{path}");
        }
        assert_eq!(browser.post("/api/run", &json!({"run": ["PING"]})).status, 401);
        assert_eq!(browser.socket(&[]).err(), Some(401));
        let session = browser.get("/api/session").json();
        assert_eq!((&session["user"], &session["needsLogin"]), (&json!(null), &json!(true)));
        assert!(session.get("server").is_none());
    }
}

#[test]
fn a_visitor_reads_and_who_logs_in_writes() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let mut browser = server.browser();
        server.resp().check("SET k v", "+OK\r\n");
        assert_eq!(browser.run(&["GET", "k"]), json!("v"));
        for words in [
            &["SET", "k", "w"][..],
            &["DEL", "k"],
            &["FLUSHALL"],
            &["CONFIG", "SET", "maxmemory", "1"],
            &["EVAL", "return redis.call('DEL', 'k')", "0"],
            &["EVAL_RO", "return redis.call('SLOWLOG', 'RESET')", "0"],
            &["FCALL_RO", "f", "0"],
            &["MULTI"],
            &["AUTH", "x"],
            &["HELLO", "2"],
            &["CLIENT", "KILL", "TYPE", "normal"],
            &["SHUTDOWN"],
        ] {
            let reply = browser.run(words);
            assert!(reply["error"].is_string(), "{words:?}: {reply}");
        }
        assert!(browser.run(&["INFO"])["text"].is_string());
        let session = browser.get("/api/session").json();
        let told = (&session["user"], &session["needsLogin"], &session["mayWrite"]);
        assert_eq!(told, (&json!("default"), &json!(false), &json!(false)));
        assert_eq!(session["server"]["port"], json!(server.port));
        assert_eq!(browser.log_in("default", ""), 204);
        assert_eq!(browser.run(&["SET", "k", "w"]), json!({"status": "OK"}));
        assert_eq!(browser.get("/api/session").json()["mayWrite"], json!(true));
        server.resp().check("GET k", "$1\r\nw\r\n");
        assert_eq!(browser.post("/api/logout", &json!({})).status, 204);
        assert!(browser.run(&["SET", "k", "x"])["error"].is_string());
    }
}

#[test]
fn a_password_is_asked_and_wrong_ones_are_logged() {
    let server = Server::new("auto", &["--requirepass", "secret", "--auth_failure_delay", "1"]);
    let mut browser = server.browser();
    assert_eq!(browser.log_in("default", "wrong"), 401);
    assert_eq!(browser.log_in("nobody", "secret"), 401);
    assert_eq!(browser.log_in("default", "secret"), 204);
    assert_eq!(browser.run(&["SET", "k", "1"]), json!({"status": "OK"}));
    let log = browser.run(&["ACL", "LOG"]).to_string();
    assert!(log.contains("nobody") && log.contains("default"), "{log}");
    let clients = browser.run(&["CLIENT", "LIST"]).to_string();
    assert!(clients.contains("lib-name=console") && clients.contains("addr=127.0.0.1:"));
    let guessed =
        Browser { cookie: Some(format!("pantala_session_{}=00", server.port)), ..server.browser() };
    assert_eq!(guessed.post("/api/run", &json!({"run": ["PING"]})).status, 401);
    let metrics = server.browser();
    let basic = |line| metrics.request("GET", "/metrics", &[("Authorization", line)], "").status;
    assert_eq!(basic("Basic ZGVmYXVsdDpzZWNyZXQ="), 200);
    assert_eq!(basic("Basic ZGVmYXVsdDp3cm9uZw=="), 401);
    assert!(metrics.get("/metrics").headers.contains_key("www-authenticate"));
}

#[test]
fn rules_of_users_hold_and_sessions_end_with_them() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let mut keeper = server.resp();
        keeper.check("ACL SETUSER anna on >secret ~a:* +get +set", "+OK\r\n");
        let mut browser = server.browser();
        assert_eq!(browser.log_in("anna", "secret"), 204);
        assert_eq!(browser.run(&["SET", "a:1", "x"]), json!({"status": "OK"}));
        assert!(browser.run(&["SET", "b:1", "x"])["error"].to_string().contains("NOPERM"));
        assert!(browser.run(&["INFO"])["error"].to_string().contains("NOPERM"));
        assert_eq!(browser.get("/api/settings").status, 403);
        assert_eq!(browser.get("/api/figures").status, 403);
        let mut socket = browser.socket(&[]).expect("a socket");
        assert_eq!(socket.run(1, &["GET", "a:1"]), json!("x"));
        keeper.check("ACL DELUSER anna", ":1\r\n");
        while socket.hear().is_some() {}
        keeper.check("ACL SETUSER anna on >secret ~a:* +get +set", "+OK\r\n");
        let error = browser.run(&["SET", "a:1", "y"])["error"].to_string();
        assert!(error.contains("NOAUTH"), "another anna has come: {error}");
    }
}

#[test]
fn the_history_is_kept_before_anybody_asks_for_it() {
    let server = Server::new("auto", &[]);
    server.resp().check("SET k v", "+OK\r\n");
    let browser = server.browser();
    let history = || browser.get("/api/history").json();
    let points = |of: &serde_json::Value| of["atMs"].as_array().map_or(0, Vec::len);
    while points(&history()) < 2 {}
    let now = history();
    let is_number = |name: &str| now[name][1].as_f64().is_some();
    for name in ["used", "rss", "keys", "clients", "hits", "netIn", "cpuUser", "lockParks"] {
        assert!(is_number(name), "{name}: {now}");
    }
    assert_eq!((&now["stepS"], &now["keys"][1]), (&json!(1), &json!(1)));
    assert_eq!(now["load"][1].as_array().map(Vec::len), Some(3), "the workers");
    assert!(now["families"]["string"].is_array(), "{now}");
    assert_eq!(browser.get("/api/history?span=day").json()["stepS"], json!(10));
    assert_eq!(browser.get("/api/history?span=year").status, 400);
}

#[test]
fn a_replica_says_so_and_how_its_link_stands() {
    let primary = Server::new("auto", &[]);
    let replica = Server::new("auto", &[]);
    let browser = replica.browser();
    let told = || browser.get("/api/figures").json()["replication"].clone();
    assert_eq!(told(), json!({"role": "master", "replicas": 0}));
    let mut client = replica.resp();
    client.check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
    assert_eq!(told()["role"], json!("slave"));
    while told()["link"] != json!("up") {}
    let metrics = browser.get("/metrics?names=dragonfly").body;
    assert!(metrics.contains("\ndragonfly_master 0\n"), "{metrics}");
    assert!(browser.get("/metrics").body.contains("\npantala_primary_link_up 1\n"));
    let page = |of: &Server| of.browser().get("/metrics?names=redis_exporter").body;
    let link = format!(
        "redis_master_link_up{{master_host=\"127.0.0.1\",master_port=\"{}\"}} 1\n",
        primary.port
    );
    assert!(page(&replica).contains(&link), "{}", page(&replica));
    assert!(page(&primary).contains("redis_connected_slave_offset_bytes{slave_ip=\"127.0.0.1\","));
    drop(primary);
    while told()["link"] != json!("down") {}
    client.check("REPLICAOF NO ONE", "+OK\r\n");
    assert_eq!(told(), json!({"role": "master", "replicas": 0}));
}

#[test]
fn commands_messages_and_figures_share_a_socket() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let mut browser = server.browser();
        assert_eq!(browser.log_in("default", ""), 204);
        let mut socket = browser.socket(&[]).expect("a socket");
        assert_eq!(socket.run(1, &["SET", "k", "v"]), json!({"status": "OK"}));
        socket.say(&json!({"id": 2, "run": ["GET", "k"], "db": 3}));
        socket.say(&json!({"id": "three", "run": ["GET", "k"], "db": 0}));
        assert_eq!(socket.hear(), Some(json!({"id": 2, "reply": null})));
        assert_eq!(socket.hear(), Some(json!({"id": "three", "reply": "v"})));
        socket.say(&json!({"id": 4, "run": ["GET", "k"], "db": 99}));
        let refused = socket.hear().expect("an answer");
        assert!(refused["reply"]["error"].is_string(), "{refused}");
        assert_eq!(socket.run(5, &["GET", "k"]), json!("v"), "it stays where it was");
        assert_eq!(socket.run(6, &["SUBSCRIBE", "c"]), json!({"status": "OK"}));
        assert_eq!(socket.hear_of("push")["push"], json!(["subscribe", "c", 1]));
        server.resp().check("PUBLISH c hello", ":1\r\n");
        assert_eq!(socket.hear_of("push")["push"], json!(["message", "c", "hello"]));
        socket.say(&json!({"figures": 250}));
        // A client that has just left is counted out only at a later update.
        let all = std::iter::repeat_with(|| socket.hear_of("figures")["figures"].clone());
        let figures = all.take(40).find(|figures| figures["net"]["clients"] == json!(2));
        let figures = figures.expect("the socket and its client");
        assert!(figures["memory"]["rss"].as_u64().is_some_and(|rss| rss > 0), "{figures}");
        assert!(figures["workers"].as_array().is_some_and(|workers| workers.len() == 3));
        socket.say(&json!({"figures": 0}));
        for wrong in [json!({"figures": 1}), json!({"run": ["PING"]}), json!({}), json!([1])] {
            socket.say(&wrong);
            assert!(socket.hear_of("error")["error"].is_string(), "{wrong}");
        }
    }
}

#[test]
fn the_traffic_of_one_client_is_shown() {
    let server = Server::new("auto", &[]);
    let mut browser = server.browser();
    assert_eq!(browser.log_in("default", ""), 204);
    let (mut one, mut other) = (server.resp(), server.resp());
    one.say("CLIENT ID\r\n");
    let mut id = String::new();
    while !id.ends_with('\n') {
        let mut byte = [0];
        std::io::Read::read_exact(&mut one.0, &mut byte).expect("a reply");
        id.push(char::from(byte[0]));
    }
    let id = id.trim_start_matches(':').trim().to_owned();
    let mut socket = browser.socket(&[]).expect("a socket");
    socket.say(&json!({"watch": {"client": id}}));
    // MONITOR shows nothing until it has begun.
    loop {
        if browser.run(&["INFO", "pantala"])["text"].to_string().contains("monitors:1") {
            break;
        }
    }
    other.check("SET hidden 1", "+OK\r\n");
    one.check("SET shown 1", "+OK\r\n");
    let traffic = socket.hear_of("traffic")["traffic"].clone();
    assert_eq!(traffic["command"], json!(["SET", "shown", "1"]));
    assert_eq!((&traffic["client"], &traffic["db"]), (&json!(id), &json!(0)));
    socket.say(&json!({"watch": null}));
    socket.say(&json!({"watch": {"client": 999_999}}));
    assert!(socket.hear_of("error")["error"].to_string().contains("no such client"));
}

#[test]
fn replies_of_all_kinds_have_their_form() {
    let server = Server::new("auto", &[]);
    let mut browser = server.browser();
    assert_eq!(browser.log_in("default", ""), 204);
    let raw = json!({"run": ["SET", "raw", {"base64": "/wA="}]});
    assert_eq!(browser.post("/api/run", &raw).status, 200);
    assert_eq!(browser.run(&["GET", "raw"]), json!({"base64": "/wA="}));
    assert_eq!(browser.run(&["HSET", "h", "f", "v"]), json!(1));
    assert_eq!(browser.run(&["HGETALL", "h"]), json!({"map": [["f", "v"]]}));
    assert_eq!(browser.run(&["SADD", "s", "m"]), json!(1));
    assert_eq!(browser.run(&["SMEMBERS", "s"]), json!({"set": ["m"]}));
    assert_eq!(browser.run(&["ZADD", "z", "1.5", "m"]), json!(1));
    assert_eq!(browser.run(&["ZSCORE", "z", "m"]), json!(1.5));
    assert_eq!(browser.run(&["GET", "none"]), json!(null));
    assert!(browser.run(&["NOSUCH"])["error"].to_string().contains("unknown command"));
    assert_eq!(browser.run(&["SETRANGE", "long", "9000000", "x"]), json!(9_000_001));
    assert!(browser.run(&["GET", "long"])["tooLarge"].as_u64().is_some_and(|n| n > 9_000_000));
    let commands = browser.get("/api/commands").json();
    let named = |name: &str| {
        let all = commands.as_array().expect("a list").iter();
        all.filter(|command| command["name"] == json!(name)).count()
    };
    assert_eq!((named("SET"), named("CLIENT LIST"), named("NOSUCH")), (1, 1, 0));
    let settings = browser.get("/api/settings").json();
    let of = |name: &str| {
        let mut all = settings.as_array().expect("a list").iter();
        all.find(|one| one["name"] == json!(name)).cloned().expect("a setting")
    };
    assert_eq!(of("maxmemory")["value"], json!("0"));
    assert!(of("requirepass").get("value").is_none());
}

#[test]
fn the_admin_port_speaks_both_and_the_main_port_only_resp_if_so_wanted() {
    for engine in ENGINES {
        let settings = ["--requirepass", "secret", "--primary_port_http_enabled", "no"];
        let server = Server::new(engine, &[&settings[..], &["--admin_nopass"]].concat());
        let mut main = server.resp();
        main.say("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        assert!(!main.rest().contains("HTTP"));
        let browser = Browser::at(server.admin_port);
        assert_eq!(browser.run(&["SET", "k", "v"]), json!({"status": "OK"}));
        Resp::at(server.admin_port).check("GET k", "$1\r\nv\r\n");
        server.resp().check("GET k", "-NOAUTH Authentication required.\r\n");
        let server = Server::new(engine, &["--requirepass", "secret"]);
        let mut browser = Browser::at(server.admin_port);
        assert_eq!(browser.post("/api/run", &json!({"run": ["PING"]})).status, 401);
        assert_eq!(browser.log_in("default", "secret"), 204);
        Resp::at(server.admin_port).check("PING", "-NOAUTH Authentication required.\r\n");
    }
}

#[test]
fn what_comes_in_pieces_is_told_apart_as_what_comes_whole() {
    for engine in ENGINES {
        let server = Server::new(engine, &["--primary_port_memcached", "clear"]);
        let requests = [
            ("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200"),
            ("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n", "+PONG\r\n+OK\r\n"),
            ("GET k\r\nGETEX k\r\nQUIT\r\n", "$-1\r\n$-1\r\n+OK\r\n"),
            ("set k 0 0 1\r\nx\r\nquit\r\n", "STORED\r\n"),
            ("PING\r\nGET / HTTP/1.1\r\nQUIT\r\n", "+PONG\r\n-ERR wrong number"),
        ];
        for (request, begin) in requests {
            for size in [1, 3, request.len()] {
                let mut client = server.resp();
                for piece in request.as_bytes().chunks(size) {
                    client.0.write_all(piece).expect("it reads");
                }
                let heard = client.rest();
                assert!(heard.starts_with(begin), "{request:?} by {size}: {heard:?}");
            }
            server.resp().check("FLUSHALL", "+OK\r\n");
        }
    }
}

#[test]
fn a_server_that_stops_ends_its_sockets() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let browser = server.browser();
        let mut socket = browser.socket(&[]).expect("a socket");
        assert_eq!(socket.run(1, &["PING"]), json!({"status": "PONG"}));
        drop(server);
        while socket.hear().is_some() {}
    }
}
