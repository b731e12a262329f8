//! Encodes commands as RESP arrays of bulk strings.

use pantala_base::number::{parse_u64, push_u64};

/// The longest header of an array or a string: a sign, twenty digits, the end of the line.
const HEADER_MAX_BYTES: usize = 23;
const _: () = assert!(header_bytes(usize::MAX) <= HEADER_MAX_BYTES, "every length fits");

/// MULTI.
pub const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// EXEC.
pub const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Appends a command.
#[inline]
pub fn push_command(out: &mut Vec<u8>, args: &[&[u8]]) {
    let bytes = args.iter().map(|arg| arg.len() + HEADER_MAX_BYTES + 2).sum::<usize>();
    out.reserve(bytes + HEADER_MAX_BYTES);
    let begin = out.len();
    push_header(out, b'*', args.len());
    for arg in args {
        push_header(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    debug_assert!(is_canonical(&out[begin..], args), "the length is that of these arguments");
}

/// Whether these bytes are what [`push_command`] appends for a command with these arguments, which
/// were parsed from them: other ways to write the same lengths are longer.
#[inline]
pub fn is_canonical(bytes: &[u8], args: &[&[u8]]) -> bool {
    let all = args.iter().map(|arg| header_bytes(arg.len()) + arg.len() + 2);
    bytes.first() == Some(&b'*') && bytes.len() == header_bytes(args.len()) + all.sum::<usize>()
}

/// The length of the header of an array or a string.
#[inline]
const fn header_bytes(length: usize) -> usize {
    let digits = match length {
        0..10 => 1,
        10..100 => 2,
        100..1000 => 3,
        more => more.ilog10() as usize + 1,
    };
    digits + 3
}

/// Appends the header of a command with `args` arguments, which [`push_bulk`] then appends.
pub fn push_array(out: &mut Vec<u8>, args: usize) {
    push_header(out, b'*', args);
}

/// Appends an argument.
pub fn push_bulk(out: &mut Vec<u8>, arg: &[u8]) {
    push_bulk_header(out, arg.len());
    out.extend_from_slice(arg);
    out.extend_from_slice(b"\r\n");
}

/// Appends the header of an argument of this many bytes; the caller appends these and CR LF.
pub fn push_bulk_header(out: &mut Vec<u8>, bytes: usize) {
    push_header(out, b'$', bytes);
}

/// Appends SELECT.
pub fn push_select(out: &mut Vec<u8>, db: u32) {
    let mut number = Vec::with_capacity(HEADER_MAX_BYTES);
    push_u64(&mut number, u64::from(db));
    push_command(out, &[b"SELECT", &number]);
}

/// The length of the first command in these bytes; `None` if it is incomplete, or not in this form.
pub fn command_bytes(bytes: &[u8]) -> Option<usize> {
    let (count, mut at) = read_header(bytes, 0, b'*')?;
    for _ in 0..count {
        let (length, from) = read_header(bytes, at, b'$')?;
        at = from.checked_add(length)?.checked_add(2)?;
    }
    (at <= bytes.len()).then_some(at)
}

/// The number in a header, and the offset of its end.
fn read_header(bytes: &[u8], at: usize, sign: u8) -> Option<(usize, usize)> {
    debug_assert!(at > 0 || sign == b'*', "a command begins with an array");
    let line = bytes.get(at..)?.strip_prefix(&[sign])?;
    let digits = line.iter().position(|&byte| byte == b'\r')?;
    let number = parse_u64(&line[..digits])?;
    Some((usize::try_from(number).ok()?, at + digits + 3))
}

#[inline]
fn push_header(out: &mut Vec<u8>, sign: u8, length: usize) {
    // Most arguments are short.
    if length < 10 {
        return out.extend_from_slice(&[sign, b'0' + length as u8, b'\r', b'\n']);
    }
    if length < 100 {
        let (tens, ones) = ((length / 10) as u8, (length % 10) as u8);
        return out.extend_from_slice(&[sign, b'0' + tens, b'0' + ones, b'\r', b'\n']);
    }
    if length < 1000 {
        let (hundreds, rest) = ((length / 100) as u8, (length % 100) as u8);
        let (tens, ones) = (b'0' + rest / 10, b'0' + rest % 10);
        return out.extend_from_slice(&[sign, b'0' + hundreds, tens, ones, b'\r', b'\n']);
    }
    out.push(sign);
    push_u64(out, length as u64);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_ways_to_write_a_command_are_not_canonical() {
        assert!(is_canonical(b"*1\r\n$3\r\nget\r\n", &[b"get"]));
        for other in
            ["*01\r\n$3\r\nget\r\n", "*1\r\n$03\r\nget\r\n", "get\r\n", "1234567890123", ""]
        {
            assert!(!is_canonical(other.as_bytes(), &[b"get"]), "{other:?}");
        }
    }

    #[test]
    fn lengths_of_all_sizes() {
        for length in [0, 1, 9, 10, 99, 100, 12345] {
            let (arg, mut out) = (vec![b'x'; length], Vec::new());
            push_command(&mut out, &[b"SET", &arg]);
            assert!(is_canonical(&out, &[b"SET", &arg]));
            let text = String::from_utf8(arg).expect("text");
            let expected = format!("*2\r\n$3\r\nSET\r\n${length}\r\n{text}\r\n");
            assert_eq!(command_bytes(&out), Some(out.len()));
            assert_eq!(command_bytes(&out[..out.len() - 1]), None);
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
        let mut out = Vec::new();
        push_select(&mut out, 15);
        assert_eq!(out, b"*2\r\n$6\r\nSELECT\r\n$2\r\n15\r\n");
    }
}
