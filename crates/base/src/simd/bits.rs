//! Comparing and combining the bits of long byte strings. At run time the best variant for the
//! processor is picked: AVX-512, AVX2, else the baseline (SSE2, NEON).
//!
//! Each loop is written once, in [`plain`], in a form that the compiler turns into wide
//! instructions; a wider variant is the same text compiled for a wider processor.
//!
//! 1. A variant is called only at a level that has every feature it is compiled for.
//! 2. Both slices of a combination are cut to the same length before the loop.
//!
//! Not here: counting set bits ([`super::ones`]). Tests: foot of the file, every variant this
//! machine has against byte by byte loops.

#[cfg(target_arch = "x86_64")]
use super::level::{SimdLevel, level};

/// The operation that combines two byte strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Bits in both.
    And,
    /// Bits in either.
    Or,
    /// Bits in one of them only.
    Xor,
    /// Bits of the first that are not in the second.
    AndNot,
}

/// The loops for the baseline, and the twins of the variants.
pub mod plain {
    use super::Combine;

    /// Index of the first byte that is not `skipped`.
    #[inline(always)]
    pub fn find_other(bytes: &[u8], skipped: u8) -> Option<usize> {
        let (blocks, _) = bytes.as_chunks::<64>();
        let same = blocks.iter().take_while(|block| is_all(block, skipped)).count() * 64;
        bytes[same..].iter().position(|byte| *byte != skipped).map(|at| same + at)
    }

    /// Without an early exit, so that it becomes a few wide instructions.
    #[inline(always)]
    fn is_all(block: &[u8; 64], byte: u8) -> bool {
        block.iter().fold(0, |other, found| other | (found ^ byte)) == 0
    }

    /// `into[i] = into[i] op with[i]`, up to the shorter length.
    #[inline(always)]
    pub fn combine(op: Combine, into: &mut [u8], with: &[u8]) {
        match op {
            Combine::And => each(into, with, |a, b| a & b),
            Combine::Or => each(into, with, |a, b| a | b),
            Combine::Xor => each(into, with, |a, b| a ^ b),
            Combine::AndNot => each(into, with, |a, b| a & !b),
        }
    }

    #[inline(always)]
    fn each(into: &mut [u8], with: &[u8], op: impl Fn(u8, u8) -> u8) {
        let length = into.len().min(with.len());
        for (a, b) in into[..length].iter_mut().zip(&with[..length]) {
            *a = op(*a, *b);
        }
    }

    /// Inverts every bit.
    #[inline(always)]
    pub fn invert(bytes: &mut [u8]) {
        for byte in bytes {
            *byte = !*byte;
        }
    }

    /// Bits seen once so far (`once`) and more than once (`more`), after one more string.
    #[inline(always)]
    pub fn tally(once: &mut [u8], more: &mut [u8], with: &[u8]) {
        let length = once.len().min(more.len()).min(with.len());
        let (once, more, with) = (&mut once[..length], &mut more[..length], &with[..length]);
        for i in 0..length {
            more[i] |= once[i] & with[i];
            once[i] |= with[i];
        }
    }
}

