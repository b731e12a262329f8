//! HyperLogLog: an estimate of the number of distinct elements, in 12 KB at most.
//!
//! A sketch is a string, byte for byte the one Redis makes of the same elements:
//!
//! ```text
//! | "HYLL" | encoding u8 | 3 unused | cardinality u64, little endian | registers |
//! ```
//!
//! There are 16,384 registers of six bits. An element's hash names one by its low 14 bits; the
//! others begin with some number of zeros, and the register keeps the largest such number plus one.
//!
//! | file | what |
//! |---|---|
//! | here | the header; adding; merging several sketches |
//! | `sparse` | registers as runs, while most are zero |
//! | `dense` | registers packed, four in three bytes |
//! | `estimate` | from registers to an estimate |
//! | `murmur` | the hash |
//!
//! Invariants
//! 1. A sketch may come from anywhere (SET, SETRANGE), so nothing in it is trusted. A dense one has
//!    exactly [`DENSE_BYTES`]; a sparse one whose runs do not make 16,384 registers is [`Corrupt`].
//! 2. The highest bit of the cardinality says that it is out of date.
//! 3. Sparse edits happen in the order and the form of Redis's, so that the bytes are equal.
//!
//! Tests: at the foot of each file, `tests/hyperloglog.rs`, `fuzz/src/hyperloglog.rs`.

mod dense;
mod estimate;
mod murmur;
mod sparse;

use smallvec::SmallVec;

pub use estimate::self_test;

/// How many registers a sketch has.
pub const REGISTERS: usize = 1 << REGISTER_BITS;
const REGISTER_BITS: u32 = 14;
const HEADER_BYTES: usize = 16;
/// Length of a dense sketch.
pub const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const CARDINALITY: std::ops::Range<usize> = 8..HEADER_BYTES;
const STALE: u8 = 0x80;

/// The runs of a sketch do not make up its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// How the registers are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SketchEncoding {
    /// Packed.
    Dense,
    /// As runs.
    Sparse,
}

/// A sketch being changed outside of its record; short ones lie on the stack.
pub type Draft = SmallVec<[u8; 512]>;

/// The effect of one element: its register, and the value wanted there, 1 to 51.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterMark {
    register: usize,
    rank: u8,
}

impl RegisterMark {
    /// The mark of an element.
    pub fn of(element: &[u8]) -> RegisterMark {
        let hash = murmur::hash(element);
        let register = hash as usize % REGISTERS;
        // A one after the last bit bounds the run of zeros.
        let rest = hash >> REGISTER_BITS | 1 << (u64::BITS - REGISTER_BITS);
        RegisterMark { register, rank: rest.trailing_zeros() as u8 + 1 }
    }
}

/// The encoding of a sketch; `None` if the string is not a sketch.
pub fn encoding(text: &[u8]) -> Option<SketchEncoding> {
    if text.len() < HEADER_BYTES || !text.starts_with(MAGIC) {
        return None;
    }
    match text[ENCODING_AT] {
        0 if text.len() == DENSE_BYTES => Some(SketchEncoding::Dense),
        1 => Some(SketchEncoding::Sparse),
        _ => None,
    }
}

/// An empty sketch.
pub fn empty() -> Draft {
    let mut draft = Draft::from_slice(&[0; HEADER_BYTES]);
    draft[..MAGIC.len()].copy_from_slice(MAGIC);
    draft[ENCODING_AT] = 1;
    sparse::push_zeros(&mut draft, REGISTERS);
    draft
}

/// The cardinality that was computed last, if it is still valid.
pub fn cached(text: &[u8]) -> Option<u64> {
    let bytes = <[u8; 8]>::try_from(text.get(CARDINALITY)?).ok()?;
    (bytes[7] & STALE == 0).then(|| u64::from_le_bytes(bytes))
}

/// Stores a computed cardinality.
pub fn cache(text: &mut [u8], cardinality: u64) {
    text[CARDINALITY].copy_from_slice(&cardinality.to_le_bytes());
}

/// Marks the stored cardinality as out of date, because the registers have changed.
pub fn outdate(text: &mut [u8]) {
    text[CARDINALITY.end - 1] |= STALE;
}

/// Whether adding this element would change a sketch.
pub fn would_change(text: &[u8], mark: RegisterMark) -> Result<bool, Corrupt> {
    let old = match encoding(text).ok_or(Corrupt)? {
        SketchEncoding::Dense => dense::get(&text[HEADER_BYTES..], mark.register),
        SketchEncoding::Sparse => sparse::get(text, mark.register)?,
    };
    Ok(mark.rank > old)
}

/// Adds to a dense sketch; returns whether that changed it. The caller calls [`outdate`].
pub fn add_dense(text: &mut [u8], mark: RegisterMark) -> bool {
    dense::raise(&mut text[HEADER_BYTES..], mark.register, mark.rank)
}

/// Adds to a sketch, which becomes dense when it would exceed `sparse_max` bytes; returns whether
/// that changed it. The caller calls [`outdate`].
pub fn add(draft: &mut Draft, mark: RegisterMark, sparse_max: usize) -> Result<bool, Corrupt> {
    let mut from = sparse::Start::default();
    set(draft, mark, sparse_max, &mut from)
}

