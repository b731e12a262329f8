//! Creating, configuring and describing sockets: calls around the loop, none of them per command.
//!
//! Invariants
//! 1. Pointers given to a call are to locals, with their length, and not kept by the call.
//! 2. A descriptor that a call returns has no other owner.
//! 3. `sockaddr_storage` has room and alignment for the address of every family, and any bytes,
//!    zeroes too, are a valid one of each.
//!
//! Not here: reading and writing. Tests: below.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::Path;

/// Opens a listening TCP socket. An IPv6 socket takes only IPv6, so that `0.0.0.0` and `::` can be
/// bound side by side. `reuse_port` lets several sockets share the port.
///
/// # Errors
/// Those of `socket`, `bind` and `listen`, with the address in the text.
pub fn tcp_listener(address: SocketAddr, backlog: i32, reuse_port: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    listen_at(family, address, backlog, reuse_port)
        .map_err(|error| explained(error, format!("cannot listen on {address}")))
}

fn listen_at(
    family: i32,
    address: SocketAddr,
    backlog: i32,
    reuse_port: bool,
) -> io::Result<OwnedFd> {
    let socket = new_socket(family)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if reuse_port {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    if address.is_ipv6() {
        set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    let (storage, length) = to_sockaddr(address);
    bind(&socket, &storage, length)?;
    listen(&socket, backlog)?;
    Ok(socket)
}

/// Who may connect to a Unix socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketAccess {
    /// As for chmod; `None`: by the umask.
    pub permissions: Option<u32>,
    /// The number of its group; `None`: that of the process.
    pub group: Option<u32>,
}

/// Opens a listening Unix socket at `path`. A socket file without a listener is replaced.
///
/// # Errors
/// Those of the kernel, with the path in the text; `AddrInUse` if a server listens there, or if the
/// file is not a socket.
pub fn unix_listener(path: &Path, access: SocketAccess, backlog: i32) -> io::Result<OwnedFd> {
    listen_at_path(path, access, backlog)
        .map_err(|error| explained(error, format!("cannot listen on {}", path.display())))
}

fn listen_at_path(path: &Path, access: SocketAccess, backlog: i32) -> io::Result<OwnedFd> {
    let socket = bound_at_path(path, access)?;
    listen(&socket, backlog)?;
    Ok(socket)
}

/// Binds a socket and sets its group and permissions: before it listens nobody can connect, so the
/// umask's permissions never apply.
fn bound_at_path(path: &Path, access: SocketAccess) -> io::Result<OwnedFd> {
    let (storage, length) = to_sockaddr_un(path)?;
    if fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        if is_served(&storage, length)? {
            return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
        }
        fs::remove_file(path)?;
    }
    let socket = new_socket(libc::AF_UNIX)?;
    bind(&socket, &storage, length)?;
    if let Some(group) = access.group {
        chown(path, None, Some(group))?;
    }
    if let Some(permissions) = access.permissions {
        fs::set_permissions(path, fs::Permissions::from_mode(permissions))?;
    }
    Ok(socket)
}

/// Whether a server accepts connections at this Unix address.
fn is_served(storage: &libc::sockaddr_storage, length: u32) -> io::Result<bool> {
    let socket = new_socket(libc::AF_UNIX)?;
    let address = std::ptr::from_ref(storage).cast();
    // SAFETY: `storage` holds an address of `length` bytes (1).
    let connected = unsafe { libc::connect(socket.as_raw_fd(), address, length) } == 0;
    // EAGAIN: its backlog is full, so it lives.
    Ok(connected || io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN))
}

/// Starts to connect to a TCP address: for `Ops::adopt_connecting`.
///
/// # Errors
/// Those that the kernel reports at once, with the address in the text: no such network, no port
/// left.
pub fn connect_tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    begin_connect(family, to_sockaddr(address))
        .map_err(|error| explained(error, format!("cannot connect to {address}")))
}

