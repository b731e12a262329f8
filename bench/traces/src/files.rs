//! Traces from files.
//!
//! - libCacheSim's *oracleGeneral*: records of 24 bytes, little-endian: time in seconds u32, object
//!   u64, its bytes u32, position of its next use i64 (not used here). Files are often compressed
//!   with Zstandard; decompress them first.
//! - Twitter's public cluster traces (Yang, Yue, Rashmi, OSDI 2020): lines of seven comma-separated
//!   fields: time in seconds, key, key bytes, value bytes, client, operation, time to live in
//!   seconds. Operations that neither read nor write a whole value are skipped.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use pantala_load::Fault;
use pantala_load::chance::mix;

use crate::{MOST_VALUE_BYTES, Request};

const RECORD_BYTES: usize = 24;

/// Reads up to `most` requests of an oracleGeneral file.
///
/// # Errors
/// The file cannot be read, or ends within a record.
pub fn oracle_general(path: &Path, most: u64) -> Result<Vec<Request>, Fault> {
    let mut input = BufReader::new(File::open(path)?);
    let mut requests = Vec::new();
    while (requests.len() as u64) < most {
        let mut record = [0; RECORD_BYTES];
        match input.read_exact(&mut record[..1]) {
            Ok(()) => input.read_exact(&mut record[1..])?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error.into()),
        }
        let [_, _, _, _, key @ .., _, _, _, _, _, _, _, _] = record;
        let [k0, k1, k2, k3, k4, k5, k6, k7, b0, b1, b2, b3] = key;
        let key = u64::from_le_bytes([k0, k1, k2, k3, k4, k5, k6, k7]);
        let value_bytes = u32::from_le_bytes([b0, b1, b2, b3]).clamp(1, MOST_VALUE_BYTES);
        requests.push(Request { key, value_bytes, ttl_ms: 0 });
    }
    Ok(requests)
}

/// Reads up to `most` requests of a Twitter file.
///
/// # Errors
/// The file cannot be read, or a line, which is named, is invalid.
pub fn twitter(path: &Path, most: u64) -> Result<Vec<Request>, Fault> {
    let mut requests = Vec::new();
    for (at, line) in BufReader::new(File::open(path)?).lines().enumerate() {
        if requests.len() as u64 >= most {
            break;
        }
        let line = line?;
        let wrong = || Fault::Usage(format!("{}:{}: not a request", path.display(), at + 1));
        requests.extend(twitter_line(&line).ok_or_else(wrong)?);
    }
    Ok(requests)
}

/// Parses a line; outer `None`: invalid, inner: an operation that is skipped.
fn twitter_line(line: &str) -> Option<Option<Request>> {
    // A key may contain commas; the fields after it do not.
    let mut fields = line.rsplitn(6, ',');
    let ttl_s: u32 = fields.next()?.trim().parse().ok()?;
    let operation = fields.next()?;
    let _client = fields.next()?;
    let value_bytes: u32 = fields.next()?.parse().ok()?;
    let _key_bytes: u32 = fields.next()?.parse().ok()?;
    let (_time, key) = fields.next()?.split_once(',')?;
    if !matches!(operation, "get" | "gets" | "set" | "add" | "replace" | "cas") {
        return Some(None);
    }
    let key = key.bytes().fold(0, |hash: u64, byte| mix(hash ^ u64::from(byte)).wrapping_add(1));
    let value_bytes = value_bytes.clamp(1, MOST_VALUE_BYTES);
    Some(Some(Request { key, value_bytes, ttl_ms: ttl_s.saturating_mul(1_000) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("traces-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    }

    #[test]
    fn records_of_the_oracle_are_read() {
        let mut bytes = Vec::new();
        for (key, size) in [(7u64, 100u32), (9, 0), (7, u32::MAX)] {
            bytes.extend_from_slice(&1u32.to_le_bytes());
            bytes.extend_from_slice(&key.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
            bytes.extend_from_slice(&(-1i64).to_le_bytes());
        }
        let path = file("oracle", &bytes);
        let read = oracle_general(&path, 10).expect("whole records");
        let told: Vec<(u64, u32)> = read.iter().map(|r| (r.key, r.value_bytes)).collect();
        assert_eq!(told, [(7, 100), (9, 1), (7, MOST_VALUE_BYTES)]);
        assert_eq!(oracle_general(&path, 2).expect("two").len(), 2);
        std::fs::write(&path, &bytes[..30]).expect("the same file");
        assert!(oracle_general(&path, 10).is_err());
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn lines_of_twitter_are_read() {
        let text = "0,a,b,10,200,1,get,0\n1,a,b,10,200,1,delete,0\n1,c,10,5,1,set,60\n";
        let path = file("twitter", text.as_bytes());
        let read = twitter(&path, 10).expect("their lines");
        assert_eq!(read.len(), 2);
        assert_ne!(read[0].key, read[1].key);
        assert_eq!((read[1].value_bytes, read[1].ttl_ms), (5, 60_000));
        std::fs::write(&path, "0,a,10,200\n").expect("the same file");
        assert!(matches!(twitter(&path, 10), Err(Fault::Usage(text)) if text.contains(":1:")));
        std::fs::remove_file(path).expect("removed");
    }
}
