//! Glob patterns of KEYS, SCAN, PSUBSCRIBE and CONFIG GET: `*`, `?`, `[ab]`, `[a-z]`, `[^a]`, `\x`.
//!
//! 1. Work is bounded. After a mismatch only the last `*` takes one byte more, since every other
//!    element takes exactly one byte; no recursion. Failed attempts cost at most a budget of
//!    [`STEPS_PER_BYTE`] bytes of the pattern for each byte of the text, plus [`FREE_STEPS`], never
//!    above [`MOST_STEPS`]. When it is spent, a part between two stars that is plain text is
//!    searched for by the algorithm of Knuth, Morris and Pratt, and the last part is compared with
//!    the end of the text: both go over pattern and text once. Only a part with `?` or brackets
//!    that is longer than [`STEPS_PER_BYTE`] bytes and nearly matches at most places is given up as
//!    no match.
//! 2. Odd patterns mean the same as in valkey-server 9.1.2: an unclosed bracket ends with the
//!    pattern, `[]` matches nothing, `[^]` any byte, a last `\` stands for itself, reversed bounds
//!    are swapped, ranges compare bytes as signed, and a pattern of stars does not match "".
//!
//! Tests: foot of the file, and tests/glob.rs with answers read off the server.

/// Whether `text` matches `pattern` as a whole.
#[inline]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    run::<false>(pattern, text)
}

/// As [`matches()`], ignoring ASCII case.
#[inline]
pub fn matches_nocase(pattern: &[u8], text: &[u8]) -> bool {
    run::<true>(pattern, text)
}

/// The prefix of every match: the pattern up to its first special byte. A backslash is special,
/// too: the escaped byte could not be borrowed without a copy.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let len = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..len]
}

/// Whether the pattern has no special byte, so that it matches only itself.
pub fn is_literal(pattern: &[u8]) -> bool {
    literal_prefix(pattern).len() == pattern.len()
}

/// The budget of failed attempts per byte of the text (invariant 1).
const STEPS_PER_BYTE: usize = 64;
const FREE_STEPS: usize = 1 << 16;
const MOST_STEPS: usize = 1 << 24;

#[inline]
fn run<const NOCASE: bool>(pattern: &[u8], text: &[u8]) -> bool {
    Match { pattern, text, steps: 0 }.run::<NOCASE>()
}

/// One match; `steps` counts bytes of the pattern that failed attempts looked at.
struct Match<'a> {
    pattern: &'a [u8],
    text: &'a [u8],
    steps: usize,
}

impl Match<'_> {
    #[inline]
    fn run<const NOCASE: bool>(&mut self) -> bool {
        let (pattern, text) = (self.pattern, self.text);
        if text.is_empty() {
            return pattern.is_empty();
        }
        let (mut p, mut t) = (0, 0);
        // Where to continue after a mismatch: after the last star, and the text it is tried on.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            if t == text.len() {
                // If a pattern is left it needs more text; a longer star would only leave less.
                return pattern[p..].iter().all(|&byte| byte == b'*');
            }
            if pattern.get(p) == Some(&b'*') {
                p += 1;
                if p == pattern.len() {
                    return true;
                }
                retry = Some((p, t));
                continue;
            }
            let (fits, next) = element::<NOCASE>(pattern, p, text[t]);
            if fits {
                (p, t) = (next, t + 1);
                continue;
            }
            let Some((star, start)) = &mut retry else { return false };
            *start += 1;
            (p, t) = (*star, *start);
            self.steps += next - *star + 1;
            if self.steps > FREE_STEPS && self.is_spent() {
                match self.find_part::<NOCASE>(p, t) {
                    Some(found) => (p, t) = found,
                    None => return false,
                }
            }
        }
    }

    #[cold]
    fn is_spent(&self) -> bool {
        let budget = FREE_STEPS.saturating_add(self.text.len().saturating_mul(STEPS_PER_BYTE));
        self.steps > budget.min(MOST_STEPS)
    }

    /// Finds the part of the pattern that begins at `p`, after a star, in the text from `t` on, in
    /// one pass over both; returns the positions after it.
    #[cold]
    fn find_part<const NOCASE: bool>(&mut self, p: usize, t: usize) -> Option<(usize, usize)> {
        let (mut end, mut elements, mut plain) = (p, 0, Some(Vec::new()));
        while let Some(&byte) = self.pattern.get(end).filter(|byte| **byte != b'*') {
            let next = element::<NOCASE>(self.pattern, end, 0).1;
            match (byte, &mut plain) {
                (b'?' | b'[', _) => plain = None,
                (_, Some(plain)) => plain.push(self.pattern[next - 1]),
                (_, None) => {}
            }
            (end, elements) = (next, elements + 1);
        }
        self.steps += end - p;
        let rest = self.text.get(t..)?;
        if end == self.pattern.len() {
            // Each attempt there is made once: it succeeds, or nothing is left to try.
            let last = rest.len().checked_sub(elements)?;
            let mut at = p;
            for &byte in &rest[last..] {
                let (fits, next) = element::<NOCASE>(self.pattern, at, byte);
                at = fits.then_some(next)?;
            }
            return Some((end, self.text.len()));
        }
        let found = find::<NOCASE>(rest, &plain?, &mut self.steps)?;
        Some((end, t + found))
    }
}

