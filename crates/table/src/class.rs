//! Size classes of the allocator, by arithmetic.
//!
//! Every allocation of this crate is rounded up to a class, so the usable room of a block follows
//! from a byte or two and nothing is lost inside the allocator. The classes are jemalloc's with a
//! 16-byte quantum: 8, then multiples of 16 up to 128, then four steps for every doubling (160,
//! 192, 224, 256, 320, ...), and above eight pages (32 KiB, on aarch64 512 KiB) whole pages.
//!
//! A record stores its class in one byte, which keeps four steps a doubling for all sizes (only a
//! very long key needs that). The block of a long string stores its class in two bytes: exact to
//! the page up to 4,096 pages, to one part in 2,048 above.
//!
//! Tests: at the foot of this file.

/// The allocator's page, see `pantala_memory::PAGE_BYTES`.
const PAGE_BYTES: usize = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };
/// Above this, blocks are whole pages.
const SMALL_BYTES: usize = 8 * PAGE_BYTES;
/// Room codes below this are class indices; codes from here on count pages.
const PAGES_FROM: usize = 64;
/// A room code counts pages exactly below twice this number.
const PAGE_STEPS: usize = 2048;

const _: () = {
    let mut bytes = 1;
    while bytes < 1 << 44 {
        assert!(class_bytes(class_index(bytes)) >= bytes, "it holds them");
        assert!(room_bytes(room_code(bytes)) >= bytes, "it holds them");
        assert!(room_bytes(room_code(bytes + 1)) > bytes, "it holds one more");
        bytes *= 2;
    }
};

/// Bytes that an allocation of `bytes` bytes really takes.
#[inline]
pub const fn size_class(bytes: usize) -> usize {
    if bytes <= SMALL_BYTES {
        class_bytes(class_index(bytes))
    } else {
        bytes.next_multiple_of(PAGE_BYTES)
    }
}

/// Index of the smallest class that holds `bytes`.
#[inline]
pub(crate) const fn class_index(bytes: usize) -> u8 {
    if bytes <= 8 {
        return 0;
    }
    if bytes <= 128 {
        return bytes.div_ceil(16) as u8;
    }
    let last = bytes - 1;
    let log = last.ilog2();
    (9 + 4 * (log - 7) + ((last >> (log - 2)) & 3) as u32) as u8
}

/// Bytes of the class with this index.
#[inline]
pub(crate) const fn class_bytes(index: u8) -> usize {
    if index == 0 {
        return 8;
    }
    if index <= 8 {
        return 16 * index as usize;
    }
    let step = index as usize - 9;
    (5 + step % 4) << (5 + step / 4)
}

/// The code of the smallest block that holds `bytes`, at most 2^48.
#[inline]
pub(crate) const fn room_code(bytes: usize) -> u16 {
    if bytes <= SMALL_BYTES {
        return class_index(bytes) as u16;
    }
    let pages = bytes.div_ceil(PAGE_BYTES);
    if pages < 2 * PAGE_STEPS {
        return (PAGES_FROM + pages) as u16;
    }
    let exponent = pages.ilog2() - PAGE_STEPS.ilog2();
    let mantissa = pages.div_ceil(1 << exponent);
    (PAGES_FROM + exponent as usize * PAGE_STEPS + mantissa) as u16
}

/// Bytes of the block with this code.
#[inline]
pub(crate) const fn room_bytes(code: u16) -> usize {
    let code = code as usize;
    if code < PAGES_FROM {
        return class_bytes(code as u8);
    }
    let pages = code - PAGES_FROM;
    if pages < 2 * PAGE_STEPS {
        return pages * PAGE_BYTES;
    }
    ((pages % PAGE_STEPS + PAGE_STEPS) << (pages / PAGE_STEPS - 1)) * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_jemalloc() {
        let classes: Vec<usize> = (0..32).map(class_bytes).collect();
        let expected = [
            8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768,
            896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168,
        ];
        assert_eq!(classes, expected);
        for bytes in (1..200_000).chain((200_000..2_000_000).step_by(61)) {
            assert_eq!(size_class(bytes), pantala_memory::size_class(bytes), "{bytes}");
        }
    }

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for bytes in (1..100_000).chain([1 << 20, (1 << 20) + 1, u32::MAX as usize, 1 << 40]) {
            let index = class_index(bytes);
            assert!(class_bytes(index) >= bytes, "{bytes}");
            assert!(index == 0 || class_bytes(index - 1) < bytes, "{bytes}");
        }
    }

    #[test]
    fn every_size_gets_the_smallest_room_that_holds_it() {
        const EXACT: usize = 4096 * PAGE_BYTES;
        let last_class = u16::from(class_index(SMALL_BYTES));
        let paged = (0..40).map(|k| SMALL_BYTES + k * PAGE_BYTES / 2 + 1);
        let large = (0..40).flat_map(|k| [EXACT + k * 9_999_999, EXACT + k * PAGE_BYTES]);
        for bytes in (1..100_000).chain(paged).chain(large).chain([u32::MAX as usize, 1 << 40]) {
            let code = room_code(bytes);
            assert!(room_bytes(code) >= bytes, "{bytes}");
            let is_first_paged = code == PAGES_FROM as u16 + 9;
            let before = if is_first_paged { last_class } else { code.saturating_sub(1) };
            assert!(code == 0 || room_bytes(before) < bytes, "{bytes}");
            assert!(bytes > EXACT || room_bytes(code) == size_class(bytes), "{bytes}");
            assert!(room_bytes(code) - bytes <= PAGE_BYTES.max(bytes / 1024), "{bytes}");
        }
    }
}
