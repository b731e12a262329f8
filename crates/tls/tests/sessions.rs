//! Sessions between two ends in memory: handshakes, certificates, records in pieces, tickets.

mod common;

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use pantala_tls::{Acceptor, ClientCertificates, NameField, TlsOptions, TlsSession};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use common::{Authority, Wish, server_name};

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let authority = Authority::new();
    authority.sign("server");
    authority.sign("client");
    let dates = Some(("20200101000000Z", "20200201000000Z"));
    authority.sign_as(&Wish { name: "expired", dates });
    authority.openssl("genrsa -out plain.key 2048");
    authority.openssl("req -x509 -new -key plain.key -out rsa.crt -days 3 -subj /CN=rsa");
    authority.openssl("pkcs8 -topk8 -in plain.key -out sealed.key -passout pass:secret");
    authority.openssl("rsa -aes128 -traditional -in plain.key -out old.key -passout pass:secret");
    authority
});

/// Another authority, which nobody trusts.
static STRANGER: LazyLock<Authority> = LazyLock::new(|| {
    let authority = Authority::new();
    authority.sign("client");
    authority
});

/// The path of a file of the authority, for as long as the tests run.
fn path(name: &str) -> &'static str {
    AUTHORITY.path(name).leak()
}

fn acceptor_with(change: impl FnOnce(&mut TlsOptions<'static>)) -> Result<Acceptor, String> {
    let mut options = TlsOptions {
        certificate_file: path("server.crt"),
        key_file: path("server.key"),
        key_password: "",
        ca_file: path("ca.crt"),
        ca_directory: "",
        client_certificates: ClientCertificates::No,
        versions: "",
        older_suites: "",
        newer_suites: "",
        prefers_own_order: false,
        ticket_life_s: Some(300),
    };
    change(&mut options);
    Acceptor::new(&options)
}

fn acceptor(client_certificates: ClientCertificates) -> Acceptor {
    acceptor_with(|options| options.client_certificates = client_certificates).expect("sound")
}

/// Both ends of a connection, which exchange bytes in pieces.
struct Pair {
    client: ClientConnection,
    server: TlsSession,
    /// Plain bytes that the server has received.
    heard: Vec<u8>,
    told: Vec<u8>,
    piece_bytes: usize,
    is_closed: bool,
}

impl Pair {
    fn new(config: Arc<ClientConfig>, acceptor: &Acceptor, piece_bytes: usize) -> Pair {
        let mut client = ClientConnection::new(config, server_name()).expect("a client");
        client.set_buffer_limit(None);
        let server = TlsSession::new(acceptor).expect("a session");
        Pair { client, server, heard: Vec::new(), told: Vec::new(), piece_bytes, is_closed: false }
    }

    /// Exchanges bytes until there are none.
    fn pump(&mut self) -> Result<(), String> {
        loop {
            let mut up = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut up).expect("memory");
            }
            let mut fault = None;
            for piece in up.chunks(self.piece_bytes) {
                match self.server.open(piece, &mut self.heard) {
                    Ok(opened) => self.is_closed |= opened.is_closed,
                    Err(why) => fault = Some(why.to_string()),
                }
            }
            let mut down = Vec::new();
            self.server.seal(b"", &mut down);
            let is_idle = up.is_empty() && down.is_empty();
            let heard = self.hear(&down);
            match fault {
                Some(fault) => return Err(fault),
                None => heard?,
            }
            if is_idle {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).expect("memory");
            self.client.process_new_packets().map_err(|error| error.to_string())?;
            self.note();
        }
        Ok(())
    }

    fn note(&mut self) {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = self.client.reader().read(&mut piece) {
            self.told.extend_from_slice(&piece[..length]);
        }
    }

    /// The plain bytes that the client has received since the last call.
    fn told(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.told)
    }

    fn say(&mut self, text: &[u8]) {
        self.client.writer().write_all(text).expect("memory");
    }

    fn answer(&mut self, text: &[u8]) {
        let mut wire = Vec::new();
        assert_eq!(self.server.seal(text, &mut wire), text.len());
        self.hear(&wire).expect("good records");
    }
}

fn both() -> [&'static rustls::SupportedProtocolVersion; 2] {
    [&TLS12, &TLS13]
}

#[test]
fn what_is_said_arrives_in_pieces_of_any_size_and_in_both_versions() {
    let acceptor = acceptor(ClientCertificates::No);
    for version in both() {
        for piece_bytes in [1, 2, 7, 1000, 1 << 20] {
            let mut pair = Pair::new(AUTHORITY.client(None, &[version]), &acceptor, piece_bytes);
            assert!(pair.server.is_handshaking());
            pair.say(b"PING\r\n");
            pair.pump().expect("they agree");
            assert!(!pair.server.is_handshaking());
            assert_eq!(pair.heard, b"PING\r\n");
            pair.answer(b"+PONG\r\n");
            assert_eq!(pair.told(), b"+PONG\r\n");
        }
    }
}