/// Starts to connect to a Unix socket.
///
/// # Errors
/// Those that the kernel reports at once, with the path in the text: nobody listens there, its
/// backlog is full.
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    to_sockaddr_un(path)
        .and_then(|address| begin_connect(libc::AF_UNIX, address))
        .map_err(|error| explained(error, format!("cannot connect to {}", path.display())))
}

fn begin_connect(
    family: i32,
    (storage, length): (libc::sockaddr_storage, u32),
) -> io::Result<OwnedFd> {
    let socket = new_socket(family)?;
    let address = (&raw const storage).cast();
    // SAFETY: `storage` holds an address of `length` bytes (1).
    let result = check(unsafe { libc::connect(socket.as_raw_fd(), address, length) });
    match result {
        // Interrupted: the connect continues all the same.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
            Err(error)
        }
        _ => Ok(socket),
    }
}

fn new_socket(family: i32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers involved; the descriptor is new (2).
    unsafe {
        let fd = libc::socket(family, kind, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

fn bind(socket: &OwnedFd, storage: &libc::sockaddr_storage, length: u32) -> io::Result<()> {
    let address = std::ptr::from_ref(storage).cast();
    // SAFETY: `storage` holds an address of `length` bytes (1).
    check(unsafe { libc::bind(socket.as_raw_fd(), address, length) })
}

fn listen(socket: &OwnedFd, backlog: i32) -> io::Result<()> {
    // SAFETY: no pointers involved (1).
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })
}

/// Sends small answers at once. Harmless on a Unix socket.
pub fn set_nodelay(socket: impl AsFd) {
    let _ = set_option(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
}

/// Lets the kernel detect dead peers: after `seconds` of silence it probes three times, at
/// intervals of a third. Zero does nothing. Harmless on a Unix socket.
pub fn set_keepalive(socket: impl AsFd, seconds: u32) {
    if seconds == 0 {
        return;
    }
    let idle = i32::try_from(seconds).unwrap_or(i32::MAX);
    let socket = socket.as_fd();
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, idle),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (idle / 3).max(1)),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
    ] {
        let _ = set_option(socket, level, option, value);
    }
}

/// The peer's address in Redis's format: `127.0.0.1:1234`, `[::1]:1234`, `path:0` for a Unix socket
/// (the listener's path: clients have none), `?:0` if it is gone.
pub fn peer_name(socket: impl AsFd) -> String {
    match address_of(&socket, libc::getpeername) {
        // A Unix client has no name of its own: the listener's path says where it connected.
        Some(name) if name == ":0" => local_name(socket),
        Some(name) => name,
        None => "?:0".to_string(),
    }
}

/// The local address, in the same format.
pub fn local_name(socket: impl AsFd) -> String {
    address_of(&socket, libc::getsockname).unwrap_or_else(|| "?:0".to_string())
}

/// Shuts down the writing side.
pub(crate) fn shutdown_write(socket: impl AsFd) {
    // SAFETY: no pointers involved (1). Failure means that the peer is gone: told elsewhere.
    unsafe { libc::shutdown(socket.as_fd().as_raw_fd(), libc::SHUT_WR) };
}

/// Takes the error that the next read or write would report.
pub(crate) fn pending_error(socket: impl AsFd) -> Option<io::Error> {
    let (mut error, mut bytes) = (0i32, size_of::<i32>() as u32);
    let fd = socket.as_fd().as_raw_fd();
    let (place, length) = ((&raw mut error).cast(), &raw mut bytes);
    // SAFETY: at most four bytes are written to a local (1).
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, place, length) };
    (result == 0 && error != 0).then(|| io::Error::from_raw_os_error(error))
}

pub(crate) fn set_nonblocking(socket: impl AsFd) -> io::Result<()> {
    let mut yes: libc::c_int = 1;
    // SAFETY: an int is read from a local (1).
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::FIONBIO, &raw mut yes) })
}

