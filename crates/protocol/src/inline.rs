//! Inline commands: a line of words as typed by a person, with quotes.
//!
//! Words are separated by spaces, tabs and CR; VT and FF count as space only before a word. In
//! double quotes `\n \r \t \b \a \xHH` stand for bytes and `\` before anything else for that byte;
//! in single quotes only `\'` is special. A backslash before the last byte of the line stands for
//! itself, so `"a\"` is complete at the end of a line. A quote may begin and end inside a word:
//! `a"b c"d` is one argument. A NUL byte is a byte like any other (Valkey never finds the end of
//! such a line).

use crate::arena::Arena;
use crate::error::ProtocolError;

/// Splits `line` and appends its words. Unquoted words are slices of the line.
pub fn split<'a>(
    line: &'a [u8],
    arena: &'a Arena,
    args: &mut Vec<&'a [u8]>,
) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        rest = skip_spaces(rest);
        if rest.is_empty() {
            return Ok(());
        }
        let plain = rest.iter().position(|&byte| ends_plain(byte)).unwrap_or(rest.len());
        if rest.get(plain).is_none_or(|&byte| ends_word(byte)) {
            args.push(&rest[..plain]);
            rest = &rest[plain..];
        } else {
            let mut word = rest[..plain].to_vec();
            rest = quoted_word(&rest[plain..], &mut word)?;
            args.push(arena.keep(word));
        }
    }
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let count = text.iter().take_while(|byte| is_space(byte)).count();
    &text[count..]
}

fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn ends_plain(byte: u8) -> bool {
    ends_word(byte) || matches!(byte, b'"' | b'\'')
}

/// Unquotes a word and appends it to `word`. Returns the rest of the line.
fn quoted_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Ok(rest),
            [byte, ..] if ends_word(*byte) => return Ok(rest),
            [b'"', tail @ ..] => double_quoted(tail, word)?,
            [b'\'', tail @ ..] => single_quoted(tail, word)?,
            [byte, tail @ ..] => {
                word.push(*byte);
                tail
            }
        };
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex_digit(*high) << 4 | hex_digit(*low), tail)
            }
            [b'\\', escaped, tail @ ..] if !tail.is_empty() => (unescape(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        word.push(byte);
        rest = tail;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] if !tail.is_empty() => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        word.push(byte);
        rest = tail;
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// The value of a byte that is a hexadecimal digit.
fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => (byte | 0x20).wrapping_sub(b'a').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&[u8]]) {
        let arena = Arena::new();
        let mut args = Vec::new();
        assert_eq!(split(line.as_bytes(), &arena, &mut args), Ok(()), "{line:?}");
        assert_eq!(args, expected, "{line:?}");
    }

    #[test]
    fn words() {
        check("", &[]);
        check(" \t\x0b\x0c ", &[]);
        check("PING", &[b"PING"]);
        check("  a\tb \x0bc\x0c\rd ", &[b"a", b"b", b"c\x0c", b"d"]);
        check("a\0b", &[b"a\0b"]);
    }

    // Each result was read off valkey-server 9.1.2.
    #[test]
    fn quotes() {
        check(r#"ECHO "a b""#, &[b"ECHO", b"a b"]);
        check(r#"a"b"c"#, &[b"abc"]);
        check(r#""a"b"#, &[b"ab"]);
        check("'a'b", &[b"ab"]);
        check("a'b c'd", &[b"ab cd"]);
        check(r#""\x41\n\r\t\b\a\q\\\"""#, &[b"A\n\r\t\x08\x07q\\\""]);
        check(r"'a\'b\n'", &[b"a'b\\n"]);
        check(r#""\xZZ""#, &[b"xZZ"]);
        check(r#""\x4""#, &[b"x4"]);
        check(r#""a\""#, &[b"a\\"]);
        check(r#""a\\""#, &[b"a\\"]);
        check(r"'\'", &[b"\\"]);
        check(r"'\''", &[b"'"]);
        check(r#""\xfF""#, &[b"\xff"]);
        check(r#""" ''"#, &[b"", b""]);
        check("\"a\rb\"", &[b"a\rb"]);
        check("\"a\"\x0c\"b\"", &[b"a\x0cb"]);
    }

    #[test]
    fn quotes_without_end() {
        for line in
            [r#""a"#, "'a", r#"a "b"#, r#""a\" "#, r#""a\"b"#, r"'b\' ", r#""a\"#, "a'", r#""\x4"#]
        {
            let arena = Arena::new();
            let result = split(line.as_bytes(), &arena, &mut Vec::new());
            assert_eq!(result, Err(ProtocolError::UnbalancedQuotes), "{line:?}");
        }
    }
}
