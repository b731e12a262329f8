//! The system calls of this crate that the standard library does not offer.
//!
//! 1. `rlimit` and `timespec` are plain structs of two integers; the kernel reads or writes exactly
//!    that.
//! 2. An address is handed over in the space of `sockaddr_in6`, which is the longer of the two
//!    kinds and begins like the other, with the length of its own kind.
//!
//! Tests: foot of the file.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Raises the process's limit of open descriptors to `want`, or as far as it may go. Returns the
/// limit then in force; 0 when it cannot be read.
pub fn raise_fd_limit(want: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call and has the layout that it wants (invariant 1).
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    if limit.rlim_cur >= want {
        return limit.rlim_cur;
    }
    // Beyond the hard limit first: that succeeds where the process is privileged.
    for hard in [limit.rlim_max.max(want), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: want.min(hard), rlim_max: hard };
        // SAFETY: as above; the kernel only reads it.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return raised.rlim_cur;
        }
    }
    limit.rlim_cur
}

/// Whether something failed because the process, or the system, has too many files open.
pub fn is_short_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Lets the kernel write no core file of this process; whether it will not. The limit is one byte:
/// too little for a file, and the one value with which none is given to a program either
/// (`core_pattern` with a pipe; core(5) and fs/coredump.c).
pub fn forbid_core_files() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call and has the layout that it wants (invariant 1).
    if unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) } != 0 {
        return false;
    }
    limit.rlim_cur = limit.rlim_max.min(1);
    // SAFETY: as above; the kernel only reads it.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) == 0 }
}

/// By so much a thread of long work is nicer than others.
const NICER_BY: libc::c_int = 5;

/// Lets the calling thread yield the processor to the others of the process: where there are not
/// enough cores, short work goes before long work.
pub fn yield_to_others() {
    // SAFETY: takes three integers. For `who` 0 Linux means the calling thread. Refused, it changes
    // nothing.
    let _refused = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICER_BY) };
}

/// How long a thread of short turns asks to run at a time: the least that Linux grants.
const SHORT_SLICE_NS: u64 = 100_000;

/// Asks for short time slices for the calling thread. Linux (from 6.12 on) lets such a thread, when
/// it wakes, take the core at once from one with longer slices, which otherwise keeps it for up to
/// three milliseconds; older kernels take no notice. The thread's share stays as it was.
pub fn ask_for_short_slices() {
    // SAFETY: all of its fields are integers.
    let mut wanted: libc::sched_attr = unsafe { std::mem::zeroed() };
    wanted.size = size_of::<libc::sched_attr>() as u32;
    wanted.sched_policy = libc::SCHED_OTHER as u32;
    wanted.sched_runtime = SHORT_SLICE_NS;
    // SAFETY: takes no argument; 0 when it fails, too.
    wanted.sched_nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: `wanted` lives through the call, and the kernel only reads it, as far as `size` says.
    // Thread 0 is the calling one. Refused, it changes nothing.
    let _refused = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
}

