//! The system calls of this crate that the standard library does not offer.
//!
//! 1. `rlimit` and `timespec` are plain structs of two integers; the kernel reads or writes exactly
//!    that.
//! 2. An address is handed over in the space of `sockaddr_in6`, which is the longer of the two
//!    kinds and begins like the other, with the length of its own kind.
//! 3. The handler of a crash calls only async-signal-safe functions (signal-safety(7)), and
//!    `backtrace`, which glibc allows once its library is loaded. What it stores is atomic.
//!
//! Tests: foot of the file; the bad day `crash_report`.

pub mod title;

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Raises the process's limit of open descriptors to `want`, or as far as allowed. Returns the
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
    // Beyond the hard limit first: that succeeds if the process is privileged.
    for hard in [limit.rlim_max.max(want), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: want.min(hard), rlim_max: hard };
        // SAFETY: as above; the kernel only reads it.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return raised.rlim_cur;
        }
    }
    limit.rlim_cur
}

/// The number of the group with this name, if there is one.
///
/// # Errors
/// The system cannot look it up.
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: a struct of integers and pointers, for which zero is a value.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let (mut found, mut text) = (std::ptr::null_mut(), vec![0; 1 << 10]);
    loop {
        // SAFETY: all of them live through the call, and `text` has that many bytes. What `entry`
        // points to is not read afterwards.
        let failed = unsafe {
            let (at, len) = (text.as_mut_ptr(), text.len());
            libc::getgrnam_r(name.as_ptr(), &raw mut entry, at, len, &raw mut found)
        };
        match failed {
            0 => return Ok((!found.is_null()).then_some(entry.gr_gid)),
            libc::ERANGE if text.len() < MOST_GROUP_BYTES => text.resize(text.len() * 4, 0),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// The longest entry of a group, with the names of its members.
const MOST_GROUP_BYTES: usize = 1 << 22;

/// Whether an error means that the process, or the system, has too many open files.
pub fn is_short_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Prevents core files of this process; returns whether that worked. The limit is one byte: too
/// little for a file, and the only value with which no core is given to a program either
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

/// By how much the nice value of a thread with long work is raised.
const NICER_BY: libc::c_int = 5;

/// Lowers the priority of the calling thread within the process: if there are not enough cores,
/// short work goes before long work.
pub fn yield_to_others() {
    // SAFETY: takes three integers. For `who` 0 Linux means the calling thread. Refused, it changes
    // nothing.
    let _refused = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICER_BY) };
}

/// The time slice that a thread of short turns requests: the least that Linux grants.
const SHORT_SLICE_NS: u64 = 100_000;

/// Requests short time slices for the calling thread. Linux (from 6.12 on) lets such a thread, when
/// it wakes, preempt one with longer slices at once, which otherwise keeps the core for up to three
/// milliseconds; older kernels ignore it. The thread's share stays the same.
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

/// Waits until a started connection is established.
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

/// An address in the kernel's form, in the space of the longer kind, and its length.
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

/// The time that a thread of this process has spent on a core; any thread may ask.
#[derive(Clone, Copy, Debug)]
pub struct CoreClock(libc::clockid_t);

impl CoreClock {
    /// The clock of the calling thread.
    pub fn of_this_thread() -> Option<CoreClock> {
        let mut clock = 0;
        // SAFETY: the calling thread lives, and `clock` does through the call.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        (failed == 0).then_some(CoreClock(clock))
    }

