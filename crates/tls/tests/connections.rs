//! Outgoing connections: trusted certificates, and the certificate that is shown.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use pantala_tls::{Acceptor, ClientCertificates, Connector, NameField, TlsOptions, TlsSession};

use common::Authority;

fn options<'a>(
    authority: &'a [String; 3],
    client_certificates: ClientCertificates,
) -> TlsOptions<'a> {
    let [certificate_file, key_file, ca_file] = authority;
    TlsOptions {
        certificate_file,
        key_file,
        key_password: "",
        ca_file,
        ca_directory: "",
        client_certificates,
        versions: "",
        older_suites: "",
        newer_suites: "",
        prefers_own_order: false,
        ticket_life_s: None,
    }
}

fn files(authority: &Authority, name: &str) -> [String; 3] {
    [format!("{name}.crt"), format!("{name}.key"), "ca.crt".to_owned()]
        .map(|file| authority.path(&file))
}

/// Echoes each byte; returns the names in the client's certificate, or why it was refused.
fn echo(acceptor: Acceptor, mut socket: UnixStream) -> JoinHandle<Result<Vec<String>, String>> {
    std::thread::spawn(move || {
        let mut session = TlsSession::new(&acceptor).expect("a session");
        let (mut sealed, mut out, mut plain) = ([0; 4096], Vec::new(), Vec::new());
        loop {
            let count = match socket.read(&mut sealed) {
                Ok(0) => return Ok(session.peer_names(NameField::CommonName)),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(Vec::new()),
                Err(error) => return Err(error.to_string()),
            };
            let opened = session.open(&sealed[..count], &mut plain);
            session.seal(&std::mem::take(&mut plain), &mut out);
            // The peer may be gone.
            let _sent = socket.write_all(&std::mem::take(&mut out));
            opened.map_err(|fault| fault.to_string())?;
        }
    })
}

#[test]
fn a_server_is_believed_by_who_signed_it_whatever_its_name() {
    let authority = Authority::new();
    authority.sign("server");
    let own = files(&authority, "server");
    let connector = Connector::new(&options(&own, ClientCertificates::No)).expect("sound");
    for host in ["localhost", "127.0.0.2", "elsewhere.example"] {
        let (near, far) = UnixStream::pair().expect("sockets");
        let acceptor = Acceptor::new(&options(&own, ClientCertificates::Required)).expect("sound");
        let echoing = echo(acceptor, far);
        let mut sealed = connector.connect(host, near).expect("a name");
        sealed.write_all(b"hello").expect("sent");
        let mut answer = [0; 5];
        sealed.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"hello");
        drop(sealed);
        assert_eq!(echoing.join().expect("no panic"), Ok(vec!["server".to_owned()]), "{host}");
    }
    assert!(connector.connect("no name", std::io::Cursor::new(Vec::new())).is_err());
}

#[test]
fn a_stranger_is_not_believed_and_nobody_without_an_authority() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    authority.sign("server");
    stranger.sign("server");
    let (own, strange) = (files(&authority, "server"), files(&stranger, "server"));
    let connector = Connector::new(&options(&own, ClientCertificates::No)).expect("sound");
    let acceptor = Acceptor::new(&options(&strange, ClientCertificates::No)).expect("sound");
    let (near, far) = UnixStream::pair().expect("sockets");
    let echoing = echo(acceptor, far);
    let mut sealed = connector.connect("localhost", near).expect("a name");
    assert!(sealed.write_all(b"hello").and_then(|()| sealed.flush()).is_err());
    drop(sealed);
    assert!(echoing.join().expect("no panic").is_err());
    let nobody = TlsOptions { ca_file: "", ..options(&own, ClientCertificates::No) };
    assert!(Connector::new(&nobody).is_err());
}
