//! How large Memcached takes an item to be: what its limit is about.

/// A header, a cas number, the end of the key, and the end of the line.
const HEADER_BYTES: usize = 48 + 8 + 1 + 2;
/// Flags other than 0.
const FLAGS_BYTES: usize = 4;

/// The bytes of an item.
pub fn item_bytes(key_bytes: usize, value_bytes: usize, flags: u32) -> usize {
    HEADER_BYTES + key_bytes + value_bytes + if flags == 0 { 0 } else { FLAGS_BYTES }
}
