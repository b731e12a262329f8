//! Size classes of the allocator, by arithmetic.
//!
//! Every allocation of this crate is rounded up to a class, so the usable room of a block follows from
//! one byte (the class index) and nothing is lost inside the allocator. The classes are jemalloc's with
//! a 16-byte quantum: 8, then multiples of 16 up to 128, then four steps for every doubling
//! (160, 192, 224, 256, 320, ...).
//!
//! Tests: at the foot of this file.

/// Index of the smallest class that holds `bytes`.
#[inline]
pub const fn class_index(bytes: usize) -> u8 {
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
pub const fn class_bytes(index: u8) -> usize {
    if index == 0 {
        return 8;
    }
    if index <= 8 {
        return 16 * index as usize;
    }
    let step = index as usize - 9;
    (5 + step % 4) << (5 + step / 4)
}

/// Bytes an allocation of `bytes` bytes really takes.
#[inline]
pub const fn size_class(bytes: usize) -> usize {
    class_bytes(class_index(bytes))
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
    }

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for bytes in (1..100_000).chain([1 << 20, (1 << 20) + 1, u32::MAX as usize, 1 << 40]) {
            let index = class_index(bytes);
            assert!(class_bytes(index) >= bytes, "{bytes}");
            assert!(index == 0 || class_bytes(index - 1) < bytes, "{bytes}");
        }
    }
}
