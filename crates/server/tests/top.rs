//! `pantala top` and a whole server: with a password, over TLS, and without permission.

#[path = "../../tls/tests/common/mod.rs"]
mod certificates;
mod common;

use pantala_server::commands::registry;

use certificates::Authority;
use common::Server;

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
    let server = Server::at_port("--port", &["--requirepass", "a:b", "--threads", "1"]);
    let port = server.port.to_string();
    let text = screen(&["-p", &port, "-a", "a:b"]).expect("it looks");
    let version = env!("CARGO_PKG_VERSION");
    for part in [&*format!("pantala {version} at 127.0.0.1:{port}"), "1 clients", "server"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let url = format!("redis://default:a%3Ab@127.0.0.1:{port}");
    assert!(screen(&[&url]).is_ok());
    let refused = screen(&["-p", &port]).expect_err("it may not look");
    assert!(refused.contains("NOAUTH"), "{refused}");
    let refused = screen(&["-p", &port, "-a", "x"]).expect_err("it may not look");
    assert!(refused.contains("WRONGPASS"), "{refused}");
}

#[test]
fn it_looks_over_tls_at_whom_it_trusts() {
    let authority = Authority::new();
    authority.sign("server");
    let files = ["server.crt", "server.key", "ca.crt"].map(|name| authority.path(name));
    let mut words = vec!["--port", "0", "--threads", "1", "--tls-auth-clients", "no"];
    words.extend(["--tls-cert-file", &files[0], "--tls-key-file", &files[1]]);
    words.extend(["--tls-ca-cert-file", &files[2]]);
    let server = Server::at_port("--tls-port", &words);
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
