//! `pantala ping` against a server.

use std::process::{Command, Output};

use pantala_server::process::start;
use pantala_settings::Settings;

fn ping(address: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
    command.args(["ping", address]).output().expect("it runs")
}

#[test]
fn a_server_serves_until_it_is_gone() {
    let folder = std::env::temp_dir().join(format!("pantala-ping-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("socket");
    let path = path.to_str().expect("it is text");
    let settings = [("port", "0"), ("unixsocket", path), ("save", ""), ("requirepass", "secret")];
    let settings = settings.iter().fold(Settings::defaults(), |settings, (name, value)| {
        settings.with(name, value).expect("it may be set")
    });
    assert_eq!(ping(path).status.code(), Some(1));
    let running = start::start(settings, None).expect("it starts");
    let served = ping(path);
    assert_eq!(served.status.code(), Some(0), "{served:?}");
    assert!(served.stdout.starts_with(b"-NOAUTH"), "{served:?}");
    running.stop();
    running.wait();
    assert_eq!(ping(path).status.code(), Some(1));
    let _leftover = std::fs::remove_dir_all(folder);
}
