//! Frames: the format of a part of a full copy, on a connection of its own.
//!
//! ```text
//! kind (1)   stored (4)   length (4)   checksum (8)   the stored bytes       little-endian
//! P          plain: `length` bytes as they are
//! L          an LZ4 block that becomes `length` bytes
//! A          nothing: the primary is alive
//! E          nothing: the end
//! ```
//!
//! Invariants
//! 1. The checksum covers the uncompressed bytes and the number of preceding frames, so a damaged,
//!    missing or repeated frame is detected.
//! 2. No frame holds more than [`MOST_FRAME_BYTES`]; a longer frame is refused when its head is
//!    read.
//!
//! Tests: at the foot.

use lz4_flex::block;
use pantala_base::crc::crc64;

/// The most bytes of a frame, before and after decompression.
pub const MOST_FRAME_BYTES: usize = 256 << 10;
/// Bytes of the head of a frame.
const HEAD_BYTES: usize = 17;
const _: () = assert!(HEAD_BYTES == 1 + 4 + 4 + 8, "a head is a kind, two lengths and a checksum");
const _: () = assert!(MOST_FRAME_BYTES <= u32::MAX as usize, "a head tells every length");

const PLAIN: u8 = b'P';
const PACKED: u8 = b'L';
const ALIVE: u8 = b'A';
const END: u8 = b'E';

fn push_head(kind: u8, stored: usize, length: usize, checksum: u64, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(stored as u32).to_le_bytes());
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Encodes the frames of one part.
#[derive(Debug, Default)]
pub struct FrameWriter {
    /// How many frames there were.
    count: u64,
}

impl FrameWriter {
    /// Appends a frame with these bytes, at most [`MOST_FRAME_BYTES`]; compressed if `compresses`
    /// and if that saves an eighth. Returns whether it was compressed.
    pub fn write(&mut self, bytes: &[u8], compresses: bool, out: &mut Vec<u8>) -> bool {
        debug_assert!(bytes.len() <= MOST_FRAME_BYTES, "a reader refuses a longer one");
        let checksum = self.next_checksum(bytes);
        let packed = compresses.then(|| block::compress(bytes));
        let pays = |packed: &Vec<u8>| packed.len() <= bytes.len() - bytes.len() / 8;
        match packed.filter(pays) {
            Some(packed) if packed.len() < bytes.len() => {
                push_head(PACKED, packed.len(), bytes.len(), checksum, out);
                out.extend_from_slice(&packed);
                true
            }
            _ => {
                push_head(PLAIN, bytes.len(), bytes.len(), checksum, out);
                out.extend_from_slice(bytes);
                false
            }
        }
    }

    /// Appends the end frame.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        let checksum = self.next_checksum(&[]);
        push_head(END, 0, 0, checksum, out);
    }

    fn next_checksum(&mut self, bytes: &[u8]) -> u64 {
        self.count += 1;
        crc64(self.count, bytes)
    }
}

