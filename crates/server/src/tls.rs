//! The certificates in force, and who made connections with them.
//!
//! Whoever changes a file or a setting has a new [`Acceptor`] made; if that fails the one in force
//! stays. Connections take what is in force when their first byte comes.
//!
//! With `tls-auto-reload-interval` the thread that keeps the schedule looks at the files: whether
//! they are others or were written anew, not into them.
//!
//! Not here: connections (`worker/secured`). Tests: the server's `tests/tls.rs`.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pantala_engine::Engine;
use pantala_settings::Settings;
use pantala_settings::field::TlsClients;
use pantala_tls::{Acceptor, ClientCertificates, Connector, Options};

/// The certificates in force, the files they came from, and the counters of handshakes.
#[derive(Default)]
pub struct Tls {
    acceptor: RwLock<Option<Arc<Acceptor>>>,
    /// The files in force, as they were before they were read. Held while files are read, so that
    /// what was asked for last is in force at the end.
    files: Mutex<Files>,
    /// Handshakes, by how they ended.
    pub counts: Counts,
}

/// How many handshakes came to which end.
#[derive(Default)]
pub struct Counts {
    /// A connection was made.
    pub done: Count,
    /// The peer sent what is no TLS, shares no cipher, or has no certificate that is believed.
    pub failed: Count,
    /// It took too long.
    pub late: Count,
}

/// One number. Handshakes are rare and long, so that threads may share it.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tls {
    /// What is in force; `None`: no port has TLS.
    pub fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads all files anew and puts what they and the settings say in force, if it is sound.
    ///
    /// # Errors
    /// A text for the operator; nothing has changed.
    pub fn apply(&self, engine: &Engine) -> Result<(), String> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = engine.settings.current();
        let found = files_of(&settings);
        let asks_for_login = !engine.acl.users().default_user().is_open();
        let fresh = acceptor(&settings, asks_for_login)?.map(Arc::new);
        *files = found;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Whether the files that the settings name are others than those in force.
    fn are_others(&self, settings: &Settings) -> bool {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) != files_of(settings)
    }
}

/// Looks at the files of certificates and keys from time to time.
#[derive(Default)]
pub struct Watch {
    last: Option<Instant>,
}

/// What a file shows when it is written anew or replaced.
type Written = (u64, u64, i64, i64);

/// What all files show that settings name; of a directory it is what it shows itself.
type Files = [Option<Written>; 4];

impl Watch {
    /// How long it can wait for its next look.
    pub fn pause(settings: &Settings) -> Duration {
        match settings.tls_auto_reload_interval_s {
            0 => Duration::MAX,
            seconds => Duration::from_secs(seconds.into()),
        }
    }

    /// Puts in force what has changed since it was read, if it is time for a look. What is not
    /// sound is looked at again each time.
    pub fn look(&mut self, tls: &Tls, engine: &Engine) {
        let settings = &*engine.settings.current();
        let pause = Watch::pause(settings);
        let is_early = self.last.is_some_and(|last| last.elapsed() < pause);
        if pause == Duration::MAX || is_early || tls.acceptor().is_none() {
            return;
        }
        self.last = Some(Instant::now());
        if tls.are_others(settings) {
            match tls.apply(engine) {
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

fn written(path: &str) -> Option<Written> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// What these settings mean; `None`: no port has TLS.
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
    // It is read at the next link to a primary, too; what is not sound is told now.
    if has_client_certificate(settings) {
        Connector::check(&outgoing(settings))?;
    }
    Acceptor::new(&options(settings, asks_for_login)).map(Some)
}

/// How other servers are spoken to.
///
/// # Errors
/// A text for the operator.
pub fn connector(settings: &Settings) -> Result<Connector, String> {
    Connector::new(&outgoing(settings))
}

/// As in Valkey, the client's certificate counts once its key is named, too.
fn has_client_certificate(settings: &Settings) -> bool {
    !settings.tls_client_cert_file.is_empty() && !settings.tls_client_key_file.is_empty()
}

/// What other servers are shown: the client's certificate, else the server's.
fn outgoing(settings: &Settings) -> Options<'_> {
    let as_server = options(settings, false);
    if !has_client_certificate(settings) {
        return as_server;
    }
    Options {
        certificate_file: &settings.tls_client_cert_file,
        key_file: &settings.tls_client_key_file,
        key_password: &settings.tls_client_key_file_pass,
        ..as_server
    }
}

fn options(settings: &Settings, asks_for_login: bool) -> Options<'_> {
    Options {
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

/// Dragonfly's `--tls` asks for certificates only where it is said whom to believe, and for a
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
