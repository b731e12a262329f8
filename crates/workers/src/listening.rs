//! The listening sockets: opened at the start, and by CONFIG SET of `port`, `tls-port`,
//! `memcached_port` and `bind`. The first worker accepts on all of them.
//!
//! Tests: at the foot; the server's `tests/listening.rs`.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use pantala_base::os::group_id;
use pantala_reactor::net::SocketAccess;
use pantala_reactor::{ListenerId, net};
use pantala_settings::Settings;

use crate::listener_kind::ListenerKind;
use crate::workers::Workers;
use crate::workers::inbox::Message;

/// A port at one of the addresses in `bind`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    kind: ListenerKind,
    /// The name of the port's setting.
    setting: &'static str,
    port: u16,
    /// As in `bind`: an address, a name, or all addresses; after `-` it may be absent.
    address: String,
}

/// Listening sockets with their ids.
pub type Sockets = Vec<(ListenerId, OwnedFd)>;

/// The listening sockets that the first worker has.
#[derive(Default)]
pub struct Listening {
    /// Ports with the ids of their sockets: a name may stand for several addresses.
    ports: Vec<(Place, Vec<ListenerId>)>,
    /// How many ids were assigned so far.
    named: usize,
}

/// The number of the group of the Unix socket, if the settings name one.
fn group_of_socket(settings: &Settings) -> Result<Option<u32>, String> {
    let name = &settings.unixsocketgroup;
    if name.is_empty() {
        return Ok(None);
    }
    match group_id(name) {
        Ok(Some(group)) => Ok(Some(group)),
        Ok(None) => Err(format!("--unixsocketgroup: there is no group {name}")),
        Err(error) => Err(format!("--unixsocketgroup: {error}")),
    }
}

impl Listening {
    /// Opens every listening socket that the settings ask for.
    ///
    /// # Errors
    /// A text for the operator: which address, and why.
    pub fn open(settings: &Settings) -> Result<(Listening, Sockets), String> {
        let mut listening = Listening::default();
        let opened = listening.open_ports(places(settings), settings);
        // These are the words of Redis and Valkey: their test harness looks for them, and takes the
        // next port.
        let mut sockets = opened.inspect_err(|why| {
            tracing::error!("Failed listening on port {}: {why}", settings.port);
        })?;
        if !settings.unixsocket.is_empty() {
            let permissions = (settings.unixsocketperm.0 != 0).then_some(settings.unixsocketperm.0);
            let access = SocketAccess { permissions, group: group_of_socket(settings)? };
            let backlog = backlog(settings.tcp_backlog);
            let path = Path::new(&settings.unixsocket);
            let socket = patiently(|| net::unix_listener(path, access, backlog))
                .map_err(|error| format!("--unixsocket: {error}"))?;
            sockets.push((listening.next_id(ListenerKind::RespUnix), socket));
        }
        if sockets.is_empty() {
            let why = "nothing to listen on: port and tls-port are 0 and unixsocket is empty";
            return Err(why.into());
        }
        Ok((listening, sockets))
    }

    /// Opens what changed settings ask for, and closes what they do not. Connections stay.
    ///
    /// # Errors
    /// A text for the operator. What was open is open again.
    pub fn follow(&mut self, settings: &Settings, workers: &Workers) -> Result<(), String> {
        let wanted = places(settings);
        let (kept, left): (Vec<_>, Vec<_>) =
            self.ports.drain(..).partition(|(place, _)| wanted.contains(place));
        let is_new = |place: &Place| kept.iter().all(|(known, _)| known != place);
        let fresh: Vec<Place> = wanted.into_iter().filter(is_new).collect();
        self.ports = kept;
        // One address may include another: `*` cannot be opened beside 127.0.0.1.
        let port_stays = |place: &Place| fresh.iter().any(|new| new.port == place.port);
        let (first, last): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(place, _)| port_stays(place));
        unlisten(workers, &first);
        match self.open_ports(fresh, settings) {
            Ok(sockets) => {
                listen(workers, sockets);
                unlisten(workers, &last);
                Ok(())
            }
            Err(why) => {
                self.ports.extend(last);
                let first = first.into_iter().map(|(place, _)| place).collect();
                match self.open_ports(first, settings) {
                    Ok(sockets) => listen(workers, sockets),
                    Err(why) => tracing::error!("cannot listen on the previous ports again: {why}"),
                }
                Err(why)
            }
        }
    }

    /// Opens all of these ports, or none.
    fn open_ports(&mut self, places: Vec<Place>, settings: &Settings) -> Result<Sockets, String> {
        let mut opened = Vec::new();
        for place in places {
            let sockets = place.open(settings.tcp_backlog)?;
            opened.push((place, sockets));
        }
        let mut all = Vec::new();
        for (place, sockets) in opened {
            let named: Sockets =
                sockets.into_iter().map(|socket| (self.next_id(place.kind), socket)).collect();
            self.ports.push((place, named.iter().map(|(id, _)| *id).collect()));
            all.extend(named);
        }
        Ok(all)
    }

    fn next_id(&mut self, kind: ListenerKind) -> ListenerId {
        self.named += 1;
        kind.id(self.named)
    }
}

/// Makes the first worker accept on these sockets, too.
fn listen(workers: &Workers, sockets: Sockets) {
    if !sockets.is_empty() {
        workers.tell_first(Message::Listen(sockets));
    }
}

