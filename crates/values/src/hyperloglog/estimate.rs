//! The estimate from the registers: Otmar Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches", arXiv:1702.01284, algorithm 6. In `f64` and in the order of Redis's
//! operations, so that the number is equal.

use super::{
    Draft, REGISTER_BITS, REGISTERS, RegisterMark, Registers, add, count, empty, to_dense,
};

/// How many registers hold each value. A sketch from elsewhere may hold any six-bit value.
pub type Histogram = [u32; 64];

/// The largest value a hash can lead to is one more.
const MOST_RANK: usize = (u64::BITS - REGISTER_BITS) as usize;

/// 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// 2^63.
const OVERFLOW: f64 = 9_223_372_036_854_775_808.0;

/// Counts registers by value.
pub fn histogram(registers: &[u8; REGISTERS]) -> Histogram {
    // Four counters a value, so that equal neighbours do not wait for each other. With few elements
    // most registers are zero, and zeros are skipped together.
    let (mut lanes, mut zeros) = ([[0_u32; 64]; 4], 0);
    for eight in registers.as_chunks::<8>().0 {
        if u64::from_ne_bytes(*eight) == 0 {
            zeros += 8;
            continue;
        }
        for four in eight.as_chunks::<4>().0 {
            for (lane, value) in lanes.iter_mut().zip(four) {
                lane[usize::from(value & 63)] += 1;
            }
        }
    }
    lanes[0][0] += zeros;
    std::array::from_fn(|value| lanes.iter().map(|lane| lane[value]).sum())
}

/// The estimated number of distinct elements behind these counts.
pub fn cardinality(counts: &Histogram) -> u64 {
    let m = REGISTERS as f64;
    let count = |value: usize| f64::from(counts[value]);
    let mut z = m * tau((m - count(MOST_RANK + 1)) / m);
    for value in (1..=MOST_RANK).rev() {
        z += count(value);
        z *= 0.5;
    }
    z += m * sigma(count(0) / m);
    let estimate = (ALPHA * m * m / z).round();
    // Too large an estimate becomes the least `i64`, as the reference's rounding makes it.
    if estimate < OVERFLOW { estimate as u64 } else { OVERFLOW as u64 }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

/// Whether sketches work on this machine: both encodings and a merge give the same estimate, which
/// is not far off. Takes some milliseconds.
pub fn self_test() -> bool {
    let elements = 20_000_u32;
    let (mut dense, mut sparse): (Draft, Draft) = (empty(), empty());
    for element in 0..elements {
        let mark = RegisterMark::of(&element.to_le_bytes());
        let into_sparse = element < 1000;
        if add(&mut dense, mark, 0).is_err()
            || into_sparse && add(&mut sparse, mark, usize::MAX).is_err()
        {
            return false;
        }
    }
    let mut merged = Registers::new();
    let is_sound = merged.merge(&sparse).is_ok()
        && to_dense(&sparse).is_ok_and(|dense| count(&dense) == Ok(merged.count()))
        && merged.merge(&dense).is_ok();
    let estimate = merged.count();
    // Six standard errors of 1.04 / sqrt(16,384).
    let is_near = (estimate as f64 / f64::from(elements) - 1.0).abs() < 0.049;
    is_sound && is_near && count(&dense) == Ok(estimate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_every_register_once() {
        let registers: [u8; REGISTERS] =
            std::array::from_fn(|i| if i % 3000 < 1000 { 0 } else { (i % 52) as u8 });
        let counts = histogram(&registers);
        for value in 0..64_u8 {
            let expected = registers.iter().filter(|found| **found == value).count();
            assert_eq!(counts[usize::from(value)] as usize, expected);
        }
    }

    #[test]
    fn ends_of_the_scale() {
        let with = |value: usize| {
            let mut counts = [0; 64];
            counts[value] = REGISTERS as u32;
            cardinality(&counts)
        };
        assert_eq!(with(0), 0);
        assert!(with(1) > 10_000);
        assert_eq!(with(MOST_RANK + 1), 1 << 63);
        assert!(self_test());
    }
}
