//! `fuzz_tls --seconds N --seed S`: bytes that a TLS peer can send.
//!
//! A rustls client talks to a session while its bytes are changed on the way: flipped bits,
//! missing, repeated or invented bytes, whole records, in pieces of any size. In every case nothing
//! panics, no more is decrypted than was sent, and after a fault nothing is.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use pantala_base::Rng;
use pantala_tls::{Acceptor, ClientCertificates, TlsOptions, TlsSession};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Rounds of a conversation.
const ROUNDS: u64 = 12;
/// The existing types of records, and an unknown one.
const RECORD_TYPES: [u8; 6] = [20, 21, 22, 23, 24, 99];

struct Ends {
    acceptors: Vec<Acceptor>,
    clients: Vec<Arc<ClientConfig>>,
}

fn main() -> ExitCode {
    pantala_fuzz::run("fuzz_tls", case)
}

/// Both ends, with a certificate that openssl makes once per run.
fn ends() -> &'static Ends {
    static ENDS: OnceLock<Ends> = OnceLock::new();
    ENDS.get_or_init(|| {
        let directory = std::env::temp_dir().join(format!("fuzz-tls-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let ends = made_in(&directory);
        // Nothing depends on it.
        let _best_effort = std::fs::remove_dir_all(&directory);
        ends
    })
}

fn made_in(directory: &Path) -> Ends {
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key \
                 -out crt -days 3 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
                 -addext basicConstraints=critical,CA:FALSE";
    let mut openssl = Command::new("openssl");
    openssl.args(words.split_whitespace()).current_dir(directory);
    let made = openssl.output().expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let path = |name: &str| directory.join(name).display().to_string();
    let (crt, key) = (path("crt"), path("key"));
    let acceptor = |client_certificates| {
        let options = TlsOptions {
            certificate_file: &crt,
            key_file: &key,
            key_password: "",
            ca_file: &crt,
            ca_directory: "",
            client_certificates,
            versions: "",
            older_suites: "",
            newer_suites: "",
            prefers_own_order: false,
            ticket_life_s: Some(300),
        };
        Acceptor::new(&options).expect("sound files")
    };
    let mut roots = RootCertStore::empty();
    let der = CertificateDer::from_pem_file(&crt).expect("a certificate");
    roots.add(der).expect("a root");
    let client = |version| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version");
        Arc::new(builder.with_root_certificates(roots.clone()).with_no_client_auth())
    };
    Ends {
        acceptors: vec![acceptor(ClientCertificates::No), acceptor(ClientCertificates::Optional)],
        clients: vec![client(&TLS12), client(&TLS13)],
    }
}

fn case(seed: u64) {
    let mut chance = Rng::from_seed(seed);
    let ends = ends();
    let pick = chance.next_u64() as usize;
    let acceptor = &ends.acceptors[pick % ends.acceptors.len()];
    let config = Arc::clone(&ends.clients[pick / 7 % ends.clients.len()]);
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(config, name).expect("a client");
    let mut server = TlsSession::new(acceptor).expect("a session");
    let (mut said, mut heard, mut is_over) = (Vec::new(), Vec::new(), false);
    // Every third conversation is unchanged until its handshake is over.
    let begins_at = if chance.next_u64().is_multiple_of(3) { 4 } else { 0 };
    for round in 0..ROUNDS {
        if !client.is_handshaking() {
            let text = vec![round as u8; (chance.next_u64() % 40_000) as usize];
            said.extend_from_slice(&text);
            client.writer().write_all(&text).expect("memory");
        }
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        if round >= begins_at && chance.next_u64().is_multiple_of(2) {
            spoil(&mut wire, &mut chance);
        }
        is_over |= take(&mut server, &wire, &mut heard, is_over, &mut chance);
        assert!(said.starts_with(&heard), "something was opened that nobody said");
        if !answer(&mut server, &mut client, &mut chance) && is_over {
            return;
        }
    }
}

/// Passes bytes on in pieces; returns whether the session is over.
fn take(
    server: &mut TlsSession,
    wire: &[u8],
    heard: &mut Vec<u8>,
    was_over: bool,
    chance: &mut Rng,
) -> bool {
    let (mut rest, mut is_over) = (wire, was_over);
    while !rest.is_empty() {
        let most = [1, 5, 300, 20_000][(chance.next_u64() % 4) as usize];
        let (piece, after) = rest.split_at(rest.len().min(1 + chance.next_u64() as usize % most));
        let before = heard.len();
        let opened = server.open(piece, heard);
        assert!(!is_over || heard.len() == before, "something was opened after the end");
        is_over |= opened.map_or(true, |opened| opened.is_closed);
        rest = after;
    }
    is_over
}

/// Passes the server's bytes to the client; returns whether they were valid.
fn answer(server: &mut TlsSession, client: &mut ClientConnection, chance: &mut Rng) -> bool {
    let (mut wire, text) = (Vec::new(), vec![1; (chance.next_u64() % 100) as usize]);
    server.seal(&text, &mut wire);
    let mut wire = &wire[..];
    while !wire.is_empty() {
        if !matches!(client.read_tls(&mut wire), Ok(1..)) || client.process_new_packets().is_err() {
            return false;
        }
    }
    true
}

/// Changes bytes on the wire.
fn spoil(wire: &mut Vec<u8>, chance: &mut Rng) {
    for _ in 0..1 + chance.next_u64() % 3 {
        let at = chance.next_u64() as usize % (wire.len() + 1);
        let end = wire.len().min(at + 1 + chance.next_u64() as usize % 64);
        match chance.next_u64() % 7 {
            0 if at < wire.len() => wire[at] ^= 1 << (chance.next_u64() % 8),
            1 => drop(wire.drain(at..end)),
            2 => {
                let twice = wire[at..end].to_vec();
                wire.splice(at..at, twice);
            }
            3 => wire.truncate(at),
            4 => wire.splice(at..at, record(chance)).for_each(drop),
            5 => *wire = record(chance),
            _ => wire.extend(record(chance)),
        }
    }
}

/// An unexpected record, mostly of a valid form.
fn record(chance: &mut Rng) -> Vec<u8> {
    let mut body = vec![0; (chance.next_u64() % 300) as usize];
    chance.bytes(&mut body);
    let kind = RECORD_TYPES[chance.next_u64() as usize % RECORD_TYPES.len()];
    let told = match chance.next_u64() % 4 {
        0 => chance.next_u64() as u16,
        _ => body.len() as u16,
    };
    if let Some(first) = body.first_mut() {
        // The types of messages of a handshake are small numbers.
        *first %= 32;
    }
    let version = if chance.next_u64().is_multiple_of(8) { 9 } else { 3 };
    [&[kind, 3, version][..], &told.to_be_bytes(), &body].concat()
}