/// Makes the first worker close these sockets.
fn unlisten(workers: &Workers, ports: &[(Place, Vec<ListenerId>)]) {
    let ids: Vec<ListenerId> = ports.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
    if !ids.is_empty() {
        workers.tell_first(Message::Unlisten(ids));
    }
}

/// Each port at each address in the settings.
fn places(settings: &Settings) -> Vec<Place> {
    let (resp, memcached) = match settings.tls {
        true => (ListenerKind::RespTls, ListenerKind::MemcachedTls),
        false => (ListenerKind::Resp, ListenerKind::Memcached),
    };
    let admin = match settings.tls && !settings.no_tls_on_admin_port {
        true => ListenerKind::AdminTls,
        false => ListenerKind::Admin,
    };
    let ports = [
        (resp, "port", settings.port),
        (ListenerKind::RespTls, "tls-port", settings.tls_port),
        (memcached, "memcached_port", settings.memcached_port),
        (admin, "admin_port", settings.admin_port),
    ];
    let mut places = Vec::new();
    for (kind, setting, port) in ports.into_iter().filter(|(_, _, port)| *port != 0) {
        let has_own = kind.is_admin() && !settings.admin_bind.is_empty();
        let bind = if has_own { &settings.admin_bind } else { &settings.bind };
        let addresses = bind.iter().cloned();
        places.extend(addresses.map(|address| Place { kind, setting, port, address }));
    }
    places
}

impl Place {
    fn open(&self, backlog: u32) -> Result<Vec<OwnedFd>, String> {
        let Place { setting, port, address, .. } = self;
        let (name, is_optional) = match address.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (address.as_str(), false),
        };
        match addresses(name, *port).and_then(|addresses| open_all(&addresses, backlog)) {
            Err(error) if is_optional && net::is_absent_address(&error) => Ok(Vec::new()),
            opened => opened.map_err(|error| format!("--{setting} {port} at {name}: {error}")),
        }
    }
}

/// Removes the Unix socket's file when the server ends.
pub fn close(settings: &Settings) {
    if !settings.unixsocket.is_empty() {
        // It may have been removed before.
        let _absent = std::fs::remove_file(&settings.unixsocket);
    }
}

fn addresses(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match name {
        "*" => Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)]),
        "::*" => Ok(vec![SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)]),
        _ => Ok((name, port).to_socket_addrs()?.collect()),
    }
}

/// How long to wait for a port or a path in use: the server before this one may be about to end. A
/// killed one leaves no listener (`pantala_reactor`), but its connections survive in its io_uring
/// for up to 45 ms after its parent was told.
const TIMEOUT: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(20);

/// A socket for each of the addresses that a name stands for. The machine must have at least one of
/// them.
fn open_all(addresses: &[SocketAddr], backlog_wanted: u32) -> io::Result<Vec<OwnedFd>> {
    let (mut sockets, mut absent) = (Vec::new(), io::ErrorKind::AddrNotAvailable.into());
    let mut seen = HashSet::new();
    for address in addresses.iter().filter(|address| seen.insert(**address)) {
        let wanted = backlog(backlog_wanted);
        match patiently(|| net::tcp_listener(*address, wanted, false)) {
            Ok(socket) => sockets.push(socket),
            Err(error) if net::is_absent_address(&error) => absent = error,
            Err(error) => return Err(error),
        }
    }
    if sockets.is_empty() { Err(absent) } else { Ok(sockets) }
}

/// Tries again while the address is in use.
fn patiently(open: impl Fn() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    let began = Instant::now();
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && began.elapsed() < TIMEOUT => {
                std::thread::sleep(NAP);
            }
            opened => return opened,
        }
    }
}

fn backlog(wanted: u32) -> i32 {
    i32::try_from(wanted).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(hosts: &[[u8; 4]]) -> Result<Vec<String>, bool> {
        let addresses: Vec<SocketAddr> =
            hosts.iter().map(|host| SocketAddr::from((*host, 0))).collect();
        let sockets = open_all(&addresses, 16).map_err(|error| net::is_absent_address(&error))?;
        let host = |socket: &OwnedFd| net::local_name(socket).split(':').next().map(str::to_owned);
        Ok(sockets.iter().filter_map(host).collect())
    }

    #[test]
    fn an_address_that_is_taken_for_a_moment_is_waited_for() {
        let left = std::cell::Cell::new(2);
        let opened = patiently(|| {
            if left.replace(left.get() - 1) > 0 {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            net::tcp_listener(SocketAddr::from(([127, 0, 0, 1], 0)), 16, false)
        });
        assert!(opened.is_ok());
        assert_eq!(left.get(), -1);
        let refused = patiently(|| Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(
            refused.map_err(|error| error.kind()).err(),
            Some(io::ErrorKind::PermissionDenied)
        );
    }

    #[test]
    fn a_listener_says_its_kind() {
        for kind in ListenerKind::ALL {
            for number in [0, 1, 77] {
                assert_eq!(ListenerKind::of(kind.id(number)), kind);
            }
        }
    }

    #[test]
    fn a_name_stands_for_all_its_addresses_that_are_here() {
        // Of the range that documents use.
        let elsewhere = [192, 0, 2, 1];
        let (here, too) = ([127, 0, 0, 1], [127, 0, 0, 2]);
        let both = Ok(vec!["127.0.0.1".to_owned(), "127.0.0.2".to_owned()]);
        assert_eq!(opened(&[here, elsewhere, too, here]), both);
        assert_eq!(opened(&[elsewhere]), Err(true));
    }
}
