//! A small fast generator of random numbers: xoshiro256** (Blackman and Vigna, 2018), seeded
//! through splitmix64. Not for secrets: those come from the operating system (`HashSeed::random`,
//! [`fill_secret`]).
//!
//! 1. A generator made from the same seed always gives the same numbers: runs replay.
//!
//! Tests: foot of the file.

/// A generator; each user owns one.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator with a fixed seed.
    pub const fn from_seed(seed: u64) -> Rng {
        let mut state = [0u64; 4];
        let mut word = seed;
        let mut i = 0;
        while i < 4 {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = word;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state[i] = mixed ^ (mixed >> 31);
            i += 1;
        }
        Rng { state }
    }

    /// A generator seeded by the operating system; by the clock if that fails.
    pub fn random() -> Rng {
        let mut bytes = [0u8; 8];
        let seed = match getrandom::fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => (crate::clock::unix_us() as u64) ^ u64::from(std::process::id()) << 48,
        };
        Rng::from_seed(seed)
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniform number in `0..bound`; 0 when `bound` is 0. Lemire, "Fast random integer generation
    /// in an interval", 2019.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// A number in `0.0..1.0`, with 53 random bits.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `out` with random bytes.
    pub fn bytes(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Fills `out` with unpredictable bytes from the operating system, for passwords. False if it gives
/// none.
pub fn fill_secret(out: &mut [u8]) -> bool {
    getrandom::fill(out).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_its_numbers_stay() {
        let mut rng = Rng::from_seed(0);
        // splitmix64 from 0, then xoshiro256**: the published reference sequence.
        assert_eq!(rng.state[0], 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x99ec_5f36_cb75_f2b4);
        assert_eq!(Rng::from_seed(9).next_u64(), Rng::from_seed(9).next_u64());
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut rng = Rng::from_seed(3);
        let mut seen = [0u32; 7];
        for _ in 0..70_000 {
            seen[rng.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_000..11_000).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
        let big = (1 << 63) + 1;
        assert!((0..1000).all(|_| rng.below(big) < big));
    }

    #[test]
    fn bytes_of_any_length() {
        let mut rng = Rng::from_seed(3);
        for len in 0..40 {
            let mut out = vec![0; len];
            rng.bytes(&mut out);
            assert!(len < 8 || out.iter().any(|&b| b != 0));
        }
        assert!((0..1000).map(|_| rng.unit_f64()).all(|x| (0.0..1.0).contains(&x)));
    }
}
