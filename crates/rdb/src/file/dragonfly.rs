//! Sections that Dragonfly has compressed together: frames of LZ4 or Zstandard.
//!
//! ```text
//! LZ4:
//! frame:  0x184d2204 | flags | largest block | length | checksum | block ... | 0 | checksum
//! block:  u32 bytes, the highest bit set if uncompressed | bytes | checksum
//! ```
//!
//! Written from its public source; not tested with a real Dragonfly. Checksums of frames are
//! skipped: the file's own covers them, if there is one. A claimed length causes no allocation. A
//! frame of Zstandard, of which four bytes can stand for 128 KB, may hold `MOST_BYTES`, or as much
//! as LZ4 could.

use std::io::Read;

use lz4_flex::block::decompress_into_with_dict;
use ruzstd::decoding::StreamingDecoder;

use crate::input::{Input, Malformed};

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();
const VERSION_BITS: u8 = 0xc0;
const VERSION: u8 = 0x40;
const HAS_BLOCK_CHECKSUMS: u8 = 0x10;
const HAS_LENGTH: u8 = 0x08;
const HAS_CHECKSUM: u8 = 0x04;
const HAS_DICTIONARY: u8 = 0x01;
const CHECKSUM_BYTES: usize = 4;
/// The bit in a block's length that marks it as uncompressed.
const PLAIN: u32 = 1 << 31;
/// How far back a copy may begin, including earlier blocks.
const MOST_DISTANCE: usize = 1 << 16;
/// The most that one compressed byte can stand for.
const MOST_GROWTH: u64 = 255;

const WRONG: Malformed = Malformed("compressed sections that are not what they say");

/// What any frame of Zstandard may hold, however small it is: Dragonfly compresses after some
/// hundreds of kilobytes, or one value.
const MOST_BYTES: u64 = 64 << 20;

/// Decompresses a frame of Zstandard.
pub fn decompress_zstd(frame: &[u8]) -> Result<Vec<u8>, Malformed> {
    const TOO_MUCH: Malformed = Malformed("compressed sections that hold too much");
    let most = MOST_BYTES.max(MOST_GROWTH * frame.len() as u64);
    let (mut rest, mut out) = (frame, Vec::new());
    let mut decoder = StreamingDecoder::new(&mut rest).map_err(|_| WRONG)?;
    decoder.by_ref().take(most + 1).read_to_end(&mut out).map_err(|_| WRONG)?;
    drop(decoder);
    match out.len() as u64 {
        len if len > most => Err(TOO_MUCH),
        _ if rest.is_empty() => Ok(out),
        _ => Err(WRONG),
    }
}