/// Whether a failed accept concerns only one connection that is gone.
pub(crate) fn is_passing_accept_error(error: i32) -> bool {
    matches!(
        error,
        libc::EAGAIN
            | libc::EINTR
            | libc::ECANCELED
            | libc::ECONNABORTED
            | libc::EPROTO
            | libc::EPERM
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::ENONET
            | libc::ENOPROTOOPT
    )
}

type GetName = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut u32) -> i32;

fn address_of(socket: impl AsFd, get: GetName) -> Option<String> {
    // SAFETY: all zeroes is a valid address of no family (3).
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as u32;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: at most `length` bytes are written to `storage` (1).
    let result = unsafe { get(fd, (&raw mut storage).cast(), &raw mut length) };
    (result == 0).then(|| name_of(&storage, length as usize)).flatten()
}

fn name_of(storage: &libc::sockaddr_storage, length: usize) -> Option<String> {
    let start = std::ptr::from_ref(storage);
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which structure it is; any bytes are valid for it (3).
            let address = unsafe { &*start.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(address.sin_port)).to_string())
        }
        libc::AF_INET6 => {
            // SAFETY: as above (3).
            let address = unsafe { &*start.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(address.sin6_port)).to_string())
        }
        libc::AF_UNIX => {
            // SAFETY: as above (3).
            let address = unsafe { &*start.cast::<libc::sockaddr_un>() };
            let path_bytes =
                length.saturating_sub(std::mem::offset_of!(libc::sockaddr_un, sun_path));
            let path: Vec<u8> = address.sun_path[..path_bytes.min(address.sun_path.len())]
                .iter()
                .map(|&byte| byte as u8)
                .take_while(|&byte| byte != 0)
                .collect();
            Some(format!("{}:0", OsStr::from_bytes(&path).to_string_lossy()))
        }
        _ => None,
    }
}

fn to_sockaddr(address: SocketAddr) -> (libc::sockaddr_storage, u32) {
    // SAFETY: all zeroes is a valid address of no family (3).
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let start = &raw mut storage;
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage is large and aligned enough for every family (3).
            let place = unsafe { &mut *start.cast::<libc::sockaddr_in>() };
            place.sin_family = libc::AF_INET as u16;
            place.sin_port = v4.port().to_be();
            place.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            (storage, size_of::<libc::sockaddr_in>() as u32)
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above (3).
            let place = unsafe { &mut *start.cast::<libc::sockaddr_in6>() };
            place.sin6_family = libc::AF_INET6 as u16;
            place.sin6_port = v6.port().to_be();
            place.sin6_addr.s6_addr = v6.ip().octets();
            place.sin6_scope_id = v6.scope_id();
            (storage, size_of::<libc::sockaddr_in6>() as u32)
        }
    }
}

fn to_sockaddr_un(path: &Path) -> io::Result<(libc::sockaddr_storage, u32)> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let bytes = path.as_bytes_with_nul();
    // SAFETY: all zeroes is a valid address of no family (3).
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    // SAFETY: the storage is large and aligned enough for every family (3).
    let place = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_un>() };
    if bytes.len() > place.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    place.sun_family = libc::AF_UNIX as u16;
    for (to, &from) in place.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len();
    Ok((storage, length as u32))
}

fn set_option(socket: impl AsFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let bytes = size_of::<i32>() as u32;
    // SAFETY: four bytes are read from a local (1).
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), bytes) })
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether an error of `tcp_listener` means that this machine does not have the address, or does
/// not know its family.
pub fn is_absent_address(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<SocketError>());
    let number = cause.map_or(error, |explained| &explained.cause).raw_os_error();
    let absent = [libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL, libc::EPROTONOSUPPORT];
    number.is_some_and(|number| absent.contains(&number))
}

/// An error of the kernel, with the operation that failed.
#[derive(Debug)]
struct SocketError {
    doing: String,
    cause: io::Error,
}

impl std::fmt::Display for SocketError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.doing, self.cause)
    }
}

