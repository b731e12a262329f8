//! The title of the process: what `ps` shows of it, /proc/PID/cmdline. It is written over the
//! arguments and the environment that the process was started with, which go elsewhere; so nobody
//! reads a password there any more.
//!
//! 1. glibc calls the functions in `.init_array` with the arguments of `main`, once, before that.
//! 2. The kernel has laid the texts of both one behind the other in memory of this process, which
//!    stays, and may be written to.
//! 3. They are copied then, when no thread of this program runs. All that pointed to them points to
//!    the copies from then on, and the copies stay; so nobody else looks into that memory.
//!
//! Not here: what the title says. Tests: the bad day `process_title`.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Where the title is written.
static ROOM: Mutex<Option<Room>> = Mutex::new(None);
/// Whether this program wants to have one.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

struct Room {
    first: *mut u8,
    bytes: usize,
}

// SAFETY: whoever has it is alone with that memory (invariant 3), whichever thread that is.
unsafe impl Send for Room {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[used]
// SAFETY: its entries are pointers to functions of this kind (invariant 1).
#[unsafe(link_section = ".init_array")]
static MAKE_ROOM: extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = make_room;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
extern "C" fn make_room(_: c_int, arguments: *mut *mut c_char, variables: *mut *mut c_char) {
    // SAFETY: these are the lists, and nobody else uses them now (invariants 1 and 3).
    let room = unsafe { copy_away(arguments, variables) };
    *ROOM.lock() = room;
}

/// Lets this program have titles from now on.
pub fn begin() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Lets the process be called this, as far as there is room; whether there is any.
pub fn set(text: &str) -> bool {
    let room = ROOM.lock();
    let Some(Room { first, bytes }) = *room else { return false };
    if !IS_WANTED.load(Ordering::Relaxed) {
        return false;
    }
    let text = text.split('\0').next().unwrap_or_default();
    // One byte stays zero.
    let length = text.len().min(bytes - 1);
    // SAFETY: so many bytes are there (invariant 2), nobody else uses them (invariant 3), and the
    // title is not among them.
    unsafe {
        first.write_bytes(0, bytes);
        first.copy_from_nonoverlapping(text.as_ptr(), length);
    }
    true
}

/// Copies arguments and environment; where they lay.
///
/// # Safety
/// Both are lists of texts that end with a null pointer, and nobody else uses them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe fn copy_away(arguments: *mut *mut c_char, variables: *mut *mut c_char) -> Option<Room> {
    if arguments.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let first = *arguments;
        let mut end = first;
        for list in [arguments, variables] {
            let mut at = list;
            while !at.is_null() && !(*at).is_null() {
                let text = CStr::from_ptr(*at);
                if *at == end {
                    end = end.add(text.count_bytes() + 1);
                }
                // It stays for as long as the process.
                *at = text.to_owned().into_raw();
                at = at.add(1);
            }
        }
        rename_for_libc(*arguments);
        let bytes = end.offset_from_unsigned(first);
        (bytes > 0).then_some(Room { first: first.cast(), bytes })
    }
}

/// glibc has pointers of its own to the name of the program, for its messages.
///
/// # Safety
/// There is one thread, and the name stays.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe fn rename_for_libc(name: *mut c_char) {
    unsafe extern "C" {
        static mut program_invocation_name: *mut c_char;
        static mut program_invocation_short_name: *mut c_char;
    }
    // SAFETY: the caller's promise.
    unsafe {
        program_invocation_name = name;
        program_invocation_short_name = name;
    }
}
