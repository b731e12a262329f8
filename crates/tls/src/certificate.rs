//! The owner and the validity of a certificate.
//!
//! Not here: whether it is trusted (rustls). Tests: `tests/`.

use std::time::{SystemTime, UNIX_EPOCH};

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The field of a client's certificate that names its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameField {
    /// The common name of the subject.
    CommonName,
    /// A URI among the alternative names.
    Uri,
}

/// A summary of a certificate for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The serial number, in hexadecimal digits.
    pub serial: String,
    /// The start of its validity (Unix, seconds).
    pub begins_unix_s: u64,
    /// The end of its validity (Unix, seconds).
    pub expires_unix_s: u64,
}

impl CertificateSummary {
    /// The summary of a certificate in DER; `None` if it cannot be parsed.
    pub fn of(der: &[u8]) -> Option<CertificateSummary> {
        let certificate = Certificate::from_der(der).ok()?;
        let certificate = certificate.tbs_certificate();
        let digits = certificate.serial_number().as_bytes();
        // A leading zero only says that the number is not negative.
        let digits = match digits {
            [0, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        let validity = certificate.validity();
        Some(CertificateSummary {
            serial: digits.iter().map(|byte| format!("{byte:02X}")).collect(),
            begins_unix_s: validity.not_before.to_unix_duration().as_secs(),
            expires_unix_s: validity.not_after.to_unix_duration().as_secs(),
        })
    }

    /// Whether it is valid at a time (Unix, seconds).
    pub fn is_valid_at(&self, unix_s: u64) -> bool {
        (self.begins_unix_s..=self.expires_unix_s).contains(&unix_s)
    }
}

/// The current time (Unix, seconds), for the validity of certificates.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The values of a field in a certificate in DER: a common name, or all URIs in order.
pub(crate) fn names_in(der: &[u8], field: NameField) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(der) else { return Vec::new() };
    let certificate = certificate.tbs_certificate();
    match field {
        NameField::CommonName => {
            let name = certificate.subject().common_name().ok().flatten();
            name.map(|name| name.value().into_owned()).into_iter().collect()
        }
        NameField::Uri => {
            let Ok(Some((_, names))) = certificate.get_extension::<SubjectAltName>() else {
                return Vec::new();
            };
            let uri = |name: &GeneralName| match name {
                GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str().to_owned()),
                _ => None,
            };
            names.0.iter().filter_map(uri).collect()
        }
    }
}
