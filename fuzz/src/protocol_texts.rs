//! Small texts from clients: numbers, patterns, sizes. Each parser is compared with a slow, plain
//! twin, or with its own printer.

use pantala_base::number::{LongDouble, parse_f64, parse_i64, parse_u64, push_f64};
use pantala_base::{Rng, crc, glob, simd, size};

/// Runs one round of all checks.
pub fn case(rng: &mut Rng) {
    let number = text(rng, b"0123456789-+.eExXpPinfa ");
    integers(&number);
    floats(&number);
    let _ = size::parse_bytes(&text(rng, b"0123456789kmgb"));
    let (pattern, subject) = (text(rng, b"ab-[]^\\*?*"), text(rng, b"ab-]\\"));
    assert_eq!(
        glob::matches(&pattern, &subject),
        slow_match(&pattern, &subject),
        "{} {}",
        pattern.escape_ascii(),
        subject.escape_ascii()
    );
    let mut hay = vec![0; rng.below(100) as usize];
    rng.bytes(&mut hay);
    let needle = rng.next_u64() as u8;
    assert_eq!(simd::find_byte(&hay, needle), simd::plain::find_byte(&hay, needle));
    assert!(crc::slot_of(&hay) < crc::SLOT_COUNT);
}

fn text(rng: &mut Rng, alphabet: &[u8]) -> Vec<u8> {
    let len = rng.below(24);
    (0..len).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect()
}

/// A text is an integer exactly when formatting the integer gives the same text.
fn integers(text: &[u8]) {
    let shown = std::str::from_utf8(text).unwrap_or("");
    let signed = shown.parse::<i64>().ok().filter(|n| n.to_string() == shown);
    let unsigned = shown.parse::<u64>().ok().filter(|n| n.to_string() == shown);
    assert_eq!(parse_i64(text), signed, "{shown}");
    assert_eq!(parse_u64(text), unsigned, "{shown}");
}

fn floats(text: &[u8]) {
    let mut out = Vec::new();
    if let Some(value) = parse_f64(text) {
        push_f64(&mut out, value);
        assert_eq!(parse_f64(&out), Some(value));
        assert!(LongDouble::parse(text).is_some(), "{}", text.escape_ascii());
    }
    if let Some(value) = LongDouble::parse(text) {
        out.clear();
        value.push_human(&mut out);
        assert!(LongDouble::parse(&out).is_some(), "{}", out.escape_ascii());
    }
}

/// The meaning of a pattern by recursion, exponential and short.
fn slow_match(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    nested(pattern, text)
}

fn nested(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| nested(rest, &text[skip..])),
        (_, []) => false,
        ([b'?', rest @ ..], [_, text @ ..]) => nested(rest, text),
        ([b'[', rest @ ..], [byte, text @ ..]) => {
            let (fits, rest) = set(rest, *byte);
            fits && nested(rest, text)
        }
        ([b'\\', literal, rest @ ..] | [literal, rest @ ..], [byte, text @ ..]) => {
            literal == byte && nested(rest, text)
        }
    }
}

fn set(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => return (found != negated, rest),
            [b'\\', literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
            [b']', rest @ ..] => return (found != negated, rest),
            [low, b'-', high, rest @ ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
        };
    }
}
