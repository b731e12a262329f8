//! The kinds of listening sockets.

use pantala_commands::Protocol;
use pantala_reactor::ListenerId;
use pantala_settings::Settings;

/// The protocol and transport of a listener. The reactor passes it, as a number, from the listener
/// to each connection that is accepted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// RESP over TCP.
    Resp,
    /// RESP over the Unix socket.
    RespUnix,
    /// Memcached's protocols over TCP.
    Memcached,
    /// RESP over TLS.
    RespTls,
    /// Memcached's protocols over TLS.
    MemcachedTls,
    /// RESP, or HTTP, at the port for administration.
    Admin,
    /// RESP over TLS, or HTTPS, at the port for administration.
    AdminTls,
}

/// The kind is in the uppermost byte of a listener's id, its number below.
const KIND_SHIFT: u32 = 24;

impl ListenerKind {
    pub(crate) const ALL: [ListenerKind; 7] = [
        ListenerKind::Resp,
        ListenerKind::RespUnix,
        ListenerKind::Memcached,
        ListenerKind::RespTls,
        ListenerKind::MemcachedTls,
        ListenerKind::Admin,
        ListenerKind::AdminTls,
    ];

    /// The kind of this listener.
    pub fn of(listener: ListenerId) -> ListenerKind {
        let number = (listener.0 >> KIND_SHIFT) as usize;
        ListenerKind::ALL.get(number).copied().unwrap_or(ListenerKind::Resp)
    }

    /// The protocol of its connections, if the first bytes do not tell another; for Memcached's
    /// protocols the first byte decides which.
    pub fn protocol(self) -> Protocol {
        match self {
            ListenerKind::Memcached | ListenerKind::MemcachedTls => Protocol::MemcachedText,
            _ => Protocol::Resp,
        }
    }

    /// Whether it is the port for clients of RESP.
    pub fn is_main(self) -> bool {
        matches!(self, ListenerKind::Resp | ListenerKind::RespTls)
    }

    /// Whether it is the port for administration.
    pub fn is_admin(self) -> bool {
        matches!(self, ListenerKind::Admin | ListenerKind::AdminTls)
    }

    /// Whether it serves HTTP, too.
    pub fn has_http(self, settings: &Settings) -> bool {
        self.is_admin() || self.is_main() && settings.primary_port_http_enabled
    }

    /// Whether it serves TLS.
    pub fn is_tls(self) -> bool {
        use ListenerKind::{AdminTls, MemcachedTls, RespTls};
        matches!(self, RespTls | MemcachedTls | AdminTls)
    }

    /// The id of a listener of this kind, with this number.
    pub(crate) fn id(self, number: usize) -> ListenerId {
        ListenerId((self as u32) << KIND_SHIFT | number as u32)
    }
}
