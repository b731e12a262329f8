//! Decompresses gzip files for the rare client that does not accept them: DEFLATE, by RFC 1951 and
//! RFC 1952.
//!
//! Only for files that are part of the program: a broken one gives nothing, and checksums are not
//! verified. Nothing here is fast. Tests: at the foot.

/// The longest code of a symbol, in bits.
const MOST_BITS: usize = 15;
/// Bytes of a gzip header before its optional parts.
const HEADER_BYTES: usize = 10;
const NAME_FLAG: u8 = 8;
/// The order of the lengths of code-length codes.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// The length of a copy by its symbol after 256: the base, and the number of extra bits.
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// The decompressed bytes of a file; `None`: it is broken, or has parts that ours do not have.
pub(crate) fn gunzip(file: &[u8]) -> Option<Vec<u8>> {
    let flags = *file.get(3)?;
    let mut rest = file.get(HEADER_BYTES..)?;
    if flags == NAME_FLAG {
        let end = rest.iter().position(|byte| *byte == 0)?;
        rest = &rest[end + 1..];
    }
    if !matches!(flags, 0 | NAME_FLAG) || !file.starts_with(&[0x1f, 0x8b, 8]) {
        return None;
    }
    inflate(&mut Bits { bytes: rest, at: 0 })
}

fn inflate(bits: &mut Bits<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => bits.copy_stored(&mut out)?,
            1 => {
                let lengths: Vec<u8> = (0..288)
                    .map(|symbol| match symbol {
                        0..=143 => 8,
                        144..=255 => 9,
                        256..=279 => 7,
                        _ => 8,
                    })
                    .collect();
                block(bits, &Code::of(&lengths), &Code::of(&[5; 30]), &mut out)?;
            }
            2 => {
                let (symbols, distances) = codes(bits)?;
                block(bits, &symbols, &distances, &mut out)?;
            }
            _ => return None,
        }
        if is_last {
            return Some(out);
        }
    }
}

/// The codes of a block: for symbols and for distances.
fn codes(bits: &mut Bits<'_>) -> Option<(Code, Code)> {
    let symbols = bits.take(5)? + 257;
    let all = symbols + bits.take(5)? + 1;
    let mut of_lengths = [0; ORDER.len()];
    for place in ORDER.iter().take(bits.take(4)? + 4) {
        of_lengths[*place] = bits.take(3)? as u8;
    }
    let of_lengths = Code::of(&of_lengths);
    let mut lengths: Vec<u8> = Vec::new();
    while lengths.len() < all {
        let (length, times) = match of_lengths.read(bits)? {
            16 => (*lengths.last()?, 3 + bits.take(2)?),
            17 => (0, 3 + bits.take(3)?),
            18 => (0, 11 + bits.take(7)?),
            length => (length as u8, 1),
        };
        lengths.extend(std::iter::repeat_n(length, times));
    }
    let (of_symbols, of_distances) = lengths.get(..all)?.split_at(symbols);
    Some((Code::of(of_symbols), Code::of(of_distances)))
}

fn block(bits: &mut Bits<'_>, symbols: &Code, distances: &Code, out: &mut Vec<u8>) -> Option<()> {
    loop {
        let symbol = symbols.read(bits)?;
        match symbol {
            0..=255 => out.push(symbol as u8),
            256 => return Some(()),
            _ => {
                let (least, more) = *LENGTHS.get(usize::from(symbol) - 257)?;
                let length = usize::from(least) + bits.take(more)?;
                let from = out.len().checked_sub(distance(bits, distances)?)?;
                // The copy may overlap its own output.
                for at in from..from + length {
                    out.push(*out.get(at)?);
                }
            }
        }
    }
}

fn distance(bits: &mut Bits<'_>, code: &Code) -> Option<usize> {
    let symbol = code.read(bits)?;
    let more = (symbol / 2).saturating_sub(1) as u8;
    match symbol {
        0..=3 => Some(usize::from(symbol) + 1),
        4..=29 => Some((usize::from(2 + symbol % 2) << more) + 1 + bits.take(more)?),
        _ => None,
    }
}

/// A prefix code: the number of symbols of each length, and all symbols by their codes.
struct Code {
    counts: [u16; MOST_BITS + 1],
    symbols: Vec<u16>,
}

impl Code {
    /// A code from the length of each symbol's code; 0: the symbol has none.
    fn of(lengths: &[u8]) -> Code {
        let mut counts = [0; MOST_BITS + 1];
        lengths.iter().for_each(|length| counts[usize::from(*length)] += 1);
        counts[0] = 0;
        let mut symbols: Vec<u16> = (0..lengths.len() as u16).collect();
        symbols.retain(|symbol| lengths[usize::from(*symbol)] > 0);
        symbols.sort_by_key(|symbol| lengths[usize::from(*symbol)]);
        Code { counts, symbols }
    }

    fn read(&self, bits: &mut Bits<'_>) -> Option<u16> {
        let (mut code, mut first, mut index) = (0, 0, 0);
        for count in self.counts.iter().skip(1).map(|count| usize::from(*count)) {
            code |= bits.take(1)?;
            if code < first + count {
                return self.symbols.get(index + code - first).copied();
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

/// Reads bits, the lowest of each byte first.
struct Bits<'b> {
    bytes: &'b [u8],
    /// The index of the next bit.
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u8) -> Option<usize> {
        let mut value = 0;
        for place in 0..count {
            let byte = *self.bytes.get(self.at / 8)?;
            value |= usize::from(byte >> (self.at % 8) & 1) << place;
            self.at += 1;
        }
        Some(value)
    }

    /// Copies an uncompressed block, which begins at a whole byte.
    fn copy_stored(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let from = self.at.div_ceil(8);
        let length = self.bytes.get(from..from + 2)?;
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        out.extend_from_slice(self.bytes.get(from + 4..from + 4 + length)?);
        self.at = (from + 4 + length) * 8;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_header(body: &[u8]) -> Vec<u8> {
        [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], body].concat()
    }

    #[test]
    fn blocks_of_all_kinds_are_read() {
        let stored = with_header(&[1, 2, 0, 0xfd, 0xff, b'h', b'i']);
        assert_eq!(gunzip(&stored).as_deref(), Some(&b"hi"[..]));
        // "aaaaaaaaaa": a letter, and a copy that overlaps its output.
        let fixed = with_header(&[0x4b, 0x4c, 0x84, 0x01, 0x00]);
        assert_eq!(gunzip(&fixed).as_deref(), Some(&b"aaaaaaaaaa"[..]));
    }

    #[test]
    fn what_is_broken_gives_nothing() {
        let stored = with_header(&[1, 2, 0, 0xfd, 0xff, b'h', b'i']);
        for length in 0..stored.len() {
            assert_eq!(gunzip(&stored[..length]), None, "{length}");
        }
        for body in [&[7][..], &[0x4b], &[0x04, 0x80, 0xff], &[0x03 | 0x80, 0xff, 0xff]] {
            assert_eq!(gunzip(&with_header(body)), None, "{body:?}");
        }
        assert_eq!(gunzip(&[0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0xff, 0xff]), None);
    }
}