    /// Microseconds since the thread began. `None` when it has ended.
    pub fn us(self) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` lives through the call and has the layout that it wants (invariant 1). A
        // clock of a thread that has ended is refused.
        let failed = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        let us = time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000;
        (failed == 0).then_some(us)
    }
}

/// Preallocates space for a file from `from` on; its length stays. Returns whether that worked.
pub fn set_room_aside(file: &File, from: u64, bytes: u64) -> bool {
    let (Ok(from), Ok(bytes)) = (from.try_into(), bytes.try_into()) else { return false };
    // SAFETY: takes a descriptor, which is open as long as `file` is, and three integers.
    unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from, bytes) == 0 }
}

/// The offset of local time from UTC at this moment (Unix, seconds), in seconds; 0 if unknown.
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

/// The signals that are treated as crashes.
const CRASHES: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
/// The stack that a backtrace needs, with room to spare.
const SIGNAL_STACK_BYTES: usize = 64 << 10;
/// How often a crashed thread waits for the report,
const REPORT_WAITS: u32 = 500;
/// and for how long each time; then the process ends without a report.
static REPORT_WAIT: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// The most registers that are stored.
const MOST_REGISTERS: usize = 34;
/// The most stack frames that are stored.
const MOST_FRAMES: usize = 64;

/// The facts of a crash, written once by the crashed thread.
#[derive(Debug)]
pub struct Crash {
    /// The signal.
    pub signal: AtomicI32,
    /// Its `si_code`: zero or less if a process has sent the signal.
    pub code: AtomicI32,
    /// The process that has sent the signal.
    pub sender_pid: AtomicI32,
    /// The user of that process.
    pub sender_uid: AtomicU32,
    /// The faulting address, if no process has sent the signal.
    pub address: AtomicU64,
    /// The kernel's number of the thread.
    pub thread: AtomicI32,
    /// Its registers, in the order of [`REGISTER_NAMES`].
    pub registers: [AtomicU64; MOST_REGISTERS],
    /// Its stack: the address of each frame; zero after the last.
    pub frames: [AtomicU64; MOST_FRAMES],
}

static CRASH: Crash = Crash {
    signal: AtomicI32::new(0),
    code: AtomicI32::new(0),
    sender_pid: AtomicI32::new(0),
    sender_uid: AtomicU32::new(0),
    address: AtomicU64::new(0),
    thread: AtomicI32::new(0),
    registers: [const { AtomicU64::new(0) }; MOST_REGISTERS],
    frames: [const { AtomicU64::new(0) }; MOST_FRAMES],
};
static HAS_CRASHED: AtomicBool = AtomicBool::new(false);
static IS_REPORTED: AtomicBool = AtomicBool::new(false);
/// The pipe whose reader reports the crash.
static REPORTER: AtomicI32 = AtomicI32::new(-1);

/// Names of the registers of a [`Crash`], in order; the first is the instruction pointer.
#[cfg(target_arch = "x86_64")]
pub const REGISTER_NAMES: &[&str] = &[
    "RIP", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15", "RDI", "RSI", "RBP", "RBX", "RDX",
    "RAX", "RCX", "RSP",
];
/// Names of the registers of a [`Crash`], in order; the first is the instruction pointer.
#[cfg(not(target_arch = "x86_64"))]
pub const REGISTER_NAMES: &[&str] = &["PC", "SP"];

/// Waits for a crash; the report ends the process.
#[derive(Debug)]
pub struct CrashWatch(PipeReader);

impl CrashWatch {
    /// Starts to catch crashes, once per process.
    ///
    /// # Errors
    /// There are no descriptors.
    pub fn begin() -> io::Result<CrashWatch> {
        let (reader, writer) = io::pipe()?;
        // `backtrace` loads a library when first called, which would be impossible after a crash.
        look_at_stack();
        CRASH.frames.iter().for_each(|frame| frame.store(0, Ordering::Relaxed));
        REPORTER.store(writer.into_raw_fd(), Ordering::Relaxed);
        for signal in CRASHES {
            // SAFETY: all of its fields are integers.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = crashed as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // SAFETY: `action` lives through the call, and `crashed` does only what a handler may.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
        Ok(CrashWatch(reader))
    }

    /// Waits for a crash. The crashed thread waits until the result is dropped.
    pub fn wait(mut self) -> Option<CrashSeen> {
        self.0.read_exact(&mut [0]).ok().map(|()| CrashSeen(&CRASH))
    }
}

/// Sends this thread the signal of a memory fault, which ends the process.
pub fn raise_fault() {
    // SAFETY: takes a number, and touches no memory.
    unsafe { libc::raise(libc::SIGSEGV) };
}

/// A crash that is being reported.
#[derive(Debug)]
pub struct CrashSeen(pub &'static Crash);

impl Drop for CrashSeen {
    fn drop(&mut self) {
        IS_REPORTED.store(true, Ordering::Release);
    }
}

/// The handler: stores the facts, has them reported, and ends the process by the signal.
extern "C" fn crashed(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if !HAS_CRASHED.swap(true, Ordering::AcqRel) {
        // SAFETY: the kernel hands over both, for as long as the handler runs.
        unsafe { note_crash(signal, &*info, &*context.cast::<libc::ucontext_t>()) };
        if has_large_stack() {
            look_at_stack();
        }
        // SAFETY: writes one byte that is there.
        unsafe { libc::write(REPORTER.load(Ordering::Relaxed), [0u8].as_ptr().cast(), 1) };
    }
    for _ in 0..REPORT_WAITS {
        if IS_REPORTED.load(Ordering::Acquire) {
            break;
        }
        // SAFETY: the time is a constant, and nobody wants to know what is left of it.
        unsafe { libc::nanosleep(&raw const REPORT_WAIT, std::ptr::null_mut()) };
    }
    // SAFETY: both take integers alone. The signal comes when the handler has returned.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// # Safety
/// `info` and `context` are those of a handler of this signal.
unsafe fn note_crash(signal: libc::c_int, info: &libc::siginfo_t, context: &libc::ucontext_t) {
    let relaxed = Ordering::Relaxed;
    CRASH.signal.store(signal, relaxed);
    CRASH.code.store(info.si_code, relaxed);
    if info.si_code <= 0 {
        // SAFETY: the signal was sent by a process, so these fields are set.
        let (pid, uid) = unsafe { (info.si_pid(), info.si_uid()) };
        CRASH.sender_pid.store(pid, relaxed);
        CRASH.sender_uid.store(uid, relaxed);
    } else {
        // SAFETY: the processor has met it, so this field is there.
        CRASH.address.store(unsafe { info.si_addr() } as u64, relaxed);
    }
    // SAFETY: takes no argument.
    CRASH.thread.store(unsafe { libc::gettid() }, relaxed);
    for (place, value) in CRASH.registers.iter().zip(registers(context)) {
        place.store(value, relaxed);
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> impl Iterator<Item = u64> {
    let all = &context.uc_mcontext.gregs;
    let named = all.iter().take(16).map(|value| value.cast_unsigned());
    std::iter::once(all[libc::REG_RIP as usize].cast_unsigned()).chain(named)
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> impl Iterator<Item = u64> {
    [context.uc_mcontext.pc, context.uc_mcontext.sp].into_iter()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn registers(_: &libc::ucontext_t) -> impl Iterator<Item = u64> {
    std::iter::empty()
}

/// Stores the backtrace of the calling thread.
fn look_at_stack() {
    let mut frames = [std::ptr::null_mut(); MOST_FRAMES];
    // SAFETY: as many are written as there is room for.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), MOST_FRAMES as libc::c_int) };
    let found = frames.iter().take(usize::try_from(count).unwrap_or_default());
    for (place, frame) in CRASH.frames.iter().zip(found) {
        place.store(*frame as u64, Ordering::Relaxed);
    }
}

/// Whether the calling handler has room for a backtrace: it runs on the thread's own stack, or on a
/// [`SignalStack`].
fn has_large_stack() -> bool {
    // SAFETY: all of its fields are integers, or a pointer that may be null.
    let mut now: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: only writes what is asked for.
    unsafe { libc::sigaltstack(std::ptr::null(), &raw mut now) };
    now.ss_flags & libc::SS_ONSTACK == 0 || now.ss_size >= SIGNAL_STACK_BYTES
}

/// A stack for signal handlers of the calling thread with room for a backtrace: the standard
/// library's own is large enough only for the message that the stack has overflowed.
#[derive(Debug)]
pub struct SignalStack {
    memory: Box<[u8]>,
    before: libc::stack_t,
}

impl SignalStack {
    /// Installs it for the calling thread, until it is dropped there.
    pub fn take() -> SignalStack {
        // SAFETY: all of its fields are integers, or a pointer that may be null.
        let mut before: libc::stack_t = unsafe { std::mem::zeroed() };
        let mut memory = vec![0; SIGNAL_STACK_BYTES].into_boxed_slice();
        let stack =
            libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        // SAFETY: the memory lives until `drop` has put the stack before in its place.
        unsafe { libc::sigaltstack(&raw const stack, &raw mut before) };
        SignalStack { memory, before }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: the stack before was the thread's until this one was taken.
        let given_back = unsafe { libc::sigaltstack(&raw const self.before, std::ptr::null_mut()) };
        if given_back != 0 {
            // A handler may still run there: better leaked than freed.
            std::mem::forget(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn groups_have_numbers() {
        use super::group_id;
        assert_eq!(group_id("root").unwrap(), Some(0));
        assert_eq!(group_id("no group of this name").unwrap(), None);
        assert!(group_id("a\0b").is_err());
    }

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
