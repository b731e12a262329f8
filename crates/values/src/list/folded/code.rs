//! Encodes characters in fewer bits: each by its index among the symbols that occur.
//!
//! | symbols | bits | for instance |
//! |---|---|---|
//! | up to 16 | 4 | hexadecimal digits, dates and times |
//! | up to 32 | 5 | UUIDs |
//! | up to 64 | 6 | base62 |
//! | ASCII | 7 | any text in English, JSON |
//! | others | 8 | as they are |
//!
//! Eight characters are a group, which takes as many bytes as a character takes bits. The last
//! group is filled up.
//!
//! Tests: at the foot.

/// The most symbols that are numbered; with more, characters are not replaced.
const MOST_SYMBOLS: usize = 64;
/// Characters of a group.
pub const GROUP: usize = 8;
/// Bits of a character that is not replaced.
const PLAIN_BITS: usize = 8;
/// Bits of an ASCII character.
const ASCII_BITS: usize = 7;

/// The code for the characters of a text.
pub struct Code {
    bits: usize,
    /// The symbols in ascending order; empty where characters are not replaced.
    symbols: Vec<u8>,
}

impl Code {
    /// The shortest code for all characters of a text.
    pub fn of(text: &[u8]) -> Code {
        if let Some(symbols) = symbols(text) {
            let bits = match symbols.len() {
                0..=16 => 4,
                17..=32 => 5,
                _ => 6,
            };
            return Code { bits, symbols };
        }
        let bits = if text.is_ascii() { ASCII_BITS } else { PLAIN_BITS };
        Code { bits, symbols: Vec::new() }
    }

    /// Bits of a character.
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// The symbols, to be stored beside a text.
    pub fn symbols(&self) -> &[u8] {
        &self.symbols
    }

    /// Bytes that this many characters take.
    pub fn bytes(&self, characters: usize) -> usize {
        match self.bits {
            PLAIN_BITS => characters,
            bits => characters.div_ceil(GROUP) * bits,
        }
    }

    /// Encodes a text and appends it.
    pub fn write(&self, text: &[u8], out: &mut Vec<u8>) {
        if self.bits == PLAIN_BITS {
            return out.extend_from_slice(text);
        }
        let mut codes = [0; 256];
        for (code, symbol) in self.symbols.iter().enumerate() {
            codes[usize::from(*symbol)] = code as u8;
        }
        let has_codes = !self.symbols.is_empty();
        out.reserve(self.bytes(text.len()) + GROUP);
        let mut push = |eight: [u8; GROUP]| {
            let eight = if has_codes { eight.map(|byte| codes[usize::from(byte)]) } else { eight };
            // Eight bytes are copied in one step; the excess is cut off.
            out.extend_from_slice(&squeeze(eight, self.bits));
            out.truncate(out.len() - (GROUP - self.bits));
        };
        let (groups, rest) = text.as_chunks();
        groups.iter().for_each(|group| push(*group));
        if let Some(first) = rest.first() {
            let mut last = [*first; GROUP];
            last[..rest.len()].copy_from_slice(rest);
            push(last);
        }
    }
}

/// The symbols of a text in order, if they are few.
fn symbols(text: &[u8]) -> Option<Vec<u8>> {
    let mut seen = [false; 256];
    // A text with many symbols shows them at the beginning.
    for part in text.chunks(512) {
        part.iter().for_each(|byte| seen[usize::from(*byte)] = true);
        if seen.iter().filter(|seen| **seen).count() > MOST_SYMBOLS {
            return None;
        }
    }
    Some((0..=u8::MAX).filter(|byte| seen[usize::from(*byte)]).collect())
}

