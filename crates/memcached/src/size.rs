//! The size of an item as memcached computes it, for its limit.

/// A header, a cas number, the end of the key, and the line end.
const HEADER_BYTES: usize = 48 + 8 + 1 + 2;
/// Flags other than 0.
const FLAGS_BYTES: usize = 4;

/// The size of an item in bytes.
pub fn item_bytes(key_bytes: usize, value_bytes: usize, flags: u32) -> usize {
    HEADER_BYTES + key_bytes + value_bytes + if flags == 0 { 0 } else { FLAGS_BYTES }
}