/// Connects to `to` from the local address `source`, within `most`.
///
/// # Errors
/// The address is not this machine's, or of another family; or nobody answers there.
pub fn connect_from(source: IpAddr, to: &SocketAddr, most: Duration) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes three integers.
    let socket = unsafe { libc::socket(family, kind, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made here, and nobody else has it.
    let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(socket) });
    let (from, length) = raw_address(&SocketAddr::new(source, 0));
    // SAFETY: `from` lives through the call and is as long as is said (invariant 2).
    if unsafe { libc::bind(socket, (&raw const from).cast(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (address, length) = raw_address(to);
    // SAFETY: as above.
    let connected = unsafe { libc::connect(socket, (&raw const address).cast(), length) };
    if connected != 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINPROGRESS) {
            return Err(error);
        }
        wait_until_connected(&stream, most)?;
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Until a connection that was begun is there.
fn wait_until_connected(stream: &TcpStream, most: Duration) -> io::Result<()> {
    let mut polled = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let most_ms = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `polled` is one descriptor, lives through the call and has the layout that it wants.
    match unsafe { libc::poll(&raw mut polled, 1, most_ms) } {
        0 => Err(io::ErrorKind::TimedOut.into()),
        1.. => stream.take_error()?.map_or(Ok(()), Err),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An address as the kernel has it, in the space of the longer one, and how long it is.
fn raw_address(address: &SocketAddr) -> (libc::sockaddr_in6, libc::socklen_t) {
    // SAFETY: all of its fields are integers.
    let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    match address {
        SocketAddr::V6(v6) => {
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_addr.s6_addr = v6.ip().octets();
            raw.sin6_scope_id = v6.scope_id();
            (raw, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
        SocketAddr::V4(v4) => {
            // `sockaddr_in` has family and port at the same places, and the address behind them,
            // where this has the flow.
            raw.sin6_family = libc::AF_INET as libc::sa_family_t;
            raw.sin6_port = v4.port().to_be();
            raw.sin6_flowinfo = u32::from_ne_bytes(v4.ip().octets());
            (raw, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
    }
}

/// How long a thread of this process has been on a core: any other may ask.
#[derive(Clone, Copy, Debug)]
pub struct CoreClock(libc::clockid_t);

impl CoreClock {
    /// That of the calling thread.
    pub fn of_this_thread() -> Option<CoreClock> {
        let mut clock = 0;
        // SAFETY: the calling thread lives, and `clock` does through the call.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        (failed == 0).then_some(CoreClock(clock))
    }

    /// Microseconds since the thread began. None when it has ended.
    pub fn us(self) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` lives through the call and has the layout that it wants (invariant 1). A
        // clock of a thread that has ended is refused.
        let failed = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        let us = time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000;
        (failed == 0).then_some(us)
    }
}

/// Has the file system set room aside for what will be written to a file from `from` on; its length
/// stays. Whether there was room, and the file system can.
pub fn set_room_aside(file: &File, from: u64, bytes: u64) -> bool {
    let (Ok(from), Ok(bytes)) = (from.try_into(), bytes.try_into()) else { return false };
    // SAFETY: takes a descriptor, which is open as long as `file` is, and three integers.
    unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from, bytes) == 0 }
}

/// How far local time is ahead of UTC at this moment (Unix, seconds), in seconds; 0 where nobody
/// knows.
pub fn local_offset_s(unix_s: i64) -> i64 {
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid through the call, which writes a whole `tm` or fails. All
    // zeroes are a `tm`, too: its pointer, which is not looked at, may be null.
    let found = unsafe { libc::localtime_r(&raw const unix_s, local.as_mut_ptr()) };
    if found.is_null() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { local.assume_init() }.tm_gmtoff
}

#[cfg(test)]
mod tests {
    #[test]
    fn local_time_is_less_than_a_day_from_utc() {
        for unix_s in [0, 1_795_000_000, i64::MAX] {
            let offset_s = super::local_offset_s(unix_s);
            assert!(offset_s.abs() < 86_400 && offset_s % 60 == 0, "{unix_s}: {offset_s}");
        }
    }

    #[test]
    fn limit_is_raised_and_never_lowered() {
        let now = super::raise_fd_limit(1);
        assert!(now >= 1);
        let raised = super::raise_fd_limit(now + 1);
        assert!(raised == now || raised == now + 1);
        assert_eq!(super::raise_fd_limit(1), raised);
    }

    #[test]
    fn room_is_no_length() {
        let name = format!("pantala-room-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = std::fs::File::create(&path).expect("a file for the test");
        let _not_every_file_system_can = super::set_room_aside(&file, 0, 1 << 20);
        assert!(!super::set_room_aside(&file, 0, u64::MAX));
        assert_eq!(file.metadata().expect("it is there").len(), 0);
        std::fs::remove_file(&path).expect("removed");
    }
}
