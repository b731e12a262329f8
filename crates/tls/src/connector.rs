//! What outgoing connections share: trusted authorities, and the certificate that is shown.
//!
//! As in Redis and Valkey, the peer's certificate must be signed by a trusted authority, but may be
//! for any name: servers address each other by IP as often as by name.
//!
//! Tests: `tests/connections.rs`.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    SignatureScheme, StreamOwned,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::acceptor::{TlsOptions, certified, crypto, roots};
use crate::names;

/// The TLS configuration for outgoing connections.
#[derive(Debug)]
pub struct Connector {
    config: Arc<ClientConfig>,
}

impl Connector {
    /// Reads the files. Without a certificate file no certificate is shown.
    ///
    /// # Errors
    /// A text for the operator: which file or setting, and why.
    pub fn new(options: &TlsOptions<'_>) -> Result<Connector, String> {
        let (roots, _) = roots(options)?;
        if roots.is_empty() {
            return Err(
                "tls-ca-cert-file or tls-ca-cert-dir must say which servers to believe".into()
            );
        }
        let crypto = Arc::new(crypto(options)?);
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&crypto));
        let verifier = verifier.build().map_err(|error| format!("tls-ca-cert-file: {error}"))?;
        let config = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(&names::versions(options.versions)?)
            .map_err(|error| format!("tls-protocols, tls-ciphers: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyNameVerifier(verifier)));
        let config = match options.certificate_file {
            "" => config.with_no_client_auth(),
            _ => {
                let (own, _) = certified(options)?;
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
        };
        Ok(Connector { config: Arc::new(config) })
    }

    /// Checks that the certificate to be shown is valid and fits its key.
    ///
    /// # Errors
    /// A text for the operator: which file, and why.
    pub fn check(options: &TlsOptions<'_>) -> Result<(), String> {
        certified(options).map(drop)
    }

    /// Speaks TLS over `socket` to the server with this name. The handshake takes place with the
    /// first bytes.
    ///
    /// # Errors
    /// The name is not a valid server name.
    pub fn connect<S: Read + Write>(
        &self,
        host: &str,
        socket: S,
    ) -> Result<impl Read + Write + use<S>, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("'{host}' is no name of a server"))?;
        let connection = ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| error.to_string())?;
        Ok(StreamOwned::new(connection, socket))
    }
}

/// Accepts a trusted certificate for any name.
#[derive(Debug)]
struct AnyNameVerifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyNameVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // Reported last, when everything else is valid.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