fn set(
    draft: &mut Draft,
    mark: RegisterMark,
    sparse_max: usize,
    from: &mut sparse::Start,
) -> Result<bool, Corrupt> {
    match encoding(draft).ok_or(Corrupt)? {
        SketchEncoding::Dense => Ok(add_dense(draft, mark)),
        SketchEncoding::Sparse => match sparse::set(draft, mark, sparse_max, from)? {
            sparse::RegisterOutcome::Same => Ok(false),
            sparse::RegisterOutcome::Changed => Ok(true),
            sparse::RegisterOutcome::TooLarge => {
                *draft = Draft::from_vec(to_dense(draft)?);
                Ok(add_dense(draft, mark))
            }
        },
    }
}

/// Converts a sketch to the dense encoding, with packed registers.
pub fn to_dense(text: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let mut all = Registers::new();
    all.merge(text)?;
    let mut dense = vec![0; DENSE_BYTES];
    dense[..HEADER_BYTES].copy_from_slice(&text[..HEADER_BYTES]);
    dense[ENCODING_AT] = 0;
    all.pack_into(&mut dense);
    Ok(dense)
}

/// The estimated number of distinct elements of a sketch.
pub fn count(text: &[u8]) -> Result<u64, Corrupt> {
    match encoding(text).ok_or(Corrupt)? {
        SketchEncoding::Sparse => {
            sparse::histogram(text).map(|counts| estimate::cardinality(&counts))
        }
        SketchEncoding::Dense => {
            let mut all = Registers::new();
            all.merge(text)?;
            Ok(all.count())
        }
    }
}

/// The runs of a sparse sketch in the format of PFDEBUG DECODE.
pub fn describe_sparse(text: &[u8]) -> Vec<u8> {
    sparse::describe(text)
}

/// All registers, one byte each.
#[derive(Clone, PartialEq, Eq)]
pub struct Registers(Box<[u8; REGISTERS]>);

impl Registers {
    /// All registers zero.
    pub fn new() -> Registers {
        let zeros = vec![0; REGISTERS].into_boxed_slice();
        Registers(zeros.try_into().expect("it was made that long"))
    }

    /// Raises each register to the sketch's. After an error some may have been raised.
    pub fn merge(&mut self, text: &[u8]) -> Result<(), Corrupt> {
        match encoding(text).ok_or(Corrupt)? {
            SketchEncoding::Dense => dense::merge(&mut self.0, &text[HEADER_BYTES..]),
            SketchEncoding::Sparse => sparse::merge(&mut self.0, text)?,
        }
        Ok(())
    }

    /// The estimated number of distinct elements of everything merged.
    pub fn count(&self) -> u64 {
        estimate::cardinality(&estimate::histogram(&self.0))
    }

    /// The registers in order.
    pub fn values(&self) -> &[u8; REGISTERS] {
        &self.0
    }

    /// Overwrites the registers of a dense sketch.
    pub fn pack_into(&self, dense: &mut [u8]) {
        pantala_base::simd::registers::pack(&mut dense[HEADER_BYTES..], &self.0[..]);
    }

    /// Raises each register of a sketch, in ascending order.
    pub fn raise(&self, draft: &mut Draft, sparse_max: usize) -> Result<(), Corrupt> {
        let mut from = sparse::Start::default();
        for (register, &rank) in self.0.iter().enumerate() {
            if rank > 0 {
                set(draft, RegisterMark { register, rank }, sparse_max, &mut from)?;
            }
        }
        Ok(())
    }
}

impl Default for Registers {
    fn default() -> Self {
        Registers::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let mut draft = empty();
        assert_eq!(&draft[..], b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
        assert_eq!((encoding(&draft), cached(&draft)), (Some(SketchEncoding::Sparse), Some(0)));
        cache(&mut draft, 258);
        assert_eq!(cached(&draft), Some(258));
        outdate(&mut draft);
        assert_eq!(cached(&draft), None);
        let dense = to_dense(&draft).expect("a sound sketch");
        assert_eq!(encoding(&dense), Some(SketchEncoding::Dense));
        for bad in [&b""[..], b"HYLL", &dense[..DENSE_BYTES - 1], b"HYLK\x01\0\0\0\0\0\0\0\0\0\0\0"]
        {
            assert_eq!(encoding(bad), None);
        }
        draft[ENCODING_AT] = 2;
        assert_eq!(encoding(&draft), None);
    }

    #[test]
    fn sparse_and_dense_say_the_same() {
        let (mut small, mut large) = (empty(), empty());
        for i in 0..2000_u32 {
            let mark = RegisterMark::of(format!("element {i}").as_bytes());
            let changes = would_change(&small, mark);
            assert_eq!(changes, would_change(&large, mark));
            let added = add(&mut small, mark, usize::MAX);
            assert_eq!((added, add(&mut large, mark, 0)), (changes, changes));
            if i % 100 == 0 {
                assert_eq!(count(&small), count(&large));
                assert_eq!(to_dense(&small).as_deref(), Ok(&large[..]));
            }
        }
        assert_eq!(encoding(&small), Some(SketchEncoding::Sparse));
        assert_eq!(encoding(&large), Some(SketchEncoding::Dense));
        let error = (count(&large).expect("sound") as f64 / 2000.0 - 1.0).abs();
        assert!(error < 0.03, "{error}");
    }
}
