//! Versions and ciphers by OpenSSL's names, as operators write them.
//!
//! rustls supports only what is secure today: TLS 1.2 and 1.3, authenticated ciphers, ephemeral
//! keys. Any other name is refused, so nobody believes that it has an effect; excluding an
//! unsupported suite (`!RC4`) is accepted.
//!
//! Tests: at the foot.

use rustls::crypto::ring::cipher_suite as suite;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// The suites of TLS 1.2, best first, by OpenSSL's names.
const OLDER: [(&str, SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// The suites of TLS 1.3, best first.
const NEWER: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", suite::TLS13_CHACHA20_POLY1305_SHA256),
];

/// OpenSSL's names of sets that contain all of `OLDER`.
const WHOLE_SETS: [&str; 5] = ["DEFAULT", "COMPLEMENTOFDEFAULT", "ALL", "HIGH", "SECURE"];

/// The effect of a word in a list of ciphers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Add,
    /// Removes; a later word may add it again.
    Remove,
    /// Removes permanently.
    Ban,
}

/// The suites of TLS 1.2 for a list in OpenSSL's form; all for an empty list.
pub(crate) fn older_suites(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let (mut chosen, mut banned) = (Vec::new(), Vec::new());
    let words = list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty());
    let list = if list.trim().is_empty() { vec!["DEFAULT"] } else { words.collect() };
    for word in list {
        let (act, name) = match word.as_bytes()[0] {
            b'!' => (Act::Ban, &word[1..]),
            b'-' => (Act::Remove, &word[1..]),
            // It only changes the order.
            b'+' | b'@' => continue,
            _ => (Act::Add, word),
        };
        let named = named(name);
        match act {
            Act::Add if named.is_empty() => {
                return Err(format!("there is no cipher '{name}' here, only {}", all(&OLDER)));
            }
            Act::Add => {
                let fresh: Vec<usize> =
                    named.into_iter().filter(|one| !chosen.contains(one)).collect();
                chosen.extend(fresh);
            }
            Act::Remove | Act::Ban => {
                chosen.retain(|one| !named.contains(one));
                if act == Act::Ban {
                    banned.extend(named);
                }
            }
        }
    }
    chosen.retain(|one| !banned.contains(one));
    Ok(chosen.into_iter().map(|one| OLDER[one].1).collect())
}

/// The indices in `OLDER` that a word stands for: a suite, a set, or all suites with these parts
/// (`ECDHE+AESGCM`).
fn named(word: &str) -> Vec<usize> {
    let is_meant = |name: &str| {
        word.split('+').all(|part| {
            let part = part.to_ascii_uppercase();
            WHOLE_SETS.contains(&&*part)
                || part == name
                || match &*part {
                    "ECDHE" | "KECDHE" | "EECDH" | "KEECDH" | "AEAD" | "TLSV1.2" => true,
                    "AESGCM" => name.contains("GCM"),
                    "AES" => name.contains("AES"),
                    "CHACHA20" => name.contains("CHACHA20"),
                    "AES128" => name.contains("AES128"),
                    "AES256" => name.contains("AES256"),
                    "RSA" | "ARSA" => name.contains("-RSA-"),
                    "ECDSA" | "AECDSA" => name.contains("-ECDSA-"),
                    _ => false,
                }
        })
    };
    (0..OLDER.len()).filter(|&one| is_meant(OLDER[one].0)).collect()
}

/// The suites of TLS 1.3 in a list; all for an empty list.
pub(crate) fn newer_suites(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let names: Vec<&str> = list.split(':').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Ok(NEWER.iter().map(|(_, suite)| *suite).collect());
    }
    let of = |name: &&str| {
        let found = NEWER.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found
            .map(|(_, suite)| *suite)
            .ok_or_else(|| format!("there is no cipher suite '{name}' here, only {}", all(&NEWER)))
    };
    names.iter().map(of).collect()
}

fn all(suites: &[(&str, SupportedCipherSuite)]) -> String {
    let names: Vec<&str> = suites.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// The versions in a list; 1.2 and 1.3 for an empty list.
pub(crate) fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut chosen = Vec::new();
    for name in list.split(' ').filter(|name| !name.is_empty()) {
        match &*name.to_ascii_lowercase() {
            "tlsv1.2" => chosen.push(&TLS12),
            "tlsv1.3" => chosen.push(&TLS13),
            "tlsv1" | "tlsv1.1" => {
                return Err(format!("{name} is broken and not there; use TLSv1.2 and TLSv1.3"));
            }
            _ => return Err(format!("'{name}' is no version; use TLSv1.2 and TLSv1.3")),
        }
    }
    if chosen.is_empty() {
        chosen.extend([&TLS12, &TLS13]);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn older(list: &str) -> Result<Vec<&'static str>, String> {
        let name = |suite: SupportedCipherSuite| {
            let same = |(_, one): &&(&str, SupportedCipherSuite)| one.suite() == suite.suite();
            OLDER.iter().find(same).map_or("?", |(name, _)| *name)
        };
        Ok(older_suites(list)?.into_iter().map(name).collect())
    }

    #[test]
    fn a_list_of_openssl_means_what_is_here() {
        for list in ["", "DEFAULT", "DEFAULT:!MEDIUM", "HIGH:!aNULL:!MD5", "ALL:!EXPORT:@STRENGTH"]
        {
            assert_eq!(older(list).map(|suites| suites.len()), Ok(OLDER.len()), "{list}");
        }
        assert_eq!(older("ECDHE-RSA-AES128-GCM-SHA256").as_deref(), Ok(&[OLDER[4].0][..]));
        let gcm = older("EECDH+AESGCM:!ECDSA").expect("known");
        assert_eq!(gcm, [OLDER[3].0, OLDER[4].0]);
        let again = older("HIGH:-CHACHA20:!AES128:ECDHE-RSA-CHACHA20-POLY1305").expect("known");
        assert_eq!(again, [OLDER[0].0, OLDER[3].0, OLDER[5].0]);
        assert_eq!(older("HIGH:!RSA:ARSA").map(|suites| suites.len()), Ok(3), "banned for good");
    }

    #[test]
    fn what_is_not_here_is_refused_by_name() {
        let why = |refused: Result<Vec<&str>, String>| refused.expect_err("unknown");
        assert!(why(older("AES256-SHA")).contains("'AES256-SHA'"));
        assert!(why(older("HIGH:RC4")).contains("'RC4'"));
        assert!(newer_suites("TLS_AES_128_CCM_SHA256").is_err());
        assert!(versions("TLSv1.1 TLSv1.2").is_err());
        assert!(versions("SSLv3").is_err());
    }

    #[test]
    fn versions_and_new_suites_have_names() {
        assert_eq!(versions("").map(|both| both.len()), Ok(2));
        assert_eq!(versions("tlsv1.3").map(|one| one.len()), Ok(1));
        let order = newer_suites("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256");
        let order: Vec<_> = order.expect("known").iter().map(|suite| suite.suite()).collect();
        assert_eq!(order, [NEWER[2].1.suite(), NEWER[1].1.suite()]);
    }
}
