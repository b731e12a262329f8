//! The quoting of transcripts, as in redis-cli: words are separated by blanks; `"..."` has escapes,
//! `'...'` has none. One addition: `"ab"{500}` is the text repeated 500 times.

/// A text of more than this many bytes that repeats one byte is written in the `{n}` form.
const SPELLED_OUT_LIMIT: usize = 120;
/// The largest size of a text with `{n}`.
const REPEATED_LIMIT: usize = 1 << 30;

/// Splits a command line into its arguments.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut rest = line.as_bytes();
    let mut args = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        match rest.first() {
            None => return Ok(args),
            Some(b'"' | b'\'') => {
                let (text, used) = quoted(rest)?;
                rest = &rest[used..];
                if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                    return Err("a closing quote must be followed by a blank".into());
                }
                args.push(text);
            }
            Some(_) => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                args.push(rest[..end].to_vec());
                rest = &rest[end..];
            }
        }
    }
}

/// Reads the quoted text at the start of `bytes`. Returns the text and the number of bytes read.
pub fn quoted(bytes: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let quote = bytes[0];
    let mut text = Vec::new();
    let mut at = 1;
    loop {
        let Some(&byte) = bytes.get(at) else { return Err("unbalanced quotes".into()) };
        if byte == quote {
            break;
        }
        if byte == b'\\' {
            let (escaped, used) = escape(&bytes[at..], quote)?;
            text.extend(escaped);
            at += used;
        } else {
            text.push(byte);
            at += 1;
        }
    }
    repeated(text, bytes, at + 1)
}

/// Reads one escape sequence; inside single quotes only `\'` is one.
fn escape(bytes: &[u8], quote: u8) -> Result<(Vec<u8>, usize), String> {
    let Some(&letter) = bytes.get(1) else { return Err("unbalanced quotes".into()) };
    if quote == b'\'' {
        return Ok(if letter == b'\'' { (vec![b'\''], 2) } else { (vec![b'\\'], 1) });
    }
    let byte = match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        b'x' => {
            let digits = bytes.get(2..4).and_then(|two| std::str::from_utf8(two).ok());
            let value = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
            return Ok((vec![value.ok_or("\\x needs two digits")?], 4));
        }
        other => other,
    };
    Ok((vec![byte], 2))
}

fn repeated(text: Vec<u8>, bytes: &[u8], at: usize) -> Result<(Vec<u8>, usize), String> {
    if bytes.get(at) != Some(&b'{') {
        return Ok((text, at));
    }
    let end = bytes[at..].iter().position(|&byte| byte == b'}').ok_or("{ without }")? + at;
    let count = std::str::from_utf8(&bytes[at + 1..end]).ok().and_then(|n| n.parse().ok());
    let count: usize = count.ok_or("{} needs a number")?;
    if text.len().saturating_mul(count) > REPEATED_LIMIT {
        return Err("repeated too often".into());
    }
    Ok((text.repeat(count), end + 1))
}

/// Writes a text in double quotes, so that `quoted` gives it back.
pub fn quote(text: &[u8]) -> String {
    if let Some(&first) = text.first()
        && text.len() > SPELLED_OUT_LIMIT
        && text.iter().all(|&byte| byte == first)
    {
        return format!("{}{{{}}}", quote(&[first]), text.len());
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

/// Writes an argument of a command line: bare where that is unambiguous.
pub fn argument(text: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    if !text.is_empty() && text.len() <= SPELLED_OUT_LIMIT && text.iter().all(plain) {
        String::from_utf8_lossy(text).into_owned()
    } else {
        quote(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&[u8]]) {
        let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.to_vec()).collect();
        assert_eq!(split(line), Ok(expected), "{line}");
    }

    #[test]
    fn words_and_quotes() {
        check("SET k v", &[b"SET", b"k", b"v"]);
        check("  SET  k ", &[b"SET", b"k"]);
        check(r#"SET "a b" 'c\'d' "\x00\n\"""#, &[b"SET", b"a b", b"c'd", b"\0\n\""]);
        check(r#""" "ab"{3}"#, &[b"", b"ababab"]);
        for broken in [r#""a"#, r#""a"b"#, r#""\x1""#, r#""a"{"#, r#""a"{x}"#] {
            assert!(split(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_is_quoted_comes_back() {
        let every: Vec<u8> = (0..=255).collect();
        for text in [&every[..], b"", &[b'x'; 500], b"plain", b"a\"b\\'"] {
            assert_eq!(split(&quote(text)), Ok(vec![text.to_vec()]));
            assert_eq!(split(&argument(text)), Ok(vec![text.to_vec()]));
        }
    }
}
