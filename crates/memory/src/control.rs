//! Reads jemalloc's controls by name, for diagnosis: numbers and texts. Nothing is set. Of the
//! controls that do something and have no value, only harmless ones are called.
//!
//! Invariants: 5 of the crate. Tests: at the foot.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use tikv_jemalloc_sys as jemalloc;

/// The controls that tell a text: for others its bytes would be taken for an address.
const TEXTS: [&[u8]; 2] = [b"version", b"config.malloc_conf"];

/// Reads a control into `room`; whether there is one that fills just that.
fn read(name: &CStr, room: &mut [u8]) -> bool {
    let mut bytes = room.len();
    // SAFETY: the name ends with a zero byte (5); `bytes` is how many there is room for.
    let answer = unsafe {
        jemalloc::mallctl(
            name.as_ptr(),
            room.as_mut_ptr().cast(),
            &raw mut bytes,
            ptr::null_mut(),
            0,
        )
    };
    answer == 0 && bytes == room.len()
}

/// What a control of a number or a switch says; `None`: there is none.
pub fn number(name: &CStr) -> Option<u64> {
    [8, 4, 1].into_iter().find_map(|width| {
        let mut room = [0; 8];
        // Little-endian machines only: the crate has no others.
        read(name, &mut room[..width]).then(|| u64::from_le_bytes(room))
    })
}

/// What a control of a text says; `None`: there is none, or it is not known to be one.
pub fn text(name: &CStr) -> Option<Vec<u8>> {
    if !TEXTS.contains(&name.to_bytes()) {
        return None;
    }
    let mut room = [0; size_of::<*const c_char>()];
    if !read(name, &mut room) {
        return None;
    }
    let text = ptr::with_exposed_provenance::<c_char>(usize::from_ne_bytes(room));
    // SAFETY: these controls give a constant text that ends with a zero byte (TEXTS).
    Some(unsafe { CStr::from_ptr(text) }.to_bytes().to_vec())
}

/// Lets a control act: flushing this thread's cache, and giving memory back. Whether it has.
pub fn act(name: &CStr) -> bool {
    let is_harmless = match name.to_bytes() {
        b"thread.tcache.flush" => true,
        name => {
            name.starts_with(b"arena.") && (name.ends_with(b".purge") || name.ends_with(b".decay"))
        }
    };
    let none = ptr::null_mut::<c_void>();
    // SAFETY: the name ends with a zero byte (5); these take and give no value.
    is_harmless && unsafe { jemalloc::mallctl(name.as_ptr(), none, ptr::null_mut(), none, 0) } == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_width_of_their_control() {
        assert_eq!(number(c"arenas.page"), Some(crate::PAGE_BYTES as u64));
        assert!(number(c"arenas.narenas").is_some(), "an unsigned of four bytes");
        assert_eq!(number(c"opt.background_thread"), Some(1));
        assert_eq!(number(c"no.such"), None);
    }

    #[test]
    fn only_texts_are_read_as_texts() {
        assert!(text(c"version").is_some_and(|text| text.starts_with(b"5.")));
        assert_eq!(text(c"arenas.page"), None);
    }

    #[test]
    fn only_what_harms_nobody_is_done() {
        assert!(act(c"thread.tcache.flush"));
        assert!(act(c"arena.0.purge"));
        assert!(!act(c"arena.0.reset"));
        assert!(!act(c"no.such"));
    }
}
