//! Random numbers: SplitMix64 (Steele, Lea, Flood 2014) and two ways to choose a key.
//!
//! 1. The same seed gives the same sequence on every machine.
//! 2. Zipf ranks are drawn by rejection-inversion (Hörmann and Derflinger 1996): constant memory
//!    and time for any number of keys.
//! 3. Ranks are scattered over the key numbers by a bijection, so that the hottest keys are not
//!    those that were filled first and are adjacent in memory.

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

/// SplitMix64's finisher: mixes all bits of `x` into all bits of the result.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Chance {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `0..n`; `n` must not be 0. Biased by less than n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// How keys are chosen.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Every key number below `n` is as likely as any other.
    Uniform {
        /// The number of keys.
        n: u64,
    },
    /// Few keys are hot.
    Zipf(Zipf),
}

impl Choice {
    /// A choice among `n` keys: Zipf of exponent `zipf` when given, else uniform.
    pub fn new(n: u64, zipf: Option<f64>) -> Choice {
        match zipf {
            None => Choice::Uniform { n },
            Some(exponent) => Choice::Zipf(Zipf::new(n, exponent)),
        }
    }

    /// The next key number.
    pub fn draw(&self, chance: &mut Chance) -> u64 {
        match self {
            Choice::Uniform { n } => chance.below(*n),
            Choice::Zipf(zipf) => zipf.draw(chance),
        }
    }
}

/// A Zipf distribution over `0..n`, scattered: the k-th hottest key has weight `k^-exponent`.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    exponent: f64,
    area_first: f64,
    area_last: f64,
    shortcut: f64,
    stride: u64,
}

impl Zipf {
    /// A distribution over `n` keys; `exponent` is above 0 (YCSB uses 0.99).
    pub fn new(n: u64, exponent: f64) -> Zipf {
        let mut zipf =
            Zipf { n, exponent, area_first: 0.0, area_last: 0.0, shortcut: 0.0, stride: 1 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(n as f64 + 0.5);
        zipf.shortcut = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.weight(2.0));
        zipf.stride = coprime_stride(n);
        zipf
    }

    /// The key number of a random draw.
    pub fn draw(&self, chance: &mut Chance) -> u64 {
        let rank = self.rank(chance) - 1;
        ((u128::from(rank) * u128::from(self.stride)) % u128::from(self.n)) as u64
    }

    /// A rank in `1..=n`, 1 being the hottest.
    fn rank(&self, chance: &mut Chance) -> u64 {
        loop {
            let area = self.area_last + chance.unit() * (self.area_first - self.area_last);
            let x = self.area_inverse(area);
            let k = (x + 0.5).floor().clamp(1.0, self.n as f64);
            if k - x <= self.shortcut || area >= self.area(k + 0.5) - self.weight(k) {
                return k as u64;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the weight, in the form that stays exact for an exponent near 1.
    fn area(&self, x: f64) -> f64 {
        let log_x = x.ln();
        let t = (1.0 - self.exponent) * log_x;
        let factor = if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 };
        factor * log_x
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        let factor = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (factor * area).exp()
    }
}

/// A large odd step without a common divisor with `n`, so that multiplying by it modulo `n` is a
/// bijection (invariant 3).
fn coprime_stride(n: u64) -> u64 {
    let mut stride = 0x9e37_79b9_7f4a_7c15;
    while common_divisor(stride, n) != 1 {
        stride += 2;
    }
    stride
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        let mut chance = Chance::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| chance.bits()).collect();
        // The reference implementation's first outputs for this seed.
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn uniform_draws_stay_below_and_reach_everything() {
        let choice = Choice::new(10, None);
        let mut chance = Chance::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[choice.draw(&mut chance) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1_200).contains(&count)), "{seen:?}");
    }

    #[test]
    fn zipf_ranks_have_the_weights_of_the_law() {
        for exponent in [0.5, 0.99, 1.0, 1.3] {
            let n = 1_000u64;
            let zipf = Zipf::new(n, exponent);
            let total: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
            let draws = 200_000;
            let mut chance = Chance::new(3);
            let mut counts = vec![0u32; n as usize + 1];
            for _ in 0..draws {
                counts[zipf.rank(&mut chance) as usize] += 1;
            }
            for k in [1usize, 2, 10] {
                let expected = (k as f64).powf(-exponent) / total * f64::from(draws);
                let error = (f64::from(counts[k]) - expected).abs();
                assert!(error < 6.0 * expected.sqrt(), "exponent {exponent} rank {k}: {error}");
            }
        }
    }

    #[test]
    fn scattering_is_a_bijection() {
        for n in [1u64, 2, 30, 1_000, 4_096] {
            let zipf = Zipf::new(n, 0.99);
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                let key = (u128::from(rank) * u128::from(zipf.stride)) % u128::from(n);
                assert!(!std::mem::replace(&mut seen[key as usize], true), "{n}: {key} twice");
            }
        }
    }
}
