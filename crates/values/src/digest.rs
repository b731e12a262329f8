//! A digest of data in twenty bytes: for equal data it equals Valkey's, whatever the order in
//! memory.
//!
//! ```text
//! digest XOR sha1(bytes)               where the order does not matter: members, fields, keys
//! sha1(digest XOR sha1(bytes))         where it does: elements of a list, key before value
//! ```
//!
//! Tests: compat/transcripts/server/digest.txt (against a real server).

use pantala_base::sha1::{self, DIGEST_BYTES};
use pantala_table::{IntText, StrRef};

/// A digest being computed.
#[derive(Clone, Copy, Default)]
pub struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    /// Adds bytes whose order does not matter.
    pub fn add(&mut self, bytes: &[u8]) {
        for (mine, theirs) in self.0.iter_mut().zip(sha1::digest(bytes)) {
            *mine ^= theirs;
        }
    }

    /// Adds another digest, whose order does not matter.
    pub fn add_digest(&mut self, other: Digest) {
        self.add(&other.0);
    }

    /// Adds bytes whose order matters.
    pub fn append(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = sha1::digest(&self.0);
    }

    /// Adds a text whose order matters.
    pub fn append_text(&mut self, text: StrRef<'_>) {
        self.append(text.bytes(&mut IntText::new()));
    }

    /// Adds a pair of texts; the order of pairs does not matter.
    pub fn add_pair(&mut self, first: StrRef<'_>, second: StrRef<'_>) {
        let mut pair = Digest::default();
        pair.append_text(first);
        pair.append_text(second);
        self.add_digest(pair);
    }

    /// As hexadecimal text.
    pub fn text(self) -> String {
        sha1::text(&self.0).iter().map(|&digit| char::from(digit)).collect()
    }
}