impl std::error::Error for SocketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

fn explained(cause: io::Error, doing: String) -> io::Error {
    io::Error::new(cause.kind(), SocketError { doing, cause })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    fn any_port(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 0)
    }

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("pantala-net-{}-{name}", std::process::id()))
    }

    #[test]
    fn tcp_names_are_printed_as_redis_does() {
        for (ip, prefix) in [("127.0.0.1", "127.0.0.1:"), ("::1", "[::1]:")] {
            let Ok(listener) = tcp_listener(any_port(ip), 16, false) else {
                assert_eq!(ip, "::1", "IPv4 must work; IPv6 may be switched off");
                continue;
            };
            let name = local_name(&listener);
            assert!(name.starts_with(prefix), "{name}");
            let client = TcpStream::connect(&name).unwrap();
            assert_eq!(peer_name(&client), name);
            assert_eq!(local_name(&client), client.local_addr().unwrap().to_string());
        }
    }

    #[test]
    fn a_taken_port_is_named_in_the_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = tcp_listener(address, 16, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }

    #[test]
    fn an_address_of_another_machine_is_absent_and_a_taken_port_is_not() {
        // An address of a range reserved for documentation.
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 0));
        assert!(is_absent_address(&tcp_listener(elsewhere, 16, false).unwrap_err()));
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = tcp_listener(taken.local_addr().unwrap(), 16, false).unwrap_err();
        assert!(!is_absent_address(&error));
    }

    fn with_permissions(permissions: u32) -> SocketAccess {
        SocketAccess { permissions: Some(permissions), group: None }
    }

    fn own_group() -> u32 {
        // SAFETY: it takes nothing and cannot fail.
        unsafe { libc::getegid() }
    }

    /// CVE-2023-45145: a server that listens first lets in clients that its permissions exclude.
    #[test]
    fn permissions_are_set_before_anybody_is_let_in() {
        let path = scratch("permissions");
        // Its own group is the one that a process without privileges may give it.
        let group = Some(own_group());
        let access = SocketAccess { group, ..with_permissions(0o700) };
        let bound = bound_at_path(&path, access).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let error = UnixStream::connect(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        listen(&bound, 16).unwrap();
        UnixStream::connect(&path).unwrap();
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_stale_socket_file_is_replaced_and_a_served_one_is_not() {
        let path = scratch("stale");
        drop(UnixListener::bind(&path).unwrap());
        let listener = unix_listener(&path, with_permissions(0o700), 16).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(
            unix_listener(&path, SocketAccess::default(), 16).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        let client = UnixStream::connect(&path).unwrap();
        assert_eq!(peer_name(&client), format!("{}:0", path.display()));
        let (accepted, _) = UnixListener::from(listener).accept().unwrap();
        assert_eq!(peer_name(&accepted), format!("{}:0", path.display()));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let path = scratch("file");
        fs::write(&path, "precious").unwrap();
        assert_eq!(
            unix_listener(&path, SocketAccess::default(), 16).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        let long = scratch(&"x".repeat(200));
        assert!(unix_listener(&long, SocketAccess::default(), 16).is_err());
    }

    #[test]
    fn options_are_set_on_tcp_and_ignored_on_unix() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_nodelay(&client);
        set_keepalive(&client, 300);
        assert!(client.nodelay().unwrap());
        let get = |level, option| {
            let (mut value, mut bytes) = (0i32, 4u32);
            // SAFETY: four bytes into a local (1).
            unsafe {
                let place = (&raw mut value).cast();
                libc::getsockopt(client.as_raw_fd(), level, option, place, &raw mut bytes);
            }
            value
        };
        assert_eq!(get(libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
        assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 300);
        assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL), 100);
        assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_KEEPCNT), 3);
        let (left, _right) = UnixStream::pair().unwrap();
        set_nodelay(&left);
        set_keepalive(&left, 300);
    }
}
