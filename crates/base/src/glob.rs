//! Glob patterns as KEYS, SCAN, PSUBSCRIBE and CONFIG GET know them: `*`, `?`, `[ab]`, `[a-z]`,
//! `[^a]`, `\x`.
//!
//! 1. Time is at most pattern length x text length: after a mismatch only the last `*` takes one
//!    byte more, since every other element takes exactly one byte. No recursion.
//! 2. Odd patterns mean what valkey-server 9.1.2 makes of them: an unclosed bracket ends with the
//!    pattern, `[]` matches nothing, `[^]` any byte, a last `\` stands for itself, bounds the wrong
//!    way round are swapped, ranges compare bytes as signed, and a pattern of stars does not match
//!    "".
//!
//! Tests: foot of the file, and tests/glob.rs with answers read off the server.

/// Whether `text` matches `pattern` as a whole.
#[inline]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    run::<false>(pattern, text)
}

/// The same without regard to ASCII case.
#[inline]
pub fn matches_nocase(pattern: &[u8], text: &[u8]) -> bool {
    run::<true>(pattern, text)
}

/// The bytes that every match begins with: the pattern up to its first special byte. A backslash is
/// one too: what it escapes could not be lent without a copy.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let len = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..len]
}

/// Whether the pattern has no special byte, so that it matches only itself.
pub fn is_literal(pattern: &[u8]) -> bool {
    literal_prefix(pattern).len() == pattern.len()
}

fn run<const NOCASE: bool>(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Where to go on after a mismatch: behind the last star, and the text it is tried on.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if t == text.len() {
            if pattern[p..].iter().all(|&byte| byte == b'*') {
                return true;
            }
            // What is left wants more text; a longer star only leaves less.
            return false;
        }
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            retry = Some((p, t));
            continue;
        }
        match element::<NOCASE>(pattern, p, text[t]) {
            Some(next) => {
                p = next;
                t += 1;
            }
            None => match &mut retry {
                None => return false,
                Some((star, start)) => {
                    *start += 1;
                    p = *star;
                    t = *start;
                }
            },
        }
    }
}

/// Matches `byte` against the element at `p`; the position behind the element if it fits.
#[inline]
fn element<const NOCASE: bool>(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    let (fits, next) = match *pattern.get(p)? {
        b'?' => (true, p + 1),
        b'[' => bracket::<NOCASE>(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (equal::<NOCASE>(pattern[p + 1], byte), p + 2),
        literal => (equal::<NOCASE>(literal, byte), p + 1),
    };
    fits.then_some(next)
}

/// Whether `byte` is in the set whose text begins at `p`, and the position behind the set.
fn bracket<const NOCASE: bool>(pattern: &[u8], mut p: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[p..] {
            [] => break,
            // Case is not folded behind a backslash: so the servers have it.
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [low, b'-', high, ..] => {
                found |= in_range::<NOCASE>(*low, *high, byte);
                p += 3;
            }
            [literal, ..] => {
                found |= equal::<NOCASE>(*literal, byte);
                p += 1;
            }
        }
    }
    (found != negated, p)
}

#[inline]
fn in_range<const NOCASE: bool>(low: u8, high: u8, byte: u8) -> bool {
    let (mut low, mut high, mut byte) = (low as i8, high as i8, byte as i8);
    if low > high {
        (low, high) = (high, low);
    }
    if NOCASE {
        let fold = |c: i8| (c as u8).to_ascii_lowercase() as i8;
        (low, high, byte) = (fold(low), fold(high), fold(byte));
    }
    low <= byte && byte <= high
}

#[inline]
fn equal<const NOCASE: bool>(a: u8, b: u8) -> bool {
    if NOCASE { a.eq_ignore_ascii_case(&b) } else { a == b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for text in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn plain_cases() {
        check("", &[""], &["a"]);
        check("h?llo", &["hello", "hallo"], &["hllo", "heello"]);
        check("h*llo", &["hllo", "heeeello"], &["hllox", "xhllo"]);
        check("h[ae]llo", &["hello", "hallo"], &["hillo"]);
        check("h[^e]llo", &["hallo"], &["hello"]);
        check("h[a-b]llo", &["hallo", "hbllo"], &["hcllo"]);
        check("\\*a", &["*a"], &["aa"]);
        check("a*b*c", &["abc", "aXbYc", "abbcc"], &["acb", "ab"]);
        check("a*", &["a", "ab"], &["b"]);
        check("*", &["a"], &[""]);
    }

    #[test]
    fn case_folding() {
        assert!(matches_nocase(b"APPEND*", b"appendonly"));
        assert!(matches_nocase(b"[A-B]ppendonly", b"appendonly"));
        assert!(matches_nocase(b"\\Appendonly", b"appendonly"));
        // Read off CONFIG GET.
        assert!(!matches_nocase(b"[\\A]ppendonly", b"appendonly"));
        assert!(!matches_nocase(b"[Z-a]ppendonly", b"appendonly"));
    }

    #[test]
    fn nested_stars_do_not_explode() {
        let pattern = b"*a".repeat(2_000);
        let text = b"a".repeat(1_999);
        assert!(!matches(&pattern, &text));
        assert!(matches(&pattern[2..], &text));
    }

    #[test]
    fn prefixes() {
        assert_eq!(literal_prefix(b"user:*"), b"user:");
        assert_eq!(literal_prefix(b"a\\*"), b"a");
        assert!(is_literal(b"abc]") && !is_literal(b"ab?"));
    }
}
