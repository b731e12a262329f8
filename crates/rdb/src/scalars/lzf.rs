//! LZF, the compression of strings.
//!
//! | first byte | what follows |
//! |---|---|
//! | `000nnnnn` | n + 1 bytes as they are |
//! | `nnnddddd` | a byte with the rest of the distance: n + 2 bytes from d + 1 bytes back |
//! | `111ddddd` | a byte m, a byte with the rest of the distance: m + 9 bytes from there |
//!
//! A copy may overlap its own output.
//!
//! Consecutive compressed pieces are valid as one compressed text: long texts are compressed in
//! blocks of [`BLOCK_BYTES`], each with a table on the stack, sized to the block. Nothing is kept
//! between two texts, so the same text always gives the same bytes.

use crate::input::{Input, Malformed};

/// The most that one compressed byte can stand for: three make 264.
const MOST_GROWTH: usize = 88;

/// The size of a block; no copy leads from one block into another. Offsets in a block fit 16 bits.
pub const BLOCK_BYTES: usize = 16 << 10;
/// How far back a copy may begin.
const MOST_DISTANCE: usize = 1 << 13;
/// Bytes of the longest and the shortest copy.
const MOST_COPIED: usize = 264;
const LEAST_COPIED: usize = 3;
/// Bytes of the longest uncompressed run.
const MOST_PLAIN: usize = 32;
/// After this many offsets without a copy every second one is tried, then every third ...
const PATIENCE: usize = 64;

/// Compresses `bytes` into the start of `out`, and returns the length: `None` if `out` is too
/// short.
pub fn compress(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut written = 0;
    for block in bytes.chunks(BLOCK_BYTES) {
        let room = &mut out[written..];
        written += match block.len() {
            0..=128 => compress_block::<128>(block, room),
            129..=1024 => compress_block::<512>(block, room),
            _ => compress_block::<4096>(block, room),
        }?;
    }
    Some(written)
}

/// Uses a table of `SIZE` entries, a power of two: for each hash of three bytes the last offset.
fn compress_block<const SIZE: usize>(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut places = [0_u16; SIZE];
    let mut to = Output { out, len: 0 };
    let (mut at, mut plain_from, mut misses) = (0, 0, PATIENCE);
    while let Some(next) = four_at(bytes, at) {
        let place = &mut places[slot::<SIZE>(next)];
        let from = usize::from(*place);
        *place = at as u16;
        let is_there = from < at
            && at - from <= MOST_DISTANCE
            && four_at(bytes, from).is_some_and(|there| (there ^ next) << 8 == 0);
        if !is_there {
            at += misses / PATIENCE;
            misses += 1;
            continue;
        }
        let count = LEAST_COPIED + equal_bytes(bytes, from + LEAST_COPIED, at + LEAST_COPIED);
        to.plain(&bytes[plain_from..at])?;
        to.copy(at - from, count)?;
        at += count;
        (plain_from, misses) = (at, PATIENCE);
        // The end of what was copied may be the start of the next copy.
        for known in [at - 2, at - 1] {
            if let Some(word) = four_at(bytes, known) {
                places[slot::<SIZE>(word)] = known as u16;
            }
        }
    }
    to.plain(&bytes[plain_from..])?;
    Some(to.len)
}

/// Four bytes, of which the first three count.
#[inline]
fn four_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}

/// The entry in the table for three bytes.
#[inline]
fn slot<const SIZE: usize>(four: u32) -> usize {
    const GOLDEN: u32 = 0x9e37_79b1;
    ((four << 8).wrapping_mul(GOLDEN) >> (32 - SIZE.trailing_zeros())) as usize & (SIZE - 1)
}

/// How many bytes after the start of a copy are equal at both offsets.
#[inline]
fn equal_bytes(bytes: &[u8], from: usize, at: usize) -> usize {
    let most = (bytes.len() - at).min(MOST_COPIED - LEAST_COPIED);
    let (one, other) = (&bytes[from..from + most], &bytes[at..at + most]);
    let (ones, _) = one.as_chunks::<8>();
    let (others, _) = other.as_chunks::<8>();
    for (nth, (one, other)) in ones.iter().zip(others).enumerate() {
        let difference = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if difference != 0 {
            return 8 * nth + difference.trailing_zeros() as usize / 8;
        }
    }
    let tail = 8 * ones.len();
    let same = one[tail..].iter().zip(&other[tail..]).take_while(|(one, other)| one == other);
    tail + same.count()
}

