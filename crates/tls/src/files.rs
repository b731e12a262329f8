//! Reads certificates and keys from PEM files.
//!
//! Errors are texts for the operator, and name the file. Tests: `tests/`.

use std::fs;
use std::path::Path;

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::SecretDocument;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The limit for a file of certificates; a larger file is refused.
const MOST_FILE_BYTES: u64 = 16 << 20;
/// The limit of files in a directory of certificates.
const MOST_FILES: usize = 10_000;
/// The first line of an encrypted key.
const BEGIN_ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END_ENCRYPTED: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// The header of OpenSSL's old form of an encrypted key.
const OLD_ENCRYPTED: &str = "Proc-Type: 4,ENCRYPTED";

fn read(path: &str) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("cannot read '{path}': {error}");
    let length = fs::metadata(path).map_err(cannot)?.len();
    if length > MOST_FILE_BYTES {
        return Err(format!("'{path}' is too long to hold certificates or a key"));
    }
    fs::read(path).map_err(cannot)
}

/// The certificates of a file, in order; at least one.
pub(crate) fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| format!("'{path}' is no PEM file: {error}"))?;
    if found.is_empty() {
        return Err(format!("there is no certificate in '{path}'"));
    }
    Ok(found)
}

/// The certificates of all files in a directory; other files are skipped.
pub(crate) fn certificates_in(directory: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let cannot = |error: std::io::Error| format!("cannot read '{directory}': {error}");
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(directory)).map_err(cannot)?.take(MOST_FILES) {
        let path = entry.map_err(cannot)?.path();
        let is_file = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file());
        if is_file && let Some(path) = path.to_str() {
            found.extend(certificates(path).unwrap_or_default());
        }
    }
    if found.is_empty() {
        return Err(format!("there is no certificate in '{directory}'"));
    }
    // Names by hash are links to files that are there, too.
    found.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    found.dedup();
    Ok(found)
}

/// The private key of a file; the password decrypts it if it is encrypted.
pub(crate) fn private_key(path: &str, password: &str) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    if text.contains(OLD_ENCRYPTED) {
        return Err(format!(
            "the key in '{path}' is encrypted in a form that is too weak; convert it: \
             openssl pkcs8 -topk8 -v2 aes-256-cbc -in {path}"
        ));
    }
    match encrypted(&text) {
        Some(section) => decrypted(section, password).map_err(|why| format!("'{path}': {why}")),
        None => PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|error| format!("there is no private key in '{path}': {error}")),
    }
}

fn encrypted(text: &str) -> Option<&str> {
    let section = &text[text.find(BEGIN_ENCRYPTED)?..];
    let end = section.find(END_ENCRYPTED)? + END_ENCRYPTED.len();
    Some(&section[..end])
}

fn decrypted(section: &str, password: &str) -> Result<PrivateKeyDer<'static>, &'static str> {
    if password.is_empty() {
        return Err("the key needs a password (tls-key-file-pass)");
    }
    let (_, document) = SecretDocument::from_pem(section).map_err(|_| "the key is no PEM")?;
    let sealed = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|_| "the key is encrypted in an unknown way")?;
    let key = sealed
        .decrypt(password)
        .map_err(|_| "the password of the key is wrong, or its cipher is not known")?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}
