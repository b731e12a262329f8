//! A change made by one command of a pipeline is seen by the next.

use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;

fn request(args: &[&str]) -> String {
    let args = args.iter().map(|arg| format!("${}\r\n{arg}\r\n", arg.len()));
    format!("*{}\r\n{}", args.len(), args.collect::<String>())
}

#[test]
fn a_setting_is_in_force_from_the_next_command_on() {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let pipeline = [
        request(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]),
        request(&["GET", "a"]),
        request(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]),
        request(&["GET", "b"]),
        request(&["SLOWLOG", "GET"]),
    ];
    let mut reply = Vec::new();
    server.exchange(pipeline.concat().as_bytes(), &mut reply);
    let log = String::from_utf8_lossy(&reply).into_owned();
    let has = |key: &str| log.contains(&format!("$3\r\nGET\r\n$1\r\n{key}\r\n"));
    assert!(has("a") && !has("b"), "{log}");
}
