//! LZF: what strings are compressed with.
//!
//! | first byte | what follows |
//! |---|---|
//! | `000nnnnn` | n + 1 bytes as they are |
//! | `nnnddddd` | a byte with the rest of the distance: n + 2 bytes from d + 1 bytes back |
//! | `111ddddd` | a byte m, a byte with the rest of the distance: m + 9 bytes from there |
//!
//! A copy may reach into what it writes itself.

use crate::input::{Input, Malformed};

/// The most that one compressed byte can stand for: three make 264.
const MOST_GROWTH: usize = 88;

/// What `bytes` were before, which was `len` bytes long.
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

/// Appends `count` bytes from `from` on, which may be what was appended just now.
fn copy_back(out: &mut Vec<u8>, from: usize, count: usize) {
    let end = out.len() + count;
    while out.len() < end {
        // What is there twice can be copied at once.
        let most = (out.len() - from).min(end - out.len());
        out.extend_from_within(from..from + most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn no_copy_from_before_the_beginning() {
        assert!(decompress(&[0x20, 0x05], 3).is_err());
        assert!(decompress(&[0x00, b'a', 0x20, 0x01], 4).is_err());
        assert!(decompress(&[0x00, b'a', 0x20, 0x00], 4).is_ok());
        assert!(decompress(&[0xe0], usize::MAX).is_err());
    }
}
