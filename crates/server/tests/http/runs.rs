//! `/api/persistence/runs`: the last snapshots and rewrites of the append-only file.

use serde_json::{Value, json};

use crate::common::{Browser, Server};

/// The runs, once there are so many.
fn runs(browser: &Browser, count: usize) -> Vec<Value> {
    loop {
        let told = browser.get("/api/persistence/runs").json();
        let runs = told.as_array().expect("a list");
        if runs.len() == count {
            return runs.clone();
        }
    }
}

#[test]
fn the_last_runs_say_why_they_began_and_how_they_ended() {
    let server = Server::new("auto", &["--dbfilename", "one.rdb"]);
    let (browser, mut client) = (server.browser(), server.resp());
    assert_eq!(runs(&browser, 0), [json!(null); 0]);
    client.check("SET k v", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    let path = server.directory.join("one.rdb");
    let bytes = std::fs::metadata(&path).expect("a file").len();
    let saved = &runs(&browser, 1)[0];
    assert_eq!((&saved["kind"], &saved["why"]), (&json!("snapshot"), &json!("SAVE")), "{saved}");
    assert_eq!((&saved["keys"], &saved["bytes"]), (&json!(1), &json!(bytes)), "{saved}");
    assert_eq!((&saved["file"], &saved["error"]), (&json!("one.rdb"), &json!(null)), "{saved}");
    assert!(saved["beganMs"].is_u64() && saved["tookMs"].is_u64(), "{saved}");

    // With a folder in its place no snapshot can be written.
    std::fs::remove_file(&path).and_then(|()| std::fs::create_dir(&path)).expect("a folder");
    client.check("BGSAVE", "+Background saving started\r\n");
    let failed = &runs(&browser, 2)[0];
    assert_eq!((&failed["why"], &failed["bytes"]), (&json!("BGSAVE"), &json!(0)), "{failed}");
    assert!(failed["error"].as_str().is_some_and(|error| !error.is_empty()), "{failed}");

    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    let rewritten = &runs(&browser, 3)[0];
    let (kind, why) = (&rewritten["kind"], &rewritten["why"]);
    assert_eq!((kind, why), (&json!("rewrite"), &json!("BGREWRITEAOF")), "{rewritten}");
    assert_eq!((&rewritten["keys"], &rewritten["error"]), (&json!(1), &json!(null)), "{rewritten}");
    assert!(rewritten["file"].as_str().is_some_and(|name| name.contains("base")), "{rewritten}");
}

#[test]
fn a_rewrite_beside_appended_changes_is_told_and_the_oldest_runs_are_dropped() {
    let server = Server::new("auto", &["--appendonly", "yes"]);
    let (browser, mut client) = (server.browser(), server.resp());
    client.check("SET k v", "+OK\r\n");
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    let rewritten = &runs(&browser, 1)[0];
    assert_eq!((&rewritten["kind"], &rewritten["keys"]), (&json!("rewrite"), &json!(1)));
    assert_eq!(rewritten["error"], json!(null), "{rewritten}");
    for _ in 0..25 {
        client.check("SAVE", "+OK\r\n");
    }
    let told = runs(&browser, 20);
    assert!(told.iter().all(|run| run["why"] == "SAVE"), "{told:?}");
}

#[test]
fn who_may_not_read_info_may_not_read_the_runs() {
    let server = Server::new("auto", &[]);
    server.resp().check("ACL SETUSER anna on >secret ~* +get", "+OK\r\n");
    let mut browser = server.browser();
    assert_eq!(browser.log_in("anna", "secret"), 204);
    assert_eq!(browser.get("/api/persistence/runs").status, 403);
}
