//! As much of the crate crc-fast as `object_store` calls: CRC-64/NVME, for checksums of uploads to
//! S3 where they are asked for.
//!
//! The crate itself keeps tables for a hundred other checksums, which no linker can leave out: one
//! is chosen while it runs. They were 900 KB of a binary that is to be small. Here is one
//! table, of 2 KB, and a byte at a time: a checksum still takes less time than the upload.
//!
//! Only what is used is here. Should `object_store` call more, the build says so.

#![forbid(unsafe_code)]

/// The polynomial of CRC-64/NVME, reflected.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut rest, mut bit) = (byte as u64, 0);
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

/// Which checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrcAlgorithm {
    /// That of NVM Express.
    Crc64Nvme,
}

/// A checksum of what has come so far.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    rest: u64,
}

impl Digest {
    /// Of nothing.
    pub fn new(algorithm: CrcAlgorithm) -> Self {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Digest { rest: u64::MAX },
        }
    }

    /// More comes.
    pub fn update(&mut self, data: &[u8]) {
        for byte in data {
            self.rest = TABLE[usize::from(self.rest as u8 ^ byte)] ^ self.rest >> 8;
        }
    }

    /// Of all of it.
    pub fn finalize(&self) -> u64 {
        !self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_that_the_catalogue_of_crcs_tells() {
        for (data, expected) in [(&b""[..], 0), (b"123456789", 0xae8b_1486_0a79_9888)] {
            let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
            let (first, second) = data.split_at(data.len() / 2);
            digest.update(first);
            digest.update(second);
            assert_eq!(digest.finalize(), expected);
        }
    }
}
