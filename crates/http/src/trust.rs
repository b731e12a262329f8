//! Whom a client trusts, and the certificate by which it is known: the configuration of TLS.

use std::sync::{Arc, OnceLock};

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use crate::fault::{FaultKind, HttpFault};

/// Files in PEM; an empty path names none.
#[derive(Clone, Debug, Default)]
pub struct HttpTrust {
    /// Certificates of authorities, which are trusted in place of the system's.
    pub ca_file: String,
    /// The client's certificate, followed by those between it and an authority.
    pub cert_file: String,
    /// The key of the client's certificate, without a password.
    pub key_file: String,
}

impl HttpTrust {
    /// The configuration; the files are read now, once.
    pub(crate) fn config(&self) -> Result<ClientConfig, HttpFault> {
        if self.ca_file.is_empty() && self.cert_file.is_empty() && self.key_file.is_empty() {
            return usual_config();
        }
        let roots = match self.ca_file.as_str() {
            "" => system_roots(),
            path => roots_in(path)?,
        };
        let builder = trusting(roots)?;
        if self.cert_file.is_empty() && self.key_file.is_empty() {
            return Ok(builder.with_no_client_auth());
        }
        let key = PrivateKeyDer::from_pem_file(&self.key_file)
            .map_err(|error| wrong(&self.key_file, &error))?;
        builder
            .with_client_auth_cert(certificates(&self.cert_file)?, key)
            .map_err(|error| wrong(&self.cert_file, &error))
    }
}

/// Trusts the system's authorities, or those in `SSL_CERT_FILE`; read once, as the files are large.
pub(crate) fn usual_config() -> Result<ClientConfig, HttpFault> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let config = trusting(system_roots())?.with_no_client_auth();
    Ok(CONFIG.get_or_init(|| config).clone())
}

fn trusting(
    roots: RootCertStore,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, HttpFault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpFault::of(FaultKind::Other, &error))?;
    Ok(builder.with_root_certificates(roots))
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (taken, _passed_over) = roots.add_parsable_certificates(found.certs);
    if taken == 0 {
        tracing::warn!("this machine has no certificates of authorities: TLS to others will fail");
    }
    roots
}

fn roots_in(path: &str) -> Result<RootCertStore, HttpFault> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| wrong(path, &error))?;
    }
    Ok(roots)
}

/// The certificates of a file; at least one.
fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, HttpFault> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| wrong(path, &error))?;
    match found.is_empty() {
        true => Err(HttpFault::new(FaultKind::Other, format!("{path} holds no certificate"))),
        false => Ok(found),
    }
}

fn wrong(path: &str, error: &dyn std::fmt::Display) -> HttpFault {
    HttpFault::new(FaultKind::Other, format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_or_holds_nothing_is_named() {
        for path in ["/nowhere/ca.pem", "/dev/null"] {
            let trust = HttpTrust { ca_file: path.into(), ..HttpTrust::default() };
            let fault = trust.config().map(drop).expect_err("there is no authority");
            assert!(fault.to_string().contains(path), "{fault}");
        }
        let half = HttpTrust { cert_file: "/nowhere/one.pem".into(), ..HttpTrust::default() };
        assert!(half.config().is_err(), "a certificate needs its key");
        assert!(HttpTrust::default().config().is_ok());
    }
}
