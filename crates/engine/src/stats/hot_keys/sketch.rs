//! The heaviest keys, estimated in bounded memory.
//!
//! Each kept key has the weight seen since it was added, and a *base*: the most that may have been
//! seen before, and forgotten. When there is no room the lighter half is dropped, and the heaviest
//! dropped key becomes the base of whatever comes later. That is Space-Saving (Metwally, Agrawal,
//! El Abbadi 2005) with the batches of Anderson et al. (2017): a key that has more than one
//! five-hundredth of the total weight is never dropped, and its weight is exact from when it was
//! first seen. Adding takes constant time on average.
//!
//! Invariants
//! 1. At most [`CAPACITY`] keys of [`MOST_KEY_BYTES`] are kept.
//! 2. The true weight of a key is at least `seen` and at most `seen + base`; of one that is not
//!    kept, at most `floor`.
//!
//! Tests: at the foot.

use std::collections::HashMap;

/// The most keys that are kept.
const CAPACITY: usize = 1024;
/// Longer keys are not kept; they count in the total only.
pub const MOST_KEY_BYTES: usize = 1024;

/// The heaviest keys of a stream of (key, weight) pairs, estimated in bounded memory.
#[derive(Default)]
pub struct Sketch {
    kept: HashMap<Box<[u8]>, Weight>,
    /// The largest weight of a dropped key.
    floor: u64,
    total: u64,
}

struct Weight {
    seen: u64,
    base: u64,
}

impl Weight {
    fn most(&self) -> u64 {
        self.seen + self.base
    }
}

impl Sketch {
    /// Adds to the weight of a key.
    pub fn add(&mut self, key: &[u8], weight: u64) {
        self.total += weight;
        if let Some(kept) = self.kept.get_mut(key) {
            kept.seen += weight;
            return;
        }
        if weight == 0 || key.len() > MOST_KEY_BYTES {
            return;
        }
        if self.kept.len() >= CAPACITY {
            self.drop_lighter_half();
        }
        self.kept.insert(key.into(), Weight { seen: weight, base: self.floor });
    }

    #[cold]
    fn drop_lighter_half(&mut self) {
        let mut weights: Vec<u64> = self.kept.values().map(Weight::most).collect();
        let middle = weights.len() / 2;
        let (_, median, _) = weights.select_nth_unstable(middle);
        self.floor = *median;
        self.kept.retain(|_, weight| weight.most() > self.floor);
    }

    /// The total weight, including keys that are not kept.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The kept keys, with the weights seen.
    pub fn keys(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.kept.iter().map(|(key, weight)| (&**key, weight.seen))
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;

    fn weight_of(sketch: &Sketch, key: &[u8]) -> Option<u64> {
        sketch.keys().find(|(kept, _)| *kept == key).map(|(_, weight)| weight)
    }

    #[test]
    fn what_fits_is_exact() {
        let mut sketch = Sketch::default();
        for _ in 0..3 {
            sketch.add(b"a", 5);
        }
        sketch.add(b"b", 0);
        sketch.add(&[b'x'; MOST_KEY_BYTES + 1], 7);
        assert_eq!((weight_of(&sketch, b"a"), weight_of(&sketch, b"b")), (Some(15), None));
        assert_eq!((sketch.keys().count(), sketch.total()), (1, 22));
    }

    #[test]
    fn heavy_keys_stay_among_very_many() {
        let mut sketch = Sketch::default();
        let mut random = Rng::from_seed(7);
        let mut heavy = [0_u64; 8];
        for turn in 0..200_000_u64 {
            let which = random.below(50) as usize;
            match heavy.get_mut(which) {
                Some(weight) => {
                    *weight += 3;
                    sketch.add(format!("heavy:{which}").as_bytes(), 3);
                }
                None => sketch.add(format!("light:{turn}").as_bytes(), 1),
            }
            assert!(sketch.kept.len() <= CAPACITY);
        }
        for (which, weight) in heavy.into_iter().enumerate() {
            assert_eq!(weight_of(&sketch, format!("heavy:{which}").as_bytes()), Some(weight));
        }
        assert!(sketch.floor <= sketch.total / (CAPACITY as u64 / 2), "{}", sketch.floor);
    }
}
