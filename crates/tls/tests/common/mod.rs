//! A certificate authority for a test, made by openssl, in a directory that is removed with it.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// The names that a test certificate is made with.
pub struct Wish<'a> {
    /// The name of its files, and the common name of its subject.
    pub name: &'a str,
    /// The validity in OpenSSL's form, if it is not valid now.
    pub dates: Option<(&'a str, &'a str)>,
}

/// A certificate authority whose directory is removed on drop.
pub struct Authority {
    directory: PathBuf,
}

impl Drop for Authority {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _best_effort = std::fs::remove_dir_all(&self.directory);
    }
}

impl Authority {
    /// An authority whose own certificate is in `ca.crt`.
    pub fn new() -> Authority {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pantala-tls-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        let authority = Authority { directory };
        authority.write("index.txt", "");
        authority.write(
            "ca.cnf",
            "[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\n\
             default_md=sha256\npolicy=any\nunique_subject=no\n[any]\ncommonName=supplied\n",
        );
        authority.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key \
             -out ca.crt -days 30 -subj /CN=authority -addext keyUsage=keyCertSign,cRLSign",
        );
        authority
    }

    /// The path of one of its files.
    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.join(name), text).expect("written");
    }

    pub fn rename(&self, name: &str, to: &str) {
        std::fs::rename(self.path(name), self.path(to)).expect("renamed");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.join(name)).expect("readable")
    }

    /// Runs openssl in the directory.
    pub fn openssl(&self, words: &str) {
        let mut command = Command::new("openssl");
        command.args(words.split_ascii_whitespace()).current_dir(Path::new(&self.directory));
        let output = command.output().expect("openssl is installed");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes `NAME.crt` and `NAME.key`.
    pub fn sign(&self, name: &str) {
        self.sign_as(&Wish { name, dates: None });
    }

    pub fn sign_as(&self, wish: &Wish<'_>) {
        let name = wish.name;
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {name}.key \
             -out {name}.csr -subj /CN={name}"
        ));
        self.write(
            "ext.cnf",
            &format!(
                "basicConstraints=CA:FALSE\n\
                 subjectAltName=DNS:localhost,URI:urn:user:{name},IP:127.0.0.1,URI:urn:second\n"
            ),
        );
        let days = match wish.dates {
            Some((from, to)) => format!("-startdate {from} -enddate {to}"),
            None => "-days 30".to_owned(),
        };
        self.openssl(&format!(
            "ca -batch -config ca.cnf -cert ca.crt -keyfile ca.key -in {name}.csr -out {name}.crt \
             -extfile ext.cnf -notext {days}"
        ));
    }

    /// A client that trusts this authority, and shows the certificate with that name.
    pub fn client(
        &self,
        shows: Option<&str>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.path("ca.crt"))).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match shows {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key")));
                let chain = vec![certificate(&self.path(&format!("{name}.crt")))];
                builder.with_client_auth_cert(chain, key.expect("a key")).expect("they fit")
            }
        })
    }
}

pub fn certificate(path: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name")
}
