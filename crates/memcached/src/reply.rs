//! Replies of the text protocol.

use std::io::Write;

use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_u64};

/// `set` and its kin succeeded.
pub const STORED: &[u8] = b"STORED\r\n";
/// The key exists (`add`), or does not (`replace`, `append`, `prepend`).
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// `cas`: the item has another cas.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// There is no such key.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// `delete` succeeded.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// `touch` succeeded.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// Success.
pub const OK: &[u8] = b"OK\r\n";
/// The end of values or statistics.
pub const END: &[u8] = b"END\r\n";
/// The answer to the meta command `mn`, which does nothing.
pub const META_NOTHING: &[u8] = b"MN\r\n";
/// `incr` or `decr` of a value that is not a number.
pub const NOT_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// There is no memory left.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// The value is larger than the limit.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// One value of `get`; for `gets` with its cas.
#[inline]
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, data: &[u8], cas: Option<u64>) {
    // Room for the numbers and separators.
    const MOST_BYTES_BESIDE: usize = 64 + END.len();
    out.reserve(key.len() + data.len() + MOST_BYTES_BESIDE);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    match flags {
        0 => out.extend_from_slice(b" 0"),
        flags => push_after_blank(out, u64::from(flags)),
    }
    push_after_blank(out, data.len() as u64);
    if let Some(cas) = cas {
        push_after_blank(out, cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn push_after_blank(out: &mut Vec<u8>, number: u64) {
    out.push(b' ');
    out.extend_from_slice(fmt_u64(number, &mut [0; I64_TEXT_MAX_BYTES]));
}

/// The result of `incr` or `decr`.
pub fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(fmt_u64(number, &mut [0; I64_TEXT_MAX_BYTES]));
    out.extend_from_slice(b"\r\n");
}

/// The answer to `version`.
pub fn version(out: &mut Vec<u8>, version: &str) {
    let _in_memory = write!(out, "VERSION {version}\r\n");
}

/// One statistic of `stats`.
pub fn figure(out: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    let _in_memory = write!(out, "STAT {name} {value}\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_figures() {
        let mut out = Vec::new();
        value(&mut out, b"a", 5, b"abc", None);
        value(&mut out, b"b", u32::MAX, b"", Some(7));
        number(&mut out, 10);
        version(&mut out, "1.6.18");
        figure(&mut out, "pid", 3);
        let expected = "VALUE a 5 3\r\nabc\r\nVALUE b 4294967295 0 7\r\n\r\n10\r\n\
            VERSION 1.6.18\r\nSTAT pid 3\r\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
