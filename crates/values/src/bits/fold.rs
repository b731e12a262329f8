//! Combines several rows of bits into one, a stretch at a time.
//!
//! Sources may have different lengths; what is missing counts as zeros. A [`Fold`] works on one
//! stretch of all of them, so that it needs two short buffers, whatever the length of the whole.

use pantala_base::simd::bits::{Combine, combine, invert, tally};

/// How rows of bits are combined. X is the first source, Y stands for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOp {
    /// Bits set in all sources.
    And,
    /// Bits set in any source.
    Or,
    /// Bits set in an odd number of sources.
    Xor,
    /// Bits not set in the only source.
    Not,
    /// Bits of X that are in no Y.
    Diff,
    /// Bits of any Y that are not in X.
    Diff1,
    /// Bits of X that are in any Y.
    AndOr,
    /// Bits set in exactly one source.
    One,
}

/// One stretch in progress: add the sources, then finish.
pub struct Fold<'s> {
    op: BitOp,
    /// The result.
    out: &'s mut [u8],
    /// The union of Y, or bits that were seen more than once.
    scratch: &'s mut [u8],
    is_first: bool,
}

impl<'s> Fold<'s> {
    /// Starts a stretch. Both buffers have its length.
    pub fn new(op: BitOp, out: &'s mut [u8], scratch: &'s mut [u8]) -> Self {
        out.fill(0);
        if matches!(op, BitOp::Diff1 | BitOp::AndOr | BitOp::One) {
            scratch.fill(0);
        }
        Fold { op, out, scratch, is_first: true }
    }

    /// Adds the next source: its part of the stretch, shorter if the source ends earlier.
    pub fn add(&mut self, source: &[u8]) {
        let is_first = std::mem::replace(&mut self.is_first, false);
        match self.op {
            BitOp::One => tally(self.out, self.scratch, source),
            _ if is_first => self.out[..source.len()].copy_from_slice(source),
            BitOp::And => {
                combine(Combine::And, self.out, source);
                self.out[source.len()..].fill(0);
            }
            BitOp::Or => combine(Combine::Or, self.out, source),
            BitOp::Xor => combine(Combine::Xor, self.out, source),
            BitOp::Diff => combine(Combine::AndNot, self.out, source),
            BitOp::Diff1 | BitOp::AndOr => combine(Combine::Or, self.scratch, source),
            BitOp::Not => {}
        }
    }

    /// The result.
    pub fn finish(self) -> &'s [u8] {
        match self.op {
            BitOp::Not => invert(self.out),
            BitOp::One => combine(Combine::AndNot, self.out, self.scratch),
            BitOp::AndOr => combine(Combine::And, self.out, self.scratch),
            BitOp::Diff1 => {
                combine(Combine::AndNot, self.scratch, self.out);
                return self.scratch;
            }
            BitOp::And | BitOp::Or | BitOp::Xor | BitOp::Diff => {}
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::super::bit;
    use super::*;

    const OPS: [BitOp; 8] = [
        BitOp::And,
        BitOp::Or,
        BitOp::Xor,
        BitOp::Not,
        BitOp::Diff,
        BitOp::Diff1,
        BitOp::AndOr,
        BitOp::One,
    ];

    fn expected(op: BitOp, bits: &[bool]) -> bool {
        let set = bits.iter().filter(|bit| **bit).count();
        let in_y = bits[1..].contains(&true);
        match op {
            BitOp::And => set == bits.len(),
            BitOp::Or => set > 0,
            BitOp::Xor => set % 2 == 1,
            BitOp::Not => !bits[0],
            BitOp::Diff => bits[0] && !in_y,
            BitOp::Diff1 => !bits[0] && in_y,
            BitOp::AndOr => bits[0] && in_y,
            BitOp::One => set == 1,
        }
    }

    #[test]
    fn folds_as_bit_by_bit() {
        let mut rng = Rng::from_seed(5);
        for round in 0..400 {
            let op = OPS[round % OPS.len()];
            let count = if op == BitOp::Not { 1 } else { rng.below(5) as usize + 1 };
            let sources: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let mut bytes = vec![0; rng.below(150) as usize];
                    rng.bytes(&mut bytes);
                    bytes
                })
                .collect();
            let length = sources.iter().map(Vec::len).max().unwrap_or(0);
            let (mut out, mut scratch) = (vec![9; length], vec![9; length]);
            let mut fold = Fold::new(op, &mut out, &mut scratch);
            sources.iter().for_each(|source| fold.add(source));
            let found = fold.finish();
            assert_eq!(found.len(), length);
            for at in 0..length * 8 {
                let bits: Vec<bool> = sources.iter().map(|source| bit(source, at)).collect();
                assert_eq!(bit(found, at), expected(op, &bits), "{op:?} {bits:?}");
            }
        }
    }
}
