//! HyperLogLog sketches compared with a plain array of registers: random adds and merges, with the
//! switch from the sparse to the dense encoding at any size.

use pantala_base::Rng;
use pantala_values::hyperloglog::{
    Draft, REGISTERS, RegisterMark, Registers, SketchEncoding, add, count, empty, encoding,
    to_dense, would_change,
};

fn registers(text: &[u8]) -> Box<[u8; REGISTERS]> {
    let mut all = Registers::new();
    all.merge(text).expect("a sound sketch");
    Box::new(*all.values())
}

fn element(rng: &mut Rng, kinds: u64) -> Vec<u8> {
    format!("{}-{}", rng.below(kinds), "x".repeat(rng.below(20) as usize)).into_bytes()
}

#[test]
fn every_register_is_the_largest_that_was_added() {
    for seed in 0..10 {
        let mut rng = Rng::from_seed(seed);
        let sparse_max = [0, 20, 40, 400, 3000][rng.below(5) as usize];
        let mut sketches: Vec<Draft> = (0..3).map(|_| empty()).collect();
        let mut models = vec![Box::new([0; REGISTERS]); 3];
        for _ in 0..16 {
            let at = rng.below(3) as usize;
            if rng.below(4) == 0 {
                let from = rng.below(3) as usize;
                let mut all = Registers::new();
                all.merge(&sketches[at]).expect("a sound sketch");
                all.merge(&sketches[from]).expect("a sound sketch");
                all.raise(&mut sketches[at], sparse_max).expect("a sound sketch");
                let other = models[from].clone();
                let raised = models[at].iter_mut().zip(other.iter());
                raised.for_each(|(one, other)| *one = *other.max(one));
            }
            for _ in 0..rng.below(30) {
                let mark = RegisterMark::of(&element(&mut rng, 200));
                let before = registers(&sketches[at]);
                let expected = would_change(&sketches[at], mark);
                assert_eq!(add(&mut sketches[at], mark, sparse_max), expected);
                let after = registers(&sketches[at]);
                let changed: Vec<usize> =
                    (0..REGISTERS).filter(|i| before[*i] != after[*i]).collect();
                assert_eq!(changed.len(), usize::from(expected == Ok(true)));
                for register in changed {
                    assert!(after[register] > before[register]);
                    models[at][register] = after[register];
                }
            }
            assert_eq!(registers(&sketches[at]), models[at]);
            if encoding(&sketches[at]) == Some(SketchEncoding::Sparse) {
                assert!(sketches[at].len() <= sparse_max.max(18));
                let dense = to_dense(&sketches[at]).expect("a sound sketch");
                assert_eq!(count(&dense), count(&sketches[at]));
            }
        }
    }
}
