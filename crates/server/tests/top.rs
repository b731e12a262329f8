//! `pantala top` and a whole server: with a password, over TLS, and without permission.

#[path = "../../tls/tests/common/mod.rs"]
mod common;

use std::net::TcpListener;

use pantala_server::commands::registry;
use pantala_server::process::start::{Running, start};
use pantala_settings::{Disk, Settings, Start};

use common::Authority;

struct Server {
    running: Option<Running>,
    port: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
            running.wait();
        }
    }
}

impl Server {
    /// A server on a free port, which is set by this flag.
    fn new(port_flag: &str, more: &[&str]) -> Server {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port().to_string();
        let mut args =
            vec![port_flag, &port, "--bind", "127.0.0.1", "--save", "", "--threads", "1"];
        args.extend(more);
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let started =
            Settings::from_args(&args, std::iter::empty(), &mut Disk).expect("good words");
        let Start::Run(launch) = started else { panic!("there is nothing to print") };
        let running = start(launch.settings, None).expect("it starts");
        Server { running: Some(running), port }
    }
}

/// One screen of `pantala top` with these arguments and a short interval.
fn screen(words: &[&str]) -> Result<String, String> {
    let registry = registry();
    let family_of = |name: &str| registry.find(name.as_bytes()).map(|found| found.row.group.name());
    let words: Vec<String> =
        words.iter().chain(&["--once", "-i", "0.1"]).map(|word| (*word).to_owned()).collect();
    let mut text = Vec::new();
    pantala_top::run(&words, None, &family_of, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn it_looks_with_a_password_and_not_without() {
    let server = Server::new("--port", &["--requirepass", "a:b"]);
    let text = screen(&["-p", &server.port, "-a", "a:b"]).expect("it looks");
    let version = env!("CARGO_PKG_VERSION");
    for part in [&*format!("pantala {version} at 127.0.0.1:{}", server.port), "1 clients", "server"]
    {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let url = format!("redis://default:a%3Ab@127.0.0.1:{}", server.port);
    assert!(screen(&[&url]).is_ok());
    let refused = screen(&["-p", &server.port]).expect_err("it may not look");
    assert!(refused.contains("NOAUTH"), "{refused}");
    let refused = screen(&["-p", &server.port, "-a", "x"]).expect_err("it may not look");
    assert!(refused.contains("WRONGPASS"), "{refused}");
}

#[test]
fn it_looks_over_tls_at_whom_it_trusts() {
    let authority = Authority::new();
    authority.sign("server");
    let files = ["server.crt", "server.key", "ca.crt"].map(|name| authority.path(name));
    let server = Server::new(
        "--tls-port",
        &[
            "--port",
            "0",
            "--tls-cert-file",
            &files[0],
            "--tls-key-file",
            &files[1],
            "--tls-ca-cert-file",
            &files[2],
            "--tls-auth-clients",
            "no",
        ],
    );
    let url = format!("rediss://127.0.0.1:{}", server.port);
    let text = screen(&[&url, "--cacert", &files[2]]).expect("it looks");
    assert!(text.contains("1 Families"), "{text}");
    let other = Authority::new();
    let refused = screen(&[&url, "--cacert", &other.path("ca.crt")]);
    let refused = refused.expect_err("it trusts somebody else");
    assert!(refused.contains("certificate"), "{refused}");
    let refused = screen(&[&url, "--cacert", &files[2], "--sni", "example.org"]);
    let refused = refused.expect_err("that is another name");
    assert!(refused.contains("certificate"), "{refused}");
}