/// Decompresses a frame of LZ4.
pub fn decompress_lz4(frame: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut input = Input::new(frame);
    let (magic, flags) = (input.array()?, input.byte()?);
    let is_known = magic == MAGIC
        && flags & VERSION_BITS == VERSION
        && flags & HAS_LENGTH != 0
        && flags & HAS_DICTIONARY == 0;
    if !is_known {
        return Err(WRONG);
    }
    input.byte()?;
    let len = u64::from_le_bytes(input.array()?);
    input.byte()?;
    if len > MOST_GROWTH * frame.len() as u64 {
        return Err(WRONG);
    }
    let mut out = vec![0; len as usize];
    let mut end = 0;
    loop {
        let head = u32::from_le_bytes(input.array()?);
        if head == 0 {
            break;
        }
        let bytes = input.take((head & !PLAIN) as usize)?;
        if flags & HAS_BLOCK_CHECKSUMS != 0 {
            input.take(CHECKSUM_BYTES)?;
        }
        let (before, room) = out.split_at_mut(end);
        end += match head & PLAIN {
            0 => {
                let known = &before[before.len().saturating_sub(MOST_DISTANCE)..];
                decompress_into_with_dict(bytes, room, known).map_err(|_| WRONG)?
            }
            _ => {
                room.get_mut(..bytes.len()).ok_or(WRONG)?.copy_from_slice(bytes);
                bytes.len()
            }
        };
    }
    if flags & HAS_CHECKSUM != 0 {
        input.take(CHECKSUM_BYTES)?;
    }
    if end == out.len() && input.is_empty() { Ok(out) } else { Err(WRONG) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lz4_flex::block::{compress, compress_with_dict};

    fn frame(flags: u8, len: usize, blocks: &[(u32, &[u8])]) -> Vec<u8> {
        let mut frame = [&MAGIC[..], &[VERSION | HAS_LENGTH | flags, 0x40]].concat();
        frame.extend_from_slice(&(len as u64).to_le_bytes());
        frame.push(0);
        for (plain, bytes) in blocks {
            frame.extend_from_slice(&(bytes.len() as u32 | plain).to_le_bytes());
            frame.extend_from_slice(bytes);
            if flags & HAS_BLOCK_CHECKSUMS != 0 {
                frame.extend_from_slice(&[0; CHECKSUM_BYTES]);
            }
        }
        frame.extend_from_slice(&[0; 4]);
        if flags & HAS_CHECKSUM != 0 {
            frame.extend_from_slice(&[0; CHECKSUM_BYTES]);
        }
        frame
    }

    #[test]
    fn frames_with_blocks_of_every_form() {
        let first = b"some words, some more words, and some words again".repeat(9);
        let second = compress_with_dict(&first, &first);
        let blocks = [(0, &compress(&first)[..]), (0, &second), (PLAIN, b"end")];
        let expected = [&first[..], &first, b"end"].concat();
        for flags in [0, HAS_CHECKSUM, HAS_BLOCK_CHECKSUMS, HAS_CHECKSUM | HAS_BLOCK_CHECKSUMS] {
            let bytes = frame(flags, expected.len(), &blocks);
            assert_eq!(decompress_lz4(&bytes).as_deref(), Ok(&expected[..]));
            for cut in 0..bytes.len() {
                assert!(decompress_lz4(&bytes[..cut]).is_err());
            }
            assert!(decompress_lz4(&frame(flags, expected.len() - 1, &blocks)).is_err());
            assert!(decompress_lz4(&frame(flags, expected.len() + 1, &blocks)).is_err());
        }
        assert!(decompress_lz4(&frame(0, usize::MAX >> 1, &blocks)).is_err());
        assert!(decompress_lz4(&frame(HAS_DICTIONARY, expected.len(), &blocks)).is_err());
    }

    /// Twelve texts, compressed by the reference implementation of Zstandard.
    const ZSTD: &[u8] =
        b"(\xb5/\xfd`(\x01E\x01\x00\xd0some words, morand again. \x04\x00\xf7Q)\xfe\x13\
        \x0f\x9a5~\x95$";

    #[test]
    fn frames_of_zstandard() {
        let expected = b"some words, some more words, and words again. ".repeat(12);
        assert_eq!(decompress_zstd(ZSTD).as_deref(), Ok(&expected[..]));
        for cut in 0..ZSTD.len() {
            assert!(decompress_zstd(&ZSTD[..cut]).is_err(), "{cut}");
        }
        assert!(decompress_zstd(&[ZSTD, b"x"].concat()).is_err());
    }

    #[test]
    fn a_frame_that_stands_for_very_much_is_refused() {
        // Magic, no checksum and no length, a window of 128 KB; blocks that repeat one byte.
        let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
        let block = |is_last: u32| ((128 << 10) << 3 | 1 << 1 | is_last).to_le_bytes();
        let frame = |blocks: usize| {
            let mut frame = bomb.clone();
            (1..blocks).for_each(|_| frame.extend_from_slice(&[&block(0)[..3], b"x"].concat()));
            frame.extend_from_slice(&[&block(1)[..3], b"x"].concat());
            frame
        };
        assert_eq!(decompress_zstd(&frame(512)).map(|out| out.len()), Ok(64 << 20));
        assert!(decompress_zstd(&frame(513)).is_err());
        bomb.truncate(5);
        assert!(decompress_zstd(&bomb).is_err());
    }
}
