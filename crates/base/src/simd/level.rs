//! Picks the variant of a loop at run time, by the best level that the processor supports. Only
//! x86-64 has levels above its baseline; NEON is aarch64's baseline.
//!
//! 1. `level` names a level only if the processor has each of its features and those of the levels
//!    below.
//!
//! Not here: the variants ([`super::bits`], [`super::ones`], [`super::registers`]). Tests: foot of
//! the file. Those of the variants force each level of the machine in turn, with [`at_each`].

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{SimdLevel, level};

#[cfg(target_arch = "x86_64")]
mod x86 {
    /// The instruction sets that a variant is compiled for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
    pub enum SimdLevel {
        /// SSE2.
        Baseline,
        /// AVX2 and POPCNT.
        Avx2,
        /// AVX-512 F, BW and VL, 256 bits at a time.
        Avx512Vl,
        /// AVX-512 F, BW and VL, 512 bits at a time.
        Avx512,
        /// As [`SimdLevel::Avx512`], with VPOPCNTDQ.
        Avx512Count,
    }

    /// The level to use. Processors with AVX-512 but without VPOPCNTDQ (those before Ice Lake)
    /// lower their clock for 512-bit instructions, so they stay at 256.
    #[inline]
    pub fn level() -> SimdLevel {
        #[cfg(test)]
        if let Some(level) = super::tests::forced() {
            return level;
        }
        match highest() {
            SimdLevel::Avx512 => SimdLevel::Avx512Vl,
            level => level,
        }
    }

    #[inline]
    pub(super) fn highest() -> SimdLevel {
        if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")) {
            SimdLevel::Baseline
        } else if !(is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl"))
        {
            SimdLevel::Avx2
        } else if !is_x86_feature_detected!("avx512vpopcntdq") {
            SimdLevel::Avx512
        } else {
            SimdLevel::Avx512Count
        }
    }
}

#[cfg(test)]
pub(super) use tests::at_each;

#[cfg(test)]
mod tests {
    /// Runs `check` at each level of this processor, so that every possible variant is tested.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn at_each(mut check: impl FnMut()) {
        check();
    }

    #[cfg(target_arch = "x86_64")]
    pub use forcing::{at_each, forced};

    #[cfg(target_arch = "x86_64")]
    mod forcing {
        use std::cell::Cell;

        use super::super::x86::{SimdLevel, highest, level};

        const LEVELS: [SimdLevel; 5] = [
            SimdLevel::Baseline,
            SimdLevel::Avx2,
            SimdLevel::Avx512Vl,
            SimdLevel::Avx512,
            SimdLevel::Avx512Count,
        ];

        thread_local! {
            static FORCED: Cell<Option<SimdLevel>> = const { Cell::new(None) };
        }

        pub fn forced() -> Option<SimdLevel> {
            FORCED.get()
        }

        /// Runs `check` at each level of this processor, so that every possible variant is tested.
        pub fn at_each(mut check: impl FnMut()) {
            for level in LEVELS.into_iter().filter(|level| *level <= highest()) {
                FORCED.set(Some(level));
                check();
            }
            FORCED.set(None);
        }

        /// The kernel is asked, not the same instruction once more.
        #[test]
        fn each_level_of_this_processor_is_run() {
            let told = std::fs::read_to_string("/proc/cpuinfo").expect("Linux has it");
            let flags = told.lines().find(|line| line.starts_with("flags")).expect("x86-64");
            let has = |names: &str| {
                names.split(' ').all(|name| flags.split_whitespace().any(|flag| flag == name))
            };
            let mut expected = vec![SimdLevel::Baseline];
            for (level, names) in [
                (SimdLevel::Avx2, "avx2 popcnt"),
                (SimdLevel::Avx512Vl, "avx2 popcnt avx512f avx512bw avx512vl"),
                (SimdLevel::Avx512, "avx2 popcnt avx512f avx512bw avx512vl"),
                (SimdLevel::Avx512Count, "avx2 popcnt avx512f avx512bw avx512vl avx512_vpopcntdq"),
            ] {
                if has(names) {
                    expected.push(level);
                }
            }
            let mut run = Vec::new();
            at_each(|| run.push(level()));
            assert_eq!(run, expected);
            assert_ne!(level(), SimdLevel::Avx512, "it is for tests alone");
        }
    }
}
