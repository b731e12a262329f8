//! The two queues, the system call, and the probe of the kernel's features.
//!
//! Invariants
//! 1. An entry is pushed only by a caller that keeps its memory alive until the final completion.
//! 2. Until `enable` the ring belongs to no thread; from then on to the calling one.
//! 3. The ring's descriptor is registered with that thread, which saves a look-up per call, and
//!    unregistered in `Drop`: otherwise the thread would keep the ring alive.
//! 4. Registrations get a pointer to a local, and keep none.
//!
//! Not here: the meaning of entries (`uring`). Tests: `tests/engines`.

use io_uring::types::{Fd, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

/// The longest wait, which the kernel's signed seconds can hold.
const LONGEST_WAIT: Duration = Duration::from_secs(1 << 31);

const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// The kernel's `struct io_uring_getevents_arg`.
#[repr(C)]
struct WaitArgument {
    signal_mask: u64,
    signal_mask_bytes: u32,
    min_wait_us: u32,
    timespec: u64,
}

/// The kernel's `struct io_uring_rsrc_update`.
#[repr(C)]
struct RingRegistration {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// Optional features of io_uring: those of this kernel, or (in `ReactorConfig`) those not to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// One receive request serves until cancelled (kernel 6.0).
    pub multishot_receive: bool,
    /// The kernel's part of the work runs only when asked for (kernel 6.1).
    pub defer_taskrun: bool,
}

impl Features {
    /// The features of `self` that are not in `unwanted`.
    pub(crate) fn without(self, unwanted: Features) -> Features {
        Features {
            multishot_receive: self.multishot_receive && !unwanted.multishot_receive,
            defer_taskrun: self.defer_taskrun && !unwanted.defer_taskrun,
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("io_uring")?;
        for (has, name) in
            [(self.multishot_receive, " multishot-receive"), (self.defer_taskrun, " defer-taskrun")]
        {
            if has {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

pub(crate) struct Ring {
    ring: IoUring,
    /// Entries that found the queue full.
    waiting: Vec<squeue::Entry>,
    enabled: bool,
    registered: Option<u32>,
}

impl Ring {
    pub(crate) fn new(entries: u32, completions: u32, features: Features) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(completions).setup_submit_all().setup_r_disabled();
        builder.dontfork();
        if features.defer_taskrun {
            builder.setup_single_issuer().setup_defer_taskrun();
        } else {
            builder.setup_coop_taskrun();
        }
        let ring = builder.build(entries)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring { ring, waiting: Vec::new(), enabled: false, registered: None })
    }

    /// Binds the ring to this thread, once (2, 3).
    #[inline]
    pub(crate) fn enable(&mut self) -> io::Result<bool> {
        if self.enabled {
            return Ok(false);
        }
        self.ring.submitter().register_enable_rings()?;
        self.enabled = true;
        let fd = self.ring.as_raw_fd();
        let mut entry = RingRegistration { offset: u32::MAX, reserved: 0, data: fd as u64 };
        // Not vital: without it every call looks the descriptor up.
        if register(fd, REGISTER_RING_FDS, (&raw mut entry).cast()).is_ok() {
            self.registered = Some(entry.offset);
        }
        Ok(true)
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Access for calls on the ring itself, such as registering buffers.
    pub(crate) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.ring.submitter()
    }

    /// Queues an entry; it reaches the kernel with the next `enter`.
    ///
    /// # Safety
    /// Whatever memory the entry points to must stay alive and in place until its final
    /// completion (1).
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry) {
        if self.waiting.is_empty() {
            // SAFETY: the caller's promise (1).
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            self.make_room();
            // SAFETY: the caller's promise (1).
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.waiting.push(entry);
    }

    #[cold]
    fn make_room(&mut self) {
        // Failure leaves the queue full; the entry then waits in `waiting`.
        if self.enabled {
            let _ = self.enter_raw(0, 0, None);
        }
    }

    /// Whether entries were not submitted yet.
    #[inline]
    pub(crate) fn has_unsubmitted(&mut self) -> bool {
        !self.waiting.is_empty() || !self.ring.submission().is_empty()
    }

    /// Submits everything queued; then, if it may `sleep`, waits for a completion or until the time
    /// is over.
    #[inline]
    pub(crate) fn enter(&mut self, sleep: bool, timeout: Option<Duration>) -> io::Result<()> {
        while !self.waiting.is_empty() {
            self.refill();
            if self.waiting.is_empty() {
                break;
            }
            let before = self.waiting.len();
            self.enter_raw(0, 0, None)?;
            self.refill();
            if self.waiting.len() == before {
                break;
            }
        }
        let timeout = if sleep { timeout } else { None };
        match self.enter_raw(u32::from(sleep), ENTER_GETEVENTS, timeout) {
            Ok(()) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time is over, a signal, or "reap completions first": the caller does just that.
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn refill(&mut self) {
        let mut queue = self.ring.submission();
        let room = (queue.capacity() - queue.len()).min(self.waiting.len());
        for entry in self.waiting.drain(..room) {
            // SAFETY: `push` took it under the same promise (1).
            let pushed = unsafe { queue.push(&entry) };
            debug_assert!(pushed.is_ok());
        }
    }

    #[inline]
    fn enter_raw(
        &mut self,
        want: u32,
        mut flags: u32,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let count = self.ring.submission().len() as u32;
        let fd = match self.registered {
            Some(index) => {
                flags |= ENTER_REGISTERED_RING;
                index as i32
            }
            None => self.ring.as_raw_fd(),
        };
        let timespec = timeout.map(|timeout| Timespec::from(timeout.min(LONGEST_WAIT)));
        let argument = WaitArgument {
            signal_mask: 0,
            signal_mask_bytes: 0,
            min_wait_us: 0,
            timespec: timespec.as_ref().map_or(0, |t| std::ptr::from_ref(t) as u64),
        };
        let (pointer, bytes) = match timespec {
            Some(_) => {
                flags |= ENTER_EXT_ARG;
                (&raw const argument, size_of::<WaitArgument>())
            }
            None => (std::ptr::null(), 0),
        };
        // SAFETY: the argument and its timespec are locals; the entries' memory is alive by (1).
        let result = unsafe {
            libc::syscall(libc::SYS_io_uring_enter, fd, count, want, flags, pointer, bytes)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next completion, if one is there.
    #[inline]
    pub(crate) fn completions(&mut self) -> cqueue::CompletionQueue<'_> {
        self.ring.completion()
    }

    /// Whether the kernel keeps completions back for lack of room.
    #[inline]
    pub(crate) fn overflowed(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some(offset) = self.registered {
            let mut entry = RingRegistration { offset, reserved: 0, data: 0 };
            // In another thread this fails, harmlessly: the registration dies with its thread.
            let _ = register(self.ring.as_raw_fd(), UNREGISTER_RING_FDS, (&raw mut entry).cast());
        }
    }
}

fn register(fd: RawFd, what: u32, argument: *mut libc::c_void) -> io::Result<()> {
    // SAFETY: both callers pass one valid `RingRegistration` (4).
    let result = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, what, argument, 1) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The features of this kernel, probed once per process.
///
/// # Errors
/// io_uring is absent, forbidden or too old (multishot accept and buffer rings: 5.19).
pub(crate) fn probe() -> io::Result<Features> {
    static FOUND: OnceLock<Result<Features, i32>> = OnceLock::new();
    FOUND
        .get_or_init(|| probe_now().map_err(|e| e.raw_os_error().unwrap_or(libc::ENOSYS)))
        .map_err(io::Error::from_raw_os_error)
}

fn probe_now() -> io::Result<Features> {
    let mut features = Features { multishot_receive: false, defer_taskrun: true };
    let area = crate::area::Area::new(4096)?;
    let mut buffers = super::buffers::Buffers::new(2, 64, 2)?;
    let mut ring = match Ring::new(8, 16, features) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            features.defer_taskrun = false;
            Ring::new(8, 16, features)?
        }
        other => other?,
    };
    buffers.register(&ring)?;
    buffers.give_back(&area, false);
    ring.enable()?;
    features.multishot_receive = can_receive_many_times(&mut ring)?;
    if !tells_of_short_sends(&mut ring)? {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(features)
}

/// Tries a multishot receive on a socket pair whose other end is closed: an old kernel returns
/// `EINVAL`, a suitable one end of file.
fn can_receive_many_times(ring: &mut Ring) -> io::Result<bool> {
    let (ours, theirs) = UnixStream::pair()?;
    drop(theirs);
    let entry = opcode::RecvMulti::new(Fd(ours.as_raw_fd()), 0).build();
    // SAFETY: the entry points to no memory of ours but the registered buffers (1).
    unsafe { ring.push(entry) };
    ring.enter(true, Some(Duration::from_secs(1)))?;
    Ok(ring.completions().next().is_some_and(|completion| completion.result() == 0))
}

/// Tries a quick send that no socket buffer can hold. Quick sends (see `uring`) depend on the
/// result: a send that took only a part must not be silent.
fn tells_of_short_sends(ring: &mut Ring) -> io::Result<bool> {
    let (ours, _theirs) = UnixStream::pair()?;
    let bytes = vec![0u8; 32 << 20];
    let entry = super::core::quick_send_entry(&ours, &bytes);
    // SAFETY: with `MSG_DONTWAIT` the kernel has let go of `bytes` when `enter` returns (1).
    unsafe { ring.push(entry) };
    ring.enter(true, Some(Duration::from_secs(1)))?;
    let result = ring.completions().next().map(|completion| completion.result());
    Ok(result.is_some_and(|result| result > 0 && (result as usize) < bytes.len()))
}
