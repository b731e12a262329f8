//! What all connections of a port share: certificate, key, trusted authorities, protocol options.
//!
//! Sessions are resumed by tickets that clients keep: the server stores nothing, and threads share
//! only the ticket key. The key is replaced whenever the lifetime of a ticket is over, so a ticket
//! is accepted for at most twice its lifetime. A new acceptor accepts no tickets of the old one, so
//! a client whose access was revoked cannot return by an old ticket.
//!
//! Not here: one connection (`session`). Tests: `tests/`.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring as provider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::ticketer::TicketRotator;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;

use crate::certificate::{CertificateSummary, unix_s};
use crate::{files, names};

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked for one.
    No,
    /// They may; an untrusted one ends the connection.
    Optional,
    /// They must.
    Required,
}

/// The inputs of an acceptor: file names, and words of the settings.
#[derive(Clone, Debug)]
pub struct TlsOptions<'a> {
    /// File of the certificate and its chain, up to the root.
    pub certificate_file: &'a str,
    /// File of its key.
    pub key_file: &'a str,
    /// Password of the key; may be empty.
    pub key_password: &'a str,
    /// File of the authorities that sign clients' certificates; may be empty.
    pub ca_file: &'a str,
    /// Directory of such files; may be empty.
    pub ca_directory: &'a str,
    /// Whether clients must show a certificate.
    pub client_certificates: ClientCertificates,
    /// Versions; empty means TLS 1.2 and 1.3.
    pub versions: &'a str,
    /// Ciphers of TLS 1.2, as OpenSSL writes them; empty means all.
    pub older_suites: &'a str,
    /// Cipher suites of TLS 1.3; empty means all.
    pub newer_suites: &'a str,
    /// Whether the server's order of ciphers decides.
    pub prefers_own_order: bool,
    /// The lifetime of a ticket, in seconds; `None`: no tickets.
    pub ticket_life_s: Option<u32>,
}

/// The TLS configuration of a port, for incoming connections.
pub struct Acceptor {
    pub(crate) config: Arc<ServerConfig>,
    /// The server's certificate.
    pub own: CertificateSummary,
    /// Of the trusted certificates the one that expires first, if any.
    pub authority: Option<CertificateSummary>,
    /// Whether clients must show a certificate.
    pub client_certificates: ClientCertificates,
}

impl Acceptor {
    /// Reads the files and makes an acceptor.
    ///
    /// # Errors
    /// A text for the operator: which file or setting, and why.
    pub fn new(options: &TlsOptions<'_>) -> Result<Acceptor, String> {
        let (certified, own) = certified(options)?;
        let (roots, authority) = roots(options)?;
        let crypto = Arc::new(crypto(options)?);
        let config = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(&names::versions(options.versions)?)
            .map_err(|error| format!("tls-protocols, tls-ciphers: {error}"))?
            .with_client_cert_verifier(verifier(options, roots, crypto)?)
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        let config = Arc::new(with_details(config, options)?);
        let client_certificates = options.client_certificates;
        Ok(Acceptor { config, own, authority, client_certificates })
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").field("own", &self.own).finish_non_exhaustive()
    }
}

/// The certificate and its key.
pub(crate) fn certified(
    options: &TlsOptions<'_>,
) -> Result<(CertifiedKey, CertificateSummary), String> {
    let chain = files::certificates(options.certificate_file)?;
    let own = valid("certificate", options.certificate_file, &chain[0])?;
    let key = files::private_key(options.key_file, options.key_password)?;
    let key = provider::sign::any_supported_type(&key)
        .map_err(|error| format!("the key in '{}': {error}", options.key_file))?;
    let certified = CertifiedKey::new(chain, key);
    if let Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) =
        certified.keys_match()
    {
        let (certificate, key) = (options.certificate_file, options.key_file);
        return Err(format!("the key in '{key}' is not that of '{certificate}'"));
    }
    Ok((certified, own))
}

/// Checks that a certificate is valid today.
fn valid(kind: &str, path: &str, der: &CertificateDer<'_>) -> Result<CertificateSummary, String> {
    let brief = CertificateSummary::of(der)
        .ok_or_else(|| format!("the {kind} in '{path}' cannot be read"))?;
    if !brief.is_valid_at(unix_s()) {
        return Err(format!("the {kind} in '{path}' has expired, or is not valid yet"));
    }
    Ok(brief)
}

/// The trusted authorities, and which of them expires first.
pub(crate) fn roots(
    options: &TlsOptions<'_>,
) -> Result<(RootCertStore, Option<CertificateSummary>), String> {
    let mut found = Vec::new();
    if !options.ca_file.is_empty() {
        let of_file = |der| (options.ca_file, der);
        found.extend(files::certificates(options.ca_file)?.into_iter().map(of_file));
    }
    if !options.ca_directory.is_empty() {
        let of_directory = |der| (options.ca_directory, der);
        found.extend(files::certificates_in(options.ca_directory)?.into_iter().map(of_directory));
    }
    let (mut store, mut first): (_, Option<CertificateSummary>) = (RootCertStore::empty(), None);
    for (path, der) in found {
        let brief = valid("CA certificate", path, &der)?;
        store.add(der).map_err(|error| format!("a CA certificate in '{path}': {error}"))?;
        if first.as_ref().is_none_or(|first| brief.expires_unix_s < first.expires_unix_s) {
            first = Some(brief);
        }
    }
    Ok((store, first))
}

fn verifier(
    options: &TlsOptions<'_>,
    roots: RootCertStore,
    crypto: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    if options.client_certificates == ClientCertificates::No {
        return Ok(Arc::new(NoClientAuth));
    }
    if roots.is_empty() {
        return Err("tls-auth-clients asks clients for certificates: tls-ca-cert-file or \
                    tls-ca-cert-dir must say which to believe, or set tls-auth-clients to no"
            .into());
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto);
    let builder = match options.client_certificates {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    let verifier = builder.build().map_err(|error| format!("tls-ca-cert-file: {error}"))?;
    Ok(verifier)
}

pub(crate) fn crypto(options: &TlsOptions<'_>) -> Result<CryptoProvider, String> {
    let mut suites = names::newer_suites(options.newer_suites)
        .map_err(|why| format!("tls-ciphersuites: {why}"))?;
    suites.extend(
        names::older_suites(options.older_suites).map_err(|why| format!("tls-ciphers: {why}"))?,
    );
    Ok(CryptoProvider { cipher_suites: suites, ..provider::default_provider() })
}

/// Sets the options beyond keys and versions.
fn with_details(
    mut config: ServerConfig,
    options: &TlsOptions<'_>,
) -> Result<ServerConfig, String> {
    config.ignore_client_order = options.prefers_own_order;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    if let Some(life_s) = options.ticket_life_s {
        let tickets = TicketRotator::new(life_s.max(1), || Ok(Box::new(Tickets(ticketer()?))))
            .map_err(|error| format!("no key for session tickets: {error}"))?;
        config.ticketer = Arc::new(tickets);
        config.send_tls13_tickets = 1;
    }
    Ok(config)
}

fn ticketer() -> Result<Arc<dyn ProducesTickets>, rustls::crypto::GetRandomFailed> {
    provider::Ticketer::new().map_err(|_| rustls::crypto::GetRandomFailed)
}

/// rustls's tickets, as one of the generations that rotate.
#[derive(Debug)]
struct Tickets(Arc<dyn ProducesTickets>);

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher)
    }
}