#[test]
fn megabytes_go_both_ways() {
    let acceptor = acceptor(ClientCertificates::No);
    let value: Vec<u8> = (0..5_000_000_u32).map(|n| (n >> 7) as u8).collect();
    for version in both() {
        let mut pair = Pair::new(AUTHORITY.client(None, &[version]), &acceptor, 8000);
        pair.pump().expect("they agree");
        pair.say(&value);
        pair.pump().expect("good records");
        assert!(pair.heard == value);
        for piece in value.chunks(100_000) {
            pair.answer(piece);
            assert!(pair.told() == piece);
        }
    }
}

#[test]
fn who_shows_what_is_believed_comes_in_and_has_a_name() {
    use ClientCertificates::{No, Optional, Required};
    for version in both() {
        let come = |policy, config: Arc<ClientConfig>| {
            let mut pair = Pair::new(config, &acceptor(policy), 1 << 20);
            pair.say(b"x");
            pair.pump().map(|()| {
                assert_eq!(pair.heard, b"x");
                let names = [NameField::CommonName, NameField::Uri];
                names.map(|field| pair.server.peer_names(field).join(" "))
            })
        };
        let named = Ok(["client".to_owned(), "urn:user:client urn:second".to_owned()]);
        let known = || AUTHORITY.client(Some("client"), &[version]);
        assert_eq!(come(Required, known()), named);
        assert_eq!(come(Optional, known()), named);
        assert_eq!(come(No, known()), Ok([String::new(), String::new()]), "it is not asked");
        assert_eq!(
            come(Optional, AUTHORITY.client(None, &[version])),
            Ok([String::new(), String::new()])
        );
        let refused = |config| come(Required, config).expect_err("refused");
        assert!(refused(AUTHORITY.client(None, &[version])).contains("no certificates"));
        assert!(refused(AUTHORITY.client(Some("expired"), &[version])).contains("xpired"));
    }
}

#[test]
fn a_certificate_of_a_stranger_is_not_believed_even_where_none_is_needed() {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(common::certificate(&AUTHORITY.path("ca.crt"))).expect("a root");
    for policy in [ClientCertificates::Optional, ClientCertificates::Required] {
        let mut config = (*AUTHORITY.client(None, &[&TLS13])).clone();
        config.client_auth_cert_resolver =
            STRANGER.client(Some("client"), &[&TLS13]).client_auth_cert_resolver.clone();
        let mut pair = Pair::new(Arc::new(config), &acceptor(policy), 1 << 20);
        pair.say(b"x");
        // The client may not show a certificate that none of the announced authorities has signed.
        let ended = pair.pump();
        assert!(ended.is_err() || policy == ClientCertificates::Optional, "{ended:?}");
        assert!(pair.server.peer_names(NameField::CommonName).is_empty());
    }
}

#[test]
fn sessions_are_resumed_by_tickets_of_the_same_acceptor_only() {
    let (first, second) = (acceptor(ClientCertificates::No), acceptor(ClientCertificates::No));
    let none = acceptor_with(|options| options.ticket_life_s = None).expect("sound");
    for version in both() {
        let kind = |config: &Arc<ClientConfig>, acceptor: &Acceptor| {
            let mut pair = Pair::new(Arc::clone(config), acceptor, 1 << 20);
            pair.pump().expect("they agree");
            pair.client.handshake_kind()
        };
        let config = AUTHORITY.client(None, &[version]);
        assert_eq!(kind(&config, &first), Some(HandshakeKind::Full));
        assert_eq!(kind(&config, &first), Some(HandshakeKind::Resumed));
        assert_eq!(kind(&config, &second), Some(HandshakeKind::Full));
        let config = AUTHORITY.client(None, &[version]);
        assert_eq!(kind(&config, &none), Some(HandshakeKind::Full));
        assert_eq!(kind(&config, &none), Some(HandshakeKind::Full));
    }
}

#[test]
fn each_end_hears_that_the_other_closes() {
    let acceptor = acceptor(ClientCertificates::No);
    for version in both() {
        let mut pair = Pair::new(AUTHORITY.client(None, &[version]), &acceptor, 1 << 20);
        pair.pump().expect("they agree");
        pair.say(b"last");
        pair.client.send_close_notify();
        pair.pump().expect("no fault");
        assert!(pair.is_closed);
        assert_eq!(pair.heard, b"last");
        pair.answer(b"still");
        let mut wire = Vec::new();
        pair.server.close(&mut wire);
        let mut wire = &wire[..];
        pair.client.read_tls(&mut wire).expect("memory");
        assert!(pair.client.process_new_packets().expect("an alert").peer_has_closed());
        assert_eq!(pair.told(), b"still");
    }
}

