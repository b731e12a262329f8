//! SASL PLAIN (RFC 4616), the only supported mechanism.

/// The mechanisms that the server offers.
pub const MECHANISMS: &str = "PLAIN";
/// The answer to a client that has authenticated.
pub const AUTHENTICATED: &str = "Authenticated";

/// The message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// The user to act as; empty: the user itself.
    pub act_as: &'a [u8],
    /// The user.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
}

/// Parses a message: `[authzid] NUL authcid NUL passwd`.
pub fn plain(message: &[u8]) -> Option<Plain<'_>> {
    let mut parts = message.split(|&byte| byte == 0);
    let (act_as, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && !user.is_empty();
    is_whole.then_some(Plain { act_as, user, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_parts_and_no_more() {
        let read = |message: &'static [u8]| {
            plain(message).map(|plain| [plain.act_as, plain.user, plain.password])
        };
        assert_eq!(read(b"\0user\0pass"), Some([&b""[..], b"user", b"pass"]));
        assert_eq!(read(b"other\0user\0"), Some([&b"other"[..], b"user", b""]));
        for message in [&b""[..], b"user", b"\0user", b"\0\0pass", b"\0user\0pass\0"] {
            assert_eq!(read(message), None, "{message:?}");
        }
    }
}
