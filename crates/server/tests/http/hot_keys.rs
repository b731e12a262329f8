//! `/api/hotkeys`: the keys that are called most, without a session of HOTKEYS.

use serde_json::{Value, json};

use crate::common::{ENGINES, Resp, Server};

/// Sends these commands as one pipeline and reads their replies.
fn pipeline(client: &mut Resp, commands: &[String]) {
    let words = commands.join("\r\n");
    client.check(&words, &"$-1\r\n".repeat(commands.len()));
}

/// The first key that is told, if there is one.
fn first(told: &Value) -> Option<&str> {
    told["keys"][0]["key"].as_str()
}

#[test]
fn a_hot_key_is_found_by_the_sample_that_is_always_taken() {
    for engine in ENGINES {
        let server = Server::new(engine, &[]);
        let (browser, mut client) = (server.browser(), server.resp());
        let mut number = 0;
        let told = loop {
            // Every other command names the hot key.
            let mut commands = Vec::new();
            for _ in 0..500 {
                number += 1;
                commands.extend([format!("GET cold:{number}"), String::from("GET hot")]);
            }
            pipeline(&mut client, &commands);
            let told = browser.get("/api/hotkeys").json();
            if told["noted"].as_u64() >= Some(50) {
                break told;
            }
        };
        assert_eq!((first(&told), &told["oneIn"]), (Some("hot"), &json!(1024)), "{told}");
        let share = told["keys"][0]["share"].as_f64().unwrap_or_default();
        assert!((0.4..0.6).contains(&share), "{told}");
        assert!(told["keys"][0]["callsPerS"].as_f64() > Some(0.0), "{told}");
        client.check("HOTKEYS GET", "$-1\r\n");
    }
}

#[test]
fn a_sample_of_all_counts_each_command_and_one_of_none_ends_it() {
    for engine in ENGINES {
        let server = Server::new(engine, &["--hot-keys-sample", "1"]);
        let (browser, mut client) = (server.browser(), server.resp());
        // Alone, in a pipeline, of several keys, in a transaction, in a script.
        client.check("GET a", "$-1\r\n");
        pipeline(&mut client, &vec![String::from("GET a"); 100]);
        client.check("MGET a b", "*2\r\n$-1\r\n$-1\r\n");
        client.check("MULTI\r\nGET a\r\nEXEC", "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n");
        client.check("EVAL 'return redis.call(\"get\", KEYS[1])' 1 a", "$-1\r\n");
        client.check("PING", "+PONG\r\n");
        let told = browser.get("/api/hotkeys").json();
        assert_eq!((&told["noted"], &told["oneIn"]), (&json!(105), &json!(1)), "{told}");
        let noted = |at: usize| (&told["keys"][at]["key"], &told["keys"][at]["noted"]);
        assert_eq!((noted(0), noted(1)), ((&json!("a"), &json!(104)), (&json!("b"), &json!(1))));
        client.check("CONFIG SET hot-keys-sample 0", "+OK\r\n");
        pipeline(&mut client, &vec![String::from("GET b"); 1_000]);
        let told = browser.get("/api/hotkeys").json();
        assert_eq!((&told["noted"], &told["oneIn"]), (&json!(105), &json!(0)), "{told}");
    }
}

#[test]
fn a_session_of_hotkeys_and_the_sample_do_not_disturb_each_other() {
    let server = Server::new("auto", &["--hot-keys-sample", "1"]);
    let (browser, mut client) = (server.browser(), server.resp());
    client.check("GET before", "$-1\r\n");
    client.check("HOTKEYS START METRICS 1 NET", "+OK\r\n");
    pipeline(&mut client, &vec![String::from("GET a"); 100]);
    client.check("HOTKEYS STOP", "+OK\r\n");
    pipeline(&mut client, &vec![String::from("GET a"); 10]);
    let told = browser.run(&["HOTKEYS", "GET"]).to_string();
    // "*2\r\n$3\r\nGET\r\n$1\r\na\r\n" and "$-1\r\n", a hundred times.
    assert!(told.contains("[\"by-net-bytes\",[\"a\",2500]]"), "{told}");
    let told = browser.get("/api/hotkeys").json();
    assert_eq!((first(&told), &told["keys"][0]["noted"]), (Some("a"), &json!(110)), "{told}");
    client.check("HOTKEYS RESET", "+OK\r\n");
    assert_eq!(browser.get("/api/hotkeys").json()["noted"], json!(111));
}

#[test]
fn who_may_not_read_hotkeys_may_not_read_the_sample() {
    let server = Server::new("auto", &[]);
    server.resp().check("ACL SETUSER anna on >secret ~* +get", "+OK\r\n");
    let mut browser = server.browser();
    assert_eq!(browser.get("/api/hotkeys").status, 200, "the default user");
    assert_eq!(browser.log_in("anna", "secret"), 204);
    assert_eq!(browser.get("/api/hotkeys").status, 403);
    server.resp().check("ACL SETUSER anna +hotkeys|get", "+OK\r\n");
    assert_eq!(browser.get("/api/hotkeys").status, 200);
}
