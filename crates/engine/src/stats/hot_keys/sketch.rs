//! The heaviest keys, estimated in bounded memory.
//!
//! Each kept key has the weight seen since it was added, and a *base*: the most that may have been
//! seen before, and forgotten. When there is no room the lighter half is dropped, and the heaviest
//! dropped key becomes the base of whatever comes later. That is Space-Saving (Metwally, Agrawal,
//! El Abbadi 2005) with the batches of Anderson et al. (2017): a key that has more than one
//! five-hundredth of the total weight (with 1,024 keys) is never dropped, and its weight is exact
//! from when it was first seen. Adding takes constant time on average.
//!
//! Invariants
//! 1. At most `Bounds::keys` keys of `Bounds::key_bytes` are kept.
//! 2. The true weight of a key is at least `seen` and at most `seen + base`; of one that is not
//!    kept, at most `floor`.
//!
//! Tests: at the foot.

use std::collections::HashMap;

/// How much a sketch keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most keys that are kept.
    pub keys: usize,
    /// Longer keys are not kept; they count in the total only.
    pub key_bytes: usize,
}

/// The heaviest keys of a stream of (key, weight) pairs, estimated in bounded memory. Each has a
/// `T` beside its weight.
pub struct Sketch<T = ()> {
    bounds: Bounds,
    kept: HashMap<Box<[u8]>, Weight<T>>,
    /// The largest weight of a dropped key.
    floor: u64,
    total: u64,
}

struct Weight<T> {
    seen: u64,
    base: u64,
    beside: T,
}

impl<T> Weight<T> {
    fn most(&self) -> u64 {
        self.seen + self.base
    }
}

impl<T: Default> Sketch<T> {
    /// An empty one.
    pub fn new(bounds: Bounds) -> Self {
        Sketch { bounds, kept: HashMap::new(), floor: 0, total: 0 }
    }

    /// Adds to the weight of a key; `note` changes what is beside it, if the key is kept.
    pub fn add(&mut self, key: &[u8], weight: u64, note: impl FnOnce(&mut T)) {
        self.total += weight;
        if let Some(kept) = self.kept.get_mut(key) {
            kept.seen += weight;
            return note(&mut kept.beside);
        }
        if weight == 0 || key.len() > self.bounds.key_bytes {
            return;
        }
        if self.kept.len() >= self.bounds.keys {
            self.drop_lighter_half();
        }
        let mut added = Weight { seen: weight, base: self.floor, beside: T::default() };
        note(&mut added.beside);
        self.kept.insert(key.into(), added);
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

    /// The kept keys, with the weights seen and what is beside them.
    pub fn keys(&self) -> impl Iterator<Item = (&[u8], u64, &T)> {
        self.kept.iter().map(|(key, weight)| (&**key, weight.seen, &weight.beside))
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;

    const BOUNDS: Bounds = Bounds { keys: 1024, key_bytes: 1024 };

    fn sketch() -> Sketch<u64> {
        Sketch::new(BOUNDS)
    }

    fn add(sketch: &mut Sketch<u64>, key: &[u8], weight: u64) {
        sketch.add(key, weight, |times| *times += 1);
    }

    fn kept(sketch: &Sketch<u64>, key: &[u8]) -> Option<(u64, u64)> {
        let found = sketch.keys().find(|(kept, ..)| *kept == key);
        found.map(|(_, weight, times)| (weight, *times))
    }

    #[test]
    fn what_fits_is_exact() {
        let mut sketch = sketch();
        for _ in 0..3 {
            add(&mut sketch, b"a", 5);
        }
        add(&mut sketch, b"b", 0);
        add(&mut sketch, &[b'x'; BOUNDS.key_bytes + 1], 7);
        assert_eq!((kept(&sketch, b"a"), kept(&sketch, b"b")), (Some((15, 3)), None));
        assert_eq!((sketch.keys().count(), sketch.total()), (1, 22));
    }

    #[test]
    fn heavy_keys_stay_among_very_many() {
        let mut sketch = sketch();
        let mut random = Rng::from_seed(7);
        let mut heavy = [0_u64; 8];
        for turn in 0..200_000_u64 {
            let which = random.below(50) as usize;
            match heavy.get_mut(which) {
                Some(weight) => {
                    *weight += 3;
                    add(&mut sketch, format!("heavy:{which}").as_bytes(), 3);
                }
                None => add(&mut sketch, format!("light:{turn}").as_bytes(), 1),
            }
            assert!(sketch.kept.len() <= BOUNDS.keys);
        }
        for (which, weight) in heavy.into_iter().enumerate() {
            let expected = Some((weight, weight / 3));
            assert_eq!(kept(&sketch, format!("heavy:{which}").as_bytes()), expected);
        }
        assert!(sketch.floor <= sketch.total / (BOUNDS.keys as u64 / 2), "{}", sketch.floor);
    }
}