/// The frame that says that the primary is alive. It may come between any two frames.
pub fn alive() -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES);
    push_head(ALIVE, 0, 0, 0, &mut out);
    debug_assert_eq!(out.len(), HEAD_BYTES, "it is nothing but a head");
    out
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError(pub &'static str);

/// Decodes the frames of one part.
#[derive(Debug, Default)]
pub struct FrameReader {
    count: u64,
    is_over: bool,
}

impl FrameReader {
    /// Decodes the frame at the start of these bytes and appends its content to `out`; returns how
    /// many bytes were used. `None`: more are needed.
    ///
    /// # Errors
    /// It is not a frame, or not the next one. Nothing of it was appended.
    pub fn read(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, FrameError> {
        let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return Ok(None) };
        if self.is_over {
            return Err(FrameError("something follows its end"));
        }
        let number = |at: usize, len: usize| {
            let bytes = head[at..at + len].iter().rev();
            bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let (kind, checksum) = (head[0], number(9, 8));
        let (stored, length) = (number(1, 4) as usize, number(5, 4) as usize);
        let is_meant = match kind {
            PLAIN => stored == length && length <= MOST_FRAME_BYTES,
            PACKED => stored < length && length <= MOST_FRAME_BYTES,
            ALIVE => (stored, length, checksum) == (0, 0, 0),
            END => (stored, length) == (0, 0),
            _ => false,
        };
        if !is_meant {
            return Err(FrameError("no head of a frame"));
        }
        let Some(stored) = rest.get(..stored) else { return Ok(None) };
        let used = HEAD_BYTES + stored.len();
        if kind == ALIVE {
            return Ok(Some(used));
        }
        self.count += 1;
        let before = out.len();
        match kind {
            PACKED => {
                out.resize(before + length, 0);
                let unpacked = block::decompress_into(stored, &mut out[before..]);
                if unpacked.ok() != Some(length) {
                    out.truncate(before);
                    return Err(FrameError("it cannot be decompressed"));
                }
            }
            _ => out.extend_from_slice(stored),
        }
        if crc64(self.count, &out[before..]) != checksum {
            out.truncate(before);
            return Err(FrameError("its checksum is another one"));
        }
        debug_assert!(out.len() == before + length, "its head tells its length");
        self.is_over = kind == END;
        Ok(Some(used))
    }

    /// Whether the end frame has come.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of three pieces, an alive frame, and the end; and its content.
    fn part() -> (Vec<u8>, Vec<u8>) {
        let mut noise = 1_u64;
        let mut random = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        };
        let random: Vec<u8> = (0..200).map(|_| random()).collect();
        let pieces = [b"hello ".repeat(50), random, vec![b'x'; 100]];
        let (mut writer, mut out) = (FrameWriter::default(), Vec::new());
        assert!(writer.write(&pieces[0], true, &mut out));
        assert!(!writer.write(&pieces[1], true, &mut out), "it gets no smaller");
        out.extend_from_slice(&alive());
        assert!(!writer.write(&pieces[2], false, &mut out));
        writer.end(&mut out);
        (out, pieces.concat())
    }

    /// The content of these bytes, received in pieces of this size; `None`: more are needed.
    fn read(bytes: &[u8], size: usize) -> Result<Option<Vec<u8>>, FrameError> {
        let (mut reader, mut input, mut out) = (FrameReader::default(), Vec::new(), Vec::new());
        for piece in bytes.chunks(size) {
            input.extend_from_slice(piece);
            while let Some(used) = reader.read(&input, &mut out)? {
                input.drain(..used);
            }
        }
        Ok(reader.is_over().then_some(out))
    }

    #[test]
    fn any_pieces_give_the_same() {
        let (sent, held) = part();
        assert!(sent.len() < held.len());
        for size in 1..=sent.len() {
            assert_eq!(read(&sent, size), Ok(Some(held.clone())), "{size}");
        }
        for end in 0..sent.len() {
            assert_eq!(read(&sent[..end], 64), Ok(None), "it is not whole at {end}");
        }
    }

    #[test]
    fn whatever_is_damaged_is_not_taken_for_whole() {
        let (sent, held) = part();
        for at in 0..sent.len() {
            for flip in [1, 0x80] {
                let mut damaged = sent.clone();
                damaged[at] ^= flip;
                // Some bytes of a block may encode the same in another way.
                if let Ok(Some(other)) = read(&damaged, 64) {
                    assert_eq!(other, held, "{at} {flip}");
                }
            }
        }
    }

    #[test]
    fn a_frame_that_is_missing_or_comes_twice_is_found() {
        let (mut writer, mut frames) = (FrameWriter::default(), Vec::new());
        for _ in 0..3 {
            let mut out = Vec::new();
            writer.write(b"all alike", false, &mut out);
            frames.push(out);
        }
        let mut end = Vec::new();
        writer.end(&mut end);
        let sent = |of: &[usize]| {
            let mut all: Vec<u8> = of.iter().flat_map(|at| frames[*at].clone()).collect();
            all.extend_from_slice(&end);
            read(&all, 1000)
        };
        assert!(sent(&[0, 1, 2]).is_ok());
        for wrong in [&[0, 1][..], &[0, 2], &[0, 1, 1], &[0, 1, 2, 2], &[1, 0, 2], &[]] {
            assert!(sent(wrong).is_err(), "{wrong:?}");
        }
        let after_end = [end.clone(), end.clone()].concat();
        assert!(read(&after_end, 1000).is_err());
    }

    #[test]
    fn a_hostile_head_is_refused_before_anything_comes() {
        for (kind, stored, length) in [
            (PLAIN, MOST_FRAME_BYTES + 1, MOST_FRAME_BYTES + 1),
            (PLAIN, 1, 2),
            (PACKED, 10, u32::MAX as usize),
            (PACKED, 10, 10),
            (PACKED, u32::MAX as usize, 20),
            (ALIVE, 1, 1),
            (END, 0, 1),
            (b'?', 0, 0),
        ] {
            let mut head = Vec::new();
            push_head(kind, stored, length, 0, &mut head);
            assert!(read(&head, 1000).is_err(), "{kind} {stored} {length}");
        }
        let mut bomb = Vec::new();
        push_head(PACKED, 3, MOST_FRAME_BYTES, 0, &mut bomb);
        bomb.extend_from_slice(&[0xff; 3]);
        assert_eq!(read(&bomb, 1000), Err(FrameError("it cannot be decompressed")));
    }
}