#[test]
fn what_is_no_tls_is_a_fault_and_is_answered_by_an_alert() {
    let acceptor = acceptor(ClientCertificates::No);
    for bytes in [&b"PING\r\n"[..], b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\0\x04aaaa", b"\x80\x2e"]
    {
        let mut session = TlsSession::new(&acceptor).expect("a session");
        let mut heard = Vec::new();
        let opened = session.open(bytes, &mut heard);
        assert!(opened.is_err() || session.is_handshaking(), "{bytes:?}");
        assert!(heard.is_empty());
        assert!(
            session
                .open(b"\x16\x03\x01\0\x04aaaa", &mut heard)
                .map_or(true, |opened| { opened.plain_bytes == 0 })
        );
    }
}

#[test]
fn a_record_that_was_changed_ends_the_session() {
    let acceptor = acceptor(ClientCertificates::No);
    for version in both() {
        let mut pair = Pair::new(AUTHORITY.client(None, &[version]), &acceptor, 1 << 20);
        pair.pump().expect("they agree");
        pair.say(b"good");
        pair.pump().expect("no fault");
        pair.say(b"evil");
        let mut wire = Vec::new();
        pair.client.write_tls(&mut wire).expect("memory");
        let last = wire.len() - 1;
        wire[last] ^= 1;
        assert!(pair.server.open(&wire, &mut pair.heard).is_err());
        assert_eq!(pair.heard, b"good");
    }
}

#[track_caller]
fn check_refused(why: &str, change: impl FnOnce(&mut TlsOptions<'static>)) {
    let refused = acceptor_with(change).expect_err("refused");
    assert!(refused.contains(why), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
}

#[test]
fn files_that_are_not_sound_are_refused_with_a_reason() {
    let (plain, rsa) = (path("plain.key"), path("rsa.crt"));
    let (sealed, old) = (path("sealed.key"), path("old.key"));
    check_refused("has expired", |options| {
        (options.certificate_file, options.key_file) = (path("expired.crt"), path("expired.key"));
    });
    check_refused("is not that of", |options| options.key_file = plain);
    check_refused("No such file", |options| options.certificate_file = path("absent"));
    check_refused("no certificate in", |options| options.certificate_file = plain);
    check_refused("no private key", |options| options.key_file = path("ca.crt"));
    check_refused("expired", |options| options.ca_file = path("expired.crt"));
    check_refused("tls-ca-cert-file", |options| {
        (options.ca_file, options.client_certificates) = ("", ClientCertificates::Required);
    });
    let of_rsa = |key: &'static str, password: &'static str| {
        acceptor_with(|options| {
            (options.certificate_file, options.key_file) = (rsa, key);
            options.key_password = password;
        })
    };
    assert!(of_rsa(plain, "").is_ok());
    assert!(of_rsa(sealed, "secret").is_ok());
    assert!(of_rsa(sealed, "wrong").is_err_and(|why| why.contains("password")));
    assert!(of_rsa(sealed, "").is_err_and(|why| why.contains("tls-key-file-pass")));
    assert!(of_rsa(old, "secret").is_err_and(|why| why.contains("pkcs8 -topk8")));
    check_refused("tls-protocols", |options| {
        // Only ciphers of the other version are left.
        (options.versions, options.older_suites) = ("TLSv1.2", "HIGH:!AES:!CHACHA20");
    });
}

#[test]
fn those_to_believe_may_lie_in_a_directory() {
    let directory = Authority::new();
    directory.write("good.pem", &AUTHORITY.read("ca.crt"));
    directory.write("noise.txt", "nothing of that kind");
    let path: &'static str = directory.path("").leak();
    let acceptor = acceptor_with(|options| {
        (options.ca_file, options.ca_directory) = ("", path);
        options.client_certificates = ClientCertificates::Required;
    })
    .expect("sound");
    let mut pair = Pair::new(AUTHORITY.client(Some("client"), &[&TLS13]), &acceptor, 1 << 20);
    pair.say(b"x");
    pair.pump().expect("believed");
    assert_eq!(pair.heard, b"x");
    assert!(acceptor.authority.is_some());
    assert_eq!(acceptor.own.serial.len() % 2, 0);
}

#[test]
fn an_acceptor_speaks_what_it_is_told_to() {
    let suite = "TLS_CHACHA20_POLY1305_SHA256";
    let only = acceptor_with(|options| {
        (options.versions, options.newer_suites) = ("TLSv1.3", suite);
    });
    let only = only.expect("sound");
    let mut pair = Pair::new(AUTHORITY.client(None, &[&TLS13]), &only, 1 << 20);
    pair.pump().expect("they agree");
    assert!(pair.server.spoken().contains("CHACHA20"), "{}", pair.server.spoken());
    let mut older = Pair::new(AUTHORITY.client(None, &[&TLS12]), &only, 1 << 20);
    assert!(older.pump().is_err());
}
