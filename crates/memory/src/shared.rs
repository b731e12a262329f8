//! Words of a file that is mapped shared: a store survives the process, but not a crash of the
//! machine.
//!
//! Invariants
//! 1. The bytes are reserved in the file before they are mapped, so that a store finds its page
//!    even if the file system is full. Nobody may truncate the file.
//! 2. `pointer` and `count` are a mapping owned by this value, page-aligned, until it is dropped.
//!    Access is atomic, or exclusive in this process. Another process may map the same bytes; it
//!    stores nothing while this one lives.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Whether a file lies in a file system that is memory.
///
/// # Errors
/// The system does not say.
pub fn is_in_memory(file: &File) -> io::Result<bool> {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the descriptor is open, and there is room for the answer.
    if unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: integers, which are zeroes or what the system has written.
    let found = unsafe { found.assume_init() };
    Ok(found.f_type == libc::TMPFS_MAGIC)
}

/// An array of 64-bit atomics in a shared mapping of a file.
#[derive(Debug)]
pub struct SharedWords {
    pointer: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: it is a slice of atomics that it owns (2).
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps `count` words of a file from byte `offset` on, both multiples of a page.
    ///
    /// # Errors
    /// The file system has no room for them, or cannot reserve or map them.
    pub fn map(file: &File, offset: u64, count: usize) -> io::Result<SharedWords> {
        let (fd, bytes) = (file.as_raw_fd(), count * size_of::<u64>());
        let wrong = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let (at, len) = (libc::off_t::try_from(offset).map_err(wrong)?, bytes.cast_signed());
        loop {
            // SAFETY: takes three integers.
            match unsafe { libc::posix_fallocate(fd, at, len as libc::off_t) } {
                0 => break,
                libc::EINTR => {}
                error => return Err(io::Error::from_raw_os_error(error)),
            }
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; nothing else changes.
        let mapped =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, at) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pointer = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { pointer, count })
    }
}

impl SharedWords {
    /// Copies bytes into the words from number `at` on. What is over in the last word is zero.
    ///
    /// # Panics
    /// There are fewer words.
    #[inline]
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        assert!(at <= self.count && bytes.len().div_ceil(8) <= self.count - at);
        // SAFETY: these words are mapped (1). Nobody else in this process refers to them while
        // this is borrowed exclusively, and a word has any bytes.
        unsafe {
            let place = self.pointer.as_ptr().add(at).cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, words.len() * 8);
            if !rest.is_empty() {
                let last = last_word(bytes, rest.len());
                place.add(words.len() * 8).cast::<u64>().write(last);
            }
        }
    }
}

/// The last `count` bytes, fewer than eight, as a word with zeroes behind them. Not by way of
/// memory, which would have to wait for stores of single bytes.
fn last_word(bytes: &[u8], count: usize) -> u64 {
    let word = match bytes.last_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight) >> (64 - 8 * count),
        None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    word.to_le()
}

/// Gives back the memory of a part of a file in memory: the part reads as zeroes. It must not be
/// mapped when it is stored to again, or the system may have no page for the store.
///
/// # Errors
/// The file system cannot.
pub fn release_words(file: &File, offset: u64, count: usize) -> io::Result<()> {
    let wrong = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let at = libc::off_t::try_from(offset).map_err(wrong)?;
    let bytes = libc::off_t::try_from(count * size_of::<u64>()).map_err(wrong)?;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes four integers.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, at, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: as many words as were mapped, which live as long as `self` (1, 2).
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.count) }
    }
}

impl AsRef<[AtomicU64]> for SharedWords {
    fn as_ref(&self) -> &[AtomicU64] {
        self
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<u64>();
        // SAFETY: the mapping is this value's, and nobody borrows from it any more (2).
        let _unmapped = unsafe { libc::munmap(self.pointer.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let path = std::env::temp_dir().join(format!("shared-words-{}", std::process::id()));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path).expect("a file");
        let first = SharedWords::map(&file, 0, 512).expect("mapped");
        let second = SharedWords::map(&file, 64 << 10, 1024).expect("mapped");
        first[1].store(0x0102_0304, Ordering::Relaxed);
        second[1023].store(u64::MAX, Ordering::Relaxed);
        assert_eq!((first.len(), second.len()), (512, 1024));
        drop((first, second));
        let bytes = std::fs::read(&path).expect("a file");
        assert_eq!(bytes.len(), (64 << 10) + 8 * 1024);
        assert_eq!(bytes[8..16], 0x0102_0304_u64.to_ne_bytes());
        assert!(bytes.ends_with(&[0xff; 8]));
        if release_words(&file, 64 << 10, 1024).is_ok() {
            assert!(std::fs::read(&path).expect("a file").ends_with(&[0; 8]));
            let again = SharedWords::map(&file, 64 << 10, 1024).expect("mapped");
            assert_eq!(again[1023].load(Ordering::Relaxed), 0);
        }
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn bytes_of_any_length_fill_whole_words() {
        let path = std::env::temp_dir().join(format!("shared-bytes-{}", std::process::id()));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path).expect("a file");
        let mut words = SharedWords::map(&file, 0, 512).expect("mapped");
        let bytes: Vec<u8> = (1..=40).collect();
        for length in 0..=bytes.len() {
            words.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
            words.put(3, &bytes[..length]);
            let found = std::fs::read(&path).expect("a file");
            let (before, behind) = (3 * 8, (3 + length.div_ceil(8)) * 8);
            assert!(found[before..].starts_with(&bytes[..length]));
            assert!(found[before + length..behind].iter().all(|&byte| byte == 0), "{length}");
            assert!(found[..before].iter().chain(&found[behind..]).all(|&byte| byte == 0xff));
        }
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn what_is_of_the_system_is_not_in_memory_that_can_be_written() {
        let file = File::open("/proc/self/stat").expect("a file");
        assert!(!is_in_memory(&file).expect("it says"));
    }
}