/// Writes compressed bytes.
struct Output<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl Output<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.out.get_mut(self.len..self.len + bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }

    /// Writes uncompressed bytes.
    fn plain(&mut self, bytes: &[u8]) -> Option<()> {
        for run in bytes.chunks(MOST_PLAIN) {
            self.put(&[(run.len() - 1) as u8])?;
            self.put(run)?;
        }
        Some(())
    }

    /// Writes a copy of `count` bytes from `distance` bytes back.
    fn copy(&mut self, distance: usize, count: usize) -> Option<()> {
        let back = distance - 1;
        let (high, low) = ((back >> 8) as u8, back as u8);
        match count - 2 {
            more @ 0..7 => self.put(&[(more as u8) << 5 | high, low]),
            more => self.put(&[7 << 5 | high, (more - 7) as u8, low]),
        }
    }
}

/// Decompresses `bytes` to a text of `len` bytes.
pub fn decompress(bytes: &[u8], len: usize) -> Result<Vec<u8>, Malformed> {
    const WRONG: Malformed = Malformed("compressed bytes that are not what they say");
    if len > bytes.len().saturating_mul(MOST_GROWTH) {
        return Err(WRONG);
    }
    let mut out = Vec::with_capacity(len);
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        let first = usize::from(input.byte()?);
        let count = first >> 5;
        if count == 0 {
            out.extend_from_slice(input.take(first + 1)?);
        } else {
            let more = if count == 7 { usize::from(input.byte()?) } else { 0 };
            let distance = ((first & 0x1f) << 8 | usize::from(input.byte()?)) + 1;
            let from = out.len().checked_sub(distance).ok_or(WRONG)?;
            copy_back(&mut out, from, count + more + 2);
        }
        if out.len() > len {
            return Err(WRONG);
        }
    }
    if out.len() == len { Ok(out) } else { Err(WRONG) }
}

/// Appends `count` bytes from `from` on, which may overlap the bytes being appended.
fn copy_back(out: &mut Vec<u8>, from: usize, count: usize) {
    let end = out.len() + count;
    while out.len() < end {
        // Bytes that exist already can be copied at once.
        let most = (out.len() - from).min(end - out.len());
        out.extend_from_within(from..from + most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_base::Rng;

    fn check(hex: &str, expected: &[u8]) {
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal"))
            .collect();
        assert_eq!(decompress(&bytes, expected.len()).as_deref(), Ok(expected));
        assert!(decompress(&bytes, expected.len() + 1).is_err());
        assert!(decompress(&bytes, expected.len() - 1).is_err());
        for cut in 0..bytes.len() {
            assert!(decompress(&bytes[..cut], expected.len()).is_err());
        }
    }

    #[test]
    fn what_valkey_compressed() {
        check("016161e00a00", &[b'a'; 21]);
        check("0361626361e00602016263", b"abcabcabcabcabcabcabc");
        check("017878e039000178 78".replace(' ', "").as_str(), &[b'x'; 70]);
    }

    fn there_and_back(bytes: &[u8]) -> Option<usize> {
        let mut room = vec![0; bytes.len()];
        let len = compress(bytes, &mut room)?;
        assert_eq!(decompress(&room[..len], bytes.len()).as_deref(), Ok(bytes));
        let mut exact = vec![0; len];
        assert_eq!(compress(bytes, &mut exact), Some(len));
        assert_eq!(exact, room[..len]);
        assert_eq!(compress(bytes, &mut exact[..len - 1]), None);
        Some(len)
    }

    #[test]
    fn what_repeats_becomes_short() {
        assert_eq!(there_and_back(&[b'a'; 21]), Some(5));
        assert_eq!(there_and_back(b"abcabcabcabcabcabcabc"), Some(7));
        assert_eq!(there_and_back(&[0; 3 * BLOCK_BYTES + 5]).map(|len| len < 1200), Some(true));
        let sentence = b"the same sentence with the same words again and again, ".repeat(40);
        assert!(there_and_back(&sentence).is_some_and(|len| len < 100));
        let far = [&sentence[..50], &[0; MOST_DISTANCE - 50], &sentence[..50]].concat();
        assert!(there_and_back(&far).is_some_and(|len| len < 170));
    }

    #[test]
    fn random_bytes_of_every_length_come_back() {
        let mut rng = Rng::from_seed(1);
        let mut smaller = 0;
        for len in (22..600).chain([8190, 8200, 40_000, 70_000]) {
            for letters in [2, 16, 256] {
                let bytes: Vec<u8> = (0..len).map(|_| rng.below(letters) as u8).collect();
                smaller += usize::from(there_and_back(&bytes).is_some());
            }
        }
        assert!(smaller > 580, "only {smaller}");
    }

    #[test]
    fn no_copy_from_before_the_beginning() {
        assert!(decompress(&[0x20, 0x05], 3).is_err());
        assert!(decompress(&[0x00, b'a', 0x20, 0x01], 4).is_err());
        assert!(decompress(&[0x00, b'a', 0x20, 0x00], 4).is_ok());
        assert!(decompress(&[0xe0], usize::MAX).is_err());
    }
}