/// Decodes what [`Code::write`] wrote.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    bits: usize,
    symbols: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader from the parts of a code and the encoded bytes.
    pub fn new(bits: usize, symbols: &'a [u8], bytes: &'a [u8]) -> Reader<'a> {
        Reader { bits, symbols, bytes }
    }

    /// The text, where it is stored unchanged.
    #[inline]
    pub fn plain(&self) -> Option<&'a [u8]> {
        (self.bits == PLAIN_BITS).then_some(self.bytes)
    }

    /// Decodes up to `count` groups from group `first` on and appends their text.
    pub fn read(&self, first: usize, count: usize, out: &mut Vec<u8>) {
        let groups = self.bytes.chunks_exact(self.bits).skip(first).take(count);
        if self.symbols.is_empty() {
            return groups.for_each(|group| out.extend_from_slice(&spread(group)));
        }
        let mut table = [0; MOST_SYMBOLS];
        table[..self.symbols.len()].copy_from_slice(self.symbols);
        for group in groups {
            out.extend_from_slice(
                &spread(group).map(|code| table[usize::from(code) % table.len()]),
            );
        }
    }
}

/// Eight codes of this many bits next to each other: neighbours move together, then pairs, then
/// fours.
#[inline]
fn squeeze(eight: [u8; GROUP], bits: usize) -> [u8; GROUP] {
    let gap = GROUP - bits;
    let mut word = u64::from_le_bytes(eight);
    word = word & 0x00ff_00ff_00ff_00ff | (word & 0xff00_ff00_ff00_ff00) >> gap;
    word = word & 0x0000_ffff_0000_ffff | (word & 0xffff_0000_ffff_0000) >> (2 * gap);
    word = word & 0x0000_0000_ffff_ffff | (word & 0xffff_ffff_0000_0000) >> (4 * gap);
    word.to_le_bytes()
}

/// The eight codes of a group.
#[inline]
fn spread(group: &[u8]) -> [u8; GROUP] {
    let bits = group.len();
    let gap = GROUP - bits;
    let mut eight = [0; GROUP];
    eight[..bits].copy_from_slice(group);
    let mut word = u64::from_le_bytes(eight);
    let low = |count: usize| (1 << (count * bits)) - 1;
    let fours: u64 = low(4);
    word = word & fours | (word & !fours) << (4 * gap);
    let pairs = low(2) << 32 | low(2);
    word = word & pairs | (word & !pairs) << (2 * gap);
    let ones = 0x0001_0001_0001_0001 * low(1);
    word = word & ones | (word & !ones) << gap;
    word.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], bits: usize) {
        let code = Code::of(text);
        assert_eq!(code.bits(), bits, "{}", String::from_utf8_lossy(text));
        let mut bytes = Vec::new();
        code.write(text, &mut bytes);
        assert_eq!(bytes.len(), code.bytes(text.len()));
        let reader = Reader::new(bits, code.symbols(), &bytes);
        let mut read = reader.plain().unwrap_or_default().to_vec();
        if read.is_empty() {
            reader.read(0, text.len().div_ceil(GROUP), &mut read);
        }
        assert_eq!(&read[..text.len()], text);
        let some = (text.len() / GROUP).saturating_sub(1);
        if reader.plain().is_none() {
            let mut read = Vec::new();
            reader.read(some, 1, &mut read);
            assert_eq!(&read[..GROUP], &text[some * GROUP..(some + 1) * GROUP]);
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for len in [8, 9, 20, 1000] {
            let text = |symbols: usize| {
                let all: Vec<u8> = (0..len).map(|at| (at % symbols + 0x30) as u8).collect();
                all
            };
            check(&text(1), 4);
            check(&text(10), 4);
        }
        let text = |count: u32, first: u32| {
            (0..1000_u32).map(|at| (first + at * 7 % count) as u8).collect::<Vec<u8>>()
        };
        check(&text(16, 200), 4);
        check(&text(17, 0x30), 5);
        check(&text(32, 150), 5);
        check(&text(33, 0x30), 6);
        check(&text(64, 190), 6);
        check(&text(65, 0x30), 7);
        check(&text(128, 0), 7);
        check(&text(129, 0), 8);
        check(&text(256, 0), 8);
    }
}
