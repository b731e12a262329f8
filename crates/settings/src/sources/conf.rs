//! Parses lines of redis.conf: words, quotes, comments.
//!
//! Not here: what a line means (`start`), writing lines (`rewrite`). Tests: at the foot.

/// The words of a line: separated by blanks, with `"..."` (escapes `\n \r \t \b \a \xHH \\ \"`)
/// and `'...'` (escape `\'`). `None` when a quote is not closed, or text follows its end.
pub(crate) fn words(line: &str) -> Option<Vec<String>> {
    byte_words(line)?.into_iter().map(|word| String::from_utf8(word).ok()).collect()
}

/// The words of a line that may hold any bytes.
pub(crate) fn byte_words(line: &str) -> Option<Vec<Vec<u8>>> {
    pantala_base::words::split(line.as_bytes())
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

/// One word of any bytes, as a line can hold it.
pub(crate) fn quote_bytes(word: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(word) else {
        let escaped = word.iter().map(|byte| format!("\\x{byte:02x}"));
        return format!("\"{}\"", escaped.collect::<String>());
    };
    quote(text)
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
        let bytes = b"a\xff \x00\"".to_vec();
        assert_eq!(byte_words(&quote_bytes(&bytes)), Some(vec![bytes]));
    }
}
