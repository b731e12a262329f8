//! Sketches from anywhere.
//!
//! 1. No bytes make an operation panic, or turn a sketch into something else.
//! 2. An added element is there: adding it again changes nothing.
//! 3. A sketch is either sound or corrupt for all whole reads: counting and merging agree.

use pantala_base::Rng;
use pantala_values::hyperloglog::{
    Draft, RegisterMark, Registers, SketchEncoding, add, count, describe_sparse, empty, encoding,
    to_dense, would_change,
};

/// Runs the case of `seed`; panics where an invariant is broken.
pub fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let sparse_max = rng.below(600) as usize;
    let mut sketch = start(&mut rng, sparse_max);
    for _ in 0..rng.below(6) {
        damage(&mut rng, &mut sketch);
    }
    let Some(kind) = encoding(&sketch) else { return };
    let merged = Registers::new().merge(&sketch);
    assert_eq!(count(&sketch).is_ok(), merged.is_ok());
    assert_eq!(to_dense(&sketch).is_ok(), merged.is_ok());
    if kind == SketchEncoding::Sparse {
        describe_sparse(&sketch);
    }
    for _ in 0..20 {
        let mark = RegisterMark::of(&rng.next_u64().to_le_bytes()[..rng.below(9) as usize]);
        let expected = would_change(&sketch, mark);
        let found = add(&mut sketch, mark, sparse_max);
        assert!(encoding(&sketch).is_some());
        if found.is_ok() {
            assert_eq!(found, expected);
            assert_eq!(would_change(&sketch, mark), Ok(false));
        }
    }
    let mut all = Registers::new();
    if all.merge(&sketch).is_ok() {
        let mut other = start(&mut rng, sparse_max);
        assert_eq!(all.raise(&mut other, sparse_max), Ok(()));
    }
}

fn start(rng: &mut Rng, sparse_max: usize) -> Draft {
    let mut sketch = empty();
    for _ in 0..rng.below(200) {
        let added = add(&mut sketch, RegisterMark::of(&rng.next_u64().to_le_bytes()), sparse_max);
        assert!(added.is_ok());
    }
    sketch
}

fn damage(rng: &mut Rng, sketch: &mut Draft) {
    let behind_header = 16 + rng.below(sketch.len().saturating_sub(15).max(1) as u64) as usize;
    match rng.below(4) {
        0 => sketch.truncate(rng.below(sketch.len() as u64 + 1) as usize),
        1 => sketch.extend(rng.next_u64().to_le_bytes()),
        2 if behind_header < sketch.len() => sketch[behind_header] = rng.next_u64() as u8,
        _ if behind_header < sketch.len() => _ = sketch.remove(behind_header),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn some_cases() {
        (0..2000).for_each(super::case);
    }
}
