//! The certificates in force, and the counters of handshakes.
//!
//! After a change of a file or a setting a new [`Acceptor`] is made; if that fails the one in force
//! stays. A connection uses the one that is in force when its first byte comes.
//!
//! With `tls-auto-reload-interval` the thread that keeps the schedule checks whether the files were
//! replaced or written again, without reading them.
//!
//! Not here: connections (`workers`, `worker/secured`). Tests: the server's `tests/tls.rs`.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::{Acceptor, ClientCertificates, Connector, TlsOptions};
use pantala_settings::Settings;
use pantala_settings::field::TlsClients;

/// The certificates in force, the files they came from, and the counters of handshakes.
#[derive(Default)]
pub struct Tls {
    acceptor: RwLock<Option<Arc<Acceptor>>>,
    /// The files in force, as they were before they were read. Held while files are read, so that
    /// the latest request is the one in force at the end.
    files: Mutex<Files>,
    /// Handshakes, by how they ended.
    pub counts: Counts,
}

/// The number of handshakes with each outcome.
#[derive(Default)]
pub struct Counts {
    /// The connection was established.
    pub done: Count,
    /// The peer has sent no TLS, shares no cipher, or has no trusted certificate.
    pub failed: Count,
    /// It took too long.
    pub late: Count,
}

/// A counter. Handshakes are rare and long, so threads may share it.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tls {
    /// The acceptor in force; `None`: no port has TLS.
    pub fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.read().clone()
    }

    /// Reads all files of the current settings again and puts the result in force, if it is valid.
    /// `asks_for_login`: the default user has a password.
    ///
    /// # Errors
    /// A text for the operator; nothing has changed.
    pub fn apply(
        &self,
        current: impl Fn() -> Arc<Settings>,
        asks_for_login: bool,
    ) -> Result<(), String> {
        let mut files = self.files.lock();
        let settings = current();
        let found = files_of(&settings);
        let fresh = acceptor(&settings, asks_for_login)?.map(Arc::new);
        *files = found;
        *self.acceptor.write() = fresh;
        Ok(())
    }

    /// Whether the files in the settings are not those in force.
    fn are_others(&self, settings: &Settings) -> bool {
        *self.files.lock() != files_of(settings)
    }
}

/// Checks the files of certificates and keys from time to time.
#[derive(Default)]
pub struct CertificateWatch {
    last: Option<Instant>,
}

/// Properties of a file that change when it is written or replaced.
type FileSignature = (u64, u64, i64, i64);

/// The properties of all files in the settings; of a directory, its own.
type Files = [Option<FileSignature>; 4];

impl CertificateWatch {
    /// The time until the next check.
    pub fn pause(settings: &Settings) -> Duration {
        match settings.tls_auto_reload_interval_s {
            0 => Duration::MAX,
            seconds => Duration::from_secs(seconds.into()),
        }
    }

    /// If it is time for a check, puts changed files in force. Invalid ones are tried again each
    /// time.
    pub fn look(
        &mut self,
        tls: &Tls,
        current: impl Fn() -> Arc<Settings>,
        asks_for_login: impl Fn() -> bool,
    ) {
        let settings = &*current();
        let pause = CertificateWatch::pause(settings);
        let is_early = self.last.is_some_and(|last| last.elapsed() < pause);
        if pause == Duration::MAX || is_early || tls.acceptor().is_none() {
            return;
        }
        self.last = Some(Instant::now());
        if tls.are_others(settings) {
            match tls.apply(current, asks_for_login()) {
                Ok(()) => tracing::info!("certificates and keys have changed and are read anew"),
                Err(why) => tracing::error!("the certificates in force stay: {why}"),
            }
        }
    }
}

fn files_of(settings: &Settings) -> Files {
    let named = [
        &settings.tls_cert_file,
        &settings.tls_key_file,
        &settings.tls_ca_cert_file,
        &settings.tls_ca_cert_dir,
    ];
    named.map(|path| written(path))
}

fn written(path: &str) -> Option<FileSignature> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// The acceptor of these settings; `None`: no port has TLS.
fn acceptor(settings: &Settings, asks_for_login: bool) -> Result<Option<Acceptor>, String> {
    if settings.tls_port == 0 && !settings.tls {
        return Ok(None);
    }
    for (name, file) in
        [("tls-cert-file", &settings.tls_cert_file), ("tls-key-file", &settings.tls_key_file)]
    {
        if file.is_empty() {
            return Err(format!("TLS needs {name}"));
        }
    }
    // It is read again for the next link to a primary; an invalid one is reported now.
    if has_client_certificate(settings) {
        Connector::check(&outgoing(settings))?;
    }
    Acceptor::new(&options(settings, asks_for_login)).map(Some)
}

/// The TLS configuration of outgoing connections.
///
/// # Errors
/// A text for the operator.
pub fn connector(settings: &Settings) -> Result<Connector, String> {
    Connector::new(&outgoing(settings))
}

/// As in Valkey, the client's certificate counts only if its key is named, too.
fn has_client_certificate(settings: &Settings) -> bool {
    !settings.tls_client_cert_file.is_empty() && !settings.tls_client_key_file.is_empty()
}

/// The certificate for other servers: the client's, else the server's.
fn outgoing(settings: &Settings) -> TlsOptions<'_> {
    let as_server = options(settings, false);
    if !has_client_certificate(settings) {
        return as_server;
    }
    TlsOptions {
        certificate_file: &settings.tls_client_cert_file,
        key_file: &settings.tls_client_key_file,
        key_password: &settings.tls_client_key_file_pass,
        ..as_server
    }
}

fn options(settings: &Settings, asks_for_login: bool) -> TlsOptions<'_> {
    TlsOptions {
        certificate_file: &settings.tls_cert_file,
        key_file: &settings.tls_key_file,
        key_password: &settings.tls_key_file_pass,
        ca_file: &settings.tls_ca_cert_file,
        ca_directory: &settings.tls_ca_cert_dir,
        client_certificates: client_certificates(settings, asks_for_login),
        versions: &settings.tls_protocols,
        older_suites: &settings.tls_ciphers,
        newer_suites: &settings.tls_ciphersuites,
        prefers_own_order: settings.tls_prefer_server_ciphers,
        ticket_life_s: settings.tls_session_caching.then_some(settings.tls_session_cache_timeout_s),
    }
}

/// Dragonfly's `--tls` asks for client certificates only if an authority is named, and for a
/// password otherwise.
fn client_certificates(settings: &Settings, asks_for_login: bool) -> ClientCertificates {
    let has_authority =
        !settings.tls_ca_cert_file.is_empty() || !settings.tls_ca_cert_dir.is_empty();
    match settings.tls_auth_clients {
        TlsClients::No => ClientCertificates::No,
        TlsClients::Optional => ClientCertificates::Optional,
        TlsClients::Yes if !has_authority && settings.tls && asks_for_login => {
            ClientCertificates::No
        }
        TlsClients::Yes => ClientCertificates::Required,
    }
}
