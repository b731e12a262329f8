//! Text in words, with quotes: lines of redis.conf, selectors of ACL rules.
//!
//! Not here: what the words mean, writing them. Tests: at the foot.

/// The words of a text: separated by blanks, with `"..."` (escapes `\n \r \t \b \a \xHH \\ \"`)
/// and `'...'` (escape `\'`). `None` when a quote is not closed, or text follows its end.
pub fn split(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        words.push(word);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_any_bytes() {
        let check = |text: &str, want: &[&[u8]]| {
            let want: Vec<Vec<u8>> = want.iter().map(|word| word.to_vec()).collect();
            assert_eq!(split(text.as_bytes()), Some(want), "{text}");
        };
        check("", &[]);
        check("  a\t b ", &[b"a", b"b"]);
        check(r#""a b" 'c\'d' "\xff\n" """#, &[b"a b", b"c'd", b"\xff\n", b""]);
        for wrong in ["\"a", "'a", "\"a\"b", "a \"b"] {
            assert_eq!(split(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
