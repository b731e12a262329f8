//! A node of a cluster: its id, its addresses, its health.

use std::fmt;

use pantala_base::sha1;

/// The id of a node or of a shard: forty hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; sha1::HEX_BYTES]);

impl NodeId {
    /// The id that this text is; `None` if it is none.
    pub fn parse(text: &[u8]) -> Option<NodeId> {
        let digits: [u8; sha1::HEX_BYTES] = text.try_into().ok()?;
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        digits.iter().all(is_digit).then_some(NodeId(digits))
    }

    /// An id made from a name: the same name has the same id everywhere.
    pub fn of_name(name: &str) -> NodeId {
        NodeId(sha1::hex(name.as_bytes()))
    }

    /// Its 40 hexadecimal digits.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&digit| write!(f, "{}", char::from(digit)))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({self})")
    }
}

/// The part of a node in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRole {
    /// It takes the writes of the shard.
    Primary,
    /// It follows the shard's primary.
    Replica,
}

impl NodeRole {
    /// The word that clients are told; the protocol has kept the old one.
    pub fn word(self) -> &'static str {
        match self {
            NodeRole::Primary => "master",
            NodeRole::Replica => "slave",
        }
    }
}

/// Whether a node can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    Online,
    /// It cannot be reached.
    Failed,
    /// It is loading its data, or copies it from its primary.
    Loading,
}

impl Health {
    /// The word in CLUSTER SHARDS.
    pub fn word(self) -> &'static str {
        match self {
            Health::Online => "online",
            Health::Failed => "fail",
            Health::Loading => "loading",
        }
    }
}

/// Where a node is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address; empty if only the asking client knows it.
    pub ip: String,
    /// Its host name; empty if it has none.
    pub hostname: String,
    /// Its port without TLS; 0 if it has none.
    pub port: u16,
    /// Its port with TLS; 0 if it has none.
    pub tls_port: u16,
    /// Its port for other nodes, which tools want to see.
    pub bus_port: u16,
}

impl Endpoint {
    /// The port for a client that does or does not use TLS; the other one if there is no such port.
    pub fn port_for(&self, uses_tls: bool) -> u16 {
        match uses_tls {
            true if self.tls_port != 0 => self.tls_port,
            false if self.port == 0 => self.tls_port,
            _ => self.port,
        }
    }
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Its part in its shard.
    pub role: NodeRole,
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// Its availability zone; empty if it has none.
    pub zone: String,
    /// Whether it can be asked.
    pub health: Health,
    /// The end of its stream, or of what it has of its primary's.
    pub offset: u64,
    /// The number of the last change of its slots.
    pub epoch: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_forty_small_hexadecimal_digits() {
        let text = b"0123456789abcdef0123456789abcdef01234567";
        let id = NodeId::parse(text).expect("it is one");
        assert_eq!((id.bytes(), id.to_string().as_bytes()), (&text[..], &text[..]));
        for wrong in [&text[1..], &b"0123456789ABCDEF0123456789abcdef01234567"[..], b""] {
            assert_eq!(NodeId::parse(wrong), None);
        }
        assert_eq!(NodeId::of_name("a"), NodeId::of_name("a"));
        assert_ne!(NodeId::of_name("a"), NodeId::of_name("b"));
    }

    #[test]
    fn a_client_is_told_the_port_that_it_can_use() {
        let both = Endpoint { port: 1, tls_port: 2, ..Endpoint::default() };
        assert_eq!((both.port_for(false), both.port_for(true)), (1, 2));
        let plain = Endpoint { port: 1, ..Endpoint::default() };
        assert_eq!((plain.port_for(false), plain.port_for(true)), (1, 1));
        let sealed = Endpoint { tls_port: 2, ..Endpoint::default() };
        assert_eq!((sealed.port_for(false), sealed.port_for(true)), (2, 2));
    }
}
