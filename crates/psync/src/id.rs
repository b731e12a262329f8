//! The replication id: the name of a history of the data, forty hexadecimal digits.

use std::fmt;

use pantala_base::rng::Rng;

/// The length of an id, as text.
pub const ID_BYTES: usize = 40;
const _: () = assert!(size_of::<ReplicationId>() == ID_BYTES, "an id is its text");

/// The name of a history: servers with the same id have the same bytes at the same position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReplicationId([u8; ID_BYTES]);

impl ReplicationId {
    /// A random id.
    pub fn random() -> ReplicationId {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [0; ID_BYTES];
        Rng::random().bytes(&mut bytes);
        ReplicationId(bytes.map(|byte| DIGITS[usize::from(byte & 15)]))
    }

    /// The id that a peer has named. Servers accept any forty printable characters.
    pub fn parse(text: &[u8]) -> Option<ReplicationId> {
        let bytes: [u8; ID_BYTES] = text.try_into().ok()?;
        bytes.iter().all(u8::is_ascii_graphic).then_some(ReplicationId(bytes))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        // Graphic ASCII, so it is text.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for ReplicationId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for ReplicationId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        let id = ReplicationId::random();
        assert_eq!(ReplicationId::parse(id.to_string().as_bytes()), Some(id));
        assert!(id.as_str().bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_ne!(id, ReplicationId::random());
    }

    #[test]
    fn other_texts_are_none() {
        for text in [&b"?"[..], b"", &[b'a'; 39], &[b'a'; 41], &[b' '; 40], &[0xff; 40]] {
            assert_eq!(ReplicationId::parse(text), None);
        }
    }
}