/// Defines, for each loop, its variants and the function that picks one. The level of the widest
/// variant and that level's features come first.
macro_rules! variants {
    ($(
        $(#[$doc:meta])*
        $level:ident($features:literal)
        fn $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?;
    )+) => {
        #[cfg(target_arch = "x86_64")]
        mod avx512 {
            use super::{Combine, plain};
            $(
                #[target_feature(enable = $features)]
                pub fn $name($($arg: $kind),*) $(-> $out)? {
                    plain::$name($($arg),*)
                }
            )+
        }

        #[cfg(target_arch = "x86_64")]
        mod avx2 {
            use super::{Combine, plain};
            $(
                #[target_feature(enable = "avx2,popcnt")]
                pub fn $name($($arg: $kind),*) $(-> $out)? {
                    plain::$name($($arg),*)
                }
            )+
        }

        $(
            $(#[$doc])*
            #[inline]
            pub fn $name($($arg: $kind),*) $(-> $out)? {
                #[cfg(target_arch = "x86_64")]
                {
                    let level = level();
                    if level >= SimdLevel::$level {
                        // SAFETY: invariant 1: that level has `$features`.
                        return unsafe { avx512::$name($($arg),*) };
                    }
                    if level >= SimdLevel::Avx2 {
                        // SAFETY: invariant 1.
                        return unsafe { avx2::$name($($arg),*) };
                    }
                }
                plain::$name($($arg),*)
            }
        )+
    };
}

variants! {
    /// Index of the first byte that is not `skipped`.
    Avx512("avx512f,avx512bw,avx512vl")
    fn find_other(bytes: &[u8], skipped: u8) -> Option<usize>;
    /// `into[i] = into[i] op with[i]`, up to the shorter length.
    Avx512("avx512f,avx512bw,avx512vl")
    fn combine(op: Combine, into: &mut [u8], with: &[u8]);
    /// Inverts every bit.
    Avx512("avx512f,avx512bw,avx512vl")
    fn invert(bytes: &mut [u8]);
    /// Bits seen once so far (`once`) and more than once (`more`), after one more string.
    Avx512("avx512f,avx512bw,avx512vl")
    fn tally(once: &mut [u8], more: &mut [u8], with: &[u8]);
}

#[cfg(test)]
mod tests {
    use super::super::level::at_each;
    use super::*;
    use crate::rng::Rng;

    type ByByte = fn(u8, u8) -> u8;

    fn lengths() -> impl Iterator<Item = usize> {
        (0..200).chain([255, 256, 257, 1000, 4096, 4099])
    }

    fn random(length: usize, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = vec![0; length];
        rng.bytes(&mut bytes);
        bytes
    }

    #[test]
    fn finds_what_is_other() {
        for length in lengths() {
            for skipped in [0, 255] {
                for at in [0, length / 3, length.saturating_sub(1), length] {
                    let mut bytes = vec![skipped; length];
                    let expected = (at < length).then_some(at);
                    bytes[at.min(length)..].fill(7);
                    at_each(|| {
                        assert_eq!(find_other(&bytes, skipped), expected, "{length} {at}");
                    });
                }
            }
        }
    }

    #[test]
    fn combines() {
        let mut rng = Rng::from_seed(2);
        let ops: [(Combine, ByByte); 4] = [
            (Combine::And, |a, b| a & b),
            (Combine::Or, |a, b| a | b),
            (Combine::Xor, |a, b| a ^ b),
            (Combine::AndNot, |a, b| a & !b),
        ];
        for length in lengths() {
            let (first, second) = (random(length, &mut rng), random(length + 3, &mut rng));
            for (op, by_byte) in ops {
                let expected: Vec<u8> =
                    first.iter().zip(&second).map(|(a, b)| by_byte(*a, *b)).collect();
                at_each(|| {
                    let mut into = first.clone();
                    combine(op, &mut into, &second);
                    assert_eq!(into, expected, "{op:?} {length}");
                });
            }
        }
    }

    #[test]
    fn inverts() {
        let mut rng = Rng::from_seed(3);
        for length in lengths() {
            let bytes = random(length, &mut rng);
            at_each(|| {
                let mut turned = bytes.clone();
                invert(&mut turned);
                assert!(turned.iter().zip(&bytes).all(|(a, b)| *a == !*b));
            });
        }
    }

    #[test]
    fn tallies() {
        let mut rng = Rng::from_seed(4);
        for length in lengths() {
            let strings: Vec<Vec<u8>> = (0..4).map(|_| random(length, &mut rng)).collect();
            at_each(|| {
                let (mut once, mut more) = (vec![0; length], vec![0; length]);
                for string in &strings {
                    tally(&mut once, &mut more, string);
                }
                for i in 0..length {
                    for bit in 0..8 {
                        let count = strings.iter().filter(|s| s[i] >> bit & 1 == 1).count();
                        assert_eq!(once[i] >> bit & 1 == 1, count >= 1);
                        assert_eq!(more[i] >> bit & 1 == 1, count >= 2);
                    }
                }
            });
        }
    }
}