/// The end of the first `part` in `text`: Knuth, Morris and Pratt, "Fast pattern matching in
/// strings", 1977.
fn find<const NOCASE: bool>(text: &[u8], part: &[u8], steps: &mut usize) -> Option<usize> {
    // For each prefix of the part the length of its longest border.
    let mut borders: Vec<u32> = Vec::with_capacity(part.len());
    let mut border = 0;
    for (at, &byte) in part.iter().enumerate() {
        while at > 0 && border > 0 && !equal::<NOCASE>(part[border], byte) {
            border = borders[border - 1] as usize;
            *steps += 1;
        }
        border += usize::from(at > 0 && equal::<NOCASE>(part[border], byte));
        borders.push(border as u32);
    }
    let mut fitting = 0;
    for (at, &byte) in text.iter().enumerate() {
        while fitting > 0 && !equal::<NOCASE>(part[fitting], byte) {
            fitting = borders[fitting - 1] as usize;
            *steps += 1;
        }
        fitting += usize::from(equal::<NOCASE>(part[fitting], byte));
        if fitting == part.len() {
            return Some(at + 1);
        }
    }
    None
}

/// Whether `byte` fits the element at `p`, and the position after the element.
#[inline]
fn element<const NOCASE: bool>(pattern: &[u8], p: usize, byte: u8) -> (bool, usize) {
    match pattern.get(p) {
        None => (false, p),
        Some(b'?') => (true, p + 1),
        Some(b'[') => bracket::<NOCASE>(pattern, p + 1, byte),
        Some(b'\\') if p + 1 < pattern.len() => (equal::<NOCASE>(pattern[p + 1], byte), p + 2),
        Some(literal) => (equal::<NOCASE>(*literal, byte), p + 1),
    }
}

/// Whether `byte` is in the set whose text begins at `p`, and the position after the set.
fn bracket<const NOCASE: bool>(pattern: &[u8], mut p: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[p..] {
            [] => break,
            // Case is not folded after a backslash, as in the reference.
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

    /// Matches, and checks that the work was within its bound.
    fn bounded(pattern: &[u8], text: &[u8]) -> bool {
        let mut run = Match { pattern, text, steps: 0 };
        let fits = run.run::<false>();
        let budget = (text.len() * STEPS_PER_BYTE + FREE_STEPS).min(MOST_STEPS);
        // One attempt more than the budget, and one pass over pattern and text beyond it.
        let most = budget + 2 * (pattern.len() + text.len());
        assert!(run.steps <= most, "{} steps, at most {most}", run.steps);
        fits
    }

    #[test]
    fn work_is_bounded() {
        let (part, text) = (b"a".repeat(100_000), b"a".repeat(200_000));
        let with = |head: &[u8], tail: &[u8]| [head, &part, tail].concat();
        let text_with = |tail: &[u8]| [&text, tail].concat();
        // The last part, and one between two stars.
        assert!(!bounded(&with(b"*", b"b"), &text));
        assert!(bounded(&with(b"*", b"b"), &text_with(b"b")));
        assert!(bounded(&with(b"*", b"?b"), &text_with(b"b")));
        assert!(!bounded(&with(b"*", b"b*"), &text));
        assert!(bounded(&with(b"*", b"b*"), &text_with(b"ba")));
        assert!(bounded(&with(b"*", b"\\b*c*d"), &text_with(b"bxcxd")));
        assert!(!bounded(&with(b"*", b"b*c*d"), &text_with(b"bxdxc")));
        // Many parts, each tried in vain.
        let parts = b"*aaaab".repeat(20_000);
        assert!(!bounded(&parts, &text));
        assert!(bounded(&[&parts[..], b"*"].concat(), &b"aaaaaab".repeat(20_000)));
        // A bracket is as long as its text.
        let bracket = [b"*[", &part[..], b"]"].concat();
        assert!(!bounded(&bracket, &b"b".repeat(200_000)));
        assert!(bounded(&bracket, &[&b"b".repeat(200_000)[..], b"a"].concat()));
        // A long part that is no plain text is given up ...
        assert!(!bounded(&with(b"*?", b"b*"), &text_with(b"b")));
        // ... but no shorter one.
        let short = [b"*?", &b"a".repeat(60)[..], b"b*"].concat();
        assert!(bounded(&short, &text_with(b"b")));
    }

    #[test]
    fn beyond_the_budget_the_answer_is_the_same() {
        let mut rng = crate::rng::Rng::from_seed(7);
        for _ in 0..20_000 {
            let mut word = |most: u64, bytes: &[u8]| -> Vec<u8> {
                let len = rng.below(most);
                (0..len).map(|_| bytes[rng.below(bytes.len() as u64) as usize]).collect()
            };
            let (pattern, text) = (word(10, b"ab*b\\"), word(20, b"abab*"));
            let mut spent = Match { pattern: &pattern, text: &text, steps: MOST_STEPS };
            assert_eq!(spent.run::<false>(), matches(&pattern, &text), "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn prefixes() {
        assert_eq!(literal_prefix(b"user:*"), b"user:");
        assert_eq!(literal_prefix(b"a\\*"), b"a");
        assert!(is_literal(b"abc]") && !is_literal(b"ab?"));
    }
}
