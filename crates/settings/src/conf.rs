//! Lines of redis.conf: words, quotes, comments.
//!
//! Not here: what a line means (`start`), writing lines (`rewrite`). Tests: at the foot.

/// The words of a line: separated by blanks, with `"..."` (escapes `\n \r \t \b \a \xHH \\ \"`)
/// and `'...'` (escape `\'`). `None` when a quote is not closed, or text follows its end.
pub(crate) fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim().as_bytes();
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        words.push(String::from_utf8(word).ok()?);
        let blanks = after.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if blanks == 0 && !after.is_empty() {
            return None;
        }
        rest = &after[blanks..];
    }
    Some(words)
}

fn word(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut rest = text;
    loop {
        match rest {
            [] => return Some((word, rest)),
            [blank, ..] if blank.is_ascii_whitespace() => return Some((word, rest)),
            [quote @ (b'"' | b'\''), after @ ..] => {
                let after = quoted(*quote, after, &mut word)?;
                return Some((word, after));
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// Reads up to the closing quote and returns what follows it.
fn quoted<'a>(quote: u8, text: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = text;
    loop {
        match rest {
            [] => return None,
            [end, after @ ..] if *end == quote => return Some(after),
            [b'\\', b'\'', after @ ..] if quote == b'\'' => {
                word.push(b'\'');
                rest = after;
            }
            [b'\\', b'x', high, low, after @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            [b'\\', escaped, after @ ..] if quote == b'"' => {
                word.push(unescaped(*escaped));
                rest = after;
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit.to_ascii_lowercase() - b'a') + 10,
    }
}

fn unescaped(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// One word as a line can hold it: bare where it may be, else in double quotes.
pub(crate) fn quote(word: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'#');
    if !word.is_empty() && word.bytes().all(bare) {
        return word.into();
    }
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, want: Option<&[&str]>) {
        let got = words(line);
        let got: Option<Vec<&str>> =
            got.as_ref().map(|words| words.iter().map(String::as_str).collect());
        assert_eq!(got.as_deref(), want, "{line}");
    }

    #[test]
    fn words_and_quotes() {
        check("", Some(&[]));
        check("  save  60   1 ", Some(&["save", "60", "1"]));
        check(r#"requirepass "a b\x41\n\"" "#, Some(&["requirepass", "a bA\n\""]));
        check(r"x 'it\'s \n'", Some(&["x", r"it's \n"]));
        check(r#"save """#, Some(&["save", ""]));
        check(r#"x "abc"#, None);
        check("x 'abc", None);
        check(r#"x "a"b"#, None);
        check(r#"x "\xff""#, None);
    }

    #[test]
    fn what_is_quoted_reads_back() {
        for word in ["", "plain", "two words", "q\"u'o\\te", "\n\r\t\x07", "päss", "#x", "*"] {
            assert_eq!(words(&quote(word)), Some(vec![String::from(word)]), "{word:?}");
        }
    }
}
